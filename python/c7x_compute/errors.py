# SPDX-License-Identifier: Apache-2.0
"""What the library and the device report."""

from __future__ import annotations


class C7xError(RuntimeError):
    """A call failed.

    text: what was wrong, as the station that found it says. code: the negative status. name: its name, such as
    "TENSOR". station: where it arose ("client", "loader", "tvm" ...), or "". next_step: what to do about it.
    """

    def __init__(self, text: str, code: int, name: str, station: str = "", next_step: str = "") -> None:
        super().__init__(f"{station}: {text} ({name} {code})" if station else f"{text} ({name} {code})")
        self.text = text
        self.code = code
        self.name = name
        self.station = station
        self.next_step = next_step

    def __reduce__(self):
        return type(self), (self.text, self.code, self.name, self.station, self.next_step)

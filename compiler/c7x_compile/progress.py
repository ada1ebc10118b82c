# SPDX-License-Identifier: Apache-2.0
"""Stage names with elapsed seconds on stderr."""

import contextlib
import sys
import time


class Progress:
    """Prints one line per stage, completed when the stage ends, and its notes below; silent when
    quiet."""

    def __init__(self, quiet=False):
        self._quiet = quiet
        self._notes = []
        self._start = time.monotonic()

    @contextlib.contextmanager
    def stage(self, name):
        begin = time.monotonic()
        self._write(f"[{begin - self._start:6.1f} s] {name} ...")
        try:
            yield
        except BaseException:
            self._write(" failed\n")
            raise
        self._write(f" {time.monotonic() - begin:.1f} s\n")
        for text in self._notes:
            self._write(f"           {text}\n")
        self._notes.clear()

    def note(self, text):
        """Shows a line when the current stage ends."""
        self._notes.append(text)

    def _write(self, text):
        if not self._quiet:
            sys.stderr.write(text)
            sys.stderr.flush()

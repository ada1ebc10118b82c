# SPDX-License-Identifier: Apache-2.0
"""What a request costs before any model computes, and a load of 47 MB: bench/link.c."""

import struct
import tempfile
from pathlib import Path

import programs
from results import compare

ROUNDS = 8
MODULE_BYTES = 47_000_000
IN_PLACE = 0x00100000  # p_flags of the segment with the weights, which are used where they are staged
AGAINST = {
    "ping-busy": ("a word in a cache line, there and back", 4.0),
    "ping-asleep": ("a futex, there and back", 1.5),
    "ping-together": ("a futex, there and back, on one processor", 1.5),
    "infer-empty": ("PING and 2 us", 1.0),
    "load-47mb": ("read() into fresh shared memory", 1.3),
    "load-47mb-again": ("read() into fresh shared memory", None),
    "load-47mb-device": ("2 ms", 1.0),
}


def measure(options):
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.out"
        large.write_bytes(grow((programs.MODULES / "add_one.out").read_bytes(), MODULE_BYTES))
        rows = programs.samples("link", programs.MODULES / "copies.out", large, options.rounds or ROUNDS)
    for name, sides in rows.items():
        against, goal = AGAINST[name]
        yield compare("link", name, "us", sides["ours"], sides["limit"], against, goal=goal)


def grow(module, size):
    """The module with so many bytes, where the new ones are weights."""
    data = bytearray(module.ljust(size, b"\x5a"))
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(start, start + 56 * count, 56):
        kind, flags, offset = struct.unpack_from("<IIQ", data, at)
        if kind == 1 and flags & IN_PLACE:
            struct.pack_into("<QQ", data, at + 32, size - offset, size - offset)
            return bytes(data)
    raise ValueError("the module has no weights")

# SPDX-License-Identifier: Apache-2.0
"""The loader on modules of growing size: whether its time is linear in their symbols and relocations."""

import programs
from results import compare

ROUNDS = 5
GOAL = 2.0  # linear, but for the caches that larger tables leave


def measure(options):
    """load-KIND-Nx: milliseconds of a load, over N times those of load-KIND-1x."""
    rows = programs.samples("loading", options.rounds or ROUNDS)
    for name, sides in rows.items():
        _, kind, size = name.split("-")
        factor = int(size.removesuffix("x"))
        smallest = rows[f"load-{kind}-1x"]["load"]
        limit = [[factor * sample for sample in samples] for samples in smallest]
        copy = min(sample for samples in sides["copy"] for sample in samples)
        yield compare("loading", name, "ms", sides["load"], limit, f"{factor} times load-{kind}-1x", goal=GOAL,
                      note=f"a copy of the file takes {copy:.1f} ms")

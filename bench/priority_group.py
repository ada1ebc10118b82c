# SPDX-License-Identifier: Apache-2.0
"""Pre-emption, critical sections and priorities; bench/priority.c says what each row is."""

import programs
from results import MEDIAN, TAIL, compare, percentile

ROUNDS = 5
CRITICAL_SECTION_US = 0.020
REST_US = 50  # for saving, restoring and the machine
LOAD_STEP_US = 1000  # so long may a step of a load take


def measure(options):
    rows = programs.samples("priority", programs.MODULES, options.rounds or ROUNDS)

    def row(name, limit, against, goal=None, figure=MEDIAN):
        return compare("priority", name, "us", rows[name]["ours"], limit, against, goal=goal, figure=figure)

    for name, goal in (("preempt-section", 2.0), ("preempt-anywhere", None)):
        yield row(name, rows[name]["limit"], "a signal to a thread and back", goal)
    yield row("critical-section", CRITICAL_SECTION_US, "20 ns", 1.0)
    sides = rows["priority-p99"]
    limit = [[percentile(alone, 99) + section + REST_US] for alone, (section,) in zip(sides["alone"], sides["section"])]
    yield row("priority-p99", limit, "p99 alone, the longest section and 50 us", 1.0, TAIL)
    limit = [[percentile(alone, 99) + LOAD_STEP_US] for alone in rows["priority-load"]["alone"]]
    yield row("priority-load", limit, "p99 alone and 1 ms", 1.0, TAIL)
    yield row("priority-mixed", rows["priority-mixed"]["limit"], "all at one priority")

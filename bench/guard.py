# SPDX-License-Identifier: Apache-2.0
"""Compares the ratios of the bench with those in bench/stored.json, and names what got worse by more than the spread.

Times are never compared: each ratio is to a limit or peer of the same run. A ratio is worse when it is above the stored one
by more than the larger of both spreads, and by more than 2 %. Exits 0 whatever it finds, and 2 when it could not measure.
"""

import argparse
import json
import re
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import bench
import results

STORED = Path(__file__).with_name("stored.json")
ROUNDS = 3  # quick: a minute for everything
RUNS_TO_STORE = 3
LEAST = 0.02  # a difference that is worth a word


@dataclass(frozen=True)
class Stored:
    """A ratio, and how far it may lie apart, as a part of it."""

    name: str
    ratio: float
    spread: float


def main():
    args = _parse()
    if args.store:
        return measure_and_store(args.names)
    entries, failed = (results.read_json(args.results), []) if args.results else run(args.names)
    processor, rows = read()
    print("\n".join(report(rows, entries)))
    if processor != this_processor():
        print(f"note: the stored ratios are of another processor, {processor}")
    return 2 if failed else 0


def run(names):
    """A quick bench, printed as it comes: (rows, groups that could not be measured)."""
    return bench.run(bench.Options(tuple(names), ROUNDS))


def measure_and_store(names):
    runs = []
    for _ in range(RUNS_TO_STORE):
        entries, failed = run(names)
        if failed:
            return 2
        runs.append(entries)
    store(runs)
    return 0


def report(rows, entries):
    """What there is to say, as lines; the last one counts. rows: of Stored; entries: of results.Entry."""
    stored = {row.name: row for row in rows}
    compared = [(stored[entry.name], entry) for entry in entries if entry.name in stored and entry.ratio is not None]
    lines = [_difference("worse", *pair) for pair in compared if is_worse(*pair)]
    worse = len(lines)
    lines += [_difference("better", *pair) for pair in compared if is_better(*pair)]
    lines += [f"not stored: {entry.name}" for entry in entries if entry.name not in stored and entry.ratio is not None]
    return [*lines, f"bench-guard: {len(compared)} ratios compared, {worse} worse"]


def is_worse(stored, entry):
    return entry.ratio > stored.ratio * (1 + _tolerance(stored, entry))


def is_better(stored, entry):
    return entry.ratio < stored.ratio / (1 + _tolerance(stored, entry))


def _tolerance(stored, entry):
    return max(stored.spread, entry.spread or 0, LEAST)


def _difference(what, stored, entry):
    change = entry.ratio / stored.ratio - 1
    return (f"{what}: {entry.name} {results.ratio_text(stored.ratio)} -> {results.ratio_text(entry.ratio)} ({change:+.0%}, "
            f"spread {_tolerance(stored, entry):.0%})")


# ---- stored.json ----


def summarise(runs):
    """What to store of several runs, lists of Entry: the median ratio, and as spread the largest one within a run, or what
    lies between the runs if that is more. Rows without a ratio are left out."""
    by_name = {}
    for entry in (entry for entries in runs for entry in entries if entry.ratio is not None):
        by_name.setdefault(entry.name, []).append(entry)
    rows = []
    for name, entries in by_name.items():
        ratios = [entry.ratio for entry in entries]
        middle = statistics.median(ratios)
        spread = max((max(ratios) - min(ratios)) / middle, *(entry.spread or 0 for entry in entries))
        rows.append(Stored(name, round(middle, 4), round(spread, 4)))
    return rows


def store(runs):
    lines = ",\n".join("  " + json.dumps(asdict(row)) for row in summarise(runs))
    STORED.write_text(f'{{"processor": {json.dumps(this_processor())}, "rows": [\n{lines}\n]}}\n')


def read():
    """(Processor, rows) of what is stored."""
    stored = json.loads(STORED.read_text())
    return stored["processor"], [Stored(**row) for row in stored["rows"]]


def this_processor():
    """Its name, as Linux has it; "" where it tells none."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def _parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="groups or models, as in bench.py; all when none is given")
    parser.add_argument("--results", type=Path, help="compare this results.json, and measure nothing")
    parser.add_argument("--store", action="store_true", help="measure, and write bench/stored.json")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

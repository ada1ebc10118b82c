# SPDX-License-Identifier: Apache-2.0
"""Measures, each figure beside its limit or peer in the same run: prints one table, and writes results.json and a picture
of each group, GROUP.svg, to build/bench. docs/benchmarks.md says what the rows and fields are.

Exits 1 when a goal is missed, and 2 when something could not be measured.
"""

import argparse
import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from c7x_compile.errors import CompileError

import link_group
import loading_group
import many_group
import models_group
import peers_group
import picture
import priority_group
import results
import trace_group
from programs import BUILD

FOLDER = BUILD / "bench"

# The name of each group, and what gives its rows one by one, of Options.
GROUPS = {
    **{group: functools.partial(models_group.measure, group) for group in models_group.GROUPS},
    "threads": models_group.measure_threads,
    "link": link_group.measure,
    "loading": loading_group.measure,
    "priority": priority_group.measure,
    "trace": trace_group.measure,
    "many": many_group.measure,
    "peers": peers_group.measure,
}
ASKED_FOR = {"peers"}  # by name, because it installs what is large


@dataclass(frozen=True)
class Options:
    """names: groups and models to measure, all when there are none, but peers only where it is named; rounds: of each row;
    None: as its group has it."""

    names: tuple = ()
    rounds: int | None = None

    def wants(self, *names):
        """Whether one of the names is asked for, or all are."""
        return any(name in self.names for name in names) or (not self.names and ASKED_FOR.isdisjoint(names))


def main():
    folder, options = _parse()
    entries, failed = run(options)
    results.write_json(folder / "results.json", entries)
    for group in dict.fromkeys(entry.group for entry in entries):
        rows = [entry for entry in entries if entry.group == group]
        (folder / f"{group}.svg").write_text(picture.draw(group, rows))
    missed = [entry.name for entry in entries if entry.met is False]
    if missed:
        print(f"goals missed: {', '.join(missed)}")
    return 2 if failed else 1 if missed else 0


def run(options):
    """Prints the table, row by row. Returns (the rows, the groups that could not be measured: stderr says why)."""
    entries, failed = [], []
    print(results.HEAD)
    for group in (group for group in GROUPS if options.wants(*names_in(group))):
        try:
            for entry in GROUPS[group](options):
                entries.append(entry)
                print(results.line(entry), flush=True)
        except (CompileError, subprocess.CalledProcessError, OSError) as error:
            print(f"bench: {group}: {error}", file=sys.stderr)
            failed.append(group)
    return entries, failed


def names_in(group):
    """What chooses the group: its name, and those of its models."""
    return [group, *(model.name for model in models_group.MODELS if model.group == group)]


def _parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"{', '.join(GROUPS)}, or models; all but peers when none is given")
    parser.add_argument("--peers", action="store_true", help="peers, too")
    parser.add_argument("--rounds", type=int, help="turns of each row with its limit (default: as the group has it)")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where results and pictures go (default build/bench)")
    args = parser.parse_args()
    unknown = set(args.names) - {name for group in GROUPS for name in names_in(group)}
    if unknown:
        parser.error(f"no such group or model: {', '.join(sorted(unknown))}")
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds must be at least 1")
    names = tuple(args.names or set(GROUPS) - ASKED_FOR) + (("peers",) if args.peers else ())
    return args.output, Options(names, args.rounds)


if __name__ == "__main__":
    sys.exit(main())

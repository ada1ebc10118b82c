# SPDX-License-Identifier: Apache-2.0
"""What a row of the bench is, and how it is made of samples; docs/benchmarks.md has the same for readers of results.json.

Each row compares a time or size of ours with a limit or a peer that is measured in the same run, in turns: a round is some
samples of each. Its ratio is the median of the rounds' ratios, and its spread tells how far those lie apart.
"""

import json
import math
import statistics
from dataclasses import asdict, dataclass

MEDIAN, TAIL = "p50", "p99"


@dataclass(frozen=True)
class Entry:
    """A row. Figures are in `unit`; what is not known is None, and then `note` says why."""

    name: str
    group: str
    unit: str
    n: int  # samples
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    figure: str  # which of them is compared with the limit
    against: str  # what the limit is
    limit: float | None
    ratio: float | None
    spread: float | None  # between the quartiles of the rounds' ratios, as a part of the ratio; None: one round
    goal: float | None  # the ratio may be so much
    met: bool | None
    note: str = ""


def percentile(values, percent):
    """The value below or at which so many per cent of the values are: the nearest rank, as c7x_compute has it."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def spread_of(ratios):
    """How far the middle half of the ratios lies apart, as a part of their median; None for fewer than two."""
    if len(ratios) < 2:
        return None
    return (percentile(ratios, 75) - percentile(ratios, 25)) / statistics.median(ratios)


def round_ratios(ours, limit, figure=MEDIAN):
    """The ratio of each round. ours: a list of samples for each round; limit: the same, or a constant."""
    limits = _figures(limit, figure) if isinstance(limit, list) else [limit] * len(ours)
    return [mine / other for mine, other in zip(_figures(ours, figure), limits, strict=True)]


def compare(group, name, unit, ours, limit, against, *, goal=None, figure=MEDIAN, note=""):
    """The row of what was measured. ours, limit: as in round_ratios; against: what the limit is."""
    ratios = round_ratios(ours, limit, figure)
    limit = statistics.median(_figures(limit, figure)) if isinstance(limit, list) else limit
    ratio = statistics.median(ratios)
    return summary(group, name, unit, [sample for samples in ours for sample in samples], ratio, spread_of(ratios),
                   figure=figure, against=against, limit=limit, goal=goal, note=note)


def summary(group, name, unit, samples, ratio, spread, *, against, limit, goal=None, figure=MEDIAN, note=""):
    """The row of a ratio that was made in a way of its own."""
    return Entry(name, group, unit, len(samples), *(percentile(samples, percent) for percent in (50, 90, 99)), max(samples),
                 figure, against, limit, ratio, spread, goal, None if goal is None else ratio <= goal, note)


def absent(group, name, unit, against, why):
    """The row of what could not be measured. It has no goal: where that is a failure, the group fails instead."""
    return Entry(name, group, unit, 0, None, None, None, None, MEDIAN, against, None, None, None, None, None, why)


def _figures(rounds, figure):
    return [percentile(samples, int(figure[1:])) for samples in rounds]


# ---- results.json ----

DIGITS = 5  # that mean anything


def write_json(path, entries):
    """A list of rows, each an object of the fields of Entry, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({key: _rounded(value) for key, value in asdict(entry).items()}) for entry in entries]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read_json(path):
    return [Entry(**fields) for fields in json.loads(path.read_text())]


def _rounded(value):
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


# ---- The table ----

HEAD = (f"{'name':<32}{'n':>7}{'p50':>10}{'p90':>10}{'p99':>10}{'max':>10} {'unit':<6}{'limit':>10}{'ratio':>9}{'spread':>8}"
        f"{'goal':>7}  against")


def line(entry):
    """A row of the table, below HEAD."""
    figures = "".join(f"{number(value):>10}" for value in (entry.p50, entry.p90, entry.p99, entry.max))
    spread = "-" if entry.spread is None else f"{entry.spread:.0%}"
    goal = "-" if entry.goal is None else f"{entry.goal:g}"
    text = "; ".join(part for part in ("MISSED" if entry.met is False else "", entry.against, entry.note) if part)
    return (f"{entry.name:<32}{entry.n:>7}{figures} {entry.unit:<6}{number(entry.limit):>10}"
            f"{ratio_text(entry.ratio):>9}{spread:>8}{goal:>7}  {text}")


def ratio_text(ratio):
    """With more digits, because some goals are near to 1."""
    return "-" if ratio is None else f"{ratio:.4f}" if ratio < 10 else number(ratio)


def number(value):
    """Four digits that mean something, without an exponent."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.{max(3 - math.floor(math.log10(abs(value))), 0)}f}"

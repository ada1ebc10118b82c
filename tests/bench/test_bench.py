# SPDX-License-Identifier: Apache-2.0
"""What the bench makes of samples, and that what it writes is what docs/benchmarks.md says."""

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from dataclasses import asdict, fields
from pathlib import Path
from xml.etree import ElementTree

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import bench  # noqa: E402
import guard  # noqa: E402
import models_group  # noqa: E402
import peers_group  # noqa: E402
import picture  # noqa: E402
import programs  # noqa: E402
import results  # noqa: E402

NUMBERS = ("p50", "p90", "p99", "max", "limit", "ratio", "spread", "goal")
UNITS = {"ns", "us", "ms", "KB", "MB", "ratio"}


class Rows(unittest.TestCase):
    def test_a_percentile_is_a_value_that_was_measured(self):
        values = [4, 1, 3, 2]
        self.assertEqual([results.percentile(values, percent) for percent in (0, 25, 50, 51, 99, 100)], [1, 1, 2, 3, 4, 4])
        self.assertEqual(results.percentile([7], 50), 7)

    def test_the_ratio_is_the_median_of_the_rounds_so_that_a_slow_round_falls_on_both_sides(self):
        ours, limit = [[1, 1], [10, 10], [1, 1]], [[2, 2], [20, 20], [2, 2]]
        entry = results.compare("g", "n", "ms", ours, limit, "another", goal=0.6)
        self.assertEqual((entry.ratio, entry.spread, entry.met), (0.5, 0, True))
        self.assertEqual((entry.n, entry.p50, entry.p90, entry.max, entry.limit), (6, 1, 10, 10, 2))

    def test_the_spread_is_what_lies_between_the_quartiles(self):
        entry = results.compare("g", "n", "ms", [[1], [2], [3], [4], [5]], 1, "one", goal=2)
        self.assertEqual((entry.ratio, entry.spread, entry.met, entry.limit), (3, (4 - 2) / 3, False, 1))

    def test_one_round_has_no_spread_and_a_row_without_a_goal_meets_none(self):
        entry = results.compare("g", "n", "ms", [[3, 4]], [[2]], "two")
        self.assertEqual((entry.ratio, entry.spread, entry.goal, entry.met), (1.5, None, None, None))

    def test_the_tail_is_compared_where_the_row_says_so(self):
        ours = [[1] * 98 + [9, 9]]
        self.assertEqual(results.compare("g", "n", "us", ours, 3, "x", figure=results.TAIL).ratio, 3)
        self.assertEqual(results.compare("g", "n", "us", ours, 3, "x").figure, "p50")

    def test_rounds_of_both_sides_belong_together(self):
        with self.assertRaises(ValueError):
            results.compare("g", "n", "ms", [[1], [2]], [[1]], "x")

    def test_programs_print_a_line_for_each_round(self):
        rows = programs.parse("a ours 1 2\na limit 3\na ours 4\nb ours 0.5\n")
        self.assertEqual(rows["a"]["ours"], [[1, 2], [4]])
        self.assertEqual(rows["a"]["limit"], [[3]])
        self.assertEqual(rows["b"]["ours"], [[0.5]])


class Groups(unittest.TestCase):
    def test_every_model_belongs_to_a_group_that_has_goals(self):
        self.assertEqual({model.group for model in models_group.MODELS} - set(models_group.GROUPS), set())
        self.assertLessEqual(set(models_group.GROUPS), set(bench.GROUPS))

    def test_peers_are_measured_only_where_they_are_asked_for(self):
        self.assertFalse(bench.Options().wants("peers"))
        self.assertTrue(bench.Options().wants("loading") and bench.Options(("peers",)).wants("peers"))
        self.assertFalse(bench.Options(("loading",)).wants("models", "magika"))

    def test_a_group_that_fails_takes_no_other_with_it(self):
        def fail(_):
            yield results.compare("first", "row", "ms", [[1]], 1, "one")
            raise OSError("no such device")

        groups = {"first": fail, "second": lambda _: [results.compare("second", "other", "ms", [[1]], 1, "one")]}
        with unittest.mock.patch.object(bench, "GROUPS", groups), \
                unittest.mock.patch.object(sys, "stderr", io.StringIO()) as stderr, \
                unittest.mock.patch.object(sys, "stdout", io.StringIO()):
            entries, failed = bench.run(bench.Options())
        self.assertEqual(([entry.name for entry in entries], failed), (["row", "other"], ["first"]))
        self.assertEqual(stderr.getvalue(), "bench: first: no such device\n")


class Guard(unittest.TestCase):
    def row(self, ratios, name="row"):
        return results.compare("g", name, "ms", [[ratio] for ratio in ratios], 1, "one")

    def test_what_lies_within_either_spread_is_not_worse(self):
        for stored_spread, ratios, worse in ((0.0, [1.1] * 3, True), (0.2, [1.1] * 3, False), (0.0, [1.0, 1.1, 1.2], False),
                                             (0.0, [1.019] * 3, False), (0.1, [1.2] * 3, True), (0.0, [0.5] * 3, False)):
            stored = guard.Stored("row", 1.0, stored_spread)
            self.assertIs(guard.is_worse(stored, self.row(ratios)), worse, f"{stored_spread} {ratios}")

    def test_the_report_names_what_got_worse_and_what_it_knows_nothing_of(self):
        stored = [guard.Stored("slow", 0.5, 0.1), guard.Stored("fast", 0.5, 0.1), guard.Stored("same", 0.5, 0.1),
                  guard.Stored("gone", 0.5, 0.1)]
        entries = [self.row([1.0], "slow"), self.row([0.25], "fast"), self.row([0.5], "same"), self.row([9.0], "new"),
                   results.absent("g", "gone", "ms", "x", "not there")]
        self.assertEqual(guard.report(stored, entries), [
            "worse: slow 0.5000 -> 1.0000 (+100%, spread 10%)", "better: fast 0.5000 -> 0.2500 (-50%, spread 10%)",
            "not stored: new", "bench-guard: 3 ratios compared, 1 worse"])

    def test_what_is_stored_has_the_spread_between_runs_if_that_is_more(self):
        runs = [[self.row([1.0, 1.0, 1.0], "a"), self.row([1.0, 2.0, 3.0], "b")],
                [self.row([1.3, 1.3, 1.3], "a"), self.row([2.0, 2.0, 2.0], "b")],
                [self.row([1.1, 1.1, 1.1], "a"), self.row([2.0, 2.0, 2.0], "b")]]
        a, b = guard.summarise(runs)
        self.assertEqual((a.name, a.ratio, a.spread), ("a", 1.1, round(0.3 / 1.1, 4)))
        self.assertEqual((b.name, b.ratio, b.spread), ("b", 2.0, 1.0))

    def test_what_is_stored_can_be_read_and_a_worse_ratio_does_not_fail(self):
        _, rows = guard.read()
        self.assertEqual(len({row.name for row in rows}), len(rows))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            results.write_json(path, [self.row([rows[0].ratio * 100], rows[0].name)])
            done = subprocess.run([sys.executable, "bench/guard.py", "--results", str(path)], cwd=ROOT, text=True,
                                  capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 ratios compared, 1 worse", done.stdout)
        self.assertIn(f"worse: {rows[0].name}", done.stdout)


PEER = """
import os, sys
import numpy, peer_child

class Doubles:
    processes, version, compiled = [os.getpid()], "1.0", "compiled"

    def compile(self, folder):
        print("what a compiler prints")
        {compile}
        (folder / "compiled").write_text("ten bytes!")

    def load(self, path, inputs):
        return lambda: inputs[0] * {factor}

    def arrays(self, result):
        return [result]

peer_child.main(Doubles())
"""


class Peers(unittest.TestCase):
    def start(self, compile="", factor=2, script=PEER):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name)
        numpy.save(path / "input0.npy", numpy.float32([1, 2]))
        numpy.save(path / "expected0.npy", numpy.float32([2, 4]))
        (path / "peer_x.py").write_text(script.format(compile=compile, factor=factor))
        child = peers_group.Child(sys.executable, path / "peer_x.py", path,
                                  {**os.environ, "PYTHONPATH": str(ROOT / "bench")})
        self.addCleanup(child.close)
        return child

    def test_a_peer_tells_what_it_is_and_how_long_its_runs_take(self):
        child = self.start()
        self.assertEqual(child.problem(), "")
        self.assertEqual((child.told["version"], child.told["bytes"]), ("1.0", 10))
        self.assertTrue(child.told["load_ms"] and child.told["resident_mb"] > 0)
        with unittest.mock.patch.object(peers_group, "ROUND_SECONDS", 0.01):
            self.assertTrue(all(time > 0 for time in child.turn()))

    def test_what_a_peer_cannot_take_or_computes_wrongly_is_said(self):
        self.assertEqual(self.start(compile="raise ValueError('no such operator')").problem(), "ValueError: no such operator")
        self.assertIn("wrong result", self.start(factor=3).problem())
        self.assertIn("no_such_peer", self.start(script="import no_such_peer").problem())
        self.assertEqual(self.start(script="").problem(), "it ended")

    def test_a_peer_that_could_not_be_installed_is_a_row(self):
        row, = peers_group._rows("iree", "magika", None, "iree could not be installed: no space", {}, 1)
        self.assertEqual((row.n, row.ratio, row.note), (0, None, "iree could not be installed: no space"))


class Written(unittest.TestCase):
    def setUp(self):
        self.entries = [
            results.compare("g", "met", "ms", [[1.23456789], [2], [3]], [[2], [2], [2]], "another", goal=2.5),
            results.compare("g", "missed", "us", [[9, 8]], 1, "one", goal=1),
            results.absent("g", "absent", "ms", "a peer", "it takes no <such> model"),
        ]

    def check(self, rows):
        """Whether they are as docs/benchmarks.md says."""
        self.assertEqual(len({row["name"] for row in rows}), len(rows), "names of their own")
        for row in rows:
            self.assertEqual(list(row), [field.name for field in fields(results.Entry)])
            for field in NUMBERS:
                self.assertIsInstance(row[field], (int, float, type(None)), f"{row['name']}: {field}")
            self.assertIn(row["unit"], UNITS)
            self.assertIn(row["figure"], ("p50", "p99"))
            self.assertIs(row["met"], None if row["goal"] is None else row["ratio"] <= row["goal"])
            if row["n"] == 0:
                self.assertTrue(row["note"])
                self.assertEqual([row[field] for field in ("p50", "p90", "p99", "max", "ratio")], [None] * 5)
            else:
                ranks = [row[field] for field in ("p50", "p90", "p99", "max")]
                self.assertEqual(ranks, sorted(ranks))
                self.assertGreater(row["ratio"], 0)
                self.assertGreater(row["limit"], 0)
                self.assertTrue(row["against"])

    def test_the_file_follows_its_schema_and_can_be_read_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new" / "results.json"
            results.write_json(path, self.entries)
            rows = json.loads(path.read_text())
            self.check(rows)
            self.assertEqual([asdict(entry) for entry in results.read_json(path)], rows)

    def test_every_field_and_unit_stands_in_the_documentation(self):
        text = (ROOT / "docs" / "benchmarks.md").read_text().split("## results.json")[1]
        for word in [*(field.name for field in fields(results.Entry)), *UNITS]:
            self.assertIn(f"`{word}`", text)

    def test_a_line_says_what_was_missed_and_what_is_absent(self):
        lines = [results.line(entry) for entry in self.entries]
        self.assertNotIn("MISSED", lines[0])
        self.assertIn("MISSED", lines[1])
        self.assertIn("it takes no <such> model", lines[2])
        for line in lines:
            self.assertEqual(line.index(line.split()[0]), 0)

    def test_the_picture_has_a_bar_for_each_row_that_was_measured(self):
        picture_of = ElementTree.fromstring(picture.draw("g", self.entries))
        texts = [element.text for element in picture_of.iter() if element.tag.endswith("text")]
        bars = [element for element in picture_of.iter() if element.tag.endswith("rect")]
        self.assertLessEqual({"met", "missed", "absent", "it takes no <such> model"}, set(texts))
        self.assertEqual(len(bars), 1 + 2)  # the ground, too
        self.assertTrue(re.search("#c2483d", picture.draw("g", self.entries[1:2])), "a missed goal is red")

    def test_a_real_group_follows_the_schema(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "bench/bench.py", "loading", "--rounds", "1", "--output", folder],
                                  cwd=ROOT, text=True, capture_output=True)
            self.assertIn(done.returncode, (0, 1), done.stderr)
            rows = json.loads((Path(folder) / "results.json").read_text())
            self.check(rows)
            self.assertEqual(len(rows), 8)
            self.assertEqual(len(done.stdout.splitlines()), 1 + 8 + done.returncode)
            ElementTree.parse(Path(folder) / "loading.svg")

    def test_a_group_that_does_not_exist_is_named(self):
        done = subprocess.run([sys.executable, "bench/bench.py", "lading"], cwd=ROOT, text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no such group or model: lading", done.stderr)


if __name__ == "__main__":
    unittest.main()

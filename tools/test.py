# SPDX-License-Identifier: Apache-2.0
"""Runs every test of a build and counts cases: each cmocka case, CLI file, compiler test, model and seed.

Prints one line a suite, the whole output of what failed, and at the end `N passed, N failed` (and `, N skipped`).
Exit code 0 only if nothing failed and something ran.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)


class Tally:
    """Counts of cases over all suites."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, name, passed, failed, skipped, seconds, output):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        verdict = "FAIL" if failed else "ok"
        note = f", {skipped} skipped" if skipped else ""
        print(f"{verdict:4} {name}: {passed} passed{note} ({seconds:.1f} s)", flush=True)
        if failed:
            print(output, flush=True)
        for line in output.splitlines():
            if line.startswith("skipped: "):
                print(f"     {line}", flush=True)


def run(command, environment, timeout):
    """Runs a command; returns (exit code or None on time-out, stdout and stderr together, seconds)."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
                              errors="replace", stdin=subprocess.DEVNULL, env={**os.environ, **environment},
                              timeout=timeout)
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace") + f"\ntimed out after {timeout} s\n"
        code = None
    return code, output, time.monotonic() - start


def count_cmocka(code, output):
    """Cases of a cmocka program; one that ended badly without a failed case counts as one failure."""
    passed = len(re.findall(r"^\[       OK \]", output, re.MULTILINE))
    skipped = len(re.findall(r"^\[  SKIPPED \] \w+$", output, re.MULTILINE))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.MULTILINE)))
    if code != 0 and failed == 0:
        failed = 1
    if passed + failed + skipped == 0:
        failed = 1
    return passed, failed, skipped


def count_closing(code, output):
    """Cases of a suite that ends with the closing line itself."""
    lines = CLOSING.findall(output)
    if not lines:
        return 0, 1, 0
    passed, failed, skipped = (int(value or 0) for value in lines[-1])
    if (code != 0 and failed == 0) or passed + failed == 0:
        failed += 1
    return passed, failed, skipped


def count_unittest(code, output):
    """Cases of a run of Python's unittest."""
    ran = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    if ran is None or int(ran.group(1)) == 0:
        return 0, 1, 0
    failed = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", output))
    skipped = sum(int(count) for count in re.findall(r"skipped=(\d+)", output))
    if code != 0 and failed == 0:
        failed = 1
    return int(ran.group(1)) - failed - skipped, failed, skipped


def ctest_programs(build):
    """The tests that CMake knows: (name, command, environment, seconds, labels)."""
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
    for test in json.loads(listing)["tests"]:
        properties = {item["name"]: item["value"] for item in test.get("properties", [])}
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        yield (test["name"], test["command"], environment, float(properties.get("TIMEOUT", 120)),
               properties.get("LABELS", []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--quick", action="store_true", help="two small models, no compiler tests: for sanitizers")
    parser.add_argument("--aarch64", action="store_true", help="a build for AArch64, which runs under qemu")
    parser.add_argument("--only", help="run the programs with this label alone")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    environment = {"C7X_BUILD_DIR": str(build), "C7X_EMULATOR": str(build / "bin/c7x_emulator"),
                   "C7X_COMPUTE": str(build / "bin/c7x_compute")}
    if options.aarch64:
        environment["C7X_MODELS"] = str(ROOT / "build/models-aarch64")
    tally = Tally()
    slower = 4 if options.quick or options.aarch64 else 1  # sanitizers, qemu
    for name, command, extra, seconds, labels in ctest_programs(build):
        if options.only and options.only not in labels:
            continue
        soak = 20 if os.environ.get("C7X_SOAK") else 1
        code, output, took = run(command, {**environment, **extra}, seconds * slower * soak)
        tally.add(name, *count_cmocka(code, output), took, output)
    if not options.only:
        suites = [("cli", [sys.executable, "tests/cli/run.py", "--build", str(build)], 600),
                  ("users", [sys.executable, "tests/users/run.py", "--build", str(build)], 300),
                  ("board suite on the emulator",
                   ["sh", "tests/board/test_dynmod.sh", "--module", str(build / "tests/modules/dynmod.out")], 120),
                  ("C7x relocations", [str(build / "tests/reloc_vectors"), "tests/loader/c7x-reloc-vectors.csv"], 60),
                  ("layers", [sys.executable, "tools/check_layers.py"], 60)]
        if options.aarch64:
            suites += [("models", [sys.executable, "tests/models/run.py", "--target", "aarch64", "--all", "--seeds", "1",
                                   "--jobs", "2", "--count"], 900),
                       ("aarch64", [sys.executable, "tests/aarch64/run.py", "--build", str(build)], 300)]
        elif options.quick:
            suites.append(("models (two smallest)",
                           [sys.executable, "tests/models/run.py", "--quick", "--count"], 1200))
        else:
            suites += [("docs", [sys.executable, "tests/docs/run.py", "--build", str(build)], 300),
                       ("install", [sys.executable, "tests/install/run.py", "--build", str(build)], 300),
                       ("compiler", [sys.executable, "-m", "unittest", "discover", "-v", "-s", "compiler/tests"], 900),
                       ("models", [sys.executable, "tests/models/run.py", "--count"], 1500),
                       ("decoder", [sys.executable, "tests/decoder/run.py", "--build", str(build)], 600),
                       ("kernels", [sys.executable, "tests/kernels/run.py", "--build", str(build)], 300),
                       ("cpp", [sys.executable, "tests/cpp/run.py", "--build", str(build)], 600),
                       ("python", [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tests/python"], 600),
                       ("examples", [sys.executable, "tests/examples/run.py", "--build", str(build)], 300),
                       ("bench", [sys.executable, "-m", "unittest", "discover", "-v", "-s", "tests/bench"], 120)]
        for name, command, seconds in suites:
            code, output, took = run(command, environment, seconds)
            count = count_unittest if "unittest" in command else count_closing
            tally.add(name, *count(code, output), took, output)
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {tally.failed} failed{skipped}")
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

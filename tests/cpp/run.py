# SPDX-License-Identifier: Apache-2.0
"""Builds runtime_test.cpp by each C++ compiler and standard, without a warning, and runs it on the test modules."""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
SECONDS_MAX = 120


def call(command):
    """(exit code, output) of a command; a time-out is a failure."""
    try:
        done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return 1, f"timed out after {SECONDS_MAX} s\n"
    return done.returncode, done.stdout


def build_and_run(compiler, standard, flags, build, folder):
    """(passed, failed) of one build of the test."""
    name = f"{compiler} -std={standard}"
    program = Path(folder) / f"{compiler}-{standard}"
    library = build / "lib"
    code, output = call([compiler, f"-std={standard}", *WARNINGS, *flags, "-Iinclude", "tests/cpp/runtime_test.cpp",
                         f"-L{library}", "-lc7x_compute", f"-Wl,-rpath,{library}", "-o", str(program)])
    if code != 0:
        print(f"FAIL {name} does not compile\n{output}", flush=True)
        return 0, 1
    code, output = call([str(program), str(build / "tests/modules")])
    closing = re.search(r"^(\d+) passed, (\d+) failed$", output, re.MULTILINE)
    passed, failed = (int(value) for value in closing.groups()) if closing else (0, 1)
    if code != 0 and failed == 0:  # a sanitizer, or a crash after the last case
        failed = 1
    print(f"{'FAIL' if failed else 'PASS'} {name}: {passed} cases\n{output if failed else ''}", end="", flush=True)
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--flags", default="", help="more for the compiler, such as -fsanitize=address,undefined")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    if not compilers:
        print("no C++ compiler is installed")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for compiler in compilers:
            for standard in ("c++14", "c++17"):
                counts = build_and_run(compiler, standard, options.flags.split(), build, folder)
                passed, failed = passed + counts[0], failed + counts[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

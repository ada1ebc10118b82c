# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the examples for C, C++ and Python on a test module and, where it is built, on a real model."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SOURCES = {"c": "examples/c/run.c", "cpp": "examples/cpp/run.cpp", "python": "examples/python/run.py"}
COMPILERS = {"c": [("gcc", "c11"), ("clang", "c11")], "cpp": [("g++", "c++14"), ("clang++", "c++14")]}
LINES_MAX = 60
SECONDS_MAX = 120


class Skipped(Exception):
    pass


def call(command, code=0, **environment):
    """stdout and stderr of a command that must end with this exit code."""
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **environment}, timeout=SECONDS_MAX)
    assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def programs(language, build, folder):
    """The commands that run the example: one for each compiler that is installed."""
    if language == "python":
        return [[sys.executable, SOURCES[language]]]
    commands = []
    for compiler, standard in COMPILERS[language]:
        if shutil.which(compiler):
            program = f"{folder}/{compiler}"
            call([compiler, f"-std={standard}", *WARNINGS, "-Iinclude", SOURCES[language], f"-L{build / 'lib'}",
                  "-lc7x_compute", f"-Wl,-rpath,{build / 'lib'}", "-o", program])
            commands.append([program])
    assert commands, "no compiler is installed"
    return commands


def values_of(output):
    """The numbers that an example printed, before the line with the time."""
    assert re.search(r"^time: [1-9]\d* ns", output, re.MULTILINE), output
    return [float(value) for value in re.findall(r"^output \S+ \[\d\]: (\S+)$", output, re.MULTILINE)]


def is_short(language, _build, _folder):
    count = len((ROOT / SOURCES[language]).read_text().splitlines())
    assert count < LINES_MAX, f"{SOURCES[language]} has {count} lines, allowed are {LINES_MAX - 1}"


def runs_a_module(language, build, folder):
    for command in programs(language, build, folder):
        output = call([*command, str(build / "tests/modules/add_one.out")])
        assert values_of(output) == [1, 2, 3, 4], output


def says_what_is_wrong(language, build, folder):
    for command in programs(language, build, folder):
        assert "usage" in call(command, code=1)
        assert "/nonexistent/lib0.out" in call([*command, "/nonexistent/lib0.out"], code=1)
        module = str(build / "tests/modules/add_one.out")
        assert "run: " in call([*command, module], code=1, C7X_DEVICE="emu:/nonexistent")


def all_agree_on_a_real_model(build, folder):
    """Two inputs and two outputs."""
    module = ROOT / "build/models/silero-vad-16k/lib0.out"
    if not module.exists():
        raise Skipped(f"{module.relative_to(ROOT)} is not built")
    results = [values_of(call([*command, str(module)]))
               for language in SOURCES for command in programs(language, build, folder)]
    assert len(results[0]) == 5 and all(result == results[0] for result in results), results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    build = (ROOT / parser.parse_args().build).resolve()
    cases = [(f"{case.__name__} {language}", case, (language,))
             for language in SOURCES for case in (is_short, runs_a_module, says_what_is_wrong)]
    cases.append(("all_agree_on_a_real_model", all_agree_on_a_real_model, ()))
    os.environ["C7X_LIBRARY"] = str(build / "lib/libc7x_compute.so")
    failed = skipped = 0
    for name, case, arguments in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(*arguments, build, folder)
                print(f"PASS {name}")
            except Skipped as reason:
                skipped += 1
                print(f"skipped: {name}: {reason}")
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAIL {name}: {error}")
    note = f", {skipped} skipped" if skipped else ""
    print(f"{len(cases) - failed - skipped} passed, {failed} failed{note}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

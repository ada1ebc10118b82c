#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command-line tests of this folder, plain text files *.test:

    # comment
    $ COMMAND          run by sh in a fresh folder of the file; `> ` lines below continue it
    text               a line that must come out on stdout; the lines are compared in order
    ? 1                the exit code; without it 0
    ! REGEX            must be found in a line of stderr

In expected lines <N> stands for digits, <*> for any text, <NAME=N> for digits that later commands find in $NAME, and a
line <...> for any number of lines. A line that would be taken for something else begins with a backslash.
Where the command is c7x_compute itself and fails, stderr must hold exactly one line `c7x_compute: STAGE: TEXT`.
A file that begins with `# needs signals` is skipped where ThreadSanitizer runs the modules.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS_MAX = 60
PLACEHOLDER = re.compile(r"<(?:(\w+)=)?N>|<\*>")


class Step:
    def __init__(self, line, command):
        self.line = line
        self.command = command
        self.expected = []
        self.code = 0
        self.stderr = []


def parse(path):
    steps = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#") or (not steps and not line.startswith("$ ")):
            continue
        if line.startswith("$ "):
            steps.append(Step(number, line[2:]))
        elif line.startswith("> "):
            steps[-1].command += "\n" + line[2:]
        elif line.startswith("? "):
            steps[-1].code = int(line[2:])
        elif line.startswith("! "):
            steps[-1].stderr.append(line[2:])
        elif line:
            steps[-1].expected.append(line[1:] if line.startswith("\\") else line)
    return steps


def to_regex(lines):
    """One regular expression for all expected lines."""
    out = []
    for line in lines:
        if line == "<...>":
            out.append(r"(?:.*\n)*?")
            continue
        at = 0
        text = ""
        for found in PLACEHOLDER.finditer(line):
            text += re.escape(line[at:found.start()])
            if found.group() == "<*>":
                text += ".*"
            else:
                text += f"(?P<{found.group(1)}>[0-9]+)" if found.group(1) else "[0-9]+"
            at = found.end()
        out.append(text + re.escape(line[at:]) + r"\n")
    return re.compile("".join(out))


def execute(command, folder, env):
    prefix = "".join(f'{name}() {{ "{sys.executable}" "{HERE}/{name}.py" "$@"; }}\n' for name in ("data", "terminal"))
    return subprocess.run(["sh", "-c", prefix + command], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX)


def problem_of(step, done, env):
    """What is wrong with what a step did; None if nothing."""
    stdout = done.stdout.decode(errors="replace")
    stderr = done.stderr.decode(errors="replace")
    if stdout and not stdout.endswith("\n"):
        stdout += "\n"
    shown = f"stdout:\n{stdout}stderr:\n{stderr}"
    if done.returncode != step.code:
        return f"exit code {done.returncode}, expected {step.code}\n{shown}"
    found = to_regex(step.expected).fullmatch(stdout)
    if not found:
        return "stdout differs, expected:\n" + "\n".join(step.expected) + "\n" + shown
    env.update(found.groupdict())
    for pattern in step.stderr:
        if not re.search(pattern, stderr, re.MULTILINE):
            return f"stderr lacks {pattern}\n{shown}"
    reports = re.findall(r"^c7x_compute: ", stderr, re.MULTILINE)
    if step.command.startswith("c7x_compute ") and step.code != 0 and len(reports) != 1:
        return f"{len(reports)} reports on stderr, expected 1\n{shown}"
    return None


def run_steps(path, folder, env):
    steps = parse(path)
    for step in steps:
        try:
            problem = problem_of(step, execute(step.command, folder, env), env)
        except subprocess.TimeoutExpired:
            problem = f"still running after {SECONDS_MAX} s"
        if problem:
            return f"{path.name}:{step.line}: $ {step.command}\n{problem}"
    return None if steps else f"{path.name}: no commands"


def lacks_signals(path, device):
    cache = device / "CMakeCache.txt"
    return (path.read_text().startswith("# needs signals\n") and cache.exists()
            and "C7X_SANITIZE:STRING=thread" in cache.read_text())


def run_file(path, build, device):
    root = Path(tempfile.mkdtemp(prefix="c7x-cli-"))
    folder = root / "cwd"
    runtime = root / "run"
    folder.mkdir()
    runtime.mkdir(mode=0o700)
    env = {name: value for name, value in os.environ.items() if not name.startswith("C7X_")}
    env.update(PATH=f"{build}/bin:{env.get('PATH', '/usr/bin:/bin')}", LC_ALL="C.UTF-8", XDG_RUNTIME_DIR=str(runtime),
               C7X_EMULATOR=f"{device}/bin/c7x_emulator", C7X_MODULES=f"{device}/tests/modules",
               C7X_SOURCE=str(HERE.parent.parent))
    try:
        problem = run_steps(path, folder, env)
        for device in ("emu:", "emu:c7x-2"):
            execute(f"c7x_compute emulator stop --device {device}", folder, env)
        left = sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_socket())
        if not problem and left:
            problem = f"{path.name}: an emulator left {left}"
        return problem
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Run the command-line tests.")
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build")
    parser.add_argument("--device", type=Path, help="the build whose emulator and modules are used (default: the same)")
    parser.add_argument("files", nargs="*", type=Path, help="default: all of this folder")
    options = parser.parse_args()
    files = options.files or sorted(HERE.glob("*.test"))
    device = options.device or options.build
    failed = skipped = 0
    for path in files:
        if lacks_signals(path, device):
            skipped += 1
            print(f"SKIP cli/{path.name}\nskipped: ThreadSanitizer hands signals on late", flush=True)
            continue
        problem = run_file(path, options.build.resolve(), device.resolve())
        failed += problem is not None
        print(f"{'FAIL' if problem else 'PASS'} cli/{path.name}", flush=True)
        if problem:
            print(problem, flush=True)
    note = f", {skipped} skipped" if skipped else ""
    print(f"{len(files) - failed - skipped} passed, {failed} failed{note}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Runs the C programs of the bench, which print samples; bench/samples.h says how."""

import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
MODULES = BUILD / "tests" / "modules"


def samples(name, *arguments):
    """{row: {side: rounds}} of build/bench/bench_NAME, where rounds is a list of lists of samples. Raises
    subprocess.CalledProcessError when the program fails; it has said why on stderr."""
    command = [str(BUILD / "bench" / f"bench_{name}"), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "C7X_EMULATOR": str(BUILD / "bin" / "c7x_emulator"), "TMPDIR": folder}
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    return parse(text)


def parse(text):
    """What `samples` returns, of the text that a program printed."""
    rows = defaultdict(lambda: defaultdict(list))
    for line in text.splitlines():
        name, side, *values = line.split()
        rows[name][side].append([float(value) for value in values])
    return rows

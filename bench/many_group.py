# SPDX-License-Identifier: Apache-2.0
"""Many clients and modules: whether the firmware's own time for a request stays what it is for one, bench/many.c; what an
idle emulator holds, and the size of the client library."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import programs
from programs import BUILD
from results import compare, percentile

ROUNDS = 8
GOAL = 1.5
IDLE_MB = 12
LIBRARY_KB = 200
LIBRARY = BUILD / "lib" / "libc7x_compute.so"


def measure(options):
    for name, sides in programs.samples("many", programs.MODULES / "add_one.out", options.rounds or ROUNDS).items():
        yield compare("many", name, "us", sides["ours"], sides["limit"], "one client, one module", goal=GOAL, note=parts(sides))
    supervisor, core = idle_processes()
    yield compare("many", "idle-emulator", "MB", [[supervisor + core]], IDLE_MB, f"{IDLE_MB} MB resident", goal=1.0,
                  note=f"supervisor {supervisor:.1f}, core {core:.1f}")
    yield compare("many", "client-library", "KB", [[text_bytes(LIBRARY) / 1e3]], LIBRARY_KB, f"{LIBRARY_KB} KB of text",
                  goal=1.0)


def parts(sides):
    """What the time went to, and in the single case."""
    both = []
    for part in ("receive", "start", "finish"):
        ours, limit = (percentile(sum(sides[f"{side}-{part}"], []), 50) for side in ("ours", "limit"))
        both.append(f"{part} {ours:.2f} ({limit:.2f})")
    return ", ".join(both)


def idle_processes():
    """MB resident in the supervisor and in the core of an emulator that has answered a PING, and has no client."""
    command = str(BUILD / "bin" / "c7x_compute")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "C7X_EMULATOR": str(BUILD / "bin" / "c7x_emulator"), "C7X_DEVICE": f"emu:{folder}/socket"}

        def run(*words):
            return subprocess.run([command, *words], env=environment, check=True, stdout=subprocess.PIPE).stdout

        run("emulator", "start")
        try:
            run("ping")
            status = json.loads(run("emulator", "status", "--json"))
            return resident_mb(status["pid"]), resident_mb(status["core_pid"])
        finally:
            run("emulator", "stop")


def resident_mb(pid):
    """VmRSS, with pages that others share: those of the program count for each process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"process {pid} has no VmRSS")


def text_bytes(library):
    """Code and constants, as `size` counts them."""
    rows = subprocess.run(["size", str(library)], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return int(rows[1].split()[0])

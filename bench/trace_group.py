# SPDX-License-Identifier: Apache-2.0
"""What a recording costs a real model: the rows trace-off (the trace points, while nobody records) and trace-on."""

import os
import re
import statistics
import subprocess
import tempfile
import time

from c7x_compile import check

import programs
from models_group import find_model, open_session
from results import compare

MODEL = "ppocr-cls"  # the smallest of the PP-OCR networks: the most operators for its time
ROUNDS = 10
TURN_SECONDS = 0.4
OFF_GOAL = 1.001
ON_GOAL = 1.05


def measure(options):
    costs = {name: sides["ours"][0][0] for name, sides in programs.samples("trace").items()}
    program = check.find_c7x_compute()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["C7X_DEVICE"] = f"emu:{folder}/socket"
        try:
            alone, recorded, points = _take_turns(program, open_session(find_model(MODEL)), options.rounds or ROUNDS)
        finally:
            subprocess.run([program, "emulator", "stop"], stdout=subprocess.DEVNULL, check=False)
            del os.environ["C7X_DEVICE"]
    passing = points * costs["trace-off"] / 1e3
    with_points = [[call + passing for call in calls] for calls in alone]
    against = f"{MODEL} without"
    yield compare("trace", "trace-off", "us", with_points, alone, against, goal=OFF_GOAL,
                  note=f"computed: {points:.0f} points of {costs['trace-off']:.2f} ns")
    yield compare("trace", "trace-on", "us", recorded, alone, against, goal=ON_GOAL,
                  note=f"{costs['trace-on']:.0f} ns for a point")


def _take_turns(program, session, rounds):
    """Rounds of microseconds of calls (without, with a recording), and the points that a call passes."""
    alone, recorded, points = [], [], []
    try:
        _turn(session)  # not counted
        for _ in range(rounds):
            alone.append(_turn(session))
            tracer = subprocess.Popen([program, "trace", "--output", "/dev/null"], stderr=subprocess.PIPE, text=True)
            time.sleep(0.2)  # it is there, and has named what it met first
            session.infer()
            recorded.append(_turn(session))
            tracer.terminate()
            events = int(re.search(r"(\d+) events", tracer.communicate()[1]).group(1))
            points.append(events / (len(recorded[-1]) + 1))
    finally:
        session.close()
    return alone, recorded, statistics.median(points)


def _turn(session):
    end = time.perf_counter() + TURN_SECONDS
    times = []
    while time.perf_counter() < end:
        times.append(session.infer()[0] / 1e3)
    return times

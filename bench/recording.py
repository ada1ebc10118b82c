# SPDX-License-Identifier: Apache-2.0
"""What a recording costs a real model: the rows trace-off (the trace points, while nobody records) and trace-on."""

import os
import re
import statistics
import subprocess
import tempfile
import time

ROUNDS = 10
TURN_SECONDS = 0.4
OFF_GOAL = 1.001
ON_GOAL = 1.05


def measure(program, point_costs, make_session):
    """program: c7x_compute; point_costs: bench_trace; make_session: makes a session of the model, on the device that
    $C7X_DEVICE names. Returns the rows."""
    off_ns, on_ns = map(float, subprocess.run([point_costs], stdout=subprocess.PIPE, check=True).stdout.split())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["C7X_DEVICE"] = f"emu:{folder}/socket"
        try:
            alone, recorded, points = _take_turns(program, make_session())
        finally:
            subprocess.run([program, "emulator", "stop"], stdout=subprocess.DEVNULL, check=False)
            del os.environ["C7X_DEVICE"]
    call_ns = statistics.median(alone)
    rows = [
        _row("trace-off", 1 + points * off_ns / call_ns, OFF_GOAL, off_ns),
        _row("trace-on", statistics.median(recorded) / call_ns, ON_GOAL, on_ns),
    ]
    print(f"{'recording':<16}{'ns a point':>10}{'points a call':>16}{'ratio':>8}{'goal':>8}")
    for row in rows:
        print(f"{row['name']:<16}{row['ns_per_point']:>10.2f}{points:>16.0f}{row['ratio']:>8.4f}{row['goal']:>8.3f}"
              f"{'' if row['met'] else ' missed'}", flush=True)
    return rows


def _row(name, ratio, goal, ns_per_point):
    return {"name": name, "unit": "ratio", "ratio": round(ratio, 5), "goal": goal, "met": ratio <= goal,
            "ns_per_point": ns_per_point}


def _take_turns(program, session):
    """Nanoseconds of calls (without, with a recording), and the points that a call passes."""
    alone, recorded, points = [], [], []
    try:
        _turn(session)
        for _ in range(ROUNDS):
            alone += _turn(session)
            tracer = subprocess.Popen([program, "trace", "--output", "/dev/null"], stderr=subprocess.PIPE, text=True)
            time.sleep(0.2)  # it is there, and has named what it met first
            session.infer()
            times = _turn(session)
            tracer.terminate()
            recorded += times
            points.append(int(re.search(r"(\d+) events", tracer.communicate()[1]).group(1)) / (len(times) + 1))
    finally:
        session.close()
    return alone, recorded, statistics.median(points)


def _turn(session):
    end = time.perf_counter() + TURN_SECONDS
    times = []
    while time.perf_counter() < end:
        times.append(session.infer()[0])
    return times

# SPDX-License-Identifier: Apache-2.0
"""Times the real models against onnxruntime, one thread each, in turns within one run; the loader on
modules of growing size; pre-emption and priorities; and what recording events costs.

Prints a table and writes build/bench/results.json: a list of {name, unit, ratio, goal, met}, where
ratio is ours over onnxruntime's (`models-mean`: the geometric mean over all models), and goal and
met are null where no goal is set. Of the rows of bench/priority.c, which have us, too, it is over the limit
named there. Of `load-KIND-Nx`, which has ms, too, it is the time for each symbol and relocation over that of
the smallest module, 1x.
Exits 1 when a goal is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "models"))

from c7x_compile import check, onnx_model  # noqa: E402
from c7x_compile.errors import CompileError  # noqa: E402
import recording  # noqa: E402
from models import MODELS  # noqa: E402

RESULTS = ROOT / "build" / "bench" / "results.json"
MODEL_GOAL = 0.85
MODELS_GOAL = 0.55  # of the geometric mean over all models
ROUND_SECONDS = 0.25
PRIORITY_GOALS = {"preempt-section": 2.0, "critical-section": 1.0, "priority-p99": 1.0, "priority-load": 1.0}
LOADING_GOAL = 2.0  # linear, but for the caches that larger tables leave


class DeviceSession:
    """A module loaded once on the emulated device, through `c7x_compute session-run`."""

    def __init__(self, module, inputs):
        """inputs: list of arrays, the same for every call."""
        self._data = b"".join(np.ascontiguousarray(array).tobytes() for array in inputs)
        request = {
            "op": "infer",
            "num_inputs": len(inputs),
            "input_size": len(self._data),
            "shape": ";".join(",".join(map(str, array.shape)) for array in inputs),
            "dtype": ";".join(str(array.dtype) for array in inputs),
        }
        self._request = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        self._process = subprocess.Popen(
            [check.find_c7x_compute(), "session-run", "--module", str(module)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reply()

    def infer(self):
        """Runs the model once. Returns (nanoseconds on the device, output bytes, reply)."""
        self._process.stdin.write(self._request + self._data)
        self._process.stdin.flush()
        reply = self._reply()
        data = self._process.stdout.read(reply.get("output_size", 0))
        return reply["cycles"], data, reply

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def _reply(self):
        line = self._process.stdout.readline()
        reply = json.loads(line) if line else {"error": "the session ended"}
        if reply.get("status") not in ("ok", "ready"):
            raise CompileError(reply.get("error", "the session failed"))
        return reply


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="models, loading, priority or trace; all when none is given"
    )
    parser.add_argument("--rounds", type=int, default=8, help="turns for each side (default 8)")
    args = parser.parse_args()
    results = []
    print(f"{'model':<16}{'ours ms':>10}{'onnxruntime ms':>16}{'ratio':>8}{'goal':>8}")
    for model in MODELS:
        if args.names and model.name not in args.names:
            continue
        model.compile()
        ours, theirs = measure(model, args.rounds)
        ratio = ours / theirs
        results.append(rate(model.name, ratio, MODEL_GOAL))
        times = f"{ours:>10.3f}{theirs:>16.3f}"
        print(f"{model.name:<16}{times}{show(results[-1])}", flush=True)
    if len(results) == len(MODELS):
        mean = statistics.geometric_mean(result["ratio"] for result in results)
        results.append(rate("models-mean", mean, MODELS_GOAL))
        print(f"{'models-mean':<16}{'':>26}{show(results[-1])}", flush=True)
    if not args.names or "loading" in args.names:
        results += measure_loading()
    if not args.names or "priority" in args.names:
        results += measure_priorities()
    if not args.names or "trace" in args.names:
        results += measure_trace()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["met"] is False for result in results) else 0


def rate(name, ratio, goal):
    """The result of a model, or of all of them, with a goal for its ratio."""
    return {
        "name": name,
        "unit": "ratio",
        "ratio": round(ratio, 3),
        "goal": goal,
        "met": ratio <= goal,
    }


def show(result):
    """Ratio and goal as columns of the table."""
    goal = f"{result['goal']:.2f}{'' if result['met'] else ' missed'}"
    return f"{result['ratio']:>8.2f}{goal:>8}"


def measure_loading():
    """The rows of the loader, for modules of 20,000 symbols and 200,000 relocations, and multiples."""
    program = ROOT / "build" / "bench" / "bench_loading"
    text = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows, base = [], {}
    print(f"{'module':<16}{'load ms':>10}{'copy ms':>16}{'ratio':>8}{'goal':>8}")
    for line in text.splitlines():
        kind, factor, load, copy = line.split()
        each = float(load) / int(factor)
        ratio = each / base.setdefault(kind, each)
        met = ratio <= LOADING_GOAL
        name = f"load-{kind}-{factor}x"
        rows.append(
            {
                "name": name,
                "unit": "ratio",
                "ratio": round(ratio, 3),
                "goal": LOADING_GOAL,
                "met": met,
                "ms": float(load),
            }
        )
        shown = f"{LOADING_GOAL:.1f}{'' if met else ' missed'}"
        print(f"{name:<16}{float(load):>10.3f}{float(copy):>16.3f}{ratio:>8.2f}{shown:>8}", flush=True)
    return rows


def measure_priorities():
    """The rows of pre-emption, critical sections and priorities; bench/priority.c says what each is."""
    command = [str(ROOT / "build" / "bench" / "bench_priority"), str(ROOT / "build/tests/modules")]
    environment = {**os.environ, "C7X_EMULATOR": str(ROOT / "build/bin/c7x_emulator")}
    text = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=environment
    ).stdout
    rows = []
    print(f"{'priorities':<16}{'us':>10}{'limit us':>16}{'ratio':>8}{'goal':>8}")
    for line in text.splitlines():
        name, us, limit = line.split()
        ratio, goal = float(us) / float(limit), PRIORITY_GOALS.get(name)
        met = None if goal is None else ratio <= goal
        rows.append(
            {
                "name": name,
                "unit": "ratio",
                "ratio": round(ratio, 3),
                "goal": goal,
                "met": met,
                "us": float(us),
            }
        )
        shown = "-" if goal is None else f"{goal:.1f}{'' if met else ' missed'}"
        print(f"{name:<16}{float(us):>10.3f}{float(limit):>16.3f}{ratio:>8.2f}{shown:>8}", flush=True)
    return rows


def measure_trace():
    """The rows of a recording, with the smallest of the PP-OCR networks."""
    model = next(model for model in MODELS if model.name == "ppocr-cls")
    model.compile()
    specialised = model.specialised()
    inputs = model.inputs(0)
    arrays = [inputs[value.name] for value in onnx_model.graph_inputs(specialised)]
    return recording.measure(
        check.find_c7x_compute(), ROOT / "build" / "bench" / "bench_trace", lambda: DeviceSession(model.module, arrays)
    )


def measure(model, rounds):
    """Median milliseconds of (ours, onnxruntime): the sides take turns of ROUND_SECONDS, so that what
    else the machine does falls on both. Warm-up is not counted."""
    specialised = model.specialised()
    session = onnx_model.session(specialised)
    inputs = model.inputs(0)
    names = [value.name for value in onnx_model.graph_inputs(specialised)]
    device = DeviceSession(model.module, [inputs[name] for name in names])
    try:
        expected = session.run(None, inputs)
        _, data, reply = device.infer()
        if check.worst_error(check.split_outputs(data, reply), expected) > check.ERROR_LIMIT:
            raise CompileError(f"{model.name}: wrong result")
        ours, theirs = [], []
        for _ in range(rounds):
            ours += _turn(lambda: device.infer()[0] / 1e6)
            theirs += _turn(lambda: _timed(session, inputs))
    finally:
        device.close()
    return statistics.median(ours), statistics.median(theirs)


def _turn(once):
    end = time.perf_counter() + ROUND_SECONDS
    times = [once()]
    while time.perf_counter() < end:
        times.append(once())
    return times


def _timed(session, inputs):
    begin = time.perf_counter()
    session.run(None, inputs)
    return (time.perf_counter() - begin) * 1e3


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CompileError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)

# SPDX-License-Identifier: Apache-2.0
"""The process of one runtime with one model: ours or a peer's, each through its Python binding, one thread.

Its folder has model.onnx and input0.npy and so on. With `FOLDER compile` it compiles, and prints {} or {"error"}; in a process
of its own, since the memory that a compiler leaves behind would hide what a model takes. With `FOLDER` it writes
SCRIPT-output0.npy and so on, and prints a line of JSON: {"version", "bytes": of the compiled model, "load_ms": samples, with
the first run, because some load only then; "resident_mb": what the loaded model adds, after some runs} or {"error", "version"}.
Then it answers each line SECONDS on standard input with a list of the milliseconds of runs for so long, and ends with it.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

LOADS = 5
WARM_UP_RUNS = 5
PAGE_MB = 0.004096


def main(runtime):
    """runtime: an object with `version`, `processes`: ids of those that hold the model, `compiled`: the name of the compiled
    model; compile(folder): makes it; load(path, inputs): a function that runs it; arrays(result): what such a run returned, as
    numpy arrays."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the runtimes print
    folder = Path(sys.argv[1])
    try:
        if sys.argv[2:] == ["compile"]:
            runtime.compile(folder)
            _tell(replies, {})
            return
        run, told = _begin(runtime, folder)
    except Exception as error:  # whatever a compiler of somebody else raises is why it takes no such model
        _tell(replies, {"error": f"{type(error).__name__}: {error}", "version": runtime.version})
        return
    _tell(replies, told)
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times = [_time(run)]
        while time.perf_counter() < end:
            times.append(_time(run))
        _tell(replies, times)


def _begin(runtime, folder):
    path = folder / runtime.compiled
    inputs = [np.load(folder / f"input{i}.npy") for i in range(len(list(folder.glob("input*.npy"))))]
    before = _resident_mb(runtime.processes)
    first_load, run, result = _load(runtime, path, inputs)
    for _ in range(WARM_UP_RUNS):
        result = run()
    resident = max(_resident_mb(runtime.processes) - before, PAGE_MB)
    for i, array in enumerate(runtime.arrays(result)):
        np.save(folder / f"{Path(sys.argv[0]).stem}-output{i}.npy", array)
    loads = [first_load, *(_load(runtime, path, inputs)[0] for _ in range(LOADS - 1))]
    return run, {"version": runtime.version, "bytes": path.stat().st_size, "load_ms": loads, "resident_mb": resident}


def _load(runtime, path, inputs):
    """(Milliseconds until the first run has ended, the function that runs it, that run's result.)"""
    begin = time.perf_counter()
    run = runtime.load(path, inputs)
    result = run()
    return (time.perf_counter() - begin) * 1e3, run, result


def _time(run):
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


def _resident_mb(processes):
    """Pages that several share count for each in part."""
    text = "\n".join(Path(f"/proc/{process}/smaps_rollup").read_text() for process in processes)
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024 / 1e6


def _tell(replies, what):
    replies.write(json.dumps(what) + "\n")
    replies.flush()

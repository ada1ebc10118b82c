# SPDX-License-Identifier: Apache-2.0
"""The real models against onnxruntime, one thread each, or two."""

import os
import statistics
import sys
import time

from c7x_compile import check, onnx_model
from c7x_compile.errors import CompileError
from programs import ROOT
from results import absent, compare, round_ratios, spread_of, summary
from session import DeviceSession

sys.path.insert(0, str(ROOT / "tests" / "models"))
from models import GROUPS, MODELS, Goals  # noqa: E402

ROUNDS = 8
ROUND_SECONDS = 0.25
THREADS, THREADS_GOALS = 2, Goals(1.0, 1.0)


def find_model(name):
    """The model of that name, compiled."""
    model = next(model for model in MODELS if model.name == name)
    model.compile()
    return model


def open_session(model, threads=1):
    """A session with the model's inputs for seed 0, in its own order."""
    inputs = model.inputs(0)
    ordered = [inputs[value.name] for value in onnx_model.graph_inputs(model.specialised())]
    return DeviceSession(model.module, ordered, threads)


def measure(group, options):
    """A row for each model of the group, and GROUP-mean, unless only some of them are asked for."""
    return _rows(group, GROUPS[group], [model for model in MODELS if model.group == group], options)


def measure_threads(options):
    """The same for all models, on two threads each where the host has processors for them."""
    if len(os.sched_getaffinity(0)) < THREADS:
        yield absent("threads", "threads-mean", "ratio", "onnxruntime", f"fewer than {THREADS} processors")
        return
    yield from _rows("threads", THREADS_GOALS, MODELS, options, THREADS)


def _rows(group, goals, models, options, threads=1):
    rounds = options.rounds or ROUNDS
    suffix, against = ("", "onnxruntime") if threads == 1 else (f"-{threads}-threads", f"onnxruntime, {threads} threads")
    ratios, by_round = [], []
    for model in models:
        if not options.wants(group, model.name):
            continue
        model.compile()
        ours, theirs = take_turns(model, rounds, threads)
        entry = compare(group, model.name + suffix, "ms", ours, theirs, against, goal=goals.each)
        ratios.append(entry.ratio)
        by_round.append(round_ratios(ours, theirs))
        yield entry
    if len(ratios) == len(models):
        means = [statistics.geometric_mean(ratios) for ratios in zip(*by_round)]
        yield summary(group, f"{group}-mean", "ratio", ratios, statistics.geometric_mean(ratios), spread_of(means),
                      against="geometric mean of the ratios", limit=1.0, goal=goals.mean)


def take_turns(model, rounds, threads=1):
    """Rounds of milliseconds of (ours, onnxruntime), both on so many threads: the sides take turns of
    ROUND_SECONDS, so that what else the machine does falls on both. Warm-up is not counted."""
    session = onnx_model.session(model.specialised(), threads)
    inputs = model.inputs(0)
    device = open_session(model, threads)
    try:
        expected = session.run(None, inputs)
        _, data, reply = device.infer()
        if check.worst_error(check.split_outputs(data, reply), expected) > check.ERROR_LIMIT:
            raise CompileError(f"{model.name}: wrong result")
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(turn(lambda: device.infer()[0] / 1e6))
            theirs.append(turn(lambda: timed(lambda: session.run(None, inputs))))
    finally:
        device.close()
    return ours, theirs


def turn(once):
    """Samples for ROUND_SECONDS, at least one."""
    end = time.perf_counter() + ROUND_SECONDS
    times = [once()]
    while time.perf_counter() < end:
        times.append(once())
    return times


def timed(run):
    """Milliseconds."""
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3

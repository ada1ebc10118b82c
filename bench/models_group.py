# SPDX-License-Identifier: Apache-2.0
"""The real models against onnxruntime, one thread each."""

import statistics
import sys
import time

from c7x_compile import check, onnx_model
from c7x_compile.errors import CompileError
from programs import ROOT
from results import compare, round_ratios, spread_of, summary
from session import DeviceSession

sys.path.insert(0, str(ROOT / "tests" / "models"))
from models import GROUPS, MODELS  # noqa: E402

ROUNDS = 8
ROUND_SECONDS = 0.25


def find_model(name):
    """The model of that name, compiled."""
    model = next(model for model in MODELS if model.name == name)
    model.compile()
    return model


def open_session(model):
    """A session with the model's inputs for seed 0, in its own order."""
    inputs = model.inputs(0)
    return DeviceSession(model.module, [inputs[value.name] for value in onnx_model.graph_inputs(model.specialised())])


def measure(group, options):
    """A row for each model of the group, and GROUP-mean, unless only some of them are asked for."""
    goals, rounds = GROUPS[group], options.rounds or ROUNDS
    models = [model for model in MODELS if model.group == group]
    ratios, by_round = [], []
    for model in models:
        if not options.wants(group, model.name):
            continue
        model.compile()
        ours, theirs = take_turns(model, rounds)
        entry = compare(group, model.name, "ms", ours, theirs, "onnxruntime", goal=goals.each)
        ratios.append(entry.ratio)
        by_round.append(round_ratios(ours, theirs))
        yield entry
    if len(ratios) == len(models):
        means = [statistics.geometric_mean(ratios) for ratios in zip(*by_round)]
        yield summary(group, f"{group}-mean", "ratio", ratios, statistics.geometric_mean(ratios), spread_of(means),
                      against="geometric mean of the ratios", limit=1.0, goal=goals.mean)


def take_turns(model, rounds):
    """Rounds of milliseconds of (ours, onnxruntime): the sides take turns of ROUND_SECONDS, so that what
    else the machine does falls on both. Warm-up is not counted."""
    session = onnx_model.session(model.specialised())
    inputs = model.inputs(0)
    device = open_session(model)
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

# SPDX-License-Identifier: Apache-2.0
"""The models in runtimes of others: iree and executorch. What one of them cannot take has a row that says why.

They have an environment of their own, build/peers-venv, of the versions in bench/peers-requirements.txt.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from c7x_compile import check, onnx_model

from models_group import MODELS
from programs import BUILD, ROOT
from results import absent, compare

ROUNDS = 8
ROUND_SECONDS = 0.25
VENV = BUILD / "peers-venv"
FOLDER = BUILD / "bench" / "peers"
PACKAGES = {"iree": ["iree-base-compiler", "iree-base-runtime", "onnx"],
            "executorch": ["executorch", "torch", "torchvision", "onnx2torch"]}


def measure(options):
    """PEER-MODEL, and the same with -load, -memory and -disk."""
    missing = {peer: _install(peer, packages) for peer, packages in PACKAGES.items()}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "C7X_EMULATOR": str(BUILD / "bin" / "c7x_emulator"), "C7X_DEVICE": f"emu:{folder}/socket",
                       "C7X_COMPUTE": check.find_c7x_compute(), "OMP_NUM_THREADS": "1"}
        subprocess.run([check.find_c7x_compute(), "emulator", "start"], env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            for model in MODELS:
                prepared = _prepare(model)
                for peer in PACKAGES:
                    yield from _rows(peer, model.name, prepared, missing[peer], environment, options.rounds or ROUNDS)
        finally:
            subprocess.run([check.find_c7x_compute(), "emulator", "stop"], env=environment, stdout=subprocess.DEVNULL)


def _rows(peer, model, folder, missing, environment, rounds):
    name = f"{peer}-{model}"
    if missing:
        yield absent("peers", name, "ms", peer, missing)
        return
    ours = Child(sys.executable, ROOT / "bench" / "peer_ours.py", folder, environment)
    theirs = Child(VENV / "bin" / "python", ROOT / "bench" / f"peer_{peer}.py", folder, environment)
    try:
        problem = ours.problem() or theirs.problem()
        if problem:
            yield absent("peers", name, "ms", f"{peer} {theirs.told.get('version', '')}".strip(), problem)
            return
        turns = [(ours.turn(), theirs.turn()) for _ in range(rounds)]
        sides = {
            "": ("ms", [mine for mine, _ in turns], [other for _, other in turns]),
            "-load": ("ms", [[sample] for sample in ours.told["load_ms"]], [[sample] for sample in theirs.told["load_ms"]]),
            "-memory": ("MB", [[ours.told["resident_mb"]]], [[theirs.told["resident_mb"]]]),
            "-disk": ("MB", [[ours.told["bytes"] / 1e6]], [[theirs.told["bytes"] / 1e6]]),
        }
        for what, (unit, mine, other) in sides.items():
            row = compare("peers", name + what, unit, mine, other, f"{peer} {theirs.told['version']}")
            yield replace(row, note="we lose" if row.ratio > 1 else "")
    finally:
        ours.close()
        theirs.close()


class Child:
    """A runtime with a model in a process of its own: bench/peer_child.py says how it answers."""

    def __init__(self, python, script, folder, environment):
        self._folder, self._name = folder, script.stem
        self._process = self._start([python, script, folder, "compile"], environment)
        self.told = self._hear()
        if "error" not in self.told:
            self.close()
            self._process = self._start([python, script, folder], environment)
            self.told = self._hear()

    def _start(self, command, environment):
        with self._log().open("w") as stderr:
            return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=stderr)

    def _log(self):
        return self._folder / f"{self._name}.log"

    def _hear(self):
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"error": (self._log().read_text().strip().splitlines() or ["it ended"])[-1]}

    def problem(self):
        """Why its times are worth nothing; "" when they are."""
        if "error" in self.told:
            return " ".join(self.told["error"].split())[:300]
        error = check.worst_error(_arrays(self._folder, f"{self._name}-output"), _arrays(self._folder, "expected"))
        return "" if error <= check.ERROR_LIMIT else f"wrong result, off by {error:.1e}"

    def turn(self):
        """Milliseconds of each run within ROUND_SECONDS."""
        self._process.stdin.write(f"{ROUND_SECONDS}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


def _arrays(folder, what):
    return [np.load(folder / f"{what}{i}.npy") for i in range(len(list(folder.glob(f"{what}*.npy"))))]


def _install(peer, packages):
    """Makes the environment, and installs what the peer needs. Returns why it could not, or ""."""
    if not (VENV / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    done = subprocess.run([VENV / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                           "--constraint", ROOT / "bench" / "peers-requirements.txt", *packages],
                          stderr=subprocess.PIPE, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
    return "" if done.returncode == 0 else f"{peer} could not be installed: {' '.join(lines)}"


def _prepare(model):
    """A folder with what a runtime takes: the model with static shapes after onnxruntime's basic optimisations, constants as
    initializers; its inputs, and onnxruntime's results; our module."""
    model.compile()
    folder = FOLDER / model.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    specialised, inputs = model.specialised(), model.inputs(0)
    names = [value.name for value in onnx_model.graph_inputs(specialised)]
    for i, name in enumerate(names):
        np.save(folder / f"input{i}.npy", inputs[name])
    for i, array in enumerate(onnx_model.session(specialised).run(None, inputs)):
        np.save(folder / f"expected{i}.npy", array)
    onnx.save(_simplified(specialised), folder / "model.onnx")
    (folder / "lib0.out").symlink_to(model.module)
    return folder


def _simplified(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "model.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    model.graph.name = "main"
    constants = [node for node in model.graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]
    for node in constants:
        tensor = node.attribute[0].t
        tensor.name = node.output[0]
        model.graph.initializer.append(tensor)
        model.graph.node.remove(node)
    return onnx.shape_inference.infer_shapes(model)

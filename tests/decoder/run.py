# SPDX-License-Identifier: Apache-2.0
"""Decodes with caches that stay on the emulated device and compares the logits of every step with onnxruntime, whose
caches go through the host.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

import model
from c7x_compile import cli, onnx_model
from c7x_compile.compile import is_current
from c7x_compute import C7xVirtualMachine

ROOT = Path(__file__).resolve().parents[2]
CACHED = ROOT / "build" / "decoder"
MODULE = CACHED / "lib0.out"
STEPS = 50
ERROR_LIMIT = 1e-4
PROMPTS = ([1, 17, 99, 3, 42, 64], [127, 5, 5, 80])


class Reference:
    """What onnxruntime makes of a prompt: the tokens, at first the prompt's and then the likeliest, and the logits of
    each step.
    """

    def __init__(self, session, prompt):
        self.tokens = []
        self.logits = []
        inputs, _ = model.cache_names()
        caches = [np.zeros(model.CACHE_SHAPE, np.float32)] * model.CACHES
        for step in range(STEPS):
            self.tokens.append(prompt[step] if step < len(prompt) else int(np.argmax(self.logits[-1])))
            logits, *caches = session.run(None, {**arguments(self.tokens[-1], step), **dict(zip(inputs, caches))})
            self.logits.append(logits)


def arguments(token, position):
    return {"token": np.array([[token]]), "position": np.array([position])}


def make_module():
    """The module and its model in build/decoder, made anew when the compiler or the model has changed."""
    CACHED.mkdir(parents=True, exist_ok=True)
    path = CACHED / "decoder.onnx"
    if not path.exists() or path.stat().st_mtime_ns < Path(model.__file__).stat().st_mtime_ns:
        onnx.save(model.make(), path)
    if not is_current(MODULE, path) and cli.main([str(path), "-o", str(MODULE)]) != 0:
        raise SystemExit("the decoder does not compile")
    return path


@contextlib.contextmanager
def shared_emulator(build):
    """The name of a device that several clients share."""
    with tempfile.TemporaryDirectory(prefix="c7x-decoder-") as folder:
        device = f"emu:{folder}/socket"
        command = [str(build / "bin" / "c7x_compute"), "emulator"]
        subprocess.run([*command, "start", "--device", device], check=True, stdout=subprocess.DEVNULL)
        try:
            yield device
        finally:
            subprocess.run([*command, "stop", "--device", device], check=True, stdout=subprocess.DEVNULL)


def decoder(library, device="emu"):
    vm = C7xVirtualMachine(MODULE, so_path=library, device=device)
    vm.kv_bind(model.CACHES, model.CACHE_BYTES)
    return vm


def decode(vm, token, step):
    """One step on the device: nothing but the token goes there, nothing but the logits comes back."""
    return vm.run(*arguments(token, step).values(), kv_resident=True)


async def decode_async(vm, token, step):
    return await vm.run_async(*arguments(token, step).values(), kv_resident=True)


def alone(library, reference):
    with decoder(library) as vm:
        return [decode(vm, token, step) for step, token in enumerate(reference.tokens)]


def check_steps(logits, reference):
    for step, (ours, theirs) in enumerate(zip(logits, reference.logits, strict=True)):
        error = onnx_model.relative_error(ours, theirs)
        assert error <= ERROR_LIMIT, f"step {step}: the logits are off by {error:.2e}"


def check_the_caches_matter(logits, reference):
    """The comparison would see a cache that is lost: with it, the same tokens give other logits."""
    distinct = {token: step for step, token in enumerate(reference.tokens)}
    repeated = next(step for step, token in enumerate(reference.tokens) if distinct[token] != step)
    error = onnx_model.relative_error(logits[repeated], logits[distinct[reference.tokens[repeated]]])
    assert error > 100 * ERROR_LIMIT, f"the same token gives the same logits to {error:.2e}"


def check_equal(logits, expected, step):
    assert logits.tobytes() == expected[step].tobytes(), f"step {step} differs from the same one alone"


def check_in_turns(library, build, references, solo):
    with shared_emulator(build) as device, decoder(library, device) as first, decoder(library, device) as second:
        for step in range(STEPS):
            for vm, reference, expected in zip((first, second), references, solo):
                check_equal(decode(vm, reference.tokens[step], step), expected, step)


def check_at_once(library, build, references, solo):
    async def follow(vm, reference, expected):
        for step, token in enumerate(reference.tokens):
            check_equal(await decode_async(vm, token, step), expected, step)

    async def both(vms):
        await asyncio.gather(*(follow(*three) for three in zip(vms, references, solo)))

    with shared_emulator(build) as device, decoder(library, device) as first, decoder(library, device) as second:
        asyncio.run(both((first, second)))


def check_caches_on_the_host(library, reference):
    """The same module with its caches as plain inputs and outputs."""
    caches = [np.zeros(model.CACHE_SHAPE, np.float32)] * model.CACHES
    with C7xVirtualMachine(MODULE, so_path=library) as vm:
        for step in range(3):
            logits, *caches = vm.run(*arguments(reference.tokens[step], step).values(), *caches)
            error = onnx_model.relative_error(logits, reference.logits[step])
            assert error <= ERROR_LIMIT, f"step {step}: the logits are off by {error:.2e}"


def check_session(build, reference):
    """session-run, which is given what is before the caches and knows their shapes from its defaults."""
    request = b'{"op":"infer","input_size":16,"kv_resident":1}\n'
    steps = [request + b"".join(array.tobytes() for array in arguments(token, step).values())
             for step, token in enumerate(reference.tokens)]
    done = subprocess.run([str(build / "bin" / "c7x_compute"), "session-run", str(MODULE)], input=b"".join(steps),
                          stdout=subprocess.PIPE, check=True)
    _, replies = done.stdout.split(b"\n", 1)
    for step, expected in enumerate(reference.logits):
        line, replies = replies.split(b"\n", 1)
        size = json.loads(line)["output_size"]
        error = onnx_model.relative_error(np.frombuffer(replies[:size], np.float32).reshape(expected.shape), expected)
        assert error <= ERROR_LIMIT, f"step {step}: the logits are off by {error:.2e}"
        replies = replies[size:]
    assert not replies, "something follows the last reply"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder (default: build)")
    build = parser.parse_args().build.resolve()
    os.environ.setdefault("C7X_EMULATOR", str(build / "bin" / "c7x_emulator"))
    library = build / "lib" / "libc7x_compute.so"
    session = onnx_model.session(onnx_model.load(make_module()))
    references = [Reference(session, prompt) for prompt in PROMPTS]
    solo = [alone(library, reference) for reference in references]
    cases = [(f"{STEPS} steps of prompt {index} equal onnxruntime's", check_steps, (logits, reference))
             for index, (logits, reference) in enumerate(zip(solo, references))]
    cases += [("the caches matter", check_the_caches_matter, (solo[0], references[0])),
              ("two decoders in turns give what each gives alone", check_in_turns, (library, build, references, solo)),
              ("two decoders at once give what each gives alone", check_at_once, (library, build, references, solo)),
              ("with the caches on the host it is the same", check_caches_on_the_host, (library, references[0])),
              ("session-run gives the same", check_session, (build, references[0]))]
    failed = 0
    for name, check, values in cases:
        try:
            check(*values)
        except AssertionError as error:
            failed += 1
            print(f"FAIL {name}: {error}")
        else:
            print(f"PASS {name}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

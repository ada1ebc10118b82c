# SPDX-License-Identifier: Apache-2.0
"""Compiles the real models and compares them with onnxruntime on the emulated device, and once each what it gives
with several threads and with one, which must be the same bits.

Prints one line per model, NAME SEEDS MAX_ERROR PASS|FAIL, and exits 1 on any FAIL. With --target aarch64,
$C7X_COMPUTE and $C7X_EMULATOR name programs that execute such modules, as in build-aarch64/bin; under qemu the slow
models run with one thread alone.
"""

import argparse
import dataclasses
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from c7x_compile import check, onnx_model
from c7x_compile.errors import CompileError
from models import MODELS

THREADS = 3
WATCHDOG_SECONDS = "60"  # an operator of dnsmos takes longer than the default under qemu


def main():
    args = _parse()
    if _is_emulated(args.target):
        os.environ.setdefault("C7X_WATCHDOG", WATCHDOG_SECONDS)
    chosen = [model for model in MODELS if _is_chosen(model, args)]
    models = [dataclasses.replace(model, target=args.target) for model in chosen]
    passed = failed = 0
    results = ThreadPoolExecutor(args.jobs).map(lambda model: _errors(model, args.seeds), models)
    for model, errors in zip(models, results, strict=True):
        good = sum(error <= check.ERROR_LIMIT for error in errors)
        passed += good
        failed += args.seeds - good
        verdict = "PASS" if good == args.seeds else "FAIL"
        print(f"{model.name} {args.seeds} {max(errors):.2e} {verdict}", flush=True)
    if args.count:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def _is_emulated(target):
    return target != "native" and target.split(":")[0] != platform.machine()


def _is_chosen(model, args):
    if args.quick:
        return model.quick
    return model.name in args.names if args.names else args.all or not model.slow


def _parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", help="models to run; those of `make test` when none is given"
    )
    parser.add_argument("--all", action="store_true", help="the slow models, too")
    parser.add_argument("--seeds", type=int, default=3, help="inputs for each model (default 3)")
    parser.add_argument("--quick", action="store_true", help="the two smallest models only")
    parser.add_argument("--target", default="native", help="as in c7x-compile (default native)")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time (default 1)")
    parser.add_argument("--count", action="store_true", help="end with 'N passed, N failed'")
    args = parser.parse_args()
    unknown = set(args.names) - {model.name for model in MODELS}
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    if args.seeds < 1 or args.jobs < 1:
        parser.error("--seeds and --jobs must be at least 1")
    return args


def _errors(model, seeds):
    """The largest relative error of each seed; inf for a seed whose run failed."""
    try:
        model.compile()
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{model.name}: {error}", file=sys.stderr)
        return [float("inf")] * seeds
    specialised = model.specialised()
    session = onnx_model.session(specialised)
    names = [value.name for value in onnx_model.graph_inputs(specialised)]
    errors = []
    for seed in range(seeds):
        inputs = model.inputs(seed)
        arrays = [inputs[name] for name in names]
        try:
            outputs, _ = check.run_module(model.module, arrays)
            if seed == 0 and not (model.slow and _is_emulated(model.target)):
                _check_threads(model.module, arrays, outputs)
        except CompileError as error:
            print(f"{model.name}: seed {seed}: {error}", file=sys.stderr)
            errors.append(float("inf"))
            continue
        errors.append(check.worst_error(outputs, session.run(None, inputs)))
    return errors


def _check_threads(module, arrays, expected):
    outputs, _ = check.run_module(module, arrays, threads=THREADS)
    if any(one.tobytes() != other.tobytes() for one, other in zip(outputs, expected, strict=True)):
        raise CompileError(f"the result with {THREADS} threads is not that with one")


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The command c7x-compile."""

import argparse
import sys
from pathlib import Path

from . import __version__

_DESCRIPTION = "Compiles an ONNX model to a module (lib0.out) for the C7x compute firmware."


def main(arguments=None):
    """Runs the command; returns 0 done, 1 failed, 2 wrong usage."""
    parser = _parser()
    args = parser.parse_args(arguments)
    from .errors import CompileError

    try:
        return _run(parser, args)
    except CompileError as error:
        print(f"c7x-compile: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser():
    parser = argparse.ArgumentParser(prog="c7x-compile", description=_DESCRIPTION)
    parser.add_argument("model", metavar="MODEL.onnx")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the module to write, usually lib0.out"
    )
    parser.add_argument(
        "--target",
        default="native",
        metavar="TARGET",
        help="native (on x86-64 code for levels v2 to v4, chosen when it is loaded), native:host (this host's best "
        "alone), aarch64, either also with :MARCH (gcc's -march), or c7x (with --emit-c: TI's tools are not here)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,48,320",
        help="shape of an input with open dimensions",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="freeze a small input to a constant, for example sr=16000",
    )
    parser.add_argument(
        "--plain", action="store_true", help="TVM's own loops: no schedule, no fast kernels"
    )
    parser.add_argument(
        "--profile-layers",
        action="store_true",
        help="print the time of each operator after each call",
    )
    parser.add_argument(
        "--preempt",
        choices=("sections", "anywhere"),
        default="sections",
        help="where a higher priority takes the core: between operators (default), or also inside",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print the kernel of each operator, why it was chosen, its GFLOP and what it moves",
    )
    parser.add_argument(
        "--emit-c", metavar="DIR", help="also write the C, its data and the commands"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the module on the emulator and compare with onnxruntime",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="random inputs for --check"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input for --check in place of random numbers",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--version", action="version", version=f"c7x-compile {__version__}")
    return parser


def _run(parser, args):
    shapes = _pairs(parser, "--shape", args.shape)
    constants = _pairs(parser, "--set", args.set)
    inputs = _pairs(parser, "--input", args.input)
    for name, text in shapes.items():
        try:
            shapes[name] = tuple(int(extent) for extent in text.split(",") if text)
        except ValueError:
            parser.error(f"--shape {name}={text}: not a list of integers")
        if any(extent <= 0 for extent in shapes[name]):
            parser.error(f"--shape {name}={text}: dimensions must be positive")
    if args.seeds < 1:
        parser.error("--seeds must be at least 1")
    if args.target == "c7x":
        if args.emit_c is None:
            parser.error("--target c7x needs --emit-c DIR: TI's compiler is not here")
        if args.output is not None or args.check:
            parser.error("--target c7x writes no module: neither -o nor --check")
    elif args.output is None and args.emit_c is None:
        parser.error("nothing to write: give -o FILE or --emit-c DIR")
    if args.check and args.output is None:
        parser.error("--check needs -o FILE")

    # Imported late: --help and wrong usage need neither onnxruntime nor TVM.
    from . import targets
    from .compile import Options, compile_model
    from .progress import Progress

    options = Options(
        target=targets.parse(args.target),
        output=Path(args.output) if args.output else None,
        shapes=shapes,
        constants=constants,
        plain=args.plain,
        profile=args.profile_layers,
        preempt_anywhere=args.preempt == "anywhere",
        emit_c=Path(args.emit_c) if args.emit_c else None,
    )
    result = compile_model(args.model, options, Progress(args.quiet))
    for path in (args.output, args.emit_c):
        if path is not None:
            print(f"wrote {path}")
    if args.explain:
        print("\n".join(result.explanation))
    if args.check:
        return _check(result, args, inputs)
    return 0


def _check(result, args, input_files):
    from .check import check_module

    error = check_module(result, Path(args.output), args.seeds, input_files)
    passed = error.worst <= error.limit
    print(
        f"max error {error.worst:.2e} over {error.runs} run(s), limit {error.limit:.0e}: "
        f"{'PASS' if passed else 'FAIL'}"
    )
    return 0 if passed else 1


def _pairs(parser, option, texts):
    pairs = {}
    for text in texts:
        # A name may hold '=' no more than an ONNX name may, but it may hold ':'.
        name, separator, value = text.rpartition("=")
        if not separator or not name:
            parser.error(f"{option} {text}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


if __name__ == "__main__":
    sys.exit(main())

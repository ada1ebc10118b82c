# SPDX-License-Identifier: Apache-2.0
"""The stages from an ONNX file to a module, in order."""

import os
import platform
import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from . import __version__, onnx_model, targets
from .errors import CompileError, UnsupportedOperators
from .weights import Manifest, TensorInfo, pack_io_meta, pack_manifest, pack_weights

_NATIVE_ALIGNMENT = 64
_C7X_ALIGNMENT = 4
_WIRE_RANK_MAX = 6
_DTYPE_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


@dataclass
class Options:
    """shapes: input name -> tuple; constants: input name -> text of its frozen value; output: module
    file or None; emit_c: folder or None; plain: unscheduled loops; profile: TVMPrintLayerProfile;
    preempt_anywhere: a higher priority may take the core in the middle of an operator.
    """

    target: object
    output: Path = None
    shapes: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    plain: bool = False
    profile: bool = False
    preempt_anywhere: bool = False
    emit_c: Path = None


@dataclass(frozen=True)
class Result:
    """specialised: the model before folding, for comparison; inputs, outputs: TensorInfo lists;
    explanation: lines that say what computes each operator."""

    specialised: object
    inputs: list
    outputs: list
    explanation: list


def compile_model(path, options, progress):
    """Compiles an ONNX file. Writes options.output and options.emit_c only when all of it succeeded.

    Raises CompileError, or UnsupportedOperators with every operator that cannot be compiled.
    """
    if options.profile:  # its table belongs to one entry
        options = replace(options, target=targets.for_this_host(options.target))
    plain = options.plain or not options.target.is_native
    with progress.stage("read and fold the model (onnxruntime)"):
        specialised = onnx_model.specialise(
            onnx_model.load(path), options.shapes, options.constants
        )
        folded = onnx_model.fold(specialised, fast=not plain)
        expected_shapes = onnx_model.check_folded(specialised, folded)
    with progress.stage("load TVM"):
        from . import emit, importer, kernels, link, middle, ti
        from .fast import explain
    with progress.stage("import"):
        module = importer.import_onnx(folded)
        outputs = _output_infos(specialised, importer.output_types(module), expected_shapes)
    with progress.stage("lower" if plain else "lower and schedule"):
        lowered = middle.lower(module, plain)
        for note in lowered.notes:
            progress.note(note)
    with progress.stage("emit C"):
        functions, rejected = kernels.parse(lowered.kernel_source, exact_math=options.plain)
        functions.update(lowered.fast.kernels)
        _reject_missing(folded, lowered, rejected)
        texts = [(name, _node_texts(folded, indices) or name) for name, indices in lowered.nodes]
        banner = f"Made by c7x-compile {__version__} from {Path(path).name}."
        emitted = emit.emit(
            lowered.executable,
            functions,
            texts,
            banner,
            options.profile,
            lowered.fast.prelude(),
            planned=options.target.is_native,
        )
        _reject_half(options.target, emitted)
        inputs = [_tensor_info(value) for value in onnx_model.graph_inputs(folded)]
        manifest = Manifest(
            tools=_tools(options.target, link),
            target=options.target.architecture,
            cpu_features=options.target.cpu_features,
            workspace_bytes=emitted.workspace_bytes,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            operators=tuple(emitted.operators),
            model=Path(path).name,
            constant_sizes=tuple(len(data) for _, _, data in emitted.tensors),
            preempt_anywhere=options.preempt_anywhere,
            variants=tuple(
                (variant.entry, variant.cpu_features) for variant in options.target.variants
            ),
        )
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        _write_parts(folder, options.target, emitted, manifest)
        if options.output is not None:
            with progress.stage(f"compile and link ({options.target.compiler})"):
                link.build(options.target, folder, folder / "lib0.out")
        if options.emit_c is not None:
            with progress.stage("write C"):
                _write_c(Path(options.emit_c), folder, options.target, link, ti)
        if options.output is not None:
            _install(folder / "lib0.out", Path(options.output))
    return Result(specialised, inputs, outputs, explain.table(lowered.fast.calls, texts))


def is_current(module, model):
    """Whether a module file is newer than its model and everything that decides the compiler's output."""
    module, here = Path(module), Path(__file__).parent
    if not module.exists():
        return False
    sources = [Path(model), *here.glob("**/*.py"), *here.glob("data/**/*"), here / "exports.txt"]
    made = module.stat().st_mtime_ns
    return all(source.stat().st_mtime_ns < made for source in sources)


def _write_parts(folder, target, emitted, manifest):
    alignment = _NATIVE_ALIGNMENT if target.is_native else _C7X_ALIGNMENT
    (folder / "lib0.c").write_text(emitted.source)
    try:
        (folder / "weights.bin").write_bytes(pack_weights(emitted.tensors, alignment))
    except ValueError as error:
        raise CompileError(str(error)) from error
    (folder / "io_meta.bin").write_bytes(pack_io_meta(manifest.inputs, manifest.outputs))
    (folder / "manifest.bin").write_bytes(pack_manifest(manifest))


def _write_c(destination, folder, target, link, ti):
    destination.mkdir(parents=True, exist_ok=True)
    for name in ("lib0.c", "weights.bin", "io_meta.bin", "manifest.bin"):
        (destination / name).write_bytes((folder / name).read_bytes())
    if target.is_native:
        ti.write_native(destination, target)
    else:
        ti.write_c7x(destination, _undefined_names(destination, link))


def _undefined_names(folder, link):
    """The firmware's functions that lib0.c calls."""
    words = set(re.findall(r"\b([A-Za-z_]\w*)\(", (folder / "lib0.c").read_text()))
    return sorted(words & link.allowed_imports())


def _install(source, destination):
    """Puts the module in place in one step, so that a reader never sees half of it."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}")
    try:
        temporary.write_bytes(source.read_bytes())
        os.replace(temporary, destination)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CompileError(f"{destination}: {error.strerror}") from error


def _reject_missing(folded, lowered, rejected):
    """Names the nodes whose kernels need what modules lack."""
    nodes = []
    for kernel, indices in lowered.nodes:
        if kernel in rejected:
            node = folded.graph.node[indices[0]] if indices else None
            name, kind = (onnx_model.node_name(node), node.op_type) if node else (kernel, "kernel")
            nodes.append((name, kind, rejected[kernel]))
    if nodes:
        raise UnsupportedOperators(nodes)


def _reject_half(target, emitted):
    if not target.is_native and "C7X_HALF" in emitted.source:
        raise CompileError("the model computes in float16, which the c7x target does not have")


def _node_texts(folded, indices):
    nodes = [folded.graph.node[index] for index in indices]
    return " + ".join(f"{onnx_model.node_name(node)}/{node.op_type}" for node in nodes)


def _tensor_info(value):
    return _info(value.name, onnx_model.numpy_dtype(value), onnx_model.static_shape(value))


def _info(name, dtype, shape):
    if len(shape) > _WIRE_RANK_MAX:
        raise CompileError(
            f"tensor '{name}' has {len(shape)} dimensions; requests carry {_WIRE_RANK_MAX}"
        )
    return TensorInfo(name, (_DTYPE_CODES[dtype.kind], dtype.itemsize * 8, 1), tuple(shape))


def _output_infos(specialised, types, expected_shapes):
    """Outputs by ONNX name. Raises CompileError when the import changed a shape."""
    infos = [
        _info(value.name, np.dtype(dtype), shape)
        for value, (shape, dtype) in zip(specialised.graph.output, types, strict=True)
    ]
    for info, shape in zip(infos, expected_shapes or []):
        if info.shape != shape:
            raise CompileError(
                f"output '{info.name}' would have shape {list(info.shape)}, onnxruntime has {list(shape)}"
            )
    return infos


def _tools(target, link):
    from importlib.metadata import version

    names = ("apache-tvm", "onnx", "onnxruntime")
    tools = [f"c7x-compile {__version__}", *(f"{name} {version(name)}" for name in names)]
    tools.append(f"python {platform.python_version()}")
    if target.is_native:
        tools.append(link.gcc_version(target))
    return "; ".join(tools)

# SPDX-License-Identifier: Apache-2.0
"""Writes weights.bin, io_meta and the manifest (docs/modules.md)."""

import struct
from dataclasses import dataclass

_TENSOR_MAGIC = 0xDD5E40F096B4A13F
_IO_META_MAGIC = 0x4D4F4954
_MANIFEST_MAGIC = 0x4D583743
_COUNT_MAX = 4096

TAG_TOOLS = 1
TAG_TARGET = 2
TAG_CPU_FEATURES = 3
TAG_WORKSPACE_BYTES = 4
TAG_L2_BYTES = 5
TAG_FAST_BYTES = 6
TAG_INPUT = 7
TAG_OUTPUT = 8
TAG_OPERATOR = 9
TAG_MODEL = 10
TAG_CONSTANTS = 11
TAG_PREEMPT = 12
TAG_VARIANT = 13


@dataclass(frozen=True)
class TensorInfo:
    """An input or output: ONNX name, dtype (DLPack code, bits, lanes), static shape."""

    name: str
    dtype: tuple
    shape: tuple

    @property
    def size(self):
        """Bytes of the data."""
        size = self.dtype[1] // 8
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class Manifest:
    tools: str
    target: str
    cpu_features: tuple
    workspace_bytes: int
    inputs: tuple
    outputs: tuple
    operators: tuple
    model: str
    constant_sizes: tuple
    preempt_anywhere: bool = False
    variants: tuple = ()  # (entry, cpu_features), the best last


def pack_weights(tensors, alignment):
    """The weights blob. tensors: list of (dtype, shape, bytes); alignment: of each tensor's data from
    the start of the blob, in bytes. Raises ValueError above 4096 tensors."""
    if len(tensors) > _COUNT_MAX:
        raise ValueError(f"{len(tensors)} constants; the format holds {_COUNT_MAX}")
    blob = bytearray(struct.pack("<Q", len(tensors)))
    for dtype, shape, data in tensors:
        header = struct.pack("<iQQiii", 70, _TENSOR_MAGIC, 0, 1, 0, len(shape))
        header += struct.pack("<BBH", *dtype) + struct.pack(f"<{len(shape)}q", *shape)
        header += struct.pack("<q", len(data))
        blob += bytes(-(len(blob) + len(header)) % alignment) + header + data
    return bytes(blob)


def _list_bytes(tensors):
    return _round_up(80 * len(tensors), 64) + sum(_round_up(t.size, 64) for t in tensors)


def pack_io_meta(inputs, outputs):
    """The 40 bytes of struct c7x_io_meta for lists of TensorInfo."""
    return struct.pack(
        "<IIIIQQII",
        _IO_META_MAGIC,
        1,
        len(inputs),
        len(outputs),
        _list_bytes(inputs),
        _list_bytes(outputs),
        1,
        0,
    )


def pack_manifest(manifest):
    """The manifest blob, a multiple of 8 bytes."""
    records = [
        (TAG_TOOLS, manifest.tools.encode()),
        (TAG_TARGET, manifest.target.encode()),
        (TAG_CPU_FEATURES, " ".join(manifest.cpu_features).encode()),
        (TAG_WORKSPACE_BYTES, struct.pack("<Q", manifest.workspace_bytes)),
        (TAG_L2_BYTES, struct.pack("<Q", 0)),
        (TAG_FAST_BYTES, struct.pack("<Q", 0)),
        (TAG_MODEL, manifest.model.encode()),
        (TAG_CONSTANTS, struct.pack(f"<{len(manifest.constant_sizes)}Q", *manifest.constant_sizes)),
    ]
    if manifest.preempt_anywhere:
        records.append((TAG_PREEMPT, struct.pack("<I", 1)))
    records += [
        (TAG_VARIANT, entry.encode() + b"\0" + " ".join(features).encode())
        for entry, features in manifest.variants
    ]
    records += [(TAG_INPUT, _pack_tensor(tensor)) for tensor in manifest.inputs]
    records += [(TAG_OUTPUT, _pack_tensor(tensor)) for tensor in manifest.outputs]
    records += [
        (TAG_OPERATOR, struct.pack("<I", index) + text.encode() + b"\0")
        for index, text in enumerate(manifest.operators)
    ]
    body = b"".join(_pack_record(tag, payload) for tag, payload in records)
    return struct.pack("<IHHII", _MANIFEST_MAGIC, 1, 0, 16 + len(body), len(records)) + body


def _pack_tensor(tensor):
    payload = struct.pack("<BBHI", *tensor.dtype, len(tensor.shape))
    payload += struct.pack(f"<{len(tensor.shape)}q", *tensor.shape)
    return payload + tensor.name.encode() + b"\0"


def _pack_record(tag, payload):
    return struct.pack("<II", tag, len(payload)) + payload + bytes(-len(payload) % 8)


def _round_up(value, multiple):
    return -(-value // multiple) * multiple

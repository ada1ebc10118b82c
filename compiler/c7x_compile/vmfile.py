# SPDX-License-Identifier: Apache-2.0
"""Reads a Relax VM executable (.ro, TVM 0.27): functions, constants, instructions.

The file holds the program that cg_main_dsp is emitted from. Kernels are not in it.
"""

import struct
from dataclasses import dataclass

from .errors import CompileError

_MAGIC = 0xD225DE2F4214151E
_TENSOR_MAGIC = 0xDD5E40F096B4A13F

KIND_PACKED = 0
KIND_VM = 1

REGISTER_VOID = 1 << 54
REGISTER_VM = REGISTER_VOID + 1


@dataclass(frozen=True)
class Function:
    """A VM function (its instructions are start..end) or the name of a kernel or builtin."""

    kind: int
    name: str
    start: int
    end: int
    num_args: int
    register_count: int


@dataclass(frozen=True)
class Constant:
    """type_index as in c7x_module.h. value: Tensor -> (dtype, shape, bytes) with dtype (code, bits,
    lanes); Shape -> tuple of int; Str -> str; Int -> int; Float -> float; DataType -> dtype."""

    type_index: int
    value: object


@dataclass(frozen=True)
class Arg:
    """kind is one of "register", "immediate", "constant", "function"."""

    kind: str
    value: int


@dataclass(frozen=True)
class Call:
    dst: int
    function: int
    args: tuple


@dataclass(frozen=True)
class Ret:
    register: int


@dataclass(frozen=True)
class Goto:
    """target is an absolute instruction index."""

    target: int


@dataclass(frozen=True)
class If:
    """Falls through when the register is true, else goes to the absolute index if_false."""

    condition: int
    if_false: int


@dataclass(frozen=True)
class Executable:
    functions: list
    constants: list
    instructions: list


class _Reader:
    def __init__(self, data):
        self._data = data
        self._offset = 0

    def unpack(self, layout):
        size = struct.calcsize("<" + layout)
        values = struct.unpack_from("<" + layout, self._data, self._offset)
        self._offset += size
        return values[0] if len(values) == 1 else values

    def many(self, code, count):
        values = struct.unpack_from(f"<{count}{code}", self._data, self._offset)
        self._offset += struct.calcsize(code) * count
        return values

    def raw(self, count):
        data = self._data[self._offset : self._offset + count]
        self._offset += count
        return data

    def text(self):
        return self.raw(self.unpack("Q")).decode()

    def at_end(self):
        return self._offset == len(self._data)


def parse(data):
    """Parses the bytes of a .ro file. Raises CompileError when they are not of the known version."""
    try:
        return _parse(_Reader(data))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CompileError(f"unreadable VM executable: {error}") from error


def _parse(reader):
    if reader.unpack("Q") != _MAGIC:
        raise CompileError("VM executable of an unknown version; apache-tvm must be the pinned one")
    reader.text()
    functions = []
    for _ in range(reader.unpack("Q")):
        kind, name = reader.unpack("i"), reader.text()
        start, end, num_args, register_count = reader.unpack("qqqq")
        for _ in range(reader.unpack("Q")):
            reader.text()
        functions.append(Function(kind, name, start, end, num_args, register_count))
    for _ in range(reader.unpack("Q")):
        reader.unpack("q")
        reader.text()
    constants = [_parse_constant(reader) for _ in range(reader.unpack("Q"))]
    offsets = reader.many("q", reader.unpack("Q"))
    code = reader.many("q", reader.unpack("Q"))
    if not reader.at_end():
        raise CompileError("VM executable with bytes after its end")
    instructions = [_decode(code, offset, index) for index, offset in enumerate(offsets)]
    return Executable(functions, constants, instructions)


def _parse_constant(reader):
    type_index = reader.unpack("i")
    if type_index == 70:
        magic, _ = reader.unpack("QQ")
        if magic != _TENSOR_MAGIC:
            raise CompileError("VM executable with a damaged tensor constant")
        reader.unpack("ii")
        ndim = reader.unpack("i")
        dtype = reader.unpack("BBH")
        shape = reader.many("q", ndim)
        return Constant(70, (dtype, shape, reader.raw(reader.unpack("q"))))
    if type_index == 69:
        return Constant(69, reader.many("q", reader.unpack("Q")))
    if type_index == 65:
        return Constant(65, reader.text())
    if type_index == 1:
        return Constant(1, reader.unpack("q"))
    if type_index == 3:
        return Constant(3, reader.unpack("d"))
    if type_index == 5:
        return Constant(5, reader.unpack("BBH"))
    raise CompileError(f"VM executable with a constant of unknown type {type_index}")


def _decode(code, offset, index):
    operation = code[offset]
    if operation == 1:
        dst, function, count = code[offset + 1 : offset + 4]
        words = code[offset + 4 : offset + 4 + count]
        return Call(dst, function, tuple(_decode_arg(word) for word in words))
    if operation == 2:
        return Ret(code[offset + 1])
    if operation == 3:
        return Goto(index + code[offset + 1])
    if operation == 4:
        return If(code[offset + 1], index + code[offset + 2])
    raise CompileError(f"VM executable with an unknown instruction {operation}")


def _decode_arg(word):
    kind = ("register", "immediate", "constant", "function")[(word >> 56) & 0xFF]
    value = word & ((1 << 56) - 1)
    if value >> 55:
        value -= 1 << 56
    return Arg(kind, value)

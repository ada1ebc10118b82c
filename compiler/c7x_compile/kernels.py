# SPDX-License-Identifier: Apache-2.0
"""Rewrites the C that TVM prints for kernels into plain static functions.

TVM's form unpacks a list of TVMFFIAny, allocates each scratch buffer and includes its own headers.
Ours takes one data pointer per tensor and one workspace pointer; small accumulator tiles become
arrays on the stack, which lets the C compiler keep them in registers. The patterns are those of the
pinned TVM version: a text that does not match fails the build instead of passing through.
"""

import re
from dataclasses import dataclass

from . import fastmath
from .errors import CompileError

_STACK_TILE_MAX = 16384  # bytes of an accumulator tile that goes on the stack
_WORKSPACE_ALIGNMENT = 128

_FUNCTION = re.compile(
    r"^TVM_DLL int32_t __tvm_ffi_(\w+)\(void\* self_handle, void\* args, int32_t num_args, "
    r"void\* result\) \{\n(.*?)^\}\n",
    re.MULTILINE | re.DOTALL,
)
_ENTRY = re.compile(
    r"^TVM_DLL int32_t __tvm_ffi_main\(void\* self,.*?^\}\n", re.MULTILINE | re.DOTALL
)
_ARGUMENT = re.compile(
    r"^  int32_t (\w+)_type_index(_\d+)? = \(\(\(TVMFFIAny\*\)args\)\[(\d+)\]\.type_index\);$"
)
_DATA = re.compile(
    r"^  (\w+)\* (\w+) = \(\(\w+\*\)\(\(\w+\*\)\(\(\(DLTensor\*\)(\w+)\)\[0\]\.data\)\)\);$"
)
# Our data pointers have the offset added already.
_OFFSET = re.compile(
    r"^  (int\d+_t) (\w+) = .*\(DLTensor\*\)\w+_handle(?:_\d+)?\)\[0\]\.byte_offset\).*;$"
)
_ALLOCATION = re.compile(
    r"^( *)(\w+)\* (\w+) = \(\(\w+\*\)\(\(\w+\*\)TVMBackendAllocWorkspace\(1, dev_id, "
    r"\(uint64_t\)(\d+)ULL, \d+, \d+\)\)\);\n"
    r" *if \(\3 == NULL\) \{\n *return -1;\n *\}\n",
    re.MULTILINE,
)
_FREE = re.compile(
    r"^ *if \(TVMBackendFreeWorkspace\(1, dev_id, \w+\) != 0\) \{\n *return -1;\n *\}\n",
    re.MULTILINE,
)
_HALF = re.compile(r"\bhalf\b")
_SPECIAL_FLOAT = re.compile(r"(?<![\w.])(inff|inf|nanf|nan)(?![\w(])")
_SPECIAL_VALUES = {
    "inff": "((float)INFINITY)",
    "inf": "((double)INFINITY)",
    "nanf": "((float)NAN)",
    "nan": "((double)NAN)",
}
_PACKED_CALL = re.compile(r'TVMFFIEnvModLookupFromImports\(\w+, "([^"]+)"')
_SYMBOLIC = re.compile(r"_shape\)\[\d+\]\)")
# The initial value of a maximum or minimum, and what makes a buffer one.
_LOWEST = re.compile(r"(\b(\w+)\[[^;=]*\] = )(-?)(?:3\.402823e\+38f|1\.797693e\+308);")
_EXTREME = r"\b{name}\[[^;=]*\] = \(\(\w+\) [<>] \(\w+\) \?"
_FORBIDDEN = ("TVMFFI", "TVMBackend", "__tvm_ffi", "dev_id", "DLTensor", "num_args")


@dataclass(frozen=True)
class Kernel:
    """A kernel as C text. parameters: (C type, name) in call order; workspace_bytes: scratch that the
    caller provides, 0 for none."""

    name: str
    parameters: tuple
    workspace_bytes: int
    text: str


def parse(source, exact_math=False):
    """Reads the C text of a TVM module. exact_math: exp and tanh stay calls of the C library.

    Returns (kernels by name, reasons by name of those that need something modules do not have).
    """
    kernels, rejected = {}, {}
    for name, body in _FUNCTION.findall(source):
        reason = _why_not(body)
        if reason:
            rejected[name] = reason
        else:
            kernels[name] = _kernel(name, body if exact_math else fastmath.replace_calls(body))
    # A module of one kernel has a second function that only calls it.
    rest = _ENTRY.sub("", _FUNCTION.sub("", source))
    if re.search(r"^\w.*\{$", rest, re.MULTILINE):
        raise CompileError(
            "TVM printed a function of unknown form; apache-tvm must be the pinned one"
        )
    return kernels, rejected


def function_name(kernel):
    """The C name of a kernel, out of the way of the C library's names."""
    return f"op_{kernel}"


def _why_not(body):
    """Why a kernel cannot be part of a module, or None."""
    function = _PACKED_CALL.search(body)
    if function:
        return f"needs the runtime function {function.group(1)}"
    if _SYMBOLIC.search(body):
        return "has a shape that is known only at run time"
    if "uint1x" in body or "float8" in body or "bfloat16" in body:
        return "computes in a type that C does not have"
    return None


def _kernel(name, body):
    arguments, offsets, prologue_end = _read_prologue(name, body)
    text = "".join(offsets) + body[prologue_end:]
    workspace = _Workspace()
    text = _FREE.sub("", _ALLOCATION.sub(workspace.place, text))
    text = _LOWEST.sub(lambda match: _infinite_start(match, text), text)
    text = _SPECIAL_FLOAT.sub(lambda match: _SPECIAL_VALUES[match.group(1)], text)
    text = _HALF.sub("C7X_HALF", text)
    found = [word for word in _FORBIDDEN if word in text]
    if found:
        raise CompileError(f"TVM printed kernel {name} in an unknown form ({', '.join(found)})")
    parameters, unused = [], []
    for kind, argument in arguments:
        parameters.append((kind or "void", argument))
        if not re.search(rf"\b{argument}\b", text):
            unused.append(f"  (void){argument};\n")
    signature = [f"{kind} *C7X_RESTRICT {argument}" for kind, argument in parameters]
    if workspace.size:
        signature.append("uint8_t *C7X_RESTRICT workspace")
    text = f"static C7X_NOINLINE int32_t {function_name(name)}({', '.join(signature)}) {{\n{''.join(unused)}{text}}}\n"
    return Kernel(name, tuple(parameters), workspace.size, text)


def _infinite_start(match, text):
    """A maximum starts from minus infinity, not from TVM's lowest finite number: of values that are all
    minus infinity it is that. Other stores of the number stay."""
    store, name, sign = match.groups()
    if re.search(_EXTREME.format(name=name), text):
        return f"{store}{sign}INFINITY;"
    return match.group(0)


def _read_prologue(name, body):
    """Returns the arguments, (C type or None when unused, name) in order, lines that declare element
    offsets as zero, and where the code begins."""
    order, types, offsets = {}, {}, []
    position = code_begins = 0
    depth = 0
    for line in body.splitlines(keepends=True):
        position += len(line)
        argument = _ARGUMENT.match(line.rstrip("\n"))
        data = _DATA.match(line.rstrip("\n"))
        offset = _OFFSET.match(line.rstrip("\n"))
        if argument:
            handle = f"{argument.group(1)}_handle{argument.group(2) or ''}"
            order[int(argument.group(3))] = handle
        elif data:
            types[data.group(3)] = (_HALF.sub("C7X_HALF", data.group(1)), data.group(2))
        elif offset:
            offsets.append(f"  {offset.group(1)} {offset.group(2)} = 0;\n")
        elif depth == 0 and not _is_prologue(line):
            break
        depth += line.count("{") - line.count("}")
        if depth == 0:
            code_begins = position
    if sorted(order) != list(range(len(order))):
        raise CompileError(f"TVM printed kernel {name} with arguments of unknown form")
    arguments = [types.get(order[i], (None, order[i])) for i in range(len(order))]
    return arguments, offsets, code_begins


def _is_prologue(line):
    return (
        re.match(r"  void\* condval(_\d+)?;", line)
        or re.match(r"  if \(\w+_type_index(_\d+)? == 70\) \{", line)
        or re.match(r"  void\* \w+_handle(_\d+)? = \(void\*\)condval", line)
        or re.search(r"_handle(_\d+)?\)\[0\]\.(shape|strides|device\.device_id)\);", line)
        or re.match(r"  if \(!\(\w+_strides(_\d+)? == NULL\)\) \{", line)
        or line.strip() == "}"
    )


class _Workspace:
    """Gives each scratch buffer of a kernel its place."""

    def __init__(self):
        self.size = 0

    def place(self, match):
        indent, kind, name, size = (
            match.group(1),
            match.group(2),
            match.group(3),
            int(match.group(4)),
        )
        if "_local" in name and size <= _STACK_TILE_MAX:
            return f"{indent}{kind} {name}[{size} / sizeof({kind})] C7X_ALIGNED(64);\n"
        offset = self.size
        self.size += -(-max(size, 1) // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        return f"{indent}{kind} *C7X_RESTRICT {name} = ({kind} *)(void *)(workspace + {offset});\n"

# SPDX-License-Identifier: Apache-2.0
"""The memory of a module's main function, laid out at compile time: one workspace, which the firmware
holds between calls, with what the kernels need beside their tensors at its start and then the storages
that TVM has planned, one behind the other. A tensor that is returned, and has its storage for itself,
is an output: it is computed in the caller's window.
"""

from . import vmfile

ALIGNMENT = 128  # the DSP's cache line; no two storages share one


def plan(executable, function, scratch_bytes):
    """A Plan for the function, or None for one whose steps may run twice or not at all."""
    steps = executable.instructions[function.start : function.end]
    if any(isinstance(step, (vmfile.If, vmfile.Goto)) for step in steps):
        return None
    return Plan(scratch_bytes, function.num_args, _find_outputs(executable, steps))


class Plan:
    """size: bytes of the workspace; objects: tensors that have a place of their own."""

    def __init__(self, scratch_bytes, input_count, outputs):
        """outputs: number of the storage, in the order in which they are made -> number of the output."""
        self.size = _align(scratch_bytes)
        self.objects = 0
        self._outputs = outputs
        self._storages = {}
        self._storage_count = 0
        self._placed = set(range(input_count))

    def place_storage(self, register, size):
        """The register holds a storage of `size` bytes from now on."""
        self._storages[register] = (self._storage_count, self.size)
        self._storage_count += 1
        self.size += _align(size)

    def place_of(self, register, offset, size):
        """C text: where a tensor of `size` bytes at `offset` in the register's storage is."""
        number, start = self._storages[register]
        text = f"workspace + {start + offset}"
        if number in self._outputs and size != 0:
            return f"output_place({self._outputs[number]}, {size}, {text})"
        return text

    def add_object(self, register):
        """The number of the object that the register holds from now on."""
        self._placed.add(register)
        self.objects += 1
        return self.objects - 1

    def forget(self, register):
        """It holds something else now."""
        self._placed.discard(register)

    def is_placed(self, register):
        """Whether what it holds, an input or an object of the plan, stays until the call has ended."""
        return register in self._placed


def _align(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _find_outputs(executable, steps):
    """Storage number -> output number, for storages with one tensor, which is returned."""
    made = {}  # register -> what it holds: ("storage", number), ("tensor", storage number), ("tuple", list)
    tensors = {}  # storage number -> how many it has, or may have
    storages = 0
    for step in steps:
        if isinstance(step, vmfile.Ret):
            return _returned(made.get(step.register), tensors)
        name = executable.functions[step.function].name.removeprefix("vm.builtin.")
        held = [made.get(arg.value) if arg.kind == "register" else None for arg in step.args]
        result = None
        if name == "alloc_storage":
            result = ("storage", storages)
            storages += 1
        elif name == "alloc_tensor":
            number = held[0][1]
            whole = step.args[1].kind == "immediate" and step.args[1].value == 0
            tensors[number] = tensors.get(number, 0) + (1 if whole else 2)
            result = ("tensor", number)
        elif name == "make_tuple":
            result = ("tuple", held)
        elif name in ("reshape", "copy"):
            result = next((value for value in held if value), None)
        made[step.dst] = result
    return {}


def _returned(value, tensors):
    values = value[1] if value and value[0] == "tuple" else [value]
    outputs = {}
    for number, element in enumerate(values):
        if element and element[0] == "tensor" and tensors.get(element[1]) == 1:
            outputs.setdefault(element[1], number)
    return outputs

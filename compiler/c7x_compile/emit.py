# SPDX-License-Identifier: Apache-2.0
"""Emits lib0.c: the kernels and cg_main_dsp, in the C7x dialect, from the VM executable.

Each VM function owns a stretch of the one register file; there is no recursion. Ownership is exact:
a register holds one reference, taken by TVMDSPRegSetAny, and the reference that a new object is
created with is dropped at once. A reshaped view holds no reference to its source, so the source is
kept in a register of its own.
"""

import re
from dataclasses import dataclass

from . import fastmath, memory, vmfile
from .errors import CompileError, UnsupportedOperators
from .kernels import function_name

_ARRAY_SIZE_MAX = 128
_RANK_MAX = 8
# Checks of arguments: the firmware has compared the inputs with the manifest before the call.
_CHECKS = {
    "vm.builtin.check_tensor_info",
    "vm.builtin.check_tuple_info",
    "vm.builtin.check_shape_info",
}

_HELPERS = {
    "tensor_of": """
static TVMDSPTensor *tensor_of(const TVMFFIAny *value) {
  return (TVMDSPTensor *)value->v_ptr;
}
""",
    "data_of": """
static void *data_of(const TVMFFIAny *value) {
  const DLTensor *tensor = &((const TVMDSPTensor *)value->v_ptr)->dl_tensor;
  return (char *)tensor->data + tensor->byte_offset;
}
""",
    "store_new": """
/* Moves a new object into a register; its one reference becomes the register's. */
static int store_new(int32_t index, int32_t type_index, void *object) {
  TVMFFIAny value;
  if (object == NULL) {
    return C7X_OUT_OF_MEMORY;
  }
  value.type_index = type_index;
  value.zero_padding = 0;
  value.v_ptr = object;
  TVMDSPRegSetAny(index, &value);
  TVMFFIObjectDecRef(object);
  return 0;
}
""",
    "release": """
static void release(int32_t index) {
  TVMFFIAny none;
  TVMDSPBuiltinNullValue(&none);
  TVMDSPRegSetAny(index, &none);
}
""",
    "place_tensor": """
/* A tensor whose memory is nobody's: it is there as long as the call. */
static void place_tensor(int32_t index, TVMDSPTensor *tensor, void *data, const int64_t *shape,
                         int32_t ndim, DLDataType dtype) {
  static const DLDevice cpu = {kDLCPU, 0};
  TVMFFIAny value;
  tensor->header.type_index = kTVMFFITensor;
  tensor->header.ref_counter = 1;
  tensor->header.deleter = NULL;
  tensor->dl_tensor.data = data;
  tensor->dl_tensor.device = cpu;
  tensor->dl_tensor.ndim = ndim;
  tensor->dl_tensor.dtype = dtype;
  memcpy(tensor->shape_storage, shape, (size_t)ndim * sizeof shape[0]);
  tensor->dl_tensor.shape = tensor->shape_storage;
  tensor->dl_tensor.strides = NULL;
  tensor->dl_tensor.byte_offset = 0;
  value.type_index = kTVMFFITensor;
  value.zero_padding = 0;
  value.v_ptr = tensor;
  TVMDSPRegSetAny(index, &value);
}
""",
    "place_tuple": """
/* A tuple of such tensors, and of inputs and constants; it needs no references. */
static void place_tuple(int32_t index, TVMDSPArray *tuple, const TVMFFIAny *elements, int32_t count) {
  TVMFFIAny value;
  tuple->header.type_index = kTVMFFIArray;
  tuple->header.ref_counter = 1;
  tuple->header.deleter = NULL;
  tuple->size = count;
  memcpy(tuple->elements, elements, (size_t)count * sizeof elements[0]);
  value.type_index = kTVMFFIArray;
  value.zero_padding = 0;
  value.v_ptr = tuple;
  TVMDSPRegSetAny(index, &value);
}
""",
    "output_place": """
/* Where output `number` is computed: at its place in the caller's window, if the firmware says so. */
static uint8_t *output_place(int32_t number, uint64_t size, uint8_t *otherwise) {
  void *place = c7x_module_output != NULL ? c7x_module_output(number, size) : NULL;
  return place != NULL ? (uint8_t *)place : otherwise;
}
""",
    "is_true": """
/* The condition of a branch: a scalar tensor. */
static int is_true(const TVMFFIAny *value) {
  const uint8_t *bytes = (const uint8_t *)data_of(value);
  int size = tensor_of(value)->dl_tensor.dtype.bits / 8;
  int index;
  for (index = 0; index < size; ++index) {
    if (bytes[index] != 0) {
      return 1;
    }
  }
  return 0;
}
""",
}

_PROFILE = """
#if defined(__x86_64__)
#define C7X_TICKS() __builtin_ia32_rdtsc()
#elif defined(__aarch64__)
static uint64_t C7X_TICKS(void) {
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
#elif defined(__C7000__)
#define C7X_TICKS() __TSC
#else
#define C7X_TICKS() 0u
#endif

#define C7X_OPERATOR_COUNT @COUNT@
static const char *const operator_names[C7X_OPERATOR_COUNT] = {
@NAMES@
};
static uint64_t operator_ticks[C7X_OPERATOR_COUNT];
static uint64_t call_ticks;

/* Prints the ticks of the CPU's own counter that each operator of the last call took. */
void TVMPrintLayerProfile(void) {
  uint64_t sum = 0;
  int index;
  printf("layer profile: index ticks percent operator\\n");
  for (index = 0; index < C7X_OPERATOR_COUNT; ++index) {
    double share = call_ticks == 0 ? 0.0 : 100.0 * (double)operator_ticks[index] / (double)call_ticks;
    printf("%4d %12llu %5.1f %s\\n", index, (unsigned long long)operator_ticks[index], share,
           operator_names[index]);
    sum += operator_ticks[index];
  }
  printf("layer profile: sum %llu, call %llu, outside operators %llu\\n", (unsigned long long)sum,
         (unsigned long long)call_ticks, (unsigned long long)(call_ticks - sum));
}
"""


@dataclass(frozen=True)
class Emitted:
    """source: lib0.c; tensors: constants for weights.bin in index order, (dtype, shape, bytes);
    operators: text per kernel call, in call order; workspace_bytes: the largest of any kernel."""

    source: str
    tensors: list
    operators: list
    workspace_bytes: int


def emit(executable, kernels, call_texts, banner, profile=False, prelude="", planned=False):
    """Returns Emitted for a VM executable.

    planned: all memory is one workspace whose layout is fixed here, and outputs are computed in the
    caller's window; else each tensor is allocated at run time, so that a DSP puts small ones into its
    fast memory. kernels: name -> kernels.Kernel; call_texts: list of (kernel name, text) in call order, where the
    text names the ONNX nodes; banner: first comment line; prelude: C that kernels need before them.
    Raises UnsupportedOperators when the program needs a runtime function that modules do not have.
    """
    return _Emitter(executable, kernels, call_texts, profile, prelude, planned).run(banner)


def find_unsupported(executable, kernels):
    """Names of the packed functions that main calls and a module cannot."""
    known = _CHECKS | {f"vm.builtin.{name}" for name in _BUILTINS}
    return sorted(
        {
            function.name
            for function in executable.functions
            if function.kind == vmfile.KIND_PACKED
            and function.name not in known
            and function.name not in kernels
        }
    )


class _Emitter:
    def __init__(self, executable, kernels, call_texts, profile, prelude, planned):
        self._exe = executable
        self._kernels = kernels
        self._call_texts = list(call_texts)
        self._profile = profile
        self._prelude = prelude
        self._tensor_index = {}
        self._tensors = []
        self._bases = {}
        self._operators = []
        self._used = []
        self._needs = set()
        self._locals = set()
        self._shapes = {}
        self._register_count = 0
        self._wants_plan = planned
        self._plan = None  # of the function that is being emitted
        self._tuple_count = 0
        for function in executable.functions:
            if function.kind == vmfile.KIND_VM:
                self._bases[function.name] = self._register_count
                self._register_count += function.register_count

    def run(self, banner):
        missing = find_unsupported(self._exe, self._kernels)
        if missing:
            raise UnsupportedOperators(
                [(name, "runtime function", "modules have none") for name in missing]
            )
        functions = {f.name: f for f in self._exe.functions if f.kind == vmfile.KIND_VM}
        nested = [self._function(f) for name, f in functions.items() if name != "main"]
        main = self._function(functions["main"])
        workspace = self._plan.size if self._plan else self._scratch_bytes()
        source = self._assemble(banner, nested, main, functions["main"], workspace)
        return Emitted(source, self._tensors, self._operators, workspace)

    def _scratch_bytes(self):
        """What the kernels need beside their tensors, all in the same place."""
        names = {
            self._name(step)
            for step in self._exe.instructions
            if isinstance(step, vmfile.Call) and self._name(step) in self._kernels
        }
        return max((self._kernels[name].workspace_bytes for name in names), default=0)

    # ---- functions ----

    def _function(self, function):
        """The C of one VM function's body, as a function of its own."""
        self._base = self._bases[function.name]
        self._plan = None
        if function.name == "main" and self._wants_plan:
            self._plan = memory.plan(self._exe, function, self._scratch_bytes())
        self._locals = {"status"}
        code = range(function.start, function.end)
        self._views = self._find_views(code)
        targets = set()
        for index in code:
            step = self._exe.instructions[index]
            if isinstance(step, vmfile.Goto):
                targets.add(step.target)
            elif isinstance(step, vmfile.If):
                targets.add(step.if_false)
        lines = []
        for index in code:
            if index in targets:
                lines.append(f"at_{index}:")
            lines += self._instruction(self._exe.instructions[index])
        lines = _drop_unused_label_tail(lines)
        declarations = {
            "status": "  int status = 0;",
            "section": "  int32_t section;",
            "begin": "  uint64_t begin;",
            "result": "  TVMFFIAny result;",
            "args": f"  TVMFFIAny args[{_ARRAY_SIZE_MAX}];",
        }
        head = [declarations[name] for name in declarations if name in self._locals]
        name = _identifier(function.name)
        return "\n".join(
            [
                f"static int run_{name}(TVMFFIAny *constants, uint8_t *workspace, int32_t *result_register) {{"
            ]
            + head
            + ["  (void)constants;", "  (void)workspace;"]
            + lines
            + ["}", ""]
        )

    def _find_views(self, code):
        """Registers whose value is a reshaped view -> the register that keeps the source."""
        views = {}
        for index in code:
            step = self._exe.instructions[index]
            if isinstance(step, vmfile.Call) and self._name(step) == "vm.builtin.reshape":
                views[step.dst] = self._register_count
                self._register_count += 1
        shared = set()
        for index in code:
            step = self._exe.instructions[index]
            if isinstance(step, vmfile.Call) and self._name(step) not in self._kernels:
                shared |= {a.value for a in step.args if a.kind == "register"}
        # A view that is only read by kernels dies with its register; any other keeps its source to the
        # end of the call, since a copy of the view may outlive the register.
        self._dies_with_view = {r: keeper for r, keeper in views.items() if r not in shared}
        return views

    def _name(self, call):
        return self._exe.functions[call.function].name

    def _instruction(self, step):
        if isinstance(step, vmfile.Ret):
            return [f"  *result_register = {self._base + step.register};", "  return status;"]
        if isinstance(step, vmfile.Goto):
            return [f"  goto at_{step.target};"]
        if isinstance(step, vmfile.If):
            self._needs |= {"is_true", "data_of", "tensor_of"}
            return [
                f"  if (!is_true(&registers[{self._base + step.condition}])) {{",
                f"    goto at_{step.if_false};",
                "  }",
            ]
        name = self._name(step)
        if name in self._kernels:
            return self._kernel_call(name, step)
        if self._exe.functions[step.function].kind == vmfile.KIND_VM:
            return self._nested_call(name, step)
        if name in _CHECKS:
            return []
        return _BUILTINS[name.removeprefix("vm.builtin.")](self, step)

    def _kernel_call(self, name, step):
        kernel = self._kernels[name]
        if len(step.args) != len(kernel.parameters):
            raise CompileError(
                f"kernel {name} takes {len(kernel.parameters)} tensors, not {len(step.args)}"
            )
        self._needs.add("data_of")
        self._locals.add("section")
        arguments = [
            f"({kind} *)data_of({self._value(arg)})"
            for (kind, _), arg in zip(kernel.parameters, step.args)
        ]
        if kernel.workspace_bytes:
            arguments.append("workspace")
        number = len(self._operators)
        text = self._operator_text(name)
        self._operators.append(text)
        if name not in self._used:
            self._used.append(name)
        before, after = [], []
        if self._profile:
            self._locals.add("begin")
            before = ["  begin = C7X_TICKS();"]
            after = [f"  operator_ticks[{number}] = C7X_TICKS() - begin;"]
        call = _wrap(f"  status = {function_name(name)}(", arguments, ");")
        return [
            f"  /* {number}: {_comment(text)} */",
            "  section = TVM_lockInterrupts();",
            *before,
            *call,
            *after,
            "  TVM_unlockInterrupts(section);",
            *_FAIL,
        ]

    def _operator_text(self, kernel):
        """The ONNX nodes of the next call. Builtins that replace a kernel have no call of their own."""
        while self._call_texts:
            name, text = self._call_texts.pop(0)
            if name == kernel:
                return text
        return kernel

    def _nested_call(self, name, step):
        if self._plan:
            self._plan.forget(step.dst)
        base = self._bases[name]
        lines = [
            f"  TVMDSPRegSetAny({base + index}, {self._value(arg)});"
            for index, arg in enumerate(step.args)
        ]
        lines += [
            "  {",
            "    int32_t returned = 0;",
            f"    status = run_{_identifier(name)}(constants, workspace, &returned);",
            "    if (status != 0) {",
            "      return status;",
            "    }",
            f"    TVMDSPRegSetAny({self._base + step.dst}, &registers[returned]);",
            "  }",
        ]
        return lines

    # ---- operands ----

    def _value(self, arg):
        """A C expression of type const TVMFFIAny * for a register or a tensor constant."""
        if arg.kind == "register" and arg.value < vmfile.REGISTER_VOID:
            return f"&registers[{self._base + arg.value}]"
        if arg.kind == "constant":
            return f"&constants[{self._tensor(arg.value)}]"
        raise CompileError(f"the program passes a {arg.kind} where a tensor is needed")

    def _tensor(self, index):
        if index not in self._tensor_index:
            constant = self._exe.constants[index]
            if constant.type_index != 70:
                raise CompileError("the program passes a constant that is no tensor to a kernel")
            self._tensor_index[index] = len(self._tensors)
            self._tensors.append(constant.value)
        return self._tensor_index[index]

    def _constant(self, arg, type_index):
        constant = self._exe.constants[arg.value] if arg.kind == "constant" else None
        if constant is None or constant.type_index != type_index:
            raise CompileError(
                "the program computes a shape at run time; only static shapes compile"
            )
        return constant.value

    def _shape(self, shape):
        """Name of a static array that holds the shape."""
        if len(shape) > _RANK_MAX:
            raise CompileError(
                f"a tensor has {len(shape)} dimensions; modules have at most {_RANK_MAX}"
            )
        name = "shape_" + ("_".join(str(extent) for extent in shape) or "scalar")
        self._shapes[name] = tuple(shape) or (1,)
        return name

    # ---- builtins ----

    def _alloc_storage(self, step):
        shape, device = self._constant(step.args[1], 69), step.args[2].value
        dtype = self._constant(step.args[3], 5)
        size = _size_of(dtype)
        for extent in shape:
            size *= extent
        if self._plan:
            self._plan.place_storage(step.dst, size)
            return []
        self._needs.add("store_new")
        return [
            f"  status = store_new({self._base + step.dst}, kTVMDSPStorage,",
            f"                     TVMDSPBuiltinAllocStorage({size}, {device}, {_dtype_name(dtype)}));",
            *_FAIL,
        ]

    def _alloc_tensor(self, step):
        storage, offset = step.args[0].value, step.args[1].value
        shape, dtype = self._constant(step.args[2], 69), self._constant(step.args[3], 5)
        if self._plan:
            size = _size_of(dtype)
            for extent in shape:
                size *= extent
            place = self._plan.place_of(storage, offset, size)
            if place.startswith("output_place"):
                self._needs.add("output_place")
            return self._placed_tensor(step.dst, place, shape, _dtype_name(dtype))
        self._needs.add("store_new")
        call = _wrap(
            "                     TVMDSPBuiltinAllocTensor(",
            [
                f"(TVMDSPStorage *)registers[{self._base + storage}].v_ptr",
                str(offset),
                self._shape(shape),
                str(len(shape)),
                _dtype_name(dtype),
            ],
            "));",
        )
        return [f"  status = store_new({self._base + step.dst}, kTVMFFITensor,", *call, *_FAIL]

    def _placed_tensor(self, register, data, shape, dtype):
        """A tensor of the plan; data and dtype are C text."""
        self._needs.add("place_tensor")
        return _wrap(
            "  place_tensor(",
            [
                str(self._base + register),
                f"&tensors[{self._plan.add_object(register)}]",
                data,
                self._shape(shape),
                str(len(shape)),
                dtype,
            ],
            ");",
        )

    def _reshape(self, step):
        shape = self._constant(step.args[1], 69)
        source = self._value(step.args[0])
        keeper = self._views[step.dst]
        if self._plan:
            self._needs |= {"data_of", "tensor_of"}
            return [
                f"  TVMDSPRegSetAny({keeper}, {source});",
                *self._placed_tensor(
                    step.dst, f"data_of({source})", shape, f"tensor_of({source})->dl_tensor.dtype"
                ),
            ]
        self._needs |= {"store_new", "tensor_of"}
        return [
            f"  TVMDSPRegSetAny({keeper}, {source});",
            f"  status = store_new({self._base + step.dst}, kTVMFFITensor,",
            f"                     TVMDSPBuiltinReshapeDirect(tensor_of({source}), {self._shape(shape)},",
            f"                                                {len(shape)}));",
            *_FAIL,
        ]

    def _copy(self, step):
        if self._plan:
            self._plan.forget(step.dst)
        return [f"  TVMDSPRegSetAny({self._base + step.dst}, {self._value(step.args[0])});"]

    def _null_value(self, step):
        self._needs.add("release")
        lines = [f"  release({self._base + step.dst});"]
        keeper = self._dies_with_view.get(step.dst)
        return lines + ([f"  release({keeper});"] if keeper is not None else [])

    def _make_tuple(self, step):
        count = len(step.args)
        if count > _ARRAY_SIZE_MAX:
            raise CompileError(
                f"the model has {count} outputs; modules have at most {_ARRAY_SIZE_MAX}"
            )
        fills = [f"  args[{index}] = *{self._value(arg)};" for index, arg in enumerate(step.args)]
        if self._plan and all(
            arg.kind == "constant" or self._plan.is_placed(arg.value) for arg in step.args
        ):
            self._needs.add("place_tuple")
            self._locals.add("args")
            self._tuple_count += 1
            target = f"{self._base + step.dst}, &tuples[{self._tuple_count - 1}]"
            return [*fills, f"  place_tuple({target}, args, {count});"]
        if self._plan:
            self._plan.forget(step.dst)
        self._needs.add("store_new")
        self._locals |= {"args", "result"}
        return [
            *fills,
            f"  status = TVMDSPBuiltinMakeTuplePacked(args, {count}, &result);",
            *_FAIL,
            f"  status = store_new({self._base + step.dst}, kTVMFFIArray, result.v_ptr);",
            *_FAIL,
        ]

    def _tuple_getitem(self, step):
        if self._plan:
            self._plan.forget(step.dst)
        source, index = self._base + step.args[0].value, step.args[1].value
        return [
            f"  TVMDSPRegSetAny({self._base + step.dst},",
            f"                  &((TVMDSPArray *)registers[{source}].v_ptr)->elements[{index}]);",
        ]

    def _read_if_cond(self, step):
        """The branch itself reads the tensor."""
        return self._copy(step)

    def _match_shape(self, step):
        codes = [arg.value for arg in step.args[3:-1:2]]
        if any(code not in (0, 2) for code in codes):
            raise CompileError("the model has shapes that are known only at run time")
        return []

    # ---- file ----

    def _assemble(self, banner, nested, main_body, main, workspace):
        dtypes = sorted(set(re.findall(r"\bdtype_(\w+)\b", main_body + "".join(nested))))
        parts = [
            f"/* {banner} */",
            "#include <math.h>",
            "#include <stdbool.h>",
            "#include <stdio.h>" if self._profile else None,
            "#include <string.h>",
            "",
            '#include "c7x_module.h"',
            "",
            f"#define C7X_REGISTER_COUNT {max(self._register_count, 1)}",
            "#define C7X_OUT_OF_MEMORY (-3)",
            "",
            "static TVMFFIAny registers[C7X_REGISTER_COUNT];",
        ]
        if self._plan and self._plan.objects:
            parts.append(f"static TVMDSPTensor tensors[{self._plan.objects}];")
        if self._tuple_count:
            parts.append(f"static TVMDSPArray tuples[{self._tuple_count}];")
        for name, shape in sorted(self._shapes.items()):
            extents = ", ".join(str(extent) for extent in shape)
            parts.append(f"static const int64_t {name}[{len(shape)}] = {{{extents}}};")
        for text in dtypes:
            code, bits, lanes = text.split("_")
            parts.append(f"static const DLDataType dtype_{text} = {{{code}, {bits}, {lanes}}};")
        for name, text in _HELPERS.items():
            if name in self._needs:
                parts.append(text.rstrip())
        if self._profile:
            names = ",\n".join(f'    "{_c_string(text)}"' for text in self._operators)
            parts.append(
                _PROFILE.replace("@COUNT@", str(len(self._operators))).replace("@NAMES@", names)
            )
        kernels = [self._kernels[name].text for name in self._used]
        parts += [fastmath.definitions("".join(kernels)), self._prelude, *kernels]
        parts += [*nested, main_body]
        parts.append(self._entry(main, workspace))
        return "\n".join(part for part in parts if part is not None)

    def _entry(self, main, workspace):
        base = self._bases["main"]
        written = {
            step.dst
            for step in self._exe.instructions[main.start : main.end]
            if isinstance(step, vmfile.Call)
        }
        # An input register that the program overwrites must own its reference; others only borrow.
        takes = [index for index in range(main.num_args) if index in written]
        lines = [
            "int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output) {",
            "  uint8_t *workspace = NULL;",
            "  int32_t result_register = 0;",
            "  int status;",
            f"  if (num_inputs != {main.num_args}{' || constants == NULL' if self._tensors else ''}) {{",
            "    return -1;",
            "  }",
            "  memset(registers, 0, sizeof registers);",
            "  TVMDSPRegFileInit(registers, C7X_REGISTER_COUNT);",
        ]
        for index in range(main.num_args):
            if index in takes:
                lines.append(f"  TVMDSPRegSetAny({base + index}, &inputs[{index}]);")
            else:
                lines.append(f"  registers[{base + index}] = inputs[{index}];")
        if not main.num_args:
            lines.append("  (void)inputs;")
        if workspace:
            lines += [
                f"  workspace = (uint8_t *)TVMBackendAllocWorkspace(kDLCPU, 0, {workspace}, kDLUInt, 8);",
                "  if (workspace == NULL) {",
                "    return C7X_OUT_OF_MEMORY;",
                "  }",
            ]
        if self._profile:
            lines.append("  call_ticks = C7X_TICKS();")
        lines.append("  status = run_main(constants, workspace, &result_register);")
        if self._profile:
            lines.append("  call_ticks = C7X_TICKS() - call_ticks;")
        if workspace and not self._plan:  # else the firmware takes it back, when it has the outputs
            lines.append("  TVMBackendFreeWorkspace(kDLCPU, 0, workspace);")
        lines += [
            "  if (status == 0) {",
            "    *output = registers[result_register];",
            "  }",
            "  return status;",
            "}",
            "",
        ]
        return "\n".join(lines)


_FAIL = ["  if (status != 0) {", "    return status;", "  }"]

_BUILTINS = {
    "alloc_storage": _Emitter._alloc_storage,
    "alloc_tensor": _Emitter._alloc_tensor,
    "reshape": _Emitter._reshape,
    "copy": _Emitter._copy,
    "null_value": _Emitter._null_value,
    "make_tuple": _Emitter._make_tuple,
    "tuple_getitem": _Emitter._tuple_getitem,
    "read_if_cond": _Emitter._read_if_cond,
    "match_shape": _Emitter._match_shape,
}


def _drop_unused_label_tail(lines):
    """A label needs a statement behind it."""
    return lines + ["  return status;"] if lines and lines[-1].endswith(":") else lines


def _size_of(dtype):
    return (dtype[1] * dtype[2] + 7) // 8


def _dtype_name(dtype):
    return "dtype_{}_{}_{}".format(*dtype)


def _identifier(name):
    return re.sub(r"\W", "_", name)


def _comment(text):
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")


def _c_string(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _wrap(head, arguments, tail, width=100):
    """A call broken after commas so that no line is wider than width where that is possible."""
    indent = " " * len(head)
    lines, line = [], head
    for index, argument in enumerate(arguments):
        piece = argument + (tail if index == len(arguments) - 1 else ",")
        separator = "" if line in (head, indent) else " "
        if len(line) + len(separator) + len(piece) > width and line not in (head, indent):
            lines.append(line)
            line, separator = indent, ""
        line += separator + piece
    return [*lines, line if arguments else head + tail]

# SPDX-License-Identifier: Apache-2.0
"""The templates of the fast path on random ragged shapes, on every instruction set that runs here,
against float64; with canaries around the outputs and behind the scratch memory."""

import functools
import itertools
import os
import platform
import shutil
import subprocess
import unittest

import numpy as np

import support
from c7x_compile import link, targets
from c7x_compile.fast import generate
from c7x_compile.fast.choose import (
    Choice,
    Convolution,
    Product,
    choose_deconvolution,
    choose_layer_norm,
    choose_max_pool,
    choose_product,
    choose_softmax,
    choose_variable_product,
)
from c7x_compile.fast import choose
from c7x_compile.fast.generate import Epilogue

_CANARY = 777.0
_CANARIES = 64
_LIMIT = 2e-5  # max|a-b| / max|b|; of Winograd's form 5e-6 was seen, of all others 1e-6
_FLAGS = "-O2 -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror".split()

# value * column + each, bounded: reads both kinds of operands and numbers.
_EPILOGUE = Epilogue(
    (
        "vec a = value * vec_load_column(operands[0], {within}, column);",
        "vec b = a + vec_load_column(operands[1] + row * {columns}L, {within}, column);",
        "vec c = vec_max(b, NUMBER(0)) * vec_sigmoid(NUMBER(1) * b);",
    ),
    "c",
    (-0.5, 1.7),
    (False, True),
)


def _epilogue(columns, within, each):
    lines = tuple(line.format(columns=columns, within=within) for line in _EPILOGUE.lines)
    if not each:
        lines = tuple(line.replace(f" + row * {columns}L", "") for line in lines)
    return Epilogue(lines, _EPILOGUE.result, _EPILOGUE.numbers, (False, each))


def _expected_epilogue(value, column, each):
    b = value * column + each
    return np.maximum(b, -0.5) / (1 + np.exp(-np.float64(np.float32(1.7)) * b))


class Case:
    """One kernel with its data. reference: what its template must give before the epilogue, as
    [rows, columns] in float64."""

    def __init__(self, choice, data, reference, generator, weights=None, each=True):
        """each: whether the template can have an operand with a value for each result."""
        self.choice, self.data = choice, data
        self.weights = choice.weights if weights is None else weights
        columns = reference.shape[-1]
        within = columns // choice.groups
        self.column = generator.normal(0, 1, columns).astype(np.float32)
        self.each = generator.normal(0, 1, reference.shape).astype(np.float32)
        if not each:
            self.each = np.broadcast_to(self.each[:1], reference.shape)
        self.expected = _expected_epilogue(reference, self.column, self.each)
        self.epilogue = _epilogue(columns, within, each)

    def inputs(self):
        arrays = [self.data, self.weights, self.column, self.each]
        if self.choice.inputs == 1:
            del arrays[1]
        return [each.astype(np.float32).ravel() for each in arrays]


def _product(generator):
    rows, depth, columns = (int(generator.integers(1, most)) for most in (70, 1300, 150))
    data = generator.normal(0, 1, (rows, depth)).astype(np.float32)
    weight = (generator.normal(0, 1, (depth, columns)) / np.sqrt(depth)).astype(np.float32)
    choice = choose_product(Product(rows, depth, columns), weight)
    return Case(choice, data, data.astype(np.float64) @ weight, generator)


def _variable_product(generator):
    images, rows, depth, columns = (int(n) for n in generator.integers(1, (4, 40, 60, 90)))
    data = generator.normal(0, 1, (images, rows, depth)).astype(np.float32)
    weights = (generator.normal(0, 1, (images, depth, columns)) / np.sqrt(depth)).astype(np.float32)
    choice = choose_variable_product(Product(rows, depth, columns, images))
    reference = (data.astype(np.float64) @ weights).reshape(-1, columns)
    return Case(choice, data, reference, generator, weights)


def _softmax(generator):
    rows, columns = (int(generator.integers(1, most)) for most in (20, 70))
    data = generator.normal(0, 3, (rows, columns)).astype(np.float32)
    powers = np.exp(data.astype(np.float64))
    reference = powers / powers.sum(axis=1, keepdims=True)
    return Case(choose_softmax(rows, columns), data, reference, generator)


def _layer_norm(generator):
    rows, columns = (int(generator.integers(1, most)) for most in (20, 90))
    data = generator.normal(3, 2, (rows, columns)).astype(np.float32)
    scale, shift = generator.normal(1, 1, (2, columns)).astype(np.float32)
    centred = data - data.mean(axis=1, keepdims=True, dtype=np.float64)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    choice = choose_layer_norm(rows, scale, shift, 1e-5)
    return Case(choice, data, centred / deviation * scale + shift, generator)


def _max_pool(generator):
    kernel, strides = (tuple(map(int, generator.integers(1, 4, 2))) for _ in range(2))
    pads = tuple(int(generator.integers(0, extent)) for extent in kernel)
    shape = tuple(int(n) for n in generator.integers((1, 4, 4, 1), (3, 12, 12, 40)))
    data = generator.normal(0, 1, shape).astype(np.float32)
    padded = np.pad(data, [(0, 0), *((p, p) for p in pads), (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(1, 2))
    reference = windows[:, :: strides[0], :: strides[1]].max(axis=(-2, -1)).astype(np.float64)
    out = reference.shape[1:]
    choice = choose_max_pool(Convolution(*shape, kernel, strides, pads, *out, depthwise=True))
    return Case(choice, data, reference.reshape(-1, shape[-1]), generator)


def _deconvolution(generator):
    """Its rows and columns are no pixels and channels: the reference is in the template's own order."""
    batch, height, width, channels = (int(n) for n in generator.integers(1, (3, 9, 30, 40)))
    count, rows, columns = (int(n) for n in generator.integers(1, (30, 4, 4)))
    data = generator.normal(0, 1, (batch, height, width, channels)).astype(np.float32)
    weight = generator.normal(0, 1, (channels, count, rows, columns)) / np.sqrt(channels)
    weight = weight.astype(np.float32)
    result = np.einsum("bhwc,cnrq->bhrwqn", data.astype(np.float64), weight)
    choice = choose_deconvolution(data.shape, weight)
    return Case(choice, data, result.reshape(-1, columns * count), generator, each=False)


def _convolution(template, generator):
    """A random convolution computed by the function of this name, whatever the choice would be."""
    dilations, groups = (1, 1), 1
    if template == "convolution_im2col":
        *dilations, groups = map(int, generator.integers(1, (3, 3, 5)))
    elif template == "convolution_direct":
        groups = int(generator.integers(1, 4))
    elif template == "depthwise":
        dilations = tuple(map(int, generator.integers(1, 3, 2)))
    elif template == "groups":
        groups = 4 * int(generator.integers(1, 4))
    depthwise, winograd = template == "depthwise", template == "convolution_winograd"
    kernel = (3, 3) if winograd else tuple(map(int, generator.integers(1, 6, 2)))
    strides = (1, 1) if winograd else tuple(map(int, generator.integers(1, 3, 2)))
    pads = tuple(int(generator.integers(0, extent // 2 + 1)) for extent in kernel)
    batch, height, width = int(generator.integers(1, 3)), *map(int, generator.integers(9, 24, 2))
    small = template == "groups"
    channels = groups * int(generator.integers(1, 7 if small else 70))
    most = {"convolution_direct": 64, "groups": 7}.get(template, 130)
    count = groups * int(generator.integers(1, most))
    count = channels if depthwise else count
    data = generator.normal(0, 1, (batch, height, width, channels)).astype(np.float32)
    weight = generator.normal(0, 1, (*kernel, 1 if depthwise else channels // groups, count))
    weight = (weight / np.sqrt(np.prod(weight.shape[:3]))).astype(np.float32)
    reference = _reference(data, weight, strides, pads, dilations, groups)
    shape = Convolution(
        *(*data.shape, kernel, strides, pads, *reference.shape[1:3], count, depthwise),
        *(tuple(dilations), groups),
    )
    matrix = weight.reshape(shape.depth, count)
    choice = {
        "depthwise": lambda: choose._depthwise(shape, weight),
        "groups": lambda: choose._groups(shape, weight),
        "convolution_winograd": lambda: choose._winograd(
            shape, weight, int(generator.choice([2, 4])), ""
        ),
        "convolution_direct": lambda: choose._direct(shape, matrix, ""),
        "convolution_im2col": lambda: choose._im2col(shape, matrix, ""),
    }[template]()
    assert isinstance(choice, Choice)
    return Case(choice, data, reference.reshape(-1, count), generator)


def _reference(data, weight, strides, pads, dilations, groups):
    """A convolution in float64, with the same padding on both sides."""
    if groups > 1:
        parts = zip(np.split(data, groups, axis=3), np.split(weight, groups, axis=3))
        results = [_reference(*part, strides, pads, dilations, 1) for part in parts]
        return np.concatenate(results, axis=3)
    padded = np.pad(data.astype(np.float64), [(0, 0), *((p, p) for p in pads), (0, 0)])
    reach = [(weight.shape[k] - 1) * dilations[k] + 1 for k in range(2)]
    out = [(padded.shape[k + 1] - reach[k]) // strides[k] + 1 for k in range(2)]
    total = np.zeros((data.shape[0], *out, weight.shape[3]))
    for r, q in itertools.product(range(weight.shape[0]), range(weight.shape[1])):
        rows, columns = (
            slice(
                tap * dilations[k], tap * dilations[k] + strides[k] * (out[k] - 1) + 1, strides[k]
            )
            for k, tap in enumerate((r, q))
        )
        part = padded[:, rows, columns]
        depthwise = weight.shape[2] != part.shape[3]
        total += part * weight[r, q, 0] if depthwise else part @ weight[r, q].astype(np.float64)
    return total


def _program(cases):
    """C that reads the arrays of all cases from stdin, runs each kernel, and writes its output and scratch
    canaries to stdout. Every array is a block of its own, so that a sanitizer sees what lies beside.
    """
    kernels = [
        generate.kernel(f"case_{k}{'_shared' if is_shared else ''}", case.choice, case.epilogue, is_shared)
        for k, case in enumerate(cases)
        for is_shared in (False, True)
    ]
    lines = [
        "#include <math.h>\n#include <stdbool.h>\n#include <stdio.h>\n#include <stdlib.h>",
        '#include <string.h>\n#include "c7x_module.h"',
        generate.prelude({case.choice.template for case in cases}),
        *(kernel.text for kernel in kernels),
        f"""
/* In any order: the last task first. */
int TVMBackendParallelLaunch(FTVMParallelLambda function, void *data, int count) {{
  static int threads;
  TVMParallelGroupEnv env = {{NULL, 0}};
  int task, status = 0;
  threads = threads % 9 + 1;
  env.num_task = count != 0 ? count : threads;
  for (task = env.num_task - 1; task >= 0; --task) {{
    status |= function(task, &env, data);
  }}
  return status;
}}
static float *read_array(size_t count) {{
  float *array = (float *)malloc(count * sizeof(float));
  if (fread(array, sizeof(float), count, stdin) != count) {{
    exit(1);
  }}
  return array;
}}
static float *canaries(size_t count) {{
  size_t index;
  float *array = (float *)malloc(count * sizeof(float));
  for (index = 0; index < count; ++index) {{
    array[index] = {_CANARY}f;
  }}
  return array;
}}
int main(void) {{
  float *in[4], *out, *scratch;""",
    ]
    for k, case in enumerate(cases):
        names = [f"in[{index}]" for index in range(len(case.inputs()))]
        lines += [
            f"  {name} = read_array({array.size});" for name, array in zip(names, case.inputs())
        ]
        for kernel in kernels[2 * k : 2 * k + 2]:
            lines.append(_run(kernel, names, case.expected.size))
        lines += [f"  free({name});" for name in names]
    return "\n".join([*lines, "  return 0;\n}\n"])


def _run(kernel, names, size):
    scratch = kernel.workspace_bytes // 4
    workspace = ", (uint8_t *)scratch" if scratch else ""
    return f"""  out = canaries({size + 2 * _CANARIES});
  scratch = canaries({scratch + _CANARIES});
  op_{kernel.name}({", ".join(names)}, out + {_CANARIES}{workspace});
  fwrite(out, sizeof(float), {size + 2 * _CANARIES}, stdout);
  fwrite(scratch + {scratch}, sizeof(float), {_CANARIES}, stdout);
  free(out);
  free(scratch);"""


def _variants():
    """(name, compiler and flags, command that runs the program)."""
    if platform.machine() == "x86_64":
        levels = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
        for level in levels[: levels.index(targets.host_level()) + 1]:
            yield level, ["gcc", "-std=gnu11", f"-march={level}"], []
        sanitize = "-fsanitize=address,undefined -fno-sanitize-recover=all -O1".split()
        yield "sanitizers", ["gcc", "-std=gnu11", "-march=x86-64-v3", *sanitize], []
    else:
        yield "native", ["gcc", "-std=gnu11"], []
    yield "no vectors", ["gcc", "-std=gnu11", "-DC7X_NO_VECTORS"], []
    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"):
        yield "AArch64", ["aarch64-linux-gnu-gcc", "-std=gnu11", "-static"], ["qemu-aarch64"]


class Templates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        generator = np.random.default_rng(11)
        kinds = ["convolution_im2col", "convolution_direct", "convolution_winograd", "depthwise"]
        kinds.append("groups")
        makers = [_product, _deconvolution, _variable_product, _softmax, _layer_norm]
        makers.append(_max_pool)
        makers += [functools.partial(_convolution, kind) for kind in kinds]
        cls.cases = [maker(generator) for maker in makers for _ in range(4)]
        cls._context = support.folder()
        cls.folder = cls._context.__enter__()
        cls.addClassCleanup(cls._context.__exit__, None, None, None)
        (cls.folder / "cases.c").write_text(_program(cls.cases))

    def test_each_instruction_set_agrees_with_float64(self):
        data = b"".join(array.tobytes() for case in self.cases for array in case.inputs())
        for name, compiler, runner in _variants():
            with self.subTest(variant=name):
                program = self.folder / "cases"
                self._compile(compiler, "-o", program, "-lm")
                result = subprocess.run(
                    [*runner, program], input=data, capture_output=True, check=False
                )
                self.assertEqual(result.returncode, 0, result.stderr.decode()[-2000:])
                self._compare(np.frombuffer(result.stdout, np.float32))

    def _compile(self, compiler, *more):
        command = [compiler[0], *_FLAGS, *compiler[1:], f"-I{link.include_folder()}"]
        command += [str(self.folder / "cases.c"), *map(str, more)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr, "")

    def _compare(self, written):
        for case, is_shared in itertools.product(self.cases, (False, True)):
            size = case.expected.size
            before, out, after, scratch = np.split(
                written[: size + 3 * _CANARIES],
                np.cumsum([_CANARIES, size, _CANARIES]),
            )
            written = written[size + 3 * _CANARIES :]
            label = f"{case.choice.function}{case.choice.arguments} {'shared' if is_shared else ''}"
            for canaries in (before, after, scratch):
                self.assertTrue((canaries == _CANARY).all(), label)
            error = np.abs(out - case.expected.ravel()).max() / np.abs(case.expected).max()
            self.assertLessEqual(error, _LIMIT, label)
        self.assertEqual(written.size, 0)

    def test_no_warnings_as_c11_and_cpp14(self):
        for compiler in ("gcc", "clang", "g++", "clang++"):
            language = ["-x", "c++", "-std=c++14"] if "++" in compiler else ["-std=c11"]
            for more in ([], ["-DC7X_NO_VECTORS"]):
                if shutil.which(compiler):
                    with self.subTest(compiler=compiler, more=more):
                        self._compile([compiler, *language, *more, "-O0"], "-c", "-o", os.devnull)


if __name__ == "__main__":
    unittest.main()

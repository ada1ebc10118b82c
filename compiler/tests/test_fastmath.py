# SPDX-License-Identifier: Apache-2.0
"""The inline functions, of floats and of vectors, against double precision: every 127th of all floats, on every
instruction set that runs here."""

import platform
import shutil
import subprocess
import unittest

import support
from c7x_compile import fastmath, link, targets
from c7x_compile.fast import generate

# Name -> in double precision, the largest relative error, and the arguments from which and to which the
# result is normal.
_FUNCTIONS = {
    "fast_expf": ("exp", 1e-7, -86.5, 88.72283),
    "fast_tanhf": ("tanh", 2e-7, -3e38, 3e38),
    "fast_erff": ("erf", 4e-7, -3e38, 3e38),
    "vec_exp": ("exp", 1e-7, -87, 88),
    "vec_sigmoid": ("sigmoid", 2e-7, -87, 3e38),
    "vec_tanh": ("tanh", 3e-7, -3e38, 3e38),
    "vec_erf": ("erf", 4e-7, -3e38, 3e38),
}
# What they give for the smallest and the largest float, and for 0.
_LIMITS = {
    "exp": ("0", "INFINITY", "1"),
    "sigmoid": ("0", "1", "0.5f"),
    "tanh": ("-1", "1", "0"),
    "erf": ("-1", "1", "0"),
}
_STEP = 127

_PROGRAM = """
#include <math.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include "c7x_module.h"
@PRELUDE@
@FUNCTIONS@
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
typedef void (*apply_fn)(const float *in, float *out);
#define VECTOR(name) \\
  static void apply_##name(const float *in, float *out) { \\
    int i; \\
    for (i = 0; i < 16; i += LANES) vec_store(out + i, name(vec_load(in + i))); \\
  }
#define SCALAR(name) \\
  static void apply_##name(const float *in, float *out) { \\
    int i; \\
    for (i = 0; i < 16; ++i) out[i] = name(in[i]); \\
  }
static double sweep(apply_fn apply, double (*exact)(double), float low, float high) {
  double worst = 0;
  uint64_t bits = 0;
  while (bits < (1ull << 32)) {
    float in[16], out[16];
    int count = 0, i;
    for (; count < 16 && bits < (1ull << 32); bits += @STEP@) {
      uint32_t word = (uint32_t)bits;
      float x;
      memcpy(&x, &word, sizeof x);
      if (x >= low && x <= high && fabsf(x) >= 1.2e-38f) in[count++] = x;
    }
    for (i = count; i < 16; ++i) in[i] = 1;
    apply(in, out);
    for (i = 0; i < count; ++i) {
      double right = exact(in[i]), error = fabs(out[i] - right) / fabs(right);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}
static int limits(apply_fn apply, float low, float high, float zero) {
  const float in[16] = {-INFINITY, -1e30f, INFINITY, 1e30f, NAN, 0};
  float out[16];
  apply(in, out);
  return fabsf(out[0] - low) < 1e-37f && fabsf(out[1] - low) < 1e-37f && out[2] == high &&
         out[3] == high && isnan(out[4]) && out[5] == zero;
}
@APPLIES@
int main(void) {
@CALLS@
  return 0;
}
"""


def _program(step):
    applies, calls = [], []
    for name, (exact, _, low, high) in _FUNCTIONS.items():
        kind = "VECTOR" if name.startswith("vec_") else "SCALAR"
        applies.append(f"{kind}({name})")
        calls.append(
            f'  printf("{name} %g %d\\n", sweep(apply_{name}, {exact}, (float){low}, (float){high}), '
            f"limits(apply_{name}, {', '.join(_LIMITS[exact])}));"
        )
    replacements = {
        "PRELUDE": generate.prelude([]),
        "FUNCTIONS": fastmath.definitions("fast_tanhf(fast_erff("),
        "APPLIES": "\n".join(applies),
        "CALLS": "\n".join(calls),
        "STEP": str(step),
    }
    text = _PROGRAM
    for word, value in replacements.items():
        text = text.replace(f"@{word}@", value)
    return text


def _variants():
    """(name, compiler and flags, command that runs the program, step)."""
    native = ["gcc", "-std=gnu11"]
    if platform.machine() == "x86_64":
        yield targets.host_level(), [*native, f"-march={targets.host_level()}"], [], _STEP
    yield "plain", native, [], 4 * _STEP
    yield "no vectors", [*native, "-DC7X_NO_VECTORS"], [], 4 * _STEP
    if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64"):
        arm = ["aarch64-linux-gnu-gcc", "-std=gnu11", "-static"]
        yield "AArch64", arm, ["qemu-aarch64"], 64 * _STEP


class FastMath(unittest.TestCase):
    def test_errors_and_limits(self):
        flags = "-O2 -ftree-vectorize -fno-math-errno -fno-trapping-math -Wall -Werror".split()
        for variant, compiler, runner, step in _variants():
            with self.subTest(variant=variant), support.folder() as folder:
                (folder / "m.c").write_text(_program(step))
                command = [*compiler, *flags, f"-I{link.include_folder()}", "m.c", "-o", "m", "-lm"]
                subprocess.run(command, cwd=folder, check=True)
                output = subprocess.run(
                    [*runner, folder / "m"], capture_output=True, text=True, check=True
                ).stdout
                for line in output.splitlines():
                    name, error, good = line.split()
                    self.assertLessEqual(float(error), _FUNCTIONS[name][1], name)
                    self.assertEqual(good, "1", f"{name} at its limits")
                self.assertEqual(len(output.splitlines()), len(_FUNCTIONS))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""The inline exp and tanh against double precision, over their whole range."""

import ctypes
import subprocess
import unittest

import numpy as np

import support
from c7x_compile import fastmath

SOURCE = """
#include <math.h>
#include <stdint.h>
#include <string.h>
@FUNCTIONS@
void apply(const float *in, float *out, int count, int which) {
  int i;
  if (which == 0) {
    for (i = 0; i < count; ++i) out[i] = fast_expf(in[i]);
  } else {
    for (i = 0; i < count; ++i) out[i] = fast_tanhf(in[i]);
  }
}
"""


class FastMath(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        functions = fastmath.definitions("fast_tanhf(")
        with support.folder() as folder:
            (folder / "m.c").write_text(SOURCE.replace("@FUNCTIONS@", functions))
            command = ["gcc", "-O3", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]
            subprocess.run([*command, str(folder / "m.c"), "-o", str(folder / "m.so")], check=True)
            cls.library = ctypes.CDLL(str(folder / "m.so"))

    def apply(self, values, which):
        values = np.ascontiguousarray(values, np.float32)
        result = np.empty_like(values)
        pointer = ctypes.c_void_p
        self.library.apply(
            pointer(values.ctypes.data), pointer(result.ctypes.data), values.size, which
        )
        return result

    def test_exp(self):
        x = np.linspace(-86.4, 88.7, 2_000_001).astype(np.float32)
        expected = np.exp(x.astype(np.float64))
        self.assertLess(np.max(np.abs(self.apply(x, 0) - expected) / expected), 2.5e-7)

    def test_tanh(self):
        x = np.concatenate([np.linspace(-20, 20, 2_000_001), np.logspace(-30, 0, 10_001)]).astype(
            np.float32
        )
        x = x[x != 0]
        expected = np.tanh(x.astype(np.float64))
        self.assertLess(np.max(np.abs(self.apply(x, 1) - expected) / np.abs(expected)), 2.5e-7)

    def test_limits(self):
        x = [0, np.inf, -np.inf, np.nan, 1000, -1000, 88.73, -88]
        np.testing.assert_array_equal(
            self.apply(x, 0), np.float32([1, np.inf, 0, np.nan, np.inf, 0, np.inf, 0])
        )
        np.testing.assert_array_equal(self.apply(x[:6], 1), np.float32([0, 1, -1, np.nan, 1, -1]))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Declarations of modules, read without any device."""

import unittest

import numpy as np

from c7x_compute import C7xError, TensorSpec, declaration
from support import CLS, LIBRARY, module


class Declarations(unittest.TestCase):
    def test_names_shapes_and_types(self):
        declared = declaration(module("add_one"), so_path=LIBRARY)
        self.assertEqual(declared.inputs, (TensorSpec("x", (4,), np.dtype(np.float32)),))
        self.assertEqual(declared.outputs, (TensorSpec("y", (4,), np.dtype(np.float32)),))

    @unittest.skipUnless(CLS.exists(), "build/models/ppocr-cls is not built")
    def test_a_real_model(self):
        declared = declaration(str(CLS), so_path=LIBRARY)
        self.assertEqual(declared.inputs[0].shape, (1, 3, 48, 192))
        self.assertEqual(declared.outputs[0].shape, (1, 2))

    def test_what_has_none_is_named(self):
        with self.assertRaises(FileNotFoundError):
            declaration(module("no_such_module"), so_path=LIBRARY)
        for path, name in ((module("many_outputs"), "SYMBOL"), (__file__, "LOAD")):
            with self.assertRaises(C7xError) as caught:
                declaration(path, so_path=LIBRARY)
            self.assertEqual(caught.exception.name, name)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments and models that are not ready: the message names the input and the option."""

import unittest

from onnx import helper

import support


def _open_model():
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    return support.model(nodes, {"x": ("batch", 4)}, {"y": ("batch", 4)})


class Usage(unittest.TestCase):
    def run_on(self, onnx_model, *arguments):
        with support.folder() as folder:
            path = support.save(onnx_model, folder / "model.onnx")
            result = support.run_cli(path, "-o", folder / "lib0.out", "--quiet", *arguments)
            self.assertFalse((folder / "lib0.out").exists())
            return result

    def test_wrong_usage_exits_2(self):
        for arguments in (
            [],
            ["m.onnx"],
            ["m.onnx", "--target", "c7x"],
            ["m.onnx", "-o", "f", "--shape", "x"],
            ["m.onnx", "-o", "f", "--shape", "x=a"],
            ["m.onnx", "-o", "f", "--shape", "x=0"],
            ["m.onnx", "--emit-c", "d", "--check"],
            ["m.onnx", "-o", "f", "--seeds", "0"],
        ):
            self.assertEqual(support.run_cli(*arguments)[0], 2, arguments)

    def test_missing_file(self):
        code, _, err = support.run_cli("/no/such.onnx", "-o", "/tmp/never", "--quiet")
        self.assertEqual(code, 1)
        self.assertIn("no such file", err)

    def test_not_a_model(self):
        with support.folder() as folder:
            (folder / "model.onnx").write_bytes(b"\x00\x01 not a model")
            code, _, err = support.run_cli(
                folder / "model.onnx", "-o", folder / "lib0.out", "--quiet"
            )
            self.assertEqual(code, 1)
            self.assertIn("not a readable ONNX model", err)

    def test_unknown_target(self):
        code, _, err = self.run_on(_open_model(), "--target", "z80")
        self.assertEqual(code, 1)
        self.assertIn("unknown target 'z80'", err)

    def test_open_dimension_names_input_and_option(self):
        code, _, err = self.run_on(_open_model())
        self.assertEqual(code, 1)
        self.assertIn("--shape x=N,4", err)

    def test_unknown_input(self):
        code, _, err = self.run_on(_open_model(), "--shape", "z=1,4")
        self.assertEqual(code, 1)
        self.assertIn("no input named 'z'; the inputs are: x", err)

    def test_wrong_rank_and_extent(self):
        self.assertIn("has 2 dimensions", self.run_on(_open_model(), "--shape", "x=1")[2])
        self.assertIn("fixed dimension 4", self.run_on(_open_model(), "--shape", "x=1,5")[2])

    def test_value_that_is_no_number(self):
        code, _, err = self.run_on(_open_model(), "--set", "x=abc")
        self.assertEqual(code, 1)
        self.assertIn("input 'x' cannot be set", err)


if __name__ == "__main__":
    unittest.main()

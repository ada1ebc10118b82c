# SPDX-License-Identifier: Apache-2.0
"""What cannot be compiled is listed in one go by node name, and nothing is written."""

import unittest

import numpy as np
from onnx import TensorProto, helper

import support


class Unsupported(unittest.TestCase):
    def assert_refused(self, onnx_model, names, arguments=()):
        with support.folder() as folder:
            path = support.save(onnx_model, folder / "model.onnx")
            output = folder / "lib0.out"
            code, out, err = support.run_cli(path, "-o", output, "--quiet", *arguments)
            self.assertEqual(code, 1, err)
            self.assertEqual(out, "")
            for name in names:
                self.assertIn(name, err)
            self.assertEqual([entry.name for entry in folder.iterdir()], ["model.onnx"])

    def test_operators_without_a_converter_are_all_listed(self):
        weights = {
            "w": np.ones((1, 12, 4), np.float32),
            "r": np.ones((1, 12, 4), np.float32),
            "w2": np.ones((1, 4, 4), np.float32),
            "r2": np.ones((1, 4, 4), np.float32),
        }
        nodes = [
            helper.make_node("GRU", ["x", "w", "r"], ["", "h"], name="encoder_gru", hidden_size=4),
            helper.make_node("Relu", ["x"], ["a"], name="harmless"),
            helper.make_node(
                "RNN", ["a", "w2", "r2"], ["", "g"], name="decoder_rnn", hidden_size=4
            ),
        ]
        onnx_model = support.model(
            nodes, {"x": (2, 1, 4)}, {"h": (1, 1, 4), "g": (1, 1, 4)}, weights
        )
        self.assert_refused(onnx_model, ["2 operator(s)", "encoder_gru (GRU)", "decoder_rnn (RNN)"])

    def test_operators_of_another_domain_are_all_listed(self):
        nodes = [
            helper.make_node("Fancy", ["x"], ["a"], name="fancy_one", domain="com.example"),
            helper.make_node("Relu", ["a"], ["b"], name="harmless"),
            helper.make_node("Fancier", ["b"], ["y"], name="fancy_two", domain="com.example"),
        ]
        onnx_model = support.model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, domains=["com.example"])
        self.assert_refused(
            onnx_model, ["fancy_one (com.example:Fancy)", "fancy_two (com.example:Fancier)"]
        )

    def test_runtime_shapes_are_reported_by_node(self):
        nodes = [
            helper.make_node("NonZero", ["x"], ["i"], name="find_nonzero"),
            helper.make_node("Cast", ["i"], ["y"], name="to_float", to=TensorProto.FLOAT),
        ]
        onnx_model = support.model(nodes, {"x": (1, 4)}, {"y": (2, "n")})
        self.assert_refused(onnx_model, ["find_nonzero"])

    def test_sorting_is_reported_by_node(self):
        nodes = [
            helper.make_node("TopK", ["x", "k"], ["v", "i"], name="best_of_first"),
            helper.make_node("Relu", ["x"], ["a"], name="harmless"),
            helper.make_node("TopK", ["a", "k"], ["v2", "i2"], name="best_of_second"),
        ]
        onnx_model = support.model(
            nodes,
            {"x": (1, 8)},
            {"v": (1, 3), "v2": (1, 3)},
            {"k": np.array([3])},
        )
        self.assert_refused(onnx_model, ["best_of_first (TopK)", "best_of_second (TopK)"])


if __name__ == "__main__":
    unittest.main()

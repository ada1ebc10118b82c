# SPDX-License-Identifier: Apache-2.0
"""The lowering of LSTM layers computes what onnxruntime's own layer computes."""

import unittest

import numpy as np
from onnx import helper

import support
from c7x_compile import onnx_model
from c7x_compile.lstm import lower_lstm

TIME, BATCH, WIDTH, HIDDEN = 3, 2, 5, 4


def _network(direction, with_state=True, with_bias=True, **attributes):
    generator = np.random.default_rng(3)
    count = 2 if direction == "bidirectional" else 1
    constants = {
        "w": generator.normal(0, 0.5, (count, 4 * HIDDEN, WIDTH)).astype(np.float32),
        "r": generator.normal(0, 0.5, (count, 4 * HIDDEN, HIDDEN)).astype(np.float32),
        "b": generator.normal(0, 0.5, (count, 8 * HIDDEN)).astype(np.float32),
    }
    inputs = {"x": (TIME, BATCH, WIDTH)}
    operands = ["x", "w", "r", "b" if with_bias else ""]
    if with_state:
        inputs |= {"h0": (count, BATCH, HIDDEN), "c0": (count, BATCH, HIDDEN)}
        operands += ["", "h0", "c0"]
    node = helper.make_node(
        "LSTM",
        operands,
        ["y", "h", "c"],
        name="lstm",
        hidden_size=HIDDEN,
        direction=direction,
        **attributes
    )
    state = (count, BATCH, HIDDEN)
    outputs = {"y": (TIME, count, BATCH, HIDDEN), "h": state, "c": state}
    return support.model([node], inputs, outputs, constants)


class Lstm(unittest.TestCase):
    def assert_equal_results(self, network):
        lowered, count = lower_lstm(onnx_model.specialise(network, {}, {}))
        self.assertEqual(count, 1)
        self.assertNotIn("LSTM", [node.op_type for node in lowered.graph.node])
        inputs = onnx_model.random_inputs(network, 1)
        expected = onnx_model.session(network).run(None, inputs)
        actual = onnx_model.session(lowered).run(None, inputs)
        for ours, theirs in zip(actual, expected):
            self.assertLess(onnx_model.relative_error(ours, theirs), 1e-5)

    def test_forward(self):
        self.assert_equal_results(_network("forward"))

    def test_reverse(self):
        self.assert_equal_results(_network("reverse"))

    def test_bidirectional(self):
        self.assert_equal_results(_network("bidirectional"))

    def test_without_state_and_bias(self):
        self.assert_equal_results(_network("forward", with_state=False, with_bias=False))

    def test_what_it_does_not_know_stays(self):
        self.assertEqual(lower_lstm(_network("forward", clip=1.0))[1], 0)
        self.assertEqual(
            lower_lstm(_network("forward", activations=["Sigmoid", "Relu", "Tanh"]))[1], 0
        )


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Small networks through the whole route: compiled, run on the emulated device, compared with
onnxruntime by --check. Each is there for one thing that the emitted main or a rewrite must get right.
"""

import os
import re
import subprocess
import unittest

import numpy as np
from onnx import TensorProto, helper

import support
from c7x_compile import check
from c7x_compile.errors import CompileError


def _device_is_there():
    try:
        return bool(check.find_c7x_compute())
    except CompileError:
        return False


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, name=f"{kind}_{outputs[0]}", **attributes)


def random(*shape):
    return np.random.default_rng(5).normal(0, 1, shape).astype(np.float32)


def branch(nodes, name, shape):
    return helper.make_graph(
        nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
    )


@unittest.skipUnless(_device_is_there(), "c7x_compute is not built")
class Run(unittest.TestCase):
    def check(self, nodes, inputs, outputs, constants=None, arguments=(), limit=1e-4):
        with support.folder() as folder:
            path = support.save(support.model(nodes, inputs, outputs, constants), folder / "m.onnx")
            output = folder / "lib0.out"
            options = ["-o", output, "--quiet", "--check", "--seeds", "2", *arguments]
            code, out, err = support.run_cli(path, *options)
            self.assertEqual(code, 0, out + err)
            self.assertLessEqual(float(re.search(r"max error (\S+)", out).group(1)), limit)

    def test_weights_of_another_model_are_refused(self):
        """The code reads constants without a look at their shapes: others would be read past."""
        program = check.find_c7x_compute()
        networks = {"a": random(40, 30), "b": random(3, 2)}
        with support.folder() as folder:
            environment = {**os.environ, "C7X_DEVICE": f"emu:{folder}/s.sock"}

            def call(*arguments):
                return subprocess.run(
                    [program, *map(str, arguments)],
                    env=environment,
                    text=True,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )

            for name, weight in networks.items():
                shapes = {"x": (1, weight.shape[0])}, {"y": (1, weight.shape[1])}
                network = support.model([node("MatMul", ["x", "w"], ["y"])], *shapes, {"w": weight})
                path = support.save(network, folder / f"{name}.onnx")
                options = ["-o", folder / f"{name}.out", "--emit-c", folder / name, "--quiet"]
                code, out, err = support.run_cli(path, *options)
                self.assertEqual(code, 0, out + err)
            try:
                call("load", folder / "a.out")
                models = [call("model-load", folder / name / "weights.bin") for name in networks]
                ids = [re.search(r"model_id=(\d+)", model.stdout).group(1) for model in models]
                right, wrong = (call("infer", 1, model, "-m", folder / "a.out") for model in ids)
                self.assertEqual(right.returncode, 0, right.stdout)
                self.assertEqual(wrong.returncode, 1, wrong.stdout)
                self.assertIn("made for", wrong.stdout)
            finally:
                call("emulator", "stop")

    # ---- what main does with registers ----

    def test_small_network(self):
        network = support.small_network()
        with support.folder() as folder:
            path = support.save(network, folder / "m.onnx")
            code, out, err = support.run_cli(path, "-o", folder / "lib0.out", "--quiet", "--check")
            self.assertEqual(code, 0, out + err)

    def test_plain_loops(self):
        constants = {"w": random(24, 16, 3, 3)}
        inputs, outputs = {"x": (1, 16, 9, 9)}, {"y": (1, 24, 7, 7)}
        self.check([node("Conv", ["x", "w"], ["y"])], inputs, outputs, constants, ["--plain"])

    def test_input_is_output(self):
        self.check([node("Identity", ["x"], ["y"])], {"x": (2, 3)}, {"y": (2, 3)})

    def test_constant_is_output(self):
        nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["k"], ["z"])]
        self.check(nodes, {"x": (2, 3)}, {"y": (2, 3), "z": (2,)}, {"k": random(2)})

    def test_one_value_is_two_outputs(self):
        nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])]
        self.check(nodes, {"x": (2, 3)}, {"y": (2, 3), "z": (2, 3)})

    def test_views_of_views(self):
        nodes = [
            node("Relu", ["x"], ["a"]),
            node("Reshape", ["a", "s"], ["b"]),
            node("Reshape", ["b", "t"], ["c"]),
            node("Exp", ["c"], ["d"]),
            node("Exp", ["x"], ["e"]),
        ]
        outputs = {"a": (4, 6), "b": (3, 8), "c": (24,), "d": (24,), "e": (4, 6)}
        self.check(nodes, {"x": (4, 6)}, outputs, {"s": np.array([3, 8]), "t": np.array([24])})

    def test_branch_on_an_input(self):
        yes = branch([node("Add", ["x", "x"], ["t"])], "t", (2, 3))
        no = branch([node("Relu", ["x"], ["u"]), node("Neg", ["u"], ["e"])], "e", (2, 3))
        nodes = [
            node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
            node("Exp", ["y"], ["z"]),
        ]
        self.check(nodes, {"x": (2, 3), "c": ((), TensorProto.BOOL)}, {"z": (2, 3)})

    def test_frozen_input(self):
        nodes = [node("Mul", ["x", "k"], ["y"])]
        inputs = {"x": (2, 3), "k": (1,)}
        self.check(nodes, inputs, {"y": (2, 3)}, arguments=["--set", "k=2.5"])

    # ---- types ----

    def test_int64_indices(self):
        nodes = [node("Gather", ["table", "i"], ["y"])]
        self.check(nodes, {"i": ((4,), TensorProto.INT64)}, {"y": (4, 3)}, {"table": random(2, 3)})

    def test_float64_and_float16(self):
        for kind in (TensorProto.DOUBLE, TensorProto.FLOAT16):
            with self.subTest(kind=kind):
                spec = ((9, 33), kind)
                self.check([node("Sin", ["x"], ["y"])], {"x": spec}, {"y": spec})

    def test_scalar_result(self):
        self.check([node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": (40, 50)}, {"y": ()})

    # ---- rewrites and schedule ----

    def test_channels_that_split_into_no_vectors(self):
        constants = {"w": random(42, 24, 1, 1), "b": random(42), "v": random(32, 42, 1, 1)}
        nodes = [
            node("Conv", ["x", "w", "b"], ["a"]),
            node("Relu", ["a"], ["c"]),
            node("Conv", ["c", "v"], ["y"]),
        ]
        self.check(nodes, {"x": (1, 24, 9, 9)}, {"y": (1, 32, 9, 9)}, constants)

    def test_columns_that_split_into_no_vectors(self):
        nodes = [node("Gemm", ["x", "w", "b"], ["a"], transB=1), node("Softmax", ["a"], ["y"])]
        constants = {"w": random(45, 24), "b": random(45)}
        self.check(nodes, {"x": (9, 24)}, {"y": (9, 45)}, constants)

    def test_batched_product_with_columns_padded(self):
        nodes = [node("MatMul", ["x", "w"], ["y"])]
        self.check(nodes, {"x": (2, 9, 24)}, {"y": (2, 9, 45)}, {"w": random(24, 45)})

    def test_transposed_convolution(self):
        nodes = [
            node("ConvTranspose", ["x", "w", "b"], ["a"], strides=[2, 3]),
            node("Relu", ["a"], ["y"]),
        ]
        constants = {"w": random(24, 5, 2, 3), "b": random(5)}
        self.check(nodes, {"x": (1, 24, 9, 7)}, {"y": (1, 5, 18, 21)}, constants)

    def test_transposed_convolution_that_overlaps(self):
        nodes = [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1])]
        self.check(nodes, {"x": (1, 6, 9, 7)}, {"y": (1, 5, 17, 13)}, {"w": random(6, 5, 3, 3)})

    def test_one_dimensional_convolution(self):
        nodes = [
            node("Conv", ["x", "w", "b"], ["a"], strides=[2], pads=[1, 2]),
            node("Relu", ["a"], ["y"]),
        ]
        constants = {"w": random(20, 24, 5), "b": random(20)}
        self.check(nodes, {"x": (2, 24, 29)}, {"y": (2, 20, 14)}, constants)

    def test_grouped_and_dilated_convolutions(self):
        nodes = [
            node("Conv", ["x", "w"], ["a"], group=6, pads=[1, 1, 1, 1]),
            node("Conv", ["a", "v"], ["y"], group=2, dilations=[2, 2]),
        ]
        constants = {"w": random(6, 1, 3, 3), "v": random(8, 3, 3, 3)}
        self.check(nodes, {"x": (2, 6, 17, 19)}, {"y": (2, 8, 13, 15)}, constants)

    # ---- fast kernels ----

    def test_chain_behind_a_convolution_of_two_images(self):
        nodes = [
            node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1]),
            node("HardSigmoid", ["a"], ["h"]),
            node("Mul", ["a", "h"], ["s"]),
            node("Sub", ["three", "s"], ["d"]),
            node("Div", ["d", "six"], ["e"]),
            node("Add", ["x", "e"], ["f"]),
            node("Mul", ["f", "scale"], ["g"]),
            node("Tanh", ["g"], ["y"]),
        ]
        for channels in (5, 24, 70):
            constants = {
                "w": random(channels, channels, 3, 3) / 8,
                "b": random(channels),
                "three": np.float32(3),
                "six": np.float32([6]),
                "scale": random(1, channels, 1, 1),
            }
            with self.subTest(channels=channels):
                shape = (2, channels, 11, 9)
                self.check(nodes, {"x": shape}, {"y": shape}, constants)

    def test_chain_is_cut_where_a_value_has_another_reader(self):
        nodes = [
            node("Conv", ["x", "w"], ["a"]),
            node("Relu", ["a"], ["r"]),
            node("Mul", ["r", "gate"], ["m"]),
            node("ReduceMean", ["r"], ["y"], axes=[2, 3]),
            node("Add", ["m", "a"], ["z"]),
        ]
        inputs = {"x": (1, 24, 9, 7), "gate": (1, 20, 1, 1)}
        outputs = {"r": (1, 20, 9, 7), "y": (1, 20, 1, 1), "z": (1, 20, 9, 7)}
        self.check(nodes, inputs, outputs, {"w": random(20, 24, 1, 1)})

    def test_gelu_behind_a_product(self):
        """As frameworks write it out: a part of the product's kernel."""
        nodes = [
            node("MatMul", ["x", "w"], ["a"]),
            node("Add", ["a", "b"], ["c"]),
            node("Div", ["c", "root"], ["d"]),
            node("Erf", ["d"], ["e"]),
            node("Add", ["e", "one"], ["f"]),
            node("Mul", ["c", "f"], ["g"]),
            node("Mul", ["g", "half"], ["h"]),
            node("Exp", ["h"], ["y"]),
        ]
        constants = {"w": random(24, 45) / 5, "b": random(45), "root": np.float32(np.sqrt(2))}
        constants |= {"one": np.float32(1), "half": np.float32(0.5)}
        shape = (2, 7, 45)
        self.check(nodes, {"x": (2, 7, 24)}, {"y": shape}, constants)
        with support.folder() as folder:
            path = support.save(
                support.model(nodes, {"x": (2, 7, 24)}, {"y": shape}, constants), folder / "m.onnx"
            )
            _, text, _ = support.run_cli(path, "-o", folder / "lib0.out", "--explain")
        self.assertRegex(text, "gemm_0.*Erf_e.*Exp_y")

    def test_chain_passes_changes_of_shape(self):
        nodes = [
            node("Gemm", ["x", "w", "b"], ["a"], transB=1),
            node("Reshape", ["a", "s"], ["c"]),
            node("Add", ["c", "r"], ["d"]),
            node("Relu", ["d"], ["y"]),
        ]
        constants = {"w": random(45, 24), "b": random(45), "s": np.array([2, 3, 45])}
        inputs = {"x": (6, 24), "r": (2, 3, 45)}
        self.check(nodes, inputs, {"y": (2, 3, 45)}, constants)

    def test_convolutions_of_small_groups(self):
        """Of which several are computed as one: 4 to 4 channels, 3 to 5, and 1 to 3."""
        for groups, channels, count in ((8, 4, 4), (6, 3, 5), (10, 1, 3)):
            nodes = [
                node(
                    "Conv", ["x", "w", "b"], ["a"], group=groups, pads=[1, 1, 1, 1], strides=[2, 1]
                ),
                node("Mul", ["a", "gate"], ["c"]),
                node("Add", ["c", "r"], ["y"]),
            ]
            total = groups * count
            constants = {"w": random(total, channels, 3, 3), "b": random(total)}
            shape = (2, total, 5, 9)
            inputs = {"x": (2, groups * channels, 9, 9), "gate": (1, total, 1, 1), "r": shape}
            with self.subTest(groups=groups):
                self.check(nodes, inputs, {"y": shape}, constants)

    def test_chain_behind_a_convolution_of_groups(self):
        nodes = [
            node("Conv", ["x", "w", "b"], ["a"], group=3, pads=[1, 1, 1, 1], dilations=[1, 2]),
            node("Mul", ["a", "gate"], ["c"]),
            node("Add", ["c", "r"], ["y"]),
        ]
        constants = {"w": random(33, 5, 3, 3), "b": random(33)}
        shape = (2, 33, 9, 7)
        inputs = {"x": (2, 15, 9, 9), "gate": (1, 33, 1, 1), "r": shape}
        self.check(nodes, inputs, {"y": shape}, constants)

    def test_transposed_convolutions_of_two_forms(self):
        nodes = [
            node("Conv", ["x", "w"], ["a"]),
            node("ConvTranspose", ["a", "v", "b"], ["c"], strides=[2, 2]),
            node("ConvTranspose", ["c", "u"], ["y"], strides=[1, 1]),
        ]
        constants = {"w": random(20, 24, 1, 1), "v": random(20, 7, 2, 2), "b": random(7)}
        constants["u"] = random(7, 3, 3, 3)
        self.check(nodes, {"x": (1, 24, 6, 5)}, {"y": (1, 3, 14, 12)}, constants)

    def test_chain_behind_a_transposed_convolution(self):
        nodes = [
            node("Conv", ["x", "w"], ["a"]),
            node("ConvTranspose", ["a", "v", "b"], ["c"], strides=[2, 3]),
            node("Mul", ["c", "k"], ["d"]),
            node("Relu", ["d"], ["e"]),
            node("Add", ["e", "r"], ["y"]),
        ]
        constants = {"w": random(20, 24, 1, 1), "v": random(20, 7, 2, 3), "b": random(7)}
        constants["k"] = random(1, 7, 1, 1)
        shape = (2, 7, 12, 15)
        self.check(nodes, {"x": (2, 24, 6, 5), "r": shape}, {"y": shape}, constants)

    def test_attention(self):
        """Products of two variables, over a batch and not."""
        nodes = [
            node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            node("MatMul", ["q", "t"], ["a"]),
            node("Div", ["a", "scale"], ["b"]),
            node("Softmax", ["b"], ["c"], axis=-1),
            node("MatMul", ["c", "v"], ["d"]),
            node("MatMul", ["m", "n"], ["z"]),
            node("Add", ["d", "q"], ["y"]),
        ]
        shape = (2, 3, 11, 15)
        inputs = {"q": shape, "k": shape, "v": shape, "m": (5, 7), "n": (7, 33)}
        self.check(nodes, inputs, {"y": shape, "z": (5, 33)}, {"scale": np.float32(4)})

    def test_padding_that_follows_from_the_shapes(self):
        nodes = [
            node(
                "Conv",
                ["x", "w"],
                ["a"],
                auto_pad="SAME_UPPER",
                strides=[2, 1],
                kernel_shape=[2, 4],
            ),
            node("MaxPool", ["a"], ["b"], auto_pad="SAME_LOWER", kernel_shape=[2, 2]),
            node(
                "AveragePool",
                ["b"],
                ["y"],
                auto_pad="SAME_UPPER",
                kernel_shape=[3, 2],
                strides=[2, 2],
            ),
        ]
        self.check(nodes, {"x": (2, 5, 9, 12)}, {"y": (2, 20, 3, 6)}, {"w": random(20, 5, 2, 4)})

    def test_chains_behind_pooling_and_softmax(self):
        """Also a dilated depthwise convolution, and a softmax of a transpose along an inner dimension."""
        nodes = [
            node("Conv", ["x", "w"], ["a"], group=20, dilations=[2, 3], pads=[1, 3, 0, 3]),
            node("MaxPool", ["a"], ["b"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
            node("Relu", ["b"], ["c"]),
            node("Transpose", ["c"], ["d"], perm=[0, 2, 1, 3]),
            node("Softmax", ["d"], ["e"], axis=2),
            node("Mul", ["e", "k"], ["y"]),
            node("Softmax", ["r"], ["s"], axis=-1),
            node("Add", ["s", "r"], ["t"]),
            node("Tanh", ["t"], ["z"]),
        ]
        inputs = {"x": (2, 20, 11, 13), "r": (3, 5, 37)}
        outputs = {"y": (2, 5, 20, 7), "z": (3, 5, 37)}
        constants = {"w": random(20, 1, 3, 3), "k": random(1, 1, 20, 1)}
        self.check(nodes, inputs, outputs, constants)

    def test_layer_norm(self):
        nodes = [
            node("LayerNormalization", ["x", "s", "b"], ["a"], axis=-1, epsilon=1e-3),
            node("Add", ["a", "x"], ["c"]),
            node("LayerNormalization", ["c", "s"], ["d"], axis=-1),
            node("MatMul", ["d", "w"], ["y"]),
        ]
        constants = {"s": random(37), "b": random(37), "w": random(37, 5)}
        self.check(nodes, {"x": (2, 7, 37)}, {"y": (2, 7, 5)}, constants)

    def test_products_of_other_shapes(self):
        """A broadcast matrix, a constant first operand, a vector."""
        nodes = [
            node("MatMul", ["x", "w"], ["a"]),
            node("MatMul", ["k", "w"], ["b"]),
            node("MatMul", ["v", "w"], ["c"]),
        ]
        inputs = {"x": (2, 6, 5), "w": (5, 20), "v": (5,)}
        outputs = {"a": (2, 6, 20), "b": (7, 20), "c": (20,)}
        self.check(nodes, inputs, outputs, {"k": random(7, 5)})

    def test_product_of_one_hot_rows(self):
        """Of the classes -3 and 4 the first is none of 0..4."""
        nodes = [
            node("Mul", ["x", "seven"], ["a"]),
            node("Sub", ["a", "three"], ["b"]),
            node("Equal", ["b", "classes"], ["c"]),
            node("Cast", ["c"], ["d"], to=TensorProto.FLOAT),
            node("MatMul", ["d", "w"], ["y"]),
        ]
        constants = {
            "seven": np.int32([7]),
            "three": np.int32([3]),
            "classes": np.arange(5, dtype=np.int32),
            "w": random(5, 24),
        }
        inputs = {"x": ((2, 8, 1), TensorProto.INT32)}
        self.check(nodes, inputs, {"y": (2, 8, 24)}, constants)

    def test_transposes_and_slices_that_move_nothing(self):
        nodes = [
            node("Transpose", ["x"], ["a"], perm=[2, 0, 1]),
            node("Transpose", ["a"], ["b"], perm=[1, 2, 0]),
            node("Slice", ["b", "f", "l", "k"], ["c"]),
            node("Slice", ["c", "l", "back", "k", "minus"], ["d"]),
            node("Unsqueeze", ["d", "one"], ["e"]),
            node("Transpose", ["e"], ["y"], perm=[1, 0, 2, 3]),
        ]
        constants = {
            "f": np.array([0]),
            "l": np.array([9]),
            "k": np.array([2]),
            "back": np.array([-99]),
            "minus": np.array([-1]),
            "one": np.array([1]),
        }
        self.check(nodes, {"x": (3, 4, 5)}, {"y": (1, 3, 4, 5)}, constants)

    def test_crop_behind_a_product(self):
        """A slice behind a tile must not be stored with the tile."""
        nodes = [node("MatMul", ["x", "w"], ["a"]), node("Slice", ["a", "f", "l", "k"], ["y"])]
        constants = {
            "w": random(24, 48),
            "f": np.array([3]),
            "l": np.array([40]),
            "k": np.array([1]),
        }
        self.check(nodes, {"x": (9, 24)}, {"y": (9, 37)}, constants)

    def test_sums_along_the_contiguous_dimension(self):
        nodes = [node("ReduceMean", ["x"], ["a"], axes=[-1]), node("Sub", ["x", "a"], ["y"])]
        self.check(nodes, {"x": (12, 96)}, {"y": (12, 96)})

    def test_maximum_of_minus_infinity(self):
        nodes = [
            node("Where", ["c", "x", "low"], ["a"]),
            node("ReduceMax", ["a"], ["m"], axes=[-1], keepdims=1),
            node("Equal", ["m", "low"], ["none"]),
            node("Softmax", ["a"], ["p"], axis=-1),
            node("Where", ["none", "x", "p"], ["y"]),
        ]
        inputs = {"x": (4, 24), "c": ((4, 1), TensorProto.BOOL)}
        outputs = {"m": (4, 1), "y": (4, 24)}
        self.check(nodes, inputs, outputs, {"low": np.float32(-np.inf)})

    def test_scatter(self):
        nodes = [node("ScatterElements", ["x", "i", "u"], ["y"], axis=1)]
        constants = {"i": np.array([[1, 3]]), "u": np.float32([[5, 6]])}
        self.check(nodes, {"x": (1, 5)}, {"y": (1, 5)}, constants)

    def test_constants_keep_their_digits(self):
        """TVM prints this factor as 1.000000; sixty of them show it."""
        nodes, value = [], "x"
        for index in range(60):
            nodes.append(node("Mul", [value, "k"], [f"m{index}"]))
            nodes.append(node("Add", [f"m{index}", "x"], [f"a{index}"]))
            value = f"a{index}"
        nodes.append(node("Identity", [value], ["y"]))
        constants = {"k": np.float32([1.0000005])}
        self.check(nodes, {"x": (16,)}, {"y": (16,)}, constants, limit=2e-6)


if __name__ == "__main__":
    unittest.main()

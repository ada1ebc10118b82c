# SPDX-License-Identifier: Apache-2.0
"""The files that c7x-compile writes: native module, C for TI's tools, C for gcc."""

import platform
import re
import shutil
import struct
import subprocess
import unittest

import numpy as np
from onnx import helper

import support
from c7x_compile import link, targets

EXPORTS = {
    "cg_main_dsp",
    "_binary_weights_bin_start",
    "_binary_weights_bin_end",
    "_binary_weights_bin_size",
    "_binary_tvm_dsp_io_meta_start",
    "_binary_c7x_manifest_start",
    "_binary_c7x_manifest_size",
}
PT_LOAD, PT_DYNAMIC, PT_TLS, PT_GNU_STACK = 1, 2, 7, 0x6474E551
IN_PLACE = 0x00100000
COMPILERS = [
    ["gcc", "-x", "c", "-std=c11"],
    ["g++", "-x", "c++", "-std=c++14"],
    ["clang", "-x", "c", "-std=c11"],
    ["clang++", "-x", "c++", "-std=c++14"],
]


def _names(path, *options):
    command = ["nm", "--format=just-symbols", *options, str(path)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def _segments(data):
    offset, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    fields = ("type", "flags", "offset", "vaddr", "paddr", "filesz", "memsz", "align")
    return [
        dict(zip(fields, struct.unpack_from("<IIQQQQQQ", data, offset + 56 * i)))
        for i in range(count)
    ]


class NativeModule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._context = support.folder()
        cls.folder = cls._context.__enter__()
        cls.addClassCleanup(cls._context.__exit__, None, None, None)
        path = support.save(support.small_network(), cls.folder / "small.onnx")
        cls.module = cls.folder / "lib0.out"
        code, cls.out, err = support.run_cli(
            *(path, "-o", cls.module, "--profile-layers", "--emit-c", cls.folder / "c", "--quiet"),
            "--explain",
        )
        assert code == 0, err
        cls.data = cls.module.read_bytes()

    def test_segments(self):
        segments = _segments(self.data)
        loads = [s for s in segments if s["type"] == PT_LOAD]
        self.assertEqual([s["flags"] for s in loads], [4, 5, 6, 4 | IN_PLACE])
        for segment in loads:
            self.assertEqual(segment["offset"] % 4096, segment["vaddr"] % 4096)
            self.assertEqual(segment["vaddr"] % 4096, 0)
        stack = next(s for s in segments if s["type"] == PT_GNU_STACK)
        self.assertEqual(stack["flags"] & 1, 0)
        self.assertNotIn(PT_TLS, [s["type"] for s in segments])

    def test_weights_fill_their_segment(self):
        weights = [s for s in _segments(self.data) if s["type"] == PT_LOAD][-1]
        blob = self.data[weights["offset"] : weights["offset"] + weights["filesz"]]
        self.assertEqual(blob, (self.folder / "c" / "weights.bin").read_bytes())

    def test_symbols(self):
        defined = _names(self.module, "-D", "--defined-only")
        self.assertEqual(defined, EXPORTS | {"TVMPrintLayerProfile"})
        self.assertLessEqual(_names(self.module, "-D", "--undefined-only"), link.allowed_imports())

    def test_memory_is_planned(self):
        """Nothing is allocated or looked up at run time, and outputs go where the firmware says."""
        imports = _names(self.module, "-D", "--undefined-only")
        self.assertIn("TVMBackendAllocWorkspace", imports)
        self.assertIn("c7x_module_output", imports)
        self.assertEqual({name for name in imports if "Builtin" in name}, {"TVMDSPBuiltinNullValue"})
        self.assertEqual({name for name in imports if "FuncFrom" in name or "alloc" in name}, set())

    def test_dynamic_table(self):
        text = subprocess.run(
            ["readelf", "-dW", str(self.module)], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("soname: [lib0.out]", text)
        self.assertIn("(HASH)", text)
        for tag in ("NEEDED", "TEXTREL", "RELR", "JMPREL", "INIT"):
            self.assertNotIn(tag, text)

    def test_relocations_stay_out_of_the_weights(self):
        weights = [s for s in _segments(self.data) if s["type"] == PT_LOAD][-1]
        text = subprocess.run(
            ["readelf", "-rW", str(self.module)], capture_output=True, text=True, check=True
        ).stdout
        targets = [int(match, 16) for match in re.findall(r"^([0-9a-f]{16}) ", text, re.MULTILINE)]
        self.assertTrue(targets)
        self.assertTrue(all(target < weights["vaddr"] for target in targets))

    def test_manifest_names_tensors_and_nodes(self):
        manifest = (self.folder / "c" / "manifest.bin").read_bytes()
        self.assertIn(manifest, self.data)
        for word in (
            b"keep\0",
            b"first_conv/Conv",
            b"x86_64" if b"x86_64" in manifest else b"aarch64",
        ):
            self.assertIn(word, manifest)

    def test_explanation(self):
        """The first convolution, 3x3 from 3 to 8 channels of 16x16, with its gate."""
        rows = [line.split(maxsplit=3) for line in self.out.splitlines() if "_direct_0 " in line]
        self.assertEqual(len(rows), 1)
        kernel, gflop, megabytes, rest = rows[0]
        self.assertEqual(kernel, "convolution_direct_0")
        self.assertAlmostEqual(float(gflop) * 1e9, 2 * 256 * 27 * 8, delta=5e4)
        self.assertAlmostEqual(float(megabytes) * 1e6, 4 * (256 * 11 + 27 * 16), delta=5e3)
        self.assertRegex(rest, r"^at most 64 output channels +first_conv/Conv")
        self.assertRegex(self.out, r"(?m)^mean\w* .* TVM's loops +.*pool/ReduceMean")

    def test_native_source_compiles_without_warnings_as_c11_and_cpp14(self):
        for command in (command for command in COMPILERS if shutil.which(command[0])):
            with self.subTest(compiler=" ".join(command)):
                flags = ["-Wall", "-Wextra", "-Werror", f"-I{self.folder / 'c'}", "-c", "-o", "/dev/null"]
                source = str(self.folder / "c" / "lib0.c")
                result = subprocess.run(
                    [command[0], *flags, *command[1:], source], capture_output=True, text=True
                )
                self.assertEqual(result.stderr, "")

    def test_emitted_commands_build_a_module(self):
        subprocess.run([str(self.folder / "c" / "build.sh")], check=True)
        link.check(self.folder / "c" / "lib0.out")


@unittest.skipUnless(platform.machine() == "x86_64", "x86-64 only")
class Variants(unittest.TestCase):
    def test_a_module_has_an_entry_for_each_level(self):
        """Each with the same result; the firmware takes the best that it can run."""
        with support.folder() as folder:
            path = support.save(support.small_network(), folder / "small.onnx")
            module = folder / "lib0.out"
            code, _, err = support.run_cli(path, "-o", module, "--quiet", "--check")
            self.assertEqual((code, err), (0, ""))
            entries = {"cg_main_dsp_x86_64_v3", "cg_main_dsp_x86_64_v4"}
            self.assertEqual(_names(module, "-D", "--defined-only"), EXPORTS | entries)
            for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
                if level > targets.host_level():
                    continue
                arguments = ("-o", module, "--target", f"native:{level}", "--quiet", "--check")
                code, _, err = support.run_cli(path, *arguments)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(_names(module, "-D", "--defined-only"), EXPORTS)


class OperatorRecords(unittest.TestCase):
    def test_each_names_its_nodes(self):
        """Also where a chain takes the first step of a node, and where idle nodes are removed."""
        nodes = [
            helper.make_node("Gemm", ["x", "w"], ["a"], name="gemm"),
            helper.make_node("Reshape", ["a", "shape"], ["b"], name="shape_it"),
            helper.make_node("Slice", ["b", "from", "to"], ["c"], name="whole"),
            helper.make_node("Softmax", ["c"], ["d"], name="soft", axis=2),
            helper.make_node("Transpose", ["d"], ["y"], name="turn", perm=[0, 1, 2]),
        ]
        constants = {
            "w": np.ones((24, 45), np.float32),
            "shape": np.array([1, 6, 45]),
            "from": np.array([0]),
            "to": np.array([9]),
        }
        model = support.model(nodes, {"x": (6, 24)}, {"y": (1, 6, 45)}, constants)
        with support.folder() as folder:
            path = support.save(model, folder / "m.onnx")
            code, _, err = support.run_cli(path, "--emit-c", folder / "c", "--quiet")
            self.assertEqual(code, 0, err)
            source = (folder / "c" / "lib0.c").read_text()
        records = re.findall(r"/\* \d+: (.*) \*/\n  section = ", source)
        self.assertIn("gemm/Gemm", records[0])
        self.assertTrue(all("/" in record for record in records), records)
        self.assertIn("soft/Softmax", " ".join(records[1:]))


class Loops(unittest.TestCase):
    def _source(self, model):
        with support.folder() as folder:
            path = support.save(model, folder / "m.onnx")
            code, _, err = support.run_cli(path, "--emit-c", folder / "c", "--quiet")
            self.assertEqual(code, 0, err)
            return (folder / "c" / "lib0.c").read_text()

    def test_a_chain_of_elementwise_operators_keeps_no_values_between_them(self):
        nodes = [
            helper.make_node("Resize", ["x", "", "scales"], ["a"], mode="nearest"),
            helper.make_node("Mul", ["a", "factors"], ["b"]),
            helper.make_node("Exp", ["b"], ["c"]),
            helper.make_node("Add", ["c", "z"], ["y"]),
        ]
        constants = {
            "scales": np.array([1, 1, 2, 2], np.float32),
            "factors": np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1),
        }
        shapes = {"x": (1, 8, 9, 7), "z": (1, 8, 18, 14)}
        source = self._source(support.model(nodes, shapes, {"y": (1, 8, 18, 14)}, constants))
        self.assertIn("op_fused_resize2d_multiply", source)
        self.assertNotIn("(void *)(workspace + ", source)

    def test_what_is_read_again_and_again_is_computed_once(self):
        """The exponentials of a row, by each of many columns."""
        nodes = [
            helper.make_node("Exp", ["x"], ["a"]),
            helper.make_node("Mul", ["a", "z"], ["y"]),
        ]
        shapes = {"x": (30, 1), "z": (30, 70)}
        source = self._source(support.model(nodes, shapes, {"y": (30, 70)}))
        self.assertRegex(source, r"(\w+) < 30; \+\+\1\) \{\n.*fast_expf\(x\[\1\]\);\n +\}")

    def test_a_large_product_is_shared_by_threads_and_a_small_one_is_not(self):
        for rows, is_shared in ((256, True), (1, False)):
            nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
            constants = {"w": np.ones((64, 256), np.float32)}
            model = support.model(nodes, {"x": (rows, 64)}, {"y": (rows, 256)}, constants)
            launches = "fast_launch(op_gemm_0_task" in self._source(model)
            self.assertEqual(launches, is_shared)


class C7xSource(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._context = support.folder()
        cls.folder = cls._context.__enter__()
        cls.addClassCleanup(cls._context.__exit__, None, None, None)
        path = support.save(support.small_network(), cls.folder / "small.onnx")
        cls.c = cls.folder / "c"
        code, _, err = support.run_cli(
            path, "--target", "c7x", "--emit-c", cls.c, "--profile-layers", "--quiet"
        )
        assert code == 0, err

    def test_files(self):
        names = {entry.name for entry in self.c.iterdir()}
        expected = {
            "lib0.c",
            "weights.bin",
            "io_meta.bin",
            "manifest.bin",
            "lib0.cmd",
            "build.sh",
            "c7x_module.h",
        }
        self.assertLessEqual(expected, names)
        for tool in ("lib0.c", "blobs.c", "stubs.c", "lib0.cmd"):
            self.assertIn(tool.removesuffix(".c"), (self.c / "build.sh").read_text())

    def test_sources_compile_without_warnings_as_c11_and_cpp14(self):
        compilers = [command for command in COMPILERS if shutil.which(command[0])]
        self.assertTrue(compilers)
        for command in compilers:
            for source in ("lib0.c", "stubs.c"):
                with self.subTest(compiler=" ".join(command), source=source):
                    flags = [
                        "-Wall",
                        "-Wextra",
                        "-Werror",
                        f"-I{self.c}",
                        "-c",
                        "-o",
                        str(self.c / "x.o"),
                    ]
                    flags += ["-fno-builtin"] if source == "stubs.c" else []
                    result = subprocess.run(
                        [command[0], *flags, *command[1:], str(self.c / source)],
                        capture_output=True,
                        text=True,
                    )
                    self.assertEqual(result.stderr, "")
                    self.assertEqual(result.returncode, 0)

    def test_imports_are_those_of_the_firmware(self):
        subprocess.run(
            [
                "gcc",
                "-O2",
                "-fno-builtin-printf",
                f"-I{self.c}",
                "-c",
                str(self.c / "lib0.c"),
                "-o",
                str(self.c / "n.o"),
            ],
            check=True,
        )
        imports = _names(self.c / "n.o", "--undefined-only") - {"_GLOBAL_OFFSET_TABLE_"}
        self.assertTrue(imports)
        self.assertLessEqual(imports, link.allowed_imports())
        stubs = (self.c / "stubs.c").read_text()
        for name in imports:
            self.assertIn(f" {name}(", stubs)


if __name__ == "__main__":
    unittest.main()

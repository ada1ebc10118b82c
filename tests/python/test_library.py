# SPDX-License-Identifier: Apache-2.0
"""The declarations are those of the headers; the library is found where it should be."""

import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import c7x_compute
from c7x_compute import _library, dtypes
from support import LIBRARY, ROOT, module


def declarations(text):
    """The declarations of C text, one string each: a struct with its body, a prototype, a typedef."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"(?:^[ \t]*#(?:.*\\\n)*.*$)|\bC7X_NODISCARD\b|extern \"C\" \{", " ", text, flags=re.MULTILINE)
    text = text.replace("C7X_CLIENT_RANK_MAX", "6").replace("enum c7x_status", "int")
    parts = re.findall(r"\s*((?:[^;{}]|\{[^{}]*\})+?)\s*;", text)
    return [re.sub(r"\s*([*(),;{}\[\]])\s*", r"\1", re.sub(r"\s+", " ", part)) for part in parts]


class Declarations(unittest.TestCase):
    header = declarations((ROOT / "include" / "c7x_compute_client.h").read_text())

    def test_prototypes_are_the_headers(self):
        for one in declarations(_library.DECLARATIONS):
            if "{" not in one:
                self.assertIn(one, self.header)

    def test_struct_bodies_begin_as_the_headers(self):
        """Structs that begin with struct_size may have grown in the header."""
        structs = [one for one in declarations(_library.DECLARATIONS) if "{" in one]
        self.assertEqual(len(structs), 4)
        for one in structs:
            ours = one.rstrip("}")
            theirs = [candidate for candidate in self.header if candidate.startswith(ours)]
            self.assertEqual(len(theirs), 1, one)
            if "struct_size" not in one:
                self.assertEqual(theirs[0], one)

    def test_every_function_that_is_called_is_declared(self):
        sources = "".join(path.read_text() for path in Path(c7x_compute.__file__).parent.glob("*.py"))
        called = set(re.findall(r"\bc\.(c7x_\w+)", sources))
        self.assertEqual(called - set(_library._FUNCTIONS), set())
        self.assertGreater(len(called), 10)

    def test_tensor_has_the_frozen_layout(self):
        self.assertEqual(_library.ffi.sizeof("struct c7x_client_tensor"), 80)
        offsets = {"data": 0, "data_size": 8, "ndim": 16, "dtype_code": 20, "dtype_bits": 24, "reserved": 28,
                   "shape": 32}
        for field, offset in offsets.items():
            self.assertEqual(_library.ffi.offsetof("struct c7x_client_tensor", field), offset, field)

    def test_status_codes_are_the_headers(self):
        table = (ROOT / "include" / "c7x_status.h").read_text()
        codes = {name: int(code) for name, code in re.findall(r"X\((\w+), (-?\d+), \"", table)}
        for name in ("TIMEOUT", "TENSOR", "SYMBOL", "RESET", "PROTOCOL", "HOST_NOMEM"):
            self.assertEqual(getattr(_library, name), codes[name], name)

    def test_limits_are_the_headers(self):
        header = (ROOT / "include" / "c7x_compute_client.h").read_text()
        limits = dict(re.findall(r"#define C7X_CLIENT_(\w+) (\d+)", header))
        self.assertEqual(_library.RANK_MAX, int(limits["RANK_MAX"]))
        self.assertEqual(_library.OUTPUTS_MAX, int(limits["OUTPUTS_MAX"]))
        self.assertIn(f"#define C7X_INFER_PRIORITY_SHIFT {_library.PRIORITY_SHIFT}\n", header)
        wire = (ROOT / "include" / "c7x_compute_protocol.h").read_text()
        self.assertIn(f"#define C7X_WIRE_PRIORITY_MAX {_library.PRIORITY_MAX}u\n", wire)
        self.assertIn(f"#define C7X_INFER_KV_RESIDENT 0x{_library.KV_RESIDENT:08x}u", header)

    def test_version_is_the_librarys(self):
        library = _library.load_library(LIBRARY)
        self.assertEqual(_library.ffi.string(library.c.c7x_client_version()).decode(), c7x_compute.__version__)
        project = (ROOT / "python" / "pyproject.toml").read_text()
        self.assertIn(f'version = "{c7x_compute.__version__}"', project)


class DataTypes(unittest.TestCase):
    def test_map_is_its_own_inverse(self):
        for (code, bits), dtype in dtypes.DTYPES.items():
            self.assertEqual(dtypes.from_dtype(dtype), (code, bits))
            self.assertEqual(dtypes.to_dtype(code, bits), dtype)
            self.assertEqual(dtype.itemsize * 8, bits)

    def test_codes_are_dlpacks(self):
        self.assertEqual(dtypes.from_dtype(np.dtype(np.float32)), (2, 32))
        self.assertEqual(dtypes.from_dtype(np.dtype(np.int8)), (0, 8))
        self.assertEqual(dtypes.from_dtype(np.dtype(np.uint16)), (1, 16))
        self.assertEqual(dtypes.from_dtype(np.dtype(np.bool_)), (6, 8))

    def test_others_are_refused(self):
        for dtype in ("U3", "O", "M8[s]", ">f4"):
            with self.assertRaises(TypeError):
                dtypes.from_dtype(np.dtype(dtype))
        for code, bits in ((2, 8), (0, 4), (3, 64), (99, 32)):
            with self.assertRaises(TypeError):
                dtypes.to_dtype(code, bits)

    def test_bfloat16_goes_through_ml_dtypes(self):
        import ml_dtypes
        self.assertEqual(dtypes.to_dtype(4, 16), ml_dtypes.bfloat16)
        self.assertEqual(dtypes.from_dtype(np.dtype(ml_dtypes.bfloat16)), (4, 16))
        with mock.patch.dict("sys.modules", {"ml_dtypes": None}), self.assertRaisesRegex(TypeError, "ml_dtypes"):
            dtypes.to_dtype(4, 16)


class Search(unittest.TestCase):
    def test_bad_library_raises(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            with self.assertRaisesRegex(OSError, re.escape(file.name)):
                c7x_compute.C7xVirtualMachine(module("add_one"), so_path=file.name)

    def test_foreign_library_raises(self):
        with self.assertRaisesRegex(OSError, "c7x_client_options_init"):
            _library.load_library("libc.so.6")

    def test_missing_library_raises(self):
        with self.assertRaisesRegex(FileNotFoundError, "/nonexistent/lib.so"):
            c7x_compute.C7xVirtualMachine(module("add_one"), so_path="/nonexistent/lib.so")

    def test_environment_comes_before_the_checkout(self):
        with mock.patch.dict(os.environ, {"C7X_LIBRARY": str(LIBRARY)}):
            self.assertEqual(c7x_compute.find_c7x_arm_runtime_so(), str(LIBRARY))
            self.assertEqual(c7x_compute.find_c7x_arm_runtime_so("libother.so"), "libother.so")
        with mock.patch.dict(os.environ, {"C7X_LIBRARY": "/nonexistent/lib.so"}):
            with self.assertRaisesRegex(FileNotFoundError, "C7X_LIBRARY"):
                c7x_compute.find_c7x_arm_runtime_so()

    def test_checkout_is_found(self):
        with mock.patch.dict(os.environ):
            os.environ.pop("C7X_LIBRARY", None)
            found = Path(c7x_compute.find_c7x_arm_runtime_so())
        self.assertEqual(found, ROOT / "build" / "lib" / "libc7x_compute.so")

    def test_nothing_anywhere_says_where_it_looked(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ), \
                mock.patch.object(_library, "__file__", f"{folder}/a/b/c.py"), \
                mock.patch.object(_library, "_SONAME", "libnonexistent.so.9"):
            os.environ.pop("C7X_LIBRARY", None)
            with self.assertRaisesRegex(FileNotFoundError, "libnonexistent.so.9.*C7X_LIBRARY"):
                c7x_compute.find_c7x_arm_runtime_so()


if __name__ == "__main__":
    unittest.main()

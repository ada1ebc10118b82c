# SPDX-License-Identifier: Apache-2.0
"""weights.bin, io_meta and the manifest, byte for byte."""

import dataclasses
import struct
import unittest

from c7x_compile import weights
from c7x_compile.weights import Manifest, TensorInfo

FLOAT32 = (2, 32, 1)
INT64 = (0, 64, 1)


class Weights(unittest.TestCase):
    TENSORS = [
        (FLOAT32, (3,), b"\x01" * 12),
        (INT64, (), b"\x02" * 8),
        (FLOAT32, (2, 1), b"\x03" * 8),
    ]

    def parse(self, blob):
        count = struct.unpack_from("<Q", blob)[0]
        offset, found = 8, []
        for _ in range(count):
            while blob[offset] == 0:
                offset += 1
            kind, magic, _, device, device_id, ndim = struct.unpack_from("<iQQiii", blob, offset)
            self.assertEqual((kind, magic, device, device_id), (70, 0xDD5E40F096B4A13F, 1, 0))
            offset += 32
            dtype = struct.unpack_from("<BBH", blob, offset)
            shape = struct.unpack_from(f"<{ndim}q", blob, offset + 4)
            size = struct.unpack_from("<q", blob, offset + 4 + 8 * ndim)[0]
            offset += 12 + 8 * ndim
            found.append((offset, (dtype, shape, blob[offset : offset + size])))
            offset += size
        self.assertEqual(offset, len(blob))
        return found

    def test_round_trip_and_alignment(self):
        for alignment in (4, 64):
            found = self.parse(weights.pack_weights(self.TENSORS, alignment))
            self.assertEqual([tensor for _, tensor in found], self.TENSORS)
            self.assertEqual([offset % alignment for offset, _ in found], [0, 0, 0])

    def test_empty(self):
        self.assertEqual(weights.pack_weights([], 64), bytes(8))

    def test_too_many(self):
        with self.assertRaises(ValueError):
            weights.pack_weights([(FLOAT32, (), b"1234")] * 4097, 4)


class IoMeta(unittest.TestCase):
    def test_known_sizes(self):
        """A language model whose sizes are published."""
        cache = [TensorInfo(f"kv{i}", FLOAT32, (1, 3, 256, 64)) for i in range(60)]
        inputs = [TensorInfo("ids", INT64, (1, 64)), TensorInfo("positions", INT64, (64,)), *cache]
        outputs = [TensorInfo("logits", FLOAT32, (1, 64, 49152)), *cache]
        blob = weights.pack_io_meta(inputs, outputs)
        self.assertEqual(len(blob), 40)
        self.assertEqual(blob[:4], b"TIOM")
        self.assertEqual(
            struct.unpack("<IIIIQQII", blob)[1:], (1, 62, 61, 11802496, 24384320, 1, 0)
        )


class ManifestBlob(unittest.TestCase):
    def test_records(self):
        manifest = Manifest(
            tools="t",
            target="x86_64",
            cpu_features=("avx", "fma"),
            workspace_bytes=256,
            inputs=(TensorInfo("x", (6, 8, 1), (2, 3)),),
            outputs=(TensorInfo("y", FLOAT32, ()),),
            operators=("a/Conv", "b/Relu"),
            model="m.onnx",
            constant_sizes=(4, 600),
        )
        blob = weights.pack_manifest(manifest)
        magic, major, minor, total, count = struct.unpack_from("<IHHII", blob)
        self.assertEqual((magic, major, minor, total), (0x4D583743, 1, 0, len(blob)))
        self.assertEqual(blob[:4], b"C7XM")
        offset, records = 16, []
        for _ in range(count):
            tag, size = struct.unpack_from("<II", blob, offset)
            records.append((tag, blob[offset + 8 : offset + 8 + size]))
            offset += 8 + size + -size % 8
        self.assertEqual(offset, len(blob))
        by_tag = dict(records)
        self.assertEqual(by_tag[weights.TAG_CPU_FEATURES], b"avx fma")
        self.assertEqual(by_tag[weights.TAG_WORKSPACE_BYTES], struct.pack("<Q", 256))
        self.assertEqual(by_tag[weights.TAG_CONSTANTS], struct.pack("<QQ", 4, 600))
        self.assertEqual(
            by_tag[weights.TAG_INPUT], struct.pack("<BBHIqq", 6, 8, 1, 2, 2, 3) + b"x\0"
        )
        self.assertEqual(by_tag[weights.TAG_OUTPUT], struct.pack("<BBHI", 2, 32, 1, 0) + b"y\0")
        self.assertNotIn(weights.TAG_PREEMPT, by_tag)
        operators = [payload for tag, payload in records if tag == weights.TAG_OPERATOR]
        self.assertEqual(operators, [b"\0\0\0\0a/Conv\0", b"\1\0\0\0b/Relu\0"])
        anywhere = weights.pack_manifest(dataclasses.replace(manifest, preempt_anywhere=True))
        self.assertIn(struct.pack("<III", weights.TAG_PREEMPT, 4, 1), anywhere)


if __name__ == "__main__":
    unittest.main()

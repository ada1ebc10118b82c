# SPDX-License-Identifier: Apache-2.0
"""Caches that stay on the device. The module kv returns x + the first number of each cache, and adds k * x to cache k.
"""

import asyncio
import unittest

import numpy as np

from c7x_compute import C7xError, TensorSpec
from support import machine

SLOTS = 6
SLOT = TensorSpec("cache", (16,), np.dtype(np.float32))


def x(value):
    return np.array([value], np.float32)


class Caches(unittest.TestCase):
    def setUp(self):
        self.vm = machine("kv")
        self.addCleanup(self.vm.close)

    def step(self, value, **options):
        return self.vm.run(x(value), *[SLOT] * SLOTS, kv_resident=True, **options)

    def test_live_from_run_to_run(self):
        self.vm.kv_bind(SLOTS, 64)
        self.assertEqual(self.step(1).item(), 1)
        self.assertEqual(self.step(2).item(), 2 + 21)
        self.assertEqual(self.vm.run_nocopy(x(3), *[SLOT] * SLOTS, kv_resident=True).item(), 3 + 3 * 21)

    def test_can_be_awaited_in_order(self):
        async def main():
            return await asyncio.gather(
                *(self.vm.run_async(x(1), *[SLOT] * SLOTS, kv_resident=True) for _ in range(20)))

        self.vm.kv_bind(SLOTS, 64)
        self.assertEqual([y.item() for y in asyncio.run(main())], [1 + 21 * i for i in range(20)])

    def test_are_zero_after_another_bind_and_gone_after_none(self):
        self.vm.kv_bind(SLOTS, 64)
        self.step(1)
        self.vm.kv_bind(SLOTS, 128)
        self.assertEqual(self.step(5).item(), 5)
        self.vm.kv_bind(0)
        with self.assertRaises(C7xError) as caught:
            self.step(1)
        self.assertIn("kv_bind", caught.exception.text)

    def test_are_gone_after_close(self):
        self.vm.kv_bind(SLOTS, 64)
        self.step(1)
        self.vm.close()
        with self.assertRaises(C7xError) as caught:
            self.step(1)
        self.assertEqual(caught.exception.name, "TENSOR")

    def test_of_two_machines_are_separate(self):
        with machine("kv") as other:
            for vm in (self.vm, other):
                vm.kv_bind(SLOTS, 64)
            for i in range(5):
                self.assertEqual(self.step(1).item(), 1 + 21 * i)
                self.assertEqual(other.run(x(10), *[SLOT] * SLOTS, kv_resident=True).item(), 10 + 210 * i)

    def test_too_few_or_too_small_slots_are_named(self):
        for slots, size in ((SLOTS - 1, 64), (SLOTS, 32)):
            self.vm.kv_bind(slots, size)
            with self.assertRaises(C7xError) as caught:
                self.step(1)
            self.assertEqual(caught.exception.name, "SIZE")
        with self.assertRaises(C7xError) as caught:
            self.vm.kv_bind(1 << 20, 1 << 20)
        self.assertEqual(caught.exception.name, "SIZE")

    def test_slots_without_a_shape_are_named(self):
        with self.assertRaises(C7xError) as caught:
            self.vm.run(x(1), None, kv_resident=True)
        self.assertIn("input 1", caught.exception.text)

    def test_none_is_a_slot_only_when_caches_are_resident(self):
        for value in (None, SLOT):
            with self.assertRaisesRegex(TypeError, "input 1"):
                self.vm.run(x(1), value)

    def test_declared_inputs_need_not_be_described(self):
        with machine("add_one") as vm:
            vm.kv_bind(1, 16)
            np.testing.assert_array_equal(vm.run(kv_resident=True), np.ones(4, np.float32))
            np.testing.assert_array_equal(vm.run(None, kv_resident=True), np.ones(4, np.float32))


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""C7xVirtualMachine on the test modules and, where they are built, on real models."""

import array
import asyncio
import gc
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np

from c7x_compute import C7xError, C7xVirtualMachine
from support import BUILD, CLS, LIBRARY, SILERO, machine, module

X = np.array([1, -2.5, 3e4, 0], np.float32)


class OnlyDLPack:
    """Speaks nothing but DLPack."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


class OnlyArray:
    """Speaks nothing but the array protocol."""

    def __init__(self, values):
        self._values = values

    def __array__(self, dtype=None, copy=None):
        return self._values


class LifeCycle(unittest.TestCase):
    def test_loads_at_the_first_run(self):
        vm = machine("add_one")
        self.assertFalse(vm.is_loaded)
        self.assertEqual(vm.last_cycles, 0)
        vm.run(X)
        self.assertTrue(vm.is_loaded)
        vm.close()

    def test_close_is_idempotent_and_a_run_loads_again(self):
        vm = machine("add_one")
        vm.close()
        vm.run(X)
        vm.close()
        vm.close()
        self.assertFalse(vm.is_loaded)
        np.testing.assert_array_equal(vm.run(X), X + 1)
        vm.close()

    def test_context_manager_closes(self):
        with machine("add_one") as vm:
            vm.run(X)
        self.assertFalse(vm.is_loaded)

    def test_missing_module_raises_at_once(self):
        with self.assertRaisesRegex(FileNotFoundError, "no_such_module"):
            machine("no_such_module")

    def test_bad_module_raises_at_the_first_run(self):
        vm = C7xVirtualMachine(LIBRARY, so_path=LIBRARY)
        with self.assertRaises(C7xError) as caught:
            vm.run(X)
        self.assertIn(caught.exception.name, ("LOAD", "SYMBOL"))
        self.assertFalse(vm.is_loaded)

    def test_unknown_device_raises(self):
        with self.assertRaises(C7xError) as caught:
            machine("add_one", device="nonsense").run(X)
        self.assertIn("nonsense", caught.exception.text)
        with self.assertRaises(C7xError) as caught:
            machine("add_one", device="emu:/nonexistent/socket").run(X)
        self.assertEqual(caught.exception.name, "NO_DEVICE")
        self.assertTrue(caught.exception.next_step)

    def test_forked_process_opens_a_session_of_its_own(self):
        with machine("add_one") as vm:
            x = vm.create_input(4)
            x[:] = X
            child = os.fork()
            if child == 0:
                good = np.array_equal(vm.run(x), X + 1) and np.array_equal(vm.run(X), X + 1)
                vm.close()
                del vm, x
                gc.collect()
                os._exit(0 if good else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            np.testing.assert_array_equal(vm.run(x), X + 1)

    def test_collected_machine_leaves_the_device(self):
        vm = machine("add_one")
        vm.run(X)
        session = vm._session
        del vm
        gc.collect()
        self.assertEqual(session._clients, [])


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.vm = machine("add_one", name="python tests")

    @classmethod
    def tearDownClass(cls):
        cls.vm.close()

    def test_matches_numpy(self):
        y = self.vm["main"](X)
        self.assertEqual(y.dtype, np.float32)
        np.testing.assert_array_equal(y, X + 1)

    def test_is_callable_by_any_name(self):
        self.assertTrue(callable(self.vm["main"]))
        np.testing.assert_array_equal(self.vm["forward"](X), X + 1)
        with self.assertRaises(TypeError):
            self.vm[0]

    def test_counts_cycles(self):
        self.vm.run(X)
        self.assertGreater(self.vm.last_cycles, 0)

    def test_repeats_are_bit_identical(self):
        first, *others = [self.vm.run(X).tobytes() for _ in range(10)]
        self.assertEqual(others, [first] * 9)

    def test_results_are_copies(self):
        first = self.vm.run(X)
        self.vm.run(X * 2)
        np.testing.assert_array_equal(first, X + 1)

    def test_takes_whatever_is_an_array(self):
        values = np.float32([5, 6, 7, 8])
        read_only = values.copy()
        read_only.flags.writeable = False
        kinds = {"read-only": read_only, "strided": np.repeat(values, 2)[::2], "reversed": values[::-1].copy()[::-1],
                 "big-endian": values.astype(">f4"), "array": array.array("f", values),
                 "memoryview": memoryview(values), "array protocol": OnlyArray(values), "DLPack": OnlyDLPack(values),
                 "unaligned": np.frombuffer(b"\0" + values.tobytes(), np.float32, offset=1)}
        for name, value in kinds.items():
            with self.subTest(name):
                np.testing.assert_array_equal(self.vm.run(value), values + 1)

    @unittest.skipUnless(importlib.util.find_spec("tvm_ffi"), "needs tvm_ffi")
    def test_takes_and_gives_tensors_of_another_library(self):
        import tvm_ffi
        tensor = tvm_ffi.from_dlpack(X.copy())
        y = self.vm.run(tensor)
        np.testing.assert_array_equal(np.from_dlpack(tvm_ffi.from_dlpack(y)), X + 1)

    def test_refuses_what_is_no_array(self):
        for value in ([1.0, 2.0, 3.0, 4.0], 1.0, "text", b"bytes", None):
            with self.subTest(value), self.assertRaisesRegex(TypeError, "input 0"):
                self.vm.run(value)
        with self.assertRaisesRegex(TypeError, "input 0.*<U1"):
            self.vm.run(np.array(["a", "b"]))

    def test_unfit_inputs_are_named(self):
        for value in (np.zeros(5, np.float32), np.zeros(4, np.int32), np.zeros((2, 2), np.float32),
                      np.zeros(4), np.float32(0), np.zeros((1,) * 7, np.float32)):
            with self.subTest(value.shape), self.assertRaises(C7xError) as caught:
                self.vm.run(value)
            self.assertEqual((caught.exception.name, caught.exception.code), ("TENSOR", -14))
            self.assertIn("input 0", str(caught.exception))
            self.assertIn(caught.exception.station, ("tvm", "client"))

    def test_wrong_number_of_inputs_is_named(self):
        for inputs in ((), (X, X), (X,) * 129):
            with self.subTest(len(inputs)), self.assertRaises(C7xError):
                self.vm.run(*inputs)

    def test_errors_can_be_pickled(self):
        with self.assertRaises(RuntimeError) as caught:
            self.vm.run(X[:2])
        copy = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(copy), copy.code), (str(caught.exception), -14))


class OtherModules(unittest.TestCase):
    def test_several_outputs_are_a_list(self):
        with machine("many_outputs") as vm:
            outputs = vm.run()
        self.assertIsInstance(outputs, list)
        self.assertEqual([int(y[0]) for y in outputs], list(range(7)))

    def test_large_undeclared_outputs(self):
        with machine("big_output") as vm:
            np.testing.assert_array_equal(vm.run(), np.arange(262144, dtype=np.float32))

    def test_failing_module(self):
        with machine("fails") as vm, self.assertRaises(C7xError) as caught:
            vm.run()
        self.assertEqual(caught.exception.name, "CALL")

    def test_bad_deadlines_are_refused(self):
        for deadline in (-1, float("nan")):
            with self.assertRaises(ValueError):
                machine("add_one", deadline=deadline)

    def test_infinite_deadline(self):
        with machine("add_one", deadline=float("inf")) as vm:
            np.testing.assert_array_equal(vm.run(X), X + 1)

    def test_deadline_passes(self):
        with machine("spin", deadline=0.5) as vm:
            with self.assertRaises(C7xError) as caught:
                vm.run(np.array([-1], np.int32))
        self.assertEqual(caught.exception.name, "TIMEOUT")

    def test_inputs_of_a_time_out_stay_memory(self):
        with machine("spin", deadline=0.5) as vm:
            milliseconds = vm.create_input(1, np.int32)
            milliseconds[0] = -1
            view = milliseconds[:]
            with self.assertRaises(C7xError) as caught:
                vm.run(milliseconds)
            self.assertEqual(caught.exception.name, "TIMEOUT")
            self.assertEqual(view[0], -1)
            milliseconds[0] = 1
            vm.create_input(1, np.int32)[:] = 1  # there is a buffer again

    def test_opens_again_after_the_device_went_away(self):
        self._fails_twice("dies", "RESET")

    def test_loads_again_after_a_fault(self):
        self._fails_twice("crashes", "FAULT")

    def _fails_twice(self, module, name):
        vm = machine(module)
        for _ in range(2):  # loaded again, it fails again
            with self.assertRaises(C7xError) as caught:
                vm.run()
            self.assertEqual(caught.exception.name, name)
            self.assertFalse(vm.is_loaded)
        vm.close()


class SharedMemory(unittest.TestCase):
    def setUp(self):
        self.vm = machine("add_one")
        self.addCleanup(self.vm.close)

    def test_nocopy_equals_standard(self):
        np.testing.assert_array_equal(self.vm.run_nocopy(X), self.vm.run(X))

    def test_nocopy_is_a_view_until_the_next_run(self):
        view = self.vm.run_nocopy(X)
        self.assertIsNotNone(view.base)
        self.vm.run(X * 0)
        np.testing.assert_array_equal(view, np.ones(4, np.float32))

    def test_created_input_has_its_shape_and_is_aligned(self):
        for shape, dtype in ((4, np.float32), ((2, 2), "int8"), ((), np.float32), ([1, 0, 3], bool)):
            vm = self.vm = machine("add_one")
            x = vm.create_input(shape, dtype)
            self.assertEqual(x.shape, np.empty(shape).shape)
            self.assertEqual(x.dtype, np.dtype(dtype))
            self.assertEqual(x.ctypes.data % 128, 0)
            vm.close()

    def test_created_input_gives_the_same_result_in_place(self):
        x = self.vm.create_input(4, np.float32)
        x[:] = X
        np.testing.assert_array_equal(self.vm.run(x), X + 1)
        np.testing.assert_array_equal(x, X)

    def test_copied_inputs_do_not_overwrite_created_ones(self):
        x = self.vm.create_input(4)
        x[:] = 3
        np.testing.assert_array_equal(self.vm.run(X), X + 1)
        np.testing.assert_array_equal(x, np.full(4, 3))

    def test_copied_inputs_need_room_behind_created_ones(self):
        slots = [self.vm.create_input(4)]
        slots[0][:] = X
        with self.assertRaises(C7xError) as full:
            while True:
                slots.append(self.vm.create_input(4))
        self.assertEqual(full.exception.name, "SIZE")
        with self.assertRaises(C7xError) as caught:
            self.vm.run(X)
        self.assertEqual(caught.exception.name, "LOCKED")
        np.testing.assert_array_equal(self.vm.run(slots[0]), X + 1)

    def test_slots_do_not_overlap_and_are_aligned(self):
        self.vm.reserve(1 << 16)
        slots = [self.vm.create_input(n, np.uint8) for n in (1, 129, 128, 7)]
        end = 0
        for slot in slots:
            self.assertEqual(slot.ctypes.data % 128, 0)
            self.assertGreaterEqual(slot.ctypes.data, end)
            end = slot.ctypes.data + slot.nbytes

    def test_full_buffer_is_named(self):
        with self.assertRaises(C7xError) as caught:
            self.vm.create_input(1 << 20)
        self.assertEqual(caught.exception.name, "SIZE")
        self.assertIn("4194304", caught.exception.text)

    def test_reserve_comes_first(self):
        self.vm.reserve(8 << 20)
        self.vm.create_input(1 << 20)
        with self.assertRaises(C7xError) as caught:
            self.vm.reserve(16 << 20)
        self.assertEqual(caught.exception.name, "LOCKED")

    def test_unfit_inputs_are_refused(self):
        with self.assertRaises(TypeError):
            self.vm.create_input(4, "U3")
        with self.assertRaises(ValueError):
            self.vm.create_input((2, -1))

    def test_close_starts_the_slots_again(self):
        for _ in range(2):
            while True:  # until it is full
                try:
                    x = self.vm.create_input(4)
                except C7xError:
                    break
            self.vm.close()
        x[:] = X
        np.testing.assert_array_equal(self.vm.run(x), X + 1)

    def test_memory_outlives_close_while_arrays_refer_to_it(self):
        x = self.vm.create_input(4)
        x[:] = X
        view = self.vm.run_nocopy(x)[1:]
        session = self.vm._session
        self.vm.close()
        self.assertFalse(self.vm.is_loaded)
        self.assertEqual(len(session._clients), 1)
        np.testing.assert_array_equal(view, X[1:] + 1)
        np.testing.assert_array_equal(self.vm.run(x), X + 1)  # another session, which copies it
        del x
        self.assertEqual(len(session._clients), 1)
        del view
        self.assertEqual(session._clients, [])

    def test_memory_outlives_a_reset(self):
        vm = machine("dies")
        x = vm.create_input(4)
        x[:] = X
        with self.assertRaises(C7xError):
            vm.run()
        np.testing.assert_array_equal(x, X)

    def test_output_buffer_stays_while_a_view_lives(self):
        with machine("big_output") as vm:
            view = vm.run_nocopy()
            with self.assertRaises(C7xError) as caught:
                vm.reserve(0, 64 << 20)
            self.assertEqual(caught.exception.name, "LOCKED")
            self.assertEqual(view[-1], 262143)

    def test_undeclared_modules_have_a_buffer(self):
        with machine("many_outputs") as vm:
            a, b = vm.create_input((100, 1000)), vm.create_input(3, np.int64)
            a[:], b[:] = 1, 2
            self.assertEqual((a.sum(), b.sum()), (1e5, 6))


class Threads(unittest.TestCase):
    def check(self, count, work):
        """Runs work(index) on `count` threads; their failures fail the test."""
        failures = []

        def run(index):
            try:
                work(index)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_one_machine_of_many_threads(self):
        with machine("add_one") as vm:
            def work(index):
                for step in range(50):
                    x = np.full(4, index * 1000 + step, np.float32)
                    np.testing.assert_array_equal(vm.run(x), x + 1)

            self.check(8, work)

    def test_several_machines_in_threads(self):
        def work(index):
            with machine("many_outputs" if index % 2 else "add_one") as vm:
                for _ in range(20):
                    y = vm.run() if index % 2 else vm.run(X)
                    expected = np.arange(7)[:, None] if index % 2 else X + 1
                    np.testing.assert_array_equal(y, expected)

        self.check(6, work)

    def test_close_in_the_middle_of_runs(self):
        vm = machine("add_one")

        def work(index):
            for _ in range(20):
                if index == 0:
                    vm.close()
                else:
                    np.testing.assert_array_equal(vm.run(X), X + 1)

        self.check(3, work)
        vm.close()


class SharedEmulator(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.device = f"emu:{folder.name}/socket"
        self.tool("emulator", "start")
        self.addCleanup(self.tool, "emulator", "stop")

    def tool(self, *arguments):
        return subprocess.run([str(BUILD / "bin" / "c7x_compute"), *arguments, "--device", self.device], check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def jobs(self):
        """Priority: the jobs that its target has done, without those that have done none."""
        targets = json.loads(self.tool("ps", "--json"))["targets"][:8]
        return {i: target["jobs_done"] for i, target in enumerate(targets, 1) if target["jobs_done"]}

    def test_two_machines_of_one_emulator(self):
        with machine("add_one", device=self.device) as a, machine("many_outputs", device=self.device) as b:
            np.testing.assert_array_equal(a.run(X), X + 1)
            self.assertEqual(len(b.run()), 7)
            np.testing.assert_array_equal(a.run(X), X + 1)

    def test_a_run_has_the_nearest_priority_that_is_named(self):
        with machine("add_one", device=self.device) as vm, machine("add_one", device=self.device, priority=6) as low:
            vm.run(X)
            vm.run(X, priority=np.int64(1))
            vm.run_nocopy(X, priority=2)
            asyncio.run(vm.run_async(X, priority=8))
            low.run(X)
            low.run(X)
            np.testing.assert_array_equal(low["main"](X, priority=5), X + 1)
            self.assertEqual(self.jobs(), {1: 1, 2: 1, 4: 1, 5: 1, 6: 2, 8: 1})
            modules = json.loads(self.tool("ps", "--json"))["modules"]
            self.assertEqual([module["priority"] for module in modules], [4, 6])

    def test_a_higher_run_takes_the_core_from_a_lower_one(self):
        async def race(low, high):
            long = asyncio.create_task(low.run_async(np.array([1000], np.int32)))
            await asyncio.sleep(0.1)
            await high.run_async(X, priority=3)
            self.assertFalse(long.done())
            self.assertEqual((await long)[0], 1000)

        with machine("spin", device=self.device) as low, machine("add_one", device=self.device) as high:
            high.run(X)
            asyncio.run(race(low, high))


    @unittest.skipUnless(CLS.exists(), "build/models/ppocr-cls is not built")
    def test_a_model_that_is_preempted_a_thousand_times_gives_the_same_bytes(self):
        x = np.random.default_rng(5).standard_normal((1, 3, 48, 192)).astype(np.float32)
        model = C7xVirtualMachine(CLS, so_path=LIBRARY, device=self.device, priority=8)
        with model as low, machine("add_one", device=self.device, priority=1) as high:
            alone = low.run(x).tobytes()
            done = threading.Event()

            def disturb():
                while not done.is_set():
                    np.testing.assert_array_equal(high.run(X), X + 1)

            other = threading.Thread(target=disturb)
            other.start()
            try:
                for _ in range(10000):
                    self.assertEqual(low.run(x).tobytes(), alone)
                    if self.preemptions(8) >= 1000:
                        break
            finally:
                done.set()
                other.join()
            self.assertGreaterEqual(self.preemptions(8), 1000)

    def preemptions(self, priority):
        return json.loads(self.tool("ps", "--json"))["targets"][priority - 1]["preemptions"]


class Priorities(unittest.TestCase):
    def test_others_than_1_to_8_are_refused(self):
        for priority in (0, 9, -1, 1.5, "high"):
            with self.subTest(priority), self.assertRaisesRegex(ValueError, "it is 1 .highest. to 8"):
                machine("add_one", priority=priority)
        with machine("add_one") as vm:
            for run in (vm.run, vm.run_nocopy, lambda *x, **how: asyncio.run(vm.run_async(*x, **how))):
                with self.assertRaisesRegex(ValueError, "priority is 9; it is 1 .highest. to 8"):
                    run(X, priority=9)


class RealModels(unittest.TestCase):
    """Against onnxruntime; the models are those of tests/models."""

    def compare(self, name, module_path, limit):
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
        self.addCleanup(sys.path.pop, 0)
        from c7x_compile import onnx_model
        from models import MODELS
        model = next(model for model in MODELS if model.name == name)
        specialised = model.specialised()
        session = onnx_model.session(specialised)
        inputs = model.inputs(1)
        order = [value.name for value in onnx_model.graph_inputs(specialised)]
        with C7xVirtualMachine(module_path, so_path=LIBRARY) as vm:
            outputs = vm.run(*(inputs[key] for key in order))
            slots = [vm.create_input(inputs[key].shape, inputs[key].dtype) for key in order]
            for slot, key in zip(slots, order):
                slot[...] = inputs[key]
            in_place = vm.run_nocopy(*slots)
            for y, z, expected in zip(*([v] if isinstance(v, np.ndarray) else v for v in (outputs, in_place)),
                                      session.run(None, inputs)):
                self.assertLessEqual(np.abs(y - expected).max(), limit * np.abs(expected).max())
                self.assertEqual(y.tobytes(), z.tobytes())

    @unittest.skipUnless(CLS.exists(), "build/models/ppocr-cls is not built")
    def test_ppocr_cls_matches_the_cpu(self):
        self.compare("ppocr-cls", CLS, 1e-4)

    @unittest.skipUnless(SILERO.exists(), "build/models/silero-vad-16k is not built")
    def test_silero_with_two_inputs_and_outputs_matches_the_cpu(self):
        self.compare("silero-vad-16k", SILERO, 1e-4)


if __name__ == "__main__":
    unittest.main()

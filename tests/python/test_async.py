# SPDX-License-Identifier: Apache-2.0
"""Awaited runs: several at once, in several event loops, cancelled, in sessions that end or break."""

import asyncio
import gc
import threading
import unittest
import weakref

import numpy as np

from c7x_compute import C7xError
from c7x_compute._flights import IN_FLIGHT_MAX
from support import machine

X = np.array([1, -2.5, 3e4, 0], np.float32)


def spin(milliseconds):
    return np.array([milliseconds], np.int32)


class Awaited(unittest.IsolatedAsyncioTestCase):
    async def test_many_at_once_run_in_order_and_without_threads(self):
        with machine("add_one") as vm:
            before = threading.active_count()
            ended = []

            async def one(i):
                y = await vm.run_async(X + i)
                ended.append(i)
                return y

            results = await asyncio.gather(*(one(i) for i in range(100)))
            self.assertEqual(threading.active_count(), before)
        for i, y in enumerate(results):
            np.testing.assert_array_equal(y, X + i + 1)
        self.assertEqual(ended, list(range(100)))

    async def test_the_loop_goes_on(self):
        with machine("spin") as vm:
            await vm.run_async(spin(0))
            run = asyncio.create_task(vm.run_async(spin(300)))
            ticks = 0
            while not run.done():
                await asyncio.sleep(0.01)
                ticks += 1
            self.assertEqual((await run).shape, (1,))
            self.assertGreater(ticks, 5)
            self.assertGreater(vm.last_cycles, 0)

    async def test_inputs_may_change_once_it_has_been_sent(self):
        with machine("add_one") as vm:
            created = vm.create_input(4)
            for x in (created, X.copy()):
                x[:] = X
                run = asyncio.create_task(vm.run_async(x))
                await asyncio.sleep(0)
                x[:] = 0
                np.testing.assert_array_equal(await run, X + 1)

    async def test_several_outputs_and_none_to_wait_for(self):
        with machine("many_outputs") as vm:
            outputs = await vm.run_async()
            self.assertEqual([int(y[0]) for y in outputs], list(range(7)))
        with machine("big_output") as vm:
            np.testing.assert_array_equal(await vm.run_async(), np.arange(262144, dtype=np.float32))

    async def test_runs_that_wait_and_do_not_wait_mix(self):
        with machine("add_one") as vm:
            for i in range(20):
                run = asyncio.create_task(vm.run_async(X + i))
                await asyncio.sleep(0)
                np.testing.assert_array_equal(vm.run(X - i), X - i + 1)
                np.testing.assert_array_equal(await run, X + i + 1)

    async def test_two_machines_in_one_loop(self):
        with machine("add_one") as a, machine("many_outputs") as b:
            results = await asyncio.gather(*((a.run_async(X) if i % 2 else b.run_async()) for i in range(40)))
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, X + 1 if i % 2 else np.arange(7)[:, None])


class Failing(unittest.IsolatedAsyncioTestCase):
    async def test_failures_are_raised_by_the_await(self):
        with machine("add_one") as vm:
            results = await asyncio.gather(vm.run_async(X), vm.run_async(X[:2]), vm.run_async(X),
                                           vm.run_async(np.zeros((1,) * 7)), vm.run_async("text"),
                                           return_exceptions=True)
        names = [getattr(result, "name", type(result).__name__) for result in results]
        self.assertEqual(names, ["ndarray", "TENSOR", "ndarray", "TENSOR", "TypeError"])
        self.assertIn("input 0", str(results[1]))

    async def test_a_time_out_does_not_reach_others(self):
        asyncio.get_running_loop().slow_callback_duration = 10  # close waits for the module that hangs
        with machine("spin", deadline=0.3) as vm, machine("add_one") as other:
            results = await asyncio.gather(vm.run_async(spin(-1)), other.run_async(X), return_exceptions=True)
            self.assertEqual(results[0].name, "TIMEOUT")
            np.testing.assert_array_equal(results[1], X + 1)

    async def test_opens_again_after_the_device_went_away(self):
        vm = machine("dies")
        for _ in range(2):
            results = await asyncio.gather(*(vm.run_async() for _ in range(3)), return_exceptions=True)
            self.assertTrue(all(isinstance(result, C7xError) for result in results), results)
            self.assertIn("RESET", [result.name for result in results])
        vm.close()


class Cancelled(unittest.IsolatedAsyncioTestCase):
    async def test_what_waits_is_taken_back_and_what_runs_is_left(self):
        with machine("spin") as vm:
            await vm.run_async(spin(0))
            runs = [asyncio.create_task(vm.run_async(spin(200))) for _ in range(3)]
            runs += [asyncio.create_task(vm.run_async(spin(-1))) for _ in range(12)]  # some have no place yet
            runs.append(asyncio.create_task(vm.run_async(spin(1))))
            await asyncio.sleep(0.05)
            for run in runs[3:-1]:
                run.cancel()
            results = await asyncio.gather(*runs, return_exceptions=True)
        self.assertEqual([type(result) for result in results],
                         [np.ndarray] * 3 + [asyncio.CancelledError] * 12 + [np.ndarray])

    async def test_one_that_runs_ends_on_its_own(self):
        with machine("spin") as vm:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(vm.run_async(spin(300)), 0.1)
            self.assertEqual((await vm.run_async(spin(1))).shape, (1,))

    async def test_places_are_given_back(self):
        with machine("add_one") as vm:
            for _ in range(20):
                runs = [asyncio.create_task(vm.run_async(X)) for _ in range(20)]
                await asyncio.sleep(0)
                for run in runs[::2]:
                    run.cancel()
                await asyncio.gather(*runs, return_exceptions=True)
            results = await asyncio.gather(*(vm.run_async(X) for _ in range(20)))
        self.assertEqual(len(results), 20)

    async def test_a_place_that_was_handed_over_is_handed_on(self):
        with machine("add_one") as vm:
            await vm.run_async(X)
            flights = vm._session._flights
            for _ in range(IN_FLIGHT_MAX):
                await flights._enter(asyncio.get_running_loop())
            run = asyncio.create_task(vm.run_async(X))
            await asyncio.sleep(0)
            flights._leave()
            await asyncio.sleep(0)  # it has been told, and comes to it in the next turn
            run.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await run
            np.testing.assert_array_equal(await asyncio.wait_for(vm.run_async(X), 10), X + 1)
            for _ in range(IN_FLIGHT_MAX - 1):
                flights._leave()

    async def test_a_session_may_be_collected_before_its_runs(self):
        vm = machine("spin")
        run = asyncio.create_task(vm.run_async(spin(50)))
        await asyncio.sleep(0)
        vm._session.close()
        run.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await run
        vm.close()

    async def test_close_lets_runs_end(self):
        vm = machine("spin")
        run = asyncio.create_task(vm.run_async(spin(200)))
        await asyncio.sleep(0)
        session = vm._session
        vm.close()
        self.assertFalse(vm.is_loaded)
        self.assertEqual((await run).shape, (1,))
        self.assertEqual(session._clients, [])


class Loops(unittest.TestCase):
    def test_one_after_the_other(self):
        with machine("add_one") as vm:
            for i in range(5):
                np.testing.assert_array_equal(asyncio.run(vm.run_async(X + i)), X + i + 1)

    def test_a_loop_that_ends_takes_its_runs_back(self):
        async def main(vm):
            asyncio.create_task(vm.run_async(spin(100)))
            asyncio.create_task(vm.run_async(spin(-1)))
            await asyncio.sleep(0.05)

        with machine("spin") as vm:
            asyncio.run(main(vm))
            self.assertEqual(asyncio.run(vm.run_async(spin(1))).shape, (1,))

    def test_a_loop_that_is_abandoned_holds_nothing(self):
        vm = machine("spin")
        loop = asyncio.new_event_loop()
        run = loop.create_task(vm.run_async(spin(50)))
        run._log_destroy_pending = False
        loop.run_until_complete(asyncio.sleep(0))
        session = weakref.ref(vm._session)
        loop.close()
        vm.run(spin(1))
        vm.close()
        self.assertIsNotNone(session())
        del run, loop
        gc.collect()
        self.assertIsNone(session())

    def test_several_at_once_in_threads(self):
        failures = []

        async def main(vm, index):
            for step in range(10):
                xs = [X + 1000 * index + 10 * step + i for i in range(6)]
                for x, y in zip(xs, await asyncio.gather(*(vm.run_async(x) for x in xs))):
                    np.testing.assert_array_equal(y, x + 1)

        def work(vm, index):
            try:
                asyncio.run(main(vm, index))
            except BaseException as error:
                failures.append(error)

        with machine("add_one") as vm:
            threads = [threading.Thread(target=work, args=(vm, index)) for index in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        self.assertEqual(failures, [])
        self.assertFalse(any(thread.is_alive() for thread in threads))


if __name__ == "__main__":
    unittest.main()

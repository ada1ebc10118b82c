# SPDX-License-Identifier: Apache-2.0
"""Inferences that are awaited. One session may serve several event loops, each in a thread of its own; completions are
told by one descriptor, which every loop that waits for one has a reader on.
"""

from __future__ import annotations

import asyncio
import collections
import threading
from typing import Any, Callable

from c7x_compute._library import HOST_NOMEM, Library, ffi

# Of one session at once; each has windows of its own in shared memory. Others wait for their turn, in order.
IN_FLIGHT_MAX = 8


def _wake(future: asyncio.Future) -> None:
    if not future.done():
        future.set_result(None)


def _wake_in(loop: asyncio.AbstractEventLoop, future: asyncio.Future) -> bool:
    """Wakes who waits in a loop of any thread; False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(_wake, future)
    except RuntimeError:
        return False
    return True


class Flights:
    """The awaited inferences of an open client."""

    def __init__(self, library: Library, client) -> None:
        self._c = library.c
        self._library = library
        self._client = client
        # An inference is known to all loops as long as it lives; reentrant: a coroutine may be collected at any time.
        self._lock = threading.RLock()
        self._places = IN_FLIGHT_MAX
        self._waiting: collections.deque = collections.deque()  # (loop, future) of those without a place
        self._flying: dict = {}  # address -> (loop, future)
        self._readers: collections.Counter = collections.Counter()  # loop -> its flights
        self._fd = -1

    def forget(self) -> None:
        """The client is being closed, which frees its inferences: nobody waits who could be told."""
        with self._lock:
            self._flying.clear()

    async def fly(self, send: Callable[[], Any], take: Callable[[Any], Any]) -> Any:
        """Starts an inference with send() when there is a place, awaits its end, and returns take(inference).
        Cancelled, it takes the inference back as far as that goes.
        """
        loop = asyncio.get_running_loop()
        await self._enter(loop)
        try:
            return await self._fly(loop, send, take)
        finally:
            self._leave()

    async def _fly(self, loop, send, take):
        future = loop.create_future()
        self._add_reader(loop)
        inference = ffi.NULL
        try:
            with self._lock:
                inference = send()
                self._flying[inference] = loop, future
            await future
            return take(inference)
        finally:
            self._remove_reader(loop)
            with self._lock:
                if self._flying.pop(inference, None) is not None:
                    self._c.c7x_inference_free(inference)

    async def _enter(self, loop) -> None:
        with self._lock:
            if self._places > 0:
                self._places -= 1
                return
            waiter = loop, loop.create_future()
            self._waiting.append(waiter)
        try:
            await waiter[1]
        except BaseException:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                else:
                    self._leave()  # the place had been handed over
            raise

    def _leave(self) -> None:
        """Hands the place to the first who waits."""
        with self._lock:
            while self._waiting:
                if _wake_in(*self._waiting.popleft()):
                    return
            self._places += 1

    def _add_reader(self, loop) -> None:
        with self._lock:
            if self._readers[loop] == 0:
                self._fd = self._c.c7x_client_event_fd(self._client)
                if self._fd < 0:
                    raise self._library.last_error(HOST_NOMEM, self._client)
                loop.add_reader(self._fd, self._tell)
            self._readers[loop] += 1

    def _remove_reader(self, loop) -> None:
        with self._lock:
            self._readers[loop] -= 1
            if self._readers[loop] > 0:
                return
            del self._readers[loop]
            if not loop.is_closed():
                loop.remove_reader(self._fd)

    def _tell(self) -> None:
        """Wakes those whose inference has ended, in whatever loop they are."""
        with self._lock:
            while True:
                inference = self._c.c7x_client_next_completed(self._client)
                if inference == ffi.NULL:
                    return
                _wake_in(*self._flying[inference])

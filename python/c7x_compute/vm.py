# SPDX-License-Identifier: Apache-2.0
"""A module as a Python object."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import numpy as np

from c7x_compute._library import (FAULT, FAULTED, KV_RESIDENT, PRIORITY_MAX, PRIORITY_SHIFT, RESET, SYMBOL, TENSOR, PathLike,
                                  load_library)
from c7x_compute._session import Input, Session
from c7x_compute.errors import C7xError
from c7x_compute.inspect import TensorSpec, read_declaration

Outputs = Union[np.ndarray, "list[np.ndarray]"]


class C7xVirtualMachine:
    """Runs one module on a C7x device.

    The device is opened and the module loaded by the first call that needs it, and again by the first one after close(),
    after the device went away (C7xError "RESET") or the module's code failed ("FAULT"), or in a forked process. Any
    thread may call; the runs of one object follow one another on the device.

    module_path: lib0.out, as c7x-compile writes it. so_path: the native library, see find_c7x_arm_runtime_so. device:
    "emu" (a private emulator), "emu:" (the user's shared one), "emu:c7x-2" (its second core, a device of its own),
    "emu:PATH"; None: $C7X_DEVICE, else "emu". deadline: of each call on the device, in seconds; math.inf for ever, None
    60 s. name: shown to others who use the device. priority: of runs that name none, 1 (highest) to 8; None: 4.

    Raises FileNotFoundError if there is no module, or no library, at the path; OSError if the library does not load.
    """

    def __init__(self, module_path: PathLike, so_path: Optional[PathLike] = None, device: Optional[str] = None,
                 deadline: Optional[float] = None, name: Optional[str] = None,
                 priority: Optional[int] = None) -> None:
        if deadline is not None and not deadline >= 0:
            raise ValueError(f"deadline is {deadline}; it is in seconds, at least 0")
        self._library = load_library(so_path)
        self._path = os.fspath(module_path)
        if not os.path.exists(self._path):
            raise FileNotFoundError(f"no module at {self._path}")
        self._options = (device, deadline, name, _to_priority(priority))
        self._session: Optional[Session] = None
        self._last_cycles = 0
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Callable[..., Outputs]:
        """The module's function: a module has one, "main", which every name means."""
        if not isinstance(name, str):
            raise TypeError(f"functions have names, not {name!r}")
        return self.run

    def run(self, *inputs: Any, kv_resident: bool = False, priority: Optional[int] = None) -> Outputs:
        """Runs the module once on `inputs`, in the order of the declaration.

        An input is an array (a numpy array, a numpy scalar, or what speaks the array protocol, the buffer protocol or
        DLPack) in host memory, of exactly the declared shape and dtype. It is used in place if create_input() made it,
        else copied. Returns a new array, or a list of them unless there is exactly one output.

        kv_resident: the module's caches stay on the device, where kv_bind() made room for them. An input given as None,
        or left out at the end, is then the next slot, of the declared shape and dtype; where the module declares
        nothing, a TensorSpec in its place tells them. Outputs 1, 2, ... go to the slots for the next run; output 0
        alone is returned.

        priority: of this run, 1 (highest) to 8; None: the one of this object. A run of higher priority takes the core
        from one of lower priority that is under way.

        Raises TypeError for what is no array; ValueError for a priority that there is not; C7xError: "TENSOR" names the
        input, what was expected and what it got; "CALL" the module failed; "TIMEOUT" the deadline passed, and arrays of
        create_input() are ordinary memory from now on, which the run that was given up may still read; "BUSY" the
        device's queue is full; "FAULT" the module's code did what it must not (the text says what, and where), the
        next call loads it again; "RESET" the device went away, the next call opens it again.
        """
        return self._run(inputs, kv_resident, priority, as_views=False)

    def run_nocopy(self, *inputs: Any, kv_resident: bool = False, priority: Optional[int] = None) -> Outputs:
        """Like run(), but the arrays that it returns are views of the device's output buffer: the next run() or
        run_nocopy() of this object overwrites them. They may outlive close(), which then keeps the session until the
        last one is gone.
        """
        return self._run(inputs, kv_resident, priority, as_views=True)

    async def run_async(self, *inputs: Any, kv_resident: bool = False, priority: Optional[int] = None) -> Outputs:
        """run() without blocking the event loop, and without a thread; only opening the device and loading the module,
        in the first call, block it. Several may be awaited at once, in several event loops; those of one priority run
        in the order in which they were started, but for those of a module that does not declare its outputs and has
        more than 1 MiB of them. Inputs are copied, and may change once the call has been started and awaits the device.
        The deadline runs from then on.

        Cancelled, it takes the run back, or leaves it to end on its own if the device has begun it.
        """
        flags = _to_flags(kv_resident, priority)
        tensors = self._to_inputs(inputs, kv_resident)
        with self._held_session() as session:
            outputs, self._last_cycles = await session.infer_async(tensors, flags)
        return _one_or_all(outputs)

    def kv_bind(self, slots: int, slot_bytes: int = 0) -> None:
        """Gives the module a cache of its own on the device, zero-filled: `slots` slots of `slot_bytes` bytes; 0 slots
        take it away. It lasts until close(). Raises C7xError: "NOMEM", "SIZE"; "UNSUPPORTED": firmware of wire version
        3.0, which has one fixed cache.
        """
        with self._held_session() as session:
            session.kv_bind(slots, slot_bytes)

    def create_input(self, shape: Union[int, Sequence[int]], dtype: Any = np.float32) -> np.ndarray:
        """A new array in the device's input buffer, 128-byte aligned, with arbitrary contents. run() uses it in place.

        Valid for this session: after close() it is an ordinary array, which run() copies. What a module declares fits;
        for more call reserve() first. Raises C7xError "SIZE" when the buffer is full, TypeError for an unfit dtype.
        """
        extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        extents = tuple(int(extent) for extent in extents)
        if any(extent < 0 for extent in extents):
            raise ValueError(f"shape {extents} has a negative extent")
        with self._held_session() as session:
            return session.create_input(extents, np.dtype(dtype))

    def reserve(self, input_bytes: int = 0, output_bytes: int = 0) -> None:
        """Makes the shared buffers at least this large; before the first create_input(). Raises C7xError: "LOCKED"
        after it, "NOMEM", "SIZE".
        """
        with self._held_session() as session:
            session.reserve(input_bytes, output_bytes)

    @property
    def last_cycles(self) -> int:
        """Of the last run that succeeded: clock cycles on a board, nanoseconds in the emulator; 0 before it."""
        return self._last_cycles

    @property
    def is_loaded(self) -> bool:
        """Whether the module is on the device now."""
        return self._session is not None

    def close(self) -> None:
        """Unloads the module and leaves the device, when the runs that are under way have ended. May be called twice;
        the next run opens it again.
        """
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.retire()

    def __enter__(self) -> C7xVirtualMachine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            session.retire()

    @contextlib.contextmanager
    def _held_session(self) -> Iterator[Session]:
        """The session, opened if there is none, which stays open meanwhile."""
        with self._lock:
            if self._session is None or self._session.process != os.getpid():
                self._session = Session(self._library, self._path, *self._options)
            session = self._session
            token = session.hold()
        try:
            yield session
        except C7xError as error:
            if error.code in (RESET, FAULT, FAULTED):
                self._forget(session)
            raise
        finally:
            session.release(token)

    def _forget(self, session: Session) -> None:
        with self._lock:
            if self._session is session:
                self._session = None
        session.retire()

    def _run(self, inputs: Sequence[Any], kv_resident: bool, priority: Optional[int], as_views: bool) -> Outputs:
        flags = _to_flags(kv_resident, priority)
        tensors = self._to_inputs(inputs, kv_resident)
        with self._held_session() as session:
            outputs, self._last_cycles = session.infer(tensors, flags, as_views)
        return _one_or_all(outputs)

    def _to_inputs(self, inputs: Sequence[Any], kv_resident: bool) -> list[Input]:
        if not kv_resident:
            return [_to_array(index, value) for index, value in enumerate(inputs)]
        tensors = [self._slot(index) if value is None else value if isinstance(value, TensorSpec)
                   else _to_array(index, value) for index, value in enumerate(inputs)]
        return [*tensors, *self._declared_inputs[len(tensors):]]

    def _slot(self, index: int) -> TensorSpec:
        if index >= len(self._declared_inputs):
            raise self._library.error(TENSOR, f"input {index}: the module declares {len(self._declared_inputs)} "
                                              "inputs; a TensorSpec tells the shape and dtype of a KV slot")
        return self._declared_inputs[index]

    @functools.cached_property
    def _declared_inputs(self) -> tuple[TensorSpec, ...]:
        try:
            return read_declaration(self._library, self._path).inputs
        except C7xError as error:
            if error.code != SYMBOL:
                raise
            return ()  # a module without a manifest


def _to_priority(priority: Optional[int]) -> int:
    """As the library takes it: 0 for None."""
    if priority is None:
        return 0
    if priority not in range(1, PRIORITY_MAX + 1):
        raise ValueError(f"priority is {priority!r}; it is 1 (highest) to {PRIORITY_MAX}")
    return int(priority)


def _to_flags(kv_resident: bool, priority: Optional[int]) -> int:
    return (KV_RESIDENT if kv_resident else 0) | _to_priority(priority) << PRIORITY_SHIFT


def _one_or_all(outputs: list) -> Outputs:
    return outputs[0] if len(outputs) == 1 else outputs


def _to_array(index: int, value: Any) -> np.ndarray:
    """A row-major array of native byte order; a copy only if it must be."""
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__array__") or hasattr(value, "__array_interface__") or _has_buffer(value):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__"):
        array = np.from_dlpack(value)
    else:
        raise TypeError(f"input {index}: {type(value).__name__} is no array; use numpy.asarray(value, dtype)")
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _has_buffer(value: Any) -> bool:
    if isinstance(value, (bytes, str)):
        return False
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True

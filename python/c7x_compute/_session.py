# SPDX-License-Identifier: Apache-2.0
"""One open device with one loaded module. Any thread may call it while it holds it (Session.hold)."""

from __future__ import annotations

import math
import os
import threading
from typing import Optional, Union

import numpy as np

from c7x_compute._flights import Flights
from c7x_compute._library import OUTPUTS_MAX, PROTOCOL, RANK_MAX, TENSOR, TIMEOUT, Library, ffi
from c7x_compute.dtypes import from_dtype, to_dtype
from c7x_compute.errors import C7xError
from c7x_compute.inspect import TensorSpec

_ALIGNMENT = 128
# Memory for modules that declare no sizes; pages that are not touched cost nothing.
_UNDECLARED_INPUT_BYTES = 16 << 20
_UNDECLARED_OUTPUT_BYTES = 1 << 20

# An input: data, or the description of a KV slot.
Input = Union[np.ndarray, TensorSpec]


class _Shared:
    """Bytes of shared memory as an array; keeps the session, and so the memory, while anyone refers to it."""

    def __init__(self, session: Session, address: int, size: int) -> None:
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (size,), "typestr": "|u1"}
        self._session = session
        session.holders.add(id(self))

    def __del__(self) -> None:
        self._session.release(id(self))


class Session:
    """Opens the device and loads the module; raises C7xError.

    Memory that was handed out as arrays stays mapped, and runs that are under way go on: retire() closes at once if
    there are none of them, else with the last one.
    """

    def __init__(self, library: Library, module_path: str, device: Optional[str], deadline: Optional[float],
                 name: Optional[str], priority: int) -> None:
        self.library = library
        self.process = os.getpid()
        self.holders: set = set()  # ids of arrays, tokens of runs; its add and discard are atomic
        self._output_views: set[int] = set()
        self._retired = False
        self._has_inputs = False
        self._lock = threading.RLock()  # of what uses the client's own buffers
        self._clients: list = []  # the open client; its removal is atomic
        strings = [ffi.NULL if text is None else ffi.new("char[]", os.fsencode(text)) for text in (device, name)]
        options = ffi.new("struct c7x_client_options *")
        library.c.c7x_client_options_init(options)
        options.device, options.name = strings
        options.priority = priority
        if deadline is not None:
            options.deadline_ms = -1 if math.isinf(deadline) else math.ceil(deadline * 1000)
        out_client = ffi.new("struct c7x_client **")
        status = library.c.c7x_client_open_with(options, out_client)
        if status != 0:
            raise library.last_error(status)
        self._client = out_client[0]
        self._flights = Flights(library, self._client)
        self._clients.append(self._client)
        out_handle = ffi.new("uint32_t *")
        status = library.c.c7x_client_dyn_load(self._client, os.fsencode(module_path), out_handle)
        if status != 0:
            error = library.last_error(status, self._client)
            self.close()
            raise error
        self._handle = out_handle[0]
        declared = ffi.new("uint64_t[2]")
        counts = ffi.new("uint32_t[3]")
        self._check(library.c.c7x_client_get_io_meta(self._client, declared, declared + 1, counts, counts + 1,
                                                     counts + 2))
        self._input_bytes = declared[0] and declared[0] + _ALIGNMENT * (counts[0] + 1)  # of a set; 0: not declared
        # A window that turns out too small is made larger and the inference sent again, behind others.
        self._output_bytes = 0 if declared[1] else _UNDECLARED_OUTPUT_BYTES  # 0: what is declared

    def close(self) -> None:
        """Ends the session; the memory of all views is gone."""
        try:
            client = self._clients.pop()
        except IndexError:
            return
        if self.process == os.getpid():  # after a fork it is still the parent's
            self._flights.forget()
            self.library.c.c7x_client_close(client)

    def hold(self) -> object:
        """Keeps it open until release() of what is returned; only before retire()."""
        token = object()
        self.holders.add(token)
        return token

    def release(self, token: object) -> None:
        self.holders.discard(token)
        self._close_if_unused()

    def retire(self) -> None:
        """Closes as soon as nobody holds it."""
        self._retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._retired and not self.holders:
            self.close()

    def __del__(self) -> None:
        if hasattr(self, "_clients"):
            self.close()

    def infer(self, inputs: list[Input], flags: int, as_views: bool) -> tuple[list, int]:
        """Runs the module; the outputs as copies, or as views of the output buffer, and the cycles."""
        with self._lock:
            self._pin_outputs()
            tensors = self._describe_all(inputs)
            try:
                return self._take_all(as_views, lambda *out: self.library.c.c7x_client_infer_flags(
                    self._client, self._handle, 0, tensors, len(inputs), *out, flags))
            except C7xError as error:
                if error.code == TIMEOUT:  # the device may keep the buffers; there will be others
                    self._has_inputs = False
                    self._output_views = set()
                raise

    async def infer_async(self, inputs: list[Input], flags: int) -> tuple[list, int]:
        """infer() without waiting; the outputs as copies."""
        c = self.library.c

        def send():
            tensors = self._describe_all(inputs)
            options = ffi.new("struct c7x_infer_options *")
            c.c7x_infer_options_init(self._client, options)
            options.handle = self._handle
            options.flags = flags
            options.output_bytes = self._output_bytes
            out_inference = ffi.new("struct c7x_inference **")
            self._check(c.c7x_client_infer_async(self._client, options, tensors, len(inputs), out_inference))
            return out_inference[0]

        return await self._flights.fly(send, lambda inference: self._take_all(
            False, lambda *out: c.c7x_inference_result(inference, *out)))

    def kv_bind(self, slots: int, slot_bytes: int) -> None:
        self._check(self.library.c.c7x_client_kv_bind(self._client, self._handle, slots, slot_bytes))

    def create_input(self, shape: tuple, dtype: np.dtype) -> np.ndarray:
        code, bits = from_dtype(dtype)
        tensor = ffi.new("struct c7x_client_tensor *")
        with self._lock:
            self._make_room_for_inputs()
            self._check(self.library.c.c7x_client_create_input(self._client, shape, len(shape), code, bits, tensor))
            self._has_inputs = True
        return self._view(tensor, shape, dtype)

    def reserve(self, input_bytes: int, output_bytes: int) -> None:
        with self._lock:
            self._pin_outputs()
            self._check(self.library.c.c7x_client_reserve_io(self._client, input_bytes, output_bytes))

    def _check(self, status: int) -> None:
        if status != 0:
            raise self.library.last_error(status, self._client)

    def _pin_outputs(self) -> None:
        """While views of outputs live, the output buffer must stay where it is: from now on it cannot grow."""
        if self._output_views & self.holders:
            self.library.c.c7x_client_get_output_buffer(self._client, ffi.NULL)

    def _make_room_for_inputs(self) -> None:
        """Before the first created input: an input buffer with room for a set of inputs that are copied beside one
        that is created.
        """
        if self._has_inputs:
            return
        c = self.library.c
        capacity = c.c7x_client_input_capacity(self._client)
        wanted = max(capacity, self._input_bytes) + self._input_bytes or _UNDECLARED_INPUT_BYTES
        self._pin_outputs()
        c.c7x_client_reserve_io(self._client, wanted, 0)  # without the extra room create_input may still do

    def _describe_all(self, inputs: list[Input]):
        tensors = ffi.new("struct c7x_client_tensor[]", max(len(inputs), 1))
        for index, value in enumerate(inputs):
            self._describe(index, value, tensors[index])
        return tensors

    def _describe(self, index: int, value: Input, tensor) -> None:
        rank = len(value.shape)
        if rank > RANK_MAX:
            raise self.library.error(TENSOR, f"input {index}: rank {rank} is not 0 to {RANK_MAX}")
        try:
            tensor.dtype_code, tensor.dtype_bits = from_dtype(value.dtype)
        except TypeError as error:
            raise TypeError(f"input {index}: {error}") from None
        if isinstance(value, np.ndarray):
            tensor.data = ffi.cast("void *", value.__array_interface__["data"][0])
        tensor.data_size = math.prod(value.shape) * value.dtype.itemsize
        tensor.ndim = rank
        tensor.shape[0:rank] = value.shape

    def _take_all(self, as_views: bool, call) -> tuple[list, int]:
        """The outputs and cycles that `call` fills in."""
        outputs = ffi.new("struct c7x_client_tensor[]", OUTPUTS_MAX)
        count = ffi.new("int *", OUTPUTS_MAX)
        cycles = ffi.new("uint64_t *")
        self._check(call(outputs, count, cycles))
        return [self._take(index, outputs[index], as_views) for index in range(count[0])], cycles[0]

    def _take(self, index: int, tensor, as_view: bool) -> np.ndarray:
        dtype = to_dtype(tensor.dtype_code, tensor.dtype_bits)
        shape = tuple(tensor.shape[0:tensor.ndim])
        if math.prod(shape) * dtype.itemsize != tensor.data_size:
            raise self.library.error(PROTOCOL, f"output {index}: {tensor.data_size} bytes are no {dtype} {list(shape)}")
        if as_view:
            view = self._view(tensor, shape, dtype)
            self._output_views = (self._output_views & self.holders) | {id(_owner(view))}
            return view
        if tensor.data_size == 0:
            return np.empty(shape, dtype)
        return np.frombuffer(ffi.buffer(tensor.data, tensor.data_size), dtype).reshape(shape).copy()

    def _view(self, tensor, shape: tuple, dtype: np.dtype) -> np.ndarray:
        address = int(ffi.cast("uintptr_t", tensor.data))
        return np.asarray(_Shared(self, address, tensor.data_size)).view(dtype).reshape(shape)


def _owner(array: np.ndarray):
    """The _Shared that an array of _view has its memory from."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base

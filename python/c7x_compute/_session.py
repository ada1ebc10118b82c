# SPDX-License-Identifier: Apache-2.0
"""One open device with one loaded module. Not thread-safe: the virtual machine holds its lock around each call."""

from __future__ import annotations

import math
import os
from typing import Optional

import numpy as np

from c7x_compute._library import OUTPUTS_MAX, PROTOCOL, RANK_MAX, SIZE, TENSOR, TIMEOUT, Library, ffi
from c7x_compute.dtypes import from_dtype, to_dtype

_ALIGNMENT = 128
# Input memory for modules that declare no sizes; pages that are not touched cost nothing.
_UNDECLARED_INPUT_BYTES = 16 << 20


class _Shared:
    """Bytes of shared memory as an array; keeps the session, and so the memory, while anyone refers to it."""

    def __init__(self, session: Session, address: int, size: int) -> None:
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (size,), "typestr": "|u1"}
        self._session = session
        self.generation = session.generation
        self._registry = session.views
        self._registry.add(id(self))

    def is_lost(self) -> bool:
        """Whether the memory is not there any more."""
        return self.generation != self._session.generation

    def __del__(self) -> None:
        self._registry.discard(id(self))
        self._session.close_if_unused()


class Session:
    """Opens the device and loads the module; raises C7xError.

    Memory that was handed out as arrays stays mapped: retire() closes at once if there are none of them, else when the
    last one is collected.
    """

    def __init__(self, library: Library, module_path: str, device: Optional[str], deadline: Optional[float],
                 name: Optional[str]) -> None:
        self.library = library
        self.process = os.getpid()
        self.cycles = 0
        self.views: set[int] = set()  # ids of the living _Shared; add and discard are atomic
        self.generation = 0  # of the shared buffers: views of an older one have lost their memory
        self._output_views: set[int] = set()
        self._retired = False
        self._buffer: Optional[tuple[int, int]] = None
        self._input_end = 0  # offset behind the last slot; 0: no slot yet
        self._clients: list = []  # the open client; its removal is atomic
        strings = [ffi.NULL if text is None else ffi.new("char[]", os.fsencode(text)) for text in (device, name)]
        options = ffi.new("struct c7x_client_options *")
        library.c.c7x_client_options_init(options)
        options.device, options.name = strings
        if deadline is not None:
            options.deadline_ms = -1 if math.isinf(deadline) else math.ceil(deadline * 1000)
        out_client = ffi.new("struct c7x_client **")
        status = library.c.c7x_client_open_with(options, out_client)
        if status != 0:
            raise library.last_error(status)
        self._clients.append(out_client[0])
        self._client = out_client[0]
        out_handle = ffi.new("uint32_t *")
        status = library.c.c7x_client_dyn_load(self._client, os.fsencode(module_path), out_handle)
        if status != 0:
            error = library.last_error(status, self._client)
            self.close()
            raise error
        self._handle = out_handle[0]

    def close(self) -> None:
        """Ends the session; the memory of all views is gone."""
        try:
            client = self._clients.pop()
        except IndexError:
            return
        if self.process == os.getpid():  # after a fork it is still the parent's
            self.library.c.c7x_client_close(client)

    def retire(self) -> None:
        """Closes as soon as no view is left."""
        self._retired = True
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self._retired and not self.views:
            self.close()

    def __del__(self) -> None:
        if hasattr(self, "_clients"):
            self.close()

    def infer(self, inputs: list, as_views: bool) -> list:
        """Runs the module; the outputs as copies, or as views of the output buffer."""
        c = self.library.c
        self._pin_outputs()
        tensors = ffi.new("struct c7x_client_tensor[]", max(len(inputs), 1))
        for index, array in enumerate(inputs):
            self._describe(index, array, tensors[index])
        self._copy_behind_slots(inputs, tensors)
        outputs = ffi.new("struct c7x_client_tensor[]", OUTPUTS_MAX)
        count = ffi.new("int *", OUTPUTS_MAX)
        cycles = ffi.new("uint64_t *")
        status = c.c7x_client_infer(self._client, self._handle, 0, tensors, len(inputs), outputs, count, cycles)
        if status != 0:
            error = self.library.last_error(status, self._client)
            if status == TIMEOUT and c.c7x_client_input_capacity(self._client) == 0:
                self._forget_buffers()
            raise error
        self.cycles = cycles[0]
        return [self._take(index, outputs[index], as_views) for index in range(count[0])]

    def create_input(self, shape: tuple, dtype: np.dtype) -> np.ndarray:
        from_dtype(dtype)
        size = math.prod(shape) * dtype.itemsize
        base, capacity = self.input_buffer()
        start = _round_up(self._input_end or self.library.c.c7x_client_get_input_data_offset(self._client))
        if start + size > capacity:
            raise self.library.error(SIZE, f"{size} bytes do not fit the input buffer of {capacity}, of which {start} "
                                           "are taken; reserve() before the first create_input makes it larger")
        self._input_end = start + size
        return self._view(base + start, size, shape, dtype)

    def reserve(self, input_bytes: int, output_bytes: int) -> None:
        self._pin_outputs()
        status = self.library.c.c7x_client_reserve_io(self._client, input_bytes, output_bytes)
        if status != 0:
            raise self.library.last_error(status, self._client)

    def _forget_buffers(self) -> None:
        """After a time-out the library leaves its buffers to the device, which may still use them."""
        self.generation += 1
        self._buffer = None
        self._input_end = 0
        self._output_views = set()

    def _pin_outputs(self) -> None:
        """While views of outputs live, the output buffer must stay where it is: from now on it cannot grow."""
        if self._output_views & self.views:
            self.library.c.c7x_client_get_output_buffer(self._client, ffi.NULL)

    def input_buffer(self) -> tuple[int, int]:
        """(address, size) of the input buffer, with room for a set of inputs that are copied beside one that
        create_input made; fixes its place.
        """
        if self._buffer is None:
            self._buffer = self._make_input_buffer()
        return self._buffer

    def _make_input_buffer(self) -> tuple[int, int]:
        c = self.library.c
        declared = ffi.new("uint64_t[2]")
        counts = ffi.new("uint32_t[3]")
        c.c7x_client_get_io_meta(self._client, declared, declared + 1, counts, counts + 1, counts + 2)
        wanted = c.c7x_client_input_capacity(self._client)
        if declared[0] != 0:
            wanted += declared[0] + _ALIGNMENT * (counts[0] + 1)
        self._pin_outputs()
        status = c.c7x_client_reserve_io(self._client, wanted or _UNDECLARED_INPUT_BYTES, 0)
        out_size = ffi.new("size_t *")
        pointer = c.c7x_client_get_input_buffer(self._client, out_size)
        if pointer == ffi.NULL:  # without the extra room it does
            raise self.library.last_error(status, self._client)
        return int(ffi.cast("uintptr_t", pointer)), out_size[0]

    def _copy_behind_slots(self, inputs: list, tensors) -> None:
        """The library would copy an input to where create_input's are: behind them it harms nobody."""
        if self._input_end == 0:
            return
        base, capacity = self.input_buffer()
        end = self._input_end
        for index, array in enumerate(inputs):
            tensor = tensors[index]
            if base <= int(ffi.cast("uintptr_t", tensor.data)) < base + capacity:
                continue
            start = _round_up(end)
            end = start + array.nbytes
            if end > capacity:
                raise self.library.error(SIZE, f"input {index}: {array.nbytes} bytes do not fit the input buffer of "
                                               f"{capacity}, of which {start} are taken by create_input")
            ffi.memmove(ffi.cast("char *", base + start), tensor.data, array.nbytes)
            tensor.data = ffi.cast("void *", base + start)

    def _describe(self, index: int, array: np.ndarray, tensor) -> None:
        if array.ndim > RANK_MAX:
            raise self.library.error(TENSOR, f"input {index}: rank {array.ndim} is not 0 to {RANK_MAX}")
        owner = _owner(array)
        if isinstance(owner, _Shared) and owner.is_lost():
            raise self.library.error(TENSOR, f"input {index}: the device kept its memory after a time-out; create it "
                                             "anew")
        try:
            tensor.dtype_code, tensor.dtype_bits = from_dtype(array.dtype)
        except TypeError as error:
            raise TypeError(f"input {index}: {error}") from None
        tensor.data = ffi.cast("void *", array.__array_interface__["data"][0])
        tensor.data_size = array.nbytes
        tensor.ndim = array.ndim
        tensor.shape[0:array.ndim] = array.shape

    def _take(self, index: int, tensor, as_view: bool) -> np.ndarray:
        dtype = to_dtype(tensor.dtype_code, tensor.dtype_bits)
        shape = tuple(tensor.shape[0:tensor.ndim])
        if math.prod(shape) * dtype.itemsize != tensor.data_size:
            raise self.library.error(PROTOCOL, f"output {index}: {tensor.data_size} bytes are no {dtype} {list(shape)}")
        if as_view:
            view = self._view(int(ffi.cast("uintptr_t", tensor.data)), tensor.data_size, shape, dtype)
            self._output_views = (self._output_views & self.views) | {id(_owner(view))}
            return view
        if tensor.data_size == 0:
            return np.empty(shape, dtype)
        return np.frombuffer(ffi.buffer(tensor.data, tensor.data_size), dtype).reshape(shape).copy()

    def _view(self, address: int, size: int, shape: tuple, dtype: np.dtype) -> np.ndarray:
        return np.asarray(_Shared(self, address, size)).view(dtype).reshape(shape)


def _owner(array: np.ndarray):
    """What an array, however derived, has its memory from: for those that _view made a _Shared."""
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base


def _round_up(offset: int) -> int:
    return (offset + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT

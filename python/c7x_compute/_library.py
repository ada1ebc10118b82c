# SPDX-License-Identifier: Apache-2.0
"""Finds libc7x_compute and loads it; its functions and structs as include/c7x_compute_client.h declares them."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Optional, Union

import cffi

from c7x_compute.errors import C7xError

PathLike = Union[str, "os.PathLike[str]"]

RANK_MAX = 6
OUTPUTS_MAX = 128
TIMEOUT, TENSOR, SYMBOL, FAULT, FAULTED = -5, -14, -10, -16, -17
RESET, PROTOCOL, HOST_NOMEM = -105, -107, -108
KV_RESIDENT = 0x00010000
PRIORITY_SHIFT, PRIORITY_MAX = 20, 8

# Taken over word for word from the header, which a test compares.
DECLARATIONS = """
struct c7x_client;
struct c7x_inference;
struct c7x_module_declaration;
struct c7x_shared;

struct c7x_client_tensor {
    void *data;
    size_t data_size;
    int32_t ndim;
    int32_t dtype_code;
    int32_t dtype_bits;
    int32_t reserved;
    int64_t shape[6];
};

typedef void (*c7x_client_print_fn)(void *context, const char *text, size_t size);

struct c7x_client_options {
    size_t struct_size;
    const char *device;
    int64_t deadline_ms;
    int priority;
    const char *name;
    int start;
    c7x_client_print_fn print;
    void *print_context;
};

typedef void (*c7x_inference_done_fn)(void *context, struct c7x_inference *inference);

struct c7x_infer_options {
    size_t struct_size;
    uint32_t handle;
    uint32_t model_id;
    uint32_t flags;
    int64_t deadline_ms;
    uint64_t output_bytes;
    c7x_inference_done_fn done;
    void *context;
    struct c7x_shared *input;
    struct c7x_shared *output;
};

struct c7x_module_tensor {
    size_t struct_size;
    const char *name;
    int32_t ndim;
    int32_t dtype_code;
    int32_t dtype_bits;
    int64_t shape[6];
};

void c7x_client_options_init(struct c7x_client_options *options);
int c7x_client_open_with(const struct c7x_client_options *options, struct c7x_client **out_client);
void c7x_client_close(struct c7x_client *client);
const char *c7x_client_last_error(const struct c7x_client *client);
const char *c7x_client_last_station(const struct c7x_client *client);
int c7x_client_dyn_load(struct c7x_client *client, const char *path, uint32_t *out_handle);
int c7x_client_kv_bind(struct c7x_client *client, uint32_t handle, uint32_t slot_count,
                       uint64_t slot_bytes);
int c7x_client_infer_flags(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                           const struct c7x_client_tensor *inputs, int input_count,
                           struct c7x_client_tensor *outputs, int *inout_output_count,
                           uint64_t *out_cycles, uint32_t flags);
void c7x_infer_options_init(struct c7x_client *client, struct c7x_infer_options *options);
int c7x_client_infer_async(struct c7x_client *client, const struct c7x_infer_options *options,
                           const struct c7x_client_tensor *inputs, int input_count,
                           struct c7x_inference **out_inference);
int c7x_inference_result(struct c7x_inference *inference, struct c7x_client_tensor *outputs,
                         int *inout_output_count, uint64_t *out_cycles);
void c7x_inference_free(struct c7x_inference *inference);
int c7x_client_event_fd(struct c7x_client *client);
struct c7x_inference *c7x_client_next_completed(struct c7x_client *client);
int c7x_client_create_input(struct c7x_client *client, const int64_t *shape, int ndim,
                            int dtype_code, int dtype_bits, struct c7x_client_tensor *out_tensor);
void *c7x_client_get_output_buffer(struct c7x_client *client, size_t *out_size);
size_t c7x_client_input_capacity(struct c7x_client *client);
int c7x_client_reserve_io(struct c7x_client *client, uint64_t input_bytes, uint64_t output_bytes);
int c7x_client_get_io_meta(struct c7x_client *client, uint64_t *out_input_bytes,
                           uint64_t *out_output_bytes, uint32_t *out_input_count,
                           uint32_t *out_output_count, uint32_t *out_flags);

int c7x_module_declaration_read(const char *path, struct c7x_module_declaration **out_declaration);
void c7x_module_declaration_free(struct c7x_module_declaration *declaration);
int c7x_module_declaration_input_count(const struct c7x_module_declaration *declaration);
int c7x_module_declaration_output_count(const struct c7x_module_declaration *declaration);
int c7x_module_declaration_input(const struct c7x_module_declaration *declaration, int index,
                                 struct c7x_module_tensor *out_tensor);
int c7x_module_declaration_output(const struct c7x_module_declaration *declaration, int index,
                                  struct c7x_module_tensor *out_tensor);

const char *c7x_status_name(int status);
const char *c7x_status_next_step(int status);
const char *c7x_client_version(void);
"""

ffi = cffi.FFI()
ffi.cdef(DECLARATIONS)

_FILE = "libc7x_compute.so"
_SONAME = "libc7x_compute.so.0"
_FUNCTIONS = re.findall(r"\b(c7x_\w+)\(", re.sub(r"typedef.*", "", DECLARATIONS))


def _text(pointer) -> str:
    return ffi.string(pointer).decode(errors="replace")


class Library:
    """A loaded libc7x_compute."""

    def __init__(self, path: str) -> None:
        """Raises OSError, which names the path, for a file that is no such library."""
        try:
            self.c = ffi.dlopen(path)
        except OSError as error:
            raise OSError(f"cannot load the C7x library {path}: {error}") from None
        for name in _FUNCTIONS:
            try:
                getattr(self.c, name)
            except AttributeError:
                raise OSError(f"{path} is not the C7x library of this package's version: it has no {name}") from None

    def error(self, code: int, text: str, station: str = "client") -> C7xError:
        """The exception for a status and a text of our own."""
        return C7xError(text, code, _text(self.c.c7x_status_name(code)), station,
                        _text(self.c.c7x_status_next_step(code)))

    def last_error(self, code: int, client=ffi.NULL) -> C7xError:
        """The exception for the failure that this client (NULL: this thread) had just now."""
        return self.error(code, _text(self.c.c7x_client_last_error(client)),
                          _text(self.c.c7x_client_last_station(client)))


def find_c7x_arm_runtime_so(so_path: Optional[PathLike] = None) -> str:
    """Where libc7x_compute is: `so_path`, $C7X_LIBRARY, the copy in this package, build/lib of a source checkout, the
    system. Returns a path, or a bare name that the dynamic linker finds. Raises FileNotFoundError.
    """
    for source, named in (("so_path", so_path), ("C7X_LIBRARY", os.environ.get("C7X_LIBRARY"))):
        if not named:
            continue
        path = os.fspath(named)
        if "/" in path and not os.path.exists(path):
            raise FileNotFoundError(f"no C7x library at {path} ({source})")
        return path
    package = Path(__file__).resolve().parent
    checkout = package.parent.parent
    places = [package / "lib" / _FILE]
    if (checkout / "include" / "c7x_compute_client.h").exists():
        places.append(checkout / "build" / "lib" / _FILE)
    for place in places:
        if place.exists():
            return str(place)
    try:
        ffi.dlopen(_SONAME)
    except OSError:
        looked = ", ".join(str(place) for place in [*places, _SONAME])
        raise FileNotFoundError(f"no C7x library: looked for {looked}; name it in C7X_LIBRARY") from None
    return _SONAME


@functools.lru_cache(maxsize=None)
def _load(path: str) -> Library:
    return Library(path)


def load_library(so_path: Optional[PathLike] = None) -> Library:
    """The library, loaded once. Raises FileNotFoundError or OSError."""
    return _load(find_c7x_arm_runtime_so(so_path))

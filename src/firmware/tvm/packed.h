/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that modules find by name. */
#ifndef C7X_FIRMWARE_TVM_PACKED_H
#define C7X_FIRMWARE_TVM_PACKED_H

#include "c7x_module.h"

typedef int (*c7x_packed_fn)(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);

/* "vm.builtin.alloc_storage" and its like; NULL for a name that is none. */
c7x_packed_fn c7x_tvm_find_packed(const char *name);

/* The builtin at an address that a module was given; NULL if it is something else. */
c7x_packed_fn c7x_tvm_packed_of(const void *address);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants of a weights blob (docs/modules.md, "Weights"). Tensor and string data are used
 * where they lie; the blob is memory that the host can write, so each field of its structure is
 * read once and checked as read.
 */
#ifndef C7X_FIRMWARE_TVM_CONSTANTS_H
#define C7X_FIRMWARE_TVM_CONSTANTS_H

#include "base/status.h"
#include "c7x_module.h"
#include "firmware/memory/heap.h"

#include <stdbool.h>

struct c7x_constants {
    struct c7x_heap *heap;
    uint32_t count;
    TVMFFIAny *values;
    struct c7x_constant_object *objects; /* one for each value, used by the counted ones */
};

/* C7X_WEIGHTS names the constant and what is wrong with it; C7X_NOMEM. On failure nothing stays
 * allocated. */
enum c7x_status c7x_constants_load(const uint8_t *bytes, uint64_t size, struct c7x_heap *heap,
                                   uint32_t owner, struct c7x_constants *out,
                                   struct c7x_error *error) C7X_NODISCARD;
/* Bytes of a compact tensor, also of one in a blob; false if a dimension is negative or the product
 * overflows. */
bool c7x_tvm_tensor_bytes(const int64_t *shape, int32_t ndim, unsigned bits, unsigned lanes,
                          uint64_t *out_bytes);
/* Legal on a zeroed struct, which it leaves behind. */
void c7x_constants_unload(struct c7x_constants *constants);

#endif

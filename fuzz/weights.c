/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as weights.bin. */
#include "firmware/tvm/constants.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES (4u << 20)

static void load(const uint8_t *data, size_t size, struct c7x_heap *heap)
{
    struct c7x_constants constants = {0};
    struct c7x_error error;
    struct c7x_heap_statistics left;
    if (c7x_constants_load(data, size, heap, c7x_heap_owner_new(heap), &constants, &error) ==
        C7X_OK)
        c7x_constants_unload(&constants);
    c7x_heap_get_statistics(heap, &left);
    if (left.block_count != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *region;
    if (region == NULL)
        region = aligned_alloc(4096, HEAP_BYTES);
    struct c7x_heap *heap = c7x_heap_create(region, HEAP_BYTES, "fuzz");
    uint8_t *blob = malloc(size + 1); /* aligned as in a file */
    if (size != 0)
        memcpy(blob, data, size);
    load(blob, size, heap);
    free(blob);
    c7x_heap_destroy(heap);
    return 0;
}

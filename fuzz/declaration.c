/* SPDX-License-Identifier: Apache-2.0 */
/* 40 bytes as io_meta, the rest as a manifest. */
#include "firmware/tvm/manifest.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES (4u << 20)
#define IO_META_BYTES 40u

static uint8_t *io_meta;
static uint8_t *manifest;
static uint32_t manifest_size;

static void *find(const struct c7x_symbol_source *source, const char *name)
{
    (void)source;
    if (strcmp(name, "_binary_c7x_manifest_start") == 0)
        return manifest;
    if (strcmp(name, "_binary_c7x_manifest_size") == 0)
        return &manifest_size;
    return strcmp(name, "_binary_tvm_dsp_io_meta_start") == 0 ? io_meta : NULL;
}

static uint64_t extent(const struct c7x_symbol_source *source, const void *address)
{
    (void)source;
    if (address == manifest)
        return manifest_size;
    return address == io_meta ? IO_META_BYTES : sizeof(manifest_size);
}

static void read_both(struct c7x_heap *heap)
{
    static const struct c7x_symbol_source symbols = {.find = find, .extent = extent};
    struct c7x_manifest read = {0};
    struct c7x_module_io io;
    struct c7x_error error;
    struct c7x_heap_statistics left;
    (void)c7x_io_meta_read(&symbols, &io);
    if (c7x_manifest_read(&symbols, heap, c7x_heap_owner_new(heap), &read, &error) == C7X_OK)
        c7x_heap_free(heap, read.inputs);
    c7x_heap_get_statistics(heap, &left);
    if (left.block_count != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *region;
    if (region == NULL)
        region = aligned_alloc(4096, HEAP_BYTES);
    if (size < IO_META_BYTES)
        return 0;
    struct c7x_heap *heap = c7x_heap_create(region, HEAP_BYTES, "fuzz");
    manifest_size = (uint32_t)(size - IO_META_BYTES);
    io_meta = malloc(IO_META_BYTES);
    manifest = malloc(manifest_size + 1);
    memcpy(io_meta, data, IO_META_BYTES);
    memcpy(manifest, data + IO_META_BYTES, manifest_size);
    read_both(heap);
    free(io_meta);
    free(manifest);
    c7x_heap_destroy(heap);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
/* Bytes as a module file, for every processor: all of a load but for what would run. */
#include "firmware/loader/loader.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEAP_BYTES (4u << 20)

static int exported;

static void *find_export(const struct c7x_symbol_source *source, const char *name)
{
    (void)source;
    return name[0] == 'T' || name[0] == 'p' ? &exported : NULL;
}

static const struct c7x_symbol_source exports = {.find = find_export, .title = "table"};

/* Asks for all that an open program can tell. */
static void look_at(const struct c7x_program *program)
{
    const struct c7x_symbol_source *symbols = c7x_loader_symbols(program);
    struct c7x_loader_segment segment;
    struct c7x_loader_symbol symbol;
    char text[64];
    for (unsigned i = 0; c7x_loader_segment(program, i, &segment); i++)
        ;
    for (uint64_t i = 0; i < 64 && c7x_loader_symbol(program, i, &symbol); i++) {
        const void *address = symbols->find(symbols, symbol.name);
        uint64_t extent = symbols->extent(symbols, address);
        (void)c7x_loader_describe(program, address, text, sizeof(text));
        if (extent != 0 && ((const volatile uint8_t *)address)[extent - 1] == 1)
            exported = 0;
    }
}

static void load(const uint8_t *data, size_t size, struct c7x_heap *heap, bool copy)
{
    struct c7x_loader_request request = {.bytes = data,
                                         .size = size,
                                         .address = C7X_MEMORY_CARVEOUT_BASE,
                                         .copy_read_only = copy,
                                         .heap = heap,
                                         .owner = c7x_heap_owner_new(heap),
                                         .imports = &exports};
    struct c7x_program *program = NULL;
    struct c7x_error error;
    struct c7x_heap_statistics left;
    if (c7x_loader_open(&request, &program, &error) == C7X_OK) {
        look_at(program);
        if (c7x_loader_link(program, &error) == C7X_OK)
            look_at(program);
        c7x_loader_unload(program, true);
    }
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
    /* As staged: a block of its own, of exactly that size, on a page. */
    void *staged = NULL;
    if (posix_memalign(&staged, 4096, size == 0 ? 1 : size) != 0)
        abort();
    if (size != 0)
        memcpy(staged, data, size);
    load(staged, size, heap, false);
    load(staged, size, heap, true);
    if (size != 0 && memcmp(staged, data, size) != 0)
        abort();
    free(staged);
    c7x_heap_destroy(heap);
    return 0;
}

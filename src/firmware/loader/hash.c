/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols by name: through the hash table that the file brings, or through an index of our own. */
#include "firmware/loader/loader_impl.h"

#include "os/os.h"

#include <inttypes.h>
#include <string.h>

/* gABI, "Hash Table". */
static uint32_t sysv_hash_of(const char *name)
{
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        uint32_t high;
        hash = (hash << 4) + (uint8_t)*name;
        high = hash & 0xf0000000u;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

static bool read_word(const struct c7x_program_table *table, uint64_t index, uint32_t *out)
{
    if (index >= table->size / sizeof(*out))
        return false;
    memcpy(out, table->bytes + index * sizeof(*out), sizeof(*out));
    return true;
}

static bool is_named(const struct c7x_program *program, uint64_t index, const char *name,
                     struct c7x_elf_symbol *out)
{
    const char *own_name;
    return c7x_program_definition(program, index, out, &own_name) && strcmp(own_name, name) == 0;
}

/* A damaged chain may run in circles, so no walk is longer than there are symbols. */
static bool find_in_sysv_hash(const struct c7x_program *program, const char *name,
                              struct c7x_elf_symbol *out)
{
    const struct c7x_program_table *hash = &program->tables[C7X_TABLE_HASH];
    uint32_t bucket_count;
    uint32_t index;
    if (!read_word(hash, 0, &bucket_count) || bucket_count == 0 ||
        !read_word(hash, 2 + sysv_hash_of(name) % bucket_count, &index))
        return false;
    for (uint64_t step = 0; index != 0 && step < program->symbol_count; step++) {
        if (is_named(program, index, name, out))
            return true;
        if (!read_word(hash, 2 + (uint64_t)bucket_count + index, &index))
            return false;
    }
    return false;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

/* Layout: bucket count, first symbol, words of the Bloom filter (8 bytes each), shift; filter;
 * buckets; chains. */
static bool find_in_gnu_hash(const struct c7x_program *program, const char *name,
                             struct c7x_elf_symbol *out)
{
    const struct c7x_program_table *table = &program->tables[C7X_TABLE_GNU_HASH];
    uint32_t head[4];
    uint32_t index;
    uint32_t hash = gnu_hash_of(name);
    uint64_t buckets;
    if (table->size < sizeof(head))
        return false;
    memcpy(head, table->bytes, sizeof(head));
    if (head[0] == 0)
        return false;
    buckets = 4 + (uint64_t)head[2] * 2;
    if (!read_word(table, buckets + hash % head[0], &index) || index < head[1])
        return false;
    for (; index < program->symbol_count; index++) {
        uint32_t value;
        if (!read_word(table, buckets + head[0] + index - head[1], &value))
            return false;
        if ((value | 1) == (hash | 1) && is_named(program, index, name, out))
            return true;
        if ((value & 1) != 0)
            return false;
    }
    return false;
}

bool c7x_program_find_hashed(const struct c7x_program *program, const char *name,
                             struct c7x_elf_symbol *out)
{
    return program->tables[C7X_TABLE_HASH].size != 0 ? find_in_sysv_hash(program, name, out)
                                                     : find_in_gnu_hash(program, name, out);
}

/* ---- The index: slot -> symbol, by GNU hash of the name, with linear probing ---- */

bool c7x_program_find_indexed(const struct c7x_program *program, const char *name,
                              struct c7x_elf_symbol *out)
{
    if (program->index == NULL)
        return false;
    for (uint64_t slot = gnu_hash_of(name);; slot++) {
        uint32_t symbol = program->index[slot & program->index_mask];
        if (symbol == 0)
            return false;
        if (is_named(program, symbol, name, out))
            return true;
    }
}

/* Of symbols with one name the first is found, and the others are not in the way. */
static void add_to_index(struct c7x_program *program, uint32_t symbol)
{
    struct c7x_elf_symbol definition;
    struct c7x_elf_symbol other;
    const char *name;
    uint64_t slot;
    if (!c7x_program_definition(program, symbol, &definition, &name) || *name == '\0')
        return;
    for (slot = gnu_hash_of(name); program->index[slot & program->index_mask] != 0; slot++) {
        if (is_named(program, program->index[slot & program->index_mask], name, &other))
            return;
    }
    program->index[slot & program->index_mask] = symbol;
}

enum c7x_status c7x_loader_index_symbols(struct c7x_program *program, struct c7x_error *error)
{
    struct c7x_heap *heap = program->request.heap;
    uint64_t count = 4;
    size_t size;
    while (count < 2 * program->symbol_count)
        count *= 2;
    size = (size_t)count * sizeof(*program->index);
    program->index = c7x_heap_alloc(heap, program->request.owner, size, 0);
    if (program->index == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, size), "index of symbols");
    memset(program->index, 0, size);
    program->index_mask = count - 1;
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        add_to_index(program, (uint32_t)i);
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
    }
    return C7X_OK;
}

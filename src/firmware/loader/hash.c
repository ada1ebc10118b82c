/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols by name: through the hash table that the file brings, or through an index of our own. */
#include "firmware/loader/loader_impl.h"

#include "os/os.h"

#include <inttypes.h>
#include <string.h>

/* Half of the places are free, so even of twenty million names chance puts only about a hundred in
 * a row; a file with more is made for it. */
#define PROBES_MAX 1024u

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

static bool is_it(const struct c7x_program *program, uint64_t index, const char *name,
                  struct c7x_elf_symbol *out)
{
    return c7x_program_definition(program, index, out) && c7x_program_is_named(program, out, name);
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
        if (is_it(program, index, name, out))
            return true;
        if (step % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
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
        if ((value | 1) == (hash | 1) && is_it(program, index, name, out))
            return true;
        if (index % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
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

/* ---- The index: slot -> symbol, with linear probing ---- */

/* Names that differ little are far apart. */
static uint64_t slot_of(const struct c7x_program *program, const char *name)
{
    return gnu_hash_of(name) * 0x9E3779B97F4A7C15u >> (64 - program->index_bits);
}

static uint64_t next_slot(const struct c7x_program *program, uint64_t slot)
{
    return (slot + 1) & ((1ull << program->index_bits) - 1);
}

bool c7x_program_find_indexed(const struct c7x_program *program, const char *name,
                              struct c7x_elf_symbol *out)
{
    if (program->index == NULL)
        return false;
    for (uint64_t slot = slot_of(program, name); program->index[slot] != 0;
         slot = next_slot(program, slot)) {
        if (is_it(program, program->index[slot], name, out))
            return true;
    }
    return false;
}

/* Of symbols with one name the first is found, and the others are not in the way. */
static enum c7x_status add_to_index(struct c7x_program *program, uint32_t symbol,
                                    struct c7x_error *error)
{
    struct c7x_elf_symbol definition;
    struct c7x_elf_symbol other;
    const char *name;
    unsigned probes = 0;
    uint64_t slot;
    if (!c7x_program_definition(program, symbol, &definition))
        return C7X_OK;
    name = c7x_program_symbol_name(program, &definition);
    if (name == NULL || *name == '\0')
        return C7X_OK;
    for (slot = slot_of(program, name); program->index[slot] != 0;
         slot = next_slot(program, slot)) {
        if (is_it(program, program->index[slot], name, &other))
            return C7X_OK;
        if (++probes == PROBES_MAX)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "symbol %" PRIu32 ": more than %u names have the hash of its name",
                                 symbol, PROBES_MAX - 1);
    }
    program->index[slot] = symbol;
    return C7X_OK;
}

static enum c7x_status allocate_index(struct c7x_program *program, struct c7x_error *error)
{
    struct c7x_heap *heap = program->request.heap;
    size_t size;
    program->index_bits = 2;
    while (1ull << program->index_bits < 2 * program->symbol_count)
        program->index_bits++;
    size = ((size_t)1 << program->index_bits) * sizeof(*program->index);
    program->index = c7x_heap_alloc(heap, program->request.owner, size, 0);
    if (program->index == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, size), "index of symbols");
    c7x_memory_zero(program->index, size);
    return C7X_OK;
}

enum c7x_status c7x_loader_index_symbols(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(allocate_index(program, error));
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        C7X_RETURN_IF_ERROR(add_to_index(program, (uint32_t)i, error));
        if (i % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
    }
    return C7X_OK;
}

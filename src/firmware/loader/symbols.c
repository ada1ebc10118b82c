/* SPDX-License-Identifier: Apache-2.0 */
/* Fourth chapter: the module's own symbols, found through its hash table, and the names that it
 * imports. */
#include "firmware/loader/loader_impl.h"

#include <inttypes.h>
#include <string.h>

enum c7x_status c7x_loader_read_symbol(const struct c7x_program *program, uint64_t index,
                                       struct c7x_elf_symbol *out, struct c7x_error *error)
{
    if (index >= program->symbol_count ||
        !c7x_program_read(program, program->symbol_table + index * sizeof(*out), sizeof(*out), out))
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "symbol %" PRIu64 " is past the end of the symbol table (%" PRIu64 ")",
                             index, program->symbol_count);
    return C7X_OK;
}

const char *c7x_program_symbol_name(const struct c7x_program *program,
                                    const struct c7x_elf_symbol *symbol)
{
    const uint8_t *name;
    if (symbol->name >= program->strings.size)
        return NULL;
    name = c7x_program_pointer(program, program->strings.vaddr + symbol->name,
                               program->strings.size - symbol->name);
    if (name == NULL || memchr(name, 0, (size_t)(program->strings.size - symbol->name)) == NULL)
        return NULL;
    return (const char *)name;
}

/* Whether symbol `index` is a definition of the name that other code may use. */
static bool is_definition(const struct c7x_program *program, uint64_t index, const char *name,
                          struct c7x_elf_symbol *out)
{
    const char *own_name;
    if (c7x_loader_read_symbol(program, index, out, NULL) != C7X_OK ||
        out->section == C7X_ELF_SHN_UNDEF || c7x_elf_symbol_bind(out) == C7X_ELF_STB_LOCAL ||
        c7x_elf_symbol_type(out) == C7X_ELF_STT_TLS ||
        c7x_elf_symbol_type(out) == C7X_ELF_STT_GNU_IFUNC)
        return false;
    own_name = c7x_program_symbol_name(program, out);
    return own_name != NULL && strcmp(own_name, name) == 0;
}

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

static bool read_word(const struct c7x_program *program, uint64_t table, uint64_t index,
                      uint32_t *out)
{
    return c7x_program_read(program, table + index * sizeof(*out), sizeof(*out), out);
}

/* A damaged chain may run in circles, so no walk is longer than there are symbols. */
static bool find_in_sysv_hash(const struct c7x_program *program, const char *name,
                              struct c7x_elf_symbol *out)
{
    uint32_t bucket_count;
    uint32_t index;
    if (!read_word(program, program->hash, 0, &bucket_count) || bucket_count == 0 ||
        !read_word(program, program->hash, 2 + sysv_hash_of(name) % bucket_count, &index))
        return false;
    for (uint64_t step = 0; index != 0 && step < program->symbol_count; step++) {
        if (is_definition(program, index, name, out))
            return true;
        if (!read_word(program, program->hash, 2 + (uint64_t)bucket_count + index, &index))
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
    uint32_t head[4];
    uint32_t index;
    uint32_t hash = gnu_hash_of(name);
    uint64_t buckets;
    if (!c7x_program_read(program, program->gnu_hash, sizeof(head), head) || head[0] == 0)
        return false;
    buckets = program->gnu_hash + sizeof(head) + (uint64_t)head[2] * 8;
    if (!read_word(program, buckets, hash % head[0], &index) || index < head[1])
        return false;
    for (; index < program->symbol_count; index++) {
        uint32_t value;
        if (!read_word(program, buckets, (uint64_t)head[0] + index - head[1], &value))
            return false;
        if ((value | 1) == (hash | 1) && is_definition(program, index, name, out))
            return true;
        if ((value & 1) != 0)
            return false;
    }
    return false;
}

static const struct c7x_program *program_of(const struct c7x_symbol_source *source)
{
    return (const struct c7x_program *)source;
}

static void *find_symbol(const struct c7x_symbol_source *source, const char *name)
{
    const struct c7x_program *program = program_of(source);
    struct c7x_elf_symbol symbol;
    bool found = program->hash != 0 ? find_in_sysv_hash(program, name, &symbol)
                                    : find_in_gnu_hash(program, name, &symbol);
    if (!found || c7x_program_segment_of(program, symbol.value, 0) == NULL)
        return NULL;
    return (void *)(uintptr_t)c7x_program_address(program, symbol.value);
}

static uint64_t extent_of(const struct c7x_symbol_source *source, const void *address)
{
    const struct c7x_program *program = program_of(source);
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        uintptr_t offset = (uintptr_t)address - (uintptr_t)segment->pointer;
        if (offset < segment->memsz)
            return segment->memsz - offset;
    }
    return 0;
}

const struct c7x_symbol_source c7x_loader_symbol_source = {find_symbol, extent_of};

static bool is_missing(const struct c7x_elf_symbol *symbol, const char *name,
                       const struct c7x_symbol_source *imports)
{
    return symbol->section == C7X_ELF_SHN_UNDEF &&
           c7x_elf_symbol_bind(symbol) != C7X_ELF_STB_LOCAL &&
           c7x_elf_symbol_bind(symbol) != C7X_ELF_STB_WEAK && imports->find(imports, name) == NULL;
}

enum c7x_status c7x_loader_check_imports(const struct c7x_program *program,
                                         const struct c7x_symbol_source *imports,
                                         struct c7x_error *error)
{
    unsigned missing_count = 0;
    /* With a GNU hash table alone the count is an upper bound, so the walk ends at the first entry
     * that is none. */
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        struct c7x_elf_symbol symbol;
        const char *name;
        C7X_RETURN_IF_ERROR(c7x_loader_read_symbol(program, i, &symbol, error));
        name = c7x_program_symbol_name(program, &symbol);
        if (name == NULL && program->hash == 0)
            break;
        if (name == NULL)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "symbol %" PRIu64 ": name at %" PRIu32
                                 " is outside the string table",
                                 i, symbol.name);
        if (*name == '\0' || !is_missing(&symbol, name, imports))
            continue;
        if (missing_count++ == 0)
            (void)c7x_error_set(error, C7X_SYMBOL, "loader", "the firmware does not export: %s",
                                name);
        else
            c7x_error_append(error, ", %s", name);
    }
    return missing_count == 0 ? C7X_OK : C7X_SYMBOL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Third chapter: the dynamic table, which says where symbols, strings and relocations are. */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

#define NEEDED_COUNT_MAX 16u

/* The values of the tags that matter; 0 for an absent one. Unknown tags are ignored. */
struct tags {
    uint64_t value[C7X_ELF_DT_RELR + 1];
    uint64_t gnu_hash;
    uint64_t global_symbols; /* GSYM_OFFSET and GSTR_OFFSET: where in their tables the global */
    uint64_t global_names;   /* symbols and their names begin */
    uint64_t needed[NEEDED_COUNT_MAX];
    unsigned needed_count;
    bool has_android_relocations;
};

static enum c7x_status refuse(struct c7x_error *error, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "loader", "dynamic table: %s", why);
}

static enum c7x_status refuse_place(struct c7x_error *error, const char *name)
{
    return c7x_error_set(error, C7X_LOAD, "loader",
                         "dynamic table: %s is outside the file or the copied segments", name);
}

static enum c7x_status take_tag(const struct c7x_program *program,
                                const struct c7x_elf_dynamic *entry, struct tags *out,
                                struct c7x_error *error)
{
    const struct c7x_arch *arch = program->arch;
    if (arch->refused_tag != 0 && entry->tag == arch->refused_tag)
        return refuse(error, arch->refused_tag_reason);
    if (entry->tag > 0 && entry->tag <= C7X_ELF_DT_RELR)
        out->value[entry->tag] = entry->value;
    if (arch != &c7x_arch_c7x && entry->tag == C7X_ELF_DT_GNU_HASH)
        out->gnu_hash = entry->value;
    if (arch == &c7x_arch_c7x && entry->tag == C7X_ELF_DT_C7X_GSYM_OFFSET)
        out->global_symbols = entry->value;
    if (arch == &c7x_arch_c7x && entry->tag == C7X_ELF_DT_C7X_GSTR_OFFSET)
        out->global_names = entry->value;
    if (arch != &c7x_arch_c7x &&
        (entry->tag == C7X_ELF_DT_ANDROID_REL || entry->tag == C7X_ELF_DT_ANDROID_RELA ||
         entry->tag == C7X_ELF_DT_ANDROID_RELR))
        out->has_android_relocations = true;
    if (entry->tag != C7X_ELF_DT_NEEDED)
        return C7X_OK;
    if (out->needed_count == NEEDED_COUNT_MAX)
        return refuse(error, "more than 16 libraries are needed (DT_NEEDED)");
    out->needed[out->needed_count++] = entry->value;
    return C7X_OK;
}

/* Native: in a copied segment; C7x: anywhere in the file. */
static const uint8_t *find_dynamic(const struct c7x_program *program)
{
    const struct c7x_elf_segment *dynamic = &program->dynamic;
    uint64_t at = program->layout->tables_by_offset ? dynamic->offset : dynamic->vaddr;
    return program->layout->table(program, at, dynamic->filesz);
}

static enum c7x_status read_tags(const struct c7x_program *program, struct tags *out,
                                 struct c7x_error *error)
{
    const uint8_t *bytes = find_dynamic(program);
    struct c7x_elf_dynamic entry;
    if (bytes == NULL)
        return refuse(error, "outside the file or the copied segments");
    for (uint64_t at = 0; program->dynamic.filesz - at >= sizeof(entry); at += sizeof(entry)) {
        memcpy(&entry, bytes + at, sizeof(entry));
        if (entry.tag == C7X_ELF_DT_NULL)
            return C7X_OK;
        C7X_RETURN_IF_ERROR(take_tag(program, &entry, out, error));
    }
    return refuse(error, "not terminated");
}

static enum c7x_status refuse_unsupported(const struct c7x_program *program,
                                          const struct tags *tags, struct c7x_error *error)
{
    if (tags->has_android_relocations)
        return refuse(error, "relocations in Android's format (DT_ANDROID_*) are not supported");
    if (tags->value[C7X_ELF_DT_REL] != 0 ||
        (tags->value[C7X_ELF_DT_JMPREL] != 0 && tags->value[C7X_ELF_DT_PLTREL] != C7X_ELF_DT_RELA))
        return refuse(error, "REL relocations are not supported, only RELA");
    if (tags->value[C7X_ELF_DT_RELAENT] != 0 &&
        tags->value[C7X_ELF_DT_RELAENT] != sizeof(struct c7x_elf_rela))
        return refuse(error, "DT_RELAENT is not 24");
    if (tags->value[C7X_ELF_DT_SYMENT] != 0 &&
        tags->value[C7X_ELF_DT_SYMENT] != sizeof(struct c7x_elf_symbol))
        return refuse(error, "DT_SYMENT is not 24");
    if (tags->value[C7X_ELF_DT_SYMTAB] == 0 || tags->value[C7X_ELF_DT_STRTAB] == 0)
        return refuse(error, "no symbol table");
    if (tags->value[C7X_ELF_DT_HASH] == 0 && tags->gnu_hash == 0)
        return refuse(error, program->layout->tables_by_offset
                                 ? "no hash table (DT_HASH)"
                                 : "no hash table (DT_HASH or DT_GNU_HASH)");
    return C7X_OK;
}

static enum c7x_status take_table(struct c7x_program *program, enum c7x_program_table_name which,
                                  const char *name, uint64_t at, uint64_t size, uint64_t entry_size,
                                  struct c7x_error *error)
{
    const uint8_t *bytes;
    if (at == 0 || size == 0)
        return C7X_OK;
    bytes = program->layout->table(program, at, size);
    if (size % entry_size != 0 || bytes == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "%s: %" PRIu64 " bytes at 0x%" PRIx64
                             " are not whole entries inside the file or a copied segment",
                             name, size, at);
    program->tables[which] = (struct c7x_program_table){bytes, size};
    return C7X_OK;
}

/* All that a table of unknown size can have. */
static enum c7x_status take_rest(struct c7x_program *program, enum c7x_program_table_name which,
                                 const char *name, uint64_t at, struct c7x_error *error)
{
    uint64_t room = program->layout->table_room(program, at);
    if (at == 0)
        return C7X_OK;
    if (room == 0)
        return refuse_place(error, name);
    program->tables[which] =
        (struct c7x_program_table){program->layout->table(program, at, room), room};
    return C7X_OK;
}

static bool read_hash_word(const struct c7x_program *program, uint64_t index, uint32_t *out)
{
    const struct c7x_program_table *table = &program->tables[C7X_TABLE_GNU_HASH];
    if (index >= table->size / sizeof(*out))
        return false;
    memcpy(out, table->bytes + index * sizeof(*out), sizeof(*out));
    return true;
}

/* One behind the last symbol: the last one of the chain of the bucket that begins last. False: the
 * table passes its end. */
static bool count_gnu_symbols(const struct c7x_program *program, uint64_t *out_count)
{
    uint32_t head[4]; /* buckets, first symbol with a hash, words of the Bloom filter, shift */
    uint32_t word = 0;
    uint64_t last = 0;
    for (uint64_t i = 0; i < C7X_ARRAY_COUNT(head); i++) {
        if (!read_hash_word(program, i, &head[i]))
            return false;
    }
    uint64_t buckets = C7X_ARRAY_COUNT(head) + 2 * (uint64_t)head[2];
    for (uint64_t i = 0; i < head[0]; i++) {
        if (!read_hash_word(program, buckets + i, &word))
            return false;
        if (word > last)
            last = word;
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
    }
    if (last < head[1]) { /* none has a hash */
        *out_count = head[1];
        return true;
    }
    do {
        if (!read_hash_word(program, buckets + head[0] + last - head[1], &word))
            return false;
        last++;
    } while ((word & 1) == 0);
    *out_count = last;
    return true;
}

/* From the System V hash table, whose chains are as many as symbols, or the GNU one. */
static enum c7x_status count_symbols(struct c7x_program *program, struct c7x_error *error)
{
    const struct c7x_program_table *hash = &program->tables[C7X_TABLE_HASH];
    uint64_t room = program->tables[C7X_TABLE_SYMBOLS].size / sizeof(struct c7x_elf_symbol);
    uint32_t sizes[2];
    if (hash->size == 0) {
        if (!count_gnu_symbols(program, &program->symbol_count))
            return refuse_place(error, "DT_GNU_HASH");
    } else {
        if (hash->size < sizeof(sizes))
            return refuse_place(error, "DT_HASH");
        memcpy(sizes, hash->bytes, sizeof(sizes));
        program->symbol_count = sizes[1];
    }
    if (program->symbol_count > room)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "symbol table: %" PRIu64 " symbols, but there is room for %" PRIu64,
                             program->symbol_count, room);
    return C7X_OK;
}

/* TI's linker puts them behind the local ones. */
static enum c7x_status take_globals(const struct tags *tags, struct c7x_program *program,
                                    struct c7x_error *error)
{
    program->first_global = tags->global_symbols / sizeof(struct c7x_elf_symbol);
    if (tags->global_symbols % sizeof(struct c7x_elf_symbol) != 0 ||
        program->first_global > program->symbol_count)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "dynamic table: GSYM_OFFSET 0x%" PRIx64
                             " is not the start of one of %" PRIu64 " symbols",
                             tags->global_symbols, program->symbol_count);
    if (tags->global_names > program->tables[C7X_TABLE_STRINGS].size)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "dynamic table: GSTR_OFFSET 0x%" PRIx64
                             " is outside the string table (%" PRIu64 " bytes)",
                             tags->global_names, program->tables[C7X_TABLE_STRINGS].size);
    return C7X_OK;
}

static enum c7x_status take_symbols(const struct tags *tags, struct c7x_program *program,
                                    struct c7x_error *error)
{
    const uint64_t *value = tags->value;
    C7X_RETURN_IF_ERROR(take_table(program, C7X_TABLE_STRINGS, "string table",
                                   value[C7X_ELF_DT_STRTAB], value[C7X_ELF_DT_STRSZ], 1, error));
    C7X_RETURN_IF_ERROR(
        take_rest(program, C7X_TABLE_SYMBOLS, "DT_SYMTAB", value[C7X_ELF_DT_SYMTAB], error));
    C7X_RETURN_IF_ERROR(
        take_rest(program, C7X_TABLE_HASH, "DT_HASH", value[C7X_ELF_DT_HASH], error));
    C7X_RETURN_IF_ERROR(
        take_rest(program, C7X_TABLE_GNU_HASH, "DT_GNU_HASH", tags->gnu_hash, error));
    C7X_RETURN_IF_ERROR(count_symbols(program, error));
    return take_globals(tags, program, error);
}

/* Whether DT_JMPREL is a part of DT_RELA. */
static bool is_nested(const uint64_t *value)
{
    return value[C7X_ELF_DT_RELA] != 0 &&
           c7x_range_inside(value[C7X_ELF_DT_JMPREL], value[C7X_ELF_DT_PLTRELSZ],
                            value[C7X_ELF_DT_RELA], value[C7X_ELF_DT_RELASZ]);
}

/* Whether one of the entries there is for a place of the program and a symbol that there is. */
static bool has_relocations(const struct c7x_program *program, uint64_t at, uint64_t size)
{
    const uint8_t *bytes = program->layout->table(program, at, size);
    struct c7x_elf_rela rela;
    for (uint64_t i = 0; bytes != NULL && size - i >= sizeof(rela); i += sizeof(rela)) {
        memcpy(&rela, bytes + i, sizeof(rela));
        if (c7x_program_segment_of(program, rela.offset, 1) != NULL &&
            c7x_elf_rela_symbol(&rela) < program->symbol_count)
            return true;
        if (i % (C7X_LOADER_STEP * sizeof(rela)) == 0)
            c7x_os_interrupt_point();
    }
    return false;
}

/* TI's linker counts the entries of DT_JMPREL in DT_RELASZ, wherever they are; others do so only
 * where they are a part. What would stand at the end of DT_RELA tells. */
static uint64_t rela_size(const struct c7x_program *program, const uint64_t *value)
{
    uint64_t size = value[C7X_ELF_DT_RELASZ];
    uint64_t plt_size = value[C7X_ELF_DT_JMPREL] == 0 ? 0 : value[C7X_ELF_DT_PLTRELSZ];
    if (!program->layout->tables_by_offset || plt_size == 0 || plt_size > size || is_nested(value))
        return size;
    if (!c7x_ranges_overlap(value[C7X_ELF_DT_RELA], size, value[C7X_ELF_DT_JMPREL], plt_size) &&
        has_relocations(program, value[C7X_ELF_DT_RELA] + size - plt_size, plt_size))
        return size;
    return size - plt_size;
}

static enum c7x_status take_relocations(const struct tags *tags, struct c7x_program *program,
                                        struct c7x_error *error)
{
    const uint64_t *value = tags->value;
    if (program->layout->tables_by_offset && value[C7X_ELF_DT_RELR] != 0)
        return refuse(error, "RELR relocations are not supported for this processor");
    C7X_RETURN_IF_ERROR(take_table(program, C7X_TABLE_RELR, "DT_RELR", value[C7X_ELF_DT_RELR],
                                   value[C7X_ELF_DT_RELRSZ], sizeof(uint64_t), error));
    C7X_RETURN_IF_ERROR(take_table(program, C7X_TABLE_RELA, "DT_RELA", value[C7X_ELF_DT_RELA],
                                   rela_size(program, value), sizeof(struct c7x_elf_rela), error));
    if (is_nested(value))
        return C7X_OK;
    return take_table(program, C7X_TABLE_JMPREL, "DT_JMPREL", value[C7X_ELF_DT_JMPREL],
                      value[C7X_ELF_DT_PLTRELSZ], sizeof(struct c7x_elf_rela), error);
}

/* Link addresses in every kind of file, of arrays inside a copied segment. */
static enum c7x_status take_hooks(const struct c7x_program *program, uint64_t vaddr, uint64_t size,
                                  const char *name, struct c7x_program_range *out,
                                  struct c7x_error *error)
{
    if (vaddr == 0 || size == 0)
        return C7X_OK;
    if (size % sizeof(uint64_t) != 0 || c7x_program_pointer(program, vaddr, size) == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "%s: %" PRIu64 " bytes at 0x%" PRIx64
                             " are not whole entries inside a copied segment",
                             name, size, vaddr);
    *out = (struct c7x_program_range){vaddr, size};
    return C7X_OK;
}

/* A C7x executable that has a stack of its own has code that starts it, too. */
static bool starts_itself(const struct c7x_program *program)
{
    struct c7x_elf_symbol symbol;
    if (program->arch != &c7x_arch_c7x || program->header.type != C7X_ELF_TYPE_EXEC)
        return false;
    for (uint64_t i = 1; c7x_loader_read_symbol(program, i, &symbol, NULL) == C7X_OK; i++) {
        if (c7x_elf_symbol_bind(&symbol) == C7X_ELF_STB_LOCAL &&
            c7x_program_is_named(program, &symbol, "__TI_STACK_SIZE"))
            return true;
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
    }
    return false;
}

/* gABI: the array of preinitialisation functions counts in an executable and is ignored elsewhere.
 */
static enum c7x_status take_all_hooks(const uint64_t *value, struct c7x_program *program,
                                      struct c7x_error *error)
{
    if (starts_itself(program))
        return C7X_OK;
    if (program->header.type == C7X_ELF_TYPE_EXEC)
        C7X_RETURN_IF_ERROR(take_hooks(program, value[C7X_ELF_DT_PREINIT_ARRAY],
                                       value[C7X_ELF_DT_PREINIT_ARRAYSZ], "DT_PREINIT_ARRAY",
                                       &program->preinit_array, error));
    C7X_RETURN_IF_ERROR(take_hooks(program, value[C7X_ELF_DT_INIT_ARRAY],
                                   value[C7X_ELF_DT_INIT_ARRAYSZ], "DT_INIT_ARRAY",
                                   &program->init_array, error));
    C7X_RETURN_IF_ERROR(take_hooks(program, value[C7X_ELF_DT_FINI_ARRAY],
                                   value[C7X_ELF_DT_FINI_ARRAYSZ], "DT_FINI_ARRAY",
                                   &program->fini_array, error));
    program->init = value[C7X_ELF_DT_INIT];
    program->fini = value[C7X_ELF_DT_FINI];
    return C7X_OK;
}

static bool is_exported_library(const struct c7x_program *program, const char *name)
{
    for (const char *const *library = program->layout->libraries; *library != NULL; library++) {
        if (strcmp(name, *library) == 0)
            return true;
    }
    return false;
}

static enum c7x_status check_needed(struct c7x_program *program, const struct tags *tags,
                                    struct c7x_error *error)
{
    for (unsigned i = 0; i < tags->needed_count; i++) {
        const char *name = c7x_program_string(program, tags->needed[i]);
        if (name == NULL)
            return refuse(error, "a name of DT_NEEDED is outside the string table or too long");
        if (!is_exported_library(program, name))
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "needs the library %s (DT_NEEDED); the device has only the "
                                 "firmware's exports",
                                 name);
        if (strcmp(name, C7X_LOADER_LIBRARY) == 0)
            program->needs_library = true;
    }
    return C7X_OK;
}

static enum c7x_status read_symbols(struct c7x_program *program, struct tags *out,
                                    struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(read_tags(program, out, error));
    C7X_RETURN_IF_ERROR(refuse_unsupported(program, out, error));
    return take_symbols(out, program, error);
}

enum c7x_status c7x_loader_read_symbols(struct c7x_program *program, struct c7x_error *error)
{
    struct tags tags = {0};
    C7X_RETURN_IF_ERROR(read_symbols(program, &tags, error));
    return program->layout->keep_tables(program, error);
}

enum c7x_status c7x_loader_read_dynamic(struct c7x_program *program, struct c7x_error *error)
{
    struct tags tags = {0};
    C7X_RETURN_IF_ERROR(read_symbols(program, &tags, error));
    C7X_RETURN_IF_ERROR(take_relocations(&tags, program, error));
    C7X_RETURN_IF_ERROR(take_all_hooks(tags.value, program, error));
    C7X_RETURN_IF_ERROR(program->layout->keep_tables(program, error));
    return check_needed(program, &tags, error);
}

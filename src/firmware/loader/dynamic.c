/* SPDX-License-Identifier: Apache-2.0 */
/* Third chapter: the dynamic table, which says where symbols, strings and relocations are. */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"

#include <inttypes.h>

/* The values of the tags that matter; 0 for an absent one. Unknown tags are ignored. */
struct tags {
    uint64_t value[C7X_ELF_DT_RELR + 1];
    uint64_t gnu_hash;
};

static enum c7x_status refuse(struct c7x_error *error, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "loader", "dynamic table: %s", why);
}

static enum c7x_status read_tags(const struct c7x_program *program, struct tags *out,
                                 struct c7x_error *error)
{
    struct c7x_elf_dynamic entry;
    for (uint64_t at = 0; at + sizeof(entry) <= program->dynamic.size; at += sizeof(entry)) {
        if (!c7x_program_read(program, program->dynamic.vaddr + at, sizeof(entry), &entry))
            return refuse(error, "outside the copied segments");
        if (entry.tag == C7X_ELF_DT_NULL)
            return C7X_OK;
        if (entry.tag > 0 && entry.tag <= C7X_ELF_DT_RELR)
            out->value[entry.tag] = entry.value;
        if (entry.tag == C7X_ELF_DT_GNU_HASH)
            out->gnu_hash = entry.value;
    }
    return refuse(error, "not terminated");
}

static enum c7x_status refuse_unsupported(const struct tags *tags, struct c7x_error *error)
{
    if (tags->value[C7X_ELF_DT_REL] != 0 ||
        (tags->value[C7X_ELF_DT_JMPREL] != 0 && tags->value[C7X_ELF_DT_PLTREL] != C7X_ELF_DT_RELA))
        return refuse(error, "REL relocations are not supported, only RELA");
    if (tags->value[C7X_ELF_DT_RELR] != 0)
        return refuse(error,
                      "RELR relocations are not supported (link with -z nopack-relative-relocs)");
    if (tags->value[C7X_ELF_DT_RELAENT] != 0 &&
        tags->value[C7X_ELF_DT_RELAENT] != sizeof(struct c7x_elf_rela))
        return refuse(error, "DT_RELAENT is not 24");
    if (tags->value[C7X_ELF_DT_SYMENT] != 0 &&
        tags->value[C7X_ELF_DT_SYMENT] != sizeof(struct c7x_elf_symbol))
        return refuse(error, "DT_SYMENT is not 24");
    if (tags->value[C7X_ELF_DT_SYMTAB] == 0 || tags->value[C7X_ELF_DT_STRTAB] == 0)
        return refuse(error, "no symbol table");
    if (tags->value[C7X_ELF_DT_HASH] == 0 && tags->gnu_hash == 0)
        return refuse(error, "no hash table (DT_HASH or DT_GNU_HASH)");
    return C7X_OK;
}

static enum c7x_status take_range(const struct c7x_program *program, uint64_t vaddr, uint64_t size,
                                  uint64_t entry_size, const char *name,
                                  struct c7x_program_range *out, struct c7x_error *error)
{
    if (vaddr == 0 || size == 0)
        return C7X_OK;
    if (size % entry_size != 0 || c7x_program_pointer(program, vaddr, size) == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "%s: %" PRIu64 " bytes at 0x%" PRIx64
                             " are not whole entries inside a copied segment",
                             name, size, vaddr);
    *out = (struct c7x_program_range){vaddr, size};
    return C7X_OK;
}

/* From the System V hash table, whose chains are as many as symbols; else as many as fit into the
 * segment. */
static enum c7x_status take_symbols(const struct tags *tags, struct c7x_program *program,
                                    struct c7x_error *error)
{
    const struct c7x_program_segment *segment;
    uint32_t sizes[2];
    uint64_t at = tags->value[C7X_ELF_DT_SYMTAB];
    program->symbol_table = at;
    program->hash = tags->value[C7X_ELF_DT_HASH];
    program->gnu_hash = tags->gnu_hash;
    segment = c7x_program_segment_of(program, at, 0);
    if (segment == NULL || segment->in_place)
        return refuse(error, "DT_SYMTAB is outside the copied segments");
    program->symbol_count = (segment->vaddr + segment->memsz - at) / sizeof(struct c7x_elf_symbol);
    if (program->hash == 0)
        return C7X_OK;
    if (!c7x_program_read(program, program->hash, sizeof(sizes), sizes))
        return refuse(error, "DT_HASH is outside the copied segments");
    if (sizes[1] > program->symbol_count)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "symbol table: %" PRIu32 " symbols at 0x%" PRIx64
                             " pass the end of segment %u",
                             sizes[1], at, segment->index);
    program->symbol_count = sizes[1];
    return C7X_OK;
}

enum c7x_status c7x_loader_read_dynamic(struct c7x_program *program, struct c7x_error *error)
{
    struct tags tags = {0};
    const uint64_t *value = tags.value;
    C7X_RETURN_IF_ERROR(read_tags(program, &tags, error));
    C7X_RETURN_IF_ERROR(refuse_unsupported(&tags, error));
    C7X_RETURN_IF_ERROR(take_range(program, value[C7X_ELF_DT_STRTAB], value[C7X_ELF_DT_STRSZ], 1,
                                   "string table", &program->strings, error));
    C7X_RETURN_IF_ERROR(take_symbols(&tags, program, error));
    C7X_RETURN_IF_ERROR(take_range(program, value[C7X_ELF_DT_RELA], value[C7X_ELF_DT_RELASZ],
                                   sizeof(struct c7x_elf_rela), "DT_RELA", &program->relocations[0],
                                   error));
    C7X_RETURN_IF_ERROR(take_range(program, value[C7X_ELF_DT_JMPREL], value[C7X_ELF_DT_PLTRELSZ],
                                   sizeof(struct c7x_elf_rela), "DT_JMPREL",
                                   &program->relocations[1], error));
    C7X_RETURN_IF_ERROR(take_range(program, value[C7X_ELF_DT_INIT_ARRAY],
                                   value[C7X_ELF_DT_INIT_ARRAYSZ], sizeof(uint64_t),
                                   "DT_INIT_ARRAY", &program->init_array, error));
    program->init = value[C7X_ELF_DT_INIT];
    program->fini = value[C7X_ELF_DT_FINI];
    return take_range(program, value[C7X_ELF_DT_FINI_ARRAY], value[C7X_ELF_DT_FINI_ARRAYSZ],
                      sizeof(uint64_t), "DT_FINI_ARRAY", &program->fini_array, error);
}

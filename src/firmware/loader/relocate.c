/* SPDX-License-Identifier: Apache-2.0 */
/* Fifth chapter: relocations, all of them, before any of the module's code runs. */
#include "firmware/loader/loader_impl.h"

#include "firmware/loader/arch/arch.h"

#include <inttypes.h>

static const char *const table_names[2] = {"DT_RELA", "DT_JMPREL"};

/* One entry and what its messages need. */
struct entry {
    struct c7x_elf_rela rela;
    const char *table;
    uint64_t index;
};

static enum c7x_status refuse(const struct entry *entry, const char *why, struct c7x_error *error)
{
    const char *name = c7x_arch_native()->relocation_name(c7x_elf_rela_type(&entry->rela));
    return c7x_error_set(error, C7X_LOAD, "loader",
                         "%s entry %" PRIu64 ": %s (type %" PRIu32 ") at 0x%" PRIx64 ": %s",
                         entry->table, entry->index, name == NULL ? "relocation" : name,
                         c7x_elf_rela_type(&entry->rela), entry->rela.offset, why);
}

static bool read_entry(const struct c7x_program *program, unsigned table, uint64_t index,
                       struct entry *out)
{
    const struct c7x_program_range *range = &program->relocations[table];
    out->table = table_names[table];
    out->index = index;
    return c7x_program_read(program, range->vaddr + index * sizeof(out->rela), sizeof(out->rela),
                            &out->rela);
}

static uint64_t entry_count(const struct c7x_program *program, unsigned table)
{
    return program->relocations[table].size / sizeof(struct c7x_elf_rela);
}

static bool table_touches_in_place(const struct c7x_program *program, unsigned table)
{
    struct entry entry;
    for (uint64_t i = 0; i < entry_count(program, table); i++) {
        const struct c7x_program_segment *segment;
        if (!read_entry(program, table, i, &entry))
            return false;
        segment = c7x_program_segment_of(program, entry.rela.offset, 1);
        if (segment != NULL && segment->in_place)
            return true;
    }
    return false;
}

bool c7x_loader_relocates_in_place(const struct c7x_program *program)
{
    return c7x_loader_uses_staged_bytes(program) &&
           (table_touches_in_place(program, 0) || table_touches_in_place(program, 1));
}

static enum c7x_status refuse_undefined(const struct entry *entry, const char *name,
                                        struct c7x_error *error)
{
    return c7x_error_set(error, C7X_SYMBOL, "loader",
                         "the firmware does not export: %s (needed by %s entry %" PRIu64
                         " at 0x%" PRIx64 ")",
                         name, entry->table, entry->index, entry->rela.offset);
}

/* The module's own definition wins; a weak name that nobody has is 0. */
static enum c7x_status resolve(const struct c7x_program *program,
                               const struct c7x_symbol_source *imports, const struct entry *entry,
                               uint64_t *out_value, struct c7x_error *error)
{
    struct c7x_elf_symbol symbol;
    const char *name;
    void *import;
    uint32_t index = c7x_elf_rela_symbol(&entry->rela);
    if (index == 0) {
        *out_value = 0;
        return C7X_OK;
    }
    C7X_RETURN_IF_ERROR(c7x_loader_read_symbol(program, index, &symbol, error));
    if (c7x_elf_symbol_type(&symbol) == C7X_ELF_STT_TLS ||
        c7x_elf_symbol_type(&symbol) == C7X_ELF_STT_GNU_IFUNC)
        return refuse(entry, "its symbol is thread-local or indirect", error);
    if (symbol.section == C7X_ELF_SHN_ABS) {
        *out_value = symbol.value;
        return C7X_OK;
    }
    if (symbol.section != C7X_ELF_SHN_UNDEF) {
        *out_value = c7x_program_address(program, symbol.value);
        return C7X_OK;
    }
    name = c7x_program_symbol_name(program, &symbol);
    if (name == NULL)
        return refuse(entry, "the name of its symbol is outside the string table", error);
    import = imports->find(imports, name);
    if (import == NULL && c7x_elf_symbol_bind(&symbol) != C7X_ELF_STB_WEAK)
        return refuse_undefined(entry, name, error);
    *out_value = (uint64_t)(uintptr_t)import;
    return C7X_OK;
}

static enum c7x_status apply(const struct c7x_program *program,
                             const struct c7x_symbol_source *imports, const struct entry *entry,
                             struct c7x_error *error)
{
    const struct c7x_arch *arch = c7x_arch_native();
    struct c7x_relocation relocation = {.type = c7x_elf_rela_type(&entry->rela),
                                        .addend = entry->rela.addend};
    size_t width = arch->relocation_width(relocation.type);
    uint8_t *field = c7x_program_pointer(program, entry->rela.offset, width);
    if (relocation.type == 0) /* R_*_NONE of every processor */
        return C7X_OK;
    if (width == 0)
        return refuse(entry, "not supported", error);
    if (field == NULL)
        return refuse(entry, "not inside a copied segment", error);
    if (arch->relocation_uses_symbol(relocation.type))
        C7X_RETURN_IF_ERROR(resolve(program, imports, entry, &relocation.symbol, error));
    else
        relocation.relative = c7x_program_address(program, (uint64_t)relocation.addend);
    relocation.place = (uint64_t)(uintptr_t)field;
    if (arch->relocate(&relocation, field) == C7X_RELOCATION_OVERFLOW)
        return refuse(entry, "the value does not fit", error);
    return C7X_OK;
}

enum c7x_status c7x_loader_relocate(struct c7x_program *program,
                                    const struct c7x_symbol_source *imports,
                                    struct c7x_error *error)
{
    for (unsigned table = 0; table < 2; table++) {
        for (uint64_t i = 0; i < entry_count(program, table); i++) {
            struct entry entry;
            if (!read_entry(program, table, i, &entry))
                return c7x_error_set(error, C7X_LOAD, "loader", "%s is outside the segments",
                                     table_names[table]);
            C7X_RETURN_IF_ERROR(apply(program, imports, &entry, error));
        }
    }
    return C7X_OK;
}

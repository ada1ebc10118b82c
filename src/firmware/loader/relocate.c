/* SPDX-License-Identifier: Apache-2.0 */
/* Fifth chapter: relocations, all of them, before any of the module's code runs. */
#include "firmware/loader/loader_impl.h"

#include "os/os.h"

#include <inttypes.h>
#include <string.h>

#define R_NONE 0u /* of every processor */

static const char *const table_names[2] = {"DT_RELA", "DT_JMPREL"};

/* One entry and what its messages need. */
struct entry {
    struct c7x_elf_rela rela;
    const char *table;
    uint64_t index;
};

/* "" when there is none. */
static const char *symbol_name(const struct c7x_program *program, const struct entry *entry)
{
    struct c7x_elf_symbol symbol;
    const char *name = NULL;
    if (c7x_loader_read_symbol(program, c7x_elf_rela_symbol(&entry->rela), &symbol, NULL) == C7X_OK)
        name = c7x_program_symbol_name(program, &symbol);
    return name == NULL ? "" : name;
}

static enum c7x_status refuse(const struct c7x_program *program, const struct entry *entry,
                              const char *why, struct c7x_error *error)
{
    uint32_t type = c7x_elf_rela_type(&entry->rela);
    const char *name = program->arch->relocation_name(type);
    const char *symbol = symbol_name(program, entry);
    char section[64];
    c7x_program_section_name(program, entry->rela.offset, section, sizeof(section));
    (void)c7x_error_set(error, C7X_LOAD, "loader",
                        "%s entry %" PRIu64 ": %s (type %" PRIu32 ") at 0x%" PRIx64 ": %s (in %s",
                        entry->table, entry->index, name == NULL ? "relocation" : name, type,
                        entry->rela.offset, why, section);
    if (*symbol != '\0')
        c7x_error_append(error, ", symbol %s", symbol);
    else
        c7x_error_append(error, ", symbol %" PRIu32, c7x_elf_rela_symbol(&entry->rela));
    c7x_error_append(error, ")");
    return C7X_LOAD;
}

static uint64_t entry_count(const struct c7x_program *program, unsigned table)
{
    return program->tables[C7X_TABLE_RELA + table].size / sizeof(struct c7x_elf_rela);
}

static void read_entry(const struct c7x_program *program, unsigned table, uint64_t index,
                       struct entry *out)
{
    const uint8_t *bytes = program->tables[C7X_TABLE_RELA + table].bytes;
    *out = (struct entry){.table = table_names[table], .index = index};
    memcpy(&out->rela, bytes + index * sizeof(out->rela), sizeof(out->rela));
}

/* ---- DT_RELR: an even entry is the address of a word; the bits of an odd one stand for the 63
 * words behind those before it. Each word holds a link address. ---- */

struct relr_walk {
    uint64_t entry;  /* number of the next */
    uint64_t bits;   /* of the current odd entry, those still to come */
    uint64_t vaddr;  /* of the word that the lowest of them stands for */
    uint64_t behind; /* first word that the next odd entry stands for */
};

static bool next_relr(const struct c7x_program *program, struct relr_walk *walk,
                      uint64_t *out_vaddr)
{
    const struct c7x_program_table *table = &program->tables[C7X_TABLE_RELR];
    for (;;) {
        uint64_t entry;
        for (; walk->bits != 0; walk->bits >>= 1, walk->vaddr += sizeof(uint64_t)) {
            if ((walk->bits & 1) == 0)
                continue;
            *out_vaddr = walk->vaddr;
            walk->bits >>= 1;
            walk->vaddr += sizeof(uint64_t);
            return true;
        }
        if (walk->entry == table->size / sizeof(entry))
            return false;
        memcpy(&entry, table->bytes + walk->entry++ * sizeof(entry), sizeof(entry));
        walk->bits = (entry & 1) != 0 ? entry >> 1 : 1;
        walk->vaddr = (entry & 1) != 0 ? walk->behind : entry;
        walk->behind = walk->vaddr + ((entry & 1) != 0 ? 63 : 1) * sizeof(uint64_t);
    }
}

static bool mark_place(struct c7x_program *program, uint64_t vaddr)
{
    const struct c7x_program_segment *segment = c7x_program_segment_of(program, vaddr, 1);
    if (segment == NULL || !segment->in_place)
        return false;
    program->segments[segment - program->segments].must_copy = true;
    return true;
}

static enum c7x_status mark_relr(struct c7x_program *program, bool *inout_found,
                                 struct c7x_error *error)
{
    struct relr_walk walk = {0};
    uint64_t vaddr;
    while (next_relr(program, &walk, &vaddr)) {
        *inout_found = mark_place(program, vaddr) || *inout_found;
        if (walk.entry % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
    }
    return C7X_OK;
}

static enum c7x_status apply_relr(const struct c7x_program *program, struct c7x_error *error)
{
    struct relr_walk walk = {0};
    uint64_t vaddr;
    while (next_relr(program, &walk, &vaddr)) {
        uint64_t value;
        if (walk.entry % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
        uint8_t *field = c7x_program_pointer(program, vaddr, sizeof(value));
        if (field == NULL)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "DT_RELR entry %" PRIu64 ": word at 0x%" PRIx64
                                 ": not inside a copied segment",
                                 walk.entry - 1, vaddr);
        memcpy(&value, field, sizeof(value));
        value = c7x_program_address(program, value, 0);
        memcpy(field, &value, sizeof(value));
    }
    return C7X_OK;
}

static enum c7x_status mark_table(struct c7x_program *program, unsigned table, bool *inout_found,
                                  struct c7x_error *error)
{
    for (uint64_t i = 0; i < entry_count(program, table); i++) {
        struct entry entry;
        read_entry(program, table, i, &entry);
        if (c7x_elf_rela_type(&entry.rela) != R_NONE)
            *inout_found = mark_place(program, entry.rela.offset) || *inout_found;
        if (i % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
    }
    return C7X_OK;
}

enum c7x_status c7x_loader_mark_relocated(struct c7x_program *program, bool *out_found,
                                          struct c7x_error *error)
{
    *out_found = false;
    if (!c7x_loader_uses_staged_bytes(program))
        return C7X_OK;
    C7X_RETURN_IF_ERROR(mark_relr(program, out_found, error));
    for (unsigned table = 0; table < 2; table++)
        C7X_RETURN_IF_ERROR(mark_table(program, table, out_found, error));
    return C7X_OK;
}

static enum c7x_status refuse_undefined(const struct entry *entry, const char *name,
                                        struct c7x_error *error)
{
    return c7x_error_set(error, C7X_SYMBOL, "loader",
                         "the firmware does not export: %s (needed by %s entry %" PRIu64
                         " at 0x%" PRIx64 ")",
                         name, entry->table, entry->index, entry->rela.offset);
}

/* Whether the firmware may supply the symbol: because the module has none, or because the
 * firmware's comes first. */
static bool may_import(const struct c7x_program *program, const struct c7x_elf_symbol *symbol,
                       const char *name)
{
    if (name == NULL || c7x_elf_symbol_bind(symbol) == C7X_ELF_STB_LOCAL ||
        !c7x_elf_symbol_is_public(symbol))
        return false;
    return symbol->section == C7X_ELF_SHN_UNDEF || c7x_program_is_pre_empted(program, name);
}

static uint64_t own_value(const struct c7x_program *program, const struct c7x_elf_symbol *symbol)
{
    if (symbol->section == C7X_ELF_SHN_ABS)
        return symbol->value;
    return c7x_program_address(program, symbol->value, symbol->section);
}

/* A weak name that nobody has is 0. */
static enum c7x_status resolve_symbol(const struct c7x_program *program, const struct entry *entry,
                                      const struct c7x_elf_symbol *symbol, uint64_t *out_value,
                                      struct c7x_error *error)
{
    const char *name = c7x_program_symbol_name(program, symbol);
    uint64_t import = 0;
    if (name == NULL && symbol->section == C7X_ELF_SHN_UNDEF)
        return refuse(program, entry,
                      "the name of its symbol is outside the string table or too long", error);
    if (may_import(program, symbol, name))
        import = c7x_program_import(program, name);
    if (import != 0 || symbol->section != C7X_ELF_SHN_UNDEF) {
        *out_value = import != 0 ? import : own_value(program, symbol);
        return C7X_OK;
    }
    if (c7x_elf_symbol_bind(symbol) == C7X_ELF_STB_WEAK) {
        *out_value = 0;
        return C7X_OK;
    }
    if (!may_import(program, symbol, name))
        return refuse(program, entry, "its symbol is local and not defined", error);
    return refuse_undefined(entry, name, error);
}

static enum c7x_status resolve(const struct c7x_program *program, const struct entry *entry,
                               uint64_t *out_value, struct c7x_error *error)
{
    struct c7x_elf_symbol symbol;
    uint32_t index = c7x_elf_rela_symbol(&entry->rela);
    if (index == 0) {
        *out_value = 0;
        return C7X_OK;
    }
    if (c7x_loader_read_symbol(program, index, &symbol, NULL) != C7X_OK)
        return refuse(program, entry, "there is no such symbol", error);
    return resolve_symbol(program, entry, &symbol, out_value, error);
}

static enum c7x_status write_field(const struct c7x_program *program, const struct entry *entry,
                                   struct c7x_relocation *relocation, uint8_t *field,
                                   struct c7x_error *error)
{
    const struct c7x_program_segment *segment =
        c7x_program_segment_of(program, entry->rela.offset, 1);
    relocation->place = segment->address + (entry->rela.offset - segment->vaddr);
    if (!program->arch->is_aligned(relocation))
        return refuse(program, entry, "the distance is not a multiple of 4", error);
    if (program->arch->relocate(relocation, field) == C7X_RELOCATION_OVERFLOW)
        return refuse(program, entry, "the value does not fit", error);
    return C7X_OK;
}

/* Of those that have a name the one without a symbol is for indirect functions. */
static const char *why_unsupported(const struct c7x_arch *arch, uint32_t type)
{
    return arch->relocation_name(type) != NULL && !arch->relocation_uses_symbol(type)
               ? "indirect functions (IFUNC) are not supported"
               : "not supported";
}

static enum c7x_status apply(const struct c7x_program *program, const struct entry *entry,
                             struct c7x_error *error)
{
    const struct c7x_arch *arch = program->arch;
    struct c7x_relocation relocation = {.type = c7x_elf_rela_type(&entry->rela),
                                        .addend = entry->rela.addend};
    size_t width = arch->relocation_width(relocation.type);
    uint8_t *field = c7x_program_pointer(program, entry->rela.offset, width);
    if (relocation.type == R_NONE)
        return C7X_OK;
    if (width == 0)
        return refuse(program, entry, why_unsupported(arch, relocation.type), error);
    if (field == NULL)
        return refuse(program, entry, "not inside a copied segment", error);
    if (arch->relocation_uses_symbol(relocation.type))
        C7X_RETURN_IF_ERROR(resolve(program, entry, &relocation.symbol, error));
    else
        relocation.relative = c7x_program_address(program, (uint64_t)relocation.addend, 0);
    return write_field(program, entry, &relocation, field, error);
}

enum c7x_status c7x_loader_relocate(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(apply_relr(program, error));
    for (unsigned table = 0; table < 2; table++) {
        for (uint64_t i = 0; i < entry_count(program, table); i++) {
            struct entry entry;
            read_entry(program, table, i, &entry);
            C7X_RETURN_IF_ERROR(apply(program, &entry, error));
            if (i % C7X_LOADER_STEP == 0)
                C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
        }
    }
    return C7X_OK;
}

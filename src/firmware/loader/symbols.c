/* SPDX-License-Identifier: Apache-2.0 */
/* Fourth chapter: the module's own symbols, and the names that it imports. */
#include "firmware/loader/loader_impl.h"

#include "os/os.h"

#include <inttypes.h>
#include <string.h>

enum c7x_status c7x_loader_read_symbol(const struct c7x_program *program, uint64_t index,
                                       struct c7x_elf_symbol *out, struct c7x_error *error)
{
    if (index >= program->symbol_count)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "symbol %" PRIu64 " is past the end of the symbol table (%" PRIu64 ")",
                             index, program->symbol_count);
    memcpy(out, program->tables[C7X_TABLE_SYMBOLS].bytes + index * sizeof(*out), sizeof(*out));
    return C7X_OK;
}

const char *c7x_program_string(const struct c7x_program *program, uint64_t offset)
{
    const struct c7x_program_table *strings = &program->tables[C7X_TABLE_STRINGS];
    if (offset >= strings->size ||
        memchr(strings->bytes + offset, 0, (size_t)(strings->size - offset)) == NULL)
        return NULL;
    return (const char *)strings->bytes + offset;
}

const char *c7x_program_symbol_name(const struct c7x_program *program,
                                    const struct c7x_elf_symbol *symbol)
{
    return c7x_program_string(program, symbol->name);
}

bool c7x_program_definition(const struct c7x_program *program, uint64_t index,
                            struct c7x_elf_symbol *out, const char **out_name)
{
    if (c7x_loader_read_symbol(program, index, out, NULL) != C7X_OK ||
        out->section == C7X_ELF_SHN_UNDEF || c7x_elf_symbol_bind(out) == C7X_ELF_STB_LOCAL ||
        c7x_elf_symbol_type(out) == C7X_ELF_STT_TLS ||
        c7x_elf_symbol_type(out) == C7X_ELF_STT_GNU_IFUNC)
        return false;
    *out_name = c7x_program_symbol_name(program, out);
    return *out_name != NULL;
}

static const struct c7x_program *program_of(const struct c7x_symbol_source *source)
{
    return (const struct c7x_program *)source;
}

static void *find_symbol(const struct c7x_symbol_source *source, const char *name)
{
    const struct c7x_program *program = program_of(source);
    const struct c7x_program_segment *segment;
    struct c7x_elf_symbol symbol;
    if (!program->layout->find(program, name, &symbol))
        return NULL;
    segment = c7x_program_segment_at(program, symbol.value, symbol.section);
    return segment == NULL ? NULL : segment->pointer + (symbol.value - segment->vaddr);
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

const struct c7x_symbol_source c7x_loader_symbol_source = {find_symbol, extent_of, NULL};

uint64_t c7x_program_import(const struct c7x_program *program, const char *name)
{
    const struct c7x_symbol_source *imports = program->request.imports;
    void *pointer = imports->find(imports, name);
    if (pointer == NULL)
        return 0;
    return c7x_loader_is_native(program) ? (uintptr_t)pointer : C7X_LOADER_FIRMWARE_TEXT;
}

static bool is_missing(const struct c7x_program *program, const struct c7x_elf_symbol *symbol,
                       const char *name)
{
    return symbol->section == C7X_ELF_SHN_UNDEF &&
           c7x_elf_symbol_bind(symbol) != C7X_ELF_STB_LOCAL &&
           c7x_elf_symbol_bind(symbol) != C7X_ELF_STB_WEAK &&
           c7x_program_import(program, name) == 0;
}

static void add_missing(struct c7x_error *error, const char *name, unsigned number)
{
    if (number == 0)
        (void)c7x_error_set(error, C7X_SYMBOL, "loader", "the firmware does not export: %s", name);
    else
        c7x_error_append(error, ", %s", name);
}

enum c7x_status c7x_loader_check_imports(const struct c7x_program *program, struct c7x_error *error)
{
    unsigned missing_count = 0;
    /* With a GNU hash table alone the count is an upper bound, so the walk ends at the first entry
     * that is none. */
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        struct c7x_elf_symbol symbol;
        const char *name;
        C7X_RETURN_IF_ERROR(c7x_loader_read_symbol(program, i, &symbol, error));
        name = c7x_program_symbol_name(program, &symbol);
        if (name == NULL && program->tables[C7X_TABLE_HASH].size == 0)
            break;
        if (name == NULL)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "symbol %" PRIu64 ": name at %" PRIu32
                                 " is outside the string table",
                                 i, symbol.name);
        if (*name != '\0' && is_missing(program, &symbol, name))
            add_missing(error, name, missing_count++);
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
    }
    if (missing_count != 0 && program->request.imports->title != NULL)
        c7x_error_append(error, " (%s)", program->request.imports->title);
    return missing_count == 0 ? C7X_OK : C7X_SYMBOL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fourth chapter: the module's own symbols, and the names that it imports. */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
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
    uint64_t room = offset < strings->size ? strings->size - offset : 0;
    if (room > C7X_LOADER_NAME_MAX)
        room = C7X_LOADER_NAME_MAX;
    if (room == 0 || memchr(strings->bytes + offset, 0, (size_t)room) == NULL)
        return NULL;
    return (const char *)strings->bytes + offset;
}

bool c7x_program_is_named(const struct c7x_program *program, const struct c7x_elf_symbol *symbol,
                          const char *name)
{
    const struct c7x_program_table *strings = &program->tables[C7X_TABLE_STRINGS];
    size_t size = strlen(name) + 1;
    return c7x_range_inside(symbol->name, size, 0, strings->size) &&
           strncmp((const char *)strings->bytes + symbol->name, name, size) == 0;
}

const char *c7x_program_symbol_name(const struct c7x_program *program,
                                    const struct c7x_elf_symbol *symbol)
{
    return c7x_program_string(program, symbol->name);
}

bool c7x_program_is_global(const struct c7x_program *program, uint64_t index,
                           const struct c7x_elf_symbol *symbol)
{
    return index >= program->first_global && c7x_elf_symbol_bind(symbol) != C7X_ELF_STB_LOCAL;
}

bool c7x_program_definition(const struct c7x_program *program, uint64_t index,
                            struct c7x_elf_symbol *out)
{
    return c7x_loader_read_symbol(program, index, out, NULL) == C7X_OK &&
           out->section != C7X_ELF_SHN_UNDEF && c7x_program_is_global(program, index, out) &&
           c7x_elf_symbol_type(out) != C7X_ELF_STT_TLS &&
           c7x_elf_symbol_type(out) != C7X_ELF_STT_GNU_IFUNC;
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
    if (!program->layout->find(program, name, &symbol) || symbol.section == C7X_ELF_SHN_ABS)
        return NULL; /* an absolute value is no place in the module */
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

const struct c7x_symbol_source c7x_loader_symbol_source = {.find = find_symbol,
                                                           .extent = extent_of};

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

/* The names of missing imports as a text: those that fit, and how many do not. */
struct missing {
    char *text;
    size_t size; /* 0: they are only measured */
    size_t used;
    uint64_t count;
    uint64_t left_out;
};

#define LEFT_OUT_ROOM 32u /* for ", and N more" */

static void add_missing(struct missing *self, const char *name)
{
    size_t length = strlen(name);
    const char *separator = self->count++ == 0 ? "" : ", ";
    if (self->size == 0) {
        self->used += strlen(separator) + length;
        return;
    }
    if (self->left_out != 0 || length + LEFT_OUT_ROOM + 2 > self->size - self->used)
        self->left_out++;
    else
        self->used += (size_t)snprintf(self->text + self->used, self->size - self->used, "%s%s",
                                       separator, name);
}

/* What such a symbol stands for is only known at run time. */
static enum c7x_status check_kind(const struct c7x_elf_symbol *symbol, const char *name,
                                  struct c7x_error *error)
{
    unsigned type = c7x_elf_symbol_type(symbol);
    if (type != C7X_ELF_STT_TLS && type != C7X_ELF_STT_GNU_IFUNC)
        return C7X_OK;
    return c7x_error_set(error, C7X_LOAD, "loader", "symbol %s is %s, which is not supported", name,
                         type == C7X_ELF_STT_TLS ? "thread-local (TLS)"
                                                 : "an indirect function (IFUNC)");
}

static enum c7x_status walk_imports(const struct c7x_program *program, struct missing *out,
                                    struct c7x_error *error)
{
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        struct c7x_elf_symbol symbol;
        const char *name;
        C7X_RETURN_IF_ERROR(c7x_loader_read_symbol(program, i, &symbol, error));
        name = c7x_program_symbol_name(program, &symbol);
        if (name == NULL)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "symbol %" PRIu64 ": name at %" PRIu32
                                 " is outside the string table or longer than %u bytes",
                                 i, symbol.name, C7X_LOADER_NAME_MAX - 1);
        C7X_RETURN_IF_ERROR(check_kind(&symbol, name, error));
        if (*name != '\0' && is_missing(program, &symbol, name))
            add_missing(out, name);
        if (i % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
    }
    return C7X_OK;
}

/* Returns how many names did not fit. */
static uint64_t list_missing(const struct c7x_program *program, char *text, size_t size)
{
    const char *title = program->request.imports->title;
    struct missing list = {.text = text, .size = size};
    list.used = (size_t)snprintf(text, size,
                                 "the firmware%s%s%s does not export: ", title == NULL ? "" : " (",
                                 title == NULL ? "" : title, title == NULL ? "" : ")");
    if (walk_imports(program, &list, NULL) == C7X_OK && list.left_out != 0)
        (void)snprintf(text + list.used, size - list.used, ", and %" PRIu64 " more", list.left_out);
    return list.left_out;
}

static void list_missing_whole(const struct c7x_program *program, size_t names_size)
{
    size_t size = names_size + C7X_ERROR_TEXT_MAX;
    if (size > C7X_LOADER_MISSING_TEXT_MAX)
        size = C7X_LOADER_MISSING_TEXT_MAX;
    char *text = c7x_heap_alloc(program->request.heap, C7X_HEAP_SERVICE, size, 0);
    if (text != NULL)
        (void)list_missing(program, text, size);
    *program->request.out_missing = text;
}

enum c7x_status c7x_loader_check_imports(const struct c7x_program *program, struct c7x_error *error)
{
    struct missing all = {0};
    uint64_t left_out = 0;
    C7X_RETURN_IF_ERROR(walk_imports(program, &all, error));
    if (all.count == 0)
        return C7X_OK;
    (void)c7x_error_set(error, C7X_SYMBOL, "loader", "imports");
    if (error != NULL)
        left_out = list_missing(program, error->text, sizeof(error->text));
    if (left_out != 0 && program->request.out_missing != NULL)
        list_missing_whole(program, all.used);
    return C7X_SYMBOL;
}

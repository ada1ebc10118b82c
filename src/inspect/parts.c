/* SPDX-License-Identifier: Apache-2.0 */
/* Segments and symbols. */
#include "inspect/inspect_impl.h"

#include <string.h>

/* The names of a hostile file are a thousand times as long as the file, since they may overlap. */
#define NAME_BYTES_MAX 512u

uint64_t c7x_inspector_address(const struct c7x_inspector *self, uint64_t address)
{
    uint64_t device = c7x_memory_address(&self->memory, (const void *)(uintptr_t)address);
    return device != 0 ? device : address;
}

void c7x_inspector_read_segments(struct c7x_inspector *self)
{
    struct c7x_loader_segment segment;
    struct c7x_inspect_segment *list =
        c7x_inspector_alloc(self, C7X_LOADER_SEGMENT_COUNT_MAX, sizeof(*list));
    if (list == NULL)
        return;
    self->result.segments = list;
    for (unsigned i = 0; c7x_loader_segment(self->program, i, &segment); i++) {
        list[self->result.segment_count++] = (struct c7x_inspect_segment){
            .index = segment.index,
            .is_readable = segment.is_readable,
            .is_writable = segment.is_writable,
            .is_executable = segment.is_executable,
            .in_place = segment.in_place,
            .address = c7x_inspector_address(self, segment.address),
            .link_address = segment.vaddr,
            .file_offset = segment.offset,
            .file_bytes = segment.filesz,
            .memory_bytes = segment.memsz,
            .alignment = segment.align,
        };
        if (segment.in_place)
            self->result.bytes.in_place += segment.filesz;
    }
}

static void count_symbols(const struct c7x_program *program, size_t *out_imports,
                          size_t *out_exports)
{
    struct c7x_loader_symbol symbol;
    *out_imports = *out_exports = 0;
    for (uint64_t i = 1; c7x_loader_symbol(program, i, &symbol); i++) {
        *out_imports += symbol.is_import;
        *out_exports += symbol.is_export;
    }
}

static struct c7x_inspect_symbol describe(struct c7x_inspector *self,
                                          const struct c7x_loader_symbol *symbol)
{
    return (struct c7x_inspect_symbol){
        .name = c7x_inspector_text(self, symbol->name, NAME_BYTES_MAX),
        .is_weak = symbol->is_weak,
        .is_function = symbol->is_function,
        .is_present = symbol->is_present,
        .address = c7x_inspector_address(self, symbol->address),
        .size = symbol->size,
    };
}

void c7x_inspector_read_symbols(struct c7x_inspector *self)
{
    struct c7x_loader_symbol symbol;
    size_t import_count;
    size_t export_count;
    count_symbols(self->program, &import_count, &export_count);
    struct c7x_inspect_symbol *imports = c7x_inspector_alloc(self, import_count, sizeof(*imports));
    struct c7x_inspect_symbol *exports = c7x_inspector_alloc(self, export_count, sizeof(*exports));
    if (imports == NULL || exports == NULL)
        return;
    self->result.imports = imports;
    self->result.exports = exports;
    for (uint64_t i = 1; c7x_loader_symbol(self->program, i, &symbol); i++) {
        if (symbol.is_import)
            imports[self->result.import_count++] = describe(self, &symbol);
        if (symbol.is_export)
            exports[self->result.export_count++] = describe(self, &symbol);
    }
}

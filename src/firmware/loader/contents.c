/* SPDX-License-Identifier: Apache-2.0 */
/* What an open program consists of: its parts for inspection, its addresses for fault reports. */
#include "firmware/loader/loader_impl.h"

#include <inttypes.h>
#include <stdio.h>

const char *c7x_loader_machine(const struct c7x_program *program)
{
    return program->arch->name;
}

bool c7x_loader_is_native(const struct c7x_program *program)
{
    return program->arch == c7x_arch_native();
}

bool c7x_loader_segment(const struct c7x_program *program, unsigned index,
                        struct c7x_loader_segment *out)
{
    const struct c7x_program_segment *segment = &program->segments[index];
    if (index >= program->segment_count)
        return false;
    *out = (struct c7x_loader_segment){
        .index = segment->index,
        .is_readable = (segment->flags & C7X_ELF_PF_R) != 0,
        .is_writable = (segment->flags & C7X_ELF_PF_W) != 0,
        .is_executable = (segment->flags & C7X_ELF_PF_X) != 0,
        .in_place = segment->in_place,
        .vaddr = segment->vaddr,
        .offset = segment->offset,
        .filesz = segment->filesz,
        .memsz = segment->memsz,
        .align = segment->align,
        .address = segment->address,
    };
    return true;
}

bool c7x_loader_symbol(const struct c7x_program *program, uint64_t index,
                       struct c7x_loader_symbol *out)
{
    struct c7x_elf_symbol symbol;
    const char *name;
    bool is_global;
    if (c7x_loader_read_symbol(program, index, &symbol, NULL) != C7X_OK)
        return false;
    name = c7x_program_symbol_name(program, &symbol);
    is_global = name != NULL && *name != '\0' && c7x_program_is_global(program, index, &symbol);
    *out = (struct c7x_loader_symbol){
        .name = name == NULL ? "" : name,
        .is_import = is_global && symbol.section == C7X_ELF_SHN_UNDEF,
        .is_export = is_global && symbol.section != C7X_ELF_SHN_UNDEF,
        .is_weak = c7x_elf_symbol_bind(&symbol) == C7X_ELF_STB_WEAK,
        .is_function = c7x_elf_symbol_type(&symbol) == C7X_ELF_STT_FUNC,
        .size = symbol.size,
    };
    out->is_present = out->is_import && c7x_program_import(program, name) != 0;
    if (out->is_export)
        out->address = symbol.section == C7X_ELF_SHN_ABS
                           ? symbol.value
                           : c7x_program_address(program, symbol.value, symbol.section);
    return true;
}

/* The nearest symbol at or below the address, in the same segment. */
static const char *nearest_symbol(const struct c7x_program *program,
                                  const struct c7x_program_segment *segment, uint64_t vaddr,
                                  uint64_t *out_offset)
{
    const char *best = NULL;
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        struct c7x_elf_symbol symbol;
        const char *name;
        if (c7x_loader_read_symbol(program, i, &symbol, NULL) != C7X_OK)
            break;
        if (symbol.section == C7X_ELF_SHN_UNDEF || symbol.section == C7X_ELF_SHN_ABS ||
            symbol.value > vaddr || symbol.value < segment->vaddr ||
            (best != NULL && vaddr - symbol.value >= *out_offset))
            continue;
        name = c7x_program_symbol_name(program, &symbol);
        if (name == NULL || *name == '\0')
            continue;
        best = name;
        *out_offset = vaddr - symbol.value;
    }
    return best;
}

bool c7x_loader_describe(const struct c7x_program *program, const void *address, char *text,
                         size_t text_size)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        uint64_t offset = (uintptr_t)address - (uintptr_t)segment->pointer;
        uint64_t symbol_offset = 0;
        const char *name;
        if (offset >= segment->memsz)
            continue;
        name = nearest_symbol(program, segment, segment->vaddr + offset, &symbol_offset);
        if (name != NULL)
            (void)snprintf(text, text_size, "%s+0x%" PRIx64, name, symbol_offset);
        else
            (void)snprintf(text, text_size, "segment %u+0x%" PRIx64, segment->index, offset);
        return true;
    }
    return false;
}

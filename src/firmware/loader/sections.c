/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Section headers, which a file may lack: they say which segment a marker between two segments
 * belongs to, and give messages a name.
 */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

#define NO_SEGMENT 0xffu

static bool read_section(const struct c7x_program *program, unsigned index,
                         struct c7x_elf_section *out)
{
    const struct c7x_elf_header *header = &program->header;
    uint64_t offset;
    return header->shoff != 0 && header->shentsize == sizeof(*out) && index < header->shnum &&
           c7x_add_size(header->shoff, (uint64_t)index * sizeof(*out), &offset) &&
           c7x_image_read(&program->image, offset, sizeof(*out), out, "section header", NULL) ==
               C7X_OK;
}

static uint8_t segment_number(const struct c7x_program *program,
                              const struct c7x_elf_section *section)
{
    const struct c7x_program_segment *segment = NULL;
    if ((section->flags & C7X_ELF_SHF_ALLOC) != 0 && section->size != 0)
        segment = c7x_program_segment_of(program, section->addr, section->size);
    return segment == NULL ? NO_SEGMENT : (uint8_t)(segment - program->segments);
}

enum c7x_status c7x_loader_map_sections(struct c7x_program *program, struct c7x_error *error)
{
    struct c7x_heap *heap = program->request.heap;
    struct c7x_elf_section section;
    unsigned count = program->header.shnum;
    if (count == 0 || !read_section(program, count - 1, &section))
        return C7X_OK;
    program->section_segments = c7x_heap_alloc(heap, program->request.owner, count, 0);
    if (program->section_segments == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, count), "map of sections");
    memset(program->section_segments, NO_SEGMENT, count);
    program->section_count = count;
    for (unsigned i = 1; i < count; i++) {
        if (read_section(program, i, &section))
            program->section_segments[i] = segment_number(program, &section);
        if (i % C7X_LOADER_STEP == 0)
            C7X_RETURN_IF_ERROR(c7x_loader_step(program, error));
    }
    return C7X_OK;
}

/* A name of printable characters, cut if long; empty when there is none. */
static void read_name(const struct c7x_program *program, const struct c7x_elf_section *section,
                      char *text, size_t text_size)
{
    struct c7x_elf_section names;
    uint64_t offset;
    size_t used = 0;
    if (read_section(program, program->header.shstrndx, &names) && section->name < names.size &&
        c7x_add_size(names.offset, section->name, &offset)) {
        while (used + 1 < text_size &&
               c7x_image_read(&program->image, offset + used, 1, &text[used], "", NULL) == C7X_OK &&
               text[used] > ' ' && text[used] < 0x7f)
            used++;
    }
    text[used] = '\0';
}

bool c7x_program_find_section(const struct c7x_program *program, const char *name,
                              struct c7x_image *out)
{
    struct c7x_elf_section section;
    char found[64];
    for (unsigned i = 1; i < program->header.shnum && read_section(program, i, &section); i++) {
        read_name(program, &section, found, sizeof(found));
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
        if (strcmp(found, name) != 0)
            continue;
        out->bytes = c7x_image_pointer(&program->image, section.offset, section.size);
        out->size = section.size;
        return out->bytes != NULL;
    }
    return false;
}

void c7x_program_section_name(const struct c7x_program *program, uint64_t vaddr, char *text,
                              size_t text_size)
{
    const struct c7x_program_segment *segment;
    struct c7x_elf_section section;
    for (unsigned i = 1; i < program->header.shnum; i++) {
        if (!read_section(program, i, &section))
            break;
        if ((section.flags & C7X_ELF_SHF_ALLOC) == 0 ||
            !c7x_range_inside(vaddr, 1, section.addr, section.size))
            continue;
        read_name(program, &section, text, text_size);
        if (text[0] != '\0')
            return;
    }
    segment = c7x_program_segment_of(program, vaddr, 1);
    if (segment != NULL)
        (void)snprintf(text, text_size, "segment %u", segment->index);
    else
        (void)snprintf(text, text_size, "no segment");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Second chapter: memory. What native and C7x layouts share: segments and their addresses. */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"

#include <string.h>

const struct c7x_program_segment *c7x_program_segment_of(const struct c7x_program *program,
                                                         uint64_t vaddr, uint64_t size)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        if (c7x_range_inside(vaddr, size, segment->vaddr, segment->memsz))
            return segment;
    }
    return NULL;
}

/* The segment of the symbol's section, if that is known and can be meant. */
static const struct c7x_program_segment *segment_of_section(const struct c7x_program *program,
                                                            uint64_t vaddr, unsigned section)
{
    const struct c7x_program_segment *segment;
    if (program->section_segments == NULL || section >= program->section_count ||
        program->section_segments[section] >= program->segment_count)
        return NULL;
    segment = &program->segments[program->section_segments[section]];
    return c7x_range_inside(vaddr, 0, segment->vaddr, segment->memsz) ? segment : NULL;
}

const struct c7x_program_segment *c7x_program_segment_at(const struct c7x_program *program,
                                                         uint64_t vaddr, unsigned section)
{
    const struct c7x_program_segment *segment = segment_of_section(program, vaddr, section);
    if (segment == NULL)
        segment = c7x_program_segment_of(program, vaddr, 1);
    if (segment == NULL) /* an end marker is one past its segment */
        segment = c7x_program_segment_of(program, vaddr, 0);
    return segment;
}

uint64_t c7x_program_address(const struct c7x_program *program, uint64_t vaddr, unsigned section)
{
    const struct c7x_program_segment *segment = c7x_program_segment_at(program, vaddr, section);
    if (segment != NULL)
        return segment->address + (vaddr - segment->vaddr);
    return vaddr + program->slide;
}

uint8_t *c7x_program_pointer(const struct c7x_program *program, uint64_t vaddr, uint64_t size)
{
    const struct c7x_program_segment *segment = c7x_program_segment_of(program, vaddr, size);
    if (segment == NULL || segment->in_place)
        return NULL;
    return segment->pointer + (vaddr - segment->vaddr);
}

bool c7x_program_read(const struct c7x_program *program, uint64_t vaddr, uint64_t size, void *out)
{
    const uint8_t *bytes = c7x_program_pointer(program, vaddr, size);
    if (bytes == NULL)
        return false;
    if (size != 0)
        memcpy(out, bytes, (size_t)size);
    return true;
}

enum c7x_status c7x_program_fill(const struct c7x_program *program,
                                 const struct c7x_program_segment *segment, uint64_t tail,
                                 struct c7x_error *error)
{
    const uint8_t *bytes = c7x_image_pointer(&program->image, segment->offset, segment->filesz);
    if (bytes == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader", "segment %u passes the end of the file",
                             segment->index);
    c7x_memory_zero(segment->pointer + segment->filesz, segment->memsz - segment->filesz + tail);
    c7x_memory_copy(segment->pointer, bytes, segment->filesz);
    return C7X_OK;
}

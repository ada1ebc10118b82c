/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second chapter: memory. Text reaches constants and data at fixed distances, so all segments share
 * one block and keep their link distances. Only the segment marked for use in place may lie
 * elsewhere: nothing but its symbols leads to it.
 */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

static uint64_t end_of(const struct c7x_program_segment *segment)
{
    return segment->vaddr + segment->memsz;
}

/* The bytes must be as aligned as the link address promises and need no zeroed tail. */
static void place_in_place(const struct c7x_image *image, struct c7x_program_segment *segment)
{
    const uint8_t *bytes = c7x_image_pointer(image, segment->offset, segment->filesz);
    if ((segment->flags & C7X_LOADER_PF_IN_PLACE) == 0 || segment->filesz != segment->memsz ||
        bytes == NULL || (((uintptr_t)bytes - segment->vaddr) & (segment->align - 1)) != 0)
        return;
    segment->in_place = true;
    /* Casts the const away for the common field; nothing writes where in_place is set. */
    segment->pointer = (uint8_t *)(uintptr_t)bytes;
}

/* The range of link addresses that the block covers, in whole pages and from a multiple of the
 * largest alignment. */
static bool block_range(const struct c7x_program *program, uint64_t *out_low, uint64_t *out_size,
                        uint64_t *out_alignment)
{
    uint64_t alignment = c7x_os_page_size();
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        if (segment->in_place)
            continue;
        if (segment->align > alignment)
            alignment = segment->align;
        if (segment->vaddr < low)
            low = segment->vaddr;
        high = c7x_round_up(end_of(segment), c7x_os_page_size());
    }
    if (low == UINT64_MAX)
        return false;
    *out_low = low & ~(alignment - 1);
    *out_size = high - *out_low;
    *out_alignment = alignment;
    return true;
}

static enum c7x_status allocate_block(struct c7x_program *program, struct c7x_error *error)
{
    uint64_t alignment;
    if (!block_range(program, &program->low, &program->block_size, &alignment))
        return c7x_error_set(error, C7X_LOAD, "loader", "all segments are marked for use in place");
    if (program->block_size <= SIZE_MAX)
        program->block = c7x_heap_alloc(program->heap, program->owner, (size_t)program->block_size,
                                        (size_t)alignment);
    if (program->block == NULL)
        return c7x_error_set_oom(error, "loader",
                                 c7x_heap_oom(program->heap, (size_t)program->block_size),
                                 "segments of the module");
    return C7X_OK;
}

/* Also zeroes up to the end of the last page, so that nothing of the heap's past shows there. */
static enum c7x_status copy_segment(const struct c7x_image *image,
                                    const struct c7x_program *program,
                                    struct c7x_program_segment *segment, struct c7x_error *error)
{
    uint64_t start = segment->vaddr - program->low;
    uint64_t end = c7x_round_up(start + segment->memsz, c7x_os_page_size());
    segment->pointer = program->block + start;
    memset(segment->pointer + segment->filesz, 0, (size_t)(end - start - segment->filesz));
    return c7x_image_read(image, segment->offset, segment->filesz, segment->pointer, "segment",
                          error);
}

enum c7x_status c7x_loader_layout(const struct c7x_image *image, bool copy_read_only,
                                  struct c7x_program *program, struct c7x_error *error)
{
    for (unsigned i = 0; i < program->segment_count && !copy_read_only; i++)
        place_in_place(image, &program->segments[i]);
    C7X_RETURN_IF_ERROR(allocate_block(program, error));
    for (unsigned i = 0; i < program->segment_count; i++) {
        if (!program->segments[i].in_place)
            C7X_RETURN_IF_ERROR(copy_segment(image, program, &program->segments[i], error));
    }
    return C7X_OK;
}

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

uint64_t c7x_program_address(const struct c7x_program *program, uint64_t vaddr)
{
    const struct c7x_program_segment *segment = c7x_program_segment_of(program, vaddr, 1);
    if (segment == NULL) /* an end marker is one past its segment */
        segment = c7x_program_segment_of(program, vaddr, 0);
    if (segment != NULL && segment->in_place)
        return (uint64_t)(uintptr_t)segment->pointer + (vaddr - segment->vaddr);
    return (uint64_t)(uintptr_t)program->block + (vaddr - program->low);
}

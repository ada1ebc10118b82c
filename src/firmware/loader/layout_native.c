/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native files. Text reaches constants and data at fixed distances, so all segments share one block
 * and keep their link distances. Only the segment marked for use in place may lie elsewhere:
 * nothing but its symbols leads to it. The dynamic table gives link addresses.
 */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

#include <inttypes.h>

static enum c7x_status refuse_segment(struct c7x_error *error, unsigned index, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "loader", "segment %u: %s", index, why);
}

static enum c7x_status verify_header(const struct c7x_elf_header *header, struct c7x_error *error)
{
    if (header->type == C7X_ELF_TYPE_DYN)
        return C7X_OK;
    return c7x_error_set(error, C7X_LOAD, "loader", "ELF type %u is not a shared object (ET_DYN)",
                         header->type);
}

static enum c7x_status verify_access(const struct c7x_elf_segment *segment, unsigned index,
                                     struct c7x_error *error)
{
    uint32_t access = segment->flags & (C7X_ELF_PF_W | C7X_ELF_PF_X);
    if (access == (C7X_ELF_PF_W | C7X_ELF_PF_X))
        return refuse_segment(error, index, "writable and executable");
    if ((segment->flags & C7X_LOADER_PF_IN_PLACE) != 0 && access != 0)
        return refuse_segment(error, index, "marked for use in place, but not read-only");
    return C7X_OK;
}

/* Segments ascend and, since each page has one access, do not share a page. */
static enum c7x_status verify_order(const struct c7x_program *program,
                                    const struct c7x_elf_segment *segment, unsigned index,
                                    struct c7x_error *error)
{
    const struct c7x_program_segment *last;
    if (program->segment_count == 0)
        return C7X_OK;
    last = &program->segments[program->segment_count - 1];
    if (segment->vaddr < last->vaddr + last->memsz)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "segment %u at 0x%" PRIx64 " overlaps segment %u or is out of order",
                             index, segment->vaddr, last->index);
    if (segment->vaddr < c7x_round_up(last->vaddr + last->memsz, c7x_os_page_size()) &&
        (segment->vaddr & ~(uint64_t)(c7x_os_page_size() - 1)) < last->vaddr + last->memsz)
        return c7x_error_set(error, C7X_LOAD, "loader", "segments %u and %u share a page",
                             last->index, index);
    return C7X_OK;
}

static enum c7x_status verify_segment(const struct c7x_program *program,
                                      const struct c7x_elf_segment *segment, unsigned index,
                                      struct c7x_error *error)
{
    uint64_t alignment = segment->align == 0 ? 1 : segment->align;
    if (((segment->vaddr - segment->offset) & (alignment - 1)) != 0)
        return refuse_segment(error, index, "address and file offset disagree in alignment");
    C7X_RETURN_IF_ERROR(verify_access(segment, index, error));
    return verify_order(program, segment, index, error);
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
    segment->address = (uintptr_t)bytes;
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
        high = c7x_round_up(segment->vaddr + segment->memsz, c7x_os_page_size());
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
    struct c7x_heap *heap = program->request.heap;
    uint64_t alignment;
    if (!block_range(program, &program->low, &program->block_size, &alignment))
        return c7x_error_set(error, C7X_LOAD, "loader", "all segments are marked for use in place");
    if (program->block_size <= SIZE_MAX)
        program->block = c7x_heap_alloc(heap, program->request.owner, (size_t)program->block_size,
                                        (size_t)alignment);
    if (program->block == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, (size_t)program->block_size),
                                 "segments of the module");
    program->slide = (uintptr_t)program->block - program->low;
    return C7X_OK;
}

/* Also zeroes up to the end of the last page, so that nothing of the heap's past shows there. */
static enum c7x_status copy_segment(const struct c7x_program *program,
                                    struct c7x_program_segment *segment, struct c7x_error *error)
{
    uint64_t start = segment->vaddr - program->low;
    uint64_t end = start + segment->memsz;
    segment->pointer = program->block + start;
    segment->address = (uintptr_t)segment->pointer;
    return c7x_program_fill(program, segment, c7x_round_up(end, c7x_os_page_size()) - end, error);
}

static enum c7x_status place(struct c7x_program *program, struct c7x_error *error)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        if (!program->request.copy_read_only && !program->segments[i].must_copy)
            place_in_place(&program->image, &program->segments[i]);
    }
    C7X_RETURN_IF_ERROR(allocate_block(program, error));
    for (unsigned i = 0; i < program->segment_count; i++) {
        if (!program->segments[i].in_place)
            C7X_RETURN_IF_ERROR(copy_segment(program, &program->segments[i], error));
    }
    return C7X_OK;
}

static void release(struct c7x_program *program)
{
    c7x_loader_unprotect(program);
    c7x_heap_free(program->request.heap, program->block);
    program->block = NULL;
}

static const uint8_t *table(const struct c7x_program *program, uint64_t value, uint64_t size)
{
    return c7x_program_pointer(program, value, size);
}

static uint64_t table_room(const struct c7x_program *program, uint64_t value)
{
    const struct c7x_program_segment *segment = c7x_program_segment_of(program, value, 0);
    if (segment == NULL || segment->in_place)
        return 0;
    return segment->vaddr + segment->memsz - value;
}

/* They are in the block already. */
static enum c7x_status keep_tables(struct c7x_program *program, struct c7x_error *error)
{
    (void)program;
    (void)error;
    return C7X_OK;
}

/* What a compiler driver adds unasked; a name of theirs that is not exported is missing all the
 * same. */
static const char *const libraries[] = {"libc.so.6",
                                        "libm.so.6",
                                        "libgcc_s.so.1",
                                        "libstdc++.so.6",
                                        "ld-linux-x86-64.so.2",
                                        "ld-linux-aarch64.so.1",
                                        NULL};

const struct c7x_layout_ops c7x_layout_native = {
    .verify_header = verify_header,
    .verify_segment = verify_segment,
    .place = place,
    .release = release,
    .table = table,
    .table_room = table_room,
    .keep_tables = keep_tables,
    .find = c7x_program_find_hashed,
    .protect = c7x_loader_protect,
    .libraries = libraries,
};

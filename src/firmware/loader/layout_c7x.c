/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C7x files, as TI's linker makes them. Each segment is placed for itself: read-only ones stay
 * where they are staged, the others get a block of the heap, so that each has a slide of its own.
 * The dynamic table gives file offsets, and its tables need not lie in a segment.
 */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>

static enum c7x_status verify_header(const struct c7x_elf_header *header, struct c7x_error *error)
{
    if (header->type != C7X_ELF_TYPE_DYN && header->type != C7X_ELF_TYPE_EXEC)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "ELF type %u is neither a shared object (ET_DYN) nor a program "
                             "(ET_EXEC)",
                             header->type);
    if (header->ident[7] != C7X_ELF_OSABI_C7X)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "ELF OS ABI %u is not 64 (C7x without an operating system)",
                             header->ident[7]);
    return C7X_OK;
}

static enum c7x_status verify_segment(const struct c7x_program *program,
                                      const struct c7x_elf_segment *segment, unsigned index,
                                      struct c7x_error *error)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *other = &program->segments[i];
        if (c7x_ranges_overlap(segment->vaddr, segment->memsz, other->vaddr, other->memsz))
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "segment %u at 0x%" PRIx64 " overlaps segment %u at 0x%" PRIx64,
                                 index, segment->vaddr, other->index, other->vaddr);
    }
    return C7X_OK;
}

/* Whether it is used where it is staged, whatever its alignment: the device has always done so. A
 * segment that needs zeros behind its bytes cannot be. */
static bool stays_in_place(const struct c7x_program *program,
                           const struct c7x_program_segment *segment)
{
    return !program->request.copy_read_only && !segment->must_copy &&
           (segment->flags & (C7X_ELF_PF_W | C7X_ELF_PF_X)) == 0 &&
           segment->filesz == segment->memsz;
}

static uint64_t heap_address(const struct c7x_program *program, const void *pointer)
{
    uint64_t address =
        program->request.memory == NULL ? 0 : c7x_memory_address(program->request.memory, pointer);
    return address != 0 ? address : (uintptr_t)pointer;
}

static enum c7x_status copy_segment(const struct c7x_program *program,
                                    struct c7x_program_segment *segment, struct c7x_error *error)
{
    struct c7x_heap *heap = program->request.heap;
    uint64_t alignment =
        segment->align > C7X_HEAP_ALIGNMENT_DEFAULT ? segment->align : C7X_HEAP_ALIGNMENT_DEFAULT;
    if (segment->memsz <= SIZE_MAX)
        segment->pointer =
            c7x_heap_alloc(heap, program->request.owner, (size_t)segment->memsz, (size_t)alignment);
    if (segment->pointer == NULL) {
        char what[32];
        (void)snprintf(what, sizeof(what), "segment %u", segment->index);
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, (size_t)segment->memsz), what);
    }
    segment->address = heap_address(program, segment->pointer);
    return c7x_program_fill(program, segment, 0, error);
}

static enum c7x_status place_segment(const struct c7x_program *program,
                                     struct c7x_program_segment *segment, struct c7x_error *error)
{
    const uint8_t *bytes;
    if (!stays_in_place(program, segment))
        return copy_segment(program, segment, error);
    bytes = c7x_image_pointer(&program->image, segment->offset, segment->filesz);
    segment->in_place = true;
    /* Casts the const away for the common field; nothing writes where in_place is set. */
    segment->pointer = (uint8_t *)(uintptr_t)bytes;
    segment->address = program->request.address + segment->offset;
    return C7X_OK;
}

static enum c7x_status place(struct c7x_program *program, struct c7x_error *error)
{
    for (unsigned i = 0; i < program->segment_count; i++)
        C7X_RETURN_IF_ERROR(place_segment(program, &program->segments[i], error));
    return c7x_loader_map_sections(program, error);
}

static void release(struct c7x_program *program)
{
    struct c7x_heap *heap = program->request.heap;
    for (unsigned i = 0; i < program->segment_count; i++) {
        if (!program->segments[i].in_place)
            c7x_heap_free(heap, program->segments[i].pointer);
        program->segments[i].pointer = NULL;
    }
    c7x_loader_close_library(program);
    c7x_heap_free(heap, program->section_segments);
    c7x_heap_free(heap, program->kept_tables);
    c7x_heap_free(heap, program->index);
    program->section_segments = NULL;
    program->kept_tables = NULL;
    program->index = NULL;
}

static const uint8_t *table(const struct c7x_program *program, uint64_t value, uint64_t size)
{
    return c7x_image_pointer(&program->image, value, size);
}

static uint64_t table_room(const struct c7x_program *program, uint64_t value)
{
    return value < program->image.size ? program->image.size - value : 0;
}

/* Symbols, then strings, in one block; and an index of our own, since the file's hash table is only
 * promised to say how many symbols there are. */
static enum c7x_status keep_tables(struct c7x_program *program, struct c7x_error *error)
{
    struct c7x_program_table *symbols = &program->tables[C7X_TABLE_SYMBOLS];
    struct c7x_program_table *strings = &program->tables[C7X_TABLE_STRINGS];
    struct c7x_heap *heap = program->request.heap;
    size_t symbol_bytes = (size_t)(program->symbol_count * sizeof(struct c7x_elf_symbol));
    size_t size = symbol_bytes + (size_t)strings->size;
    uint8_t *block = c7x_heap_alloc(heap, program->request.owner, size, 0);
    if (block == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(heap, size), "symbol table");
    program->kept_tables = block;
    c7x_memory_copy(block, symbols->bytes, symbol_bytes);
    c7x_memory_copy(block + symbol_bytes, strings->bytes, strings->size);
    *symbols = (struct c7x_program_table){block, symbol_bytes};
    strings->bytes = block + symbol_bytes;
    return c7x_loader_index_symbols(program, error);
}

/* The map of the device gives the heap all access; what was written must reach the instruction
 * fetch. */
static enum c7x_status protect(struct c7x_program *program, struct c7x_error *error)
{
    (void)error;
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        if (segment->in_place)
            continue;
        c7x_os_cache_writeback(segment->pointer, (size_t)segment->memsz);
        if ((segment->flags & C7X_ELF_PF_X) != 0)
            c7x_os_cache_sync_instructions(segment->pointer, (size_t)segment->memsz);
    }
    return C7X_OK;
}

/* The import library that TI's linker is given. */
static const char *const libraries[] = {C7X_LOADER_LIBRARY, NULL};

const struct c7x_layout_ops c7x_layout_c7x = {
    .verify_header = verify_header,
    .verify_segment = verify_segment,
    .place = place,
    .release = release,
    .table = table,
    .table_room = table_room,
    .keep_tables = keep_tables,
    .find = c7x_program_find_indexed,
    .protect = protect,
    .tables_by_offset = true,
    .libraries = libraries,
};

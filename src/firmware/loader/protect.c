/* SPDX-License-Identifier: Apache-2.0 */
/* Last chapter: each page gets the access that its segment asks for. Staged bytes are not ours to
 * protect. */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "os/os.h"

static enum c7x_os_access access_of(const struct c7x_program_segment *segment)
{
    if ((segment->flags & C7X_ELF_PF_X) != 0)
        return C7X_OS_READ_EXECUTE;
    return (segment->flags & C7X_ELF_PF_W) != 0 ? C7X_OS_READ_WRITE : C7X_OS_READ;
}

static enum c7x_status protect_segment(const struct c7x_program *program,
                                       const struct c7x_program_segment *segment)
{
    uint64_t page = c7x_os_page_size();
    uint64_t start = (segment->vaddr - program->low) & ~(page - 1);
    uint64_t end = c7x_round_up(segment->vaddr - program->low + segment->memsz, page);
    if ((segment->flags & C7X_ELF_PF_X) != 0)
        c7x_os_cache_sync_instructions(segment->pointer, (size_t)segment->memsz);
    return c7x_os_pages_protect(program->block + start, (size_t)(end - start), access_of(segment));
}

enum c7x_status c7x_loader_protect(struct c7x_program *program, struct c7x_error *error)
{
    program->is_protected = true;
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        if (!segment->in_place && protect_segment(program, segment) != C7X_OK)
            return c7x_error_set(error, C7X_LOAD, "loader",
                                 "segment %u: the system refuses to protect its pages",
                                 segment->index);
    }
    return C7X_OK;
}

void c7x_loader_unprotect(struct c7x_program *program)
{
    if (!program->is_protected)
        return;
    program->is_protected = false;
    if (c7x_os_pages_protect(program->block, (size_t)program->block_size, C7X_OS_READ_WRITE) !=
        C7X_OK)
        c7x_os_panic("loader: pages of the heap cannot be made writable again");
}

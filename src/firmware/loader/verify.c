/* SPDX-License-Identifier: Apache-2.0 */
/* First chapter of a load: is this a module for this device, and do its segments make sense? */
#include "firmware/loader/loader_impl.h"

#include "base/checked.h"
#include "firmware/loader/arch/arch.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

#define C7X_LOADER_HEADER_COUNT_MAX 64u

static enum c7x_status refuse(struct c7x_error *error, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "loader", "%s", why);
}

static enum c7x_status refuse_machine(const struct c7x_program *program, uint16_t machine,
                                      struct c7x_error *error)
{
    const char *device = program->request.device;
    char text[32];
    return c7x_error_set(error, C7X_LOAD, "loader", "built for %s; this device executes %s",
                         c7x_arch_machine_name(machine, text, sizeof(text)),
                         device != NULL ? device : c7x_arch_native()->name);
}

/* A file of a known kind is checked to its end before it is refused, so that what is broken is
 * called broken. */
enum c7x_status c7x_loader_verify_machine(const struct c7x_program *program,
                                          struct c7x_error *error)
{
    return c7x_loader_is_native(program) ? C7X_OK
                                         : refuse_machine(program, program->arch->machine, error);
}

static enum c7x_status find_machine(struct c7x_program *program, struct c7x_error *error)
{
    program->arch = c7x_arch_find(program->header.machine);
    if (program->arch == NULL)
        return refuse_machine(program, program->header.machine, error);
    program->symbols.is_foreign = !c7x_loader_is_native(program);
    program->layout = program->arch == &c7x_arch_c7x ? &c7x_layout_c7x : &c7x_layout_native;
    return C7X_OK;
}

static enum c7x_status verify_header(struct c7x_program *program, struct c7x_error *error)
{
    const struct c7x_elf_header *header = &program->header;
    static const uint8_t magic[4] = {0x7f, 'E', 'L', 'F'};
    if (memcmp(header->ident, magic, sizeof(magic)) != 0)
        return refuse(error, "not a module: no ELF header");
    if (header->ident[4] != C7X_ELF_CLASS_64 || header->ident[5] != C7X_ELF_DATA_LITTLE)
        return refuse(error, "not a module: not a 64-bit little-endian ELF file");
    C7X_RETURN_IF_ERROR(find_machine(program, error));
    C7X_RETURN_IF_ERROR(program->layout->verify_header(header, error));
    if (header->ident[6] != 1 || header->version != 1)
        return refuse(error, "unknown ELF version");
    if (header->phentsize != sizeof(struct c7x_elf_segment))
        return c7x_error_set(error, C7X_LOAD, "loader", "program headers of %u bytes, not 56",
                             header->phentsize);
    if (header->phnum == 0 || header->phnum > C7X_LOADER_HEADER_COUNT_MAX)
        return c7x_error_set(error, C7X_LOAD, "loader", "%u program headers, not 1 to %u",
                             header->phnum, C7X_LOADER_HEADER_COUNT_MAX);
    return C7X_OK;
}

static enum c7x_status refuse_segment(struct c7x_error *error, unsigned index, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "loader", "segment %u: %s", index, why);
}

static enum c7x_status verify_extent(const struct c7x_image *image,
                                     const struct c7x_elf_segment *segment, unsigned index,
                                     struct c7x_error *error)
{
    uint64_t end;
    if (c7x_image_pointer(image, segment->offset, segment->filesz) == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "segment %u: %" PRIu64 " bytes at offset 0x%" PRIx64
                             " pass the end of the file (%" PRIu64 " bytes)",
                             index, segment->filesz, segment->offset, image->size);
    if (segment->filesz > segment->memsz)
        return refuse_segment(error, index, "larger in the file than in memory");
    if (!c7x_add_size(segment->vaddr, segment->memsz, &end) ||
        !c7x_align_size(end, c7x_os_page_size(), &end))
        return refuse_segment(error, index, "passes the end of the address space");
    return C7X_OK;
}

static enum c7x_status verify_alignment(const struct c7x_elf_segment *segment, unsigned index,
                                        struct c7x_error *error)
{
    uint64_t alignment = segment->align == 0 ? 1 : segment->align;
    if (!c7x_is_power_of_two(alignment) || alignment > C7X_LOADER_ALIGNMENT_MAX)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "segment %u: alignment 0x%" PRIx64 " is not a power of two up to 0x%x",
                             index, segment->align, C7X_LOADER_ALIGNMENT_MAX);
    return C7X_OK;
}

static enum c7x_status add_segment(const struct c7x_elf_segment *segment, unsigned index,
                                   struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(verify_extent(&program->image, segment, index, error));
    C7X_RETURN_IF_ERROR(verify_alignment(segment, index, error));
    C7X_RETURN_IF_ERROR(program->layout->verify_segment(program, segment, index, error));
    if (program->segment_count == C7X_LOADER_SEGMENT_COUNT_MAX)
        return c7x_error_set(error, C7X_LOAD, "loader", "more than %u segments",
                             C7X_LOADER_SEGMENT_COUNT_MAX);
    program->segments[program->segment_count++] = (struct c7x_program_segment){
        .vaddr = segment->vaddr,
        .memsz = segment->memsz,
        .filesz = segment->filesz,
        .offset = segment->offset,
        .align = segment->align == 0 ? 1 : segment->align,
        .flags = segment->flags,
        .index = index,
    };
    return C7X_OK;
}

static enum c7x_status verify_segment(const struct c7x_elf_segment *segment, unsigned index,
                                      struct c7x_program *program, struct c7x_error *error)
{
    switch (segment->type) {
    case C7X_ELF_PT_LOAD:
        return segment->memsz == 0 ? C7X_OK : add_segment(segment, index, program, error);
    case C7X_ELF_PT_DYNAMIC:
        program->dynamic = *segment;
        return C7X_OK;
    case C7X_ELF_PT_TLS:
        return refuse_segment(error, index, "thread-local storage is not supported");
    case C7X_ELF_PT_GNU_STACK:
        return (segment->flags & C7X_ELF_PF_X) != 0
                   ? refuse_segment(error, index, "asks for an executable stack")
                   : C7X_OK;
    default:
        return C7X_OK;
    }
}

enum c7x_status c7x_loader_read_headers(struct c7x_program *program, struct c7x_error *error)
{
    const struct c7x_elf_header *header = &program->header;
    C7X_RETURN_IF_ERROR(c7x_image_read_header(&program->image, &program->header, error));
    C7X_RETURN_IF_ERROR(verify_header(program, error));
    for (unsigned i = 0; i < header->phnum; i++) {
        struct c7x_elf_segment segment;
        C7X_RETURN_IF_ERROR(c7x_image_read_segment(&program->image, header, i, &segment, error));
        C7X_RETURN_IF_ERROR(verify_segment(&segment, i, program, error));
    }
    if (program->dynamic.filesz == 0)
        return refuse(error, "no dynamic table (PT_DYNAMIC)");
    return C7X_OK;
}

enum c7x_status c7x_loader_verify(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_read_headers(program, error));
    return program->segment_count != 0 ? C7X_OK : refuse(error, "no segment to load (PT_LOAD)");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/loader/image.h"

#include "base/checked.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const uint8_t *c7x_image_pointer(const struct c7x_image *image, uint64_t offset, uint64_t size)
{
    if (!c7x_range_inside(offset, size, 0, image->size))
        return NULL;
    return image->bytes + offset;
}

enum c7x_status c7x_image_read(const struct c7x_image *image, uint64_t offset, uint64_t size,
                               void *out, const char *what, struct c7x_error *error)
{
    const uint8_t *bytes = c7x_image_pointer(image, offset, size);
    if (bytes == NULL)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "%s: %" PRIu64 " bytes at offset 0x%" PRIx64
                             " pass the end of the file (%" PRIu64 " bytes)",
                             what, size, offset, image->size);
    if (size != 0)
        memcpy(out, bytes, size);
    return C7X_OK;
}

enum c7x_status c7x_image_read_header(const struct c7x_image *image, struct c7x_elf_header *out,
                                      struct c7x_error *error)
{
    return c7x_image_read(image, 0, sizeof(*out), out, "ELF header", error);
}

enum c7x_status c7x_image_read_segment(const struct c7x_image *image,
                                       const struct c7x_elf_header *header, unsigned index,
                                       struct c7x_elf_segment *out, struct c7x_error *error)
{
    char what[32];
    uint64_t offset;
    (void)snprintf(what, sizeof(what), "program header %u", index);
    if (!c7x_add_size(header->phoff, (uint64_t)index * sizeof(*out), &offset))
        return c7x_error_set(error, C7X_LOAD, "loader", "%s: offset 0x%" PRIx64 " overflows", what,
                             header->phoff);
    return c7x_image_read(image, offset, sizeof(*out), out, what, error);
}

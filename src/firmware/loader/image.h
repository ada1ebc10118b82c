/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staged bytes of a module file, read within their bounds. The bytes lie in memory that the
 * host can write at any time, so a reader copies what it needs once and checks and uses only the
 * copy.
 */
#ifndef C7X_FIRMWARE_LOADER_IMAGE_H
#define C7X_FIRMWARE_LOADER_IMAGE_H

#include "base/status.h"
#include "firmware/loader/elf64.h"

struct c7x_image {
    const uint8_t *bytes;
    uint64_t size;
};

/* Copies [offset, offset + size) of the file. `what` names the range for the error (C7X_LOAD). */
enum c7x_status c7x_image_read(const struct c7x_image *image, uint64_t offset, uint64_t size,
                               void *out, const char *what, struct c7x_error *error) C7X_NODISCARD;

enum c7x_status c7x_image_read_header(const struct c7x_image *image, struct c7x_elf_header *out,
                                      struct c7x_error *error) C7X_NODISCARD;

/* Program header `index` of header->phnum, of the standard size. */
enum c7x_status c7x_image_read_segment(const struct c7x_image *image,
                                       const struct c7x_elf_header *header, unsigned index,
                                       struct c7x_elf_segment *out,
                                       struct c7x_error *error) C7X_NODISCARD;

/* Where the range lies, for use in place; NULL when it is not inside the file. */
const uint8_t *c7x_image_pointer(const struct c7x_image *image, uint64_t offset, uint64_t size);

#endif

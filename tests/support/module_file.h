/* SPDX-License-Identifier: Apache-2.0 */
/* Test modules that are changed before they are loaded. Failures fail the running test. */
#ifndef C7X_TESTS_SUPPORT_MODULE_FILE_H
#define C7X_TESTS_SUPPORT_MODULE_FILE_H

#include "c7x_module.h"
#include "firmware/loader/elf64.h"

#include <stddef.h>

/* The bytes of a file. Pointers into it are good until it grows or is freed. */
struct c7x_module_file {
    uint8_t *bytes;
    size_t size;
};

/* Reads a test module of the build ("add_one"). */
void c7x_test_module_read(const char *name, struct c7x_module_file *out_file);
void c7x_test_module_write(const struct c7x_module_file *file, const char *path);
void c7x_test_module_free(struct c7x_module_file *file);

struct c7x_manifest_header *c7x_test_module_manifest(const struct c7x_module_file *file);
/* The first PT_LOAD that has all these p_flags. */
struct c7x_elf_segment *c7x_test_module_segment(const struct c7x_module_file *file, uint32_t flags);
/* The entries of DT_RELA. */
struct c7x_elf_rela *c7x_test_module_relocations(const struct c7x_module_file *file,
                                                 size_t *out_count);

/* Zeroed data behind the module's own; for a module without weights. */
void c7x_test_module_add_bss(const struct c7x_module_file *file, uint64_t bytes);
/* Zeros behind the weights, which are used in place, up to a file of `size` bytes. */
void c7x_test_module_grow_weights(struct c7x_module_file *file, size_t size);

#endif

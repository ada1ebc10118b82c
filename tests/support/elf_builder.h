/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small module file as a C struct, so that a test can lie in any field by assigning to it. As
 * built it is well formed: four segments on a page each, symbols "entry", "data", "weights" and
 * "weights_end", one data word each that tests may relocate, and text that is nothing but return
 * instructions.
 */
#ifndef C7X_TESTS_SUPPORT_ELF_BUILDER_H
#define C7X_TESTS_SUPPORT_ELF_BUILDER_H

#include "firmware/loader/elf64.h"

#include <stddef.h>

#define ELF_SEGMENTS 6u
#define ELF_SYMBOLS 32u
#define ELF_RELOCATIONS 32u
#define ELF_DYNAMICS 16u
#define ELF_DATA_BYTES 0x700u
#define ELF_BSS_BYTES 0x400u
#define ELF_WEIGHTS_BYTES 0x100u

struct elf_file {
    struct c7x_elf_header header;
    struct c7x_elf_segment segments[ELF_SEGMENTS]; /* rodata, text, data, weights, dynamic, stack */
    uint8_t pad0[0x200 - 64 - ELF_SEGMENTS * 56];
    struct c7x_elf_symbol symbols[ELF_SYMBOLS];
    char strings[0x300];
    uint32_t hash[0x40];
    struct c7x_elf_rela relocations[ELF_RELOCATIONS];
    uint8_t pad1[0x400];
    uint8_t text[0x1000];
    struct c7x_elf_dynamic dynamic[ELF_DYNAMICS];
    uint64_t data[ELF_DATA_BYTES / 8];
    uint8_t pad2[0x800];
    uint8_t weights[ELF_WEIGHTS_BYTES]; /* ends exactly at the end of the file */
};

enum { ELF_RODATA, ELF_TEXT, ELF_DATA, ELF_WEIGHTS, ELF_DYNAMIC, ELF_STACK };

struct elf_builder {
    struct elf_file *file;
    uint32_t symbol_count;
    uint32_t string_bytes;
    uint32_t relocation_count;
    uint32_t dynamic_count;
};

void elf_builder_init(struct elf_builder *self, struct elf_file *file);
/* Each returns the symbol's index. */
uint32_t elf_builder_import(struct elf_builder *self, const char *name, unsigned bind);
uint32_t elf_builder_export(struct elf_builder *self, const char *name, uint64_t vaddr);
void elf_builder_relocate(struct elf_builder *self, uint64_t vaddr, uint32_t type, uint32_t symbol,
                          int64_t addend);
void elf_builder_dynamic(struct elf_builder *self, int64_t tag, uint64_t value);
/* Writes hash table, sizes and the end of the dynamic table; the last step. */
void elf_builder_finish(struct elf_builder *self);
/* The same with DT_GNU_HASH instead of DT_HASH. */
void elf_builder_finish_gnu(struct elf_builder *self);

/* Link address of a member. */
#define ELF_AT(member) ((uint64_t)offsetof(struct elf_file, member))

#endif

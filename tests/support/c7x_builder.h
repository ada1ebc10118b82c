/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small C7x module file as a C struct, laid out as TI's linker does it, so that a test can lie in
 * any field by assigning to it: link addresses from 0x80000000, read-only data at file offset 0x40,
 * the three segments one right behind the other in memory, dynamic tables outside of all segments
 * and given by file offset, headers at the end of the file.
 *
 * As built it is well formed: the local symbol ".text", then "rodata", "rodata_end" (where text
 * starts, too), "cg_main_dsp", "data", "bss", and the absolute "constant". It needs dsp_syms.out
 * and brings it along: an import library with no names yet.
 */
#ifndef C7X_TESTS_SUPPORT_C7X_BUILDER_H
#define C7X_TESTS_SUPPORT_C7X_BUILDER_H

#include "firmware/loader/elf64.h"

#include <stddef.h>

#define C7X_FILE_BASE 0x80000000u
#define C7X_FILE_SYMBOLS 40u
#define C7X_FILE_RELOCATIONS 48u
#define C7X_FILE_BSS_BYTES 0x80u

enum { C7X_FILE_RODATA, C7X_FILE_TEXT, C7X_FILE_DATA, C7X_FILE_DYNAMIC, C7X_FILE_SEGMENTS };
enum {
    C7X_FILE_S_NULL,
    C7X_FILE_S_RODATA,
    C7X_FILE_S_TEXT,
    C7X_FILE_S_DATA,
    C7X_FILE_S_SYMS, /* .dsp_syms_out */
    C7X_FILE_S_NAMES,
    C7X_FILE_SECTIONS
};
enum {
    C7X_FILE_SYMBOL_TEXT = 1,
    C7X_FILE_SYMBOL_RODATA,
    C7X_FILE_SYMBOL_RODATA_END,
    C7X_FILE_SYMBOL_ENTRY,
    C7X_FILE_SYMBOL_DATA,
    C7X_FILE_SYMBOL_BSS,
    C7X_FILE_SYMBOL_CONSTANT
};

/* What is in section .dsp_syms_out. */
struct c7x_library_file {
    struct c7x_elf_header header;
    struct c7x_elf_segment dynamic_segment;
    struct c7x_elf_dynamic dynamic[8];
    struct c7x_elf_symbol symbols[8];
    uint32_t hash[4];
    char strings[0x80];
};

struct c7x_file {
    struct c7x_elf_header header;
    uint8_t rodata[0x100];
    uint8_t text[0x200];
    uint8_t data[0x100];
    struct c7x_elf_dynamic dynamic[24];
    struct c7x_elf_symbol symbols[C7X_FILE_SYMBOLS];
    char strings[0x400];
    uint32_t hash[4 + C7X_FILE_SYMBOLS];
    struct c7x_elf_rela relocations[C7X_FILE_RELOCATIONS];
    struct c7x_elf_rela plt_relocations[8];
    struct c7x_library_file dsp_syms;
    char section_names[0x80];
    struct c7x_elf_section sections[C7X_FILE_SECTIONS];
    struct c7x_elf_segment segments[C7X_FILE_SEGMENTS]; /* ends at the end of the file */
};

/* Link addresses. */
#define C7X_FILE_AT(member)                                                                        \
    ((uint64_t)(C7X_FILE_BASE + offsetof(struct c7x_file, member) -                                \
                offsetof(struct c7x_file, rodata)))
#define C7X_FILE_BSS (C7X_FILE_AT(data) + 0x100)
#define C7X_FILE_OFFSET(member) ((uint64_t)offsetof(struct c7x_file, member))

struct c7x_builder {
    struct c7x_file *file;
    uint32_t symbol_count;
    uint32_t string_bytes;
    uint32_t relocation_count;
    uint32_t plt_count;
    uint32_t dynamic_count;
    uint32_t stub_count;
    uint32_t stub_string_bytes;
};

void c7x_builder_init(struct c7x_builder *self, struct c7x_file *file);
/* Each returns the symbol's index. */
uint32_t c7x_builder_symbol(struct c7x_builder *self, const char *name, unsigned bind,
                            uint16_t section, uint64_t value);
uint32_t c7x_builder_import(struct c7x_builder *self, const char *name, unsigned bind);
/* Adds a name to the import library. */
void c7x_builder_stub(struct c7x_builder *self, const char *name);
/* Offset of the text in the string table. */
uint32_t c7x_builder_string(struct c7x_builder *self, const char *text);
void c7x_builder_relocate(struct c7x_builder *self, uint64_t vaddr, uint32_t type, uint32_t symbol,
                          int64_t addend);
/* The same into DT_JMPREL. */
void c7x_builder_relocate_plt(struct c7x_builder *self, uint64_t vaddr, uint32_t type,
                              uint32_t symbol, int64_t addend);
void c7x_builder_dynamic(struct c7x_builder *self, int64_t tag, uint64_t value);
/* Writes hash table, sizes and the end of the dynamic table; the last step. */
void c7x_builder_finish(struct c7x_builder *self);

#endif

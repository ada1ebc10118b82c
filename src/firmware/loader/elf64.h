/* SPDX-License-Identifier: Apache-2.0 */
/* ELF64, little-endian: the structures and numbers that the loader uses (System V gABI and the
 * processor supplements). */
#ifndef C7X_FIRMWARE_LOADER_ELF64_H
#define C7X_FIRMWARE_LOADER_ELF64_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define C7X_ELF_CLASS_64 2
#define C7X_ELF_DATA_LITTLE 1
#define C7X_ELF_TYPE_EXEC 2
#define C7X_ELF_TYPE_DYN 3
#define C7X_ELF_OSABI_C7X 64 /* C7x without an operating system */

#define C7X_ELF_MACHINE_X86_64 62
#define C7X_ELF_MACHINE_C7X 145
#define C7X_ELF_MACHINE_AARCH64 183

struct c7x_elf_header {
    uint8_t ident[16];
    uint16_t type;
    uint16_t machine;
    uint32_t version;
    uint64_t entry;
    uint64_t phoff;
    uint64_t shoff;
    uint32_t flags;
    uint16_t ehsize;
    uint16_t phentsize;
    uint16_t phnum;
    uint16_t shentsize;
    uint16_t shnum;
    uint16_t shstrndx;
};

struct c7x_elf_section {
    uint32_t name;
    uint32_t type;
    uint64_t flags;
    uint64_t addr;
    uint64_t offset;
    uint64_t size;
    uint32_t link;
    uint32_t info;
    uint64_t addralign;
    uint64_t entsize;
};

#define C7X_ELF_SHF_ALLOC 2u

#define C7X_ELF_PT_LOAD 1u
#define C7X_ELF_PT_DYNAMIC 2u
#define C7X_ELF_PT_TLS 7u
#define C7X_ELF_PT_GNU_STACK 0x6474e551u

#define C7X_ELF_PF_X 1u
#define C7X_ELF_PF_W 2u
#define C7X_ELF_PF_R 4u

struct c7x_elf_segment {
    uint32_t type;
    uint32_t flags;
    uint64_t offset;
    uint64_t vaddr;
    uint64_t paddr;
    uint64_t filesz;
    uint64_t memsz;
    uint64_t align;
};

enum c7x_elf_tag {
    C7X_ELF_DT_NULL = 0,
    C7X_ELF_DT_NEEDED = 1,
    C7X_ELF_DT_PLTRELSZ = 2,
    C7X_ELF_DT_HASH = 4,
    C7X_ELF_DT_STRTAB = 5,
    C7X_ELF_DT_SYMTAB = 6,
    C7X_ELF_DT_RELA = 7,
    C7X_ELF_DT_RELASZ = 8,
    C7X_ELF_DT_RELAENT = 9,
    C7X_ELF_DT_STRSZ = 10,
    C7X_ELF_DT_SYMENT = 11,
    C7X_ELF_DT_INIT = 12,
    C7X_ELF_DT_FINI = 13,
    C7X_ELF_DT_REL = 17,
    C7X_ELF_DT_PLTREL = 20,
    C7X_ELF_DT_TEXTREL = 22,
    C7X_ELF_DT_JMPREL = 23,
    C7X_ELF_DT_INIT_ARRAY = 25,
    C7X_ELF_DT_FINI_ARRAY = 26,
    C7X_ELF_DT_INIT_ARRAYSZ = 27,
    C7X_ELF_DT_FINI_ARRAYSZ = 28,
    C7X_ELF_DT_PREINIT_ARRAY = 32,
    C7X_ELF_DT_PREINIT_ARRAYSZ = 33,
    C7X_ELF_DT_RELRSZ = 35,
    C7X_ELF_DT_RELR = 36,
    C7X_ELF_DT_C7X_GSYM_OFFSET = 0x6000000d, /* of a C7x file alone */
    C7X_ELF_DT_C7X_GSTR_OFFSET = 0x6000000f,
    C7X_ELF_DT_ANDROID_REL = 0x6000000f, /* of a native one */
    C7X_ELF_DT_ANDROID_RELA = 0x60000011,
    C7X_ELF_DT_ANDROID_RELR = 0x6fffe000,
    C7X_ELF_DT_GNU_HASH = 0x6ffffef5
};

struct c7x_elf_dynamic {
    int64_t tag;
    uint64_t value;
};

#define C7X_ELF_SHN_UNDEF 0u
#define C7X_ELF_SHN_ABS 0xfff1u

#define C7X_ELF_STB_LOCAL 0u
#define C7X_ELF_STB_WEAK 2u
#define C7X_ELF_STT_FUNC 2u
#define C7X_ELF_STT_TLS 6u
#define C7X_ELF_STT_GNU_IFUNC 10u

struct c7x_elf_symbol {
    uint32_t name;
    uint8_t info;
    uint8_t other;
    uint16_t section;
    uint64_t value;
    uint64_t size;
};

static inline unsigned c7x_elf_symbol_bind(const struct c7x_elf_symbol *symbol)
{
    return symbol->info >> 4;
}

/* STV_DEFAULT: others may pre-empt the definition. */
static inline bool c7x_elf_symbol_is_public(const struct c7x_elf_symbol *symbol)
{
    return (symbol->other & 3u) == 0;
}

static inline unsigned c7x_elf_symbol_type(const struct c7x_elf_symbol *symbol)
{
    return symbol->info & 0xfu;
}

struct c7x_elf_rela {
    uint64_t offset;
    uint64_t info; /* symbol index << 32 | type */
    int64_t addend;
};

static inline uint32_t c7x_elf_rela_symbol(const struct c7x_elf_rela *rela)
{
    return (uint32_t)(rela->info >> 32);
}

static inline uint32_t c7x_elf_rela_type(const struct c7x_elf_rela *rela)
{
    return (uint32_t)(rela->info & 0xffffffffu);
}

static_assert(sizeof(struct c7x_elf_header) == 64, "ELF header");
static_assert(sizeof(struct c7x_elf_segment) == 56, "program header");
static_assert(sizeof(struct c7x_elf_section) == 64, "section header");
static_assert(sizeof(struct c7x_elf_dynamic) == 16, "dynamic entry");
static_assert(sizeof(struct c7x_elf_symbol) == 24, "symbol");
static_assert(sizeof(struct c7x_elf_rela) == 24, "relocation");

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/elf_builder.h"

#include "firmware/loader/arch/arch.h"

#include <string.h>

static_assert(offsetof(struct elf_file, symbols) == 0x200, "symbols");
static_assert(offsetof(struct elf_file, text) == 0x1000, "text on a page of its own");
static_assert(offsetof(struct elf_file, dynamic) == 0x2000, "data on a page of its own");
static_assert(offsetof(struct elf_file, weights) == 0x3000, "weights on a page of their own");

static struct c7x_elf_segment segment(uint32_t type, uint32_t flags, uint64_t at, uint64_t size)
{
    return (struct c7x_elf_segment){.type = type,
                                    .flags = flags,
                                    .offset = at,
                                    .vaddr = at,
                                    .paddr = at,
                                    .filesz = size,
                                    .memsz = size,
                                    .align = type == C7X_ELF_PT_LOAD ? 4096 : 8};
}

static void fill_header(struct c7x_elf_header *header)
{
    static const uint8_t ident[16] = {0x7f, 'E', 'L', 'F', C7X_ELF_CLASS_64, C7X_ELF_DATA_LITTLE,
                                      1};
    memcpy(header->ident, ident, sizeof(ident));
    header->type = C7X_ELF_TYPE_DYN;
    header->machine = c7x_arch_native()->machine;
    header->version = 1;
    header->phoff = sizeof(*header);
    header->ehsize = sizeof(*header);
    header->phentsize = sizeof(struct c7x_elf_segment);
    header->phnum = ELF_SEGMENTS;
}

static void fill_segments(struct elf_file *file)
{
    file->segments[ELF_RODATA] = segment(C7X_ELF_PT_LOAD, C7X_ELF_PF_R, 0, ELF_AT(pad1));
    file->segments[ELF_TEXT] =
        segment(C7X_ELF_PT_LOAD, C7X_ELF_PF_R | C7X_ELF_PF_X, ELF_AT(text), sizeof(file->text));
    file->segments[ELF_DATA] = segment(C7X_ELF_PT_LOAD, C7X_ELF_PF_R | C7X_ELF_PF_W,
                                       ELF_AT(dynamic), ELF_AT(pad2) - ELF_AT(dynamic));
    file->segments[ELF_DATA].memsz += ELF_BSS_BYTES;
    file->segments[ELF_WEIGHTS] = segment(C7X_ELF_PT_LOAD, C7X_ELF_PF_R | 0x00100000u,
                                          ELF_AT(weights), sizeof(file->weights));
    file->segments[ELF_DYNAMIC] = segment(C7X_ELF_PT_DYNAMIC, C7X_ELF_PF_R | C7X_ELF_PF_W,
                                          ELF_AT(dynamic), sizeof(file->dynamic));
    file->segments[ELF_STACK] = segment(C7X_ELF_PT_GNU_STACK, C7X_ELF_PF_R | C7X_ELF_PF_W, 0, 0);
}

static void fill_text(struct elf_file *file)
{
#if defined(__aarch64__)
    static const uint8_t instruction[4] = {0xc0, 0x03, 0x5f, 0xd6}; /* ret */
#else
    static const uint8_t instruction[4] = {0xc3, 0xc3, 0xc3, 0xc3};
#endif
    for (size_t i = 0; i < sizeof(file->text); i++)
        file->text[i] = instruction[i % 4];
}

static uint32_t add_symbol(struct elf_builder *self, const char *name, unsigned bind,
                           uint16_t section, uint64_t value)
{
    uint32_t index = self->symbol_count++;
    size_t size = strlen(name) + 1;
    self->file->symbols[index] = (struct c7x_elf_symbol){
        .name = self->string_bytes,
        .info = (uint8_t)(bind << 4),
        .section = section,
        .value = value,
    };
    memcpy(self->file->strings + self->string_bytes, name, size);
    self->string_bytes += (uint32_t)size;
    return index;
}

void elf_builder_init(struct elf_builder *self, struct elf_file *file)
{
    memset(file, 0, sizeof(*file));
    *self = (struct elf_builder){.file = file, .symbol_count = 1, .string_bytes = 1};
    fill_header(&file->header);
    fill_segments(file);
    fill_text(file);
    for (size_t i = 0; i < sizeof(file->weights); i++)
        file->weights[i] = (uint8_t)i;
    (void)elf_builder_export(self, "entry", ELF_AT(text));
    (void)elf_builder_export(self, "data", ELF_AT(data));
    (void)elf_builder_export(self, "weights", ELF_AT(weights));
    (void)elf_builder_export(self, "weights_end", ELF_AT(weights) + sizeof(file->weights));
}

uint32_t elf_builder_import(struct elf_builder *self, const char *name, unsigned bind)
{
    return add_symbol(self, name, bind, C7X_ELF_SHN_UNDEF, 0);
}

uint32_t elf_builder_export(struct elf_builder *self, const char *name, uint64_t vaddr)
{
    return add_symbol(self, name, 1, 1, vaddr);
}

void elf_builder_relocate(struct elf_builder *self, uint64_t vaddr, uint32_t type, uint32_t symbol,
                          int64_t addend)
{
    self->file->relocations[self->relocation_count++] =
        (struct c7x_elf_rela){vaddr, (uint64_t)symbol << 32 | type, addend};
}

void elf_builder_dynamic(struct elf_builder *self, int64_t tag, uint64_t value)
{
    self->file->dynamic[self->dynamic_count++] = (struct c7x_elf_dynamic){tag, value};
}

static void finish_dynamic(struct elf_builder *self)
{
    elf_builder_dynamic(self, C7X_ELF_DT_SYMTAB, ELF_AT(symbols));
    elf_builder_dynamic(self, C7X_ELF_DT_SYMENT, sizeof(struct c7x_elf_symbol));
    elf_builder_dynamic(self, C7X_ELF_DT_STRTAB, ELF_AT(strings));
    elf_builder_dynamic(self, C7X_ELF_DT_STRSZ, sizeof(self->file->strings));
    elf_builder_dynamic(self, C7X_ELF_DT_RELA, ELF_AT(relocations));
    elf_builder_dynamic(self, C7X_ELF_DT_RELASZ,
                        self->relocation_count * sizeof(struct c7x_elf_rela));
    elf_builder_dynamic(self, C7X_ELF_DT_RELAENT, sizeof(struct c7x_elf_rela));
    elf_builder_dynamic(self, 0x6ffffff9, 1); /* DT_RELACOUNT: unknown to the loader */
}

/* One bucket whose chain runs through all symbols, last first. */
void elf_builder_finish(struct elf_builder *self)
{
    uint32_t *hash = self->file->hash;
    elf_builder_dynamic(self, C7X_ELF_DT_HASH, ELF_AT(hash));
    finish_dynamic(self);
    hash[0] = 1;
    hash[1] = self->symbol_count;
    hash[2] = self->symbol_count - 1;
    for (uint32_t i = 1; i < self->symbol_count; i++)
        hash[3 + i] = i - 1;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

/* One bucket from symbol 1 on, a filter that lets all pass. */
void elf_builder_finish_gnu(struct elf_builder *self)
{
    uint32_t *hash = self->file->hash;
    elf_builder_dynamic(self, C7X_ELF_DT_GNU_HASH, ELF_AT(hash));
    finish_dynamic(self);
    hash[0] = 1;
    hash[1] = 1;
    hash[2] = 1;
    hash[4] = hash[5] = UINT32_MAX;
    hash[6] = 1;
    for (uint32_t i = 1; i < self->symbol_count; i++)
        hash[6 + i] = gnu_hash(self->file->strings + self->file->symbols[i].name) & ~1u;
    hash[6 + self->symbol_count - 1] |= 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/c7x_builder.h"

#include <string.h>

static_assert(offsetof(struct c7x_file, rodata) == 0x40, "rodata right behind the ELF header");

#define DT_SONAME 14
#define STV_DEFAULT 0

static struct c7x_elf_segment load(uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t size)
{
    return (struct c7x_elf_segment){.type = C7X_ELF_PT_LOAD,
                                    .flags = flags,
                                    .offset = offset,
                                    .vaddr = vaddr,
                                    .paddr = vaddr,
                                    .filesz = size,
                                    .memsz = size,
                                    .align = 0x40};
}

static void identify(struct c7x_elf_header *header)
{
    static const uint8_t ident[16] = {
        0x7f, 'E', 'L', 'F', C7X_ELF_CLASS_64, C7X_ELF_DATA_LITTLE, 1, C7X_ELF_OSABI_C7X};
    memcpy(header->ident, ident, sizeof(ident));
    header->type = C7X_ELF_TYPE_DYN;
    header->machine = C7X_ELF_MACHINE_C7X;
    header->version = 1;
    header->ehsize = sizeof(*header);
    header->phentsize = sizeof(struct c7x_elf_segment);
}

static void fill_header(struct c7x_elf_header *header)
{
    identify(header);
    header->flags = 1; /* static relocations, by TI's linker */
    header->phoff = C7X_FILE_OFFSET(segments);
    header->shoff = C7X_FILE_OFFSET(sections);
    header->phnum = C7X_FILE_SEGMENTS;
    header->shentsize = sizeof(struct c7x_elf_section);
    header->shnum = C7X_FILE_SECTIONS;
    header->shstrndx = C7X_FILE_S_NAMES;
}

static void fill_segments(struct c7x_file *file)
{
    struct c7x_elf_segment *segments = file->segments;
    segments[C7X_FILE_RODATA] =
        load(C7X_ELF_PF_R, C7X_FILE_OFFSET(rodata), C7X_FILE_AT(rodata), sizeof(file->rodata));
    segments[C7X_FILE_TEXT] = load(C7X_ELF_PF_R | C7X_ELF_PF_X, C7X_FILE_OFFSET(text),
                                   C7X_FILE_AT(text), sizeof(file->text));
    segments[C7X_FILE_DATA] = load(C7X_ELF_PF_R | C7X_ELF_PF_W, C7X_FILE_OFFSET(data),
                                   C7X_FILE_AT(data), sizeof(file->data));
    segments[C7X_FILE_DATA].memsz += C7X_FILE_BSS_BYTES;
    segments[C7X_FILE_DYNAMIC] = (struct c7x_elf_segment){.type = C7X_ELF_PT_DYNAMIC,
                                                          .flags = C7X_ELF_PF_R,
                                                          .offset = C7X_FILE_OFFSET(dynamic),
                                                          .filesz = sizeof(file->dynamic),
                                                          .memsz = sizeof(file->dynamic),
                                                          .align = 8};
}

static void add_section(struct c7x_file *file, unsigned index, const char *name, uint64_t flags,
                        uint64_t addr, uint64_t offset, uint64_t size)
{
    uint32_t at = 16 * index;
    memcpy(file->section_names + at, name, strlen(name) + 1);
    file->sections[index] = (struct c7x_elf_section){.name = at,
                                                     .type = 1,
                                                     .flags = flags,
                                                     .addr = addr,
                                                     .offset = offset,
                                                     .size = size,
                                                     .addralign = 8};
}

static void fill_sections(struct c7x_file *file)
{
    add_section(file, C7X_FILE_S_RODATA, ".rodata", C7X_ELF_SHF_ALLOC, C7X_FILE_AT(rodata),
                C7X_FILE_OFFSET(rodata), sizeof(file->rodata));
    add_section(file, C7X_FILE_S_TEXT, ".text", C7X_ELF_SHF_ALLOC, C7X_FILE_AT(text),
                C7X_FILE_OFFSET(text), sizeof(file->text));
    add_section(file, C7X_FILE_S_DATA, ".data", C7X_ELF_SHF_ALLOC, C7X_FILE_AT(data),
                C7X_FILE_OFFSET(data), sizeof(file->data) + C7X_FILE_BSS_BYTES);
    add_section(file, C7X_FILE_S_SYMS, ".dsp_syms_out", 0, 0, C7X_FILE_OFFSET(dsp_syms),
                sizeof(file->dsp_syms));
    add_section(file, C7X_FILE_S_NAMES, ".shstrtab", 0, 0, C7X_FILE_OFFSET(section_names),
                sizeof(file->section_names));
}

/* `dynamic=exe`, stripped. */
static void fill_library(struct c7x_library_file *library)
{
    const struct c7x_elf_dynamic dynamic[] = {
        {C7X_ELF_DT_HASH, offsetof(struct c7x_library_file, hash)},
        {C7X_ELF_DT_SYMTAB, offsetof(struct c7x_library_file, symbols)},
        {C7X_ELF_DT_STRTAB, offsetof(struct c7x_library_file, strings)},
        {C7X_ELF_DT_STRSZ, sizeof(library->strings)},
        {C7X_ELF_DT_C7X_GSYM_OFFSET, sizeof(library->symbols[0])},
        {C7X_ELF_DT_C7X_GSTR_OFFSET, 1},
    };
    identify(&library->header);
    library->header.type = C7X_ELF_TYPE_EXEC;
    library->header.phoff = offsetof(struct c7x_library_file, dynamic_segment);
    library->header.phnum = 1;
    library->dynamic_segment = (struct c7x_elf_segment){
        .type = C7X_ELF_PT_DYNAMIC,
        .flags = C7X_ELF_PF_R,
        .offset = offsetof(struct c7x_library_file, dynamic),
        .filesz = sizeof(library->dynamic),
        .memsz = sizeof(library->dynamic),
        .align = 8,
    };
    memcpy(library->dynamic, dynamic, sizeof(dynamic));
    library->hash[0] = 1;
    library->hash[1] = 1;
}

void c7x_builder_stub(struct c7x_builder *self, const char *name)
{
    struct c7x_library_file *library = &self->file->dsp_syms;
    size_t size = strlen(name) + 1;
    library->symbols[++self->stub_count] = (struct c7x_elf_symbol){
        .name = self->stub_string_bytes, .info = 1 << 4, .section = 1, .value = C7X_FILE_BASE};
    memcpy(library->strings + self->stub_string_bytes, name, size);
    self->stub_string_bytes += (uint32_t)size;
    library->hash[1] = 1 + self->stub_count;
}

uint32_t c7x_builder_string(struct c7x_builder *self, const char *text)
{
    uint32_t at = self->string_bytes;
    size_t size = strlen(text) + 1;
    memcpy(self->file->strings + at, text, size);
    self->string_bytes += (uint32_t)size;
    return at;
}

uint32_t c7x_builder_symbol(struct c7x_builder *self, const char *name, unsigned bind,
                            uint16_t section, uint64_t value)
{
    uint32_t index = self->symbol_count++;
    self->file->symbols[index] = (struct c7x_elf_symbol){
        .name = c7x_builder_string(self, name),
        .info = (uint8_t)(bind << 4),
        .other = STV_DEFAULT,
        .section = section,
        .value = value,
    };
    return index;
}

uint32_t c7x_builder_import(struct c7x_builder *self, const char *name, unsigned bind)
{
    return c7x_builder_symbol(self, name, bind, C7X_ELF_SHN_UNDEF, 0);
}

static void fill_symbols(struct c7x_builder *self)
{
    (void)c7x_builder_symbol(self, ".text", 0, C7X_FILE_S_TEXT, C7X_FILE_AT(text));
    (void)c7x_builder_symbol(self, "rodata", 1, C7X_FILE_S_RODATA, C7X_FILE_AT(rodata));
    (void)c7x_builder_symbol(self, "rodata_end", 1, C7X_FILE_S_RODATA, C7X_FILE_AT(text));
    (void)c7x_builder_symbol(self, "cg_main_dsp", 1, C7X_FILE_S_TEXT, C7X_FILE_AT(text));
    (void)c7x_builder_symbol(self, "data", 1, C7X_FILE_S_DATA, C7X_FILE_AT(data));
    (void)c7x_builder_symbol(self, "bss", 1, C7X_FILE_S_DATA, C7X_FILE_BSS);
    (void)c7x_builder_symbol(self, "constant", 1, C7X_ELF_SHN_ABS, C7X_FILE_AT(text) + 4);
    self->file->symbols[C7X_FILE_SYMBOL_ENTRY].info |= C7X_ELF_STT_FUNC;
}

void c7x_builder_init(struct c7x_builder *self, struct c7x_file *file)
{
    memset(file, 0, sizeof(*file));
    *self = (struct c7x_builder){
        .file = file, .symbol_count = 1, .string_bytes = 1, .stub_string_bytes = 1};
    fill_header(&file->header);
    fill_segments(file);
    fill_sections(file);
    fill_symbols(self);
    fill_library(&file->dsp_syms);
    for (size_t i = 0; i < sizeof(file->rodata); i++)
        file->rodata[i] = (uint8_t)i;
    c7x_builder_dynamic(self, DT_SONAME, c7x_builder_string(self, "lib0.out"));
    c7x_builder_dynamic(self, C7X_ELF_DT_NEEDED, c7x_builder_string(self, "dsp_syms.out"));
    c7x_builder_dynamic(self, C7X_ELF_DT_C7X_GSYM_OFFSET,
                        C7X_FILE_SYMBOL_RODATA * sizeof(struct c7x_elf_symbol));
    c7x_builder_dynamic(self, C7X_ELF_DT_C7X_GSTR_OFFSET,
                        file->symbols[C7X_FILE_SYMBOL_RODATA].name);
    c7x_builder_dynamic(self, 3, 0x1234); /* DT_PLTGOT and a tag that nobody knows */
    c7x_builder_dynamic(self, 0x60000099, 1);
}

void c7x_builder_relocate(struct c7x_builder *self, uint64_t vaddr, uint32_t type, uint32_t symbol,
                          int64_t addend)
{
    self->file->relocations[self->relocation_count++] =
        (struct c7x_elf_rela){vaddr, (uint64_t)symbol << 32 | type, addend};
}

void c7x_builder_relocate_plt(struct c7x_builder *self, uint64_t vaddr, uint32_t type,
                              uint32_t symbol, int64_t addend)
{
    self->file->plt_relocations[self->plt_count++] =
        (struct c7x_elf_rela){vaddr, (uint64_t)symbol << 32 | type, addend};
}

void c7x_builder_dynamic(struct c7x_builder *self, int64_t tag, uint64_t value)
{
    self->file->dynamic[self->dynamic_count++] = (struct c7x_elf_dynamic){tag, value};
}

/* The hash table says how many symbols there are; its one bucket is empty. DT_RELASZ counts both
 * tables of relocations. */
void c7x_builder_finish(struct c7x_builder *self)
{
    c7x_builder_dynamic(self, C7X_ELF_DT_HASH, C7X_FILE_OFFSET(hash));
    c7x_builder_dynamic(self, C7X_ELF_DT_SYMTAB, C7X_FILE_OFFSET(symbols));
    c7x_builder_dynamic(self, C7X_ELF_DT_SYMENT, sizeof(struct c7x_elf_symbol));
    c7x_builder_dynamic(self, C7X_ELF_DT_STRTAB, C7X_FILE_OFFSET(strings));
    c7x_builder_dynamic(self, C7X_ELF_DT_STRSZ, sizeof(self->file->strings));
    c7x_builder_dynamic(self, C7X_ELF_DT_RELA, C7X_FILE_OFFSET(relocations));
    c7x_builder_dynamic(self, C7X_ELF_DT_RELASZ,
                        (self->relocation_count + self->plt_count) * sizeof(struct c7x_elf_rela));
    c7x_builder_dynamic(self, C7X_ELF_DT_RELAENT, sizeof(struct c7x_elf_rela));
    c7x_builder_dynamic(self, C7X_ELF_DT_PLTREL, C7X_ELF_DT_RELA);
    c7x_builder_dynamic(self, C7X_ELF_DT_JMPREL, C7X_FILE_OFFSET(plt_relocations));
    c7x_builder_dynamic(self, C7X_ELF_DT_PLTRELSZ, self->plt_count * sizeof(struct c7x_elf_rela));
    self->file->hash[0] = 1;
    self->file->hash[1] = self->symbol_count;
}

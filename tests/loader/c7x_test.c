/* SPDX-License-Identifier: Apache-2.0 */
/* C7x files as TI's linker lays them out, through every chapter of a load on a host. */
#include "firmware/loader/arch/arch.h"
#include "firmware/loader/loader.h"
#include "support/c7x_builder.h"
#include "support/loader_load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (1u << 20)
#define STAGED 0xC0000000u
#define FIRMWARE_TEXT 0xAD604000u

enum {
    ABS16 = 16,
    ABS32 = 17,
    ABS64 = 18,
    BRANCH_LO19 = 27,
    BRANCH_LO24 = 28,
    EBRANCH_LO19 = 29,
    EBRANCH_HI27 = 30,
    PREL30 = 31
};

static struct c7x_heap *heap;
static struct c7x_memory memory;
static uint8_t *region;
static struct c7x_file file;
static struct c7x_file before;
static struct c7x_builder builder;
static struct c7x_error error;
static struct c7x_program *program;
static int exported;

static void *find_export(const struct c7x_symbol_source *source, const char *name)
{
    (void)source;
    return strcmp(name, "exported") == 0 || strcmp(name, "data") == 0 ? &exported : NULL;
}

static const struct c7x_symbol_source exports = {.find = find_export,
                                                 .title = "export table version 7, 2 names"};

static void assert_whole(void)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    assert_int_equal(now.block_count, 0);
    assert_int_equal(now.largest, now.total);
}

static int set_up(void **state)
{
    (void)state;
    region = aligned_alloc(0x10000, HEAP_BYTES);
    memset(region, 0xa5, HEAP_BYTES);
    heap = c7x_heap_create(region, HEAP_BYTES, "test");
    memory.windows[0] = (struct c7x_memory_window){C7X_MEMORY_HEAP_BASE, HEAP_BYTES, region};
    memory.window_count = 1;
    c7x_error_clear(&error);
    c7x_builder_init(&builder, &file);
    program = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_loader_unload(program, true);
    assert_whole();
    c7x_heap_destroy(heap);
    free(region);
    return 0;
}

static struct c7x_loader_request request(bool copy)
{
    return (struct c7x_loader_request){.bytes = (const uint8_t *)&file,
                                       .size = sizeof(file),
                                       .address = STAGED,
                                       .copy_read_only = copy,
                                       .heap = heap,
                                       .memory = &memory,
                                       .owner = c7x_heap_owner_new(heap),
                                       .imports = &exports};
}

/* Opens and links the file; what the device itself would do next is its start. */
static void link_file(bool copy)
{
    struct c7x_loader_request asked = request(copy);
    before = file;
    if (c7x_loader_open(&asked, &program, &error) != C7X_OK ||
        c7x_loader_link(program, &error) != C7X_OK)
        fail_msg("%s", error.text);
    assert_memory_equal(&before, &file, sizeof(file));
}

static void refused_with(enum c7x_status status, const char *text)
{
    struct c7x_loader_request asked = request(false);
    before = file;
    assert_int_equal(loader_load(&asked, &program, &error), status);
    assert_null(program);
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
    assert_whole();
    assert_memory_equal(&before, &file, sizeof(file));
}

static void refused(const char *text)
{
    refused_with(C7X_LOAD, text);
}

static const uint8_t *find(const char *name)
{
    const struct c7x_symbol_source *symbols = c7x_loader_symbols(program);
    return symbols->find(symbols, name);
}

static struct c7x_loader_segment segment(unsigned index)
{
    struct c7x_loader_segment found;
    assert_true(c7x_loader_segment(program, index, &found));
    return found;
}

/* Where the device would have a link address. */
static uint64_t address_of(uint64_t vaddr)
{
    for (unsigned i = 0; i < 3; i++) {
        struct c7x_loader_segment at = segment(i);
        if (vaddr - at.vaddr < at.memsz)
            return at.address + (vaddr - at.vaddr);
    }
    return vaddr;
}

static uint64_t word_at(uint64_t data_offset, size_t size)
{
    uint64_t word = 0;
    memcpy(&word, find("bss") - 0x100 + data_offset, size);
    return word;
}

/* ---- Well formed ---- */

static void each_segment_has_a_slide_of_its_own(void **state)
{
    (void)state;
    c7x_builder_finish(&builder);
    link_file(false);
    assert_string_equal(c7x_loader_machine(program), "C7x");
    assert_true(segment(0).in_place);
    assert_int_equal(segment(0).address, STAGED + 0x40);
    assert_ptr_equal(find("rodata"), file.rodata);
    for (unsigned i = 1; i < 3; i++) {
        assert_false(segment(i).in_place);
        assert_in_range(segment(i).address, C7X_MEMORY_HEAP_BASE,
                        C7X_MEMORY_HEAP_BASE + HEAP_BYTES - 1);
        assert_int_equal(segment(i).address % 128, 0);
    }
    assert_int_not_equal(segment(1).address - segment(1).vaddr,
                         segment(2).address - segment(2).vaddr);
    assert_memory_equal(find("cg_main_dsp"), file.text, sizeof(file.text));
    assert_false(c7x_loader_segment(program, 3, &(struct c7x_loader_segment){0}));
}

static void the_last_step_names_the_processor(void **state)
{
    char text[128];
    (void)state;
    (void)snprintf(text, sizeof(text), "built for C7x; this device executes %s",
                   c7x_arch_native()->name);
    c7x_builder_finish(&builder);
    refused(text);
    file.header.type = C7X_ELF_TYPE_EXEC;
    refused(text);
    assert_string_equal(error.text, text);
}

/* C7x files have no such table, so the tag means nothing. */
static void a_gnu_hash_table_is_ignored(void **state)
{
    (void)state;
    c7x_builder_dynamic(&builder, C7X_ELF_DT_GNU_HASH, UINT64_MAX / 2);
    c7x_builder_finish(&builder);
    link_file(false);
}

static void files_without_section_headers_link(void **state)
{
    (void)state;
    file.header.shnum = 0;
    file.header.shoff = 0;
    file.header.shstrndx = 0;
    c7x_builder_finish(&builder);
    link_file(false);
}

static void alignment_is_honoured(void **state)
{
    (void)state;
    file.segments[C7X_FILE_TEXT].align = 0x8000;
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(segment(1).address % 0x8000, 0);
}

static void tails_are_zeroed(void **state)
{
    static const uint8_t zeros[C7X_FILE_BSS_BYTES];
    (void)state;
    c7x_builder_finish(&builder);
    link_file(false);
    assert_memory_equal(find("bss"), zeros, sizeof(zeros));
}

static uint64_t heap_used(void)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    return now.total - now.free;
}

/* The segment moves behind the rest of the file, where it may be as large as weights are. */
static void read_only_data_of_47_mb_takes_no_heap(void **state)
{
    const size_t size = 47u << 20;
    struct c7x_loader_request asked = request(false);
    uint8_t *large = calloc(1, size);
    uint64_t small;
    (void)state;
    assert_non_null(large);
    c7x_builder_finish(&builder);
    link_file(false);
    small = heap_used();
    c7x_loader_unload(program, false);
    file.segments[C7X_FILE_RODATA].vaddr = 0x90000000u;
    file.segments[C7X_FILE_RODATA].offset = sizeof(file);
    file.segments[C7X_FILE_RODATA].filesz = size - sizeof(file);
    file.segments[C7X_FILE_RODATA].memsz = size - sizeof(file);
    memcpy(large, &file, sizeof(file));
    asked.bytes = large;
    asked.size = size;
    assert_int_equal(c7x_loader_open(&asked, &program, &error), C7X_OK);
    assert_int_equal(c7x_loader_link(program, &error), C7X_OK);
    assert_true(segment(0).in_place);
    assert_int_equal(heap_used(), small);
    c7x_loader_unload(program, false);
    program = NULL;
    free(large);
}

static void read_only_data_with_a_tail_is_copied(void **state)
{
    (void)state;
    file.segments[C7X_FILE_RODATA].filesz -= 0x20;
    c7x_builder_finish(&builder);
    link_file(false);
    assert_false(segment(0).in_place);
    assert_int_equal(find("rodata")[0xdf], 0xdf);
    assert_int_equal(find("rodata")[0xe0], 0);
}

static void read_only_data_is_copied_when_asked(void **state)
{
    (void)state;
    c7x_builder_finish(&builder);
    link_file(true);
    assert_false(c7x_loader_uses_staged_bytes(program));
    assert_memory_equal(find("rodata"), file.rodata, sizeof(file.rodata));
}

static void a_relocation_into_read_only_data_copies_it(void **state)
{
    uint64_t word;
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(rodata) + 8, ABS64, C7X_FILE_SYMBOL_ENTRY, 4);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_false(segment(0).in_place);
    memcpy(&word, find("rodata") + 8, sizeof(word));
    assert_int_equal(word, segment(1).address + 4);
}

static void an_end_marker_goes_with_its_segment(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_RODATA_END, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 8, ABS64, C7X_FILE_SYMBOL_ENTRY, 0);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(word_at(0, 8), STAGED + 0x140);
    assert_int_equal(word_at(8, 8), segment(1).address);
    assert_ptr_equal(find("rodata_end"), file.rodata + sizeof(file.rodata));
}

static void absolute_symbols_stay(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_CONSTANT, 1);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(word_at(0, 8), C7X_FILE_AT(text) + 5);
    assert_null(find("constant")); /* no place in the module, though the value is one of text */
}

static void set_dynamic(int64_t tag, uint64_t value)
{
    for (unsigned i = 0; i < builder.dynamic_count; i++) {
        if (file.dynamic[i].tag == tag)
            file.dynamic[i].value = value;
    }
}

/* Of two symbols with one name the first global one is meant. */
static void symbols_before_the_globals_are_the_modules_own(void **state)
{
    (void)state;
    (void)c7x_builder_symbol(&builder, "cg_main_dsp", 1, C7X_FILE_S_TEXT, C7X_FILE_AT(text) + 8);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_memory_equal(find("cg_main_dsp"), file.text, sizeof(file.text));
    c7x_loader_unload(program, false);
    set_dynamic(C7X_ELF_DT_C7X_GSYM_OFFSET, C7X_FILE_SYMBOL_DATA * sizeof(struct c7x_elf_symbol));
    link_file(false);
    assert_null(find("rodata"));
    assert_non_null(find("data"));
    assert_int_equal(segment(1).address + 8, c7x_memory_address(&memory, find("cg_main_dsp")));
}

static void without_an_offset_all_symbols_are_global(void **state)
{
    (void)state;
    c7x_builder_finish(&builder);
    for (unsigned i = 0; i < builder.dynamic_count; i++) {
        if (file.dynamic[i].tag == C7X_ELF_DT_C7X_GSYM_OFFSET ||
            file.dynamic[i].tag == C7X_ELF_DT_C7X_GSTR_OFFSET)
            file.dynamic[i].tag = 0x60000098;
    }
    link_file(false);
    assert_non_null(find("rodata"));
    assert_non_null(find("data"));
}

/* ---- Whose symbol ---- */

/* Those that the import library names: the firmware may export more than it did when the module was
 * linked, and what the module then brought along is its own. */
static void exports_pre_empt_global_symbols(void **state)
{
    uint32_t import = c7x_builder_import(&builder, "exported", 1);
    uint32_t local = c7x_builder_symbol(&builder, "data", 0, C7X_FILE_S_DATA, C7X_FILE_AT(data));
    uint32_t hidden = c7x_builder_symbol(&builder, "data", 1, C7X_FILE_S_DATA, C7X_FILE_AT(data));
    (void)state;
    file.symbols[hidden].other = 2;
    c7x_builder_stub(&builder, "other");
    c7x_builder_stub(&builder, "data");
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, import, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 8, ABS64, C7X_FILE_SYMBOL_DATA, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 16, ABS64, local, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 24, ABS64, hidden, 0);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(word_at(0, 8), FIRMWARE_TEXT);
    assert_int_equal(word_at(8, 8), FIRMWARE_TEXT);
    assert_int_equal(word_at(16, 8), segment(2).address);
    assert_int_equal(word_at(24, 8), segment(2).address);
}

static uint64_t address_of_data(void)
{
    uint64_t address;
    link_file(false);
    address = word_at(0, 8);
    c7x_loader_unload(program, false);
    program = NULL;
    return address;
}

static void what_the_import_library_lacks_stays_the_modules_own(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_DATA, 0);
    c7x_builder_stub(&builder, "exported");
    c7x_builder_finish(&builder);
    assert_in_range(address_of_data(), C7X_MEMORY_HEAP_BASE, C7X_MEMORY_HEAP_BASE + HEAP_BYTES - 1);
    memset(&file.dsp_syms, 0x5a, sizeof(file.dsp_syms)); /* says nothing */
    assert_int_equal(address_of_data(), FIRMWARE_TEXT);
    memset(file.section_names + file.sections[C7X_FILE_S_SYMS].name, 'x', 4);
    assert_int_equal(address_of_data(), FIRMWARE_TEXT);
    file.dynamic[1].tag = 0x60000098; /* DT_NEEDED */
    assert_in_range(address_of_data(), C7X_MEMORY_HEAP_BASE, C7X_MEMORY_HEAP_BASE + HEAP_BYTES - 1);
}

static void all_missing_imports_are_listed(void **state)
{
    (void)state;
    (void)c7x_builder_import(&builder, "one_missing", 1);
    (void)c7x_builder_import(&builder, "exported", 1);
    (void)c7x_builder_import(&builder, "two_missing", 1);
    (void)c7x_builder_import(&builder, "weak_missing", C7X_ELF_STB_WEAK);
    c7x_builder_finish(&builder);
    refused_with(C7X_SYMBOL, "the firmware (export table version 7, 2 names) does not export: "
                             "one_missing, two_missing");
    assert_null(strstr(error.text, "weak_missing"));
}

/* The error counts what it has no room for; the caller can have it all. */
static void a_list_too_long_for_an_error_is_whole_elsewhere(void **state)
{
    struct c7x_loader_request asked = request(false);
    char *missing = NULL;
    char name[801] = "";
    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    (void)c7x_builder_import(&builder, name, 1);
    for (unsigned i = 0; i < 9; i++)
        file.symbols[c7x_builder_import(&builder, "", 1)].name =
            file.symbols[C7X_FILE_SYMBOL_CONSTANT + 1].name;
    c7x_builder_finish(&builder);
    refused_with(C7X_SYMBOL, "nnn, and 6 more");
    asked.out_missing = &missing;
    assert_int_equal(loader_load(&asked, &program, &error), C7X_SYMBOL);
    assert_non_null(strstr(error.text, "nnn, and 6 more"));
    assert_non_null(missing);
    assert_int_equal(strlen(missing), strcspn(missing, ":") + 2 + 10 * 802 - 2);
    c7x_heap_free(heap, missing);
}

static void a_weak_import_may_be_absent(void **state)
{
    uint32_t weak = c7x_builder_import(&builder, "weak_missing", C7X_ELF_STB_WEAK);
    (void)state;
    memset(file.data, 0xff, sizeof(file.data));
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, weak, 0);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(word_at(0, 8), 0);
}

static void local_symbols_must_be_defined(void **state)
{
    uint32_t local = c7x_builder_import(&builder, "", 0);
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, local, 0);
    c7x_builder_finish(&builder);
    refused("local and not defined");
}

/* ---- Relocations: which bits of the value are where in the word ---- */

static const struct field {
    uint32_t type;
    unsigned width, lsb, low, count;
    bool is_relative;
} fields[] = {
    {16, 2, 0, 0, 16, false},  {17, 4, 0, 0, 32, false},  {18, 8, 0, 0, 64, false},
    {19, 4, 14, 0, 5, false},  {20, 4, 5, 5, 27, false},  {21, 4, 14, 0, 10, false},
    {22, 4, 5, 10, 27, false}, {23, 4, 5, 37, 27, false}, {24, 4, 5, 37, 27, false},
    {25, 4, 20, 0, 5, true},   {26, 4, 5, 5, 27, true},   {27, 4, 8, 2, 19, true},
    {28, 4, 8, 2, 24, true},   {29, 4, 8, 2, 19, true},   {30, 4, 5, 21, 27, true},
    {31, 4, 0, 2, 30, true},   {32, 4, 20, 0, 5, true},   {33, 4, 5, 5, 27, true},
};

#define FIELD_COUNT (sizeof(fields) / sizeof(fields[0]))

static uint64_t bits(uint64_t value, unsigned low, unsigned count)
{
    return count == 64 ? value : value >> low & ((1ull << count) - 1);
}

/* The addend makes the value of 16 and 32 bit types small enough. */
static int64_t addend_of(const struct field *field)
{
    return field->type == ABS16 || field->type == ABS32 || field->type == 20
               ? -(int64_t)C7X_FILE_AT(text)
               : 8;
}

static void every_type_writes_its_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        bool small = addend_of(&fields[i]) != 8;
        c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 8 * i, fields[i].type,
                             small ? C7X_FILE_SYMBOL_CONSTANT : C7X_FILE_SYMBOL_ENTRY,
                             addend_of(&fields[i]));
    }
    memset(file.data, 0xff, sizeof(file.data));
    c7x_builder_finish(&builder);
    link_file(false);
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &fields[i];
        bool small = addend_of(field) != 8;
        uint64_t value = small ? 4 : address_of(C7X_FILE_AT(text)) + 8;
        uint64_t word = word_at(8 * i, field->width);
        if (field->is_relative)
            value -= address_of(C7X_FILE_AT(data) + 8 * i) & ~3ull;
        assert_int_equal(bits(word, field->lsb, field->count),
                         bits(value, field->low, field->count));
        if (field->count < 8 * field->width) /* all else is as it was */
            assert_int_equal(word | bits(UINT64_MAX, 0, field->count) << field->lsb,
                             bits(UINT64_MAX, 0, 8 * field->width));
    }
}

static void both_tables_apply_in_any_order(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_BSS, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(text) + 8, ABS64, C7X_FILE_SYMBOL_BSS, 1);
    c7x_builder_relocate(&builder, C7X_FILE_BSS, ABS64, C7X_FILE_SYMBOL_TEXT, 2);
    c7x_builder_relocate(&builder, C7X_FILE_AT(text) + 16, ABS64, C7X_FILE_SYMBOL_RODATA, 3);
    c7x_builder_relocate_plt(&builder, C7X_FILE_AT(data) + 8, ABS64, C7X_FILE_SYMBOL_BSS, 4);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 16, 0, 0, 0);
    c7x_builder_finish(&builder);
    link_file(false);
    uint64_t words[2];
    uint64_t bss = segment(2).address + 0x100;
    memcpy(words, find("cg_main_dsp") + 8, sizeof(words));
    assert_int_equal(word_at(0, 8), bss);
    assert_int_equal(words[0], bss + 1);
    assert_int_equal(word_at(0x100, 8), segment(1).address + 2);
    assert_int_equal(words[1], STAGED + 0x40 + 3);
    assert_int_equal(word_at(8, 8), bss + 4);
}

/* Or elsewhere, when DT_RELASZ may count it in or not. */
static void a_table_inside_the_other_is_taken_once(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_BSS, 0);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 8, ABS64, C7X_FILE_SYMBOL_BSS, 4);
    c7x_builder_finish(&builder);
    set_dynamic(C7X_ELF_DT_JMPREL, C7X_FILE_OFFSET(relocations[1]));
    set_dynamic(C7X_ELF_DT_PLTRELSZ, sizeof(struct c7x_elf_rela));
    link_file(false);
    assert_int_equal(word_at(0, 8), segment(2).address + 0x100);
    assert_int_equal(word_at(8, 8), segment(2).address + 0x104);
    c7x_loader_unload(program, false);
    set_dynamic(C7X_ELF_DT_JMPREL, C7X_FILE_OFFSET(relocations[0]));
    set_dynamic(C7X_ELF_DT_RELA, C7X_FILE_OFFSET(relocations[1]));
    memset(&file.relocations[2], 0xff, sizeof(file.relocations[2])); /* not of the table */
    link_file(false);
    assert_int_equal(word_at(0, 8), segment(2).address + 0x100);
    assert_int_equal(word_at(8, 8), segment(2).address + 0x104);
    c7x_loader_unload(program, false);
    set_dynamic(C7X_ELF_DT_RELASZ, sizeof(struct c7x_elf_rela)); /* not counted in */
    link_file(false);
    assert_int_equal(word_at(0, 8), segment(2).address + 0x100);
    assert_int_equal(word_at(8, 8), segment(2).address + 0x104);
    c7x_loader_unload(program, false);
    set_dynamic(C7X_ELF_DT_JMPREL, C7X_FILE_OFFSET(relocations[2])); /* behind a gap */
    set_dynamic(C7X_ELF_DT_RELA, C7X_FILE_OFFSET(relocations[0]));
    set_dynamic(C7X_ELF_DT_RELASZ, 2 * sizeof(struct c7x_elf_rela));
    file.relocations[2] = file.relocations[1];
    memset(&file.relocations[1], 0xee, sizeof(file.relocations[1]));
    link_file(false);
    assert_int_equal(word_at(0, 8), segment(2).address + 0x100);
    assert_int_equal(word_at(8, 8), segment(2).address + 0x104);
}

static void an_unaligned_place_counts_from_its_word(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 2, PREL30, C7X_FILE_SYMBOL_DATA + 1, 0);
    c7x_builder_finish(&builder);
    link_file(false);
    assert_int_equal(word_at(2, 4), 0x100 / 4);
}

static void constructors_are_noted_and_not_run(void **state)
{
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_ENTRY, 0);
    c7x_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAY, C7X_FILE_AT(data));
    c7x_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAYSZ, 8);
    c7x_builder_finish(&builder);
    refused("built for C7x");
}

/* gABI: of an executable alone. */
static void preinit_arrays_count_in_executables(void **state)
{
    (void)state;
    c7x_builder_dynamic(&builder, C7X_ELF_DT_PREINIT_ARRAY, C7X_FILE_AT(data) + 0x17c);
    c7x_builder_dynamic(&builder, C7X_ELF_DT_PREINIT_ARRAYSZ, 8);
    c7x_builder_finish(&builder);
    refused("built for C7x");
    file.header.type = C7X_ELF_TYPE_EXEC;
    refused("DT_PREINIT_ARRAY: 8 bytes at 0x8000047c are not whole entries");
    set_dynamic(C7X_ELF_DT_PREINIT_ARRAY, C7X_FILE_AT(data));
    refused("built for C7x");
}

static void an_executable_with_a_stack_starts_itself(void **state)
{
    uint32_t stack = c7x_builder_symbol(&builder, "__TI_STACK_SIZE", 0, C7X_ELF_SHN_ABS, 0x2000);
    (void)state;
    c7x_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAY, C7X_FILE_AT(data) + 0x17c);
    c7x_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAYSZ, 8);
    c7x_builder_finish(&builder);
    refused("DT_INIT_ARRAY: 8 bytes at 0x8000047c are not whole entries");
    file.header.type = C7X_ELF_TYPE_EXEC;
    refused("built for C7x");
    file.symbols[stack].info = 1 << 4; /* a global symbol of the name is another */
    refused("DT_INIT_ARRAY: 8 bytes");
}

/* ---- Refusals ---- */

static void branches_to_odd_places_are_refused(void **state)
{
    static const uint32_t types[] = {BRANCH_LO19, BRANCH_LO24, EBRANCH_LO19, EBRANCH_HI27};
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        c7x_builder_init(&builder, &file);
        c7x_builder_relocate(&builder, C7X_FILE_AT(text) + 8, types[i], C7X_FILE_SYMBOL_ENTRY, 2);
        c7x_builder_finish(&builder);
        refused("the distance is not a multiple of 4 (in .text, symbol cg_main_dsp)");
    }
}

static void relocate_one(uint64_t vaddr, uint32_t type, uint32_t symbol, int64_t addend)
{
    c7x_builder_init(&builder, &file);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), 0, 0, 0);
    c7x_builder_relocate(&builder, vaddr, type, symbol, addend);
    c7x_builder_finish(&builder);
}

static void relocations_are_refused_by_index_and_place(void **state)
{
    (void)state;
    relocate_one(C7X_FILE_AT(data), 4, C7X_FILE_SYMBOL_DATA, 0);
    refused("DT_RELA entry 1: R_C7X_PCR16 (type 4) at 0x80000300: not supported (in .data");
    relocate_one(C7X_FILE_AT(data) + 4, 99, C7X_FILE_SYMBOL_DATA, 0);
    refused("DT_RELA entry 1: relocation (type 99) at 0x80000304: not supported (in .data");
    relocate_one(C7X_FILE_AT(data), ABS16, C7X_FILE_SYMBOL_BSS, 0);
    refused("R_C7X_ABS16 (type 16) at 0x80000300: the value does not fit (in .data, symbol bss)");
    relocate_one(0x90000000u, ABS64, C7X_FILE_SYMBOL_BSS, 0);
    refused("at 0x90000000: not inside a copied segment (in no segment, symbol");
    relocate_one(C7X_FILE_AT(data) + 0x17c, ABS64, C7X_FILE_SYMBOL_BSS, 0);
    refused("at 0x8000047c: not inside a copied segment");
    relocate_one(C7X_FILE_AT(data), ABS64, 1000, 0);
    refused("there is no such symbol (in .data, symbol 1000)");
    relocate_one(C7X_FILE_AT(data), PREL30, C7X_FILE_SYMBOL_BSS, 1ll << 40);
    refused("R_C7X_PREL30 (type 31) at 0x80000300: the value does not fit");
    file.header.shnum = 0;
    refused("the value does not fit (in segment 2, symbol bss)");
}

static void libraries_are_refused_by_name(void **state)
{
    (void)state;
    c7x_builder_dynamic(&builder, C7X_ELF_DT_NEEDED, c7x_builder_string(&builder, "libc.so"));
    c7x_builder_finish(&builder);
    refused("needs the library libc.so (DT_NEEDED)");
}

/* ---- Files that are made to take long ---- */

#define COLLIDING_BITS 11u
#define COLLIDING (1u << COLLIDING_BITS)
#define COLLIDING_NAME_BYTES (2u * COLLIDING_BITS + 1u)

/* "ab" and "bA" have the same hash, and so have all names that are made of these. */
static void put_colliding_name(char *text, unsigned number)
{
    for (unsigned bit = 0; bit < COLLIDING_BITS; bit++)
        memcpy(text + 2 * bit, (number >> bit & 1) != 0 ? "bA" : "ab", 2);
}

/* Symbol and string table stand behind the file. */
static void names_that_collide_are_refused(void **state)
{
    static struct {
        struct c7x_file file;
        struct c7x_elf_symbol symbols[1 + COLLIDING];
        char strings[COLLIDING * COLLIDING_NAME_BYTES];
    } large;
    struct c7x_loader_request asked = request(false);
    (void)state;
    c7x_builder_finish(&builder);
    for (unsigned i = 0; i < COLLIDING; i++) {
        large.symbols[1 + i] = (struct c7x_elf_symbol){.name = i * COLLIDING_NAME_BYTES,
                                                       .info = 1 << 4,
                                                       .section = C7X_FILE_S_TEXT,
                                                       .value = C7X_FILE_AT(text)};
        put_colliding_name(large.strings + i * COLLIDING_NAME_BYTES, i);
    }
    set_dynamic(C7X_ELF_DT_SYMTAB, sizeof(large.file));
    set_dynamic(C7X_ELF_DT_C7X_GSYM_OFFSET, sizeof(struct c7x_elf_symbol));
    set_dynamic(C7X_ELF_DT_STRTAB, sizeof(large.file) + sizeof(large.symbols));
    set_dynamic(C7X_ELF_DT_STRSZ, sizeof(large.strings));
    file.hash[1] = 1 + COLLIDING;
    file.dynamic[1].tag = 0x60000098; /* DT_NEEDED, whose name is not in this string table */
    large.file = file;
    asked.bytes = (const uint8_t *)&large;
    asked.size = sizeof(large);
    assert_int_equal(loader_load(&asked, &program, &error), C7X_LOAD);
    assert_non_null(strstr(error.text, "symbol 1025: more than 1023 names have the hash of its"));
    file.hash[1] = 1024; /* as many may */
    large.file = file;
    assert_int_equal(loader_load(&asked, &program, &error), C7X_LOAD);
    assert_non_null(strstr(error.text, "built for C7x"));
}

static void names_without_end_are_refused(void **state)
{
    static struct {
        struct c7x_file file;
        char strings[8192];
    } large;
    struct c7x_loader_request asked = request(false);
    (void)state;
    c7x_builder_finish(&builder);
    set_dynamic(C7X_ELF_DT_STRTAB, sizeof(large.file));
    set_dynamic(C7X_ELF_DT_STRSZ, sizeof(large.strings));
    file.dynamic[1].tag = 0x60000098;
    large.file = file;
    memset(large.strings, 'n', sizeof(large.strings));
    asked.bytes = (const uint8_t *)&large;
    asked.size = sizeof(large);
    assert_int_equal(loader_load(&asked, &program, &error), C7X_LOAD);
    assert_non_null(strstr(error.text, "is outside the string table or longer than 4095 bytes"));
    large.strings[file.symbols[1].name + 4095] = '\0';
    for (unsigned i = 2; i < builder.symbol_count; i++)
        large.file.symbols[i].name = file.symbols[1].name + 1;
    assert_int_equal(loader_load(&asked, &program, &error), C7X_LOAD);
    assert_non_null(strstr(error.text, "built for C7x"));
}

static void a_load_that_nobody_wants_ends(void **state)
{
    static const _Atomic bool cancelled = true;
    struct c7x_loader_request asked = request(false);
    (void)state;
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), ABS64, C7X_FILE_SYMBOL_DATA, 0);
    c7x_builder_finish(&builder);
    asked.cancelled = &cancelled;
    assert_int_equal(loader_load(&asked, &program, &error), C7X_CANCELLED);
    assert_string_equal(error.text, "cancelled in the middle of the load");
    assert_whole();
}

struct lie {
    size_t offset;
    size_t size;
    uint64_t value;
    const char *expected;
};

#define LIE(member, value, expected)                                                               \
    {                                                                                              \
        offsetof(struct c7x_file, member), sizeof(file.member), value, expected                    \
    }
/* Dynamic entries of finish() stand behind the six of init(). */
#define DYNAMIC(n) dynamic[6 + (n)]

static const struct lie lies[] = {
    LIE(header.ident[7], 0, "ELF OS ABI 0 is not 64"),
    LIE(header.ident[7], 65, "ELF OS ABI 65 is not 64"),
    LIE(header.ident[5], 2, "not a 64-bit little-endian"),
    LIE(header.type, 1, "ELF type 1 is neither"),
    LIE(header.version, 2, "unknown ELF version"),
    LIE(header.phoff, sizeof(file), "program header 0"),
    LIE(segments[C7X_FILE_TEXT].offset, sizeof(file), "segment 1: 512 bytes at offset"),
    LIE(segments[C7X_FILE_TEXT].memsz, 0x201, "overlaps segment"),
    LIE(segments[C7X_FILE_TEXT].memsz, 0x1ff, "segment 1: larger in the file than in memory"),
    LIE(segments[C7X_FILE_TEXT].memsz, UINT64_MAX, "segment 1: passes the end of the address"),
    LIE(segments[C7X_FILE_TEXT].align, 48, "segment 1: alignment 0x30"),
    LIE(segments[C7X_FILE_DATA].vaddr, C7X_FILE_BASE,
        "segment 2 at 0x80000000 overlaps segment 0 at 0x80000000"),
    LIE(segments[C7X_FILE_DYNAMIC].type, 0, "no dynamic table"),
    LIE(segments[C7X_FILE_DYNAMIC].offset, sizeof(file) - 8, "dynamic table: outside the file"),
    LIE(segments[C7X_FILE_DYNAMIC].filesz, 32, "dynamic table: not terminated"),
    LIE(dynamic[1].value, 0x4000, "a name of DT_NEEDED is outside"),
    LIE(DYNAMIC(0).value, UINT64_MAX, "DT_HASH is outside"),
    LIE(DYNAMIC(0).tag, 100, "no hash table"),
    LIE(DYNAMIC(1).value, UINT64_MAX, "DT_SYMTAB is outside"),
    LIE(DYNAMIC(3).value, UINT64_MAX, "string table"),
    LIE(DYNAMIC(4).value, UINT64_MAX, "string table"),
    LIE(DYNAMIC(6).value, 25, "DT_RELA: 25 bytes"),
    LIE(DYNAMIC(6).value, 24 * 100000, "DT_RELA: 2400000 bytes"),
    LIE(DYNAMIC(5).tag, C7X_ELF_DT_REL, "REL relocations"),
    LIE(DYNAMIC(8).value, C7X_ELF_DT_REL, "REL relocations"),
    LIE(hash[1], 0x100000, "1048576 symbols, but there is room"),
    LIE(symbols[3].name, 0x400, "symbol 3: name at 1024"),
    LIE(dynamic[2].value, 25, "GSYM_OFFSET 0x19 is not the start of one of 8 symbols"),
    LIE(dynamic[2].value, 9 * 24, "GSYM_OFFSET 0xd8 is not the start of one of 8 symbols"),
    LIE(dynamic[3].value, 0x401, "GSTR_OFFSET 0x401 is outside the string table (1024 bytes)"),
    LIE(dsp_syms.dynamic_segment.type, 0,
        "no dynamic table (PT_DYNAMIC) (of the import library in section .dsp_syms_out)"),
    LIE(dsp_syms.header.machine, C7X_ELF_MACHINE_AARCH64, "of the import library"),
    LIE(dsp_syms.dynamic[1].value, sizeof(file), "of the import library"),
};

static void lies_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        c7x_builder_init(&builder, &file);
        c7x_builder_finish(&builder);
        memcpy((uint8_t *)&file + lies[i].offset, &lies[i].value, lies[i].size);
        refused(lies[i].expected);
    }
}

static void a_cut_file_is_refused_at_every_length(void **state)
{
    (void)state;
    c7x_builder_finish(&builder);
    for (uint64_t size = 0; size < sizeof(file); size += 8) {
        struct c7x_loader_request asked = request(false);
        uint8_t *exact = malloc(size + 1);
        memcpy(exact, &file, size);
        asked.bytes = exact;
        asked.size = size;
        assert_int_equal(loader_load(&asked, &program, &error), C7X_LOAD);
        assert_null(strstr(error.text, "built for"));
        assert_whole();
        free(exact);
    }
}

static void random_damage_is_survived(void **state)
{
    static struct c7x_file whole;
    (void)state;
    for (uint32_t i = 0; i < FIELD_COUNT; i++)
        c7x_builder_relocate(&builder, C7X_FILE_AT(data) + 8 * i, fields[i].type,
                             C7X_FILE_SYMBOL_BSS, 0);
    c7x_builder_finish(&builder);
    whole = file;
    srand(1);
    for (unsigned round = 0; round < 20000; round++) {
        file = whole;
        for (unsigned i = 0; i < 1 + round % 4; i++)
            ((uint8_t *)&file)[(size_t)rand() % sizeof(file)] =
                (uint8_t)(rand() % 3 == 0 ? 0xff : rand());
        struct c7x_loader_request asked = request(round % 2 == 0);
        assert_int_not_equal(loader_load(&asked, &program, &error), C7X_OK);
        assert_whole();
    }
}

static void every_allocation_may_fail(void **state)
{
    struct c7x_heap *whole = heap;
    enum c7x_status status = C7X_NOMEM;
    (void)state;
    c7x_builder_finish(&builder);
    for (size_t size = 8192; status == C7X_NOMEM && size < HEAP_BYTES / 2; size += 128) {
        heap = c7x_heap_create(region + HEAP_BYTES / 2, size, "small");
        if (heap == NULL)
            continue;
        struct c7x_loader_request asked = request(true);
        status = loader_load(&asked, &program, &error);
        assert_whole();
        c7x_heap_destroy(heap);
    }
    assert_int_equal(status, C7X_LOAD);
    assert_non_null(strstr(error.text, "built for C7x"));
    heap = whole;
}

/* ---- Heap ---- */

/* Removes a segment as if the module had none of the kind. */
static void drop(unsigned index)
{
    file.segments[index].type = 0;
}

static void run_rounds(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        struct c7x_loader_request asked = request(false);
        assert_int_equal(c7x_loader_open(&asked, &program, &error), C7X_OK);
        assert_int_equal(c7x_loader_link(program, &error), C7X_OK);
        c7x_loader_unload(program, true);
        program = NULL;
        assert_whole();
    }
}

static void modules_without_a_section_leave_the_heap_exact(void **state)
{
    (void)state;
    for (unsigned without = 0; without < 5; without++) {
        c7x_builder_init(&builder, &file);
        c7x_builder_finish(&builder);
        if (without == 0 || without == 4)
            drop(C7X_FILE_DATA);
        if (without == 1)
            file.segments[C7X_FILE_DATA].memsz = file.segments[C7X_FILE_DATA].filesz;
        if (without == 2 || without == 4)
            drop(C7X_FILE_RODATA);
        run_rounds();
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_segment_has_a_slide_of_its_own),
        TEST(the_last_step_names_the_processor),
        TEST(a_gnu_hash_table_is_ignored),
        TEST(files_without_section_headers_link),
        TEST(alignment_is_honoured),
        TEST(tails_are_zeroed),
        TEST(read_only_data_of_47_mb_takes_no_heap),
        TEST(read_only_data_with_a_tail_is_copied),
        TEST(read_only_data_is_copied_when_asked),
        TEST(a_relocation_into_read_only_data_copies_it),
        TEST(an_end_marker_goes_with_its_segment),
        TEST(absolute_symbols_stay),
        TEST(symbols_before_the_globals_are_the_modules_own),
        TEST(without_an_offset_all_symbols_are_global),
        TEST(exports_pre_empt_global_symbols),
        TEST(what_the_import_library_lacks_stays_the_modules_own),
        TEST(all_missing_imports_are_listed),
        TEST(a_list_too_long_for_an_error_is_whole_elsewhere),
        TEST(a_weak_import_may_be_absent),
        TEST(local_symbols_must_be_defined),
        TEST(every_type_writes_its_field),
        TEST(both_tables_apply_in_any_order),
        TEST(a_table_inside_the_other_is_taken_once),
        TEST(an_unaligned_place_counts_from_its_word),
        TEST(constructors_are_noted_and_not_run),
        TEST(preinit_arrays_count_in_executables),
        TEST(an_executable_with_a_stack_starts_itself),
        TEST(branches_to_odd_places_are_refused),
        TEST(relocations_are_refused_by_index_and_place),
        TEST(libraries_are_refused_by_name),
        TEST(names_that_collide_are_refused),
        TEST(names_without_end_are_refused),
        TEST(a_load_that_nobody_wants_ends),
        TEST(lies_are_named),
        TEST(a_cut_file_is_refused_at_every_length),
        TEST(random_damage_is_survived),
        TEST(every_allocation_may_fail),
        TEST(modules_without_a_section_leave_the_heap_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

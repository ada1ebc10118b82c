/* SPDX-License-Identifier: Apache-2.0 */
/* The loader against files of elf_builder: well formed, lying, cut, and without memory. */
#include "firmware/loader/arch/arch.h"
#include "firmware/loader/loader.h"
#include "support/elf_builder.h"
#include "support/loader_load.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define HEAP_BYTES (1u << 20)

#if defined(__aarch64__)
enum { R_SYMBOL = 257, R_RELATIVE = 1027, R_JUMP_SLOT = 1026, R_INDIRECT = 1032, R_COPY = 1024 };
#define INDIRECT_NAME "R_AARCH64_IRELATIVE"
#else
enum { R_SYMBOL = 1, R_RELATIVE = 8, R_JUMP_SLOT = 7, R_INDIRECT = 37, R_COPY = 5 };
#define INDIRECT_NAME "R_X86_64_IRELATIVE"
#endif

static struct c7x_heap *heap;
static uint8_t *region;
static _Alignas(4096) struct elf_file file;
static struct elf_builder builder;
static struct c7x_error error;
static int imported;

static void *find_import(const struct c7x_symbol_source *source, const char *name)
{
    (void)source;
    return strcmp(name, "imported") == 0 ? &imported : NULL;
}

static const struct c7x_symbol_source imports = {.find = find_import};

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
    region = aligned_alloc(4096, HEAP_BYTES);
    memset(region, 0xa5, HEAP_BYTES);
    heap = c7x_heap_create(region, HEAP_BYTES, "test");
    c7x_error_clear(&error);
    elf_builder_init(&builder, &file);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_whole();
    c7x_heap_destroy(heap);
    free(region);
    return 0;
}

static enum c7x_status load_bytes(const void *bytes, uint64_t size, bool copy,
                                  struct c7x_program **out)
{
    struct c7x_loader_request request = {
        .bytes = bytes,
        .size = size,
        .copy_read_only = copy,
        .heap = heap,
        .owner = c7x_heap_owner_new(heap),
        .imports = &imports,
    };
    return loader_load(&request, out, &error);
}

static struct c7x_program *load_file(bool copy)
{
    struct c7x_program *program = NULL;
    enum c7x_status status = load_bytes(&file, sizeof(file), copy, &program);
    if (status != C7X_OK)
        fail_msg("%s", error.text);
    return program;
}

static void *find(const struct c7x_program *program, const char *name)
{
    const struct c7x_symbol_source *symbols = c7x_loader_symbols(program);
    return symbols->find(symbols, name);
}

static uint64_t extent(const struct c7x_program *program, const void *address)
{
    const struct c7x_symbol_source *symbols = c7x_loader_symbols(program);
    return symbols->extent(symbols, address);
}

static uint64_t data_word(const struct c7x_program *program, size_t index)
{
    uint64_t word;
    memcpy(&word, (const uint8_t *)find(program, "data") + 8 * index, sizeof(word));
    return word;
}

static void refused(const char *text)
{
    struct c7x_program *program = NULL;
    assert_int_equal(load_bytes(&file, sizeof(file), false, &program), C7X_LOAD);
    assert_null(program);
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
    assert_whole();
}

/* ---- Well formed ---- */

static void symbols_are_found_by_hash(void **state)
{
    struct c7x_program *program;
    (void)state;
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_non_null(find(program, "entry"));
    assert_non_null(find(program, "data"));
    assert_null(find(program, "nothing"));
    assert_null(find(program, ""));
    c7x_loader_unload(program, false);
}

static void symbols_are_found_by_gnu_hash(void **state)
{
    struct c7x_program *program;
    (void)state;
    (void)elf_builder_import(&builder, "imported", 1);
    elf_builder_finish_gnu(&builder);
    program = load_file(false);
    assert_non_null(find(program, "entry"));
    assert_non_null(find(program, "weights"));
    assert_null(find(program, "imported"));
    assert_null(find(program, "nothing"));
    c7x_loader_unload(program, false);
}

static void a_gnu_hash_table_is_followed_to_the_last_symbol(void **state)
{
    struct c7x_loader_symbol symbol;
    struct c7x_program *program;
    (void)state;
    file.strings[0x2ff] = 'x'; /* what stands behind the symbols is none */
    elf_builder_finish_gnu(&builder);
    memset(&file.symbols[builder.symbol_count], 0x11, sizeof(file.symbols[0]));
    program = load_file(false);
    assert_true(c7x_loader_symbol(program, builder.symbol_count - 1, &symbol));
    assert_false(c7x_loader_symbol(program, builder.symbol_count, &symbol));
    c7x_loader_unload(program, false);
    file.hash[6] = 0x10000;
    refused("DT_GNU_HASH is outside");
    file.hash[6] = 0; /* no bucket has a symbol */
    program = load_file(false);
    assert_false(c7x_loader_symbol(program, 1, &symbol));
    c7x_loader_unload(program, false);
}

static void weights_are_used_in_place(void **state)
{
    struct c7x_program *program;
    (void)state;
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_true(c7x_loader_uses_staged_bytes(program));
    assert_ptr_equal(find(program, "weights"), file.weights);
    assert_ptr_equal(find(program, "weights_end"), file.weights + sizeof(file.weights));
    assert_int_equal(extent(program, file.weights + 16), sizeof(file.weights) - 16);
    assert_int_equal(extent(program, &imported), 0);
    c7x_loader_unload(program, false);
}

static void weights_are_copied_when_asked(void **state)
{
    struct c7x_program *program;
    (void)state;
    elf_builder_finish(&builder);
    program = load_file(true);
    assert_false(c7x_loader_uses_staged_bytes(program));
    assert_true(c7x_heap_contains(heap, find(program, "weights")));
    assert_memory_equal(find(program, "weights"), file.weights, sizeof(file.weights));
    c7x_loader_unload(program, false);
}

static void weights_are_copied_when_a_relocation_lands_there(void **state)
{
    struct c7x_program *program;
    uint64_t word;
    (void)state;
    elf_builder_relocate(&builder, ELF_AT(weights), R_RELATIVE, 0, (int64_t)ELF_AT(data));
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_false(c7x_loader_uses_staged_bytes(program));
    memcpy(&word, find(program, "weights"), sizeof(word));
    assert_int_equal(word, (uintptr_t)find(program, "data"));
    c7x_loader_unload(program, false);
}

static void weights_are_copied_when_staged_out_of_alignment(void **state)
{
    struct c7x_program *program = NULL;
    uint8_t *shifted = malloc(sizeof(file) + 4096);
    (void)state;
    elf_builder_finish(&builder);
    memcpy(shifted + 8, &file, sizeof(file));
    assert_int_equal(load_bytes(shifted + 8, sizeof(file), false, &program), C7X_OK);
    assert_false(c7x_loader_uses_staged_bytes(program));
    c7x_loader_unload(program, false);
    free(shifted);
}

static void bss_is_zeroed(void **state)
{
    struct c7x_program *program;
    const uint8_t *bss;
    (void)state;
    (void)elf_builder_export(&builder, "bss", ELF_AT(pad2));
    elf_builder_finish(&builder);
    program = load_file(false);
    bss = find(program, "bss");
    for (size_t i = 0; i < ELF_BSS_BYTES; i++)
        assert_int_equal(bss[i], 0);
    c7x_loader_unload(program, false);
}

static void staged_bytes_stay_as_they_were(void **state)
{
    static struct elf_file before;
    (void)state;
    elf_builder_relocate(&builder, ELF_AT(data), R_RELATIVE, 0, (int64_t)ELF_AT(weights));
    elf_builder_relocate(&builder, ELF_AT(weights), R_RELATIVE, 0, (int64_t)ELF_AT(data));
    elf_builder_finish(&builder);
    memcpy(&before, &file, sizeof(file));
    c7x_loader_unload(load_file(false), false);
    assert_memory_equal(&file, &before, sizeof(file));
}

static void segments_honour_large_alignment(void **state)
{
    struct c7x_program *program;
    (void)state;
    for (unsigned i = ELF_RODATA; i <= ELF_DATA; i++)
        file.segments[i].align = 0x10000;
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_int_equal((uintptr_t)find(program, "entry") % 0x10000, 0x1000);
    c7x_loader_unload(program, false);
}

/* ---- Relocations ---- */

static void relocations_of_symbols(void **state)
{
    struct c7x_program *program;
    uint32_t import;
    (void)state;
    import = elf_builder_import(&builder, "imported", 1);
    elf_builder_relocate(&builder, ELF_AT(data[0]), R_SYMBOL, import, 4);
    elf_builder_relocate(&builder, ELF_AT(data[1]), R_JUMP_SLOT, 1, 0);
    elf_builder_relocate(&builder, ELF_AT(data[2]), R_RELATIVE, 0, (int64_t)ELF_AT(data[7]));
    elf_builder_relocate(&builder, ELF_AT(data[3]), R_RELATIVE, 0, (int64_t)ELF_AT(weights) + 2);
    elf_builder_relocate(&builder, ELF_AT(data[4]), R_SYMBOL, 3, 1);
    elf_builder_relocate(&builder, ELF_AT(data[5]), 0, 0, 0);
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_int_equal(data_word(program, 0), (uintptr_t)&imported + 4);
    assert_int_equal(data_word(program, 1), (uintptr_t)find(program, "entry"));
    assert_int_equal(data_word(program, 2), (uintptr_t)find(program, "data") + 56);
    assert_int_equal(data_word(program, 3), (uintptr_t)file.weights + 2);
    assert_int_equal(data_word(program, 4), (uintptr_t)file.weights + 1);
    assert_int_equal(data_word(program, 5), 0);
    c7x_loader_unload(program, false);
}

/* The list of RELR stands in the strings: one word, then the 1st and the 3rd of those behind it. */
static void put_relr(uint64_t first)
{
    const uint64_t entries[2] = {first, 1 | 1 << 1 | 1 << 3};
    memcpy(file.strings + 0x200, entries, sizeof(entries));
    elf_builder_dynamic(&builder, C7X_ELF_DT_RELR, ELF_AT(strings[0x200]));
    elf_builder_dynamic(&builder, C7X_ELF_DT_RELRSZ, sizeof(entries));
}

static void packed_relative_relocations(void **state)
{
    struct c7x_program *program;
    (void)state;
    for (size_t i = 0; i < 5; i++)
        file.data[i] = ELF_AT(data[7]) + i;
    put_relr(ELF_AT(data[0]));
    elf_builder_finish(&builder);
    program = load_file(false);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(data_word(program, i), i == 0 || i == 1 || i == 3
                                                    ? (uintptr_t)find(program, "data") + 56 + i
                                                    : ELF_AT(data[7]) + i);
    assert_true(c7x_loader_uses_staged_bytes(program));
    c7x_loader_unload(program, false);
}

static void packed_relocations_are_bounded(void **state)
{
    struct c7x_program *program;
    (void)state;
    put_relr(ELF_AT(weights));
    elf_builder_finish(&builder);
    program = load_file(false); /* with a copy of the weights */
    assert_false(c7x_loader_uses_staged_bytes(program));
    c7x_loader_unload(program, false);
    elf_builder_init(&builder, &file);
    put_relr(0x7fff0000);
    elf_builder_finish(&builder);
    refused("DT_RELR entry 0: word at 0x7fff0000: not inside a copied segment");
}

static void a_weak_import_may_be_absent(void **state)
{
    struct c7x_program *program;
    uint32_t import;
    (void)state;
    import = elf_builder_import(&builder, "absent", C7X_ELF_STB_WEAK);
    file.data[0] = 77;
    elf_builder_relocate(&builder, ELF_AT(data[0]), R_SYMBOL, import, 0);
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_int_equal(data_word(program, 0), 0);
    c7x_loader_unload(program, false);
}

static void all_missing_imports_are_listed(void **state)
{
    struct c7x_program *program = NULL;
    (void)state;
    (void)elf_builder_import(&builder, "one_missing", 1);
    (void)elf_builder_import(&builder, "imported", 1);
    (void)elf_builder_import(&builder, "two_missing", 1);
    (void)elf_builder_import(&builder, "weak_missing", C7X_ELF_STB_WEAK);
    (void)elf_builder_import(&builder, "three_missing", 1);
    elf_builder_finish(&builder);
    assert_int_equal(load_bytes(&file, sizeof(file), false, &program), C7X_SYMBOL);
    assert_string_equal(error.text,
                        "the firmware does not export: one_missing, two_missing, three_missing");
}

/* What such a symbol stands for is only known at run time. */
static void thread_local_and_indirect_symbols_are_refused_by_name(void **state)
{
    uint32_t symbol = elf_builder_export(&builder, "chosen_late", ELF_AT(text));
    (void)state;
    elf_builder_finish(&builder);
    file.symbols[symbol].info = 1 << 4 | C7X_ELF_STT_TLS;
    refused("symbol chosen_late is thread-local (TLS), which is not supported");
    file.symbols[symbol].info = 1 << 4 | C7X_ELF_STT_GNU_IFUNC;
    refused("symbol chosen_late is an indirect function (IFUNC), which is not supported");
}

static void unsupported_relocations_are_refused_by_name(void **state)
{
    (void)state;
    elf_builder_relocate(&builder, ELF_AT(data[1]), R_INDIRECT, 0, 0);
    elf_builder_finish(&builder);
    refused("DT_RELA entry 0: " INDIRECT_NAME);
    refused("indirect functions (IFUNC) are not supported");
    file.relocations[0].info = R_COPY;
    refused("_COPY");
    file.relocations[0].info = 99;
    refused("relocation (type 99) at 0x2108: not supported");
}

static void relocations_outside_are_refused(void **state)
{
    (void)state;
    elf_builder_relocate(&builder, 0x7fff0000, R_RELATIVE, 0, 0);
    elf_builder_finish(&builder);
    refused("at 0x7fff0000: not inside a copied segment");
    file.relocations[0].offset = file.segments[ELF_DATA].vaddr + file.segments[ELF_DATA].memsz - 4;
    refused("not inside a copied segment");
    file.relocations[0] = (struct c7x_elf_rela){ELF_AT(data), (uint64_t)999 << 32 | R_SYMBOL, 0};
    refused("symbol 999");
}

#if !defined(__aarch64__)
static void x86_64_narrow_relocations(void **state)
{
    struct c7x_relocation r = {.symbol = 0x1000, .addend = 8, .place = 0x2000};
    uint8_t field[8] = {0};
    uint32_t word;
    (void)state;
    r.type = 2; /* PC32 */
    assert_int_equal(c7x_arch_x86_64.relocate(&r, field), C7X_RELOCATION_DONE);
    memcpy(&word, field, sizeof(word));
    assert_int_equal(word, 0xfffff008u);
    r.place = 0x200000000;
    assert_int_equal(c7x_arch_x86_64.relocate(&r, field), C7X_RELOCATION_OVERFLOW);
    r.type = 10; /* 32 */
    r.symbol = 0xfffffff0;
    assert_int_equal(c7x_arch_x86_64.relocate(&r, field), C7X_RELOCATION_DONE);
    r.type = 11; /* 32S */
    assert_int_equal(c7x_arch_x86_64.relocate(&r, field), C7X_RELOCATION_OVERFLOW);
    r.type = 16; /* DTPMOD64 */
    assert_int_equal(c7x_arch_x86_64.relocate(&r, field), C7X_RELOCATION_UNSUPPORTED);
}
#endif

#if defined(__aarch64__)
/* What the PLT jumps to would have to be signed: an address that is not, leads nowhere. */
static void a_plt_of_signed_addresses_is_refused(void **state)
{
    (void)state;
    elf_builder_dynamic(&builder, 0x70000003, 0);
    elf_builder_finish(&builder);
    refused("dynamic table: DT_AARCH64_PAC_PLT");
}
#endif

static void aarch64_relocations(void **state)
{
    struct c7x_relocation r = {.type = 257, .symbol = 0x1000, .relative = 0x5000, .addend = 8};
    uint8_t field[8];
    uint64_t word;
    (void)state;
    assert_int_equal(c7x_arch_aarch64.relocate(&r, field), C7X_RELOCATION_DONE);
    memcpy(&word, field, sizeof(word));
    assert_int_equal(word, 0x1008);
    r.type = 1027;
    assert_int_equal(c7x_arch_aarch64.relocate(&r, field), C7X_RELOCATION_DONE);
    memcpy(&word, field, sizeof(word));
    assert_int_equal(word, 0x5000);
    r.type = 1025; /* GLOB_DAT, and JUMP_SLOT */
    assert_int_equal(c7x_arch_aarch64.relocate(&r, field), C7X_RELOCATION_DONE);
    memcpy(&word, field, sizeof(word));
    assert_int_equal(word, 0x1008);
    r.type = 1026;
    assert_int_equal(c7x_arch_aarch64.relocate(&r, field), C7X_RELOCATION_DONE);
    memcpy(&word, field, sizeof(word));
    assert_int_equal(word, 0x1008);
    const uint32_t refused_types[] = {1024, 1028, 1029,
                                      1030, 1031, 1032}; /* COPY, TLS, IRELATIVE */
    for (size_t i = 0; i < sizeof(refused_types) / sizeof(refused_types[0]); i++) {
        r.type = refused_types[i];
        assert_non_null(c7x_arch_aarch64.relocation_name(r.type));
        assert_int_equal(c7x_arch_aarch64.relocate(&r, field), C7X_RELOCATION_UNSUPPORTED);
    }
}

/* ---- Protection ---- */

static void read_it(uint8_t *address)
{
    (void)*(volatile uint8_t *)address;
}

static void write_it(uint8_t *address)
{
    *(volatile uint8_t *)address = *address;
}

/* There is a return instruction. */
static void call_it(uint8_t *address)
{
    void (*function)(void);
    memcpy(&function, &address, sizeof(function));
    function();
}

/* Whether a process may do it: what the system does, not what its tables say. */
static bool may(void (*use)(uint8_t *), uint8_t *address)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        use(address);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
    return status == 0;
}

static void assert_access(uint8_t *address, const char *access)
{
    assert_int_equal(may(read_it, address), access[0] == 'r');
    assert_int_equal(may(write_it, address), access[1] == 'w');
    assert_int_equal(may(call_it, address), access[2] == 'x');
}

static void pages_get_the_access_of_their_segment(void **state)
{
    struct c7x_program *program;
    uint8_t *text;
    (void)state;
    memcpy(file.data, file.text, sizeof(file.data));
    memcpy(file.pad1, file.text, sizeof(file.pad1));
    elf_builder_finish(&builder);
    program = load_file(false);
    text = find(program, "entry");
    assert_access(text, "r-x");
    assert_access(text - sizeof(file.pad1), "r--");
    assert_access(find(program, "data"), "rw-");
    c7x_loader_unload(program, false);
    assert_access(text, "rw-");
}

/* ---- Needed libraries ---- */

static void need(const char *library)
{
    uint32_t symbol = elf_builder_import(&builder, library, C7X_ELF_STB_WEAK); /* for its name */
    elf_builder_dynamic(&builder, C7X_ELF_DT_NEEDED, file.symbols[symbol].name);
}

static void needed_libraries_are_those_that_the_exports_stand_for(void **state)
{
    (void)state;
    need("libc.so.6");
    need("libm.so.6");
    elf_builder_finish(&builder);
    c7x_loader_unload(load_file(false), false);
    elf_builder_init(&builder, &file);
    need("libm.so.6");
    need("libgomp.so.1");
    elf_builder_finish(&builder);
    refused("needs the library libgomp.so.1 (DT_NEEDED); the device has only the firmware's "
            "exports");
    elf_builder_init(&builder, &file);
    elf_builder_dynamic(&builder, C7X_ELF_DT_NEEDED, sizeof(file.strings));
    elf_builder_finish(&builder);
    refused("a name of DT_NEEDED is outside the string table");
}

/* ---- Constructors ---- */

static void constructors_run_in_code_only(void **state)
{
    (void)state;
    elf_builder_relocate(&builder, ELF_AT(data[0]), R_RELATIVE, 0, (int64_t)ELF_AT(text) + 64);
    elf_builder_dynamic(&builder, C7X_ELF_DT_INIT, ELF_AT(text) + 16);
    elf_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAY, ELF_AT(data[0]));
    elf_builder_dynamic(&builder, C7X_ELF_DT_INIT_ARRAYSZ, 8);
    elf_builder_dynamic(&builder, C7X_ELF_DT_FINI, ELF_AT(text) + 16);
    elf_builder_finish(&builder);
    c7x_loader_unload(load_file(false), false);
    file.relocations[0].addend = (int64_t)ELF_AT(data[1]);
    refused("DT_INIT_ARRAY: 0x2108 is not in the module's code");
}

/* ---- Lies ---- */

static void machines_are_named(void **state)
{
    (void)state;
    elf_builder_finish(&builder);
    file.header.machine = 243;
    refused("built for RISC-V; this device executes");
    file.header.machine = 4711;
    refused("built for machine 4711; this device executes");
}

struct lie {
    const char *expected;
    void *field; /* where in `file` */
    size_t size;
    uint64_t value;
};
#define LIE(member, wrong, text)                                                                   \
    {                                                                                              \
        text, &file.member, sizeof(file.member), wrong                                             \
    }

static const struct lie lies[] = {
    LIE(header.ident[0], 0, "no ELF header"),
    LIE(header.ident[4], 1, "not a 64-bit little-endian"),
    LIE(header.ident[5], 2, "not a 64-bit little-endian"),
    LIE(header.type, 1, "ELF type 1"),
    LIE(header.version, 2, "unknown ELF version"),
    LIE(header.phentsize, 55, "55 bytes"),
    LIE(header.phnum, 0, "0 program headers"),
    LIE(header.phnum, 65, "65 program headers"),
    LIE(header.phoff, UINT64_MAX, "program header"),
    LIE(header.phoff, sizeof(file), "program header 0"),
    LIE(segments[ELF_TEXT].offset, UINT64_MAX - 4095, "segment 1"),
    LIE(segments[ELF_TEXT].filesz, UINT64_MAX, "segment 1"),
    LIE(segments[ELF_TEXT].filesz, 0x1001, "segment 1: larger in the file than in memory"),
    LIE(segments[ELF_TEXT].memsz, UINT64_MAX, "segment 1: passes the end of the address space"),
    LIE(segments[ELF_TEXT].align, 3, "segment 1: alignment 0x3"),
    LIE(segments[ELF_TEXT].align, 1u << 30, "segment 1: alignment 0x40000000"),
    LIE(segments[ELF_TEXT].vaddr, 0x1008, "segment 1: address and file offset disagree"),
    LIE(segments[ELF_TEXT].vaddr, 0, "segment 1 at 0x0 overlaps segment 0"),
    LIE(segments[ELF_TEXT].flags, 7, "segment 1: writable and executable"),
    LIE(segments[ELF_TEXT].memsz, 0x2000, "segment 2 at 0x2000 overlaps segment 1"),
    LIE(segments[ELF_WEIGHTS].flags, 0x00100006u, "segment 3: marked for use in place"),
    LIE(segments[ELF_STACK].flags, 7, "segment 5: asks for an executable stack"),
    LIE(segments[ELF_STACK].type, 7, "segment 5: thread-local"),
    LIE(segments[ELF_DYNAMIC].type, 0, "no dynamic table"),
    LIE(segments[ELF_DYNAMIC].vaddr, 0x800000, "dynamic table: outside"),
    LIE(segments[ELF_DYNAMIC].vaddr, 0x3000, "dynamic table: outside"),
    LIE(segments[ELF_DYNAMIC].filesz, 32, "dynamic table: not terminated"),
    LIE(dynamic[0].value, 0x900000, "DT_HASH is outside"),
    LIE(dynamic[0].tag, 100, "no hash table"),
    LIE(dynamic[1].value, 0x3000, "DT_SYMTAB is outside"),
    LIE(dynamic[2].value, 16, "DT_SYMENT"),
    LIE(dynamic[4].value, UINT64_MAX, "string table"),
    LIE(dynamic[6].value, 25, "DT_RELA"),
    LIE(dynamic[6].value, UINT64_MAX - 23, "DT_RELA"),
    LIE(dynamic[7].tag, C7X_ELF_DT_REL, "REL relocations"),
    LIE(dynamic[0].tag, C7X_ELF_DT_ANDROID_RELA, "relocations in Android's format"),
    LIE(dynamic[0].tag, C7X_ELF_DT_ANDROID_RELR, "relocations in Android's format"),
    LIE(hash[1], 0x10000, "65536 symbols"),
    LIE(symbols[1].name, 0x300, "symbol 1: name"),
};

static void lies_are_named(void **state)
{
    (void)state;
    elf_builder_finish(&builder);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        uint64_t truth = 0;
        memcpy(&truth, lies[i].field, lies[i].size);
        memcpy(lies[i].field, &lies[i].value, lies[i].size);
        refused(lies[i].expected);
        memcpy(lies[i].field, &truth, lies[i].size);
    }
    c7x_loader_unload(load_file(false), false);
}

static void a_circular_hash_chain_ends(void **state)
{
    struct c7x_program *program;
    (void)state;
    elf_builder_finish(&builder);
    file.hash[3 + 1] = 1;
    program = load_file(false);
    assert_null(find(program, "nothing"));
    c7x_loader_unload(program, false);
}

static void a_cut_file_is_refused_at_every_length(void **state)
{
    (void)state;
    elf_builder_finish(&builder);
    for (uint64_t size = 0; size < sizeof(file); size += 64) {
        struct c7x_program *program = NULL;
        uint8_t *exact = malloc(size + 1);
        memcpy(exact, &file, size);
        assert_int_equal(load_bytes(exact, size, false, &program), C7X_LOAD);
        assert_true(error.text[0] != '\0');
        assert_whole();
        free(exact);
    }
}

/* Damage anywhere but in the code must end in a refusal or in a program that can be asked and
 * unloaded. */
static void random_damage_is_survived(void **state)
{
    static _Alignas(4096) struct elf_file damaged;
    (void)state;
    elf_builder_relocate(&builder, ELF_AT(data[0]), R_RELATIVE, 0, (int64_t)ELF_AT(data[7]));
    elf_builder_relocate(&builder, ELF_AT(data[1]), R_JUMP_SLOT, 1, 0);
    elf_builder_finish(&builder);
    srand(1);
    for (unsigned round = 0; round < 20000; round++) {
        struct c7x_program *program = NULL;
        memcpy(&damaged, &file, sizeof(file));
        for (unsigned i = 0; i < 1 + round % 4; i++) {
            size_t at = (size_t)rand() % 0xa00;
            size_t place = at < 0x900 ? at : at - 0x900 + ELF_AT(dynamic);
            ((uint8_t *)&damaged)[place] = (uint8_t)(rand() % 3 == 0 ? 0xff : rand());
        }
        if (load_bytes(&damaged, sizeof(damaged), false, &program) == C7X_OK) {
            (void)find(program, "entry");
            (void)find(program, "weights");
            c7x_loader_unload(program, true);
        }
        assert_whole();
    }
}

static void every_allocation_may_fail(void **state)
{
    struct c7x_heap *whole = heap;
    struct c7x_program *program = NULL;
    enum c7x_status status = C7X_NOMEM;
    (void)state;
    elf_builder_finish(&builder);
    for (size_t size = 8192; status != C7X_OK && size < HEAP_BYTES / 2; size += 512) {
        heap = c7x_heap_create(region + HEAP_BYTES / 2, size, "small");
        if (heap == NULL)
            continue;
        status = load_bytes(&file, sizeof(file), true, &program);
        assert_true(status == C7X_OK || status == C7X_NOMEM);
        if (status == C7X_NOMEM)
            assert_true(error.oom.requested != 0 && error.oom.total != 0);
        c7x_loader_unload(program, false);
        assert_whole();
        c7x_heap_destroy(heap);
    }
    assert_int_equal(status, C7X_OK);
    heap = whole;
}

static void addresses_are_described(void **state)
{
    struct c7x_program *program;
    char text[64];
    (void)state;
    elf_builder_finish(&builder);
    program = load_file(false);
    assert_true(
        c7x_loader_describe(program, (uint8_t *)find(program, "entry") + 0x12, text, sizeof(text)));
    assert_string_equal(text, "entry+0x12");
    assert_false(c7x_loader_describe(program, &imported, text, sizeof(text)));
    c7x_loader_unload(program, false);
}

static void features_of_the_processor(void **state)
{
    const struct c7x_arch *arch = c7x_arch_native();
    (void)state;
    assert_false(arch->has_feature("no_such_feature"));
    assert_non_null(arch->feature_name(0));
    assert_null(arch->feature_name(1000));
#if defined(__x86_64__)
    assert_true(arch->has_feature("sse2"));
    assert_int_equal(arch->has_feature("avx2"), __builtin_cpu_supports("avx2") != 0);
    assert_int_equal(arch->has_feature("fma"), __builtin_cpu_supports("fma") != 0);
    assert_int_equal(arch->has_feature("avx512f"), __builtin_cpu_supports("avx512f") != 0);
#elif defined(__aarch64__)
    const struct {
        const char *name;
        bool expected;
    } features[] = {
        {"fp", (getauxval(AT_HWCAP) & HWCAP_FP) != 0},
        {"asimd", (getauxval(AT_HWCAP) & HWCAP_ASIMD) != 0},
        {"crc32", (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0},
        {"atomics", (getauxval(AT_HWCAP) & HWCAP_ATOMICS) != 0},
        {"fphp", (getauxval(AT_HWCAP) & HWCAP_FPHP) != 0},
        {"asimdhp", (getauxval(AT_HWCAP) & HWCAP_ASIMDHP) != 0},
        {"asimdrdm", (getauxval(AT_HWCAP) & HWCAP_ASIMDRDM) != 0},
        {"jscvt", (getauxval(AT_HWCAP) & HWCAP_JSCVT) != 0},
        {"fcma", (getauxval(AT_HWCAP) & HWCAP_FCMA) != 0},
        {"asimddp", (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0},
        {"sve", (getauxval(AT_HWCAP) & HWCAP_SVE) != 0},
        {"asimdfhm", (getauxval(AT_HWCAP) & HWCAP_ASIMDFHM) != 0},
        {"sve2", (getauxval(AT_HWCAP2) & HWCAP2_SVE2) != 0},
        {"frint", (getauxval(AT_HWCAP2) & HWCAP2_FRINT) != 0},
        {"i8mm", (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0},
        {"bf16", (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0},
    };
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
        assert_int_equal(arch->has_feature(features[i].name), features[i].expected);
    assert_null(arch->feature_name(sizeof(features) / sizeof(features[0])));
#endif
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(symbols_are_found_by_hash),
        TEST(symbols_are_found_by_gnu_hash),
        TEST(a_gnu_hash_table_is_followed_to_the_last_symbol),
        TEST(weights_are_used_in_place),
        TEST(weights_are_copied_when_asked),
        TEST(weights_are_copied_when_a_relocation_lands_there),
        TEST(weights_are_copied_when_staged_out_of_alignment),
        TEST(bss_is_zeroed),
        TEST(staged_bytes_stay_as_they_were),
        TEST(segments_honour_large_alignment),
        TEST(relocations_of_symbols),
        TEST(packed_relative_relocations),
        TEST(packed_relocations_are_bounded),
        TEST(a_weak_import_may_be_absent),
        TEST(all_missing_imports_are_listed),
        TEST(thread_local_and_indirect_symbols_are_refused_by_name),
        TEST(unsupported_relocations_are_refused_by_name),
        TEST(relocations_outside_are_refused),
#if defined(__aarch64__)
        TEST(a_plt_of_signed_addresses_is_refused),
#else
        TEST(x86_64_narrow_relocations),
#endif
        TEST(aarch64_relocations),
        TEST(pages_get_the_access_of_their_segment),
        TEST(needed_libraries_are_those_that_the_exports_stand_for),
        TEST(constructors_run_in_code_only),
        TEST(machines_are_named),
        TEST(lies_are_named),
        TEST(a_circular_hash_chain_ends),
        TEST(a_cut_file_is_refused_at_every_length),
        TEST(random_damage_is_survived),
        TEST(every_allocation_may_fail),
        TEST(addresses_are_described),
        TEST(features_of_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

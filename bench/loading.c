/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the loader on made-up modules of 20,000 symbols and 200,000 relocations, and 2, 4 and 8
 * times as many: all steps of a load but the last, and one look-up of every symbol.
 *
 * Prints samples (samples.h) load-KIND-FACTORx, in ms: `load`, and `copy`, how long a plain copy of
 * the file takes. The best of a few turns is the sample of a round: what else runs only adds.
 */
#include "bench/samples.h"
#include "firmware/exports/exports.h"
#include "firmware/loader/arch/arch.h"
#include "firmware/loader/elf64.h"
#include "firmware/loader/loader.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOLS 20000u
#define RELOCATIONS 200000u
#define NAME_BYTES 32u
#define DATA_BYTES 65536u
#define PAGE 4096u
#define TURNS 3 /* in a round */
#define FACTORS 4
#define HEAP_BYTES (1ull << 30)
#define IMPORT_EVERY 4u /* one symbol of so many is an import */

#if defined(__aarch64__)
#define NATIVE_WORD 257u
#else
#define NATIVE_WORD 1u
#endif
#define C7X_WORD 18u

/* Link addresses are file offsets, so that one file serves both kinds of dynamic table. */
struct plan {
    const struct c7x_arch *arch;
    uint32_t relocation_type;
    uint64_t symbol_count, relocation_count;
    uint64_t symbols, strings, hash, relocations, data; /* offsets */
    uint64_t strings_size, size;
};

static uint64_t page_up(uint64_t value)
{
    return (value + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static struct plan make_plan(const struct c7x_arch *arch, uint32_t word, unsigned factor)
{
    struct plan plan = {.arch = arch, .relocation_type = word};
    plan.symbol_count = 1 + (uint64_t)SYMBOLS * factor;
    plan.relocation_count = (uint64_t)RELOCATIONS * factor;
    plan.symbols = PAGE;
    plan.strings = plan.symbols + plan.symbol_count * sizeof(struct c7x_elf_symbol);
    plan.strings_size = (plan.symbol_count + 1) * NAME_BYTES;
    plan.hash = plan.strings + plan.strings_size;
    plan.relocations = (plan.hash + (2 + 2 * plan.symbol_count) * 4 + 7) & ~7ull;
    plan.data = page_up(plan.relocations + plan.relocation_count * sizeof(struct c7x_elf_rela));
    plan.size = plan.data + PAGE + DATA_BYTES;
    return plan;
}

static void put(uint8_t *file, uint64_t offset, const void *what, size_t size)
{
    memcpy(file + offset, what, size);
}

static void put_headers(const struct plan *plan, uint8_t *file)
{
    struct c7x_elf_header header = {.ident = {0x7f, 'E', 'L', 'F', 2, 1, 1},
                                    .type = C7X_ELF_TYPE_DYN,
                                    .machine = plan->arch->machine,
                                    .version = 1,
                                    .phoff = sizeof(header),
                                    .phentsize = sizeof(struct c7x_elf_segment),
                                    .phnum = 3};
    struct c7x_elf_segment segments[3] = {
        {C7X_ELF_PT_LOAD, C7X_ELF_PF_R, 0, 0, 0, plan->data, plan->data, PAGE},
        {C7X_ELF_PT_LOAD, C7X_ELF_PF_R | C7X_ELF_PF_W, plan->data, plan->data, 0, PAGE + DATA_BYTES,
         PAGE + DATA_BYTES, PAGE},
        {C7X_ELF_PT_DYNAMIC, C7X_ELF_PF_R | C7X_ELF_PF_W, plan->data, plan->data, 0, PAGE, PAGE,
         8}};
    if (plan->arch == &c7x_arch_c7x)
        header.ident[7] = C7X_ELF_OSABI_C7X;
    put(file, 0, &header, sizeof(header));
    put(file, sizeof(header), segments, sizeof(segments));
}

static void put_dynamic(const struct plan *plan, uint8_t *file)
{
    const struct c7x_elf_dynamic entries[] = {
        {C7X_ELF_DT_HASH, plan->hash},
        {C7X_ELF_DT_SYMTAB, plan->symbols},
        {C7X_ELF_DT_STRTAB, plan->strings},
        {C7X_ELF_DT_STRSZ, plan->strings_size},
        {C7X_ELF_DT_RELA, plan->relocations},
        {C7X_ELF_DT_RELASZ, plan->relocation_count * sizeof(struct c7x_elf_rela)},
        {C7X_ELF_DT_NULL, 0},
    };
    put(file, plan->data, entries, sizeof(entries));
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 0;
    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (uint8_t)*name;
        uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ (high >> 24)) & ~high;
    }
    return hash;
}

static bool is_import(uint64_t index)
{
    return index % IMPORT_EVERY == 0;
}

static void name_symbol(uint64_t index, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s_%" PRIu64, is_import(index) ? "import" : "symbol", index);
}

/* Looks in the export table, where these names are not, and has them all the same. */
static void *find_import(const struct c7x_symbol_source *source, const char *name)
{
    static int anything;
    (void)source;
    void *address = c7x_exports.find(&c7x_exports, name);
    return address != NULL ? address : &anything;
}

static void put_symbols(const struct plan *plan, uint8_t *file)
{
    uint32_t *hash = calloc(2 + 2 * plan->symbol_count, 4);
    hash[0] = hash[1] = (uint32_t)plan->symbol_count;
    for (uint64_t i = 1; i < plan->symbol_count; i++) {
        char name[NAME_BYTES] = {0};
        struct c7x_elf_symbol symbol = {.name = (uint32_t)(i * NAME_BYTES),
                                        .info = 1 << 4,
                                        .section = is_import(i) ? 0 : 1,
                                        .value =
                                            is_import(i) ? 0 : plan->data + PAGE + i % 8192 * 8};
        name_symbol(i, name);
        uint32_t *bucket = &hash[2 + hash_of(name) % hash[0]];
        hash[2 + plan->symbol_count + i] = *bucket;
        *bucket = (uint32_t)i;
        put(file, plan->strings + i * NAME_BYTES, name, NAME_BYTES);
        put(file, plan->symbols + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    put(file, plan->hash, hash, (2 + 2 * plan->symbol_count) * 4);
    free(hash);
}

static void put_relocations(const struct plan *plan, uint8_t *file)
{
    for (uint64_t i = 0; i < plan->relocation_count; i++) {
        uint64_t symbol = 1 + i % (plan->symbol_count - 1);
        struct c7x_elf_rela rela = {plan->data + PAGE + i * 8 % DATA_BYTES,
                                    symbol << 32 | plan->relocation_type, 0};
        put(file, plan->relocations + i * sizeof(rela), &rela, sizeof(rela));
    }
}

static uint8_t *make_file(const struct plan *plan)
{
    uint8_t *file = aligned_alloc(PAGE, page_up(plan->size));
    memset(file, 0, page_up(plan->size));
    put_headers(plan, file);
    put_dynamic(plan, file);
    put_symbols(plan, file);
    put_relocations(plan, file);
    return file;
}

static void find_all(const struct plan *plan, const struct c7x_program *program)
{
    const struct c7x_symbol_source *symbols = c7x_loader_symbols(program);
    for (uint64_t i = 1; i < plan->symbol_count; i++) {
        char name[NAME_BYTES];
        name_symbol(i, name);
        if ((symbols->find(symbols, name) == NULL) != is_import(i)) {
            fprintf(stderr, "loading: symbol %s\n", name);
            exit(1);
        }
    }
}

static double load_ms(const struct plan *plan, const uint8_t *file, struct c7x_heap *heap)
{
    static const struct c7x_symbol_source imports = {.find = find_import};
    struct c7x_loader_request request = {.bytes = file,
                                         .size = plan->size,
                                         .address = C7X_MEMORY_CARVEOUT_BASE,
                                         .heap = heap,
                                         .owner = c7x_heap_owner_new(heap),
                                         .imports = &imports};
    struct c7x_program *program = NULL;
    struct c7x_error error;
    int64_t begin = c7x_os_clock_ns();
    if (c7x_loader_open(&request, &program, &error) != C7X_OK ||
        c7x_loader_link(program, &error) != C7X_OK) {
        fprintf(stderr, "loading: %s\n", error.text);
        exit(1);
    }
    find_all(plan, program);
    int64_t end = c7x_os_clock_ns();
    c7x_loader_unload(program, true);
    return (double)(end - begin) / 1e6;
}

static double copy_ms(const struct plan *plan, const uint8_t *file, uint8_t *to)
{
    int64_t begin = c7x_os_clock_ns();
    memcpy(to, file, plan->size);
    return (double)(c7x_os_clock_ns() - begin) / 1e6;
}

struct row {
    char name[32];
    struct plan plan;
    uint8_t *file;
    uint8_t *copy; /* as long */
};

static struct row make_row(const char *kind, struct plan plan, unsigned factor)
{
    struct row row = {.plan = plan, .file = make_file(&plan), .copy = malloc(plan.size)};
    (void)snprintf(row.name, sizeof row.name, "load-%s-%ux", kind, factor);
    memset(row.copy, 0, plan.size);
    return row;
}

static void measure(const struct row *row, struct c7x_heap *heap)
{
    double best = 0;
    double best_copy = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        double copied = copy_ms(&row->plan, row->file, row->copy);
        double loaded = load_ms(&row->plan, row->file, heap);
        best = turn == 0 || loaded < best ? loaded : best;
        best_copy = turn == 0 || copied < best_copy ? copied : best_copy;
    }
    c7x_bench_print_one(row->name, "load", best);
    c7x_bench_print_one(row->name, "copy", best_copy);
}

int main(int argc, char **argv)
{
    static struct row rows[2 * FACTORS];
    int rounds = c7x_bench_rounds(argc == 2 ? argv[1] : "", "bench_loading ROUNDS");
    uint8_t *region = aligned_alloc(PAGE, HEAP_BYTES);
    struct c7x_heap *heap = region == NULL ? NULL : c7x_heap_create(region, HEAP_BYTES, "bench");
    if (heap == NULL)
        return 1;
    for (unsigned i = 0; i < FACTORS; i++) {
        struct plan native = make_plan(c7x_arch_native(), NATIVE_WORD, 1u << i);
        struct plan c7x = make_plan(&c7x_arch_c7x, C7X_WORD, 1u << i);
        rows[i] = make_row("native", native, 1u << i);
        rows[FACTORS + i] = make_row("c7x", c7x, 1u << i);
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < 2 * FACTORS; i++)
            measure(&rows[i], heap);
    for (int i = 0; i < 2 * FACTORS; i++) {
        free(rows[i].file);
        free(rows[i].copy);
    }
    c7x_heap_destroy(heap);
    free(region);
    return 0;
}

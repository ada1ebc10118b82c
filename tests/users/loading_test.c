/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about loading: memory in pieces, and files that do not fit the device, its version or its
 * processor. */
#define _GNU_SOURCE
#include "c7x_inspect.h"
#include "support/module_file.h"
#include "users/users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MB ((uint64_t)1 << 20)
#define FULL_FILE_BYTES (47u << 20)
#define LIVE_MAX 40

static struct c7x_test_emulator emulator;
static struct c7x_client *client;
static char changed[C7X_TEST_PATH_MAX]; /* where a changed module is written */

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    assert_in_range(snprintf(changed, sizeof changed, "%.*s/changed.out",
                             (int)(sizeof changed - sizeof "/changed.out"), emulator.folder),
                    1, sizeof changed - 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* ---- What the tests share ---- */

struct pool {
    uint64_t free, largest, blocks;
};

static struct pool heap(void)
{
    struct c7x_pool_info *list;
    struct pool pool = {0, 0, 0};
    size_t count;
    assert_int_equal(c7x_client_list_pools(client, &list, &count), C7X_OK);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, "DDR heap") == 0)
            pool = (struct pool){list[i].free, list[i].largest, list[i].block_count};
    }
    c7x_list_free(list);
    assert_true(pool.free != 0);
    return pool;
}

static void assert_heap_is(struct pool expected)
{
    struct pool now = heap();
    assert_int_equal(now.free, expected.free);
    assert_int_equal(now.largest, expected.largest);
    assert_int_equal(now.blocks, expected.blocks);
}

static uint32_t load_changed(const struct c7x_module_file *file)
{
    uint32_t handle = 0;
    c7x_test_module_write(file, changed);
    if (c7x_client_dyn_load(client, changed, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(client));
    return handle;
}

/* The device keeps the text of a failure as long as its client. */
static void open_anew(void)
{
    c7x_client_close(client);
    client = c7x_test_emulator_open(&emulator);
}

/* Refused with the status and every text, and as if it had never been there: another module loads
 * and runs, and memory is as before. */
static void assert_refused(const char *path, enum c7x_status status, const char *const *texts)
{
    struct pool before = heap();
    uint32_t handle = 0;
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), status);
    for (; *texts != NULL; texts++)
        users_assert_said(*texts);
    assert_null(strchr(c7x_client_last_error(client), '\n'));
    handle = c7x_test_dyn_load(client, "add_one");
    c7x_test_call_add_one(client, handle, 1);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    open_anew();
    assert_heap_is(before);
}

static void assert_changed_refused(const struct c7x_module_file *file, enum c7x_status status,
                                   const char *const *texts)
{
    c7x_test_module_write(file, changed);
    assert_refused(changed, status, texts);
}

static const struct c7x_inspection *inspect(const struct c7x_module_file *file)
{
    const struct c7x_inspection *inspection;
    assert_int_equal(c7x_inspect(file->bytes, file->size, C7X_INSPECT_DEVICE_HOST, &inspection),
                     C7X_OK);
    return inspection;
}

static void assert_inspected(const char *name, enum c7x_status status, const char *const *texts)
{
    struct c7x_module_file file;
    const struct c7x_inspection *inspection;
    c7x_test_module_read(name, &file);
    inspection = inspect(&file);
    assert_int_equal(inspection->status, status);
    for (; *texts != NULL; texts++) {
        if (strstr(inspection->reason, *texts) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", inspection->reason, *texts);
    }
    c7x_inspection_free(inspection);
    c7x_test_module_free(&file);
}

/* ---- Weights in place ---- */

/* The file's size is no matter, only what is copied of it. */
static void a_module_of_47_mb_takes_heap_for_code_and_data_alone(void **state)
{
    struct c7x_module_file file;
    struct pool before = heap();
    uint32_t handle = c7x_test_dyn_load(client, "add_one");
    uint64_t small = before.free - heap().free;
    (void)state;
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_in_range(small, 1, 256 << 10); /* pages of 64 KiB between its segments on AArch64 */
    c7x_test_module_read("add_one", &file);
    c7x_test_module_grow_weights(&file, FULL_FILE_BYTES);
    handle = load_changed(&file);
    assert_int_equal(before.free - heap().free, small);
    c7x_test_call_add_one(client, handle, 7);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_heap_is(before);
    c7x_test_module_free(&file);
}

/* ---- U16 ---- */

static uint32_t load_of_size(uint64_t bss)
{
    struct c7x_module_file file;
    uint32_t handle;
    c7x_test_module_read("no_weights", &file);
    c7x_test_module_add_bss(&file, bss);
    handle = load_changed(&file);
    c7x_test_module_free(&file);
    return handle;
}

/* The number behind the word in the last error. */
static uint64_t said_number(const char *word)
{
    const char *at = strstr(c7x_client_last_error(client), word);
    unsigned long long number = 0;
    if (at == NULL || sscanf(at + strlen(word), " %llu", &number) != 1)
        fail_msg("\"%s\" gives no number for %s", c7x_client_last_error(client), word);
    return number;
}

static uint64_t mapped_bytes(uint64_t at_least, int used)
{
    struct c7x_block_info *blocks;
    uint64_t found = 0;
    size_t count;
    assert_int_equal(c7x_client_list_blocks(client, &blocks, &count), C7X_OK);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address >= 0x102000000u && blocks[i].used == used &&
            blocks[i].size >= at_least)
            found += blocks[i].size;
    }
    c7x_list_free(blocks);
    return found;
}

static void u16_memory_in_pieces_is_told_by_its_numbers(void **state)
{
    struct pool before = heap();
    uint32_t first = load_of_size(110 * MB);
    uint32_t second = load_of_size(110 * MB);
    uint32_t third = load_of_size(110 * MB);
    struct c7x_module_file file;
    struct pool pieces;
    uint32_t handle = 0;
    (void)state;
    assert_int_equal(c7x_client_dyn_unload(client, first), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, third), C7X_OK);
    pieces = heap();
    c7x_test_module_read("no_weights", &file);
    c7x_test_module_add_bss(&file, 150 * MB);
    c7x_test_module_write(&file, changed);
    c7x_test_module_free(&file);
    assert_in_range(pieces.largest, 1, 150 * MB); /* so it is in no piece, though there is enough */
    assert_in_range(pieces.free, 200 * MB, before.free);
    assert_int_equal(c7x_client_dyn_load(client, changed, &handle), C7X_NOMEM);
    assert_in_range(said_number("needs"), 150 * MB, 151 * MB);
    assert_in_range(said_number("free"), pieces.free - MB, pieces.free);
    assert_in_range(said_number("largest free block"), pieces.largest - MB, pieces.largest);
    assert_in_range(mapped_bytes(100 * MB, 1), 110 * MB, 111 * MB); /* the second module */
    assert_in_range(mapped_bytes(100 * MB, 0), 200 * MB, before.free);
    assert_int_equal(c7x_client_dyn_unload(client, second), C7X_OK);
    open_anew();
    assert_heap_is(before);
}

static void u16_random_loads_and_unloads_end_at_the_base_line(void **state)
{
    static const char *const names[] = {"add_one", "no_weights", "prints", "spin", "constructs"};
    uint32_t handles[LIVE_MAX] = {0};
    struct pool before = heap();
    (void)state;
    srand(16);
    for (int i = 0; i < 500; i++) {
        uint32_t *handle = &handles[rand() % LIVE_MAX];
        if (*handle != 0) {
            assert_int_equal(c7x_client_dyn_unload(client, *handle), C7X_OK);
            *handle = 0;
        } else if (rand() % 3 == 0) {
            *handle = load_of_size((uint64_t)rand() % (2 * MB));
        } else {
            *handle = c7x_test_dyn_load(client, names[rand() % 5]);
        }
    }
    for (int i = 0; i < LIVE_MAX; i++) {
        if (handles[i] != 0)
            assert_int_equal(c7x_client_dyn_unload(client, handles[i]), C7X_OK);
    }
    assert_heap_is(before);
}

/* ---- U19 ---- */

static void break_relocation(const struct c7x_module_file *file, size_t index)
{
    size_t count;
    struct c7x_elf_rela *entries = c7x_test_module_relocations(file, &count);
    assert_true(index < count);
    entries[index].info = (entries[index].info & ~(uint64_t)0xffffffffu) | 4711;
}

static void u19_the_loaders_own_words_come_back_whole(void **state)
{
    struct c7x_module_file file;
    struct c7x_elf_segment *segment;
    const char *texts[] = {"DT_RELA entry 1: relocation (type 4711) at 0x", "not supported",
                           "(in .got, symbol TVMDSP", NULL};
    const char *outside[] = {"segment 2: ", " bytes at offset 0x2000 pass the end of the file",
                             NULL};
    (void)state;
    c7x_test_module_read("no_weights", &file);
    break_relocation(&file, 1);
    assert_changed_refused(&file, C7X_LOAD, texts);
    segment = c7x_test_module_segment(&file, C7X_ELF_PF_W);
    segment->filesz = segment->memsz = 1 << 20;
    assert_changed_refused(&file, C7X_LOAD, outside);
    c7x_test_module_free(&file);
}

/* What follows from the wrong version is not what the user reads. */
static void u19_versions_are_compared_first(void **state)
{
    struct c7x_module_file file;
    const char *texts[] = {"manifest: version 2.0; this firmware reads version 1.0", NULL};
    const char *later[] = {"type 4711", NULL};
    (void)state;
    c7x_test_module_read("no_weights", &file);
    break_relocation(&file, 0);
    assert_changed_refused(&file, C7X_LOAD, later);
    c7x_test_module_manifest(&file)->major = C7X_MANIFEST_MAJOR + 1;
    assert_changed_refused(&file, C7X_LOAD, texts);
    c7x_test_module_free(&file);
}

/* ---- U21 ---- */

static void u21_all_missing_names_are_listed_and_nothing_stays(void **state)
{
    const char *texts[] = {") does not export: ", "first_missing",          "second_missing",
                           "third_missing",       "(export table version ", NULL};
    const char *many[] = {"(export table version ", "missing_number_000", "missing_number_777",
                          NULL};
    char path[C7X_TEST_PATH_MAX];
    (void)state;
    c7x_test_module_path("needs_missing", path);
    assert_refused(path, C7X_SYMBOL, texts);
    assert_int_equal(c7x_client_dyn_load(client, path, &(uint32_t){0}), C7X_SYMBOL);
    assert_null(strstr(c7x_client_last_error(client), "weak_missing"));
    open_anew();
    c7x_test_module_path("needs_many", path);
    assert_refused(path, C7X_SYMBOL, many);
    assert_int_equal(c7x_client_dyn_load(client, path, &(uint32_t){0}), C7X_SYMBOL);
    for (unsigned i = 0; i < 512; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "missing_number_%03o", i);
        if (strstr(c7x_client_last_error(client), name) == NULL)
            fail_msg("%s is not in \"%s\"", name, c7x_client_last_error(client));
    }
    assert_int_equal(c7x_client_dyn_load(client, "/nonexistent", &(uint32_t){0}), C7X_FILE);
    assert_null(strstr(c7x_client_last_error(client), "missing_number"));
}

static void u21_an_unknown_relocation_fails_the_load(void **state)
{
    const char *texts[] = {"relocation (type 4711)", "not supported", NULL};
    struct c7x_module_file file;
    size_t count;
    (void)state;
    c7x_test_module_read("add_one", &file);
    (void)c7x_test_module_relocations(&file, &count);
    break_relocation(&file, count - 1);
    assert_changed_refused(&file, C7X_LOAD, texts);
    c7x_test_module_free(&file);
}

/* ---- U23 ---- */

static bool imports(const struct c7x_inspection *inspection, const char *name, int is_present)
{
    for (size_t i = 0; i < inspection->import_count; i++) {
        if (strcmp(inspection->imports[i].name, name) == 0)
            return inspection->imports[i].is_present == is_present;
    }
    return false;
}

static void u23_missing_names_are_known_before_any_upload(void **state)
{
    const char *texts[] = {"first_missing", "second_missing", "third_missing", NULL};
    const struct c7x_inspection *inspection;
    struct c7x_module_file file;
    (void)state;
    assert_inspected("needs_missing", C7X_SYMBOL, texts);
    c7x_test_module_read("needs_missing", &file);
    inspection = inspect(&file);
    assert_true(imports(inspection, "first_missing", 0));
    assert_true(imports(inspection, "weak_missing", 0));
    c7x_inspection_free(inspection);
    c7x_test_module_free(&file);
    c7x_test_module_read("add_one", &file);
    inspection = inspect(&file);
    assert_int_equal(inspection->status, C7X_OK);
    assert_true(imports(inspection, "TVMDSPRegFileInit", 1));
    c7x_inspection_free(inspection);
    c7x_test_module_free(&file);
}

/* ---- U25 ---- */

static void u25_a_foreign_version_is_one_line_with_both(void **state)
{
    const char *texts[] = {"version 9.3; this firmware reads version 1.0: compile the module again",
                           NULL};
    struct c7x_module_file file;
    char command[3 * C7X_TEST_PATH_MAX];
    char line[2 * C7X_TEST_PATH_MAX] = "";
    char second[C7X_TEST_PATH_MAX];
    FILE *said;
    (void)state;
    c7x_test_module_read("add_one", &file);
    c7x_test_module_manifest(&file)->major = 9;
    c7x_test_module_manifest(&file)->minor = 3;
    assert_changed_refused(&file, C7X_LOAD, texts);
    c7x_test_module_free(&file);
    /* And so at a terminal. */
    snprintf(command, sizeof command, "%s/bin/c7x_compute run %s --device %s 2>&1 >/dev/null",
             getenv("C7X_BUILD_DIR"), changed, emulator.device);
    said = popen(command, "r");
    assert_non_null(said);
    assert_non_null(fgets(line, sizeof line, said));
    assert_non_null(strstr(line, "version 9.3, this library reads 1."));
    assert_null(fgets(second, sizeof second, said));
    assert_int_not_equal(pclose(said), 0);
}

/* A newer minor version only adds records. */
static void u25_a_newer_minor_version_loads(void **state)
{
    struct c7x_module_file file;
    (void)state;
    c7x_test_module_read("add_one", &file);
    c7x_test_module_manifest(&file)->minor = 200;
    c7x_test_call_add_one(client, load_changed(&file), 3);
    c7x_test_module_free(&file);
}

/* ---- U27 ---- */

static void u27_another_processor_is_named_by_load_and_inspect(void **state)
{
    const char *texts[] = {"built for C7x; this device executes ", NULL};
    char path[C7X_TEST_PATH_MAX];
    (void)state;
    c7x_test_module_path("c7x", path);
    assert_refused(path, C7X_LOAD, texts);
    assert_inspected("c7x", C7X_LOAD, texts);
}

/* And not one instruction of it has run: its constructor would abort. */
static void u27_lacking_features_are_named_by_load_and_inspect(void **state)
{
    const char *texts[] = {"built for a processor with made_up_1 made_up_2",
                           "lacking: made_up_1 made_up_2", "this processor has:", NULL};
    char path[C7X_TEST_PATH_MAX];
    (void)state;
    c7x_test_module_path("other_cpu", path);
    assert_refused(path, C7X_LOAD, texts);
    assert_inspected("other_cpu", C7X_LOAD, texts);
}

static void u27_a_newer_version_is_named_by_inspect(void **state)
{
    struct c7x_module_file file;
    const struct c7x_inspection *inspection;
    (void)state;
    c7x_test_module_read("add_one", &file);
    c7x_test_module_manifest(&file)->major = 2;
    inspection = inspect(&file);
    assert_int_equal(inspection->status, C7X_LOAD);
    assert_non_null(strstr(inspection->reason, "version 2.0; this firmware reads version 1.0"));
    c7x_inspection_free(inspection);
    c7x_test_module_free(&file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_module_of_47_mb_takes_heap_for_code_and_data_alone),
        TEST(u16_memory_in_pieces_is_told_by_its_numbers),
        TEST(u16_random_loads_and_unloads_end_at_the_base_line),
        TEST(u19_the_loaders_own_words_come_back_whole),
        TEST(u19_versions_are_compared_first),
        TEST(u21_all_missing_names_are_listed_and_nothing_stays),
        TEST(u21_an_unknown_relocation_fails_the_load),
        TEST(u23_missing_names_are_known_before_any_upload),
        TEST(u25_a_foreign_version_is_one_line_with_both),
        TEST(u25_a_newer_minor_version_loads),
        TEST(u27_another_processor_is_named_by_load_and_inspect),
        TEST(u27_lacking_features_are_named_by_load_and_inspect),
        TEST(u27_a_newer_version_is_named_by_inspect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

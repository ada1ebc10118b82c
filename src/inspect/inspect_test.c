/* SPDX-License-Identifier: Apache-2.0 */
/* Inspection of files of the builders: whole, for the wrong device, and damaged. */
#include "c7x_inspect.h"
#include "c7x_module.h"
#include "firmware/memory/memory.h"
#include "support/c7x_builder.h"
#include "support/elf_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct c7x_file file;
static struct c7x_builder builder;

static int set_up(void **state)
{
    (void)state;
    c7x_builder_init(&builder, &file);
    return 0;
}

static const struct c7x_inspection *inspect(const void *bytes, size_t size,
                                            enum c7x_inspect_device device)
{
    const struct c7x_inspection *inspection = NULL;
    assert_int_equal(c7x_inspect(bytes, size, device, &inspection), C7X_OK);
    return inspection;
}

static void expect(enum c7x_inspect_device device, const char *reason)
{
    const struct c7x_inspection *inspection = inspect(&file, sizeof(file), device);
    if (strstr(inspection->reason, reason) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", reason, inspection->reason);
    assert_int_equal(inspection->status == C7X_OK, reason[0] == '\0');
    c7x_inspection_free(inspection);
}

static void a_c7x_file_is_shown_as_a_board_has_it(void **state)
{
    (void)state;
    (void)c7x_builder_import(&builder, "printf", 1);
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_int_equal(seen->status, C7X_OK);
    assert_string_equal(seen->machine, "C7x");
    assert_string_equal(seen->device, "C7x");
    assert_int_equal(seen->segment_count, 3);
    assert_true(seen->segments[0].in_place);
    assert_int_equal(seen->segments[0].address, 0xC0000040u);
    assert_int_equal(seen->segments[1].link_address, 0x80000100u);
    assert_in_range(seen->segments[1].address, 0x102000000u, 0x118000000u);
    assert_int_equal(seen->import_count, 1);
    assert_string_equal(seen->imports[0].name, "printf");
    assert_true(seen->imports[0].is_present);
    assert_int_equal(seen->export_count, 6);
    assert_int_equal(seen->bytes.in_place, sizeof(file.rodata));
    assert_true(seen->bytes.load > sizeof(file.text) + sizeof(file.data));
    assert_false(seen->io_meta.is_present || seen->manifest.is_present);
    c7x_inspection_free(seen);
}

static void the_wrong_device_is_named(void **state)
{
    (void)state;
    c7x_builder_finish(&builder);
    expect(C7X_INSPECT_DEVICE_BOARD, "");
    expect(C7X_INSPECT_DEVICE_HOST, "built for C7x; this device executes ");
    file.header.machine = 140;
    expect(C7X_INSPECT_DEVICE_BOARD, "built for machine 140; this device executes C7x");
}

static void missing_imports_are_shown(void **state)
{
    (void)state;
    (void)c7x_builder_import(&builder, "appUdmaGetObj", 1);
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_int_equal(seen->status, C7X_SYMBOL);
    assert_false(seen->imports[0].is_present);
    assert_non_null(strstr(seen->reason, "(export table version 3, "));
    assert_non_null(strstr(seen->reason, ") does not export: appUdmaGetObj"));
    c7x_inspection_free(seen);
}

static void a_module_without_an_entry_does_not_load(void **state)
{
    (void)state;
    file.symbols[C7X_FILE_SYMBOL_ENTRY].info = 0; /* local */
    c7x_builder_finish(&builder);
    expect(C7X_INSPECT_DEVICE_OWN, "no entry cg_main_dsp");
}

/* And what it needs is shown all the same. */
static void what_is_too_large_does_not_fit(void **state)
{
    (void)state;
    file.segments[C7X_FILE_DATA].memsz = 1ull << 30;
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_int_equal(seen->status, C7X_NOMEM);
    assert_non_null(strstr(seen->reason, "segment 2 needs 1073741824 bytes; free "));
    assert_int_equal(seen->segment_count, 3);
    assert_int_equal(seen->export_count, 6);
    assert_true(seen->bytes.load > 1ull << 30);
    assert_int_equal(seen->bytes.heap_total, 0x16000000);
    c7x_inspection_free(seen);
    file.segments[C7X_FILE_DATA].memsz = 1ull << 50;
    expect(C7X_INSPECT_DEVICE_OWN, "segment 2");
}

/* A manifest with one record, in the read-only data. */
static void put_manifest(uint32_t tag, const void *payload, uint32_t size)
{
    const uint32_t total = sizeof(struct c7x_manifest_header) + sizeof(struct c7x_manifest_record) +
                           (size + 7) / 8 * 8;
    const struct c7x_manifest_header header = {C7X_MANIFEST_MAGIC, C7X_MANIFEST_MAJOR, 0, total, 1};
    const struct c7x_manifest_record record = {tag, size};
    memcpy(file.rodata, &total, sizeof(total));
    memcpy(file.rodata + 8, &header, sizeof(header));
    memcpy(file.rodata + 8 + sizeof(header), &record, sizeof(record));
    memcpy(file.rodata + 8 + sizeof(header) + sizeof(record), payload, size);
}

static void export_manifest(void)
{
    (void)c7x_builder_symbol(&builder, "_binary_c7x_manifest_size", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata));
    (void)c7x_builder_symbol(&builder, "_binary_c7x_manifest_start", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata) + 8);
    c7x_builder_finish(&builder);
}

static void l2_is_as_large_as_the_devices(void **state)
{
    uint64_t bytes = C7X_MEMORY_L2_SIZE;
    (void)state;
    export_manifest();
    put_manifest(C7X_MANIFEST_L2_BYTES, &bytes, sizeof(bytes));
    expect(C7X_INSPECT_DEVICE_OWN, "");
    bytes++;
    put_manifest(C7X_MANIFEST_L2_BYTES, &bytes, sizeof(bytes));
    expect(C7X_INSPECT_DEVICE_OWN, "needs 1310721 bytes of L2; the device has 1310720");
}

/* A C7x has none of them, whatever the processor that inspects. */
static void variants_are_for_the_features_of_the_device(void **state)
{
    static const char variant[] = "cg_fast\0sse2";
    (void)state;
    export_manifest();
    put_manifest(C7X_MANIFEST_VARIANT, variant, sizeof(variant) - 1);
    expect(C7X_INSPECT_DEVICE_BOARD, "");
}

static void hooks_must_be_code(void **state)
{
    (void)state;
    c7x_builder_dynamic(&builder, C7X_ELF_DT_FINI, C7X_FILE_AT(data));
    c7x_builder_finish(&builder);
    expect(C7X_INSPECT_DEVICE_OWN, "DT_FINI: 0x");
    file.dynamic[builder.dynamic_count - 12].value = C7X_FILE_AT(text);
    expect(C7X_INSPECT_DEVICE_OWN, "");
}

static void texts_are_one_line_of_utf_8(void **state)
{
    (void)state;
    (void)c7x_builder_symbol(&builder, "a\n\x1b[\xc2\x9b\xff.\xc3\xa4\xe2\x82\xac", 1,
                             C7X_FILE_S_DATA, C7X_FILE_AT(data));
    (void)c7x_builder_import(&builder, "no\nbody", 1);
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_string_equal(seen->exports[6].name, "a??[???.\xc3\xa4\xe2\x82\xac");
    assert_string_equal(seen->imports[0].name, "no?body");
    assert_non_null(strstr(seen->reason, "does not export: no?body"));
    c7x_inspection_free(seen);
}

static void every_constant_is_described(void **state)
{
    static const struct {
        uint64_t count;
        uint32_t type;
        uint64_t magic, reserved;
        int32_t device_type, device_id, ndim;
        uint8_t code, bits, lanes[2];
        int64_t shape[9];
        int64_t bytes;
        uint8_t data[8];
        uint32_t shape_type;
        uint64_t dimensions;
    } __attribute__((packed)) weights = {2, 70,     0xDD5E40F096B4A13Full,       0, 1,   0,  9, 0,
                                         4, {3, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 5}, 8, {1}, 69, 0};
    static const uint32_t weights_size = sizeof(weights);
    (void)state;
    memcpy(file.rodata, &weights_size, sizeof(weights_size));
    memcpy(file.rodata + 8, &weights, sizeof(weights));
    (void)c7x_builder_symbol(&builder, "_binary_weights_bin_size", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata));
    (void)c7x_builder_symbol(&builder, "_binary_weights_bin_start", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata) + 8);
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_string_equal(seen->reason, "");
    assert_int_equal(seen->constant_count, 2);
    assert_string_equal(seen->constants[0].kind, "tensor");
    assert_int_equal(seen->constants[0].ndim, 9);
    assert_int_equal(seen->constants[0].shape[8], 5);
    assert_int_equal(seen->constants[0].dtype_lanes, 3);
    assert_int_equal(seen->constants[0].bytes, 8); /* 5 x 3 x 4 bits */
    assert_string_equal(seen->constants[1].kind, "shape");
    assert_int_equal(seen->constants[1].ndim, -1);
    c7x_inspection_free(seen);
}

static void a_declaration_of_nothing_is_one(void **state)
{
    static const uint32_t meta[10] = {0x4D4F4954u, 1};
    (void)state;
    memcpy(file.rodata, meta, sizeof(meta));
    (void)c7x_builder_symbol(&builder, "_binary_tvm_dsp_io_meta_start", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata));
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_true(seen->io_meta.is_present);
    c7x_inspection_free(seen);
}

static void io_meta_and_weights_are_read(void **state)
{
    static const uint32_t meta[10] = {0x4D4F4954u, 1, 2, 3, 640, 0, 1280, 0, 1, 0};
    static const struct {
        uint64_t count;
        uint32_t type;
        uint8_t value[8];
        uint8_t pad[4];
    } weights = {1, 1, {5}, {0}};
    static const uint32_t weights_size = 20;
    (void)state;
    memcpy(file.rodata, meta, sizeof(meta));
    memcpy(file.rodata + 0x40, &weights, weights_size);
    memcpy(file.rodata + 0x60, &weights_size, sizeof(weights_size));
    (void)c7x_builder_symbol(&builder, "_binary_tvm_dsp_io_meta_start", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata));
    (void)c7x_builder_symbol(&builder, "_binary_weights_bin_start", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata) + 0x40);
    (void)c7x_builder_symbol(&builder, "_binary_weights_bin_size", 1, C7X_FILE_S_RODATA,
                             C7X_FILE_AT(rodata) + 0x60);
    c7x_builder_finish(&builder);
    const struct c7x_inspection *seen = inspect(&file, sizeof(file), C7X_INSPECT_DEVICE_OWN);
    assert_int_equal(seen->status, C7X_OK);
    assert_int_equal(seen->io_meta.input_count, 2);
    assert_int_equal(seen->bytes.output, 1280);
    assert_int_equal(seen->constant_bytes, weights_size);
    assert_int_equal(seen->constant_count, 1);
    assert_int_equal(seen->constants[0].ndim, -1);
    c7x_inspection_free(seen);
}

static void other_bytes_are_refused(void **state)
{
    (void)state;
    const struct c7x_inspection *seen = inspect("text", 4, C7X_INSPECT_DEVICE_OWN);
    assert_int_equal(seen->status, C7X_LOAD);
    assert_null(seen->machine);
    c7x_inspection_free(seen);
    seen = inspect(NULL, 0, C7X_INSPECT_DEVICE_BOARD);
    assert_int_equal(seen->status, C7X_LOAD);
    c7x_inspection_free(seen);
    c7x_inspection_free(NULL);
}

static void inspect_damaged(uint8_t *bytes, size_t size, unsigned round)
{
    for (unsigned i = 0; i < 1 + round % 4; i++)
        bytes[(size_t)rand() % size] = (uint8_t)(rand() % 3 == 0 ? 0xff : rand());
    c7x_inspection_free(inspect(bytes, size, round % 3));
}

static void damage_is_survived(void **state)
{
    static struct elf_file native;
    static struct elf_file damaged_native;
    struct elf_builder native_builder;
    (void)state;
    c7x_builder_finish(&builder);
    elf_builder_init(&native_builder, &native);
    elf_builder_finish(&native_builder);
    srand(1);
    for (unsigned round = 0; round < 500; round++) {
        struct c7x_file damaged = file;
        inspect_damaged((uint8_t *)&damaged, sizeof(damaged), round);
        damaged_native = native;
        inspect_damaged((uint8_t *)&damaged_native, 0xa00, round);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_c7x_file_is_shown_as_a_board_has_it),
        TEST(the_wrong_device_is_named),
        TEST(missing_imports_are_shown),
        TEST(a_module_without_an_entry_does_not_load),
        TEST(what_is_too_large_does_not_fit),
        TEST(l2_is_as_large_as_the_devices),
        TEST(variants_are_for_the_features_of_the_device),
        TEST(hooks_must_be_code),
        TEST(texts_are_one_line_of_utf_8),
        TEST(every_constant_is_described),
        TEST(a_declaration_of_nothing_is_one),
        TEST(io_meta_and_weights_are_read),
        TEST(other_bytes_are_refused),
        TEST(damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

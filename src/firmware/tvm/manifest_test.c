/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/manifest.h"

#include "c7x_module.h"
#include "firmware/loader/arch/arch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (1u << 20)

static _Alignas(8) uint8_t bytes[1024];
static uint32_t size_word;
static uint32_t at;
static struct c7x_io_meta meta;
static struct c7x_heap *heap;
static uint8_t *region;
static struct c7x_error error;
static struct c7x_manifest manifest;

static void *find(const struct c7x_symbol_source *source, const char *name)
{
    (void)source;
    if (strcmp(name, "_binary_c7x_manifest_start") == 0)
        return bytes;
    if (strcmp(name, "_binary_c7x_manifest_size") == 0)
        return &size_word;
    return strcmp(name, "_binary_tvm_dsp_io_meta_start") == 0 ? &meta : NULL;
}

static uint64_t extent(const struct c7x_symbol_source *source, const void *address)
{
    (void)source;
    if (address == &meta)
        return sizeof(meta);
    return address == bytes ? sizeof(bytes) : 4;
}

static const struct c7x_symbol_source symbols = {.find = find, .extent = extent};

static struct c7x_manifest_header *header(void)
{
    return (struct c7x_manifest_header *)(void *)bytes;
}

static void record(uint32_t tag, const void *payload, uint32_t size)
{
    struct c7x_manifest_record head = {tag, size};
    memcpy(bytes + at, &head, sizeof(head));
    memcpy(bytes + at + sizeof(head), payload, size);
    at += (uint32_t)sizeof(head) + (size + 7u) / 8u * 8u;
    header()->record_count++;
    header()->total_bytes = at;
    size_word = at;
}

static void remove_records(void)
{
    header()->record_count = 0;
    at = size_word = header()->total_bytes = sizeof(*header());
}

static int set_up(void **state)
{
    (void)state;
    memset(bytes, 0, sizeof(bytes));
    *header() = (struct c7x_manifest_header){C7X_MANIFEST_MAGIC, C7X_MANIFEST_MAJOR, 7, 16, 0};
    at = size_word = sizeof(*header());
    region = aligned_alloc(4096, HEAP_BYTES);
    heap = c7x_heap_create(region, HEAP_BYTES, "test");
    return 0;
}

static int tear_down(void **state)
{
    struct c7x_heap_statistics now;
    (void)state;
    c7x_heap_get_statistics(heap, &now);
    assert_int_equal(now.block_count, 0);
    c7x_heap_destroy(heap);
    free(region);
    return 0;
}

static enum c7x_status read_manifest(void)
{
    return c7x_manifest_read(&symbols, heap, C7X_HEAP_SERVICE, &manifest, &error);
}

static struct c7x_module_io read_io_meta(void)
{
    struct c7x_module_io io;
    (void)c7x_io_meta_read(&symbols, &io);
    return io;
}

static void said(const char *text)
{
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
}

static void refused(const char *text)
{
    assert_int_equal(read_manifest(), C7X_LOAD);
    said(text);
}

/* An empty list is what every processor has. */
static void the_last_variant_that_the_processor_can_run_is_called(void **state)
{
    static const char first[] = "first\0";
    static const char best[] = "best\0";
    static const char other[] = "other\0feature_of_tomorrow";
    (void)state;
    assert_int_equal(read_manifest(), C7X_OK);
    assert_string_equal(manifest.entry, "");
    c7x_heap_free(heap, manifest.inputs);
    record(C7X_MANIFEST_VARIANT, other, sizeof(other) - 1);
    assert_int_equal(read_manifest(), C7X_OK);
    assert_string_equal(manifest.entry, "");
    c7x_heap_free(heap, manifest.inputs);
    record(C7X_MANIFEST_VARIANT, first, sizeof(first) - 1);
    record(C7X_MANIFEST_VARIANT, best, sizeof(best) - 1);
    record(C7X_MANIFEST_VARIANT, other, sizeof(other) - 1);
    assert_int_equal(read_manifest(), C7X_OK);
    assert_string_equal(manifest.entry, "best");
    c7x_heap_free(heap, manifest.inputs);
}

static void a_variant_names_its_entry(void **state)
{
    char name[C7X_MANIFEST_NAME_BYTES + 1] = {0};
    (void)state;
    record(C7X_MANIFEST_VARIANT, "never ends", 10);
    refused("a variant has no entry");
    remove_records();
    record(C7X_MANIFEST_VARIANT, "\0avx", 4);
    refused("a variant has no entry");
    remove_records();
    memset(name, 'x', C7X_MANIFEST_NAME_BYTES);
    record(C7X_MANIFEST_VARIANT, name, sizeof(name));
    refused("too long a name");
}

static void records_are_read_and_unknown_ones_skipped(void **state)
{
    const uint64_t l2_bytes = 4096;
    struct {
        struct c7x_manifest_tensor tensor;
        int64_t shape[2];
        char name[6];
    } input = {{kDLInt, 8, 1, 2}, {3, -1}, "image"};
    (void)state;
    record(999, "abc", 3);
    record(C7X_MANIFEST_L2_BYTES, &l2_bytes, sizeof(l2_bytes));
    record(C7X_MANIFEST_INPUT, &input, 8 + 16 + 6);
    assert_int_equal(read_manifest(), C7X_OK);
    assert_true(manifest.present);
    assert_int_equal(manifest.l2_bytes, 4096);
    assert_int_equal(manifest.input_count, 1);
    assert_int_equal(manifest.inputs[0].ndim, 2);
    assert_int_equal(manifest.inputs[0].shape[1], -1);
    assert_string_equal(manifest.inputs[0].name, "image");
    c7x_heap_free(heap, manifest.inputs);
}

static void lacking_features_are_listed_with_those_present(void **state)
{
    static const char list[] = "made_up_1 made_up_2";
    (void)state;
    record(C7X_MANIFEST_CPU_FEATURES, list, sizeof(list) - 1);
    assert_int_equal(c7x_manifest_check(&symbols, true, &error), C7X_LOAD);
    said("built for a processor with made_up_1 made_up_2; lacking: made_up_1 made_up_2; "
         "this processor has:");
#if defined(__x86_64__)
    assert_non_null(strstr(error.text, " sse2"));
#endif
}

static void features_that_the_processor_has_pass(void **state)
{
    (void)state;
#if defined(__x86_64__)
    record(C7X_MANIFEST_CPU_FEATURES, " sse2  pni ", 11);
#endif
    record(C7X_MANIFEST_CPU_FEATURES, "", 0);
    assert_int_equal(c7x_manifest_check(&symbols, true, &error), C7X_OK);
}

/* Nothing of it will run here. */
static void features_of_another_processor_are_not_asked_for(void **state)
{
    (void)state;
    record(C7X_MANIFEST_CPU_FEATURES, "made_up", 7);
    assert_int_equal(c7x_manifest_check(&symbols, false, &error), C7X_OK);
    header()->major = 2;
    assert_int_equal(c7x_manifest_check(&symbols, false, &error), C7X_LOAD);
}

static void damage_is_named(void **state)
{
    const struct c7x_manifest_tensor deep = {kDLInt, 8, 1, 9};
    (void)state;
    record(C7X_MANIFEST_INPUT, &deep, sizeof(deep));
    refused("more than 8 dimensions");
    header()->record_count = 2;
    bytes[sizeof(struct c7x_manifest_header)] = 99;
    refused("a record passes its end");
    bytes[sizeof(struct c7x_manifest_header) + 4] = 255;
    refused("payload of a record");
    header()->total_bytes = 4000;
    refused("longer than its bytes");
    header()->major = 2;
    refused("version 2.7; this firmware reads version 1.0");
    header()->magic = 1;
    refused("bad magic");
    size_word = 3;
    refused("shorter than its header");
}

static void a_manifest_that_passes_its_segment_is_none(void **state)
{
    (void)state;
    size_word = sizeof(bytes) + 1;
    assert_int_equal(read_manifest(), C7X_OK);
    assert_false(manifest.present);
}

static void io_meta_of_another_version_counts_as_none(void **state)
{
    (void)state;
    meta = (struct c7x_io_meta){C7X_IO_META_MAGIC, C7X_IO_META_VERSION, 1, 2, 300, 400, 1, 0};
    assert_int_equal(read_io_meta().output_bytes, 400);
    assert_int_equal(read_io_meta().flags, 1);
    meta.version = 2;
    assert_int_equal(read_io_meta().output_bytes, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_are_read_and_unknown_ones_skipped),
        TEST(the_last_variant_that_the_processor_can_run_is_called),
        TEST(a_variant_names_its_entry),
        TEST(lacking_features_are_listed_with_those_present),
        TEST(features_that_the_processor_has_pass),
        TEST(features_of_another_processor_are_not_asked_for),
        TEST(damage_is_named),
        TEST(a_manifest_that_passes_its_segment_is_none),
        TEST(io_meta_of_another_version_counts_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

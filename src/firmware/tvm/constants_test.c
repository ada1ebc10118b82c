/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/constants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (4u << 20)

static uint8_t *region;
static struct c7x_heap *heap;
static struct c7x_error error;
static uint8_t blob[4096];
static size_t blob_size;

static int set_up(void **state)
{
    (void)state;
    region = aligned_alloc(4096, HEAP_BYTES);
    heap = c7x_heap_create(region, HEAP_BYTES, "test");
    blob_size = 0;
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

static void put(const void *bytes, size_t size)
{
    memcpy(blob + blob_size, bytes, size);
    blob_size += size;
}

static void put_i32(int32_t value)
{
    put(&value, sizeof(value));
}

static void put_u64(uint64_t value)
{
    put(&value, sizeof(value));
}

static void put_zeros(size_t size)
{
    memset(blob + blob_size, 0, size);
    blob_size += size;
}

/* A tensor of int16. */
static void put_tensor(int32_t ndim, const int64_t *shape, int64_t bytes, const void *data)
{
    const DLDataType dtype = {kDLInt, 16, 1};
    put_i32(kTVMFFITensor);
    put_u64(C7X_WEIGHTS_TENSOR_MAGIC);
    put_u64(0);
    put_i32(kDLCPU);
    put_i32(0);
    put_i32(ndim);
    put(&dtype, sizeof(dtype));
    put(shape, (size_t)ndim * sizeof(*shape));
    put_u64((uint64_t)bytes);
    if (data != NULL)
        put(data, (size_t)bytes);
}

static enum c7x_status load(size_t size, struct c7x_constants *out)
{
    enum c7x_status status;
    uint8_t *exact = malloc(size + 1); /* so that a sanitizer sees a read past the end */
    memcpy(exact, blob, size);
    status = c7x_constants_load(exact, size, heap, c7x_heap_owner_new(heap), out, &error);
    if (status != C7X_OK)
        free(exact);
    return status;
}

static void refused(const char *text)
{
    struct c7x_constants constants;
    assert_int_equal(load(blob_size, &constants), C7X_WEIGHTS);
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
    blob_size = 0;
}

static const int64_t shape_2_2[2] = {2, 2};
static const int16_t numbers[4] = {1, -2, 3, -4};

static void put_one_of_each(void)
{
    const int64_t long_shape[10] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2};
    const double pi = 3.25;
    put_u64(7);
    put_zeros(3);
    put_tensor(2, shape_2_2, 8, numbers);
    put_i32(kTVMFFIInt);
    put_u64((uint64_t)-5);
    put_zeros(5);
    put_i32(kTVMFFIFloat);
    put(&pi, sizeof(pi));
    put_i32(kTVMFFIStr);
    put_u64(3);
    put("abc", 3);
    put_i32(kTVMFFIShape);
    put_u64(10);
    put(long_shape, sizeof(long_shape));
    put_i32(kTVMFFIDataType);
    put("\002\040\001\000", 4);
    put_tensor(10, long_shape, 8, numbers);
}

static void every_type_is_read(void **state)
{
    struct c7x_constants c;
    const TVMDSPTensor *tensor;
    (void)state;
    put_one_of_each();
    assert_int_equal(c7x_constants_load(blob, blob_size, heap, 0, &c, &error), C7X_OK);
    assert_int_equal(c.count, 7);
    tensor = c.values[0].v_ptr;
    assert_int_equal(tensor->dl_tensor.ndim, 2);
    assert_int_equal(tensor->dl_tensor.shape[1], 2);
    assert_int_equal(tensor->header.ref_counter, 1);
    assert_memory_equal(tensor->dl_tensor.data, numbers, sizeof(numbers));
    assert_true((uint8_t *)tensor->dl_tensor.data > blob &&
                (uint8_t *)tensor->dl_tensor.data < blob + blob_size);
    assert_int_equal(c.values[1].v_int64, -5);
    assert_true(c.values[2].v_float64 == 3.25);
    assert_memory_equal(((TVMDSPString *)c.values[3].v_ptr)->data, "abc", 3);
    assert_int_equal(((TVMDSPShape *)c.values[4].v_ptr)->data[9], 2);
    assert_int_equal(c.values[5].v_dtype.bits, 32);
    tensor = c.values[6].v_ptr;
    assert_int_equal(tensor->dl_tensor.shape[9], 2);
    c7x_constants_unload(&c);
}

static void no_constants_are_legal(void **state)
{
    struct c7x_constants constants;
    (void)state;
    put_u64(0);
    assert_int_equal(c7x_constants_load(blob, blob_size, heap, 0, &constants, &error), C7X_OK);
    assert_int_equal(constants.count, 0);
    c7x_constants_unload(&constants);
    c7x_constants_unload(&constants);
}

static void every_cut_is_refused(void **state)
{
    struct c7x_constants constants;
    (void)state;
    put_one_of_each();
    for (size_t size = 0; size < blob_size; size++)
        assert_int_equal(load(size, &constants), C7X_WEIGHTS);
}

static void lies_are_named(void **state)
{
    const int64_t negative[2] = {-2, 2};
    const int64_t huge[2] = {INT64_MAX, INT64_MAX};
    (void)state;
    put_u64(C7X_WEIGHTS_COUNT_MAX + 1);
    refused("4097 constants");
    put_u64(1);
    put_i32(72);
    refused("unknown type index 72");
    put_u64(1);
    put_tensor(2, shape_2_2, 10, NULL);
    refused("10 bytes of data, but its shape has 8");
    put_u64(1);
    put_tensor(2, negative, 8, numbers);
    refused("negative or too large");
    put_u64(1);
    put_tensor(2, huge, 8, numbers);
    refused("negative or too large");
    put_u64(1);
    put_tensor(2, shape_2_2, 8, NULL);
    refused("8 bytes of data pass the end");
    put_u64(1);
    put_i32(kTVMFFIStr);
    put_u64(UINT64_MAX);
    refused("string of 18446744073709551615 bytes");
    put_u64(1);
    put_i32(kTVMFFIShape);
    put_u64(UINT64_MAX / 8);
    refused("dimensions pass the end");
}

static void a_wrong_rank_is_named(void **state)
{
    (void)state;
    put_u64(1);
    put_tensor(2, shape_2_2, 8, numbers);
    blob[8 + 4 + 16 + 8] = 17;
    refused("rank 17");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_type_is_read), TEST(no_constants_are_legal), TEST(every_cut_is_refused),
        TEST(lies_are_named),     TEST(a_wrong_rank_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

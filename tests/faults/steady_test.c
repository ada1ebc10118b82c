/* SPDX-License-Identifier: Apache-2.0 */
/* What an inference costs beside the module's own work, once the first ones have been: nothing is
 * allocated, by firmware or client, and the output is computed where the client reads it. */
#define _GNU_SOURCE
#include "support/calls.h"
#include "support/environment.h"
#include "support/loopback_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 1024
#define FIRST 3 /* inferences that may find out how much they need */
#define ROUNDS 100

/* ---- Counting what the process allocates ---- */

static _Atomic unsigned long allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    (void)atomic_fetch_add(&allocations, 1);
    return __libc_realloc(block, size);
}
#endif

/* ---- The inferences ---- */

static struct c7x_test_loopback *device;
static struct c7x_client *client;
static uint32_t handle;
static float numbers[COUNT];

static int set_up(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    client = c7x_test_loopback_open(device, NULL);
    handle = c7x_test_dyn_load(client, "in_place");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_client_close(client);
    c7x_test_loopback_stop(device);
    return 0;
}

static uint64_t heap_allocations(void)
{
    struct c7x_heap_statistics heap;
    c7x_test_loopback_heap(device, &heap);
    return heap.allocation_count;
}

static void infer(float first)
{
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {COUNT}};
    struct c7x_client_tensor output;
    int count = 1;
    numbers[0] = first;
    numbers[COUNT - 1] = first + 1;
    if (c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL) != C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(client));
    assert_true(((const float *)output.data)[0] == 2 * first);
    assert_true(((const float *)output.data)[COUNT - 1] == 2 * first + 2);
}

static void the_firmware_allocates_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < FIRST; i++)
        infer((float)i);
    uint64_t before = heap_allocations();
    for (int i = 0; i < ROUNDS; i++)
        infer((float)i);
    assert_int_equal(heap_allocations(), before);
}

/* Each run has the workspace of the one before. */
static void runs_that_are_repeated_take_no_more(void **state)
{
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {COUNT}};
    struct c7x_client_tensor output;
    int count = 1;
    (void)state;
    for (int i = 0; i < FIRST; i++)
        infer((float)i);
    uint64_t before = heap_allocations();
    assert_int_equal(
        c7x_client_infer_repeat(client, handle, 0, &input, 1, &output, &count, NULL, 10 * ROUNDS),
        C7X_OK);
    assert_int_equal(heap_allocations(), before);
}

static void neither_does_the_client(void **state)
{
    (void)state;
#ifndef COUNTS_ALLOCATIONS
    print_message("skipped: a sanitizer has the allocator\n");
    skip();
#endif
    for (int i = 0; i < FIRST; i++)
        infer((float)i);
    unsigned long before = atomic_load(&allocations);
    for (int i = 0; i < ROUNDS; i++)
        infer((float)i);
    assert_int_equal(atomic_load(&allocations), before);
    assert_true(before > 0); /* it does count */
}

/* The module fails on a negative number when it is given no place in the window. */
static void outputs_are_computed_in_the_window(void **state)
{
    (void)state;
    for (int i = 0; i < ROUNDS; i++)
        infer(-1);
}

/* Reads its input while it writes its output, had it been given the window. */
static void an_input_in_the_window_is_read_first(void **state)
{
    struct c7x_client_tensor input = {NULL, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {COUNT}};
    struct c7x_client_tensor output;
    size_t size;
    int count = 1;
    (void)state;
    infer(1);
    input.data = c7x_client_get_output_buffer(client, &size);
    assert_true(size >= sizeof numbers);
    memset(input.data, 0, sizeof numbers);
    ((float *)input.data)[0] = 21;
    assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL), C7X_OK);
    assert_true(((const float *)output.data)[0] == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_firmware_allocates_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_that_are_repeated_take_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(neither_does_the_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(outputs_are_computed_in_the_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_input_in_the_window_is_read_first, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

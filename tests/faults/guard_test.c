/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that write and read behind the end of their blocks, on a core with a guarded heap. */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "support/calls.h"
#include "support/emulator_device.h"
#include "support/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 200 /* in full */

static struct c7x_test_emulator emulator;
static struct c7x_client *client;
static struct c7x_client *neighbour; /* another client of the same core */
static uint32_t neighbours_module;

static int start_with(const char *guard)
{
    setenv("C7X_GUARD", guard, 1);
    c7x_test_emulator_start(&emulator);
    unsetenv("C7X_GUARD");
    client = c7x_test_emulator_open(&emulator);
    neighbour = c7x_test_emulator_open(&emulator);
    neighbours_module = c7x_test_dyn_load(neighbour, "add_one");
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with("1");
}

static int start_unguarded(void **state)
{
    (void)state;
    return start_with("0");
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    c7x_client_close(neighbour);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

static enum c7x_status run(uint32_t handle, int32_t fault)
{
    struct c7x_client_tensor input = {&fault, sizeof fault, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    enum c7x_status status = c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL);
    if (status == C7X_OK)
        assert_int_equal(*(const int32_t *)output.data, fault);
    return status;
}

static const struct {
    int32_t fault;
    const char *text;
} overruns[] = {
    {FAULT_HEAP_MALLOC, ", 12 bytes behind the end of a block of 100 bytes"},
    {FAULT_HEAP_ALLOC, ", 32 bytes behind the end of a block of 4000 bytes"},
    {FAULT_HEAP_PAGES, ", 0 bytes behind the end of a block of 8192 bytes"},
    {FAULT_HEAP_WORKSPACE, ", 24 bytes behind the end of a block of 1000 bytes"},
    {FAULT_HEAP_STORAGE, ", 12 bytes behind the end of a block of 500 bytes"},
    {FAULT_HEAP_EXPORT, " bytes behind the end of a block of 600 bytes"},
};
#define OVERRUNS (sizeof overruns / sizeof overruns[0])

static void run_to_overrun(uint32_t handle, size_t i, int32_t where)
{
    const char *said;
    assert_int_equal(run(handle, overruns[i].fault + where), C7X_FAULT);
    said = c7x_client_last_error(client);
    if (strstr(said, "heap overrun at 0x") == NULL || strstr(said, overruns[i].text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", said, overruns[i].text);
}

static void an_overrun_is_a_fault_of_its_own_request(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    for (size_t i = 0; i < 2 * OVERRUNS; i++) {
        uint32_t handle = c7x_test_dyn_load(client, "faults");
        assert_int_equal(run(handle, FAULT_NONE), C7X_OK);
        run_to_overrun(handle, i / 2, i % 2 != 0 ? FAULT_IN_SECTION : 0);
        c7x_test_call_add_one(neighbour, neighbours_module, 1);
        assert_int_equal(run(handle, FAULT_NONE), C7X_FAULTED);
        assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    }
}

static void what_stays_inside_is_none(void **state)
{
    uint32_t handle = c7x_test_dyn_load(client, "faults");
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(handle, FAULT_HEAP_FITS), C7X_OK);
        assert_int_equal(run(handle, FAULT_HEAP_FREES), C7X_OK);
        c7x_test_call_add_one(neighbour, neighbours_module, 1);
    }
}

static void other_faults_are_what_they_were(void **state)
{
    uint32_t handle;
    c7x_test_needs_signals();
    (void)state;
    handle = c7x_test_dyn_load(client, "faults");
    assert_int_equal(run(handle, FAULT_WRITE), C7X_FAULT);
    assert_non_null(strstr(c7x_client_last_error(client), "segmentation fault at 0x8 "));
}

static struct c7x_pool_info heap_now(void)
{
    struct c7x_pool_info *pools;
    struct c7x_pool_info heap;
    size_t count;
    assert_int_equal(c7x_client_list_pools(neighbour, &pools, &count), C7X_OK);
    heap = pools[0];
    c7x_list_free(pools);
    return heap;
}

/* Also the pages: the memory of those that faulted is used again, by others and to the last byte.
 */
static void many_overruns_leave_nothing_behind(void **state)
{
    struct c7x_pool_info before;
    struct c7x_pool_info after;
    c7x_test_needs_signals();
    (void)state;
    c7x_client_close(client);
    client = NULL;
    c7x_test_call_add_one(neighbour, neighbours_module,
                          1); /* its first call takes memory that it keeps */
    before = heap_now();
    for (int round = 0; round < c7x_test_rounds(ROUNDS); round++) {
        if (round % 10 == 0) {
            c7x_client_close(client);
            client = c7x_test_emulator_open(&emulator);
        }
        uint32_t handle = c7x_test_dyn_load(client, "faults");
        assert_int_equal(run(handle, FAULT_HEAP_FITS), C7X_OK);
        run_to_overrun(handle, (size_t)round % OVERRUNS, 0);
        if (round % 3 == 0)
            assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    }
    c7x_client_close(client);
    client = NULL;
    C7X_TEST_WAIT_UNTIL(heap_now().block_count == before.block_count, 1000);
    after = heap_now();
    assert_int_equal(after.free, before.free);
    assert_int_equal(after.largest, before.largest);
}

static void without_guards_such_calls_go_on(void **state)
{
    uint32_t handle = c7x_test_dyn_load(client, "faults");
    (void)state;
    assert_int_equal(run(handle, FAULT_HEAP_FITS), C7X_OK);
    assert_int_equal(run(handle, FAULT_HEAP_FREES), C7X_OK);
    assert_int_equal(run(handle, FAULT_HEAP_MALLOC), C7X_OK); /* still within the block */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_overrun_is_a_fault_of_its_own_request),
        TEST(what_stays_inside_is_none),
        TEST(other_faults_are_what_they_were),
        TEST(many_overruns_leave_nothing_behind),
        cmocka_unit_test_setup_teardown(without_guards_such_calls_go_on, start_unguarded, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

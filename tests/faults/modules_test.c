/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that go wrong on a core that others use, too: each fault is its own request's. */
#define _GNU_SOURCE
#include "support/calls.h"
#include "support/faults.h"
#include "c7x_compute_client.h"
#include "support/emulator_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOON_MS 30000
#define MIXED_ROUNDS 500 /* in full */

static struct c7x_test_emulator emulator;
static struct c7x_client *client;
static struct c7x_client *neighbour; /* another client of the same core */
static uint32_t neighbours_module;
static pid_t core_pid;

static struct c7x_test_printed printed; /* by the client's modules */

static int start(void **state)
{
    (void)state;
    setenv("C7X_WATCHDOG", "0.1", 1); /* seconds */
    c7x_test_emulator_start(&emulator);
    unsetenv("C7X_WATCHDOG");
    client = c7x_test_emulator_open_printing(&emulator, &printed);
    neighbour = c7x_test_emulator_open(&emulator);
    neighbours_module = c7x_test_dyn_load(neighbour, "add_one");
    core_pid = c7x_test_emulator_core_pid(&emulator);
    return 0;
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

/* A run that must end so. */
static void run_to(uint32_t handle, int32_t fault, enum c7x_status expected)
{
    enum c7x_status status = run(handle, fault);
    if (status != expected)
        fail_msg("fault %d: %s, not %s", fault, c7x_status_name(status), c7x_status_name(expected));
}

static void assert_said(const char *text)
{
    if (strstr(c7x_client_last_error(client), text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", c7x_client_last_error(client), text);
}

static const struct {
    int32_t fault;
    enum c7x_status status;
    const char *text;
} faults[] = {
    {FAULT_READ, C7X_FAULT, "segmentation fault at 0x8 "},
    {FAULT_WRITE, C7X_FAULT, "segmentation fault at 0x8 "},
    {FAULT_TEXT, C7X_FAULT, "segmentation fault at 0x"},
    {FAULT_JUMP, C7X_FAULT, "segmentation fault at 0x8 "},
#if defined(__x86_64__) /* AArch64 gives 0, and no fault; and its trap is another */
    {FAULT_ILLEGAL, C7X_FAULT, "illegal instruction at 0x"},
    {FAULT_DIVISION, C7X_FAULT, "division by zero at 0x"},
#endif
    {FAULT_STACK, C7X_FAULT, "stack overflow at 0x"},
    {FAULT_EXPORT, C7X_FAULT, "segmentation fault at 0x8 "},
    {FAULT_PRINTF, C7X_FAULT, "segmentation fault at 0x8 "},
    {FAULT_LOOP, C7X_FAULT, "stuck, and ended by the watchdog"},
    {FAULT_PRINTING_LOOP, C7X_FAULT, "stuck, and ended by the watchdog"},
    {FAULT_ABORT, C7X_CALL, "the module called abort"},
    {FAULT_RETURN, C7X_CALL, "the entry returned 7"},
};
#define FAULTS (sizeof faults / sizeof faults[0])

static int32_t fault_of(size_t i, bool in_section)
{
    return faults[i].fault + (in_section ? FAULT_IN_SECTION : 0);
}

/* What goes on afterwards: others, always; the module, unless it is quarantined; the file. */
static void assert_local(uint32_t handle, enum c7x_status status)
{
    c7x_test_call_add_one(neighbour, neighbours_module, 1);
    assert_int_equal(run(handle, FAULT_NONE), status == C7X_FAULT ? C7X_FAULTED : C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

static void each_fault_ends_its_own_request(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    for (size_t i = 0; i < 2 * FAULTS; i++) {
        size_t k = i / 2;
        uint32_t handle = c7x_test_dyn_load(client, "faults");
        if (faults[k].fault == FAULT_RETURN && i % 2 != 0)
            continue; /* it is not in a section */
        assert_int_equal(run(handle, FAULT_NONE), C7X_OK);
        run_to(handle, fault_of(k, i % 2 != 0), faults[k].status);
        assert_said(faults[k].text);
        assert_local(handle, faults[k].status);
    }
}

static void a_report_says_where_and_what_was_printed_last(void **state)
{
    char expected[64];
    uint32_t handle;
    c7x_test_needs_signals();
    handle = c7x_test_dyn_load(client, "faults");
    (void)state;
    assert_int_equal(run(handle, FAULT_WRITE + FAULT_IN_SECTION), C7X_FAULT);
    assert_said("in or behind critical section 1");
    snprintf(expected, sizeof expected, "module %u, ", (unsigned)handle);
    assert_said(expected);
    assert_said("last printed: about to do 102");
    assert_local(handle, C7X_FAULT);
    handle = c7x_test_dyn_load(client, "faults");
    assert_int_equal(run(handle, FAULT_EXPORT), C7X_FAULT);
    assert_said("in code of the firmware that it called");
    assert_local(handle, C7X_FAULT);
}

static void assert_not_loaded(const char *module, const char *text)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path(module, path);
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), C7X_FAULT);
    assert_said(text);
    c7x_test_call_add_one(neighbour, neighbours_module, 1);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

/* Constructors run at load, clean-up and destructors at unload: no call is under way then. */
static void faults_at_load_and_unload_are_local_too(void **state)
{
    struct c7x_module_info *modules;
    size_t count;
    c7x_test_needs_signals();
    (void)state;
    assert_not_loaded("constructor_crash", "DT_INIT_ARRAY: segmentation fault in ");
    assert_not_loaded("constructor_loop", "DT_INIT_ARRAY: stuck, and ended by the watchdog in ");
    assert_int_equal(c7x_client_dyn_unload(client, c7x_test_dyn_load(client, "clean_up_crash")),
                     C7X_OK);
    c7x_test_call_add_one(neighbour, neighbours_module, 1);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
    assert_int_equal(c7x_client_list_modules(client, &modules, &count), C7X_OK);
    assert_int_equal(count, 1); /* the neighbour's */
    c7x_list_free(modules);
}

/* The text of a call that never returned is there as that of any other. */
static void u47_what_was_printed_before_a_hang_is_there(void **state)
{
    uint32_t handle;
    c7x_test_needs_signals();
    (void)state;
    handle = c7x_test_dyn_load(client, "faults");
    printed.text[0] = '\0';
    assert_int_equal(run(handle, FAULT_LOOP), C7X_FAULT);
    assert_string_equal(printed.text, "about to do 10\n");
    assert_local(handle, C7X_FAULT);
}

struct state {
    uint64_t free_bytes;
    size_t module_count;
    int descriptors;
};

static struct state now(void)
{
    struct state state = {0};
    struct c7x_pool_info *pools;
    struct c7x_module_info *modules;
    size_t count;
    assert_int_equal(c7x_client_list_pools(neighbour, &pools, &count), C7X_OK);
    state.free_bytes = pools[0].free;
    c7x_list_free(pools);
    assert_int_equal(c7x_client_list_modules(neighbour, &modules, &state.module_count), C7X_OK);
    c7x_list_free(modules);
    state.descriptors = c7x_test_descriptor_count((pid_t)core_pid);
    return state;
}

/* The core closes what it had for a client some time after that has gone, all at once. */
static bool has_settled_below(int descriptors)
{
    int first = now().descriptors;
    c7x_test_sleep_ms(50);
    return first < descriptors && now().descriptors == first;
}

/* One after the other, in clients that come and go, and nothing is left of any. */
static void many_mixed_faults_leave_nothing_behind(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    c7x_test_call_add_one(neighbour, neighbours_module,
                          1); /* its first call takes memory that it keeps */
    int with_client = now().descriptors;
    c7x_client_close(client);
    client = NULL;
    C7X_TEST_WAIT_UNTIL(has_settled_below(with_client), SOON_MS);
    struct state before = now();
    srand(4);
    for (int round = 0; round < c7x_test_rounds(MIXED_ROUNDS); round++) {
        size_t k = (size_t)rand() % FAULTS;
        if (round % 10 == 0) {
            c7x_client_close(client);
            client = c7x_test_emulator_open_printing(&emulator, &printed);
        }
        uint32_t handle = c7x_test_dyn_load(client, "faults");
        run_to(handle, fault_of(k, false), faults[k].status);
        if (round % 3 == 0)
            assert_local(handle, faults[k].status);
    }
    c7x_client_close(client);
    client = NULL;
    C7X_TEST_WAIT_UNTIL(
        now().module_count == before.module_count && now().descriptors <= before.descriptors, 1000);
    struct state after = now();
    assert_int_equal(after.free_bytes, before.free_bytes);
    assert_int_equal(after.descriptors, before.descriptors);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_fault_ends_its_own_request),
        TEST(a_report_says_where_and_what_was_printed_last),
        TEST(u47_what_was_printed_before_a_hang_is_there),
        TEST(faults_at_load_and_unload_are_local_too),
        TEST(many_mixed_faults_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

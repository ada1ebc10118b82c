/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel regions in modules on a core with several threads: what goes wrong in a task on any of
 * them is its own request's, as without them. */
#define _GNU_SOURCE
#include "support/regions.h"
#include "c7x_compute_client.h"
#include "support/calls.h"
#include "support/emulator_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SOON_MS 30000
#define CALLS 30
#define ROUNDS 200 /* in full */
#define IDLE_MS 300

struct settings {
    int threads;
    const char *watchdog; /* seconds; short only where it is waited for */
};

static int threads; /* of the emulator */
static struct c7x_test_emulator emulator;
static struct c7x_client *client;
static struct c7x_client *neighbour; /* another client of the same core */
static uint32_t neighbours_module;
static pid_t core_pid;

static struct c7x_test_printed printed; /* by the client's modules */

static int start(void **state)
{
    char text[12];
    const struct settings *settings = *state;
    threads = settings->threads;
    snprintf(text, sizeof text, "%d", threads);
    setenv("C7X_THREADS", text, 1);
    setenv("C7X_WATCHDOG", settings->watchdog, 1);
    c7x_test_emulator_start(&emulator);
    unsetenv("C7X_WATCHDOG");
    unsetenv("C7X_THREADS");
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

static enum c7x_status run(uint32_t handle, int32_t what, int32_t task, int32_t *out_sum)
{
    int32_t words[REGION_INPUTS] = {what, task, 5};
    struct c7x_client_tensor input = {words, sizeof words,   1, C7X_DTYPE_INT, 32,
                                      0,     {REGION_INPUTS}};
    struct c7x_client_tensor output;
    int count = 1;
    enum c7x_status status = c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL);
    if (status == C7X_OK)
        *out_sum = *(const int32_t *)output.data;
    return status;
}

/* A run in which all goes well. */
static void run_well(uint32_t handle, int32_t what, int32_t tasks)
{
    int32_t sum;
    if (run(handle, what, REGION_EACH_TASK, &sum) != C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(client));
    assert_int_equal(sum, tasks);
}

static void run_to(uint32_t handle, int32_t what, int32_t task, enum c7x_status expected,
                   const char *text)
{
    int32_t sum;
    enum c7x_status status = run(handle, what, task, &sum);
    const char *said = c7x_client_last_error(client);
    if (status != expected || strstr(said, text) == NULL)
        fail_msg("%d in task %d: %s, \"%s\"", (int)what, (int)task, c7x_status_name(status), said);
}

static void tasks_of_many_regions_run_once(void **state)
{
    (void)state;
    uint32_t handle = c7x_test_dyn_load(client, "regions");
    for (int i = 0; i < CALLS; i++)
        run_well(handle, REGION_SUM, threads + REGION_COUNT * 5);
}

static const struct {
    int32_t what;
    enum c7x_status status;
    const char *text;
} faults[] = {
    {REGION_READ, C7X_FAULT, "segmentation fault at 0x8 in or behind critical section 1"},
#if defined(__x86_64__) /* AArch64 gives 0, and no fault */
    {REGION_DIVISION, C7X_FAULT, "division by zero at 0x"},
#endif
    {REGION_STACK, C7X_FAULT, "stack overflow at 0x"},
    {REGION_EXPORT, C7X_FAULT, "segmentation fault at 0x8 "},
    {REGION_LOOP, C7X_FAULT, "stuck, and ended by the watchdog in or behind critical section 1"},
    {REGION_PRINTING_LOOP, C7X_FAULT, "stuck, and ended by the watchdog"},
    {REGION_ABORT, C7X_CALL, "the module called abort"},
    {REGION_RETURN, C7X_CALL, "the entry returned 7"},
};
#define FAULTS (sizeof faults / sizeof faults[0])

/* What goes on afterwards: others, always; the module, unless it is quarantined; the file. */
static void fault_once(size_t which, int32_t task)
{
    uint32_t handle = c7x_test_dyn_load(client, "regions");
    run_well(handle, REGION_SUM, threads + REGION_COUNT * 5);
    run_to(handle, faults[which].what, task, faults[which].status, faults[which].text);
    c7x_test_call_add_one(neighbour, neighbours_module, 1);
    if (faults[which].status == C7X_FAULT)
        run_to(handle, REGION_SUM, 0, C7X_FAULTED, "");
    else
        run_well(handle, REGION_SUM, threads + REGION_COUNT * 5);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

static void each_fault_in_each_task_ends_its_own_request(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    for (size_t i = 0; i < FAULTS; i++)
        for (int32_t task = REGION_EACH_TASK; task < threads; task++)
            fault_once(i, task);
}

static void a_report_says_where_a_task_was(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    for (int32_t task = 0; task < threads; task++) {
        uint32_t handle = c7x_test_dyn_load(client, "regions");
        char place[64];
        snprintf(place, sizeof place, "module %u, ", (unsigned)handle);
        run_to(handle, REGION_READ, task, C7X_FAULT, place);
        assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    }
}

static void what_tasks_print_is_there(void **state)
{
    char line[64];
    (void)state;
    uint32_t handle = c7x_test_dyn_load(client, "regions");
    printed.text[0] = '\0';
    run_well(handle, REGION_PRINT, threads);
    for (int task = 0; task < threads; task++) {
        snprintf(line, sizeof line, "task %d is here\n", task);
        assert_non_null(strstr(printed.text, line));
    }
    assert_int_equal(strlen(printed.text), strlen(line) * (size_t)threads);
}

static uint64_t free_bytes(void)
{
    struct c7x_pool_info *pools;
    size_t count;
    assert_int_equal(c7x_client_list_pools(neighbour, &pools, &count), C7X_OK);
    uint64_t free_bytes = pools[0].free;
    c7x_list_free(pools);
    return free_bytes;
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    c7x_test_needs_signals();
    c7x_client_close(client);
    client = NULL;
    c7x_test_call_add_one(neighbour, neighbours_module, 1);
    uint64_t before = free_bytes();
    srand(4);
    for (int round = 0; round < c7x_test_rounds(ROUNDS); round++) {
        size_t which = (size_t)rand() % FAULTS;
        client = c7x_test_emulator_open_printing(&emulator, &printed);
        uint32_t handle = c7x_test_dyn_load(client, "regions");
        run_well(handle, REGION_WORKSPACE, threads);
        run_to(handle, faults[which].what, rand() % threads, faults[which].status,
               faults[which].text);
        c7x_client_close(client);
        client = NULL;
    }
    C7X_TEST_WAIT_UNTIL(free_bytes() == before, 1000);
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

/* A higher priority waits for the end of the region, and is served then. */
static void a_region_is_not_preempted(void **state)
{
    int32_t words[REGION_INPUTS] = {REGION_HOLD, REGION_EACH_TASK, 0};
    struct c7x_client_tensor input = {words, sizeof words,   1, C7X_DTYPE_INT, 32,
                                      0,     {REGION_INPUTS}};
    struct c7x_inference *inference;
    struct c7x_infer_options options;
    struct c7x_client_tensor output;
    int count = 1;
    (void)state;
    c7x_infer_options_init(client, &options);
    options.handle = c7x_test_dyn_load(client, "regions");
    options.flags = 8u << C7X_INFER_PRIORITY_SHIFT;
    run_well(options.handle, REGION_SUM, threads + REGION_COUNT * 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_OK);
        for (int k = 0; k < 10; k++)
            c7x_test_call_add_one(neighbour, neighbours_module, 1);
        assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
        if (c7x_inference_result(inference, &output, &count, NULL) != C7X_OK)
            fail_msg("infer: %s", c7x_client_last_error(client));
        assert_int_equal(*(const int32_t *)output.data, threads);
        c7x_inference_free(inference);
    }
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core_pid);
}

static void threads_of_an_idle_emulator_sleep(void **state)
{
    (void)state;
    c7x_test_needs_quiet_runtime();
    uint32_t handle = c7x_test_dyn_load(client, "regions");
    run_well(handle, REGION_SUM, threads + REGION_COUNT * 5);
    c7x_test_sleep_ms(IDLE_MS);
    unsigned long switches = c7x_test_switch_count(core_pid);
    c7x_test_sleep_ms(IDLE_MS);
    assert_int_equal(c7x_test_switch_count(core_pid), switches);
}

static struct settings two = {2, "10"};
static struct settings four = {4, "10"};
static struct settings two_watched = {2, "0.3"};
static struct settings four_watched = {4, "0.3"};
#define WITH(name, few, many)                                                                      \
    {#name "_with_2", name, start, stop, &few},                                                    \
    {                                                                                              \
#name "_with_4", name, start, stop, &many                                                  \
    }
#define TEST(name) WITH(name, two, four)
#define WATCHED_TEST(name) WITH(name, two_watched, four_watched)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tasks_of_many_regions_run_once),
        WATCHED_TEST(each_fault_in_each_task_ends_its_own_request),
        TEST(a_report_says_where_a_task_was),
        TEST(what_tasks_print_is_there),
        WATCHED_TEST(nothing_is_left_behind),
        TEST(a_region_is_not_preempted),
        TEST(threads_of_an_idle_emulator_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

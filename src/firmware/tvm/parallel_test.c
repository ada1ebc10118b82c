/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel regions, launched as a module does: inside a call that can be ended. */
#include "firmware/tvm/parallel.h"

#include "firmware/printf/printf.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (4u << 20)
#define THREADS 4
#define TASKS 1000
#define REGIONS 20000
#define WORKSPACE_BYTES 1000u

static uint8_t *heap_memory;
static struct c7x_heap *heap;
static struct c7x_tvm_context context;
static jmp_buf end_point;

static uint32_t block_count(void)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    return now.block_count;
}

static void start(uint32_t threads)
{
    const struct c7x_tvm_config config = {.heap = heap, .threads = threads};
    c7x_tvm_init(&config);
    context = (struct c7x_tvm_context){
        .owner = c7x_heap_owner_new(heap),
        .workspace_owner = c7x_heap_owner_new(heap),
        .end_point = &end_point,
    };
    c7x_tvm_context_set(&context);
}

static int set_up(void **state)
{
    (void)state;
    heap_memory = aligned_alloc(4096, HEAP_BYTES);
    heap = c7x_heap_create(heap_memory, HEAP_BYTES, "test");
    start(THREADS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_tvm_context_set(NULL);
    c7x_tvm_deinit();
    assert_int_equal(context.section_depth, 0);
    assert_int_equal(context.section_floor, 0);
    assert_int_equal(c7x_os_interrupts_depth(), 0);
    assert_int_equal(block_count(), 0);
    c7x_heap_destroy(heap);
    free(heap_memory);
    return 0;
}

/* ---- Which tasks run, and where ---- */

struct counts {
    atomic_int of_task[TASKS];
    int num_task;
};

static int count_task(int task_id, TVMParallelGroupEnv *env, void *data)
{
    struct counts *counts = data;
    (void)atomic_fetch_add(&counts->of_task[task_id], 1);
    return env->num_task == counts->num_task ? 0 : -1;
}

static void assert_each_once(int num_task, int asked)
{
    static struct counts counts;
    memset(&counts, 0, sizeof counts);
    counts.num_task = num_task;
    assert_int_equal(TVMBackendParallelLaunch(count_task, &counts, asked), 0);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(counts.of_task[i], i < num_task ? 1 : 0);
}

static void each_task_runs_once(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_each_once(THREADS, 0);
        assert_each_once(1, 1);
        assert_each_once(1, -3);
        assert_each_once(2, 2);
        assert_each_once(5, 5);
        assert_each_once(TASKS, TASKS);
    }
}

/* ---- In order ---- */

struct order {
    int next; /* not atomic: one thread */
    const struct c7x_tvm_context *context;
};

static int expect_order(int task_id, TVMParallelGroupEnv *env, void *data)
{
    struct order *order = data;
    (void)env;
    if (task_id != order->next || c7x_tvm_context() != order->context)
        return -1;
    order->next++;
    return 0;
}

static void assert_in_order(int asked, int num_task)
{
    struct order order = {0, c7x_tvm_context()};
    assert_int_equal(TVMBackendParallelLaunch(expect_order, &order, asked), 0);
    assert_int_equal(order.next, num_task);
}

static void one_thread_runs_them_in_order(void **state)
{
    (void)state;
    start(1);
    assert_in_order(0, 1);
    assert_in_order(TASKS, TASKS);
    start(0);
    assert_in_order(TASKS, TASKS);
}

/* Who tries something without a call would be ended without the others. */
static void outside_of_a_call_they_run_in_order(void **state)
{
    (void)state;
    context.end_point = NULL;
    assert_in_order(0, 1);
    assert_in_order(TASKS, TASKS);
    c7x_tvm_context_set(NULL);
    assert_in_order(TASKS, TASKS);
}

static void more_than_can_be_counted_run_in_order(void **state)
{
    (void)state;
    assert_in_order(0x10000, 0x10000);
}

static int launch_more(int task_id, TVMParallelGroupEnv *env, void *data)
{
    struct order none = {0, c7x_tvm_context()};
    struct order some = none;
    (void)task_id;
    (void)env;
    (void)data;
    if (TVMBackendParallelLaunch(expect_order, &none, 0) != 0 ||
        TVMBackendParallelLaunch(expect_order, &some, 7) != 0)
        return -1;
    return none.next == 1 && some.next == 7 ? 0 : -2;
}

static void a_region_within_a_region_runs_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(TVMBackendParallelLaunch(launch_more, NULL, 2 * THREADS), 0);
}

/* ---- Many regions ---- */

static int write_slot(int task_id, TVMParallelGroupEnv *env, void *data)
{
    int *slots = data;
    slots[task_id] += env->num_task;
    return 0;
}

/* What the tasks have written is there; the threads look for one region while another goes on. */
static void thousands_of_tiny_regions(void **state)
{
    int slots[7] = {0};
    (void)state;
    for (int i = 0; i < REGIONS; i++)
        assert_int_equal(TVMBackendParallelLaunch(write_slot, slots, 2 + i % 6), 0);
    for (int task = 0; task < 7; task++) {
        int expected = 0;
        for (int i = 0; i < REGIONS; i++)
            expected += task < 2 + i % 6 ? 2 + i % 6 : 0;
        assert_int_equal(slots[task], expected);
    }
}

static void pause_us(int64_t us)
{
    int64_t until_ns = c7x_os_deadline_ns(us * 1000);
    while (c7x_os_clock_ns() < until_ns)
        continue;
}

/* Around the time at which threads fall asleep. */
static void who_comes_late_harms_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        assert_each_once(2 + i % 3, 2 + i % 3);
        pause_us(i % 100);
    }
}

/* ---- Ends ---- */

static atomic_int arrivals;
static atomic_int leavers;

/* Until as many are there: then each is on a thread of its own. */
static void meet(int count)
{
    (void)atomic_fetch_add(&arrivals, 1);
    while (atomic_load(&arrivals) < count)
        (void)sched_yield();
}

static int return_it(int task_id, TVMParallelGroupEnv *env, void *data)
{
    const int *results = data;
    (void)env;
    return results[task_id];
}

static void the_first_result_counts(void **state)
{
    int results[TASKS] = {0};
    (void)state;
    results[TASKS - 1] = 3;
    assert_int_equal(TVMBackendParallelLaunch(return_it, results, TASKS), 3);
    results[11] = 2;
    results[12] = 4;
    results[10] = -1;
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(TVMBackendParallelLaunch(return_it, results, TASKS), -1);
    assert_int_equal(TVMBackendParallelLaunch(return_it, results, 10), 0);
}

static int abort_task(int task_id, TVMParallelGroupEnv *env, void *data)
{
    const int *aborts = data;
    meet(env->num_task);
    if (task_id == *aborts)
        c7x_tvm_end_call(C7X_TVM_ABORTED, NULL);
    pause_us(100);
    (void)atomic_fetch_add(&leavers, 1);
    return 5;
}

/* The call ends on the stack that it began on, when the others have left. */
static void each_task_may_end_the_call(void **state)
{
    static volatile int aborts;
    (void)state;
    for (aborts = 0; aborts < THREADS; aborts++) {
        int task = aborts;
        atomic_store(&arrivals, 0);
        atomic_store(&leavers, 0);
        if (setjmp(end_point) == 0) {
            (void)TVMBackendParallelLaunch(abort_task, &task, 0);
            fail_msg("it returned");
        }
        c7x_os_interrupts_restore(0);
        context.section_depth = 0;
        assert_int_equal(context.end, C7X_TVM_ABORTED);
        assert_int_equal(leavers, THREADS - 1);
        context.end = C7X_TVM_RETURNED;
        assert_each_once(THREADS, 0);
    }
}

/* ---- What a task may do ---- */

static int leave_sections(int task_id, TVMParallelGroupEnv *env, void *data)
{
    int depth = c7x_os_interrupts_depth();
    int32_t cookie;
    (void)data;
    (void)task_id;
    meet(env->num_task);
    cookie = c7x_tvm_section_enter();
    c7x_tvm_section_leave(cookie);
    c7x_tvm_section_leave(0);
    return c7x_os_interrupts_depth() == depth && c7x_tvm_context()->section_depth > 0 ? 0 : -1;
}

static void no_task_ends_the_section_of_its_region(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        atomic_store(&arrivals, 0);
        context.is_open = i != 0;
        assert_int_equal(TVMBackendParallelLaunch(leave_sections, NULL, 0), 0);
        assert_int_equal(context.section_depth, 0);
    }
}

static struct c7x_os_interrupt interrupt;
static int leavers_at_interrupt;

static void note_leavers(void *opaque)
{
    (void)opaque;
    leavers_at_interrupt = atomic_load(&leavers);
}

static int interrupt_core(int task_id, TVMParallelGroupEnv *env, void *data)
{
    (void)data;
    meet(env->num_task);
    if (task_id == 1)
        c7x_os_interrupt_raise(&interrupt);
    pause_us(500);
    (void)atomic_fetch_add(&leavers, 1);
    return 0;
}

/* Of a module that lets interrupts into its sections, too. */
static void an_interrupt_waits_for_the_end_of_a_region(void **state)
{
    (void)state;
    c7x_os_interrupt_init(&interrupt, note_leavers, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        context.is_open = i != 0;
        leavers_at_interrupt = -1;
        atomic_store(&arrivals, 0);
        atomic_store(&leavers, 0);
        assert_int_equal(TVMBackendParallelLaunch(interrupt_core, NULL, 0), 0);
        assert_int_equal(leavers_at_interrupt, THREADS);
    }
    c7x_os_interrupt_deinit(&interrupt);
}

static int print_line(int task_id, TVMParallelGroupEnv *env, void *data)
{
    (void)env;
    (void)data;
    return c7x_shm_printf("task %03d\n", task_id) == 9 ? 0 : -1;
}

static void every_task_prints(void **state)
{
    static char buffer[16384];
    struct c7x_printf target;
    (void)state;
    c7x_printf_bind(&target, buffer, sizeof buffer);
    c7x_printf_select(&target);
    assert_int_equal(TVMBackendParallelLaunch(print_line, NULL, TASKS), 0);
    c7x_printf_select(NULL);
    assert_int_equal(c7x_printf_finish(&target), TASKS * 9);
    for (int i = 0; i < TASKS; i++) {
        char line[16];
        (void)snprintf(line, sizeof line, "task %03d\n", i);
        assert_non_null(strstr(buffer + C7X_PRINTF_HEADER_BYTES, line));
    }
}

/* Every second one keeps its second piece. */
static int use_workspace(int task_id, TVMParallelGroupEnv *env, void *data)
{
    uint8_t *first = TVMBackendAllocWorkspace(1, 0, WORKSPACE_BYTES, kDLInt, 8);
    uint8_t *second = TVMBackendAllocWorkspace(1, 0, WORKSPACE_BYTES, kDLInt, 8);
    int wrong = 0;
    (void)data;
    if (first == NULL || second == NULL)
        return -1;
    memset(first, task_id, WORKSPACE_BYTES);
    memset(second, task_id + 1, WORKSPACE_BYTES);
    if (env->num_task == THREADS)
        meet(THREADS);
    for (uint32_t i = 0; i < WORKSPACE_BYTES; i++)
        wrong += first[i] != (uint8_t)task_id || second[i] != (uint8_t)(task_id + 1);
    if (task_id % 2 == 0)
        TVMBackendFreeWorkspace(1, 0, second);
    TVMBackendFreeWorkspace(1, 0, first);
    return wrong;
}

static void begin_call(void)
{
    context.workspace = c7x_tvm_workspace_take(1);
}

static void end_call(void)
{
    c7x_tvm_free_workspace_blocks(&context);
    c7x_tvm_workspace_give(context.workspace);
}

static void use_workspace_on_each_thread(void)
{
    begin_call();
    atomic_store(&arrivals, 0);
    assert_int_equal(TVMBackendParallelLaunch(use_workspace, NULL, 0), 0);
    end_call();
}

static void workspace_in_tasks_allocates_nothing_in_the_end(void **state)
{
    struct c7x_heap_statistics before;
    struct c7x_heap_statistics after;
    (void)state;
    for (int i = 0; i < 3; i++)
        use_workspace_on_each_thread();
    c7x_heap_get_statistics(heap, &before);
    for (int i = 0; i < TASKS; i++)
        use_workspace_on_each_thread();
    c7x_heap_get_statistics(heap, &after);
    assert_int_equal(after.allocation_count, before.allocation_count);
    assert_int_equal(after.block_count, THREADS);
    begin_call();
    assert_int_equal(TVMBackendParallelLaunch(use_workspace, NULL, TASKS), 0);
    end_call();
}

static int keep_workspace_in_helpers(int task_id, TVMParallelGroupEnv *env, void *data)
{
    (void)task_id;
    (void)env;
    (void)data;
    meet(THREADS);
    return c7x_tvm_context()->is_task &&
                   TVMBackendAllocWorkspace(1, 0, WORKSPACE_BYTES, kDLInt, 8) == NULL
               ? -1
               : 0;
}

static void workspace_that_helpers_leave_ends_with_the_call(void **state)
{
    (void)state;
    begin_call();
    atomic_store(&arrivals, 0);
    assert_int_equal(TVMBackendParallelLaunch(keep_workspace_in_helpers, NULL, 0), 0);
    assert_int_equal(block_count(), 2 * (THREADS - 1));
    end_call();
    assert_int_equal(block_count(), THREADS - 1); /* what the next region's helpers use */
}

static int ask_too_much(int task_id, TVMParallelGroupEnv *env, void *data)
{
    (void)data;
    meet(env->num_task);
    if (task_id == env->num_task - 1)
        return c7x_tvm_alloc(2 * (size_t)HEAP_BYTES, 0, TVMDSP_POOL_MAIN) == NULL ? -3 : 0;
    return 0;
}

static void memory_that_a_task_did_not_get_is_known(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        atomic_store(&arrivals, 0);
        context.out_of_memory = false;
        assert_int_equal(TVMBackendParallelLaunch(ask_too_much, NULL, 0), -3);
        assert_true(context.out_of_memory);
        assert_int_equal(context.oom.requested, 2 * HEAP_BYTES);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_task_runs_once),
        TEST(one_thread_runs_them_in_order),
        TEST(outside_of_a_call_they_run_in_order),
        TEST(more_than_can_be_counted_run_in_order),
        TEST(a_region_within_a_region_runs_in_order),
        TEST(thousands_of_tiny_regions),
        TEST(who_comes_late_harms_nothing),
        TEST(the_first_result_counts),
        TEST(each_task_may_end_the_call),
        TEST(no_task_ends_the_section_of_its_region),
        TEST(an_interrupt_waits_for_the_end_of_a_region),
        TEST(every_task_prints),
        TEST(workspace_in_tasks_allocates_nothing_in_the_end),
        TEST(workspace_that_helpers_leave_ends_with_the_call),
        TEST(memory_that_a_task_did_not_get_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel regions, launched as a module does: inside a call that can be ended. */
#include "firmware/tvm/parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (4u << 20)
#define TASKS 1000

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
    start(4);
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
        assert_each_once(4, 0);
        assert_each_once(1, 1);
        assert_each_once(1, -3);
        assert_each_once(2, 2);
        assert_each_once(5, 5);
        assert_each_once(TASKS, TASKS);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_task_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What every port of os/os.h must do; build it against the port and run it there. */
#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000LL
#define TASKS 4
#define ROUNDS 5000

static void the_clock_never_goes_back(void **state)
{
    (void)state;
    int64_t last = c7x_os_clock_ns();
    uint64_t cycles = c7x_os_cycles();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t now = c7x_os_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    assert_true(c7x_os_cycles() >= cycles);
    assert_true(c7x_os_cycle_hz() > 0);
}

static void deadlines_are_clamped(void **state)
{
    (void)state;
    assert_true(c7x_os_deadline_ns(-1) == C7X_OS_FOREVER);
    assert_true(c7x_os_deadline_ns(INT64_MAX) == C7X_OS_FOREVER);
    assert_true(c7x_os_deadline_ns(MS) > c7x_os_clock_ns() - MS);
}

struct counter {
    struct c7x_os_mutex mutex;
    int value;
};

static void count_up(void *context)
{
    struct counter *counter = context;
    for (int i = 0; i < ROUNDS; i++) {
        c7x_os_mutex_lock(&counter->mutex);
        counter->value++;
        c7x_os_mutex_unlock(&counter->mutex);
    }
}

static void a_mutex_lets_one_task_in(void **state)
{
    (void)state;
    struct counter counter = {.value = 0};
    struct c7x_os_task tasks[TASKS];
    assert_int_equal(c7x_os_mutex_init(&counter.mutex), C7X_OK);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(c7x_os_task_create(&tasks[i], "count", 0, count_up, &counter), C7X_OK);
    for (int i = 0; i < TASKS; i++)
        c7x_os_task_join(&tasks[i]);
    assert_int_equal(counter.value, TASKS * ROUNDS);
    c7x_os_mutex_deinit(&counter.mutex);
}

static void an_event_set_before_the_wait_counts_once(void **state)
{
    (void)state;
    struct c7x_os_event event;
    assert_int_equal(c7x_os_event_init(&event), C7X_OK);
    c7x_os_event_set(&event);
    c7x_os_event_set(&event);
    assert_true(c7x_os_event_wait(&event, C7X_OS_FOREVER));
    assert_false(c7x_os_event_wait(&event, 0));
    assert_false(c7x_os_event_wait(&event, c7x_os_deadline_ns(MS)));
    c7x_os_event_deinit(&event);
}

static void a_wait_ends_not_before_its_deadline(void **state)
{
    (void)state;
    struct c7x_os_event event;
    assert_int_equal(c7x_os_event_init(&event), C7X_OK);
    int64_t deadline = c7x_os_deadline_ns(5 * MS);
    assert_false(c7x_os_event_wait(&event, deadline));
    assert_true(c7x_os_clock_ns() >= deadline);
    c7x_os_event_deinit(&event);
}

struct ping_pong {
    struct c7x_os_event ping;
    struct c7x_os_event pong;
    int rounds;
};

static void answer(void *context)
{
    struct ping_pong *game = context;
    for (int i = 0; i < ROUNDS; i++) {
        c7x_os_event_wait(&game->ping, C7X_OS_FOREVER);
        game->rounds++;
        c7x_os_event_set(&game->pong);
    }
}

static void no_event_is_lost_between_two_tasks(void **state)
{
    (void)state;
    struct ping_pong game = {.rounds = 0};
    struct c7x_os_task task;
    assert_int_equal(c7x_os_event_init(&game.ping), C7X_OK);
    assert_int_equal(c7x_os_event_init(&game.pong), C7X_OK);
    assert_int_equal(c7x_os_task_create(&task, "answer", 64 * 1024, answer, &game), C7X_OK);
    for (int i = 0; i < ROUNDS; i++) {
        c7x_os_event_set(&game.ping);
        assert_true(c7x_os_event_wait(&game.pong, C7X_OS_FOREVER));
        assert_int_equal(game.rounds, i + 1);
    }
    c7x_os_task_join(&task);
    c7x_os_event_deinit(&game.ping);
    c7x_os_event_deinit(&game.pong);
}

static void pages_change_their_access_and_keep_their_bytes(void **state)
{
    (void)state;
    size_t page = c7x_os_page_size();
    assert_true(page >= 4096);
    uint8_t *pages = aligned_alloc(page, 2 * page);
    assert_non_null(pages);
    memset(pages, 0x5A, 2 * page);
    assert_int_equal(c7x_os_pages_protect(pages, page, C7X_OS_READ), C7X_OK);
    assert_int_equal(pages[page - 1], 0x5A);
    pages[page] = 1;
    assert_int_equal(c7x_os_pages_protect(pages, page, C7X_OS_READ_WRITE), C7X_OK);
    pages[0] = 1;
    free(pages);
}

static void cache_operations_keep_the_bytes(void **state)
{
    (void)state;
    uint8_t bytes[300];
    memset(bytes, 7, sizeof bytes);
    c7x_os_cache_writeback(bytes, sizeof bytes);
    c7x_os_cache_invalidate(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 7);
}

/* ---- Stacks ---- */

#define SWITCHES 1000

static struct c7x_os_stack own_stack;
static struct c7x_os_stack other_stack;
static int other_count;

static void count_on_the_other(void *context)
{
    int *seen = context;
    c7x_os_set_local(C7X_OS_LOCAL_CALL, &other_count);
    for (int i = 0;; i++) {
        volatile char room[4096];
        room[0] = (char)i;
        *seen = i + (room[0] - (char)i);
        assert_int_equal(c7x_os_interrupts_depth(), 1);
        assert_ptr_equal(c7x_os_local(C7X_OS_LOCAL_CALL), &other_count);
        c7x_os_stack_switch(&other_stack, &own_stack, true);
    }
}

static void stacks_go_on_where_they_were_left(void **state)
{
    (void)state;
    int seen = -1;
    int own = 7;
    c7x_os_stack_adopt(&own_stack);
    assert_null(c7x_os_local(C7X_OS_LOCAL_CALL));
    c7x_os_set_local(C7X_OS_LOCAL_CALL, &own);
    assert_int_equal(c7x_os_stack_init(&other_stack, 64 * 1024, count_on_the_other, &seen), C7X_OK);
    uint64_t away = c7x_os_stack_away();
    for (int i = 0; i < SWITCHES; i++) {
        c7x_os_stack_switch(&own_stack, &other_stack, true);
        assert_int_equal(seen, i);
        assert_ptr_equal(c7x_os_local(C7X_OS_LOCAL_CALL), &own);
        assert_int_equal(c7x_os_interrupts_depth(), 0);
    }
    assert_true(c7x_os_stack_away() > away);
    assert_false(c7x_os_stack_is_full(&own));
    c7x_os_stack_deinit(&other_stack);
    c7x_os_stack_deinit(&own_stack);
}

/* ---- Interrupts ---- */

static struct c7x_os_interrupt interrupt;
static atomic_int interrupt_count;

static void count_interrupt(void *context)
{
    assert_int_equal(c7x_os_interrupts_depth(), 1);
    assert_ptr_equal(context, &interrupt);
    atomic_fetch_add(&interrupt_count, 1);
}

static void raise_it(void *context)
{
    c7x_os_interrupt_raise(context);
}

static void raise_from_another_task(void)
{
    struct c7x_os_task task;
    assert_int_equal(c7x_os_task_create(&task, "raiser", 0, raise_it, &interrupt), C7X_OK);
    c7x_os_task_join(&task);
}

static void interrupts_wait_while_they_are_off(void **state)
{
    (void)state;
    struct c7x_os_mutex mutex;
    assert_int_equal(c7x_os_mutex_init(&mutex), C7X_OK);
    atomic_store(&interrupt_count, 0);
    c7x_os_interrupt_init(&interrupt, count_interrupt, NULL, &interrupt);
    assert_true(c7x_os_interrupt_is_own(&interrupt));
    c7x_os_interrupts_off();
    raise_from_another_task();
    raise_from_another_task(); /* counts as one with the other */
    assert_int_equal(atomic_load(&interrupt_count), 0);
    c7x_os_interrupts_off();
    c7x_os_interrupts_on();
    assert_int_equal(atomic_load(&interrupt_count), 0);
    c7x_os_interrupts_on();
    assert_int_equal(atomic_load(&interrupt_count), 1);
    c7x_os_mutex_lock(&mutex);
    raise_from_another_task();
    assert_int_equal(atomic_load(&interrupt_count), 1);
    c7x_os_mutex_unlock(&mutex);
    assert_int_equal(atomic_load(&interrupt_count), 2);
    c7x_os_interrupts_off();
    c7x_os_interrupt_point();
    assert_int_equal(atomic_load(&interrupt_count), 3);
    c7x_os_interrupts_off();
    c7x_os_interrupt_point(); /* off twice */
    assert_int_equal(atomic_load(&interrupt_count), 3);
    c7x_os_interrupts_on();
    c7x_os_interrupts_on();
    c7x_os_interrupt_deinit(&interrupt);
    c7x_os_mutex_deinit(&mutex);
}

static void an_interrupt_comes_in_the_middle_of_work(void **state)
{
    (void)state;
    struct c7x_os_task task;
    atomic_store(&interrupt_count, 0);
    c7x_os_interrupt_init(&interrupt, count_interrupt, NULL, &interrupt);
    assert_int_equal(c7x_os_task_create(&task, "raiser", 0, raise_it, &interrupt), C7X_OK);
    while (atomic_load(&interrupt_count) == 0)
        continue;
    c7x_os_task_join(&task);
    assert_int_equal(atomic_load(&interrupt_count), 1);
    c7x_os_interrupt_deinit(&interrupt);
}

static void be_urgent(void *context)
{
    *(bool *)context = c7x_os_task_be_urgent();
}

/* Allowed or not, the task goes on. */
static void a_task_may_ask_to_be_urgent(void **state)
{
    (void)state;
    struct c7x_os_task task;
    bool is_allowed = false;
    assert_int_equal(c7x_os_task_create(&task, "urgent", 0, be_urgent, &is_allowed), C7X_OK);
    c7x_os_task_join(&task);
    print_message("real-time scheduling is %sallowed here\n", is_allowed ? "" : "not ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_never_goes_back),
        cmocka_unit_test(deadlines_are_clamped),
        cmocka_unit_test(a_mutex_lets_one_task_in),
        cmocka_unit_test(an_event_set_before_the_wait_counts_once),
        cmocka_unit_test(a_wait_ends_not_before_its_deadline),
        cmocka_unit_test(no_event_is_lost_between_two_tasks),
        cmocka_unit_test(pages_change_their_access_and_keep_their_bytes),
        cmocka_unit_test(cache_operations_keep_the_bytes),
        cmocka_unit_test(stacks_go_on_where_they_were_left),
        cmocka_unit_test(interrupts_wait_while_they_are_off),
        cmocka_unit_test(an_interrupt_comes_in_the_middle_of_work),
        cmocka_unit_test(a_task_may_ask_to_be_urgent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

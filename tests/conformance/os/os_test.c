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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about which request comes first. */
#define _GNU_SOURCE
#include "users/users.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LOW 8 /* requests that wait */

static struct c7x_test_emulator emulator;
static struct c7x_client *client;

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* ---- U35 ---- */

/* Who has ended, in that order: the answers of one client come in the order in which they are sent.
 */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
    int names[LOW + 2];
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int names[LOW + 2] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static void note_end(void *context, struct c7x_inference *inference)
{
    (void)inference;
    pthread_mutex_lock(&ended.lock);
    ended.names[ended.count++] = *(const int *)context;
    pthread_cond_signal(&ended.changed);
    pthread_mutex_unlock(&ended.lock);
}

/* An inference with a `done` belongs to it until it has been called. */
static void wait_for_ends(int count)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += USERS_SOON_MS / 1000;
    pthread_mutex_lock(&ended.lock);
    while (ended.count < count && error == 0)
        error = pthread_cond_timedwait(&ended.changed, &ended.lock, &until);
    pthread_mutex_unlock(&ended.lock);
    assert_int_equal(error, 0);
}

static struct c7x_inference *send(uint32_t handle, int name, int32_t ms, uint32_t priority)
{
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_inference *inference = NULL;
    struct c7x_infer_options options;
    c7x_infer_options_init(client, &options);
    options.handle = handle;
    options.flags = priority << C7X_INFER_PRIORITY_SHIFT;
    options.deadline_ms = -1;
    options.done = note_end;
    options.context = &names[name];
    if (c7x_client_infer_async(client, &options, &input, 1, &inference) != C7X_OK)
        fail_msg("infer_async: %s", c7x_client_last_error(client));
    return inference;
}

static uint32_t load_with(const char *module, uint32_t priority)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    c7x_test_module_path(module, path);
    assert_int_equal(
        c7x_client_dyn_load_flags(client, path, priority << C7X_LOAD_PRIORITY_SHIFT, &handle),
        C7X_OK);
    return handle;
}

/*
 * One low request runs for ever and others wait behind it; a high one, by the priority of its
 * module or of the request, is served all the same. Those that waited come in their order, once the
 * endless one is taken back.
 */
static void serve_high_first(uint32_t priority_of_module, uint32_t priority_of_request)
{
    struct c7x_inference *low[LOW + 1];
    uint32_t low_module = load_with("spin", 5);
    uint32_t high_module = load_with("spin", priority_of_module);
    struct c7x_inference *high;
    ended.count = 0;
    low[0] = send(low_module, 1, -1, 0);
    for (int i = 1; i <= LOW; i++)
        low[i] = send(low_module, i + 1, 1, 0);
    high = send(high_module, 0, 1, priority_of_request);
    wait_for_ends(1);
    assert_int_equal(users_result(high), C7X_OK);
    assert_int_equal(users_result(low[0]), C7X_BUSY); /* not ended */
    assert_int_equal(users_result(low[1]), C7X_BUSY);
    (void)!c7x_inference_cancel(low[0]);
    wait_for_ends(LOW + 2);
    for (int i = 0; i <= LOW; i++) {
        assert_int_equal(users_result(low[i]), i == 0 ? C7X_CANCELLED : C7X_OK);
        c7x_inference_free(low[i]);
    }
    c7x_inference_free(high);
    assert_int_equal(ended.names[0], 0);
    for (int i = 1, next = 2; i < LOW + 2; i++) { /* the library asks why the endless one failed */
        if (ended.names[i] != 1)
            assert_int_equal(ended.names[i], next++);
    }
    assert_int_equal(c7x_client_dyn_unload(client, low_module), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, high_module), C7X_OK);
}

static void u35_a_high_priority_is_served_before_what_waits(void **state)
{
    (void)state;
    serve_high_first(1, 0);
    serve_high_first(4, 0);
    serve_high_first(8, 1);
    serve_high_first(0, 2);
}

/* The same priority has no such right. */
static void u35_the_same_priority_waits_its_turn(void **state)
{
    uint32_t first_module = load_with("spin", 5);
    uint32_t second_module = load_with("spin", 5);
    struct c7x_inference *first = NULL;
    struct c7x_inference *second = NULL;
    (void)state;
    ended.count = 0;
    first = send(first_module, 0, 20, 0);
    second = send(second_module, 1, 0, 0);
    wait_for_ends(2);
    assert_int_equal(users_result(first), C7X_OK);
    assert_int_equal(ended.names[0], 0);
    assert_int_equal(ended.names[1], 1);
    c7x_inference_free(first);
    c7x_inference_free(second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(u35_a_high_priority_is_served_before_what_waits),
        TEST(u35_the_same_priority_waits_its_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

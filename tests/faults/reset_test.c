/* SPDX-License-Identifier: Apache-2.0 */
/* A core that cannot be trusted any more restarts, and whoever waits for it is told at once. */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "support/calls.h"
#include "support/emulator_device.h"
#include "support/faults.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLIENTS 6
#define SENT 10     /* inferences that each client has sent without waiting for them */
#define GOAL_MS 100 /* what a waiting call takes at most, on a machine that has time for it */
#define BOUND_MS (20 * GOAL_MS)
#define SOON_MS 30000
#define ROUNDS 30 /* in full */

static struct c7x_test_emulator emulator;

/* One that waits in a call, and for what it has sent before. */
struct waiting {
    struct c7x_client *client;
    uint32_t spin;
    struct c7x_inference *sent[SENT];
    pthread_t thread;
    enum c7x_status status;
};

static enum c7x_status run(struct c7x_client *client, uint32_t handle, int32_t number,
                           uint32_t priority)
{
    struct c7x_client_tensor input = {&number, sizeof number, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_client_infer_flags(client, handle, 0, &input, 1, &output, &count, NULL,
                                  priority << C7X_INFER_PRIORITY_SHIFT);
}

/* For ever, if it is the first of its target; the others wait behind it. */
static void *wait_in_a_call(void *context)
{
    struct waiting *waiting = context;
    waiting->status = run(waiting->client, waiting->spin, -1, 8);
    return NULL;
}

static void begin_to_wait(struct waiting *waiting)
{
    int32_t number = -1;
    struct c7x_client_tensor input = {&number, sizeof number, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_infer_options options;
    waiting->client = c7x_test_emulator_open(&emulator);
    waiting->spin = c7x_test_dyn_load(waiting->client, "spin");
    c7x_infer_options_init(waiting->client, &options);
    options.handle = waiting->spin;
    options.flags = 8u << C7X_INFER_PRIORITY_SHIFT;
    for (int i = 0; i < SENT; i++)
        assert_int_equal(
            c7x_client_infer_async(waiting->client, &options, &input, 1, &waiting->sent[i]),
            C7X_OK);
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_in_a_call, waiting), 0);
}

static uint32_t requests_on_device(struct c7x_client *observer)
{
    struct c7x_session_info *sessions;
    uint32_t requests = 0;
    size_t count;
    assert_int_equal(c7x_client_list_sessions(observer, &sessions, &count), C7X_OK);
    for (size_t i = 0; i < count; i++)
        requests += sessions[i].queued + sessions[i].running;
    c7x_list_free(sessions);
    return requests;
}

/* All of its waits are over, as RESET. */
static void end_waits(struct waiting *waiting)
{
    pthread_join(waiting->thread, NULL);
    assert_int_equal(waiting->status, C7X_RESET);
    for (int i = 0; i < SENT; i++) {
        struct c7x_client_tensor output;
        int count = 1;
        assert_int_equal(c7x_inference_wait(waiting->sent[i], SOON_MS), C7X_OK);
        assert_int_equal(c7x_inference_result(waiting->sent[i], &output, &count, NULL), C7X_RESET);
        c7x_inference_free(waiting->sent[i]);
    }
}

/* In the same process, and nothing of the last core is in the way. */
static void open_load_and_run(void)
{
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    assert_int_equal(run(client, c7x_test_dyn_load(client, "spin"), 1, 0), C7X_OK);
    c7x_client_close(client);
}

static void one_round(int64_t *inout_slowest_ms)
{
    struct waiting waiting[CLIENTS];
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    uint32_t bad = c7x_test_dyn_load(client, "faults");
    int64_t start_ms;
    int64_t took_ms;
    for (int i = 0; i < CLIENTS; i++)
        begin_to_wait(&waiting[i]);
    C7X_TEST_WAIT_UNTIL(requests_on_device(client) == CLIENTS * (SENT + 1), SOON_MS);
    start_ms = c7x_test_now_ms();
    /* A bad pointer in the firmware's own hands: it may hold a lock by then, or be half done. */
    assert_int_equal(run(client, bad, FAULT_CORE, 1), C7X_RESET);
    for (int i = 0; i < CLIENTS; i++)
        end_waits(&waiting[i]);
    took_ms = c7x_test_now_ms() - start_ms;
    assert_true(took_ms <= BOUND_MS);
    *inout_slowest_ms = took_ms > *inout_slowest_ms ? took_ms : *inout_slowest_ms;
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(c7x_client_ping(waiting[i].client, NULL, NULL), C7X_RESET);
        c7x_client_close(waiting[i].client);
    }
    c7x_client_close(client);
    open_load_and_run();
}

static void all_who_wait_are_told_when_the_core_restarts(void **state)
{
    struct c7x_emulator_status before;
    struct c7x_emulator_status after;
    int64_t slowest_ms = 0;
    int descriptors;
    c7x_test_needs_signals();
    (void)state;
    c7x_test_emulator_start(&emulator);
    open_load_and_run();
    c7x_test_emulator_status(&emulator, &before);
    descriptors = c7x_test_descriptor_count(0);
    for (int round = 0; round < c7x_test_rounds(ROUNDS); round++)
        one_round(&slowest_ms);
    print_message("the last of %d waits was over %d ms after the fault, at most; the goal is %d\n",
                  CLIENTS * (SENT + 1), (int)slowest_ms, GOAL_MS);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_status(&emulator, &after);
    assert_int_equal(after.pid, before.pid);
    assert_int_equal(after.core_starts, before.core_starts + (uint32_t)c7x_test_rounds(ROUNDS));
    assert_int_equal(after.carveout_free, before.carveout_free);
    assert_int_equal(c7x_test_descriptor_count(0), descriptors);
    c7x_test_emulator_stop(&emulator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_who_wait_are_told_when_the_core_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

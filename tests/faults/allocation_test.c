/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of the firmware fails once: the n-th one, for every n that a client's whole life
 * reaches. Each time the request in question answers C7X_NOMEM or can do without, the others work
 * (an unload always does), and when the client has gone the heap is as it was.
 */
#include "c7x_compute_client.h"
#include "client/over.h"
#include "support/environment.h"
#include "support/loopback_device.h"
#include "support/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NTH_MAX 1000 /* more allocations than one client's life needs */

/* What one life saw. */
struct outcome {
    int calls;
    int failures; /* calls that answered C7X_NOMEM */
};

/* Counts a call, which works or lacks memory; whether it worked. */
static bool works(struct outcome *outcome, struct c7x_client *client, enum c7x_status status)
{
    outcome->calls++;
    if (status == C7X_OK)
        return true;
    if (status != C7X_NOMEM)
        fail_msg("call %d: %s: %s", outcome->calls, c7x_status_name(status),
                 c7x_client_last_error(client));
    assert_true(c7x_client_last_error(client)[0] != '\0');
    outcome->failures++;
    return false;
}

/* Adds one on the device; a module that ran once without memory runs the next time. */
static void infer(struct outcome *outcome, struct c7x_client *client, uint32_t handle,
                  uint32_t model)
{
    float numbers[4] = {1, 2, 3, 4};
    const struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0,
                                            {4}};
    for (int round = 0; round < 2; round++) {
        struct c7x_client_tensor output;
        int count = 1;
        if (works(outcome, client,
                  c7x_client_infer(client, handle, model, &input, 1, &output, &count, NULL)))
            assert_true(((const float *)output.data)[3] == 5);
    }
}

/* A module with its weights inside. */
static void use_module(struct outcome *outcome, struct c7x_client *client)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    c7x_test_module_path("add_one", path);
    if (!works(outcome, client, c7x_client_dyn_load(client, path, &handle)))
        return;
    infer(outcome, client, handle, 0);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
}

/* A module whose weights come apart from it. */
static void use_model(struct outcome *outcome, struct c7x_client *client, const char *weights)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    uint32_t model;
    c7x_test_module_path("no_weights", path);
    if (!works(outcome, client, c7x_client_dyn_load(client, path, &handle)))
        return;
    if (works(outcome, client, c7x_client_model_load(client, weights, &model))) {
        infer(outcome, client, handle, model);
        assert_int_equal(c7x_client_model_unload(client, model), C7X_OK);
    }
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
}

/* The life of a client: open, load, run, unload, close. */
static struct outcome live(struct c7x_test_loopback *device, const char *weights)
{
    struct outcome outcome = {0};
    struct c7x_client *client = NULL;
    if (!works(&outcome, NULL,
               c7x_client_open_over(c7x_test_loopback_connect(device), NULL, &client)))
        return outcome;
    use_module(&outcome, client);
    use_model(&outcome, client, weights);
    c7x_client_close(client);
    return outcome;
}

static void every_allocation_may_fail(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start();
    struct c7x_heap_statistics base;
    struct c7x_heap_statistics now;
    struct outcome outcome = {.failures = 1};
    char folder[C7X_TEST_PATH_MAX];
    char weights[2 * C7X_TEST_PATH_MAX];
    int nth;
    (void)state;
    c7x_test_make_folder(folder);
    snprintf(weights, sizeof weights, "%s/weights.bin", folder);
    c7x_test_make_weights(weights);
    assert_int_equal(live(device, weights).failures, 0);
    c7x_test_loopback_heap(device, &base);
    for (nth = 1; outcome.failures != 0 && nth <= NTH_MAX; nth++) {
        c7x_test_loopback_fail_allocation(device, (uint64_t)nth);
        outcome = live(device, weights);
        c7x_test_loopback_fail_allocation(device, 0);
        c7x_test_loopback_heap(device, &now);
        if (now.free != base.free || now.block_count != base.block_count)
            fail_msg("allocation %d: %lld bytes and %d blocks are left", nth,
                     (long long)(base.free - now.free), (int)(now.block_count - base.block_count));
        assert_int_equal(c7x_test_loopback_module_count(device), 0);
        assert_int_equal(c7x_test_loopback_model_count(device), 0);
    }
    print_message("%d allocations failed in turn\n", nth - 2);
    assert_true(nth > 10 && nth <= NTH_MAX);
    c7x_test_remove_folder(folder);
    c7x_test_loopback_stop(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

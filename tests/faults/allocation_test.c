/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of the firmware fails once: the n-th one of each pool, for every n that a
 * client's whole life reaches. Each time the request in question answers C7X_NOMEM or can do
 * without, the others work (an unload always does), and when the client has gone the pools are as
 * they were.
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

#define NTH_MAX 2000 /* more allocations than one client's life needs */
#define INPUTS_MAX 40

static char weights[2 * C7X_TEST_PATH_MAX]; /* a weights.bin */

/* ---- Steps: each works, or answers C7X_NOMEM and a text ---- */

static bool works_or(struct c7x_client *client, enum c7x_status status, enum c7x_status expected)
{
    if (status == expected)
        return true;
    if (status != C7X_NOMEM)
        fail_msg("%s: %s", c7x_status_name(status), c7x_client_last_error(client));
    assert_true(c7x_client_last_error(client)[0] != '\0');
    return false;
}

static bool works(struct c7x_client *client, enum c7x_status status)
{
    return works_or(client, status, C7X_OK);
}

/* With what the module answers to a call that it likes. */
static bool loads(struct c7x_client *client, const char *module, uint32_t flags,
                  enum c7x_status expected, uint32_t *out_handle)
{
    char path[C7X_TEST_PATH_MAX];
    c7x_test_module_path(module, path);
    return works_or(client, c7x_client_dyn_load_flags(client, path, flags, out_handle), expected);
}

static void unload(struct c7x_client *client, uint32_t handle)
{
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
}

/* Twice: a module that ran once without memory runs the next time. */
static void infer(struct c7x_client *client, uint32_t handle, uint32_t model,
                  const struct c7x_client_tensor *inputs, int input_count, uint32_t flags)
{
    for (int round = 0; round < 2; round++) {
        struct c7x_client_tensor outputs[INPUTS_MAX];
        int count = INPUTS_MAX;
        (void)works(client, c7x_client_infer_flags(client, handle, model, inputs, input_count,
                                                   outputs, &count, NULL, flags));
    }
}

/* ---- Lives ---- */

static const float numbers[1024] = {1, 2, 3, 4};
static const int32_t two_sections[2] = {2, 7};

static struct c7x_client_tensor floats(int count)
{
    return (struct c7x_client_tensor){(void *)(uintptr_t)numbers,
                                      (size_t)count * sizeof(float),
                                      1,
                                      C7X_DTYPE_FLOAT,
                                      32,
                                      0,
                                      {count}};
}

static void run_without_inputs(struct c7x_client *client, const char *module)
{
    uint32_t handle;
    if (!loads(client, module, 0, C7X_OK, &handle))
        return;
    infer(client, handle, 0, NULL, 0, 0);
    unload(client, handle);
}

static void run_floats(struct c7x_client *client, const char *module, int count, uint32_t flags)
{
    const struct c7x_client_tensor input = floats(count);
    uint32_t handle;
    if (!loads(client, module, flags, C7X_OK, &handle))
        return;
    infer(client, handle, 0, &input, 1, 0);
    unload(client, handle);
}

static void weights_inside(struct c7x_client *client)
{
    run_floats(client, "add_one", 4, 0);
}

static void kept(struct c7x_client *client)
{
    run_floats(client, "add_one", 4, C7X_LOAD_KEEP);
}

static void weights_apart(struct c7x_client *client)
{
    const struct c7x_client_tensor input = floats(4);
    uint32_t handle;
    uint32_t model;
    if (!loads(client, "no_weights", 0, C7X_OK, &handle))
        return;
    if (works(client, c7x_client_model_load(client, weights, &model))) {
        infer(client, handle, model, &input, 1, 0);
        assert_int_equal(c7x_client_model_unload(client, model), C7X_OK);
    }
    unload(client, handle);
}

static void a_large_output(struct c7x_client *client)
{
    run_without_inputs(client, "big_output");
}

static void many_outputs(struct c7x_client *client)
{
    run_without_inputs(client, "many_outputs");
}

static void printing(struct c7x_client *client)
{
    run_without_inputs(client, "prints");
}

static void kernels(struct c7x_client *client)
{
    run_floats(client, "kernels", 64, 0);
}

static void operators(struct c7x_client *client)
{
    run_floats(client, "operators", 4, 0);
}

static void workspace(struct c7x_client *client)
{
    run_floats(client, "in_place", 1024, 0);
}

/* L2 is saved and restored. */
static void two_that_use_l2(struct c7x_client *client)
{
    const struct c7x_client_tensor input = {
        (void *)(uintptr_t)two_sections, sizeof two_sections, 1, C7X_DTYPE_INT, 32, 0, {2}};
    uint32_t first;
    uint32_t second;
    if (!loads(client, "scratch", 0, C7X_OK, &first))
        return;
    if (loads(client, "scratch", 0, C7X_OK, &second)) {
        infer(client, first, 0, &input, 1, 0);
        infer(client, second, 0, &input, 1, 0);
        unload(client, second);
    }
    unload(client, first);
}

static void a_cache(struct c7x_client *client)
{
    struct c7x_client_tensor inputs[2] = {floats(4), floats(4)};
    uint32_t handle;
    inputs[1].data = NULL; /* from the cache */
    if (!loads(client, "kv", 0, C7X_OK, &handle))
        return;
    if (works(client, c7x_client_kv_bind(client, handle, 1, 4 * sizeof(float))))
        infer(client, handle, 0, inputs, 2, C7X_INFER_KV_RESIDENT);
    unload(client, handle);
}

/* More than a request of the usual size has room for. */
static void many_inputs(struct c7x_client *client)
{
    struct c7x_client_tensor inputs[INPUTS_MAX];
    uint32_t handle;
    for (int i = 0; i < INPUTS_MAX; i++)
        inputs[i] = floats(4);
    if (!loads(client, "kv", 0, C7X_OK, &handle))
        return;
    infer(client, handle, 0, inputs, INPUTS_MAX, 0);
    unload(client, handle);
}

/* Refused at the last step, with all of it loaded. */
static void a_file_for_a_board(struct c7x_client *client)
{
    (void)loads(client, "c7x", 0, C7X_LOAD, &(uint32_t){0});
    (void)loads(client, "c7x", C7X_LOAD_KEEP, C7X_LOAD, &(uint32_t){0});
}

static void names_that_are_missing(struct c7x_client *client)
{
    (void)loads(client, "needs_many", 0, C7X_SYMBOL, &(uint32_t){0});
}

static const struct {
    const char *name;
    void (*live)(struct c7x_client *client);
} lives[] = {
#define LIFE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    LIFE(weights_inside),
    LIFE(kept),
    LIFE(weights_apart),
    LIFE(a_large_output),
    LIFE(many_outputs),
    LIFE(printing),
    LIFE(kernels),
    LIFE(operators),
    LIFE(workspace),
    LIFE(a_cache),
    LIFE(two_that_use_l2),
    LIFE(many_inputs),
    LIFE(a_file_for_a_board),
    LIFE(names_that_are_missing),
#undef LIFE
};

/* ---- The sweep ---- */

static void drop_text(void *context, const char *text, size_t size)
{
    (void)context;
    (void)text;
    (void)size;
}

static void live(struct c7x_test_loopback *device, int life)
{
    struct c7x_client *client = NULL;
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.print = drop_text;
    if (!works(NULL, c7x_client_open_over(c7x_test_loopback_connect(device), &options, &client)))
        return;
    lives[life].live(client);
    c7x_client_close(client);
}

static void assert_as_before(const struct c7x_test_loopback *device,
                             const struct c7x_heap_statistics *before, int life, uint64_t nth)
{
    for (int pool = 0; pool < C7X_TEST_POOL_COUNT; pool++) {
        struct c7x_heap_statistics now;
        c7x_test_loopback_pool(device, (enum c7x_test_pool)pool, &now);
        if (now.free != before[pool].free || now.block_count != before[pool].block_count)
            fail_msg("%s, allocation %d: %lld bytes and %d blocks are left in pool %d",
                     lives[life].name, (int)nth, (long long)(before[pool].free - now.free),
                     (int)(now.block_count - before[pool].block_count), pool);
    }
    assert_int_equal(c7x_test_loopback_module_count(device), 0);
    assert_int_equal(c7x_test_loopback_model_count(device), 0);
}

/* Until the life comes to its end without having reached the n-th; returns how many it has. */
static uint64_t sweep(struct c7x_test_loopback *device, int life, enum c7x_test_pool pool)
{
    struct c7x_heap_statistics before[C7X_TEST_POOL_COUNT];
    for (int i = 0; i < C7X_TEST_POOL_COUNT; i++)
        c7x_test_loopback_pool(device, (enum c7x_test_pool)i, &before[i]);
    for (uint64_t nth = 1; nth <= NTH_MAX; nth++) {
        (void)c7x_test_loopback_fail_allocation(device, pool, nth);
        live(device, life);
        uint64_t left = c7x_test_loopback_fail_allocation(device, pool, 0);
        assert_as_before(device, before, life, nth);
        if (left != 0)
            return nth - 1;
    }
    fail_msg("%s: more than %d allocations", lives[life].name, NTH_MAX);
    return 0;
}

static void every_allocation_may_fail(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start();
    char folder[C7X_TEST_PATH_MAX];
    uint64_t total[C7X_TEST_POOL_COUNT] = {0};
    (void)state;
    c7x_test_make_folder(folder);
    snprintf(weights, sizeof weights, "%s/weights.bin", folder);
    c7x_test_make_weights(weights);
    for (size_t life = 0; life < sizeof lives / sizeof lives[0]; life++) {
        live(device, (int)life); /* what stays from then on is no leak */
        for (int pool = 0; pool < C7X_TEST_POOL_COUNT; pool++)
            total[pool] += sweep(device, (int)life, (enum c7x_test_pool)pool);
    }
    print_message("%d allocations of the heap and %d of the fast pool failed in turn\n",
                  (int)total[C7X_TEST_POOL_MAIN], (int)total[C7X_TEST_POOL_FAST]);
    assert_true(total[C7X_TEST_POOL_MAIN] > 100 && total[C7X_TEST_POOL_FAST] > 10);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* KV caches that stay on the device, through the client library. */
#include "c7x_compute_client.h"
#include "support/environment.h"
#include "support/loopback_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 6
#define SLOT_FLOATS 16

struct fixture {
    struct c7x_test_loopback *device;
    struct c7x_client *client;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->device = c7x_test_loopback_start();
    fixture->client = c7x_test_loopback_open(fixture->device, NULL);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    c7x_client_close(fixture->client);
    c7x_test_loopback_stop(fixture->device);
    free(fixture);
    return 0;
}

static uint32_t load(struct c7x_client *client)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path("kv", path);
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), C7X_OK);
    assert_int_equal(c7x_client_reserve_io(client, 4096, 4096), C7X_OK);
    return handle;
}

/* One step: y = x + the sum of the caches; each cache k then grows by k * x. */
static enum c7x_status step(struct c7x_client *client, uint32_t handle, float x, float *out_y)
{
    struct c7x_client_tensor inputs[1 + SLOTS] = {
        {&x, sizeof x, 1, C7X_DTYPE_FLOAT, 32, 0, {1}},
    };
    struct c7x_client_tensor output;
    int count = 1;
    for (int i = 1; i <= SLOTS; i++)
        inputs[i] = (struct c7x_client_tensor){NULL, SLOT_FLOATS * sizeof x, 1, C7X_DTYPE_FLOAT, 32,
                                               0,    {SLOT_FLOATS}};
    enum c7x_status status = c7x_client_infer_flags(client, handle, 0, inputs, 1 + SLOTS, &output,
                                                    &count, NULL, C7X_INFER_KV_RESIDENT);
    if (status == C7X_OK) {
        assert_int_equal(count, 1);
        *out_y = *(const float *)output.data;
    }
    return status;
}

static void the_cache_lives_from_step_to_step(void **state)
{
    struct c7x_client *client = ((struct fixture *)*state)->client;
    uint32_t handle = load(client);
    float sum = 0;
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS, SLOT_FLOATS * sizeof(float)),
                     C7X_OK);
    for (int i = 1; i <= 50; i++) {
        float x = (float)i;
        float y = 0;
        assert_int_equal(step(client, handle, x, &y), C7X_OK);
        assert_true(y == x + sum);
        sum += x * SLOTS * (SLOTS + 1) / 2;
    }
}

static void two_modules_have_caches_of_their_own(void **state)
{
    struct c7x_client *client = ((struct fixture *)*state)->client;
    uint32_t handles[2];
    float sums[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        handles[i] = load(client);
        assert_int_equal(c7x_client_kv_bind(client, handles[i], SLOTS, SLOT_FLOATS * sizeof(float)),
                         C7X_OK);
    }
    for (int i = 0; i < 20; i++) {
        float x = (float)(i * i);
        float y = 0;
        assert_int_equal(step(client, handles[i % 2], x, &y), C7X_OK);
        assert_true(y == x + sums[i % 2]);
        sums[i % 2] += x * SLOTS * (SLOTS + 1) / 2;
    }
}

static void without_a_region_or_with_a_small_one_it_is_refused(void **state)
{
    struct c7x_client *client = ((struct fixture *)*state)->client;
    uint32_t handle = load(client);
    float y;
    assert_int_equal(step(client, handle, 1, &y), C7X_TENSOR);
    assert_non_null(strstr(c7x_client_last_error(client), "kv_bind"));
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS - 1, SLOT_FLOATS * sizeof(float)),
                     C7X_OK);
    assert_int_equal(step(client, handle, 1, &y), C7X_SIZE);
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS, 4), C7X_OK);
    assert_int_equal(step(client, handle, 1, &y), C7X_SIZE);
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS, 0), C7X_SIZE);
    assert_int_equal(c7x_client_kv_bind(client, handle, UINT32_MAX, 1u << 29), C7X_SIZE);
    assert_int_equal(c7x_client_kv_bind(client, 4711, SLOTS, 64), C7X_HANDLE);
}

static void unbinding_and_unloading_give_the_memory_back(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *client = fixture->client;
    uint32_t handle = load(client);
    size_t before = c7x_test_loopback_buffer_count(fixture->device);
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS, 4096), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), before + 1);
    assert_int_equal(c7x_client_kv_bind(client, handle, 2 * SLOTS, 4096), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), before + 1);
    assert_int_equal(c7x_client_kv_bind(client, handle, 0, 0), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), before);
    assert_int_equal(c7x_client_kv_bind(client, handle, SLOTS, 4096), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), before - 1); /* staging too */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_cache_lives_from_step_to_step),
        CASE(two_modules_have_caches_of_their_own),
        CASE(without_a_region_or_with_a_small_one_it_is_refused),
        CASE(unbinding_and_unloading_give_the_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

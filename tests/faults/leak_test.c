/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many rounds, and everything that can leak at its base line: heap, carve-out, modules, models,
 * descriptors. A tenth of the rounds unless the environment has C7X_SOAK.
 */
#include "c7x_compute_client.h"
#include "support/emulator_device.h"
#include "support/environment.h"
#include "support/loopback_device.h"
#include "support/raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN_ROUNDS 100
#define OPEN_ROUNDS 1000

/* Loads a module, runs it and unloads it. */
static void use_module(struct c7x_client *client, const char *module,
                       const struct c7x_client_tensor *inputs, int input_count)
{
    char path[C7X_TEST_PATH_MAX];
    struct c7x_client_tensor outputs[8];
    int output_count = 8;
    uint32_t handle;
    c7x_test_module_path(module, path);
    if (c7x_client_dyn_load(client, path, &handle) != C7X_OK ||
        c7x_client_infer(client, handle, 0, inputs, input_count, outputs, &output_count, NULL) !=
            C7X_OK ||
        c7x_client_dyn_unload(client, handle) != C7X_OK)
        fail_msg("%s: %s", module, c7x_client_last_error(client));
}

static void use_two_modules(struct c7x_client *client)
{
    float numbers[4] = {1, 2, 3, 4};
    const struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0,
                                            {4}};
    use_module(client, "add_one", &input, 1);
    use_module(client, "many_outputs", NULL, 0);
}

/* ---- Over loopback
 * ------------------------------------------------------------------------------- */

struct books {
    struct c7x_heap_statistics heap;
    uint64_t carveout_free;
    size_t buffer_count;
    uint32_t module_count;
    uint32_t model_count;
};

static struct books read_books(struct c7x_test_loopback *device, struct c7x_host_link *observer)
{
    struct books books = {
        .carveout_free = c7x_test_free_bytes(observer),
        .buffer_count = c7x_test_loopback_buffer_count(device),
        .module_count = c7x_test_loopback_module_count(device),
        .model_count = c7x_test_loopback_model_count(device),
    };
    c7x_test_loopback_heap(device, &books.heap);
    return books;
}

static void assert_same_books(const struct books *now, const struct books *base)
{
    assert_int_equal(now->heap.free, base->heap.free);
    assert_int_equal(now->heap.largest, base->heap.largest);
    assert_int_equal(now->heap.block_count, base->heap.block_count);
    assert_int_equal(now->carveout_free, base->carveout_free);
    assert_int_equal(now->buffer_count, base->buffer_count);
    assert_int_equal(now->module_count, 0);
    assert_int_equal(now->model_count, 0);
}

static void rounds_of_two_modules_leave_nothing_in_the_firmware(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start();
    struct c7x_client *client = c7x_test_loopback_open(device, NULL);
    struct c7x_host_link *observer = c7x_test_loopback_connect(device);
    (void)state;
    use_two_modules(client); /* the client's buffers grow to what they will need */
    const struct books base = read_books(device, observer);
    for (int round = 1; round <= c7x_test_rounds(RUN_ROUNDS); round++) {
        use_two_modules(client);
        if (round % 10 != 0)
            continue;
        struct books now = read_books(device, observer);
        assert_same_books(&now, &base);
    }
    observer->ops->close(observer);
    c7x_client_close(client);
    c7x_test_loopback_stop(device);
}

static void rounds_of_clients_leave_nothing_in_the_firmware(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start();
    struct c7x_host_link *observer = c7x_test_loopback_connect(device);
    const struct books base = read_books(device, observer);
    (void)state;
    for (int round = 1; round <= c7x_test_rounds(OPEN_ROUNDS); round++) {
        struct c7x_client *client = c7x_test_loopback_open(device, NULL);
        assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
        c7x_client_close(client);
    }
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_buffer_count(device) == base.buffer_count, 1000);
    struct books now = read_books(device, observer);
    assert_same_books(&now, &base);
    observer->ops->close(observer);
    c7x_test_loopback_stop(device);
}

/* ---- Over an emulator
 * ----------------------------------------------------------------------------- */

/* The whole log of the emulator, which the client can read even when the core has ended; to be
 * freed. */
static char *read_log(struct c7x_client *client)
{
    size_t capacity = (size_t)2 << 20;
    char *text = malloc(capacity);
    size_t used = 0;
    size_t size = 0;
    uint64_t position = 0;
    assert_non_null(text);
    do {
        assert_int_equal(
            c7x_client_read_trace(client, &position, text + used, capacity - 1 - used, &size),
            C7X_OK);
        used += size;
    } while (size != 0);
    text[used] = '\0';
    return text;
}

static void rounds_of_two_modules_leave_nothing_in_the_emulator(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status base;
    struct c7x_emulator_status now;
    (void)state;
    c7x_test_emulator_start(&emulator);
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    use_two_modules(client);
    c7x_test_emulator_status(&emulator, &base);
    for (int round = 1; round <= c7x_test_rounds(RUN_ROUNDS); round++) {
        use_two_modules(client);
        c7x_test_emulator_status(&emulator, &now);
        assert_int_equal(now.carveout_free, base.carveout_free);
        assert_int_equal(now.carveout_largest, base.carveout_largest);
    }
    assert_int_equal(now.core_starts, 1);
    free(read_log(client)); /* maps it, so that it can be read after the end */
    int watch = c7x_test_watch((pid_t)now.core_pid);
    c7x_test_emulator_stop(&emulator);
    assert_true(c7x_test_wait_for_end(watch, 10000));
    char *log = read_log(client);
    assert_non_null(strstr(log, "Unloaded module"));
    assert_null(strstr(log, "are left at the end"));
    free(log);
    c7x_client_close(client);
}

static void rounds_of_clients_leave_no_descriptors_behind(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status status;
    (void)state;
    c7x_test_emulator_start(&emulator);
    c7x_client_close(c7x_test_emulator_open(&emulator));
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 5000);
    c7x_test_emulator_status(&emulator, &status);
    int ours = c7x_test_descriptor_count(0);
    int supervisors = c7x_test_descriptor_count((pid_t)status.pid);
    int cores = c7x_test_descriptor_count((pid_t)status.core_pid);
    assert_true(ours > 0 && supervisors > 0 && cores > 0);
    for (int round = 0; round < c7x_test_rounds(OPEN_ROUNDS); round++) {
        struct c7x_client *client = c7x_test_emulator_open(&emulator);
        assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
        c7x_client_close(client);
    }
    assert_int_equal(c7x_test_descriptor_count(0), ours);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 5000);
    /* The base line may have one more: what asked for the status had perhaps not been closed there.
     */
    C7X_TEST_WAIT_UNTIL(c7x_test_descriptor_count((pid_t)status.pid) <= supervisors, 5000);
    C7X_TEST_WAIT_UNTIL(c7x_test_descriptor_count((pid_t)status.core_pid) <= cores, 5000);
    c7x_test_emulator_stop(&emulator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_of_two_modules_leave_nothing_in_the_firmware),
        cmocka_unit_test(rounds_of_clients_leave_nothing_in_the_firmware),
        cmocka_unit_test(rounds_of_two_modules_leave_nothing_in_the_emulator),
        cmocka_unit_test(rounds_of_clients_leave_no_descriptors_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

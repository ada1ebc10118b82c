/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of callers and the caches between CPU and DSP, on an emulator whose caches are strict:
 * each sync that is forgotten or swapped shows, every time.
 */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POISON 0x5A
#define SOON_MS 20000

struct fixture {
    struct c7x_client *client;
    uint32_t add_one;
    struct c7x_shared *input;
    struct c7x_shared *output;
    uint64_t log_position;
};

static struct c7x_shared *create(struct c7x_client *client, const char *name)
{
    struct c7x_shared *shared = NULL;
    if (c7x_shared_create(client, 4096, name, &shared) != C7X_OK)
        fail_msg("create: %s", c7x_client_last_error(client));
    assert_int_equal((uintptr_t)c7x_shared_pointer(shared) % 128, 0);
    assert_true(c7x_shared_size(shared) >= 4096);
    return shared;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char path[C7X_TEST_PATH_MAX];
    assert_non_null(fixture);
    setenv("C7X_STRICT_CACHE", "1", 1);
    fixture->client = c7x_client_open();
    unsetenv("C7X_STRICT_CACHE");
    if (fixture->client == NULL)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    c7x_test_module_path("add_one", path);
    assert_int_equal(c7x_client_dyn_load(fixture->client, path, &fixture->add_one), C7X_OK);
    fixture->input = create(fixture->client, "camera");
    fixture->output = create(fixture->client, "boxes");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    c7x_shared_free(fixture->input);
    c7x_shared_free(fixture->output);
    c7x_client_close(fixture->client);
    free(fixture);
    return 0;
}

static struct c7x_inference *send(struct fixture *fixture)
{
    struct c7x_inference *inference = NULL;
    struct c7x_infer_options options;
    struct c7x_client_tensor input = {
        c7x_shared_pointer(fixture->input), 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    c7x_infer_options_init(fixture->client, &options);
    options.handle = fixture->add_one;
    options.input = fixture->input;
    options.output = fixture->output;
    if (c7x_client_infer_async(fixture->client, &options, &input, 1, &inference) != C7X_OK)
        return NULL;
    return inference;
}

/* Runs add_one on what the DSP sees in the input buffer, into the output buffer. */
static void infer(struct fixture *fixture)
{
    struct c7x_client_tensor output;
    int count = 1;
    struct c7x_inference *inference = send(fixture);
    assert_non_null(inference);
    assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
    assert_int_equal(c7x_inference_result(inference, &output, &count, NULL), C7X_OK);
    assert_ptr_equal(output.data, c7x_shared_pointer(fixture->output)); /* in place */
    c7x_inference_free(inference);
}

static void write_numbers(struct fixture *fixture, float first)
{
    float *numbers = c7x_shared_pointer(fixture->input);
    for (int i = 0; i < 4; i++)
        numbers[i] = first + (float)i;
}

static void write_and_sync(struct fixture *fixture, float first)
{
    assert_int_equal(c7x_shared_begin(fixture->input, C7X_CPU_WRITE), C7X_OK);
    write_numbers(fixture, first);
    assert_int_equal(c7x_shared_end(fixture->input), C7X_OK);
}

static void assert_read(struct fixture *fixture, float first)
{
    const float *numbers = c7x_shared_pointer(fixture->output);
    assert_int_equal(c7x_shared_begin(fixture->output, C7X_CPU_READ), C7X_OK);
    for (int i = 0; i < 4; i++)
        assert_true(numbers[i] == first + (float)i);
    assert_int_equal(c7x_shared_end(fixture->output), C7X_OK);
}

/* Whether the firmware's log has a line with this text since the last call. */
static bool log_says(struct fixture *fixture, const char *text)
{
    static char log[1 << 16];
    size_t used = 0;
    size_t size;
    do {
        assert_int_equal(c7x_client_read_trace(fixture->client, &fixture->log_position, log + used,
                                               sizeof log - 1 - used, &size),
                         C7X_OK);
        used += size;
    } while (size != 0);
    log[used] = '\0';
    return strstr(log, text) != NULL;
}

static void with_each_sync_in_its_place_results_are_right(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 20; i++) {
        write_and_sync(fixture, (float)i);
        infer(fixture);
        assert_read(fixture, (float)i + 1);
    }
    assert_false(log_says(fixture, "stale"));
}

static void input_that_is_written_without_begin_and_end_is_not_seen_and_reported(void **state)
{
    struct fixture *fixture = *state;
    write_and_sync(fixture, 1);
    infer(fixture);
    assert_false(log_says(fixture, "stale"));
    write_numbers(fixture, 100);
    infer(fixture);
    assert_read(fixture, 2); /* of the old numbers */
    assert_true(log_says(fixture, "stale: 1 lines of buffer 0x"));
}

static void input_that_is_written_after_end_is_reported_with_its_offset(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(c7x_shared_begin(fixture->input, C7X_CPU_WRITE), C7X_OK);
    assert_int_equal(c7x_shared_end(fixture->input), C7X_OK); /* swapped with the writing */
    write_numbers(fixture, 1);
    infer(fixture);
    assert_int_equal(c7x_shared_begin(fixture->output, C7X_CPU_READ), C7X_OK);
    assert_true(((const float *)c7x_shared_pointer(fixture->output))[3] == 1); /* of zeros */
    assert_int_equal(c7x_shared_end(fixture->output), C7X_OK);
    assert_true(log_says(fixture, "from offset 0 on, were written by the host and not synced"));
}

static void output_that_is_read_without_begin_is_the_old_one(void **state)
{
    struct fixture *fixture = *state;
    write_and_sync(fixture, 1);
    infer(fixture);
    assert_read(fixture, 2);
    write_and_sync(fixture, 50);
    infer(fixture);
    assert_true(((const float *)c7x_shared_pointer(fixture->output))[0] == 2);
    assert_read(fixture, 51);
}

static void what_the_cpu_writes_into_the_output_does_not_come_back(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(c7x_shared_begin(fixture->output, C7X_CPU_WRITE), C7X_OK);
    memset(c7x_shared_pointer(fixture->output), POISON, 16);
    assert_int_equal(c7x_shared_end(fixture->output), C7X_OK);
    write_and_sync(fixture, 7);
    infer(fixture);
    assert_read(fixture, 8);
}

static void steps_out_of_order_are_refused_with_the_buffers_name(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(c7x_shared_end(fixture->input), C7X_INVALID);
    assert_non_null(strstr(c7x_client_last_error(NULL), "camera"));
    assert_int_equal(c7x_shared_begin(fixture->input, 0), C7X_INVALID);
    assert_int_equal(c7x_shared_begin(fixture->input, 8), C7X_INVALID);
    assert_int_equal(c7x_shared_begin(fixture->input, C7X_CPU_WRITE), C7X_OK);
    assert_int_equal(c7x_shared_begin(fixture->input, C7X_CPU_READ), C7X_INVALID);
    assert_null(send(fixture)); /* it is the CPU's turn */
    assert_non_null(strstr(c7x_client_last_error(NULL), "camera"));
    assert_int_equal(c7x_shared_end(fixture->input), C7X_OK);
    assert_int_equal(c7x_shared_begin(fixture->output, C7X_CPU_READ), C7X_OK);
    assert_null(send(fixture));
    assert_non_null(strstr(c7x_client_last_error(NULL), "boxes"));
    assert_int_equal(c7x_shared_end(fixture->output), C7X_OK);
    assert_int_equal(c7x_shared_begin(fixture->input, C7X_CPU_WRITE), C7X_OK); /* not in use */
    assert_int_equal(c7x_shared_end(fixture->input), C7X_OK);
}

/* The library minds its own buffers. */
static void copied_inputs_need_no_care(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 5; i++) {
        float numbers[4] = {(float)i, 1, 2, 3};
        struct c7x_client_tensor input = {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
        struct c7x_client_tensor output;
        int count = 1;
        assert_int_equal(c7x_client_infer(fixture->client, fixture->add_one, 0, &input, 1, &output,
                                          &count, NULL),
                         C7X_OK);
        assert_true(((const float *)output.data)[0] == (float)i + 1);
    }
    assert_false(log_says(fixture, "stale"));
}

static void created_inputs_are_aligned_and_never_overwritten(void **state)
{
    struct fixture *fixture = *state;
    const int64_t shape[1] = {4};
    struct c7x_client_tensor created[3];
    float numbers[4] = {10, 20, 30, 40};
    struct c7x_client_tensor copied = {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int count = 1;
    assert_int_equal(c7x_client_reserve_io(fixture->client, 8192, 0), C7X_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            c7x_client_create_input(fixture->client, shape, 1, C7X_DTYPE_FLOAT, 32, &created[i]),
            C7X_OK);
        assert_int_equal((uintptr_t)created[i].data % 128, 0);
        assert_int_equal(created[i].data_size, 16);
        ((float *)created[i].data)[0] = (float)i;
    }
    assert_int_equal(
        c7x_client_infer(fixture->client, fixture->add_one, 0, &copied, 1, &output, &count, NULL),
        C7X_OK);
    assert_true(((const float *)output.data)[0] == 11);
    for (int i = 0; i < 3; i++) {
        assert_true(((const float *)created[i].data)[0] == (float)i);
        assert_int_equal(c7x_client_infer(fixture->client, fixture->add_one, 0, &created[i], 1,
                                          &output, &count, NULL),
                         C7X_OK);
        assert_true(((const float *)output.data)[0] == (float)i + 1);
    }
    const int64_t large[2] = {100, 100};
    assert_int_equal(
        c7x_client_create_input(fixture->client, large, 2, C7X_DTYPE_FLOAT, 32, &created[0]),
        C7X_SIZE);
    const int64_t negative[1] = {-1};
    assert_int_equal(
        c7x_client_create_input(fixture->client, negative, 1, C7X_DTYPE_FLOAT, 32, &created[0]),
        C7X_INVALID);
    assert_int_equal(
        c7x_client_create_input(fixture->client, shape, 1, C7X_DTYPE_FLOAT, 33, &created[0]),
        C7X_INVALID);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(with_each_sync_in_its_place_results_are_right),
        CASE(input_that_is_written_without_begin_and_end_is_not_seen_and_reported),
        CASE(input_that_is_written_after_end_is_reported_with_its_offset),
        CASE(output_that_is_read_without_begin_is_the_old_one),
        CASE(what_the_cpu_writes_into_the_output_does_not_come_back),
        CASE(steps_out_of_order_are_refused_with_the_buffers_name),
        CASE(copied_inputs_need_no_care),
        CASE(created_inputs_are_aligned_and_never_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The client library: what its callers may do wrong, and what must go right all the same. Over
 * loopback. */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "c7x_module.h"
#include "client/over.h"
#include "support/environment.h"
#include "support/loopback_device.h"
#include "support/weights.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

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

static struct c7x_client *client_of(void **state)
{
    return ((struct fixture *)*state)->client;
}

static uint32_t load_flags(struct c7x_client *client, const char *module, uint32_t flags)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path(module, path);
    if (c7x_client_dyn_load_flags(client, path, flags, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(client));
    return handle;
}

static uint32_t load(struct c7x_client *client, const char *module)
{
    return load_flags(client, module, 0);
}

static struct c7x_client_tensor floats(float *numbers)
{
    return (struct c7x_client_tensor){numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
}

static struct c7x_client_tensor integer(int32_t *number)
{
    return (struct c7x_client_tensor){number, 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
}

/* Runs a module with one output; fails the test with the client's text when that fails. */
static struct c7x_client_tensor run(struct c7x_client *client, uint32_t handle,
                                    const struct c7x_client_tensor *inputs, int input_count)
{
    struct c7x_client_tensor output;
    int output_count = 1;
    if (c7x_client_infer(client, handle, 0, inputs, input_count, &output, &output_count, NULL) !=
        C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(client));
    assert_int_equal(output_count, 1);
    return output;
}

static void run_add_one(struct c7x_client *client, uint32_t handle, float first)
{
    float numbers[4] = {first, 2, 3, 4};
    struct c7x_client_tensor input = floats(numbers);
    struct c7x_client_tensor output = run(client, handle, &input, 1);
    const float *sums = output.data;
    assert_int_equal(output.data_size, 16);
    assert_int_equal(output.ndim, 1);
    assert_int_equal(output.shape[0], 4);
    for (int i = 0; i < 4; i++)
        assert_true(sums[i] == numbers[i] + 1);
}

static int32_t run_sums(struct c7x_client *client, uint32_t handle,
                        const struct c7x_client_tensor *inputs, int count)
{
    struct c7x_client_tensor output = run(client, handle, inputs, count);
    int32_t sum;
    assert_int_equal(output.data_size, sizeof sum);
    memcpy(&sum, output.data, sizeof sum);
    return sum;
}

/* ---- Opening
 * -------------------------------------------------------------------------------------- */

static void options_of_any_age_are_understood(void **state)
{
    struct fixture *fixture = *state;
    struct {
        struct c7x_client_options options;
        char what_comes_later[64];
    } newer;
    struct c7x_client *client = NULL;
    memset(&newer, 0xFF, sizeof newer);
    c7x_client_options_init(&newer.options);
    assert_int_equal(newer.options.struct_size, sizeof newer.options);
    newer.options.struct_size = sizeof newer;
    c7x_client_close(c7x_test_loopback_open(fixture->device, &newer.options));
    newer.options.struct_size = offsetof(struct c7x_client_options, priority);
    newer.options.priority = 77; /* not a part of that struct */
    c7x_client_close(c7x_test_loopback_open(fixture->device, &newer.options));
    newer.options.struct_size = 0;
    assert_int_equal(
        c7x_client_open_over(c7x_test_loopback_connect(fixture->device), &newer.options, &client),
        C7X_INVALID);
    assert_null(client);
    assert_non_null(strstr(c7x_client_last_error(NULL), "struct_size"));
    assert_string_equal(c7x_client_last_station(NULL), "client");
}

static void priorities_are_1_to_8(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client_options options;
    struct c7x_client *client = NULL;
    c7x_client_options_init(&options);
    for (int priority = -1; priority <= 9; priority++) {
        options.priority = priority;
        bool is_right = priority >= 0 && priority <= 8;
        assert_int_equal(
            c7x_client_open_over(c7x_test_loopback_connect(fixture->device), &options, &client),
            is_right ? C7X_OK : C7X_INVALID);
        if (!is_right)
            continue;
        run_add_one(client, load(client, "add_one"), 1);
        c7x_client_close(client);
    }
}

/* ---- Priorities ---- */

enum { PRIORITIES = 8 };

static uint64_t read_jobs(struct c7x_client *client, uint64_t jobs[PRIORITIES])
{
    struct c7x_target_info *targets = NULL;
    size_t count = 0;
    uint64_t total = 0;
    assert_int_equal(c7x_client_list_targets(client, &targets, &count), C7X_OK);
    assert_true(count > PRIORITIES);
    for (int i = 0; i < PRIORITIES; i++)
        total += jobs[i] = targets[i].jobs_done;
    c7x_list_free(targets);
    return total;
}

/* The priority of the target that runs an inference of add_one with these flags. A job counts as
 * done only when it has been answered, so there may be a moment to wait. */
static int priority_of_run(struct c7x_client *client, uint32_t handle, uint32_t flags)
{
    uint64_t before[PRIORITIES];
    uint64_t after[PRIORITIES];
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = floats(numbers);
    struct c7x_client_tensor output;
    int count = 1;
    int priority = 1;
    uint64_t total = read_jobs(client, before);
    assert_int_equal(
        c7x_client_infer_flags(client, handle, 0, &input, 1, &output, &count, NULL, flags), C7X_OK);
    while (read_jobs(client, after) == total)
        continue;
    while (priority <= PRIORITIES && after[priority - 1] == before[priority - 1])
        priority++;
    return priority;
}

/* As `ps` shows it. */
static int priority_of_module(struct c7x_client *client, uint32_t handle)
{
    struct c7x_module_info *modules = NULL;
    size_t count = 0;
    int priority = -1;
    assert_int_equal(c7x_client_list_modules(client, &modules, &count), C7X_OK);
    for (size_t i = 0; i < count; i++)
        if (modules[i].handle == handle)
            priority = modules[i].priority;
    c7x_list_free(modules);
    return priority;
}

static void the_nearest_priority_that_is_named_counts(void **state)
{
    const struct {
        int client;
        uint32_t load;
        uint32_t infer;
        int module; /* what it then has */
        int run;    /* where it then runs */
    } cases[] = {
        {0, 0, 0, 4, 4}, {0, 0, 3, 4, 3}, {0, 7, 0, 7, 7}, {0, 7, 8, 7, 8},
        {2, 0, 0, 2, 2}, {2, 0, 5, 2, 5}, {2, 7, 0, 7, 7}, {2, 7, 1, 7, 1},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof cases[0]); i++) {
        size_t n = i / 2;
        uint32_t keep = i % 2 != 0 ? C7X_LOAD_KEEP : 0;
        struct c7x_client_options options;
        c7x_client_options_init(&options);
        options.priority = cases[n].client;
        struct c7x_client *client = c7x_test_loopback_open(fixture->device, &options);
        uint32_t handle =
            load_flags(client, "add_one", keep | cases[n].load << C7X_LOAD_PRIORITY_SHIFT);
        assert_int_equal(priority_of_module(client, handle), cases[n].module);
        assert_int_equal(
            priority_of_run(client, handle, cases[n].infer << C7X_INFER_PRIORITY_SHIFT),
            cases[n].run);
        assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
        c7x_client_close(client);
    }
}

/* A module of the device has the priority of its load for all, but for those who have their own. */
static void priorities_hold_for_modules_of_others(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.priority = 3;
    struct c7x_client *other = c7x_test_loopback_open(fixture->device, &options);
    uint32_t kept =
        load_flags(fixture->client, "add_one", C7X_LOAD_KEEP | 6u << C7X_LOAD_PRIORITY_SHIFT);
    assert_int_equal(priority_of_run(fixture->client, kept, 0), 6);
    assert_int_equal(priority_of_run(other, kept, 0), 3);
    assert_int_equal(priority_of_run(other, kept, 8u << C7X_INFER_PRIORITY_SHIFT), 8);
    assert_int_equal(priority_of_module(other, kept), 6);
    c7x_client_close(other);
}

static void load_flags_are_checked(void **state)
{
    struct fixture *fixture = *state;
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 7;
    c7x_test_module_path("add_one", path);
    for (uint32_t priority = 9; priority <= 15; priority++) {
        char text[64];
        snprintf(text, sizeof text, "priority %u; allowed are 1 to 8", priority);
        assert_int_equal(c7x_client_dyn_load_flags(fixture->client, path,
                                                   priority << C7X_LOAD_PRIORITY_SHIFT, &handle),
                         C7X_INVALID);
        assert_string_equal(c7x_client_last_error(fixture->client), text);
        assert_string_equal(c7x_client_last_station(fixture->client), "client");
    }
    for (uint32_t bit = 0; bit < 32; bit++) {
        bool is_known = 1u << bit == C7X_LOAD_KEEP;
        if (!is_known && (bit < 20 || bit > 23))
            assert_int_equal(c7x_client_dyn_load_flags(fixture->client, path, 1u << bit, &handle),
                             C7X_INVALID);
        if (!is_known) /* weights are not called, and so have no priority */
            assert_int_equal(c7x_client_model_load_flags(fixture->client, path, 1u << bit, &handle),
                             C7X_INVALID);
    }
    assert_int_equal(handle, 7);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 0);
}

/* ---- Devices ---- */

static void wrong_devices_are_named(void **state)
{
    char too_long[256] = "emu:/";
    const struct {
        const char *device;
        enum c7x_status status;
        const char *text;
    } cases[] = {
        {"rpmsg:7", C7X_INVALID, "rpmsg:7"},
        {"", C7X_INVALID, "known are"},
        {"emulator", C7X_INVALID, "emulator"},
        {"emu:c7x-0", C7X_INVALID, "c7x-1 to c7x-2"},
        {"emu:c7x-3", C7X_INVALID, "no core c7x-3"},
        {"emu:c7x-12", C7X_INVALID, "no core c7x-12"},
        {"emu:c7x-", C7X_NO_DEVICE, "serves at c7x-:"}, /* these are paths */
        {"emu:./c7x-2", C7X_NO_DEVICE, "serves at ./c7x-2:"},
        {"emu:c7x-2.sock", C7X_NO_DEVICE, "serves at c7x-2.sock:"},
        {"emu:/tmp/there/is/no/such.sock", C7X_NO_DEVICE, "/tmp/there/is/no/such.sock"},
        {too_long, C7X_SIZE, "too long"},
    };
    (void)state;
    memset(too_long + strlen(too_long), 'x', 200);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct c7x_client_options options;
        struct c7x_client *client = NULL;
        c7x_client_options_init(&options);
        options.device = cases[i].device;
        assert_int_equal(c7x_client_open_with(&options, &client), cases[i].status);
        assert_null(client);
        assert_non_null(strstr(c7x_client_last_error(NULL), cases[i].text));
        assert_true(c7x_client_last_station(NULL)[0] != '\0');
    }
}

static void the_status_of_no_emulator_is_no_failure(void **state)
{
    struct c7x_emulator_status status = {.struct_size = sizeof status, .running = 7};
    (void)state;
    assert_int_equal(c7x_emulator_get_status("emu:/tmp/there/is/no/such.sock", &status), C7X_OK);
    assert_int_equal(status.running, 0);
    assert_string_equal(status.path, "/tmp/there/is/no/such.sock");
    assert_int_equal(c7x_emulator_stop("emu:/tmp/there/is/no/such.sock", 1000), C7X_NO_DEVICE);
    assert_int_equal(c7x_emulator_start("emu", 1000), C7X_INVALID);
}

static void a_private_emulator_is_the_default_device(void **state)
{
    (void)state;
    unsetenv("C7X_DEVICE");
    struct c7x_client *client = c7x_client_open();
    if (client == NULL)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    run_add_one(client, load(client, "add_one"), 1);
    c7x_client_close(client);
}

/* ---- Simple calls
 * --------------------------------------------------------------------------------- */

static void ping_and_status_tell_version_and_jobs(void **state)
{
    struct c7x_client *client = client_of(state);
    struct c7x_client_status status;
    uint32_t version = 0;
    uint32_t uptime_ms = 0;
    assert_int_equal(c7x_client_ping(client, &version, &uptime_ms), C7X_OK);
    assert_int_equal(version, 0x030100);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    uint32_t handle = load(client, "add_one");
    uint32_t failing = load(client, "fails");
    int none = 0;
    run_add_one(client, handle, 1);
    run_add_one(client, handle, 2);
    assert_int_equal(c7x_client_infer(client, failing, 0, NULL, 0, NULL, &none, NULL), C7X_CALL);
    assert_int_equal(c7x_client_get_status(client, &status), C7X_OK);
    assert_int_equal(status.jobs_completed, 2);
    assert_int_equal(status.jobs_failed, 1);
}

static void failures_are_explained_until_the_next_call(void **state)
{
    struct c7x_client *client = client_of(state);
    assert_string_equal(c7x_client_last_error(client), "");
    assert_string_equal(c7x_client_last_station(client), "");
    uint32_t handle = load(client, "prints");
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_HANDLE);
    assert_non_null(strstr(c7x_client_last_error(client), "it was unloaded"));
    assert_string_equal(c7x_client_last_station(client), "module");
    assert_int_equal(c7x_client_model_unload(client, 99), C7X_HANDLE);
    assert_string_equal(c7x_client_last_station(client), "tvm");
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    assert_string_equal(c7x_client_last_error(client), "");
}

static void every_status_has_name_text_and_next_step(void **state)
{
    (void)state;
    assert_string_equal(c7x_status_name(C7X_NOMEM), "NOMEM");
    for (int status = 5; status > -200; status--) {
        assert_true(c7x_strerror(status)[0] != '\0');
        assert_true(c7x_status_name(status)[0] != '\0');
        assert_true(c7x_status_next_step(status)[0] != '\0');
    }
}

static void a_module_that_wants_too_much_says_how_much(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "hungry");
    uint32_t requested = 0;
    uint32_t free_bytes = 0;
    uint32_t total = 0;
    int none = 0;
    assert_int_equal(c7x_client_get_last_oom(client, &requested, &free_bytes, &total), 0);
    assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, NULL, &none, NULL), C7X_NOMEM);
    assert_int_equal(c7x_client_get_last_oom(client, &requested, &free_bytes, &total), 1);
    assert_int_equal(requested, UINT32_MAX); /* 2^40 does not fit the wire's field */
    assert_true(free_bytes > 0 && free_bytes <= total && total <= C7X_TEST_LOOPBACK_HEAP_BYTES);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    assert_int_equal(c7x_client_get_last_oom(client, &requested, &free_bytes, &total), 0);
}

/* ---- Inputs
 * --------------------------------------------------------------------------------------- */

static void inputs_may_begin_at_any_address(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    const float numbers[4] = {5, 6, 7, 8};
    uint8_t bytes[64 + sizeof numbers];
    for (size_t offset = 0; offset < 64; offset++) {
        memcpy(bytes + offset, numbers, sizeof numbers);
        struct c7x_client_tensor input = {
            bytes + offset, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
        struct c7x_client_tensor output = run(client, handle, &input, 1);
        assert_true(((const float *)output.data)[0] == 6 && ((const float *)output.data)[3] == 9);
    }
}

static void inputs_in_the_input_buffer_are_used_where_they_are(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    size_t size = 0;
    uint8_t *buffer = c7x_client_get_input_buffer(client, &size);
    size_t offset = c7x_client_get_input_data_offset(client);
    assert_non_null(buffer);
    assert_true(offset + 64 + 16 <= size);
    memset(buffer, 0xEE, size);
    float *numbers = (float *)(void *)(buffer + offset + 64);
    for (int i = 0; i < 4; i++)
        numbers[i] = (float)i;
    struct c7x_client_tensor input = floats(numbers);
    struct c7x_client_tensor output = run(client, handle, &input, 1);
    assert_true(((const float *)output.data)[3] == 4);
    for (size_t i = offset; i < offset + 64; i++) /* nothing was copied to where copies go */
        assert_int_equal(buffer[i], 0xEE);
    assert_ptr_equal(c7x_client_get_input_buffer(client, NULL), buffer);
}

static void inputs_that_leave_the_input_buffer_are_refused(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    size_t size = 0;
    uint8_t *buffer = c7x_client_get_input_buffer(client, &size);
    struct c7x_client_tensor input = {buffer + size - 8, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int count = 1;
    assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL),
                     C7X_TENSOR);
    assert_non_null(strstr(c7x_client_last_error(client), "input 0"));
    run_add_one(client, handle, 1);
}

static void placed_and_copied_inputs_mix(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "sums");
    assert_int_equal(c7x_client_reserve_io(client, 4096, 4096), C7X_OK);
    uint8_t *buffer = c7x_client_get_input_buffer(client, NULL);
    size_t offset = c7x_client_get_input_data_offset(client);
    for (unsigned placed = 0; placed < 32; placed++) {
        int32_t numbers[5];
        struct c7x_client_tensor inputs[5];
        for (int i = 0; i < 5; i++) {
            int32_t *number = &numbers[i];
            if ((placed >> i & 1) != 0) /* in reverse order, and where copies would go first */
                number = (int32_t *)(void *)(buffer + offset + (size_t)(4 - i) * 132);
            *number = 10 + i;
            inputs[i] = integer(number);
        }
        assert_int_equal(run_sums(client, handle, inputs, 5), 10 + 22 + 36 + 52 + 70);
    }
}

static void up_to_128_inputs_are_taken(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "sums");
    int32_t numbers[129];
    struct c7x_client_tensor inputs[129];
    struct c7x_client_tensor output;
    int output_count = 1;
    for (int i = 0; i < 129; i++) {
        numbers[i] = i;
        inputs[i] = integer(&numbers[i]);
    }
    for (int count = 0; count <= 128; count = count < 8 ? count + 1 : count * 2) {
        int32_t expected = 0;
        for (int i = 0; i < count; i++)
            expected += (i + 1) * i;
        assert_int_equal(run_sums(client, handle, inputs, count), expected);
    }
    assert_int_equal(c7x_client_infer(client, handle, 0, inputs, 129, &output, &output_count, NULL),
                     C7X_INVALID);
    assert_int_equal(c7x_client_infer(client, handle, 0, inputs, -1, &output, &output_count, NULL),
                     C7X_INVALID);
}

static void wrong_tensors_are_named_with_what_was_expected(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    float numbers[8] = {0};
    const struct c7x_client_tensor wrong[] = {
        {numbers, 20, 1, C7X_DTYPE_FLOAT, 32, 0, {5}},
        {numbers, 16, 2, C7X_DTYPE_FLOAT, 32, 0, {2, 2}},
        {numbers, 16, 1, C7X_DTYPE_INT, 32, 0, {4}},
        {numbers, 12, 1, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {numbers, 16, 7, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {numbers, 16, -1, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {NULL, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {numbers, 0, 1, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {-4}},
        {numbers, 32, 1, C7X_DTYPE_FLOAT, 32, 0, {4}},
        {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {INT64_MAX}},
    };
    struct c7x_client_tensor output;
    int count = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(c7x_client_infer(client, handle, 0, &wrong[i], 1, &output, &count, NULL),
                         C7X_TENSOR);
        assert_true(strlen(c7x_client_last_error(client)) > 10);
        run_add_one(client, handle, (float)i);
    }
    assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, &output, &count, NULL),
                     C7X_TENSOR);
    run_add_one(client, handle, 1);
}

static void infer_flags_are_checked(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    const struct {
        uint32_t flags;
        enum c7x_status status;
    } cases[] = {
        {8u << C7X_INFER_PRIORITY_SHIFT, C7X_OK},
        {9u << C7X_INFER_PRIORITY_SHIFT, C7X_INVALID},
        {C7X_INFER_KV_RESIDENT, C7X_ADDR}, /* no region is bound */
        {1u << 31, C7X_INVALID},
        {20, C7X_OK},
    };
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = floats(numbers);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct c7x_client_tensor output;
        uint64_t cycles = 0;
        int count = 1;
        assert_int_equal(c7x_client_infer_flags(client, handle, 0, &input, 1, &output, &count,
                                                &cycles, cases[i].flags),
                         cases[i].status);
        assert_int_equal(cycles != 0, cases[i].status == C7X_OK);
    }
}

/* ---- Outputs
 * -------------------------------------------------------------------------------------- */

static void more_outputs_than_fit_a_frame_come_through_memory(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "many_outputs");
    struct c7x_client_tensor outputs[8];
    int count = 8;
    assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, outputs, &count, NULL), C7X_OK);
    assert_int_equal(count, 7);
    for (int i = 0; i < count; i++) {
        assert_int_equal(*(const int32_t *)outputs[i].data, i);
        assert_int_equal(outputs[i].data_size, 4);
        assert_int_equal(outputs[i].ndim, 1);
        assert_int_equal(outputs[i].shape[0], 1);
        assert_int_equal(outputs[i].dtype_code, C7X_DTYPE_INT);
        assert_int_equal(outputs[i].reserved, i);
    }
}

static void an_array_that_is_too_small_stays_as_it_is(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "many_outputs");
    struct c7x_client_tensor outputs[7];
    struct c7x_client_tensor before[7];
    memset(outputs, 0x5A, sizeof outputs);
    memcpy(before, outputs, sizeof outputs);
    for (int room = -1; room < 7; room++) {
        int count = room;
        assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, outputs, &count, NULL),
                         C7X_SIZE);
        assert_int_equal(count, room);
        assert_memory_equal(outputs, before, sizeof outputs);
        assert_non_null(strstr(c7x_client_last_error(client), "7 outputs"));
    }
}

static void the_output_buffer_grows_when_it_must(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "big_output");
    struct c7x_client_tensor output = run(client, handle, NULL, 0);
    const float *numbers = output.data;
    assert_int_equal(output.data_size, 262144 * sizeof(float));
    for (int i = 0; i < 262144; i++)
        assert_true(numbers[i] == (float)i);
}

static void a_buffer_that_was_handed_out_does_not_move(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t small = load(client, "add_one");
    uint32_t big = load(client, "big_output");
    struct c7x_client_tensor output;
    size_t size = 0;
    size_t same = 0;
    int count = 1;
    assert_int_equal(c7x_client_reserve_io(client, 8192, 8192), C7X_OK);
    void *input_buffer = c7x_client_get_input_buffer(client, &size);
    void *output_buffer = c7x_client_get_output_buffer(client, &size);
    assert_true(size >= 8192);
    assert_int_equal(c7x_client_infer(client, big, 0, NULL, 0, &output, &count, NULL), C7X_SIZE);
    assert_int_equal(c7x_client_reserve_io(client, 0, 1 << 20), C7X_LOCKED);
    assert_int_equal(c7x_client_reserve_io(client, 1 << 20, 0), C7X_LOCKED);
    assert_int_equal(c7x_client_reserve_io(client, 8192, 8192), C7X_OK); /* large enough as it is */
    assert_ptr_equal(c7x_client_get_input_buffer(client, NULL), input_buffer);
    assert_ptr_equal(c7x_client_get_output_buffer(client, &same), output_buffer);
    assert_int_equal(same, size);
    run_add_one(client, small, 3);
    assert_int_equal(c7x_client_dyn_unload(client, small), C7X_OK); /* from here on they may move */
    assert_int_equal(c7x_client_reserve_io(client, 1 << 20, 1 << 20), C7X_OK);
    assert_true(c7x_client_input_capacity(client) >= 1 << 20);
    (void)run(client, big, NULL, 0);
}

static void there_are_no_buffers_before_the_first_module(void **state)
{
    struct c7x_client *client = client_of(state);
    size_t size = 1;
    assert_null(c7x_client_get_input_buffer(client, &size));
    assert_int_equal(size, 0);
    assert_null(c7x_client_get_output_buffer(client, NULL));
    assert_int_equal(c7x_client_input_capacity(client), 0);
}

static void more_than_the_carveout_cannot_be_reserved(void **state)
{
    struct c7x_client *client = client_of(state);
    uint32_t handle = load(client, "add_one");
    assert_int_equal(c7x_client_reserve_io(client, UINT64_MAX, 0), C7X_SIZE);
    assert_int_equal(c7x_client_reserve_io(client, C7X_TEST_LOOPBACK_ARENA_BYTES + 1, 0),
                     C7X_NOMEM);
    assert_int_equal(c7x_client_reserve_io(client, 0, C7X_TEST_LOOPBACK_ARENA_BYTES), C7X_NOMEM);
    run_add_one(client, handle, 1);
}

static void declarations_tell_the_sizes_of_the_buffers(void **state)
{
    struct c7x_client *client = client_of(state);
    uint64_t input_bytes = 0;
    uint64_t output_bytes = 0;
    uint32_t input_count = 0;
    uint32_t output_count = 0;
    uint32_t flags = 0;
    (void)load(client, "add_one");
    assert_int_equal(c7x_client_get_io_meta(client, &input_bytes, &output_bytes, &input_count,
                                            &output_count, &flags),
                     C7X_OK);
    assert_int_equal(input_count, 1);
    assert_int_equal(output_count, 1);
    assert_true(input_bytes >= 16 && output_bytes >= 16);
    assert_true(c7x_client_input_capacity(client) >= input_bytes);
    (void)load(client, "prints");
    assert_int_equal(c7x_client_get_io_meta(client, &input_bytes, &output_bytes, &input_count,
                                            &output_count, &flags),
                     C7X_OK);
    assert_int_equal(input_bytes + output_bytes + input_count + output_count + flags, 0);
}

/* ---- Deadlines
 * ------------------------------------------------------------------------------------- */

static void a_late_reply_is_dropped_and_its_buffers_are_left_alone(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *client = fixture->client;
    uint32_t handle = load(client, "spin");
    int32_t ms = 0;
    struct c7x_client_tensor input = integer(&ms);
    struct c7x_client_tensor output = run(client, handle, &input, 1);
    const void *old_data = output.data;
    size_t buffer_count = c7x_test_loopback_buffer_count(fixture->device);
    int count = 1;
    ms = 3000;
    c7x_client_set_deadline(client, 50);
    int64_t start_ms = c7x_test_now_ms();
    assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL),
                     C7X_TIMEOUT);
    assert_in_range(c7x_test_now_ms() - start_ms, 50, 1200);
    assert_null(c7x_client_get_output_buffer(client, NULL));
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device),
                     buffer_count); /* the device holds them */
    c7x_client_set_deadline(client, 60000);
    assert_int_equal(c7x_client_reserve_io(client, 4096, 4096), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), buffer_count + 2);
    ms = 3;
    output = run(client, handle, &input, 1);
    assert_ptr_not_equal(output.data, old_data);
    assert_int_equal(*(const int32_t *)output.data, 3);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_buffer_count(fixture->device) == buffer_count, 5000);
    ms = 4;
    output = run(client, handle, &input, 1);
    assert_int_equal(*(const int32_t *)output.data, 4);
}

/* ---- Text
 * ------------------------------------------------------------------------------------------ */

struct printed {
    size_t size;
    char text[64];
};

static void collect(void *context, const char *text, size_t size)
{
    struct printed *printed = context;
    assert_true(size <= sizeof printed->text - printed->size);
    memcpy(printed->text + printed->size, text, size);
    printed->size += size;
}

static void text_of_modules_goes_to_the_callers_function(void **state)
{
    struct fixture *fixture = *state;
    struct printed printed = {0};
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.print = collect;
    options.print_context = &printed;
    struct c7x_client *client = c7x_test_loopback_open(fixture->device, &options);
    uint32_t handle = load(client, "prints");
    int none = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, NULL, &none, NULL), C7X_OK);
    run_add_one(client, load(client, "add_one"), 1); /* prints nothing */
    assert_int_equal(printed.size, 12);
    assert_memory_equal(printed.text, "hello\nhello\n", 12);
    c7x_client_close(client);
}

/* ---- Several at once
 * ------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 25

static void *use_shared_client(void *context)
{
    struct fixture *fixture = context;
    struct c7x_client *client = fixture->client;
    char path[C7X_TEST_PATH_MAX];
    c7x_test_module_path("add_one", path);
    for (int round = 0; round < ROUNDS; round++) {
        float numbers[4] = {(float)round};
        struct c7x_client_tensor input = floats(numbers);
        struct c7x_client_tensor output;
        struct c7x_client_status status;
        uint32_t handle;
        int count = 1;
        if (c7x_client_dyn_load(client, path, &handle) != C7X_OK ||
            c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL) != C7X_OK ||
            c7x_client_get_status(client, &status) != C7X_OK ||
            c7x_client_dyn_unload(client, handle) != C7X_OK)
            return context;
    }
    return NULL;
}

static void threads_may_share_a_client(void **state)
{
    pthread_t threads[THREADS];
    struct c7x_client_status status;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_shared_client, *state), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(c7x_client_get_status(client_of(state), &status), C7X_OK);
    assert_int_equal(status.jobs_completed, THREADS * ROUNDS);
    assert_int_equal(status.jobs_failed, 0);
}

static void *use_own_client(void *context)
{
    struct c7x_client *client = context;
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    c7x_test_module_path("add_one", path);
    if (c7x_client_dyn_load(client, path, &handle) != C7X_OK)
        return context;
    for (int round = 0; round < ROUNDS; round++) {
        float numbers[4] = {(float)round, (float)(handle % 1000)};
        struct c7x_client_tensor input = floats(numbers);
        struct c7x_client_tensor output;
        int count = 1;
        if (c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL) != C7X_OK)
            return context;
        const float *sums = output.data;
        if (sums[0] != numbers[0] + 1 || sums[1] != numbers[1] + 1)
            return context;
    }
    return NULL;
}

static void clients_at_once_do_not_disturb_each_other(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *clients[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        clients[i] = c7x_test_loopback_open(fixture->device, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_own_client, clients[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), THREADS);
    for (int i = 0; i < THREADS; i++)
        c7x_client_close(clients[i]);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 0);
}

static void a_kept_module_outlives_its_loader(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *loader = c7x_test_loopback_open(fixture->device, NULL);
    uint32_t kept = load_flags(loader, "add_one", C7X_LOAD_KEEP);
    uint32_t own = load(loader, "add_one");
    struct c7x_client_tensor output;
    float numbers[4] = {0};
    struct c7x_client_tensor input = floats(numbers);
    int count = 1;
    run_add_one(loader, kept, 1);
    run_add_one(fixture->client, kept, 2);
    assert_int_equal(c7x_client_infer(fixture->client, own, 0, &input, 1, &output, &count, NULL),
                     C7X_HANDLE);
    c7x_client_close(loader);
    run_add_one(fixture->client, kept, 3);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 1);
    assert_int_equal(c7x_client_dyn_unload(fixture->client, kept), C7X_OK);
    assert_int_equal(c7x_client_infer(fixture->client, kept, 0, &input, 1, &output, &count, NULL),
                     C7X_HANDLE);
}

static void a_closed_client_leaves_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_heap_statistics before;
    struct c7x_heap_statistics after;
    size_t buffer_count = c7x_test_loopback_buffer_count(fixture->device);
    c7x_test_loopback_heap(fixture->device, &before);
    for (int round = 0; round < 5; round++) {
        struct c7x_client *client = c7x_test_loopback_open(fixture->device, NULL);
        run_add_one(client, load(client, "add_one"), 1);
        (void)load(client, "many_outputs");
        (void)!c7x_client_dyn_unload(client, 4711); /* its text is kept, too */
        c7x_client_close(client);
    }
    c7x_test_loopback_heap(fixture->device, &after);
    assert_int_equal(after.block_count, before.block_count);
    assert_int_equal(after.free, before.free);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_buffer_count(fixture->device) == buffer_count, 1000);
    c7x_client_close(NULL);
}

static void a_device_that_stops_is_reset_for_its_clients(void **state)
{
    struct fixture *fixture = *state;
    uint32_t handle = load(fixture->client, "add_one");
    float numbers[4] = {0};
    struct c7x_client_tensor input = floats(numbers);
    struct c7x_client_tensor output;
    int count = 1;
    c7x_test_loopback_halt(fixture->device);
    assert_int_equal(c7x_client_infer(fixture->client, handle, 0, &input, 1, &output, &count, NULL),
                     C7X_RESET);
    assert_int_equal(c7x_client_ping(fixture->client, NULL, NULL), C7X_RESET);
    assert_true(c7x_client_last_error(fixture->client)[0] != '\0');
}

/* A link over which nothing can be attached from some time on, as if the device had gone just then.
 */
static bool has_gone;
static const struct c7x_host_link_ops *real_ops;

static enum c7x_status attach_until_gone(struct c7x_host_link *link, size_t size,
                                         int64_t deadline_ns, struct c7x_buffer *out_buffer,
                                         struct c7x_error *error)
{
    if (has_gone)
        return c7x_error_set(error, C7X_RESET, "transport", "the device went away");
    return real_ops->attach(link, size, deadline_ns, out_buffer, error);
}

/* Not as SIZE: there is nobody any more for whom the buffer could be larger. */
static void a_device_that_stops_while_a_buffer_grows_is_reset(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = c7x_test_loopback_connect(fixture->device);
    struct c7x_host_link_ops ops = *link->ops;
    struct c7x_client *client = NULL;
    struct c7x_client_tensor output;
    int count = 1;
    real_ops = link->ops;
    ops.attach = attach_until_gone;
    link->ops = &ops;
    has_gone = false;
    assert_int_equal(c7x_client_open_over(link, NULL, &client), C7X_OK);
    uint32_t handle = load(client, "big_output");
    assert_int_equal(c7x_client_reserve_io(client, 64, 64), C7X_OK);
    has_gone = true;
    assert_int_equal(c7x_client_infer(client, handle, 0, NULL, 0, &output, &count, NULL),
                     C7X_RESET);
    assert_non_null(strstr(c7x_client_last_error(client), "went away"));
    c7x_client_close(client);
}

/* ---- Files
 * ----------------------------------------------------------------------------------------- */

/* Whether loading the file as module and as weights fails with this status and names the file. */
static void assert_unloadable(struct c7x_client *client, const char *path,
                              enum c7x_status as_module, enum c7x_status as_weights,
                              const char *text)
{
    uint32_t handle = 77;
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), as_module);
    assert_non_null(strstr(c7x_client_last_error(client), text));
    assert_int_equal(c7x_client_model_load(client, path, &handle), as_weights);
    assert_int_equal(handle, 77);
}

static void make_file(const char *path, const char *text, off_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(ftruncate(fd, size), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void files_that_cannot_be_loaded_are_named(void **state)
{
    struct fixture *fixture = *state;
    char folder[C7X_TEST_PATH_MAX];
    char path[2 * C7X_TEST_PATH_MAX];
    size_t buffer_count = c7x_test_loopback_buffer_count(fixture->device);
    c7x_test_make_folder(folder);
    assert_unloadable(fixture->client, folder, C7X_FILE, C7X_FILE, "not a regular file");
    snprintf(path, sizeof path, "%s/missing", folder);
    assert_unloadable(fixture->client, path, C7X_FILE, C7X_FILE, path);
    snprintf(path, sizeof path, "%s/fifo", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_unloadable(fixture->client, path, C7X_FILE, C7X_FILE, "not a regular file");
    snprintf(path, sizeof path, "%s/empty", folder);
    make_file(path, "", 0, 0600);
    assert_unloadable(fixture->client, path, C7X_FILE, C7X_FILE, "is empty");
    snprintf(path, sizeof path, "%s/text", folder);
    make_file(path, "this is not a module, nor is it weights", 39, 0600);
    assert_unloadable(fixture->client, path, C7X_LOAD, C7X_WEIGHTS, "");
    snprintf(path, sizeof path, "%s/huge", folder);
    make_file(path, "", (off_t)1 << 32, 0600); /* a hole */
    assert_unloadable(fixture->client, path, C7X_SIZE, C7X_SIZE, "at most");
    snprintf(path, sizeof path, "%s/large", folder);
    make_file(path, "", C7X_TEST_LOOPBACK_ARENA_BYTES, 0600);
    assert_unloadable(fixture->client, path, C7X_NOMEM, C7X_NOMEM, "carve-out");
    snprintf(path, sizeof path, "%s/secret", folder);
    make_file(path, "x", 1, 0);
    if (geteuid() != 0)
        assert_unloadable(fixture->client, path, C7X_PERMISSION, C7X_PERMISSION, path);
    c7x_test_remove_folder(folder);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), buffer_count);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 0);
    run_add_one(fixture->client, load(fixture->client, "add_one"), 1);
}

static void modules_that_are_wrong_leave_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    const struct {
        const char *name;
        const char *text;
    } modules[] = {{"no_entry", "cg_main_dsp"}, {"needs_missing", "first_missing"}};
    struct c7x_heap_statistics before;
    struct c7x_heap_statistics after;
    size_t buffer_count = c7x_test_loopback_buffer_count(fixture->device);
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        char path[C7X_TEST_PATH_MAX];
        uint32_t handle;
        c7x_test_module_path(modules[i].name, path);
        assert_int_equal(c7x_client_dyn_load(fixture->client, path, &handle), C7X_SYMBOL);
        assert_non_null(strstr(c7x_client_last_error(fixture->client), modules[i].text));
    }
    c7x_test_loopback_heap(fixture->device, &before);
    for (int i = 0; i < 8; i++) { /* as many texts as are kept, each of the same length */
        char path[C7X_TEST_PATH_MAX];
        uint32_t handle;
        c7x_test_module_path("no_entry", path);
        assert_int_equal(c7x_client_dyn_load(fixture->client, path, &handle), C7X_SYMBOL);
    }
    c7x_test_loopback_heap(fixture->device, &before);
    for (int i = 0; i < 8; i++) {
        char path[C7X_TEST_PATH_MAX];
        uint32_t handle;
        c7x_test_module_path("no_entry", path);
        assert_int_equal(c7x_client_dyn_load(fixture->client, path, &handle), C7X_SYMBOL);
    }
    c7x_test_loopback_heap(fixture->device, &after);
    assert_int_equal(after.block_count, before.block_count);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), buffer_count);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 0);
}

static void weights_may_come_apart_from_their_module(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *client = fixture->client;
    uint32_t handle = load(client, "no_weights");
    uint32_t model_id;
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = floats(numbers);
    struct c7x_client_tensor output;
    int count = 1;
    char folder[C7X_TEST_PATH_MAX];
    char path[2 * C7X_TEST_PATH_MAX];
    c7x_test_make_folder(folder);
    snprintf(path, sizeof path, "%s/weights.bin", folder);
    c7x_test_make_weights(path);
    assert_int_not_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL),
                         C7X_OK);
    assert_int_equal(c7x_client_infer(client, handle, 99, &input, 1, &output, &count, NULL),
                     C7X_HANDLE);
    assert_int_equal(c7x_client_model_load(client, path, &model_id), C7X_OK);
    c7x_test_remove_folder(folder);
    assert_int_equal(c7x_test_loopback_model_count(fixture->device), 1);
    assert_int_equal(c7x_client_infer(client, handle, model_id, &input, 1, &output, &count, NULL),
                     C7X_OK);
    assert_true(((const float *)output.data)[3] == 5);
    assert_int_equal(c7x_client_model_unload(client, model_id), C7X_OK);
    assert_int_equal(c7x_test_loopback_model_count(fixture->device), 0);
    assert_int_equal(c7x_client_infer(client, handle, model_id, &input, 1, &output, &count, NULL),
                     C7X_HANDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(options_of_any_age_are_understood),
        TEST(priorities_are_1_to_8),
        TEST(the_nearest_priority_that_is_named_counts),
        TEST(priorities_hold_for_modules_of_others),
        TEST(load_flags_are_checked),
        TEST(wrong_devices_are_named),
        cmocka_unit_test(the_status_of_no_emulator_is_no_failure),
        cmocka_unit_test(a_private_emulator_is_the_default_device),
        TEST(ping_and_status_tell_version_and_jobs),
        TEST(failures_are_explained_until_the_next_call),
        cmocka_unit_test(every_status_has_name_text_and_next_step),
        TEST(a_module_that_wants_too_much_says_how_much),
        TEST(inputs_may_begin_at_any_address),
        TEST(inputs_in_the_input_buffer_are_used_where_they_are),
        TEST(inputs_that_leave_the_input_buffer_are_refused),
        TEST(placed_and_copied_inputs_mix),
        TEST(up_to_128_inputs_are_taken),
        TEST(wrong_tensors_are_named_with_what_was_expected),
        TEST(infer_flags_are_checked),
        TEST(more_outputs_than_fit_a_frame_come_through_memory),
        TEST(an_array_that_is_too_small_stays_as_it_is),
        TEST(the_output_buffer_grows_when_it_must),
        TEST(a_buffer_that_was_handed_out_does_not_move),
        TEST(there_are_no_buffers_before_the_first_module),
        TEST(more_than_the_carveout_cannot_be_reserved),
        TEST(declarations_tell_the_sizes_of_the_buffers),
        TEST(a_late_reply_is_dropped_and_its_buffers_are_left_alone),
        TEST(text_of_modules_goes_to_the_callers_function),
        TEST(threads_may_share_a_client),
        TEST(clients_at_once_do_not_disturb_each_other),
        TEST(a_kept_module_outlives_its_loader),
        TEST(a_closed_client_leaves_nothing_behind),
        TEST(a_device_that_stops_is_reset_for_its_clients),
        TEST(a_device_that_stops_while_a_buffer_grows_is_reset),
        TEST(files_that_cannot_be_loaded_are_named),
        TEST(modules_that_are_wrong_leave_nothing_behind),
        TEST(weights_may_come_apart_from_their_module),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

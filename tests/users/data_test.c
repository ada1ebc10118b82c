/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about data: memory that is not there, caches, alignment, and results that are silently
 * wrong. */
#define _GNU_SOURCE
#include "users/users.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATTERN_BYTES (1u << 20)

static struct c7x_test_emulator emulator;
static struct c7x_client *client;

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    return 0;
}

static int start_strict(void **state)
{
    setenv("C7X_STRICT_CACHE", "1", 1);
    int failed = start(state);
    unsetenv("C7X_STRICT_CACHE");
    return failed;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

static struct c7x_client_tensor floats(float *numbers, int64_t count)
{
    return (struct c7x_client_tensor){
        numbers, (size_t)count * sizeof *numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {count}};
}

/* ---- U15 ---- */

static void fill(uint8_t *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1103515245u + 12345u;
        bytes[i] = (uint8_t)(seed >> 16);
    }
}

/* With caches that move nothing by themselves. */
static void u15_every_byte_is_synced_by_the_library(void **state)
{
    uint8_t *patterns[3];
    struct c7x_client_tensor inputs[3];
    struct c7x_client_tensor outputs[3];
    uint32_t swaps =
        c7x_test_dyn_load(client, "swaps"); /* gives back the first, the third, the second */
    (void)state;
    for (int i = 0; i < 3; i++) {
        patterns[i] = malloc(PATTERN_BYTES);
        assert_non_null(patterns[i]);
        inputs[i] = (struct c7x_client_tensor){patterns[i], PATTERN_BYTES,  1, C7X_DTYPE_UINT, 8,
                                               0,           {PATTERN_BYTES}};
    }
    for (unsigned round = 0; round < 3; round++) {
        int count = 3;
        for (unsigned i = 0; i < 3; i++)
            fill(patterns[i], PATTERN_BYTES, round * 3 + i);
        if (c7x_client_infer(client, swaps, 0, inputs, 3, outputs, &count, NULL) != C7X_OK)
            fail_msg("%s", c7x_client_last_error(NULL));
        assert_int_equal(memcmp(outputs[0].data, patterns[0], PATTERN_BYTES), 0);
        assert_int_equal(memcmp(outputs[1].data, patterns[2], PATTERN_BYTES), 0);
        assert_int_equal(memcmp(outputs[2].data, patterns[1], PATTERN_BYTES), 0);
    }
    for (int i = 0; i < 3; i++)
        free(patterns[i]);
}

static bool log_says(const char *text)
{
    static char log[1 << 16];
    uint64_t position = 0;
    size_t used = 0;
    size_t size;
    do {
        assert_int_equal(
            c7x_client_read_trace(client, &position, log + used, sizeof log - 1 - used, &size),
            C7X_OK);
        used += size;
    } while (size != 0);
    log[used] = '\0';
    return strstr(log, text) != NULL;
}

static void u15_a_forgotten_end_is_an_error_and_a_forgotten_begin_is_reported(void **state)
{
    struct c7x_infer_options options;
    struct c7x_inference *inference = NULL;
    struct c7x_shared *camera;
    (void)state;
    c7x_infer_options_init(client, &options);
    options.handle = c7x_test_dyn_load(client, "add_one");
    assert_int_equal(c7x_shared_create(client, 4096, "camera", &camera), C7X_OK);
    struct c7x_client_tensor input = floats(c7x_shared_pointer(camera), 4);
    options.input = camera;
    assert_int_equal(c7x_shared_begin(camera, C7X_CPU_WRITE), C7X_OK);
    assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_BUSY);
    assert_null(inference);
    users_assert_said("camera");
    assert_int_equal(c7x_shared_end(camera), C7X_OK);
    assert_false(log_says("stale"));
    ((float *)c7x_shared_pointer(camera))[0] = 7; /* no begin */
    assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_OK);
    assert_int_equal(c7x_inference_wait(inference, USERS_SOON_MS), C7X_OK);
    c7x_inference_free(inference);
    assert_true(log_says("stale"));
    c7x_shared_free(camera);
}

/* ---- U17 ---- */

static void assert_says_the_numbers(void)
{
    users_assert_said("needs");
    users_assert_said("free");
    users_assert_said("largest free block");
    users_assert_said("total");
}

static void u17_out_of_memory_says_how_much_is_needed_and_there(void **state)
{
    uint32_t requested = 0;
    uint32_t free_bytes = 0;
    uint32_t total = 0;
    int none = 0;
    uint32_t hungry = c7x_test_dyn_load(client, "hungry");
    (void)state;
    assert_int_equal(c7x_client_infer(client, hungry, 0, NULL, 0, NULL, &none, NULL), C7X_NOMEM);
    assert_says_the_numbers();
    users_assert_said("1099511627776"); /* the whole of it, 2^40 */
    assert_int_equal(c7x_client_get_last_oom(client, &requested, &free_bytes, &total), 1);
    assert_true(free_bytes != 0 && free_bytes < total);
    /* Shared memory, too: what one piece would need, not what the last step lacked. */
    assert_int_equal(c7x_client_reserve_io(client, 400u << 20, 400u << 20), C7X_NOMEM);
    assert_says_the_numbers();
    assert_int_equal(c7x_client_get_last_oom(client, &requested, &free_bytes, &total), 1);
    assert_int_equal(requested, 400u << 20);
    assert_int_equal(total, 512u << 20);
    assert_true(free_bytes < 112u << 20);
    c7x_test_call_add_one(client, c7x_test_dyn_load(client, "add_one"), 1);
}

/* ---- U18 ---- */

static void u18_host_pointers_may_have_any_alignment(void **state)
{
    static uint8_t bytes[3][64 + 4096];
    uint32_t swaps = c7x_test_dyn_load(client, "swaps");
    (void)state;
    for (size_t offset = 0; offset < 64; offset++) {
        struct c7x_client_tensor inputs[3];
        struct c7x_client_tensor outputs[3];
        int count = 3;
        for (unsigned i = 0; i < 3; i++) {
            size_t size = 4096 - offset - i; /* odd ones as well */
            fill(bytes[i], sizeof bytes[i], (unsigned)offset * 3 + i);
            inputs[i] = (struct c7x_client_tensor){
                bytes[i] + (offset + i * 21) % 64, size, 1, C7X_DTYPE_UINT, 8, 0, {(int64_t)size}};
        }
        if (c7x_client_infer(client, swaps, 0, inputs, 3, outputs, &count, NULL) != C7X_OK)
            fail_msg("offset %zu: %s", offset, c7x_client_last_error(NULL));
        for (int i = 0; i < 3; i++) {
            const struct c7x_client_tensor *input = &inputs[i == 0 ? 0 : 3 - i];
            assert_int_equal(outputs[i].data_size, input->data_size);
            assert_int_equal(memcmp(outputs[i].data, input->data, input->data_size), 0);
        }
    }
}

/* ---- U22 ---- */

static void u22_workspace_that_is_not_there_fails_one_request(void **state)
{
    struct c7x_client *other = users_open_as(&emulator, "other");
    uint32_t other_add_one = c7x_test_dyn_load(other, "add_one");
    uint32_t add_one = c7x_test_dyn_load(client, "add_one");
    struct c7x_emulator_status before;
    struct c7x_emulator_status after;
    uint64_t free_bytes[2];
    (void)state;
    c7x_test_emulator_status(&emulator, &before);
    for (int round = 0; round < 2; round++) { /* the texts of the last failures take memory, too */
        uint32_t hungry = c7x_test_dyn_load(client, "hungry");
        for (int i = 0; i < 10; i++) {
            int none = 0;
            assert_int_equal(c7x_client_infer(client, hungry, 0, NULL, 0, NULL, &none, NULL),
                             C7X_NOMEM);
            users_assert_said("needs");
            c7x_test_call_add_one(client, add_one, (float)i);
            c7x_test_call_add_one(other, other_add_one, (float)i);
        }
        assert_int_equal(c7x_client_dyn_unload(client, hungry), C7X_OK);
        free_bytes[round] = users_free_bytes(client, "DDR heap");
    }
    /* What it had got is back: all but the splinters beside the texts, less than one call gets. */
    assert_true(free_bytes[1] + 1000 * sizeof(float) > free_bytes[0]);
    c7x_test_emulator_status(&emulator, &after);
    assert_int_equal(after.core_starts, before.core_starts);
    c7x_client_close(other);
}

/* ---- U37 ---- */

struct worker {
    struct c7x_client *client;
    uint32_t add_one;
    uint32_t sums;
    int number;
    pthread_t thread;
    const char *failure;
};

/* Two models in turn; each thread's own numbers must come back. */
static void *work(void *context)
{
    struct worker *worker = context;
    for (int i = 0; i < 100 && worker->failure == NULL; i++) {
        struct c7x_infer_options options;
        struct c7x_inference *inference;
        struct c7x_client_tensor output;
        float numbers[4] = {(float)(worker->number * 1000 + i), 2, 3, 4};
        int32_t integers[2] = {worker->number, i};
        struct c7x_client_tensor input = floats(numbers, 4);
        struct c7x_client_tensor inputs[2];
        int count = 1;
        for (int j = 0; j < 2; j++)
            inputs[j] = (struct c7x_client_tensor){&integers[j], 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
        c7x_infer_options_init(worker->client, &options);
        options.handle = i % 2 == 0 ? worker->add_one : worker->sums;
        enum c7x_status status = c7x_client_infer_async(
            worker->client, &options, i % 2 == 0 ? &input : inputs, 1 + i % 2, &inference);
        if (status == C7X_OK)
            status = c7x_inference_wait(inference, USERS_SOON_MS);
        if (status == C7X_OK)
            status = c7x_inference_result(inference, &output, &count, NULL);
        if (status != C7X_OK)
            worker->failure = c7x_status_name(status);
        else if (i % 2 == 0 && *(const float *)output.data != numbers[0] + 1)
            worker->failure = "another's sum";
        else if (i % 2 == 1 && *(const int32_t *)output.data != worker->number + 2 * i)
            worker->failure = "another's sums";
        c7x_inference_free(inference);
    }
    return NULL;
}

static void u37_threads_and_models_of_one_process_do_not_mix(void **state)
{
    struct worker workers[6] = {{.number = 0}};
    struct c7x_client *second = users_open_as(&emulator, "second");
    uint32_t handles[4] = {c7x_test_dyn_load(client, "add_one"), c7x_test_dyn_load(client, "sums"),
                           c7x_test_dyn_load(second, "add_one"), c7x_test_dyn_load(second, "sums")};
    (void)state;
    for (int i = 0; i < 6; i++) { /* three threads on each client */
        workers[i].client = i % 2 == 0 ? client : second;
        workers[i].add_one = handles[i % 2 * 2];
        workers[i].sums = handles[i % 2 * 2 + 1];
        workers[i].number = i + 1;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 6; i++)
        if (workers[i].failure != NULL)
            fail_msg("thread %d: %s", i, workers[i].failure);
    c7x_client_close(second);
}

/* ---- U42 ---- */

static void u42_an_output_that_was_not_written_is_no_success(void **state)
{
    uint32_t silent = c7x_test_dyn_load(client, "silent");
    (void)state;
    for (int i = 0; i < 3; i++) { /* nothing; half of it; all of it */
        float numbers[4] = {(float)i, 2, 3, 4};
        struct c7x_client_tensor input = floats(numbers, 4);
        struct c7x_client_tensor output = {.data_size = 77};
        int count = 1;
        enum c7x_status status =
            c7x_client_infer(client, silent, 0, &input, 1, &output, &count, NULL);
        assert_int_equal(status, i < 2 ? C7X_TENSOR : C7X_OK);
        assert_int_equal(output.data_size, i < 2 ? 77 : 16); /* a failure leaves it alone */
    }
}

static void u42_every_byte_of_an_output_is_written(void **state)
{
    struct c7x_infer_options options;
    struct c7x_shared *window;
    (void)state;
    assert_int_equal(c7x_shared_create(client, 2u << 20, "result", &window), C7X_OK);
    c7x_infer_options_init(client, &options);
    options.handle = c7x_test_dyn_load(client, "big_output");
    options.output = window;
    for (int poison = 0x55; poison <= 0xAA; poison += 0x55) {
        struct c7x_inference *inference;
        struct c7x_client_tensor output;
        int count = 1;
        assert_int_equal(c7x_shared_begin(window, C7X_CPU_WRITE), C7X_OK);
        memset(c7x_shared_pointer(window), poison, c7x_shared_size(window));
        assert_int_equal(c7x_shared_end(window), C7X_OK);
        assert_int_equal(c7x_client_infer_async(client, &options, NULL, 0, &inference), C7X_OK);
        assert_int_equal(c7x_inference_wait(inference, USERS_SOON_MS), C7X_OK);
        assert_int_equal(c7x_inference_result(inference, &output, &count, NULL), C7X_OK);
        assert_int_equal(c7x_shared_begin(window, C7X_CPU_READ), C7X_OK);
        assert_int_equal(output.data_size, 262144 * sizeof(float));
        for (int i = 0; i < 262144; i++)
            assert_true(((const float *)output.data)[i] == (float)i);
        const uint8_t *end = (const uint8_t *)output.data + output.data_size;
        assert_int_equal(*end, poison); /* and none behind it */
        assert_int_equal(c7x_shared_end(window), C7X_OK);
        c7x_inference_free(inference);
    }
    c7x_shared_free(window);
}

/* ---- U43 ---- */

static void assert_refused(uint32_t handle, const struct c7x_client_tensor *inputs, int input_count,
                           const char *got)
{
    struct c7x_client_tensor output;
    int count = 1;
    assert_int_equal(
        c7x_client_infer(client, handle, 0, inputs, input_count, &output, &count, NULL),
        C7X_TENSOR);
    users_assert_said(got);
}

static void u43_what_does_not_match_is_named_with_expected_and_got(void **state)
{
    float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct c7x_client_tensor right = floats(numbers, 4);
    struct c7x_client_tensor wrong = right;
    struct c7x_client_tensor two[2] = {right, right};
    uint32_t add_one = c7x_test_dyn_load(client, "add_one");
    (void)state;
    wrong.dtype_code = C7X_DTYPE_INT;
    assert_refused(add_one, &wrong, 1, "\"x\": expected float32 [4], got int32 [4]");
    wrong = floats(numbers, 5);
    assert_refused(add_one, &wrong, 1, "\"x\": expected float32 [4], got float32 [5]");
    wrong = right;
    wrong.ndim = 2;
    wrong.shape[1] = 1;
    assert_refused(add_one, &wrong, 1, "\"x\": expected float32 [4], got float32 [4, 1]");
    wrong = right;
    wrong.data_size = 12; /* less than its shape says */
    assert_refused(add_one, &wrong, 1, "12");
    wrong.data_size = 20;
    assert_refused(add_one, &wrong, 1, "20");
    assert_refused(add_one, two, 2, "takes 1 inputs, got 2");
    assert_refused(add_one, NULL, 0, "takes 1 inputs, got 0");
    c7x_test_call_add_one(client, add_one, 1); /* nobody was aborted */
}

/* ---- U48 ---- */

/* Real networks, if they have been built. */
static bool load_network(const char *name, uint32_t *out_handle)
{
    const char *models = getenv("C7X_MODELS");
    char path[2 * C7X_TEST_PATH_MAX];
    if (models != NULL)
        snprintf(path, sizeof path, "%s/%s/lib0.out", models, name);
    else
        snprintf(path, sizeof path, "%s/../build/models/%s/lib0.out", getenv("C7X_BUILD_DIR"),
                 name);
    if (access(path, R_OK) != 0)
        return false;
    if (c7x_client_dyn_load(client, path, out_handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(NULL));
    return true;
}

static void u48_tensors_have_the_names_that_the_model_gives_them(void **state)
{
    float numbers[576] = {0};
    struct c7x_client_tensor inputs[2] = {floats(numbers, 576), floats(numbers, 256)};
    uint32_t handle = 0;
    (void)state;
    assert_refused(c7x_test_dyn_load(client, "add_one"), inputs, 1, "\"x\"");
    if (!load_network("silero-vad-16k", &handle))
        return;
    assert_refused(handle, inputs, 2, "\"input\": expected float32 [1, 576], got float32 [576]");
    inputs[0].ndim = 2;
    inputs[0].shape[0] = 1;
    inputs[0].shape[1] = 576;
    assert_refused(handle, inputs, 2, "\"state\": expected float32 [2, 1, 128], got float32 [256]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
#define STRICT(name) cmocka_unit_test_setup_teardown(name, start_strict, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STRICT(u15_every_byte_is_synced_by_the_library),
        STRICT(u15_a_forgotten_end_is_an_error_and_a_forgotten_begin_is_reported),
        TEST(u17_out_of_memory_says_how_much_is_needed_and_there),
        TEST(u18_host_pointers_may_have_any_alignment),
        TEST(u22_workspace_that_is_not_there_fails_one_request),
        TEST(u37_threads_and_models_of_one_process_do_not_mix),
        TEST(u42_an_output_that_was_not_written_is_no_success),
        TEST(u42_every_byte_of_an_output_is_written),
        TEST(u43_what_does_not_match_is_named_with_expected_and_got),
        TEST(u48_tensors_have_the_names_that_the_model_gives_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

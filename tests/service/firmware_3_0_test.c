/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our client with firmware of version 3.0, and with later and other ones: a scripted device, which
 * is all that such firmware is to a client. Nothing of 3.1 may be sent to 3.0.
 */
#include "client/over.h"
#include "support/environment.h"
#include "support/scripted_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STAGING_BYTES 0x1D400000u /* 468 MiB for files, */
#define KV_BYTES 0x00C00000u      /* and 12 MiB for KV: 480 MiB in all */

struct fixture {
    struct c7x_test_scripted *device;
    struct c7x_client *client;
    char printed[64];
    size_t printed_size;
};

static void collect(void *context, const char *text, size_t size)
{
    struct fixture *fixture = context;
    assert_true(size <= sizeof fixture->printed - fixture->printed_size);
    memcpy(fixture->printed + fixture->printed_size, text, size);
    fixture->printed_size += size;
}

static enum c7x_status try_open(struct fixture *fixture, uint32_t version)
{
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.name = "client";
    options.print = collect;
    options.print_context = fixture;
    fixture->device = c7x_test_scripted_start(version);
    return c7x_client_open_over(c7x_test_scripted_link(fixture->device), &options,
                                &fixture->client);
}

static struct fixture *open_on(uint32_t version)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    if (try_open(fixture, version) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    return fixture;
}

static uint32_t word(const struct c7x_test_frame *frame, size_t offset)
{
    const uint8_t *at = frame->bytes + offset;
    assert_true(offset + 4 <= frame->size);
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t long_word(const struct c7x_test_frame *frame, size_t offset)
{
    return word(frame, offset) | (uint64_t)word(frame, offset + 4) << 32;
}

/* ---- What 3.0 firmware may be sent ---- */

static void check_infer(const struct c7x_test_frame *frame, bool is_large)
{
    uint32_t count = word(frame, 24);
    assert_int_equal(word(frame, 28) & ~0x1FFFFu, 0); /* repeat count and KV_RESIDENT alone */
    if (is_large) {
        assert_int_equal(word(frame, 44), 0);
        return;
    }
    assert_true(count <= 4);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(word(frame, 64 + 80 * i + 28), 0);
}

static void check_frame(const struct c7x_test_frame *frame)
{
    uint32_t type = word(frame, 0);
    if (type >= 0x40)
        fail_msg("message 0x%x was sent to firmware of version 3.0", type);
    assert_int_equal(word(frame, 8), frame->size);
    assert_int_equal(word(frame, 12), 0);
    switch (type) {
    case 0x10:
    case 0x20:
        assert_int_equal(frame->size, 32);
        assert_int_equal(word(frame, 20), 0);      /* flags */
        assert_int_equal(long_word(frame, 24), 0); /* address */
        break;
    case 0x21:
    case 0x23:
        check_infer(frame, type == 0x23);
        break;
    case 0x30:
        assert_int_equal(word(frame, 28), 0);
        break;
    default:
        break;
    }
}

static void end(struct fixture *fixture)
{
    c7x_client_close(fixture->client);
    for (size_t i = 0; i < c7x_test_scripted_frame_count(fixture->device); i++) {
        struct c7x_test_frame frame = c7x_test_scripted_frame(fixture->device, i);
        check_frame(&frame);
    }
    c7x_test_scripted_stop(fixture->device);
    free(fixture);
}

/* The frames of this type so far. */
static size_t count_of(struct c7x_test_scripted *device, uint32_t type)
{
    size_t count = 0;
    for (size_t i = 0; i < c7x_test_scripted_frame_count(device); i++) {
        struct c7x_test_frame frame = c7x_test_scripted_frame(device, i);
        count += word(&frame, 0) == type;
    }
    return count;
}

/* ---- Using it ---- */

static uint32_t load(struct fixture *fixture)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path("add_one", path);
    if (c7x_client_dyn_load(fixture->client, path, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(NULL));
    return handle;
}

static void fill(struct c7x_client_tensor *inputs, int32_t *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        numbers[i] = 10 + i;
        inputs[i] = (struct c7x_client_tensor){&numbers[i], 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
    }
}

static int32_t expected_sum(int count)
{
    int32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += (i + 1) * (10 + i);
    return sum;
}

static void run(struct fixture *fixture, int count, uint32_t flags)
{
    struct c7x_client_tensor inputs[16];
    int32_t numbers[16];
    struct c7x_client_tensor output;
    int output_count = 1;
    uint64_t cycles = 0;
    int32_t sum;
    fill(inputs, numbers, count);
    if (c7x_client_infer_flags(fixture->client, C7X_TEST_SCRIPTED_HANDLE, 0, inputs, count, &output,
                               &output_count, &cycles, flags) != C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(NULL));
    assert_int_equal(output_count, 1);
    assert_int_equal(output.data_size, sizeof sum);
    assert_int_equal(cycles, 1000);
    memcpy(&sum, output.data, sizeof sum);
    assert_int_equal(sum, expected_sum(count));
}

static void the_staging_comes_first_and_where_3_0_wants_it(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    (void)state;
    struct c7x_test_attach first = c7x_test_scripted_attach(fixture->device, 0);
    assert_int_equal(first.address, 0xC0000000u);
    assert_int_equal(first.size, STAGING_BYTES + KV_BYTES);
    assert_int_equal(first.frames_before, 1); /* nothing but the PING that told the version */
    load(fixture);
    for (size_t i = 1; i < c7x_test_scripted_attach_count(fixture->device); i++)
        assert_true(c7x_test_scripted_attach(fixture->device, i).address >=
                    0xC0000000u + STAGING_BYTES + KV_BYTES);
    end(fixture);
}

static void a_module_is_staged_at_the_fixed_place(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    char path[C7X_TEST_PATH_MAX];
    uint8_t bytes[4096];
    (void)state;
    assert_int_equal(load(fixture), C7X_TEST_SCRIPTED_HANDLE);
    c7x_test_module_path("add_one", path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 64);
    assert_memory_equal(c7x_test_scripted_memory(fixture->device, 0xC0000000u), bytes, size);
    end(fixture);
}

static void results_and_printed_text_arrive(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    struct c7x_client_status status;
    uint32_t version = 0;
    (void)state;
    assert_int_equal(c7x_client_ping(fixture->client, &version, NULL), C7X_OK);
    assert_int_equal(version, 0x030000);
    assert_int_equal(c7x_client_get_status(fixture->client, &status), C7X_OK);
    assert_int_equal(status.jobs_completed, 5);
    uint32_t handle = load(fixture);
    for (int count = 0; count <= 8; count++)
        run(fixture, count, 0);
    run(fixture, 3, 100);                                 /* repeats are of 3.0 */
    assert_int_equal(count_of(fixture->device, 0x21), 6); /* up to 4 inputs */
    assert_int_equal(count_of(fixture->device, 0x23), 4); /* 5 to 8 */
    assert_int_equal(fixture->printed_size, 10 * strlen(C7X_TEST_SCRIPTED_PRINTED));
    assert_memory_equal(fixture->printed, C7X_TEST_SCRIPTED_PRINTED,
                        strlen(C7X_TEST_SCRIPTED_PRINTED));
    assert_int_equal(c7x_client_dyn_unload(fixture->client, handle), C7X_OK);
    end(fixture);
}

static void weights_come_apart_too(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    char path[C7X_TEST_PATH_MAX];
    uint32_t model = 0;
    (void)state;
    c7x_test_module_path("add_one", path); /* any file: the device does not look */
    assert_int_equal(c7x_client_model_load(fixture->client, path, &model), C7X_OK);
    assert_int_equal(model, 3);
    assert_int_equal(c7x_client_model_unload(fixture->client, model), C7X_OK);
    end(fixture);
}

static void asynchronous_inferences_run(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    struct c7x_infer_options options;
    struct c7x_client_tensor inputs[6];
    struct c7x_inference *inferences[4];
    int32_t numbers[6];
    (void)state;
    load(fixture);
    fill(inputs, numbers, 6);
    c7x_infer_options_init(fixture->client, &options);
    options.handle = C7X_TEST_SCRIPTED_HANDLE;
    for (int i = 0; i < 4; i++)
        assert_int_equal(c7x_client_infer_async(fixture->client, &options, inputs, 2 + i % 2 * 4,
                                                &inferences[i]),
                         C7X_OK);
    for (int i = 0; i < 4; i++) {
        struct c7x_client_tensor output;
        int count = 1;
        assert_int_equal(c7x_inference_wait(inferences[i], 10000), C7X_OK);
        assert_int_equal(c7x_inference_result(inferences[i], &output, &count, NULL), C7X_OK);
        assert_int_equal(*(const int32_t *)output.data, expected_sum(2 + i % 2 * 4));
        c7x_inference_free(inferences[i]);
    }
    end(fixture);
}

static void a_late_answer_goes_to_nobody(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    struct c7x_client_tensor inputs[2];
    struct c7x_client_tensor output;
    int32_t numbers[2];
    int count = 1;
    (void)state;
    load(fixture);
    fill(inputs, numbers, 2);
    c7x_test_scripted_set_silent(fixture->device, true);
    c7x_client_set_deadline(fixture->client, 20);
    assert_int_equal(c7x_client_infer(fixture->client, C7X_TEST_SCRIPTED_HANDLE, 0, inputs, 2,
                                      &output, &count, NULL),
                     C7X_TIMEOUT);
    c7x_test_scripted_set_silent(fixture->device, false);
    c7x_client_set_deadline(fixture->client, 10000);
    c7x_test_scripted_answer_late(fixture->device);
    run(fixture, 3, 0);
    end(fixture);
}

static void assert_unsupported(enum c7x_status status)
{
    assert_int_equal(status, C7X_UNSUPPORTED);
    assert_non_null(strstr(c7x_client_last_error(NULL), "version 3.0"));
    assert_string_equal(c7x_client_last_station(NULL), "client");
}

static void what_needs_3_1_is_refused_before_it_is_sent(void **state)
{
    struct fixture *fixture = open_on(0x030000);
    struct c7x_client *client = fixture->client;
    struct c7x_client_tensor input;
    struct c7x_client_tensor output;
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    struct c7x_session_info *sessions = NULL;
    struct c7x_module_info *modules = NULL;
    struct c7x_target_info *targets = NULL;
    struct c7x_pool_info *pools = NULL;
    struct c7x_block_info *blocks = NULL;
    struct c7x_operator_info *operators = NULL;
    struct c7x_trace *trace = NULL;
    char path[C7X_TEST_PATH_MAX];
    int32_t number;
    uint32_t handle = 0;
    size_t list_count = 0;
    int count = 1;
    (void)state;
    load(fixture);
    fill(&input, &number, 1);
    c7x_test_module_path("add_one", path);
    size_t before = c7x_test_scripted_frame_count(fixture->device);
    assert_unsupported(c7x_client_dyn_load_flags(client, path, C7X_LOAD_KEEP, &handle));
    assert_unsupported(c7x_client_model_load_flags(client, path, C7X_LOAD_KEEP, &handle));
    assert_unsupported(
        c7x_client_dyn_load_flags(client, path, 1u << C7X_LOAD_PRIORITY_SHIFT, &handle));
    assert_unsupported(c7x_client_kv_bind(client, C7X_TEST_SCRIPTED_HANDLE, 2, 64));
    assert_unsupported(c7x_client_list_sessions(client, &sessions, &list_count));
    assert_unsupported(c7x_client_list_modules(client, &modules, &list_count));
    assert_unsupported(c7x_client_list_targets(client, &targets, &list_count));
    assert_unsupported(c7x_client_list_pools(client, &pools, &list_count));
    assert_unsupported(c7x_client_list_blocks(client, &blocks, &list_count));
    assert_unsupported(c7x_client_list_operators(client, handle, &operators, &list_count));
    assert_unsupported(c7x_trace_begin(client, 128, &trace));
    assert_unsupported(c7x_client_infer_flags(client, C7X_TEST_SCRIPTED_HANDLE, 0, &input, 1,
                                              &output, &count, NULL,
                                              3u << C7X_INFER_PRIORITY_SHIFT));
    assert_int_equal(c7x_test_scripted_frame_count(fixture->device), before);
    c7x_test_scripted_set_silent(fixture->device, true);
    c7x_infer_options_init(client, &options);
    options.handle = C7X_TEST_SCRIPTED_HANDLE;
    assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_OK);
    assert_unsupported(c7x_inference_cancel(inference));
    c7x_inference_free(inference);
    end(fixture);
}

/* A client with a priority of its own is told so when it loads, not only when it runs. */
static void a_client_with_a_priority_loads_nothing(void **state)
{
    struct c7x_test_scripted *device = c7x_test_scripted_start(0x030000);
    struct c7x_client_options options;
    struct c7x_client *client = NULL;
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    (void)state;
    c7x_client_options_init(&options);
    options.priority = 2;
    assert_int_equal(c7x_client_open_over(c7x_test_scripted_link(device), &options, &client),
                     C7X_OK);
    size_t before = c7x_test_scripted_frame_count(device);
    c7x_test_module_path("add_one", path);
    assert_unsupported(c7x_client_dyn_load(client, path, &handle));
    assert_non_null(strstr(c7x_client_last_error(client), "has no priorities"));
    assert_int_equal(c7x_test_scripted_frame_count(device), before);
    c7x_client_close(client);
    c7x_test_scripted_stop(device);
}

/* Type, seq, len, status, then the body; ".." is any byte. */
static const char frozen_ping[] = "01000000 ........ 10000000 00000000";
static const char frozen_printf[] = "30000000 ........ 20000000 00000000"
                                    "000000de00000000 00000100 00000000";
static const char frozen_load[] = "10000000 ........ 20000000 00000000"
                                  "........ 00000000 0000000000000000";
static const char frozen_infer[] = "21000000 ........ e0000000 00000000"
                                   "07000000 00000000 02000000 00000000"
                                   "000001de00000000 0010000000000000"
                                   "001001de00000000 0010000000000000"
                                   "000101de00000000 0400000000000000"
                                   "01000000 00000000 20000000 00000000"
                                   "0100000000000000 0000000000000000 0000000000000000"
                                   "0000000000000000 0000000000000000 0000000000000000"
                                   "800101de00000000 0400000000000000"
                                   "01000000 00000000 20000000 00000000"
                                   "0100000000000000 0000000000000000 0000000000000000"
                                   "0000000000000000 0000000000000000 0000000000000000";
static const char frozen_infer_large[] = "23000000 ........ 50000000 00000000"
                                         "07000000 00000000 05000000 00000000"
                                         "000001de00000000 90010000 00000000"
                                         "000001de00000000 0010000000000000"
                                         "001001de00000000 0010000000000000";
static const char frozen_unload[] = "12000000 ........ 14000000 00000000 07000000";

static void assert_frozen(const char *expected, const struct c7x_test_frame *frame)
{
    size_t digit = 0;
    for (; *expected != '\0'; expected++) {
        if (*expected == ' ')
            continue;
        assert_true(digit < 2 * frame->size);
        unsigned byte = frame->bytes[digit / 2];
        unsigned got = digit % 2 == 0 ? byte >> 4 : byte & 15;
        if (*expected != '.' && *expected != "0123456789abcdef"[got])
            fail_msg("message 0x%x: byte %zu is %02x", word(frame, 0), digit / 2, byte);
        digit++;
    }
    assert_int_equal(digit, 2 * frame->size);
}

static void the_frames_of_a_session_are_frozen(void **state)
{
    static const char *const expected[] = {frozen_ping,  frozen_printf,      frozen_load,
                                           frozen_infer, frozen_infer_large, frozen_unload};
    struct fixture *fixture = open_on(0x030000);
    (void)state;
    uint32_t handle = load(fixture);
    run(fixture, 2, 0);
    run(fixture, 5, 0);
    assert_int_equal(c7x_client_dyn_unload(fixture->client, handle), C7X_OK);
    size_t expected_count = sizeof expected / sizeof expected[0];
    assert_int_equal(c7x_test_scripted_frame_count(fixture->device), expected_count);
    for (size_t i = 0; i < expected_count; i++) {
        struct c7x_test_frame frame = c7x_test_scripted_frame(fixture->device, i);
        assert_frozen(expected[i], &frame);
    }
    end(fixture);
}

/* ---- Other versions ---- */

static void a_later_minor_version_is_spoken_to_as_3_1(void **state)
{
    struct fixture *fixture = open_on(0x030200);
    struct c7x_session_info *sessions = NULL;
    uint32_t version = 0;
    size_t count = 0;
    (void)state;
    assert_int_equal(c7x_client_ping(fixture->client, &version, NULL), C7X_OK);
    assert_int_equal(version, 0x030200);
    struct c7x_test_frame open = c7x_test_scripted_frame(fixture->device, 1);
    assert_int_equal(word(&open, 0), 0x40);
    assert_int_equal(word(&open, 16), 0x030100); /* what we speak */
    load(fixture);
    run(fixture, 2, 0);
    run(fixture, 6, 0);
    /* Entries that have grown are read as far as we know them. */
    if (c7x_client_list_sessions(fixture->client, &sessions, &count) != C7X_OK)
        fail_msg("list: %s", c7x_client_last_error(NULL));
    assert_int_equal(count, 1);
    assert_int_equal(sessions[0].process, 4711);
    assert_string_equal(sessions[0].name, "later");
    c7x_list_free(sessions);
    c7x_client_close(fixture->client);
    c7x_test_scripted_stop(fixture->device);
    free(fixture);
}

static void another_major_version_is_refused_naming_both(void **state)
{
    static const struct {
        uint32_t version;
        const char *text;
    } others[] = {{0x040000, "4.0"}, {0x020900, "2.9"}};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct fixture fixture = {0};
        assert_int_equal(try_open(&fixture, others[i].version), C7X_VERSION);
        assert_null(fixture.client);
        assert_non_null(strstr(c7x_client_last_error(NULL), others[i].text));
        assert_non_null(strstr(c7x_client_last_error(NULL), "3.1"));
        assert_int_equal(c7x_test_scripted_frame_count(fixture.device), 1); /* PING, no more */
        c7x_test_scripted_stop(fixture.device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_staging_comes_first_and_where_3_0_wants_it),
        cmocka_unit_test(a_module_is_staged_at_the_fixed_place),
        cmocka_unit_test(results_and_printed_text_arrive),
        cmocka_unit_test(weights_come_apart_too),
        cmocka_unit_test(asynchronous_inferences_run),
        cmocka_unit_test(a_late_answer_goes_to_nobody),
        cmocka_unit_test(what_needs_3_1_is_refused_before_it_is_sent),
        cmocka_unit_test(a_client_with_a_priority_loads_nothing),
        cmocka_unit_test(the_frames_of_a_session_are_frozen),
        cmocka_unit_test(a_later_minor_version_is_spoken_to_as_3_1),
        cmocka_unit_test(another_major_version_is_refused_naming_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A success means that every byte of every output was written (user's report U42). */
#include "service/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW_BYTES (2u << 20)

static struct c7x_test_loopback *device;
static struct c7x_host_link *link;
static struct c7x_buffer input;
static struct c7x_buffer output;
static struct c7x_buffer staged;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    link = c7x_test_loopback_connect(device);
    (void)c7x_test_open_session(link);
    input = c7x_test_attach(link, 4096);
    output = c7x_test_attach(link, WINDOW_BYTES);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_loopback_stop(device);
    return 0;
}

static struct c7x_request request_of(uint32_t handle, uint32_t input_count, int32_t dtype_code,
                                     int64_t count)
{
    struct c7x_request request = c7x_test_infer_request(handle, &input, dtype_code, count, &output);
    request.body.infer.num_inputs = input_count;
    for (uint32_t i = 1; i < input_count; i++)
        request.body.infer.inputs[i] = request.body.infer.inputs[0];
    return request;
}

/* Marks the bytes of the outputs, and of their descriptors, in `written`. */
static void mark(const struct c7x_response *response, uint8_t *written)
{
    const uint64_t base = output.dsp_address;
    const uint64_t array = response->body.infer.descs_addr;
    for (uint32_t i = 0; i < response->body.infer.num_outputs; i++) {
        struct c7x_wire_tensor tensor = response->body.infer.outputs[i % 5];
        if (array != 0)
            assert_int_equal(
                c7x_wire_decode_tensor((const uint8_t *)output.pointer + (array - base) + i * 80,
                                       &tensor),
                C7X_OK);
        assert_true(tensor.data_addr >= base && tensor.data_size <= WINDOW_BYTES &&
                    tensor.data_addr - base <= WINDOW_BYTES - tensor.data_size);
        memset(written + (tensor.data_addr - base), 1, (size_t)tensor.data_size);
    }
    if (array != 0)
        memset(written + (array - base), 1, response->body.infer.descs_size);
}

/* Runs on a poisoned window; `written` says where the outputs are. */
static void run_poisoned(const struct c7x_request *request, uint8_t poison, uint8_t *written)
{
    struct c7x_response response;
    memset(output.pointer, poison, WINDOW_BYTES);
    assert_int_equal(c7x_test_ask_decoded(link, request, &response), C7X_OK);
    memset(written, 0, WINDOW_BYTES);
    mark(&response, written);
}

/* Two poisons: a byte that was not written differs, and one beside the outputs is untouched. */
static void check_poison(const struct c7x_request *request)
{
    uint8_t *first = malloc(WINDOW_BYTES);
    uint8_t *written = malloc(WINDOW_BYTES);
    assert_true(first != NULL && written != NULL);
    run_poisoned(request, 0xA5, written);
    memcpy(first, output.pointer, WINDOW_BYTES);
    run_poisoned(request, 0x5A, written);
    const uint8_t *second = output.pointer;
    for (size_t i = 0; i < WINDOW_BYTES; i++) {
        if (written[i] != 0)
            assert_int_equal(first[i], second[i]);
        else
            assert_true(first[i] == 0xA5 && second[i] == 0x5A);
    }
    free(first);
    free(written);
}

static void U42_every_byte_of_every_output_is_written(void **state)
{
    (void)state;
    static const struct {
        const char *module;
        uint32_t input_count;
        int32_t dtype_code;
        int64_t count;
    } modules[] = {{"add_one", 1, 2, 4},    {"spin", 1, 0, 1},         {"prints", 0, 2, 1},
                   {"big_output", 0, 2, 1}, {"many_outputs", 0, 2, 1}, {"kv", 1, 2, 3},
                   {"kv", 5, 2, 7},         {"swaps", 3, 2, 5}};
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        uint32_t handle = c7x_test_load(link, modules[i].module, 0, &staged);
        struct c7x_request request =
            request_of(handle, modules[i].input_count, modules[i].dtype_code, modules[i].count);
        check_poison(&request);
        assert_int_equal(c7x_test_unload(link, handle), C7X_OK);
    }
}

static int32_t run_silent(float first, uint32_t seq, char *text, size_t text_size)
{
    struct c7x_response response;
    uint32_t handle = c7x_test_load(link, "silent", 0, &staged);
    struct c7x_request request = request_of(handle, 1, 2, 4);
    *(float *)input.pointer = first;
    c7x_steps_send(link, &request, seq);
    int32_t status = c7x_steps_take(link, C7X_MSG_INFER, seq, &response);
    if (status != C7X_OK)
        c7x_steps_error_text(link, seq, text, text_size);
    return status;
}

static void U42_an_output_that_is_missing_or_cut_is_an_error(void **state)
{
    (void)state;
    char text[128];
    assert_int_equal(run_silent(0, 1, text, sizeof text), C7X_TENSOR);
    assert_string_equal(text, "the module declares 1 outputs and returned 0");
    assert_int_equal(run_silent(1, 2, text, sizeof text), C7X_TENSOR);
    assert_string_equal(text, "output 0 \"y\": 16 bytes are declared, 8 were returned");
    assert_int_equal(run_silent(2, 3, text, sizeof text), C7X_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(U42_every_byte_of_every_output_is_written),
        TEST(U42_an_output_that_is_missing_or_cut_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include "support/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQ 0x11223344u
#define V3_1 C7X_WIRE_VERSION_3_1
#define V3_0 C7X_WIRE_VERSION_3_0

/* Every request in tests/wire/vectors with what it says. The bytes are frozen: they change with the
 * wire version only. */
static const struct {
    const char *name;
    uint32_t session_version;
    struct c7x_request request;
} requests[] = {
    {"ping", V3_0, {.type = C7X_MSG_PING}},
    {"get_status", V3_0, {.type = C7X_MSG_GET_STATUS}},
    {"dyn_load",
     V3_0,
     {.type = C7X_MSG_DYN_LOAD, .body.load = {0x2cd1234, 0, C7X_WIRE_STAGING_ADDR, 0}}},
    {"dyn_load_at", V3_1, {.type = C7X_MSG_DYN_LOAD, .body.load = {0x2cd1234, 3, 0xC1002000, 0}}},
    {"dyn_load_priority",
     V3_1,
     {.type = C7X_MSG_DYN_LOAD, .body.load = {0x2cd1234, 0x800001, 0xC1002000, 8}}},
    {"dyn_unload", V3_0, {.type = C7X_MSG_DYN_UNLOAD, .body.handle = 7}},
    {"model_load",
     V3_0,
     {.type = C7X_MSG_MODEL_LOAD, .body.load = {35073, 0, C7X_WIRE_STAGING_ADDR, 0}}},
    {"model_unload", V3_0, {.type = C7X_MSG_MODEL_UNLOAD, .body.handle = 3}},
    {"infer",
     V3_0,
     {.type = C7X_MSG_INFER,
      .body.infer = {.module_handle = 1,
                     .num_inputs = 1,
                     .repeat_count = 1,
                     .input_dsp_addr = 0xDE010000,
                     .input_size = 0x94000,
                     .result_dsp_addr = 0xDE0A4000,
                     .result_size = 0x2000,
                     .inputs = {{0xDE010140, 602112, 4, 2, 32, 0, {1, 3, 224, 224}}}}}},
    {"infer_priority",
     V3_1,
     {.type = C7X_MSG_INFER,
      .body.infer = {.module_handle = 1,
                     .model_id = 4,
                     .flags = 0x200005,
                     .repeat_count = 5,
                     .priority = 2,
                     .result_dsp_addr = 0xDE0A4000,
                     .result_size = 0x2000}}},
    {"infer_large",
     V3_0,
     {.type = C7X_MSG_INFER_LARGE,
      .body.infer = {.module_handle = 1,
                     .num_inputs = 62,
                     .flags = 0x10001,
                     .repeat_count = 1,
                     .input_dsp_addr = 0xDE010000,
                     .input_size = 0xB50000,
                     .result_dsp_addr = 0xDEB60000,
                     .result_size = 0x1490000,
                     .descs_addr = 0xDE010000}}},
    {"set_printf_buf",
     V3_0,
     {.type = C7X_MSG_SET_PRINTF_BUF, .body.printf_buf = {0xDE000000, 65536}}},
    {"session_open",
     V3_0,
     {.type = C7X_MSG_SESSION_OPEN,
      .body.session_open = {V3_1, 4711, 0x0123456789ABCDEF, "camera"}}},
    {"session_close", V3_1, {.type = C7X_MSG_SESSION_CLOSE}},
    {"cancel", V3_1, {.type = C7X_MSG_CANCEL, .body.cancelled_seq = 0x11223342}},
    {"list", V3_1, {.type = C7X_MSG_LIST, .body.list = {C7X_WIRE_LIST_POOLS, 1}}},
    {"kv_bind",
     V3_1,
     {.type = C7X_MSG_KV_BIND, .body.kv_bind = {5, 60, 0xC4000000, 0xC00000, 196608}}},
    {"trace_begin",
     V3_1,
     {.type = C7X_MSG_TRACE_BEGIN, .body.trace_begin = {0xC4000000, 0x200080}}},
    {"trace_end", V3_1, {.type = C7X_MSG_TRACE_END}},
    {"operators", V3_1, {.type = C7X_MSG_OPERATORS, .body.operators = {5, 7}}},
    {"error_text", V3_1, {.type = C7X_MSG_ERROR_TEXT, .body.error_text = {0x11223343, 448}}},
};

/* Every response. */
static const struct {
    const char *name;
    struct c7x_response response;
} responses[] = {
    {"ping", {.type = C7X_MSG_PING, .body.status = {V3_1, 1500, 0, 0}}},
    {"get_status", {.type = C7X_MSG_GET_STATUS, .body.status = {V3_1, 70000, 9, 2}}},
    {"dyn_load", {.type = C7X_MSG_DYN_LOAD, .body.dyn_load = {1, 602240, 4160, 1, 1, 1}}},
    {"dyn_load_oom",
     {.type = C7X_MSG_DYN_LOAD, .status = C7X_NOMEM, .oom = {47000000, 1000000, 0x16000000}}},
    {"dyn_unload", {.type = C7X_MSG_DYN_UNLOAD}},
    {"model_load", {.type = C7X_MSG_MODEL_LOAD, .body.model_load = {3, 42}}},
    {"model_unload", {.type = C7X_MSG_MODEL_UNLOAD}},
    {"infer",
     {.type = C7X_MSG_INFER,
      .body.infer = {.cycles = 12345678,
                     .num_outputs = 1,
                     .outputs = {{0xDE0A4000, 4000, 2, 2, 32, 0, {1, 1000}}}}}},
    {"infer_size",
     {.type = C7X_MSG_INFER,
      .status = C7X_SIZE,
      .body.infer = {.cycles = 55, .printf_size = 17, .result_required = 8192}}},
    {"infer_large",
     {.type = C7X_MSG_INFER_LARGE,
      .body.infer = {.cycles = 1ull << 40,
                     .num_outputs = 61,
                     .descs_addr = 0xDEB70000,
                     .descs_size = 61 * 80}}},
    {"set_printf_buf", {.type = C7X_MSG_SET_PRINTF_BUF}},
    {"session_open",
     {.type = C7X_MSG_SESSION_OPEN,
      .body.session_open = {12, V3_1, 0x0123456789ABCDEF, 1000000000, 96, 1024, 1024, 30000}}},
    {"session_close", {.type = C7X_MSG_SESSION_CLOSE}},
    {"cancel", {.type = C7X_MSG_CANCEL, .body.cancel_outcome = C7X_WIRE_CANCEL_REMOVED}},
    {"list",
     {.type = C7X_MSG_LIST,
      .body.list = {C7X_WIRE_LIST_POOLS, 2, 1, 1, sizeof(struct c7x_list_pool),
                    "fast pool\0\0\0\0\0\0\0" /* name */
                    "\0\0\0\x7F\0\0\0\0"      /* address */
                    "\0\0\2\0\0\0\0\0"        /* total, free, largest */
                    "\0\0\2\0\0\0\0\0"
                    "\0\0\2\0\0\0\0\0"}}},
    {"kv_bind", {.type = C7X_MSG_KV_BIND}},
    {"trace_begin", {.type = C7X_MSG_TRACE_BEGIN}},
    {"trace_end", {.type = C7X_MSG_TRACE_END}},
    {"operators",
     {.type = C7X_MSG_OPERATORS, .body.operators = {9, 7, 2, 18, "conv1/Conv\0fc/Add"}}},
    {"error_text",
     {.type = C7X_MSG_ERROR_TEXT, .body.error_text = {457, 9, "loader", "no symbol"}}},
};

static size_t read_vector(const char *name, const char *kind, uint8_t *frame)
{
    char path[256];
    snprintf(path, sizeof path, "tests/wire/vectors/%s.%s.hex", name, kind);
    return c7x_test_read_hex(path, frame, C7X_WIRE_FRAME_MAX);
}

static void requests_are_the_frozen_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(requests); i++) {
        uint8_t frozen[C7X_WIRE_FRAME_MAX];
        uint8_t frame[C7X_WIRE_FRAME_MAX];
        struct c7x_request request = requests[i].request;
        request.seq = SEQ;
        size_t size = read_vector(requests[i].name, "request", frozen);
        print_message("%s\n", requests[i].name);
        assert_int_equal(c7x_wire_encode_request(&request, frame), size);
        assert_memory_equal(frame, frozen, size);
    }
}

static void frozen_requests_decode_to_what_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(requests); i++) {
        uint8_t frozen[C7X_WIRE_FRAME_MAX];
        struct c7x_request expected = requests[i].request;
        struct c7x_request decoded;
        bool header_only = true;
        expected.seq = SEQ;
        size_t size = read_vector(requests[i].name, "request", frozen);
        print_message("%s\n", requests[i].name);
        assert_int_equal(c7x_wire_decode_request(frozen, size, requests[i].session_version,
                                                 &decoded, &header_only, NULL),
                         C7X_OK);
        assert_false(header_only);
        assert_memory_equal(&decoded, &expected, sizeof decoded);
    }
}

static void responses_are_the_frozen_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(responses); i++) {
        uint8_t frozen[C7X_WIRE_FRAME_MAX];
        uint8_t frame[C7X_WIRE_FRAME_MAX];
        struct c7x_response response = responses[i].response;
        response.seq = SEQ;
        size_t size = read_vector(responses[i].name, "response", frozen);
        print_message("%s\n", responses[i].name);
        assert_int_equal(c7x_wire_encode_response(&response, frame), size);
        assert_memory_equal(frame, frozen, size);
        for (size_t j = size; j < sizeof frame; j++)
            assert_int_equal(frame[j], 0);
    }
}

static void frozen_responses_decode_to_what_they_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(responses); i++) {
        uint8_t frozen[C7X_WIRE_FRAME_MAX];
        struct c7x_response expected = responses[i].response;
        struct c7x_response decoded;
        expected.seq = SEQ;
        size_t size = read_vector(responses[i].name, "response", frozen);
        print_message("%s\n", responses[i].name);
        assert_int_equal(c7x_wire_decode_response(frozen, size, expected.type, &decoded, NULL),
                         C7X_OK);
        assert_memory_equal(&decoded, &expected, sizeof decoded);
    }
}

static void what_cannot_be_decoded_is_answered_with_a_header(void **state)
{
    (void)state;
    uint8_t frozen[C7X_WIRE_FRAME_MAX];
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_response response = {
        .type = 0x123, .seq = SEQ, .status = C7X_INVALID, .header_only = true};
    size_t size = read_vector("unknown", "response", frozen);
    assert_int_equal(c7x_wire_encode_response(&response, frame), size);
    assert_memory_equal(frame, frozen, size);
    response.type = C7X_MSG_INFER_LARGE; /* the one message whose answer has another type when it is
                                            too short */
    c7x_wire_encode_response(&response, frame);
    assert_int_equal(frame[0] | frame[1] << 8, 0x1023);
}

static enum c7x_status decode(const uint8_t *frame, size_t size, uint32_t version,
                              bool *out_header_only)
{
    struct c7x_request request;
    return c7x_wire_decode_request(frame, size, version, &request, out_header_only, NULL);
}

/* A request of every type at every length: too short is INVALID with a header, and a wrong len
 * field is INVALID. */
static void every_length_of_every_request_is_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(requests); i++) {
        uint8_t frozen[C7X_WIRE_FRAME_MAX] = {0};
        size_t full = read_vector(requests[i].name, "request", frozen);
        for (size_t size = C7X_WIRE_HEADER_SIZE; size <= C7X_WIRE_FRAME_MAX; size++) {
            bool header_only;
            uint8_t *copy =
                malloc(size); /* of this size, so that a sanitizer sees each read past it */
            memcpy(copy, frozen, size);
            enum c7x_status wrong_len = size == full ? C7X_OK : C7X_INVALID;
            assert_int_equal(decode(copy, size, V3_1, &header_only), wrong_len);
            copy[8] = (uint8_t)size;
            copy[9] = (uint8_t)(size >> 8);
            enum c7x_status right_len = size < full ? C7X_INVALID : C7X_OK;
            assert_int_equal(decode(copy, size, V3_1, &header_only), right_len);
            assert_int_equal(header_only, size < full);
            free(copy);
        }
    }
}

static void put32(uint8_t *frame, size_t offset, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        frame[offset + (size_t)i] = (uint8_t)(value >> 8 * i);
}

/* One field of a good request is made wrong; the status is the one that clients of 3.0 know. */
static void a_wrong_field_gets_its_status(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
        uint32_t value;
        uint32_t version;
        enum c7x_status status;
    } cases[] = {
        {"dyn_load", 16, 0, V3_0, C7X_SIZE},
        {"dyn_load", 16, 0x1D400001, V3_0, C7X_SIZE},
        {"dyn_load", 16, 0x1D400000, V3_0, C7X_OK},
        {"dyn_load", 20, 1, V3_0, C7X_INVALID},
        {"dyn_load", 20, 1u << 20, V3_0, C7X_INVALID},
        {"dyn_load_at", 20, 4, V3_1, C7X_INVALID},
        {"dyn_load_at", 20, 8u << 20, V3_1, C7X_OK},
        {"dyn_load_at", 20, 9u << 20, V3_1, C7X_INVALID},
        {"dyn_load_at", 20, 15u << 20, V3_1, C7X_INVALID},
        {"dyn_load_at", 24, 0xBFFFFFFF, V3_1, C7X_ADDR},
        {"dyn_load_at", 28, 1, V3_1, C7X_ADDR},
        {"model_load", 16, 0, V3_0, C7X_SIZE},
        {"model_load", 20, 1u << 20, V3_1, C7X_INVALID},
        {"infer", 24, 2, V3_0, C7X_TENSOR},
        {"infer", 24, 0xFFFFFFFF, V3_0, C7X_TENSOR},
        {"infer", 28, 1u << 20, V3_0, C7X_INVALID},
        {"infer", 28, 1u << 20, V3_1, C7X_OK},
        {"infer", 28, 8u << 20, V3_1, C7X_OK},
        {"infer", 28, 9u << 20, V3_1, C7X_INVALID},
        {"infer", 28, 1u << 17, V3_1, C7X_INVALID},
        {"infer", 28, 1u << 31, V3_1, C7X_INVALID},
        {"infer", 32, 0x1000, V3_0, C7X_ADDR},
        {"infer", 44, 1, V3_0, C7X_ADDR},
        {"infer", 48, 0xE0000000, V3_0, C7X_ADDR},
        {"infer", 80, 7, V3_0, C7X_TENSOR},
        {"infer", 80, 0xFFFFFFFF, V3_0, C7X_TENSOR},
        {"infer_large", 24, 0, V3_0, C7X_TENSOR},
        {"infer_large", 24, 129, V3_0, C7X_TENSOR},
        {"infer_large", 40, 80, V3_0, C7X_TENSOR},
        {"infer_large", 32, 0xC0000000, V3_0, C7X_ADDR},
        {"list", 16, 0, V3_1, C7X_INVALID},
        {"list", 16, 6, V3_1, C7X_INVALID},
        {"kv_bind", 20, 65, V3_1, C7X_SIZE},
        {"kv_bind", 20, 0, V3_1, C7X_SIZE},
        {"kv_bind", 28, 1, V3_1, C7X_ADDR},
        {"set_printf_buf", 24, 16, V3_0, C7X_ADDR},
        {"set_printf_buf", 16, 0x1000, V3_0, C7X_ADDR},
    };
    for (size_t i = 0; i < C7X_ARRAY_COUNT(cases); i++) {
        uint8_t frame[C7X_WIRE_FRAME_MAX];
        bool header_only;
        size_t size = read_vector(cases[i].name, "request", frame);
        put32(frame, cases[i].offset, cases[i].value);
        print_message("%s offset %zu value 0x%x\n", cases[i].name, cases[i].offset, cases[i].value);
        assert_int_equal(decode(frame, size, cases[i].version, &header_only), cases[i].status);
        assert_false(header_only);
    }
}

static void five_inputs_go_inline(void **state)
{
    (void)state;
    struct c7x_request request = {.type = C7X_MSG_INFER, .body.infer = {.num_inputs = 5}};
    struct c7x_request decoded;
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    bool header_only;
    for (int i = 0; i < 5; i++)
        request.body.infer.inputs[i].shape[0] = i + 1;
    size_t size = c7x_wire_encode_request(&request, frame);
    assert_int_equal(size, 64 + 5 * 80);
    assert_int_equal(c7x_wire_decode_request(frame, size, V3_0, &decoded, &header_only, NULL),
                     C7X_OK);
    assert_int_equal(decoded.body.infer.inputs[4].shape[0], 5);
}

/* A client must survive whatever a device sends. */
static void a_response_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_response response;
    size_t size = read_vector("infer", "response", frame);
    assert_int_equal(c7x_wire_decode_response(frame, size, C7X_MSG_PING, &response, NULL),
                     C7X_PROTOCOL);
    assert_int_equal(c7x_wire_decode_response(frame, size - 1, C7X_MSG_INFER, &response, NULL),
                     C7X_PROTOCOL);
    put32(frame, 28, 2); /* two outputs in a frame of one */
    assert_int_equal(c7x_wire_decode_response(frame, size, C7X_MSG_INFER, &response, NULL),
                     C7X_PROTOCOL);
    put32(frame, 28, 129);
    put32(frame, 36, 0xDEB70000);
    assert_int_equal(c7x_wire_decode_response(frame, size, C7X_MSG_INFER, &response, NULL),
                     C7X_PROTOCOL);
    put32(frame, 12, 1);
    assert_int_equal(c7x_wire_decode_response(frame, size, C7X_MSG_INFER, &response, NULL),
                     C7X_PROTOCOL);
    size = read_vector("error_text", "response", frame);
    put32(frame, 20, 10); /* ten bytes of text in a frame of nine */
    assert_int_equal(c7x_wire_decode_response(frame, size, C7X_MSG_ERROR_TEXT, &response, NULL),
                     C7X_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_the_frozen_bytes),
        cmocka_unit_test(frozen_requests_decode_to_what_they_say),
        cmocka_unit_test(responses_are_the_frozen_bytes),
        cmocka_unit_test(frozen_responses_decode_to_what_they_say),
        cmocka_unit_test(what_cannot_be_decoded_is_answered_with_a_header),
        cmocka_unit_test(every_length_of_every_request_is_judged),
        cmocka_unit_test(a_wrong_field_gets_its_status),
        cmocka_unit_test(five_inputs_go_inline),
        cmocka_unit_test(a_response_that_contradicts_itself_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/raw.h"

#include "os/os.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define REPLY_NS 60000000000LL

/* No two requests of a test program have the same. */
static _Atomic uint32_t next_seq = 0x7FFFFFF0u;

void c7x_test_send(struct c7x_host_link *link, const void *frame, size_t size)
{
    struct c7x_error error;
    c7x_error_clear(&error);
    if (link->ops->send(link, frame, size, c7x_os_deadline_ns(REPLY_NS), &error) != C7X_OK)
        fail_msg("send: %s", error.text);
}

void c7x_test_receive(struct c7x_host_link *link, struct c7x_test_reply *out_reply)
{
    struct c7x_error error;
    struct c7x_msg_hdr header;
    c7x_error_clear(&error);
    if (link->ops->receive(link, out_reply->bytes, &out_reply->size, c7x_os_deadline_ns(REPLY_NS),
                           &error) != C7X_OK)
        fail_msg("receive: %s", error.text);
    assert_true(out_reply->size >= sizeof header);
    memcpy(&header, out_reply->bytes, sizeof header);
    assert_int_equal(wire_u32_get(header.len), out_reply->size);
    c7x_wire_peek(out_reply->bytes, &out_reply->type, &out_reply->seq, &out_reply->status);
}

void c7x_test_ask_bytes(struct c7x_host_link *link, const void *frame, size_t size,
                        struct c7x_test_reply *out_reply)
{
    struct c7x_msg_hdr header;
    memcpy(&header, frame, sizeof header);
    c7x_test_send(link, frame, size);
    c7x_test_receive(link, out_reply);
    assert_int_equal(out_reply->seq, wire_u32_get(header.seq));
}

int32_t c7x_test_ask(struct c7x_host_link *link, const struct c7x_request *request,
                     struct c7x_test_reply *out_reply)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_request numbered = *request;
    numbered.seq = next_seq++;
    size_t size = c7x_wire_encode_request(&numbered, frame);
    c7x_test_ask_bytes(link, frame, size, out_reply);
    return out_reply->status;
}

int32_t c7x_test_ask_decoded(struct c7x_host_link *link, const struct c7x_request *request,
                             struct c7x_response *out_response)
{
    struct c7x_test_reply reply;
    c7x_test_ask(link, request, &reply);
    assert_int_equal(
        c7x_wire_decode_response(reply.bytes, reply.size, request->type, out_response, NULL),
        C7X_OK);
    return out_response->status;
}

void c7x_test_ping(struct c7x_host_link *link)
{
    const struct c7x_request request = {.type = C7X_MSG_PING};
    struct c7x_response response;
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
    assert_int_equal(response.body.status.version, C7X_WIRE_VERSION);
}

uint32_t c7x_test_open_session(struct c7x_host_link *link)
{
    struct c7x_request request = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_response response;
    request.body.session_open.wire_version = C7X_WIRE_VERSION;
    request.body.session_open.nonce = next_seq++;
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
    assert_true(response.body.session_open.nonce == request.body.session_open.nonce);
    return response.body.session_open.generation;
}

int32_t c7x_test_name_buffer(struct c7x_host_link *link, uint64_t address, uint32_t size)
{
    struct c7x_request request = {.type = C7X_MSG_SET_PRINTF_BUF};
    struct c7x_test_reply reply;
    request.body.printf_buf.address = address;
    request.body.printf_buf.size = size;
    return c7x_test_ask(link, &request, &reply);
}

struct c7x_buffer c7x_test_attach(struct c7x_host_link *link, size_t size)
{
    struct c7x_buffer buffer = {0};
    struct c7x_error error;
    c7x_error_clear(&error);
    if (link->ops->attach(link, size, c7x_os_deadline_ns(REPLY_NS), &buffer, &error) != C7X_OK)
        fail_msg("attach: %s", error.text);
    return buffer;
}

uint64_t c7x_test_free_bytes(struct c7x_host_link *link)
{
    struct c7x_buffer buffer = {0};
    struct c7x_error error;
    c7x_error_clear(&error);
    assert_int_equal(
        link->ops->attach(link, (size_t)1 << 40, c7x_os_deadline_ns(REPLY_NS), &buffer, &error),
        C7X_NOMEM);
    assert_null(buffer.pointer);
    return error.oom.free;
}

static void read_module(const char *module, struct c7x_host_link *link,
                        struct c7x_buffer *out_staged, size_t *out_size)
{
    char path[C7X_TEST_PATH_MAX];
    c7x_test_module_path(module, path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    assert_true(size > 0);
    rewind(file);
    *out_staged = c7x_test_attach(link, (size_t)size);
    assert_int_equal(fread(out_staged->pointer, 1, (size_t)size, file), size);
    fclose(file);
    *out_size = (size_t)size;
}

uint32_t c7x_test_load(struct c7x_host_link *link, const char *module, uint32_t flags,
                       struct c7x_buffer *out_staged)
{
    struct c7x_request request = {.type = C7X_MSG_DYN_LOAD};
    struct c7x_response response;
    size_t size;
    read_module(module, link, out_staged, &size);
    link->ops->sync_to_device(link, out_staged, 0, out_staged->size);
    request.body.load.size = (uint32_t)size;
    request.body.load.flags = C7X_WIRE_LOAD_ADDRESS | flags;
    request.body.load.address = out_staged->dsp_address;
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
    assert_int_not_equal(response.body.dyn_load.module_handle, 0);
    return response.body.dyn_load.module_handle;
}

int32_t c7x_test_unload(struct c7x_host_link *link, uint32_t handle)
{
    struct c7x_request request = {.type = C7X_MSG_DYN_UNLOAD};
    struct c7x_test_reply reply;
    request.body.handle = handle;
    return c7x_test_ask(link, &request, &reply);
}

struct c7x_request c7x_test_infer_request(uint32_t handle, const struct c7x_buffer *input,
                                          int dtype_code, int64_t count,
                                          const struct c7x_buffer *output)
{
    struct c7x_request request = {.type = C7X_MSG_INFER};
    request.body.infer = (struct c7x_wire_infer){
        .module_handle = handle,
        .num_inputs = 1,
        .input_dsp_addr = input->dsp_address,
        .input_size = input->size,
        .result_dsp_addr = output->dsp_address,
        .result_size = output->size,
    };
    request.body.infer.inputs[0] = (struct c7x_wire_tensor){
        .data_addr = input->dsp_address,
        .data_size = (uint64_t)count * 4,
        .ndim = 1,
        .dtype_code = dtype_code,
        .dtype_bits = 32,
        .shape = {count},
    };
    return request;
}

void c7x_test_run_add_one(struct c7x_host_link *link, uint32_t handle,
                          const struct c7x_buffer *input, const struct c7x_buffer *output)
{
    const float numbers[4] = {1, 2, 3, 4};
    float sums[4];
    struct c7x_response response;
    struct c7x_request request = c7x_test_infer_request(handle, input, 2, 4, output);
    memcpy(input->pointer, numbers, sizeof numbers);
    link->ops->sync_to_device(link, input, 0, input->size);
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
    assert_int_equal(response.body.infer.num_outputs, 1);
    assert_int_equal(response.body.infer.outputs[0].data_size, sizeof sums);
    uint64_t offset = response.body.infer.outputs[0].data_addr - output->dsp_address;
    assert_true(offset <= output->size - sizeof sums);
    link->ops->sync_from_device(link, output, 0, output->size);
    memcpy(sums, (const uint8_t *)output->pointer + offset, sizeof sums);
    for (int i = 0; i < 4; i++)
        assert_true(sums[i] == numbers[i] + 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "service/steps.h"

#include "os/os.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SPINS_MAX 1024u

void c7x_steps_open(struct c7x_test_loopback *device, struct c7x_steps_client *out_client)
{
    *out_client = (struct c7x_steps_client){.link = c7x_test_loopback_connect(device)};
    out_client->session = c7x_test_open_session(out_client->link);
    out_client->spin = c7x_test_load(out_client->link, "spin", 0, &out_client->staged);
    out_client->input = c7x_test_attach(out_client->link, SPINS_MAX * sizeof(int32_t));
    out_client->output = c7x_test_attach(out_client->link, 4096);
}

void c7x_steps_close(struct c7x_steps_client *client)
{
    client->link->ops->close(client->link);
}

void c7x_steps_send(struct c7x_host_link *link, const struct c7x_request *request, uint32_t seq)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_request numbered = *request;
    numbered.seq = seq;
    size_t size = c7x_wire_encode_request(&numbered, frame);
    c7x_test_send(link, frame, size);
}

int32_t c7x_steps_take(struct c7x_host_link *link, uint32_t type, uint32_t seq,
                       struct c7x_response *out_response)
{
    struct c7x_test_reply reply;
    c7x_test_receive(link, &reply);
    assert_int_equal(reply.seq, seq);
    assert_int_equal(c7x_wire_decode_response(reply.bytes, reply.size, type, out_response, NULL),
                     C7X_OK);
    return out_response->status;
}

void c7x_steps_send_spin(struct c7x_steps_client *client, int32_t ms, uint32_t seq)
{
    size_t offset = seq % SPINS_MAX * sizeof ms;
    struct c7x_request request =
        c7x_test_infer_request(client->spin, &client->input, 0, 1, &client->output);
    request.body.infer.inputs[0].data_addr += offset;
    memcpy((uint8_t *)client->input.pointer + offset, &ms, sizeof ms);
    client->link->ops->sync_to_device(client->link, &client->input, 0, client->input.size);
    c7x_steps_send(client->link, &request, seq);
}

#define TARGETS 9

bool c7x_steps_runs(struct c7x_host_link *link, uint32_t session, uint32_t seq)
{
    struct c7x_list_target targets[TARGETS];
    bool found = false;
    assert_int_equal(
        c7x_steps_list_all(link, C7X_WIRE_LIST_TARGETS, sizeof targets[0], targets, TARGETS),
        TARGETS);
    for (int i = 0; i < TARGETS; i++)
        found = found || (wire_u32_get(targets[i].running_session) == session &&
                          wire_u32_get(targets[i].running_seq) == seq);
    return found;
}

void c7x_steps_start_spin(struct c7x_steps_client *client, int32_t ms, uint32_t seq)
{
    c7x_steps_send_spin(client, ms, seq);
    C7X_TEST_WAIT_UNTIL(c7x_steps_runs(client->link, client->session, seq), 30000);
}

int32_t c7x_steps_cancel(struct c7x_host_link *link, uint32_t seq, uint32_t *out_outcome)
{
    struct c7x_request request = {.type = C7X_MSG_CANCEL, .body.cancelled_seq = seq};
    struct c7x_response response;
    int32_t status = c7x_test_ask_decoded(link, &request, &response);
    *out_outcome = response.body.cancel_outcome;
    return status;
}

void c7x_steps_error_text(struct c7x_host_link *link, uint32_t seq, char *text, size_t text_size)
{
    struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
    struct c7x_response response;
    request.body.error_text.failed_seq = seq;
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
    assert_true(response.body.error_text.bytes < text_size);
    memcpy(text, response.body.error_text.text, response.body.error_text.bytes);
    text[response.body.error_text.bytes] = '\0';
}

uint32_t c7x_steps_read_module(const char *module, void *bytes, size_t capacity)
{
    char path[C7X_TEST_PATH_MAX];
    c7x_test_module_path(module, path);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("no %s", path);
    size_t size = fread(bytes, 1, capacity, file);
    assert_true(size > 0 && size < capacity);
    fclose(file);
    return (uint32_t)size;
}

struct c7x_wire_tensor c7x_steps_floats(uint64_t address, uint32_t count)
{
    return (struct c7x_wire_tensor){.data_addr = address,
                                    .data_size = (uint64_t)count * sizeof(float),
                                    .ndim = 1,
                                    .dtype_code = 2,
                                    .dtype_bits = 32,
                                    .shape = {count}};
}

int32_t c7x_steps_list(struct c7x_host_link *link, uint32_t kind, uint32_t first,
                       struct c7x_response *out_response)
{
    struct c7x_request request = {.type = C7X_MSG_LIST};
    request.body.list.kind = kind;
    request.body.list.first = first;
    return c7x_test_ask_decoded(link, &request, out_response);
}

uint32_t c7x_steps_list_all(struct c7x_host_link *link, uint32_t kind, size_t entry_size,
                            void *entries, uint32_t capacity)
{
    struct c7x_response page;
    uint32_t count = 0;
    do {
        assert_int_equal(c7x_steps_list(link, kind, count, &page), C7X_OK);
        assert_int_equal(page.body.list.kind, kind);
        assert_int_equal(page.body.list.first, count);
        assert_int_equal(page.body.list.entry_size, entry_size);
        assert_true(page.body.list.count <= capacity - count);
        memcpy((uint8_t *)entries + count * entry_size, page.body.list.entries,
               page.body.list.count * entry_size);
        count += page.body.list.count;
    } while (page.body.list.count != 0);
    assert_int_equal(page.body.list.total, count);
    return count;
}

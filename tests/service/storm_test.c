/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that ask for anything in any order, and leave in the middle: random requests from a fixed
 * seed, of which most are refused. Nobody waits for anything. Whatever happens, the device goes on,
 * and has given everything back when all are gone.
 */
#include "service/steps.h"

#include "c7x_module.h"
#include "os/os.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLIENTS 4u
#define STEPS 30000
#define BUFFERS 3u
#define HANDLES 8u
#define BUFFER_BYTES 65536u

static const char *const modules[] = {"add_one", "kv",           "swaps",  "prints",
                                      "silent",  "many_outputs", "fails",  "no_weights",
                                      "hungry",  "big_output",   "aborts", "no_entry"};
#define MODULES (sizeof modules / sizeof modules[0])

struct client {
    struct c7x_host_link *link;
    /* Files, which nobody overwrites: a device may run what is in them. */
    struct c7x_buffer staged[MODULES + 1]; /* and weights of one constant */
    uint32_t sizes[MODULES + 1];
    struct c7x_buffer buffers[BUFFERS];
    struct c7x_buffer descriptors; /* what the receiving task reads, and */
    struct c7x_buffer trace;       /* what it writes, where races are seen */
    uint32_t seq;
    uint32_t handles[HANDLES]; /* of the last modules that it loaded, gone ones too */
    uint32_t loads;
};

static struct c7x_test_loopback *device;
static struct client clients[CLIENTS];
static uint64_t random_state;
static uint64_t inferences; /* that succeeded */

/* Below `limit`: xorshift64*. */
static uint32_t pick(uint32_t limit)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545F4914F6CDD1DULL) >> 33) % limit;
}

static void drain(struct client *client)
{
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size;
    while (client->link->ops->receive(client->link, frame, &size, 0, NULL) == C7X_OK) {
        uint32_t type;
        uint32_t seq;
        int32_t status;
        c7x_wire_peek(frame, &type, &seq, &status);
        inferences += type == 0x1021 && status == C7X_OK;
        if (type == 0x1010 && status == C7X_OK)
            memcpy(&client->handles[client->loads++ % HANDLES], frame + 16, sizeof(uint32_t));
    }
}

static void send(struct client *client, const uint8_t *frame, size_t size)
{
    while (client->link->ops->send(client->link, frame, size, C7X_OS_FOREVER, NULL) != C7X_OK) {
        for (uint32_t i = 0; i < CLIENTS; i++)
            if (clients[i].link != NULL)
                drain(&clients[i]);
        c7x_test_pause();
    }
}

/* Its own mostly. */
static uint32_t pick_handle(const struct client *client)
{
    return pick(8) == 0 ? pick(2000) : client->handles[pick(HANDLES)];
}

/* An address in a buffer of this client mostly, of another sometimes, anything else rarely. */
static uint64_t pick_address(const struct client *client)
{
    const struct client *owner = pick(16) == 0 ? &clients[pick(CLIENTS)] : client;
    uint64_t base = owner->buffers[pick(BUFFERS)].dsp_address;
    if (pick(40) == 0)
        return C7X_WIRE_KV_ADDR;
    return base + (pick(16) == 0 ? pick(BUFFER_BYTES) : 128 * pick(64));
}

/*
 * A client that gives the same memory for two purposes gets a mixture, which harms nobody else. But
 * where two tasks of the device use it, ThreadSanitizer reports it: there it is memory of its own.
 */
static uint64_t pick_apart(const struct client *client, const struct c7x_buffer *apart)
{
    return c7x_test_sees_races() ? apart->dsp_address : pick_address(client);
}

static uint64_t pick_size(void)
{
    static const uint64_t sizes[] = {0, 16, 64, 4096, 32768, UINT64_MAX};
    return sizes[pick(sizeof sizes / sizeof sizes[0])];
}

static void fill_load(const struct client *client, struct c7x_request *request)
{
    uint32_t index = request->type == C7X_MSG_DYN_LOAD ? pick(MODULES + 1) : MODULES;
    request->body.load.size = client->sizes[index] + (pick(10) == 0 ? pick(100000) : 0);
    request->body.load.flags = pick(20) == 0 ? 3 : C7X_WIRE_LOAD_ADDRESS;
    request->body.load.address = client->staged[index].dsp_address;
}

static void fill_infer(struct client *client, struct c7x_request *request)
{
    struct c7x_wire_infer *infer = &request->body.infer;
    infer->module_handle = pick_handle(client);
    infer->model_id = pick(4) == 0 ? pick(20) : 0;
    infer->num_inputs = pick(6);
    infer->flags = pick(4) | (pick(4) == 0 ? C7X_WIRE_INFER_KV_RESIDENT : 0);
    infer->input_dsp_addr = request->type == C7X_MSG_INFER_LARGE
                                ? pick_apart(client, &client->descriptors)
                                : pick_address(client);
    infer->input_size = pick(8) != 0 ? 4096 : pick_size();
    infer->result_dsp_addr = pick_address(client);
    infer->result_size = pick(8) != 0 ? 4096 : pick_size();
    infer->descs_addr = request->type == C7X_MSG_INFER_LARGE ? infer->input_dsp_addr : 0;
    for (uint32_t i = 0; i < infer->num_inputs && i < C7X_WIRE_INLINE_INPUTS_MAX; i++)
        infer->inputs[i] =
            c7x_steps_floats(pick(8) == 0 ? pick_address(client) : infer->input_dsp_addr,
                             pick(2) == 0 ? 4 : 1 + pick(8));
}

static void fill_kv(struct client *client, struct c7x_request *request)
{
    request->body.kv_bind.module_handle = pick_handle(client);
    request->body.kv_bind.address = pick_address(client);
    request->body.kv_bind.size = pick(4) != 0 ? 4096 : pick_size();
    request->body.kv_bind.slot_count = pick(6);
    request->body.kv_bind.slot_bytes = pick(4) != 0 ? 128 : pick_size();
}

static uint32_t pick_type(void)
{
    static const uint32_t types[] = {
#define TYPE(NAME, name, request, response, since, meaning) C7X_MSG_##NAME,
        WIRE_MESSAGES(TYPE)
#undef TYPE
    };
    uint32_t type = types[pick(sizeof types / sizeof types[0])];
    bool is_session = type == C7X_MSG_SESSION_OPEN || type == C7X_MSG_SESSION_CLOSE;
    if ((is_session && pick(8) != 0) || pick(2) == 0)
        return pick(4) == 0 ? C7X_MSG_DYN_LOAD : C7X_MSG_INFER; /* sessions live for a while */
    return type;
}

static void fill(struct client *client, struct c7x_request *request)
{
    switch ((enum c7x_msg_type)request->type) {
    case C7X_MSG_DYN_LOAD:
    case C7X_MSG_MODEL_LOAD:
        fill_load(client, request);
        break;
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE:
        fill_infer(client, request);
        break;
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_UNLOAD:
        request->body.handle = pick_handle(client);
        break;
    case C7X_MSG_SET_PRINTF_BUF:
        request->body.printf_buf.address = pick_address(client);
        request->body.printf_buf.size = (uint32_t)pick_size();
        break;
    case C7X_MSG_SESSION_OPEN:
        request->body.session_open.wire_version = C7X_WIRE_VERSION;
        break;
    case C7X_MSG_ERROR_TEXT:
        request->body.error_text.failed_seq = client->seq - pick(8);
        request->body.error_text.offset = pick(200);
        break;
    case C7X_MSG_CANCEL:
        request->body.cancelled_seq = client->seq - pick(4);
        break;
    case C7X_MSG_LIST:
        request->body.list.kind = pick(7);
        request->body.list.first = pick(40);
        break;
    case C7X_MSG_KV_BIND:
        fill_kv(client, request);
        break;
    case C7X_MSG_TRACE_BEGIN:
        request->body.trace_begin.address = pick_apart(client, &client->trace);
        request->body.trace_begin.size = pick(4) != 0 ? 8192 : (uint32_t)pick_size();
        break;
    case C7X_MSG_OPERATORS:
        request->body.operators.module_handle = pick_handle(client);
        request->body.operators.first = pick(4);
        break;
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
    case C7X_MSG_SESSION_CLOSE:
    case C7X_MSG_TRACE_END:
        break;
    }
}

/* float32 [4], as the modules expect that take weights. */
static uint32_t write_weights(uint8_t *out)
{
    const struct {
        uint64_t count;
        uint8_t padding[4];
        int32_t type;
        uint64_t magic;
        uint64_t reserved;
        int32_t device[2];
        int32_t ndim;
        DLDataType dtype;
        int64_t shape;
        int64_t bytes;
        float data[4];
    } weights = {.count = 1,
                 .type = kTVMFFITensor,
                 .magic = C7X_WEIGHTS_TENSOR_MAGIC,
                 .device = {kDLCPU, 0},
                 .ndim = 1,
                 .dtype = {kDLFloat, 32, 1},
                 .shape = 4,
                 .bytes = 16};
    memcpy(out, &weights, sizeof weights);
    return sizeof weights;
}

static void connect(struct client *client)
{
    client->link = c7x_test_loopback_connect(device);
    for (uint32_t i = 0; i < BUFFERS; i++)
        client->buffers[i] = c7x_test_attach(client->link, BUFFER_BYTES);
    client->descriptors = c7x_test_attach(client->link, BUFFER_BYTES);
    client->trace = c7x_test_attach(client->link, BUFFER_BYTES);
    for (uint32_t i = 0; i <= MODULES; i++) {
        client->staged[i] = c7x_test_attach(client->link, BUFFER_BYTES);
        client->sizes[i] =
            i == MODULES
                ? write_weights(client->staged[i].pointer)
                : c7x_steps_read_module(modules[i], client->staged[i].pointer, BUFFER_BYTES);
    }
    if (pick(8) == 0)
        return; /* one of version 3.0, unless it opens a session later */
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_request open = {.type = C7X_MSG_SESSION_OPEN, .seq = client->seq++};
    open.body.session_open.wire_version = C7X_WIRE_VERSION;
    send(client, frame, c7x_wire_encode_request(&open, frame));
}

static void step(struct client *client)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    struct c7x_request request = {.type = pick_type(), .seq = client->seq++};
    fill(client, &request);
    size_t size = c7x_wire_encode_request(&request, frame);
    bool is_apart = request.type == C7X_MSG_INFER_LARGE || request.type == C7X_MSG_TRACE_BEGIN;
    if (pick(10) == 0 &&
        !(is_apart && c7x_test_sees_races())) /* what the encoder would not write */
        frame[pick((uint32_t)size)] = (uint8_t)pick(256);
    send(client, frame, size);
    drain(client);
    if (pick(500) == 0) {
        client->link->ops->close(client->link);
        connect(client);
    }
}

static void anything_in_any_order(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    random_state = 20260730;
    for (uint32_t i = 0; i < CLIENTS; i++)
        connect(&clients[i]);
    for (int i = 0; i < c7x_test_rounds(STEPS); i++)
        step(&clients[pick(CLIENTS)]);
    for (uint32_t i = 0; i < CLIENTS; i++)
        clients[i].link->ops->close(clients[i].link);
    assert_true(inferences > 0);    /* not all of it is refused */
    c7x_test_loopback_stop(device); /* and nothing is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

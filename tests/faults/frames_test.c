/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that no client library would send, and byte for byte what the service answers: over
 * loopback and to an emulator. After each of them the next PING works.
 */
#include "os/os.h"
#include "support/device_kind.h"
#include "support/environment.h"
#include "support/raw.h"
#include "wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER C7X_WIRE_HEADER_SIZE
#define UNKNOWN_TYPE 0x0ABCu
#define QUEUE_DEPTH 96

struct fixture {
    const struct c7x_test_device_kind *kind;
    struct c7x_test_device *device;
    struct c7x_host_link *link;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->kind = *state;
    fixture->device = fixture->kind->start();
    fixture->link = fixture->kind->connect(fixture->device);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    fixture->link->ops->close(fixture->link);
    fixture->kind->stop(fixture->device);
    free(fixture);
    return 0;
}

static struct c7x_host_link *link_of(void **state)
{
    return ((struct fixture *)*state)->link;
}

/* ---- Frames at random
 * ---------------------------------------------------------------------------- */

/* The same numbers in every run. */
static uint32_t next_random(void)
{
    static uint32_t random = 20240229u;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    return random;
}

/* A frame of random bytes with this header. */
static void fill_frame(uint8_t *frame, size_t size, uint32_t type, uint32_t seq, uint32_t len)
{
    struct c7x_msg_hdr header = {
        .type = wire_u32_put(type), .seq = wire_u32_put(seq), .len = wire_u32_put(len)};
    for (size_t i = 0; i < size; i++)
        frame[i] = (uint8_t)next_random();
    memcpy(frame, &header, size < sizeof header ? size : sizeof header);
}

static const struct {
    uint32_t type;
    uint32_t response_type;
} known[] = {
#define KNOWN(NAME, name, request, response, since, meaning) {request, response},
    WIRE_MESSAGES(KNOWN)
#undef KNOWN
};

static void unknown_types_of_every_length_are_invalid(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    const uint32_t types[] = {UNKNOWN_TYPE, 0, 2, 0x1001, 0xFFFFFFFFu};
    for (size_t size = HEADER; size <= sizeof frame; size++) {
        uint32_t type = types[size % C7X_ARRAY_COUNT(types)];
        fill_frame(frame, size, type, next_random(), (uint32_t)size);
        c7x_test_ask_bytes(link, frame, size, &reply);
        assert_int_equal(reply.type, C7X_MSG_RESPONSE | type);
        assert_int_equal(reply.status, C7X_INVALID);
        assert_int_equal(reply.size, HEADER);
        c7x_test_ping(link);
    }
}

static void a_length_that_is_not_the_frames_is_invalid(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (size_t i = 0; i < C7X_ARRAY_COUNT(known); i++)
        for (size_t size = HEADER; size <= sizeof frame; size++) {
            uint32_t len = next_random();
            fill_frame(frame, size, known[i].type, next_random(), len == size ? 0 : len);
            c7x_test_ask_bytes(link, frame, size, &reply);
            assert_int_equal(reply.type, C7X_MSG_RESPONSE | known[i].type);
            assert_int_equal(reply.status, C7X_INVALID);
            assert_int_equal(reply.size, HEADER);
        }
    c7x_test_ping(link);
}

/* Random bodies: whatever they mean, there is one reply, with a status that this session may get.
 */
static void ask_random_bodies(struct c7x_host_link *link, bool has_session, int32_t lowest)
{
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (size_t i = 0; i < C7X_ARRAY_COUNT(known); i++)
        for (size_t size = HEADER; size <= sizeof frame; size++) {
            uint32_t type = known[i].type;
            if (has_session && (type == C7X_MSG_SESSION_OPEN || type == C7X_MSG_SESSION_CLOSE))
                continue;
            fill_frame(frame, size, type, next_random(), (uint32_t)size);
            c7x_test_ask_bytes(link, frame, size, &reply);
            assert_true(reply.type == known[i].response_type ||
                        reply.type == (C7X_MSG_RESPONSE | type));
            assert_true(reply.status <= 0);
            assert_true(reply.status >=
                        (type == C7X_MSG_SESSION_OPEN ? C7X_STATUS_WIRE_MIN : lowest));
            c7x_test_ping(link);
        }
}

static void random_bodies_without_a_session_get_statuses_of_3_0(void **state)
{
    ask_random_bodies(link_of(state), false, C7X_STATUS_WIRE_3_0_MIN);
}

static void random_bodies_in_a_session_get_one_reply_each(void **state)
{
    c7x_test_open_session(link_of(state));
    ask_random_bodies(link_of(state), true, C7X_STATUS_WIRE_MIN);
}

static void frames_shorter_than_a_header_get_no_reply(void **state)
{
    struct c7x_host_link *link = link_of(state);
    uint8_t frame[HEADER];
    for (size_t size = 1; size < HEADER; size++) {
        fill_frame(frame, size, C7X_MSG_PING, 1, (uint32_t)size);
        c7x_test_send(link, frame, size);
        c7x_test_ping(link); /* its answer is the next frame */
    }
}

/* ---- Forms of replies
 * ---------------------------------------------------------------------------- */

static struct c7x_request infer_large_request(uint32_t handle)
{
    struct c7x_request request = {.type = C7X_MSG_INFER_LARGE};
    request.body.infer.module_handle = handle;
    request.body.infer.num_inputs = 1;
    request.body.infer.descs_addr = C7X_WIRE_CARVEOUT_ADDR;
    request.body.infer.input_dsp_addr = C7X_WIRE_CARVEOUT_ADDR;
    request.body.infer.input_size = 4096;
    return request;
}

/* All behind the header but return_value is zero. */
static void assert_empty_infer_reply(const struct c7x_test_reply *reply, int32_t return_value)
{
    static const uint8_t zeroes[C7X_TRANSPORT_FRAME_MAX];
    struct c7x_msg_infer_resp message;
    assert_int_equal(reply->size, sizeof message);
    memcpy(&message, reply->bytes, sizeof message);
    assert_int_equal((int32_t)wire_u32_get(message.return_value), return_value);
    assert_memory_equal(reply->bytes + HEADER + 4, zeroes, sizeof message - HEADER - 4);
}

static void infer_large_is_answered_as_infer(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_request request = infer_large_request(7);
    struct c7x_test_reply reply;
    assert_int_equal(input.dsp_address, C7X_WIRE_CARVEOUT_ADDR);
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_HANDLE);
    assert_int_equal(reply.type, 0x1021);
    assert_empty_infer_reply(&reply, -1);
}

static void a_short_infer_large_is_answered_as_itself(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_test_reply reply;
    uint8_t frame[sizeof(struct c7x_msg_infer_large) - 1];
    fill_frame(frame, sizeof frame, C7X_MSG_INFER_LARGE, 99, sizeof frame);
    c7x_test_ask_bytes(link, frame, sizeof frame, &reply);
    assert_int_equal(reply.type, 0x1023);
    assert_int_equal(reply.status, C7X_INVALID);
    assert_int_equal(reply.size, HEADER);
}

static void a_refused_infer_is_148_bytes_of_zeroes(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_request request = {.type = C7X_MSG_INFER};
    struct c7x_test_reply reply;
    request.body.infer.module_handle = 12345;
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_HANDLE);
    assert_int_equal(reply.type, 0x1021);
    assert_int_equal(reply.size, 148);
    assert_empty_infer_reply(&reply, 0);
}

static void unknown_handles_are_refused(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const uint32_t handles[] = {0, 1, 1024, 1025, 0x7FFFFFFFu, 0xFFFFFFFFu};
    struct c7x_test_reply reply;
    c7x_test_open_session(link);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(handles); i++) {
        struct c7x_request request = {.type = C7X_MSG_DYN_UNLOAD};
        request.body.handle = handles[i];
        assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_HANDLE);
        assert_int_equal(reply.size, HEADER);
        request.type = C7X_MSG_MODEL_UNLOAD;
        assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_HANDLE);
        request = (struct c7x_request){.type = C7X_MSG_INFER};
        request.body.infer.module_handle = handles[i];
        assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_HANDLE);
    }
}

static void sizes_and_addresses_of_loads_are_checked(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged = c7x_test_attach(link, 4096);
    const struct {
        uint32_t size;
        uint64_t address;
        int32_t status;
    } loads[] = {
        {0, staged.dsp_address, C7X_SIZE},
        {C7X_WIRE_STAGING_SIZE + 1, staged.dsp_address, C7X_SIZE},
        {4096, 0, C7X_ADDR},
        {4096, UINT64_MAX - 10, C7X_ADDR},
        {4096, C7X_WIRE_CARVEOUT_ADDR + C7X_WIRE_CARVEOUT_SIZE - 4095, C7X_ADDR},
        {4097, staged.dsp_address, C7X_ADDR},
        {4096, staged.dsp_address, C7X_LOAD},
    };
    memset(staged.pointer, 0xFF, staged.size); /* neither a module nor weights */
    c7x_test_open_session(link);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(loads); i++) {
        struct c7x_request request = {.type = C7X_MSG_DYN_LOAD};
        struct c7x_test_reply reply;
        request.body.load.flags = C7X_WIRE_LOAD_ADDRESS;
        request.body.load.size = loads[i].size;
        request.body.load.address = loads[i].address;
        assert_int_equal(c7x_test_ask(link, &request, &reply), loads[i].status);
        request.type = C7X_MSG_MODEL_LOAD;
        assert_int_equal(c7x_test_ask(link, &request, &reply),
                         loads[i].status == C7X_LOAD ? C7X_WEIGHTS : loads[i].status);
    }
}

/* ---- Sessions
 * ------------------------------------------------------------------------------------ */

static void flags_of_3_1_are_invalid_without_a_session(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer buffer = c7x_test_attach(link, 4096);
    struct c7x_request load = {.type = C7X_MSG_DYN_LOAD};
    struct c7x_request infer = {.type = C7X_MSG_INFER};
    struct c7x_test_reply reply;
    load.body.load.size = 4096;
    load.body.load.address = buffer.dsp_address;
    load.body.load.flags = C7X_WIRE_LOAD_ADDRESS;
    assert_int_equal(c7x_test_ask(link, &load, &reply), C7X_INVALID);
    load.body.load.flags = C7X_WIRE_LOAD_KEEP;
    assert_int_equal(c7x_test_ask(link, &load, &reply), C7X_INVALID);
    load.body.load.flags = 0; /* staged where 3.0 stages */
    assert_int_equal(c7x_test_ask(link, &load, &reply), C7X_LOAD);
    infer.body.infer.flags = 1u << C7X_WIRE_PRIORITY_SHIFT;
    assert_int_equal(c7x_test_ask(link, &infer, &reply), C7X_INVALID);
}

static void messages_of_3_1_need_a_session(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
    struct c7x_test_reply reply;
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_INVALID);
    request.type = C7X_MSG_SESSION_CLOSE;
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_INVALID);
}

static void unassigned_flags_are_invalid(void **state)
{
    struct c7x_host_link *link = link_of(state);
    c7x_test_open_session(link);
    for (int bit = 0; bit < 32; bit++) {
        struct c7x_request infer = {.type = C7X_MSG_INFER};
        struct c7x_request load = {.type = C7X_MSG_DYN_LOAD};
        struct c7x_test_reply reply;
        infer.body.infer.flags = 1u << bit;
        load.body.load.size = 1;
        load.body.load.flags = 1u << bit;
        int32_t status = c7x_test_ask(link, &infer, &reply);
        assert_int_equal(status, bit <= 16 || (bit >= 20 && bit <= 23) ? C7X_HANDLE : C7X_INVALID);
        assert_int_equal(c7x_test_ask(link, &load, &reply),
                         bit < 2 || (bit >= 20 && bit <= 23) ? C7X_ADDR : C7X_INVALID);
        load.type = C7X_MSG_MODEL_LOAD; /* has no calls, and so no priority */
        assert_int_equal(c7x_test_ask(link, &load, &reply), bit < 2 ? C7X_ADDR : C7X_INVALID);
    }
    struct c7x_request infer = {.type = C7X_MSG_INFER};
    struct c7x_request load = {.type = C7X_MSG_DYN_LOAD, .body.load.size = 1};
    struct c7x_test_reply reply;
    infer.body.infer.flags = load.body.load.flags = 9u << C7X_WIRE_PRIORITY_SHIFT;
    assert_int_equal(c7x_test_ask(link, &infer, &reply), C7X_INVALID);
    assert_int_equal(c7x_test_ask(link, &load, &reply), C7X_INVALID);
}

static void other_major_versions_get_no_session(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const uint32_t versions[] = {0, 0x020100, C7X_WIRE_VERSION_3_0, 0x040000};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(versions); i++) {
        struct c7x_request request = {.type = C7X_MSG_SESSION_OPEN};
        struct c7x_test_reply reply;
        request.body.session_open.wire_version = versions[i];
        assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_UNSUPPORTED);
    }
    struct c7x_request newer = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_response response;
    newer.body.session_open.wire_version = 0x030200;
    assert_int_equal(c7x_test_ask_decoded(link, &newer, &response), C7X_OK);
    assert_int_equal(response.body.session_open.wire_version, C7X_WIRE_VERSION);
    assert_int_equal(response.body.session_open.queue_depth, QUEUE_DEPTH);
    assert_int_not_equal(response.body.session_open.cycle_hz, 0);
}

static void a_second_open_ends_the_first_session(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    uint32_t first = c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "add_one", 0, &staged);
    c7x_test_run_add_one(link, handle, &input, &output);
    assert_int_not_equal(c7x_test_open_session(link), first);
    assert_int_equal(c7x_test_unload(link, handle), C7X_HANDLE);
    uint32_t again = c7x_test_load(link, "add_one", 0, &staged);
    assert_int_not_equal(again, handle);
    c7x_test_run_add_one(link, again, &input, &output);
}

static void close_ends_a_session_and_its_modules(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const struct c7x_request close_request = {.type = C7X_MSG_SESSION_CLOSE};
    struct c7x_buffer staged;
    struct c7x_test_reply reply;
    c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "prints", 0, &staged);
    assert_int_equal(c7x_test_ask(link, &close_request, &reply), C7X_OK);
    assert_int_equal(reply.type, 0x1041);
    assert_int_equal(c7x_test_ask(link, &close_request, &reply), C7X_INVALID);
    c7x_test_open_session(link);
    assert_int_equal(c7x_test_unload(link, handle), C7X_HANDLE);
}

/* ---- Texts of failures
 * ---------------------------------------------------------------------------- */

static int32_t ask_text(struct c7x_host_link *link, uint32_t failed_seq, uint32_t offset,
                        struct c7x_response *out_response)
{
    struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
    request.body.error_text.failed_seq = failed_seq;
    request.body.error_text.offset = offset;
    return c7x_test_ask_decoded(link, &request, out_response);
}

static void texts_of_failures_are_read_from_any_offset(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD};
    struct c7x_test_reply reply;
    struct c7x_response whole;
    struct c7x_response part;
    c7x_test_open_session(link);
    unload.body.handle = 4242;
    assert_int_equal(c7x_test_ask(link, &unload, &reply), C7X_HANDLE);
    assert_int_equal(ask_text(link, reply.seq, 0, &whole), C7X_OK);
    uint32_t total = whole.body.error_text.total;
    assert_int_equal(whole.body.error_text.bytes, total);
    assert_string_equal(whole.body.error_text.station, "module");
    assert_true(total > 0 && total < C7X_WIRE_ERROR_TEXT_MAX);
    whole.body.error_text.text[total] = '\0';
    assert_non_null(strstr((const char *)whole.body.error_text.text, "4242"));
    for (uint32_t offset = 0; offset < total + 3; offset++) {
        uint32_t start = offset < total ? offset : total;
        assert_int_equal(ask_text(link, reply.seq, offset, &part), C7X_OK);
        assert_int_equal(part.body.error_text.total, total);
        assert_int_equal(part.body.error_text.bytes, total - start);
        assert_memory_equal(part.body.error_text.text, whole.body.error_text.text + start,
                            total - start);
    }
    assert_int_equal(ask_text(link, reply.seq, UINT32_MAX, &part), C7X_OK);
    assert_int_equal(part.body.error_text.bytes, 0);
    assert_int_equal(ask_text(link, reply.seq + 1000, 0, &part), C7X_HANDLE);
}

static void the_last_eight_texts_are_kept(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD};
    struct c7x_test_reply reply;
    struct c7x_response response;
    uint32_t seqs[9];
    c7x_test_open_session(link);
    unload.body.handle = 1;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(seqs); i++) {
        assert_int_equal(c7x_test_ask(link, &unload, &reply), C7X_HANDLE);
        seqs[i] = reply.seq;
    }
    for (size_t i = 1; i < C7X_ARRAY_COUNT(seqs); i++)
        assert_int_equal(ask_text(link, seqs[i], 0, &response), C7X_OK);
    assert_int_equal(ask_text(link, seqs[0], 0, &response), C7X_HANDLE);
}

/* ---- Windows
 * -------------------------------------------------------------------------------------- */

static void tensors_must_lie_in_the_input_window(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 8192);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    const uint64_t places[] = {input.dsp_address - 1, input.dsp_address + 4096 - 15,
                               output.dsp_address, UINT64_MAX - 7, 0};
    struct c7x_test_reply reply;
    c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "add_one", 0, &staged);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(places); i++) {
        struct c7x_request request = c7x_test_infer_request(handle, &input, 2, 4, &output);
        request.body.infer.input_size = 4096; /* less than the buffer */
        request.body.infer.inputs[0].data_addr = places[i];
        assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_TENSOR);
    }
    c7x_test_run_add_one(link, handle, &input, &output);
}

static void windows_must_be_the_senders(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->link;
    struct c7x_host_link *other = fixture->kind->connect(fixture->device);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    struct c7x_buffer theirs = c7x_test_attach(other, 4096);
    struct c7x_test_reply reply;
    c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "add_one", 0, &staged);
    struct c7x_request request = c7x_test_infer_request(handle, &theirs, 2, 4, &output);
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_ADDR);
    request = c7x_test_infer_request(handle, &input, 2, 4, &theirs);
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_ADDR);
    request = c7x_test_infer_request(handle, &input, 2, 4, &output);
    request.body.infer.result_size = C7X_WIRE_CARVEOUT_SIZE;
    assert_int_equal(c7x_test_ask(link, &request, &reply), C7X_ADDR);
    c7x_test_open_session(other);
    request = c7x_test_infer_request(handle, &theirs, 2, 4, &theirs);
    assert_int_equal(c7x_test_ask(other, &request, &reply),
                     C7X_HANDLE); /* the module is not theirs either */
    assert_int_equal(c7x_test_unload(other, handle), C7X_HANDLE);
    c7x_test_run_add_one(link, handle, &input, &output);
    other->ops->close(other);
}

static void kept_modules_are_everyones_until_they_are_unloaded(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *other = fixture->kind->connect(fixture->device);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(fixture->link, 4096);
    struct c7x_buffer output = c7x_test_attach(fixture->link, 4096);
    c7x_test_open_session(fixture->link);
    c7x_test_open_session(other);
    uint32_t handle = c7x_test_load(other, "add_one", C7X_WIRE_LOAD_KEEP, &staged);
    c7x_test_run_add_one(fixture->link, handle, &input, &output);
    other->ops->detach(other, &staged);
    c7x_test_run_add_one(fixture->link, handle, &input, &output);
    other->ops->close(other);
    c7x_test_run_add_one(fixture->link, handle, &input, &output);
    assert_int_equal(c7x_test_unload(fixture->link, handle), C7X_OK);
    assert_int_equal(c7x_test_unload(fixture->link, handle), C7X_HANDLE);
}

/* ---- A full queue
 * --------------------------------------------------------------------------------- */

/* Sends one long request and more than may wait behind it; returns how many were refused with BUSY.
 */
static int overfill(struct c7x_host_link *link, uint32_t handle, struct c7x_buffer *input,
                    struct c7x_buffer *output, int32_t ms)
{
    enum { SENT = QUEUE_DEPTH + 4 };
    struct c7x_request request = c7x_test_infer_request(handle, input, 0, 1, output);
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    bool answered[SENT] = {false};
    int busy = 0;
    memcpy(input->pointer, &ms, sizeof ms);
    memset((uint8_t *)input->pointer + 128, 0, sizeof ms); /* for those that wait: 0 ms */
    for (uint32_t i = 0; i < SENT; i++) {
        request.seq = i;
        request.body.infer.inputs[0].data_addr = input->dsp_address + (i == 0 ? 0 : 128);
        size_t size = c7x_wire_encode_request(&request, frame);
        c7x_test_send(link, frame, size);
    }
    for (uint32_t i = 0; i < SENT; i++) {
        struct c7x_test_reply reply;
        c7x_test_receive(link, &reply);
        assert_true(reply.seq < SENT && !answered[reply.seq]);
        answered[reply.seq] = true;
        assert_true(reply.status == C7X_OK || reply.status == C7X_BUSY);
        busy += reply.status == C7X_BUSY;
    }
    return busy;
}

static void a_full_queue_answers_busy_and_loses_nothing(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "spin", 0, &staged);
    int busy = 0;
    for (int32_t ms = 200; busy == 0 && ms < 30000;
         ms *= 4) /* long enough on the slowest machine */
        busy = overfill(link, handle, &input, &output, ms);
    assert_true(busy > 0);
    c7x_test_ping(link);
    assert_int_equal(c7x_test_unload(link, handle), C7X_OK);
}

/* ---- All tests on two kinds
 * ------------------------------------------------------------------------ */

#define TEST_ON(kind, test)                                                                        \
    {                                                                                              \
#test "_on_" #kind, test, set_up, tear_down, (void *)(uintptr_t)&c7x_test_kind_##kind      \
    }

#define TESTS_ON(kind)                                                                             \
    TEST_ON(kind, unknown_types_of_every_length_are_invalid),                                      \
        TEST_ON(kind, a_length_that_is_not_the_frames_is_invalid),                                 \
        TEST_ON(kind, random_bodies_without_a_session_get_statuses_of_3_0),                        \
        TEST_ON(kind, random_bodies_in_a_session_get_one_reply_each),                              \
        TEST_ON(kind, frames_shorter_than_a_header_get_no_reply),                                  \
        TEST_ON(kind, infer_large_is_answered_as_infer),                                           \
        TEST_ON(kind, a_short_infer_large_is_answered_as_itself),                                  \
        TEST_ON(kind, a_refused_infer_is_148_bytes_of_zeroes),                                     \
        TEST_ON(kind, unknown_handles_are_refused),                                                \
        TEST_ON(kind, sizes_and_addresses_of_loads_are_checked),                                   \
        TEST_ON(kind, flags_of_3_1_are_invalid_without_a_session),                                 \
        TEST_ON(kind, messages_of_3_1_need_a_session),                                             \
        TEST_ON(kind, unassigned_flags_are_invalid),                                               \
        TEST_ON(kind, other_major_versions_get_no_session),                                        \
        TEST_ON(kind, a_second_open_ends_the_first_session),                                       \
        TEST_ON(kind, close_ends_a_session_and_its_modules),                                       \
        TEST_ON(kind, texts_of_failures_are_read_from_any_offset),                                 \
        TEST_ON(kind, the_last_eight_texts_are_kept),                                              \
        TEST_ON(kind, tensors_must_lie_in_the_input_window),                                       \
        TEST_ON(kind, windows_must_be_the_senders),                                                \
        TEST_ON(kind, kept_modules_are_everyones_until_they_are_unloaded),                         \
        TEST_ON(kind, a_full_queue_answers_busy_and_loses_nothing)

int main(void)
{
    const struct CMUnitTest tests[] = {TESTS_ON(loopback), TESTS_ON(shared_emulator)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

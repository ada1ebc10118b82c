/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every transport must do, whoever is at its other end. The device is the real firmware each
 * time, since an emulator has no other: its PING shows that frames arrive, its requests that shared
 * buffers are what they seem.
 */
#include "os/os.h"
#include "support/device_kind.h"
#include "support/environment.h"
#include "support/raw.h"
#include "transport/carveout.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1u << 20)
#define FRAMES 60u /* that the shortest queue of a transport takes from two clients at once */
#define AT_ONCE_MS 2000

/* What a test gets: a device and one link to it. */
struct fixture {
    const struct c7x_test_device_kind *kind;
    struct c7x_test_device *device;
    struct c7x_host_link *link;
    int descriptors; /* before the device was started */
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->kind = *state;
    fixture->descriptors = c7x_test_descriptor_count(0);
    fixture->device = fixture->kind->start();
    fixture->link = fixture->kind->connect(fixture->device);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->link != NULL)
        fixture->link->ops->close(fixture->link);
    fixture->kind->stop(fixture->device);
    assert_int_equal(c7x_test_descriptor_count(0), fixture->descriptors);
    free(fixture);
    return 0;
}

static struct c7x_host_link *link_of(void **state)
{
    return ((struct fixture *)*state)->link;
}

/* ---- Frames -------------------------------------------------------------------------------------
 */

/* A PING of any length that a frame can have; the device checks that `len` is what it received. */
static size_t long_ping(uint8_t *frame, uint32_t seq, size_t size)
{
    struct c7x_msg_hdr header = {.type = wire_u32_put(C7X_MSG_PING),
                                 .seq = wire_u32_put(seq),
                                 .len = wire_u32_put((uint32_t)size)};
    memset(frame, 0xA5, size);
    memcpy(frame, &header, sizeof header);
    return size;
}

static void frames_of_every_length_arrive_whole(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (size_t size = C7X_WIRE_HEADER_SIZE; size <= sizeof frame; size++) {
        c7x_test_ask_bytes(link, frame, long_ping(frame, (uint32_t)size * 77, size), &reply);
        assert_int_equal(reply.status, C7X_OK);
    }
}

static void frames_arrive_in_order(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (uint32_t i = 0; i < FRAMES; i++)
        c7x_test_send(link, frame, long_ping(frame, i * 0x9E3779B1u, 16 + i % 64));
    for (uint32_t i = 0; i < FRAMES; i++) {
        c7x_test_receive(link, &reply);
        assert_int_equal(reply.seq, i * 0x9E3779B1u);
        assert_int_equal(reply.status, C7X_OK);
    }
}

static void frames_that_are_too_long_or_empty_are_not_sent(void **state)
{
    struct c7x_host_link *link = link_of(state);
    uint8_t frame[2 * C7X_TRANSPORT_FRAME_MAX];
    const size_t sizes[] = {C7X_TRANSPORT_FRAME_MAX + 1, sizeof frame, 0};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(sizes); i++) {
        struct c7x_error error;
        c7x_error_clear(&error);
        long_ping(frame, 1, sizeof frame);
        assert_int_equal(link->ops->send(link, frame, sizes[i], C7X_OS_FOREVER, &error), C7X_SIZE);
        assert_string_equal(error.station, "transport");
        assert_non_null(strstr(error.text, "496"));
        c7x_test_ping(link);
    }
}

static void receive_gives_up_at_its_deadline(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const int64_t deadlines[] = {0, c7x_os_clock_ns() - 1, c7x_os_deadline_ns(20000000)};
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size = 12345;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(deadlines); i++) {
        assert_int_equal(link->ops->receive(link, frame, &size, deadlines[i], NULL), C7X_TIMEOUT);
        assert_true(c7x_os_clock_ns() >= deadlines[i]);
        assert_int_equal(size, 12345);
    }
    c7x_test_ping(link);
}

static void a_frame_that_is_there_is_received_after_the_deadline(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const struct c7x_request request = {.type = C7X_MSG_PING, .seq = 4711};
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size = c7x_wire_encode_request(&request, frame);
    c7x_test_send(link, frame, size);
    C7X_TEST_WAIT_UNTIL(link->ops->receive(link, frame, &size, 0, NULL) == C7X_OK, 10000);
    assert_int_equal(size, sizeof(struct c7x_msg_ping_resp));
}

/* ---- Buffers ------------------------------------------------------------------------------------
 */

static bool is_zero(const struct c7x_buffer *buffer)
{
    const uint8_t *bytes = buffer->pointer;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, buffer->size - 1) == 0;
}

static void buffers_are_whole_pages_of_zeroes_inside_the_carveout(void **state)
{
    struct c7x_host_link *link = link_of(state);
    uint64_t end = C7X_WIRE_CARVEOUT_ADDR + ((struct fixture *)*state)->kind->carveout_bytes;
    const size_t sizes[] = {1, 4095, 4096, 4097, 100000, MIB};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(sizes); i++) {
        struct c7x_buffer buffer = c7x_test_attach(link, sizes[i]);
        assert_int_equal((uintptr_t)buffer.pointer % c7x_os_page_size(), 0);
        assert_int_equal(buffer.dsp_address % c7x_os_page_size(), 0);
        assert_int_equal(buffer.size, (sizes[i] + c7x_os_page_size() - 1) / c7x_os_page_size() *
                                          c7x_os_page_size());
        assert_true(buffer.dsp_address >= C7X_WIRE_CARVEOUT_ADDR);
        assert_true(buffer.dsp_address + buffer.size <= end);
        assert_true(is_zero(&buffer));
        memset(buffer.pointer, 0xFF, buffer.size);
        link->ops->detach(link, &buffer);
        assert_null(buffer.pointer);
        assert_int_equal(buffer.size, 0);
    }
}

static void buffers_do_not_overlap(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer buffers[16];
    for (size_t i = 0; i < C7X_ARRAY_COUNT(buffers); i++) {
        buffers[i] = c7x_test_attach(link, 5000 * (i + 1));
        memset(buffers[i].pointer, (int)i + 1, buffers[i].size);
        for (size_t k = 0; k < i; k++)
            assert_true(buffers[k].dsp_address + buffers[k].size <= buffers[i].dsp_address ||
                        buffers[i].dsp_address + buffers[i].size <= buffers[k].dsp_address);
    }
    for (size_t i = 0; i < C7X_ARRAY_COUNT(buffers); i++) {
        const uint8_t *bytes = buffers[i].pointer;
        assert_int_equal(bytes[0], i + 1);
        assert_memory_equal(bytes, bytes + 1, buffers[i].size - 1);
    }
}

static void the_lowest_place_that_fits_is_used_again(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer first = c7x_test_attach(link, 4 * c7x_os_page_size());
    struct c7x_buffer second = c7x_test_attach(link, c7x_os_page_size());
    uint64_t place = first.dsp_address;
    assert_int_equal(place, C7X_WIRE_CARVEOUT_ADDR);
    assert_int_equal(second.dsp_address, place + 4 * c7x_os_page_size());
    memset(first.pointer, 0xFF, first.size);
    link->ops->detach(link, &first);
    first = c7x_test_attach(link, 5 * c7x_os_page_size()); /* too large for the gap */
    assert_int_equal(first.dsp_address, place + 5 * c7x_os_page_size());
    first = c7x_test_attach(link, 3 * c7x_os_page_size());
    assert_int_equal(first.dsp_address, place);
    assert_true(is_zero(&first));
}

static void the_device_computes_in_shared_buffers(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    c7x_test_open_session(link);
    uint32_t handle = c7x_test_load(link, "add_one", 0, &staged);
    c7x_test_run_add_one(link, handle, &input, &output);
}

static void a_detached_buffer_is_refused(void **state)
{
    struct c7x_host_link *link = link_of(state);
    const uint32_t size = (uint32_t)(2 * c7x_os_page_size());
    struct c7x_buffer buffer = c7x_test_attach(link, size);
    struct c7x_buffer other = c7x_test_attach(link, size);
    uint64_t address = buffer.dsp_address;
    assert_int_equal(c7x_test_name_buffer(link, address, size + 1),
                     C7X_ADDR); /* reaches into the next one */
    link->ops->detach(link, &buffer);
    assert_int_equal(c7x_test_name_buffer(link, address, size), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, other.dsp_address, size), C7X_OK);
}

static void a_detached_buffer_stays_while_the_device_uses_it(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer staged;
    struct c7x_buffer input = c7x_test_attach(link, 4096);
    struct c7x_buffer output = c7x_test_attach(link, 4096);
    c7x_test_open_session(link);
    uint32_t handle =
        c7x_test_load(link, "add_one", 0, &staged); /* weights are used where they are staged */
    uint64_t free_bytes = c7x_test_free_bytes(link);
    uint64_t start = staged.dsp_address;
    uint64_t end = start + staged.size;
    link->ops->detach(link, &staged);
    assert_int_equal(c7x_test_free_bytes(link), free_bytes);
    struct c7x_buffer next = c7x_test_attach(link, end - start);
    assert_true(next.dsp_address >= end || next.dsp_address + next.size <= start);
    memset(next.pointer, 0xFF, next.size);
    c7x_test_run_add_one(link, handle, &input, &output);
    link->ops->detach(link, &next);
    assert_int_equal(c7x_test_unload(link, handle), C7X_OK);
    C7X_TEST_WAIT_UNTIL(c7x_test_free_bytes(link) == free_bytes + (end - start), 1000);
}

static void a_full_carveout_says_what_there_is(void **state)
{
    struct c7x_host_link *link = link_of(state);
    uint64_t total = ((struct fixture *)*state)->kind->carveout_bytes;
    struct c7x_buffer buffers[8];
    struct c7x_buffer more = {.size = 12345};
    struct c7x_error error;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(buffers); i++)
        buffers[i] = c7x_test_attach(link, total / 8);
    link->ops->detach(link, &buffers[1]);
    link->ops->detach(link, &buffers[3]);
    c7x_error_clear(&error);
    assert_int_equal(link->ops->attach(link, total / 4, C7X_OS_FOREVER, &more, &error), C7X_NOMEM);
    assert_int_equal(more.size, 12345);
    assert_int_equal(error.oom.requested, total / 4);
    assert_int_equal(error.oom.free, total / 4);
    assert_int_equal(error.oom.largest, total / 8);
    assert_int_equal(error.oom.total, total);
    link->ops->detach(link, &buffers[2]);
    more = c7x_test_attach(link, total / 4);
    assert_int_equal(c7x_test_free_bytes(link), total / 8);
}

static void no_buffer_is_empty(void **state)
{
    struct c7x_host_link *link = link_of(state);
    struct c7x_buffer buffer = {0};
    assert_int_equal(link->ops->attach(link, 0, C7X_OS_FOREVER, &buffer, NULL), C7X_SIZE);
    link->ops->detach(link, &buffer); /* no buffer: nothing happens */
    c7x_test_ping(link);
}

/* ---- Two clients --------------------------------------------------------------------------------
 */

static void another_clients_buffer_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *other = fixture->kind->connect(fixture->device);
    struct c7x_buffer ours = c7x_test_attach(fixture->link, 4096);
    struct c7x_buffer theirs = c7x_test_attach(other, 4096);
    c7x_test_open_session(fixture->link);
    c7x_test_open_session(other);
    assert_int_equal(c7x_test_name_buffer(fixture->link, theirs.dsp_address, 4096), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(other, ours.dsp_address, 4096), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(fixture->link, ours.dsp_address, 4096), C7X_OK);
    assert_int_equal(c7x_test_name_buffer(other, theirs.dsp_address, 4096), C7X_OK);
    other->ops->close(other);
}

static void replies_go_to_who_asked(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *other = fixture->kind->connect(fixture->device);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (uint32_t i = 0; i < FRAMES; i++) {
        c7x_test_send(fixture->link, frame, long_ping(frame, i, 16));
        c7x_test_send(other, frame, long_ping(frame, 1000 + i, 16));
    }
    for (uint32_t i = 0; i < FRAMES; i++) {
        c7x_test_receive(other, &reply);
        assert_int_equal(reply.seq, 1000 + i);
        c7x_test_receive(fixture->link, &reply);
        assert_int_equal(reply.seq, i);
    }
    other->ops->close(other);
}

static void close_frees_all_buffers(void **state)
{
    struct fixture *fixture = *state;
    uint64_t free_bytes = c7x_test_free_bytes(fixture->link);
    for (int round = 0; round < 10; round++) {
        struct c7x_host_link *other = fixture->kind->connect(fixture->device);
        struct c7x_buffer staged;
        (void)c7x_test_attach(other, 1);
        (void)c7x_test_attach(other, MIB);
        c7x_test_open_session(other);
        (void)c7x_test_load(other, "add_one", 0, &staged);
        struct c7x_buffer text = c7x_test_attach(other, 4096);
        assert_int_equal(c7x_test_name_buffer(other, text.dsp_address, 4096), C7X_OK);
        assert_true(c7x_test_free_bytes(fixture->link) < free_bytes);
        other->ops->close(other);
        C7X_TEST_WAIT_UNTIL(c7x_test_free_bytes(fixture->link) == free_bytes, 1000);
    }
}

/* ---- The device goes away -----------------------------------------------------------------------
 */

struct waiting {
    struct c7x_host_link *link;
    enum c7x_status status;
};

static void *wait_for_ever(void *context)
{
    struct waiting *waiting = context;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size;
    waiting->status =
        waiting->link->ops->receive(waiting->link, frame, &size, C7X_OS_FOREVER, NULL);
    return NULL;
}

static void every_call_ends_when_the_device_goes_away(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->link;
    struct waiting waiting = {.link = link};
    struct c7x_buffer buffer = {0};
    struct c7x_buffer kept = c7x_test_attach(link, 4096);
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &waiting), 0);
    int64_t start_ms = c7x_test_now_ms();
    fixture->kind->kill(fixture->device);
    pthread_join(thread, NULL);
    assert_true(c7x_test_now_ms() - start_ms < AT_ONCE_MS);
    assert_int_equal(waiting.status, C7X_RESET);
    size_t size = long_ping(frame, 1, 16);
    assert_int_equal(link->ops->send(link, frame, size, C7X_OS_FOREVER, NULL), C7X_RESET);
    assert_int_equal(link->ops->receive(link, frame, &size, C7X_OS_FOREVER, NULL), C7X_RESET);
    assert_int_equal(link->ops->attach(link, 4096, C7X_OS_FOREVER, &buffer, NULL), C7X_RESET);
    memset(kept.pointer, 1, kept.size); /* ours until it is detached, device or not */
    link->ops->detach(link, &kept);
    assert_true(c7x_test_now_ms() - start_ms < 2 * AT_ONCE_MS);
}

/* ---- The log ------------------------------------------------------------------------------------
 */

static void the_log_is_read_on_from_where_the_reader_was(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->link;
    uint64_t position = 0;
    size_t size = 0;
    char text[4096];
    enum c7x_status status = link->ops->read_log(link, &position, text, sizeof text, &size, NULL);
    if (!fixture->kind->keeps_a_log) {
        assert_int_equal(status, C7X_UNSUPPORTED);
        return;
    }
    assert_int_equal(status, C7X_OK);
    assert_int_equal(position, size);
    c7x_test_open_session(link);
    assert_int_equal(link->ops->read_log(link, &position, text, sizeof text - 1, &size, NULL),
                     C7X_OK);
    text[size] = '\0';
    assert_non_null(strstr(text, "session 1 opened"));
    assert_int_equal(link->ops->read_log(link, &position, text, sizeof text, &size, NULL), C7X_OK);
    assert_int_equal(size, 0);
}

/* ---- All tests on all kinds
 * ---------------------------------------------------------------------- */

#define TEST_ON(kind, test)                                                                        \
    {                                                                                              \
#test "_on_" #kind, test, set_up, tear_down, (void *)(uintptr_t)&c7x_test_kind_##kind      \
    }

#define TESTS_ON(kind)                                                                             \
    TEST_ON(kind, frames_of_every_length_arrive_whole), TEST_ON(kind, frames_arrive_in_order),     \
        TEST_ON(kind, frames_that_are_too_long_or_empty_are_not_sent),                             \
        TEST_ON(kind, receive_gives_up_at_its_deadline),                                           \
        TEST_ON(kind, a_frame_that_is_there_is_received_after_the_deadline),                       \
        TEST_ON(kind, buffers_are_whole_pages_of_zeroes_inside_the_carveout),                      \
        TEST_ON(kind, buffers_do_not_overlap),                                                     \
        TEST_ON(kind, the_lowest_place_that_fits_is_used_again),                                   \
        TEST_ON(kind, the_device_computes_in_shared_buffers),                                      \
        TEST_ON(kind, a_detached_buffer_is_refused),                                               \
        TEST_ON(kind, a_detached_buffer_stays_while_the_device_uses_it),                           \
        TEST_ON(kind, a_full_carveout_says_what_there_is), TEST_ON(kind, no_buffer_is_empty),      \
        TEST_ON(kind, every_call_ends_when_the_device_goes_away),                                  \
        TEST_ON(kind, the_log_is_read_on_from_where_the_reader_was)

#define TESTS_OF_MANY_ON(kind)                                                                     \
    TEST_ON(kind, another_clients_buffer_is_refused), TEST_ON(kind, replies_go_to_who_asked),      \
        TEST_ON(kind, close_frees_all_buffers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TESTS_ON(loopback),
        TESTS_OF_MANY_ON(loopback),
        TESTS_ON(private_emulator),
        TESTS_ON(shared_emulator),
        TESTS_OF_MANY_ON(shared_emulator),
        TESTS_ON(socket_emulator),
        TESTS_OF_MANY_ON(socket_emulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

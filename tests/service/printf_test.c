/* SPDX-License-Identifier: Apache-2.0 */
/* Printed text of a 3.1 session on the wire: the ring as the host sees it (user's report U47). */
#include "service/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define HEADER sizeof(struct c7x_printf_ring)
#define RECORD_BYTES 24u /* of "hello\n" */
#define RING_BYTES 128u  /* five of them */

static struct c7x_test_loopback *device;
static struct c7x_host_link *link;
static struct c7x_buffer ring;
static uint32_t prints;

static int start(void **state)
{
    struct c7x_buffer staged;
    (void)state;
    device = c7x_test_loopback_start();
    link = c7x_test_loopback_connect(device);
    (void)c7x_test_open_session(link);
    prints = c7x_test_load(link, "prints", 0, &staged);
    ring = c7x_test_attach(link, 4096);
    assert_int_equal(c7x_test_name_buffer(link, ring.dsp_address, HEADER + RING_BYTES + 100),
                     C7X_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_loopback_stop(device);
    return 0;
}

static void send_prints(uint32_t seq)
{
    struct c7x_request request = {.type = C7X_MSG_INFER};
    request.body.infer.module_handle = prints;
    c7x_steps_send(link, &request, seq);
}

/* The bytes of text that the answer tells. */
static uint32_t take_prints(uint32_t seq)
{
    struct c7x_response response;
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, seq, &response), C7X_OK);
    return response.body.infer.printf_size;
}

static uint32_t word(size_t offset)
{
    wire_u32 value;
    memcpy(&value, (const uint8_t *)ring.pointer + offset, sizeof value);
    return wire_u32_get(value);
}

static void set_read(uint32_t read)
{
    wire_u32 value = wire_u32_put(read);
    memcpy((uint8_t *)ring.pointer + offsetof(struct c7x_printf_ring, read), &value, sizeof value);
}

static void assert_hello(uint32_t position, uint32_t seq, uint32_t lost)
{
    uint8_t record[RECORD_BYTES];
    struct c7x_printf_record head;
    for (uint32_t i = 0; i < sizeof record; i++)
        record[i] = ((const uint8_t *)ring.pointer)[HEADER + (position + i) % RING_BYTES];
    memcpy(&head, record, sizeof head);
    assert_int_equal(wire_u32_get(head.seq), seq);
    assert_int_equal(wire_u32_get(head.bytes), 6);
    assert_int_equal(wire_u32_get(head.lost), lost);
    assert_memory_equal(record + sizeof head, "hello\n", 6);
}

static void each_request_in_flight_has_a_record(void **state)
{
    (void)state;
    for (uint32_t seq = 1; seq <= 4; seq++)
        send_prints(seq);
    for (uint32_t seq = 1; seq <= 4; seq++)
        assert_int_equal(take_prints(seq), 6);
    assert_int_equal(word(0), C7X_WIRE_PRINTF_RING_MAGIC);
    assert_int_equal(word(offsetof(struct c7x_printf_ring, size)), RING_BYTES);
    assert_int_equal(word(offsetof(struct c7x_printf_ring, written)), 4 * RECORD_BYTES);
    for (uint32_t i = 0; i < 4; i++)
        assert_hello(i * RECORD_BYTES, i + 1, 0);
}

static void U47_what_has_no_room_is_told_later(void **state)
{
    (void)state;
    for (uint32_t seq = 1; seq <= 7; seq++)
        send_prints(seq);
    for (uint32_t seq = 1; seq <= 7; seq++)
        assert_int_equal(take_prints(seq), seq <= 5 ? 6 : 0);
    assert_int_equal(word(offsetof(struct c7x_printf_ring, written)), 5 * RECORD_BYTES);
    set_read(5 * RECORD_BYTES);
    send_prints(8);
    assert_int_equal(take_prints(8), 6);
    assert_hello(5 * RECORD_BYTES, 8, 12); /* wraps */
}

static void a_new_buffer_takes_the_place_of_the_old_one(void **state)
{
    (void)state;
    size_t buffers = c7x_test_loopback_buffer_count(device);
    send_prints(1);
    assert_int_equal(take_prints(1), 6);
    struct c7x_buffer next = c7x_test_attach(link, 4096);
    assert_int_equal(c7x_test_name_buffer(link, next.dsp_address, 4096), C7X_OK);
    link->ops->detach(link, &ring);
    ring = next;
    send_prints(2);
    assert_int_equal(take_prints(2), 6);
    assert_hello(0, 2, 0);
    assert_int_equal(word(offsetof(struct c7x_printf_ring, size)), 2048);
    assert_int_equal(c7x_test_loopback_buffer_count(device), buffers);
}

static void a_buffer_that_cannot_be_a_ring_is_refused(void **state)
{
    (void)state;
    uint64_t address = ring.dsp_address;
    assert_int_equal(c7x_test_name_buffer(link, address, C7X_WIRE_PRINTF_RING_MIN - 1), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, address + 64, 1024), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, address + 4096, 1024), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, address, C7X_WIRE_PRINTF_RING_MIN), C7X_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_request_in_flight_has_a_record),
        TEST(U47_what_has_no_room_is_told_later),
        TEST(a_new_buffer_takes_the_place_of_the_old_one),
        TEST(a_buffer_that_cannot_be_a_ring_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

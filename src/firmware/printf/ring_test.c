/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/printf/ring.h"

#include "c7x_compute_protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEADER sizeof(struct c7x_printf_ring)

static _Alignas(128) uint8_t memory[HEADER + 128 + 40]; /* 40 bytes more than a power of two */
static struct c7x_printf_ring_writer writer;

static int start(void **state)
{
    (void)state;
    memset(memory, 0xAA, sizeof memory);
    c7x_printf_ring_bind(&writer, memory, sizeof memory);
    return 0;
}

static uint32_t word(size_t offset)
{
    wire_u32 value;
    memcpy(&value, memory + offset, sizeof value);
    return wire_u32_get(value);
}

static void set_read(uint32_t read)
{
    wire_u32 value = wire_u32_put(read);
    memcpy(memory + offsetof(struct c7x_printf_ring, read), &value, sizeof value);
}

static uint32_t written(void)
{
    return word(offsetof(struct c7x_printf_ring, written));
}

static uint8_t byte_at(uint32_t position)
{
    return memory[HEADER + position % 128];
}

/* Reads the record at `position` as a host does; returns the position behind it. */
static uint32_t take(uint32_t position, struct c7x_printf_record *out_head, char *text)
{
    for (uint32_t i = 0; i < sizeof *out_head; i++)
        ((uint8_t *)out_head)[i] = byte_at(position + i);
    position += (uint32_t)sizeof *out_head;
    uint32_t bytes = wire_u32_get(out_head->bytes);
    assert_true(bytes <= 128);
    for (uint32_t i = 0; i < bytes; i++)
        text[i] = (char)byte_at(position + i);
    text[bytes] = '\0';
    position += (bytes + 7) / 8 * 8;
    set_read(position);
    return position;
}

static uint32_t append(uint32_t seq, const char *text)
{
    return c7x_printf_ring_append(&writer, seq, (const uint8_t *)text, (uint32_t)strlen(text), 0);
}

static void a_bound_ring_is_empty(void **state)
{
    (void)state;
    assert_int_equal(word(0), C7X_WIRE_PRINTF_RING_MAGIC);
    assert_int_equal(written(), 0);
    assert_int_equal(word(8), 128);
    assert_int_equal(word(128), 0);
    assert_int_equal(append(1, ""), 0);
    assert_int_equal(written(), 0);
}

static void records_follow_each_other_and_wrap(void **state)
{
    (void)state;
    struct c7x_printf_record head;
    char text[129];
    uint32_t position = 0;
    for (uint32_t seq = 0; seq < 1000; seq++) {
        char wanted[64];
        size_t length = seq % 60 + 1;
        memset(wanted, 'a' + (char)(seq % 26), length);
        wanted[length] = '\0';
        assert_int_equal(append(seq, wanted), length);
        position = take(position, &head, text);
        assert_int_equal(wire_u32_get(head.seq), seq);
        assert_int_equal(wire_u32_get(head.lost), 0);
        assert_string_equal(text, wanted);
        assert_int_equal(written(), position);
    }
    for (size_t i = HEADER + 128; i < sizeof memory; i++)
        assert_int_equal(memory[i], 0xAA);
}

static void counts_pass_the_end_of_their_word(void **state)
{
    (void)state;
    struct c7x_printf_record head;
    char text[129];
    writer.written = UINT32_MAX - 15; /* a record later it is 24 */
    set_read(writer.written);
    assert_int_equal(append(5, "0123456789012345678901"), 22);
    assert_int_equal(written(), 24);
    assert_int_equal(take(UINT32_MAX - 15, &head, text), 24);
    assert_string_equal(text, "0123456789012345678901");
}

static void what_has_no_room_is_counted_in_the_next_record(void **state)
{
    (void)state;
    struct c7x_printf_record head;
    char text[129];
    char long_text[101];
    memset(long_text, 'x', 100);
    long_text[100] = '\0';
    assert_int_equal(append(1, long_text), 100); /* 120 of 128 */
    assert_int_equal(append(2, "gone"), 0);
    assert_int_equal(append(3, "too"), 0);
    assert_int_equal(written(), 120);
    uint32_t position = take(0, &head, text);
    assert_int_equal(wire_u32_get(head.lost), 0);
    assert_int_equal(c7x_printf_ring_append(&writer, 4, (const uint8_t *)"here", 4, 9), 4);
    (void)take(position, &head, text);
    assert_int_equal(wire_u32_get(head.seq), 4);
    assert_int_equal(wire_u32_get(head.lost), 16);
    assert_string_equal(text, "here");
}

static void longer_text_is_cut_and_says_so(void **state)
{
    (void)state;
    struct c7x_printf_record head;
    char text[129];
    char long_text[301];
    memset(long_text, 'y', 300);
    long_text[300] = '\0';
    assert_int_equal(append(1, long_text), 112);
    (void)take(0, &head, text);
    assert_int_equal(wire_u32_get(head.bytes), 112);
    assert_int_equal(wire_u32_get(head.lost), 188);
}

static void a_read_count_that_cannot_be_true_leaves_no_room(void **state)
{
    (void)state;
    struct c7x_printf_record head;
    char text[129];
    static const uint32_t wrong[] = {1, 8, 0x80000000u, UINT32_MAX, 0xAAAAAAA8u};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        set_read(wrong[i]);
        assert_int_equal(append(1, "lost"), 0);
        assert_int_equal(written(), 0);
    }
    set_read(0);
    assert_int_equal(append(2, "back"), 4);
    (void)take(0, &head, text);
    assert_int_equal(wire_u32_get(head.lost), 20);
}

static void without_a_ring_text_is_dropped(void **state)
{
    (void)state;
    struct c7x_printf_ring_writer none = {0};
    assert_int_equal(c7x_printf_ring_append(&none, 1, (const uint8_t *)"text", 4, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_bound_ring_is_empty, start),
        cmocka_unit_test_setup(records_follow_each_other_and_wrap, start),
        cmocka_unit_test_setup(counts_pass_the_end_of_their_word, start),
        cmocka_unit_test_setup(what_has_no_room_is_counted_in_the_next_record, start),
        cmocka_unit_test_setup(longer_text_is_cut_and_says_so, start),
        cmocka_unit_test_setup(a_read_count_that_cannot_be_true_leaves_no_room, start),
        cmocka_unit_test(without_a_ring_text_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/trace/recorder.h"

#include "base/trace.h"
#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CAPACITY 128u
#define WINDOW_BYTES C7X_WIRE_TRACE_MIN
#define TASKS 4u
#define EVENTS_EACH 50000u

static uint8_t *buffer;
static void begin(void)
{
    const struct c7x_recorder_window window = {
        .buffer = buffer, .size = WINDOW_BYTES, .core_number = 2};
    assert_int_equal(c7x_recorder_begin(&window), C7X_OK);
}

static void note(uint32_t argument)
{
    const struct c7x_trace_origin origin = {
        .session = 3, .seq = argument, .module = 7, .type = 0x1234, .target = 5};
    c7x_trace_event(C7X_EVENT_QUEUED, &origin, argument);
}

static struct c7x_trace_window header(void)
{
    struct c7x_trace_window window;
    memcpy(&window, buffer, sizeof window);
    return window;
}

/* While others write. */
static uint32_t written(void)
{
    const uint8_t *word = buffer + offsetof(struct c7x_trace_window, written);
    return __atomic_load_n((const uint32_t *)(const void *)word, __ATOMIC_ACQUIRE);
}

/* The record of event `number`, if it is there and whole. */
static bool read_event(uint32_t number, struct c7x_trace_record *out)
{
    memcpy(out, buffer + sizeof(struct c7x_trace_window) + number % CAPACITY * sizeof *out,
           sizeof *out);
    return wire_u32_get(out->mark) == 2 * (number + 1);
}

static int set_up(void **state)
{
    (void)state;
    buffer = aligned_alloc(128, 4352);
    assert_non_null(buffer);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(buffer);
    return 0;
}

static void an_event_stands_in_the_window_with_all_that_is_known_of_it(void **state)
{
    struct c7x_trace_record record;
    int64_t before = c7x_os_clock_ns();
    (void)state;
    begin();
    note(9);
    assert_true(read_event(0, &record));
    assert_int_equal(record.event, C7X_EVENT_QUEUED);
    assert_int_equal(record.target, 5);
    assert_int_equal(record.type[0], 0x34);
    assert_int_equal(record.type[1], 0x12);
    assert_int_equal(wire_u32_get(record.session), 3);
    assert_int_equal(wire_u32_get(record.seq), 9);
    assert_int_equal(wire_u32_get(record.module), 7);
    assert_int_equal(wire_u32_get(record.argument), 9);
    assert_in_range(wire_u64_get(record.time_ns), before, c7x_os_clock_ns());
    assert_int_equal(wire_u32_get(header().magic), C7X_WIRE_TRACE_MAGIC);
    assert_int_equal(wire_u32_get(header().written), 1);
    assert_int_equal(wire_u32_get(header().capacity), CAPACITY);
    assert_int_equal(wire_u32_get(header().core), 2);
    c7x_recorder_end();
}

static void the_newest_events_are_kept(void **state)
{
    struct c7x_trace_record record;
    (void)state;
    begin();
    for (uint32_t i = 0; i < CAPACITY + 5; i++)
        note(i);
    assert_int_equal(wire_u32_get(header().written), CAPACITY + 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_false(read_event(i, &record));
    for (uint32_t i = 5; i < CAPACITY + 5; i++) {
        assert_true(read_event(i, &record));
        assert_int_equal(wire_u32_get(record.argument), i);
    }
    c7x_recorder_end();
}

static void nothing_is_written_before_begin_and_after_end(void **state)
{
    (void)state;
    note(0);
    begin();
    note(1);
    c7x_recorder_end();
    note(2);
    assert_int_equal(wire_u32_get(header().written), 1);
    begin(); /* from the beginning again */
    assert_int_equal(wire_u32_get(header().written), 0);
    c7x_recorder_end();
}

static void a_second_begin_is_refused(void **state)
{
    const struct c7x_recorder_window window = {.buffer = buffer, .size = WINDOW_BYTES};
    (void)state;
    begin();
    assert_int_equal(c7x_recorder_begin(&window), C7X_BUSY);
    c7x_recorder_end();
}

/* Whatever the host does to the window, the firmware writes nowhere else, and goes on. */
static void the_host_may_overwrite_the_window(void **state)
{
    struct c7x_trace_record record;
    (void)state;
    begin();
    memset(buffer + WINDOW_BYTES, 0xA5, 128);
    memset(buffer, 0xFF, WINDOW_BYTES); /* every mark says busy: those events are lost */
    note(0);
    assert_false(read_event(0, &record));
    memset(buffer, 0, WINDOW_BYTES);
    note(1);
    assert_true(read_event(1, &record));
    for (uint32_t i = 0; i < 10 * CAPACITY; i++)
        note(i);
    for (int i = 0; i < 128; i++)
        assert_int_equal(buffer[WINDOW_BYTES + (size_t)i], 0xA5);
    c7x_recorder_end();
}

static void write_many(void *context)
{
    uint32_t first = *(const uint32_t *)context;
    for (uint32_t i = 0; i < EVENTS_EACH; i++)
        note(first + i);
}

/* The last ones are all there, each whole: what a record says agrees with itself. */
static void tasks_that_write_at_once_do_not_mix_their_events(void **state)
{
    struct c7x_os_task tasks[TASKS];
    uint32_t firsts[TASKS];
    uint32_t whole = 0;
    struct c7x_trace_record record;
    (void)state;
    begin();
    for (uint32_t i = 0; i < TASKS; i++) {
        firsts[i] = i * EVENTS_EACH;
        assert_int_equal(c7x_os_task_create(&tasks[i], "writer", 0, write_many, &firsts[i]),
                         C7X_OK);
    }
    for (uint32_t i = 0; i < TASKS; i++)
        c7x_os_task_join(&tasks[i]);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        if (!read_event(TASKS * EVENTS_EACH - CAPACITY + i, &record))
            continue; /* lost: its writer was held up for a whole turn of the ring */
        assert_int_equal(wire_u32_get(record.seq), wire_u32_get(record.argument));
        whole++;
    }
    assert_true(whole > CAPACITY / 2);
    c7x_recorder_end();
}

static atomic_bool stops;

static void write_until_stopped(void *context)
{
    (void)context;
    while (!atomic_load(&stops))
        note(1);
}

/* From the end on the window is the host's: nothing is written there any more, although tasks were
 * just about to. */
static void nobody_writes_after_the_end(void **state)
{
    struct c7x_os_task tasks[TASKS];
    uint8_t zeros[WINDOW_BYTES] = {0};
    (void)state;
    atomic_store(&stops, false);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(c7x_os_task_create(&tasks[i], "writer", 0, write_until_stopped, NULL),
                         C7X_OK);
    for (int i = 0; i < 500; i++) {
        begin();
        while (written() == 0)
            continue;
        c7x_recorder_end();
        memset(buffer, 0, WINDOW_BYTES); /* which ThreadSanitizer watches, too */
        for (int look = 0; look < 20; look++)
            assert_memory_equal(buffer, zeros, WINDOW_BYTES);
    }
    atomic_store(&stops, true);
    for (uint32_t i = 0; i < TASKS; i++)
        c7x_os_task_join(&tasks[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_stands_in_the_window_with_all_that_is_known_of_it,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_events_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_written_before_begin_and_after_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_second_begin_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_host_may_overwrite_the_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tasks_that_write_at_once_do_not_mix_their_events, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nobody_writes_after_the_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

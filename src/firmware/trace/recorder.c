/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/trace/recorder.h"

#include "base/trace.h"
#include "os/os.h"

#include <string.h>

#define RECORD_WORDS (sizeof(struct c7x_trace_record) / sizeof(uint64_t))
#define MARK_BUSY 1u

/*
 * Who records is in one word, which each event changes once when it begins and once when it is
 * written: how many tasks write just now, whether the window is in use, and the number of the next
 * event. A task writes with interrupts off, so that it is soon out again, and end waits for it.
 */
#define WRITER ((uint64_t)1)
#define WRITERS ((uint64_t)UINT16_MAX)
#define IN_USE ((uint64_t)1 << 16)
#define NUMBER_SHIFT 32

static struct {
    _Atomic uint64_t state;
    struct c7x_recorder_window window;
    uint64_t *records;
    uint32_t capacity;
    struct c7x_os_event is_left; /* by the last writer, after the end */
    bool has_event;
} recorder;

/* ---- Writing ---- */

/*
 * Claims the record for event n. False: another task is in it, or it holds a later event, since
 * this task was held up for a whole turn of the ring; the event is lost, as the host sees.
 */
static bool claim(uint64_t *record, uint32_t mark)
{
    uint64_t head = __atomic_load_n(record, __ATOMIC_RELAXED);
    uint32_t old = (uint32_t)head;
    if ((old & MARK_BUSY) != 0 || (int32_t)(old - mark) > 0)
        return false;
    return __atomic_compare_exchange_n(record, &head, head | MARK_BUSY, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the words of a record");

/* struct c7x_trace_record, by words: put together from bytes, it would cost as much as all the
 * rest. Each word with release, so that none is seen before the mark says busy. */
static void put(uint64_t *record, uint32_t mark, enum c7x_event event,
                const struct c7x_trace_origin *origin, uint32_t argument)
{
    uint64_t what = (uint64_t)(uint8_t)event | (uint64_t)origin->target << 8 |
                    (uint64_t)(uint16_t)origin->type << 16;
    __atomic_store_n(record + 1, (uint64_t)c7x_os_clock_ns(), __ATOMIC_RELEASE);
    __atomic_store_n(record + 2, origin->session | (uint64_t)origin->seq << 32, __ATOMIC_RELEASE);
    __atomic_store_n(record + 3, origin->module | (uint64_t)argument << 32, __ATOMIC_RELEASE);
    __atomic_store_n(record, mark | what << 32, __ATOMIC_RELEASE);
    c7x_os_cache_writeback(record, sizeof(struct c7x_trace_record));
}

static void publish(uint32_t written)
{
    uint8_t *header = recorder.window.buffer;
    uint32_t *word = (uint32_t *)(void *)(header + offsetof(struct c7x_trace_window, written));
    __atomic_store_n(word, written, __ATOMIC_RELEASE);
    c7x_os_cache_writeback(word, sizeof *word);
}

static void write_event(uint32_t number, enum c7x_event event,
                        const struct c7x_trace_origin *origin, uint32_t argument)
{
    uint32_t mark = 2 * (number + 1);
    uint64_t *record = recorder.records + (number & (recorder.capacity - 1)) * RECORD_WORDS;
    if (claim(record, mark))
        put(record, mark, event, origin, argument);
    publish(number + 1);
}

static void leave(void)
{
    uint64_t before = atomic_fetch_sub_explicit(&recorder.state, WRITER, memory_order_release);
    if ((before & (IN_USE | WRITERS)) == WRITER)
        c7x_os_event_set(&recorder.is_left);
}

static void record_event(enum c7x_event event, const struct c7x_trace_origin *origin,
                         uint32_t argument)
{
    c7x_os_interrupts_off();
    uint64_t state = atomic_fetch_add_explicit(
        &recorder.state, ((uint64_t)1 << NUMBER_SHIFT) + WRITER, memory_order_acquire);
    if ((state & IN_USE) != 0)
        write_event((uint32_t)(state >> NUMBER_SHIFT), event, origin, argument);
    leave();
    c7x_os_interrupts_on();
}

/* ---- On and off ---- */

static void write_header(void)
{
    const struct c7x_trace_window header = {
        .magic = wire_u32_put(C7X_WIRE_TRACE_MAGIC),
        .capacity = wire_u32_put(recorder.capacity),
        .core = wire_u32_put(recorder.window.core_number),
    };
    memset(recorder.records, 0, recorder.capacity * sizeof(struct c7x_trace_record));
    memcpy(recorder.window.buffer, &header, sizeof header);
    c7x_os_cache_writeback(recorder.window.buffer,
                           sizeof header + recorder.capacity * sizeof(struct c7x_trace_record));
}

enum c7x_status c7x_recorder_begin(const struct c7x_recorder_window *window)
{
    uint8_t *buffer = window->buffer;
    uint64_t state = atomic_load(&recorder.state);
    if ((state & IN_USE) != 0)
        return C7X_BUSY;
    if (!recorder.has_event)
        C7X_RETURN_IF_ERROR(c7x_os_event_init(&recorder.is_left)); /* for good */
    recorder.has_event = true;
    uint64_t room =
        (window->size - sizeof(struct c7x_trace_window)) / sizeof(struct c7x_trace_record);
    recorder.window = *window;
    recorder.records = (uint64_t *)(void *)(buffer + sizeof(struct c7x_trace_window));
    for (recorder.capacity = 1u << 26; recorder.capacity > room;)
        recorder.capacity >>= 1;
    write_header();
    while (!atomic_compare_exchange_weak(&recorder.state, &state, (state & WRITERS) | IN_USE))
        continue; /* a task has seen the sink that was, and finds nothing in use */
    c7x_trace_set_sink(record_event);
    return C7X_OK;
}

void c7x_recorder_end(void)
{
    c7x_trace_set_sink(NULL);
    atomic_fetch_and(&recorder.state, ~IN_USE);
    while ((atomic_load(&recorder.state) & WRITERS) != 0)
        (void)c7x_os_event_wait(&recorder.is_left, C7X_OS_FOREVER);
}

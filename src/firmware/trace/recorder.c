/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/trace/recorder.h"

#include "base/trace.h"
#include "os/os.h"

#include <string.h>

#define RECORD_WORDS (sizeof(struct c7x_trace_record) / sizeof(uint64_t))
#define MARK_BUSY 1u

/*
 * One window. It is in use as long as `users` is not 0: one for the recording itself, and one for
 * each task that is just writing. So it ends without waiting, and a task that is held up in the
 * middle finds its window still there.
 */
struct recorder {
    struct c7x_recorder_window window;
    uint64_t *records;
    uint32_t capacity;
    _Atomic uint32_t next; /* number of the next event */
    _Atomic uint32_t users;
};

static struct recorder recorders[2];       /* one may still be in use when the next begins */
static _Atomic(struct recorder *) current; /* NULL: off */

/* ---- In use ---- */

static bool enter(struct recorder *self)
{
    uint32_t users = atomic_load_explicit(&self->users, memory_order_relaxed);
    while (users != 0)
        if (atomic_compare_exchange_weak_explicit(&self->users, &users, users + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

static void leave(struct recorder *self)
{
    const struct c7x_recorder_window window = self->window; /* the next begin may change it */
    if (atomic_fetch_sub_explicit(&self->users, 1, memory_order_acq_rel) == 1)
        window.release(window.context, window.address);
}

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

/* Each word with release, so that none is seen before the mark says busy. */
static void put(uint64_t *record, const struct c7x_trace_record *value)
{
    uint64_t words[RECORD_WORDS];
    memcpy(words, value, sizeof words);
    for (size_t i = 1; i < RECORD_WORDS; i++)
        __atomic_store_n(record + i, words[i], __ATOMIC_RELEASE);
    __atomic_store_n(record, words[0], __ATOMIC_RELEASE);
    c7x_os_cache_writeback(record, sizeof *value);
}

static void publish(const struct recorder *self, uint32_t written)
{
    uint8_t *header = self->window.buffer;
    uint32_t *word = (uint32_t *)(void *)(header + offsetof(struct c7x_trace_window, written));
    __atomic_store_n(word, written, __ATOMIC_RELEASE);
    c7x_os_cache_writeback(word, sizeof *word);
}

static void write_event(struct recorder *self, enum c7x_event event,
                        const struct c7x_trace_origin *origin, uint32_t argument)
{
    uint32_t number = atomic_fetch_add_explicit(&self->next, 1, memory_order_relaxed);
    uint32_t mark = 2 * (number + 1);
    uint64_t *record = self->records + (number & (self->capacity - 1)) * RECORD_WORDS;
    const struct c7x_trace_record value = {
        .mark = wire_u32_put(mark),
        .event = (uint8_t)event,
        .target = origin->target,
        .type = {(uint8_t)origin->type, (uint8_t)(origin->type >> 8)},
        .time_ns = wire_u64_put((uint64_t)c7x_os_clock_ns()),
        .session = wire_u32_put(origin->session),
        .seq = wire_u32_put(origin->seq),
        .module = wire_u32_put(origin->module),
        .argument = wire_u32_put(argument),
    };
    if (claim(record, mark))
        put(record, &value);
    publish(self, number + 1);
}

static void record_event(enum c7x_event event, const struct c7x_trace_origin *origin,
                         uint32_t argument)
{
    struct recorder *self = atomic_load_explicit(&current, memory_order_acquire);
    if (self == NULL || !enter(self))
        return;
    write_event(self, event, origin, argument);
    leave(self);
}

/* ---- On and off ---- */

static void write_header(const struct recorder *self)
{
    const struct c7x_trace_window header = {
        .magic = wire_u32_put(C7X_WIRE_TRACE_MAGIC),
        .capacity = wire_u32_put(self->capacity),
        .core = wire_u32_put(self->window.core_number),
    };
    memset(self->records, 0, self->capacity * sizeof(struct c7x_trace_record));
    memcpy(self->window.buffer, &header, sizeof header);
    c7x_os_cache_writeback(self->window.buffer,
                           sizeof header + self->capacity * sizeof(struct c7x_trace_record));
}

enum c7x_status c7x_recorder_begin(const struct c7x_recorder_window *window)
{
    struct recorder *self = &recorders[0];
    uint8_t *buffer = window->buffer;
    if (atomic_load(&current) != NULL)
        return C7X_BUSY;
    if (atomic_load(&self->users) != 0)
        self = &recorders[1];
    if (atomic_load(&self->users) != 0)
        return C7X_BUSY;
    uint64_t room =
        (window->size - sizeof(struct c7x_trace_window)) / sizeof(struct c7x_trace_record);
    self->window = *window;
    self->records = (uint64_t *)(void *)(buffer + sizeof(struct c7x_trace_window));
    for (self->capacity = 1u << 26; self->capacity > room;)
        self->capacity >>= 1;
    atomic_store(&self->next, 0);
    write_header(self);
    atomic_store(&self->users, 1);
    atomic_store(&current, self);
    c7x_trace_set_sink(record_event);
    return C7X_OK;
}

void c7x_recorder_end(void)
{
    struct recorder *self = atomic_exchange(&current, NULL);
    c7x_trace_set_sink(NULL);
    leave(self);
}

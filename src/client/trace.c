/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of events: the window that the device writes into, of which each record is copied once
 * and only the copy looked at. The device overwrites the oldest; what was not read in time is lost
 * and counted.
 */
#include "client_impl.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_WORDS (sizeof(struct c7x_trace_record) / sizeof(uint64_t))
#define EVENTS_MIN 128u
#define EVENTS_MAX (1u << 20)

#define SAME(NAME, number, name, argument)                                                         \
    _Static_assert((unsigned)C7X_EVENT_##NAME == C7X_TRACE_##NAME, "API and wire agree");
WIRE_EVENTS(SAME)
#undef SAME

struct c7x_trace {
    struct c7x_client *client;
    struct c7x_buffer window;
    uint32_t capacity; /* records */
    uint32_t core;
    uint32_t position; /* the next event; both modulo 2^32 */
    uint32_t end;      /* events that the device has begun to write, as far as was looked */
    uint64_t lost;
    bool has_ended; /* what is not there now will not come */
};

/* ---- Begin and end ---- */

static enum c7x_status refuse_count(uint32_t event_count)
{
    return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                         "room for %u events; allowed are %u to %u", event_count, EVENTS_MIN,
                         EVENTS_MAX);
}

/* The device has filled in the header. */
static enum c7x_status read_header(struct c7x_trace *trace)
{
    struct c7x_host_link *link = trace->client->link;
    struct c7x_trace_window header;
    link->ops->sync_from_device(link, &trace->window, 0, sizeof header);
    memcpy(&header, trace->window.pointer, sizeof header);
    trace->capacity = wire_u32_get(header.capacity);
    trace->core = wire_u32_get(header.core);
    uint64_t size = sizeof header + (uint64_t)trace->capacity * sizeof(struct c7x_trace_record);
    if (wire_u32_get(header.magic) == C7X_WIRE_TRACE_MAGIC &&
        c7x_is_power_of_two(trace->capacity) && size <= trace->window.size)
        return C7X_OK;
    return c7x_error_set(c7x_client_thread_error(), C7X_PROTOCOL, C7X_CLIENT_STATION,
                         "the device has not set up the trace window");
}

static enum c7x_status begin(struct c7x_trace *trace, uint32_t event_count)
{
    struct c7x_client *client = trace->client;
    struct c7x_request request = {.type = C7X_MSG_TRACE_BEGIN};
    struct c7x_response response;
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    size_t size = sizeof(struct c7x_trace_window) + event_count * sizeof(struct c7x_trace_record);
    C7X_RETURN_IF_ERROR(c7x_client_attach(client, size, deadline_ns, &trace->window));
    client->link->ops->sync_to_device(client->link, &trace->window, 0, trace->window.size);
    request.body.trace_begin.address = trace->window.dsp_address;
    request.body.trace_begin.size = (uint32_t)trace->window.size;
    C7X_RETURN_IF_ERROR(c7x_client_exchange(client, &request, deadline_ns, &response));
    return read_header(trace);
}

enum c7x_status c7x_trace_begin(struct c7x_client *client, uint32_t event_count,
                                struct c7x_trace **out_trace)
{
    c7x_client_enter();
    if (!client->has_session)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 records no events");
    if (event_count < EVENTS_MIN || event_count > EVENTS_MAX)
        return refuse_count(event_count);
    struct c7x_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a trace");
    trace->client = client;
    enum c7x_status status = begin(trace, event_count);
    if (status != C7X_OK) {
        if (trace->window.pointer != NULL)
            c7x_client_detach(client, &trace->window);
        free(trace);
        return status;
    }
    *out_trace = trace;
    return C7X_OK;
}

enum c7x_status c7x_trace_end(struct c7x_trace *trace)
{
    struct c7x_request request = {.type = C7X_MSG_TRACE_END};
    struct c7x_response response;
    c7x_client_enter();
    if (trace->has_ended)
        return C7X_OK;
    trace->has_ended = true;
    return c7x_client_exchange(trace->client, &request, c7x_client_deadline_ns(trace->client),
                               &response);
}

void c7x_trace_free(struct c7x_trace *trace)
{
    if (trace == NULL)
        return;
    if (c7x_trace_end(trace) != C7X_OK)
        c7x_client_enter(); /* the device is gone: there is nothing left to end */
    c7x_client_detach(trace->client, &trace->window);
    free(trace);
}

/* ---- Reading ---- */

static size_t offset_of(const struct c7x_trace *trace, uint32_t number)
{
    return sizeof(struct c7x_trace_window) +
           (number & (trace->capacity - 1)) * sizeof(struct c7x_trace_record);
}

/* The records of [position, end), which may wrap. */
static void sync_records(const struct c7x_trace *trace)
{
    struct c7x_host_link *link = trace->client->link;
    uint32_t count = trace->end - trace->position;
    uint32_t to_wrap = trace->capacity - (trace->position & (trace->capacity - 1));
    uint32_t front = count < to_wrap ? count : to_wrap;
    if (front != 0)
        link->ops->sync_from_device(link, &trace->window, offset_of(trace, trace->position),
                                    front * sizeof(struct c7x_trace_record));
    if (count != front)
        link->ops->sync_from_device(link, &trace->window, offset_of(trace, 0),
                                    (count - front) * sizeof(struct c7x_trace_record));
}

/* Looks how far the device has come. Tasks of it that write at once may set the word back. */
static void look(struct c7x_trace *trace)
{
    struct c7x_host_link *link = trace->client->link;
    size_t at = offsetof(struct c7x_trace_window, written);
    const uint8_t *header = trace->window.pointer;
    link->ops->sync_from_device(link, &trace->window, at, sizeof(uint32_t));
    uint32_t written =
        __atomic_load_n((const uint32_t *)(const void *)(header + at), __ATOMIC_ACQUIRE);
    if ((int32_t)(written - trace->end) > 0)
        trace->end = written;
    if (trace->end - trace->position > trace->capacity) {
        trace->lost += trace->end - trace->position - trace->capacity;
        trace->position = trace->end - trace->capacity;
    }
    sync_records(trace);
}

enum copied { WHOLE, NOT_YET, OVERWRITTEN };

/* Each word with acquire, so that the mark is read again after all others. */
static enum copied copy_record(const struct c7x_trace *trace, struct c7x_trace_record *out)
{
    const uint8_t *window = trace->window.pointer;
    const uint64_t *record =
        (const uint64_t *)(const void *)(window + offset_of(trace, trace->position));
    uint64_t words[RECORD_WORDS];
    for (size_t i = 0; i < RECORD_WORDS; i++)
        words[i] = __atomic_load_n(record + i, __ATOMIC_ACQUIRE);
    uint64_t again = __atomic_load_n(record, __ATOMIC_RELAXED);
    memcpy(out, words, sizeof *out);
    int32_t turn = (int32_t)(wire_u32_get(out->mark) - 2 * (trace->position + 1));
    if (turn == 0 && again == words[0])
        return WHOLE;
    return turn < 0 ? NOT_YET : OVERWRITTEN;
}

static const char *event_name(uint32_t event)
{
    switch (event) {
#define NAME(NAME, number, name, argument)                                                         \
    case number:                                                                                   \
        return name;
        WIRE_EVENTS(NAME)
#undef NAME
    default:
        return "unknown";
    }
}

static void describe(const struct c7x_trace_record *record, struct c7x_trace_event *out_event)
{
    uint32_t type = (uint32_t)record->type[0] | (uint32_t)record->type[1] << 8;
    struct c7x_trace_event event = {
        .struct_size = out_event->struct_size,
        .time_ns = (int64_t)wire_u64_get(record->time_ns),
        .event = record->event,
        .argument = wire_u32_get(record->argument),
        .session = wire_u32_get(record->session),
        .seq = wire_u32_get(record->seq),
        .module = wire_u32_get(record->module),
        .target = record->target - 1,
        .name = event_name(record->event),
        .request = type != 0 ? c7x_wire_type_name(type) : "",
        .station = "",
    };
    if (event.event == C7X_TRACE_STATION && event.argument < C7X_STATION_COUNT)
        event.station = c7x_station_name((enum c7x_station)event.argument);
    memcpy(out_event, &event, event.struct_size < sizeof event ? event.struct_size : sizeof event);
}

int c7x_trace_next(struct c7x_trace *trace, struct c7x_trace_event *out_event)
{
    struct c7x_trace_record record;
    for (;;) {
        if (trace->position == trace->end)
            look(trace);
        if (trace->position == trace->end)
            return 0;
        enum copied copied = copy_record(trace, &record);
        if (copied == NOT_YET && !trace->has_ended) {
            look(trace);
            copied = copy_record(trace, &record);
            if (copied == NOT_YET)
                return 0;
        }
        trace->position++;
        if (copied == WHOLE)
            break;
        trace->lost++;
    }
    describe(&record, out_event);
    return 1;
}

uint64_t c7x_trace_lost(const struct c7x_trace *trace)
{
    return trace->lost;
}

uint32_t c7x_trace_core(const struct c7x_trace *trace)
{
    return trace->core;
}

/* ---- Operators ---- */

/* Appends the names of one response. */
static enum c7x_status append_operators(const struct c7x_response *response,
                                        struct c7x_operator_info **list, size_t *count)
{
    size_t added = response->body.operators.count;
    const char *name = response->body.operators.names;
    struct c7x_operator_info *longer = realloc(*list, (*count + added + 1) * sizeof *longer);
    if (longer == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a list");
    *list = longer;
    for (size_t i = 0; i < added; i++) {
        struct c7x_operator_info *info = &longer[(*count)++];
        memset(info, 0, sizeof *info);
        info->struct_size = sizeof *info;
        size_t length = strlen(name);
        memcpy(info->name, name, length < sizeof info->name ? length : sizeof info->name - 1);
        name += length + 1;
    }
    return C7X_OK;
}

static enum c7x_status read_operators(struct c7x_client *client, uint32_t handle,
                                      struct c7x_operator_info **list, size_t *count)
{
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    for (;;) {
        struct c7x_request request = {.type = C7X_MSG_OPERATORS};
        struct c7x_response response;
        request.body.operators.module_handle = handle;
        request.body.operators.first = (uint32_t)*count;
        C7X_RETURN_IF_ERROR(c7x_client_exchange(client, &request, deadline_ns, &response));
        C7X_RETURN_IF_ERROR(append_operators(&response, list, count));
        if (response.body.operators.count == 0 || *count >= response.body.operators.total)
            return C7X_OK;
    }
}

enum c7x_status c7x_client_list_operators(struct c7x_client *client, uint32_t handle,
                                          struct c7x_operator_info **out_list, size_t *out_count)
{
    struct c7x_operator_info *list = NULL;
    size_t count = 0;
    c7x_client_enter();
    if (!client->has_session)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 tells nobody what it holds");
    enum c7x_status status = read_operators(client, handle, &list, &count);
    if (status != C7X_OK) {
        free(list);
        return status;
    }
    *out_list = list;
    *out_count = count;
    return C7X_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAUSE_NS = 1000 * 1000, PAUSES_MAX = 1000 };

static bool append(struct cli_times *times, int64_t value)
{
    if (times->count == times->room) {
        size_t room = times->room * 2 + 8;
        int64_t *longer = realloc(times->values, room * sizeof *longer);
        if (longer == NULL)
            return false;
        times->values = longer;
        times->room = room;
    }
    times->values[times->count++] = value;
    return true;
}

static bool reserve_operator(struct cli_call_times *times, uint32_t number)
{
    if (number < times->operator_count)
        return true;
    struct cli_times *longer = realloc(times->per_operator, ((size_t)number + 1) * sizeof *longer);
    if (longer == NULL)
        return false;
    size_t added = (size_t)number + 1 - times->operator_count;
    memset(longer + times->operator_count, 0, added * sizeof *longer);
    times->per_operator = longer;
    times->operator_count = (size_t)number + 1;
    return true;
}

/* The call that is being looked at. */
struct call {
    bool has_begun;
    bool has_ended;
    int64_t begin_ns;
    int64_t section_ns; /* when the section under way began */
    int64_t preempted_at_ns;
    int64_t entry;
    int64_t pre_empted;
    struct cli_times sections; /* lengths, by number */
};

/* A call that is sent again, since its outputs found no room, counts from its last begin. */
static void begin_call(struct call *call, int64_t now)
{
    call->has_begun = true;
    call->has_ended = false;
    call->begin_ns = now;
    call->pre_empted = 0;
    call->sections.count = 0;
}

static bool take_event(struct call *call, const struct c7x_trace_event *event)
{
    switch (event->event) {
    case C7X_TRACE_CALL_BEGIN:
        begin_call(call, event->time_ns);
        break;
    case C7X_TRACE_CALL_END:
        call->entry = event->time_ns - call->begin_ns;
        call->has_ended = call->has_begun;
        break;
    case C7X_TRACE_PREEMPTED:
        call->preempted_at_ns = event->time_ns;
        break;
    case C7X_TRACE_RESUMED:
        if (!call->has_ended)
            call->pre_empted += event->time_ns - call->preempted_at_ns;
        break;
    case C7X_TRACE_SECTION_BEGIN:
        call->section_ns = event->time_ns;
        break;
    case C7X_TRACE_SECTION_END:
        return append(&call->sections, event->time_ns - call->section_ns);
    default:
        break;
    }
    return true;
}

static bool add_call(struct cli_call_times *times, const struct call *call, int64_t end_to_end_ns)
{
    int64_t operators = 0;
    bool fits = true;
    for (uint32_t i = 0; i < call->sections.count && fits; i++) {
        operators += call->sections.values[i];
        fits =
            reserve_operator(times, i) && append(&times->per_operator[i], call->sections.values[i]);
    }
    return fits && append(&times->end_to_end, end_to_end_ns) &&
           append(&times->entry, call->entry) && append(&times->operators, operators) &&
           append(&times->pre_empted, call->pre_empted) &&
           append(&times->unattributed, call->entry - operators - call->pre_empted);
}

/* The end of the call was recorded before its answer was sent, but what another task of the device
 * is just writing may stand before it for an instant. */
static bool take_events(struct call *call, struct c7x_trace *trace, uint32_t handle)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct c7x_trace_event event = {.struct_size = sizeof event};
    bool fits = true;
    for (int i = 0; i < PAUSES_MAX && fits; i++) {
        while (fits && c7x_trace_next(trace, &event))
            fits = event.module != handle || event.target < 0 || take_event(call, &event);
        if (call->has_ended)
            break;
        nanosleep(&pause, NULL);
    }
    return fits;
}

void cli_times_take_call(struct cli_call_times *times, struct c7x_trace *trace, uint32_t handle,
                         int64_t end_to_end_ns, bool is_warm_up)
{
    struct call call = {.has_begun = false};
    if (trace == NULL) {
        if (!is_warm_up && !append(&times->end_to_end, end_to_end_ns))
            times->lacks_memory = true;
        return;
    }
    uint64_t lost = c7x_trace_lost(trace);
    bool fits = take_events(&call, trace, handle);
    if (!is_warm_up && (c7x_trace_lost(trace) != lost || !call.has_ended))
        times->incomplete++;
    else if (!is_warm_up)
        fits = fits && add_call(times, &call, end_to_end_ns);
    times->lacks_memory = times->lacks_memory || !fits;
    free(call.sections.values);
}

struct cli_time_sums cli_times_sum(const struct cli_times *times)
{
    struct cli_time_sums sums = {.calls = times->count};
    if (times->count == 0)
        return sums;
    cli_sort_times(times->values, times->count);
    for (size_t i = 0; i < times->count; i++)
        sums.total += times->values[i];
    size_t middle = times->count / 2;
    sums.min = times->values[0];
    sums.median =
        times->count % 2 != 0
            ? times->values[middle]
            : times->values[middle - 1] + (times->values[middle] - times->values[middle - 1]) / 2;
    return sums;
}

void cli_times_free(struct cli_call_times *times)
{
    for (size_t i = 0; i < times->operator_count; i++)
        free(times->per_operator[i].values);
    free(times->per_operator);
    free(times->end_to_end.values);
    free(times->entry.values);
    free(times->operators.values);
    free(times->unattributed.values);
    free(times->pre_empted.values);
}

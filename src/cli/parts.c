/* SPDX-License-Identifier: Apache-2.0 */
#include "benchmark.h"

#include <string.h>

/* Of the request of the event; NULL: it is not one of the calls. */
static struct cli_timed_call *find_call(const struct cli_parts *parts,
                                        struct cli_timed_calls *calls,
                                        const struct c7x_trace_event *event)
{
    uint32_t slot = event->seq % CLI_CALLS_FOLLOWED;
    size_t number = parts->followed[slot].call;
    if (calls == NULL || event->session != parts->session ||
        parts->followed[slot].seq != event->seq || number >= parts->arrived_count)
        return NULL;
    return &calls->list[number];
}

static void take_arrival(struct cli_parts *parts, struct cli_timed_calls *calls,
                         const struct c7x_trace_event *event)
{
    uint32_t slot = event->seq % CLI_CALLS_FOLLOWED;
    if (calls == NULL || event->session != parts->session || strcmp(event->request, "INFER") != 0 ||
        parts->arrived_count >= calls->room)
        return;
    parts->followed[slot].seq = event->seq;
    parts->followed[slot].call = parts->arrived_count;
    calls->list[parts->arrived_count++].arrival_ns = event->time_ns;
}

static void take_station(struct cli_parts *parts, struct cli_timed_calls *calls,
                         const struct c7x_trace_event *event)
{
    struct cli_timed_call *call = find_call(parts, calls, event);
    if (strcmp(event->station, "service") == 0)
        take_arrival(parts, calls, event);
    else if (strcmp(event->station, "reply") == 0 && call != NULL)
        call->reply_ns = event->time_ns;
}

static void take_job(struct cli_parts *parts, struct cli_timed_calls *calls,
                     const struct c7x_trace_event *event)
{
    struct cli_timed_call *call = find_call(parts, calls, event);
    if (event->module == parts->handle && event->session != 0)
        parts->session = event->session;
    if (call == NULL || call->reply_ns != 0)
        return;
    int64_t *taken_from_ns = &parts->followed[event->seq % CLI_CALLS_FOLLOWED].taken_from_ns;
    if (event->event == C7X_TRACE_JOB_BEGIN)
        call->job_ns = event->time_ns;
    else if (event->event == C7X_TRACE_PREEMPTED)
        *taken_from_ns = event->time_ns;
    else if (event->event == C7X_TRACE_RESUMED)
        call->pre_empted += event->time_ns - *taken_from_ns;
}

void cli_parts_take(struct cli_parts *parts, struct cli_timed_calls *calls)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    while (parts->trace != NULL && c7x_trace_next(parts->trace, &event)) {
        parts->has_lost = parts->has_lost || c7x_trace_lost(parts->trace) != 0;
        if (parts->has_lost)
            continue;
        if (event.event == C7X_TRACE_STATION)
            take_station(parts, calls, &event);
        else
            take_job(parts, calls, &event);
    }
}

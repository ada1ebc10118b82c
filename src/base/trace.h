/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace points: each station of a request (stations.def) reports that the request has arrived
 * there, and whoever runs requests what becomes of them (WIRE_EVENTS in c7x_compute_protocol.h).
 * What is done with it is the business of the sink.
 */
#ifndef C7X_BASE_TRACE_H
#define C7X_BASE_TRACE_H

#include "c7x_compute_protocol.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum c7x_station {
#define C7X_STATION(id, name) C7X_STATION_##id,
#include "base/stations.def"
#undef C7X_STATION
    C7X_STATION_COUNT
};

/* What an event belongs to; 0: nothing, or it is not known there. */
struct c7x_trace_origin {
    uint32_t session; /* its number */
    uint32_t seq;     /* of the request */
    uint32_t module;  /* handle */
    uint16_t type;    /* of the request: enum c7x_msg_type */
    uint8_t target;   /* 1 + enum c7x_target_number */
};

typedef void (*c7x_trace_sink_fn)(enum c7x_event event, const struct c7x_trace_origin *origin,
                                  uint32_t argument);

/* Written by c7x_trace_set_sink() alone; here so that a trace point that is off costs one load. */
extern _Atomic(c7x_trace_sink_fn) c7x_trace_sink;

/* Installs the sink; NULL turns tracing off. The sink is called from whatever task passes a trace
 * point, also for an instant after it was taken away. */
void c7x_trace_set_sink(c7x_trace_sink_fn sink);

const char *c7x_station_name(enum c7x_station station);

static inline void c7x_trace_event(enum c7x_event event, const struct c7x_trace_origin *origin,
                                   uint32_t argument)
{
    c7x_trace_sink_fn sink = atomic_load_explicit(&c7x_trace_sink, memory_order_relaxed);
    if (sink != NULL)
        sink(event, origin, argument);
}

static inline void c7x_trace(enum c7x_station station, const struct c7x_trace_origin *origin)
{
    c7x_trace_event(C7X_EVENT_STATION, origin, station);
}

#endif

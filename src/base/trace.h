/* SPDX-License-Identifier: Apache-2.0 */
/* Trace points: each station of a request (stations.def) reports that the request has arrived
 * there. */
#ifndef C7X_BASE_TRACE_H
#define C7X_BASE_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum c7x_station {
#define C7X_STATION(id, name) C7X_STATION_##id,
#include "base/stations.def"
#undef C7X_STATION
    C7X_STATION_COUNT
};

typedef void (*c7x_trace_sink_fn)(enum c7x_station station);

/* Written by c7x_trace_set_sink() alone; here so that a trace point that is off costs one load. */
extern _Atomic(c7x_trace_sink_fn) c7x_trace_sink;

/* Installs the sink; NULL turns tracing off. The sink is called from whatever task passes a trace
 * point. */
void c7x_trace_set_sink(c7x_trace_sink_fn sink);

const char *c7x_station_name(enum c7x_station station);

static inline void c7x_trace(enum c7x_station station)
{
    c7x_trace_sink_fn sink = atomic_load_explicit(&c7x_trace_sink, memory_order_acquire);
    if (sink != NULL)
        sink(station);
}

#endif

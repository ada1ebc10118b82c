/* SPDX-License-Identifier: Apache-2.0 */
#include "base/trace.h"

_Atomic(c7x_trace_sink_fn) c7x_trace_sink;

void c7x_trace_set_sink(c7x_trace_sink_fn sink)
{
    atomic_store(&c7x_trace_sink, sink);
}

const char *c7x_station_name(enum c7x_station station)
{
    static const char *const names[] = {
#define C7X_STATION(id, name) [C7X_STATION_##id] = name,
#include "base/stations.def"
#undef C7X_STATION
    };
    return names[station];
}

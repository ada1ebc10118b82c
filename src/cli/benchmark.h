/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of `benchmark`: benchmark.c sends and waits, parts.c takes from the events
 * of the device what the time of each call went to. */
#ifndef C7X_CLI_BENCHMARK_H
#define C7X_CLI_BENCHMARK_H

#include "cli.h"

/* One call, in ns of CLOCK_MONOTONIC; 0: has not happened, or is not known. */
struct cli_timed_call {
    int64_t intended_ns; /* when it should have been sent */
    int64_t begin_ns;    /* when it was */
    int64_t arrival_ns;  /* the device has the request */
    int64_t job_ns;      /* its target begins with it */
    int64_t reply_ns;    /* the device has the answer */
    int64_t pre_empted;  /* between the last two: others had the core for so long */
    int64_t done_ns;     /* the caller has the outputs */
    int status;          /* enum c7x_status */
};

struct cli_timed_calls {
    struct cli_timed_call *list;
    size_t count; /* sent */
    size_t room;
};

/* ---- parts.c ---- */

enum { CLI_CALLS_FOLLOWED = 4096 }; /* at most so many between their arrival and their reply */

struct cli_parts {
    struct c7x_trace *trace;
    uint32_t handle;
    uint32_t session; /* 0: not known yet */
    bool has_lost;    /* from then on no call can be told from another */
    size_t arrived_count;
    struct {
        uint32_t seq;
        size_t call;
        int64_t taken_from_ns; /* when another target took the core */
    } followed[CLI_CALLS_FOLLOWED];
};

/*
 * Takes what was recorded up to now. Calls are sent by one thread of one session, so they arrive in
 * the order of the list. Before the first one, `calls` is NULL: only the session is found out, from
 * a call of the module that has ended.
 */
void cli_parts_take(struct cli_parts *parts, struct cli_timed_calls *calls);

#endif

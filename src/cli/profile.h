/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of `profile`: times.c adds up what was recorded, profile.c runs and prints.
 */
#ifndef C7X_CLI_PROFILE_H
#define C7X_CLI_PROFILE_H

#include "cli.h"

/* One time of each call, in ns. */
struct cli_times {
    int64_t *values;
    size_t count;
    size_t room;
};

/* Over all calls, in ns; zero when there were none. */
struct cli_time_sums {
    uint64_t calls;
    int64_t min;
    int64_t median;
    int64_t total;
};

/*
 * What calls are made of. In each of them
 *   end to end = entry + what client, transport and firmware need around it
 *   entry = operators + unattributed + pre-empted
 */
struct cli_call_times {
    struct cli_times end_to_end; /* of the client's call */
    struct cli_times entry;      /* from call to return of the module's entry */
    struct cli_times operators;  /* sum over them */
    struct cli_times unattributed;
    struct cli_times pre_empted;    /* others had the core */
    struct cli_times *per_operator; /* by its number */
    size_t operator_count;
    uint64_t incomplete; /* calls of which events were lost */
    bool lacks_memory;
};

/*
 * Takes the recorded events of one call of the module, which has returned, and adds its times;
 * `is_warm_up`: only takes them. `trace` NULL: the device records nothing, and only the time from
 * end to end is known.
 */
void cli_times_take_call(struct cli_call_times *times, struct c7x_trace *trace, uint32_t handle,
                         int64_t end_to_end_ns, bool is_warm_up);
struct cli_time_sums cli_times_sum(const struct cli_times *times);
void cli_times_free(struct cli_call_times *times);

#endif

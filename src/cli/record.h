/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of `trace --output`: record.c takes events and names, chrome.c writes them.
 */
#ifndef C7X_CLI_RECORD_H
#define C7X_CLI_RECORD_H

#include "cli.h"

enum { CLI_TARGETS_MAX = 16 };

/* ---- record.c: names of modules and operators, asked for when they are first met ---- */

struct cli_names;

/* Of the model, or "module 7"; valid until the next call. */
const char *cli_model_name(struct cli_names *names, uint32_t handle);

/* What lies in what, outermost first. */
enum cli_slice_kind {
    CLI_SLICE_JOB,
    CLI_SLICE_CALL,
    CLI_SLICE_OPERATOR,
    CLI_SLICE_PREEMPTED,
    CLI_SLICE_COUNT
};
void cli_slice_name(struct cli_names *names, enum cli_slice_kind kind,
                    const struct c7x_trace_event *event, char *text, size_t size);

/* ---- chrome.c ---- */

struct cli_slice {
    bool is_open;
    int64_t begin_ns;
    struct c7x_trace_event event; /* with which it began */
};

/* A file that is being written. The caller fills in the first part and zeroes the rest. */
struct cli_chrome {
    FILE *file;
    const char *device;
    const struct c7x_target_info *targets;
    size_t target_count;
    uint32_t core;
    struct cli_names *names;

    bool has_first;
    bool has_events;
    bool is_closing; /* slices that have not been seen to end */
    int64_t first_ns;
    int64_t last_ns;
    int64_t known_from_ns; /* nothing was lost since */
    struct cli_slice open[CLI_TARGETS_MAX][CLI_SLICE_COUNT];
};

void cli_chrome_write(struct cli_chrome *chrome, const struct c7x_trace_event *event);
/* `count` events are missing before `next`. */
void cli_chrome_lose(struct cli_chrome *chrome, uint64_t count, const struct c7x_trace_event *next);
void cli_chrome_end(struct cli_chrome *chrome, uint64_t event_count, uint64_t lost_count);

#endif

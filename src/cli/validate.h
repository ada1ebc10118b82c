/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of validate and what they share with its report. */
#ifndef C7X_CLI_VALIDATE_H
#define C7X_CLI_VALIDATE_H

#include "cli.h"

enum { CHECK_COUNT = 6, CHECK_DETAIL_MAX = 1024, PING_COUNT = 1000 };
enum check_result { CHECK_PASS, CHECK_FAIL, CHECK_SKIP };

struct check {
    const char *name;
    enum check_result result;
    char detail[CHECK_DETAIL_MAX];
    double value;
    const char *unit; /* NULL: no value */
};

struct validation {
    struct cli *cli;
    struct check checks[CHECK_COUNT];
    struct c7x_module_declaration *declaration;
    struct cli_inputs inputs;
    struct cli_request request; /* handle 0: nothing is loaded */
    struct cli_outputs outputs;
    int64_t pings[PING_COUNT]; /* ns, sorted, once cli_check_latency() has passed */
};

/* Each sets result, detail, value and unit of `check`; they run in this order. */
void cli_check_ping(struct validation *self, struct check *check);
void cli_check_memory(struct validation *self, struct check *check);
void cli_check_load(struct validation *self, struct check *check);
void cli_check_infer(struct validation *self, struct check *check);
void cli_check_bandwidth(struct validation *self, struct check *check);
void cli_check_latency(struct validation *self, struct check *check);

/* Of the pings of cli_check_latency(). */
double cli_latency_us(const struct validation *self, size_t percent);

#endif

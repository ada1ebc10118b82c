/* SPDX-License-Identifier: Apache-2.0 */
/*
 * benchmark: how long a call of a module takes, in two ways. In the closed loop each request is
 * sent when the one before has ended: the best that one caller sees. In the open loop (--rate)
 * requests are sent on time, as if by many callers that do not wait for each other, and a late
 * start counts as latency, so that a stall is seen by all requests that it holds up. What the time
 * went to comes from the events that the device records meanwhile.
 */
#define _POSIX_C_SOURCE 200809L
#include "benchmark.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    SCHEMA_VERSION = 1,
    WARM_UP_CALLS = 3,
    SECONDS_DEFAULT = 3,
    EVENTS = 1 << 18,
    CALLS_MAX = 1000000
};

struct benchmark {
    struct cli *cli;
    struct cli_job job;
    struct cli_timed_calls calls;
    struct cli_parts parts;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t progress_ns; /* when it was last shown */

    /* Of the open loop, where the library's thread notes the ends. */
    pthread_mutex_t lock;
    pthread_cond_t all_have_ended;
    size_t ended_count;
    size_t unsent_count; /* their time had come, but the time was over */
    int first_status;    /* of a call that failed; and what was said of it */
    char first_failure[CLI_MESSAGE_MAX];
};

static int64_t seconds_ns(const struct benchmark *self)
{
    const struct cli_options *options = &self->cli->options;
    return options->has_seconds ? options->seconds_ms * CLI_NS_PER_MS
                                : SECONDS_DEFAULT * CLI_NS_PER_S;
}

/* How many calls there are to be at most. */
static size_t call_limit(const struct benchmark *self)
{
    const struct cli_options *options = &self->cli->options;
    if (options->repeat != 0)
        return options->repeat;
    double count = options->rate * (double)seconds_ns(self) / (double)CLI_NS_PER_S;
    if (options->rate == 0 || count > CALLS_MAX)
        return CALLS_MAX;
    return count < 1 ? 1 : (size_t)count;
}

static bool has_time(const struct benchmark *self)
{
    return self->cli->options.repeat != 0 || self->calls.count == 0 ||
           cli_now_ns() - self->begin_ns < seconds_ns(self);
}

static void show_progress(struct benchmark *self)
{
    int64_t now = cli_now_ns();
    if (now - self->progress_ns < CLI_NS_PER_S || !isatty(STDERR_FILENO))
        return;
    self->progress_ns = now;
    fprintf(stderr, "\r%zu calls in %lld s; Ctrl-C ends it ", self->calls.count,
            (long long)((now - self->begin_ns) / CLI_NS_PER_S));
}

/* Call with the lock, where there are other threads. */
static void note_failure(struct benchmark *self, int status)
{
    if (status == C7X_OK || self->first_status != C7X_OK)
        return;
    self->first_status = status;
    cli_describe_status(self->cli, "infer", status, self->first_failure,
                        sizeof self->first_failure);
}

/* ---- One after the other ---- */

static bool goes_on(const struct benchmark *self)
{
    return has_time(self) && self->calls.count < self->calls.room && !cli_is_stopped();
}

static void run_closed(struct benchmark *self)
{
    const struct cli_request request = {
        .handle = self->job.handle, .model_id = self->job.model_id, .repeat = 1};
    while (self->first_status == C7X_OK && goes_on(self)) {
        struct cli_timed_call *call = &self->calls.list[self->calls.count++];
        call->intended_ns = call->begin_ns = cli_now_ns();
        call->status =
            cli_infer_tensors(self->cli, &request, &self->job.inputs, &self->job.outputs);
        call->done_ns = cli_now_ns();
        note_failure(self, call->status);
        cli_parts_take(&self->parts, &self->calls);
        show_progress(self);
    }
}

/* ---- On time ---- */

/* A call that is under way. */
struct flight {
    struct benchmark *benchmark;
    struct cli_timed_call *call;
};

static void note_end(struct flight *flight, int status)
{
    struct benchmark *self = flight->benchmark;
    flight->call->done_ns = cli_now_ns();
    flight->call->status = status;
    pthread_mutex_lock(&self->lock);
    note_failure(self, status);
    self->ended_count++;
    pthread_cond_signal(&self->all_have_ended);
    pthread_mutex_unlock(&self->lock);
    free(flight);
}

static void take_end(void *context, struct c7x_inference *inference)
{
    struct c7x_client_tensor outputs[C7X_CLIENT_OUTPUTS_MAX];
    int count = C7X_CLIENT_OUTPUTS_MAX;
    int status = c7x_inference_result(inference, outputs, &count, NULL);
    note_end(context, status);
    c7x_inference_free(inference);
}

static void wait_until(int64_t when_ns)
{
    const struct timespec when = {.tv_sec = when_ns / CLI_NS_PER_S,
                                  .tv_nsec = when_ns % CLI_NS_PER_S};
    while (!cli_is_stopped() &&
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

/* False: out of memory. */
static bool send_call(struct benchmark *self, const struct c7x_infer_options *options,
                      int64_t intended_ns)
{
    struct c7x_infer_options own = *options;
    struct c7x_inference *inference;
    struct flight *flight = malloc(sizeof *flight);
    if (flight == NULL)
        return false;
    *flight = (struct flight){self, &self->calls.list[self->calls.count++]};
    own.context = flight;
    flight->call->intended_ns = intended_ns;
    flight->call->begin_ns = cli_now_ns();
    int status = c7x_client_infer_async(self->cli->client, &own, self->job.inputs.tensors,
                                        self->job.inputs.count, &inference);
    if (status != C7X_OK)
        note_end(flight, status);
    return true;
}

/* Each has a deadline of its own, so this ends. */
static void wait_for_all(struct benchmark *self)
{
    pthread_mutex_lock(&self->lock);
    while (self->ended_count < self->calls.count)
        pthread_cond_wait(&self->all_have_ended, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

static void run_open(struct benchmark *self)
{
    double interval_ns = (double)CLI_NS_PER_S / self->cli->options.rate;
    struct c7x_infer_options options;
    c7x_infer_options_init(self->cli->client, &options);
    options.handle = self->job.handle;
    options.model_id = self->job.model_id;
    options.output_bytes = cli_buffer_bytes(self->job.outputs.tensors, self->job.outputs.count);
    options.done = take_end;
    for (size_t i = 0; i < self->calls.room && !cli_is_stopped(); i++) {
        int64_t when_ns = self->begin_ns + (int64_t)((double)i * interval_ns);
        cli_parts_take(&self->parts, &self->calls);
        show_progress(self);
        if (when_ns > cli_now_ns())
            wait_until(when_ns);
        if (!send_call(self, &options, when_ns) || !has_time(self))
            break;
    }
    self->unsent_count = cli_is_stopped() ? 0 : self->calls.room - self->calls.count;
    wait_for_all(self);
}

/* ---- Results ---- */

enum part { LATENCY, LATE, COPY_IN, QUEUE, DEVICE, PRE_EMPTED, COPY_OUT, PART_COUNT };

static const char *const part_names[PART_COUNT] = {
    "latency", "late", "copy_in", "queue", "device", "pre_empted", "copy_out",
};

/* All but the latency add up to it. */
static int64_t part_of(const struct cli_timed_call *call, enum part part)
{
    switch (part) {
    case LATE:
        return call->begin_ns - call->intended_ns;
    case COPY_IN:
        return call->arrival_ns - call->begin_ns;
    case QUEUE:
        return call->job_ns - call->arrival_ns;
    case DEVICE:
        return call->reply_ns - call->job_ns - call->pre_empted;
    case PRE_EMPTED:
        return call->pre_empted;
    case COPY_OUT:
        return call->done_ns - call->reply_ns;
    case LATENCY:
    case PART_COUNT:
    default:
        return call->done_ns - call->intended_ns;
    }
}

/* The device's clock must be ours for that: its instants lie between ours. */
static bool has_parts(const struct cli_timed_call *call)
{
    return call->status == C7X_OK && call->begin_ns <= call->arrival_ns &&
           call->arrival_ns <= call->job_ns && call->job_ns <= call->reply_ns &&
           call->reply_ns <= call->done_ns;
}

/* In ns; all zero when no call has the part. */
struct distribution {
    size_t count;
    int64_t p50;
    int64_t p90;
    int64_t p99;
    int64_t max;
    double sd;
};

/* `values` has room for all calls. */
static struct distribution distribution_of(const struct benchmark *self, int64_t *values,
                                           enum part part)
{
    size_t count = 0;
    for (size_t i = 0; i < self->calls.count; i++) {
        const struct cli_timed_call *call = &self->calls.list[i];
        if (part == LATENCY || part == LATE ? call->status == C7X_OK : has_parts(call))
            values[count++] = part_of(call, part);
    }
    if (count == 0)
        return (struct distribution){0};
    cli_sort_times(values, count);
    return (struct distribution){
        .count = count,
        .p50 = cli_percentile(values, count, 50),
        .p90 = cli_percentile(values, count, 90),
        .p99 = cli_percentile(values, count, 99),
        .max = values[count - 1],
        .sd = cli_deviation(values, count),
    };
}

static double elapsed_s(const struct benchmark *self)
{
    return (double)(self->end_ns - self->begin_ns) / (double)CLI_NS_PER_S;
}

static size_t failed_count(const struct benchmark *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->calls.count; i++)
        count += self->calls.list[i].status != C7X_OK;
    return count;
}

static cJSON *create_json(const struct benchmark *self, const struct distribution *parts)
{
    const struct cli_options *options = &self->cli->options;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "schema_version", SCHEMA_VERSION);
    cli_json_add_text(object, "loop", options->rate == 0 ? "closed" : "open");
    if (options->rate != 0)
        cJSON_AddNumberToObject(object, "rate", options->rate);
    cJSON_AddNumberToObject(object, "seconds", elapsed_s(self));
    cli_json_add_unsigned(object, "warm_up_calls", WARM_UP_CALLS);
    cli_json_add_unsigned(object, "calls", self->calls.count);
    cli_json_add_unsigned(object, "failed_calls", failed_count(self));
    cli_json_add_unsigned(object, "unsent_calls", self->unsent_count);
    cli_json_add_text_or_null(object, "first_failure", self->first_failure);
    cJSON_AddNumberToObject(object, "calls_per_second",
                            (double)parts[LATENCY].count / elapsed_s(self));
    for (int i = 0; i < PART_COUNT; i++) {
        cJSON *part = cJSON_AddObjectToObject(object, part_names[i]);
        cli_json_add_unsigned(part, "n", parts[i].count);
        cJSON_AddNumberToObject(part, "p50_ns", (double)parts[i].p50);
        cJSON_AddNumberToObject(part, "p90_ns", (double)parts[i].p90);
        cJSON_AddNumberToObject(part, "p99_ns", (double)parts[i].p99);
        cJSON_AddNumberToObject(part, "max_ns", (double)parts[i].max);
        cJSON_AddNumberToObject(part, "sd_ns", round(parts[i].sd));
    }
    return object;
}

static void print_table(const struct benchmark *self, const struct distribution *parts)
{
    static const char *const heads[] = {"N",      "P50 US", "P90 US", "P99 US",
                                        "MAX US", "SD US",  "PART"};
    struct cli_table table;
    cli_table_begin(&table, heads, sizeof heads / sizeof heads[0]);
    for (int i = 0; i < PART_COUNT; i++) {
        cli_table_unsigned(&table, parts[i].count);
        cli_table_decimal(&table, (double)parts[i].p50 / 1000, 1);
        cli_table_decimal(&table, (double)parts[i].p90 / 1000, 1);
        cli_table_decimal(&table, (double)parts[i].p99 / 1000, 1);
        cli_table_decimal(&table, (double)parts[i].max / 1000, 1);
        cli_table_decimal(&table, parts[i].sd / 1000, 1);
        cli_table_text(&table, part_names[i]);
    }
    cli_table_print(&table);
    printf("%zu calls in %.1f s, %zu of them failed; %.1f a second\n", self->calls.count,
           elapsed_s(self), failed_count(self), (double)parts[LATENCY].count / elapsed_s(self));
}

/* What went wrong, and what is not known, is said also when there is a result. */
static void print_notes(const struct benchmark *self, const struct distribution *parts)
{
    if (self->progress_ns != self->begin_ns)
        fputc('\n', stderr);
    if (self->unsent_count != 0)
        fprintf(stderr, "note: %zu calls were not sent: the rate is more than can be sent\n",
                self->unsent_count);
    if (self->first_status != C7X_OK)
        fprintf(stderr, "note: %zu of %zu calls failed, the first: %s\n", failed_count(self),
                self->calls.count, self->first_failure);
    if (parts[DEVICE].count < parts[LATENCY].count)
        fprintf(stderr, "note: the parts of %zu calls are not known%s\n",
                parts[LATENCY].count - parts[DEVICE].count,
                self->parts.has_lost ? ": events were lost" : "");
}

static int print(const struct benchmark *self)
{
    struct distribution parts[PART_COUNT];
    int64_t *values = calloc(self->calls.count + 1, sizeof *values);
    if (values == NULL)
        return cli_fail(self->cli, "benchmark", "out of memory");
    for (int i = 0; i < PART_COUNT; i++)
        parts[i] = distribution_of(self, values, (enum part)i);
    free(values);
    if (self->calls.count == 0)
        return cli_fail(self->cli, "benchmark", "ended by a signal before the first call");
    if (parts[LATENCY].count == 0)
        return cli_fail(self->cli, "infer", "no call of %zu succeeded: %s", self->calls.count,
                        self->first_failure);
    print_notes(self, parts);
    if (self->cli->options.table) {
        print_table(self, parts);
    } else {
        cJSON *object = cli_json_ok();
        cJSON_AddItemToObject(object, "benchmark", create_json(self, parts));
        cli_json_print(object);
    }
    return CLI_DONE;
}

/* ---- All of it ---- */

static int warm_up(struct benchmark *self)
{
    int code = CLI_DONE;
    for (int i = 0; i < WARM_UP_CALLS && code == CLI_DONE; i++)
        code = cli_job_infer(self->cli, &self->job, 1);
    cli_parts_take(&self->parts, NULL);
    return code;
}

static int measure(struct benchmark *self)
{
    int code = warm_up(self);
    if (code != CLI_DONE)
        return code;
    self->calls.room = call_limit(self);
    self->calls.list = calloc(self->calls.room, sizeof *self->calls.list);
    if (self->calls.list == NULL)
        return cli_fail(self->cli, "benchmark", "no memory for the times of %zu calls",
                        self->calls.room);
    cli_catch_signals();
    self->begin_ns = self->progress_ns = cli_now_ns();
    if (self->cli->options.rate == 0)
        run_closed(self);
    else
        run_open(self);
    self->end_ns = cli_now_ns();
    cli_parts_take(&self->parts, &self->calls);
    return CLI_DONE;
}

static int record_and_measure(struct benchmark *self)
{
    struct cli *cli = self->cli;
    enum c7x_status status = c7x_trace_begin(cli->client, EVENTS, &self->parts.trace);
    if (status == C7X_UNSUPPORTED)
        fputs("note: firmware of wire version 3.0 records nothing; no parts of the latency\n",
              stderr);
    else if (status != C7X_OK)
        return cli_fail_status(cli, "benchmark", status);
    self->parts.handle = self->job.handle;
    int code = measure(self);
    c7x_trace_free(self->parts.trace);
    return code;
}

static int run_on_device(struct benchmark *self)
{
    int code = cli_open(self->cli);
    if (code == CLI_DONE)
        code = cli_job_load(self->cli, &self->job);
    if (code == CLI_DONE)
        code = record_and_measure(self);
    if (code == CLI_DONE)
        code = print(self);
    /* A call that never ends keeps its module, and has been told of. */
    if (code == CLI_DONE)
        code = cli_job_unload(self->cli, &self->job);
    return code;
}

int cli_benchmark(struct cli *cli)
{
    static struct benchmark self = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .all_have_ended = PTHREAD_COND_INITIALIZER};
    const struct cli_options *options = &cli->options;
    self.cli = cli;
    if (options->repeat != 0 && options->has_seconds)
        return cli_fail(cli, "usage", "--repeat and --seconds both say how long");
    int code = cli_job_prepare(cli, &self.job);
    if (code == CLI_DONE)
        code = run_on_device(&self);
    free(self.calls.list);
    cli_job_free(&self.job);
    return code;
}

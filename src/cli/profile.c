/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile: where the time of a module goes, operator by operator, from the events that the device
 * records (nothing is asked of the module but its critical sections). The first call sets things
 * up, so it is run and not counted, unless it is the only one.
 */
#include "profile.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

enum { CALLS_DEFAULT = 5, EVENTS = 1 << 17, SCHEMA_VERSION = 1 };

struct profile {
    struct cli *cli;
    struct cli_job job;
    uint32_t warm_up_calls;
    uint64_t lost;
    struct cli_call_times times;
    struct c7x_operator_info *names;
    size_t name_count;
};

/* An operator with the sums that it is sorted by. */
struct row {
    uint32_t number;
    struct cli_time_sums sums;
};

static const char *operator_name(const struct profile *profile, uint32_t number, char *text,
                                 size_t size)
{
    if (number < profile->name_count)
        return profile->names[number].name;
    snprintf(text, size, "section %u", number);
    return text;
}

/* By the median, which one call that was disturbed does not move. */
static int compare_time(const void *a, const void *b)
{
    const struct row *first = a;
    const struct row *second = b;
    int order =
        (first->sums.median < second->sums.median) - (first->sums.median > second->sums.median);
    return order != 0 ? order : (first->number > second->number) - (first->number < second->number);
}

/* The caller frees them; NULL when out of memory. */
static struct row *make_rows(const struct profile *profile)
{
    size_t count = profile->times.operator_count;
    struct row *rows = calloc(count + 1, sizeof *rows);
    for (size_t i = 0; rows != NULL && i < count; i++)
        rows[i] = (struct row){(uint32_t)i, cli_times_sum(&profile->times.per_operator[i])};
    if (rows != NULL && !profile->cli->options.order_of_calls)
        qsort(rows, count, sizeof rows[0], compare_time);
    return rows;
}

/* Of the module's own running time, which is the entry's without that of others. */
static double share(const struct profile *profile, int64_t total)
{
    int64_t own = cli_times_sum(&profile->times.entry).total -
                  cli_times_sum(&profile->times.pre_empted).total;
    return own > 0 ? (double)total / (double)own : 0;
}

/* ---- As JSON ---- */

static void add_sums(cJSON *object, struct cli_time_sums sums)
{
    cJSON_AddNumberToObject(object, "min_ns", (double)sums.min);
    cJSON_AddNumberToObject(object, "median_ns", (double)sums.median);
    cJSON_AddNumberToObject(object, "total_ns", (double)sums.total);
}

static void add_part(cJSON *object, const char *name, const struct cli_times *times)
{
    add_sums(cJSON_AddObjectToObject(object, name), cli_times_sum(times));
}

static cJSON *create_json(const struct profile *profile, const struct row *rows)
{
    const struct cli_call_times *times = &profile->times;
    cJSON *object = cJSON_CreateObject();
    char text[32];
    cJSON_AddNumberToObject(object, "schema_version", SCHEMA_VERSION);
    cli_json_add_unsigned(object, "calls", times->end_to_end.count);
    cli_json_add_unsigned(object, "warm_up_calls", profile->warm_up_calls);
    cli_json_add_unsigned(object, "incomplete_calls", times->incomplete);
    cli_json_add_unsigned(object, "lost_events", profile->lost);
    add_part(object, "end_to_end", &times->end_to_end);
    add_part(object, "entry", &times->entry);
    add_part(object, "operators_sum", &times->operators);
    add_part(object, "unattributed", &times->unattributed);
    add_part(object, "pre_empted", &times->pre_empted);
    cJSON *list = cJSON_AddArrayToObject(object, "operators");
    for (size_t i = 0; i < times->operator_count; i++) {
        cJSON *entry = cli_json_append(list);
        cli_json_add_unsigned(entry, "number", rows[i].number);
        cli_json_add_text(entry, "name", operator_name(profile, rows[i].number, text, sizeof text));
        cli_json_add_unsigned(entry, "calls", rows[i].sums.calls);
        add_sums(entry, rows[i].sums);
        cJSON_AddNumberToObject(entry, "share", share(profile, rows[i].sums.total));
    }
    return object;
}

/* ---- As a table ---- */

/* `is_part`: of the module's running time. */
static void add_row(struct cli_table *table, const struct profile *profile, const char *name,
                    struct cli_time_sums sums, bool is_part)
{
    cli_table_unsigned(table, sums.calls);
    cli_table_decimal(table, (double)sums.min / 1000, 1);
    cli_table_decimal(table, (double)sums.median / 1000, 1);
    cli_table_decimal(table, (double)sums.total / 1000, 1);
    if (is_part)
        cli_table_decimal(table, 100 * share(profile, sums.total), 1);
    else
        cli_table_text(table, "");
    cli_table_text(table, name);
}

static void print_table(const struct profile *profile, const struct row *rows)
{
    static const char *const heads[] = {"CALLS",    "MIN US",  "MEDIAN US",
                                        "TOTAL US", "SHARE %", "OPERATOR"};
    const struct cli_call_times *times = &profile->times;
    struct cli_table table;
    char text[32];
    cli_table_begin(&table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < times->operator_count; i++)
        add_row(&table, profile, operator_name(profile, rows[i].number, text, sizeof text),
                rows[i].sums, true);
    add_row(&table, profile, "= all operators", cli_times_sum(&times->operators), true);
    add_row(&table, profile, "+ unattributed", cli_times_sum(&times->unattributed), true);
    add_row(&table, profile, "+ pre-empted", cli_times_sum(&times->pre_empted), false);
    add_row(&table, profile, "= entry", cli_times_sum(&times->entry), false);
    add_row(&table, profile, "end to end", cli_times_sum(&times->end_to_end), false);
    cli_table_print(&table);
    if (profile->times.incomplete != 0)
        printf("%llu calls are not counted: %llu events were lost\n",
               (unsigned long long)profile->times.incomplete, (unsigned long long)profile->lost);
}

static int print(const struct profile *profile)
{
    struct row *rows = profile->times.lacks_memory ? NULL : make_rows(profile);
    if (rows == NULL)
        return cli_fail(profile->cli, "profile", "out of memory");
    if (profile->cli->options.table) {
        print_table(profile, rows);
    } else {
        cJSON *object = cli_json_result(&profile->job.outputs);
        cJSON_AddItemToObject(object, "profile", create_json(profile, rows));
        cli_json_print(object);
    }
    free(rows);
    return CLI_DONE;
}

/* ---- Running ---- */

static int run_calls(struct profile *profile, struct c7x_trace *trace)
{
    const struct cli_options *options = &profile->cli->options;
    uint32_t count = options->repeat != 0 ? options->repeat : CALLS_DEFAULT;
    profile->warm_up_calls = count > 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t begin = cli_now_ns();
        int code = cli_job_infer(profile->cli, &profile->job, 1);
        if (code != CLI_DONE)
            return code;
        cli_times_take_call(&profile->times, trace, profile->job.handle, cli_now_ns() - begin,
                            i < profile->warm_up_calls);
    }
    profile->lost = trace != NULL ? c7x_trace_lost(trace) : 0;
    return CLI_DONE;
}

static int record_calls(struct profile *profile)
{
    struct cli *cli = profile->cli;
    struct c7x_trace *trace = NULL;
    enum c7x_status status = c7x_trace_begin(cli->client, EVENTS, &trace);
    if (status == C7X_UNSUPPORTED) {
        fprintf(stderr,
                "note: firmware of wire version 3.0 records nothing; no times of operators\n");
        return run_calls(profile, NULL);
    }
    if (status == C7X_OK)
        status = c7x_client_list_operators(cli->client, profile->job.handle, &profile->names,
                                           &profile->name_count);
    int code =
        status == C7X_OK ? run_calls(profile, trace) : cli_fail_status(cli, "profile", status);
    c7x_trace_free(trace);
    return code;
}

static int run_on_device(struct profile *profile)
{
    struct cli *cli = profile->cli;
    int code = cli_open(cli);
    if (code == CLI_DONE)
        code = cli_job_load(cli, &profile->job);
    if (code == CLI_DONE)
        code = record_calls(profile);
    if (code == CLI_DONE)
        code = cli_write_outputs(cli, &profile->job.outputs);
    if (code == CLI_DONE)
        code = cli_job_unload(cli, &profile->job);
    return code;
}

int cli_profile(struct cli *cli)
{
    static struct profile profile;
    profile.cli = cli;
    int code = cli_job_prepare(cli, &profile.job);
    if (code == CLI_DONE)
        code = run_on_device(&profile);
    if (code == CLI_DONE)
        code = print(&profile);
    cli_times_free(&profile.times);
    c7x_list_free(profile.names);
    cli_job_free(&profile.job);
    return code;
}

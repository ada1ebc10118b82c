/* SPDX-License-Identifier: Apache-2.0 */
/* validate: a short self-test of a device, from the first ping to the spread of a thousand. */
#include "validate.h"

#include <cjson/cJSON.h>

static const char *result_name(enum check_result result)
{
    static const char *const names[] = {"pass", "fail", "skip"};
    return names[result];
}

typedef void (*check_fn)(struct validation *self, struct check *check);

static const struct {
    const char *name;
    check_fn run;
} steps[CHECK_COUNT] = {
    {"ping", cli_check_ping},   {"memory", cli_check_memory},       {"load", cli_check_load},
    {"infer", cli_check_infer}, {"bandwidth", cli_check_bandwidth}, {"latency", cli_check_latency},
};

static int count_results(const struct validation *self, enum check_result result)
{
    int count = 0;
    for (int i = 0; i < CHECK_COUNT; i++)
        count += self->checks[i].result == result;
    return count;
}

static void print_table(const struct validation *self)
{
    static const char *const heads[] = {"CHECK", "RESULT", "VALUE", "UNIT", "DETAIL"};
    struct cli_table table;
    cli_table_begin(&table, heads, 5);
    for (int i = 0; i < CHECK_COUNT; i++) {
        const struct check *check = &self->checks[i];
        char value[32] = "-";
        if (check->unit != NULL)
            snprintf(value, sizeof value, "%.1f", check->value);
        cli_table_text(&table, check->name);
        cli_table_text(&table, result_name(check->result));
        cli_table_text(&table, value);
        cli_table_text(&table, check->unit != NULL ? check->unit : "-");
        cli_table_text(&table, check->detail);
    }
    cli_table_print(&table);
    printf("%d passed, %d failed, %d skipped\n", count_results(self, CHECK_PASS),
           count_results(self, CHECK_FAIL), count_results(self, CHECK_SKIP));
}

static void add_value(cJSON *object, const struct check *check)
{
    if (check->unit == NULL) {
        cJSON_AddNullToObject(object, "value");
        cJSON_AddNullToObject(object, "unit");
        return;
    }
    cJSON_AddNumberToObject(object, "value", check->value);
    cli_json_add_text(object, "unit", check->unit);
}

static void add_checks(cJSON *object, const struct validation *self)
{
    cJSON *list = cJSON_AddArrayToObject(object, "checks");
    for (int i = 0; i < CHECK_COUNT; i++) {
        const struct check *check = &self->checks[i];
        cJSON *entry = cli_json_append(list);
        cli_json_add_text(entry, "name", check->name);
        cli_json_add_text(entry, "result", result_name(check->result));
        cli_json_add_text(entry, "detail", check->detail);
        add_value(entry, check);
        if (steps[i].run != cli_check_latency || check->result != CHECK_PASS)
            continue;
        cli_json_add_unsigned(entry, "n", PING_COUNT);
        cJSON_AddNumberToObject(entry, "p50_us", cli_latency_us(self, 50));
        cJSON_AddNumberToObject(entry, "p90_us", cli_latency_us(self, 90));
        cJSON_AddNumberToObject(entry, "p99_us", cli_latency_us(self, 99));
        cJSON_AddNumberToObject(entry, "max_us", cli_latency_us(self, 100));
    }
}

static int report_failure(const struct validation *self)
{
    char text[CHECK_DETAIL_MAX];
    size_t used = 0;
    used += (size_t)snprintf(
        text, sizeof text, "%d of %d checks failed:", count_results(self, CHECK_FAIL), CHECK_COUNT);
    for (int i = 0; i < CHECK_COUNT; i++) {
        if (self->checks[i].result == CHECK_FAIL)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s", self->checks[i].name);
    }
    cJSON *object = cJSON_CreateObject();
    cli_json_add_text(object, "status", "error");
    cli_json_add_text(object, "stage", "validate");
    cli_json_add_text(object, "error", text);
    add_checks(object, self);
    return cli_fail_with(self->cli, object, "validate", text);
}

static int report(const struct validation *self)
{
    if (!self->cli->options.json)
        print_table(self);
    if (count_results(self, CHECK_FAIL) > 0)
        return report_failure(self);
    if (self->cli->options.json) {
        cJSON *object = cli_json_ok();
        add_checks(object, self);
        cli_json_print(object);
    }
    return CLI_DONE;
}

/* What is wrong with the files of the command line is no fault of the device. */
static int prepare(struct cli *cli, struct validation *self)
{
    if (cli->options.module == NULL)
        return CLI_DONE;
    int code = cli_read_declaration(cli, cli->options.module, &self->declaration);
    if (code == CLI_DONE)
        code = cli_prepare_inputs(cli, self->declaration, &self->inputs);
    return code;
}

int cli_validate(struct cli *cli)
{
    static struct validation self;
    self.cli = cli;
    int code = prepare(cli, &self);
    if (code == CLI_DONE)
        code = cli_open(cli);
    for (int i = 0; i < CHECK_COUNT && code == CLI_DONE; i++) {
        self.checks[i].name = steps[i].name;
        steps[i].run(&self, &self.checks[i]);
    }
    if (code == CLI_DONE)
        code = report(&self);
    cli_free_inputs(&self.inputs);
    c7x_module_declaration_free(self.declaration);
    return code;
}

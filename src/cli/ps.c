/* SPDX-License-Identifier: Apache-2.0 */
/* ps: the sessions of a device, the modules of each, and what its targets do. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

enum { TEXT_MAX = 128 };

struct listing {
    struct c7x_session_info *sessions;
    struct c7x_module_info *modules;
    struct c7x_target_info *targets;
    size_t session_count;
    size_t module_count;
    size_t target_count;
};

/* NULL: it has gone, or `number` is 0, the device itself. */
static const struct c7x_session_info *find_session(const struct listing *listing, uint32_t number)
{
    for (size_t i = 0; i < listing->session_count && number != 0; i++) {
        if (listing->sessions[i].number == number)
            return &listing->sessions[i];
    }
    return NULL;
}

/* The target that runs the module's calls, unless they name another: targets are listed in the
 * order of their priorities. "" for weights. */
static const char *module_target(const struct listing *listing,
                                 const struct c7x_module_info *module)
{
    size_t index = (size_t)module->priority - 1;
    return module->priority > 0 && index < listing->target_count ? listing->targets[index].name
                                                                 : "";
}

/* The target that runs a request of the session; "" for none. */
static const char *running_target(const struct listing *listing, uint32_t session)
{
    for (size_t i = 0; i < listing->target_count && session != 0; i++) {
        if (listing->targets[i].running_session == session)
            return listing->targets[i].name;
    }
    return "";
}

/* ---- Text ---- */

static void add_cell(struct cli_table *table, const char *text)
{
    cli_table_text(table, text[0] != '\0' ? text : "-");
}

/* PID PROGRAM SESSION */
static void add_session(struct cli_table *table, const struct c7x_session_info *session,
                        uint32_t number)
{
    if (session != NULL) {
        cli_table_unsigned(table, session->process);
        add_cell(table, session->name);
    } else {
        add_cell(table, "");
        add_cell(table, "");
    }
    if (number != 0)
        cli_table_unsigned(table, number);
    else
        cli_table_text(table, "device");
}

static void add_queued(struct cli_table *table, const struct c7x_session_info *session)
{
    if (session != NULL)
        cli_table_unsigned(table, session->queued);
    else
        add_cell(table, "");
}

static void add_priority(struct cli_table *table, int priority)
{
    if (priority > 0)
        cli_table_unsigned(table, (uint64_t)priority);
    else
        add_cell(table, "");
}

static void add_module_row(struct cli_table *table, const struct listing *listing,
                           const struct c7x_module_info *module)
{
    const struct c7x_session_info *session = find_session(listing, module->session);
    add_session(table, session, module->session);
    cli_table_unsigned(table, module->handle);
    add_cell(table, module->name);
    add_priority(table, module->priority);
    add_cell(table, module_target(listing, module));
    add_queued(table, session);
    cli_table_text(table, module->state);
}

static void add_session_row(struct cli_table *table, const struct listing *listing,
                            const struct c7x_session_info *session)
{
    add_session(table, session, session->number);
    add_cell(table, "");
    add_cell(table, "");
    add_priority(table, 0);
    add_cell(table, running_target(listing, session->number));
    add_queued(table, session);
    cli_table_text(table, session->running != 0  ? "running"
                          : session->queued != 0 ? "waiting"
                                                 : "idle");
}

/* How many modules that the session owns were added. */
static size_t add_modules_of(struct cli_table *table, const struct listing *listing,
                             uint32_t session)
{
    size_t added = 0;
    for (size_t i = 0; i < listing->module_count; i++) {
        if (listing->modules[i].session != session)
            continue;
        add_module_row(table, listing, &listing->modules[i]);
        added++;
    }
    return added;
}

/* Modules of the device, and those whose session ended or began while the lists were read. */
static void add_other_modules(struct cli_table *table, const struct listing *listing)
{
    for (size_t i = 0; i < listing->module_count; i++) {
        if (find_session(listing, listing->modules[i].session) == NULL)
            add_module_row(table, listing, &listing->modules[i]);
    }
}

static void print_sessions(const struct listing *listing)
{
    static const char *const heads[] = {"PID",      "PROGRAM", "SESSION", "MODULE", "NAME",
                                        "PRIORITY", "TARGET",  "QUEUED",  "STATE"};
    struct cli_table table;
    cli_table_begin(&table, heads, 9);
    for (size_t i = 0; i < listing->session_count; i++) {
        const struct c7x_session_info *session = &listing->sessions[i];
        if (session->number == 0 || add_modules_of(&table, listing, session->number) == 0)
            add_session_row(&table, listing, session);
    }
    add_other_modules(&table, listing);
    cli_table_print(&table);
}

static void describe_running(const struct listing *listing, const struct c7x_target_info *target,
                             char *text, size_t size)
{
    const struct c7x_session_info *session = find_session(listing, target->running_session);
    const char *end = target->is_preempted ? ", pre-empted" : "";
    if (target->running_session == 0)
        snprintf(text, size, "-");
    else if (session == NULL)
        snprintf(text, size, "request %" PRIu32 " of session %" PRIu32 "%s", target->running_seq,
                 target->running_session, end);
    else
        snprintf(text, size, "request %" PRIu32 " of session %" PRIu32 " (pid %" PRIu32 ", %s)%s",
                 target->running_seq, session->number, session->process, session->name, end);
}

static bool has_had_work(const struct c7x_target_info *target)
{
    return target->queue_depth != 0 || target->running_session != 0 || target->jobs_done != 0;
}

static void add_target_row(struct cli_table *table, const struct listing *listing,
                           const struct c7x_target_info *target)
{
    char running[TEXT_MAX];
    describe_running(listing, target, running, sizeof running);
    cli_table_text(table, target->name);
    cli_table_unsigned(table, target->queue_depth);
    cli_table_unsigned(table, target->queue_depth_max);
    cli_table_unsigned(table, target->jobs_done);
    cli_table_unsigned(table, target->preemptions);
    cli_table_text(table, running);
}

static void print_targets(const struct listing *listing, bool all)
{
    static const char *const heads[] = {"TARGET",    "QUEUED",      "QUEUE MAX",
                                        "JOBS DONE", "PREEMPTIONS", "RUNS"};
    struct cli_table table;
    size_t left_out = 0;
    cli_table_begin(&table, heads, 6);
    for (size_t i = 0; i < listing->target_count; i++) {
        if (all || has_had_work(&listing->targets[i]))
            add_target_row(&table, listing, &listing->targets[i]);
        else
            left_out++;
    }
    putchar('\n');
    cli_table_print(&table);
    if (left_out > 0)
        printf("%zu without any work so far; --all shows them\n", left_out);
}

/* ---- JSON ---- */

static void add_json_session(cJSON *list, const struct c7x_session_info *session)
{
    cJSON *object = cli_json_append(list);
    cli_json_add_unsigned(object, "session", session->number);
    cli_json_add_unsigned(object, "pid", session->process);
    cli_json_add_text(object, "program", session->name);
    cli_json_add_version(object, "wire_version", session->wire_version);
    cli_json_add_unsigned(object, "module_count", session->module_count);
    cli_json_add_unsigned(object, "model_count", session->model_count);
    cli_json_add_unsigned(object, "queued_requests", session->queued);
    cli_json_add_unsigned(object, "running_requests", session->running);
}

/* session, pid and program are null for a module that belongs to the device. */
static void add_json_module(cJSON *list, const struct listing *listing,
                            const struct c7x_module_info *module)
{
    const struct c7x_session_info *session = find_session(listing, module->session);
    cJSON *object = cli_json_append(list);
    cli_json_add_unsigned(object, "handle", module->handle);
    cli_json_add_text(object, "name", module->name);
    cli_json_add_text(object, "state", module->state);
    cli_json_add_text(object, "belongs_to", module->session == 0 ? "device" : "session");
    cli_json_add_number_or_null(object, "session", module->session);
    cli_json_add_number_or_null(object, "pid", session != NULL ? session->process : 0);
    cli_json_add_text_or_null(object, "program", session != NULL ? session->name : "");
    cli_json_add_number_or_null(object, "priority", (uint64_t)module->priority);
    cli_json_add_text_or_null(object, "target", module_target(listing, module));
    cli_json_add_unsigned(object, "activations", module->activations);
    cli_json_add_number_or_null(object, "longest_section_ns", module->longest_section_ns);
    cli_json_add_unsigned(object, "heap_bytes", module->heap_bytes);
    cli_json_add_unsigned(object, "staged_bytes", module->staged_bytes);
}

static void add_json_target(cJSON *list, const struct listing *listing,
                            const struct c7x_target_info *target)
{
    const struct c7x_session_info *session = find_session(listing, target->running_session);
    cJSON *object = cli_json_append(list);
    cli_json_add_text(object, "target", target->name);
    cli_json_add_unsigned(object, "queued_requests", target->queue_depth);
    cli_json_add_unsigned(object, "queued_requests_max", target->queue_depth_max);
    cli_json_add_unsigned(object, "jobs_done", target->jobs_done);
    cli_json_add_unsigned(object, "preemptions", target->preemptions);
    cJSON_AddBoolToObject(object, "preempted", target->is_preempted != 0);
    cli_json_add_number_or_null(object, "running_session", target->running_session);
    cli_json_add_number_or_null(object, "running_pid", session != NULL ? session->process : 0);
    cli_json_add_number_or_null(object, "running_request",
                                target->running_session != 0 ? target->running_seq : 0);
}

static void print_json(const struct listing *listing)
{
    cJSON *object = cli_json_ok();
    cJSON *sessions = cJSON_AddArrayToObject(object, "sessions");
    cJSON *modules = cJSON_AddArrayToObject(object, "modules");
    cJSON *targets = cJSON_AddArrayToObject(object, "targets");
    for (size_t i = 0; i < listing->session_count; i++)
        add_json_session(sessions, &listing->sessions[i]);
    for (size_t i = 0; i < listing->module_count; i++)
        add_json_module(modules, listing, &listing->modules[i]);
    for (size_t i = 0; i < listing->target_count; i++)
        add_json_target(targets, listing, &listing->targets[i]);
    cli_json_print(object);
}

static enum c7x_status read_listing(struct c7x_client *client, struct listing *listing)
{
    enum c7x_status status =
        c7x_client_list_modules(client, &listing->modules, &listing->module_count);
    if (status == C7X_OK)
        status = c7x_client_list_sessions(client, &listing->sessions, &listing->session_count);
    if (status == C7X_OK)
        status = c7x_client_list_targets(client, &listing->targets, &listing->target_count);
    return status;
}

static void free_listing(struct listing *listing)
{
    c7x_list_free(listing->sessions);
    c7x_list_free(listing->modules);
    c7x_list_free(listing->targets);
}

static int print_listing(struct cli *cli, struct listing *listing)
{
    enum c7x_status status = read_listing(cli->client, listing);
    if (status != C7X_OK)
        return cli_fail_status(cli, "ps", status);
    if (cli->options.json) {
        print_json(listing);
    } else {
        print_sessions(listing);
        print_targets(listing, cli->options.all);
    }
    return CLI_DONE;
}

int cli_ps(struct cli *cli)
{
    struct listing listing = {0};
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    code = print_listing(cli, &listing);
    free_listing(&listing);
    return code;
}

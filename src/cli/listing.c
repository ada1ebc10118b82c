/* SPDX-License-Identifier: Apache-2.0 */
/* What is on a device as its lists tell it, for the commands that show it. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

enum { TEXT_MAX = 128 };

enum c7x_status cli_read_listing(struct c7x_client *client, struct cli_listing *listing)
{
    enum c7x_status status =
        c7x_client_list_modules(client, &listing->modules, &listing->module_count);
    if (status == C7X_OK)
        status = c7x_client_list_sessions(client, &listing->sessions, &listing->session_count);
    if (status == C7X_OK)
        status = c7x_client_list_targets(client, &listing->targets, &listing->target_count);
    return status;
}

void cli_free_listing(struct cli_listing *listing)
{
    c7x_list_free(listing->sessions);
    c7x_list_free(listing->modules);
    c7x_list_free(listing->targets);
    *listing = (struct cli_listing){0};
}

const struct c7x_session_info *cli_find_session(const struct cli_listing *listing, uint32_t number)
{
    for (size_t i = 0; i < listing->session_count && number != 0; i++) {
        if (listing->sessions[i].number == number)
            return &listing->sessions[i];
    }
    return NULL;
}

const char *cli_module_target(const struct cli_listing *listing,
                              const struct c7x_module_info *module)
{
    size_t index = (size_t)module->priority - 1;
    return module->priority > 0 && index < listing->target_count ? listing->targets[index].name
                                                                 : "";
}

/* ---- Text ---- */

static void describe_running(const struct cli_listing *listing,
                             const struct c7x_target_info *target, char *text, size_t size)
{
    const struct c7x_session_info *session = cli_find_session(listing, target->running_session);
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

static void add_target_row(struct cli_table *table, const struct cli_listing *listing,
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

size_t cli_write_targets(const struct cli_listing *listing, bool all, FILE *stream)
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
    cli_table_write(&table, stream);
    return left_out;
}

void cli_table_address(struct cli_table *table, uint64_t address)
{
    char text[32];
    snprintf(text, sizeof text, "0x%09" PRIx64, address);
    cli_table_text(table, text);
}

void cli_write_pools(const struct c7x_pool_info *pools, size_t count, FILE *stream)
{
    static const char *const heads[] = {"POOL", "ADDRESS",      "TOTAL BYTES",
                                        "FREE", "LARGEST FREE", "BLOCKS"};
    struct cli_table table;
    cli_table_begin(&table, heads, 6);
    for (size_t i = 0; i < count; i++) {
        const struct c7x_pool_info *pool = &pools[i];
        cli_table_text(&table, pool->name);
        cli_table_address(&table, pool->address);
        cli_table_unsigned(&table, pool->total);
        cli_table_unsigned(&table, pool->free);
        cli_table_unsigned(&table, pool->largest);
        cli_table_unsigned(&table, pool->block_count);
    }
    cli_table_write(&table, stream);
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
static void add_json_module(cJSON *list, const struct cli_listing *listing,
                            const struct c7x_module_info *module)
{
    const struct c7x_session_info *session = cli_find_session(listing, module->session);
    cJSON *object = cli_json_append(list);
    cli_json_add_unsigned(object, "handle", module->handle);
    cli_json_add_text(object, "name", module->name);
    cli_json_add_text(object, "state", module->state);
    cli_json_add_text(object, "belongs_to", module->session == 0 ? "device" : "session");
    cli_json_add_number_or_null(object, "session", module->session);
    cli_json_add_number_or_null(object, "pid", session != NULL ? session->process : 0);
    cli_json_add_text_or_null(object, "program", session != NULL ? session->name : "");
    cli_json_add_number_or_null(object, "priority", (uint64_t)module->priority);
    cli_json_add_text_or_null(object, "target", cli_module_target(listing, module));
    cli_json_add_unsigned(object, "activations", module->activations);
    cli_json_add_number_or_null(object, "longest_section_ns", module->longest_section_ns);
    cli_json_add_unsigned(object, "heap_bytes", module->heap_bytes);
    cli_json_add_unsigned(object, "staged_bytes", module->staged_bytes);
}

static void add_json_target(cJSON *list, const struct cli_listing *listing,
                            const struct c7x_target_info *target)
{
    const struct c7x_session_info *session = cli_find_session(listing, target->running_session);
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

void cli_json_add_listing(cJSON *object, const struct cli_listing *listing)
{
    cJSON *sessions = cJSON_AddArrayToObject(object, "sessions");
    cJSON *modules = cJSON_AddArrayToObject(object, "modules");
    cJSON *targets = cJSON_AddArrayToObject(object, "targets");
    for (size_t i = 0; i < listing->session_count; i++)
        add_json_session(sessions, &listing->sessions[i]);
    for (size_t i = 0; i < listing->module_count; i++)
        add_json_module(modules, listing, &listing->modules[i]);
    for (size_t i = 0; i < listing->target_count; i++)
        add_json_target(targets, listing, &listing->targets[i]);
}

static void add_json_pool(cJSON *list, const struct c7x_pool_info *pool)
{
    cJSON *object = cli_json_append(list);
    cli_json_add_text(object, "pool", pool->name);
    cli_json_add_unsigned(object, "address", pool->address);
    cli_json_add_unsigned(object, "total_bytes", pool->total);
    cli_json_add_unsigned(object, "free_bytes", pool->free);
    cli_json_add_unsigned(object, "largest_free_bytes", pool->largest);
    cli_json_add_unsigned(object, "block_count", pool->block_count);
}

void cli_json_add_pools(cJSON *object, const struct c7x_pool_info *pools, size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(object, "pools");
    for (size_t i = 0; i < count; i++)
        add_json_pool(list, &pools[i]);
}

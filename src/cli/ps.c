/* SPDX-License-Identifier: Apache-2.0 */
/* ps: the sessions of a device, the modules of each, and what its targets do. */
#include "cli.h"

/* The target that runs a request of the session; "" for none. */
static const char *running_target(const struct cli_listing *listing, uint32_t session)
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

static void add_module_row(struct cli_table *table, const struct cli_listing *listing,
                           const struct c7x_module_info *module)
{
    const struct c7x_session_info *session = cli_find_session(listing, module->session);
    add_session(table, session, module->session);
    cli_table_unsigned(table, module->handle);
    add_cell(table, module->name);
    add_priority(table, module->priority);
    add_cell(table, cli_module_target(listing, module));
    add_queued(table, session);
    cli_table_text(table, module->state);
}

static void add_session_row(struct cli_table *table, const struct cli_listing *listing,
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
static size_t add_modules_of(struct cli_table *table, const struct cli_listing *listing,
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
static void add_other_modules(struct cli_table *table, const struct cli_listing *listing)
{
    for (size_t i = 0; i < listing->module_count; i++) {
        if (cli_find_session(listing, listing->modules[i].session) == NULL)
            add_module_row(table, listing, &listing->modules[i]);
    }
}

static void print_sessions(const struct cli_listing *listing)
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

static void print_targets(const struct cli_listing *listing, bool all)
{
    putchar('\n');
    size_t left_out = cli_write_targets(listing, all, stdout);
    if (left_out > 0)
        printf("%zu without any work so far; --all shows them\n", left_out);
}

static void print_json(const struct cli_listing *listing)
{
    struct cJSON *object = cli_json_ok();
    cli_json_add_listing(object, listing);
    cli_json_print(object);
}

static int print_listing(struct cli *cli, struct cli_listing *listing)
{
    enum c7x_status status = cli_read_listing(cli->client, listing);
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
    struct cli_listing listing = {0};
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    code = print_listing(cli, &listing);
    cli_free_listing(&listing);
    return code;
}

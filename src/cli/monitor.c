/* SPDX-License-Identifier: Apache-2.0 */
/* monitor: what the cores do, on a screen that renews itself, or once. */
#define _GNU_SOURCE
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERVAL_MS = 1000, CALL_MS = 2000 }; /* a core that hangs must not hold up the keys */

struct core {
    char device[128];
    struct c7x_client *client; /* NULL: not open */
    struct c7x_client_status state;
    struct cli_listing listing;
    struct c7x_pool_info *pools;
    size_t pool_count;
    enum c7x_status status; /* of the last look at it */
    char problem[CLI_MESSAGE_MAX];
};

struct monitor {
    struct cli *cli;
    struct core cores[CLI_DEVICES_MAX];
    size_t core_count;
};

/* ---- Reading ---- */

static void clear_core(struct core *core)
{
    cli_free_listing(&core->listing);
    c7x_list_free(core->pools);
    core->pools = NULL;
    core->pool_count = 0;
}

static void close_core(struct core *core)
{
    clear_core(core);
    c7x_client_close(core->client);
    core->client = NULL;
}

static struct core *find_core(struct monitor *monitor, const char *device)
{
    for (size_t i = 0; i < monitor->core_count; i++) {
        if (strcmp(monitor->cores[i].device, device) == 0)
            return &monitor->cores[i];
    }
    return NULL;
}

static void add_core(struct monitor *monitor, const char *device)
{
    if (find_core(monitor, device) != NULL || monitor->core_count == CLI_DEVICES_MAX)
        return;
    struct core *core = &monitor->cores[monitor->core_count++];
    memset(core, 0, sizeof *core);
    snprintf(core->device, sizeof core->device, "%s", device);
}

/* Those that the options name; else all that run, which may change from one look to the next. */
static enum c7x_status find_cores(struct monitor *monitor)
{
    const struct cli_options *options = &monitor->cli->options;
    struct c7x_device_info *list = NULL;
    size_t count = 0;
    for (int i = 0; i < options->device_count; i++)
        add_core(monitor, options->devices[i]);
    if (options->device_count > 0)
        return C7X_OK;
    enum c7x_status status = c7x_device_scan(&list, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].state, "running") == 0)
            add_core(monitor, list[i].device);
    }
    c7x_list_free(list);
    return status;
}

static enum c7x_status open_core(const struct cli *cli, struct core *core)
{
    struct c7x_client_options options;
    if (core->client != NULL)
        return C7X_OK;
    cli_client_options(cli, &options);
    options.device = core->device;
    options.start = 0;
    if (!cli->options.has_deadline)
        options.deadline_ms = CALL_MS;
    return c7x_client_open_with(&options, &core->client);
}

static enum c7x_status read_lists(struct core *core)
{
    enum c7x_status status = c7x_client_get_status(core->client, &core->state);
    if (status == C7X_OK)
        status = cli_read_listing(core->client, &core->listing);
    if (status == C7X_OK)
        status = c7x_client_list_pools(core->client, &core->pools, &core->pool_count);
    return status;
}

/* One that fails is opened again at the next look: it may be another core by then. */
static void read_core(const struct cli *cli, struct core *core)
{
    clear_core(core);
    core->status = open_core(cli, core);
    if (core->status == C7X_OK)
        core->status = read_lists(core);
    if (core->status == C7X_OK)
        return;
    snprintf(core->problem, sizeof core->problem, "%s", c7x_client_last_error(core->client));
    if (core->problem[0] == '\0')
        snprintf(core->problem, sizeof core->problem, "%s", c7x_strerror(core->status));
    close_core(core);
}

static enum c7x_status read_cores(struct monitor *monitor)
{
    enum c7x_status status = find_cores(monitor);
    for (size_t i = 0; i < monitor->core_count; i++)
        read_core(monitor->cli, &monitor->cores[i]);
    return status;
}

/* ---- Text ---- */

static void add_name(struct cli_table *table, const char *name)
{
    cli_table_text(table, name[0] != '\0' ? name : "-");
}

static void add_number(struct cli_table *table, uint64_t value)
{
    if (value != 0)
        cli_table_unsigned(table, value);
    else
        cli_table_text(table, "-");
}

static void write_modules(const struct cli_listing *listing, FILE *stream)
{
    static const char *const heads[] = {"MODULE",     "NAME",         "PRIORITY", "STATE",
                                        "HEAP BYTES", "STAGED BYTES", "SESSION"};
    struct cli_table table;
    cli_table_begin(&table, heads, 7);
    for (size_t i = 0; i < listing->module_count; i++) {
        const struct c7x_module_info *module = &listing->modules[i];
        cli_table_unsigned(&table, module->handle);
        add_name(&table, module->name);
        add_number(&table, (uint64_t)module->priority);
        cli_table_text(&table, module->state);
        cli_table_unsigned(&table, module->heap_bytes);
        cli_table_unsigned(&table, module->staged_bytes);
        if (module->session != 0)
            cli_table_unsigned(&table, module->session);
        else
            cli_table_text(&table, "device");
    }
    cli_table_write(&table, stream);
}

static void write_sessions(const struct cli_listing *listing, FILE *stream)
{
    static const char *const heads[] = {"SESSION", "PID",    "PROGRAM", "MODULES",
                                        "MODELS",  "QUEUED", "RUNNING"};
    struct cli_table table;
    cli_table_begin(&table, heads, 7);
    for (size_t i = 0; i < listing->session_count; i++) {
        const struct c7x_session_info *session = &listing->sessions[i];
        cli_table_unsigned(&table, session->number);
        cli_table_unsigned(&table, session->process);
        add_name(&table, session->name);
        cli_table_unsigned(&table, session->module_count);
        cli_table_unsigned(&table, session->model_count);
        cli_table_unsigned(&table, session->queued);
        cli_table_unsigned(&table, session->running);
    }
    cli_table_write(&table, stream);
}

static void write_core(const struct core *core, bool all, FILE *stream)
{
    const struct c7x_client_status *state = &core->state;
    char version[32];
    if (core->status != C7X_OK) {
        fprintf(stream, "%s: %s (%s)\n", core->device, core->problem,
                c7x_status_name(core->status));
        return;
    }
    cli_format_version(state->version, version, sizeof version);
    fprintf(stream, "%s: version %s, up %u.%03u s, %u jobs completed, %u failed\n\n", core->device,
            version, state->uptime_ms / 1000, state->uptime_ms % 1000, state->jobs_completed,
            state->jobs_failed);
    size_t left_out = cli_write_targets(&core->listing, all, stream);
    if (left_out > 0)
        fprintf(stream, "%zu without any work so far; --all shows them\n", left_out);
    fputc('\n', stream);
    if (core->listing.module_count > 0) {
        write_modules(&core->listing, stream);
        fputc('\n', stream);
    }
    write_sessions(&core->listing, stream);
    fputc('\n', stream);
    cli_write_pools(core->pools, core->pool_count, stream);
}

static void write_cores(const struct monitor *monitor, FILE *stream)
{
    if (monitor->core_count == 0)
        fputs("No core runs; c7x_compute emulator start starts one\n", stream);
    for (size_t i = 0; i < monitor->core_count; i++) {
        if (i > 0)
            fputc('\n', stream);
        write_core(&monitor->cores[i], monitor->cli->options.all, stream);
    }
}

/* ---- Once ---- */

static void print_json(const struct monitor *monitor)
{
    cJSON *object = cli_json_ok();
    cJSON *cores = cJSON_AddArrayToObject(object, "cores");
    for (size_t i = 0; i < monitor->core_count; i++) {
        const struct core *core = &monitor->cores[i];
        cJSON *entry = cli_json_append(cores);
        cli_json_add_text(entry, "device", core->device);
        cli_json_add_version(entry, "version", core->state.version);
        cli_json_add_unsigned(entry, "uptime_ms", core->state.uptime_ms);
        cli_json_add_unsigned(entry, "jobs_completed", core->state.jobs_completed);
        cli_json_add_unsigned(entry, "jobs_failed", core->state.jobs_failed);
        cli_json_add_listing(entry, &core->listing);
        cli_json_add_pools(entry, core->pools, core->pool_count);
    }
    cli_json_print(object);
}

static int show_once(struct monitor *monitor)
{
    enum c7x_status status = read_cores(monitor);
    if (status != C7X_OK)
        return cli_fail_status(monitor->cli, "monitor", status);
    for (size_t i = 0; i < monitor->core_count; i++) {
        const struct core *core = &monitor->cores[i];
        if (core->status != C7X_OK)
            return cli_fail(monitor->cli, "monitor", "%s: %s", core->device, core->problem);
    }
    if (monitor->cli->options.json)
        print_json(monitor);
    else
        write_cores(monitor, stdout);
    return CLI_DONE;
}

/* ---- Live ---- */

static bool draw(struct monitor *monitor, int64_t interval_ms)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL)
        return false;
    fprintf(stream, "c7x_compute monitor: every %.1f s; q ends it\n\n", (double)interval_ms / 1e3);
    (void)read_cores(monitor); /* what cannot be seen now may be there at the next look */
    write_cores(monitor, stream);
    bool is_drawn = fclose(stream) == 0 && cli_screen_show(text);
    free(text);
    return is_drawn;
}

/* A core that has gone leaves the screen, unless the options name it. */
static void forget_gone_cores(struct monitor *monitor)
{
    size_t kept = 0;
    if (monitor->cli->options.device_count > 0)
        return;
    for (size_t i = 0; i < monitor->core_count; i++) {
        if (monitor->cores[i].client != NULL)
            monitor->cores[kept++] = monitor->cores[i];
    }
    monitor->core_count = kept;
}

static int show_live(struct monitor *monitor)
{
    const struct cli_options *options = &monitor->cli->options;
    int64_t interval_ms = options->interval_ms != 0 ? options->interval_ms : INTERVAL_MS;
    bool is_drawn;
    if (!cli_screen_begin()) {
        cli_screen_end();
        return cli_fail(monitor->cli, "monitor", "cannot use the terminal");
    }
    do {
        is_drawn = draw(monitor, interval_ms);
        forget_gone_cores(monitor);
    } while (is_drawn && cli_screen_wait(interval_ms));
    cli_screen_end();
    return is_drawn ? CLI_DONE : cli_fail(monitor->cli, "monitor", "cannot draw the screen");
}

int cli_monitor(struct cli *cli)
{
    static struct monitor monitor;
    monitor.cli = cli;
    bool is_live = !cli->options.once && !cli->options.json && isatty(STDOUT_FILENO) == 1;
    int code = is_live ? show_live(&monitor) : show_once(&monitor);
    for (size_t i = 0; i < monitor.core_count; i++)
        close_core(&monitor.cores[i]);
    return code;
}

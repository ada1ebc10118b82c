/* SPDX-License-Identifier: Apache-2.0 */
/* trace --output: records what the device does, until a signal or for a time. */
#define _POSIX_C_SOURCE 200809L
#include "record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 1 << 17, POLL_NS = 20 * 1000 * 1000, PING_POLLS = 50, NAMES_MAX = 4096 };

/* ---- Names ---- */

struct module_names {
    uint32_t handle;
    char model[64];
    struct c7x_operator_info *operators;
    size_t operator_count;
};

struct cli_names {
    struct c7x_client *client;
    struct module_names *modules;
    size_t count;
};

/* The name that the list of modules has, if the module is still there and says one. */
static void ask_model(struct c7x_client *client, struct module_names *module)
{
    struct c7x_module_info *list;
    size_t count;
    snprintf(module->model, sizeof module->model, "module %u", module->handle);
    if (c7x_client_list_modules(client, &list, &count) != C7X_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (list[i].handle == module->handle && strcmp(list[i].state, "model") != 0 &&
            list[i].name[0] != '\0')
            snprintf(module->model, sizeof module->model, "%s", list[i].name);
    c7x_list_free(list);
}

static struct module_names *find_module(struct cli_names *names, uint32_t handle)
{
    for (size_t i = names->count; i > 0; i--) /* the newest are met most */
        if (names->modules[i - 1].handle == handle)
            return &names->modules[i - 1];
    struct module_names *longer =
        names->count < NAMES_MAX
            ? realloc(names->modules, (names->count + 1) * sizeof *names->modules)
            : NULL;
    if (longer == NULL)
        return NULL;
    names->modules = longer;
    struct module_names *module = &longer[names->count++];
    *module = (struct module_names){.handle = handle};
    ask_model(names->client, module);
    if (c7x_client_list_operators(names->client, handle, &module->operators,
                                  &module->operator_count) != C7X_OK)
        module->operator_count = 0; /* it is gone already: numbers must do */
    return module;
}

const char *cli_model_name(struct cli_names *names, uint32_t handle)
{
    const struct module_names *module = find_module(names, handle);
    return module != NULL ? module->model : "a module";
}

static void operator_name(struct cli_names *names, const struct c7x_trace_event *event, char *text,
                          size_t size)
{
    const struct module_names *module = find_module(names, event->module);
    if (module != NULL && event->argument < module->operator_count)
        snprintf(text, size, "%s", module->operators[event->argument].name);
    else
        snprintf(text, size, "section %u", event->argument);
}

void cli_slice_name(struct cli_names *names, enum cli_slice_kind kind,
                    const struct c7x_trace_event *event, char *text, size_t size)
{
    switch (kind) {
    case CLI_SLICE_JOB:
        snprintf(text, size, "%s%s%s", event->request, event->module != 0 ? " " : "",
                 event->module != 0 ? cli_model_name(names, event->module) : "");
        break;
    case CLI_SLICE_CALL:
        snprintf(text, size, "%s", cli_model_name(names, event->module));
        break;
    case CLI_SLICE_OPERATOR:
        operator_name(names, event, text, size);
        break;
    case CLI_SLICE_PREEMPTED:
    case CLI_SLICE_COUNT:
        snprintf(text, size, "pre-empted");
        break;
    }
}

static void free_names(struct cli_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        c7x_list_free(names->modules[i].operators);
    free(names->modules);
}

/* ---- Recording ---- */

struct recording {
    struct cli *cli;
    struct c7x_trace *trace;
    struct cli_names names;
    struct cli_chrome chrome;
    uint32_t own_session; /* whose requests are not shown; 0: not known */
    uint64_t event_count;
    uint64_t lost;
    int64_t begin_ns;
};

static int64_t elapsed_ms(const struct recording *recording)
{
    return (cli_now_ns() - recording->begin_ns) / CLI_NS_PER_MS;
}

static uint32_t own_session(struct c7x_client *client)
{
    struct c7x_session_info *list;
    size_t count;
    uint32_t number = 0;
    if (c7x_client_list_sessions(client, &list, &count) != C7X_OK)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].process == (uint32_t)getpid())
            number = list[i].number;
    c7x_list_free(list);
    return number;
}

static void take_events(struct recording *recording)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    while (c7x_trace_next(recording->trace, &event)) {
        uint64_t lost = c7x_trace_lost(recording->trace);
        if (lost != recording->lost)
            cli_chrome_lose(&recording->chrome, lost - recording->lost, &event);
        recording->lost = lost;
        if (event.session == recording->own_session && event.event == C7X_TRACE_STATION)
            continue;
        recording->event_count++;
        cli_chrome_write(&recording->chrome, &event);
    }
}

static void show_progress(const struct recording *recording)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%" PRIu64 " events, %" PRIu64 " lost; Ctrl-C ends it ",
                recording->event_count, recording->lost);
}

/* The events are there also when the device is not; that is asked for now and then. */
static enum c7x_status record_until_end(struct recording *recording)
{
    const struct cli_options *options = &recording->cli->options;
    const struct timespec pause = {.tv_nsec = POLL_NS};
    enum c7x_status status = C7X_OK;
    for (int poll = 1; status == C7X_OK && !cli_is_stopped(); poll++) {
        if (options->has_seconds && elapsed_ms(recording) >= options->seconds_ms)
            break;
        nanosleep(&pause, NULL);
        take_events(recording);
        fflush(recording->chrome.file);
        if (poll % PING_POLLS != 0)
            continue;
        status = c7x_client_ping(recording->cli->client, NULL, NULL);
        show_progress(recording);
    }
    return status;
}

static void report(const struct recording *recording)
{
    fprintf(stderr, "%strace: %" PRIu64 " events, %" PRIu64 " lost, %.1f s: %s\n",
            isatty(STDERR_FILENO) ? "\r" : "", recording->event_count, recording->lost,
            (double)elapsed_ms(recording) / 1000, recording->cli->options.output);
}

static int record(struct recording *recording)
{
    struct cli *cli = recording->cli;
    enum c7x_status status = c7x_trace_begin(cli->client, EVENTS, &recording->trace);
    if (status != C7X_OK)
        return cli_fail_status(cli, "trace", status);
    recording->begin_ns = cli_now_ns();
    recording->chrome.core = c7x_trace_core(recording->trace);
    status = record_until_end(recording);
    enum c7x_status end_status = c7x_trace_end(recording->trace);
    take_events(recording);
    recording->lost = c7x_trace_lost(recording->trace);
    cli_chrome_end(&recording->chrome, recording->event_count, recording->lost);
    report(recording);
    status = status != C7X_OK ? status : end_status;
    return status == C7X_OK ? CLI_DONE : cli_fail_status(cli, "trace", status);
}

/* The file is there only when there is something to record into it. */
static int record_to_file(struct recording *recording)
{
    struct cli *cli = recording->cli;
    const char *path = cli->options.output;
    recording->chrome.file = fopen(path, "w");
    if (recording->chrome.file == NULL)
        return cli_fail(cli, "output", "cannot write %s: %s", path, strerror(errno));
    int code = record(recording);
    bool failed = ferror(recording->chrome.file) != 0;
    failed = fclose(recording->chrome.file) != 0 || failed;
    if (failed && code == CLI_DONE)
        code = cli_fail(cli, "output", "cannot write all of %s", path);
    return code;
}

int cli_record(struct cli *cli)
{
    static struct recording recording;
    struct c7x_target_info *targets;
    int code = cli_check_output(cli);
    if (code == CLI_DONE)
        code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status =
        c7x_client_list_targets(cli->client, &targets, &recording.chrome.target_count);
    if (status != C7X_OK)
        return cli_fail_status(cli, "trace", status);
    recording.cli = cli;
    recording.names.client = cli->client;
    recording.own_session = own_session(cli->client);
    recording.chrome.device = cli_device(cli);
    recording.chrome.targets = targets;
    recording.chrome.names = &recording.names;
    code = record_to_file(&recording);
    c7x_trace_free(recording.trace);
    free_names(&recording.names);
    c7x_list_free(targets);
    return code;
}

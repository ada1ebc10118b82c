/* SPDX-License-Identifier: Apache-2.0 */
/* emulator start|stop|restart|status: the shared emulator of the user. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the library's default, $C7X_DEVICE or the user's shared one. */
static const char *device(const struct cli *cli)
{
    return cli->options.device;
}

static int64_t deadline_ms(const struct cli *cli)
{
    return cli->options.has_deadline ? cli->options.deadline_ms : CLI_DEADLINE_MS;
}

static int report(const struct cli *cli, const char *text, const char *state)
{
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_text(object, "emulator", state);
        cli_json_print(object);
    } else {
        printf("%s\n", text);
    }
    return CLI_DONE;
}

/* An emulator takes its settings from the environment of whoever starts it. */
static void pass_settings(const struct cli *cli)
{
    if (cli->options.watchdog != NULL)
        (void)setenv("C7X_WATCHDOG", cli->options.watchdog, 1);
    if (cli->options.threads != NULL)
        (void)setenv("C7X_THREADS", cli->options.threads, 1);
    if (cli->options.guard)
        (void)setenv("C7X_GUARD", "1", 1);
}

static int start(const struct cli *cli)
{
    pass_settings(cli);
    enum c7x_status status = c7x_emulator_start(device(cli), deadline_ms(cli));
    if (status != C7X_OK)
        return cli_fail_status(cli, "emulator", status);
    return report(cli, "Emulator started", "running");
}

static int stop(const struct cli *cli)
{
    enum c7x_status status = c7x_emulator_stop(device(cli), deadline_ms(cli));
    if (status != C7X_OK)
        return cli_fail_status(cli, "emulator", status);
    return report(cli, "Emulator stopped", "stopped");
}

/* A new process, of the program as it is installed now; also when none has run. */
static int restart(const struct cli *cli)
{
    pass_settings(cli);
    enum c7x_status status = c7x_emulator_stop(device(cli), deadline_ms(cli));
    if (status == C7X_OK || status == C7X_NO_DEVICE)
        status = c7x_emulator_start(device(cli), deadline_ms(cli));
    if (status != C7X_OK)
        return cli_fail_status(cli, "emulator", status);
    return report(cli, "Emulator restarted", "running");
}

static void print_json(const struct c7x_emulator_status *state)
{
    struct cJSON *object = cli_json_ok();
    cli_json_add_text(object, "emulator", state->running ? "running" : "stopped");
    cli_json_add_text(object, "path", state->path);
    cli_json_add_unsigned(object, "pid", (uint64_t)state->pid);
    cli_json_add_unsigned(object, "core_pid", (uint64_t)state->core_pid);
    cli_json_add_unsigned(object, "core_starts", state->core_starts);
    cli_json_add_unsigned(object, "client_count", state->client_count);
    cli_json_add_unsigned(object, "carveout_total", state->carveout_total);
    cli_json_add_unsigned(object, "carveout_free", state->carveout_free);
    cli_json_add_unsigned(object, "carveout_largest", state->carveout_largest);
    cli_json_print(object);
}

static void print_text(const struct c7x_emulator_status *state)
{
    printf("Emulator: %s\n", state->running ? "running" : "stopped");
    printf("  Socket:       %s\n", state->path);
    if (!state->running)
        return;
    printf("  Supervisor:   %" PRId64 "\n", state->pid);
    printf("  Core:         %" PRId64 "\n", state->core_pid);
    printf("  Core starts:  %" PRIu32 "\n", state->core_starts);
    printf("  Clients:      %" PRIu32 "\n", state->client_count);
    printf("  Carve-out:    %" PRIu64 " of %" PRIu64 " bytes free, largest %" PRIu64 "\n",
           state->carveout_free, state->carveout_total, state->carveout_largest);
}

static int show(const struct cli *cli)
{
    struct c7x_emulator_status state = {.struct_size = sizeof state};
    enum c7x_status status = c7x_emulator_get_status(device(cli), &state);
    if (status != C7X_OK)
        return cli_fail_status(cli, "emulator", status);
    if (cli->options.json)
        print_json(&state);
    else
        print_text(&state);
    return CLI_DONE;
}

int cli_emulator(struct cli *cli)
{
    const char *verb = cli->options.positional[0];
    if (strcmp(verb, "start") == 0)
        return start(cli);
    if (strcmp(verb, "stop") == 0)
        return stop(cli);
    if (strcmp(verb, "restart") == 0)
        return restart(cli);
    if (strcmp(verb, "status") == 0)
        return show(cli);
    return cli_fail(cli, "usage", "emulator cannot %s; it knows start, stop, restart and status",
                    verb);
}

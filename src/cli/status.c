/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static void print_json(const struct c7x_client_status *state, const char *version)
{
    struct cJSON *object = cli_json_ok();
    cli_json_add_text(object, "version", version);
    cli_json_add_unsigned(object, "uptime_ms", state->uptime_ms);
    cli_json_add_unsigned(object, "jobs_completed", state->jobs_completed);
    cli_json_add_unsigned(object, "jobs_failed", state->jobs_failed);
    cli_json_print(object);
}

static void print_text(const struct c7x_client_status *state, const char *version)
{
    printf("C7x Compute Service Status:\n");
    printf("  Version:        %s\n", version);
    printf("  Uptime:         %u.%03u seconds\n", state->uptime_ms / 1000, state->uptime_ms % 1000);
    printf("  Jobs completed: %u\n", state->jobs_completed);
    printf("  Jobs failed:    %u\n", state->jobs_failed);
}

int cli_status(struct cli *cli)
{
    struct c7x_client_status state = {0};
    char version[32];
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_get_status(cli->client, &state);
    if (status != C7X_OK)
        return cli_fail_status(cli, "status", status);
    cli_format_version(state.version, version, sizeof version);
    if (cli->options.json)
        print_json(&state, version);
    else
        print_text(&state, version);
    return CLI_DONE;
}

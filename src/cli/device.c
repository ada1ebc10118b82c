/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a command talks to, and opening it. */
#include "cli.h"

#include <stdlib.h>

const char *cli_device(const struct cli *cli)
{
    const char *environment = getenv("C7X_DEVICE");
    if (cli->options.device != NULL)
        return cli->options.device;
    if (environment != NULL && environment[0] != '\0')
        return environment;
    return cli->command->private_device ? "emu" : "emu:";
}

void cli_client_options(const struct cli *cli, struct c7x_client_options *options)
{
    c7x_client_options_init(options);
    options->device = cli_device(cli);
    options->start = 1;
    options->name = "c7x_compute";
    options->priority = cli->options.priority;
    if (cli->options.has_deadline)
        options->deadline_ms = cli->options.deadline_ms;
}

int cli_fail_open(const struct cli *cli, int status)
{
    char text[CLI_MESSAGE_MAX];
    cli_describe_status(cli, "open", status, text, sizeof text);
    return cli_fail(cli, "open", "Failed to open client: %s", text);
}

int cli_open(struct cli *cli)
{
    struct c7x_client_options options;
    cli_client_options(cli, &options);
    enum c7x_status status = c7x_client_open_with(&options, &cli->client);
    if (status == C7X_OK)
        return CLI_DONE;
    cli->client = NULL;
    return cli_fail_open(cli, status);
}

void cli_close(struct cli *cli)
{
    c7x_client_close(cli->client);
    cli->client = NULL;
}

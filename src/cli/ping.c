/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static void print_ping(const struct cli *cli, const char *version, uint32_t uptime_ms)
{
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_text(object, "version", version);
        cli_json_add_unsigned(object, "uptime_ms", uptime_ms);
        cli_json_print(object);
        return;
    }
    printf("PING successful!\n  Version: %s\n  Uptime:  %u.%03u seconds\n", version,
           uptime_ms / 1000, uptime_ms % 1000);
}

int cli_ping(struct cli *cli)
{
    uint32_t version = 0;
    uint32_t uptime_ms = 0;
    char text[32];
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_ping(cli->client, &version, &uptime_ms);
    if (status != C7X_OK) {
        if (!cli->options.json)
            printf("PING failed: %s\n", c7x_strerror(status));
        return cli_fail_status(cli, "ping", status);
    }
    cli_format_version(version, text, sizeof text);
    print_ping(cli, text, uptime_ms);
    return CLI_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_unload(struct cli *cli)
{
    uint32_t handle = 0;
    int code = cli_parse_argument(cli, 0, "HANDLE", &handle);
    if (code == CLI_DONE)
        code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_dyn_unload(cli->client, handle);
    if (status != C7X_OK)
        return cli_fail_status(cli, "unload", status);
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_unsigned(object, "handle", handle);
        cli_json_print(object);
    } else {
        printf("Module unloaded: handle=%u\n", handle);
    }
    return CLI_DONE;
}

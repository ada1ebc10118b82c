/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_load(struct cli *cli)
{
    uint32_t handle = 0;
    const char *path = cli_module_path(cli);
    if (path == NULL)
        return CLI_USAGE;
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_dyn_load_flags(cli->client, path, C7X_LOAD_KEEP, &handle);
    if (status != C7X_OK)
        return cli_fail_status(cli, "load", status);
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_unsigned(object, "handle", handle);
        cli_json_print(object);
    } else {
        printf("Module loaded successfully: handle=%u\n", handle);
    }
    return CLI_DONE;
}

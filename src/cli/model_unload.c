/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_model_unload(struct cli *cli)
{
    uint32_t model_id = 0;
    int code = cli_parse_argument(cli, 0, "ID", &model_id);
    if (code == CLI_DONE)
        code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_model_unload(cli->client, model_id);
    if (status != C7X_OK)
        return cli_fail_status(cli, "unload", status);
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_unsigned(object, "model_id", model_id);
        cli_json_print(object);
    } else {
        printf("Model unloaded: model_id=%u\n", model_id);
    }
    return CLI_DONE;
}

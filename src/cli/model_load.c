/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static const char *find_path(const struct cli *cli)
{
    const struct cli_options *options = &cli->options;
    if (options->model != NULL && options->positional_count == 0)
        return options->model;
    if (options->model == NULL && options->positional_count == 1)
        return options->positional[0];
    cli_fail(cli, "usage", "model-load needs one file; see c7x_compute model-load --help");
    return NULL;
}

int cli_model_load(struct cli *cli)
{
    uint32_t model_id = 0;
    const char *path = find_path(cli);
    if (path == NULL)
        return CLI_USAGE;
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status =
        c7x_client_model_load_flags(cli->client, path, C7X_LOAD_KEEP, &model_id);
    if (status != C7X_OK)
        return cli_fail_status(cli, "load", status);
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_unsigned(object, "model_id", model_id);
        cli_json_print(object);
    } else {
        printf("Model loaded successfully: model_id=%u\n", model_id);
    }
    return CLI_DONE;
}

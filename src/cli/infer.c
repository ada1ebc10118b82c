/* SPDX-License-Identifier: Apache-2.0 */
/* infer: runs a module that another process has loaded, so this client knows nothing about it but
 * its handle. */
#include "cli.h"

struct call {
    struct cli_request request;
    struct c7x_module_declaration *declaration;
    struct cli_inputs inputs;
    struct cli_outputs outputs;
};

static int parse_call(struct cli *cli, struct call *call)
{
    struct cli_options *options = &cli->options;
    if (options->model != NULL && options->positional_count == 2)
        return cli_fail(cli, "usage", "the model is named twice");
    if (options->model != NULL)
        options->positional[options->positional_count++] = options->model;
    int code = cli_parse_argument(cli, 0, "HANDLE", &call->request.handle);
    if (code == CLI_DONE && options->positional_count == 2)
        code = cli_parse_argument(cli, 1, "MODEL", &call->request.model_id);
    if (code == CLI_DONE && options->input_count == 0 && options->module == NULL)
        code = cli_fail(cli, "usage", "infer needs --input, or --module to generate inputs for");
    call->request.repeat = options->repeat != 0 ? options->repeat : 1;
    call->request.output_bytes = options->output_bytes;
    return code;
}

static int prepare(struct cli *cli, struct call *call)
{
    int code = CLI_DONE;
    if (cli->options.module != NULL)
        code = cli_read_declaration(cli, cli->options.module, &call->declaration);
    if (code == CLI_DONE)
        code = cli_check_output(cli);
    if (code == CLI_DONE)
        code = cli_prepare_inputs(cli, call->declaration, &call->inputs);
    return code;
}

static void print_result(const struct cli *cli, const struct cli_outputs *outputs)
{
    if (cli->options.json) {
        cli_json_print(cli_json_result(outputs));
        return;
    }
    printf("Inference complete: %llu cycles\n", (unsigned long long)outputs->cycles);
    printf("  Outputs: %d\n", outputs->count);
    if (cli->options.output != NULL)
        printf("  Written %llu bytes (%d tensors) to %s\n",
               (unsigned long long)cli_output_bytes(outputs), outputs->count, cli->options.output);
}

static int call_device(struct cli *cli, struct call *call)
{
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = cli_infer_tensors(cli, &call->request, &call->inputs, &call->outputs);
    if (status != C7X_OK)
        return cli_fail_status(cli, "infer", status);
    code = cli_write_outputs(cli, &call->outputs);
    if (code == CLI_DONE)
        print_result(cli, &call->outputs);
    return code;
}

int cli_infer(struct cli *cli)
{
    static struct call call;
    int code = parse_call(cli, &call);
    if (code == CLI_DONE)
        code = prepare(cli, &call);
    if (code == CLI_DONE)
        code = call_device(cli, &call);
    cli_free_inputs(&call.inputs);
    c7x_module_declaration_free(call.declaration);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What `run` and `profile` have in common: load, infer, unload; and what other commands need of
 * it. */
#include "cli.h"

const char *cli_module_path(const struct cli *cli)
{
    const struct cli_options *options = &cli->options;
    if (options->module != NULL && options->positional_count > 0)
        cli_fail(cli, "usage", "the module is named twice: %s and --module %s",
                 options->positional[0], options->module);
    else if (options->module != NULL)
        return options->module;
    else if (options->positional_count > 0)
        return options->positional[0];
    else
        cli_fail(cli, "usage", "%s needs a module; see c7x_compute %s --help", cli->command->name,
                 cli->command->name);
    return NULL;
}

/*
 * A file that the host cannot make sense of is still left to the device, which knows more kinds,
 * unless the declaration is needed to make inputs.
 */
int cli_read_declaration(const struct cli *cli, const char *path,
                         struct c7x_module_declaration **out_declaration)
{
    enum c7x_status status = c7x_module_declaration_read(path, out_declaration);
    bool has_input = cli->options.input_count > 0;
    if (status == C7X_OK || status == C7X_SYMBOL || (status == C7X_LOAD && has_input))
        return CLI_DONE;
    return cli_fail_status(cli, "load", status);
}

int cli_job_load(struct cli *cli, struct cli_job *job)
{
    enum c7x_status status = c7x_client_dyn_load(cli->client, job->module_path, &job->handle);
    if (status == C7X_OK && cli->options.model != NULL)
        status = c7x_client_model_load(cli->client, cli->options.model, &job->model_id);
    return status == C7X_OK ? CLI_DONE : cli_fail_status(cli, "load", status);
}

enum c7x_status cli_infer_tensors(struct cli *cli, const struct cli_request *request,
                                  const struct cli_inputs *inputs, struct cli_outputs *outputs)
{
    int count = C7X_CLIENT_OUTPUTS_MAX;
    enum c7x_status status = C7X_OK;
    if (request->output_bytes != 0)
        status = c7x_client_reserve_io(
            cli->client, cli_buffer_bytes(inputs->tensors, inputs->count), request->output_bytes);
    if (status == C7X_OK)
        status =
            c7x_client_infer_flags(cli->client, request->handle, request->model_id, inputs->tensors,
                                   inputs->count, outputs->tensors, &count, &outputs->cycles,
                                   (request->repeat & C7X_INFER_REPEAT_MASK) | request->flags);
    if (status == C7X_OK)
        outputs->count = count;
    return status;
}

int cli_job_infer(struct cli *cli, struct cli_job *job, uint32_t repeat)
{
    const struct cli_request request = {
        .handle = job->handle, .model_id = job->model_id, .repeat = repeat};
    enum c7x_status status = cli_infer_tensors(cli, &request, &job->inputs, &job->outputs);
    return status == C7X_OK ? CLI_DONE : cli_fail_status(cli, "infer", status);
}

int cli_job_unload(struct cli *cli, const struct cli_job *job)
{
    enum c7x_status status = c7x_client_dyn_unload(cli->client, job->handle);
    if (status == C7X_OK && job->model_id != 0)
        status = c7x_client_model_unload(cli->client, job->model_id);
    return status == C7X_OK ? CLI_DONE : cli_fail_status(cli, "unload", status);
}

/* What can be known before a device is opened is checked before. */
int cli_job_prepare(struct cli *cli, struct cli_job *job)
{
    job->module_path = cli_module_path(cli);
    if (job->module_path == NULL)
        return CLI_USAGE;
    int code = cli_read_declaration(cli, job->module_path, &job->declaration);
    if (code == CLI_DONE)
        code = cli_check_output(cli);
    if (code == CLI_DONE)
        code = cli_prepare_inputs(cli, job->declaration, &job->inputs);
    return code;
}

void cli_job_free(struct cli_job *job)
{
    cli_free_inputs(&job->inputs);
    c7x_module_declaration_free(job->declaration);
}

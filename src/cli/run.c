/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

static int run_on_device(struct cli *cli, struct cli_job *job)
{
    int code = cli_open(cli);
    if (code == CLI_DONE)
        code = cli_job_load(cli, job);
    if (code == CLI_DONE)
        code = cli_job_infer(cli, job, cli->options.repeat != 0 ? cli->options.repeat : 1);
    if (code == CLI_DONE)
        code = cli_write_outputs(cli, &job->outputs);
    if (code == CLI_DONE)
        code = cli_job_unload(cli, job);
    return code;
}

int cli_run(struct cli *cli)
{
    static struct cli_job job;
    int code = cli_job_prepare(cli, &job);
    if (code == CLI_DONE)
        code = run_on_device(cli, &job);
    if (code == CLI_DONE)
        cli_json_print(cli_json_result(&job.outputs));
    cli_job_free(&job);
    return code;
}

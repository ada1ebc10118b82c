/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

int cli_run(struct cli *cli)
{
    return cli_run_job(cli, 1);
}

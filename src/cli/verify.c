/* SPDX-License-Identifier: Apache-2.0 */
/* verify: whether a device would load a module; needs no device. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

static void print_answer(const struct cli *cli, const struct c7x_inspection *inspection)
{
    uint64_t heap = inspection->bytes.load + inspection->bytes.workspace;
    if (!cli->options.json) {
        printf("%s loads and fits: %" PRIu64 " of %" PRIu64 " bytes of heap\n", inspection->machine,
               heap, inspection->bytes.heap_total);
        return;
    }
    cJSON *object = cli_json_ok();
    cli_json_add_text(object, "machine", inspection->machine);
    cli_json_add_text(object, "device", inspection->device);
    cli_json_add_unsigned(object, "heap_bytes", heap);
    cli_json_add_unsigned(object, "heap_total", inspection->bytes.heap_total);
    cli_json_print(object);
}

int cli_verify(struct cli *cli)
{
    const struct c7x_inspection *inspection = NULL;
    int code = cli_inspect_file(cli, &inspection);
    if (code != CLI_DONE)
        return code;
    if (inspection->status != C7X_OK)
        code = cli_fail(cli, "verify", "%s", inspection->reason);
    else
        print_answer(cli, inspection);
    c7x_inspection_free(inspection);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* reset: a new core for the shared emulator; whoever was connected has to open it again. */
#include "cli.h"

#include <inttypes.h>

int cli_reset(struct cli *cli)
{
    struct c7x_emulator_status state = {.struct_size = sizeof state};
    const char *device = cli->options.device; /* NULL: the library's default */
    int64_t deadline_ms = cli->options.has_deadline ? cli->options.deadline_ms : CLI_DEADLINE_MS;
    enum c7x_status status = c7x_emulator_get_status(device, &state);
    if (status == C7X_OK)
        status = c7x_emulator_reset(device, deadline_ms);
    if (status != C7X_OK)
        return cli_fail_status(cli, "reset", status);
    if (cli->options.json) {
        struct cJSON *object = cli_json_ok();
        cli_json_add_text(object, "path", state.path);
        cli_json_add_unsigned(object, "client_count", state.client_count);
        cli_json_print(object);
        return CLI_DONE;
    }
    printf("Device reset: %s\n", state.path);
    printf("  Clients that must open it again: %" PRIu32 "\n", state.client_count);
    return CLI_DONE;
}

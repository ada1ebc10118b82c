/* SPDX-License-Identifier: Apache-2.0 */
/* status: what the device has done, and whether it is the firmware that is installed. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { VERSION_MAX = 48 };

/* An update leaves the old program running; "": not known, as with one of our own. */
struct versions {
    char running[VERSION_MAX];
    char installed[VERSION_MAX];
    bool differ;
};

static void read_versions(const struct cli *cli, struct versions *versions)
{
    struct c7x_emulator_status state = {.struct_size = sizeof state};
    const char *device = cli_device(cli);
    *versions = (struct versions){.differ = false};
    if (strncmp(device, "emu:", 4) != 0 || c7x_emulator_get_status(device, &state) != C7X_OK ||
        c7x_emulator_get_installed_version(versions->installed, VERSION_MAX) != C7X_OK)
        return;
    memcpy(versions->running, state.version, VERSION_MAX);
    versions->differ = strcmp(versions->running, versions->installed) != 0;
}

static void print_json(const struct c7x_client_status *state, const struct versions *versions)
{
    struct cJSON *object = cli_json_ok();
    cli_json_add_version(object, "version", state->version);
    cli_json_add_unsigned(object, "uptime_ms", state->uptime_ms);
    cli_json_add_unsigned(object, "jobs_completed", state->jobs_completed);
    cli_json_add_unsigned(object, "jobs_failed", state->jobs_failed);
    cli_json_add_text_or_null(object, "running_firmware", versions->running);
    cli_json_add_text_or_null(object, "installed_firmware", versions->installed);
    cJSON_AddBoolToObject(object, "restart_needed", versions->differ);
    cli_json_print(object);
}

static void print_text(const struct c7x_client_status *state, const struct versions *versions)
{
    char version[32];
    cli_format_version(state->version, version, sizeof version);
    printf("C7x Compute Service Status:\n");
    printf("  Version:        %s\n", version);
    printf("  Uptime:         %u.%03u seconds\n", state->uptime_ms / 1000, state->uptime_ms % 1000);
    printf("  Jobs completed: %u\n", state->jobs_completed);
    printf("  Jobs failed:    %u\n", state->jobs_failed);
    if (versions->running[0] == '\0')
        return;
    printf("  Firmware:       %s\n", versions->running);
    printf("  Installed:      %s\n", versions->installed);
}

int cli_status(struct cli *cli)
{
    struct c7x_client_status state = {0};
    struct versions versions;
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status = c7x_client_get_status(cli->client, &state);
    if (status != C7X_OK)
        return cli_fail_status(cli, "status", status);
    read_versions(cli, &versions);
    if (cli->options.json) {
        print_json(&state, &versions);
    } else {
        print_text(&state, &versions);
        if (versions.differ)
            printf("  restart needed: c7x_compute emulator restart --device %s\n", cli_device(cli));
    }
    return CLI_DONE;
}

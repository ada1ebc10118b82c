/* SPDX-License-Identifier: Apache-2.0 */
/* scan: which devices there are, in which state, and what changes it; starts nothing. */
#include "cli.h"

#include <cjson/cJSON.h>

static void print_json(const struct c7x_device_info *list, size_t count)
{
    cJSON *object = cli_json_ok();
    cJSON *devices = cJSON_AddArrayToObject(object, "devices");
    for (size_t i = 0; i < count; i++) {
        cJSON *device = cli_json_append(devices);
        cli_json_add_text(device, "device", list[i].device);
        cli_json_add_text(device, "state", list[i].state);
        cli_json_add_version(device, "version", list[i].version);
        cli_json_add_text(device, "reason", list[i].reason);
        cli_json_add_text(device, "next_step", list[i].next_step);
    }
    cli_json_print(object);
}

static void print_text(const struct c7x_device_info *list, size_t count)
{
    static const char *const heads[] = {"DEVICE", "STATE", "VERSION", "REASON", "NEXT STEP"};
    struct cli_table table;
    cli_table_begin(&table, heads, 5);
    for (size_t i = 0; i < count; i++) {
        char version[32] = "-";
        if (list[i].version != 0)
            cli_format_version(list[i].version, version, sizeof version);
        cli_table_text(&table, list[i].device);
        cli_table_text(&table, list[i].state);
        cli_table_text(&table, version);
        cli_table_text(&table, list[i].reason);
        cli_table_text(&table, list[i].next_step[0] != '\0' ? list[i].next_step : "-");
    }
    cli_table_print(&table);
}

int cli_scan(struct cli *cli)
{
    struct c7x_device_info *list = NULL;
    size_t count = 0;
    enum c7x_status status = c7x_device_scan(&list, &count);
    if (status != C7X_OK)
        return cli_fail_status(cli, "scan", status);
    if (cli->options.json)
        print_json(list, count);
    else
        print_text(list, count);
    c7x_list_free(list);
    return CLI_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How failures are reported: one line on stderr, and the error object on stdout where a program
 * reads it. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <string.h>

bool cli_prints_json(const struct cli *cli)
{
    return cli->command != NULL &&
           (cli->options.json || (cli->command->always_json && !cli->options.table));
}

/* Control characters would break the promise of one line, or command the terminal (so do C1 ones,
 * C2 80 to C2 9F); what is no UTF-8 may do anything. */
static void make_one_line(char *text)
{
    while (*text != '\0') {
        int length = cli_utf8_length((const unsigned char *)text);
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = ' ';
        if (length == 0 || (length == 2 && text[0] == '\xC2' && (unsigned char)text[1] < 0xA0))
            memset(text, '?', length == 0 ? 1 : 2);
        text += length == 0 ? 1 : length;
    }
}

static cJSON *json_error(const char *stage, const char *text)
{
    cJSON *object = cJSON_CreateObject();
    cli_json_add_text(object, "status", "error");
    cli_json_add_text(object, "stage", stage);
    cli_json_add_text(object, "error", text);
    return object;
}

int cli_fail_with(const struct cli *cli, cJSON *object, const char *stage, const char *text)
{
    if (cli_prints_json(cli))
        cli_json_print(object);
    else
        cJSON_Delete(object);
    fflush(stdout);
    fprintf(stderr, "c7x_compute: %s: %s\n", stage, text);
    return strcmp(stage, "usage") == 0 ? CLI_USAGE : CLI_FAILED;
}

int cli_fail(const struct cli *cli, const char *stage, const char *format, ...)
{
    char text[CLI_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    make_one_line(text);
    return cli_fail_with(cli, json_error(stage, text), stage, text);
}

/* "load failed: Out of memory (requested 1.0 MB, 0.5 MB free of 2.0 MB): " if the device ran out of
 * memory. */
static size_t describe_oom(const struct cli *cli, const char *stage, int status, char *text,
                           size_t size)
{
    uint32_t requested;
    uint32_t free_bytes;
    uint32_t total;
    if (status != C7X_NOMEM || cli->client == NULL ||
        !c7x_client_get_last_oom(cli->client, &requested, &free_bytes, &total))
        return 0;
    int length =
        snprintf(text, size,
                 "%s failed: Out of memory (requested %.1f MB, %.1f MB free of %.1f MB): ", stage,
                 requested / 1e6, free_bytes / 1e6, total / 1e6);
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

void cli_describe_status(const struct cli *cli, const char *stage, int status, char *text,
                         size_t size)
{
    size_t used = describe_oom(cli, stage, status, text, size);
    const char *why = c7x_client_last_error(cli->client);
    if (why[0] == '\0')
        why = c7x_strerror(status);
    snprintf(text + used, size - used, "%s (%s: %s)", why, c7x_status_name(status),
             c7x_status_next_step(status));
}

int cli_fail_status(const struct cli *cli, const char *stage, int status)
{
    char text[CLI_MESSAGE_MAX];
    cli_describe_status(cli, stage, status, text, sizeof text);
    return cli_fail(cli, stage, "%s", text);
}

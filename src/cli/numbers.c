/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, strictly: the whole text or nothing. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>

bool cli_parse_u64(const char *text, uint64_t max, uint64_t *out_value)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out_value = value;
    return true;
}

int cli_parse_argument(const struct cli *cli, int index, const char *what, uint32_t *out_value)
{
    uint64_t value;
    if (!cli_parse_u64(cli->options.positional[index], UINT32_MAX, &value))
        return cli_fail(cli, "usage", "%s is not a number: %s", what,
                        cli->options.positional[index]);
    *out_value = (uint32_t)value;
    return CLI_DONE;
}

bool cli_parse_seconds(const char *text, int64_t *out_ms)
{
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(seconds >= -1 && seconds <= 1e9))
        return false;
    if (seconds < 0 && seconds > -1)
        return false;
    *out_ms = seconds < 0 ? -1 : (int64_t)(seconds * 1000);
    return true;
}

void cli_format_version(uint32_t version, char *text, size_t size)
{
    snprintf(text, size, "%u.%u.%u", version >> 16 & 0xFF, version >> 8 & 0xFF, version & 0xFF);
}

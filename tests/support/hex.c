/* SPDX-License-Identifier: Apache-2.0 */
#include "support/hex.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

size_t c7x_test_read_hex(const char *path, uint8_t *bytes, size_t capacity)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    size_t count = 0;
    if (file == NULL)
        fail_msg("cannot open %s", path);
    while (fgets(line, sizeof line, file) != NULL)
        for (const char *at = line; *at != '\0' && *at != '#';) {
            unsigned value;
            if (isspace((unsigned char)*at)) {
                at++;
                continue;
            }
            if (sscanf(at, "%2x", &value) != 1 || !isxdigit((unsigned char)at[1]) ||
                count == capacity)
                fail_msg("%s: not hex, or too long: %s", path, line);
            bytes[count++] = (uint8_t)value;
            at += 2;
        }
    fclose(file);
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reloc_vectors FILE.csv: checks the C7x field encoder against rows of
 *
 *   type, S (hex), A (decimal), P (hex), container before (hex), container after (hex) | overflow |
 * invalid
 *
 * A container is a little-endian word of 4, 8 or 16 hex digits. The first row names the columns.
 * Prints each row that fails, and at the end "N passed, N failed".
 */
#include "firmware/loader/arch/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    struct c7x_relocation relocation;
    unsigned width; /* bytes of the container */
    uint64_t before;
    char after[32];
};

/* Cuts the line at its commas; false unless there are six parts. */
static int split(char *line, char *parts[6])
{
    int count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *part = strtok(line, ","); part != NULL && count < 6; part = strtok(NULL, ","))
        parts[count++] = part;
    return count == 6;
}

static int parse(char *line, struct row *row)
{
    char *parts[6];
    if (!split(line, parts) || strlen(parts[5]) >= sizeof row->after)
        return 0;
    memset(row, 0, sizeof *row);
    row->relocation.type = (uint32_t)strtoul(parts[0], NULL, 10);
    row->relocation.symbol = strtoull(parts[1], NULL, 16);
    row->relocation.addend = strtoll(parts[2], NULL, 10);
    row->relocation.place = strtoull(parts[3], NULL, 16);
    row->width = (unsigned)strlen(parts[4]) / 2;
    row->before = strtoull(parts[4], NULL, 16);
    strcpy(row->after, parts[5]);
    return row->width == 2 || row->width == 4 || row->width == 8;
}

/* What the encoder makes of the row, as the last column spells it. */
static void encode(const struct row *row, char *text, size_t text_size)
{
    uint8_t bytes[8] = {0};
    uint64_t word = 0;
    for (unsigned i = 0; i < row->width; i++)
        bytes[i] = (uint8_t)(row->before >> 8 * i);
    switch (c7x_arch_c7x.relocate(&row->relocation, bytes)) {
    case C7X_RELOCATION_OVERFLOW:
        snprintf(text, text_size, "overflow");
        return;
    case C7X_RELOCATION_UNSUPPORTED:
        snprintf(text, text_size, "invalid");
        return;
    case C7X_RELOCATION_DONE:
        break;
    }
    for (unsigned i = row->width; i-- > 0;)
        word = word << 8 | bytes[i];
    snprintf(text, text_size, "%0*" PRIx64, (int)(2 * row->width), word);
}

static int check(FILE *file, const char *name)
{
    char line[256];
    struct row row;
    unsigned passed = 0;
    unsigned failed = 0;
    for (unsigned number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        char got[32];
        if (strncmp(line, "type,", 5) == 0 || line[0] == '\n')
            continue;
        if (!parse(line, &row)) {
            printf("%s:%u: not a row of six columns\n", name, number);
            failed++;
            continue;
        }
        encode(&row, got, sizeof got);
        if (strcmp(got, row.after) == 0) {
            passed++;
            continue;
        }
        failed++;
        printf("%s:%u: type %u: expected %s, got %s\n", name, number, row.relocation.type,
               row.after, got);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL) {
        fprintf(stderr, "Usage: reloc_vectors FILE.csv\n");
        return 2;
    }
    int code = check(file, argv[1]);
    fclose(file);
    return code;
}

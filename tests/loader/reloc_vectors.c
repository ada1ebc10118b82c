/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reloc_vectors FILE.csv: checks the C7x field encoder against rows of
 *
 *   type, S (hex), A (decimal), P (hex), container before (hex), container after (hex) | overflow |
 * invalid
 *
 * A container is a little-endian word of 4, 8 or 16 hex digits, as its type has it; NONE and types
 * that there are not take any. The first row names the columns. Prints each row that fails or is
 * none, and at the end "N passed, N failed"; exit code 0 if none failed, and there was one.
 */
#include "firmware/loader/arch/arch.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct row {
    struct c7x_relocation relocation;
    unsigned width; /* bytes of the container */
    uint64_t before;
    char after[32];
};

/* Cuts the line at its commas; false unless there are six parts. */
static bool split(char *line, char *parts[6])
{
    int count = 1;
    parts[0] = line;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *comma = strchr(line, ','); comma != NULL; comma = strchr(comma, ',')) {
        *comma++ = '\0';
        if (count == 6)
            return false;
        parts[count++] = comma;
    }
    return count == 6;
}

/* A whole number, hex with or without 0x; false for anything else. */
static bool parse_unsigned(const char *text, int base, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, base);
    return isalnum((unsigned char)text[0]) && *end == '\0' && errno == 0 && *out <= max;
}

static bool parse_signed(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return (isdigit((unsigned char)text[0]) || text[0] == '-') && *end == '\0' && errno == 0;
}

/* As many hex digits as the container has. */
static bool parse_container(const char *text, unsigned width, uint64_t *out)
{
    return strlen(text) == 2 * width && strspn(text, "0123456789abcdefABCDEF") == 2 * width &&
           parse_unsigned(text, 16, UINT64_MAX, out);
}

static bool parse_after(const char *text, struct row *row)
{
    uint64_t word;
    if (strcmp(text, "overflow") != 0 && strcmp(text, "invalid") != 0 &&
        !parse_container(text, row->width, &word))
        return false;
    for (size_t i = 0; i <= strlen(text); i++) /* at most 16 characters */
        row->after[i] = (char)tolower((unsigned char)text[i]);
    return true;
}

static bool parse(char *line, struct row *row)
{
    char *parts[6];
    uint64_t type;
    size_t type_width;
    memset(row, 0, sizeof *row);
    if (!split(line, parts) || !parse_unsigned(parts[0], 10, UINT32_MAX, &type) ||
        !parse_unsigned(parts[1], 16, UINT64_MAX, &row->relocation.symbol) ||
        !parse_signed(parts[2], &row->relocation.addend) ||
        !parse_unsigned(parts[3], 16, UINT64_MAX, &row->relocation.place))
        return false;
    row->relocation.type = (uint32_t)type;
    row->width = (unsigned)strlen(parts[4]) / 2;
    type_width = c7x_arch_c7x.relocation_width(row->relocation.type);
    return (row->width == 2 || row->width == 4 || row->width == 8) &&
           (type == 0 || type_width == 0 || type_width == row->width) &&
           parse_container(parts[4], row->width, &row->before) && parse_after(parts[5], row);
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
    char line[256] = "";
    struct row row;
    unsigned passed = 0;
    unsigned failed = 0;
    for (unsigned number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        char got[32];
        size_t length = strlen(line);
        if (strncmp(line, "type,", 5) == 0 || line[strspn(line, "\r\n")] == '\0')
            continue;
        if ((line[length - 1] != '\n' && !feof(file)) || !parse(line, &row)) {
            printf("%s:%u: not a row of type, S, A, P, word before and word after\n", name, number);
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
    if (ferror(file))
        fprintf(stderr, "reloc_vectors: cannot read %s: %s\n", name, strerror(errno));
    else if (passed + failed == 0)
        fprintf(stderr, "reloc_vectors: %s has no rows\n", name);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0 || passed == 0 || ferror(file);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "Usage: reloc_vectors FILE.csv\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "r");
    if (file == NULL) {
        fprintf(stderr, "reloc_vectors: cannot open %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    int code = check(file, argv[1]);
    fclose(file);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as their longest cell, numbers to the right. */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void cli_table_begin(struct cli_table *table, const char *const *heads, size_t column_count)
{
    *table = (struct cli_table){.column_count = column_count};
    for (size_t i = 0; i < column_count; i++)
        cli_table_text(table, heads[i]);
}

static bool make_room(struct cli_table *table)
{
    if (table->cell_count < table->room)
        return true;
    size_t room = table->room * 2 + CLI_TABLE_COLUMNS_MAX;
    char **larger = realloc(table->cells, room * sizeof *larger);
    if (larger == NULL)
        return false;
    table->cells = larger;
    table->room = room;
    return true;
}

/* Control characters in a name would break the table, or reach a terminal. */
static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7F)
            *text = '?';
    }
}

void cli_table_text(struct cli_table *table, const char *text)
{
    size_t length = strlen(text);
    char *cell = make_room(table) ? malloc(length + 1) : NULL;
    if (cell == NULL) {
        table->lacks_memory = true;
        return;
    }
    memcpy(cell, text, length + 1);
    clean(cell);
    size_t *width = &table->widths[table->cell_count % table->column_count];
    if (length > *width)
        *width = length;
    table->cells[table->cell_count++] = cell;
}

void cli_table_unsigned(struct cli_table *table, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    table->is_number[table->cell_count % table->column_count] = true;
    cli_table_text(table, text);
}

void cli_table_decimal(struct cli_table *table, double value, int decimals)
{
    char text[64];
    snprintf(text, sizeof text, "%.*f", decimals, value);
    table->is_number[table->cell_count % table->column_count] = true;
    cli_table_text(table, text);
}

static void write_cell(const struct cli_table *table, size_t index, FILE *stream)
{
    size_t column = index % table->column_count;
    int width = (int)table->widths[column];
    if (table->is_number[column])
        fprintf(stream, "%*s", width, table->cells[index]);
    else if (column + 1 < table->column_count)
        fprintf(stream, "%-*s", width, table->cells[index]);
    else
        fputs(table->cells[index], stream);
    fputs(column + 1 < table->column_count ? "  " : "\n", stream);
}

void cli_table_write(struct cli_table *table, FILE *stream)
{
    for (size_t i = 0; i < table->cell_count && !table->lacks_memory; i++)
        write_cell(table, i, stream);
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    if (table->lacks_memory)
        fputs("(no memory for the table)\n", stream);
    free(table->cells);
    *table = (struct cli_table){0};
}

void cli_table_print(struct cli_table *table)
{
    cli_table_write(table, stdout);
}

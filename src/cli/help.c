/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <string.h>

void cli_print_usage(FILE *stream)
{
    fprintf(stream, "Usage: c7x_compute COMMAND [ARGUMENTS] [OPTIONS]\n"
                    "Run compiled neural networks on a C7x DSP, or on its emulator.\n\n");
    for (int i = 0; i < cli_command_count; i++) {
        char usage[64];
        snprintf(usage, sizeof usage, "%s %s", cli_commands[i].name, cli_commands[i].arguments);
        fprintf(stream, "  %-28s %s\n", usage, cli_commands[i].summary);
    }
    fprintf(stream, "\n  c7x_compute COMMAND --help    explains a command and its options\n"
                    "  c7x_compute --version         prints the version\n\n"
                    "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static void print_errors(void)
{
    printf("%-12s %5s  %-6s %s\n", "NAME", "CODE", "RETRY", "MEANING; WHAT TO DO");
#define PRINT_ERROR(name, code, text, retry, next)                                                 \
    printf("%-12s %5d  %-6s %s; %s\n", #name, code, (retry) ? "yes" : "no", text, next);
    C7X_STATUS_TABLE(PRINT_ERROR)
#undef PRINT_ERROR
}

enum { MDOC_LINE_MAX = 78 };

void cli_print_mdoc_text(const char *text, FILE *stream)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > MDOC_LINE_MAX) {
            fputc('\n', stream);
            column = 0;
        }
        if (column == 0 && (*text == '.' || *text == '\'')) /* it would be a macro there */
            fputs("\\&", stream);
        fprintf(stream, "%s%.*s", column > 0 ? " " : "", (int)length, text);
        column += length + (column > 0);
        if (text[length - 1] == '.' && text[length] == ' ') {
            fputc('\n', stream);
            column = 0;
        }
        text += length + (text[length] == ' ');
    }
    fputc('\n', stream);
}

static void print_error_manual(FILE *stream)
{
    fputs(".Bl -tag -width Ds\n", stream);
#define PRINT_ERROR(name, code, text, retry, next)                                                 \
    fprintf(stream, ".It Sy %s Pq %d\n", #name, code);                                             \
    cli_print_mdoc_text(text "; " next ".", stream);
    C7X_STATUS_TABLE(PRINT_ERROR)
#undef PRINT_ERROR
    fputs(".El\n", stream);
}

int cli_help(struct cli *cli)
{
    if (cli->options.positional_count == 0) {
        cli_print_usage(stdout);
        return CLI_DONE;
    }
    const char *topic = cli->options.positional[0];
    const struct cli_command *command = cli_find_command(topic);
    if (command != NULL)
        cli_print_command_help(command, stdout);
    else if (strcmp(topic, "errors") == 0)
        print_errors();
    else if (strcmp(topic, "mdoc-options") == 0) /* these two for the manual page */
        cli_print_option_manual(stdout);
    else if (strcmp(topic, "mdoc-errors") == 0)
        print_error_manual(stdout);
    else
        return cli_fail(cli, "usage", "Unknown command: %s; see c7x_compute help", topic);
    return CLI_DONE;
}

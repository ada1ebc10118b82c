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
    else if (strcmp(topic, "mdoc-options") == 0) /* for the manual page */
        cli_print_option_manual(stdout);
    else
        return cli_fail(cli, "usage", "Unknown command: %s; see c7x_compute help", topic);
    return CLI_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* c7x_compute COMMAND [OPTIONS]: finds the command, parses its options, runs it. */
#include "cli.h"

#include <errno.h>
#include <string.h>

static int run_command(struct cli *cli, int argc, char **argv)
{
    int code = cli_parse_options(cli, argc, argv);
    if (code != CLI_DONE)
        return code;
    if (cli->options.help) {
        cli_print_command_help(cli->command, stdout);
        return CLI_DONE;
    }
    code = cli->command->run(cli);
    fflush(stdout); /* closing may wait for what runs on the device */
    cli_close(cli);
    return code;
}

static bool is_word(const char *word, const char *long_option, const char *short_option)
{
    return strcmp(word, long_option) == 0 || strcmp(word, short_option) == 0;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
    if (argc < 2) {
        cli_print_usage(stdout);
        return cli_fail(cli, "usage", "no command");
    }
    if (is_word(argv[1], "--help", "-h")) {
        cli_print_usage(stdout);
        return CLI_DONE;
    }
    if (is_word(argv[1], "--version", "-V")) {
        printf("c7x_compute %s\n", c7x_client_version());
        return CLI_DONE;
    }
    cli->command = cli_find_command(argv[1]);
    if (cli->command == NULL)
        return cli_fail(cli, "usage", "Unknown command: %s; see c7x_compute help", argv[1]);
    return run_command(cli, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    static struct cli cli;
    int code = dispatch(&cli, argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        fprintf(stderr, "c7x_compute: output: cannot write to stdout: %s\n", strerror(errno));
        return code == CLI_DONE ? CLI_FAILED : code;
    }
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* trace: the firmware's log so far, then what comes, until a signal; or events (record.c). */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <signal.h>
#include <time.h>

enum { TEXT_SIZE = 1 << 14, POLL_NS = 500 * 1000 * 1000 };

static volatile sig_atomic_t stop_requested;

static void request_stop(int number)
{
    (void)number;
    stop_requested = 1;
}

bool cli_is_stopped(void)
{
    return stop_requested != 0;
}

/* Without SA_RESTART: the signal must end the sleep. */
void cli_catch_signals(void)
{
    struct sigaction action = {.sa_handler = request_stop};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static enum c7x_status print_new(struct cli *cli, uint64_t *position)
{
    char text[TEXT_SIZE];
    size_t size = 1;
    while (size > 0 && !stop_requested) {
        enum c7x_status status =
            c7x_client_read_trace(cli->client, position, text, sizeof text, &size);
        if (status != C7X_OK)
            return status;
        fwrite(text, 1, size, stdout);
    }
    return C7X_OK;
}

static int print_log(struct cli *cli)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    uint64_t position = 0;
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    printf("C7x firmware log (%s):\n", cli_device(cli));
    for (;;) {
        enum c7x_status status = print_new(cli, &position);
        if (status != C7X_OK)
            return cli_fail_status(cli, "trace", status);
        fflush(stdout);
        if (cli->options.once || stop_requested || ferror(stdout))
            return CLI_DONE;
        nanosleep(&pause, NULL);
    }
}

int cli_trace(struct cli *cli)
{
    const struct cli_options *options = &cli->options;
    if (options->output == NULL && options->has_seconds)
        return cli_fail(cli, "usage", "--seconds is for --output");
    if (options->output != NULL && options->once)
        return cli_fail(cli, "usage", "--once shows the log, --output records events");
    cli_catch_signals();
    return options->output != NULL ? cli_record(cli) : print_log(cli);
}

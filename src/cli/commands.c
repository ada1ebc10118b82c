/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: dispatch, usage, --help and the checks of the arguments follow it. */
#include "cli.h"

#include <string.h>

#define DEVICE (CLI_OPTION_DEVICE | CLI_OPTION_DEADLINE | CLI_OPTION_HELP)
#define TEXT (DEVICE | CLI_OPTION_JSON)
#define TENSORS                                                                                    \
    (CLI_OPTION_INPUT | CLI_OPTION_OUTPUT | CLI_OPTION_SHAPE | CLI_OPTION_DTYPE |                  \
     CLI_OPTION_MODULE | CLI_OPTION_MODEL | CLI_OPTION_SEED | CLI_OPTION_REPEAT |                  \
     CLI_OPTION_PRIORITY)
#define JOB (DEVICE | TENSORS | CLI_OPTION_JSON)

const struct cli_command cli_commands[] = {
    {"ping", "", "Ask the device for its version and uptime", cli_ping, TEXT, 0, 0, false, false},
    {"status", "", "Show what the device has done so far", cli_status, TEXT, 0, 0, false, false},
    {"load", "FILE", "Load a module and leave it on the device; prints its handle", cli_load,
     TEXT | CLI_OPTION_MODULE | CLI_OPTION_PRIORITY, 0, 1, false, false},
    {"unload", "HANDLE", "Unload a module", cli_unload, TEXT, 1, 1, false, false},
    {"model-load", "FILE", "Load a weights file and leave it on the device; prints its id",
     cli_model_load, TEXT | CLI_OPTION_MODEL, 0, 1, false, false},
    {"model-unload", "ID", "Unload a weights file", cli_model_unload, TEXT, 1, 1, false, false},
    {"infer", "HANDLE [MODEL]", "Run a module that has been loaded; MODEL 0: its own weights",
     cli_infer, TEXT | TENSORS | CLI_OPTION_OUTPUT_BYTES, 1, 2, false, false},
    {"run", "FILE", "Load a module, run it, unload it; prints JSON", cli_run, JOB, 0, 1, true,
     true},
    {"profile", "FILE", "Run a module several times and tell how long each of its operators takes",
     cli_profile, JOB | CLI_OPTION_TABLE | CLI_OPTION_ORDER, 0, 1, true, true},
    {"benchmark", "FILE",
     "Run a module over and over and tell how long a call takes, and where that time goes",
     cli_benchmark,
     (JOB & ~CLI_OPTION_OUTPUT) | CLI_OPTION_TABLE | CLI_OPTION_SECONDS | CLI_OPTION_RATE, 0, 1,
     true, true},
    {"session-run", "FILE", "Run a module on requests from stdin; replies go to stdout",
     cli_session_run, DEVICE | CLI_OPTION_MODULE | CLI_OPTION_MODEL | CLI_OPTION_PRIORITY, 0, 1,
     true, true},
    {"trace", "",
     "Print the firmware's log until interrupted; with --output record what the device does",
     cli_trace, DEVICE | CLI_OPTION_ONCE | CLI_OPTION_OUTPUT | CLI_OPTION_SECONDS, 0, 0, false,
     false},
    {"scan", "", "List the devices that there are, their state and what changes it", cli_scan,
     CLI_OPTION_JSON | CLI_OPTION_HELP, 0, 0, false, false},
    {"ps", "", "List the sessions on a device, their modules, and what runs", cli_ps,
     TEXT | CLI_OPTION_ALL, 0, 0, false, false},
    {"mem", "", "Show the memory of a device", cli_mem, TEXT | CLI_OPTION_MAP, 0, 0, false, false},
    {"monitor", "", "Watch what the cores do, on a screen that renews itself; q ends it",
     cli_monitor, TEXT | CLI_OPTION_INTERVAL | CLI_OPTION_ONCE | CLI_OPTION_ALL, 0, 0, false,
     false},
    {"reset", "", "Restart the core of the shared emulator; its clients must open it again",
     cli_reset, TEXT, 0, 0, false, false},
    {"validate", "", "Test a device: ping, memory, load, infer, bandwidth, latency", cli_validate,
     TEXT | CLI_OPTION_MODULE | CLI_OPTION_MODEL | CLI_OPTION_PRIORITY, 0, 0, false, true},
    {"inspect", "FILE", "Show what a module holds and needs, without a device", cli_inspect,
     CLI_OPTION_DEVICE | CLI_OPTION_MODULE | CLI_OPTION_JSON | CLI_OPTION_HELP, 0, 1, false, false},
    {"verify", "FILE", "Check whether a device would load a module, without one", cli_verify,
     CLI_OPTION_DEVICE | CLI_OPTION_MODULE | CLI_OPTION_JSON | CLI_OPTION_HELP, 0, 1, false, false},
    {"raw", "FILE", "Send frames written in hex, one a line, as they are, and print the replies",
     cli_raw, TEXT, 1, 1, false, false},
    {"explain", "CODE", "Explain an error, by number or name", cli_explain,
     CLI_OPTION_JSON | CLI_OPTION_HELP | CLI_UNSIGNED_ARGUMENT, 1, 1, false, false},
    {"emulator", "start|stop|restart|status", "Start, stop or show the shared emulator",
     cli_emulator, TEXT | CLI_OPTION_WATCHDOG | CLI_OPTION_GUARD | CLI_OPTION_THREADS, 1, 1, false,
     false},
    {"help", "[COMMAND|errors]", "Explain a command, or list the errors", cli_help, CLI_OPTION_HELP,
     0, 1, false, false},
};

const int cli_command_count = (int)(sizeof cli_commands / sizeof cli_commands[0]);

const struct cli_command *cli_find_command(const char *name)
{
    for (int i = 0; i < cli_command_count; i++) {
        if (strcmp(cli_commands[i].name, name) == 0)
            return &cli_commands[i];
    }
    return NULL;
}

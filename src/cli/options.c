/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options, which argp parses and from which --help and the manual page are made. */
#include "cli.h"

#include <argp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MODEL = 256,
    KEY_DEVICE,
    KEY_DEADLINE,
    KEY_JSON,
    KEY_SEED,
    KEY_REPEAT,
    KEY_PRIORITY,
    KEY_BYTES,
    KEY_ONCE,
    KEY_MAP,
    KEY_ALL,
    KEY_INTERVAL,
    KEY_SECONDS,
    KEY_WATCHDOG,
    KEY_GUARD,
    KEY_THREADS,
    KEY_RATE,
    KEY_TABLE,
    KEY_ORDER
};

struct option_row {
    unsigned bit;
    int key; /* a letter is the short option */
    const char *name;
    const char *argument;
    const char *help;
};

static const struct option_row rows[] = {
    {CLI_OPTION_INPUT, 'i', "input", "FILE",
     "Input data: raw bytes or .npy. May be given several times, then the files follow each other "
     "as the tensors do. Without it inputs are generated as the module declares them."},
    {CLI_OPTION_OUTPUT, 'o', "output", "FILE",
     "Write the outputs: raw, one after the other; or .npy if FILE ends so. Several outputs turn "
     "out.npy into out-0.npy, out-1.npy and so on. For trace: record what the device does, as JSON "
     "for ui.perfetto.dev and chrome://tracing, until a signal or for --seconds."},
    {CLI_OPTION_SHAPE, 's', "shape", "DIMS",
     "Shapes of the inputs, as in 1,3,48,320; several are separated by ';', an empty one or "
     "'scalar' is a scalar. Default: that of the .npy file, else what the module declares, else "
     "one dimension."},
    {CLI_OPTION_DTYPE, 'd', "dtype", "TYPE",
     "Types of the inputs: float32 float16 float64 int32 int64 int16 int8 uint16 uint8 uint32 "
     "uint64 bool; several are separated by ';', one serves all. Default: as for --shape, else "
     "float32."},
    {CLI_OPTION_MODULE, 'm', "module", "FILE", "The module, lib0.out, instead of an argument."},
    {CLI_OPTION_MODEL, KEY_MODEL, "model", "MODEL",
     "Weights for a module that carries none: a file; for infer the id that model-load printed."},
    {CLI_OPTION_SEED, KEY_SEED, "seed", "N", "Seed of generated inputs. Default: 0."},
    {CLI_OPTION_REPEAT, KEY_REPEAT, "repeat", "N",
     "Run N times in one request, for profile and benchmark in N of them. Default: 1, for profile "
     "5, "
     "for benchmark as often as --seconds allows."},
    {CLI_OPTION_PRIORITY, KEY_PRIORITY, "priority", "N",
     "1 (highest) to 8: the target that runs it. Default: for infer the module's own, else 4."},
    {CLI_OPTION_OUTPUT_BYTES, KEY_BYTES, "output-bytes", "N",
     "Reserve this much room for the outputs. Default: what turns out to be needed, for which a "
     "module that puts out more than was expected runs once more."},
    {CLI_OPTION_DEVICE, KEY_DEVICE, "device", "DEV",
     "emu: an emulator of its own; emu: with a colon: the shared emulator; emu:c7x-2: its second "
     "core, a device of its own; emu:PATH: the one that listens at PATH. Default: $C7X_DEVICE, "
     "else emu for run, profile, benchmark, "
     "session-run and validate and the shared one for the others."},
    {CLI_OPTION_DEADLINE, KEY_DEADLINE, "deadline", "SECONDS",
     "Give up a step that takes longer; -1: never. Default: 60."},
    {CLI_OPTION_JSON, KEY_JSON, "json", NULL, "Print one line of JSON instead of text."},
    {CLI_OPTION_ONCE, KEY_ONCE, "once", NULL, "Print what there is and end."},
    {CLI_OPTION_MAP, KEY_MAP, "map", NULL, "Show every block and who holds it."},
    {CLI_OPTION_INTERVAL, KEY_INTERVAL, "interval", "SECONDS",
     "Time between two screens, at least 0.1. Default: 1."},
    {CLI_OPTION_WATCHDOG, KEY_WATCHDOG, "watchdog", "SECONDS",
     "Of the emulator that is started: end a call that runs for so long without coming to the end "
     "of "
     "a critical section; 0: never. Default: $C7X_WATCHDOG, else 10."},
    {CLI_OPTION_GUARD, KEY_GUARD, "guard", NULL,
     "Of the emulator that is started: a module that steps over the end of a block of its memory "
     "fails at once."},
    {CLI_OPTION_THREADS, KEY_THREADS, "threads", "N",
     "Of the emulator that is started: run the parallel regions of modules on N threads of the "
     "host, 1 to 64. Default: $C7X_THREADS, else 1."},
    {CLI_OPTION_ALL, KEY_ALL, "all", NULL, "Show the targets that have not had any work, too."},
    {CLI_OPTION_SECONDS, KEY_SECONDS, "seconds", "S",
     "Record or measure for so long. Default: for trace until a signal, for benchmark 3."},
    {CLI_OPTION_RATE, KEY_RATE, "rate", "R",
     "Send R requests a second, whether or not earlier ones have ended; each one's latency counts "
     "from when it should have been sent. Default: send each when the one before has ended."},
    {CLI_OPTION_TABLE, KEY_TABLE, "table", NULL, "Print a table instead of JSON."},
    {CLI_OPTION_ORDER, KEY_ORDER, "order", "ORDER",
     "Of the operators: time, the longest by its median first; or calls, as they run. Default: "
     "time."},
    {CLI_OPTION_HELP, 'h', "help", NULL, "Explain the command."},
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static bool set_deadline(struct cli_options *options, const char *text)
{
    options->has_deadline = true;
    return cli_parse_seconds(text, &options->deadline_ms);
}

static bool set_seconds(struct cli_options *options, const char *text)
{
    options->has_seconds = true;
    return cli_parse_seconds(text, &options->seconds_ms) && options->seconds_ms >= 0;
}

static bool set_order(struct cli_options *options, const char *text)
{
    options->order_of_calls = strcmp(text, "calls") == 0;
    return options->order_of_calls || strcmp(text, "time") == 0;
}

static bool set_repeat(struct cli_options *options, const char *text)
{
    uint64_t value;
    if (!cli_parse_u64(text, C7X_INFER_REPEAT_MASK, &value) || value == 0)
        return false;
    options->repeat = (uint32_t)value;
    return true;
}

static bool set_priority(struct cli_options *options, const char *text)
{
    uint64_t value;
    if (!cli_parse_u64(text, CLI_PRIORITY_MAX, &value) || value == 0)
        return false;
    options->priority = (int)value;
    return true;
}

/* The emulator reads the same text, and says the same of it. */
static bool set_watchdog(struct cli_options *options, const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    options->watchdog = value;
    return end != value && *end == '\0' && seconds >= 0 && seconds <= 1e6;
}

static bool set_threads(struct cli_options *options, const char *text)
{
    uint64_t value;
    options->threads = text;
    return cli_parse_u64(text, CLI_THREADS_MAX, &value) && value != 0;
}

static bool set_rate(struct cli_options *options, const char *text)
{
    char *end;
    options->rate = strtod(text, &end);
    return end != text && *end == '\0' && options->rate >= 0.001 && options->rate <= 1e6;
}

static bool set_interval(struct cli_options *options, const char *text)
{
    return cli_parse_seconds(text, &options->interval_ms) && options->interval_ms >= 100;
}

/* All but one command look at the last one alone. */
static bool add_device(struct cli_options *options, const char *device)
{
    options->device = device;
    if (options->device_count == CLI_DEVICES_MAX)
        return false;
    options->devices[options->device_count++] = device;
    return true;
}

static bool add_input(struct cli_options *options, const char *path)
{
    if (options->input_count == C7X_CLIENT_INPUTS_MAX)
        return false;
    options->inputs[options->input_count++] = path;
    return true;
}

static bool set_text(const char **out, const char *text)
{
    *out = text;
    return true;
}

static bool set_flag(bool *out)
{
    *out = true;
    return true;
}

/* Whether the value is usable. */
static bool set_option(struct cli_options *options, int key, const char *value)
{
    switch (key) {
    case 'i':
        return add_input(options, value);
    case 'o':
        return set_text(&options->output, value);
    case 's':
        return set_text(&options->shape, value);
    case 'd':
        return set_text(&options->dtype, value);
    case 'm':
        return set_text(&options->module, value);
    case KEY_MODEL:
        return set_text(&options->model, value);
    case KEY_DEVICE:
        return add_device(options, value);
    case KEY_DEADLINE:
        return set_deadline(options, value);
    case KEY_SEED:
        return cli_parse_u64(value, UINT64_MAX, &options->seed);
    case KEY_REPEAT:
        return set_repeat(options, value);
    case KEY_PRIORITY:
        return set_priority(options, value);
    case KEY_INTERVAL:
        return set_interval(options, value);
    case KEY_WATCHDOG:
        return set_watchdog(options, value);
    case KEY_THREADS:
        return set_threads(options, value);
    case KEY_GUARD:
        return set_flag(&options->guard);
    case KEY_BYTES:
        return cli_parse_u64(value, UINT32_MAX, &options->output_bytes);
    case KEY_JSON:
        return set_flag(&options->json);
    case KEY_ONCE:
        return set_flag(&options->once);
    case KEY_MAP:
        return set_flag(&options->map);
    case KEY_ALL:
        return set_flag(&options->all);
    case KEY_SECONDS:
        return set_seconds(options, value);
    case KEY_RATE:
        return set_rate(options, value);
    case KEY_TABLE:
        return set_flag(&options->table);
    case KEY_ORDER:
        return set_order(options, value);
    case 'h':
        return set_flag(&options->help);
    default:
        return false;
    }
}

static const struct option_row *find_row(int key)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].key == key)
            return &rows[i];
    }
    return NULL;
}

/* What the parser has found wrong; the report comes when all options have been seen, since --json
 * may follow. */
struct parse {
    struct cli *cli;
    char problem[CLI_MESSAGE_MAX];
};

static void note_problem(struct parse *parse, const char *format, ...) CLI_PRINTF(2, 3);

static void note_problem(struct parse *parse, const char *format, ...)
{
    va_list arguments;
    if (parse->problem[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(parse->problem, sizeof parse->problem, format, arguments);
    va_end(arguments);
}

static void take_option(struct parse *parse, int key, const char *value)
{
    const struct option_row *row = find_row(key);
    if (row == NULL || set_option(&parse->cli->options, key, value))
        return;
    note_problem(parse, "unusable value of --%s: %s%s", row->name, value,
                 key == KEY_PRIORITY ? "; allowed are 1 (highest) to 8" : "");
}

static void take_argument(struct parse *parse, const char *value)
{
    struct cli_options *options = &parse->cli->options;
    if (options->positional_count >= parse->cli->command->positional_max)
        note_problem(parse, "one argument too many: %s", value);
    else
        options->positional[options->positional_count++] = value;
}

static error_t parse_one(int key, char *value, struct argp_state *state)
{
    struct parse *parse = state->input;
    if (key == ARGP_KEY_ARG)
        take_argument(parse, value);
    else if (find_row(key) != NULL)
        take_option(parse, key, value);
    else if (key == ARGP_KEY_ERROR && state->next >= 1)
        note_problem(parse, "unknown option, or one without its value: %s",
                     state->argv[state->next - 1]);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

/* argp's view of the rows that the command takes. */
static void select_options(const struct cli_command *command, struct argp_option *selected)
{
    int count = 0;
    for (int i = 0; i < ROW_COUNT; i++) {
        if ((command->options & rows[i].bit) == 0)
            continue;
        selected[count++] = (struct argp_option){
            .name = rows[i].name, .key = rows[i].key, .arg = rows[i].argument, .doc = rows[i].help};
    }
    selected[count] = (struct argp_option){0};
}

/* Takes the sign from arguments such as -12, which argp would take for an option. */
static void strip_signs(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9')
            argv[i]++;
    }
}

int cli_parse_options(struct cli *cli, int argc, char **argv)
{
    static struct parse parse;
    struct argp_option selected[ROW_COUNT + 1];
    if ((cli->command->options & CLI_UNSIGNED_ARGUMENT) != 0)
        strip_signs(argc, argv);
    select_options(cli->command, selected);
    const struct argp argp = {.options = selected, .parser = parse_one};
    parse.cli = cli;
    int error =
        argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, NULL, &parse);
    if (error != 0)
        note_problem(&parse, "unknown option");
    if (parse.problem[0] != '\0')
        return cli_fail(cli, "usage", "%s; see c7x_compute %s --help", parse.problem,
                        cli->command->name);
    if (!cli->options.help && cli->options.positional_count < cli->command->positional_min)
        return cli_fail(cli, "usage", "%s needs %s; see c7x_compute %s --help", cli->command->name,
                        cli->command->arguments, cli->command->name);
    return CLI_DONE;
}

void cli_print_command_help(const struct cli_command *command, FILE *stream)
{
    struct argp_option selected[ROW_COUNT + 1];
    select_options(command, selected);
    const struct argp argp = {
        .options = selected, .args_doc = command->arguments, .doc = command->summary};
    char name[64];
    snprintf(name, sizeof name, "c7x_compute %s", command->name);
    argp_help(&argp, stream, ARGP_HELP_SHORT_USAGE | ARGP_HELP_PRE_DOC | ARGP_HELP_LONG, name);
}

void cli_print_option_manual(FILE *stream)
{
    fputs(".Bl -tag -width Ds\n", stream);
    for (int i = 0; i < ROW_COUNT; i++) {
        fputs(".It ", stream);
        if (rows[i].key < KEY_MODEL)
            fprintf(stream, "Fl %c , ", rows[i].key);
        fprintf(stream, "Fl -%s", rows[i].name);
        if (rows[i].argument != NULL)
            fprintf(stream, " Ar %s", rows[i].argument);
        fputc('\n', stream);
        cli_print_mdoc_text(rows[i].help, stream);
    }
    fputs(".El\n", stream);
}

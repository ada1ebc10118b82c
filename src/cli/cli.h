/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the command share. One file a subcommand; the rest parses options, reads
 * inputs, writes outputs and reports. A command returns the exit code of the process and has then
 * printed all that there is to say.
 */
#ifndef C7X_CLI_CLI_H
#define C7X_CLI_CLI_H

#include "c7x_compute_client.h"
#include "c7x_inspect.h"

#include <stdbool.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CLI_PRINTF(format_index, first_index)                                                      \
    __attribute__((format(printf, format_index, first_index)))
#else
#define CLI_PRINTF(format_index, first_index)
#endif

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };
enum { CLI_PRIORITY_MAX = 8 }; /* the lowest */
enum { CLI_THREADS_MAX = 64 }; /* the emulator says the same */
enum {
    CLI_POSITIONAL_MAX = 3,
    CLI_DEVICES_MAX = 16,
    CLI_MESSAGE_MAX = 80 * 1024, /* the loader lists up to 64 KiB of missing names */
    CLI_DEADLINE_MS = 60000
};

/* Sizes without a unit are bytes. NULL: not given. */
struct cli_options {
    const char *positional[CLI_POSITIONAL_MAX];
    int positional_count;
    const char *inputs[C7X_CLIENT_INPUTS_MAX];
    int input_count;
    const char *output;
    const char *shape;
    const char *dtype;
    const char *module;
    const char *model;
    const char *device; /* the last one that was given */
    const char *devices[CLI_DEVICES_MAX];
    int device_count;
    int64_t deadline_ms;
    int64_t interval_ms;  /* 0: not given */
    const char *watchdog; /* seconds; NULL: not given */
    const char *threads;  /* NULL: not given */
    bool guard;
    uint64_t seed;
    uint64_t output_bytes; /* 0: not given */
    uint32_t repeat;       /* 0: not given */
    int priority;          /* 0: not given */
    int64_t seconds_ms;
    double rate; /* calls a second; 0: not given */
    bool has_seconds;
    bool has_deadline;
    bool json;
    bool table;
    bool order_of_calls; /* not by time */
    bool once;
    bool map;
    bool all;
    bool help;
};

struct cli;
struct cJSON;

struct cli_command {
    const char *name;
    const char *arguments; /* as the usage shows them */
    const char *summary;
    int (*run)(struct cli *cli);
    unsigned options; /* CLI_OPTION_* that it takes */
    int positional_min;
    int positional_max;
    bool always_json;
    bool private_device; /* by default an emulator of its own, not the shared one */
};

struct cli {
    const struct cli_command *command;
    struct cli_options options;
    struct c7x_client *client; /* NULL while none is open */
};

#define CLI_OPTION_INPUT 0x0001u
#define CLI_OPTION_OUTPUT 0x0002u
#define CLI_OPTION_SHAPE 0x0004u
#define CLI_OPTION_DTYPE 0x0008u
#define CLI_OPTION_MODULE 0x0010u
#define CLI_OPTION_MODEL 0x0020u
#define CLI_OPTION_DEVICE 0x0040u
#define CLI_OPTION_DEADLINE 0x0080u
#define CLI_OPTION_JSON 0x0100u
#define CLI_OPTION_SEED 0x0200u
#define CLI_OPTION_REPEAT 0x0400u
#define CLI_OPTION_OUTPUT_BYTES 0x0800u
#define CLI_OPTION_ONCE 0x1000u
#define CLI_OPTION_HELP 0x2000u
#define CLI_OPTION_MAP 0x4000u
#define CLI_OPTION_PRIORITY 0x10000u
#define CLI_OPTION_ALL 0x20000u
#define CLI_OPTION_INTERVAL 0x40000u
#define CLI_OPTION_SECONDS 0x80000u
#define CLI_OPTION_TABLE 0x100000u
#define CLI_OPTION_ORDER 0x200000u
#define CLI_OPTION_WATCHDOG 0x400000u
#define CLI_OPTION_GUARD 0x800000u
#define CLI_OPTION_RATE 0x1000000u
#define CLI_OPTION_THREADS 0x2000000u
/* Not an option: of a number the sign says nothing, so -12 is the argument 12. */
#define CLI_UNSIGNED_ARGUMENT 0x8000u

/* ---- commands.c: the table of commands ---- */

extern const struct cli_command cli_commands[];
extern const int cli_command_count;
const struct cli_command *cli_find_command(const char *name);

int cli_ping(struct cli *cli);
int cli_status(struct cli *cli);
int cli_load(struct cli *cli);
int cli_unload(struct cli *cli);
int cli_model_load(struct cli *cli);
int cli_model_unload(struct cli *cli);
int cli_infer(struct cli *cli);
int cli_run(struct cli *cli);
int cli_profile(struct cli *cli);
int cli_benchmark(struct cli *cli);
int cli_session_run(struct cli *cli);
int cli_trace(struct cli *cli);
int cli_emulator(struct cli *cli);
int cli_scan(struct cli *cli);
int cli_ps(struct cli *cli);
int cli_mem(struct cli *cli);
int cli_monitor(struct cli *cli);
int cli_reset(struct cli *cli);
int cli_raw(struct cli *cli);
int cli_validate(struct cli *cli);
int cli_inspect(struct cli *cli);
int cli_verify(struct cli *cli);
int cli_explain(struct cli *cli);
int cli_help(struct cli *cli);

/* ---- options.c ---- */

/* argv[0] is the command word. CLI_DONE, or CLI_USAGE after reporting. */
int cli_parse_options(struct cli *cli, int argc, char **argv);
void cli_print_command_help(const struct cli_command *command, FILE *stream);
/* The OPTIONS section of the manual page, in mdoc. */
void cli_print_option_manual(FILE *stream);

/* ---- help.c ---- */

void cli_print_usage(FILE *stream);
/* Text as mdoc wants it: short lines, each sentence on a new one. */
void cli_print_mdoc_text(const char *text, FILE *stream);

/* ---- report.c ---- */

/*
 * Prints `c7x_compute: STAGE: TEXT` to stderr and, where the command prints JSON, the error object
 * to stdout; returns CLI_FAILED, or CLI_USAGE for stage "usage". The text becomes one line.
 */
int cli_fail(const struct cli *cli, const char *stage, const char *format, ...) CLI_PRINTF(3, 4);
/* The same with an object to print instead of the plain one, which it takes over. */
int cli_fail_with(const struct cli *cli, struct cJSON *object, const char *stage, const char *text);
/* The same for a status of the library; what explains it is taken from cli->client. */
int cli_fail_status(const struct cli *cli, const char *stage, int status);
/* The text that cli_fail_status() prints. */
void cli_describe_status(const struct cli *cli, const char *stage, int status, char *text,
                         size_t size);
bool cli_prints_json(const struct cli *cli);

/* ---- table.c ---- */

enum { CLI_TABLE_COLUMNS_MAX = 9 };

/* Filled cell by cell, row by row. */
struct cli_table {
    char **cells;
    size_t cell_count;
    size_t room;
    size_t column_count;
    size_t widths[CLI_TABLE_COLUMNS_MAX];
    bool is_number[CLI_TABLE_COLUMNS_MAX];
    bool lacks_memory;
};

void cli_table_begin(struct cli_table *table, const char *const *heads, size_t column_count);
void cli_table_text(struct cli_table *table, const char *text);
void cli_table_unsigned(struct cli_table *table, uint64_t value);
void cli_table_decimal(struct cli_table *table, double value, int decimals);
/* 0x0c0000000 */
void cli_table_address(struct cli_table *table, uint64_t address);
/* Both free it; the second is to stdout. */
void cli_table_write(struct cli_table *table, FILE *stream);
void cli_table_print(struct cli_table *table);

/* ---- listing.c: what is on a device ---- */

struct cli_listing {
    struct c7x_session_info *sessions;
    struct c7x_module_info *modules;
    struct c7x_target_info *targets;
    size_t session_count;
    size_t module_count;
    size_t target_count;
};

/* Into a zeroed listing, which the caller frees, also on failure. */
enum c7x_status cli_read_listing(struct c7x_client *client, struct cli_listing *listing);
void cli_free_listing(struct cli_listing *listing);
/* NULL: it has gone, or `number` is 0, the device itself. */
const struct c7x_session_info *cli_find_session(const struct cli_listing *listing, uint32_t number);
/* The target that runs the module's calls, unless they name another: targets are listed in the
 * order of their priorities. "" for weights. */
const char *cli_module_target(const struct cli_listing *listing,
                              const struct c7x_module_info *module);
/* Targets that have had work, or all; returns how many were left out. */
size_t cli_write_targets(const struct cli_listing *listing, bool all, FILE *stream);
void cli_write_pools(const struct c7x_pool_info *pools, size_t count, FILE *stream);
/* "sessions", "modules" and "targets"; and "pools". */
void cli_json_add_listing(struct cJSON *object, const struct cli_listing *listing);
void cli_json_add_pools(struct cJSON *object, const struct c7x_pool_info *pools, size_t count);

/* ---- screen.c: stdout as a screen, if it is a terminal ---- */

/* Keys, and the signals that end a program, are for cli_screen_wait() from here on. False: end it
 * all the same. */
bool cli_screen_begin(void);
/* The terminal is again what it was. */
void cli_screen_end(void);
/* Draws lines of text, as much of them as the window has room for. False: nobody can see it. */
bool cli_screen_show(const char *text);
/* Until the time is over, or the window has another size; false: somebody wants to end it. */
bool cli_screen_wait(int64_t ms);

/* ---- device.c ---- */

/* What --device, --deadline and --priority say. */
void cli_client_options(const struct cli *cli, struct c7x_client_options *options);
/* Reports why a device could not be opened. */
int cli_fail_open(const struct cli *cli, int status);
/* Opens cli->client; CLI_DONE, or CLI_FAILED after reporting. */
int cli_open(struct cli *cli);
void cli_close(struct cli *cli);
/* The shared emulator that the options name; NULL: the library's default. */
const char *cli_device(const struct cli *cli);

/* ---- numbers.c ---- */

/* The whole text is one decimal number in range. */
bool cli_parse_u64(const char *text, uint64_t max, uint64_t *out_value);
/* Argument `index` as a number of 32 bits, called `what` in the report; CLI_DONE or CLI_USAGE after
 * reporting. */
int cli_parse_argument(const struct cli *cli, int index, const char *what, uint32_t *out_value);
/* Seconds, fractions allowed; -1: for ever (-1 ms). */
bool cli_parse_seconds(const char *text, int64_t *out_ms);
/* "3.1.0" */
void cli_format_version(uint32_t version, char *text, size_t size);

/* ---- measure.c ---- */

#define CLI_NS_PER_S INT64_C(1000000000)
#define CLI_NS_PER_MS INT64_C(1000000)

/* Of CLOCK_MONOTONIC. */
int64_t cli_now_ns(void);
void cli_sort_times(int64_t *times, size_t count);
/* Nearest rank: the smallest value that `percent` of all do not exceed. count > 0. */
int64_t cli_percentile(const int64_t *sorted, size_t count, size_t percent);
/* Standard deviation of what the times are samples of; of fewer than two 0. */
double cli_deviation(const int64_t *times, size_t count);

/* ---- tensor.c: types and shapes as text ---- */

struct cli_tensor_type {
    int32_t code;
    int32_t bits;
};

/* A string that names no type is left to the caller to report. */
bool cli_find_dtype(const char *name, size_t length, struct cli_tensor_type *out_type);
const char *cli_dtype_name(int32_t code, int32_t bits);
/* "float32, float16, ..." */
const char *cli_dtype_list(void);
/*
 * Parses "1,3,48,320;2" and "float32;int64" into data-less tensors. Returns NULL, or what is wrong
 * with the text.
 */
const char *cli_parse_shapes(const char *text, struct c7x_client_tensor *tensors, int *out_count);
const char *cli_parse_dtypes(const char *text, struct cli_tensor_type *types, int *out_count);
/* Sets data_size from type and shape; false when it overflows. */
bool cli_set_tensor_size(struct c7x_client_tensor *tensor);
/* "float32[1,3,48,320]" */
void cli_format_tensor(const struct c7x_client_tensor *tensor, char *text, size_t size);

/* ---- file.c ---- */

/* Reads all of a file. NULL, or the reason of the failure (errno text); the caller frees *out_data.
 */
const char *cli_read_file(const char *path, char **out_data, size_t *out_size);
const char *cli_read_stdin(char **out_data, size_t *out_size);
/* Whether `path` can be written; creates nothing. NULL or the reason. */
const char *cli_check_writable(const char *path);
/* Writes a head and a list of pieces so that `path` holds all of it or what it held before. NULL or
 * the reason. */
struct cli_piece {
    const void *data;
    size_t size;
};
const char *cli_write_file(const char *path, const struct cli_piece *pieces, int piece_count);

/* ---- npy.c ---- */

bool cli_is_npy(const char *data, size_t size);
/* Fills in type, shape, data (inside `bytes`) and data_size; NULL or what is wrong. */
const char *cli_parse_npy(char *bytes, size_t size, struct c7x_client_tensor *out_tensor);
/* Writes the head of a .npy file; 0 if the type has no name there. */
enum { CLI_NPY_HEAD_MAX = 256 };
size_t cli_format_npy_head(const struct c7x_client_tensor *tensor, char *head);

/* ---- resolve.c, inputs.c, generate.c ---- */

struct cli_inputs {
    struct c7x_client_tensor tensors[C7X_CLIENT_INPUTS_MAX];
    int count;
    char *data; /* all of it; freed by cli_free_inputs() */
    size_t size;
};

/* What is known about some bytes of input; NULL or 0: nothing. */
struct cli_tensor_request {
    const char *shape;
    const char *dtype;
    const struct c7x_client_tensor *npy; /* one for each file, if all are .npy */
    int npy_count;
    const struct c7x_module_declaration *declaration;
    int left_out; /* declared inputs, the last ones, that are not among the bytes */
    size_t size;  /* of all bytes */
};

/*
 * Finds count, shapes, types and sizes of the tensors. False: `problem`, of CLI_MESSAGE_MAX bytes,
 * says why not.
 */
bool cli_resolve_tensors(const struct cli_tensor_request *request, struct cli_inputs *inputs,
                         char *problem);
/* Whether the tensors take `size` bytes. */
bool cli_check_total(const struct cli_inputs *inputs, size_t size, char *problem);
/* Lets the tensors follow each other in inputs->data. */
void cli_place_tensors(struct cli_inputs *inputs);

/*
 * The inputs that the options describe; `declaration` may be NULL. CLI_DONE, or the exit code after
 * reporting.
 */
int cli_prepare_inputs(const struct cli *cli, const struct c7x_module_declaration *declaration,
                       struct cli_inputs *out_inputs);
void cli_free_inputs(struct cli_inputs *inputs);
/* Generates inputs from the seed, as the module declares them. */
int cli_generate_inputs(const struct cli *cli, const struct c7x_module_declaration *declaration,
                        struct cli_inputs *out_inputs);
/* Tensors without data as the module declares its inputs; NULL or what is wrong. */
const char *cli_declared_tensors(const struct c7x_module_declaration *declaration,
                                 struct c7x_client_tensor *tensors, int *out_count);
/* Bytes that the tensors occupy in a shared buffer, descriptors and alignment included. */
uint64_t cli_buffer_bytes(const struct c7x_client_tensor *tensors, int count);

/* ---- outputs.c ---- */

struct cli_outputs {
    struct c7x_client_tensor tensors[C7X_CLIENT_OUTPUTS_MAX];
    int count;
    uint64_t cycles;
};

uint64_t cli_output_bytes(const struct cli_outputs *outputs);
int cli_check_output(const struct cli *cli);
/* Writes --output, if it is given. */
int cli_write_outputs(const struct cli *cli, const struct cli_outputs *outputs);

/* ---- job.c: load, infer, unload ---- */

/* Reads what the module declares; *out_declaration stays NULL if it declares nothing. */
int cli_read_declaration(const struct cli *cli, const char *path,
                         struct c7x_module_declaration **out_declaration);
/* The module that --module or the first argument names; NULL after reporting. */
const char *cli_module_path(const struct cli *cli);
/* One request to the device. */
struct cli_request {
    uint32_t handle;
    uint32_t model_id; /* 0: the module's own weights */
    uint32_t repeat;
    uint32_t flags;        /* C7X_INFER_*, but for the repeat count */
    uint64_t output_bytes; /* room to reserve; 0: the library finds out */
};

enum c7x_status cli_infer_tensors(struct cli *cli, const struct cli_request *request,
                                  const struct cli_inputs *inputs, struct cli_outputs *outputs);

/* What `run` and `profile` run. Zeroed at first; each step returns CLI_DONE, or the exit code after
 * reporting. */
struct cli_job {
    const char *module_path;
    struct c7x_module_declaration *declaration;
    struct cli_inputs inputs;
    struct cli_outputs outputs;
    uint32_t handle;
    uint32_t model_id; /* 0: none */
};

int cli_job_prepare(struct cli *cli, struct cli_job *job);
int cli_job_load(struct cli *cli, struct cli_job *job);
/* `repeat` times in one request. */
int cli_job_infer(struct cli *cli, struct cli_job *job, uint32_t repeat);
int cli_job_unload(struct cli *cli, const struct cli_job *job);
void cli_job_free(struct cli_job *job);

/* ---- trace.c, record.c ---- */

/* From here on SIGINT and SIGTERM ask the command to end, and to say what it has so far. */
void cli_catch_signals(void);
/* Whether one has come. */
bool cli_is_stopped(void);
/* `trace --output`. */
int cli_record(struct cli *cli);

/* ---- inspect.c ---- */

/* Inspects the module that the options name, for the device that they name. CLI_DONE, or the exit
 * code after reporting. */
int cli_inspect_file(const struct cli *cli, const struct c7x_inspection **out_inspection);

/* ---- json.c ---- */

/* Bytes of the UTF-8 sequence that begins there; 0: none does. */
int cli_utf8_length(const unsigned char *text);
void cli_json_add_text(struct cJSON *object, const char *name, const char *text);
void cli_json_add_unsigned(struct cJSON *object, const char *name, uint64_t value);
/* null for 0, or for "". */
void cli_json_add_number_or_null(struct cJSON *object, const char *name, uint64_t value);
void cli_json_add_text_or_null(struct cJSON *object, const char *name, const char *text);
/* "3.1.0"; null for 0 */
void cli_json_add_version(struct cJSON *object, const char *name, uint32_t version);
/* A new object at the end of a list. */
struct cJSON *cli_json_append(struct cJSON *list);
/* {"status":"ok"} to add to. */
struct cJSON *cli_json_ok(void);
struct cJSON *cli_json_result(const struct cli_outputs *outputs);
/* Prints the object on one line to stdout and frees it. */
void cli_json_print(struct cJSON *object);

#endif

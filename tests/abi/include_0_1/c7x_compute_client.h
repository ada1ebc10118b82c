/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library of c7x-compute: load a compiled network onto a C7x DSP, or its emulator, run it on data in shared
 * memory, and get results back.
 *
 * Functions return 0 (C7X_OK) or a negative enum c7x_status; c7x_client_last_error() gives the text that names what
 * was wrong. Results go out through pointers that are untouched on failure. A client may be used from several threads;
 * its calls then run one after the other. No call blocks longer than the client's deadline.
 */
#ifndef C7X_COMPUTE_CLIENT_H
#define C7X_COMPUTE_CLIENT_H

#include "c7x_status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_CLIENT_RANK_MAX 6
#define C7X_CLIENT_INPUTS_MAX 128
#define C7X_CLIENT_OUTPUTS_MAX 128
#define C7X_CLIENT_NAME_MAX 31

/* DLPack type codes, as in struct c7x_client_tensor. */
#define C7X_DTYPE_INT 0
#define C7X_DTYPE_UINT 1
#define C7X_DTYPE_FLOAT 2
#define C7X_DTYPE_BOOL 6

/* c7x_client_infer_flags(): bits 15..0 repeat count (0 and 1: once), bits 23..20 priority. */
#define C7X_INFER_REPEAT_MASK 0x0000FFFFu
#define C7X_INFER_KV_RESIDENT 0x00010000u
#define C7X_INFER_PRIORITY_SHIFT 20

/* One open device. */
struct c7x_client;

/* A tensor in host memory, row major; this struct never changes. */
struct c7x_client_tensor {
    void *data;         /* inputs: the caller's; outputs: in the output buffer, valid until the next infer or close */
    size_t data_size;   /* bytes */
    int32_t ndim;       /* 0..C7X_CLIENT_RANK_MAX */
    int32_t dtype_code; /* C7X_DTYPE_* */
    int32_t dtype_bits;
    int32_t reserved; /* 0; outputs: index in the result tuple */
    int64_t shape[C7X_CLIENT_RANK_MAX];
};

struct c7x_client_status {
    uint32_t version; /* wire version of the device, 0x00MMmmpp */
    uint32_t uptime_ms;
    uint32_t jobs_completed; /* inferences that succeeded */
    uint32_t jobs_failed;
};

/* Receives text that modules print; not NUL-terminated. Called from the thread that runs the inference. */
typedef void (*c7x_client_print_fn)(void *context, const char *text, size_t size);

struct c7x_client_options {
    size_t struct_size; /* sizeof(struct c7x_client_options) */
    /*
     * "emu"       a private emulator, started now and ended with this client
     * "emu:"      the user's shared emulator
     * "emu:PATH"  the shared emulator that listens at PATH
     * NULL        $C7X_DEVICE, else "emu"
     */
    const char *device;
    int64_t deadline_ms;  /* of each call: 0 try, -1 for ever; default 60000 */
    int priority;         /* 1 (highest) .. 8, or 0: the module's own */
    const char *name;     /* shown to others; at most C7X_CLIENT_NAME_MAX bytes; NULL: the program's name */
    int start;            /* start a shared emulator that is not running */
    c7x_client_print_fn print; /* NULL: stderr */
    void *print_context;
};

/* Fills in the defaults. */
void c7x_client_options_init(struct c7x_client_options *options);

/*
 * Opens the default device; NULL on failure, explained by c7x_client_last_error(NULL).
 */
struct c7x_client *c7x_client_open(void);
/*
 * C7X_NO_DEVICE nothing there; C7X_PERMISSION; C7X_VERSION the device speaks another major version; C7X_TIMEOUT.
 */
enum c7x_status c7x_client_open_with(const struct c7x_client_options *options,
                                     struct c7x_client **out_client) C7X_NODISCARD;
/* Ends the session: its modules are unloaded, its buffers freed. NULL is legal. */
void c7x_client_close(struct c7x_client *client);

/* Text of the last failure of this client, or (NULL) of this thread's last failed open; "" if there was none. */
const char *c7x_client_last_error(const struct c7x_client *client);
/* Station where the last failure arose ("loader", "tvm", "client" ...); "" if there was none. */
const char *c7x_client_last_station(const struct c7x_client *client);
/* Changes the deadline of the following calls. */
void c7x_client_set_deadline(struct c7x_client *client, int64_t deadline_ms);

enum c7x_status c7x_client_ping(struct c7x_client *client, uint32_t *out_version,
                                uint32_t *out_uptime_ms) C7X_NODISCARD;
enum c7x_status c7x_client_get_status(struct c7x_client *client,
                                      struct c7x_client_status *out_status) C7X_NODISCARD;
/* 1 and the numbers in bytes if the last failure was C7X_NOMEM on the device, else 0. */
int c7x_client_get_last_oom(const struct c7x_client *client, uint32_t *out_requested,
                            uint32_t *out_free, uint32_t *out_total);

/* Load flags. */
#define C7X_LOAD_KEEP 0x2u /* belongs to the device: stays when the client closes, until it is unloaded */

/*
 * Loads lib0.out. C7X_FILE cannot be read; C7X_LOAD, C7X_SYMBOL, C7X_WEIGHTS unfit; C7X_NOMEM. The last module that
 * was loaded determines the default sizes of the input and output buffers.
 */
enum c7x_status c7x_client_dyn_load(struct c7x_client *client, const char *path,
                                    uint32_t *out_handle) C7X_NODISCARD;
enum c7x_status c7x_client_dyn_load_flags(struct c7x_client *client, const char *path, uint32_t flags,
                                          uint32_t *out_handle) C7X_NODISCARD;
enum c7x_status c7x_client_dyn_unload(struct c7x_client *client, uint32_t handle) C7X_NODISCARD;
/* Loads weights.bin for modules that carry none. */
enum c7x_status c7x_client_model_load(struct c7x_client *client, const char *path,
                                      uint32_t *out_model_id) C7X_NODISCARD;
enum c7x_status c7x_client_model_load_flags(struct c7x_client *client, const char *path, uint32_t flags,
                                            uint32_t *out_model_id) C7X_NODISCARD;
enum c7x_status c7x_client_model_unload(struct c7x_client *client, uint32_t model_id) C7X_NODISCARD;

/*
 * Runs module `handle` once on `input_count` tensors (0..C7X_CLIENT_INPUTS_MAX). Inputs that lie in the input buffer are
 * used in place, others are copied. *inout_output_count is the room in `outputs`, then the number of outputs. model_id
 * 0: the module's own weights. *out_cycles (may be NULL): clock cycles on a board, nanoseconds in the emulator.
 * C7X_TENSOR names the tensor, what was expected and what it got; C7X_SIZE room or output buffer too small;
 * C7X_CALL the module failed; C7X_RESET the device went away: close and open again.
 */
enum c7x_status c7x_client_infer(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                                 const struct c7x_client_tensor *inputs, int input_count,
                                 struct c7x_client_tensor *outputs, int *inout_output_count,
                                 uint64_t *out_cycles) C7X_NODISCARD;
/* The same, `repeat` times in one request; *out_cycles is the last one's. */
enum c7x_status c7x_client_infer_repeat(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                                        const struct c7x_client_tensor *inputs, int input_count,
                                        struct c7x_client_tensor *outputs, int *inout_output_count,
                                        uint64_t *out_cycles, uint32_t repeat) C7X_NODISCARD;
/* The same, with C7X_INFER_* flags. */
enum c7x_status c7x_client_infer_flags(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                                       const struct c7x_client_tensor *inputs, int input_count,
                                       struct c7x_client_tensor *outputs, int *inout_output_count,
                                       uint64_t *out_cycles, uint32_t flags) C7X_NODISCARD;

/*
 * The shared buffers of inputs and outputs: pointer and size in bytes; NULL if there is none yet. Handing out a pointer
 * fixes the buffer's place until the next dyn_load or dyn_unload. Tensors belong at or after
 * c7x_client_get_input_data_offset().
 */
void *c7x_client_get_input_buffer(struct c7x_client *client, size_t *out_size);
void *c7x_client_get_output_buffer(struct c7x_client *client, size_t *out_size);
size_t c7x_client_get_input_data_offset(struct c7x_client *client);
/* Size of the input buffer in bytes; does not fix its place. */
size_t c7x_client_input_capacity(struct c7x_client *client);
/* Makes the buffers at least this large (bytes). C7X_LOCKED when a pointer has been handed out; C7X_NOMEM. */
enum c7x_status c7x_client_reserve_io(struct c7x_client *client, uint64_t input_bytes,
                                      uint64_t output_bytes) C7X_NODISCARD;
/* What the last loaded module declares (tvm_dsp_io_meta); all zero if it declares nothing. */
enum c7x_status c7x_client_get_io_meta(struct c7x_client *client, uint64_t *out_input_bytes,
                                       uint64_t *out_output_bytes, uint32_t *out_input_count,
                                       uint32_t *out_output_count,
                                       uint32_t *out_flags) C7X_NODISCARD;

/* One tensor that a module declares; the name is valid as long as the declaration it came from. */
struct c7x_module_tensor {
    size_t struct_size;
    const char *name;
    int32_t ndim;
    int32_t dtype_code;
    int32_t dtype_bits;
    int64_t shape[C7X_CLIENT_RANK_MAX];
};

/* What lib0.out declares about its inputs and outputs, read from the file without any device. */
struct c7x_module_declaration;

/*
 * C7X_FILE; C7X_LOAD not a module; C7X_SYMBOL a module without a manifest. The caller frees the result.
 */
enum c7x_status c7x_module_declaration_read(const char *path,
                                            struct c7x_module_declaration **out_declaration) C7X_NODISCARD;
void c7x_module_declaration_free(struct c7x_module_declaration *declaration);
int c7x_module_declaration_input_count(const struct c7x_module_declaration *declaration);
int c7x_module_declaration_output_count(const struct c7x_module_declaration *declaration);
/* Fills in as much as out_tensor->struct_size covers; C7X_INVALID for an index out of range. */
enum c7x_status c7x_module_declaration_input(const struct c7x_module_declaration *declaration, int index,
                                             struct c7x_module_tensor *out_tensor) C7X_NODISCARD;
enum c7x_status c7x_module_declaration_output(const struct c7x_module_declaration *declaration,
                                              int index,
                                              struct c7x_module_tensor *out_tensor) C7X_NODISCARD;

/*
 * Reads the firmware's log from *inout_position (0: the oldest that is kept) into `text`; *out_size bytes, 0 when there
 * is no more. Not NUL-terminated.
 */
enum c7x_status c7x_client_read_trace(struct c7x_client *client, uint64_t *inout_position, char *text,
                                      size_t text_size, size_t *out_size) C7X_NODISCARD;

/* The user's shared emulator; `device` as in c7x_client_options, NULL: $C7X_DEVICE, else "emu:". */
struct c7x_emulator_status {
    size_t struct_size;
    int running;
    int64_t pid;       /* of the supervisor; 0 when not running */
    int64_t core_pid;
    uint32_t core_starts; /* 1 + the times that the core was started again */
    uint32_t client_count;
    uint64_t carveout_total; /* bytes */
    uint64_t carveout_free;
    uint64_t carveout_largest;
    char path[108]; /* the socket */
};
/* Returns when it serves, or at once if it already does. */
enum c7x_status c7x_emulator_start(const char *device, int64_t deadline_ms) C7X_NODISCARD;
/* Returns when it has ended; C7X_NO_DEVICE if none runs. */
enum c7x_status c7x_emulator_stop(const char *device, int64_t deadline_ms) C7X_NODISCARD;
enum c7x_status c7x_emulator_get_status(const char *device,
                                        struct c7x_emulator_status *out_status) C7X_NODISCARD;

/* One-line text of a status; never NULL. */
const char *c7x_strerror(int status);
/* Upper-case name of a status ("NOMEM"), and what to do about it; never NULL. */
const char *c7x_status_name(int status);
const char *c7x_status_next_step(int status);
/* Version of this library, "0.1.0". */
const char *c7x_client_version(void);

#ifdef __cplusplus
}
#endif

#endif

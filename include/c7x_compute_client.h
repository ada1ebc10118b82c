/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library of c7x-compute: load a compiled network onto a C7x DSP, or its emulator, run
 * it on data in shared memory, and get results back.
 *
 * Functions return 0 (C7X_OK) or a negative enum c7x_status; c7x_client_last_error() gives the text
 * that names what was wrong. Results go out through pointers that are untouched on failure. A
 * client may be used from several threads; its calls then run one after the other. No call blocks
 * longer than the client's deadline.
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
    void *data; /* inputs: the caller's; outputs: in the output buffer, valid until the next infer
                   or close */
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

/* Receives text that modules print; not NUL-terminated. Called from the thread that runs the
 * inference. */
typedef void (*c7x_client_print_fn)(void *context, const char *text, size_t size);

struct c7x_client_options {
    size_t struct_size; /* sizeof(struct c7x_client_options) */
    /*
     * "emu"       a private emulator, started now and ended with this client
     * "emu:"      the user's shared emulator, also "emu:c7x-1"
     * "emu:c7x-2" its second core: a device of its own, with its own memory and targets
     * "emu:PATH"  the shared emulator that listens at PATH
     * NULL        $C7X_DEVICE, else "emu"
     */
    const char *device;
    int64_t deadline_ms; /* of each call: 0 try, -1 for ever; default 60000 */
    int priority;        /* 1 (highest) .. 8: of requests that name none, see below; or 0 */
    const char
        *name; /* shown to others; at most C7X_CLIENT_NAME_MAX bytes; NULL: the program's name */
    int start; /* start a shared emulator that is not running */
    c7x_client_print_fn print; /* NULL: stderr */
    void *print_context;
};

/*
 * Which priority an inference has: the one that its flags name, else the one with which this client
 * loaded the module, else that of the client's options, else the module's own. The module's own is
 * the one that the flags of the load name, else that of the client's options, else 4.
 */

/* Fills in the defaults. */
void c7x_client_options_init(struct c7x_client_options *options);

/*
 * Opens the default device; NULL on failure, explained by c7x_client_last_error(NULL).
 */
struct c7x_client *c7x_client_open(void);
/*
 * C7X_NO_DEVICE nothing there; C7X_PERMISSION; C7X_VERSION the device speaks another major version;
 * C7X_TIMEOUT.
 */
enum c7x_status c7x_client_open_with(const struct c7x_client_options *options,
                                     struct c7x_client **out_client) C7X_NODISCARD;
/* Ends the session: its modules are unloaded, its buffers freed. NULL is legal. */
void c7x_client_close(struct c7x_client *client);

/* Why this thread's last call failed; "" if it did not. `client` may be NULL. */
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
#define C7X_LOAD_KEEP                                                                              \
    0x2u /* belongs to the device: stays when the client closes, until it is unloaded */
#define C7X_LOAD_PRIORITY_SHIFT                                                                    \
    20 /* bits 23..20, of modules alone: the priority of inferences that name none, 1 (highest) .. \
          8, 0: see above */

/*
 * Loads lib0.out. C7X_FILE cannot be read; C7X_LOAD, C7X_SYMBOL, C7X_WEIGHTS unfit; C7X_NOMEM;
 * C7X_INVALID flags that there are not; C7X_UNSUPPORTED flags that firmware of wire version 3.0 has
 * not. The last module that was loaded determines the default sizes of the input and output
 * buffers. A file of which this client has loaded something already, and that has not changed
 * since, is not read again: what was loaded from it shares its bytes.
 */
enum c7x_status c7x_client_dyn_load(struct c7x_client *client, const char *path,
                                    uint32_t *out_handle) C7X_NODISCARD;
enum c7x_status c7x_client_dyn_load_flags(struct c7x_client *client, const char *path,
                                          uint32_t flags, uint32_t *out_handle) C7X_NODISCARD;
enum c7x_status c7x_client_dyn_unload(struct c7x_client *client, uint32_t handle) C7X_NODISCARD;
/* Loads weights.bin for modules that carry none. */
enum c7x_status c7x_client_model_load(struct c7x_client *client, const char *path,
                                      uint32_t *out_model_id) C7X_NODISCARD;
enum c7x_status c7x_client_model_load_flags(struct c7x_client *client, const char *path,
                                            uint32_t flags, uint32_t *out_model_id) C7X_NODISCARD;
enum c7x_status c7x_client_model_unload(struct c7x_client *client, uint32_t model_id) C7X_NODISCARD;

/*
 * Gives the module a key-value cache of its own on the device: `slot_count` slots of `slot_bytes`,
 * zero-filled; slot_count 0 takes it away. An inference with C7X_INFER_KV_RESIDENT then takes each
 * input that has a size and no data (data NULL) from the next slot, in order, and leaves its
 * outputs 1, 2, ... in the slots, for the next one; output 0 alone comes back. C7X_NOMEM;
 * C7X_UNSUPPORTED: firmware of wire version 3.0 has one fixed cache, of 60 slots of 196608 bytes,
 * which needs no bind.
 */
enum c7x_status c7x_client_kv_bind(struct c7x_client *client, uint32_t handle, uint32_t slot_count,
                                   uint64_t slot_bytes) C7X_NODISCARD;
/*
 * Runs module `handle` once on `input_count` tensors (0..C7X_CLIENT_INPUTS_MAX). Inputs that lie in
 * the input buffer are used in place, others are copied. *inout_output_count is the room in
 * `outputs`, then the number of outputs. model_id 0: the module's own weights. *out_cycles (may be
 * NULL): clock cycles on a board, nanoseconds in the emulator. C7X_TENSOR names the tensor, what
 * was expected and what it got; C7X_SIZE room or output buffer too small; C7X_CALL the module
 * failed; C7X_RESET the device went away: close and open again.
 */
enum c7x_status c7x_client_infer(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                                 const struct c7x_client_tensor *inputs, int input_count,
                                 struct c7x_client_tensor *outputs, int *inout_output_count,
                                 uint64_t *out_cycles) C7X_NODISCARD;
/* The same, `repeat` times in one request; *out_cycles is the last one's. */
enum c7x_status c7x_client_infer_repeat(struct c7x_client *client, uint32_t handle,
                                        uint32_t model_id, const struct c7x_client_tensor *inputs,
                                        int input_count, struct c7x_client_tensor *outputs,
                                        int *inout_output_count, uint64_t *out_cycles,
                                        uint32_t repeat) C7X_NODISCARD;
/* The same, with C7X_INFER_* flags. */
enum c7x_status c7x_client_infer_flags(struct c7x_client *client, uint32_t handle,
                                       uint32_t model_id, const struct c7x_client_tensor *inputs,
                                       int input_count, struct c7x_client_tensor *outputs,
                                       int *inout_output_count, uint64_t *out_cycles,
                                       uint32_t flags) C7X_NODISCARD;

/*
 * A tensor in the input buffer, at a multiple of 128 bytes, to be filled in and given to infer,
 * which then copies nothing. It is valid until the next dyn_load, dyn_unload or close; inputs that
 * are copied never touch it. The buffer is fixed from the first one on: reserve what all need
 * before. C7X_SIZE no room; C7X_INVALID rank, dimension or type.
 */
enum c7x_status c7x_client_create_input(struct c7x_client *client, const int64_t *shape, int ndim,
                                        int dtype_code, int dtype_bits,
                                        struct c7x_client_tensor *out_tensor) C7X_NODISCARD;

/* ---- Shared buffers of your own ---- */

/*
 * Memory that CPU and DSP use in turn, without a copy: as a whole input or output window of
 * inferences (struct c7x_infer_options). The caches in between are yours to mind: begin before the
 * CPU touches it, end before the DSP does. An emulator with strict caches (C7X_STRICT_CACHE=1)
 * shows what happens when one is missing.
 */
struct c7x_shared;

#define C7X_CPU_READ 1u  /* see what the DSP has written */
#define C7X_CPU_WRITE 2u /* what is written will be seen by the DSP, from end on */

/* `name` is for messages. Zero-filled, at a multiple of 128 bytes. Freed by c7x_shared_free(). */
enum c7x_status c7x_shared_create(struct c7x_client *client, size_t size, const char *name,
                                  struct c7x_shared **out_shared) C7X_NODISCARD;
void *c7x_shared_pointer(struct c7x_shared *shared);
size_t c7x_shared_size(const struct c7x_shared *shared);
/*
 * Begins CPU access (C7X_CPU_*). C7X_INVALID: it has begun already. C7X_BUSY: an inference uses the
 * buffer, also one whose deadline has passed and that the DSP still runs.
 */
enum c7x_status c7x_shared_begin(struct c7x_shared *shared, unsigned access) C7X_NODISCARD;
/* Ends it. C7X_INVALID: it has not begun. */
enum c7x_status c7x_shared_end(struct c7x_shared *shared) C7X_NODISCARD;
/* No inference may use it any more; one that the DSP still runs may. NULL is legal. */
void c7x_shared_free(struct c7x_shared *shared);

/* ---- Asynchronous inference ---- */

/*
 * One request in flight, with windows of its own. Several may be, of one client or many; those of
 * one module and priority run in the order in which they were sent, but for one whose output window
 * turns out to be too small: that is sent again, behind the others (say output_bytes to avoid it).
 */
struct c7x_inference;

/*
 * Called once when an inference has ended, well or not, from a thread of the library. It may use
 * the inference, also free it, and may send others; it must not wait for one. One that it frees
 * belongs to it alone: no other thread may wait for it, ask it or cancel it.
 */
typedef void (*c7x_inference_done_fn)(void *context, struct c7x_inference *inference);

struct c7x_infer_options {
    size_t struct_size; /* sizeof(struct c7x_infer_options) */
    uint32_t handle;
    uint32_t model_id;
    uint32_t flags;             /* C7X_INFER_* */
    int64_t deadline_ms;        /* from now to the end of the inference; default: the client's */
    uint64_t output_bytes;      /* of the output window; 0: what the last loaded module declares */
    c7x_inference_done_fn done; /* NULL: wait, or poll c7x_client_event_fd() */
    void *context;
    /*
     * Windows of your own, or NULL: the library's. All inputs then lie in `input`, and the outputs
     * are found in `output`. CPU access to either must have ended: else C7X_BUSY, naming the
     * buffer.
     */
    struct c7x_shared *input;
    struct c7x_shared *output;
};

/* Fills in the defaults for this client. */
void c7x_infer_options_init(struct c7x_client *client, struct c7x_infer_options *options);

/*
 * Sends an inference and returns. The inputs have been copied then, unless they lie in a window of
 * yours. What fails later is told by the inference. The caller frees *out_inference, before it
 * closes the client. C7X_BUSY: 96 requests of this client are in flight.
 */
enum c7x_status c7x_client_infer_async(struct c7x_client *client,
                                       const struct c7x_infer_options *options,
                                       const struct c7x_client_tensor *inputs, int input_count,
                                       struct c7x_inference **out_inference) C7X_NODISCARD;
/* Waits until it has ended; C7X_OK then, however it ended. C7X_TIMEOUT: not yet; it goes on. */
enum c7x_status c7x_inference_wait(struct c7x_inference *inference,
                                   int64_t deadline_ms) C7X_NODISCARD;
/*
 * How it ended, and its outputs, which live until it is freed; parameters as of c7x_client_infer().
 * C7X_BUSY: it has not ended yet.
 */
enum c7x_status c7x_inference_result(struct c7x_inference *inference,
                                     struct c7x_client_tensor *outputs, int *inout_output_count,
                                     uint64_t *out_cycles) C7X_NODISCARD;
/*
 * Takes it back if it still waits on the device: it then ends as C7X_CANCELLED. C7X_BUSY: it runs,
 * and ends as C7X_CANCELLED at the end of its next critical section, if it comes to one;
 * C7X_HANDLE: it has ended.
 */
enum c7x_status c7x_inference_cancel(struct c7x_inference *inference) C7X_NODISCARD;
/* Ends its use; one that has not ended is taken back as far as that goes. NULL is legal. */
void c7x_inference_free(struct c7x_inference *inference);

/*
 * A descriptor that is readable while c7x_client_next_completed() has something to give; -1 on
 * failure. It belongs to the client.
 */
int c7x_client_event_fd(struct c7x_client *client);
/* The inference without a `done` that ended first and was not given out yet, or NULL. */
struct c7x_inference *c7x_client_next_completed(struct c7x_client *client);

/*
 * The shared buffers of inputs and outputs: pointer and size in bytes; NULL if there is none yet.
 * Handing out a pointer fixes the buffer's place until the next dyn_load or dyn_unload. Tensors
 * belong at or after c7x_client_get_input_data_offset().
 */
void *c7x_client_get_input_buffer(struct c7x_client *client, size_t *out_size);
void *c7x_client_get_output_buffer(struct c7x_client *client, size_t *out_size);
size_t c7x_client_get_input_data_offset(struct c7x_client *client);
/* Size of the input buffer in bytes; does not fix its place. */
size_t c7x_client_input_capacity(struct c7x_client *client);
/* Makes the buffers at least this large (bytes). C7X_LOCKED when a pointer has been handed out;
 * C7X_NOMEM. */
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
 * C7X_FILE; C7X_LOAD not a module; C7X_SYMBOL a module without a manifest. The caller frees the
 * result.
 */
enum c7x_status
c7x_module_declaration_read(const char *path,
                            struct c7x_module_declaration **out_declaration) C7X_NODISCARD;
void c7x_module_declaration_free(struct c7x_module_declaration *declaration);
int c7x_module_declaration_input_count(const struct c7x_module_declaration *declaration);
int c7x_module_declaration_output_count(const struct c7x_module_declaration *declaration);
/* Fills in as much as out_tensor->struct_size covers; C7X_INVALID for an index out of range. */
enum c7x_status c7x_module_declaration_input(const struct c7x_module_declaration *declaration,
                                             int index,
                                             struct c7x_module_tensor *out_tensor) C7X_NODISCARD;
enum c7x_status c7x_module_declaration_output(const struct c7x_module_declaration *declaration,
                                              int index,
                                              struct c7x_module_tensor *out_tensor) C7X_NODISCARD;

/*
 * Reads the firmware's log from *inout_position (0: the oldest that is kept) into `text`; *out_size
 * bytes, 0 when there is no more. Not NUL-terminated.
 */
enum c7x_status c7x_client_read_trace(struct c7x_client *client, uint64_t *inout_position,
                                      char *text, size_t text_size, size_t *out_size) C7X_NODISCARD;

/* The user's shared emulator; `device` as in c7x_client_options, NULL: $C7X_DEVICE, else "emu:". */
struct c7x_emulator_status {
    size_t struct_size;
    int running;
    int64_t pid; /* of the supervisor; 0 when not running */
    int64_t core_pid;
    uint32_t core_starts; /* 1 + the times that the core was started again */
    uint32_t client_count;
    uint64_t carveout_total; /* bytes */
    uint64_t carveout_free;
    uint64_t carveout_largest;
    char path[108];   /* the socket */
    char version[48]; /* of the program that runs, and its build: "0.1.0 5f0c6d21a9e84b37" */
};
/* Returns when it serves, or at once if it already does. */
enum c7x_status c7x_emulator_start(const char *device, int64_t deadline_ms) C7X_NODISCARD;
/* Returns when it has ended; C7X_NO_DEVICE if none runs. */
enum c7x_status c7x_emulator_stop(const char *device, int64_t deadline_ms) C7X_NODISCARD;
enum c7x_status c7x_emulator_get_status(const char *device,
                                        struct c7x_emulator_status *out_status) C7X_NODISCARD;

/*
 * Version and build, as above, of the program that a start would run now. Where that is not what
 * runs, an update has come meanwhile: stop and start makes it serve. C7X_NO_DEVICE: no such
 * program.
 */
enum c7x_status c7x_emulator_get_installed_version(char *out_version, size_t size) C7X_NODISCARD;
/* Stops the device's core and starts it again; every client of it gets C7X_RESET. */
enum c7x_status c7x_emulator_reset(const char *device, int64_t deadline_ms) C7X_NODISCARD;

/* ---- What is there ---- */

/* A device that this machine may have. */
struct c7x_device_info {
    size_t struct_size;
    char device[128];    /* what to give to c7x_client_options: "emu:c7x-1", "emu:PATH" */
    char state[16];      /* "running", "offline", "denied" */
    char reason[128];    /* why it is in that state */
    char next_step[128]; /* the command that changes it, or "" */
    uint32_t version;    /* wire version that it answers, 0 when it does not */
};

/* A session on the device; one of them is this client's. */
struct c7x_session_info {
    size_t struct_size;
    uint32_t number;
    uint32_t process; /* process id of the client */
    uint32_t wire_version;
    uint32_t module_count;
    uint32_t model_count;
    uint32_t queued;  /* requests that wait */
    uint32_t running; /* requests that run */
    char name[32];
};

struct c7x_module_info {
    size_t struct_size;
    uint32_t handle;
    uint32_t session; /* of the owner; 0: the device (C7X_LOAD_KEEP) */
    uint32_t owner;   /* of its blocks, as in struct c7x_block_info */
    char state[16];   /* "loaded", "faulted", "model" (weights without a module) */
    uint64_t heap_bytes;
    uint64_t staged_bytes;       /* used where they were staged */
    char name[32];               /* of the model, "" when the module does not say */
    int priority;                /* of its calls that name none: 1 .. 8; 0: it has no calls */
    uint32_t activations;        /* how often it took over L2 from another module */
    uint64_t longest_section_ns; /* critical section; some of the calls are measured */
};

struct c7x_target_info {
    size_t struct_size;
    char name[32];
    uint32_t queue_depth_max;
    uint32_t queue_depth;
    uint32_t running_session; /* 0: idle */
    uint32_t running_seq;
    uint64_t jobs_done;
    uint64_t preemptions; /* of its jobs, by higher targets */
    int is_preempted;     /* what runs there waits for a higher target */
};

struct c7x_pool_info {
    size_t struct_size;
    char name[16];
    uint64_t address; /* DSP address, bytes */
    uint64_t total;
    uint64_t free;
    uint64_t largest; /* largest free block */
    uint32_t block_count;
};

struct c7x_block_info {
    size_t struct_size;
    uint64_t address;
    uint64_t size; /* bytes */
    uint32_t pool; /* index in the list of pools */
    int used;
    uint32_t
        owner; /* 0: the firmware; in the carve-out a session, else as in struct c7x_module_info */
    uint32_t module; /* in the carve-out, when the session is gone: as in struct c7x_module_info, of
                        the module that uses it; else 0 */
};

/*
 * Each fills *out_list with a new array of *out_count entries, whose struct_size is that of this
 * library; the caller frees it with c7x_list_free(). The device goes on meanwhile, so a long list
 * may be a little off.
 */
enum c7x_status c7x_device_scan(struct c7x_device_info **out_list, size_t *out_count) C7X_NODISCARD;
enum c7x_status c7x_client_list_sessions(struct c7x_client *client,
                                         struct c7x_session_info **out_list,
                                         size_t *out_count) C7X_NODISCARD;
enum c7x_status c7x_client_list_modules(struct c7x_client *client,
                                        struct c7x_module_info **out_list,
                                        size_t *out_count) C7X_NODISCARD;
enum c7x_status c7x_client_list_targets(struct c7x_client *client,
                                        struct c7x_target_info **out_list,
                                        size_t *out_count) C7X_NODISCARD;
enum c7x_status c7x_client_list_pools(struct c7x_client *client, struct c7x_pool_info **out_list,
                                      size_t *out_count) C7X_NODISCARD;
enum c7x_status c7x_client_list_blocks(struct c7x_client *client, struct c7x_block_info **out_list,
                                       size_t *out_count) C7X_NODISCARD;
/* An operator of a module, in the order in which they are called. */
struct c7x_operator_info {
    size_t struct_size;
    char name[256]; /* of the ONNX nodes that it computes; longer ones are cut */
};

/* The same for the operators of a module, of any session; none when it does not name them.
 * C7X_HANDLE. */
enum c7x_status c7x_client_list_operators(struct c7x_client *client, uint32_t handle,
                                          struct c7x_operator_info **out_list,
                                          size_t *out_count) C7X_NODISCARD;
void c7x_list_free(void *list);

/* ---- What a device does, event by event ---- */

/*
 * A recording of all requests of a device, also those of others, into memory of this client. The
 * device keeps the newest events; those that were not read in time are lost, and counted. A device
 * has one recording at a time. Its calls are for one thread at a time.
 */
struct c7x_trace;

#define C7X_TRACE_STATION 1u        /* a request has come to a station of its way */
#define C7X_TRACE_QUEUED 2u         /* it waits at its target; argument: how many do */
#define C7X_TRACE_REMOVED 3u        /* it was taken back; argument: how many still wait */
#define C7X_TRACE_JOB_BEGIN 4u      /* its target begins with it; argument: how many still wait */
#define C7X_TRACE_JOB_END 5u        /* its target has done it */
#define C7X_TRACE_PREEMPTED 6u      /* argument: 1 + the higher target that takes the core */
#define C7X_TRACE_RESUMED 7u        /* its target has the core again */
#define C7X_TRACE_ACTIVATED 8u      /* L2 is the module's now; argument: bytes restored */
#define C7X_TRACE_CALL_BEGIN 9u     /* the module's entry is called; with a repeat count, again */
#define C7X_TRACE_CALL_END 10u      /* argument: 0 it returned, else it was ended */
#define C7X_TRACE_SECTION_BEGIN 11u /* argument: number of the critical section in this call */
#define C7X_TRACE_SECTION_END 12u   /* of a compiled module each operator is one, in order */
#define C7X_TRACE_UNLOAD 13u /* argument: what goes now, enum c7x_unload_step of the protocol */

struct c7x_trace_event {
    size_t struct_size; /* filled in by the caller: sizeof(struct c7x_trace_event) */
    int64_t time_ns;    /* of the device's clock; of an emulator CLOCK_MONOTONIC */
    uint32_t event;     /* C7X_TRACE_* */
    uint32_t argument;
    uint32_t session; /* of the request, this and seq; 0: not known there */
    uint32_t seq;
    uint32_t module;     /* handle; 0: none */
    int target;          /* index in the list of targets; -1: none */
    const char *name;    /* of the event, static like the next two */
    const char *request; /* what kind of request: "INFER"; "" when there is none */
    const char *station; /* of C7X_TRACE_STATION; else "" */
};

/*
 * Begins a recording that keeps the newest `event_count` events or a little less (128 to 2^20; each
 * takes 32 bytes). C7X_BUSY: another client records, and the text names it; C7X_NOMEM;
 * C7X_UNSUPPORTED.
 */
enum c7x_status c7x_trace_begin(struct c7x_client *client, uint32_t event_count,
                                struct c7x_trace **out_trace) C7X_NODISCARD;
/* The next event, in the order in which they happened: 1, or 0 when there is none yet. Works on
 * what is there also when the device has gone away. */
int c7x_trace_next(struct c7x_trace *trace, struct c7x_trace_event *out_event);
/* Events that were overwritten before they were read, so far. */
uint64_t c7x_trace_lost(const struct c7x_trace *trace);
/* Number of the device's core: 1 for DSP_C7-1. */
uint32_t c7x_trace_core(const struct c7x_trace *trace);
/* Records no more; what is there can still be read. */
enum c7x_status c7x_trace_end(struct c7x_trace *trace) C7X_NODISCARD;
/* Before the client is closed. NULL is legal. */
void c7x_trace_free(struct c7x_trace *trace);

/* ---- Frames as they are: for people who debug the protocol ---- */

/* A link without a session: what is sent is what the device sees. */
struct c7x_raw;

#define C7X_RAW_FRAME_MAX 496

/* As c7x_client_open_with(); errors by c7x_client_last_error(NULL), also those of the calls below.
 */
enum c7x_status c7x_raw_open(const struct c7x_client_options *options,
                             struct c7x_raw **out_raw) C7X_NODISCARD;
void c7x_raw_close(struct c7x_raw *raw);
/* C7X_SIZE: empty, or longer than C7X_RAW_FRAME_MAX. */
enum c7x_status c7x_raw_send(struct c7x_raw *raw, const uint8_t *frame, size_t size) C7X_NODISCARD;
/* Fills `frame` (C7X_RAW_FRAME_MAX bytes). C7X_TIMEOUT: nothing came within deadline_ms. */
enum c7x_status c7x_raw_receive(struct c7x_raw *raw, uint8_t *frame, size_t *out_size,
                                int64_t deadline_ms) C7X_NODISCARD;

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

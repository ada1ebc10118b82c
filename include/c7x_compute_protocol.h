/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire of c7x-compute, version 3.1: what host and DSP say to each other over RPMessage
 * (endpoint 20).
 *
 * All integers are little-endian. A frame is at most 496 bytes: the transport's 512 less its own
 * 16-byte header. The host sends requests; the DSP answers each with type 0x1000 | request, the
 * same seq, and a status. One exception, as old clients expect it: INFER_LARGE is answered with the
 * type of INFER's response, 0x1021.
 *
 * Growing a message: reserved bytes are sent as zero and may get a meaning; then fields are added
 * at the end; anything else is a new major version. Messages and flags that say "since 3.1" are
 * sent only after PING has answered 0x030100 or later.
 *
 * The structs below are made of byte arrays: alignment 1, no padding, no byte order of the machine.
 * They may be laid over any buffer. src/wire decodes them into ordinary structs and is the only
 * validator.
 */
#ifndef C7X_COMPUTE_PROTOCOL_H
#define C7X_COMPUTE_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__cplusplus)
#define C7X_WIRE_ASSERT(condition) static_assert(condition, #condition)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define C7X_WIRE_ASSERT(condition) _Static_assert(condition, #condition)
#else
#define C7X_WIRE_ASSERT(condition) struct c7x_wire_no_assert
#endif

typedef struct {
    uint8_t bytes[4];
} wire_u32;

typedef struct {
    uint8_t bytes[8];
} wire_u64;

static inline uint32_t wire_u32_get(wire_u32 field)
{
    return (uint32_t)field.bytes[0] | (uint32_t)field.bytes[1] << 8 |
           (uint32_t)field.bytes[2] << 16 | (uint32_t)field.bytes[3] << 24;
}

static inline wire_u32 wire_u32_put(uint32_t value)
{
    wire_u32 field = {
        {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)}};
    return field;
}

static inline uint64_t wire_u64_get(wire_u64 field)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | field.bytes[i];
    return value;
}

static inline wire_u64 wire_u64_put(uint64_t value)
{
    wire_u64 field;
    for (int i = 0; i < 8; i++)
        field.bytes[i] = (uint8_t)(value >> 8 * i);
    return field;
}

/* ---- Numbers ---- */

#define C7X_WIRE_VERSION_3_0 0x030000u
#define C7X_WIRE_VERSION_3_1 0x030100u
#define C7X_WIRE_VERSION C7X_WIRE_VERSION_3_1
#define C7X_WIRE_VERSION_MAJOR(version) ((version) >> 16 & 0xFFu)
#define C7X_WIRE_VERSION_MINOR(version) ((version) >> 8 & 0xFFu)
#define C7X_WIRE_VERSION_PATCH(version) ((version)&0xFFu)

#define C7X_WIRE_ENDPOINT 20u
#define C7X_WIRE_SERVICE_NAME "rpmsg_chrdev"
#define C7X_WIRE_FRAME_MAX 496u
#define C7X_WIRE_HEADER_SIZE 16u

#define C7X_WIRE_STAGING_ADDR 0xC0000000u /* where a 3.0 client stages ELF files and weights */
#define C7X_WIRE_STAGING_SIZE 0x1D400000u
#define C7X_WIRE_KV_ADDR 0xDD400000u
#define C7X_WIRE_KV_SIZE 0x00C00000u
#define C7X_WIRE_KV_SLOT_COUNT 60u /* these two of a 3.0 client; later ones bind a region */
#define C7X_WIRE_KV_SLOT_BYTES 196608u
#define C7X_WIRE_CARVEOUT_ADDR 0xC0000000u
#define C7X_WIRE_CARVEOUT_SIZE 0x20000000u
#define C7X_WIRE_PRINTF_SIZE 0x00010000u

#define C7X_WIRE_RANK_MAX 6
#define C7X_WIRE_INLINE_INPUTS_MAX 5u /* 3.0 firmware accepts 4 */
#define C7X_WIRE_INLINE_OUTPUTS_MAX 5u
#define C7X_WIRE_INPUTS_MAX 128u
#define C7X_WIRE_OUTPUTS_MAX 128u
#define C7X_WIRE_NAME_SIZE 32u       /* of a session, NUL included */
#define C7X_WIRE_ERROR_TEXT_MAX 448u /* bytes of text in one ERROR_TEXT response */

/* What one session may hold; the request that asks for more is answered with BUSY, and its text
 * says who holds what. SESSION_OPEN tells the limits of the whole device. */
#define C7X_WIRE_SESSIONS_MAX 256u
#define C7X_WIRE_SESSION_MODULES_MAX 64u
#define C7X_WIRE_SESSION_MODELS_MAX 64u
#define C7X_WIRE_SESSION_WAITING_MAX 64u    /* requests; a queue takes more, for the others */
#define C7X_WIRE_SESSION_ERROR_TEXTS_MAX 8u /* the oldest goes */

/* INFER and INFER_LARGE flags: bits 15..0 repeat count (0 and 1: once). */
#define C7X_WIRE_INFER_REPEAT_MASK 0x0000FFFFu
#define C7X_WIRE_INFER_KV_RESIDENT 0x00010000u
/* Bits 23..20, since 3.1: priority 1 (highest) .. 8, 0 the module's own. */
#define C7X_WIRE_PRIORITY_SHIFT 20
#define C7X_WIRE_PRIORITY_MASK 0x00F00000u
#define C7X_WIRE_PRIORITY_MAX 8u
#define C7X_WIRE_PRIORITY_DEFAULT 4u /* of a module that is loaded with 0 */

/* DYN_LOAD and MODEL_LOAD flags, since 3.1; DYN_LOAD has the priority bits, too. */
#define C7X_WIRE_LOAD_ADDRESS 0x1u /* staged at `address`, not at C7X_WIRE_STAGING_ADDR */
#define C7X_WIRE_LOAD_KEEP 0x2u    /* belongs to the device until it is unloaded */

/*
 * The messages: X(NAME, name, request code, response code, since, "what for").
 * The enum, the validator's table, the service's dispatch and the table in docs/protocol.md follow
 * it.
 */
#define WIRE_MESSAGES(X)                                                                           \
    X(PING, ping, 0x0001, 0x1001, 0x030000, "connectivity and version")                            \
    X(GET_STATUS, get_status, 0x0003, 0x1003, 0x030000, "version, uptime, job counts")             \
    X(DYN_LOAD, dyn_load, 0x0010, 0x1010, 0x030000, "load a staged ELF module")                    \
    X(DYN_UNLOAD, dyn_unload, 0x0012, 0x1012, 0x030000, "unload a module")                         \
    X(MODEL_LOAD, model_load, 0x0020, 0x1020, 0x030000, "load staged weights")                     \
    X(INFER, infer, 0x0021, 0x1021, 0x030000, "run a module, descriptors inline")                  \
    X(MODEL_UNLOAD, model_unload, 0x0022, 0x1022, 0x030000, "unload weights")                      \
    X(INFER_LARGE, infer_large, 0x0023, 0x1021, 0x030000, "run a module, descriptors in memory")   \
    X(SET_PRINTF_BUF, set_printf_buf, 0x0030, 0x1030, 0x030000, "where printf text goes")          \
    X(SESSION_OPEN, session_open, 0x0040, 0x1040, 0x030100, "begin a 3.1 session")                 \
    X(SESSION_CLOSE, session_close, 0x0041, 0x1041, 0x030100,                                      \
      "end the session, free all it holds")                                                        \
    X(ERROR_TEXT, error_text, 0x0042, 0x1042, 0x030100, "why a request of this session failed")    \
    X(CANCEL, cancel, 0x0043, 0x1043, 0x030100, "take back a request that waits")                  \
    X(LIST, list, 0x0044, 0x1044, 0x030100, "sessions, modules, targets, memory")                  \
    X(KV_BIND, kv_bind, 0x0045, 0x1045, 0x030100, "give a module its KV region")                   \
    X(TRACE_BEGIN, trace_begin, 0x0046, 0x1046, 0x030100, "record events from now on")             \
    X(TRACE_END, trace_end, 0x0047, 0x1047, 0x030100, "record no more")                            \
    X(OPERATORS, operators, 0x0048, 0x1048, 0x030100, "names of a module's operators")

enum c7x_msg_type {
#define C7X_MSG_ENUM(NAME, name, request, response, since, meaning) C7X_MSG_##NAME = (request),
    WIRE_MESSAGES(C7X_MSG_ENUM)
#undef C7X_MSG_ENUM
};

#define C7X_MSG_RESPONSE 0x1000u

/* ---- Layouts ---- */

#define C7X_WIRE_OFFSET(type, field, offset)                                                       \
    C7X_WIRE_ASSERT(offsetof(struct type, field) == (offset))
#define C7X_WIRE_SIZE(type, size) C7X_WIRE_ASSERT(sizeof(struct type) == (size))

/* Every frame begins with this; PING, GET_STATUS, SESSION_CLOSE and TRACE_END requests are no more
 * than it. */
struct c7x_msg_hdr {
    wire_u32 type;
    wire_u32 seq;    /* the response repeats it */
    wire_u32 len;    /* of the whole frame, header included */
    wire_u32 status; /* requests: 0; responses: enum c7x_status */
};
C7X_WIRE_SIZE(c7x_msg_hdr, 16);

/* A tensor in shared memory. */
struct c7x_tensor_desc {
    wire_u64 data_addr;  /* DSP address */
    wire_u64 data_size;  /* bytes */
    wire_u32 ndim;       /* 0..C7X_WIRE_RANK_MAX */
    wire_u32 dtype_code; /* DLPack; lanes are always 1 */
    wire_u32 dtype_bits;
    wire_u32 reserved; /* outputs of a tuple: index in it */
    wire_u64 shape[C7X_WIRE_RANK_MAX];
};
C7X_WIRE_SIZE(c7x_tensor_desc, 80);
C7X_WIRE_OFFSET(c7x_tensor_desc, ndim, 16);
C7X_WIRE_OFFSET(c7x_tensor_desc, shape, 32);

struct c7x_msg_ping_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 version; /* 0x00MMmmpp */
    wire_u32 uptime_ms;
};
C7X_WIRE_SIZE(c7x_msg_ping_resp, 24);

struct c7x_msg_status_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 version;
    wire_u32 uptime_ms;
    wire_u32 jobs_completed; /* inferences that succeeded */
    wire_u32 jobs_failed;    /* inferences whose entry failed or whose output did not fit */
};
C7X_WIRE_SIZE(c7x_msg_status_resp, 32);

struct c7x_msg_dyn_load {
    struct c7x_msg_hdr hdr;
    wire_u32 elf_size;
    wire_u32 flags;   /* C7X_WIRE_LOAD_*, since 3.1 */
    wire_u64 address; /* with C7X_WIRE_LOAD_ADDRESS; else 0 */
};
C7X_WIRE_SIZE(c7x_msg_dyn_load, 32);
C7X_WIRE_OFFSET(c7x_msg_dyn_load, address, 24);

struct c7x_msg_dyn_load_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
    wire_u32 text_size;     /* always 0 */
    wire_u32 data_size;     /* always 0 */
    wire_u32 oom_requested; /* bytes, these three when status is NOMEM; else 0 */
    wire_u32 oom_free;
    wire_u32 oom_total;
    wire_u64 io_input_bytes; /* these from tvm_dsp_io_meta; 0 if the module has none */
    wire_u64 io_output_bytes;
    wire_u32 io_num_inputs;
    wire_u32 io_num_outputs;
    wire_u32 io_flags; /* bit 0: sizes are exact */
};
C7X_WIRE_SIZE(c7x_msg_dyn_load_resp, 68);
C7X_WIRE_OFFSET(c7x_msg_dyn_load_resp, oom_requested, 28);
C7X_WIRE_OFFSET(c7x_msg_dyn_load_resp, io_input_bytes, 40);

struct c7x_msg_dyn_unload {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
};
C7X_WIRE_SIZE(c7x_msg_dyn_unload, 20);

struct c7x_msg_model_load {
    struct c7x_msg_hdr hdr;
    wire_u32 weights_size;
    wire_u32 flags;   /* C7X_WIRE_LOAD_*, since 3.1 */
    wire_u64 address; /* with C7X_WIRE_LOAD_ADDRESS; else 0 */
};
C7X_WIRE_SIZE(c7x_msg_model_load, 32);

struct c7x_msg_model_load_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 model_id;
    wire_u32 num_constants;
    wire_u32 oom_requested;
    wire_u32 oom_free;
    wire_u32 oom_total;
};
C7X_WIRE_SIZE(c7x_msg_model_load_resp, 36);

struct c7x_msg_model_unload {
    struct c7x_msg_hdr hdr;
    wire_u32 model_id;
};
C7X_WIRE_SIZE(c7x_msg_model_unload, 20);

/* At least one descriptor slot is sent, also when num_inputs is 0. */
struct c7x_msg_infer {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
    wire_u32 model_id; /* 0: the module's own weights */
    wire_u32 num_inputs;
    wire_u32 flags;
    wire_u64 input_dsp_addr; /* the sender's input window; size 0: none */
    wire_u64 input_size;
    wire_u64 result_dsp_addr; /* the sender's output window; size 0: none */
    wire_u64 result_size;
    struct c7x_tensor_desc inputs[1];
};
C7X_WIRE_SIZE(c7x_msg_infer, 144);
C7X_WIRE_OFFSET(c7x_msg_infer, input_dsp_addr, 32);
C7X_WIRE_OFFSET(c7x_msg_infer, inputs, 64);

struct c7x_msg_infer_large {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
    wire_u32 model_id;
    wire_u32 num_inputs; /* 1..C7X_WIRE_INPUTS_MAX */
    wire_u32 flags;
    wire_u64 descs_addr; /* struct c7x_tensor_desc[num_inputs] inside the input window */
    wire_u32 descs_size; /* 80 * num_inputs */
    wire_u32 reserved;
    wire_u64 input_dsp_addr;
    wire_u64 input_size;
    wire_u64 result_dsp_addr;
    wire_u64 result_size;
};
C7X_WIRE_SIZE(c7x_msg_infer_large, 80);
C7X_WIRE_OFFSET(c7x_msg_infer_large, descs_addr, 32);
C7X_WIRE_OFFSET(c7x_msg_infer_large, input_dsp_addr, 48);

/* Of INFER and INFER_LARGE. At least one descriptor slot is sent. */
struct c7x_msg_infer_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 return_value; /* of the module's entry */
    wire_u64 cycles;       /* the job's own running time, last repeat */
    wire_u32 num_outputs;
    wire_u32 printf_size; /* bytes of this request's text in the printf buffer */
    wire_u64 descs_addr;  /* 0: descriptors inline; else an array in the output window */
    wire_u32 descs_size;
    wire_u32 oom_requested;
    wire_u32 oom_free;
    wire_u32 oom_total;
    wire_u64 result_required; /* bytes the output window needs, when status is SIZE; else 0 */
    struct c7x_tensor_desc outputs[1];
};
C7X_WIRE_SIZE(c7x_msg_infer_resp, 148);
C7X_WIRE_OFFSET(c7x_msg_infer_resp, cycles, 20);
C7X_WIRE_OFFSET(c7x_msg_infer_resp, descs_addr, 36);
C7X_WIRE_OFFSET(c7x_msg_infer_resp, result_required, 60);
C7X_WIRE_OFFSET(c7x_msg_infer_resp, outputs, 68);

struct c7x_msg_set_printf_buf {
    struct c7x_msg_hdr hdr;
    wire_u64 printf_dsp_addr;
    wire_u32 printf_size; /* more than 16 bytes; of a ring (3.1) C7X_WIRE_PRINTF_RING_MIN or more */
    wire_u32 reserved;
};
C7X_WIRE_SIZE(c7x_msg_set_printf_buf, 32);

/* Since 3.1. A second OPEN from the same endpoint ends the old session first. */
struct c7x_msg_session_open {
    struct c7x_msg_hdr hdr;
    wire_u32 wire_version; /* of the client */
    wire_u32 process;      /* process id, for people */
    wire_u64 nonce;        /* random: tells a new client at an old address from the old one */
    uint8_t name[C7X_WIRE_NAME_SIZE]; /* NUL-terminated UTF-8 */
};
C7X_WIRE_SIZE(c7x_msg_session_open, 64);

struct c7x_msg_session_open_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 generation;   /* of the session, never 0 */
    wire_u32 wire_version; /* what both sides speak from now on */
    wire_u64 nonce;
    wire_u64 cycle_hz;    /* rate of `cycles` */
    wire_u32 queue_depth; /* requests that may wait at one target */
    wire_u32 modules_max; /* on the device */
    wire_u32 models_max;
    wire_u32 lease_ms; /* 0: none; else the session ends when no frame has come for so long */
};
C7X_WIRE_SIZE(c7x_msg_session_open_resp, 56);
C7X_WIRE_OFFSET(c7x_msg_session_open_resp, cycle_hz, 32);

/* Since 3.1. The device keeps the texts of a session's last eight failed requests. */
struct c7x_msg_error_text {
    struct c7x_msg_hdr hdr;
    wire_u32 failed_seq;
    wire_u32 offset; /* of the first byte wanted, for text longer than one frame */
};
C7X_WIRE_SIZE(c7x_msg_error_text, 24);

struct c7x_msg_error_text_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 total;      /* bytes of the whole text */
    wire_u32 bytes;      /* in this frame */
    uint8_t station[16]; /* NUL-terminated: where the failure arose */
    uint8_t text[1];     /* `bytes` of them, not terminated; the frame ends with them */
};
C7X_WIRE_OFFSET(c7x_msg_error_text_resp, station, 24);
C7X_WIRE_OFFSET(c7x_msg_error_text_resp, text, 40);

/*
 * Since 3.1. A request of this session that still waits in a queue is removed and answered with
 * CANCELLED, before this one is answered; one that runs ends at its next section end, and is
 * answered then. HANDLE: no such request, or it has been answered.
 */
struct c7x_msg_cancel {
    struct c7x_msg_hdr hdr;
    wire_u32 cancelled_seq;
};
C7X_WIRE_SIZE(c7x_msg_cancel, 20);

#define C7X_WIRE_CANCEL_REMOVED 1u /* it waited, and will not run */
#define C7X_WIRE_CANCEL_RUNNING 2u /* it runs, and is answered when it has ended */

struct c7x_msg_cancel_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 outcome; /* C7X_WIRE_CANCEL_* */
};
C7X_WIRE_SIZE(c7x_msg_cancel_resp, 20);

/* What LIST can list, and the entries that it answers with. */
#define C7X_WIRE_LIST_SESSIONS 1u /* struct c7x_list_session */
#define C7X_WIRE_LIST_MODULES 2u  /* struct c7x_list_module; models (MODEL_LOAD) too */
#define C7X_WIRE_LIST_TARGETS 3u  /* struct c7x_list_target */
#define C7X_WIRE_LIST_POOLS 4u    /* struct c7x_list_pool */
#define C7X_WIRE_LIST_BLOCKS 5u   /* struct c7x_list_block, by pool and address */

/* Since 3.1. Long lists are read in pieces; between two of them the device goes on, and the list
 * may change. */
struct c7x_msg_list {
    struct c7x_msg_hdr hdr;
    wire_u32 kind;  /* C7X_WIRE_LIST_* */
    wire_u32 first; /* index of the first entry wanted */
};
C7X_WIRE_SIZE(c7x_msg_list, 24);

struct c7x_msg_list_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 kind;
    wire_u32 total; /* entries of the whole list */
    wire_u32 first;
    wire_u32 count;      /* in this frame; 0 at the end of the list */
    wire_u32 entry_size; /* bytes; later versions may append fields to an entry */
    wire_u32 reserved;
    uint8_t entries[1]; /* count * entry_size bytes; the frame ends with them */
};
C7X_WIRE_OFFSET(c7x_msg_list_resp, entries, 40);

struct c7x_list_session {
    wire_u32 number; /* generation of SESSION_OPEN */
    wire_u32 endpoint;
    wire_u32 process;
    wire_u32 wire_version;
    wire_u32 module_count;
    wire_u32 model_count;
    wire_u32 queued;  /* requests that wait */
    wire_u32 running; /* requests that run */
    uint8_t name[C7X_WIRE_NAME_SIZE];
};
C7X_WIRE_SIZE(c7x_list_session, 64);

#define C7X_WIRE_MODULE_LOADED 1u
#define C7X_WIRE_MODULE_FAULTED 2u /* can only be unloaded */
#define C7X_WIRE_MODULE_MODEL 3u   /* not a module: constants of MODEL_LOAD */

struct c7x_list_module {
    wire_u32 handle;
    wire_u32 session; /* 0: of the device (KEEP) */
    uint8_t state;    /* C7X_WIRE_MODULE_* */
    uint8_t priority; /* of calls that name none; 0: it has no calls */
    uint8_t reserved[2];
    wire_u32 owner; /* of its blocks, as in struct c7x_list_block */
    wire_u64 heap_bytes;
    wire_u64 staged_bytes;            /* used in place */
    uint8_t name[C7X_WIRE_NAME_SIZE]; /* of the model, from the manifest; "" without one */
    wire_u64 longest_section_ns;      /* critical; of some of its calls, which are measured */
    wire_u32 activations;             /* how often it took over L2 from another module */
    wire_u32 reserved2;
};
C7X_WIRE_SIZE(c7x_list_module, 80);

struct c7x_list_target {
    uint8_t name[C7X_WIRE_NAME_SIZE];
    wire_u32 queue_depth_max;
    wire_u32 queue_depth;
    wire_u32 running_session; /* 0: idle */
    wire_u32 running_seq;
    wire_u64 jobs_done;
    wire_u32 preemptions;  /* of its jobs, by higher targets */
    wire_u32 is_preempted; /* 1: the running request waits for a higher target */
};
C7X_WIRE_SIZE(c7x_list_target, 64);

struct c7x_list_pool {
    uint8_t name[16];
    wire_u64 address;
    wire_u64 total; /* bytes, like the next two */
    wire_u64 free;
    wire_u64 largest;
    wire_u32 block_count; /* in use */
    wire_u32 reserved;
};
C7X_WIRE_SIZE(c7x_list_pool, 56);

#define C7X_WIRE_BLOCK_FREE 0u
#define C7X_WIRE_BLOCK_USED 1u

struct c7x_list_block {
    wire_u64 address;
    wire_u64 size;
    wire_u32 pool;   /* index in the list of pools */
    wire_u32 use;    /* C7X_WIRE_BLOCK_* */
    wire_u32 owner;  /* 0: the firmware itself; in the carve-out: the session */
    wire_u32 module; /* in the carve-out without a session: `owner` of who uses it in place */
};
C7X_WIRE_SIZE(c7x_list_block, 32);

/*
 * Since 3.1. Binds a KV region, part of a buffer of the sender, to one module of its own; size 0
 * unbinds. Slot i of the region is at address + i * slot_bytes.
 */
struct c7x_msg_kv_bind {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
    wire_u32 slot_count;
    wire_u64 address;
    wire_u64 size;
    wire_u64 slot_bytes; /* slot_count * slot_bytes <= size */
};
C7X_WIRE_SIZE(c7x_msg_kv_bind, 48);

/*
 * Since 3.1. Records events into a part of a buffer of the sender, until TRACE_END or the end of
 * the session. The address is a multiple of 128. BUSY: another session does already, and the text
 * names it.
 */
struct c7x_msg_trace_begin {
    struct c7x_msg_hdr hdr;
    wire_u64 address; /* of a struct c7x_trace_window, which the DSP fills in */
    wire_u32 size;    /* C7X_WIRE_TRACE_MIN or more */
    wire_u32 reserved;
};
C7X_WIRE_SIZE(c7x_msg_trace_begin, 32);

/* Since 3.1. Operators of a module, of any session, in the order of their numbers. */
struct c7x_msg_operators {
    struct c7x_msg_hdr hdr;
    wire_u32 module_handle;
    wire_u32 first; /* number of the first one wanted */
};
C7X_WIRE_SIZE(c7x_msg_operators, 24);

struct c7x_msg_operators_resp {
    struct c7x_msg_hdr hdr;
    wire_u32 total; /* operators of the module; 0: it names none */
    wire_u32 first;
    wire_u32 count;   /* in this frame; 0 at the end */
    wire_u32 bytes;   /* of `names` */
    uint8_t names[1]; /* `count` of them, each NUL-terminated; longer ones are cut */
};
C7X_WIRE_OFFSET(c7x_msg_operators_resp, names, 32);

/* ---- In shared memory ---- */

/*
 * The printf buffer of a 3.1 session, at a multiple of 128 and of C7X_WIRE_PRINTF_RING_MIN bytes or
 * more: a ring of records behind this header, each at a multiple of 8 bytes, wrapping at the end,
 * also inside a record. The DSP writes the header at the session's next inference, and a record at
 * the end of each job that printed, `written` last; the host reads from `read` on and then advances
 * it. Each side writes cache lines of its own. Both words count bytes of records ever, modulo 2^32;
 * the byte of count n stands n modulo `size` behind the header. Text that finds no room is lost,
 * and counted in the next record. A 3.0 session has the text itself behind 16 bytes instead: magic,
 * bytes written, size of the text area, bytes lost.
 */
struct c7x_printf_ring {
    wire_u32 magic;   /* C7X_WIRE_PRINTF_RING_MAGIC */
    wire_u32 written; /* by the DSP, like all but `read` */
    wire_u32 size;    /* bytes behind the header that are used, a power of two */
    wire_u32 reserved[29];
    wire_u32 read; /* by the host */
    wire_u32 reserved_host[31];
};
C7X_WIRE_SIZE(c7x_printf_ring, 256);
C7X_WIRE_OFFSET(c7x_printf_ring, read, 128);

#define C7X_WIRE_PRINTF_RING_MIN 320u
#define C7X_WIRE_PRINTF_MAGIC 0x50524E54u      /* 3.0: "PRNT" */
#define C7X_WIRE_PRINTF_RING_MAGIC 0x50524E52u /* 3.1: "PRNR" */

struct c7x_printf_record {
    wire_u32 seq;   /* of the request that printed */
    wire_u32 bytes; /* of text, which follows and is padded to a multiple of 8 */
    wire_u32 lost;  /* bytes since the last record that had no room */
    wire_u32 reserved;
};
C7X_WIRE_SIZE(c7x_printf_record, 16);

/*
 * What is recorded: X(NAME, number, name, what `argument` is).
 */
#define WIRE_EVENTS(X)                                                                             \
    X(STATION, 1, "station", "which one, in the order of ARCHITECTURE.md, from 0")                 \
    X(QUEUED, 2, "queued", "requests that wait at the target, with this one")                      \
    X(REMOVED, 3, "removed", "requests that still wait there; this one was taken back")            \
    X(JOB_BEGIN, 4, "job begin", "requests that still wait there")                                 \
    X(JOB_END, 5, "job end", "0")                                                                  \
    X(PREEMPTED, 6, "pre-empted", "by which target")                                               \
    X(RESUMED, 7, "resumed", "0")                                                                  \
    X(ACTIVATED, 8, "activated", "bytes of L2 that were restored")                                 \
    X(CALL_BEGIN, 9, "call begin", "0; a request may have several")                                \
    X(CALL_END, 10, "call end", "0: the entry returned; else it was ended")                        \
    X(SECTION_BEGIN, 11, "section begin", "number in the call, from 0: the operator's")            \
    X(SECTION_END, 12, "section end", "the same")                                                  \
    X(UNLOAD, 13, "unload", "what of the module goes now: enum c7x_unload_step")

enum c7x_event {
#define C7X_EVENT_ENUM(NAME, number, name, argument) C7X_EVENT_##NAME = (number),
    WIRE_EVENTS(C7X_EVENT_ENUM)
#undef C7X_EVENT_ENUM
};

/* In their order. */
enum c7x_unload_step {
    C7X_UNLOAD_CLEAN_UP = 1, /* tidl_bridge_cleanup, if the module has it */
    C7X_UNLOAD_REGISTERS,    /* what its register file holds */
    C7X_UNLOAD_MODEL,        /* its hold on a model's weights */
    C7X_UNLOAD_CONSTANTS,    /* of the weights inside it */
    C7X_UNLOAD_SEGMENTS,     /* its destructors, then text, data, bss and read-only data */
    C7X_UNLOAD_POOLS         /* all other memory that it holds */
};

/*
 * The window of TRACE_BEGIN: a ring of `capacity` records behind this header. Event n, counted from
 * 0, stands in record n modulo `capacity`, so the newest ones are there; the host copies them in
 * time. The DSP alone writes, and several of its tasks at once: record n is whole when its `mark`
 * is 2 (n + 1), modulo 2^32, before and after it was read; an odd one is being written.
 */
struct c7x_trace_window {
    wire_u32 magic;    /* C7X_WIRE_TRACE_MAGIC */
    wire_u32 written;  /* events so far, modulo 2^32; some of the last ones may not be whole yet */
    wire_u32 capacity; /* records, a power of two */
    wire_u32 core;     /* number of the core */
    wire_u32 reserved[28];
};
C7X_WIRE_SIZE(c7x_trace_window, 128);

#define C7X_WIRE_TRACE_MAGIC 0x45435254u /* "TRCE" */
#define C7X_WIRE_TRACE_MIN 4224u         /* the header and 128 records */

struct c7x_trace_record {
    wire_u32 mark;
    uint8_t event;    /* enum c7x_event */
    uint8_t target;   /* 1: the first one of LIST, and so on; 0: none */
    uint8_t type[2];  /* of the request, little-endian; 0: none */
    wire_u64 time_ns; /* of the DSP's clock */
    wire_u32 session; /* 0: not known there */
    wire_u32 seq;     /* of the request */
    wire_u32 module;  /* handle; 0: none */
    wire_u32 argument;
};
C7X_WIRE_SIZE(c7x_trace_record, 32);
C7X_WIRE_OFFSET(c7x_trace_record, time_ns, 8);

#ifdef __cplusplus
}
#endif

#endif

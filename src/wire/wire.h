/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames to structs and back: the only code that knows the layouts of c7x_compute_protocol.h, and
 * the only validator of frames. It judges what a frame says about itself; whether addresses and
 * handles exist is asked elsewhere. No OS, no I/O, no allocation; any task.
 */
#ifndef C7X_WIRE_WIRE_H
#define C7X_WIRE_WIRE_H

#include "base/status.h"
#include "c7x_compute_protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of entries that one response to LIST has room for. */
#define C7X_WIRE_LIST_BYTES_MAX (C7X_WIRE_FRAME_MAX - offsetof(struct c7x_msg_list_resp, entries))

/* Bytes of names that one response to OPERATORS has room for. */
#define C7X_WIRE_OPERATORS_BYTES_MAX                                                               \
    (C7X_WIRE_FRAME_MAX - offsetof(struct c7x_msg_operators_resp, names))

struct c7x_wire_tensor {
    uint64_t data_addr;
    uint64_t data_size;
    int32_t ndim;
    int32_t dtype_code;
    int32_t dtype_bits;
    int32_t reserved;
    int64_t shape[C7X_WIRE_RANK_MAX];
};

struct c7x_wire_load {
    uint32_t size;
    uint32_t flags;
    uint64_t address;  /* always filled in: C7X_WIRE_STAGING_ADDR unless the request names one */
    uint32_t priority; /* of DYN_LOAD: from flags, 0..8 */
};

struct c7x_wire_infer {
    uint32_t module_handle;
    uint32_t model_id;
    uint32_t num_inputs;
    uint32_t flags;
    uint32_t repeat_count; /* from flags, at least 1 */
    uint32_t priority;     /* from flags, 0..8 */
    uint64_t input_dsp_addr;
    uint64_t input_size;
    uint64_t result_dsp_addr;
    uint64_t result_size;
    uint64_t descs_addr; /* INFER_LARGE: where the descriptors are; 0: in `inputs` */
    struct c7x_wire_tensor inputs[C7X_WIRE_INLINE_INPUTS_MAX];
};

struct c7x_request {
    uint32_t type; /* enum c7x_msg_type once decoded */
    uint32_t seq;
    union {
        struct c7x_wire_load load; /* DYN_LOAD, MODEL_LOAD */
        uint32_t handle;           /* DYN_UNLOAD, MODEL_UNLOAD */
        struct c7x_wire_infer infer;
        struct {
            uint64_t address;
            uint32_t size;
        } printf_buf;
        struct {
            uint32_t wire_version;
            uint32_t process;
            uint64_t nonce;
            char name[C7X_WIRE_NAME_SIZE]; /* always terminated */
        } session_open;
        struct {
            uint32_t failed_seq;
            uint32_t offset;
        } error_text;
        uint32_t cancelled_seq; /* CANCEL */
        struct {
            uint32_t kind;
            uint32_t first;
        } list;
        struct {
            uint32_t module_handle;
            uint32_t slot_count;
            uint64_t address;
            uint64_t size;
            uint64_t slot_bytes;
        } kv_bind;
        struct {
            uint64_t address;
            uint32_t size;
        } trace_begin;
        struct {
            uint32_t module_handle;
            uint32_t first;
        } operators;
    } body;
};

struct c7x_response {
    uint32_t type; /* of the request */
    uint32_t seq;
    int32_t status;
    bool header_only; /* answer with 16 bytes and type 0x1000 | request: a frame that could not be
                         decoded */
    struct {
        uint32_t requested;
        uint32_t free;
        uint32_t total;
    } oom;
    union {
        struct {
            uint32_t version;
            uint32_t uptime_ms;
            uint32_t jobs_completed;
            uint32_t jobs_failed;
        } status; /* PING uses the first two */
        struct {
            uint32_t module_handle;
            uint64_t io_input_bytes;
            uint64_t io_output_bytes;
            uint32_t io_num_inputs;
            uint32_t io_num_outputs;
            uint32_t io_flags;
        } dyn_load;
        struct {
            uint32_t model_id;
            uint32_t num_constants;
        } model_load;
        struct {
            int32_t return_value;
            uint64_t cycles;
            uint32_t num_outputs;
            uint32_t printf_size;
            uint64_t descs_addr; /* not 0: the descriptors are there, and none inline */
            uint32_t descs_size;
            uint64_t result_required;
            struct c7x_wire_tensor outputs[C7X_WIRE_INLINE_OUTPUTS_MAX];
        } infer;
        struct {
            uint32_t generation;
            uint32_t wire_version;
            uint64_t nonce;
            uint64_t cycle_hz;
            uint32_t queue_depth;
            uint32_t modules_max;
            uint32_t models_max;
            uint32_t lease_ms;
        } session_open;
        struct {
            uint32_t total;
            uint32_t bytes;
            char station[16]; /* always terminated */
            uint8_t text[C7X_WIRE_ERROR_TEXT_MAX];
        } error_text;
        uint32_t cancel_outcome; /* C7X_WIRE_CANCEL_* */
        struct {
            uint32_t kind;
            uint32_t total;
            uint32_t first;
            uint32_t count;
            uint32_t entry_size;
            uint8_t entries[C7X_WIRE_LIST_BYTES_MAX]; /* count * entry_size, as they stand in the
                                                         frame */
        } list;
        struct {
            uint32_t total;
            uint32_t first;
            uint32_t count;
            uint32_t bytes;
            char
                names[C7X_WIRE_OPERATORS_BYTES_MAX]; /* once decoded: `count` of them, terminated */
        } operators;
    } body;
};

/*
 * Decodes a request of at least C7X_WIRE_HEADER_SIZE bytes as a session of `session_version` may
 * send it. `out_request` has type and seq in any case. On failure *out_header_only says whether the
 * frame was not even long enough to be answered in its own form. C7X_INVALID unknown type, short
 * frame, wrong len, unassigned flags; C7X_SIZE; C7X_TENSOR counts, rank, descriptors; C7X_ADDR
 * window outside the carve-out.
 */
enum c7x_status c7x_wire_decode_request(const uint8_t *bytes, size_t size, uint32_t session_version,
                                        struct c7x_request *out_request, bool *out_header_only,
                                        struct c7x_error *error) C7X_NODISCARD;

/* Writes the response into `frame` (C7X_WIRE_FRAME_MAX bytes) and returns its size. All else in the
 * frame is zero. */
size_t c7x_wire_encode_response(const struct c7x_response *response, uint8_t *frame);

/* Writes a request into `frame` (C7X_WIRE_FRAME_MAX bytes) and returns its size. num_inputs fits
 * inline or descs_addr is set. */
size_t c7x_wire_encode_request(const struct c7x_request *request, uint8_t *frame);

/*
 * Decodes the response to a request of type `request_type`. C7X_PROTOCOL: wrong type, short, or
 * inconsistent. A response whose status is not 0 may be header-only.
 */
enum c7x_status c7x_wire_decode_response(const uint8_t *bytes, size_t size, uint32_t request_type,
                                         struct c7x_response *out_response,
                                         struct c7x_error *error) C7X_NODISCARD;

/* Type, seq and status of any frame of at least C7X_WIRE_HEADER_SIZE bytes. */
void c7x_wire_peek(const uint8_t *bytes, uint32_t *out_type, uint32_t *out_seq,
                   int32_t *out_status);

/* One descriptor, out of and into shared memory. Decoding copies every field once. C7X_TENSOR:
 * rank. */
enum c7x_status c7x_wire_decode_tensor(const uint8_t *bytes,
                                       struct c7x_wire_tensor *out_tensor) C7X_NODISCARD;
void c7x_wire_encode_tensor(const struct c7x_wire_tensor *tensor, uint8_t *bytes);

/* Name of a message type ("DYN_LOAD"); "UNKNOWN" for others. */
const char *c7x_wire_type_name(uint32_t type);
/* The wire version that brought the message type; 0 for unknown ones. */
uint32_t c7x_wire_type_since(uint32_t type);

#endif

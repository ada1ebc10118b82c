/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire_impl.h"

#include "base/checked.h"

#include <string.h>

#define STATION "service"

/* Lays a message struct over the frame's bytes; alignment 1, so this is a copy of bytes and nothing
 * else. */
#define COPY_MESSAGE(message, bytes) memcpy(&(message), bytes, sizeof(message))

/* Flags of a load that a session of this version may set. */
static uint32_t load_flags_allowed(uint32_t type, uint32_t session_version)
{
    if (session_version < C7X_WIRE_VERSION_3_1)
        return 0;
    return C7X_WIRE_LOAD_ADDRESS | C7X_WIRE_LOAD_KEEP |
           (type == C7X_MSG_DYN_LOAD ? C7X_WIRE_PRIORITY_MASK : 0);
}

static enum c7x_status decode_priority(uint32_t flags, uint32_t *out_priority,
                                       struct c7x_error *error)
{
    *out_priority = (flags & C7X_WIRE_PRIORITY_MASK) >> C7X_WIRE_PRIORITY_SHIFT;
    if (*out_priority > C7X_WIRE_PRIORITY_MAX)
        return c7x_error_set(error, C7X_INVALID, STATION, "priority %u; allowed are 1 to %u",
                             *out_priority, C7X_WIRE_PRIORITY_MAX);
    return C7X_OK;
}

/* DYN_LOAD and MODEL_LOAD have the same layout. */
static enum c7x_status decode_load(const uint8_t *bytes, uint32_t type, uint32_t session_version,
                                   struct c7x_wire_load *out_load, struct c7x_error *error)
{
    struct c7x_msg_dyn_load message;
    COPY_MESSAGE(message, bytes);
    struct c7x_wire_load load = {.size = wire_u32_get(message.elf_size),
                                 .flags = wire_u32_get(message.flags),
                                 .address = wire_u64_get(message.address)};
    if ((load.flags & ~load_flags_allowed(type, session_version)) != 0)
        return c7x_error_set(error, C7X_INVALID, STATION,
                             "load flags 0x%x are not assigned in this session", load.flags);
    C7X_RETURN_IF_ERROR(decode_priority(load.flags, &load.priority, error));
    if ((load.flags & C7X_WIRE_LOAD_ADDRESS) == 0)
        load.address = C7X_WIRE_STAGING_ADDR;
    if (load.size == 0 || load.size > C7X_WIRE_STAGING_SIZE)
        return c7x_error_set(error, C7X_SIZE, STATION, "%u bytes to load; allowed are 1 to %u",
                             load.size, C7X_WIRE_STAGING_SIZE);
    if (!c7x_range_inside(load.address, load.size, C7X_WIRE_CARVEOUT_ADDR, C7X_WIRE_CARVEOUT_SIZE))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "staged bytes 0x%llx + %u are not in the shared carve-out",
                             (unsigned long long)load.address, load.size);
    *out_load = load;
    return C7X_OK;
}

static enum c7x_status check_window(const char *name, uint64_t address, uint64_t size,
                                    struct c7x_error *error)
{
    if (size == 0 ||
        c7x_range_inside(address, size, C7X_WIRE_CARVEOUT_ADDR, C7X_WIRE_CARVEOUT_SIZE))
        return C7X_OK;
    return c7x_error_set(error, C7X_ADDR, STATION,
                         "%s window 0x%llx + %llu is not in the shared carve-out", name,
                         (unsigned long long)address, (unsigned long long)size);
}

static enum c7x_status decode_infer_flags(struct c7x_wire_infer *infer, uint32_t session_version,
                                          struct c7x_error *error)
{
    uint32_t allowed = C7X_WIRE_INFER_REPEAT_MASK | C7X_WIRE_INFER_KV_RESIDENT;
    if (session_version >= C7X_WIRE_VERSION_3_1)
        allowed |= C7X_WIRE_PRIORITY_MASK;
    uint32_t repeat = infer->flags & C7X_WIRE_INFER_REPEAT_MASK;
    infer->repeat_count = repeat == 0 ? 1 : repeat;
    if ((infer->flags & ~allowed) != 0)
        return c7x_error_set(error, C7X_INVALID, STATION,
                             "infer flags 0x%x are not assigned in this session", infer->flags);
    return decode_priority(infer->flags, &infer->priority, error);
}

static enum c7x_status check_infer(struct c7x_wire_infer *infer, uint32_t session_version,
                                   struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(decode_infer_flags(infer, session_version, error));
    C7X_RETURN_IF_ERROR(check_window("input", infer->input_dsp_addr, infer->input_size, error));
    return check_window("result", infer->result_dsp_addr, infer->result_size, error);
}

static enum c7x_status decode_infer(const uint8_t *bytes, size_t size, uint32_t session_version,
                                    struct c7x_wire_infer *infer, struct c7x_error *error)
{
    struct c7x_msg_infer message;
    COPY_MESSAGE(message, bytes);
    infer->module_handle = wire_u32_get(message.module_handle);
    infer->model_id = wire_u32_get(message.model_id);
    infer->num_inputs = wire_u32_get(message.num_inputs);
    infer->flags = wire_u32_get(message.flags);
    infer->input_dsp_addr = wire_u64_get(message.input_dsp_addr);
    infer->input_size = wire_u64_get(message.input_size);
    infer->result_dsp_addr = wire_u64_get(message.result_dsp_addr);
    infer->result_size = wire_u64_get(message.result_size);
    infer->descs_addr = 0;
    size_t first = offsetof(struct c7x_msg_infer, inputs);
    if (infer->num_inputs > C7X_WIRE_INLINE_INPUTS_MAX ||
        infer->num_inputs > (size - first) / sizeof(struct c7x_tensor_desc))
        return c7x_error_set(error, C7X_TENSOR, STATION,
                             "%u inputs do not fit a frame of %zu bytes (at most %u inline)",
                             infer->num_inputs, size, C7X_WIRE_INLINE_INPUTS_MAX);
    for (uint32_t i = 0; i < infer->num_inputs; i++)
        if (c7x_wire_decode_tensor(bytes + first + i * sizeof(struct c7x_tensor_desc),
                                   &infer->inputs[i]) != C7X_OK)
            return c7x_error_set(error, C7X_TENSOR, STATION, "input %u: rank is not 0 to %d", i,
                                 C7X_WIRE_RANK_MAX);
    return check_infer(infer, session_version, error);
}

static enum c7x_status decode_infer_large(const uint8_t *bytes, uint32_t session_version,
                                          struct c7x_wire_infer *infer, struct c7x_error *error)
{
    struct c7x_msg_infer_large message;
    COPY_MESSAGE(message, bytes);
    infer->module_handle = wire_u32_get(message.module_handle);
    infer->model_id = wire_u32_get(message.model_id);
    infer->num_inputs = wire_u32_get(message.num_inputs);
    infer->flags = wire_u32_get(message.flags);
    infer->descs_addr = wire_u64_get(message.descs_addr);
    infer->input_dsp_addr = wire_u64_get(message.input_dsp_addr);
    infer->input_size = wire_u64_get(message.input_size);
    infer->result_dsp_addr = wire_u64_get(message.result_dsp_addr);
    infer->result_size = wire_u64_get(message.result_size);
    uint32_t descs_size = wire_u32_get(message.descs_size);
    if (infer->num_inputs == 0 || infer->num_inputs > C7X_WIRE_INPUTS_MAX)
        return c7x_error_set(error, C7X_TENSOR, STATION, "%u inputs; allowed are 1 to %u",
                             infer->num_inputs, C7X_WIRE_INPUTS_MAX);
    if (descs_size != infer->num_inputs * sizeof(struct c7x_tensor_desc))
        return c7x_error_set(error, C7X_TENSOR, STATION,
                             "descriptor array has %u bytes; %u inputs need %zu", descs_size,
                             infer->num_inputs, infer->num_inputs * sizeof(struct c7x_tensor_desc));
    C7X_RETURN_IF_ERROR(check_infer(infer, session_version, error));
    if (!c7x_range_inside(infer->descs_addr, descs_size, infer->input_dsp_addr, infer->input_size))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "descriptor array 0x%llx is not in the input window",
                             (unsigned long long)infer->descs_addr);
    return C7X_OK;
}

static enum c7x_status decode_printf_buf(const uint8_t *bytes, struct c7x_request *request,
                                         struct c7x_error *error)
{
    struct c7x_msg_set_printf_buf message;
    COPY_MESSAGE(message, bytes);
    request->body.printf_buf.address = wire_u64_get(message.printf_dsp_addr);
    request->body.printf_buf.size = wire_u32_get(message.printf_size);
    if (request->body.printf_buf.size <= 16 ||
        !c7x_range_inside(request->body.printf_buf.address, request->body.printf_buf.size,
                          C7X_WIRE_CARVEOUT_ADDR, C7X_WIRE_CARVEOUT_SIZE))
        return c7x_error_set(
            error, C7X_ADDR, STATION,
            "printf buffer 0x%llx + %u is not in the shared carve-out or too small",
            (unsigned long long)request->body.printf_buf.address, request->body.printf_buf.size);
    return C7X_OK;
}

static void decode_session_open(const uint8_t *bytes, struct c7x_request *request)
{
    struct c7x_msg_session_open message;
    COPY_MESSAGE(message, bytes);
    request->body.session_open.wire_version = wire_u32_get(message.wire_version);
    request->body.session_open.process = wire_u32_get(message.process);
    request->body.session_open.nonce = wire_u64_get(message.nonce);
    memcpy(request->body.session_open.name, message.name, C7X_WIRE_NAME_SIZE);
    request->body.session_open.name[C7X_WIRE_NAME_SIZE - 1] = '\0';
}

static void decode_error_text(const uint8_t *bytes, struct c7x_request *request)
{
    struct c7x_msg_error_text message;
    COPY_MESSAGE(message, bytes);
    request->body.error_text.failed_seq = wire_u32_get(message.failed_seq);
    request->body.error_text.offset = wire_u32_get(message.offset);
}

static enum c7x_status decode_list(const uint8_t *bytes, struct c7x_request *request,
                                   struct c7x_error *error)
{
    struct c7x_msg_list message;
    COPY_MESSAGE(message, bytes);
    request->body.list.kind = wire_u32_get(message.kind);
    request->body.list.first = wire_u32_get(message.first);
    if (request->body.list.kind < C7X_WIRE_LIST_SESSIONS ||
        request->body.list.kind > C7X_WIRE_LIST_BLOCKS)
        return c7x_error_set(error, C7X_INVALID, STATION, "no list of kind %u",
                             request->body.list.kind);
    return C7X_OK;
}

static enum c7x_status decode_kv_bind(const uint8_t *bytes, struct c7x_request *request,
                                      struct c7x_error *error)
{
    struct c7x_msg_kv_bind message;
    uint64_t needed;
    COPY_MESSAGE(message, bytes);
    request->body.kv_bind.module_handle = wire_u32_get(message.module_handle);
    request->body.kv_bind.slot_count = wire_u32_get(message.slot_count);
    request->body.kv_bind.address = wire_u64_get(message.address);
    request->body.kv_bind.size = wire_u64_get(message.size);
    request->body.kv_bind.slot_bytes = wire_u64_get(message.slot_bytes);
    uint64_t size = request->body.kv_bind.size;
    if (size != 0 &&
        (request->body.kv_bind.slot_count == 0 || request->body.kv_bind.slot_bytes == 0 ||
         !c7x_mul_size(request->body.kv_bind.slot_count, request->body.kv_bind.slot_bytes,
                       &needed) ||
         needed > size))
        return c7x_error_set(
            error, C7X_SIZE, STATION, "%u slots of %llu bytes do not fit a KV region of %llu",
            request->body.kv_bind.slot_count, (unsigned long long)request->body.kv_bind.slot_bytes,
            (unsigned long long)size);
    return check_window("KV", request->body.kv_bind.address, size, error);
}

static enum c7x_status decode_trace_begin(const uint8_t *bytes, struct c7x_request *request,
                                          struct c7x_error *error)
{
    struct c7x_msg_trace_begin message;
    COPY_MESSAGE(message, bytes);
    request->body.trace_begin.address = wire_u64_get(message.address);
    request->body.trace_begin.size = wire_u32_get(message.size);
    return check_window("trace", request->body.trace_begin.address, request->body.trace_begin.size,
                        error);
}

static void decode_operators(const uint8_t *bytes, struct c7x_request *request)
{
    struct c7x_msg_operators message;
    COPY_MESSAGE(message, bytes);
    request->body.operators.module_handle = wire_u32_get(message.module_handle);
    request->body.operators.first = wire_u32_get(message.first);
}

/* DYN_UNLOAD, MODEL_UNLOAD and CANCEL have the same layout. */
static uint32_t decode_handle(const uint8_t *bytes)
{
    struct c7x_msg_dyn_unload message;
    COPY_MESSAGE(message, bytes);
    return wire_u32_get(message.module_handle);
}

static enum c7x_status decode_body(const uint8_t *bytes, size_t size, uint32_t session_version,
                                   struct c7x_request *request, struct c7x_error *error)
{
    switch ((enum c7x_msg_type)request->type) {
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
    case C7X_MSG_SESSION_CLOSE:
    case C7X_MSG_TRACE_END:
        return C7X_OK;
    case C7X_MSG_DYN_LOAD:
    case C7X_MSG_MODEL_LOAD:
        return decode_load(bytes, request->type, session_version, &request->body.load, error);
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_UNLOAD:
        request->body.handle = decode_handle(bytes);
        return C7X_OK;
    case C7X_MSG_INFER:
        return decode_infer(bytes, size, session_version, &request->body.infer, error);
    case C7X_MSG_INFER_LARGE:
        return decode_infer_large(bytes, session_version, &request->body.infer, error);
    case C7X_MSG_SET_PRINTF_BUF:
        return decode_printf_buf(bytes, request, error);
    case C7X_MSG_SESSION_OPEN:
        decode_session_open(bytes, request);
        return C7X_OK;
    case C7X_MSG_ERROR_TEXT:
        decode_error_text(bytes, request);
        return C7X_OK;
    case C7X_MSG_CANCEL:
        request->body.cancelled_seq = decode_handle(bytes);
        return C7X_OK;
    case C7X_MSG_LIST:
        return decode_list(bytes, request, error);
    case C7X_MSG_KV_BIND:
        return decode_kv_bind(bytes, request, error);
    case C7X_MSG_TRACE_BEGIN:
        return decode_trace_begin(bytes, request, error);
    case C7X_MSG_OPERATORS:
        decode_operators(bytes, request);
        return C7X_OK;
    }
    return C7X_INVALID;
}

enum c7x_status c7x_wire_decode_request(const uint8_t *bytes, size_t size, uint32_t session_version,
                                        struct c7x_request *out_request, bool *out_header_only,
                                        struct c7x_error *error)
{
    struct c7x_msg_hdr header;
    COPY_MESSAGE(header, bytes);
    memset(out_request, 0, sizeof *out_request);
    out_request->type = wire_u32_get(header.type);
    out_request->seq = wire_u32_get(header.seq);
    *out_header_only = true;
    const struct c7x_wire_message *message = c7x_wire_find_message(out_request->type);
    if (message == NULL)
        return c7x_error_set(error, C7X_INVALID, STATION, "unknown message type 0x%x",
                             out_request->type);
    if (size < message->request_size)
        return c7x_error_set(error, C7X_INVALID, STATION, "%s of %zu bytes; it needs %zu",
                             message->name, size, message->request_size);
    if (wire_u32_get(header.len) != size)
        return c7x_error_set(error, C7X_INVALID, STATION, "%s says %u bytes, %zu were received",
                             message->name, wire_u32_get(header.len), size);
    *out_header_only = false;
    return decode_body(bytes, size, session_version, out_request, error);
}

static size_t encode_load(const struct c7x_request *request, uint8_t *frame)
{
    const struct c7x_wire_load *load = &request->body.load;
    struct c7x_msg_dyn_load message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .elf_size = wire_u32_put(load->size),
        .flags = wire_u32_put(load->flags),
        .address = wire_u64_put((load->flags & C7X_WIRE_LOAD_ADDRESS) != 0 ? load->address : 0),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_infer(const struct c7x_request *request, uint8_t *frame)
{
    const struct c7x_wire_infer *infer = &request->body.infer;
    uint32_t slots = infer->num_inputs == 0 ? 1 : infer->num_inputs;
    size_t first = offsetof(struct c7x_msg_infer, inputs);
    size_t size = first + slots * sizeof(struct c7x_tensor_desc);
    struct c7x_msg_infer message = {
        .hdr = c7x_wire_header(request->type, request->seq, size, 0),
        .module_handle = wire_u32_put(infer->module_handle),
        .model_id = wire_u32_put(infer->model_id),
        .num_inputs = wire_u32_put(infer->num_inputs),
        .flags = wire_u32_put(infer->flags),
        .input_dsp_addr = wire_u64_put(infer->input_dsp_addr),
        .input_size = wire_u64_put(infer->input_size),
        .result_dsp_addr = wire_u64_put(infer->result_dsp_addr),
        .result_size = wire_u64_put(infer->result_size),
    };
    memcpy(frame, &message, sizeof message);
    for (uint32_t i = 0; i < infer->num_inputs; i++)
        c7x_wire_encode_tensor(&infer->inputs[i],
                               frame + first + i * sizeof(struct c7x_tensor_desc));
    return size;
}

static size_t encode_infer_large(const struct c7x_request *request, uint8_t *frame)
{
    const struct c7x_wire_infer *infer = &request->body.infer;
    struct c7x_msg_infer_large message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .module_handle = wire_u32_put(infer->module_handle),
        .model_id = wire_u32_put(infer->model_id),
        .num_inputs = wire_u32_put(infer->num_inputs),
        .flags = wire_u32_put(infer->flags),
        .descs_addr = wire_u64_put(infer->descs_addr),
        .descs_size = wire_u32_put(infer->num_inputs * (uint32_t)sizeof(struct c7x_tensor_desc)),
        .input_dsp_addr = wire_u64_put(infer->input_dsp_addr),
        .input_size = wire_u64_put(infer->input_size),
        .result_dsp_addr = wire_u64_put(infer->result_dsp_addr),
        .result_size = wire_u64_put(infer->result_size),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_printf_buf(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_set_printf_buf message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .printf_dsp_addr = wire_u64_put(request->body.printf_buf.address),
        .printf_size = wire_u32_put(request->body.printf_buf.size),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_session_open(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_session_open message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .wire_version = wire_u32_put(request->body.session_open.wire_version),
        .process = wire_u32_put(request->body.session_open.process),
        .nonce = wire_u64_put(request->body.session_open.nonce),
    };
    memcpy(message.name, request->body.session_open.name, C7X_WIRE_NAME_SIZE);
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_error_text(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_error_text message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .failed_seq = wire_u32_put(request->body.error_text.failed_seq),
        .offset = wire_u32_put(request->body.error_text.offset),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_list(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_list message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .kind = wire_u32_put(request->body.list.kind),
        .first = wire_u32_put(request->body.list.first),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_kv_bind(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_kv_bind message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .module_handle = wire_u32_put(request->body.kv_bind.module_handle),
        .slot_count = wire_u32_put(request->body.kv_bind.slot_count),
        .address = wire_u64_put(request->body.kv_bind.address),
        .size = wire_u64_put(request->body.kv_bind.size),
        .slot_bytes = wire_u64_put(request->body.kv_bind.slot_bytes),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_trace_begin(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_trace_begin message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .address = wire_u64_put(request->body.trace_begin.address),
        .size = wire_u32_put(request->body.trace_begin.size),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_operators(const struct c7x_request *request, uint8_t *frame)
{
    struct c7x_msg_operators message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .module_handle = wire_u32_put(request->body.operators.module_handle),
        .first = wire_u32_put(request->body.operators.first),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

static size_t encode_handle(const struct c7x_request *request, uint32_t handle, uint8_t *frame)
{
    struct c7x_msg_dyn_unload message = {
        .hdr = c7x_wire_header(request->type, request->seq, sizeof message, 0),
        .module_handle = wire_u32_put(handle),
    };
    memcpy(frame, &message, sizeof message);
    return sizeof message;
}

size_t c7x_wire_encode_request(const struct c7x_request *request, uint8_t *frame)
{
    memset(frame, 0, C7X_WIRE_FRAME_MAX);
    switch ((enum c7x_msg_type)request->type) {
    case C7X_MSG_DYN_LOAD:
    case C7X_MSG_MODEL_LOAD:
        return encode_load(request, frame);
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_UNLOAD:
        return encode_handle(request, request->body.handle, frame);
    case C7X_MSG_CANCEL:
        return encode_handle(request, request->body.cancelled_seq, frame);
    case C7X_MSG_LIST:
        return encode_list(request, frame);
    case C7X_MSG_KV_BIND:
        return encode_kv_bind(request, frame);
    case C7X_MSG_TRACE_BEGIN:
        return encode_trace_begin(request, frame);
    case C7X_MSG_OPERATORS:
        return encode_operators(request, frame);
    case C7X_MSG_INFER:
        return encode_infer(request, frame);
    case C7X_MSG_INFER_LARGE:
        return encode_infer_large(request, frame);
    case C7X_MSG_SET_PRINTF_BUF:
        return encode_printf_buf(request, frame);
    case C7X_MSG_SESSION_OPEN:
        return encode_session_open(request, frame);
    case C7X_MSG_ERROR_TEXT:
        return encode_error_text(request, frame);
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
    case C7X_MSG_SESSION_CLOSE:
    case C7X_MSG_TRACE_END:
        break;
    }
    struct c7x_msg_hdr header = c7x_wire_header(request->type, request->seq, sizeof header, 0);
    memcpy(frame, &header, sizeof header);
    return sizeof header;
}

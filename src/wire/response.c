/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire_impl.h"

#include <string.h>

#define STATION "client"

static void encode_dyn_load(const struct c7x_response *response, struct c7x_msg_hdr header,
                            uint8_t *frame)
{
    struct c7x_msg_dyn_load_resp message = {
        .hdr = header,
        .module_handle = wire_u32_put(response->body.dyn_load.module_handle),
        .oom_requested = wire_u32_put(response->oom.requested),
        .oom_free = wire_u32_put(response->oom.free),
        .oom_total = wire_u32_put(response->oom.total),
        .io_input_bytes = wire_u64_put(response->body.dyn_load.io_input_bytes),
        .io_output_bytes = wire_u64_put(response->body.dyn_load.io_output_bytes),
        .io_num_inputs = wire_u32_put(response->body.dyn_load.io_num_inputs),
        .io_num_outputs = wire_u32_put(response->body.dyn_load.io_num_outputs),
        .io_flags = wire_u32_put(response->body.dyn_load.io_flags),
    };
    memcpy(frame, &message, sizeof message);
}

static void encode_model_load(const struct c7x_response *response, struct c7x_msg_hdr header,
                              uint8_t *frame)
{
    struct c7x_msg_model_load_resp message = {
        .hdr = header,
        .model_id = wire_u32_put(response->body.model_load.model_id),
        .num_constants = wire_u32_put(response->body.model_load.num_constants),
        .oom_requested = wire_u32_put(response->oom.requested),
        .oom_free = wire_u32_put(response->oom.free),
        .oom_total = wire_u32_put(response->oom.total),
    };
    memcpy(frame, &message, sizeof message);
}

/* Outputs that stand inline; with an array in memory there is none, and one empty slot is sent. */
static uint32_t inline_outputs(const struct c7x_response *response)
{
    return response->body.infer.descs_addr == 0 ? response->body.infer.num_outputs : 0;
}

static void encode_infer(const struct c7x_response *response, struct c7x_msg_hdr header,
                         uint8_t *frame)
{
    struct c7x_msg_infer_resp message = {
        .hdr = header,
        .return_value = wire_u32_put((uint32_t)response->body.infer.return_value),
        .cycles = wire_u64_put(response->body.infer.cycles),
        .num_outputs = wire_u32_put(response->body.infer.num_outputs),
        .printf_size = wire_u32_put(response->body.infer.printf_size),
        .descs_addr = wire_u64_put(response->body.infer.descs_addr),
        .descs_size = wire_u32_put(response->body.infer.descs_size),
        .oom_requested = wire_u32_put(response->oom.requested),
        .oom_free = wire_u32_put(response->oom.free),
        .oom_total = wire_u32_put(response->oom.total),
        .result_required = wire_u64_put(response->body.infer.result_required),
    };
    memcpy(frame, &message, sizeof message);
    for (uint32_t i = 0; i < inline_outputs(response); i++)
        c7x_wire_encode_tensor(&response->body.infer.outputs[i],
                               frame + offsetof(struct c7x_msg_infer_resp, outputs) +
                                   i * sizeof(struct c7x_tensor_desc));
}

static void encode_session_open(const struct c7x_response *response, struct c7x_msg_hdr header,
                                uint8_t *frame)
{
    struct c7x_msg_session_open_resp message = {
        .hdr = header,
        .generation = wire_u32_put(response->body.session_open.generation),
        .wire_version = wire_u32_put(response->body.session_open.wire_version),
        .nonce = wire_u64_put(response->body.session_open.nonce),
        .cycle_hz = wire_u64_put(response->body.session_open.cycle_hz),
        .queue_depth = wire_u32_put(response->body.session_open.queue_depth),
        .modules_max = wire_u32_put(response->body.session_open.modules_max),
        .models_max = wire_u32_put(response->body.session_open.models_max),
        .lease_ms = wire_u32_put(response->body.session_open.lease_ms),
    };
    memcpy(frame, &message, sizeof message);
}

static void encode_error_text(const struct c7x_response *response, struct c7x_msg_hdr header,
                              uint8_t *frame)
{
    struct c7x_msg_error_text_resp message = {
        .hdr = header,
        .total = wire_u32_put(response->body.error_text.total),
        .bytes = wire_u32_put(response->body.error_text.bytes),
    };
    memcpy(message.station, response->body.error_text.station, sizeof message.station);
    memcpy(frame, &message, offsetof(struct c7x_msg_error_text_resp, text));
    memcpy(frame + offsetof(struct c7x_msg_error_text_resp, text), response->body.error_text.text,
           response->body.error_text.bytes);
}

static void encode_cancel(const struct c7x_response *response, struct c7x_msg_hdr header,
                          uint8_t *frame)
{
    struct c7x_msg_cancel_resp message = {.hdr = header,
                                          .outcome = wire_u32_put(response->body.cancel_outcome)};
    memcpy(frame, &message, sizeof message);
}

static size_t list_bytes(const struct c7x_response *response)
{
    return (size_t)response->body.list.count * response->body.list.entry_size;
}

static void encode_list(const struct c7x_response *response, struct c7x_msg_hdr header,
                        uint8_t *frame)
{
    struct c7x_msg_list_resp message = {
        .hdr = header,
        .kind = wire_u32_put(response->body.list.kind),
        .total = wire_u32_put(response->body.list.total),
        .first = wire_u32_put(response->body.list.first),
        .count = wire_u32_put(response->body.list.count),
        .entry_size = wire_u32_put(response->body.list.entry_size),
    };
    size_t entries = offsetof(struct c7x_msg_list_resp, entries);
    memcpy(frame, &message, entries);
    memcpy(frame + entries, response->body.list.entries, list_bytes(response));
}

static void encode_operators(const struct c7x_response *response, struct c7x_msg_hdr header,
                             uint8_t *frame)
{
    struct c7x_msg_operators_resp message = {
        .hdr = header,
        .total = wire_u32_put(response->body.operators.total),
        .first = wire_u32_put(response->body.operators.first),
        .count = wire_u32_put(response->body.operators.count),
        .bytes = wire_u32_put(response->body.operators.bytes),
    };
    size_t names = offsetof(struct c7x_msg_operators_resp, names);
    memcpy(frame, &message, names);
    memcpy(frame + names, response->body.operators.names, response->body.operators.bytes);
}

static void encode_status(const struct c7x_response *response, struct c7x_msg_hdr header,
                          uint8_t *frame, size_t size)
{
    struct c7x_msg_status_resp message = {
        .hdr = header,
        .version = wire_u32_put(response->body.status.version),
        .uptime_ms = wire_u32_put(response->body.status.uptime_ms),
        .jobs_completed = wire_u32_put(response->body.status.jobs_completed),
        .jobs_failed = wire_u32_put(response->body.status.jobs_failed),
    };
    memcpy(frame, &message, size); /* PING's response is the front of GET_STATUS's */
}

static size_t response_size(const struct c7x_wire_message *message,
                            const struct c7x_response *response)
{
    size_t size = message->response_size;
    if (message->response_type == (C7X_MSG_RESPONSE | C7X_MSG_INFER) &&
        inline_outputs(response) > 1)
        size += (inline_outputs(response) - 1) * sizeof(struct c7x_tensor_desc);
    if (message->request_type == C7X_MSG_ERROR_TEXT)
        size += response->body.error_text.bytes;
    if (message->request_type == C7X_MSG_LIST)
        size += list_bytes(response);
    if (message->request_type == C7X_MSG_OPERATORS)
        size += response->body.operators.bytes;
    return size;
}

size_t c7x_wire_encode_response(const struct c7x_response *response, uint8_t *frame)
{
    memset(frame, 0, C7X_WIRE_FRAME_MAX);
    const struct c7x_wire_message *message = c7x_wire_find_message(response->type);
    if (message == NULL || response->header_only) {
        struct c7x_msg_hdr header = c7x_wire_header(C7X_MSG_RESPONSE | response->type,
                                                    response->seq, sizeof header, response->status);
        memcpy(frame, &header, sizeof header);
        return sizeof header;
    }
    size_t size = response_size(message, response);
    struct c7x_msg_hdr header =
        c7x_wire_header(message->response_type, response->seq, size, response->status);
    switch ((enum c7x_msg_type)response->type) {
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
        encode_status(response, header, frame, size);
        break;
    case C7X_MSG_DYN_LOAD:
        encode_dyn_load(response, header, frame);
        break;
    case C7X_MSG_MODEL_LOAD:
        encode_model_load(response, header, frame);
        break;
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE:
        encode_infer(response, header, frame);
        break;
    case C7X_MSG_SESSION_OPEN:
        encode_session_open(response, header, frame);
        break;
    case C7X_MSG_ERROR_TEXT:
        encode_error_text(response, header, frame);
        break;
    case C7X_MSG_CANCEL:
        encode_cancel(response, header, frame);
        break;
    case C7X_MSG_LIST:
        encode_list(response, header, frame);
        break;
    case C7X_MSG_OPERATORS:
        encode_operators(response, header, frame);
        break;
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_UNLOAD:
    case C7X_MSG_SET_PRINTF_BUF:
    case C7X_MSG_SESSION_CLOSE:
    case C7X_MSG_KV_BIND:
    case C7X_MSG_TRACE_BEGIN:
    case C7X_MSG_TRACE_END:
        memcpy(frame, &header, sizeof header);
        break;
    }
    return size;
}

static void decode_oom(struct c7x_response *response, wire_u32 requested, wire_u32 free,
                       wire_u32 total)
{
    response->oom.requested = wire_u32_get(requested);
    response->oom.free = wire_u32_get(free);
    response->oom.total = wire_u32_get(total);
}

static void decode_dyn_load(const uint8_t *bytes, struct c7x_response *response)
{
    struct c7x_msg_dyn_load_resp message;
    memcpy(&message, bytes, sizeof message);
    decode_oom(response, message.oom_requested, message.oom_free, message.oom_total);
    response->body.dyn_load.module_handle = wire_u32_get(message.module_handle);
    response->body.dyn_load.io_input_bytes = wire_u64_get(message.io_input_bytes);
    response->body.dyn_load.io_output_bytes = wire_u64_get(message.io_output_bytes);
    response->body.dyn_load.io_num_inputs = wire_u32_get(message.io_num_inputs);
    response->body.dyn_load.io_num_outputs = wire_u32_get(message.io_num_outputs);
    response->body.dyn_load.io_flags = wire_u32_get(message.io_flags);
}

static void decode_model_load(const uint8_t *bytes, struct c7x_response *response)
{
    struct c7x_msg_model_load_resp message;
    memcpy(&message, bytes, sizeof message);
    decode_oom(response, message.oom_requested, message.oom_free, message.oom_total);
    response->body.model_load.model_id = wire_u32_get(message.model_id);
    response->body.model_load.num_constants = wire_u32_get(message.num_constants);
}

static enum c7x_status decode_infer(const uint8_t *bytes, size_t size,
                                    struct c7x_response *response)
{
    struct c7x_msg_infer_resp message;
    memcpy(&message, bytes, sizeof message);
    decode_oom(response, message.oom_requested, message.oom_free, message.oom_total);
    response->body.infer.return_value = (int32_t)wire_u32_get(message.return_value);
    response->body.infer.cycles = wire_u64_get(message.cycles);
    response->body.infer.num_outputs = wire_u32_get(message.num_outputs);
    response->body.infer.printf_size = wire_u32_get(message.printf_size);
    response->body.infer.descs_addr = wire_u64_get(message.descs_addr);
    response->body.infer.descs_size = wire_u32_get(message.descs_size);
    response->body.infer.result_required = wire_u64_get(message.result_required);
    if (response->body.infer.num_outputs > C7X_WIRE_OUTPUTS_MAX)
        return C7X_PROTOCOL;
    size_t first = offsetof(struct c7x_msg_infer_resp, outputs);
    uint32_t count = inline_outputs(response);
    if (count > C7X_WIRE_INLINE_OUTPUTS_MAX ||
        count > (size - first) / sizeof(struct c7x_tensor_desc))
        return C7X_PROTOCOL;
    for (uint32_t i = 0; i < count; i++)
        if (c7x_wire_decode_tensor(bytes + first + i * sizeof(struct c7x_tensor_desc),
                                   &response->body.infer.outputs[i]) != C7X_OK)
            return C7X_PROTOCOL;
    return C7X_OK;
}

static void decode_session_open(const uint8_t *bytes, struct c7x_response *response)
{
    struct c7x_msg_session_open_resp message;
    memcpy(&message, bytes, sizeof message);
    response->body.session_open.generation = wire_u32_get(message.generation);
    response->body.session_open.wire_version = wire_u32_get(message.wire_version);
    response->body.session_open.nonce = wire_u64_get(message.nonce);
    response->body.session_open.cycle_hz = wire_u64_get(message.cycle_hz);
    response->body.session_open.queue_depth = wire_u32_get(message.queue_depth);
    response->body.session_open.modules_max = wire_u32_get(message.modules_max);
    response->body.session_open.models_max = wire_u32_get(message.models_max);
    response->body.session_open.lease_ms = wire_u32_get(message.lease_ms);
}

static enum c7x_status decode_error_text(const uint8_t *bytes, size_t size,
                                         struct c7x_response *response)
{
    struct c7x_msg_error_text_resp message;
    size_t first = offsetof(struct c7x_msg_error_text_resp, text);
    memcpy(&message, bytes, first);
    uint32_t count = wire_u32_get(message.bytes);
    if (count > size - first || count > C7X_WIRE_ERROR_TEXT_MAX)
        return C7X_PROTOCOL;
    response->body.error_text.total = wire_u32_get(message.total);
    response->body.error_text.bytes = count;
    memcpy(response->body.error_text.station, message.station, sizeof message.station);
    response->body.error_text.station[sizeof message.station - 1] = '\0';
    memcpy(response->body.error_text.text, bytes + first, count);
    return C7X_OK;
}

static uint32_t decode_cancel(const uint8_t *bytes)
{
    struct c7x_msg_cancel_resp message;
    memcpy(&message, bytes, sizeof message);
    return wire_u32_get(message.outcome);
}

static enum c7x_status decode_list(const uint8_t *bytes, size_t size, struct c7x_response *response)
{
    struct c7x_msg_list_resp message;
    size_t first = offsetof(struct c7x_msg_list_resp, entries);
    memcpy(&message, bytes, first);
    uint32_t count = wire_u32_get(message.count);
    uint32_t entry_size = wire_u32_get(message.entry_size);
    if (entry_size > C7X_WIRE_LIST_BYTES_MAX || count > C7X_WIRE_LIST_BYTES_MAX ||
        (size_t)count * entry_size > size - first ||
        (size_t)count * entry_size > C7X_WIRE_LIST_BYTES_MAX)
        return C7X_PROTOCOL;
    response->body.list.kind = wire_u32_get(message.kind);
    response->body.list.total = wire_u32_get(message.total);
    response->body.list.first = wire_u32_get(message.first);
    response->body.list.count = count;
    response->body.list.entry_size = entry_size;
    memcpy(response->body.list.entries, bytes + first, list_bytes(response));
    return C7X_OK;
}

/* As many names as it says, each with its end, and nothing else. */
static bool are_names(const char *names, uint32_t bytes, uint32_t count)
{
    uint32_t ends = 0;
    for (uint32_t i = 0; i < bytes; i++)
        ends += names[i] == '\0';
    return ends == count && (bytes == 0 || names[bytes - 1] == '\0');
}

static enum c7x_status decode_operators(const uint8_t *bytes, size_t size,
                                        struct c7x_response *response)
{
    struct c7x_msg_operators_resp message;
    size_t first = offsetof(struct c7x_msg_operators_resp, names);
    memcpy(&message, bytes, first);
    uint32_t count = wire_u32_get(message.count);
    uint32_t used = wire_u32_get(message.bytes);
    if (used > size - first || used > C7X_WIRE_OPERATORS_BYTES_MAX ||
        !are_names((const char *)bytes + first, used, count))
        return C7X_PROTOCOL;
    response->body.operators.total = wire_u32_get(message.total);
    response->body.operators.first = wire_u32_get(message.first);
    response->body.operators.count = count;
    response->body.operators.bytes = used;
    memcpy(response->body.operators.names, bytes + first, used);
    return C7X_OK;
}

static void decode_status(const uint8_t *bytes, size_t size, struct c7x_response *response)
{
    struct c7x_msg_status_resp message = {.jobs_failed = {{0}}};
    memcpy(&message, bytes, size < sizeof message ? size : sizeof message);
    response->body.status.version = wire_u32_get(message.version);
    response->body.status.uptime_ms = wire_u32_get(message.uptime_ms);
    response->body.status.jobs_completed = wire_u32_get(message.jobs_completed);
    response->body.status.jobs_failed = wire_u32_get(message.jobs_failed);
}

static enum c7x_status decode_body(const uint8_t *bytes, size_t size, struct c7x_response *response)
{
    switch ((enum c7x_msg_type)response->type) {
    case C7X_MSG_PING:
        decode_status(bytes, sizeof(struct c7x_msg_ping_resp), response);
        return C7X_OK;
    case C7X_MSG_GET_STATUS:
        decode_status(bytes, size, response);
        return C7X_OK;
    case C7X_MSG_DYN_LOAD:
        decode_dyn_load(bytes, response);
        return C7X_OK;
    case C7X_MSG_MODEL_LOAD:
        decode_model_load(bytes, response);
        return C7X_OK;
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE:
        return decode_infer(bytes, size, response);
    case C7X_MSG_SESSION_OPEN:
        decode_session_open(bytes, response);
        return C7X_OK;
    case C7X_MSG_ERROR_TEXT:
        return decode_error_text(bytes, size, response);
    case C7X_MSG_CANCEL:
        response->body.cancel_outcome = decode_cancel(bytes);
        return C7X_OK;
    case C7X_MSG_LIST:
        return decode_list(bytes, size, response);
    case C7X_MSG_OPERATORS:
        return decode_operators(bytes, size, response);
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_UNLOAD:
    case C7X_MSG_SET_PRINTF_BUF:
    case C7X_MSG_SESSION_CLOSE:
    case C7X_MSG_KV_BIND:
    case C7X_MSG_TRACE_BEGIN:
    case C7X_MSG_TRACE_END:
        return C7X_OK;
    }
    return C7X_PROTOCOL;
}

enum c7x_status c7x_wire_decode_response(const uint8_t *bytes, size_t size, uint32_t request_type,
                                         struct c7x_response *out_response, struct c7x_error *error)
{
    const struct c7x_wire_message *message = c7x_wire_find_message(request_type);
    uint32_t type;
    memset(out_response, 0, sizeof *out_response);
    out_response->type = request_type;
    if (message == NULL || size < C7X_WIRE_HEADER_SIZE)
        return c7x_error_set(error, C7X_PROTOCOL, STATION, "a response of %zu bytes", size);
    c7x_wire_peek(bytes, &type, &out_response->seq, &out_response->status);
    if (type != message->response_type && type != (C7X_MSG_RESPONSE | request_type))
        return c7x_error_set(error, C7X_PROTOCOL, STATION, "response type 0x%x to %s", type,
                             message->name);
    if (out_response->status > 0 || out_response->status < C7X_STATUS_WIRE_MIN)
        return c7x_error_set(error, C7X_PROTOCOL, STATION, "response to %s has status %d",
                             message->name, out_response->status);
    if (size < message->response_size) {
        out_response->header_only = true;
        if (out_response->status != C7X_OK)
            return C7X_OK;
        return c7x_error_set(error, C7X_PROTOCOL, STATION,
                             "response to %s has %zu bytes, it needs %zu", message->name, size,
                             message->response_size);
    }
    if (decode_body(bytes, size, out_response) != C7X_OK)
        return c7x_error_set(error, C7X_PROTOCOL, STATION, "response to %s contradicts itself",
                             message->name);
    return C7X_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What both directions share; requests are in request.c, responses in response.c. */
#include "wire/wire_impl.h"

#include <string.h>

static const struct c7x_wire_message messages[] = {
#define ROW(NAME, name, request, response, since, meaning)                                         \
    {#NAME, request, response, since, C7X_WIRE_REQUEST_SIZE_##NAME, C7X_WIRE_RESPONSE_SIZE_##NAME},
    WIRE_MESSAGES(ROW)
#undef ROW
};

const struct c7x_wire_message *c7x_wire_find_message(uint32_t type)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(messages); i++)
        if (messages[i].request_type == type)
            return &messages[i];
    return NULL;
}

const char *c7x_wire_type_name(uint32_t type)
{
    const struct c7x_wire_message *message = c7x_wire_find_message(type);
    return message != NULL ? message->name : "UNKNOWN";
}

uint32_t c7x_wire_type_since(uint32_t type)
{
    const struct c7x_wire_message *message = c7x_wire_find_message(type);
    return message != NULL ? message->since : 0;
}

void c7x_wire_peek(const uint8_t *bytes, uint32_t *out_type, uint32_t *out_seq, int32_t *out_status)
{
    struct c7x_msg_hdr header;
    memcpy(&header, bytes, sizeof header);
    *out_type = wire_u32_get(header.type);
    *out_seq = wire_u32_get(header.seq);
    *out_status = (int32_t)wire_u32_get(header.status);
}

struct c7x_msg_hdr c7x_wire_header(uint32_t type, uint32_t seq, size_t size, int32_t status)
{
    struct c7x_msg_hdr header = {wire_u32_put(type), wire_u32_put(seq),
                                 wire_u32_put((uint32_t)size), wire_u32_put((uint32_t)status)};
    return header;
}

enum c7x_status c7x_wire_decode_tensor(const uint8_t *bytes, struct c7x_wire_tensor *out_tensor)
{
    struct c7x_tensor_desc wire;
    memcpy(&wire, bytes, sizeof wire);
    int32_t ndim = (int32_t)wire_u32_get(wire.ndim);
    if (ndim < 0 || ndim > C7X_WIRE_RANK_MAX)
        return C7X_TENSOR;
    struct c7x_wire_tensor tensor = {
        .data_addr = wire_u64_get(wire.data_addr),
        .data_size = wire_u64_get(wire.data_size),
        .ndim = ndim,
        .dtype_code = (int32_t)wire_u32_get(wire.dtype_code),
        .dtype_bits = (int32_t)wire_u32_get(wire.dtype_bits),
        .reserved = (int32_t)wire_u32_get(wire.reserved),
    };
    for (int i = 0; i < C7X_WIRE_RANK_MAX; i++)
        tensor.shape[i] = (int64_t)wire_u64_get(wire.shape[i]);
    *out_tensor = tensor;
    return C7X_OK;
}

void c7x_wire_encode_tensor(const struct c7x_wire_tensor *tensor, uint8_t *bytes)
{
    struct c7x_tensor_desc wire = {
        .data_addr = wire_u64_put(tensor->data_addr),
        .data_size = wire_u64_put(tensor->data_size),
        .ndim = wire_u32_put((uint32_t)tensor->ndim),
        .dtype_code = wire_u32_put((uint32_t)tensor->dtype_code),
        .dtype_bits = wire_u32_put((uint32_t)tensor->dtype_bits),
        .reserved = wire_u32_put((uint32_t)tensor->reserved),
    };
    for (int i = 0; i < C7X_WIRE_RANK_MAX; i++)
        wire.shape[i] = wire_u64_put((uint64_t)tensor->shape[i]);
    memcpy(bytes, &wire, sizeof wire);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of this folder alone. */
#ifndef C7X_WIRE_WIRE_IMPL_H
#define C7X_WIRE_WIRE_IMPL_H

#include "wire/wire.h"

/* Sizes of the fixed part of each message: the least that a decoder accepts, and what an encoder
 * writes. */
#define C7X_WIRE_REQUEST_SIZE_PING sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_REQUEST_SIZE_GET_STATUS sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_REQUEST_SIZE_DYN_LOAD sizeof(struct c7x_msg_dyn_load)
#define C7X_WIRE_REQUEST_SIZE_DYN_UNLOAD sizeof(struct c7x_msg_dyn_unload)
#define C7X_WIRE_REQUEST_SIZE_MODEL_LOAD sizeof(struct c7x_msg_model_load)
#define C7X_WIRE_REQUEST_SIZE_INFER sizeof(struct c7x_msg_infer)
#define C7X_WIRE_REQUEST_SIZE_MODEL_UNLOAD sizeof(struct c7x_msg_model_unload)
#define C7X_WIRE_REQUEST_SIZE_INFER_LARGE sizeof(struct c7x_msg_infer_large)
#define C7X_WIRE_REQUEST_SIZE_SET_PRINTF_BUF sizeof(struct c7x_msg_set_printf_buf)
#define C7X_WIRE_REQUEST_SIZE_SESSION_OPEN sizeof(struct c7x_msg_session_open)
#define C7X_WIRE_REQUEST_SIZE_SESSION_CLOSE sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_REQUEST_SIZE_ERROR_TEXT sizeof(struct c7x_msg_error_text)
#define C7X_WIRE_REQUEST_SIZE_CANCEL sizeof(struct c7x_msg_cancel)
#define C7X_WIRE_REQUEST_SIZE_LIST sizeof(struct c7x_msg_list)
#define C7X_WIRE_REQUEST_SIZE_KV_BIND sizeof(struct c7x_msg_kv_bind)
#define C7X_WIRE_REQUEST_SIZE_TRACE_BEGIN sizeof(struct c7x_msg_trace_begin)
#define C7X_WIRE_REQUEST_SIZE_TRACE_END sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_REQUEST_SIZE_OPERATORS sizeof(struct c7x_msg_operators)

#define C7X_WIRE_RESPONSE_SIZE_PING sizeof(struct c7x_msg_ping_resp)
#define C7X_WIRE_RESPONSE_SIZE_GET_STATUS sizeof(struct c7x_msg_status_resp)
#define C7X_WIRE_RESPONSE_SIZE_DYN_LOAD sizeof(struct c7x_msg_dyn_load_resp)
#define C7X_WIRE_RESPONSE_SIZE_DYN_UNLOAD sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_MODEL_LOAD sizeof(struct c7x_msg_model_load_resp)
#define C7X_WIRE_RESPONSE_SIZE_INFER sizeof(struct c7x_msg_infer_resp)
#define C7X_WIRE_RESPONSE_SIZE_MODEL_UNLOAD sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_INFER_LARGE sizeof(struct c7x_msg_infer_resp)
#define C7X_WIRE_RESPONSE_SIZE_SET_PRINTF_BUF sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_SESSION_OPEN sizeof(struct c7x_msg_session_open_resp)
#define C7X_WIRE_RESPONSE_SIZE_SESSION_CLOSE sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_ERROR_TEXT offsetof(struct c7x_msg_error_text_resp, text)
#define C7X_WIRE_RESPONSE_SIZE_CANCEL sizeof(struct c7x_msg_cancel_resp)
#define C7X_WIRE_RESPONSE_SIZE_LIST offsetof(struct c7x_msg_list_resp, entries)
#define C7X_WIRE_RESPONSE_SIZE_KV_BIND sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_TRACE_BEGIN sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_TRACE_END sizeof(struct c7x_msg_hdr)
#define C7X_WIRE_RESPONSE_SIZE_OPERATORS offsetof(struct c7x_msg_operators_resp, names)

struct c7x_wire_message {
    const char *name;
    uint32_t request_type;
    uint32_t response_type;
    uint32_t since; /* wire version */
    size_t request_size;
    size_t response_size;
};

/* The row of a request type, or NULL. */
const struct c7x_wire_message *c7x_wire_find_message(uint32_t type);

struct c7x_msg_hdr c7x_wire_header(uint32_t type, uint32_t seq, size_t size, int32_t status);

#endif

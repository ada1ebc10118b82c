/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/service/service_impl.h"

#include "base/log.h"
#include "base/trace.h"

#include <string.h>

#define STATION "service"

static uint32_t saturate(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

/* Version 3.0 ends at -14: what came later is told by the nearest status that its clients know. */
static int32_t status_for_3_0(int32_t status)
{
    if (status >= C7X_STATUS_WIRE_3_0_MIN)
        return status;
    return status == C7X_UNSUPPORTED ? C7X_INVALID : C7X_CALL;
}

void c7x_session_keep_error(struct c7x_session *session, uint32_t seq,
                            const struct c7x_error *error)
{
    struct c7x_service *service = session->service;
    struct c7x_heap *heap = service->config.heap;
    size_t size = strlen(error->text);
    char *text = c7x_heap_alloc(heap, C7X_HEAP_SERVICE, size + 1, 0);
    if (text == NULL)
        return; /* the status still tells; the text is in the log */
    memcpy(text, error->text, size + 1);
    c7x_os_mutex_lock(&service->lock);
    struct c7x_session_error *slot =
        &session->errors[session->next_error++ % C7X_WIRE_SESSION_ERROR_TEXTS_MAX];
    char *old = slot->text;
    slot->seq = seq;
    slot->text = text;
    slot->text_size = (uint32_t)size;
    memset(slot->station, 0, sizeof slot->station);
    strncpy(slot->station, error->station != NULL ? error->station : "", sizeof slot->station - 1);
    c7x_os_mutex_unlock(&service->lock);
    c7x_heap_free(heap, old);
}

void c7x_session_keep_text(struct c7x_session *session, uint32_t seq, char *text)
{
    struct c7x_service *service = session->service;
    char *unused = text;
    if (text == NULL)
        return;
    c7x_os_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < C7X_WIRE_SESSION_ERROR_TEXTS_MAX; i++) {
        struct c7x_session_error *slot = &session->errors[i];
        if (slot->text == NULL || slot->seq != seq)
            continue;
        unused = slot->text;
        slot->text = text;
        slot->text_size = (uint32_t)strlen(text);
        break;
    }
    c7x_os_mutex_unlock(&service->lock);
    c7x_heap_free(service->config.heap, unused);
}

void c7x_service_set_failure(struct c7x_session *session, struct c7x_response *response,
                             const struct c7x_error *error)
{
    response->status = error->status;
    response->oom.requested = saturate(error->oom.requested);
    response->oom.free = saturate(error->oom.free);
    response->oom.total = saturate(error->oom.total);
    c7x_log(STATION, "%s seq %u failed with %s: %s: %s", c7x_wire_type_name(response->type),
            response->seq, c7x_status_name(error->status),
            error->station != NULL ? error->station : STATION, error->text);
    bool is_3_1 = session != NULL && session->version >= C7X_WIRE_VERSION_3_1;
    if (is_3_1)
        c7x_session_keep_error(session, response->seq, error);
    else if (response->type != C7X_MSG_SESSION_OPEN)
        response->status = status_for_3_0(response->status);
}

void c7x_service_send(struct c7x_service *service, uint32_t session, uint32_t endpoint,
                      const struct c7x_response *response)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    size_t size = c7x_wire_encode_response(response, frame);
    const struct c7x_trace_origin origin = {
        .session = session, .seq = response->seq, .type = (uint16_t)response->type};
    c7x_trace(C7X_STATION_REPLY, &origin);
    enum c7x_status status =
        service->config.link->ops->send(service->config.link, endpoint, frame, size);
    if (status == C7X_BUSY)
        c7x_log(STATION, "endpoint %u takes no frames; the reply to %s seq %u is lost", endpoint,
                c7x_wire_type_name(response->type), response->seq);
}

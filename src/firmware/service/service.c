/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/service/service_impl.h"

#include "base/log.h"
#include "base/trace.h"
#include "firmware/tvm/model.h"

#include <string.h>

#define STATION "service"
#define PRINTF_RING_ALIGNMENT 128u /* a cache line of the DSP */
#define SCRATCH_BYTES ((size_t)C7X_PRINTF_HEADER_BYTES + C7X_SERVICE_PRINTF_BYTES)

enum c7x_status c7x_service_create(const struct c7x_service_config *config,
                                   struct c7x_service **out_service)
{
    struct c7x_service *service =
        c7x_heap_alloc(config->heap, C7X_HEAP_SERVICE, sizeof *service, 0);
    if (service == NULL)
        return C7X_NOMEM;
    memset(service, 0, sizeof *service);
    service->config = *config;
    service->next_session = 1;
    service->start_ns = c7x_os_clock_ns();
    service->scratch =
        c7x_heap_alloc(config->heap, C7X_HEAP_SERVICE, C7X_TARGET_COUNT * SCRATCH_BYTES, 0);
    if (service->scratch == NULL || c7x_os_mutex_init(&service->lock) != C7X_OK) {
        c7x_heap_free(config->heap, service->scratch);
        c7x_heap_free(config->heap, service);
        return C7X_NOMEM;
    }
    for (uint32_t i = 0; i < C7X_SERVICE_USUAL_JOBS; i++) {
        service->usual_jobs[i].job.next = service->free_jobs;
        service->free_jobs = &service->usual_jobs[i].job;
    }
    for (int i = 0; i < C7X_TARGET_COUNT; i++)
        c7x_printf_bind(&service->scratch_printf[i], service->scratch + (size_t)i * SCRATCH_BYTES,
                        SCRATCH_BYTES);
    *out_service = service;
    return C7X_OK;
}

void c7x_service_destroy(struct c7x_service *service)
{
    if (service == NULL)
        return;
    c7x_os_mutex_deinit(&service->lock);
    c7x_heap_free(service->config.heap, service->scratch);
    c7x_heap_free(service->config.heap, service);
}

static void answer_status(struct c7x_service *service, struct c7x_response *response)
{
    response->body.status.version = C7X_WIRE_VERSION;
    response->body.status.uptime_ms = (uint32_t)((service->frame_ns - service->start_ns) / 1000000);
    response->body.status.jobs_completed = service->jobs_completed;
    response->body.status.jobs_failed = service->jobs_failed;
}

static void describe_device(const struct c7x_service *service, const struct c7x_session *session,
                            struct c7x_response *response)
{
    response->body.session_open.generation = session->number;
    response->body.session_open.wire_version = session->version;
    response->body.session_open.cycle_hz = c7x_os_cycle_hz();
    response->body.session_open.queue_depth = C7X_TARGET_QUEUE_DEPTH_MAX;
    response->body.session_open.modules_max = C7X_MODULE_COUNT_MAX;
    response->body.session_open.lease_ms = service->config.lease_ms;
    response->body.session_open.models_max = C7X_TVM_MODEL_COUNT_MAX;
}

/* A second OPEN from one endpoint ends the session before it: addresses are reused, and a peer may
 * die unseen. */
static enum c7x_status answer_session_open(struct c7x_service *service, uint32_t endpoint,
                                           const struct c7x_request *request,
                                           struct c7x_response *response, struct c7x_error *error)
{
    struct c7x_session *session = c7x_session_find(service, endpoint);
    struct c7x_session_client client = {.version = request->body.session_open.wire_version,
                                        .process = request->body.session_open.process};
    if (C7X_WIRE_VERSION_MAJOR(client.version) != C7X_WIRE_VERSION_MAJOR(C7X_WIRE_VERSION) ||
        client.version < C7X_WIRE_VERSION_3_1)
        return c7x_error_set(error, C7X_UNSUPPORTED, STATION,
                             "wire version 0x%06x; this device speaks 0x%06x", client.version,
                             C7X_WIRE_VERSION);
    if (session != NULL)
        c7x_session_end(session, C7X_SESSION_REPLACED, 0);
    if (client.version > C7X_WIRE_VERSION)
        client.version = C7X_WIRE_VERSION;
    memcpy(client.name, request->body.session_open.name, sizeof client.name);
    C7X_RETURN_IF_ERROR(c7x_session_create(service, endpoint, &client, &session, error));
    describe_device(service, session, response);
    response->body.session_open.nonce = request->body.session_open.nonce;
    c7x_log(STATION, "session %u opened by process %u, %s", session->number, session->process,
            session->name);
    return C7X_OK;
}

static enum c7x_status answer_error_text(struct c7x_session *session,
                                         const struct c7x_request *request,
                                         struct c7x_response *response, struct c7x_error *error)
{
    struct c7x_service *service = session->service;
    uint32_t offset = request->body.error_text.offset;
    enum c7x_status status = C7X_HANDLE;
    c7x_os_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < C7X_WIRE_SESSION_ERROR_TEXTS_MAX; i++) {
        const struct c7x_session_error *kept = &session->errors[i];
        if (kept->text == NULL || kept->seq != request->body.error_text.failed_seq)
            continue;
        uint32_t left = offset < kept->text_size ? kept->text_size - offset : 0;
        uint32_t count = left < C7X_WIRE_ERROR_TEXT_MAX ? left : C7X_WIRE_ERROR_TEXT_MAX;
        response->body.error_text.total = kept->text_size;
        response->body.error_text.bytes = count;
        memcpy(response->body.error_text.station, kept->station, sizeof kept->station);
        memcpy(response->body.error_text.text, kept->text + (kept->text_size - left), count);
        status = C7X_OK;
        break;
    }
    c7x_os_mutex_unlock(&service->lock);
    if (status != C7X_OK)
        return c7x_error_set(error, status, STATION, "no text is kept for request %u",
                             request->body.error_text.failed_seq);
    return C7X_OK;
}

/* A ring of records is used by both sides at once, so its words must be whole ones. */
static enum c7x_status check_ring(const struct c7x_session *session,
                                  const struct c7x_printf_window *window, struct c7x_error *error)
{
    if (session->version < C7X_WIRE_VERSION_3_1 ||
        (window->address % PRINTF_RING_ALIGNMENT == 0 && window->size >= C7X_WIRE_PRINTF_RING_MIN))
        return C7X_OK;
    return c7x_error_set(error, C7X_ADDR, STATION,
                         "printf buffer 0x%llx + %u: it must stand at a multiple of %u and have %u "
                         "bytes or more",
                         (unsigned long long)window->address, window->size, PRINTF_RING_ALIGNMENT,
                         C7X_WIRE_PRINTF_RING_MIN);
}

/* A job may be printing now, so the buffer waits, pinned, for the session's next inference. */
static enum c7x_status answer_printf_buf(struct c7x_session *session,
                                         const struct c7x_request *request, struct c7x_error *error)
{
    struct c7x_memory *memory = session->service->config.memory;
    struct c7x_printf_window window = {request->body.printf_buf.address,
                                       request->body.printf_buf.size};
    C7X_RETURN_IF_ERROR(check_ring(session, &window, error));
    if (!memory->ops->pin(memory, session->endpoint, window.address, window.size))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "printf buffer 0x%llx + %u is not this client's",
                             (unsigned long long)window.address, window.size);
    c7x_os_mutex_lock(&session->service->lock);
    c7x_dsp_addr replaced = session->printf_next.address;
    session->printf_next = window;
    c7x_os_mutex_unlock(&session->service->lock);
    if (replaced != 0)
        memory->ops->unpin(memory, replaced);
    return C7X_OK;
}

/* What needs no target; *out_answered is false for what a job will answer. */
static enum c7x_status dispatch(struct c7x_service *service, struct c7x_session *session,
                                uint32_t endpoint, const struct c7x_request *request,
                                struct c7x_response *response, bool *out_answered,
                                struct c7x_error *error)
{
    *out_answered = true;
    switch ((enum c7x_msg_type)request->type) {
    case C7X_MSG_PING:
    case C7X_MSG_GET_STATUS:
        answer_status(service, response);
        return C7X_OK;
    case C7X_MSG_SESSION_OPEN:
        return answer_session_open(service, endpoint, request, response, error);
    case C7X_MSG_SESSION_CLOSE:
        *out_answered = false;
        c7x_session_end(session, C7X_SESSION_CLOSED, request->seq);
        return C7X_OK;
    case C7X_MSG_ERROR_TEXT:
        return answer_error_text(session, request, response, error);
    case C7X_MSG_SET_PRINTF_BUF:
        return answer_printf_buf(session, request, error);
    case C7X_MSG_CANCEL:
        return c7x_service_cancel(session, request->body.cancelled_seq,
                                  &response->body.cancel_outcome, error);
    case C7X_MSG_LIST:
        c7x_service_list(service, request, response);
        return C7X_OK;
    case C7X_MSG_KV_BIND:
        return c7x_service_kv_bind(session, request, error);
    case C7X_MSG_TRACE_BEGIN:
        return c7x_service_trace_begin(session, request, error);
    case C7X_MSG_TRACE_END:
        return c7x_service_trace_end(session, error);
    case C7X_MSG_OPERATORS:
        return c7x_service_operators(service, request, response, error);
    case C7X_MSG_DYN_LOAD:
    case C7X_MSG_DYN_UNLOAD:
    case C7X_MSG_MODEL_LOAD:
    case C7X_MSG_MODEL_UNLOAD:
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE: {
        enum c7x_status status = c7x_service_route(session, request, error);
        *out_answered = status != C7X_OK;
        return status;
    }
    }
    return C7X_INVALID;
}

/* Whether the message may come from an endpoint that has no session, and makes none. */
static bool needs_no_session(uint32_t type)
{
    return type == C7X_MSG_PING || type == C7X_MSG_GET_STATUS || type == C7X_MSG_SESSION_OPEN;
}

/*
 * Whose request it is. A client that begins without OPEN is one of version 3.0, and a message that
 * its version has not is to it what any unknown type is.
 */
static enum c7x_status find_sender(struct c7x_service *service, uint32_t endpoint,
                                   const struct c7x_request *request,
                                   struct c7x_session **inout_session,
                                   struct c7x_response *response, struct c7x_error *error)
{
    static const struct c7x_session_client old = {.version = C7X_WIRE_VERSION_3_0};
    struct c7x_session *session = *inout_session;
    if (needs_no_session(request->type))
        return C7X_OK;
    if (c7x_wire_type_since(request->type) > C7X_WIRE_VERSION_3_0 &&
        (session == NULL || session->version < C7X_WIRE_VERSION_3_1)) {
        response->header_only = true;
        return c7x_error_set(error, C7X_INVALID, STATION, "%s needs a session that was opened",
                             c7x_wire_type_name(request->type));
    }
    return session != NULL ? C7X_OK
                           : c7x_session_create(service, endpoint, &old, inout_session, error);
}

static void trace_arrival(const struct c7x_session *session, const uint8_t *frame)
{
    uint32_t type;
    uint32_t seq;
    int32_t status;
    c7x_wire_peek(frame, &type, &seq, &status);
    const struct c7x_trace_origin origin = {
        .session = session != NULL ? session->number : 0, .seq = seq, .type = (uint16_t)type};
    c7x_trace(C7X_STATION_SERVICE, &origin);
}

static void handle_frame(struct c7x_service *service, uint32_t endpoint, const uint8_t *frame,
                         size_t size)
{
    struct c7x_session *session = c7x_session_find(service, endpoint);
    struct c7x_request request;
    struct c7x_response response = {0};
    struct c7x_error error;
    bool answered = true;
    service->frame_ns = c7x_os_clock_ns();
    trace_arrival(session, frame);
    if (session != NULL)
        session->last_frame_ns = service->frame_ns;
    c7x_session_expire(service, session);
    c7x_error_clear(&error);
    enum c7x_status status = c7x_wire_decode_request(
        frame, size, session != NULL ? session->version : C7X_WIRE_VERSION_3_0, &request,
        &response.header_only, &error);
    response.type = request.type;
    response.seq = request.seq;
    if (status == C7X_OK)
        status = find_sender(service, endpoint, &request, &session, &response, &error);
    if (status == C7X_OK)
        status = dispatch(service, session, endpoint, &request, &response, &answered, &error);
    if (request.type == C7X_MSG_SESSION_OPEN)
        session = c7x_session_find(service, endpoint); /* the one before may be gone */
    if (status != C7X_OK) {
        c7x_service_set_failure(session, &response, &error);
        if (request.type == C7X_MSG_INFER_LARGE)
            response.body.infer.return_value =
                -1; /* as 3.0 firmware answers what it refuses early */
    }
    if (answered)
        c7x_service_send(service, session != NULL ? session->number : 0, endpoint, &response);
}

static void receive_frame(struct c7x_service *service, uint32_t endpoint, const uint8_t *frame,
                          size_t size)
{
    if (size >= C7X_WIRE_HEADER_SIZE && size <= C7X_TRANSPORT_FRAME_MAX) {
        handle_frame(service, endpoint, frame, size);
        return;
    }
    service->short_frames++;
    c7x_log(STATION, "dropped a frame of %zu bytes (%u so far)", size, service->short_frames);
}

/* One event. False: the link says stop; the core has been told. */
static bool serve(struct c7x_service *service, bool spins)
{
    struct c7x_device_link *link = service->config.link;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    struct c7x_session *session;
    uint32_t endpoint = 0;
    size_t size = 0;
    enum c7x_device_event event = link->ops->receive(link, spins, &endpoint, frame, &size);
    switch (event) {
    case C7X_DEVICE_FRAME:
        receive_frame(service, endpoint, frame, size);
        break;
    case C7X_DEVICE_GONE:
        session = c7x_session_find(service, endpoint);
        if (session != NULL)
            c7x_session_end(session, C7X_SESSION_REPLACED, 0);
        break;
    case C7X_DEVICE_STOP:
        c7x_session_end_all(service);
        c7x_core_stop(service->config.core);
        break;
    case C7X_DEVICE_WAKE: /* it may have been meant for another */
        c7x_core_kick(service->config.core);
        break;
    }
    link->ops->done(link);
    return event != C7X_DEVICE_STOP;
}

void c7x_service_stand_in(struct c7x_service *service)
{
    (void)c7x_os_task_be_urgent();
    while (c7x_core_wait_until_busy(service->config.core) && serve(service, false))
        continue;
}

void c7x_service_idle(void *service)
{
    (void)serve(service, true);
}

void c7x_service_leave(void *service)
{
    struct c7x_device_link *link = ((struct c7x_service *)service)->config.link;
    link->ops->leave(link);
}

void c7x_service_wake(void *service)
{
    struct c7x_device_link *link = ((struct c7x_service *)service)->config.link;
    link->ops->wake(link);
}

void c7x_service_expect(void *service, uint32_t endpoint)
{
    struct c7x_device_link *link = ((struct c7x_service *)service)->config.link;
    link->ops->expect(link, endpoint);
}

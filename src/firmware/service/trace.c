/* SPDX-License-Identifier: Apache-2.0 */
/* TRACE_BEGIN and TRACE_END: who records events, and where. */
#include "firmware/service/service_impl.h"

#define STATION "service"
#define WINDOW_ALIGNMENT 128u /* a cache line of the DSP */

static enum c7x_status refuse_second(const struct c7x_service *service, struct c7x_error *error)
{
    char who[C7X_SESSION_DESCRIPTION_MAX];
    c7x_session_describe(service->tracer, who);
    return c7x_error_set(error, C7X_BUSY, STATION, "%s records events already", who);
}

static enum c7x_status pin_window(const struct c7x_session *session,
                                  const struct c7x_request *request, struct c7x_error *error)
{
    struct c7x_memory *memory = session->service->config.memory;
    uint64_t address = request->body.trace_begin.address;
    uint32_t size = request->body.trace_begin.size;
    if (address % WINDOW_ALIGNMENT != 0 || size < C7X_WIRE_TRACE_MIN)
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "trace window 0x%llx + %u: it must stand at a multiple of %u and have "
                             "%u bytes or more",
                             (unsigned long long)address, size, WINDOW_ALIGNMENT,
                             C7X_WIRE_TRACE_MIN);
    if (!memory->ops->pin(memory, session->endpoint, address, size))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "trace window 0x%llx + %u is not this "
                             "client's",
                             (unsigned long long)address, size);
    return C7X_OK;
}

enum c7x_status c7x_service_trace_begin(struct c7x_session *session,
                                        const struct c7x_request *request, struct c7x_error *error)
{
    struct c7x_service *service = session->service;
    struct c7x_recorder_window window = {
        .size = request->body.trace_begin.size,
        .core_number = service->config.core->config.number,
    };
    if (service->tracer != NULL)
        return refuse_second(service, error);
    C7X_RETURN_IF_ERROR(pin_window(session, request, error));
    window.buffer =
        c7x_memory_pointer(service->config.memory, request->body.trace_begin.address, window.size);
    enum c7x_status status = c7x_recorder_begin(&window);
    if (status != C7X_OK) {
        c7x_service_unpin(service, request->body.trace_begin.address);
        return c7x_error_set(error, status, STATION, "the recorder cannot begin");
    }
    service->trace_address = request->body.trace_begin.address;
    service->tracer = session;
    return C7X_OK;
}

enum c7x_status c7x_service_trace_end(const struct c7x_session *session, struct c7x_error *error)
{
    if (session->service->tracer != session)
        return c7x_error_set(error, C7X_HANDLE, STATION, "this session records no events");
    c7x_service_trace_drop(session);
    return C7X_OK;
}

void c7x_service_trace_drop(const struct c7x_session *session)
{
    if (session->service->tracer != session)
        return;
    session->service->tracer = NULL;
    c7x_recorder_end();
    c7x_service_unpin(session->service, session->service->trace_address);
}

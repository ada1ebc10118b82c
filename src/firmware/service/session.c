/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/service/service_impl.h"

#include "base/log.h"
#include "firmware/tvm/model.h"

#include <string.h>

#define STATION "service"

/* The last job of a session. */
struct end_job {
    struct c7x_job base;
    struct c7x_session *session;
    bool reply;
    uint32_t reply_seq;
};

struct c7x_session *c7x_session_find(struct c7x_service *service, uint32_t endpoint)
{
    struct c7x_session *session = service->sessions;
    while (session != NULL && session->endpoint != endpoint)
        session = session->next;
    return session;
}

static void free_session(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    struct c7x_memory *memory = service->config.memory;
    if (session->printf_bound.address != 0)
        memory->ops->unpin(memory, session->printf_bound.address);
    if (session->printf_next.address != 0)
        memory->ops->unpin(memory, session->printf_next.address);
    for (uint32_t i = 0; i < C7X_SESSION_ERRORS_MAX; i++)
        c7x_heap_free(service->config.heap, session->errors[i].text);
    c7x_heap_free(service->config.heap, session);
}

static void run_end(struct c7x_job *base)
{
    struct end_job *job = (struct end_job *)base;
    struct c7x_session *session = job->session;
    struct c7x_service *service = session->service;
    struct c7x_response response = {.type = C7X_MSG_SESSION_CLOSE, .seq = job->reply_seq};
    uint32_t endpoint = session->endpoint;
    bool reply = job->reply;
    c7x_module_unload_session(service->config.modules, session->number);
    c7x_tvm_model_unload_session(session->number);
    c7x_log(STATION, "session %u ended", session->number);
    free_session(session); /* the job goes with it */
    if (reply)
        c7x_service_send(service, endpoint, &response);
}

/* A session and its last job in one block, so that ending one needs no memory. */
struct session_block {
    struct c7x_session session;
    struct end_job end;
};

enum c7x_status c7x_session_create(struct c7x_service *service, uint32_t endpoint, uint32_t version,
                                   struct c7x_session **out_session, struct c7x_error *error)
{
    struct c7x_heap *heap = service->config.heap;
    struct session_block *block = c7x_heap_alloc(heap, C7X_HEAP_SERVICE, sizeof *block, 0);
    if (block == NULL)
        return c7x_error_set_oom(error, STATION, c7x_heap_oom(heap, sizeof *block), "a session");
    memset(block, 0, sizeof *block);
    block->end = (struct end_job){.base.run = run_end, .session = &block->session};
    struct c7x_session *session = &block->session;
    session->service = service;
    session->endpoint = endpoint;
    session->version = version;
    session->number = service->next_session++;
    if (service->next_session == 0)
        service->next_session = 1;
    session->next = service->sessions;
    service->sessions = session;
    *out_session = session;
    return C7X_OK;
}

void c7x_session_end(struct c7x_session *session, bool reply, uint32_t reply_seq)
{
    struct c7x_service *service = session->service;
    struct session_block *block = (struct session_block *)session;
    for (struct c7x_session **place = &service->sessions; *place != NULL; place = &(*place)->next)
        if (*place == session) {
            *place = session->next;
            break;
        }
    block->end.reply = reply;
    block->end.reply_seq = reply_seq;
    c7x_target_submit_always(service->config.target, &block->end.base);
}

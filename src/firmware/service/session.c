/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/service/service_impl.h"

#include "base/log.h"
#include "firmware/tvm/model.h"

#include <stdio.h>
#include <string.h>

#define STATION "service"
#define HOLDERS_NAMED_MAX 4u

/* The last job of a session. */
struct end_job {
    struct c7x_job base;
    struct c7x_session *session;
    bool reply;
    uint32_t reply_seq;
};

/* A session and its last job in one block, so that ending one needs no memory. */
struct session_block {
    struct c7x_session session;
    struct end_job end;
};

static struct c7x_session **bucket_of(struct c7x_service *service, uint32_t endpoint)
{
    return &service->by_endpoint[endpoint % C7X_SERVICE_BUCKETS];
}

struct c7x_session *c7x_session_find(struct c7x_service *service, uint32_t endpoint)
{
    c7x_os_mutex_lock(&service->lock);
    struct c7x_session *session = *bucket_of(service, endpoint);
    while (session != NULL && (session->endpoint != endpoint || session->is_ending))
        session = session->next_of_bucket;
    c7x_os_mutex_unlock(&service->lock);
    return session;
}

/* ---- For people ---- */

void c7x_session_describe(const struct c7x_session *session, char text[C7X_SESSION_DESCRIPTION_MAX])
{
    if (session->version < C7X_WIRE_VERSION_3_1)
        (void)snprintf(text, C7X_SESSION_DESCRIPTION_MAX,
                       "session %u (a client of version 3.0 at endpoint %u)", session->number,
                       session->endpoint);
    else
        (void)snprintf(text, C7X_SESSION_DESCRIPTION_MAX, "session %u (%s, process %u)",
                       session->number, session->name, session->process);
}

/* The session that holds most below `bound`, which is that of the one named before; sessions of one
 * count are told apart by their place in the list. */
static const struct c7x_session *next_holder(const struct c7x_service *service,
                                             uint32_t (*count)(const struct c7x_session *session),
                                             const struct c7x_session *before)
{
    const struct c7x_session *best = NULL;
    bool is_behind = before == NULL;
    for (const struct c7x_session *session = service->sessions; session != NULL;
         session = session->next) {
        bool is_candidate = before == NULL || count(session) < count(before) ||
                            (is_behind && count(session) == count(before));
        if (is_candidate && count(session) != 0 && (best == NULL || count(session) > count(best)))
            best = session;
        is_behind = is_behind || session == before;
    }
    return best;
}

void c7x_session_append_holders(struct c7x_service *service,
                                uint32_t (*count)(const struct c7x_session *session),
                                struct c7x_error *error)
{
    const struct c7x_session *session = next_holder(service, count, NULL);
    char who[C7X_SESSION_DESCRIPTION_MAX];
    for (uint32_t i = 0; session != NULL && i < HOLDERS_NAMED_MAX; i++) {
        c7x_session_describe(session, who);
        c7x_error_append(error, "%s %s: %u", i == 0 ? "" : ",", who, count(session));
        session = next_holder(service, count, session);
    }
    if (session != NULL)
        c7x_error_append(error, " and others");
}

/* ---- End ---- */

static void free_session(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    c7x_service_unpin(service, session->printf_bound.address);
    c7x_service_unpin(service, session->printf_next.address);
    c7x_service_kv_unbind_all(session);
    for (uint32_t i = 0; i < C7X_WIRE_SESSION_ERROR_TEXTS_MAX; i++)
        c7x_heap_free(service->config.heap, session->errors[i].text);
    c7x_heap_free(service->config.heap, session);
}

static void unlink_session(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    struct c7x_session **place = &service->sessions;
    c7x_os_mutex_lock(&service->lock);
    while (*place != session)
        place = &(*place)->next;
    *place = session->next;
    place = bucket_of(service, session->endpoint);
    while (*place != session)
        place = &(*place)->next_of_bucket;
    *place = session->next_of_bucket;
    service->session_count--;
    c7x_os_mutex_unlock(&service->lock);
}

/* Frees the session, which holds no module and no model any more, and the job with it. */
static void finish(struct end_job *job)
{
    struct c7x_session *session = job->session;
    struct c7x_service *service = session->service;
    struct c7x_response response = {.type = C7X_MSG_SESSION_CLOSE, .seq = job->reply_seq};
    uint32_t endpoint = session->endpoint;
    uint32_t number = session->number;
    bool reply = job->reply;
    c7x_log(STATION, "session %u ended", number);
    unlink_session(session);
    free_session(session);
    if (reply)
        c7x_service_send(service, number, endpoint, &response);
}

static void run_end(struct c7x_job *base)
{
    struct end_job *job = (struct end_job *)base;
    const struct c7x_session *session = job->session;
    c7x_module_unload_session(session->service->config.modules, session->number);
    c7x_tvm_model_unload_session(session->number);
    finish(job);
}

/* Whether no job of the session runs, and there is nothing that only a job may unload. */
static bool holds_nothing(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    c7x_os_mutex_lock(&service->lock);
    bool is_idle = session->jobs == NULL;
    c7x_os_mutex_unlock(&service->lock);
    return is_idle && c7x_module_session_count(service->config.modules, session->number) == 0 &&
           c7x_tvm_model_session_count(session->number) == 0;
}

void c7x_session_end(struct c7x_session *session, enum c7x_session_end_reason reason,
                     uint32_t close_seq)
{
    struct c7x_service *service = session->service;
    struct session_block *block = (struct session_block *)session;
    c7x_service_trace_drop(session);
    c7x_service_drop_jobs(session);
    c7x_os_mutex_lock(&service->lock);
    session->is_ending = true;
    session->is_silent = reason != C7X_SESSION_CLOSED;
    c7x_os_mutex_unlock(&service->lock);
    block->end.base.origin = (struct c7x_trace_origin){
        .session = session->number, .seq = close_seq, .type = C7X_MSG_SESSION_CLOSE};
    block->end.reply = reason == C7X_SESSION_CLOSED;
    block->end.reply_seq = close_seq;
    if (holds_nothing(session))
        finish(&block->end); /* it need not wait behind what others run */
    else
        c7x_core_submit_always(service->config.core, C7X_TARGET_CONTROL, &block->end.base);
}

void c7x_session_end_all(struct c7x_service *service)
{
    struct c7x_session *session;
    do {
        c7x_os_mutex_lock(&service->lock);
        session = service->sessions;
        while (session != NULL && session->is_ending)
            session = session->next;
        c7x_os_mutex_unlock(&service->lock);
        if (session != NULL)
            c7x_session_end(session, C7X_SESSION_REPLACED, 0);
    } while (session != NULL);
}

/* A session that has gone silent for too long, or NULL. */
static struct c7x_session *find_expired(struct c7x_service *service,
                                        const struct c7x_session *speaker)
{
    int64_t limit = c7x_os_clock_ns() - (int64_t)service->config.lease_ms * 1000000;
    c7x_os_mutex_lock(&service->lock);
    struct c7x_session *session = service->sessions;
    while (session != NULL && (session == speaker || session->is_ending || session->jobs != NULL ||
                               session->last_frame_ns > limit))
        session = session->next;
    c7x_os_mutex_unlock(&service->lock);
    return session;
}

void c7x_session_expire(struct c7x_service *service, const struct c7x_session *speaker)
{
    struct c7x_session *session;
    if (service->config.lease_ms == 0)
        return;
    while ((session = find_expired(service, speaker)) != NULL) {
        c7x_log(STATION, "session %u has been silent for more than its lease of %u ms",
                session->number, service->config.lease_ms);
        c7x_session_end(session, C7X_SESSION_REPLACED, 0);
    }
}

/* ---- Begin ---- */

/* A session that goes on and is not of the endpoint itself; NULL: none. */
static const struct c7x_session *other_session(const struct c7x_service *service, uint32_t endpoint,
                                               bool only_3_0)
{
    const struct c7x_session *session = service->sessions;
    while (session != NULL && (session->is_ending || session->endpoint == endpoint ||
                               (only_3_0 && session->version >= C7X_WIRE_VERSION_3_1)))
        session = session->next;
    return session;
}

/* What belongs to sessions that end now goes before anything of a new one runs. */
static enum c7x_status check_nothing_kept(struct c7x_service *service, struct c7x_error *error)
{
    uint32_t modules = c7x_module_session_count(service->config.modules, C7X_MODULE_SESSION_DEVICE);
    uint32_t models = c7x_tvm_model_session_count(C7X_MODULE_SESSION_DEVICE);
    if (modules == 0 && models == 0)
        return C7X_OK;
    return c7x_error_set(error, C7X_BUSY, STATION,
                         "a client of version 3.0 needs the device to itself, and it keeps %u "
                         "modules and %u models",
                         modules, models);
}

/* A client of version 3.0 lays out the whole carve-out, so it is alone. */
static enum c7x_status check_alone(struct c7x_service *service, uint32_t endpoint, uint32_t version,
                                   struct c7x_error *error)
{
    bool is_3_0 = version < C7X_WIRE_VERSION_3_1;
    char who[C7X_SESSION_DESCRIPTION_MAX];
    c7x_os_mutex_lock(&service->lock);
    const struct c7x_session *other = other_session(service, endpoint, !is_3_0);
    if (other != NULL)
        c7x_session_describe(other, who);
    c7x_os_mutex_unlock(&service->lock);
    if (other != NULL)
        return c7x_error_set(error, C7X_BUSY, STATION, "%s, and %s is there",
                             is_3_0 ? "a client of version 3.0 needs the device to itself"
                                    : "a client of version 3.0 has the device to itself",
                             who);
    return is_3_0 ? check_nothing_kept(service, error) : C7X_OK;
}

/* Sessions of the same process as this one. Call with the service locked. */
static uint32_t sessions_of_process(const struct c7x_session *session)
{
    uint32_t count = 0;
    for (const struct c7x_session *other = session->service->sessions; other != NULL;
         other = other->next)
        count += other->process == session->process;
    return count;
}

static enum c7x_status check_room(struct c7x_service *service, struct c7x_error *error)
{
    enum c7x_status status = C7X_OK;
    c7x_os_mutex_lock(&service->lock);
    const struct c7x_session *most = service->session_count >= C7X_WIRE_SESSIONS_MAX
                                         ? next_holder(service, sessions_of_process, NULL)
                                         : NULL;
    if (most != NULL)
        status = c7x_error_set(error, C7X_BUSY, STATION,
                               "%u sessions are open, the most that this device takes; process %u "
                               "has %u of them",
                               C7X_WIRE_SESSIONS_MAX, most->process, sessions_of_process(most));
    c7x_os_mutex_unlock(&service->lock);
    return status;
}

static void link_session(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    struct c7x_session **place = &service->sessions;
    c7x_os_mutex_lock(&service->lock);
    while (*place != NULL)
        place = &(*place)->next;
    *place = session;
    struct c7x_session **bucket = bucket_of(service, session->endpoint);
    session->next_of_bucket = *bucket;
    *bucket = session;
    service->session_count++;
    c7x_os_mutex_unlock(&service->lock);
}

enum c7x_status c7x_session_create(struct c7x_service *service, uint32_t endpoint,
                                   const struct c7x_session_client *client,
                                   struct c7x_session **out_session, struct c7x_error *error)
{
    struct c7x_heap *heap = service->config.heap;
    C7X_RETURN_IF_ERROR(check_alone(service, endpoint, client->version, error));
    C7X_RETURN_IF_ERROR(check_room(service, error));
    struct session_block *block = c7x_heap_alloc(heap, C7X_HEAP_SERVICE, sizeof *block, 0);
    if (block == NULL)
        return c7x_error_set_oom(error, STATION, c7x_heap_oom(heap, sizeof *block), "a session");
    memset(block, 0, sizeof *block);
    struct c7x_session *session = &block->session;
    block->end = (struct end_job){.base.run = run_end, .session = session};
    session->service = service;
    session->endpoint = endpoint;
    session->version = client->version;
    session->process = client->process;
    memcpy(session->name, client->name, sizeof session->name);
    session->number = service->next_session++;
    block->end.base.order = (struct c7x_job_order){
        .keys = {[2] = c7x_service_key(C7X_KEY_SESSION, session->number)}, .is_barrier = true};
    if (service->next_session == 0)
        service->next_session = 1;
    session->last_frame_ns = c7x_os_clock_ns();
    link_session(session);
    *out_session = session;
    return C7X_OK;
}

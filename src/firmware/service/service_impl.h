/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of this folder alone. */
#ifndef C7X_FIRMWARE_SERVICE_SERVICE_IMPL_H
#define C7X_FIRMWARE_SERVICE_SERVICE_IMPL_H

#include "firmware/printf/printf.h"
#include "firmware/service/service.h"
#include "wire/wire.h"

#define C7X_SESSION_ERRORS_MAX 8u

/* Why a request failed; kept until asked for, or pushed out by newer ones. */
struct c7x_session_error {
    uint32_t seq;
    uint32_t text_size;
    char station[16];
    char *text; /* in the heap; NULL: the slot is free */
};

/* A printf buffer, pinned while it stands here; address 0: none. */
struct c7x_printf_window {
    c7x_dsp_addr address;
    uint32_t size;
};

/*
 * One client. Created by the receiving role; ended by it with a last job on the target, which frees
 * it, so that every job of a session runs while the session is there.
 */
struct c7x_session {
    struct c7x_service *service;
    struct c7x_session *next;
    uint32_t endpoint;
    uint32_t number;  /* unique, never 0: owner of modules and models; on the wire: generation */
    uint32_t version; /* of the wire that this client speaks */
    uint32_t process;
    char name[C7X_WIRE_NAME_SIZE];
    struct c7x_printf printf; /* used by jobs alone */
    struct c7x_printf_window printf_bound;
    /* Under the service's lock; the next inference takes it over. */
    struct c7x_printf_window printf_next;
    struct c7x_session_error errors[C7X_SESSION_ERRORS_MAX];
    uint32_t next_error;
};

struct c7x_service {
    struct c7x_service_config config;
    struct c7x_session *sessions; /* used by the receiving role alone */
    uint32_t next_session;
    int64_t start_ns;
    struct c7x_os_mutex lock; /* errors and printf_next of all sessions */
    _Atomic uint32_t jobs_completed;
    _Atomic uint32_t jobs_failed;
    uint32_t short_frames; /* received with less than a header; they get no reply */
};

/* ---- session.c: receiving role ---- */

/* The open session of the endpoint, or NULL. */
struct c7x_session *c7x_session_find(struct c7x_service *service, uint32_t endpoint);
/* A new session for an endpoint that has none. C7X_NOMEM. */
enum c7x_status c7x_session_create(struct c7x_service *service, uint32_t endpoint, uint32_t version,
                                   struct c7x_session **out_session,
                                   struct c7x_error *error) C7X_NODISCARD;
/*
 * Takes the session off the list and queues the job that unloads what it holds and frees it.
 * `reply_seq` is the SESSION_CLOSE to answer after that, when `reply` is set.
 */
void c7x_session_end(struct c7x_session *session, bool reply, uint32_t reply_seq);

/* ---- reply.c: any task ---- */

/* Remembers why request `seq` failed. `session` may be NULL: nothing is kept. */
void c7x_session_keep_error(struct c7x_session *session, uint32_t seq,
                            const struct c7x_error *error);
/* Encodes and sends. A client that takes no frames loses its reply; that is logged. */
void c7x_service_send(struct c7x_service *service, uint32_t endpoint,
                      const struct c7x_response *response);
/*
 * Fills in status, oom and, for 3.0 clients, the nearest status they know; logs and keeps the text.
 * `session` NULL: an endpoint without a session.
 */
void c7x_service_set_failure(struct c7x_session *session, struct c7x_response *response,
                             const struct c7x_error *error);

/* ---- jobs.c: receiving role; what they queue runs on the target ---- */

/* Pins what the request names and queues its job. On failure nothing is pinned or queued. */
enum c7x_status c7x_service_route(struct c7x_session *session, const struct c7x_request *request,
                                  struct c7x_error *error) C7X_NODISCARD;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of this folder alone. */
#ifndef C7X_FIRMWARE_SERVICE_SERVICE_IMPL_H
#define C7X_FIRMWARE_SERVICE_SERVICE_IMPL_H

#include "firmware/printf/printf.h"
#include "firmware/printf/ring.h"
#include "firmware/service/service.h"
#include "firmware/trace/recorder.h"
#include "wire/wire.h"

/* What one job may print, for a 3.1 session. */
#define C7X_SERVICE_PRINTF_BYTES 65536u

/* Room for c7x_session_describe(). */
#define C7X_SESSION_DESCRIPTION_MAX 80u

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

/* The KV region of one module of a session; pinned while it stands here. */
struct c7x_kv_binding {
    struct c7x_kv_binding *next;
    uint32_t handle;
    struct c7x_kv_region region;
};

/* Who a client says it is. */
struct c7x_session_client {
    uint32_t version; /* of the wire that it speaks */
    uint32_t process;
    char name[C7X_WIRE_NAME_SIZE];
};

/*
 * What one request needs while it waits and runs. The receiving role fills it in; the target's task
 * runs it, and frees it when it has answered.
 */
struct c7x_service_job {
    struct c7x_job base;
    /* Of the session, or of those that are free; under the service's lock, like is_running. */
    struct c7x_service_job *next;
    struct c7x_session *session;
    enum c7x_target_number target;
    bool is_running;
    _Atomic bool is_cancelled;  /* while it runs */
    c7x_dsp_addr pins[3];       /* 0: none; given back when the job ends */
    struct c7x_tensor *inputs;  /* INFER; behind the job in its block */
    struct c7x_kv_region kv;    /* INFER; pointer NULL: not used */
    char *missing;              /* DYN_LOAD: text of a failure that is too long for an error */
    struct c7x_request request; /* but for the inputs of an INFER */
};

/* With room for the inputs that most models have at most. */
struct c7x_service_usual_job {
    struct c7x_service_job job;
    struct c7x_tensor inputs[8];
};
_Static_assert(offsetof(struct c7x_service_usual_job, inputs) == sizeof(struct c7x_service_job),
               "a job's inputs stand behind it");

#define C7X_SERVICE_USUAL_JOBS 32u /* more than often wait at once; others are the heap's */

#define C7X_SERVICE_BUCKETS 64u /* of sessions, by their endpoints */

/*
 * One client. Created by the receiving role; ended by it with a last job on the target, which frees
 * it, so that every job of a session runs while the session is there.
 */
struct c7x_session {
    /* What every request needs, in two cache lines: while there are many clients, these are in none
     * but the outer caches. */
    struct c7x_service *service;
    struct c7x_session *next_of_bucket; /* under the service's lock */
    uint32_t endpoint;                  /* never changed, like the next two */
    uint32_t number; /* unique, never 0: owner of modules and models; on the wire: generation */
    uint32_t version;
    uint32_t waiting_count;             /* of the jobs, those that wait */
    struct c7x_service_job *jobs;       /* oldest first; from being queued until answered */
    struct c7x_kv_binding *kv_bindings; /* under the service's lock, as are jobs and errors */
    int64_t last_frame_ns;              /* when its last frame came; the receiving role's */
    bool is_ending;                     /* its last job is queued: no frame finds it any more */
    bool is_silent;                     /* its endpoint has gone or begun anew: nothing is sent */
    bool is_spare_used;
    struct c7x_printf_window printf_next; /* the next inference takes it over */
    struct c7x_printf_ring_writer ring;   /* 3.1; used by jobs alone, as the other two printf_ */
    struct c7x_printf printf;             /* 3.0 */

    struct c7x_printf_window printf_bound;
    struct c7x_session *next;
    struct c7x_service_job spare; /* for an unload when the heap is full */
    uint32_t next_error;
    struct c7x_session_error errors[C7X_WIRE_SESSION_ERROR_TEXTS_MAX];
    uint32_t process; /* never changed, as is the name */
    char name[C7X_WIRE_NAME_SIZE];
};
_Static_assert(offsetof(struct c7x_session, printf_bound) == 128, "two lines of 64 bytes");

struct c7x_service {
    struct c7x_service_config config;
    uint32_t next_session; /* used by the receiving role alone */
    int64_t start_ns;
    int64_t frame_ns; /* when the present frame came; the receiving role's */
    /* What the job of each target prints, until it has ended. */
    uint8_t *scratch;
    struct c7x_printf scratch_printf[C7X_TARGET_COUNT];
    struct c7x_infer_result results[C7X_TARGET_COUNT]; /* of the inference that each runs */
    /* The sessions and what they say is under it. Taken before the locks of target, module table,
     * heap and transport. */
    struct c7x_os_mutex lock;
    struct c7x_session *sessions; /* oldest first; those that end too */
    struct c7x_session *by_endpoint[C7X_SERVICE_BUCKETS];
    uint32_t session_count;
    /* Of usual_jobs; the last one back is the first to go, being in cache. */
    struct c7x_service_job *free_jobs;
    struct c7x_service_usual_job usual_jobs[C7X_SERVICE_USUAL_JOBS];
    const struct c7x_session *tracer; /* who records events; the receiving role's */
    c7x_dsp_addr trace_address;       /* where it does */
    _Atomic uint32_t jobs_completed;
    _Atomic uint32_t jobs_failed;
    uint32_t short_frames; /* received with less than a header; they get no reply */
};

/* ---- session.c: receiving role ---- */

/* The open session of the endpoint, or NULL. */
struct c7x_session *c7x_session_find(struct c7x_service *service, uint32_t endpoint);
/* A new session for an endpoint that has none. C7X_NOMEM; C7X_BUSY: there are
 * C7X_WIRE_SESSIONS_MAX, or a client of version 3.0 needs the device to itself. */
enum c7x_status c7x_session_create(struct c7x_service *service, uint32_t endpoint,
                                   const struct c7x_session_client *client,
                                   struct c7x_session **out_session,
                                   struct c7x_error *error) C7X_NODISCARD;

enum c7x_session_end_reason {
    C7X_SESSION_CLOSED,   /* asked for: answered when all is freed */
    C7X_SESSION_REPLACED, /* its endpoint begins anew, or has gone: nothing more is sent */
};
/*
 * Drops what waits, ends what runs, and frees the session: at once if it holds nothing, else by a
 * job that comes behind all others of it and unloads what it holds first. `close_seq` is the
 * request to answer when it was asked for.
 */
void c7x_session_end(struct c7x_session *session, enum c7x_session_end_reason reason,
                     uint32_t close_seq);
void c7x_session_end_all(struct c7x_service *service);
/* Ends those whose lease has run out, but for `speaker`, whose frame is here, and any with a job.
 */
void c7x_session_expire(struct c7x_service *service, const struct c7x_session *speaker);

/* ---- session.c: any task, with the service locked ---- */

/* For people: "session 3 (camera, process 4711)". */
void c7x_session_describe(const struct c7x_session *session,
                          char text[C7X_SESSION_DESCRIPTION_MAX]);
/* Appends the sessions that hold most of what `count` counts. */
void c7x_session_append_holders(struct c7x_service *service,
                                uint32_t (*count)(const struct c7x_session *session),
                                struct c7x_error *error);

/* ---- reply.c: any task ---- */

/* Remembers why request `seq` failed. `session` may be NULL: nothing is kept. */
void c7x_session_keep_error(struct c7x_session *session, uint32_t seq,
                            const struct c7x_error *error);
/* Takes a block of the heap as the text of that failure instead. NULL is legal. */
void c7x_session_keep_text(struct c7x_session *session, uint32_t seq, char *text);
/* Encodes and sends; `session` is its number, for traces. A client that takes no frames loses its
 * reply; that is logged. */
void c7x_service_send(struct c7x_service *service, uint32_t session, uint32_t endpoint,
                      const struct c7x_response *response);
/*
 * Fills in status, oom and, for 3.0 clients, the nearest status they know; logs and keeps the text.
 * `session` NULL: an endpoint without a session.
 */
void c7x_service_set_failure(struct c7x_session *session, struct c7x_response *response,
                             const struct c7x_error *error);

/* ---- kv.c ---- */

/* Answers KV_BIND. Receiving role. */
enum c7x_status c7x_service_kv_bind(struct c7x_session *session, const struct c7x_request *request,
                                    struct c7x_error *error) C7X_NODISCARD;
/* The region that an inference of this module uses; size 0: none. Not pinned for the caller. */
struct c7x_kv_region c7x_service_kv_find(struct c7x_session *session, uint32_t handle);
/* Takes the module's region from it, if it has one. */
void c7x_service_kv_unbind(struct c7x_session *session, uint32_t handle);
void c7x_service_kv_unbind_all(struct c7x_session *session);

/* ---- trace.c: receiving role ---- */

/* Answer TRACE_BEGIN and TRACE_END. */
enum c7x_status c7x_service_trace_begin(struct c7x_session *session,
                                        const struct c7x_request *request,
                                        struct c7x_error *error) C7X_NODISCARD;
enum c7x_status c7x_service_trace_end(const struct c7x_session *session,
                                      struct c7x_error *error) C7X_NODISCARD;
/* The session ends, and its recording with it, if there is one. */
void c7x_service_trace_drop(const struct c7x_session *session);

/* ---- list.c: receiving role ---- */

/* Fills in the list that the request asks for, as far as a frame holds it. */
void c7x_service_list(struct c7x_service *service, const struct c7x_request *request,
                      struct c7x_response *response);
/* The same for OPERATORS. C7X_HANDLE. */
enum c7x_status c7x_service_operators(struct c7x_service *service,
                                      const struct c7x_request *request,
                                      struct c7x_response *response,
                                      struct c7x_error *error) C7X_NODISCARD;

/* ---- route.c: receiving role ---- */

/* Pins what the request names and queues its job. On failure nothing is pinned or queued. */
enum c7x_status c7x_service_route(struct c7x_session *session, const struct c7x_request *request,
                                  struct c7x_error *error) C7X_NODISCARD;
/* Takes a waiting request back and answers it with C7X_CANCELLED; one that runs ends at its next
 * section end. C7X_HANDLE: it neither waits nor runs. */
enum c7x_status c7x_service_cancel(struct c7x_session *session, uint32_t seq, uint32_t *out_outcome,
                                   struct c7x_error *error) C7X_NODISCARD;
/* Takes back all that waits, without answers, and ends what runs. */
void c7x_service_drop_jobs(struct c7x_session *session);

/* ---- route.c: any task ---- */

/* Address 0 is legal: no pin. */
void c7x_service_unpin(struct c7x_service *service, c7x_dsp_addr address);
/* The job runs now. */
void c7x_service_begin_job(struct c7x_service_job *job);
/* Answers the job, unless its session is silent, and frees it. */
void c7x_service_end_job(struct c7x_service_job *job, const struct c7x_response *response);

/* What a job has in common with others, for its order (firmware/target). */
enum c7x_service_key { C7X_KEY_MODULE = 1, C7X_KEY_MODEL, C7X_KEY_SESSION };
static inline uint64_t c7x_service_key(enum c7x_service_key kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}

/* ---- jobs.c: on the core ---- */

void c7x_service_run_job(struct c7x_job *base);

#endif

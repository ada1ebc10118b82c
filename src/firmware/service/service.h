/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message service: receives frames, validates them, answers what touches no module by itself,
 * routes the rest to a target, and replies. It keeps the sessions of the clients.
 *
 * station: transport > [service] > target ... and back: result > [reply] > transport
 *
 *   service.c  the receiving role: receive, decode, dispatch
 *   session.c  who talks to us, and what it holds
 *   route.c    from a request to a job in a queue, and CANCEL
 *   kv.c       the KV regions of decoders
 *   list.c     LIST: sessions, modules, targets, memory
 *   jobs.c     what runs on the core: load, infer, unload
 *   reply.c    answers, and the texts of failures
 */
#ifndef C7X_FIRMWARE_SERVICE_SERVICE_H
#define C7X_FIRMWARE_SERVICE_SERVICE_H

#include "base/status.h"
#include "firmware/memory/heap.h"
#include "firmware/memory/memory.h"
#include "firmware/module/module.h"
#include "firmware/target/target.h"
#include "transport/transport.h"

struct c7x_service;

/* Everything outlives the service. */
struct c7x_service_config {
    struct c7x_device_link *link;
    struct c7x_memory *memory;
    struct c7x_heap *heap;
    struct c7x_heap *fast_heap; /* only listed; NULL: none */
    struct c7x_module_table *modules;
    /*
     * Where the transport cannot tell that a client has died (RPMessage): a session from which no
     * frame has come for so long ends as soon as somebody else speaks. 0: it can.
     */
    uint32_t lease_ms;
    struct c7x_core *core; /* where loads, inferences and unloads run */
};

enum c7x_status c7x_service_create(const struct c7x_service_config *config,
                                   struct c7x_service **out_service) C7X_NODISCARD;
/*
 * The receiving role takes the events of the link, one by one, and answers or routes them. One task
 * has it at a time: the core's own while it is idle, so that a request needs no hand-over; while a
 * job runs, another one stands in: this is its life, until the core has stopped.
 */
void c7x_service_stand_in(struct c7x_service *service);
/* For struct c7x_core_config: idle, wake, leave, expect, with the service as context. */
void c7x_service_idle(void *service);
void c7x_service_wake(void *service);
void c7x_service_leave(void *service);
void c7x_service_expect(void *service, uint32_t endpoint);
/* After the core has run what was left, and the task that stands in has ended. NULL is legal. */
void c7x_service_destroy(struct c7x_service *service);

/* For struct c7x_core_config: how the jobs of a service are ended, and what they need to go on. */
void c7x_service_end_running(enum c7x_job_end reason);
void c7x_service_end_stuck_section(void);
void c7x_service_resume_running(void);
/* For c7x_os_catch_faults(): a fault of module code ends its call; of any other it is the core's.
 */
void c7x_service_catch_fault(const struct c7x_os_fault *fault);

#endif

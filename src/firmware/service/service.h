/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message service: receives frames, validates them, answers what touches no module by itself,
 * routes the rest to a target, and replies. It keeps the sessions of the clients.
 *
 * station: transport > [service] > target ... and back: result > [reply] > transport
 *
 *   service.c  the receiving role: decode, dispatch, route
 *   session.c  who talks to us, and what it holds
 *   route.c    from a request to a job in a queue, and CANCEL
 *   kv.c       the KV regions of decoders
 *   list.c     LIST: sessions, modules, targets, memory
 *   jobs.c     what runs on a target: load, infer, unload
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
    struct c7x_target *target; /* where loads, inferences and unloads run */
};

enum c7x_status c7x_service_create(const struct c7x_service_config *config,
                                   struct c7x_service **out_service) C7X_NODISCARD;
/* Receives and answers until the link says stop. Called by one task, the receiving role. */
void c7x_service_run(struct c7x_service *service);
/* After run has returned and the target has been deinitialised. NULL is legal. */
void c7x_service_destroy(struct c7x_service *service);

#endif

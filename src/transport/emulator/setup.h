/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What client library, supervisor and core of the emulator say to each other to set a link up: the
 * part that the kernel plays on a board. Frames do not pass here; they go over the link socket from
 * client to core.
 *
 *   client  --setup socket-->  supervisor  --control socket-->  core
 *      \_______________________ link socket _____________________/
 *
 * All sockets are SOCK_SEQPACKET: one struct c7x_setup_message a packet, with at most one
 * descriptor. Both ends are on one machine, so integers are native. A client has one setup request
 * in flight; the supervisor answers in order.
 */
#ifndef C7X_TRANSPORT_EMULATOR_SETUP_H
#define C7X_TRANSPORT_EMULATOR_SETUP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define C7X_SETUP_VERSION 1u
#define C7X_SETUP_VERSION_BYTES 48u /* of the program's: "0.1.0 5f0c6d21a9e84b37" */

enum c7x_setup_op {
    C7X_SETUP_HELLO = 1, /* client: version in `size`; answer: the link socket, or C7X_BUSY with
                            `client_count`, the most that there may be */
    C7X_SETUP_ATTACH, /* client: size; answer: address, size, memfd. To the core: endpoint, address,
                         size, memfd */
    C7X_SETUP_DETACH, /* client, then core: address; the core's answer: `held` 1 if something still
                         uses it */
    C7X_SETUP_STATUS, /* client: nothing; answer: the status part */
    C7X_SETUP_LOG,    /* client: nothing; answer: memfd of struct c7x_log_memory, read-only */
    C7X_SETUP_RESET,  /* client: end the core and start another; answer: C7X_OK when that serves */
    C7X_SETUP_STOP,   /* client: end the emulator; answer: C7X_OK, then the end */
    C7X_SETUP_ENDPOINT, /* to the core: endpoint and its end of the link socket */
    C7X_SETUP_GONE,     /* to the core: the client of this endpoint has gone */
    C7X_SETUP_RELEASED, /* from the core: the buffer at `address`, held until now, is free */
    C7X_SETUP_READY,    /* from the core: it serves */
};

struct c7x_setup_message {
    uint32_t op;    /* enum c7x_setup_op; an answer repeats it */
    int32_t status; /* answers: enum c7x_status */
    uint32_t endpoint;
    uint32_t held;
    uint32_t strict; /* HELLO's answer: 1 if caches are strict (strict.h), and so memfds twice as
                        large */
    uint32_t takes_ring; /* HELLO's answer: 1 if frames may go through a ring (ring.h) */
    uint64_t address;
    uint64_t size;
    struct c7x_oom oom; /* answers with C7X_NOMEM */
    /* C7X_SETUP_STATUS */
    int64_t supervisor_pid;
    int64_t core_pid;
    uint32_t core_starts;
    uint32_t client_count;
    uint64_t carveout_total;
    uint64_t carveout_free;
    uint64_t carveout_largest;
    char version[C7X_SETUP_VERSION_BYTES];
};

/* The core's log in shared memory: a ring of text. `written` counts all bytes ever; the last `size`
 * are kept. */
#define C7X_LOG_MEMORY_BYTES (1024u * 1024u)
struct c7x_log_memory {
    _Atomic uint64_t written;
    uint64_t size;
    char text[C7X_LOG_MEMORY_BYTES - 16];
};

/*
 * Sends one message, with a descriptor unless fd is -1. C7X_BUSY the peer's queue is full (only
 * with `wait` false), C7X_RESET the peer is gone.
 */
enum c7x_status c7x_setup_send(int socket, const struct c7x_setup_message *message, int fd,
                               bool wait) C7X_NODISCARD;
/*
 * Receives one message; *out_fd is -1 or a descriptor that the caller closes. C7X_BUSY nothing
 * there (only with `wait` false), C7X_RESET the peer is gone, C7X_PROTOCOL a packet of another
 * size.
 */
enum c7x_status c7x_setup_receive(int socket, struct c7x_setup_message *out_message, int *out_fd,
                                  bool wait) C7X_NODISCARD;
/* Whether the peer of a connected socket runs as the same user as we. */
bool c7x_setup_peer_is_us(int socket);

#endif

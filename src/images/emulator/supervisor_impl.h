/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's state and its parts, for its own sources alone:
 *
 *   supervisor.c      the loop over sockets and signals      clients.c         who is connected
 *   core_process.c    the life of the core                   shared_buffers.c  the carve-out
 */
#ifndef C7X_IMAGES_EMULATOR_SUPERVISOR_IMPL_H
#define C7X_IMAGES_EMULATOR_SUPERVISOR_IMPL_H

#include "supervisor.h"
#include "transport/carveout.h"
#include "transport/emulator/setup.h"

#include <sys/types.h>

#define CLIENTS_MAX 1024u /* with a link */
/* A few more may connect, to be told so, and to ask for the status or the end. */
#define CONNECTIONS_MAX (CLIENTS_MAX + 64u)
/* A core that dies this often without ever serving will not serve the next time either. */
#define FAILED_STARTS_MAX 3u

struct c7x_supervisor_client {
    int socket;
    uint32_t endpoint;   /* 0: no link yet */
    uint32_t core_start; /* of the link: another core does not know this client */
    uint32_t pending;    /* the op whose answer the core owes us, or 0 */
    bool wants_core;     /* has asked for a reset, and is told when the new core serves */
    int pending_fd;      /* what goes to the client with that answer, or -1 */
    struct c7x_setup_message answer;
};

/* A shared buffer: a range of the carve-out and who asked for it. */
struct c7x_supervisor_buffer {
    uint64_t address;
    uint32_t endpoint;
};

struct c7x_supervisor {
    const struct c7x_supervisor_config *config;
    int signals;
    int ready;   /* closed when the core first serves */
    int control; /* to the core */
    pid_t core_pid;
    uint32_t core_starts;
    uint32_t failed_starts;
    bool core_serves;
    bool stopping;
    struct c7x_supervisor_client clients[CONNECTIONS_MAX];
    uint32_t client_count;
    uint32_t next_endpoint;
    struct c7x_carveout carveout;
    struct c7x_supervisor_buffer *buffers;
    size_t buffer_count;
    size_t buffer_capacity;
    int log_fd;
    struct c7x_log_memory *log;
};

/* One process, one supervisor. */
extern struct c7x_supervisor c7x_supervisor;

/* ---- core_process.c ---- */

bool c7x_core_process_start(void);
/* Ends it at once; SIGCHLD brings the rest. */
void c7x_core_process_kill(void);
/* After SIGCHLD: if it has died, says so in the log and starts another, unless there is no use in
 * it. */
void c7x_core_process_reap(void);
/* One message of it. */
void c7x_core_process_handle(void);
/* At the end of the supervisor. */
void c7x_core_process_stop(void);

/* ---- clients.c ---- */

bool c7x_clients_add(int socket);
void c7x_clients_accept(void);
/* One message of a client; false if it has been removed. */
bool c7x_clients_handle(struct c7x_supervisor_client *client);
struct c7x_supervisor_client *c7x_clients_find(uint32_t endpoint);
void c7x_clients_answer_status(struct c7x_supervisor_client *client, uint32_t op,
                               enum c7x_status status);
/* The core has answered what it owed. */
void c7x_clients_finish(const struct c7x_setup_message *message);
/* The core has died; and another one is there. */
void c7x_clients_abandon_links(void);
void c7x_clients_greet_waiting(void);

/* ---- shared_buffers.c ---- */

bool c7x_shared_buffers_add(uint64_t address, uint32_t endpoint);
bool c7x_shared_buffers_owns(const struct c7x_supervisor_client *client, uint64_t address);
/* A descriptor for a buffer of that size, or -1. */
int c7x_shared_buffers_make_memory(uint64_t size);
void c7x_shared_buffers_free_at(uint64_t address);
void c7x_shared_buffers_free_of(uint32_t endpoint);
/* Those of endpoints that are no client's any more. */
void c7x_shared_buffers_free_orphans(void);

#endif

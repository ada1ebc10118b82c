/* SPDX-License-Identifier: Apache-2.0 */
/* Those who are connected, and what they ask for. An answer that the core owes waits in the client.
 */
#define _GNU_SOURCE
#include "supervisor_impl.h"

#include "build_id.h"

#include "transport/emulator/strict.h"

#include <sys/socket.h>
#include <unistd.h>

struct c7x_supervisor_client *c7x_clients_find(uint32_t endpoint)
{
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++)
        if (c7x_supervisor.clients[i].endpoint == endpoint)
            return &c7x_supervisor.clients[i];
    return NULL;
}

static void tell_core(const struct c7x_setup_message *message)
{
    if (c7x_supervisor.control >= 0 &&
        c7x_setup_send(c7x_supervisor.control, message, -1, false) == C7X_BUSY)
        c7x_core_process_kill(); /* it has not read hundreds of messages: it hangs */
}

/* The client has hung up. Its place is taken by the last one. */
static void remove_client(struct c7x_supervisor_client *client)
{
    close(client->socket);
    if (client->pending_fd >= 0)
        close(client->pending_fd);
    if (client->endpoint != 0 && client->core_start == c7x_supervisor.core_starts &&
        c7x_supervisor.control >= 0) {
        struct c7x_setup_message message = {.op = C7X_SETUP_GONE, .endpoint = client->endpoint};
        tell_core(&message); /* the core answers with RELEASED for each buffer */
    } else {
        c7x_shared_buffers_free_of(client->endpoint);
    }
    *client = c7x_supervisor.clients[--c7x_supervisor.client_count];
    if (c7x_supervisor.config->connection >= 0)
        c7x_supervisor.stopping = true;
}

static void answer(struct c7x_supervisor_client *client, const struct c7x_setup_message *message,
                   int fd)
{
    if (c7x_setup_send(client->socket, message, fd, false) != C7X_OK)
        shutdown(client->socket, SHUT_RDWR); /* the poll loop removes it */
}

void c7x_clients_answer_status(struct c7x_supervisor_client *client, uint32_t op,
                               enum c7x_status status)
{
    struct c7x_setup_message message = {.op = op, .status = (int32_t)status};
    answer(client, &message, -1);
}

/*
 * Sends a request to the core; the client is answered, with `fd`, when the core has done it. A core
 * that is gone will be replaced: then a hello waits, and everything else is void.
 */
static void ask_core(struct c7x_supervisor_client *client, const struct c7x_setup_message *message,
                     int core_fd, const struct c7x_setup_message *later, int fd)
{
    enum c7x_status status = c7x_supervisor.control >= 0
                                 ? c7x_setup_send(c7x_supervisor.control, message, core_fd, false)
                                 : C7X_RESET;
    if (status != C7X_OK) {
        if (fd >= 0)
            close(fd);
        client->pending = status == C7X_RESET && later->op == C7X_SETUP_HELLO ? later->op : 0;
        if (client->pending == 0)
            c7x_clients_answer_status(client, later->op, status);
        return;
    }
    client->pending = later->op;
    client->pending_fd = fd;
    client->answer = *later;
}

/* The client gets one end of a new link, the core the other. */
static void greet(struct c7x_supervisor_client *client)
{
    struct c7x_setup_message later = {
        .op = C7X_SETUP_HELLO, .strict = c7x_supervisor.config->core.strict, .takes_ring = 1};
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        client->pending = 0;
        c7x_clients_answer_status(client, later.op, C7X_HOST_NOMEM);
        return;
    }
    client->endpoint = c7x_supervisor.next_endpoint++;
    client->core_start = c7x_supervisor.core_starts;
    struct c7x_setup_message message = {.op = C7X_SETUP_ENDPOINT, .endpoint = client->endpoint};
    ask_core(client, &message, sockets[1], &later, sockets[0]);
    close(sockets[1]);
}

static uint32_t link_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++)
        count += c7x_supervisor.clients[i].endpoint != 0;
    return count;
}

static void handle_hello(struct c7x_supervisor_client *client,
                         const struct c7x_setup_message *request)
{
    struct c7x_setup_message full = {
        .op = C7X_SETUP_HELLO, .status = C7X_BUSY, .client_count = CLIENTS_MAX};
    if (request->size != C7X_SETUP_VERSION || client->endpoint != 0)
        c7x_clients_answer_status(client, request->op, C7X_VERSION);
    else if (link_count() >= CLIENTS_MAX)
        answer(client, &full, -1);
    else
        greet(client);
}

static void handle_attach(struct c7x_supervisor_client *client,
                          const struct c7x_setup_message *request)
{
    struct c7x_setup_message later = {.op = request->op};
    struct c7x_carveout_range range;
    struct c7x_error error;
    c7x_error_clear(&error);
    later.status = c7x_carveout_alloc(&c7x_supervisor.carveout, request->size, &range, &error);
    later.oom = error.oom;
    if (later.status != C7X_OK) {
        answer(client, &later, -1);
        return;
    }
    int memory = c7x_shared_buffers_make_memory(
        c7x_supervisor.config->core.strict ? c7x_strict_file_size(range.size) : range.size);
    if (memory < 0 || !c7x_shared_buffers_add(range.address, client->endpoint)) {
        c7x_carveout_free(&c7x_supervisor.carveout, range.address);
        if (memory >= 0)
            close(memory);
        c7x_clients_answer_status(client, request->op, C7X_HOST_NOMEM);
        return;
    }
    later.address = range.address;
    later.size = range.size;
    struct c7x_setup_message message = {.op = C7X_SETUP_ATTACH,
                                        .endpoint = client->endpoint,
                                        .address = range.address,
                                        .size = range.size};
    ask_core(client, &message, memory, &later, memory);
}

static void handle_detach(struct c7x_supervisor_client *client,
                          const struct c7x_setup_message *request)
{
    struct c7x_setup_message message = {
        .op = C7X_SETUP_DETACH, .endpoint = client->endpoint, .address = request->address};
    struct c7x_setup_message later = {.op = request->op};
    if (c7x_shared_buffers_owns(client, request->address))
        ask_core(client, &message, -1, &later, -1);
    else
        c7x_clients_answer_status(client, request->op, C7X_ADDR);
}

static void handle_status(struct c7x_supervisor_client *client)
{
    struct c7x_setup_message message = {
        .op = C7X_SETUP_STATUS,
        .supervisor_pid = getpid(),
        .core_pid = c7x_supervisor.core_pid,
        .core_starts = c7x_supervisor.core_starts,
        .client_count = link_count(),
        .carveout_total = c7x_supervisor.carveout.size,
        .carveout_free = c7x_carveout_free_bytes(&c7x_supervisor.carveout),
        .carveout_largest = c7x_carveout_largest_free(&c7x_supervisor.carveout),
    };
    c7x_emulator_version(message.version, sizeof message.version);
    answer(client, &message, -1);
}

static void handle_client_message(struct c7x_supervisor_client *client,
                                  const struct c7x_setup_message *request)
{
    bool needs_link = request->op == C7X_SETUP_ATTACH || request->op == C7X_SETUP_DETACH;
    if (client->pending != 0 || (needs_link && client->endpoint == 0)) {
        c7x_clients_answer_status(client, request->op, C7X_INVALID);
        return;
    }
    if (needs_link && client->core_start != c7x_supervisor.core_starts) {
        c7x_clients_answer_status(client, request->op, C7X_RESET);
        return;
    }
    switch (request->op) {
    case C7X_SETUP_HELLO:
        handle_hello(client, request);
        break;
    case C7X_SETUP_ATTACH:
        handle_attach(client, request);
        break;
    case C7X_SETUP_DETACH:
        handle_detach(client, request);
        break;
    case C7X_SETUP_STATUS:
        handle_status(client);
        break;
    case C7X_SETUP_LOG: {
        struct c7x_setup_message message = {.op = C7X_SETUP_LOG};
        answer(client, &message, c7x_supervisor.log_fd);
        break;
    }
    case C7X_SETUP_RESET: /* answered by core_serves() */
        client->wants_core = true;
        c7x_core_process_kill();
        break;
    case C7X_SETUP_STOP:
        c7x_clients_answer_status(client, request->op, C7X_OK);
        c7x_supervisor.stopping = true;
        break;
    default:
        c7x_clients_answer_status(client, request->op, C7X_OP);
        break;
    }
}

/* False if the client was removed. */
bool c7x_clients_handle(struct c7x_supervisor_client *client)
{
    struct c7x_setup_message request;
    int fd = -1;
    enum c7x_status status = c7x_setup_receive(client->socket, &request, &fd, false);
    if (status == C7X_BUSY)
        return true;
    if (fd >= 0)
        close(fd); /* clients have nothing to give */
    if (status != C7X_OK) {
        remove_client(client);
        return false;
    }
    handle_client_message(client, &request);
    return true;
}

bool c7x_clients_add(int socket)
{
    if (c7x_supervisor.client_count == CONNECTIONS_MAX)
        return false;
    c7x_supervisor.clients[c7x_supervisor.client_count++] =
        (struct c7x_supervisor_client){.socket = socket, .pending_fd = -1};
    return true;
}

void c7x_clients_accept(void)
{
    int socket = accept4(c7x_supervisor.config->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return;
    if (!c7x_setup_peer_is_us(socket) || !c7x_clients_add(socket))
        close(socket);
}

/* ---- What the core answers, and when it dies ---- */

void c7x_clients_finish(const struct c7x_setup_message *message)
{
    struct c7x_supervisor_client *client = c7x_clients_find(message->endpoint);
    if (message->op == C7X_SETUP_ATTACH && message->status != C7X_OK)
        c7x_shared_buffers_free_at(message->address);
    if (client == NULL || client->pending == 0)
        return;
    struct c7x_setup_message later = client->answer;
    int fd = client->pending_fd;
    client->pending = 0;
    client->pending_fd = -1;
    if (message->status != C7X_OK)
        later.status = message->status;
    answer(client, &later, message->status == C7X_OK ? fd : -1);
    if (fd >= 0)
        close(fd);
}

/*
 * Links and pending answers of the old core are void; its clients learn it from their link, and
 * here. Their buffers stay theirs; those that the core alone still held are free. Who was just
 * saying hello waits for the next core.
 */
void c7x_clients_abandon_links(void)
{
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++) {
        struct c7x_supervisor_client *client = &c7x_supervisor.clients[i];
        struct c7x_setup_message message = {.op = client->pending, .status = C7X_RESET};
        if (client->pending_fd >= 0)
            close(client->pending_fd);
        client->pending_fd = -1;
        if (client->pending == 0 || client->pending == C7X_SETUP_HELLO)
            continue;
        client->pending = 0;
        answer(client, &message, -1);
    }
    c7x_shared_buffers_free_orphans();
}

void c7x_clients_greet_waiting(void)
{
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++)
        if (c7x_supervisor.clients[i].pending == C7X_SETUP_HELLO)
            greet(&c7x_supervisor.clients[i]);
}

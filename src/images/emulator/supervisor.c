/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "supervisor.h"

#include "core.h"
#include "firmware/memory/memory.h"
#include "transport/carveout.h"
#include "transport/emulator/strict.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX 1024u /* with a link */
/* A few more may connect, to be told so, and to ask for the status or the end. */
#define CONNECTIONS_MAX (CLIENTS_MAX + 64u)
/* A core that dies this often without ever serving will not serve the next time either. */
#define FAILED_STARTS_MAX 3u

struct client {
    int socket;
    uint32_t endpoint;   /* 0: no link yet */
    uint32_t core_start; /* of the link: another core does not know this client */
    uint32_t pending;    /* the op whose answer the core owes us, or 0 */
    bool wants_core;     /* has asked for a reset, and is told when the new core serves */
    int pending_fd;      /* what goes to the client with that answer, or -1 */
    struct c7x_setup_message answer;
};

/* A shared buffer: a range of the carve-out and who asked for it. */
struct buffer {
    uint64_t address;
    uint32_t endpoint;
};

static struct {
    const struct c7x_supervisor_config *config;
    int signals;
    int ready;   /* closed when the core first serves */
    int control; /* to the core */
    pid_t core_pid;
    uint32_t core_starts;
    uint32_t failed_starts;
    bool core_serves;
    bool stopping;
    struct client clients[CONNECTIONS_MAX];
    uint32_t client_count;
    uint32_t next_endpoint;
    struct c7x_carveout carveout;
    struct buffer *buffers;
    size_t buffer_count;
    size_t buffer_capacity;
    int log_fd;
    struct c7x_log_memory *log;
} self;

/* ---- The core's life ---- */

/* In the child: nothing of the supervisor may stay open, and the core ends when the supervisor
 * does. */
static _Noreturn void become_core(int control, pid_t supervisor)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    prctl(PR_SET_NAME, "c7x_core");
    close(self.signals);
    close(self.log_fd);
    if (self.ready >= 0)
        close(self.ready);
    if (self.config->listener >= 0)
        close(self.config->listener);
    for (uint32_t i = 0; i < self.client_count; i++) {
        close(self.clients[i].socket);
        if (self.clients[i].pending_fd >= 0)
            close(self.clients[i].pending_fd);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    _exit(c7x_core_run(control, self.log, self.config->strict));
}

/* Never with pid 0, which would be all of our process group. */
static void kill_core(void)
{
    if (self.core_pid > 0)
        kill(self.core_pid, SIGKILL);
}

static bool start_core(void)
{
    int sockets[2];
    pid_t supervisor = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return false;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        become_core(sockets[1], supervisor);
    }
    close(sockets[1]);
    if (pid < 0) {
        close(sockets[0]);
        return false;
    }
    self.control = sockets[0];
    self.core_pid = pid;
    self.core_starts++;
    self.core_serves = false;
    return true;
}

static void log_line(const char *text)
{
    uint64_t written = self.log->written;
    for (size_t i = 0; text[i] != '\0'; i++)
        self.log->text[written++ % sizeof self.log->text] = text[i];
    self.log->written = written;
}

static void answer(struct client *client, const struct c7x_setup_message *message, int fd);
static struct client *client_of(uint32_t endpoint);
static void free_buffer(size_t index);
static void greet(struct client *client);

/*
 * Links and pending answers of the old core are void; its clients learn it from their link, and
 * here. Their buffers stay theirs; those that the core alone still held are free. Who was just
 * saying hello waits for the next core.
 */
static void abandon_links(void)
{
    for (uint32_t i = 0; i < self.client_count; i++) {
        struct client *client = &self.clients[i];
        struct c7x_setup_message message = {.op = client->pending, .status = C7X_RESET};
        if (client->pending_fd >= 0)
            close(client->pending_fd);
        client->pending_fd = -1;
        if (client->pending == 0 || client->pending == C7X_SETUP_HELLO)
            continue;
        client->pending = 0;
        answer(client, &message, -1);
    }
    for (size_t i = self.buffer_count; i-- > 0;)
        if (client_of(self.buffers[i].endpoint) == NULL)
            free_buffer(i);
}

static void greet_waiting(void)
{
    for (uint32_t i = 0; i < self.client_count; i++)
        if (self.clients[i].pending == C7X_SETUP_HELLO)
            greet(&self.clients[i]);
}

static void core_has_died(void)
{
    int status = 0;
    char text[128];
    if (self.core_pid <= 0 || waitpid(self.core_pid, &status, WNOHANG) != self.core_pid)
        return;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "supervisor: the core was ended by signal %d\n",
                 WTERMSIG(status));
    else
        snprintf(text, sizeof text, "supervisor: the core ended with code %d\n",
                 WEXITSTATUS(status));
    log_line(text);
    close(self.control);
    self.control = -1;
    self.core_pid = 0;
    self.failed_starts = self.core_serves ? 0 : self.failed_starts + 1;
    abandon_links();
    if (self.stopping || self.failed_starts >= FAILED_STARTS_MAX || !start_core())
        self.stopping = true;
    else
        greet_waiting();
}

/* ---- Buffers ---- */

static void free_buffer(size_t index)
{
    c7x_carveout_free(&self.carveout, self.buffers[index].address);
    self.buffers[index] = self.buffers[--self.buffer_count];
}

static void free_buffers_of(uint32_t endpoint)
{
    for (size_t i = self.buffer_count; i-- > 0;)
        if (self.buffers[i].endpoint == endpoint)
            free_buffer(i);
}

static void free_buffer_at(uint64_t address)
{
    for (size_t i = 0; i < self.buffer_count; i++)
        if (self.buffers[i].address == address) {
            free_buffer(i);
            return;
        }
}

static bool owns_buffer(const struct client *client, uint64_t address)
{
    for (size_t i = 0; i < self.buffer_count; i++)
        if (self.buffers[i].address == address)
            return self.buffers[i].endpoint == client->endpoint;
    return false;
}

static bool remember_buffer(uint64_t address, uint32_t endpoint)
{
    if (self.buffer_count == self.buffer_capacity) {
        size_t capacity = self.buffer_capacity == 0 ? 64 : 2 * self.buffer_capacity;
        struct buffer *buffers = realloc(self.buffers, capacity * sizeof *buffers);
        if (buffers == NULL)
            return false;
        self.buffers = buffers;
        self.buffer_capacity = capacity;
    }
    self.buffers[self.buffer_count++] = (struct buffer){address, endpoint};
    return true;
}

/* A descriptor of its own for each buffer, which nobody can make smaller or larger under the
 * others. */
static int make_memory(uint64_t size)
{
    int fd = memfd_create("c7x-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- Clients ---- */

static void tell_core(const struct c7x_setup_message *message)
{
    if (self.control >= 0 && c7x_setup_send(self.control, message, -1, false) == C7X_BUSY)
        kill_core(); /* it has not read hundreds of messages: it hangs */
}

/* The client has hung up. Its place is taken by the last one. */
static void remove_client(struct client *client)
{
    close(client->socket);
    if (client->pending_fd >= 0)
        close(client->pending_fd);
    if (client->endpoint != 0 && client->core_start == self.core_starts && self.control >= 0) {
        struct c7x_setup_message message = {.op = C7X_SETUP_GONE, .endpoint = client->endpoint};
        tell_core(&message); /* the core answers with RELEASED for each buffer */
    } else {
        free_buffers_of(client->endpoint);
    }
    *client = self.clients[--self.client_count];
    if (self.config->connection >= 0)
        self.stopping = true;
}

static void answer(struct client *client, const struct c7x_setup_message *message, int fd)
{
    if (c7x_setup_send(client->socket, message, fd, false) != C7X_OK)
        shutdown(client->socket, SHUT_RDWR); /* the poll loop removes it */
}

static void answer_status(struct client *client, uint32_t op, enum c7x_status status)
{
    struct c7x_setup_message message = {.op = op, .status = (int32_t)status};
    answer(client, &message, -1);
}

/*
 * Sends a request to the core; the client is answered, with `fd`, when the core has done it. A core
 * that is gone will be replaced: then a hello waits, and everything else is void.
 */
static void ask_core(struct client *client, const struct c7x_setup_message *message, int core_fd,
                     const struct c7x_setup_message *later, int fd)
{
    enum c7x_status status =
        self.control >= 0 ? c7x_setup_send(self.control, message, core_fd, false) : C7X_RESET;
    if (status != C7X_OK) {
        if (fd >= 0)
            close(fd);
        client->pending = status == C7X_RESET && later->op == C7X_SETUP_HELLO ? later->op : 0;
        if (client->pending == 0)
            answer_status(client, later->op, status);
        return;
    }
    client->pending = later->op;
    client->pending_fd = fd;
    client->answer = *later;
}

/* The client gets one end of a new link, the core the other. */
static void greet(struct client *client)
{
    struct c7x_setup_message later = {.op = C7X_SETUP_HELLO, .strict = self.config->strict};
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        client->pending = 0;
        answer_status(client, later.op, C7X_HOST_NOMEM);
        return;
    }
    client->endpoint = self.next_endpoint++;
    client->core_start = self.core_starts;
    struct c7x_setup_message message = {.op = C7X_SETUP_ENDPOINT, .endpoint = client->endpoint};
    ask_core(client, &message, sockets[1], &later, sockets[0]);
    close(sockets[1]);
}

static uint32_t link_count(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self.client_count; i++)
        count += self.clients[i].endpoint != 0;
    return count;
}

static void handle_hello(struct client *client, const struct c7x_setup_message *request)
{
    struct c7x_setup_message full = {
        .op = C7X_SETUP_HELLO, .status = C7X_BUSY, .client_count = CLIENTS_MAX};
    if (request->size != C7X_SETUP_VERSION || client->endpoint != 0)
        answer_status(client, request->op, C7X_VERSION);
    else if (link_count() >= CLIENTS_MAX)
        answer(client, &full, -1);
    else
        greet(client);
}

static void handle_attach(struct client *client, const struct c7x_setup_message *request)
{
    struct c7x_setup_message later = {.op = request->op};
    struct c7x_carveout_range range;
    struct c7x_error error;
    c7x_error_clear(&error);
    later.status = c7x_carveout_alloc(&self.carveout, request->size, &range, &error);
    later.oom = error.oom;
    if (later.status != C7X_OK) {
        answer(client, &later, -1);
        return;
    }
    int memory = make_memory(self.config->strict ? c7x_strict_file_size(range.size) : range.size);
    if (memory < 0 || !remember_buffer(range.address, client->endpoint)) {
        c7x_carveout_free(&self.carveout, range.address);
        if (memory >= 0)
            close(memory);
        answer_status(client, request->op, C7X_HOST_NOMEM);
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

static void handle_detach(struct client *client, const struct c7x_setup_message *request)
{
    struct c7x_setup_message message = {
        .op = C7X_SETUP_DETACH, .endpoint = client->endpoint, .address = request->address};
    struct c7x_setup_message later = {.op = request->op};
    if (owns_buffer(client, request->address))
        ask_core(client, &message, -1, &later, -1);
    else
        answer_status(client, request->op, C7X_ADDR);
}

static void handle_status(struct client *client)
{
    struct c7x_setup_message message = {
        .op = C7X_SETUP_STATUS,
        .supervisor_pid = getpid(),
        .core_pid = self.core_pid,
        .core_starts = self.core_starts,
        .client_count = link_count(),
        .carveout_total = self.carveout.size,
        .carveout_free = c7x_carveout_free_bytes(&self.carveout),
        .carveout_largest = c7x_carveout_largest_free(&self.carveout),
    };
    answer(client, &message, -1);
}

static void handle_client_message(struct client *client, const struct c7x_setup_message *request)
{
    bool needs_link = request->op == C7X_SETUP_ATTACH || request->op == C7X_SETUP_DETACH;
    if (client->pending != 0 || (needs_link && client->endpoint == 0)) {
        answer_status(client, request->op, C7X_INVALID);
        return;
    }
    if (needs_link && client->core_start != self.core_starts) {
        answer_status(client, request->op, C7X_RESET);
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
        answer(client, &message, self.log_fd);
        break;
    }
    case C7X_SETUP_RESET: /* answered by core_serves() */
        client->wants_core = true;
        kill_core();
        break;
    case C7X_SETUP_STOP:
        answer_status(client, request->op, C7X_OK);
        self.stopping = true;
        break;
    default:
        answer_status(client, request->op, C7X_OP);
        break;
    }
}

/* False if the client was removed. */
static bool handle_client(struct client *client)
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

static bool add_client(int socket)
{
    if (self.client_count == CONNECTIONS_MAX)
        return false;
    self.clients[self.client_count++] = (struct client){.socket = socket, .pending_fd = -1};
    return true;
}

static void accept_client(void)
{
    int socket = accept4(self.config->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return;
    if (!c7x_setup_peer_is_us(socket) || !add_client(socket))
        close(socket);
}

/* ---- What the core says ---- */

static struct client *client_of(uint32_t endpoint)
{
    for (uint32_t i = 0; i < self.client_count; i++)
        if (self.clients[i].endpoint == endpoint)
            return &self.clients[i];
    return NULL;
}

static void finish_pending(const struct c7x_setup_message *message)
{
    struct client *client = client_of(message->endpoint);
    if (message->op == C7X_SETUP_ATTACH && message->status != C7X_OK)
        free_buffer_at(message->address);
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

static void core_serves(void)
{
    self.core_serves = true;
    self.failed_starts = 0;
    for (uint32_t i = 0; i < self.client_count; i++)
        if (self.clients[i].wants_core) {
            self.clients[i].wants_core = false;
            answer_status(&self.clients[i], C7X_SETUP_RESET, C7X_OK);
        }
    if (self.ready >= 0) {
        if (write(self.ready, "", 1) != 1)
            self.stopping = true; /* who waited for us has given up */
        close(self.ready);
        self.ready = -1;
    }
}

static void handle_core(void)
{
    struct c7x_setup_message message;
    int fd = -1;
    enum c7x_status status = c7x_setup_receive(self.control, &message, &fd, false);
    if (status == C7X_BUSY)
        return;
    if (fd >= 0)
        close(fd);
    if (status != C7X_OK) {
        kill_core(); /* SIGCHLD brings the rest */
        shutdown(self.control, SHUT_RDWR);
        return;
    }
    if (message.op == C7X_SETUP_READY)
        core_serves();
    else if (message.op == C7X_SETUP_RELEASED)
        free_buffer_at(message.address);
    else
        finish_pending(&message);
}

/* ---- The loop ---- */

static bool make_log(void)
{
    self.log_fd = memfd_create("c7x-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (self.log_fd < 0 || ftruncate(self.log_fd, sizeof *self.log) != 0)
        return false;
    self.log = mmap(NULL, sizeof *self.log, PROT_READ | PROT_WRITE, MAP_SHARED, self.log_fd, 0);
    if (self.log == MAP_FAILED)
        return false;
    self.log->size = sizeof self.log->text;
    /* From now on it can be mapped for reading only: clients cannot write the log. */
    fcntl(self.log_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
    return true;
}

static void handle_signals(void)
{
    struct signalfd_siginfo info;
    while (read(self.signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            core_has_died();
        else
            self.stopping = true;
    }
}

static void serve_once(struct pollfd *entries)
{
    nfds_t count = 0;
    uint32_t polled = self.client_count;
    entries[count++] = (struct pollfd){.fd = self.signals, .events = POLLIN};
    entries[count++] = (struct pollfd){.fd = self.control, .events = POLLIN};
    entries[count++] = (struct pollfd){.fd = self.config->listener, .events = POLLIN};
    for (uint32_t i = 0; i < polled; i++)
        entries[count++] = (struct pollfd){.fd = self.clients[i].socket, .events = POLLIN};
    if (poll(entries, count, -1) < 0)
        return;
    /* From the last to the first: a removed client is replaced by one that has been handled. */
    for (uint32_t i = polled; i-- > 0;)
        if (entries[3 + i].revents != 0)
            handle_client(&self.clients[i]);
    if (entries[1].revents != 0 && self.control == entries[1].fd)
        handle_core();
    if (entries[0].revents != 0)
        handle_signals();
    if (entries[2].revents != 0)
        accept_client();
}

static bool set_up(const struct c7x_supervisor_config *config)
{
    sigset_t signals;
    self.config = config;
    self.control = self.log_fd = -1;
    self.ready = config->ready;
    self.next_endpoint = 1024; /* as RPMessage numbers its dynamic endpoints */
    self.carveout =
        (struct c7x_carveout){.base = C7X_MEMORY_CARVEOUT_BASE, .size = C7X_MEMORY_CARVEOUT_SIZE};
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    self.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return self.signals >= 0 && make_log() && start_core() &&
           (config->connection < 0 || add_client(config->connection));
}

/* Lets the core end by itself, so that it can say what is left, but not for long: a job may never
 * end. */
static void stop_core(void)
{
    struct pollfd exited = {.fd = self.signals, .events = POLLIN};
    if (self.core_pid <= 0)
        return;
    close(self.control);
    for (int i = 0; i < 20 && waitpid(self.core_pid, NULL, WNOHANG) == 0; i++) {
        struct signalfd_siginfo info;
        poll(&exited, 1, 50);
        while (read(self.signals, &info, sizeof info) > 0)
            continue;
    }
    kill_core();
    waitpid(self.core_pid, NULL, 0);
}

/* Tells whoever waits for us to serve, or the terminal, why we do not. */
static void say_failure(const char *what, const char *why)
{
    int out = self.ready >= 0 ? self.ready : STDERR_FILENO;
    dprintf(out, "c7x_emulator: %s%s\n", what, why);
}

int c7x_supervisor_run(const struct c7x_supervisor_config *config)
{
    static struct pollfd entries[3 + CONNECTIONS_MAX];
    if (!set_up(config)) {
        say_failure("cannot start the core: ", strerror(errno));
        return 1;
    }
    while (!self.stopping)
        serve_once(entries);
    bool failed = self.failed_starts >= FAILED_STARTS_MAX;
    if (config->listener >= 0) { /* the place is free for the next one from here on */
        unlink(config->path);
        close(config->listener);
    }
    stop_core();
    for (uint32_t i = 0; i < self.client_count; i++)
        close(self.clients[i].socket);
    free(self.buffers);
    c7x_carveout_deinit(&self.carveout);
    if (failed)
        say_failure("the core does not start", "");
    return failed ? 1 : 0;
}

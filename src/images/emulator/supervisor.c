/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over all sockets and signals, and the log. */
#define _GNU_SOURCE
#include "supervisor_impl.h"

#include "firmware/memory/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct c7x_supervisor c7x_supervisor;

static bool make_log(void)
{
    c7x_supervisor.log_fd = memfd_create("c7x-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (c7x_supervisor.log_fd < 0 ||
        ftruncate(c7x_supervisor.log_fd, sizeof *c7x_supervisor.log) != 0)
        return false;
    c7x_supervisor.log = mmap(NULL, sizeof *c7x_supervisor.log, PROT_READ | PROT_WRITE, MAP_SHARED,
                              c7x_supervisor.log_fd, 0);
    if (c7x_supervisor.log == MAP_FAILED)
        return false;
    c7x_supervisor.log->size = sizeof c7x_supervisor.log->text;
    /* From now on it can be mapped for reading only: clients cannot write the log. */
    fcntl(c7x_supervisor.log_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
    return true;
}

static void handle_signals(void)
{
    struct signalfd_siginfo info;
    while (read(c7x_supervisor.signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            c7x_core_process_reap();
        else
            c7x_supervisor.stopping = true;
    }
}

static void serve_once(struct pollfd *entries)
{
    nfds_t count = 0;
    uint32_t polled = c7x_supervisor.client_count;
    entries[count++] = (struct pollfd){.fd = c7x_supervisor.signals, .events = POLLIN};
    entries[count++] = (struct pollfd){.fd = c7x_supervisor.control, .events = POLLIN};
    entries[count++] = (struct pollfd){.fd = c7x_supervisor.config->listener, .events = POLLIN};
    for (uint32_t i = 0; i < polled; i++)
        entries[count++] =
            (struct pollfd){.fd = c7x_supervisor.clients[i].socket, .events = POLLIN};
    if (poll(entries, count, -1) < 0)
        return;
    /* From the last to the first: a removed client is replaced by one that has been handled. */
    for (uint32_t i = polled; i-- > 0;)
        if (entries[3 + i].revents != 0)
            c7x_clients_handle(&c7x_supervisor.clients[i]);
    if (entries[1].revents != 0 && c7x_supervisor.control == entries[1].fd)
        c7x_core_process_handle();
    if (entries[0].revents != 0)
        handle_signals();
    if (entries[2].revents != 0)
        c7x_clients_accept();
}

static bool set_up(const struct c7x_supervisor_config *config)
{
    sigset_t signals;
    c7x_supervisor.config = config;
    c7x_supervisor.control = c7x_supervisor.log_fd = -1;
    c7x_supervisor.ready = config->ready;
    c7x_supervisor.next_endpoint = 1024; /* as RPMessage numbers its dynamic endpoints */
    c7x_supervisor.carveout =
        (struct c7x_carveout){.base = C7X_MEMORY_CARVEOUT_BASE, .size = C7X_MEMORY_CARVEOUT_SIZE};
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    c7x_supervisor.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return c7x_supervisor.signals >= 0 && make_log() && c7x_core_process_start() &&
           (config->connection < 0 || c7x_clients_add(config->connection));
}

/* Tells whoever waits for us to serve, or the terminal, why we do not. */
static void say_failure(const char *what, const char *why)
{
    int out = c7x_supervisor.ready >= 0 ? c7x_supervisor.ready : STDERR_FILENO;
    dprintf(out, "c7x_emulator: %s%s\n", what, why);
}

int c7x_supervisor_run(const struct c7x_supervisor_config *config)
{
    static struct pollfd entries[3 + CONNECTIONS_MAX];
    if (!set_up(config)) {
        say_failure("cannot start the core: ", strerror(errno));
        return 1;
    }
    while (!c7x_supervisor.stopping)
        serve_once(entries);
    bool failed = c7x_supervisor.failed_starts >= FAILED_STARTS_MAX;
    if (config->listener >= 0) { /* the place is free for the next one from here on */
        unlink(config->path);
        close(config->listener);
    }
    c7x_core_process_stop();
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++)
        close(c7x_supervisor.clients[i].socket);
    free(c7x_supervisor.buffers);
    c7x_carveout_deinit(&c7x_supervisor.carveout);
    if (failed)
        say_failure("the core does not start", "");
    return failed ? 1 : 0;
}

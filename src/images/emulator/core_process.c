/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the core: forked, reaped, forked again; and what it says over its control socket. */
#define _GNU_SOURCE
#include "supervisor_impl.h"

#include "core.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: nothing of the supervisor may stay open, and the core ends when the supervisor
 * does. */
static _Noreturn void become_core(int control, pid_t supervisor)
{
    sigset_t none;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(1);
    prctl(PR_SET_NAME, "c7x_core");
    close(c7x_supervisor.signals);
    close(c7x_supervisor.log_fd);
    if (c7x_supervisor.ready >= 0)
        close(c7x_supervisor.ready);
    if (c7x_supervisor.config->listener >= 0)
        close(c7x_supervisor.config->listener);
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++) {
        close(c7x_supervisor.clients[i].socket);
        if (c7x_supervisor.clients[i].pending_fd >= 0)
            close(c7x_supervisor.clients[i].pending_fd);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    _exit(c7x_emulator_core_run(control, c7x_supervisor.log, &c7x_supervisor.config->core));
}

/* Never with pid 0, which would be all of our process group. */
void c7x_core_process_kill(void)
{
    if (c7x_supervisor.core_pid > 0)
        kill(c7x_supervisor.core_pid, SIGKILL);
}

bool c7x_core_process_start(void)
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
    c7x_supervisor.control = sockets[0];
    c7x_supervisor.core_pid = pid;
    c7x_supervisor.core_starts++;
    c7x_supervisor.core_serves = false;
    return true;
}

static void log_line(const char *text)
{
    uint64_t written = c7x_supervisor.log->written;
    for (size_t i = 0; text[i] != '\0'; i++)
        c7x_supervisor.log->text[written++ % sizeof c7x_supervisor.log->text] = text[i];
    c7x_supervisor.log->written = written;
}

void c7x_core_process_reap(void)
{
    int status = 0;
    char text[128];
    if (c7x_supervisor.core_pid <= 0 ||
        waitpid(c7x_supervisor.core_pid, &status, WNOHANG) != c7x_supervisor.core_pid)
        return;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "supervisor: the core was ended by signal %d\n",
                 WTERMSIG(status));
    else
        snprintf(text, sizeof text, "supervisor: the core ended with code %d\n",
                 WEXITSTATUS(status));
    log_line(text);
    close(c7x_supervisor.control);
    c7x_supervisor.control = -1;
    c7x_supervisor.core_pid = 0;
    c7x_supervisor.failed_starts =
        c7x_supervisor.core_serves ? 0 : c7x_supervisor.failed_starts + 1;
    c7x_clients_abandon_links();
    if (c7x_supervisor.stopping || c7x_supervisor.failed_starts >= FAILED_STARTS_MAX ||
        !c7x_core_process_start())
        c7x_supervisor.stopping = true;
    else
        c7x_clients_greet_waiting();
}

/* ---- What it says ---- */

static void core_serves(void)
{
    c7x_supervisor.core_serves = true;
    c7x_supervisor.failed_starts = 0;
    for (uint32_t i = 0; i < c7x_supervisor.client_count; i++)
        if (c7x_supervisor.clients[i].wants_core) {
            c7x_supervisor.clients[i].wants_core = false;
            c7x_clients_answer_status(&c7x_supervisor.clients[i], C7X_SETUP_RESET, C7X_OK);
        }
    if (c7x_supervisor.ready >= 0) {
        if (write(c7x_supervisor.ready, "", 1) != 1)
            c7x_supervisor.stopping = true; /* who waited for us has given up */
        close(c7x_supervisor.ready);
        c7x_supervisor.ready = -1;
    }
}

void c7x_core_process_handle(void)
{
    struct c7x_setup_message message;
    int fd = -1;
    enum c7x_status status = c7x_setup_receive(c7x_supervisor.control, &message, &fd, false);
    if (status == C7X_BUSY)
        return;
    if (fd >= 0)
        close(fd);
    if (status != C7X_OK) {
        c7x_core_process_kill(); /* SIGCHLD brings the rest */
        shutdown(c7x_supervisor.control, SHUT_RDWR);
        return;
    }
    if (message.op == C7X_SETUP_READY)
        core_serves();
    else if (message.op == C7X_SETUP_RELEASED)
        c7x_shared_buffers_free_at(message.address);
    else
        c7x_clients_finish(&message);
}

/* ---- Its end ---- */

/* Lets the core end by itself, so that it can say what is left, but not for long: a job may never
 * end. */
void c7x_core_process_stop(void)
{
    struct pollfd exited = {.fd = c7x_supervisor.signals, .events = POLLIN};
    if (c7x_supervisor.core_pid <= 0)
        return;
    close(c7x_supervisor.control);
    for (int i = 0; i < 20 && waitpid(c7x_supervisor.core_pid, NULL, WNOHANG) == 0; i++) {
        struct signalfd_siginfo info;
        poll(&exited, 1, 50);
        while (read(c7x_supervisor.signals, &info, sizeof info) > 0)
            continue;
    }
    c7x_core_process_kill();
    waitpid(c7x_supervisor.core_pid, NULL, 0);
}

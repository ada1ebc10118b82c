/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/emulator.h"

#include "os/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATION "transport"
#define PROGRAM "c7x_emulator"
#define CONNECTION_FD 3 /* where a private emulator finds its client's connection */

#ifndef C7X_BINDIR
#define C7X_BINDIR "/usr/local/bin"
#endif

extern char **environ;

static enum c7x_status make_own_folder(const char *folder, struct c7x_error *error)
{
    struct stat info;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return c7x_error_set(error, C7X_PERMISSION, STATION, "cannot make folder %s: %s", folder,
                             strerror(errno));
    if (lstat(folder, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
        (info.st_mode & 077) != 0)
        return c7x_error_set(error, C7X_PERMISSION, STATION,
                             "folder %s must belong to this user alone (mode 0700)", folder);
    return C7X_OK;
}

enum c7x_status c7x_emulator_default_path(struct c7x_emulator_place *place, struct c7x_error *error)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX];
    char suffix[16] = ""; /* the first core has the name from before there was a second */
    if (place->core > 1)
        snprintf(suffix, sizeof suffix, "-%u", place->core);
    if (runtime != NULL && runtime[0] == '/') {
        snprintf(folder, sizeof folder, "%s", runtime);
    } else {
        snprintf(folder, sizeof folder, "%s/c7x-compute-%u",
                 temporary != NULL && temporary[0] == '/' ? temporary : "/tmp",
                 (unsigned)geteuid());
        C7X_RETURN_IF_ERROR(make_own_folder(folder, error));
    }
    if ((size_t)snprintf(place->path, sizeof place->path, "%s/c7x-compute%s.sock", folder,
                         suffix) >= sizeof place->path)
        return c7x_error_set(error, C7X_SIZE, STATION, "the path of the socket in %s is too long",
                             folder);
    return C7X_OK;
}

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* The folder of the file that this code was loaded from, or "". */
static void own_folder(char folder[PATH_MAX])
{
    Dl_info info;
    union {
        void (*function)(char *);
        void *object;
    } here = {.function = own_folder};
    char *slash = NULL;
    folder[0] = '\0';
    if (dladdr(here.object, &info) != 0 && info.dli_fname != NULL &&
        realpath(info.dli_fname, folder) != NULL)
        slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    else
        folder[0] = '\0';
}

/* Where the emulator's program is: $C7X_EMULATOR, beside this code, the installation, $PATH (a bare
 * name). */
static void find_program(char program[PATH_MAX])
{
    const char *named = getenv("C7X_EMULATOR");
    char folder[PATH_MAX];
    if (named != NULL && named[0] != '\0') {
        snprintf(program, PATH_MAX, "%s", named);
        return;
    }
    own_folder(folder);
    static const char *const places[] = {"", "/../bin"};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(places) && folder[0] != '\0'; i++)
        if (snprintf(program, PATH_MAX, "%s%s/" PROGRAM, folder, places[i]) < PATH_MAX &&
            is_program(program))
            return;
    if (snprintf(program, PATH_MAX, C7X_BINDIR "/" PROGRAM) < PATH_MAX && is_program(program))
        return;
    snprintf(program, PATH_MAX, PROGRAM);
}

#define ARGUMENTS_MAX 7

/* $C7X_STRICT_CACHE, set and not "0", makes the emulator's caches strict (strict.h). */
static void set_arguments(const char *arguments[ARGUMENTS_MAX], const char *core,
                          const char *option, const char *value)
{
    const char *strict = getenv("C7X_STRICT_CACHE");
    int count = 0;
    arguments[count++] = PROGRAM;
    if (strict != NULL && strict[0] != '\0' && strcmp(strict, "0") != 0)
        arguments[count++] = "--strict-cache";
    arguments[count++] = "--core";
    arguments[count++] = core;
    arguments[count++] = option;
    arguments[count++] = value;
    arguments[count] = NULL;
}

/* Starts the program with clean signals; `connection` (or -1) becomes CONNECTION_FD, `messages` its
 * stdout and stderr. */
static enum c7x_status spawn(const char *const *arguments, int connection, int messages,
                             pid_t *out_pid, struct c7x_error *error)
{
    char program[PATH_MAX];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t signals;
    find_program(program);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    if (connection >= 0)
        posix_spawn_file_actions_adddup2(&actions, connection, CONNECTION_FD);
    if (messages >= 0)
        posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
    if (messages >= 0)
        posix_spawn_file_actions_adddup2(&actions, messages, STDOUT_FILENO);
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int failure = posix_spawnp(out_pid, program, &actions, &attributes,
                               (char *const *)(uintptr_t)arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0)
        return c7x_error_set(error, C7X_NO_DEVICE, STATION,
                             "cannot start %s: %s (set C7X_EMULATOR to its path)", program,
                             strerror(failure));
    return C7X_OK;
}

static int wait_for_exit(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* Reads what the program says until it closes its stderr or the deadline comes; false: the
 * deadline. */
static bool read_messages(int messages, int64_t deadline_ns, char *text, size_t text_size)
{
    size_t used = 0;
    for (;;) {
        int64_t left_ms = (deadline_ns - c7x_os_clock_ns()) / 1000000;
        struct pollfd entry = {.fd = messages, .events = POLLIN};
        int timeout = left_ms > INT_MAX ? INT_MAX : left_ms < 0 ? 0 : (int)left_ms;
        int ready = poll(&entry, 1, timeout);
        if (ready == 0)
            return false;
        char chunk[256];
        ssize_t count = ready > 0 ? read(messages, chunk, sizeof chunk) : -1;
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        size_t room = text_size - 1 - used;
        size_t kept = (size_t)count < room ? (size_t)count : room;
        memcpy(text + used, chunk, kept);
        used += kept;
    }
    while (used > 0 && text[used - 1] == '\n')
        used--;
    text[used] = '\0';
    return true;
}

/*
 * Runs the program until its first process, which alone has `messages`, ends. What it said is in
 * `text`. C7X_TIMEOUT: it did not end, and was killed.
 */
static enum c7x_status run_program(const char *const *arguments, int64_t deadline_ns, char *text,
                                   size_t size, int *out_exit_status, struct c7x_error *error)
{
    int messages[2];
    pid_t pid;
    if (pipe2(messages, O_CLOEXEC) != 0)
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no pipe: %s", strerror(errno));
    enum c7x_status status = spawn(arguments, -1, messages[1], &pid, error);
    close(messages[1]);
    if (status == C7X_OK) {
        if (!read_messages(messages[0], deadline_ns, text, size)) {
            kill(pid, SIGKILL);
            status = C7X_TIMEOUT;
        }
        *out_exit_status = wait_for_exit(pid);
    }
    close(messages[0]);
    return status;
}

enum c7x_status c7x_emulator_ask_program(char *version, size_t size, int64_t deadline_ns,
                                         struct c7x_error *error)
{
    static const char *const arguments[] = {PROGRAM, "--version", NULL};
    char text[512] = "";
    int exit_status = 0;
    enum c7x_status status =
        run_program(arguments, deadline_ns, text, sizeof text, &exit_status, error);
    if (status == C7X_TIMEOUT)
        return c7x_error_set(error, C7X_TIMEOUT, STATION, "the emulator's program does not end");
    C7X_RETURN_IF_ERROR(status);
    if (exit_status != 0 || strncmp(text, PROGRAM " ", sizeof PROGRAM) != 0)
        return c7x_error_set(error, C7X_NO_DEVICE, STATION,
                             "the emulator's program does not say its version: %s", text);
    snprintf(version, size, "%s", text + sizeof PROGRAM);
    return C7X_OK;
}

enum c7x_status c7x_emulator_launch_shared(const struct c7x_emulator_place *place,
                                           int64_t deadline_ns, struct c7x_error *error)
{
    char text[512] = "";
    char core[16];
    int exit_status = 0;
    const char *arguments[ARGUMENTS_MAX];
    snprintf(core, sizeof core, "%u", place->core);
    set_arguments(arguments, core, "--listen", place->path);
    /* The first process ends when the emulator serves or has failed. */
    enum c7x_status status =
        run_program(arguments, deadline_ns, text, sizeof text, &exit_status, error);
    if (status == C7X_TIMEOUT)
        return c7x_error_set(error, C7X_TIMEOUT, STATION, "the emulator does not start to serve");
    C7X_RETURN_IF_ERROR(status);
    if (exit_status != 0)
        return c7x_error_set(error, C7X_NO_DEVICE, STATION, "the emulator did not start: %s", text);
    return C7X_OK;
}

/* Who starts one holds the lock beside the socket until it serves. */
bool c7x_emulator_is_starting(const char *path)
{
    char lock_path[C7X_EMULATOR_PATH_MAX + sizeof ".lock"];
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    int lock = open(lock_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0)
        return false;
    bool held = flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(lock);
    return held;
}

enum c7x_status c7x_emulator_launch_private(int *out_socket, struct c7x_error *error)
{
    int sockets[2];
    pid_t pid;
    const char *arguments[ARGUMENTS_MAX];
    set_arguments(arguments, "1", "--connection", "3");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no socket: %s", strerror(errno));
    enum c7x_status status = C7X_OK;
    if (sockets[1] == CONNECTION_FD) { /* dup2 onto itself would keep close-on-exec */
        int moved = fcntl(sockets[1], F_DUPFD_CLOEXEC, CONNECTION_FD + 1);
        close(sockets[1]);
        sockets[1] = moved;
        if (moved < 0)
            status = c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no descriptor");
    }
    if (status == C7X_OK)
        status = spawn(arguments, sockets[1], -1, &pid, error);
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (status == C7X_OK)
        wait_for_exit(pid); /* the emulator itself goes on in the background */
    else
        close(sockets[0]);
    if (status == C7X_OK)
        *out_socket = sockets[0];
    return status;
}

enum c7x_status c7x_emulator_connect(const char *path, int *out_socket, struct c7x_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return c7x_error_set(error, C7X_SIZE, STATION, "the socket's path is too long: %s", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0)
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no socket: %s", strerror(errno));
    if (connect(connection, (const struct sockaddr *)&address, sizeof address) != 0) {
        int failure = errno;
        close(connection);
        if (failure == EACCES || failure == EPERM)
            return c7x_error_set(error, C7X_PERMISSION, STATION,
                                 "%s: %s (the emulator serves only the user who started it)", path,
                                 strerror(failure));
        return c7x_error_set(error, C7X_NO_DEVICE, STATION, "no emulator serves at %s: %s", path,
                             strerror(failure));
    }
    if (!c7x_setup_peer_is_us(connection)) {
        close(connection);
        return c7x_error_set(error, C7X_PERMISSION, STATION, "the emulator at %s is another user's",
                             path);
    }
    *out_socket = connection;
    return C7X_OK;
}

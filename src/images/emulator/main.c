/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c7x_emulator: a C7x core as a process. Started by the client library and by `c7x_compute emulator
 * start`; people need it only to debug it in the foreground.
 */
#define _GNU_SOURCE
#include "build_id.h"
#include "supervisor.h"

#include "firmware/tvm/tvm.h"
#include "transport/emulator/emulator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DESCRIPTORS_WANTED 8192u
#define WATCHDOG_DEFAULT "10"
#define THREADS_DEFAULT "1"

static const char usage[] =
    "Usage: c7x_emulator [OPTIONS] --listen PATH [--foreground]\n"
    "       c7x_emulator [OPTIONS] --connection FD\n"
    "       c7x_emulator --help | --version\n"
    "Options: --strict-cache, --guard, --core N, --watchdog SECONDS, --threads N\n"
    "\n"
    "Emulates one C7x core, the first or number N, for the programs of this user that connect to "
    "the socket PATH, or for\n"
    "the one at the other end of descriptor FD. Goes to the background once it serves; with "
    "--foreground it stays.\n"
    "See also: c7x_compute emulator start | stop | status.\n";

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "c7x_emulator: %s %s: %s\n", what, path, strerror(errno));
    return -1;
}

/* Nothing of who started us stays open; `kept` (or -1) becomes the only descriptor above stderr,
 * number 3. */
static int drop_descriptors(int kept)
{
    if (kept >= 0 && kept != 3) {
        dup2(kept, 3);
        kept = 3;
    }
    close_range(kept >= 0 ? 4 : 3, ~0u, 0);
    if (kept >= 0)
        fcntl(kept, F_SETFD, FD_CLOEXEC);
    return kept;
}

/* Each client takes a descriptor here and one in the core, and shells allow few. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= DESCRIPTORS_WANTED)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Whether somebody answers at the socket. */
static bool is_served(const struct sockaddr_un *address)
{
    int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool served =
        probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;
    if (probe >= 0)
        close(probe);
    return served;
}

/*
 * Takes the place at PATH: a lock file decides between two that start at once; it is held, as
 * *out_lock, until the socket listens. Returns the socket, -1 on failure, -2 if another emulator
 * serves there already.
 */
static int listen_at(const char *path, int *out_lock)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char lock_path[sizeof address.sun_path + 8];
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return fail("cannot listen at", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    *out_lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*out_lock < 0 || flock(*out_lock, LOCK_EX) != 0)
        return fail("cannot lock", lock_path);
    if (is_served(&address))
        return -2;
    unlink(path); /* left by one that was killed: nobody answers, and we hold the lock */
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool listens = listener >= 0 &&
                   bind(listener, (const struct sockaddr *)&address, sizeof address) == 0 &&
                   listen(listener, 128) == 0;
    umask(mask);
    return listens ? listener : fail("cannot listen at", path);
}

/* The parent of the background process: waits for the zero byte that says it serves; anything else
 * is why not. */
static int wait_until_ready(int ready)
{
    char text[256];
    ssize_t count;
    do
        count = read(ready, text, sizeof text);
    while (count < 0 && errno == EINTR);
    if (count == 1 && text[0] == '\0')
        return 0;
    if (count > 0)
        fprintf(stderr, "%.*s", (int)count, text);
    return 1;
}

/* Detaches from terminal and caller. */
static void settle_in_background(void)
{
    setsid();
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
}

static int run_shared(const char *path, bool foreground,
                      const struct c7x_emulator_core_settings *settings)
{
    int ready[2] = {-1, -1};
    int lock = -1;
    drop_descriptors(-1);
    allow_descriptors();
    int listener = listen_at(path, &lock);
    if (listener == -2) {
        if (foreground)
            fprintf(stderr, "c7x_emulator: another emulator serves at %s\n", path);
        return foreground ? 1 : 0;
    }
    if (listener < 0 || (!foreground && pipe2(ready, O_CLOEXEC) != 0))
        return 1;
    if (!foreground) {
        pid_t pid = fork();
        if (pid < 0)
            return fail("cannot fork for", path), 1;
        if (pid > 0) {
            close(ready[1]);
            return wait_until_ready(ready[0]);
        }
        close(ready[0]);
        settle_in_background();
    }
    close(lock);
    struct c7x_supervisor_config config = {
        .listener = listener, .path = path, .core = *settings, .connection = -1, .ready = ready[1]};
    return c7x_supervisor_run(&config);
}

static int run_private(const char *number, const struct c7x_emulator_core_settings *settings)
{
    char *end;
    long fd = strtol(number, &end, 10);
    if (*number == '\0' || *end != '\0' || fd < 3 || fd > 1 << 20 || fcntl((int)fd, F_GETFD) < 0) {
        fprintf(stderr, "c7x_emulator: --connection %s is not an open descriptor\n", number);
        return 2;
    }
    int connection = drop_descriptors((int)fd);
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? 1 : 0;
    settle_in_background();
    struct c7x_supervisor_config config = {
        .listener = -1, .connection = connection, .core = *settings, .ready = -1};
    return c7x_supervisor_run(&config);
}

/* Seconds, as "10" or "0.5"; 0 turns the watchdog off. */
static bool parse_watchdog(const char *text, int64_t *out_ns)
{
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0 && seconds <= 1e6)) {
        fprintf(stderr,
                "c7x_emulator: --watchdog %s is not a number of seconds from 0 to 1000000\n", text);
        return false;
    }
    *out_ns = (int64_t)(seconds * 1e9);
    return true;
}

static bool parse_threads(const char *text, uint32_t *out_threads)
{
    char *end;
    long threads = strtol(text, &end, 10);
    if (end == text || *end != '\0' || threads < 1 || threads > (long)C7X_TVM_THREADS_MAX) {
        fprintf(stderr, "c7x_emulator: --threads %s is not a number from 1 to %u\n", text,
                C7X_TVM_THREADS_MAX);
        return false;
    }
    *out_threads = (uint32_t)threads;
    return true;
}

static bool parse_core(const char *text, uint32_t *out_number)
{
    uint32_t number = (uint32_t)(text[0] - '0');
    if (number < 1 || number > C7X_EMULATOR_CORE_COUNT || text[1] != '\0') {
        fprintf(stderr, "c7x_emulator: --core %s is not a number from 1 to %u\n", text,
                C7X_EMULATOR_CORE_COUNT);
        return false;
    }
    *out_number = number;
    return true;
}

/* The environment's setting, unless it has none. */
static const char *environment_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : otherwise;
}

/* Takes an option with its value off the front. */
static bool take_value(int *argc, char ***argv, const char *option, const char **out_value)
{
    if (*argc <= 2 || strcmp((*argv)[1], option) != 0)
        return false;
    *out_value = (*argv)[2];
    *argc -= 2;
    *argv += 2;
    return true;
}

static bool take_flag(int *argc, char ***argv, const char *option, bool *out_flag)
{
    if (*argc <= 1 || strcmp((*argv)[1], option) != 0)
        return false;
    *out_flag = true;
    (*argc)--;
    (*argv)++;
    return true;
}

/* Takes the leading options off; false: one is wrong. */
static bool parse_settings(int *argc, char ***argv, struct c7x_emulator_core_settings *out_settings)
{
    const char *watchdog = environment_or("C7X_WATCHDOG", WATCHDOG_DEFAULT);
    const char *threads = environment_or("C7X_THREADS", THREADS_DEFAULT);
    const char *number = "1";
    out_settings->guard = strcmp(environment_or("C7X_GUARD", "0"), "1") == 0;
    while (take_flag(argc, argv, "--strict-cache", &out_settings->strict) ||
           take_flag(argc, argv, "--guard", &out_settings->guard) ||
           take_value(argc, argv, "--watchdog", &watchdog) ||
           take_value(argc, argv, "--threads", &threads) ||
           take_value(argc, argv, "--core", &number))
        continue;
    return parse_core(number, &out_settings->number) &&
           parse_watchdog(watchdog, &out_settings->watchdog_ns) &&
           parse_threads(threads, &out_settings->threads);
}

static int print_version(void)
{
    char version[64];
    c7x_emulator_version(version, sizeof version);
    return printf("c7x_emulator %s\n", version) < 0;
}

int main(int argc, char **argv)
{
    struct c7x_emulator_core_settings settings = {0};
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(usage, stdout) < 0;
    if (argc == 2 && strcmp(argv[1], "--version") == 0)
        return print_version();
    if (!parse_settings(&argc, &argv, &settings))
        return 2;
    if (argc == 3 && strcmp(argv[1], "--listen") == 0)
        return run_shared(argv[2], false, &settings);
    if (argc == 4 && strcmp(argv[1], "--listen") == 0 && strcmp(argv[3], "--foreground") == 0)
        return run_shared(argv[2], true, &settings);
    if (argc == 3 && strcmp(argv[1], "--connection") == 0)
        return run_private(argv[2], &settings);
    fputs(usage, stderr);
    return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/environment.h"

#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *build_folder(void)
{
    const char *folder = getenv("C7X_BUILD_DIR");
    return folder == NULL ? "build" : folder;
}

void c7x_test_module_path(const char *name, char path[C7X_TEST_PATH_MAX])
{
    snprintf(path, C7X_TEST_PATH_MAX, "%s/tests/modules/%s.out", build_folder(), name);
    if (access(path, R_OK) != 0)
        fail_msg("no %s", path);
}

void c7x_test_own_program(char path[C7X_TEST_PATH_MAX])
{
    snprintf(path, C7X_TEST_PATH_MAX, "%s/tests/%s", build_folder(), program_invocation_short_name);
    if (access(path, X_OK) != 0)
        fail_msg("no %s", path);
}

void c7x_test_make_folder(char path[C7X_TEST_PATH_MAX])
{
    snprintf(path, C7X_TEST_PATH_MAX, "/tmp/c7x-test-XXXXXX");
    if (mkdtemp(path) == NULL)
        fail_msg("cannot make a folder like %s", path);
}

void c7x_test_remove_folder(const char *path)
{
    char name[C7X_TEST_PATH_MAX + NAME_MAX + 2];
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        (void)remove(name);
    }
    closedir(folder);
    rmdir(path);
}

int c7x_test_rounds(int full)
{
    return getenv("C7X_SOAK") != NULL ? full : full / 10;
}

int c7x_test_descriptor_count(pid_t pid)
{
    char path[64];
    int count = 0;
    if (pid == 0)
        pid = getpid();
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return -1;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return pid == getpid() ? count - 1 : count; /* the one we look through is no part of it */
}

/* Whether every thread of the process is in state T. */
static bool has_stopped(pid_t pid)
{
    char path[64];
    bool stopped = true;
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char stat_path[sizeof path + sizeof task->d_name + 8];
        char state = 'T';
        if (task->d_name[0] == '.')
            continue;
        (void)snprintf(stat_path, sizeof stat_path, "%s/%s/stat", path, task->d_name);
        FILE *stat = fopen(stat_path, "r");
        if (stat == NULL)
            continue;
        if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1 || state != 'T')
            stopped = false;
        fclose(stat);
    }
    closedir(tasks);
    return stopped;
}

void c7x_test_stop_process(pid_t pid)
{
    assert_int_equal(kill(pid, SIGSTOP), 0);
    C7X_TEST_WAIT_UNTIL(has_stopped(pid), 10000);
}

int c7x_test_watch(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool c7x_test_wait_for_end(int watch, int timeout_ms)
{
    struct pollfd entry = {.fd = watch, .events = POLLIN};
    if (watch < 0)
        return true;
    bool ended = poll(&entry, 1, timeout_ms) == 1;
    close(watch);
    return ended;
}

int64_t c7x_test_now_ms(void)
{
    return c7x_os_clock_ns() / 1000000;
}

void c7x_test_pause(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    nanosleep(&moment, NULL);
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

unsigned long c7x_test_switch_count(pid_t pid)
{
    char path[320];
    char line[256];
    unsigned long all = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)pid, task->d_name);
        FILE *file = fopen(path, "re");
        unsigned long count;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
                all += count;
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return all;
}

void c7x_test_sleep_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

void c7x_test_needs_signals(void)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer hands signals on late\n");
    skip();
#endif
}

bool c7x_test_sees_races(void)
{
#ifdef __SANITIZE_THREAD__
    return true;
#else
    return false;
#endif
}

void c7x_test_needs_quiet_runtime(void)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer has a thread that wakes by itself\n");
    skip();
#endif
}

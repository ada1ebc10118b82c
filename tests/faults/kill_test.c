/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients, cores and whole emulators that are killed in the middle: nothing stays behind, nobody
 * waits for ever, and the next one works. Killed are only processes that a test has started:
 * clients are this program once more, as `kill_test POINT DEVICE`, which says on stdout when it has
 * come to the point.
 */
#define _GNU_SOURCE
#include "base/trace.h"
#include "c7x_compute_client.h"
#include "client/over.h"
#include "os/os.h"
#include "support/calls.h"
#include "support/emulator_device.h"
#include "support/environment.h"
#include "support/raw.h"
#include "transport/emulator/emulator.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define AT_ONCE_MS 2000
#define CLEAN_UP_MS 1000
#define SPIN_MS 100
#define KILLS 200

extern char **environ;

/* ---- What clients do
 * ------------------------------------------------------------------------------- */

static enum c7x_status spin(struct c7x_client *client, uint32_t handle, int32_t ms)
{
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    enum c7x_status status = c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL);
    if (status == C7X_OK)
        assert_int_equal(*(const int32_t *)output.data, ms);
    return status;
}

/* A client from open to close. */
static void use_emulator(const struct c7x_test_emulator *emulator)
{
    struct c7x_client *client = c7x_test_emulator_open(emulator);
    uint32_t handle = c7x_test_dyn_load(client, "spin");
    assert_int_equal(spin(client, handle, 1), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    c7x_client_close(client);
}

/* ---- Clients to be killed: the other process
 * --------------------------------------------------------- */

/* Comes to the point: whoever started us may kill us from here on. */
static void say_arrived(void)
{
    if (write(STDOUT_FILENO, "", 1) != 1)
        exit(1);
}

static void say_arrived_on_the_way(enum c7x_event event, const struct c7x_trace_origin *origin,
                                   uint32_t argument)
{
    (void)origin;
    if (event != C7X_EVENT_STATION || argument != C7X_STATION_TRANSPORT)
        return;
    c7x_trace_set_sink(NULL);
    say_arrived();
}

static void after_open(struct c7x_client *client)
{
    (void)client;
    say_arrived();
    pause();
}

static void after_attach(struct c7x_client *client)
{
    assert_int_equal(c7x_client_reserve_io(client, 1 << 20, 1 << 24), C7X_OK);
    say_arrived();
    pause();
}

static void in_load(struct c7x_client *client)
{
    c7x_trace_set_sink(say_arrived_on_the_way);
    for (;;)
        assert_int_equal(c7x_client_dyn_unload(client, c7x_test_dyn_load(client, "add_one")),
                         C7X_OK);
}

static void in_infer(struct c7x_client *client)
{
    uint32_t handle = c7x_test_dyn_load(client, "spin");
    c7x_trace_set_sink(say_arrived_on_the_way);
    assert_int_equal(spin(client, handle, SPIN_MS), C7X_OK);
    pause();
}

/* After a deadline: the device still works for a request that nobody waits for. */
static void after_deadline(struct c7x_client *client)
{
    uint32_t handle = c7x_test_dyn_load(client, "spin");
    assert_int_equal(spin(client, handle, 0), C7X_OK);
    c7x_client_set_deadline(client, 5);
    while (spin(client, handle, SPIN_MS) != C7X_TIMEOUT)
        continue;
    say_arrived();
    pause();
}

static void anywhere(struct c7x_client *client)
{
    for (bool first = true;; first = false) {
        uint32_t handle = c7x_test_dyn_load(client, "spin");
        assert_int_equal(spin(client, handle, 5), C7X_OK);
        if (first)
            say_arrived();
        assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    }
}

static const struct {
    const char *name;
    void (*run)(struct c7x_client *client);
} points[] = {
    {"after_open", after_open}, {"after_attach", after_attach},     {"in_load", in_load},
    {"in_infer", in_infer},     {"after_deadline", after_deadline}, {"anywhere", anywhere},
};

/* Opens and closes clients all the time. */
static void be_in_open(const struct c7x_test_emulator *emulator)
{
    c7x_client_close(c7x_test_emulator_open(emulator));
    say_arrived();
    for (;;)
        c7x_client_close(c7x_test_emulator_open(emulator));
}

struct pids {
    int64_t supervisor;
    int64_t core;
};

/* A client of an emulator of its own, whose processes it names; `busy`: in a request that never
 * ends. */
static void own_an_emulator(bool busy)
{
    struct c7x_setup_message message = {.op = C7X_SETUP_STATUS};
    struct c7x_host_link *link;
    struct c7x_client *client;
    int64_t deadline_ns = c7x_os_deadline_ns(30000000000);
    int socket;
    int fd;
    assert_int_equal(c7x_emulator_launch_private(&socket, NULL), C7X_OK);
    assert_int_equal(c7x_emulator_request(socket, &message, &fd, deadline_ns, NULL), C7X_OK);
    assert_int_equal(c7x_emulator_open_link(socket, deadline_ns, &link, NULL), C7X_OK);
    assert_int_equal(c7x_client_open_over(link, NULL, &client), C7X_OK);
    uint32_t handle = c7x_test_dyn_load(client, "spin");
    assert_int_equal(spin(client, handle, 1), C7X_OK);
    struct pids pids = {message.supervisor_pid, message.core_pid};
    assert_int_equal(write(STDOUT_FILENO, &pids, sizeof pids), sizeof pids);
    if (busy)
        (void)spin(client, handle, -1);
    pause();
}

static int run_point(const char *point, const char *device)
{
    struct c7x_test_emulator emulator;
    snprintf(emulator.device, sizeof emulator.device, "%s", device);
    if (strcmp(point, "own_idle") == 0 || strcmp(point, "own_busy") == 0)
        own_an_emulator(strcmp(point, "own_busy") == 0);
    if (strcmp(point, "in_open") == 0)
        be_in_open(&emulator);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(points); i++)
        if (strcmp(points[i].name, point) == 0)
            points[i].run(c7x_test_emulator_open(&emulator));
    return 1;
}

/* ---- Starting and killing them
 * ------------------------------------------------------------------------ */

struct victim {
    pid_t pid;
    int said; /* what it says on stdout */
};

static struct victim start_victim(const char *point, const char *device)
{
    char program[C7X_TEST_PATH_MAX];
    char *const arguments[] = {program, (char *)(uintptr_t)point, (char *)(uintptr_t)device, NULL};
    struct victim victim;
    posix_spawn_file_actions_t actions;
    int said[2];
    c7x_test_own_program(program);
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, said[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&victim.pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(said[1]);
    victim.said = said[0];
    return victim;
}

/* Waits until the victim has come to its point; it says `size` bytes there. */
static void wait_for_arrival(const struct victim *victim, void *bytes, size_t size)
{
    struct pollfd entry = {.fd = victim->said, .events = POLLIN};
    assert_int_equal(poll(&entry, 1, 60000), 1);
    assert_int_equal(read(victim->said, bytes, size), size);
}

static void kill_victim(const struct victim *victim)
{
    int status;
    assert_int_equal(kill(victim->pid, SIGKILL), 0);
    assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
    assert_true(WIFSIGNALED(status)); /* it had not ended before, for a reason of its own */
    close(victim->said);
}

static void wait_us(unsigned us)
{
    const struct timespec moment = {.tv_nsec = (long)us * 1000};
    nanosleep(&moment, NULL);
}

/* Kills a client at its point, `delay_us` after it has come there, and looks that nothing stays
 * behind. */
static void kill_at(const struct c7x_test_emulator *emulator, const char *point, unsigned delay_us)
{
    struct victim victim = start_victim(point, emulator->device);
    struct c7x_emulator_status status;
    char said;
    wait_for_arrival(&victim, &said, 1);
    wait_us(delay_us);
    kill_victim(&victim);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(emulator), CLEAN_UP_MS);
    c7x_test_emulator_status(emulator, &status);
    assert_int_equal(status.core_starts, 1);
    use_emulator(emulator);
}

static unsigned count_in(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

static void read_log(struct c7x_client *client, char *text, size_t capacity)
{
    uint64_t position = 0;
    size_t used = 0;
    size_t size;
    do {
        assert_int_equal(
            c7x_client_read_trace(client, &position, text + used, capacity - 1 - used, &size),
            C7X_OK);
        used += size;
    } while (size != 0);
    text[used] = '\0';
}

/* Ends the emulator; its log must say that every session has ended and that nothing is left in the
 * heap. */
static void stop_clean(const struct c7x_test_emulator *emulator)
{
    size_t capacity = (size_t)2 << 20;
    char *log = malloc(capacity);
    assert_non_null(log);
    struct c7x_client *client = c7x_test_emulator_open(emulator);
    struct c7x_emulator_status status;
    read_log(client, log, capacity);
    c7x_test_emulator_status(emulator, &status);
    int watch = c7x_test_watch((pid_t)status.core_pid);
    c7x_test_emulator_stop(emulator);
    assert_true(c7x_test_wait_for_end(watch, 10000));
    read_log(client, log, capacity);
    c7x_client_close(client);
    assert_int_equal(count_in(log, "opened by process"), count_in(log, " ended\n"));
    assert_null(strstr(log, "are left at the end"));
    assert_null(strstr(log, "blocks of memory behind"));
    free(log);
}

static void a_client_killed_at_any_point_leaves_nothing_behind(void **state)
{
    struct c7x_test_emulator emulator;
    (void)state;
    c7x_test_emulator_start(&emulator);
    kill_at(&emulator, "in_open", 300);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(points); i++)
        kill_at(&emulator, points[i].name, 0);
    kill_at(&emulator, "in_infer", 20000); /* surely while the device computes */
    stop_clean(&emulator);
}

static void clients_killed_at_random_leave_nothing_behind(void **state)
{
    struct c7x_test_emulator emulator;
    int kills = getenv("C7X_SOAK") != NULL ? KILLS : KILLS / 20;
    unsigned random = 12345;
    (void)state;
    c7x_test_emulator_start(&emulator);
    for (int i = 0; i < kills; i++) {
        random = random * 1103515245u + 12345u;
        kill_at(&emulator, i % 4 == 3 ? "in_open" : "anywhere", (random >> 8) % 20000);
    }
    stop_clean(&emulator);
}

/* ---- Killing devices
 * ------------------------------------------------------------------------------------ */

/* A client in a request that never ends by itself, in a thread of its own. */
struct endless {
    struct c7x_client *client;
    uint32_t handle;
    pthread_t thread;
    enum c7x_status status;
    bool explained; /* the thread's last error has a text */
};

static struct c7x_os_event sent;

static void note_sent(enum c7x_event event, const struct c7x_trace_origin *origin,
                      uint32_t argument)
{
    (void)origin;
    if (event == C7X_EVENT_STATION && argument == C7X_STATION_TRANSPORT)
        c7x_os_event_set(&sent);
}

static void *run_endless(void *context)
{
    struct endless *endless = context;
    endless->status = spin(endless->client, endless->handle, -1);
    endless->explained = c7x_client_last_error(endless->client)[0] != '\0';
    return NULL;
}

/* Returns when the request is with the device, as far as can be known. */
static void start_endless(struct endless *endless, const struct c7x_test_emulator *emulator)
{
    endless->client = c7x_test_emulator_open(emulator);
    c7x_client_set_deadline(endless->client, -1);
    endless->handle = c7x_test_dyn_load(endless->client, "spin");
    assert_int_equal(spin(endless->client, endless->handle, 1), C7X_OK);
    assert_int_equal(c7x_os_event_init(&sent), C7X_OK);
    c7x_trace_set_sink(note_sent);
    assert_int_equal(pthread_create(&endless->thread, NULL, run_endless, endless), 0);
    assert_true(c7x_os_event_wait(&sent, c7x_os_deadline_ns(30000000000)));
    c7x_trace_set_sink(NULL);
    c7x_os_event_deinit(&sent);
    struct c7x_host_link *other = c7x_test_emulator_connect(emulator);
    c7x_test_ping(other); /* is answered beside the job */
    other->ops->close(other);
}

/* The request must have ended at once, as RESET, and so does every later one. */
static void end_endless(struct endless *endless, int64_t start_ms)
{
    pthread_join(endless->thread, NULL);
    assert_true(c7x_test_now_ms() - start_ms < AT_ONCE_MS);
    assert_int_equal(endless->status, C7X_RESET);
    assert_true(endless->explained);
    c7x_client_set_deadline(endless->client, 60000);
    assert_int_equal(c7x_client_ping(endless->client, NULL, NULL), C7X_RESET);
    assert_int_equal(spin(endless->client, endless->handle, 1), C7X_RESET);
    c7x_client_close(endless->client);
}

static void kill_process(int64_t pid)
{
    assert_true(pid > 1);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
}

static void a_killed_core_is_started_again(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status before;
    struct c7x_emulator_status after;
    (void)state;
    c7x_test_emulator_start(&emulator);
    struct c7x_client *idle = c7x_test_emulator_open(&emulator);
    c7x_client_close(idle);
    for (uint32_t round = 1; round <= 5; round++) {
        struct endless endless;
        start_endless(&endless, &emulator);
        idle = c7x_test_emulator_open(&emulator);
        c7x_test_emulator_status(&emulator, &before);
        assert_int_equal(before.core_starts, round);
        int64_t start_ms = c7x_test_now_ms();
        kill_process(before.core_pid);
        end_endless(&endless, start_ms);
        assert_int_equal(c7x_client_ping(idle, NULL, NULL), C7X_RESET);
        c7x_client_close(idle);
        use_emulator(&emulator);
        c7x_test_emulator_status(&emulator, &after);
        assert_int_equal(after.pid, before.pid);
        assert_int_not_equal(after.core_pid, before.core_pid);
        assert_int_equal(after.core_starts, round + 1);
        C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), CLEAN_UP_MS);
    }
    c7x_test_emulator_stop(&emulator);
}

static void an_open_right_after_the_core_was_killed_works(void **state)
{
    struct c7x_test_emulator emulator;
    (void)state;
    c7x_test_emulator_start(&emulator);
    for (int round = 0; round < c7x_test_rounds(200); round++) {
        struct c7x_emulator_status status;
        struct c7x_client *idle = c7x_test_emulator_open(&emulator);
        c7x_test_emulator_status(&emulator, &status);
        kill_process(status.core_pid);
        while (c7x_client_ping(idle, NULL, NULL) != C7X_RESET)
            continue;
        use_emulator(&emulator);
        c7x_client_close(idle);
    }
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), CLEAN_UP_MS);
    c7x_test_emulator_stop(&emulator);
}

static void a_killed_emulator_makes_place_for_the_next(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status before;
    struct c7x_emulator_status after;
    (void)state;
    c7x_test_emulator_start(&emulator);
    for (int round = 0; round < 3; round++) {
        struct endless endless;
        struct c7x_client *nobody = NULL;
        start_endless(&endless, &emulator);
        c7x_test_emulator_status(&emulator, &before);
        int supervisor = c7x_test_watch((pid_t)before.pid);
        int core = c7x_test_watch((pid_t)before.core_pid);
        int64_t start_ms = c7x_test_now_ms();
        kill_process(before.pid);
        end_endless(&endless, start_ms);
        assert_true(c7x_test_wait_for_end(supervisor, AT_ONCE_MS));
        assert_true(c7x_test_wait_for_end(core, AT_ONCE_MS));
        c7x_test_emulator_status(&emulator, &after);
        assert_int_equal(after.running, 0);
        assert_int_equal(access(before.path, F_OK), 0); /* the socket is still there, and stale */
        assert_int_equal(c7x_test_emulator_try_open(&emulator, &nobody), C7X_NO_DEVICE);
        c7x_test_emulator_restart(&emulator);
        use_emulator(&emulator);
        c7x_test_emulator_status(&emulator, &after);
        assert_int_not_equal(after.pid, before.pid);
        assert_int_equal(after.core_starts, 1);
    }
    c7x_test_emulator_stop(&emulator);
}

static void stop_ends_an_emulator_whose_job_never_ends(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status status;
    struct endless endless;
    (void)state;
    c7x_test_emulator_start(&emulator);
    start_endless(&endless, &emulator);
    c7x_test_emulator_status(&emulator, &status);
    int core = c7x_test_watch((pid_t)status.core_pid);
    assert_int_equal(c7x_emulator_stop(emulator.device, 10000), C7X_OK);
    assert_true(c7x_test_wait_for_end(core, AT_ONCE_MS));
    end_endless(&endless, c7x_test_now_ms());
    c7x_test_emulator_status(&emulator, &status);
    assert_int_equal(status.running, 0);
    c7x_test_emulator_stop(&emulator);
}

static void *start_again(void *context)
{
    const struct c7x_test_emulator *emulator = context;
    return c7x_emulator_start(emulator->device, 30000) == C7X_OK ? NULL : context;
}

static void many_who_start_an_emulator_get_the_same(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status status;
    pthread_t threads[8];
    (void)state;
    c7x_test_emulator_start(&emulator);
    assert_int_equal(c7x_emulator_stop(emulator.device, 10000), C7X_OK);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_again, &emulator), 0);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    c7x_test_emulator_status(&emulator, &status);
    assert_int_equal(status.running, 1);
    use_emulator(&emulator);
    assert_int_equal(c7x_emulator_stop(emulator.device, 10000), C7X_OK);
    c7x_test_emulator_status(&emulator, &status);
    assert_int_equal(status.running, 0); /* there was no second one behind it */
    c7x_test_emulator_stop(&emulator);
}

static void a_private_emulator_ends_with_its_client(void **state)
{
    static const char *const kinds[] = {"own_idle", "own_busy"};
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(kinds); i++) {
        struct victim victim = start_victim(kinds[i], "");
        struct pids pids;
        wait_for_arrival(&victim, &pids, sizeof pids);
        int supervisor = c7x_test_watch((pid_t)pids.supervisor);
        int core = c7x_test_watch((pid_t)pids.core);
        assert_true(supervisor >= 0 && core >= 0);
        kill_victim(&victim);
        assert_true(c7x_test_wait_for_end(core, 5000));
        assert_true(c7x_test_wait_for_end(supervisor, 5000));
    }
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return run_point(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_killed_at_any_point_leaves_nothing_behind),
        cmocka_unit_test(clients_killed_at_random_leave_nothing_behind),
        cmocka_unit_test(a_killed_core_is_started_again),
        cmocka_unit_test(an_open_right_after_the_core_was_killed_works),
        cmocka_unit_test(a_killed_emulator_makes_place_for_the_next),
        cmocka_unit_test(stop_ends_an_emulator_whose_job_never_ends),
        cmocka_unit_test(many_who_start_an_emulator_get_the_same),
        cmocka_unit_test(a_private_emulator_ends_with_its_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

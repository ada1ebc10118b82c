/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about devices that come and go, that are full, and that are of another version. */
#define _GNU_SOURCE
#include "client/over.h"
#include "os/os.h"
#include "support/raw.h"
#include "support/scripted_device.h"
#include "transport/emulator/emulator.h"
#include "users/users.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS_MAX 1024  /* of an emulator */
#define SESSIONS_MAX 256  /* of a device */
#define DESCRIPTORS 5000u /* that we need to be all of them */

static struct c7x_test_emulator emulator;

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* ---- U07 ---- */

static void u07_both_sides_free_what_belonged_to_a_dead_peer(void **state)
{
    struct c7x_emulator_status status;
    (void)state;
    c7x_client_close(c7x_test_emulator_open(&emulator));
    c7x_test_emulator_status(&emulator, &status);
    int own = c7x_test_descriptor_count(0);
    int supervisor = c7x_test_descriptor_count((pid_t)status.pid);
    for (int round = 0; round < 5; round++) { /* the device dies */
        struct c7x_client *client = c7x_test_emulator_open(&emulator);
        struct c7x_shared *shared;
        uint32_t spin = c7x_test_dyn_load(client, "spin");
        assert_int_equal(c7x_shared_create(client, 65536, "own", &shared), C7X_OK);
        struct c7x_inference *inference = users_send_spin(client, spin, -1);
        c7x_test_emulator_status(&emulator, &status);
        assert_true(status.core_pid > 1);
        assert_int_equal(kill((pid_t)status.core_pid, SIGKILL), 0);
        assert_int_equal(c7x_inference_wait(inference, USERS_SOON_MS), C7X_OK);
        assert_int_equal(users_result(inference), C7X_RESET);
        c7x_inference_free(inference);
        c7x_shared_free(shared);
        c7x_client_close(client);
    }
    for (int round = 0; round < 5; round++) { /* the client dies */
        struct users_victim victim = users_start_victim("in_use", emulator.device);
        users_kill_victim(&victim);
    }
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    assert_int_equal(c7x_test_descriptor_count(0), own);
    /* The count before may include who had just gone, but not one for each round. */
    C7X_TEST_WAIT_UNTIL(c7x_test_descriptor_count((pid_t)status.pid) <= supervisor, 1000);
}

/* ---- U08 ---- */

static bool allow_descriptors(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur >= DESCRIPTORS)
        return true;
    limit.rlim_cur = DESCRIPTORS;
    return limit.rlim_max >= DESCRIPTORS && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static enum c7x_status try_connect(struct c7x_raw **out_raw)
{
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.device = emulator.device;
    options.deadline_ms = USERS_SOON_MS;
    return c7x_raw_open(&options, out_raw);
}

static struct c7x_raw *connect_one(void)
{
    struct c7x_raw *raw = NULL;
    if (try_connect(&raw) != C7X_OK)
        fail_msg("connect: %s", c7x_client_last_error(NULL));
    return raw;
}

static bool place_is_free(void)
{
    struct c7x_raw *raw;
    if (try_connect(&raw) != C7X_OK)
        return false;
    c7x_raw_close(raw);
    return true;
}

static void u08_one_client_too_many_is_told_the_limit(void **state)
{
    static struct c7x_raw *clients[CLIENTS_MAX];
    struct c7x_emulator_status status;
    struct c7x_raw *refused = NULL;
    (void)state;
    if (!allow_descriptors())
        skip();
    struct users_victim last = users_start_victim("connected", emulator.device);
    for (int i = 0; i < CLIENTS_MAX - 1; i++)
        clients[i] = connect_one();
    for (int i = 0; i < 100; i++) { /* asked again and again, it says the same */
        assert_int_equal(try_connect(&refused), C7X_BUSY);
        assert_null(refused);
        users_assert_said("1024 clients");
    }
    c7x_test_emulator_status(&emulator, &status); /* it can still be asked */
    assert_int_equal(status.client_count, CLIENTS_MAX);
    c7x_raw_close(clients[0]);
    C7X_TEST_WAIT_UNTIL(place_is_free(), 1000); /* by close */
    clients[0] = connect_one();
    users_kill_victim(&last);
    C7X_TEST_WAIT_UNTIL(place_is_free(), 1000); /* by death */
    for (int i = 0; i < CLIENTS_MAX - 1; i++)
        c7x_raw_close(clients[i]);
}

static void u08_an_emulator_from_a_shell_with_few_descriptors_serves_as_many(void **state)
{
    static struct c7x_raw *clients[400];
    struct c7x_test_emulator other;
    struct rlimit before;
    (void)state;
    if (!allow_descriptors())
        skip();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit few = {.rlim_cur = 256, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    c7x_test_emulator_start(&other);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    struct c7x_test_emulator first = emulator;
    emulator = other;
    for (int i = 0; i < 400; i++)
        clients[i] = connect_one();
    for (int i = 0; i < 400; i++)
        c7x_raw_close(clients[i]);
    emulator = first;
    c7x_test_emulator_stop(&other);
}

/* ---- U09 ---- */

static size_t log_lines(struct c7x_client *client, uint64_t *position)
{
    char text[4096];
    size_t lines = 0;
    size_t size;
    do {
        assert_int_equal(c7x_client_read_trace(client, position, text, sizeof text, &size), C7X_OK);
        for (size_t i = 0; i < size; i++)
            lines += text[i] == '\n';
    } while (size != 0);
    return lines;
}

/* Lines that the command prints, stderr included; `expected` must be in the last. */
static int lines_of(const char *arguments, const char *expected)
{
    char command[3 * C7X_TEST_PATH_MAX];
    char line[1024] = "";
    int count = 0;
    snprintf(command, sizeof command, "%s/bin/c7x_compute %s --device %s 2>&1",
             getenv("C7X_BUILD_DIR"), arguments, emulator.device);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    while (fgets(line, sizeof line, output) != NULL)
        count++;
    assert_int_not_equal(pclose(output), 0);
    if (strstr(line, expected) == NULL)
        fail_msg("%s", line);
    return count;
}

static void u09_no_session_left_is_one_line_and_a_code(void **state)
{
    static struct c7x_client *clients[SESSIONS_MAX];
    uint64_t position = 0;
    (void)state;
    for (int i = 0; i < SESSIONS_MAX; i++)
        clients[i] = c7x_test_emulator_open(&emulator);
    (void)log_lines(clients[0], &position);
    for (int i = 0; i < 10; i++) {
        struct c7x_client *refused;
        assert_int_equal(lines_of("ping", "256"), 1);
        assert_int_equal(c7x_test_emulator_try_open(&emulator, &refused), C7X_BUSY);
    }
    assert_true(log_lines(clients[0], &position) <= 20); /* at most one for each refusal */
    for (int i = 0; i < SESSIONS_MAX; i++)
        c7x_client_close(clients[i]);
}

/* ---- U11 ---- */

struct opener {
    const char *device;
    int start; /* as in the options */
    int64_t deadline_ms;
    unsigned delay_us;
    pthread_t thread;
    enum c7x_status status;
    int64_t took_ms;
    char text[256];
};

static void wait_us(unsigned us)
{
    const struct timespec moment = {.tv_nsec = (long)us * 1000};
    nanosleep(&moment, NULL);
}

static void *open_once(void *context)
{
    struct opener *opener = context;
    struct c7x_client_options options;
    struct c7x_client *client;
    c7x_client_options_init(&options);
    options.device = opener->device;
    options.start = opener->start;
    options.deadline_ms = opener->deadline_ms;
    wait_us(opener->delay_us);
    int64_t start_ms = c7x_test_now_ms();
    opener->status = c7x_client_open_with(&options, &client);
    opener->took_ms = c7x_test_now_ms() - start_ms;
    snprintf(opener->text, sizeof opener->text, "%.255s", c7x_client_last_error(NULL));
    if (opener->status == C7X_OK && c7x_client_ping(client, NULL, NULL) != C7X_OK)
        opener->status = C7X_GENERIC;
    if (opener->status == C7X_OK || opener->status == C7X_GENERIC)
        c7x_client_close(client);
    return NULL;
}

static void *start_once(void *context)
{
    const struct c7x_test_emulator *cold = context;
    return c7x_emulator_start(cold->device, USERS_SOON_MS) == C7X_OK ? NULL : context;
}

static void make_cold(struct c7x_test_emulator *cold)
{
    c7x_test_make_folder(cold->folder);
    snprintf(cold->device, sizeof cold->device, "emu:%.400s/s.sock", cold->folder);
}

/* One cold start with two starters, and clients that come before it, while it starts, and later. */
static void start_cold(unsigned round)
{
    struct c7x_test_emulator cold;
    struct opener openers[6];
    pthread_t starters[2];
    void *failed;
    make_cold(&cold);
    const char *path = cold.device + strlen("emu:");
    for (unsigned i = 0; i < 3; i++) { /* these start it themselves, should they be first */
        openers[i] = (struct opener){.device = cold.device,
                                     .start = 1,
                                     .deadline_ms = USERS_SOON_MS,
                                     .delay_us = (round * 7919 + i * 5003) % 12000};
        assert_int_equal(pthread_create(&openers[i].thread, NULL, open_once, &openers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&starters[i], NULL, start_once, &cold), 0);
    C7X_TEST_WAIT_UNTIL(c7x_emulator_is_starting(path) || access(path, F_OK) == 0, USERS_SOON_MS);
    for (unsigned i = 3; i < 6; i++) { /* these find it starting, or there */
        openers[i] = (struct opener){
            .device = cold.device, .deadline_ms = USERS_SOON_MS, .delay_us = (i - 3) * 1500};
        assert_int_equal(pthread_create(&openers[i].thread, NULL, open_once, &openers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(starters[i], &failed);
        assert_null(failed); /* a second start is harmless */
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(openers[i].thread, NULL);
        if (openers[i].status != C7X_OK)
            fail_msg("round %u, client %d: %s", round, i, openers[i].text);
        assert_string_equal(openers[i].text, ""); /* nothing of the tries before */
        assert_true(openers[i].took_ms < 10000);
    }
    c7x_test_emulator_stop(&cold);
}

static void u11_a_cold_start_does_not_hang_whoever_comes_when(void **state)
{
    (void)state;
    for (int round = 0; round < c7x_test_rounds(100); round++)
        start_cold((unsigned)round);
}

static void u11_nobody_waits_for_what_nobody_starts(void **state)
{
    struct c7x_test_emulator cold;
    char lock_path[C7X_TEST_PATH_MAX + 8];
    (void)state;
    make_cold(&cold);
    struct opener opener = {.device = cold.device, .deadline_ms = USERS_SOON_MS};
    open_once(&opener);
    assert_int_equal(opener.status, C7X_NO_DEVICE); /* and at once */
    assert_true(opener.took_ms < 1000);
    assert_non_null(strstr(opener.text, cold.device + strlen("emu:")));
    /* Somebody is at it, but does not come to an end: as long as the deadline, and no longer. */
    snprintf(lock_path, sizeof lock_path, "%s.lock", cold.device + strlen("emu:"));
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    opener.deadline_ms = 200;
    open_once(&opener);
    assert_int_equal(opener.status, C7X_NO_DEVICE);
    assert_true(opener.took_ms >= 199 && opener.took_ms < 2000);
    close(lock);
    c7x_test_remove_folder(cold.folder);
}

/* ---- U28 ---- */

static void ignore(void *context, const char *text, size_t size)
{
    (void)context;
    (void)text;
    (void)size;
}

/* Our library with devices of the minor version before and the one after. */
static void u28_a_library_works_with_the_firmware_before_and_after(void **state)
{
    static const uint32_t versions[] = {0x030000, 0x030007, 0x030100, 0x030109, 0x030200, 0x03FF00};
    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct c7x_test_scripted *device = c7x_test_scripted_start(versions[i]);
        struct c7x_client *client;
        struct c7x_client_options options;
        struct c7x_client_tensor output;
        int32_t number = 42;
        struct c7x_client_tensor input = {&number, 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
        uint32_t version = 0;
        int count = 1;
        c7x_client_options_init(&options);
        options.print = ignore;
        if (c7x_client_open_over(c7x_test_scripted_link(device), &options, &client) != C7X_OK)
            fail_msg("0x%06x: %s", versions[i], c7x_client_last_error(NULL));
        assert_int_equal(c7x_client_ping(client, &version, NULL), C7X_OK);
        assert_int_equal(version, versions[i]);
        uint32_t handle = c7x_test_dyn_load(client, "add_one");
        assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL),
                         C7X_OK);
        assert_int_equal(*(const int32_t *)output.data, 42);
        assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
        c7x_client_close(client);
        c7x_test_scripted_stop(device);
    }
}

/* Our firmware with a client of a later minor version, then with one of 3.0. */
static void u28_a_firmware_works_with_the_library_before_and_after(void **state)
{
    struct c7x_request open = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_request status = {.type = C7X_MSG_GET_STATUS};
    struct c7x_response response;
    (void)state;
    struct c7x_host_link *later = c7x_test_emulator_connect(&emulator);
    open.body.session_open.wire_version = 0x030200;
    assert_int_equal(c7x_test_ask_decoded(later, &open, &response), C7X_OK);
    assert_int_equal(response.body.session_open.wire_version, C7X_WIRE_VERSION); /* the lower */
    later->ops->close(later);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    struct c7x_host_link *earlier = c7x_test_emulator_connect(&emulator);
    struct c7x_buffer buffer = c7x_test_attach(earlier, 65536);
    c7x_test_ping(earlier);
    assert_int_equal(c7x_test_ask_decoded(earlier, &status, &response), C7X_OK);
    C7X_TEST_WAIT_UNTIL(c7x_test_name_buffer(earlier, buffer.dsp_address, 65536) == C7X_OK, 1000);
    earlier->ops->close(earlier);
}

/* ---- U39 ---- */

static void u39_the_next_client_works_after_one_was_killed(void **state)
{
    static const char *const points[] = {"connected", "opened", "in_use"};
    (void)state;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct users_victim victim = users_start_victim(points[i], emulator.device);
        wait_us(2000);
        users_kill_victim(&victim);
        struct c7x_client *next = c7x_test_emulator_open(&emulator); /* at once */
        c7x_test_call_add_one(next, c7x_test_dyn_load(next, "add_one"), 1);
        c7x_client_close(next);
        C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    }
}

/* ---- The ones to be killed ---- */

static _Noreturn void be_victim(const char *point)
{
    if (strcmp(point, "connected") == 0) {
        (void)connect_one();
    } else {
        struct c7x_client *client = c7x_test_emulator_open(&emulator);
        if (strcmp(point, "in_use") == 0) {
            struct c7x_shared *shared;
            (void)users_send_spin(client, c7x_test_dyn_load(client, "spin"), 50);
            assert_int_equal(c7x_shared_create(client, 1 << 20, "own", &shared), C7X_OK);
        }
    }
    users_say_arrived();
    for (;;)
        pause();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(int argc, char **argv)
{
    if (argc == 3) {
        snprintf(emulator.device, sizeof emulator.device, "%s", argv[2]);
        be_victim(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        TEST(u07_both_sides_free_what_belonged_to_a_dead_peer),
        TEST(u08_one_client_too_many_is_told_the_limit),
        TEST(u08_an_emulator_from_a_shell_with_few_descriptors_serves_as_many),
        TEST(u09_no_session_left_is_one_line_and_a_code),
        cmocka_unit_test(u11_a_cold_start_does_not_hang_whoever_comes_when),
        cmocka_unit_test(u11_nobody_waits_for_what_nobody_starts),
        cmocka_unit_test(u28_a_library_works_with_the_firmware_before_and_after),
        TEST(u28_a_firmware_works_with_the_library_before_and_after),
        TEST(u39_the_next_client_works_after_one_was_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The link to an emulated core: a ring that is damaged, full or not to be had, and who sleeps. */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "os/os.h"
#include "support/calls.h"
#include "support/emulator_device.h"
#include "support/raw.h"
#include "transport/virtqueue.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PINGS 200
#define ROUNDS 20
#define IDLE_MS 1000
#define SETTLED_MS 300 /* the last tick and the last look are over */

static struct c7x_test_emulator emulator;

static int set_up(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* The memory of the only ring that this process has mapped; NULL: it has none. */
static struct c7x_virtqueue *find_ring(void)
{
    char line[512];
    void *start = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (start == NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "memfd:c7x-ring") != NULL)
            start = (void *)(uintptr_t)strtoull(line, NULL, 16);
    fclose(maps);
    return start;
}

static void expect_service(void)
{
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    c7x_client_close(client);
}

/* ---- Damage ---- */

static size_t make_ping(uint8_t *frame, uint32_t seq)
{
    const struct c7x_request request = {.type = C7X_MSG_PING, .seq = seq};
    return c7x_wire_encode_request(&request, frame);
}

static void damage_index(struct c7x_virtqueue *queue)
{
    (void)atomic_fetch_add(&queue->available.index, 1000);
}

static void damage_entry(struct c7x_virtqueue *queue)
{
    for (size_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        atomic_store(&queue->available.ring[i], UINT16_MAX);
}

static void damage_descriptors(struct c7x_virtqueue *queue)
{
    memset(queue->descriptors, 0xFF, sizeof queue->descriptors);
}

static void damage_alignment(struct c7x_virtqueue *queue)
{
    for (size_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        queue->descriptors[i].address++;
}

/* What the client has sent is damaged before the core reads it. */
static void the_core_resets_a_link_whose_ring_is_damaged(void **state)
{
    void (*const damages[])(struct c7x_virtqueue * queue) = {damage_index, damage_entry,
                                                             damage_descriptors, damage_alignment};
    pid_t core = c7x_test_emulator_core_pid(&emulator);
    (void)state;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(damages); i++) {
        struct c7x_host_link *link = c7x_test_emulator_connect(&emulator);
        uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
        size_t size;
        c7x_test_ping(link);
        assert_int_equal(kill(core, SIGSTOP), 0);
        assert_int_equal(link->ops->send(link, frame, make_ping(frame, 1), 0, NULL), C7X_OK);
        damages[i](find_ring());
        assert_int_equal(kill(core, SIGCONT), 0);
        assert_int_equal(link->ops->receive(link, frame, &size, C7X_OS_FOREVER, NULL), C7X_RESET);
        assert_int_equal(link->ops->send(link, frame, make_ping(frame, 1), 0, NULL), C7X_RESET);
        link->ops->close(link);
        expect_service();
    }
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core);
}

static void the_client_finds_its_ring_damaged(void **state)
{
    struct c7x_host_link *link = c7x_test_emulator_connect(&emulator);
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size;
    struct c7x_error error;
    (void)state;
    c7x_error_clear(&error);
    c7x_test_ping(link);
    (void)atomic_fetch_add(&(find_ring() + 1)->used.index, 1000);
    assert_int_equal(link->ops->receive(link, frame, &size, C7X_OS_FOREVER, &error), C7X_RESET);
    assert_non_null(strstr(error.text, "damaged"));
    link->ops->close(link);
    expect_service();
}

/* Words of the queues change all the time, from another thread. */
static void *scribble(void *context)
{
    _Atomic uint16_t *words = (void *)find_ring();
    const atomic_bool *stops = context;
    uint64_t random = 88172645463325252ull;
    while (!atomic_load(stops)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        atomic_store(&words[random % (2 * sizeof(struct c7x_virtqueue) / sizeof *words)],
                     (uint16_t)(random >> 32));
        sched_yield();
    }
    return NULL;
}

static void scribbling_harms_nobody_else(void **state)
{
    pid_t core = c7x_test_emulator_core_pid(&emulator);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct c7x_client *client = c7x_test_emulator_open(&emulator);
        atomic_bool stops = false;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, scribble, &stops), 0);
        c7x_client_set_deadline(client, 20);
        for (int i = 0; i < PINGS; i++)
            if (c7x_client_ping(client, NULL, NULL) == C7X_RESET)
                break;
        atomic_store(&stops, true);
        pthread_join(thread, NULL);
        c7x_client_close(client);
        expect_service();
    }
    assert_int_equal(c7x_test_emulator_core_pid(&emulator), core);
}

/* ---- Full ---- */

static void a_core_that_reads_nothing_fills_the_ring(void **state)
{
    struct c7x_host_link *link = c7x_test_emulator_connect(&emulator);
    struct c7x_test_reply reply;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    pid_t core = c7x_test_emulator_core_pid(&emulator);
    (void)state;
    c7x_test_ping(link);
    assert_int_equal(kill(core, SIGSTOP), 0);
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        assert_int_equal(link->ops->send(link, frame, make_ping(frame, i), 0, NULL), C7X_OK);
    size_t size = make_ping(frame, C7X_VIRTQUEUE_SIZE);
    assert_int_equal(link->ops->send(link, frame, size, c7x_os_deadline_ns(1000000), NULL),
                     C7X_TIMEOUT);
    assert_int_equal(kill(core, SIGCONT), 0);
    assert_int_equal(link->ops->send(link, frame, size, C7X_OS_FOREVER, NULL), C7X_OK);
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++) {
        c7x_test_receive(link, &reply);
        assert_int_equal(reply.seq, i);
    }
    assert_int_equal(link->ops->send(link, frame, make_ping(frame, 4711), 0, NULL), C7X_OK);
    do /* the answer to the one too many may have found no room */
        c7x_test_receive(link, &reply);
    while (reply.seq == C7X_VIRTQUEUE_SIZE);
    assert_int_equal(reply.seq, 4711);
    link->ops->close(link);
}

static void who_waits_for_room_is_told_when_the_core_dies(void **state)
{
    struct c7x_host_link *link = c7x_test_emulator_connect(&emulator);
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    pid_t core = c7x_test_emulator_core_pid(&emulator);
    enum c7x_status status = C7X_OK;
    (void)state;
    c7x_test_ping(link);
    assert_int_equal(kill(core, SIGSTOP), 0);
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        assert_int_equal(link->ops->send(link, frame, make_ping(frame, i), 0, NULL), C7X_OK);
    pid_t killer = fork();
    if (killer == 0) {
        usleep(20000);
        _exit(kill(core, SIGKILL) == 0 ? 0 : 1);
    }
    status = link->ops->send(link, frame, make_ping(frame, 1), C7X_OS_FOREVER, NULL);
    assert_int_equal(status, C7X_RESET);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    link->ops->close(link);
}

/* ---- More callers than there is room for ---- */

static void *ping_in_a_row(void *context)
{
    for (int i = 0; i < 20; i++)
        if (c7x_client_ping(context, NULL, NULL) != C7X_OK)
            return context;
    return NULL;
}

/* Each waits for its turn, and no answer is lost. */
static void hundreds_of_threads_share_a_client(void **state)
{
    static pthread_t threads[400];
    (void)state;
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            assert_int_equal(setenv("C7X_LINK", "socket", 1), 0);
        struct c7x_client *client = c7x_test_emulator_open(&emulator);
        unsetenv("C7X_LINK");
        for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++)
            assert_int_equal(pthread_create(&threads[i], NULL, ping_in_a_row, client), 0);
        for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++) {
            void *failed;
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        c7x_client_close(client);
    }
}

static atomic_bool has_enough;

static void *ping_until_enough(void *context)
{
    while (!atomic_load(&has_enough))
        if (c7x_client_ping(context, NULL, NULL) != C7X_OK)
            return context;
    return NULL;
}

/* The core's rings are never empty; who comes anew is served all the same. */
static void a_flood_of_frames_keeps_nobody_out(void **state)
{
    static pthread_t threads[64];
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    (void)state;
    atomic_store(&has_enough, false);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ping_until_enough, client), 0);
    for (int i = 0; i < 20; i++)
        expect_service();
    atomic_store(&has_enough, true);
    for (size_t i = 0; i < C7X_ARRAY_COUNT(threads); i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    c7x_client_close(client);
}

/* ---- Without a ring ---- */

static void without_descriptors_for_a_ring_the_socket_serves(void **state)
{
    struct rlimit before;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    bool served = false;
    for (rlim_t spare = 1; !served; spare++) { /* until there is room for the link alone */
        struct rlimit few = {(rlim_t)c7x_test_descriptor_count(0) + spare, before.rlim_max};
        struct c7x_client *client;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        enum c7x_status status = c7x_test_emulator_try_open(&emulator, &client);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(spare < 32);
        if (status != C7X_OK)
            continue;
        served = true;
        assert_null(find_ring());
        assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
        c7x_client_close(client);
    }
}

/* ---- Who sleeps, and who is in the way ---- */

/* Also with clients that have been busy, and stay open. */
static void an_idle_emulator_never_wakes(void **state)
{
    struct c7x_emulator_status status;
    c7x_test_needs_quiet_runtime();
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    (void)state;
    uint32_t handle = c7x_test_dyn_load(client, "add_one");
    for (int i = 0; i < PINGS; i++) {
        float numbers[4] = {1, 2, 3, 4};
        struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
        struct c7x_client_tensor output;
        int count = 1;
        assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL),
                         C7X_OK);
        assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    }
    c7x_test_emulator_status(&emulator, &status);
    c7x_test_sleep_ms(SETTLED_MS);
    unsigned long supervisor = c7x_test_switch_count((pid_t)status.pid);
    unsigned long core = c7x_test_switch_count((pid_t)status.core_pid);
    c7x_test_sleep_ms(IDLE_MS);
    assert_int_equal(c7x_test_switch_count((pid_t)status.pid), supervisor);
    assert_int_equal(c7x_test_switch_count((pid_t)status.core_pid), core);
    c7x_client_close(client);
}

/* Core, client and one who never sleeps, all on one processor. */
static void a_busy_neighbour_breaks_nothing(void **state)
{
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    cpu_set_t all;
    cpu_set_t one;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(sched_setaffinity(c7x_test_emulator_core_pid(&emulator), sizeof one, &one), 0);
    pid_t neighbour = fork();
    if (neighbour == 0)
        for (volatile int i = 0;; i = i + 1)
            continue;
    for (int i = 0; i < PINGS; i++)
        assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    assert_int_equal(kill(neighbour, SIGKILL), 0);
    assert_int_equal(waitpid(neighbour, NULL, 0), neighbour);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    c7x_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_core_resets_a_link_whose_ring_is_damaged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_client_finds_its_ring_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scribbling_harms_nobody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_core_that_reads_nothing_fills_the_ring, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_waits_for_room_is_told_when_the_core_dies, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(hundreds_of_threads_share_a_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_of_frames_keeps_nobody_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_descriptors_for_a_ring_the_socket_serves, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_idle_emulator_never_wakes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_busy_neighbour_breaks_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about waiting: full queues, deadlines, cancelling, sharing. */
#define _GNU_SOURCE
#include "users/users.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WAITING_MAX 64 /* requests of one session */
#define MODULES_MAX 64
#define LATE_MS 10

static struct c7x_test_emulator emulator;
static struct c7x_client *client;

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* ---- U02 ---- */

static void u02_a_full_queue_is_busy_at_once(void **state)
{
    struct c7x_inference *waiting[WAITING_MAX];
    uint32_t spin = c7x_test_dyn_load(client, "spin");
    (void)state;
    /* Runs on while the queue is filled, also on a machine that is slow and busy. */
    struct c7x_inference *running = users_send_spin(client, spin, 3000);
    for (int i = 0; i < WAITING_MAX; i++)
        waiting[i] = users_send_spin(client, spin, 0);
    struct c7x_inference *refused = users_send_spin(client, spin, 0);
    struct c7x_inference *refused_too = users_send_spin(client, spin, 0);
    assert_int_equal(c7x_inference_wait(refused_too, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(refused_too), C7X_BUSY);
    users_assert_said("64");
    users_assert_said("wait");
    assert_int_equal(users_result(running), C7X_BUSY); /* it has not ended: nobody waited for it */
    users_assert_said("not ended");
    c7x_inference_free(refused_too);
    c7x_inference_free(refused);
    for (int i = 0; i < WAITING_MAX; i++)
        c7x_inference_free(waiting[i]);
    assert_int_equal(c7x_inference_wait(running, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(running), C7X_OK);
    c7x_inference_free(running);
}

/* How much later than its deadline a call returns, at best of five: the machine may be busy. */
static int64_t late_ms(uint32_t spin, int64_t deadline_ms)
{
    int64_t best = USERS_SOON_MS;
    c7x_client_set_deadline(client, deadline_ms);
    for (int i = 0; i < 5; i++) {
        int64_t start_ms = c7x_test_now_ms();
        enum c7x_status status = users_spin(client, spin, 300);
        int64_t took = c7x_test_now_ms() - start_ms;
        if (status == C7X_OK) /* we got no processor for so long */
            continue;
        assert_int_equal(status, C7X_TIMEOUT);
        users_assert_said("deadline");
        assert_true(took >= deadline_ms - 1); /* both are rounded */
        if (took - deadline_ms < best)
            best = took - deadline_ms;
    }
    c7x_client_set_deadline(client, USERS_SOON_MS);
    return best;
}

static void u02_deadlines_hold(void **state)
{
    uint32_t spin = c7x_test_dyn_load(client, "spin");
    (void)state;
    assert_true(late_ms(spin, 0) <= LATE_MS); /* try */
    assert_true(late_ms(spin, 1) <= LATE_MS);
    assert_true(late_ms(spin, 50) <= LATE_MS);
    c7x_client_set_deadline(client, -1); /* for ever, when asked */
    assert_int_equal(users_spin(client, spin, 100), C7X_OK);
    c7x_client_set_deadline(client, USERS_SOON_MS);
}

/* A buffer that comes too late is not ours, and nothing else is broken by it. */
static void u02_a_deadline_while_a_buffer_is_made_ends_nothing_else(void **state)
{
    struct c7x_emulator_status status;
    struct c7x_shared *late = NULL;
    uint32_t add_one = c7x_test_dyn_load(client, "add_one");
    (void)state;
    c7x_test_call_add_one(client, add_one, 1);
    uint64_t free_bytes = users_free_bytes(client, "carve-out");
    c7x_test_emulator_status(&emulator, &status);
    assert_true(status.pid > 1);
    c7x_test_stop_process((pid_t)status.pid);
    c7x_client_set_deadline(client, 20);
    int64_t start_ms = c7x_test_now_ms();
    enum c7x_status created = c7x_shared_create(client, 1 << 20, "late", &late);
    int64_t took = c7x_test_now_ms() - start_ms;
    assert_int_equal(kill((pid_t)status.pid, SIGCONT), 0);
    assert_int_equal(created, C7X_TIMEOUT);
    assert_true(took >= 19 && took < 1000);
    c7x_client_set_deadline(client, USERS_SOON_MS);
    c7x_test_call_add_one(client, add_one, 2);
    assert_int_equal(c7x_shared_create(client, 1 << 20, "in time", &late), C7X_OK);
    c7x_shared_free(late);
    assert_int_equal(users_free_bytes(client, "carve-out"), free_bytes);
}

/* Nor does close wait for a device that hangs, longer than the deadline. */
static void u02_close_comes_back_from_a_device_that_hangs(void **state)
{
    struct c7x_emulator_status status;
    struct c7x_client *hanging = users_open_as(&emulator, "hanging");
    uint32_t add_one = c7x_test_dyn_load(hanging, "add_one");
    struct c7x_shared *shared;
    (void)state;
    c7x_test_call_add_one(hanging, add_one, 1);
    assert_int_equal(c7x_shared_create(hanging, 65536, "own", &shared), C7X_OK);
    c7x_test_emulator_status(&emulator, &status);
    assert_true(status.core_pid > 1);
    c7x_client_set_deadline(hanging, 50);
    int64_t start_ms = c7x_test_now_ms();
    c7x_test_stop_process((pid_t)status.core_pid);
    enum c7x_status pinged = c7x_client_ping(hanging, NULL, NULL);
    c7x_shared_free(shared);
    c7x_client_close(hanging);
    int64_t took = c7x_test_now_ms() - start_ms;
    assert_int_equal(kill((pid_t)status.core_pid, SIGCONT), 0);
    assert_int_equal(pinged, C7X_TIMEOUT);
    assert_true(took < 1000);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
}

/* One that has left a request without an answer is not given the whole time again. */
static void u02_close_after_a_timeout_is_no_second_wait(void **state)
{
    struct c7x_emulator_status status;
    struct c7x_client *hanging = users_open_as(&emulator, "hanging");
    uint32_t spin = c7x_test_dyn_load(hanging, "spin");
    (void)state;
    c7x_test_emulator_status(&emulator, &status);
    assert_true(status.core_pid > 1);
    assert_int_equal(users_spin(hanging, spin, 1), C7X_OK);
    c7x_test_stop_process((pid_t)status.core_pid);
    c7x_client_set_deadline(hanging, 50);
    enum c7x_status spun = users_spin(hanging, spin, 1);
    c7x_client_set_deadline(hanging, USERS_SOON_MS);
    int64_t start_ms = c7x_test_now_ms();
    c7x_client_close(hanging);
    int64_t took = c7x_test_now_ms() - start_ms;
    assert_int_equal(kill((pid_t)status.core_pid, SIGCONT), 0);
    assert_int_equal(spun, C7X_TIMEOUT);
    assert_true(took < 20 * 100);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
}

/* ---- U04 ---- */

static void u04_the_second_round_is_as_good_as_the_first(void **state)
{
    (void)state;
    for (int round = 0; round < c7x_test_rounds(1000); round++) {
        struct c7x_client *next = c7x_test_emulator_open(&emulator);
        uint32_t add_one = c7x_test_dyn_load(next, "add_one");
        c7x_test_call_add_one(next, add_one, (float)round);
        if (round % 4 == 0) { /* goes away while the device works for it: the answer comes late */
            uint32_t spin = c7x_test_dyn_load(next, "spin");
            c7x_client_set_deadline(next, 1);
            enum c7x_status status = users_spin(next, spin, 5);
            assert_true(status == C7X_TIMEOUT || status == C7X_OK); /* we came too late ourselves */
            c7x_client_set_deadline(next, USERS_SOON_MS);
            c7x_test_call_add_one(next, add_one, (float)round); /* nobody got it */
        }
        c7x_client_close(next);
    }
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
}

/* ---- U30 ---- */

static void u30_a_device_is_shared_and_says_by_whom(void **state)
{
    struct c7x_client *camera = users_open_as(&emulator, "camera");
    struct c7x_client *door = users_open_as(&emulator, "door");
    struct c7x_session_info *sessions;
    (void)state;
    uint32_t spin = c7x_test_dyn_load(camera, "spin");
    uint32_t other_spin = c7x_test_dyn_load(door, "spin");
    struct c7x_inference *first = users_send_spin(camera, spin, 200);
    struct c7x_inference *second = users_send_spin(door, other_spin, 1); /* waits; not refused */
    const struct c7x_session_info *session = users_find_session(client, "camera", &sessions);
    assert_non_null(session);
    assert_int_equal(session->process, getpid());
    assert_int_equal(session->module_count, 1);
    assert_int_equal(session->queued + session->running, 1);
    c7x_list_free(sessions);
    session = users_find_session(client, "door", &sessions);
    assert_non_null(session);
    assert_int_equal(session->queued + session->running, 1);
    c7x_list_free(sessions);
    assert_int_equal(c7x_inference_wait(first, USERS_SOON_MS), C7X_OK);
    assert_int_equal(c7x_inference_wait(second, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(first), C7X_OK);
    assert_int_equal(users_result(second), C7X_OK);
    c7x_inference_free(first);
    c7x_inference_free(second);
    c7x_client_close(door);
    c7x_client_close(camera);
}

/* ---- U31 ---- */

static void hold_all_modules(const struct c7x_test_emulator *device)
{
    struct c7x_client *greedy = users_open_as(device, "greedy");
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    c7x_test_module_path("add_one", path);
    for (int i = 0; i < MODULES_MAX; i++)
        (void)c7x_test_dyn_load(greedy, "add_one");
    assert_int_equal(c7x_client_dyn_load(greedy, path, &handle), C7X_BUSY);
    users_assert_said("64 modules");
    users_assert_said("greedy");
    users_say_arrived();
    pause();
}

static bool holds_nothing(const char *name)
{
    struct c7x_session_info *sessions;
    bool gone = users_find_session(client, name, &sessions) == NULL;
    c7x_list_free(sessions);
    return gone;
}

static void u31_one_process_does_not_eat_the_pool(void **state)
{
    uint64_t free_bytes = users_free_bytes(client, "DDR heap");
    struct c7x_module_info *modules;
    size_t count;
    (void)state;
    struct users_victim greedy = users_start_victim("hold_all_modules", emulator.device);
    c7x_test_call_add_one(client, c7x_test_dyn_load(client, "add_one"), 1); /* others still may */
    users_kill_victim(&greedy);
    C7X_TEST_WAIT_UNTIL(holds_nothing("greedy"), 1000);
    assert_int_equal(c7x_client_list_modules(client, &modules, &count), C7X_OK);
    assert_int_equal(count, 1);
    assert_int_equal(c7x_client_dyn_unload(client, modules[0].handle), C7X_OK);
    c7x_list_free(modules);
    assert_int_equal(users_free_bytes(client, "DDR heap"), free_bytes);
}

/* ---- U34 ---- */

static uint32_t jobs_completed(void)
{
    struct c7x_client_status status;
    assert_int_equal(c7x_client_get_status(client, &status), C7X_OK);
    return status.jobs_completed;
}

static void u34_what_waits_is_taken_back_with_its_deadline(void **state)
{
    struct c7x_client *impatient = users_open_as(&emulator, "impatient");
    uint32_t spin = c7x_test_dyn_load(client, "spin");
    uint32_t other_spin = c7x_test_dyn_load(impatient, "spin");
    uint32_t before = jobs_completed();
    (void)state;
    struct c7x_inference *running = users_send_spin(client, spin, 300);
    assert_int_equal(c7x_client_ping(client, NULL, NULL), C7X_OK);
    c7x_client_set_deadline(impatient, 30);
    assert_int_equal(users_spin(impatient, other_spin, 1), C7X_TIMEOUT);
    c7x_client_set_deadline(impatient, USERS_SOON_MS);
    assert_int_equal(c7x_inference_wait(running, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_spin(impatient, other_spin, 1), C7X_OK); /* behind all that waited */
    assert_int_equal(jobs_completed(), before + 2); /* the one given up has never run */
    c7x_inference_free(running);
    c7x_client_close(impatient);
}

static void u34_a_buffer_is_not_ours_before_the_dsp_lets_go_of_it(void **state)
{
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    struct c7x_shared *window;
    uint32_t holds = c7x_test_dyn_load(client, "holds"); /* one critical section */
    (void)state;
    assert_int_equal(c7x_shared_create(client, 4096, "frame", &window), C7X_OK);
    assert_int_equal(c7x_shared_begin(window, C7X_CPU_WRITE), C7X_OK);
    *(int32_t *)c7x_shared_pointer(window) = 200; /* ms */
    assert_int_equal(c7x_shared_end(window), C7X_OK);
    struct c7x_client_tensor input = {c7x_shared_pointer(window), 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
    c7x_infer_options_init(client, &options);
    options.handle = holds;
    options.input = window;
    options.deadline_ms = 20;
    assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_OK);
    assert_int_equal(c7x_inference_wait(inference, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(inference), C7X_TIMEOUT);
    assert_int_equal(c7x_shared_begin(window, C7X_CPU_WRITE), C7X_BUSY); /* the DSP still runs */
    users_assert_said("frame");
    C7X_TEST_WAIT_UNTIL(c7x_shared_begin(window, C7X_CPU_WRITE) == C7X_OK, USERS_SOON_MS);
    assert_int_equal(c7x_shared_end(window), C7X_OK);
    c7x_inference_free(inference);
    c7x_shared_free(window);
}

static bool something_runs(void)
{
    struct c7x_target_info *targets;
    bool runs = false;
    size_t count;
    assert_int_equal(c7x_client_list_targets(client, &targets, &count), C7X_OK);
    for (size_t i = 0; i < count; i++)
        runs = runs || targets[i].running_session != 0;
    c7x_list_free(targets);
    return runs;
}

/* The rest of its time is not spent on what nobody wants any more. */
static void u34_what_runs_stops_at_the_end_of_its_section(void **state)
{
    uint32_t spin = c7x_test_dyn_load(client, "spin"); /* a section each millisecond */
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct c7x_inference *endless = users_send_spin(client, spin, -1);
        C7X_TEST_WAIT_UNTIL(something_runs(), USERS_SOON_MS);
        assert_int_equal(c7x_inference_cancel(endless), C7X_BUSY); /* it runs */
        assert_int_equal(c7x_inference_wait(endless, USERS_SOON_MS), C7X_OK);
        assert_int_equal(users_result(endless), C7X_CANCELLED);
        c7x_inference_free(endless);
        assert_int_equal(users_spin(client, spin, 1), C7X_OK); /* the module is as good as before */
    }
}

/* ---- U40 ---- */

static void u40_a_timeout_is_a_timeout_and_a_session_is_freed(void **state)
{
    struct c7x_client_tensor output;
    uint64_t free_bytes = users_free_bytes(client, "DDR heap");
    (void)state;
    struct c7x_client *failing = users_open_as(&emulator, "failing");
    uint32_t spin = c7x_test_dyn_load(failing, "spin");
    uint32_t fails = c7x_test_dyn_load(failing, "fails");
    int none = 0;
    c7x_client_set_deadline(failing, 10);
    assert_int_equal(users_spin(failing, spin, 100), C7X_TIMEOUT);
    users_assert_said("deadline");
    c7x_client_set_deadline(failing, USERS_SOON_MS);
    assert_int_equal(c7x_client_infer(failing, fails, 0, NULL, 0, &output, &none, NULL), C7X_CALL);
    c7x_client_close(failing);
    assert_true(holds_nothing("failing"));
    C7X_TEST_WAIT_UNTIL(users_free_bytes(client, "DDR heap") == free_bytes, 1000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(int argc, char **argv)
{
    if (argc == 3) {
        snprintf(emulator.device, sizeof emulator.device, "%s", argv[2]);
        hold_all_modules(&emulator);
    }
    const struct CMUnitTest tests[] = {
        TEST(u02_a_full_queue_is_busy_at_once),
        TEST(u02_deadlines_hold),
        TEST(u02_a_deadline_while_a_buffer_is_made_ends_nothing_else),
        TEST(u02_close_comes_back_from_a_device_that_hangs),
        TEST(u02_close_after_a_timeout_is_no_second_wait),
        TEST(u04_the_second_round_is_as_good_as_the_first),
        TEST(u30_a_device_is_shared_and_says_by_whom),
        TEST(u31_one_process_does_not_eat_the_pool),
        TEST(u34_what_waits_is_taken_back_with_its_deadline),
        TEST(u34_a_buffer_is_not_ours_before_the_dsp_lets_go_of_it),
        TEST(u34_what_runs_stops_at_the_end_of_its_section),
        TEST(u40_a_timeout_is_a_timeout_and_a_session_is_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

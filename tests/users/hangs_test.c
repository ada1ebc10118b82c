/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about devices that hang, and came back only with a reboot. */
#define _GNU_SOURCE
#include "firmware/service/service.h"
#include "support/faults.h"
#include "users/users.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct c7x_test_emulator emulator;
static struct c7x_client *client; /* whose modules go wrong */
static struct c7x_client *other;
static uint32_t others_module;
static struct c7x_emulator_status before;

static int start(void **state)
{
    (void)state;
    setenv("C7X_WATCHDOG", "0.2", 1); /* seconds */
    c7x_test_emulator_start(&emulator);
    unsetenv("C7X_WATCHDOG");
    client = c7x_test_emulator_open(&emulator);
    other = c7x_test_emulator_open(&emulator);
    others_module = c7x_test_dyn_load(other, "spin");
    c7x_test_emulator_status(&emulator, &before);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    c7x_client_close(other);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), 1000);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

/* ---- U38 ---- */

static enum c7x_status commit(uint32_t handle, int32_t fault)
{
    return users_spin(client, handle, fault); /* any module of one int32 */
}

/* Waits behind the hung call, in the same target, and is right all the same. */
static void u38_a_hung_module_is_ended_and_others_go_on(void **state)
{
    static const int32_t hangs[] = {FAULT_LOOP, FAULT_LOOP + FAULT_IN_SECTION};
    struct c7x_emulator_status after;
    c7x_test_needs_signals();
    (void)state;
    for (size_t i = 0; i < sizeof hangs / sizeof hangs[0]; i++) {
        uint32_t hung = c7x_test_dyn_load(client, "faults");
        uint32_t again;
        struct c7x_inference *hangs_there = users_send_spin(client, hung, hangs[i]);
        struct c7x_inference *waits = users_send_spin(other, others_module, 5);
        assert_int_equal(c7x_inference_wait(hangs_there, USERS_SOON_MS), C7X_OK);
        assert_int_equal(users_result(hangs_there), C7X_FAULT);
        users_assert_said("watchdog");
        assert_int_equal(c7x_inference_wait(waits, USERS_SOON_MS), C7X_OK);
        assert_int_equal(users_result(waits), C7X_OK);
        c7x_inference_free(hangs_there);
        c7x_inference_free(waits);
        assert_int_equal(commit(hung, FAULT_NONE), C7X_FAULTED);
        assert_int_equal(c7x_client_dyn_unload(client, hung), C7X_OK);
        again = c7x_test_dyn_load(client, "faults");
        assert_int_equal(commit(again, FAULT_NONE), C7X_OK);
        assert_int_equal(c7x_client_dyn_unload(client, again), C7X_OK);
    }
    c7x_test_emulator_status(&emulator, &after);
    assert_int_equal(after.core_pid, before.core_pid);
}

/* At the highest priority. */
static enum c7x_status commit_at_once(uint32_t handle, int32_t fault)
{
    struct c7x_client_tensor input = {&fault, sizeof fault, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_client_infer_flags(client, handle, 0, &input, 1, &output, &count, NULL,
                                  1u << C7X_INFER_PRIORITY_SHIFT);
}

/* The other client learns it in its waiting call, and both go on in this process. */
static void spoil_core(enum c7x_status (*spoil)(uint32_t handle))
{
    struct c7x_emulator_status after;
    uint32_t bad = c7x_test_dyn_load(client, "faults");
    struct c7x_inference *waits = users_send_spin(other, others_module, -1);
    struct c7x_inference *waits_too = users_send_spin(other, others_module, 1);
    assert_int_equal(spoil(bad), C7X_RESET);
    assert_int_equal(c7x_inference_wait(waits, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(waits), C7X_RESET);
    assert_int_equal(c7x_inference_wait(waits_too, USERS_SOON_MS), C7X_OK);
    assert_int_equal(users_result(waits_too), C7X_RESET);
    c7x_inference_free(waits);
    c7x_inference_free(waits_too);
    assert_int_equal(c7x_client_ping(other, NULL, NULL), C7X_RESET);
    c7x_client_close(client);
    c7x_client_close(other);
    client = c7x_test_emulator_open(&emulator);
    other = c7x_test_emulator_open(&emulator);
    assert_int_equal(commit(c7x_test_dyn_load(client, "faults"), FAULT_NONE), C7X_OK);
    c7x_test_call_add_one(other, c7x_test_dyn_load(other, "add_one"), 1);
    c7x_test_emulator_status(&emulator, &after);
    assert_int_equal(after.pid, before.pid); /* nothing but the core */
    assert_int_equal(after.core_starts, before.core_starts + 1);
}

static enum c7x_status spoil_by_pointer(uint32_t handle)
{
    return commit_at_once(handle, FAULT_CORE);
}

/* Firmware that was hit in its own code. */
static void u38_a_core_that_cannot_be_trusted_restarts(void **state)
{
    c7x_test_needs_signals();
    (void)state;
    spoil_core(spoil_by_pointer);
}

/* Code of a module that hangs where there is no inference to end: its unload goes on without it. */
static void u38_a_clean_up_that_hangs_is_ended(void **state)
{
    struct c7x_emulator_status after;
    uint32_t bad;
    c7x_test_needs_signals();
    (void)state;
    bad = c7x_test_dyn_load(client, "faults");
    assert_int_equal(commit_at_once(bad, FAULT_CLEAN_UP), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, bad), C7X_OK);
    assert_int_equal(commit(c7x_test_dyn_load(client, "faults"), FAULT_NONE), C7X_OK);
    c7x_test_emulator_status(&emulator, &after);
    assert_int_equal(after.core_starts, before.core_starts);
}

/* What the watchdog does tick after tick when nothing can be ended, as with a lock of the firmware:
 * the core goes down, and the supervisor starts it again. */
static void u38_a_core_that_hangs_goes_down(void **state)
{
    int status;
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        for (int64_t end = c7x_test_now_ms() + USERS_SOON_MS; c7x_test_now_ms() < end;) {
            c7x_service_end_stuck_section();
            c7x_test_pause();
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(u38_a_hung_module_is_ended_and_others_go_on),
        TEST(u38_a_core_that_cannot_be_trusted_restarts),
        TEST(u38_a_clean_up_that_hangs_is_ended),
        TEST(u38_a_core_that_hangs_goes_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

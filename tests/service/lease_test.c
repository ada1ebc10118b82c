/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of sessions, on a device whose transport cannot tell that a client has died. */
#define _GNU_SOURCE
#include "service/steps.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#define LEASE_MS 150

/* There is nothing to wait for: that nothing happens is what makes a lease run out. */
static void pass(int64_t ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&left, NULL);
}

static void a_session_without_a_sign_of_life_ends_when_another_speaks(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start_with_lease(LEASE_MS);
    struct c7x_steps_client silent;
    (void)state;
    c7x_steps_open(device, &silent); /* loads a module, and then nobody renews its lease */
    assert_int_equal(c7x_test_loopback_module_count(device), 1);
    pass(3 * LEASE_MS);
    assert_int_equal(c7x_test_loopback_module_count(device), 1); /* it disturbs nobody */
    struct c7x_client *other = c7x_test_loopback_open(device, NULL);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_module_count(device) == 0, 5000);
    c7x_client_close(other);
    silent.link->ops->close(silent.link);
    c7x_test_loopback_stop(device);
}

static void a_client_of_the_library_lives_through_any_silence(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start_with_lease(LEASE_MS);
    struct c7x_client *client = c7x_test_loopback_open(device, NULL);
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    (void)state;
    c7x_test_module_path("add_one", path);
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), C7X_OK);
    for (int i = 0; i < 4; i++) {
        pass(LEASE_MS);
        c7x_client_close(c7x_test_loopback_open(device, NULL)); /* somebody else speaks */
    }
    assert_int_equal(c7x_test_loopback_module_count(device), 1);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    c7x_client_close(client);
    c7x_test_loopback_stop(device);
}

/* A job of a session that has gone silent runs on undisturbed; so does its session. */
static void a_session_with_a_job_does_not_end(void **state)
{
    struct c7x_test_loopback *device = c7x_test_loopback_start_with_lease(LEASE_MS);
    struct c7x_steps_client busy;
    struct c7x_response response;
    (void)state;
    c7x_steps_open(device, &busy);
    c7x_steps_start_spin(&busy, 4 * LEASE_MS, 10);
    pass(2 * LEASE_MS);
    c7x_client_close(c7x_test_loopback_open(device, NULL));
    assert_int_equal(c7x_steps_take(busy.link, C7X_MSG_INFER, 10, &response), C7X_OK);
    c7x_steps_close(&busy);
    c7x_test_loopback_stop(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_without_a_sign_of_life_ends_when_another_speaks),
        cmocka_unit_test(a_client_of_the_library_lives_through_any_silence),
        cmocka_unit_test(a_session_with_a_job_does_not_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

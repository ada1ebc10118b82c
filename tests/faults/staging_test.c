/* SPDX-License-Identifier: Apache-2.0 */
/* What is loaded several times from one file shares the staged bytes of it, as long as it is the
 * same file. */
#define _GNU_SOURCE
#include "support/calls.h"
#include "support/emulator_device.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define RELEASED_MS 1000 /* until the supervisor knows that the core has let go of a buffer */
#define SOON_MS 30000

static struct c7x_test_emulator emulator;
static struct c7x_client *client;
static char folder[C7X_TEST_PATH_MAX];
static char path[2 * C7X_TEST_PATH_MAX]; /* of a copy of add_one */

static uint64_t free_bytes(void)
{
    struct c7x_emulator_status status;
    c7x_test_emulator_status(&emulator, &status);
    return status.carveout_free;
}

static void copy_module(void)
{
    char source[C7X_TEST_PATH_MAX];
    static char bytes[1 << 20];
    c7x_test_module_path("add_one", source);
    FILE *from = fopen(source, "re");
    FILE *to = fopen(path, "we");
    assert_true(from != NULL && to != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, from);
    assert_int_equal(fwrite(bytes, 1, size, to), size);
    assert_int_equal(fclose(to), 0);
    fclose(from);
}

static int set_up(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    c7x_test_make_folder(folder);
    snprintf(path, sizeof path, "%s/lib0.out", folder);
    copy_module();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_client_close(client);
    c7x_test_remove_folder(folder);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

static uint32_t load(uint32_t flags)
{
    uint32_t handle = 0;
    if (c7x_client_dyn_load_flags(client, path, flags, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(client));
    return handle;
}

static void modules_of_a_file_share_its_bytes(void **state)
{
    uint32_t first = load(0);
    c7x_test_call_add_one(client, first, 1); /* the windows of the call are there from here on */
    uint64_t with_one = free_bytes();
    uint32_t second = load(0);
    (void)state;
    assert_int_not_equal(first, second);
    assert_int_equal(free_bytes(), with_one);
    assert_int_equal(c7x_client_dyn_unload(client, first), C7X_OK);
    assert_int_equal(free_bytes(), with_one);
    c7x_test_call_add_one(client, second, 5);
    assert_int_equal(c7x_client_dyn_unload(client, second), C7X_OK);
    C7X_TEST_WAIT_UNTIL(free_bytes() > with_one, RELEASED_MS);
}

/* Of the same size, and of the same name. */
static void a_file_that_was_written_again_is_read_again(void **state)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    uint32_t first = load(0);
    c7x_test_call_add_one(client, first, 1);
    uint64_t with_one = free_bytes();
    (void)state;
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    uint32_t second = load(0);
    assert_true(free_bytes() < with_one);
    assert_int_equal(unlink(path), 0);
    copy_module();
    uint32_t third = load(0);
    c7x_test_call_add_one(client, first, 1);
    c7x_test_call_add_one(client, second, 2);
    c7x_test_call_add_one(client, third, 3);
}

/* The weights of a kept module stay where they were staged, whoever staged them; until it is
 * unloaded, or the core starts anew. A load that fails holds nothing. */
static void a_kept_module_holds_its_bytes_and_nobody_elses(void **state)
{
    uint32_t handle = 0;
    (void)state;
    uint64_t with_one;
    uint32_t first = load(0);
    c7x_test_call_add_one(client, first, 1);
    with_one = free_bytes();
    assert_int_equal(c7x_client_dyn_unload(client, first), C7X_OK);
    C7X_TEST_WAIT_UNTIL(free_bytes() > with_one, RELEASED_MS);
    uint64_t before = free_bytes();
    for (unsigned round = 0; round < 3; round++) {
        struct c7x_client *other = c7x_test_emulator_open(&emulator);
        uint32_t kept = load(C7X_LOAD_KEEP);
        c7x_client_close(client);
        client = other;
        c7x_test_call_add_one(client, kept, 1);
        C7X_TEST_WAIT_UNTIL(free_bytes() == with_one, RELEASED_MS);
        assert_int_equal(c7x_client_dyn_unload(client, kept), C7X_OK);
        C7X_TEST_WAIT_UNTIL(free_bytes() == before, RELEASED_MS);
    }
    (void)load(C7X_LOAD_KEEP);
    c7x_client_close(client);
    struct c7x_emulator_status status;
    c7x_test_emulator_status(&emulator, &status);
    assert_true(status.carveout_free < status.carveout_total);
    assert_int_equal(kill((pid_t)status.core_pid, SIGKILL), 0);
    C7X_TEST_WAIT_UNTIL(free_bytes() == status.carveout_total, SOON_MS);
    client = c7x_test_emulator_open(&emulator);
    before = free_bytes();
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_not_equal(c7x_client_dyn_load(client, path, &handle), C7X_OK);
    C7X_TEST_WAIT_UNTIL(free_bytes() == before, RELEASED_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(modules_of_a_file_share_its_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_was_written_again_is_read_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_kept_module_holds_its_bytes_and_nobody_elses, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

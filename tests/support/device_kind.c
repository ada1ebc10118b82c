/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/device_kind.h"

#include "os/os.h"
#include "support/emulator_device.h"
#include "support/loopback_device.h"
#include "transport/emulator/emulator.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define EMULATED_CARVEOUT_BYTES 0x20000000u
#define NS_PER_S 1000000000LL

/* ---- Loopback -----------------------------------------------------------------------------------
 */

static struct c7x_test_device *loopback_start(void)
{
    return (struct c7x_test_device *)c7x_test_loopback_start();
}

static struct c7x_host_link *loopback_connect(struct c7x_test_device *device)
{
    return c7x_test_loopback_connect((struct c7x_test_loopback *)device);
}

static void loopback_kill(struct c7x_test_device *device)
{
    c7x_test_loopback_halt((struct c7x_test_loopback *)device);
}

static void loopback_stop(struct c7x_test_device *device)
{
    c7x_test_loopback_stop((struct c7x_test_loopback *)device);
}

const struct c7x_test_device_kind c7x_test_kind_loopback = {
    .takes_many = true,
    .keeps_a_log = false,
    .carveout_bytes = C7X_TEST_LOOPBACK_ARENA_BYTES,
    .start = loopback_start,
    .connect = loopback_connect,
    .kill = loopback_kill,
    .stop = loopback_stop,
};

/* ---- An emulator of the only client's own: it begins and ends with the link ---------------------
 */

struct private_emulator {
    int64_t supervisor_pid;
    int watch; /* of the supervisor */
};

static struct c7x_test_device *private_start(void)
{
    struct private_emulator *emulator = calloc(1, sizeof *emulator);
    assert_non_null(emulator);
    emulator->watch = -1;
    return (struct c7x_test_device *)emulator;
}

static struct c7x_host_link *private_connect(struct c7x_test_device *device)
{
    struct private_emulator *emulator = (struct private_emulator *)device;
    struct c7x_setup_message message = {.op = C7X_SETUP_STATUS};
    struct c7x_host_link *link = NULL;
    struct c7x_error error;
    int64_t deadline_ns = c7x_os_deadline_ns(30 * NS_PER_S);
    int socket;
    int fd;
    c7x_error_clear(&error);
    if (c7x_emulator_launch_private(&socket, &error) != C7X_OK ||
        c7x_emulator_request(socket, &message, &fd, deadline_ns, &error) != C7X_OK ||
        c7x_emulator_open_link(socket, deadline_ns, &link, &error) != C7X_OK)
        fail_msg("private emulator: %s", error.text);
    emulator->supervisor_pid = message.supervisor_pid;
    emulator->watch = c7x_test_watch((pid_t)message.supervisor_pid);
    return link;
}

static void private_kill(struct c7x_test_device *device)
{
    struct private_emulator *emulator = (struct private_emulator *)device;
    assert_true(emulator->supervisor_pid > 1);
    assert_int_equal(kill((pid_t)emulator->supervisor_pid, SIGKILL), 0);
}

static void private_stop(struct c7x_test_device *device)
{
    struct private_emulator *emulator = (struct private_emulator *)device;
    bool ended = c7x_test_wait_for_end(emulator->watch, 10000);
    free(emulator);
    assert_true(ended);
}

const struct c7x_test_device_kind c7x_test_kind_private_emulator = {
    .takes_many = false,
    .keeps_a_log = true,
    .carveout_bytes = EMULATED_CARVEOUT_BYTES,
    .start = private_start,
    .connect = private_connect,
    .kill = private_kill,
    .stop = private_stop,
};

/* ---- An emulator that many may join
 * --------------------------------------------------------------- */

static struct c7x_test_device *shared_start(void)
{
    struct c7x_test_emulator *emulator = calloc(1, sizeof *emulator);
    assert_non_null(emulator);
    c7x_test_emulator_start(emulator);
    return (struct c7x_test_device *)emulator;
}

static struct c7x_host_link *shared_connect(struct c7x_test_device *device)
{
    return c7x_test_emulator_connect((struct c7x_test_emulator *)device);
}

static void shared_kill(struct c7x_test_device *device)
{
    struct c7x_emulator_status status;
    c7x_test_emulator_status((struct c7x_test_emulator *)device, &status);
    assert_true(status.pid > 1);
    assert_int_equal(kill((pid_t)status.pid, SIGKILL), 0);
}

static void shared_stop(struct c7x_test_device *device)
{
    c7x_test_emulator_stop((struct c7x_test_emulator *)device);
    free(device);
}

const struct c7x_test_device_kind c7x_test_kind_shared_emulator = {
    .takes_many = true,
    .keeps_a_log = true,
    .carveout_bytes = EMULATED_CARVEOUT_BYTES,
    .start = shared_start,
    .connect = shared_connect,
    .kill = shared_kill,
    .stop = shared_stop,
};

/* ---- The same without rings ---- */

static struct c7x_host_link *socket_connect(struct c7x_test_device *device)
{
    assert_int_equal(setenv("C7X_LINK", "socket", 1), 0);
    struct c7x_host_link *link = shared_connect(device);
    unsetenv("C7X_LINK");
    return link;
}

const struct c7x_test_device_kind c7x_test_kind_socket_emulator = {
    .takes_many = true,
    .keeps_a_log = true,
    .carveout_bytes = EMULATED_CARVEOUT_BYTES,
    .start = shared_start,
    .connect = socket_connect,
    .kill = shared_kill,
    .stop = shared_stop,
};

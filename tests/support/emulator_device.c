/* SPDX-License-Identifier: Apache-2.0 */
#include "support/emulator_device.h"

#include "os/os.h"
#include "transport/emulator/emulator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define START_MS 30000
#define STOP_MS 3000

/* Those that run now: a test that fails does not come to its stop. */
static struct c7x_test_emulator running[8];
static size_t running_count;

static void stop_those_left(void)
{
    for (size_t i = 0; i < running_count; i++) {
        (void)!c7x_emulator_stop(running[i].device, STOP_MS);
        c7x_test_remove_folder(running[i].folder);
    }
}

static void remember(const struct c7x_test_emulator *emulator)
{
    static bool registered;
    if (!registered)
        registered = atexit(stop_those_left) == 0;
    assert_true(running_count < C7X_ARRAY_COUNT(running));
    running[running_count++] = *emulator;
}

static void forget(const struct c7x_test_emulator *emulator)
{
    for (size_t i = 0; i < running_count; i++)
        if (strcmp(running[i].device, emulator->device) == 0) {
            running[i] = running[--running_count];
            return;
        }
}

void c7x_test_emulator_start(struct c7x_test_emulator *emulator)
{
    c7x_test_make_folder(emulator->folder);
    int length =
        snprintf(emulator->device, sizeof emulator->device, "emu:%s/s.sock", emulator->folder);
    assert_true(length > 0 && (size_t)length < sizeof emulator->device);
    remember(emulator);
    c7x_test_emulator_restart(emulator);
}

void c7x_test_emulator_restart(const struct c7x_test_emulator *emulator)
{
    if (c7x_emulator_start(emulator->device, START_MS) != C7X_OK)
        fail_msg("start: %s", c7x_client_last_error(NULL));
}

void c7x_test_emulator_stop(const struct c7x_test_emulator *emulator)
{
    enum c7x_status status = c7x_emulator_stop(emulator->device, START_MS);
    c7x_test_remove_folder(emulator->folder);
    forget(emulator);
    assert_true(status == C7X_OK || status == C7X_NO_DEVICE);
}

void c7x_test_emulator_status(const struct c7x_test_emulator *emulator,
                              struct c7x_emulator_status *out_status)
{
    memset(out_status, 0, sizeof *out_status);
    out_status->struct_size = sizeof *out_status;
    if (c7x_emulator_get_status(emulator->device, out_status) != C7X_OK)
        fail_msg("status: %s", c7x_client_last_error(NULL));
}

bool c7x_test_emulator_is_idle(const struct c7x_test_emulator *emulator)
{
    struct c7x_emulator_status status;
    c7x_test_emulator_status(emulator, &status);
    return status.running == 1 && status.client_count == 0 &&
           status.carveout_free == status.carveout_total;
}

struct c7x_host_link *c7x_test_emulator_connect(const struct c7x_test_emulator *emulator)
{
    struct c7x_host_link *link = NULL;
    struct c7x_error error;
    int socket;
    c7x_error_clear(&error);
    if (c7x_emulator_connect(emulator->device + strlen("emu:"), &socket, &error) != C7X_OK ||
        c7x_emulator_open_link(socket, c7x_os_deadline_ns(START_MS * 1000000LL), &link, &error) !=
            C7X_OK)
        fail_msg("connect: %s", error.text);
    return link;
}

static struct c7x_client_options options_of(const struct c7x_test_emulator *emulator)
{
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.device = emulator->device;
    options.deadline_ms = START_MS;
    return options;
}

enum c7x_status c7x_test_emulator_try_open(const struct c7x_test_emulator *emulator,
                                           struct c7x_client **out_client)
{
    struct c7x_client_options options = options_of(emulator);
    return c7x_client_open_with(&options, out_client);
}

struct c7x_client *c7x_test_emulator_open(const struct c7x_test_emulator *emulator)
{
    struct c7x_client *client = NULL;
    if (c7x_test_emulator_try_open(emulator, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    return client;
}

static void take_text(void *context, const char *text, size_t size)
{
    struct c7x_test_printed *printed = context;
    size_t length = strlen(printed->text);
    if (size > sizeof printed->text - 1 - length)
        size = sizeof printed->text - 1 - length;
    memcpy(printed->text + length, text, size);
    printed->text[length + size] = '\0';
}

struct c7x_client *c7x_test_emulator_open_printing(const struct c7x_test_emulator *emulator,
                                                   struct c7x_test_printed *printed)
{
    struct c7x_client_options options = options_of(emulator);
    struct c7x_client *client = NULL;
    options.print = take_text;
    options.print_context = printed;
    if (c7x_client_open_with(&options, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    return client;
}

pid_t c7x_test_emulator_core_pid(const struct c7x_test_emulator *emulator)
{
    struct c7x_emulator_status status;
    c7x_test_emulator_status(emulator, &status);
    assert_true(status.core_pid > 1);
    return (pid_t)status.core_pid;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings: which link a name means, and the life of the shared emulator. */
#include "client_impl.h"

#include "transport/emulator/emulator.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARED_PREFIX "emu:"

/* The socket of a shared emulator's name; C7X_INVALID for any other device. */
static enum c7x_status shared_path(const char *device, char path[C7X_EMULATOR_PATH_MAX],
                                   struct c7x_error *error)
{
    size_t prefix = strlen(SHARED_PREFIX);
    if (strncmp(device, SHARED_PREFIX, prefix) != 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "unknown device \"%s\"; known are emu, emu: and emu:PATH", device);
    if (device[prefix] == '\0')
        return c7x_emulator_default_path(path, error);
    if (strlen(device + prefix) >= C7X_EMULATOR_PATH_MAX)
        return c7x_error_set(error, C7X_SIZE, C7X_CLIENT_STATION,
                             "the socket's path is too long: %s", device + prefix);
    memcpy(path, device + prefix, strlen(device + prefix) + 1);
    return C7X_OK;
}

static const char *device_or_default(const char *device, const char *fallback)
{
    const char *environment = getenv("C7X_DEVICE");
    if (device != NULL)
        return device;
    return environment != NULL && environment[0] != '\0' ? environment : fallback;
}

static enum c7x_status connect_shared(const char *device, bool start, int64_t deadline_ns,
                                      int *out_socket, struct c7x_error *error)
{
    char path[C7X_EMULATOR_PATH_MAX];
    C7X_RETURN_IF_ERROR(shared_path(device, path, error));
    enum c7x_status status = c7x_emulator_connect(path, out_socket, error);
    if (status != C7X_NO_DEVICE || !start)
        return status;
    C7X_RETURN_IF_ERROR(c7x_emulator_launch_shared(path, deadline_ns, error));
    return c7x_emulator_connect(path, out_socket, error);
}

enum c7x_status c7x_client_open_link(const struct c7x_client_options *options, int64_t deadline_ns,
                                     struct c7x_host_link **out_link, struct c7x_error *error)
{
    const char *device = device_or_default(options->device, "emu");
    int socket;
    if (strcmp(device, "emu") == 0)
        C7X_RETURN_IF_ERROR(c7x_emulator_launch_private(&socket, error));
    else
        C7X_RETURN_IF_ERROR(
            connect_shared(device, options->start != 0, deadline_ns, &socket, error));
    return c7x_emulator_open_link(socket, deadline_ns, out_link, error);
}

/* ---- The life of the shared emulator ---- */

/* Forgets this thread's last open error and finds the socket that `device` names. */
static enum c7x_status begin(const char *device, char path[C7X_EMULATOR_PATH_MAX])
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    device = device_or_default(device, SHARED_PREFIX);
    if (strcmp(device, "emu") == 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "emu is a private emulator; a shared one is emu: or emu:PATH");
    return shared_path(device, path, error);
}

static int64_t deadline_of(int64_t deadline_ms)
{
    return deadline_ms < 0 || deadline_ms > INT64_MAX / 1000000
               ? C7X_OS_FOREVER
               : c7x_os_deadline_ns(deadline_ms * 1000000);
}

enum c7x_status c7x_emulator_start(const char *device, int64_t deadline_ms)
{
    char path[C7X_EMULATOR_PATH_MAX];
    C7X_RETURN_IF_ERROR(begin(device, path));
    return c7x_emulator_launch_shared(path, deadline_of(deadline_ms), c7x_client_thread_error());
}

enum c7x_status c7x_emulator_stop(const char *device, int64_t deadline_ms)
{
    char path[C7X_EMULATOR_PATH_MAX];
    struct c7x_error *error = c7x_client_thread_error();
    struct c7x_setup_message message = {.op = C7X_SETUP_STOP};
    int64_t deadline_ns = deadline_of(deadline_ms);
    int socket;
    int fd = -1;
    C7X_RETURN_IF_ERROR(begin(device, path));
    C7X_RETURN_IF_ERROR(c7x_emulator_connect(path, &socket, error));
    enum c7x_status status = c7x_emulator_request(socket, &message, &fd, deadline_ns, error);
    /* It hangs up when it has ended, so the next request, which nobody answers, fails just then. */
    if (status == C7X_OK) {
        status = c7x_emulator_request(socket, &message, &fd, deadline_ns, error);
        if (status == C7X_RESET || status == C7X_OK) {
            c7x_error_clear(error);
            status = C7X_OK;
        }
    }
    close(socket);
    return status;
}

enum c7x_status c7x_emulator_get_status(const char *device, struct c7x_emulator_status *out_status)
{
    struct c7x_emulator_status status = {.struct_size = out_status->struct_size};
    struct c7x_error *error = c7x_client_thread_error();
    struct c7x_setup_message message = {.op = C7X_SETUP_STATUS};
    int socket;
    int fd = -1;
    C7X_RETURN_IF_ERROR(begin(device, status.path));
    enum c7x_status connected = c7x_emulator_connect(status.path, &socket, error);
    if (connected == C7X_OK) {
        connected = c7x_emulator_request(socket, &message, &fd, deadline_of(10000), error);
        close(socket);
    }
    if (connected == C7X_OK) {
        status.running = 1;
        status.pid = message.supervisor_pid;
        status.core_pid = message.core_pid;
        status.core_starts = message.core_starts;
        status.client_count = message.client_count;
        status.carveout_total = message.carveout_total;
        status.carveout_free = message.carveout_free;
        status.carveout_largest = message.carveout_largest;
    } else if (connected != C7X_NO_DEVICE) { /* that none runs is an answer, not a failure */
        return connected;
    }
    memcpy(out_status, &status,
           out_status->struct_size < sizeof status ? out_status->struct_size : sizeof status);
    return C7X_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Device strings: which link a name means, and the life of the shared emulator. */
#define _GNU_SOURCE
#include "client_impl.h"

#include "transport/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHARED_PREFIX "emu:"
#define CORE_PREFIX "c7x-"

/* Whether `name` is "c7x-" and a number: a core, and not a path. *out_core is 0 if there is none.
 */
static bool names_core(const char *name, uint32_t *out_core)
{
    const char *number = name + strlen(CORE_PREFIX);
    if (strncmp(name, CORE_PREFIX, strlen(CORE_PREFIX)) != 0 || *number == '\0' ||
        number[strspn(number, "0123456789")] != '\0')
        return false;
    *out_core = 0;
    if (number[1] == '\0' && (uint32_t)(number[0] - '0') <= C7X_EMULATOR_CORE_COUNT)
        *out_core = (uint32_t)(number[0] - '0');
    return true;
}

/* Where a shared emulator of this name listens; C7X_INVALID for any other device. */
static enum c7x_status find_place(const char *device, struct c7x_emulator_place *out_place,
                                  struct c7x_error *error)
{
    const char *name = device + strlen(SHARED_PREFIX);
    out_place->core = 1;
    if (strncmp(device, SHARED_PREFIX, strlen(SHARED_PREFIX)) != 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "unknown device \"%s\"; known are emu, emu:, emu:c7x-2 and emu:PATH",
                             device);
    bool is_core = names_core(name, &out_place->core);
    if (out_place->core == 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "there is no core %s; the emulator's cores are c7x-1 to c7x-%u", name,
                             C7X_EMULATOR_CORE_COUNT);
    if (is_core || *name == '\0')
        return c7x_emulator_default_path(out_place, error);
    if (strlen(name) >= C7X_EMULATOR_PATH_MAX)
        return c7x_error_set(error, C7X_SIZE, C7X_CLIENT_STATION,
                             "the socket's path is too long: %s", name);
    memcpy(out_place->path, name, strlen(name) + 1);
    return C7X_OK;
}

static const char *device_or_default(const char *device, const char *fallback)
{
    const char *environment = getenv("C7X_DEVICE");
    if (device != NULL)
        return device;
    return environment != NULL && environment[0] != '\0' ? environment : fallback;
}

/* Whether there is time to look again. Nobody tells when a starter has done or given up. */
static bool pause_before(int64_t deadline_ns)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    if (c7x_os_clock_ns() >= deadline_ns)
        return false;
    nanosleep(&moment, NULL);
    return true;
}

/* Connects, also to an emulator that somebody else is just starting, and starts one if wanted. */
static enum c7x_status connect_shared(const struct c7x_emulator_place *place, bool start,
                                      int64_t deadline_ns, int *out_socket, struct c7x_error *error)
{
    enum c7x_status status = c7x_emulator_connect(place->path, out_socket, error);
    while (status == C7X_NO_DEVICE) {
        bool may_come = start || c7x_emulator_is_starting(place->path);
        if (start)
            C7X_RETURN_IF_ERROR(c7x_emulator_launch_shared(place, deadline_ns, error));
        status = c7x_emulator_connect(place->path, out_socket, error);
        if (status != C7X_NO_DEVICE || !may_come || !pause_before(deadline_ns))
            break;
    }
    return status;
}

static enum c7x_status open_shared(const char *device, bool start, int64_t deadline_ns,
                                   struct c7x_host_link **out_link, struct c7x_error *error)
{
    struct c7x_emulator_place place;
    enum c7x_status status;
    C7X_RETURN_IF_ERROR(find_place(device, &place, error));
    do {
        int socket;
        C7X_RETURN_IF_ERROR(connect_shared(&place, start, deadline_ns, &socket, error));
        status = c7x_emulator_open_link(socket, deadline_ns, out_link, error);
        /* It was just ending: who wants one to be started gets the next. */
    } while (status == C7X_RESET && start && pause_before(deadline_ns));
    if (status == C7X_OK)
        c7x_error_clear(error); /* of the tries before */
    return status;
}

enum c7x_status c7x_client_open_link(const struct c7x_client_options *options, int64_t deadline_ns,
                                     struct c7x_host_link **out_link, struct c7x_error *error)
{
    const char *device = device_or_default(options->device, "emu");
    int socket;
    if (strcmp(device, "emu") != 0)
        return open_shared(device, options->start != 0, deadline_ns, out_link, error);
    C7X_RETURN_IF_ERROR(c7x_emulator_launch_private(&socket, error));
    return c7x_emulator_open_link(socket, deadline_ns, out_link, error);
}

/* ---- The life of the shared emulator ---- */

/* Forgets this thread's last open error and finds the place that `device` names. */
static enum c7x_status begin(const char *device, struct c7x_emulator_place *out_place)
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    device = device_or_default(device, SHARED_PREFIX);
    if (strcmp(device, "emu") == 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "emu is a private emulator; a shared one is emu: or emu:PATH");
    return find_place(device, out_place, error);
}

enum c7x_status c7x_emulator_start(const char *device, int64_t deadline_ms)
{
    struct c7x_emulator_place place;
    C7X_RETURN_IF_ERROR(begin(device, &place));
    return c7x_emulator_launch_shared(&place, c7x_client_deadline_of_ms(deadline_ms),
                                      c7x_client_thread_error());
}

enum c7x_status c7x_emulator_stop(const char *device, int64_t deadline_ms)
{
    struct c7x_emulator_place place;
    struct c7x_error *error = c7x_client_thread_error();
    struct c7x_setup_message message = {.op = C7X_SETUP_STOP};
    int64_t deadline_ns = c7x_client_deadline_of_ms(deadline_ms);
    int socket;
    int fd = -1;
    C7X_RETURN_IF_ERROR(begin(device, &place));
    C7X_RETURN_IF_ERROR(c7x_emulator_connect(place.path, &socket, error));
    /* It hangs up when it has ended, so the second request, which nobody answers, fails just then;
     * the first one does if it was ending already. */
    enum c7x_status status = c7x_emulator_request(socket, &message, &fd, deadline_ns, error);
    if (status == C7X_OK)
        status = c7x_emulator_request(socket, &message, &fd, deadline_ns, error);
    if (status == C7X_RESET) {
        c7x_error_clear(error);
        status = C7X_OK;
    }
    close(socket);
    return status;
}

/* One request to the shared emulator, on a connection of its own. */
static enum c7x_status ask(const char *path, struct c7x_setup_message *message, int64_t deadline_ns)
{
    struct c7x_error *error = c7x_client_thread_error();
    int socket;
    int fd = -1;
    C7X_RETURN_IF_ERROR(c7x_emulator_connect(path, &socket, error));
    enum c7x_status status = c7x_emulator_request(socket, message, &fd, deadline_ns, error);
    close(socket);
    return status;
}

enum c7x_status c7x_emulator_reset(const char *device, int64_t deadline_ms)
{
    struct c7x_emulator_place place;
    struct c7x_setup_message message = {.op = C7X_SETUP_RESET};
    C7X_RETURN_IF_ERROR(begin(device, &place));
    return ask(place.path, &message, c7x_client_deadline_of_ms(deadline_ms));
}

enum c7x_status c7x_emulator_get_status(const char *device, struct c7x_emulator_status *out_status)
{
    struct c7x_emulator_status status = {.struct_size = out_status->struct_size};
    struct c7x_setup_message message = {.op = C7X_SETUP_STATUS};
    struct c7x_emulator_place place;
    C7X_RETURN_IF_ERROR(begin(device, &place));
    memcpy(status.path, place.path, sizeof status.path);
    enum c7x_status connected = ask(place.path, &message, c7x_client_deadline_of_ms(10000));
    if (connected == C7X_OK) {
        status.running = 1;
        status.pid = message.supervisor_pid;
        status.core_pid = message.core_pid;
        status.core_starts = message.core_starts;
        status.client_count = message.client_count;
        status.carveout_total = message.carveout_total;
        status.carveout_free = message.carveout_free;
        status.carveout_largest = message.carveout_largest;
        snprintf(status.version, sizeof status.version, "%.*s", (int)sizeof message.version,
                 message.version);
    } else if (connected != C7X_NO_DEVICE) { /* that none runs is an answer, not a failure */
        return connected;
    }
    memcpy(out_status, &status,
           out_status->struct_size < sizeof status ? out_status->struct_size : sizeof status);
    return C7X_OK;
}

enum c7x_status c7x_emulator_get_installed_version(char *out_version, size_t size)
{
    c7x_client_enter();
    return c7x_emulator_ask_program(out_version, size, c7x_client_deadline_of_ms(10000),
                                    c7x_client_thread_error());
}

/* ---- Which devices there may be ---- */

static const char first_core[] = SHARED_PREFIX CORE_PREFIX "1";

static void describe(struct c7x_device_info *info, const char *state, const char *reason,
                     const char *next_step)
{
    snprintf(info->state, sizeof info->state, "%.*s", (int)sizeof info->state - 1, state);
    snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1, reason);
    snprintf(info->next_step, sizeof info->next_step, "%.*s", (int)sizeof info->next_step - 1,
             next_step);
}

/* Asks the device itself which version it speaks. */
static uint32_t ask_version(const char *device)
{
    struct c7x_client_options options;
    struct c7x_client *client;
    uint32_t version = 0;
    c7x_client_options_init(&options);
    options.device = device;
    options.deadline_ms = 2000;
    options.name = "scan";
    if (c7x_client_open_with(&options, &client) != C7X_OK)
        return 0;
    if (c7x_client_ping(client, &version, NULL) != C7X_OK)
        version = 0;
    c7x_client_close(client);
    return version;
}

/* The command, with the device unless that is the default one. */
static void describe_offline(struct c7x_device_info *info, const char *reason, const char *command)
{
    char next_step[sizeof info->next_step];
    bool is_default = strcmp(info->device, first_core) == 0;
    snprintf(next_step, sizeof next_step, "%s%s%.*s", command, is_default ? "" : " --device ",
             is_default ? 0 : (int)sizeof info->device, info->device);
    describe(info, "offline", reason, next_step);
}

/* Whether there is an emulator, or something in its place. */
static bool scan_emulator(const char *device, struct c7x_device_info *info)
{
    struct c7x_emulator_status status = {.struct_size = sizeof status};
    enum c7x_status found = c7x_emulator_get_status(device, &status);
    info->struct_size = sizeof *info;
    snprintf(info->device, sizeof info->device, "%s", device);
    if (found != C7X_OK) {
        describe(info, found == C7X_PERMISSION ? "denied" : "offline",
                 c7x_client_thread_error()->text, c7x_status_next_step(found));
    } else if (!status.running) {
        describe_offline(info, "no emulator serves there", "c7x_compute emulator start");
    } else {
        info->version = ask_version(info->device);
        if (info->version != 0)
            describe(info, "running", "it answers", "");
        else
            describe_offline(info, c7x_client_thread_error()->text, "c7x_compute reset");
    }
    return found != C7X_OK || status.running;
}

/* Whether $C7X_DEVICE names an emulator that is none of the user's shared ones. */
static bool names_another(const char *device)
{
    struct c7x_emulator_place place;
    struct c7x_emulator_place shared;
    if (device == NULL || strncmp(device, SHARED_PREFIX, strlen(SHARED_PREFIX)) != 0)
        return false;
    if (find_place(device, &place, NULL) != C7X_OK)
        return true; /* and the scan says why not */
    for (shared.core = 1; shared.core <= C7X_EMULATOR_CORE_COUNT; shared.core++)
        if (c7x_emulator_default_path(&shared, NULL) == C7X_OK &&
            strcmp(shared.path, place.path) == 0)
            return false;
    return true;
}

/* The user's shared emulator, those of further cores that run, and the one that $C7X_DEVICE names.
 */
enum c7x_status c7x_device_scan(struct c7x_device_info **out_list, size_t *out_count)
{
    const char *named = getenv("C7X_DEVICE");
    struct c7x_device_info *list = calloc(C7X_EMULATOR_CORE_COUNT + 1, sizeof *list);
    size_t count = 0;
    c7x_client_enter();
    if (list == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a list");
    scan_emulator(first_core, &list[count++]);
    for (uint32_t core = 2; core <= C7X_EMULATOR_CORE_COUNT; core++) {
        char device[32];
        snprintf(device, sizeof device, SHARED_PREFIX CORE_PREFIX "%u", core);
        count += scan_emulator(device, &list[count]);
    }
    if (names_another(named))
        scan_emulator(named, &list[count++]);
    *out_list = list;
    *out_count = count;
    return C7X_OK;
}

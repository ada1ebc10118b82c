/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulator as a device: where it listens, how to start it, and the host's side of a link to it.
 * The emulator's own part of the link is device.h.
 */
#ifndef C7X_TRANSPORT_EMULATOR_EMULATOR_H
#define C7X_TRANSPORT_EMULATOR_EMULATOR_H

#include "transport/emulator/setup.h"
#include "transport/transport.h"

/* Longest path of a socket, terminator included (struct sockaddr_un). */
#define C7X_EMULATOR_PATH_MAX 108u

/* c7x-1 and c7x-2, as the AM67A has them. Each is a device of its own. */
#define C7X_EMULATOR_CORE_COUNT 2u

/* Where one core listens. */
struct c7x_emulator_place {
    uint32_t core; /* 1 .. C7X_EMULATOR_CORE_COUNT */
    char path[C7X_EMULATOR_PATH_MAX];
};

/*
 * Fills in the socket of the user's shared emulator of place->core: c7x-compute.sock, or
 * c7x-compute-2.sock for the second core, in $XDG_RUNTIME_DIR, else in the folder c7x-compute-UID
 * of $TMPDIR or /tmp, which is made (0700) and must belong to the user. C7X_PERMISSION, C7X_SIZE
 * path too long.
 */
enum c7x_status c7x_emulator_default_path(struct c7x_emulator_place *place,
                                          struct c7x_error *error) C7X_NODISCARD;

/*
 * Starts the program of the emulator and returns when it serves at this place, or at once if one
 * does already. It is left in the background. C7X_NO_DEVICE: the program is not there or ended,
 * with what it said.
 */
enum c7x_status c7x_emulator_launch_shared(const struct c7x_emulator_place *place,
                                           int64_t deadline_ns,
                                           struct c7x_error *error) C7X_NODISCARD;

/*
 * What the program that would be started says of itself: version and build. C7X_NO_DEVICE: it is
 * not there or says nothing; C7X_TIMEOUT.
 */
enum c7x_status c7x_emulator_ask_program(char *version, size_t size, int64_t deadline_ns,
                                         struct c7x_error *error) C7X_NODISCARD;

/* Whether somebody is about to start an emulator at `path`: it does not serve yet. */
bool c7x_emulator_is_starting(const char *path);

/* A connected setup socket: of a new private emulator, which ends when it is closed, or of the one
 * at `path`. */
enum c7x_status c7x_emulator_launch_private(int *out_socket, struct c7x_error *error) C7X_NODISCARD;
enum c7x_status c7x_emulator_connect(const char *path, int *out_socket,
                                     struct c7x_error *error) C7X_NODISCARD;

/*
 * One setup request and its answer over a setup socket; *out_fd is -1 or the caller's. A status in
 * the answer is returned. After C7X_TIMEOUT the socket can only be closed.
 */
enum c7x_status c7x_emulator_request(int socket, struct c7x_setup_message *inout_message,
                                     int *out_fd, int64_t deadline_ns,
                                     struct c7x_error *error) C7X_NODISCARD;

/* Opens a link over a connected setup socket, which it takes over, also on failure. */
enum c7x_status c7x_emulator_open_link(int socket, int64_t deadline_ns,
                                       struct c7x_host_link **out_link,
                                       struct c7x_error *error) C7X_NODISCARD;

#endif

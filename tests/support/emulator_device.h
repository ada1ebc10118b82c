/* SPDX-License-Identifier: Apache-2.0 */
/* A shared emulator with a socket of its own, which no other test and no user sees. Failures fail
 * the running test. */
#ifndef C7X_TESTS_SUPPORT_EMULATOR_DEVICE_H
#define C7X_TESTS_SUPPORT_EMULATOR_DEVICE_H

#include "c7x_compute_client.h"
#include "support/environment.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <sys/types.h>

struct c7x_test_emulator {
    char folder[C7X_TEST_PATH_MAX];
    char device[C7X_TEST_PATH_MAX]; /* "emu:" and the socket */
};

/* Makes a folder and starts an emulator that listens there. */
void c7x_test_emulator_start(struct c7x_test_emulator *emulator);
/* Starts it again at the same place; legal while it runs. */
void c7x_test_emulator_restart(const struct c7x_test_emulator *emulator);
/* Ends it if it runs, and removes the folder. */
void c7x_test_emulator_stop(const struct c7x_test_emulator *emulator);

void c7x_test_emulator_status(const struct c7x_test_emulator *emulator,
                              struct c7x_emulator_status *out_status);
/* Whether nobody is connected and the whole carve-out is free. */
bool c7x_test_emulator_is_idle(const struct c7x_test_emulator *emulator);

struct c7x_host_link *c7x_test_emulator_connect(const struct c7x_test_emulator *emulator);
/* C7X_OK and a client with a deadline of half a minute, or why not. */
enum c7x_status c7x_test_emulator_try_open(const struct c7x_test_emulator *emulator,
                                           struct c7x_client **out_client);
struct c7x_client *c7x_test_emulator_open(const struct c7x_test_emulator *emulator);

/* What modules of a client have printed, as far as it fits; cleared by who reads it. */
struct c7x_test_printed {
    char text[65536];
};
/* A client with the same deadline, whose modules print there. */
struct c7x_client *c7x_test_emulator_open_printing(const struct c7x_test_emulator *emulator,
                                                   struct c7x_test_printed *printed);

/* Changes when the core restarts. */
pid_t c7x_test_emulator_core_pid(const struct c7x_test_emulator *emulator);

#endif

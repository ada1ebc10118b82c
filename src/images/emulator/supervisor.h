/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that plays the kernel: sockets, carve-out, shared buffers, and the life of the core,
 * which it forks and forks again when it dies. It never looks into a frame and never waits for the
 * core.
 */
#ifndef C7X_IMAGES_EMULATOR_SUPERVISOR_H
#define C7X_IMAGES_EMULATOR_SUPERVISOR_H

#include "core.h"

struct c7x_supervisor_config {
    int listener;     /* serves all who connect here; -1: private */
    const char *path; /* of the listener's socket, removed at the end */
    int connection;   /* the one client of a private emulator, whose end is ours; -1: shared */
    struct c7x_emulator_core_settings core;
    int ready; /* gets a zero byte when the core serves, or why it does not; -1: nobody waits */
};

/* Serves until it is told to stop (SIGTERM, SIGINT, a client's STOP, the end of a private client);
 * the exit code. */
int c7x_supervisor_run(const struct c7x_supervisor_config *config);

#endif

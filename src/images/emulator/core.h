/* SPDX-License-Identifier: Apache-2.0 */
/* The forked process that is the DSP: the firmware's core over emulated memory. */
#ifndef C7X_IMAGES_EMULATOR_CORE_H
#define C7X_IMAGES_EMULATOR_CORE_H

#include "transport/emulator/setup.h"

struct c7x_emulator_core_settings {
    uint32_t number;     /* 1, 2: its targets are named after it */
    bool strict;         /* caches: transport/emulator/strict.h */
    bool guard;          /* struct c7x_tvm_config */
    int64_t watchdog_ns; /* struct c7x_core_config */
    uint32_t threads;    /* struct c7x_tvm_config */
};

/*
 * Runs the firmware until the supervisor hangs up or stops it, then returns the exit code of the
 * process. `control` is the socket to the supervisor, `log` the memory that the firmware's log goes
 * to.
 */
int c7x_emulator_core_run(int control, struct c7x_log_memory *log,
                          const struct c7x_emulator_core_settings *settings);

#endif

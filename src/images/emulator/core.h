/* SPDX-License-Identifier: Apache-2.0 */
/* The forked process that is the DSP: the firmware's core over emulated memory. */
#ifndef C7X_IMAGES_EMULATOR_CORE_H
#define C7X_IMAGES_EMULATOR_CORE_H

#include "transport/emulator/setup.h"

/*
 * Runs the firmware until the supervisor hangs up or stops it, then returns the exit code of the
 * process. `control` is the socket to the supervisor, `log` the memory that the firmware's log goes
 * to.
 */
int c7x_core_run(int control, struct c7x_log_memory *log, bool strict);

#endif

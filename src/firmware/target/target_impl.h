/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of this folder alone. */
#ifndef C7X_FIRMWARE_TARGET_TARGET_IMPL_H
#define C7X_FIRMWARE_TARGET_TARGET_IMPL_H

#include "firmware/target/target.h"

/* ---- target.c; with the core locked ---- */

/* Whose turn it is, of the targets that have work; NULL: none has. */
struct c7x_target *c7x_target_next(struct c7x_core *core);
/* Takes the first job off the target's queue: it is the one that the target works on. */
void c7x_target_begin(struct c7x_target *target);
/* The job has finished. */
void c7x_target_finish(struct c7x_target *target);
/* Looks again who is to run, after a change: interrupts the core or wakes it. */
void c7x_core_reconsider(struct c7x_core *core);

int64_t c7x_core_now(const struct c7x_core *core);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel regions (parallel.c), and the threads that help with their tasks (threads.c). */
#ifndef C7X_FIRMWARE_TVM_PARALLEL_H
#define C7X_FIRMWARE_TVM_PARALLEL_H

#include "firmware/tvm/tvm_impl.h"

/* ---- threads.c: threads are numbers; 0 is the core, which launches ---- */

/* Starts threads up to `count` with the core's; what cannot be started is logged and missing. */
void c7x_tvm_threads_start(uint32_t count);
/* While there is no region. Legal when none are started. */
void c7x_tvm_threads_stop(void);
/* With the core's. */
uint32_t c7x_tvm_thread_count(void);
/* A region has work for `wanted` of the others: some of those that sleep are needed, or none. */
void c7x_tvm_threads_wake(uint32_t wanted);
/* c7x_tvm_region_end_task() in this thread, as soon as it runs a task. From anywhere. */
void c7x_tvm_thread_interrupt(uint32_t thread);

/* ---- parallel.c ---- */

enum c7x_status c7x_tvm_region_init(void) C7X_NODISCARD;
/* Whether a thread that helps now would find a task. */
bool c7x_tvm_region_has_task(void);
/* Runs tasks in this thread, which is not the core, as long as there are some; interrupts are off,
 * and on in the tasks. */
void c7x_tvm_region_help(uint32_t thread);
/* The interrupt: ends the task that this thread runs, if that is to be, and then does not return.
 */
void c7x_tvm_region_end_task(uint32_t thread);
/* The region of this call is stuck; from anywhere in the core's task. Without one nothing happens.
 */
void c7x_tvm_region_end_tasks(const struct c7x_tvm_context *context);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operating system as the firmware needs it. A port is one folder (os/posix, ...) with
 * os_port.h, which defines the structs below, and one source; tests/conformance/os runs against
 * every port.
 *
 * All functions may be called from any task. Objects are initialised in place and never move.
 */
#ifndef C7X_OS_OS_H
#define C7X_OS_OS_H

#include "base/status.h"
#include "os_port.h" /* struct c7x_os_mutex, c7x_os_event, c7x_os_task: chosen by the include path */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deadlines are absolute times of c7x_os_clock_ns(); this one never comes. */
#define C7X_OS_FOREVER INT64_MAX

/* Nanoseconds of a clock that never goes back. */
int64_t c7x_os_clock_ns(void);
/* now + duration, clamped; a negative duration means C7X_OS_FOREVER. */
int64_t c7x_os_deadline_ns(int64_t duration_ns);

/* The core's cycle counter, and its rate: clock cycles on the board, nanoseconds where there is no
 * such counter. */
uint64_t c7x_os_cycles(void);
uint64_t c7x_os_cycle_hz(void);

/* Not recursive; a task that holds it is not slowed for ever by lower ones (priority inheritance).
 */
enum c7x_status c7x_os_mutex_init(struct c7x_os_mutex *mutex) C7X_NODISCARD;
void c7x_os_mutex_deinit(struct c7x_os_mutex *mutex);
void c7x_os_mutex_lock(struct c7x_os_mutex *mutex);
void c7x_os_mutex_unlock(struct c7x_os_mutex *mutex);

/* A latch: set wakes one waiter, or lets the next wait pass at once; several sets before a wait
 * count once. */
enum c7x_status c7x_os_event_init(struct c7x_os_event *event) C7X_NODISCARD;
void c7x_os_event_deinit(struct c7x_os_event *event);
void c7x_os_event_set(struct c7x_os_event *event);
/* Blocks until the event is set, and clears it; false if the deadline came first. A past deadline
 * only looks. */
bool c7x_os_event_wait(struct c7x_os_event *event, int64_t deadline_ns);

/* Starts `run(context)`. `name` is a static string of at most 15 bytes; stack_bytes 0 means the
 * port's default. */
enum c7x_status c7x_os_task_create(struct c7x_os_task *task, const char *name, size_t stack_bytes,
                                   void (*run)(void *context), void *context) C7X_NODISCARD;
/* Waits until the task's function has returned, and frees what it used. */
void c7x_os_task_join(struct c7x_os_task *task);

/* What a range of pages may be used for. Never writable and executable. */
enum c7x_os_access { C7X_OS_NONE, C7X_OS_READ, C7X_OS_READ_WRITE, C7X_OS_READ_EXECUTE };

/* Bytes of a page; protect works on whole pages. */
size_t c7x_os_page_size(void);
/* A port without an MMU that can do this answers C7X_OK and does nothing. */
enum c7x_status c7x_os_pages_protect(void *address, size_t size,
                                     enum c7x_os_access access) C7X_NODISCARD;

/* Data caches between this core and the host. Ranges are widened to whole lines. */
void c7x_os_cache_writeback(const void *address, size_t size);
void c7x_os_cache_invalidate(void *address, size_t size);
/* Makes freshly written instructions visible to the fetch unit. */
void c7x_os_cache_sync_instructions(void *address, size_t size);

/* Says why on the port's last-resort output and stops the core; never returns. */
_Noreturn void c7x_os_panic(const char *reason);

#endif

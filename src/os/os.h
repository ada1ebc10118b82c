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
#include "os_port.h" /* struct c7x_os_mutex, _event, _task, _stack, _interrupt: by the include path */

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

/* Not recursive; a task that holds it is not slowed for ever by lower ones (priority inheritance),
 * and not interrupted. */
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
/* From now on the calling task, which works little and seldom, runs before ordinary ones, on a busy
 * machine too. False: it is not allowed to, and all works as well, but later. */
bool c7x_os_task_be_urgent(void);
/* Lets another task run that could, if there is one: between two looks of who waits for it. */
void c7x_os_task_yield(void);
/* Waits until the task's function has returned, and frees what it used. */
void c7x_os_task_join(struct c7x_os_task *task);

/* ---- Stacks: many pieces of work may be under way in one task, and one of them runs ---- */

/* Makes a stack on which run(context), which must not return, begins at the first switch to it.
 * C7X_NOMEM. */
enum c7x_status c7x_os_stack_init(struct c7x_os_stack *stack, size_t bytes,
                                  void (*run)(void *context), void *context) C7X_NODISCARD;
/* Not while it runs, unless it is the task's first one; what was under way on it is forgotten. */
void c7x_os_stack_deinit(struct c7x_os_stack *stack);
/* Lets `stack` stand for the one on which the calling task began. */
void c7x_os_stack_adopt(struct c7x_os_stack *stack);
/* Leaves `from`, which runs, for `to`, which goes on where it was left; returns when somebody
 * switches back. All in one task, also in what interrupts it. counts: the time in between is what
 * c7x_os_stack_away() tells of `from`. */
void c7x_os_stack_switch(struct c7x_os_stack *from, struct c7x_os_stack *to, bool counts);
/* How long the stack that runs has been left for others so far, in c7x_os_cycles(). */
uint64_t c7x_os_stack_away(void);
/* Whether an access to the address, which failed, is what the stack that runs does when it is full.
 */
bool c7x_os_stack_is_full(const void *address);

/* Pointers of which every stack has its own, at first NULL; who uses which. */
enum c7x_os_local {
    C7X_OS_LOCAL_CALL,   /* firmware/tvm: the module's call that is under way */
    C7X_OS_LOCAL_PRINTF, /* firmware/printf: where text goes */
    C7X_OS_LOCAL_TRY,    /* the port: the innermost c7x_os_try() */
    C7X_OS_LOCAL_COUNT
};
void *c7x_os_local(enum c7x_os_local which);
void c7x_os_set_local(enum c7x_os_local which, void *value);

/* ---- Interrupts: another task makes this one do something at once, in the middle of its work ----
 */

/*
 * By the task that is to be interrupted, once; interrupts are on. run is called with them off. When
 * one comes while they are off, `look` is called at once, in the middle of whatever it is: it takes
 * no lock, and returns or leaves by longjmp. NULL: nothing is.
 */
void c7x_os_interrupt_init(struct c7x_os_interrupt *interrupt, void (*run)(void *context),
                           void (*look)(void *context), void *context);
/* Whether it is the calling task that is interrupted by it. */
bool c7x_os_interrupt_is_own(const struct c7x_os_interrupt *interrupt);
/* By that task, when nobody raises it any more. */
void c7x_os_interrupt_deinit(struct c7x_os_interrupt *interrupt);
/* Any task, until then. run begins at once, or as soon as interrupts are on; what is
 * raised several times before counts once. */
void c7x_os_interrupt_raise(struct c7x_os_interrupt *interrupt);
/* Off and on nest, and each stack counts for itself (a new one begins with 1). Tasks without an
 * interrupt may call them, too. A mutex that is held keeps them off. */
void c7x_os_interrupts_off(void);
void c7x_os_interrupts_on(void);
/* How often they are off; and that again, after a jump out of code that may have left it otherwise.
 */
int c7x_os_interrupts_depth(void);
void c7x_os_interrupts_restore(int depth);
/* In long work with interrupts off, where one does no harm: has one, whether raised or not, unless
 * they are off more than once, as with a mutex. */
void c7x_os_interrupt_point(void);

/* Where the task was when it was interrupted, while that is under way; NULL: at a place of its own
 * choice. */
const void *c7x_os_interrupted_code(void);

/* ---- Faults: what the processor refuses to do ---- */

struct c7x_os_fault {
    const char *kind;    /* static: "segmentation fault", "division by zero", ... */
    const void *address; /* of the access; of the instruction where there is none */
    const void *code;    /* the instruction */
};

/*
 * From now on a fault of the calling task calls this, in the task, interrupts off once more; it may
 * leave by longjmp. When it returns, the core goes down as without it. Each task for itself, with
 * one function for all of them.
 */
enum c7x_status
c7x_os_catch_faults(void (*catch_fault)(const struct c7x_os_fault *fault)) C7X_NODISCARD;
/* The calling task's no more: it ends before the process does. Legal without the above. */
void c7x_os_release_faults(void);

/*
 * Calls run(context), code that may do anything; false, and what it did, when it was ended in the
 * middle: by a fault, once they are caught, or by c7x_os_end_try(). Neither is possible while it
 * holds a mutex. No other stack runs meanwhile.
 */
bool c7x_os_try(void (*run)(void *context), void *context, struct c7x_os_fault *out_fault);
/* Ends what this stack tries, and then does not return; it does when there is nothing, or that is
 * not possible now. `kind` is static. */
void c7x_os_end_try(const char *kind);

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

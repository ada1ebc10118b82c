/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime of TVM modules: the functions that they import (prototypes in c7x_module.h), their
 * constants, and the runner, which is a kind of module (firmware/module/kind.h).
 *
 * station: ... module > [tvm] > kernel ...
 */
#ifndef C7X_FIRMWARE_TVM_TVM_H
#define C7X_FIRMWARE_TVM_TVM_H

#include "firmware/memory/heap.h"
#include "firmware/module/kind.h"
#include "os/os.h"

struct c7x_tvm_config {
    struct c7x_heap *heap; /* all that modules allocate */
    struct c7x_heap
        *fast_heap; /* the fast pool; NULL: none, and small storage comes from the heap */
    uint8_t *l2;    /* scratch that a module may use during its call */
    uint32_t l2_size;
    bool guard; /* modules' blocks end before a page that nobody can touch (memory/heap.h) */
    /* How many run the tasks of a parallel region, with the one that launches it; 0 and 1: that one
     * alone, in order. And what catches faults of the others (os/os.h); NULL: nothing. */
    uint32_t threads;
    void (*catch_fault)(const struct c7x_os_fault *fault);
};

#define C7X_TVM_THREADS_MAX 64u

/* Before the first module or model is loaded, and while none is. */
void c7x_tvm_init(const struct c7x_tvm_config *config);
/* Ends the threads, and gives back the workspace that targets hold. Legal without the above. */
void c7x_tvm_deinit(void);

/* Why a call ends before its entry has returned. After the last two the instance is faulty: it can
 * only be unbound. */
enum c7x_tvm_end {
    C7X_TVM_RETURNED,
    C7X_TVM_ABORTED,   /* the module called abort */
    C7X_TVM_CANCELLED, /* nobody wants its result any more */
    C7X_TVM_STUCK,     /* the watchdog */
    C7X_TVM_FAULTED
};

/*
 * Ends the call that is under way on this stack, in the middle of the module's code, and does not
 * return. It returns when it cannot: there is no call, or firmware code works for the module; one
 * that is cancelled ends at the end of its next section. `fault` is for C7X_TVM_FAULTED alone.
 */
void c7x_tvm_end_call(enum c7x_tvm_end end, const struct c7x_os_fault *fault);

/*
 * The same for C7X_TVM_STUCK when this may be anywhere: only in the module's own code, in a
 * critical section. In a parallel region it ends the tasks of the other threads, too, and may
 * return before the call has ended.
 */
void c7x_tvm_end_section(void);

/* The job on this stack goes on after others have run; interrupts are off. */
void c7x_tvm_resume(void);

/* Gives back the workspace that targets hold and do not use now. It also happens whenever a module
 * is loaded or unloaded. */
void c7x_tvm_release_workspaces(void);

extern const struct c7x_module_kind_ops c7x_tvm_kind;

#endif

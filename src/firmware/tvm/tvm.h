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

struct c7x_tvm_config {
    struct c7x_heap *heap; /* all that modules allocate */
    struct c7x_heap
        *fast_heap; /* the fast pool; NULL: none, and small storage comes from the heap */
    uint8_t *l2;    /* scratch that a module may use during its call */
    uint32_t l2_size;
    /*
     * Called when a job enters its outermost critical section and when it leaves it, in the job's
     * own task; a switch to another target may happen inside end. Either may be NULL.
     */
    void (*section_begin)(void);
    void (*section_end)(void);
};

/* Before the first module or model is loaded, and while none is. */
void c7x_tvm_init(const struct c7x_tvm_config *config);

/*
 * For whoever ends a job in the middle of its call (fault, deadline), in the job's own task: closes
 * its critical section and forgets the call. The instance stays faulty until it is unbound. Legal
 * when there is no call.
 */
void c7x_tvm_abandon_call(void);

extern const struct c7x_module_kind_ops c7x_tvm_kind;

#endif

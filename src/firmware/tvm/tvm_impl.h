/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef C7X_FIRMWARE_TVM_TVM_IMPL_H
#define C7X_FIRMWARE_TVM_TVM_IMPL_H

#include "c7x_module.h"
#include "firmware/tvm/constants.h"
#include "firmware/tvm/tvm.h"
#include "os/os.h"

#include <setjmp.h>
#include <stdbool.h>

/* Return code of the entry and of packed functions. */
#define C7X_TVM_OUT_OF_MEMORY (-3)

#define C7X_TVM_SYMBOL_COUNT_MAX 128u

struct c7x_tvm_symbol {
    const char *name; /* the module's */
    void *address;
};

/* A module's use of L2, which is shared by all that are under way (active.c). */
struct c7x_tvm_scratch {
    uint32_t bytes;               /* from its start on; 0: none */
    uint8_t *copy;                /* of them, while another module is active; a block of the heap */
    _Atomic uint32_t activations; /* how often L2 has become the module's */
    bool has_copy;                /* it holds something */
    void *activate;               /* the module's hooks, int(void); NULL without */
    void *deactivate;
};

/* A block that a target holds for the calls that it runs (workspace.c). */
struct c7x_tvm_workspace {
    uint8_t *block;
    size_t size;
    size_t used;
    size_t wanted; /* by this call, at most so far */
    void *last;    /* what was taken last and is not given back */
    bool is_taken; /* a call is under way */
};

/* What the imports of the module that is being called work on: one for each instance. First what
 * every call touches, side by side: while many modules are called in turn, it is in no near cache.
 */
struct c7x_tvm_context {
    struct c7x_tvm_workspace *workspace; /* of the target that runs the call; NULL: it has none */
    TVMFFIAny *registers;
    TVMFFIAny *constants;
    int32_t register_count;
    int32_t constant_count;
    uint32_t owner; /* of its blocks in the heap, and in the fast pool */
    uint32_t fast_owner;
    uint32_t workspace_owner;  /* of workspace, which no call may keep: freed when it ends */
    bool has_workspace_blocks; /* some of it is the heap's */
    bool out_of_memory;
    bool is_open;        /* its sections do not hold interrupts off */
    bool is_cancelled;   /* to end at the end of its next section */
    bool is_section_end; /* interrupts are let in at the end of a section */
    bool is_measured;
    bool is_task; /* of another's region, on a thread of its own (parallel.c) */
    int32_t section_depth;
    int32_t section_floor;   /* no section at or below it ends: a parallel region's own */
    uint32_t section_number; /* how many outermost ones have begun in this call */
    int export_depth;        /* firmware code works for the module: nothing may end it */
    enum c7x_tvm_end end;    /* why the call ended */
    jmp_buf *end_point;      /* where c7x_tvm_end_call() goes; NULL while no module code runs */
    _Atomic uint32_t *section_count; /* of the job; NULL: nobody counts */
    const struct c7x_infer *infer;   /* while it is under way */
    const struct c7x_manifest *manifest;
    struct c7x_trace_origin origin; /* of the call */
    struct c7x_tvm_scratch scratch; /* the module's L2 */

    struct c7x_oom oom;               /* of the first request that failed in this call */
    uint64_t section_start;           /* while this call is measured: when its section began */
    _Atomic uint64_t longest_section; /* of those that were measured, in c7x_os_cycles() */
    struct c7x_os_fault fault;        /* FAULTED; else only where the code was, if that is known */
    struct c7x_tvm_symbol *symbols;   /* TVMBackendRegisterSystemLibSymbol; NULL until the first */
    uint32_t symbol_count;
};

/* ---- tvm.c ---- */

extern struct c7x_tvm_config c7x_tvm;
extern struct c7x_os_mutex c7x_tvm_models_lock;

/* The context of this task, NULL outside a call. It belongs to the task so that a pre-empted job
 * keeps its own. */
struct c7x_tvm_context *c7x_tvm_context(void);
void c7x_tvm_context_set(struct c7x_tvm_context *context);

/* The module's critical sections nest; both do nothing outside a call. enter returns the depth
 * before it. */
int32_t c7x_tvm_section_enter(void);
void c7x_tvm_section_leave(int32_t depth);

/* Around firmware code that changes what is shared: no switch, and nothing ends the call in it. */
void c7x_tvm_export_enter(void);
void c7x_tvm_export_leave(void);

/* ---- active.c: whose L2 it is ---- */

/* Room to save what the module has there, unless it has some. False when out of memory, and for a
 * task on another thread: it is the call that reserves. */
bool c7x_tvm_reserve_scratch(struct c7x_tvm_context *context, uint32_t bytes);
/* Makes it this module's, if it is not. Interrupts are off. */
void c7x_tvm_activate(struct c7x_tvm_context *context);
/* The module goes. */
void c7x_tvm_retire(struct c7x_tvm_context *context);

/* The call answers C7X_NOMEM with these numbers if it fails; the first ones count. */
void c7x_tvm_record_oom(struct c7x_tvm_context *context, size_t size);
/* Memory of the current context; alignment 0 is the heap's. NULL outside a call. Main-pool failures
 * are recorded. */
void *c7x_tvm_alloc(size_t size, size_t alignment, int pool);
/* Of the main pool, until the end of the call at the latest. */
void *c7x_tvm_alloc_workspace(size_t size);
void c7x_tvm_free(void *block);

/* What the call has of the main pool as workspace, its own and its tasks', goes. */
void c7x_tvm_free_workspace_blocks(struct c7x_tvm_context *context);

/* ---- workspace.c ---- */

/* As many as there are targets, and one for calls of none; then one for each thread but the
 * core's. */
#define C7X_TVM_WORKSPACE_TARGETS 16u
#define C7X_TVM_WORKSPACE_COUNT (C7X_TVM_WORKSPACE_TARGETS + C7X_TVM_THREADS_MAX - 1)

/* For one call; `target` as in struct c7x_trace_origin. NULL: another call has it. */
struct c7x_tvm_workspace *c7x_tvm_workspace_take(uint32_t target);
/* For the tasks of one region that this thread, from 1 on, runs. */
struct c7x_tvm_workspace *c7x_tvm_workspace_take_of_thread(uint32_t thread);
/* Nobody uses any more what was taken of it. NULL is legal. */
void c7x_tvm_workspace_clear(struct c7x_tvm_workspace *workspace);
/* The call has ended, however it did. NULL is legal. */
void c7x_tvm_workspace_give(struct c7x_tvm_workspace *workspace);
/* NULL: it has no room, or there is no workspace; the heap has to do. */
void *c7x_tvm_workspace_alloc(struct c7x_tvm_workspace *workspace, size_t size);
/* The heap had to do: the next call is to find room for that, too. */
void c7x_tvm_workspace_want(struct c7x_tvm_workspace *workspace, size_t size);
/* False: the block is not of the workspace. */
bool c7x_tvm_workspace_free(struct c7x_tvm_workspace *workspace, const void *block);

/* ---- objects.c ---- */

/* A tensor object without data; takes no reference. NULL when out of memory or the rank is not 0
 * to 16. */
TVMDSPTensor *c7x_tvm_tensor_new(const int64_t *shape, int32_t ndim, DLDataType dtype);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ACTIVE handle (spec/target-execution-model, "Deactivate/Activate"): L2 is one, and modules
 * that pre-empt one another all use it. Whoever enters a critical section, begins or goes on gets
 * its own content back; the one before has its saved. All of it runs with interrupts off.
 */
#include "firmware/tvm/tvm_impl.h"

#include "base/log.h"

#include <string.h>

static struct c7x_tvm_context *active; /* NULL: L2 is nobody's */

static void run_hook(void *address)
{
    int (*hook)(void);
    memcpy(&hook, &address, sizeof(hook));
    (void)hook();
}

/*
 * Calls a hook of a module, which need not be the one that runs here. One that cannot come to its
 * end is not called again, and its module ends when it goes on.
 */
static void call_hook(struct c7x_tvm_context *context, void **inout_hook)
{
    struct c7x_tvm_context *running = c7x_tvm_context();
    jmp_buf *end_point = context->end_point;
    struct c7x_os_fault fault;
    if (*inout_hook == NULL)
        return;
    c7x_tvm_context_set(context);
    context->end_point = NULL;
    if (!c7x_os_try(run_hook, *inout_hook, &fault)) {
        c7x_log("tvm", "a hook for activation did not come to its end (%s); it is not called again",
                fault.kind);
        *inout_hook = NULL;
    }
    context->end_point = end_point;
    c7x_tvm_context_set(running);
}

bool c7x_tvm_reserve_scratch(struct c7x_tvm_context *context, uint32_t bytes)
{
    struct c7x_tvm_scratch *scratch = &context->scratch;
    if (scratch->copy != NULL || bytes == 0)
        return true;
    if (context->is_task)
        return false;
    c7x_tvm_export_enter();
    scratch->copy = c7x_heap_alloc(c7x_tvm.heap, context->owner, bytes, 0);
    c7x_tvm_export_leave();
    if (scratch->copy == NULL) {
        c7x_tvm_record_oom(context, bytes);
        return false;
    }
    scratch->bytes = bytes;
    return true;
}

static void deactivate(struct c7x_tvm_context *context)
{
    struct c7x_tvm_scratch *scratch = &context->scratch;
    if (scratch->copy != NULL) {
        memcpy(scratch->copy, c7x_tvm.l2, scratch->bytes);
        scratch->has_copy = true;
    }
    call_hook(context, &scratch->deactivate);
}

void c7x_tvm_activate(struct c7x_tvm_context *context)
{
    struct c7x_tvm_scratch *scratch = &context->scratch;
    if (active == context)
        return;
    if (active != NULL)
        deactivate(active);
    active = context;
    (void)atomic_fetch_add_explicit(&scratch->activations, 1, memory_order_relaxed);
    if (scratch->has_copy)
        memcpy(c7x_tvm.l2, scratch->copy, scratch->bytes);
    c7x_trace_event(C7X_EVENT_ACTIVATED, &context->origin, scratch->has_copy ? scratch->bytes : 0);
    call_hook(context, &scratch->activate);
}

void c7x_tvm_retire(struct c7x_tvm_context *context)
{
    if (active == context)
        active = NULL;
    c7x_heap_free(c7x_tvm.heap, context->scratch.copy);
    context->scratch.copy = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/tvm.h"

#include "firmware/tvm/parallel.h"
#include "firmware/tvm/platform.h"
#include "firmware/tvm/tvm_impl.h"

struct c7x_tvm_config c7x_tvm;
struct c7x_os_mutex c7x_tvm_models_lock;

void c7x_tvm_init(const struct c7x_tvm_config *config)
{
    static bool has_lock; /* it is never taken down: models live as long as the core */
    c7x_tvm_threads_stop();
    c7x_tvm = *config;
    if (!has_lock && c7x_os_mutex_init(&c7x_tvm_models_lock) != C7X_OK)
        c7x_os_panic("tvm: no mutex");
    has_lock = true;
    g_l2_mem_addr = config->l2;
    g_l2_mem_size = config->l2_size;
    if (config->threads > 1)
        c7x_tvm_threads_start(config->threads);
}

void c7x_tvm_deinit(void)
{
    c7x_tvm_threads_stop();
    c7x_tvm_release_workspaces();
}

struct c7x_tvm_context *c7x_tvm_context(void)
{
    return c7x_os_local(C7X_OS_LOCAL_CALL);
}

void c7x_tvm_context_set(struct c7x_tvm_context *context)
{
    c7x_os_set_local(C7X_OS_LOCAL_CALL, context);
}

/* ---- Sections ---- */

int32_t c7x_tvm_section_enter(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL)
        return 0;
    if (context->section_depth == 0) {
        c7x_os_interrupts_off();
        context->section_number++;
        c7x_tvm_activate(context);
        c7x_trace_event(C7X_EVENT_SECTION_BEGIN, &context->origin, context->section_number - 1);
        if (context->is_measured)
            context->section_start = c7x_os_cycles() - c7x_os_stack_away();
        if (context->is_open)
            c7x_os_interrupts_on();
    }
    return context->section_depth++;
}

/* Of the section that ends now. */
static void note_length(struct c7x_tvm_context *context)
{
    uint64_t length = c7x_os_cycles() - c7x_os_stack_away() - context->section_start;
    if (length > atomic_load_explicit(&context->longest_section, memory_order_relaxed))
        atomic_store_explicit(&context->longest_section, length, memory_order_relaxed);
}

/* A depth that is not below the present one restores nothing. */
void c7x_tvm_section_leave(int32_t depth)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL || depth < context->section_floor || depth >= context->section_depth)
        return;
    context->section_depth = depth;
    if (depth != 0)
        return;
    if (context->is_measured)
        note_length(context);
    if (context->section_count != NULL)
        (void)atomic_fetch_add_explicit(context->section_count, 1, memory_order_relaxed);
    c7x_trace_event(C7X_EVENT_SECTION_END, &context->origin, context->section_number - 1);
    context->is_section_end = true;
    if (!context->is_open)
        c7x_os_interrupts_on();
    if (context->is_cancelled)
        c7x_tvm_end_call(C7X_TVM_CANCELLED, NULL);
    context->is_section_end = false;
}

void c7x_tvm_export_enter(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    c7x_os_interrupts_off();
    if (context != NULL)
        context->export_depth++;
}

void c7x_tvm_export_leave(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context != NULL)
        context->export_depth--;
    c7x_os_interrupts_on();
}

void c7x_tvm_end_call(enum c7x_tvm_end end, const struct c7x_os_fault *fault)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL || context->end_point == NULL)
        return;
    if (end == C7X_TVM_CANCELLED && !context->is_section_end) {
        context->is_cancelled = true;
        return;
    }
    if (context->export_depth != 0)
        return;
    context->end = end;
    context->is_section_end = false;
    context->fault =
        fault != NULL ? *fault : (struct c7x_os_fault){.code = c7x_os_interrupted_code()};
    longjmp(*context->end_point, 1);
}

/* Interrupts are off once: nothing but the section itself holds them off. */
void c7x_tvm_end_section(void)
{
    const struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL || context->section_depth == 0)
        return;
    if (c7x_os_interrupts_depth() == 1)
        c7x_tvm_end_call(C7X_TVM_STUCK, NULL);
    c7x_tvm_region_end_tasks(context);
}

void c7x_tvm_resume(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context != NULL && context->end_point != NULL)
        c7x_tvm_activate(context);
}

/* ---- Memory ---- */

void c7x_tvm_record_oom(struct c7x_tvm_context *context, size_t size)
{
    if (context->out_of_memory)
        return;
    context->out_of_memory = true;
    context->oom = c7x_heap_oom(c7x_tvm.heap, size);
}

static void *alloc_main(struct c7x_tvm_context *context, uint32_t owner, size_t size,
                        size_t alignment)
{
    void *block = c7x_tvm.guard ? c7x_heap_alloc_guarded(c7x_tvm.heap, owner, size, alignment)
                                : c7x_heap_alloc(c7x_tvm.heap, owner, size, alignment);
    if (block == NULL)
        c7x_tvm_record_oom(context, size);
    return block;
}

/* The fast pool has no room for guards: what is asked of it comes from the heap then. */
void *c7x_tvm_alloc(size_t size, size_t alignment, int pool)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    void *block = NULL;
    if (context == NULL)
        return NULL;
    c7x_tvm_export_enter();
    if (pool == TVMDSP_POOL_MAIN || c7x_tvm.guard) {
        block = alloc_main(context, context->owner, size, alignment);
    } else if (c7x_tvm.fast_heap != NULL) {
        block = c7x_heap_alloc(c7x_tvm.fast_heap, context->fast_owner, size, alignment);
    }
    c7x_tvm_export_leave();
    return block;
}

void *c7x_tvm_alloc_workspace(size_t size)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    void *block;
    if (context == NULL)
        return NULL;
    c7x_tvm_export_enter();
    block = c7x_tvm_workspace_alloc(context->workspace, size);
    if (block == NULL) {
        block = alloc_main(context, context->workspace_owner, size, 0);
        context->has_workspace_blocks |= block != NULL;
        if (block != NULL)
            c7x_tvm_workspace_want(context->workspace, size);
    }
    c7x_tvm_export_leave();
    return block;
}

/* The heap looks for the blocks of an owner among those of many: not for a call that has none. */
void c7x_tvm_free_workspace_blocks(struct c7x_tvm_context *context)
{
    if (!context->has_workspace_blocks)
        return;
    (void)c7x_heap_free_owner(c7x_tvm.heap, context->workspace_owner);
    context->has_workspace_blocks = false;
}

/* A module that frees what it has freed before may name a block that is another's by now. */
static bool may_free(const struct c7x_tvm_context *context, const struct c7x_heap *heap,
                     const void *block)
{
    uint32_t owner;
    if (context == NULL)
        return true;
    if (!c7x_heap_find_owner(heap, block, &owner))
        return false;
    return heap == c7x_tvm.fast_heap ? owner == context->fast_owner
                                     : owner == context->owner || owner == context->workspace_owner;
}

void c7x_tvm_free(void *block)
{
    struct c7x_heap *heap = c7x_tvm.heap;
    if (c7x_tvm.fast_heap != NULL && c7x_heap_contains(c7x_tvm.fast_heap, block))
        heap = c7x_tvm.fast_heap;
    struct c7x_tvm_context *context = c7x_tvm_context();
    c7x_tvm_export_enter();
    if ((context == NULL || !c7x_tvm_workspace_free(context->workspace, block)) &&
        may_free(context, heap, block))
        c7x_heap_free(heap, block);
    c7x_tvm_export_leave();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/tvm.h"

#include "firmware/printf/printf.h"
#include "firmware/tvm/platform.h"
#include "firmware/tvm/tvm_impl.h"

struct c7x_tvm_config c7x_tvm;
struct c7x_os_mutex c7x_tvm_models_lock;

static _Thread_local struct c7x_tvm_context *current;

void c7x_tvm_init(const struct c7x_tvm_config *config)
{
    static bool has_lock; /* it is never taken down: models live as long as the core */
    c7x_tvm = *config;
    if (!has_lock && c7x_os_mutex_init(&c7x_tvm_models_lock) != C7X_OK)
        c7x_os_panic("tvm: no mutex");
    has_lock = true;
    g_l2_mem_addr = config->l2;
    g_l2_mem_size = config->l2_size;
}

struct c7x_tvm_context *c7x_tvm_context(void)
{
    return current;
}

void c7x_tvm_context_set(struct c7x_tvm_context *context)
{
    current = context;
}

int32_t c7x_tvm_section_enter(void)
{
    if (current == NULL)
        return 0;
    if (current->section_depth == 0 && c7x_tvm.section_begin != NULL)
        c7x_tvm.section_begin();
    return current->section_depth++;
}

/* A depth that is not below the present one restores nothing. */
void c7x_tvm_section_leave(int32_t depth)
{
    if (current == NULL || depth < 0 || depth >= current->section_depth)
        return;
    current->section_depth = depth;
    if (depth == 0 && c7x_tvm.section_end != NULL)
        c7x_tvm.section_end();
}

void c7x_tvm_abandon_call(void)
{
    c7x_tvm_section_leave(0);
    c7x_printf_select(NULL);
    current = NULL;
}

static void record_oom(size_t size)
{
    if (current->out_of_memory)
        return;
    current->out_of_memory = true;
    current->oom = c7x_heap_oom(c7x_tvm.heap, size);
}

void *c7x_tvm_alloc(size_t size, size_t alignment, int pool)
{
    void *block = NULL;
    int32_t depth;
    if (current == NULL)
        return NULL;
    depth = c7x_tvm_section_enter();
    if (pool == TVMDSP_POOL_MAIN) {
        block = c7x_heap_alloc(c7x_tvm.heap, current->owner, size, alignment);
        if (block == NULL)
            record_oom(size);
    } else if (c7x_tvm.fast_heap != NULL) {
        block = c7x_heap_alloc(c7x_tvm.fast_heap, current->fast_owner, size, alignment);
    }
    c7x_tvm_section_leave(depth);
    return block;
}

void *c7x_tvm_alloc_workspace(size_t size)
{
    if (current == NULL)
        return NULL;
    int32_t depth = c7x_tvm_section_enter();
    void *block = c7x_heap_alloc(c7x_tvm.heap, current->workspace_owner, size, 0);
    if (block == NULL)
        record_oom(size);
    c7x_tvm_section_leave(depth);
    return block;
}

void c7x_tvm_free(void *block)
{
    int32_t depth = c7x_tvm_section_enter();
    if (c7x_tvm.fast_heap != NULL && c7x_heap_contains(c7x_tvm.fast_heap, block))
        c7x_heap_free(c7x_tvm.fast_heap, block);
    else
        c7x_heap_free(c7x_tvm.heap, block);
    c7x_tvm_section_leave(depth);
}

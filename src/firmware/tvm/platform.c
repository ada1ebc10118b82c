/* SPDX-License-Identifier: Apache-2.0 */
/* What modules import of the platform: memory, L2, cache, DMA, constants, log, critical sections, C
 * library memory. */
#include "firmware/tvm/platform.h"

#include "base/checked.h"
#include "base/log.h"
#include "firmware/printf/printf.h"
#include "firmware/tvm/tvm_impl.h"
#include "os/os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MALLOC_ALIGNMENT 16u

/* ---- Memory ---- */

void *tvm_dsp_alloc(size_t size, size_t alignment, int pool)
{
    while (alignment != 0 && !c7x_is_power_of_two(alignment))
        alignment += alignment & (~alignment + 1); /* rounds up to the next power of two */
    return c7x_tvm_alloc(size, alignment, pool);
}

void tvm_dsp_free(void *block)
{
    c7x_tvm_free(block);
}

size_t tvm_dsp_get_free_memory(int pool)
{
    struct c7x_heap_statistics statistics = {0};
    const struct c7x_heap *heap = pool == TVMDSP_POOL_MAIN ? c7x_tvm.heap : c7x_tvm.fast_heap;
    if (heap != NULL)
        c7x_heap_get_statistics(heap, &statistics);
    return (size_t)statistics.free;
}

void *c7x_module_malloc(size_t size)
{
    return c7x_tvm_alloc(size, MALLOC_ALIGNMENT, TVMDSP_POOL_MAIN);
}

void *c7x_module_calloc(size_t count, size_t size)
{
    uint64_t bytes;
    void *block;
    if (!c7x_mul_size(count, size, &bytes))
        return NULL;
    block = c7x_module_malloc((size_t)bytes);
    if (block != NULL)
        memset(block, 0, (size_t)bytes);
    return block;
}

void *c7x_module_memalign(size_t alignment, size_t size)
{
    return tvm_dsp_alloc(size, alignment, TVMDSP_POOL_MAIN);
}

void c7x_module_free(void *block)
{
    c7x_tvm_free(block);
}

/* Leaves the call, if there is one to leave; the runner reports it. */
void c7x_module_abort(void)
{
    c7x_tvm_end_call(C7X_TVM_ABORTED, NULL);
    c7x_os_end_try("abort");
    c7x_os_panic("a module called abort outside a call");
}

int c7x_module_vsnprintf(char *text, size_t size, const char *format, va_list arguments)
{
    int length;
    c7x_os_interrupts_off(); /* the C library may hold locks of its own */
    length = vsnprintf(text, size, format, arguments);
    c7x_os_interrupts_on();
    return length;
}

int c7x_module_snprintf(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = c7x_module_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}

/* printf writes through, so there is nothing to flush. */
int c7x_module_fflush(void *stream)
{
    (void)stream;
    return 0;
}

/* A module that has not declared how much it uses may use all of it. */
uint8_t *tvm_dsp_get_l2_base(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context != NULL && !c7x_tvm_reserve_scratch(context, c7x_tvm.l2_size))
        return NULL;
    return c7x_tvm.l2;
}

uint32_t tvm_dsp_get_l2_size(void)
{
    return c7x_tvm.l2_size;
}

/* ---- What TIDL's glue expects ---- */

void *g_l1_mem_addr;
uint32_t g_l1_mem_size;
void *g_l2_mem_addr;
uint32_t g_l2_mem_size;
void *g_l3_mem_addr;
uint32_t g_l3_mem_size;

void *appMemAlloc(uint32_t heap_id, uint32_t size, uint32_t alignment)
{
    void *block = tvm_dsp_alloc(size, alignment, TVMDSP_POOL_MAIN);
    (void)heap_id;
    if (block != NULL)
        memset(block, 0, size);
    return block;
}

int32_t appMemFree(uint32_t heap_id, void *block, uint32_t size)
{
    (void)heap_id;
    (void)size;
    c7x_tvm_free(block);
    return 0;
}

/* ---- Cache ---- */

void tvm_dsp_cache_writeback(void *address, size_t size)
{
    c7x_os_cache_writeback(address, size);
}

void tvm_dsp_cache_invalidate(void *address, size_t size)
{
    c7x_os_cache_invalidate(address, size);
}

void tvm_dsp_cache_writeback_invalidate(void *address, size_t size)
{
    c7x_os_cache_writeback(address, size);
    c7x_os_cache_invalidate(address, size);
}

void CacheP_inv(void *address, uint32_t size, uint32_t type)
{
    (void)type;
    c7x_os_cache_invalidate(address, size);
}

void CacheP_wb(void *address, uint32_t size, uint32_t type)
{
    (void)type;
    c7x_os_cache_writeback(address, size);
}

void CacheP_wbInv(void *address, uint32_t size, uint32_t type)
{
    (void)type;
    tvm_dsp_cache_writeback_invalidate(address, size);
}

/* The whole cache: all that a module can have written lies in the heap, and nobody else reads that.
 */
void TVM_cacheWbInv(void)
{
}

int32_t TVM_cacheWbInvRegion(void *address, uint32_t size)
{
    tvm_dsp_cache_writeback_invalidate(address, size);
    return 0;
}

/* ---- DMA: done when the call returns ---- */

int tvm_dsp_dma_copy(int queue, void *destination, const void *source, int size, int bypass_cache)
{
    (void)queue;
    (void)bypass_cache;
    if (size < 0)
        return -1;
    if (size != 0)
        memcpy(destination, source, (size_t)size);
    return 0;
}

int tvm_dsp_dma_wait(int queue, int max_inflight)
{
    (void)queue;
    (void)max_inflight;
    return 0;
}

/* ---- Constants ---- */

TVMFFIAny *TVMDSPGetConstant(int index)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL || index < 0 || index >= context->constant_count)
        return NULL;
    return &context->constants[index];
}

TVMFFIAny *TVMDSPGetAllConstants(int *out_count)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (out_count != NULL)
        *out_count = context == NULL ? 0 : context->constant_count;
    return context == NULL ? NULL : context->constants;
}

/* ---- Log ---- */

/* Again, for the compiler's check of formats, which c7x_module.h cannot ask every compiler for. */
void tvm_dsp_log(const char *format, ...) C7X_PRINTF(1, 2);
void DebugP_log(const char *format, ...) C7X_PRINTF(1, 2);

/* To the client, as printf. */
void tvm_dsp_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)c7x_shm_vprintf(format, arguments);
    va_end(arguments);
}

/* To the firmware's log. */
void DebugP_log(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    c7x_os_interrupts_off(); /* the C library may hold locks of its own */
    (void)vsnprintf(line, sizeof(line), format, arguments);
    c7x_os_interrupts_on();
    va_end(arguments);
    dsp_trace_msg(line);
}

void dsp_trace_msg(const char *text)
{
    c7x_tvm_export_enter();
    c7x_log("module", "%.*s", (int)strcspn(text, "\n"), text);
    c7x_tvm_export_leave();
}

/* ---- Critical sections ---- */

int32_t TVM_lockInterrupts(void)
{
    return c7x_tvm_section_enter();
}

void TVM_unlockInterrupts(int32_t cookie)
{
    c7x_tvm_section_leave(cookie);
}

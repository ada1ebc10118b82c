/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands behind names of the C library that modules import, where libc's own must not: module
 * memory belongs to the instance, and abort ends the call, not the firmware. The other imports have
 * their prototypes in c7x_module.h.
 */
#ifndef C7X_FIRMWARE_TVM_PLATFORM_H
#define C7X_FIRMWARE_TVM_PLATFORM_H

#include "base/compiler.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

void *c7x_module_malloc(size_t size);
void *c7x_module_calloc(size_t count, size_t size);
void *c7x_module_memalign(size_t alignment, size_t size);
void c7x_module_free(void *block);
_Noreturn void c7x_module_abort(void);
int c7x_module_fflush(void *stream);
int c7x_module_snprintf(char *text, size_t size, const char *format, ...) C7X_PRINTF(3, 4);
int c7x_module_vsnprintf(char *text, size_t size, const char *format, va_list arguments)
    C7X_PRINTF(3, 0);

/* Of TIDL's glue. Only the L2 scratch exists for it here; the other two memories have size 0. */
extern void *g_l1_mem_addr;
extern uint32_t g_l1_mem_size;
extern void *g_l2_mem_addr;
extern uint32_t g_l2_mem_size;
extern void *g_l3_mem_addr;
extern uint32_t g_l3_mem_size;
/* Zeroed. */
void *appMemAlloc(uint32_t heap_id, uint32_t size, uint32_t alignment);
int32_t appMemFree(uint32_t heap_id, void *block, uint32_t size);

#endif

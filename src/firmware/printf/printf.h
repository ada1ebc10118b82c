/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printf of modules into shared memory. The buffer (spec, "Shared Memory Printf"): u32 magic
 * 0x50524E54, u32 bytes written, u32 text bytes that fit (size - 16), u32 bytes lost, text.
 *
 * A job that may print selects its client's buffer before the call and takes the byte count after
 * it. The selection belongs to the task, so a job that is pre-empted keeps its own; several tasks
 * may select one buffer. The host may write anything into the buffer at any time: nothing is ever
 * read back from it.
 */
#ifndef C7X_FIRMWARE_PRINTF_PRINTF_H
#define C7X_FIRMWARE_PRINTF_PRINTF_H

#include "base/compiler.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define C7X_PRINTF_MAGIC 0x50524E54u
#define C7X_PRINTF_HEADER_BYTES 16u

/* One client's buffer. Zeroed: no buffer, text is dropped. */
struct c7x_printf {
    uint8_t *buffer; /* shared with the host: written only, never read back */
    uint32_t text_size;
    uint32_t written;
    uint32_t lost;
    atomic_bool is_locked; /* the tasks of a parallel region print into one buffer */
};

/* Binds to a buffer of more than C7X_PRINTF_HEADER_BYTES and writes its header. */
void c7x_printf_bind(struct c7x_printf *self, void *buffer, size_t size);
/* Starts a request: nothing written, nothing lost. */
void c7x_printf_reset(struct c7x_printf *self);
/* Ends a request: writes the header back to memory and returns the bytes of text. */
uint32_t c7x_printf_finish(struct c7x_printf *self);

/* Whose text the functions below write, from this task; NULL: dropped (they return -1). */
void c7x_printf_select(struct c7x_printf *self);
struct c7x_printf *c7x_printf_selected(void);

/* What modules import as printf, vprintf, puts and fputs. Text that does not fit is cut and counted
 * as lost. */
int c7x_shm_printf(const char *format, ...) C7X_PRINTF(1, 2);
int c7x_shm_vprintf(const char *format, va_list arguments) C7X_PRINTF(1, 0);
int c7x_shm_puts(const char *text);
int c7x_shm_fputs(const char *text, void *stream);

#endif

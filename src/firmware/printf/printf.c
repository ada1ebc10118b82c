/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/printf/printf.h"

#include "base/pause.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

/* Text of one call up to this length keeps every byte that fits; longer text is formatted in place.
 */
#define SCRATCH_BYTES 512

static void put_word(struct c7x_printf *self, size_t offset, uint32_t value)
{
    memcpy(self->buffer + offset, &value, sizeof(value));
}

/* All four words, since the host may have spoilt any of them. */
static void write_header(struct c7x_printf *self)
{
    put_word(self, 0, C7X_PRINTF_MAGIC);
    put_word(self, 4, self->written);
    put_word(self, 8, self->text_size);
    put_word(self, 12, self->lost);
}

void c7x_printf_bind(struct c7x_printf *self, void *buffer, size_t size)
{
    uint64_t text_size = size - C7X_PRINTF_HEADER_BYTES;
    *self = (struct c7x_printf){.buffer = buffer};
    self->text_size = text_size > UINT32_MAX ? UINT32_MAX : (uint32_t)text_size;
    write_header(self);
    c7x_os_cache_writeback(self->buffer, C7X_PRINTF_HEADER_BYTES);
}

void c7x_printf_reset(struct c7x_printf *self)
{
    self->written = 0;
    self->lost = 0;
    if (self->buffer != NULL)
        write_header(self);
}

uint32_t c7x_printf_finish(struct c7x_printf *self)
{
    if (self->buffer == NULL)
        return 0;
    write_header(self);
    c7x_os_cache_writeback(self->buffer, (size_t)C7X_PRINTF_HEADER_BYTES + self->written);
    return self->written;
}

void c7x_printf_select(struct c7x_printf *self)
{
    c7x_os_set_local(C7X_OS_LOCAL_PRINTF, self);
}

struct c7x_printf *c7x_printf_selected(void)
{
    return c7x_os_local(C7X_OS_LOCAL_PRINTF);
}

/* NULL: there is none, or it has no buffer. */
static struct c7x_printf *selected(void)
{
    struct c7x_printf *self = c7x_printf_selected();
    return self != NULL && self->buffer != NULL ? self : NULL;
}

/* Nothing ends who holds it: interrupts are off, and what the module gave has been read before. */
static void lock(struct c7x_printf *self)
{
    c7x_os_interrupts_off();
    while (atomic_exchange_explicit(&self->is_locked, true, memory_order_acquire))
        c7x_pause();
}

static void unlock(struct c7x_printf *self)
{
    atomic_store_explicit(&self->is_locked, false, memory_order_release);
    c7x_os_interrupts_on();
}

static uint32_t room_of(const struct c7x_printf *self)
{
    return self->text_size - self->written;
}

static void count_lost(struct c7x_printf *self, size_t count)
{
    self->lost = count > UINT32_MAX - self->lost ? UINT32_MAX : self->lost + (uint32_t)count;
}

static void append(struct c7x_printf *self, const char *text, size_t length)
{
    size_t fits = length < room_of(self) ? length : room_of(self);
    if (fits != 0)
        memcpy(self->buffer + C7X_PRINTF_HEADER_BYTES + self->written, text, fits);
    self->written += (uint32_t)fits;
    count_lost(self, length - fits);
}

static void append_in_place(struct c7x_printf *self, size_t length, const char *format,
                            va_list arguments) C7X_PRINTF(3, 0);

/* Text too long for the scratch: the terminating NUL takes one byte of the room. */
static void append_in_place(struct c7x_printf *self, size_t length, const char *format,
                            va_list arguments)
{
    size_t room = room_of(self);
    size_t fits = 0;
    if (room > 1) {
        fits = length < room - 1 ? length : room - 1;
        (void)vsnprintf((char *)self->buffer + C7X_PRINTF_HEADER_BYTES + self->written, room,
                        format, arguments);
    }
    self->written += (uint32_t)fits;
    count_lost(self, length - fits);
}

int c7x_shm_vprintf(const char *format, va_list arguments)
{
    struct c7x_printf *self = selected();
    char scratch[SCRATCH_BYTES];
    va_list again;
    int length;
    if (self == NULL)
        return -1;
    c7x_os_interrupts_off(); /* the C library may hold locks of its own */
    va_copy(again, arguments);
    length = vsnprintf(scratch, sizeof(scratch), format, arguments);
    lock(self);
    if (length >= 0 && (size_t)length < sizeof(scratch))
        append(self, scratch, (size_t)length);
    else if (length >= 0)
        append_in_place(self, (size_t)length, format, again);
    unlock(self);
    va_end(again);
    c7x_os_interrupts_on();
    return length;
}

int c7x_shm_printf(const char *format, ...)
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = c7x_shm_vprintf(format, arguments);
    va_end(arguments);
    return length;
}

int c7x_shm_puts(const char *text)
{
    struct c7x_printf *self = selected();
    if (self == NULL)
        return -1;
    size_t length = strlen(text);
    lock(self);
    append(self, text, length);
    append(self, "\n", 1);
    unlock(self);
    return 0;
}

int c7x_shm_fputs(const char *text, void *stream)
{
    struct c7x_printf *self = selected();
    (void)stream;
    if (self == NULL)
        return -1;
    size_t length = strlen(text);
    lock(self);
    append(self, text, length);
    unlock(self);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/memory/memory.h"

#include "os/os.h"

#include <string.h>

/* Takes far less than a millisecond, also when the pages are touched for the first time. */
#define STEP_BYTES ((size_t)64 << 10)

#include "base/checked.h"

void *c7x_memory_pointer(const struct c7x_memory *memory, c7x_dsp_addr address, uint64_t size)
{
    for (size_t i = 0; i < memory->window_count; i++) {
        const struct c7x_memory_window *window = &memory->windows[i];
        if (address < window->base + window->size &&
            c7x_range_inside(address, size, window->base, window->size))
            return window->pointer + (address - window->base);
    }
    return NULL;
}

c7x_dsp_addr c7x_memory_address(const struct c7x_memory *memory, const void *pointer)
{
    uintptr_t value = (uintptr_t)pointer;
    for (size_t i = 0; i < memory->window_count; i++) {
        const struct c7x_memory_window *window = &memory->windows[i];
        uintptr_t start = (uintptr_t)window->pointer;
        if (value >= start && value - start < window->size)
            return window->base + (value - start);
    }
    return 0;
}

static size_t step_of(uint64_t size)
{
    return size < STEP_BYTES ? (size_t)size : STEP_BYTES;
}

void c7x_memory_copy(void *to, const void *from, uint64_t size)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    for (uint64_t at = 0; at < size; at += STEP_BYTES) {
        memcpy(target + at, source + at, step_of(size - at));
        c7x_os_interrupt_point();
    }
}

void c7x_memory_zero(void *to, uint64_t size)
{
    uint8_t *target = to;
    for (uint64_t at = 0; at < size; at += STEP_BYTES) {
        memset(target + at, 0, step_of(size - at));
        c7x_os_interrupt_point();
    }
}

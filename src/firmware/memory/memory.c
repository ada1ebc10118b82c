/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/memory/memory.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DSP's memory map: the only place where a DSP address becomes a pointer. On the board that is
 * the identity; in the emulator each region is a window somewhere in the core's address space.
 * Regions: docs/protocol.md, "Memory".
 */
#ifndef C7X_FIRMWARE_MEMORY_MEMORY_H
#define C7X_FIRMWARE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address as the DSP sees it. Never cast to a pointer outside this folder. */
typedef uint64_t c7x_dsp_addr;

#define C7X_MEMORY_L2_BASE                                                                         \
    0x7E000000ULL /* scratch of modules during a call; nothing else may live here */
#define C7X_MEMORY_L2_SIZE 0x00140000ULL
#define C7X_MEMORY_FAST_BASE 0x7F000000ULL
#define C7X_MEMORY_FAST_SIZE 0x00020000ULL /* fast pool; the region's rest belongs to TIDL */
#define C7X_MEMORY_CARVEOUT_BASE 0xC0000000ULL
#define C7X_MEMORY_CARVEOUT_SIZE 0x20000000ULL
#define C7X_MEMORY_HEAP_BASE 0x102000000ULL
#define C7X_MEMORY_HEAP_SIZE 0x16000000ULL

struct c7x_memory_window {
    c7x_dsp_addr base;
    uint64_t size;
    uint8_t *pointer; /* where the core sees it */
};

#define C7X_MEMORY_WINDOWS_MAX 8

struct c7x_memory;

typedef void (*c7x_memory_visit_fn)(void *context, c7x_dsp_addr address, uint64_t size,
                                    uint32_t endpoint);

/* What the port knows about shared buffers. All mandatory; called from any task. */
struct c7x_memory_ops {
    /* Whether all of the range lies in one buffer that `endpoint` has attached; a board cannot know
     * and says yes. */
    bool (*owns)(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size);
    /* The same, and the mapping stays until unpin even if the endpoint detaches the buffer or goes
     * away, where `outlives_endpoints`. */
    bool (*pin)(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size);
    void (*unpin)(struct c7x_memory *memory, c7x_dsp_addr address);
    /* Shows all shared buffers that are attached, or still used, by address and as of one moment.
     * `visit` must not call the port. A board knows none. */
    void (*visit_buffers)(struct c7x_memory *memory, c7x_memory_visit_fn visit, void *context);
    bool outlives_endpoints; /* on a board the system takes a dead client's buffers */
};

struct c7x_memory {
    const struct c7x_memory_ops *ops;
    struct c7x_memory_window windows[C7X_MEMORY_WINDOWS_MAX];
    size_t window_count;
};

/* The pointer for a range that lies wholly in one window, else NULL. The range must be owned or
 * pinned. */
void *c7x_memory_pointer(const struct c7x_memory *memory, c7x_dsp_addr address, uint64_t size);
/* The DSP address of a pointer into a window, else 0. */
c7x_dsp_addr c7x_memory_address(const struct c7x_memory *memory, const void *pointer);

/* memcpy and memset of any size by a job with interrupts off: others of more urgent targets go
 * first every now and then (c7x_os_interrupt_point()). */
void c7x_memory_copy(void *to, const void *from, uint64_t size);
void c7x_memory_zero(void *to, uint64_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict caches: host and DSP each see a copy of their own of every shared buffer, with the DDR
 * between them, and bytes move only where a program syncs. What a forgotten or swapped sync does on
 * a board, where now and then a line is evicted just in time, happens here every time.
 *
 *   host view  --sync_to_device-->   DDR  --invalidate-->  DSP view
 *   host view  <--sync_from_device-- DDR  <--writeback---  DSP view
 *
 * A buffer's memory file holds the host view and then the DDR; the DSP view is the core's own.
 */
#ifndef C7X_TRANSPORT_EMULATOR_STRICT_H
#define C7X_TRANSPORT_EMULATOR_STRICT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define C7X_STRICT_HOST_LINE 64u
#define C7X_STRICT_DSP_LINE 128u

/* Bytes of the memory file of a buffer of `size` bytes. */
static inline uint64_t c7x_strict_file_size(uint64_t size)
{
    return 2 * size;
}

/* ---- The core's side; any task ---- */

/* Makes the cache operations of os/ work on strict buffers from now on. */
void c7x_strict_install(void);
/* Maps a buffer: the DSP view at `view`, where memory is reserved. C7X_NOMEM. */
enum c7x_status c7x_strict_add(int memory, uint64_t dsp_address, uint8_t *view,
                               uint64_t size) C7X_NODISCARD;
/* Takes the hidden mappings down; the view is the caller's. */
void c7x_strict_remove(const uint8_t *view);

/* ---- The host's side ---- */

/* Copies whole lines of that part of a buffer, whose mapping is `file_size` bytes, between its
 * halves. */
void c7x_strict_host_to_ddr(uint8_t *host_view, uint64_t buffer_size, size_t offset, size_t size);
void c7x_strict_ddr_to_host(uint8_t *host_view, uint64_t buffer_size, size_t offset, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The printed text of a 3.1 session: a ring of records in shared memory (struct c7x_printf_ring),
 * which host and DSP use at the same time. What the DSP has written it remembers itself; of the
 * host's word it believes only what can be true.
 */
#ifndef C7X_FIRMWARE_PRINTF_RING_H
#define C7X_FIRMWARE_PRINTF_RING_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: no ring, text is dropped. */
struct c7x_printf_ring_writer {
    uint8_t *buffer; /* a multiple of 128; shared with the host */
    uint32_t size;   /* of the records' space: a power of two */
    uint32_t written;
    uint32_t lost; /* bytes of text since the last record */
};

/* Binds to a buffer of at least C7X_WIRE_PRINTF_RING_MIN bytes and writes its header. */
void c7x_printf_ring_bind(struct c7x_printf_ring_writer *self, void *buffer, size_t size);
/*
 * Appends what request `seq` printed: `bytes` of text, of which `lost` more had no room before.
 * Text that does not fit is cut, and without room for any it is counted into the next record.
 * Returns the bytes of text that went in.
 */
uint32_t c7x_printf_ring_append(struct c7x_printf_ring_writer *self, uint32_t seq,
                                const uint8_t *text, uint32_t bytes, uint32_t lost);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/printf/ring.h"

#include "base/checked.h"
#include "c7x_compute_protocol.h"
#include "os/os.h"

#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct c7x_printf_ring))
#define RECORD_BYTES ((uint32_t)sizeof(struct c7x_printf_record))
#define STEP 8u

static uint32_t *word_at(const struct c7x_printf_ring_writer *self, size_t offset)
{
    return (uint32_t *)(void *)(self->buffer + offset);
}

void c7x_printf_ring_bind(struct c7x_printf_ring_writer *self, void *buffer, size_t size)
{
    uint64_t room = size - HEADER_BYTES;
    uint32_t power = 1u << 31;
    while (power > room)
        power >>= 1;
    *self = (struct c7x_printf_ring_writer){.buffer = buffer, .size = power};
    const struct c7x_printf_ring header = {.magic = wire_u32_put(C7X_WIRE_PRINTF_RING_MAGIC),
                                           .size = wire_u32_put(power)};
    memcpy(buffer, &header, sizeof header);
    c7x_os_cache_writeback(buffer, HEADER_BYTES);
}

/* After the records, so that the host sees whole ones. */
static void publish(const struct c7x_printf_ring_writer *self)
{
    uint32_t *word = word_at(self, offsetof(struct c7x_printf_ring, written));
    __atomic_store_n(word, self->written, __ATOMIC_RELEASE);
    c7x_os_cache_writeback(word, sizeof *word);
}

/* Bytes that may be written; 0 also when the host's word cannot be true. */
static uint32_t room_of(const struct c7x_printf_ring_writer *self)
{
    uint32_t *word = word_at(self, offsetof(struct c7x_printf_ring, read));
    c7x_os_cache_invalidate(word, sizeof *word);
    uint32_t read = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    uint32_t used = self->written - read;
    return used > self->size || used % STEP != 0 ? 0 : self->size - used;
}

static void put(const struct c7x_printf_ring_writer *self, uint32_t position, const void *bytes,
                uint32_t count)
{
    uint32_t offset = position & (self->size - 1);
    uint32_t front = count < self->size - offset ? count : self->size - offset;
    uint8_t *space = self->buffer + HEADER_BYTES;
    memcpy(space + offset, bytes, front);
    memcpy(space, (const uint8_t *)bytes + front, count - front);
    c7x_os_cache_writeback(space + offset, front);
    c7x_os_cache_writeback(space, count - front);
}

static uint32_t add_saturated(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

uint32_t c7x_printf_ring_append(struct c7x_printf_ring_writer *self, uint32_t seq,
                                const uint8_t *text, uint32_t bytes, uint32_t lost)
{
    self->lost = add_saturated(self->lost, lost);
    if (self->buffer == NULL || bytes == 0)
        return 0;
    uint32_t room = room_of(self);
    if (room < RECORD_BYTES + STEP) {
        self->lost = add_saturated(self->lost, bytes);
        return 0;
    }
    uint32_t fits = bytes < room - RECORD_BYTES ? bytes : room - RECORD_BYTES;
    const struct c7x_printf_record record = {
        .seq = wire_u32_put(seq),
        .bytes = wire_u32_put(fits),
        .lost = wire_u32_put(add_saturated(self->lost, bytes - fits)),
    };
    put(self, self->written, &record, RECORD_BYTES);
    put(self, self->written + RECORD_BYTES, text, fits);
    self->written += RECORD_BYTES + (uint32_t)c7x_round_up(fits, STEP);
    self->lost = 0;
    publish(self);
    return fits;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic on sizes and offsets that come from outside. Each returns false, and leaves *out
 * alone, on overflow. */
#ifndef C7X_BASE_CHECKED_H
#define C7X_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool c7x_add_size(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b)
        return false;
    *out = a + b;
    return true;
}

static inline bool c7x_mul_size(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b)
        return false;
    *out = a * b;
    return true;
}

/* Rounds up to a power of two. */
static inline bool c7x_align_size(uint64_t value, uint64_t alignment, uint64_t *out)
{
    uint64_t sum;
    if (!c7x_add_size(value, alignment - 1, &sum))
        return false;
    *out = sum & ~(alignment - 1);
    return true;
}

/* Whether [offset, offset + size) lies in [base, base + limit); an empty range must start inside or
 * at the end. */
static inline bool c7x_range_inside(uint64_t offset, uint64_t size, uint64_t base, uint64_t limit)
{
    return offset >= base && offset - base <= limit && size <= limit - (offset - base);
}

/* Whether two ranges that do not pass the end of the number space have a byte in common. */
static inline bool c7x_ranges_overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

static inline bool c7x_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Rounds up to a power of two a value that is known to be far from overflow. */
static inline uint64_t c7x_round_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

#endif

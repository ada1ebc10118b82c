/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-ins for MMALIB share: from an exact sum to an output element. */
#ifndef C7X_FIRMWARE_KERNELS_MMALIB_IMPL_H
#define C7X_FIRMWARE_KERNELS_MMALIB_IMPL_H

#include "firmware/kernels/kernels_impl.h"

#include <string.h>

#define C7X_MMALIB_ALIGNMENT 64
/* Of int8 products of at most 2^14 each, so that their sum stays below 2^31. */
#define C7X_MMALIB_I8_PRODUCTS_MAX 131071

enum c7x_mmalib_element { C7X_MMALIB_I8 = 1, C7X_MMALIB_I16 = 2 }; /* the value: its bytes */

/* Of each output channel; NULL: bias 0, scale 1, shift 0. bias has four times the element's bytes,
 * and may stand at any address: weights.bin aligns data to 4. */
struct c7x_requantizer {
    const void *bias;
    const uint8_t *scale;
    const uint8_t *shift;
    enum c7x_mmalib_element element;
};

static inline bool c7x_is_aligned(const void *data)
{
    return data != NULL && (uintptr_t)data % C7X_MMALIB_ALIGNMENT == 0;
}

static inline bool c7x_shifts_are_good(const struct c7x_requantizer *r, int64_t first,
                                       int64_t count)
{
    for (int64_t i = 0; i < count && r->shift != NULL; i++) {
        if (r->shift[first + i] > 62)
            return false;
    }
    return true;
}

static inline int64_t c7x_add_saturated(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b)
        return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b)
        return INT64_MIN;
    return a + b;
}

static inline int64_t c7x_scale_saturated(int64_t value, uint8_t scale)
{
    if (scale != 0 && value > INT64_MAX / scale)
        return INT64_MAX;
    if (scale != 0 && value < INT64_MIN / scale)
        return INT64_MIN;
    return value * scale;
}

/* To nearest, halves up. */
static inline int64_t c7x_shift_rounded(int64_t value, int shift)
{
    return shift == 0 ? value : (value >> shift) + ((value >> (shift - 1)) & 1);
}

static inline int64_t c7x_bias_of(const struct c7x_requantizer *r, int64_t channel)
{
    int32_t narrow;
    int64_t wide;
    if (r->bias == NULL)
        return 0;
    if (r->element == C7X_MMALIB_I8) {
        memcpy(&narrow, (const uint8_t *)r->bias + 4 * channel, sizeof(narrow));
        return narrow;
    }
    memcpy(&wide, (const uint8_t *)r->bias + 8 * channel, sizeof(wide));
    return wide;
}

/* Writes n elements of one output channel. */
static inline void c7x_requantize(const struct c7x_requantizer *r, int64_t channel,
                                  const int64_t *sums, int64_t n, void *out)
{
    int64_t bias = c7x_bias_of(r, channel);
    uint8_t scale = r->scale == NULL ? 1 : r->scale[channel];
    int shift = r->shift == NULL ? 0 : r->shift[channel];
    for (int64_t i = 0; i < n; i++) {
        int64_t scaled = c7x_scale_saturated(c7x_add_saturated(sums[i], bias), scale);
        int64_t value = c7x_shift_rounded(scaled, shift);
        if (r->element == C7X_MMALIB_I8)
            ((int8_t *)out)[i] = (int8_t)c7x_clamp(value, INT8_MIN, INT8_MAX);
        else
            ((int16_t *)out)[i] = (int16_t)c7x_clamp(value, INT16_MIN, INT16_MAX);
    }
}

#endif

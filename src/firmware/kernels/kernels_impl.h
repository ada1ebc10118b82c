/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels share: checks of arguments, and int8 with a scale and a zero point. */
#ifndef C7X_FIRMWARE_KERNELS_KERNELS_IMPL_H
#define C7X_FIRMWARE_KERNELS_KERNELS_IMPL_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What every kernel answers to a bad argument. */
#define C7X_KERNEL_REFUSED (-1)

/* ---- Sizes ---- */

/* The product of the sizes; false if one is negative or 8-byte elements would not fit in memory. */
static inline bool c7x_volume(const int32_t *sizes, size_t count, int64_t *out)
{
    int64_t product = 1;
    bool fits = true;
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return false;
        if (sizes[i] == 0)
            product = 0;
        if (product > INT64_MAX / 8 / (sizes[i] == 0 ? 1 : sizes[i]))
            fits = false;
        else
            product *= sizes[i];
    }
    *out = product;
    return fits || product == 0;
}

/* C7X_VOLUME(&volume, channels, height, width) */
#define C7X_VOLUME(out, ...)                                                                       \
    c7x_volume((const int32_t[]){__VA_ARGS__},                                                     \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t), out)

/* ---- int8 with a scale and a zero point ---- */

struct c7x_quantization {
    float scale;
    int32_t zero;
};

static inline bool c7x_scale_is_good(float scale)
{
    return scale > 0.0f && scale <= FLT_MAX;
}

static inline bool c7x_quantization_is_good(struct c7x_quantization q)
{
    return c7x_scale_is_good(q.scale) && q.zero >= INT8_MIN && q.zero <= INT8_MAX;
}

static inline int64_t c7x_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static inline int32_t c7x_saturate_i8(int32_t value)
{
    return value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value;
}

/* To nearest, halves away from zero; NaN as 0, and beyond 256, which saturates with any zero point,
 * as 256. Without a call, so that a loop of it is vectorised. */
static inline int32_t c7x_round(float value)
{
    float known = value == value ? value : 0.0f;
    float above = known < -256.0f ? -256.0f : known;
    float inside = above > 256.0f ? 256.0f : above;
    int32_t whole = (int32_t)inside;
    float rest = inside - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

static inline float c7x_dequantize(int32_t x, struct c7x_quantization q)
{
    return (float)(x - q.zero) * q.scale;
}

static inline int8_t c7x_quantize(float y, struct c7x_quantization q)
{
    return (int8_t)c7x_saturate_i8(c7x_round(y / q.scale) + q.zero);
}

/* ---- Functions of one int8, as a table of all 256 values ---- */

typedef float (*c7x_unary_fn)(float);

static inline float c7x_identity(float x)
{
    return x;
}

static inline float c7x_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* 0, not NaN, at -infinity. */
static inline float c7x_silu(float x)
{
    float gate = c7x_sigmoid(x);
    return gate == 0.0f ? 0.0f : x * gate;
}

static inline void c7x_table_i8(int8_t table[256], c7x_unary_fn f, struct c7x_quantization in,
                                struct c7x_quantization out)
{
    for (int32_t x = INT8_MIN; x <= INT8_MAX; x++)
        table[(uint8_t)x] = c7x_quantize(f(c7x_dequantize(x, in)), out);
}

static inline void c7x_table_f32(float table[256], c7x_unary_fn f, struct c7x_quantization in)
{
    for (int32_t x = INT8_MIN; x <= INT8_MAX; x++)
        table[(uint8_t)x] = f(c7x_dequantize(x, in));
}

static inline void c7x_map_i8(const int8_t table[256], const int8_t *in, int8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = table[(uint8_t)in[i]];
}

static inline void c7x_map_f32(const float table[256], const int8_t *in, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = table[(uint8_t)in[i]];
}

#endif

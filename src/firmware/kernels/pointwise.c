/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose output element depends on the input elements of its own place. */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct c7x_residual_params) == 16, "modules have it as 16 bytes");

/* ---- Functions of one int8 ---- */

/* erfc(-t) is 1 + erf(t) without what cancels where t is far below 0. */
static float gelu(float x)
{
    return 0.5f * x * erfcf(x * -0.70710678f);
}

static float hardsigmoid(float x)
{
    float y = x / 6.0f + 0.5f;
    return y < 0.0f ? 0.0f : y > 1.0f ? 1.0f : y;
}

static float hardswish(float x)
{
    return x * hardsigmoid(x);
}

static int32_t apply(c7x_unary_fn f, const void *in, void *out, int32_t n,
                     struct c7x_quantization in_q, struct c7x_quantization out_q)
{
    int8_t table[256];
    if (in == NULL || out == NULL || n < 0 || !c7x_quantization_is_good(in_q) ||
        !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    c7x_table_i8(table, f, in_q, out_q);
    c7x_map_i8(table, in, out, n);
    return 0;
}

int32_t c7x_int8_gelu(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                      int32_t out_zero, float out_scale)
{
    return apply(gelu, in, out, n, (struct c7x_quantization){in_scale, in_zero},
                 (struct c7x_quantization){out_scale, out_zero});
}

int32_t c7x_int8_silu(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                      int32_t out_zero, float out_scale)
{
    return apply(c7x_silu, in, out, n, (struct c7x_quantization){in_scale, in_zero},
                 (struct c7x_quantization){out_scale, out_zero});
}

int32_t c7x_int8_hardsigmoid(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                             int32_t out_zero, float out_scale)
{
    return apply(hardsigmoid, in, out, n, (struct c7x_quantization){in_scale, in_zero},
                 (struct c7x_quantization){out_scale, out_zero});
}

int32_t c7x_int8_hardswish(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                           int32_t out_zero, float out_scale)
{
    return apply(hardswish, in, out, n, (struct c7x_quantization){in_scale, in_zero},
                 (struct c7x_quantization){out_scale, out_zero});
}

int32_t c7x_int8_rescale(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                         int32_t out_zero, float out_scale)
{
    return apply(c7x_identity, in, out, n, (struct c7x_quantization){in_scale, in_zero},
                 (struct c7x_quantization){out_scale, out_zero});
}

int32_t c7x_int8_silu_f32out(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale)
{
    const struct c7x_quantization q = {in_scale, in_zero};
    float table[256];
    if (in == NULL || out == NULL || n < 0 || !c7x_quantization_is_good(q))
        return C7X_KERNEL_REFUSED;
    c7x_table_f32(table, c7x_silu, q);
    c7x_map_f32(table, in, out, n);
    return 0;
}

/* ---- Limits ---- */

int32_t c7x_int8_relu(const void *in, void *out, int32_t n, int32_t low)
{
    return c7x_int8_clamp(in, out, n, low, low > INT8_MAX ? low : INT8_MAX);
}

int32_t c7x_int8_clamp(const void *in, void *out, int32_t n, int32_t low, int32_t high)
{
    const int8_t *x = in;
    int8_t *y = out;
    int8_t least = (int8_t)c7x_saturate_i8(low);
    int8_t most = (int8_t)c7x_saturate_i8(high);
    if (in == NULL || out == NULL || n < 0 || low > high)
        return C7X_KERNEL_REFUSED;
    for (int32_t i = 0; i < n; i++) {
        int8_t raised = x[i] < least ? least : x[i];
        y[i] = raised > most ? most : raised;
    }
    return 0;
}

int32_t c7x_int8_requantize_clamp(const void *in, void *out, int32_t n, float scale, int32_t low,
                                  int32_t high)
{
    int8_t table[256];
    if (in == NULL || out == NULL || n < 0 || low > high || !c7x_scale_is_good(scale))
        return C7X_KERNEL_REFUSED;
    for (int32_t x = INT8_MIN; x <= INT8_MAX; x++) {
        int32_t limited = (int32_t)c7x_clamp(c7x_round((float)x * scale), low, high);
        table[(uint8_t)x] = (int8_t)c7x_saturate_i8(limited);
    }
    c7x_map_i8(table, in, out, n);
    return 0;
}

/* ---- Two inputs ---- */

/* Reads the parameters; false if an argument is bad. */
static bool take_params(const void *in, const void *skip, const void *params, const void *out,
                        int32_t n, struct c7x_residual_params *taken)
{
    if (in == NULL || skip == NULL || params == NULL || out == NULL || n < 0)
        return false;
    memcpy(taken, params, sizeof(*taken));
    return taken->shift >= 0 && taken->shift <= 62;
}

/* At most 2 * 2^16 * 2^31 before the shift. */
static int64_t residual_sum(const struct c7x_residual_params *p, int32_t in, int32_t skip,
                            int32_t relu)
{
    int64_t sum = (int64_t)(in - p->in_zero) * p->in_multiplier +
                  (int64_t)(skip - p->skip_zero) * p->skip_multiplier;
    int64_t y = sum >> p->shift;
    return (relu != 0 && y < 0 ? 0 : y) + p->out_zero;
}

int32_t c7x_int8_residual_add_relu(const void *in, const void *skip, const void *params, void *out,
                                   int32_t n, int32_t relu)
{
    const int8_t *x = in;
    const int8_t *s = skip;
    int8_t *y = out;
    struct c7x_residual_params p;
    if (!take_params(in, skip, params, out, n, &p))
        return C7X_KERNEL_REFUSED;
    for (int32_t i = 0; i < n; i++)
        y[i] = (int8_t)c7x_clamp(residual_sum(&p, x[i], s[i], relu), INT8_MIN, INT8_MAX);
    return 0;
}

int32_t c7x_int16_residual_add_relu(const void *in, const void *skip, const void *params, void *out,
                                    int32_t n, int32_t relu)
{
    const int16_t *x = in;
    const int16_t *s = skip;
    int16_t *y = out;
    struct c7x_residual_params p;
    if (!take_params(in, skip, params, out, n, &p))
        return C7X_KERNEL_REFUSED;
    for (int32_t i = 0; i < n; i++)
        y[i] = (int16_t)c7x_clamp(residual_sum(&p, x[i], s[i], relu), INT16_MIN, INT16_MAX);
    return 0;
}

int32_t c7x_int8_channel_scale_multiply(const void *excitation, const void *feature, void *out,
                                        int32_t channels, int32_t area, float excitation_scale,
                                        int32_t excitation_zero, float feature_scale,
                                        int32_t feature_zero, float out_scale, int32_t out_zero)
{
    const struct c7x_quantization e_q = {excitation_scale, excitation_zero};
    const struct c7x_quantization f_q = {feature_scale, feature_zero};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    int64_t volume;
    if (excitation == NULL || feature == NULL || out == NULL ||
        !C7X_VOLUME(&volume, channels, area) || !c7x_quantization_is_good(e_q) ||
        !c7x_quantization_is_good(f_q) || !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    for (int64_t channel = 0; channel < channels; channel++) {
        const int8_t *x = (const int8_t *)feature + channel * area;
        int8_t *y = (int8_t *)out + channel * area;
        float gain = c7x_dequantize(((const int8_t *)excitation)[channel], e_q);
        for (int32_t i = 0; i < area; i++)
            y[i] = c7x_quantize(gain * c7x_dequantize(x[i], f_q), out_q);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that divide by a sum over a row. */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

/* What layer normalisation subtracts from an int8 and then multiplies it by. */
struct normaliser {
    double mean;
    double factor;
};

/* The sums over the integers are exact. double, since what lies close to the mean may count. */
static struct normaliser normaliser_of(const int8_t *x, int32_t n, float epsilon, float scale)
{
    int64_t sum = 0;
    int64_t squares = 0;
    double mean;
    double variance;
    for (int32_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    mean = (double)sum / n;
    variance = ((double)squares - (double)sum * mean) / n;
    if (variance <= 0.0)
        return (struct normaliser){mean, 0.0};
    variance *= (double)scale * (double)scale;
    return (struct normaliser){mean, (double)scale / sqrt(variance + (double)epsilon)};
}

int32_t c7x_int8_layer_norm(const void *in, const void *weight, const void *bias, void *out,
                            int32_t outer, int32_t norm, float epsilon, int32_t in_zero,
                            float in_scale, int32_t out_zero, float out_scale)
{
    const struct c7x_quantization in_q = {in_scale, in_zero};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    const float *w = weight;
    const float *b = bias;
    int64_t volume;
    if (in == NULL || weight == NULL || bias == NULL || out == NULL ||
        !C7X_VOLUME(&volume, outer, norm) || !(epsilon >= 0.0f && epsilon <= FLT_MAX) ||
        !c7x_quantization_is_good(in_q) || !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    if (volume == 0)
        return 0;
    for (int64_t row = 0; row < outer; row++) {
        const int8_t *x = (const int8_t *)in + row * norm;
        int8_t *y = (int8_t *)out + row * norm;
        /* The zero point is part of the mean. */
        struct normaliser by = normaliser_of(x, norm, epsilon, in_scale);
        for (int32_t i = 0; i < norm; i++)
            y[i] = c7x_quantize((float)((x[i] - by.mean) * by.factor) * w[i] + b[i], out_q);
    }
    return 0;
}

/* One softmax over elements `stride` apart; out elements are `out_stride` apart. decay[d] is
 * exp(-d * scale): the zero point falls out. */
static void softmax(const int8_t *x, int64_t stride, int8_t *y, int64_t out_stride, int32_t n,
                    const float decay[256], struct c7x_quantization out_q)
{
    int32_t most = INT8_MIN;
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        most = x[i * stride] > most ? x[i * stride] : most;
    for (int64_t i = 0; i < n; i++)
        sum += decay[most - x[i * stride]];
    for (int64_t i = 0; i < n; i++)
        y[i * out_stride] = c7x_quantize(decay[most - x[i * stride]] / sum, out_q);
}

int32_t c7x_int8_dfl_softmax(const void *in, void *out, int32_t batch, int32_t sides, int32_t bins,
                             int32_t anchors, int32_t in_zero, float in_scale, int32_t out_zero,
                             float out_scale)
{
    const struct c7x_quantization in_q = {in_scale, in_zero};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    float decay[256];
    int64_t volume;
    if (in == NULL || out == NULL || !C7X_VOLUME(&volume, batch, sides, bins, anchors) ||
        !c7x_quantization_is_good(in_q) || !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    if (volume == 0)
        return 0;
    for (int32_t d = 0; d < 256; d++)
        decay[d] = expf(-(float)d * in_scale);
    for (int64_t group = 0; group < (int64_t)batch * sides; group++) {
        int64_t item = group / sides;
        int64_t side = group % sides;
        const int8_t *x = (const int8_t *)in + group * bins * anchors;
        int8_t *y = (int8_t *)out + (item * bins * sides + side) * anchors;
        for (int64_t i = 0; i < anchors; i++)
            softmax(x + i, anchors, y + i, (int64_t)sides * anchors, bins, decay, out_q);
    }
    return 0;
}

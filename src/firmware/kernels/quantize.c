/* SPDX-License-Identifier: Apache-2.0 */
/* float32 to int8, at the border of a network. */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

int32_t c7x_int8_quantize(const void *in, void *out, int32_t n, float inverse_scale, int32_t zero)
{
    const float *x = in;
    int8_t *y = out;
    const struct c7x_quantization q = {inverse_scale, zero};
    if (in == NULL || out == NULL || n < 0 || !c7x_quantization_is_good(q))
        return C7X_KERNEL_REFUSED;
    for (int32_t i = 0; i < n; i++)
        y[i] = (int8_t)c7x_saturate_i8(c7x_round(x[i] * inverse_scale) + zero);
    return 0;
}

/* One channel: its offset stands inside the rounding. */
static void quantize_affine(const float *x, int8_t *y, int32_t n, float factor, float offset)
{
    for (int32_t i = 0; i < n; i++)
        y[i] = (int8_t)c7x_saturate_i8(c7x_round(x[i] * factor + offset));
}

int32_t c7x_int8_quantize_rgb(const void *in, void *out, int32_t batch, int32_t area,
                              float inverse_0, float offset_0, float inverse_1, float offset_1,
                              float inverse_2, float offset_2)
{
    const float inverses[3] = {inverse_0, inverse_1, inverse_2};
    const float offsets[3] = {offset_0, offset_1, offset_2};
    int64_t volume;
    if (in == NULL || out == NULL || !C7X_VOLUME(&volume, batch, 3, area))
        return C7X_KERNEL_REFUSED;
    for (int c = 0; c < 3; c++) {
        if (!c7x_scale_is_good(fabsf(inverses[c])) || !isfinite(offsets[c]))
            return C7X_KERNEL_REFUSED;
    }
    for (int64_t plane = 0; plane < 3 * (int64_t)batch; plane++)
        quantize_affine((const float *)in + plane * area, (int8_t *)out + plane * area, area,
                        inverses[plane % 3], offsets[plane % 3]);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that put tensors side by side or repeat their elements. */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

#include <string.h>

#define SLOT_COUNT 4

/* One input; `size` counts along the axis of the concatenation, 0: not there. */
struct slot {
    const int8_t *in;
    int32_t size;
    struct c7x_quantization q;
};

/* Adds up the sizes; false if a slot is bad or the output would be too large. */
static bool slots_are_good(const struct slot *slots, size_t count, int32_t other, int64_t *out_size)
{
    int64_t size = 0;
    int64_t volume;
    for (size_t i = 0; i < count; i++) {
        if (slots[i].size < 0 ||
            (slots[i].size > 0 && (slots[i].in == NULL || !c7x_quantization_is_good(slots[i].q))))
            return false;
        size += slots[i].size;
    }
    *out_size = size;
    return size <= INT32_MAX && C7X_VOLUME(&volume, (int32_t)size, other);
}

int32_t c7x_int8_concat_rescale(const void *in_0, int32_t channels_0, float scale_0, int32_t zero_0,
                                const void *in_1, int32_t channels_1, float scale_1, int32_t zero_1,
                                const void *in_2, int32_t channels_2, float scale_2, int32_t zero_2,
                                const void *in_3, int32_t channels_3, float scale_3, int32_t zero_3,
                                void *out, int32_t area, float out_scale, int32_t out_zero)
{
    const struct slot slots[SLOT_COUNT] = {{in_0, channels_0, {scale_0, zero_0}},
                                           {in_1, channels_1, {scale_1, zero_1}},
                                           {in_2, channels_2, {scale_2, zero_2}},
                                           {in_3, channels_3, {scale_3, zero_3}}};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    int8_t *y = out;
    int64_t channels;
    if (out == NULL || !slots_are_good(slots, SLOT_COUNT, area, &channels) ||
        !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        int8_t table[256];
        int64_t n = (int64_t)slots[i].size * area;
        if (n == 0)
            continue;
        c7x_table_i8(table, c7x_identity, slots[i].q, out_q);
        c7x_map_i8(table, slots[i].in, y, n);
        y += n;
    }
    return 0;
}

int32_t c7x_int8_concat_sigmoid(const void *in_0, int32_t width_0, float scale_0, int32_t zero_0,
                                const void *in_1, int32_t width_1, float scale_1, int32_t zero_1,
                                const void *in_2, int32_t width_2, float scale_2, int32_t zero_2,
                                const void *in_3, int32_t width_3, float scale_3, int32_t zero_3,
                                void *out, int32_t channels)
{
    const struct slot slots[SLOT_COUNT] = {{in_0, width_0, {scale_0, zero_0}},
                                           {in_1, width_1, {scale_1, zero_1}},
                                           {in_2, width_2, {scale_2, zero_2}},
                                           {in_3, width_3, {scale_3, zero_3}}};
    float *column = out;
    int64_t width;
    if (out == NULL || !slots_are_good(slots, SLOT_COUNT, channels, &width))
        return C7X_KERNEL_REFUSED;
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        float table[256];
        if (slots[i].size == 0)
            continue;
        c7x_table_f32(table, c7x_sigmoid, slots[i].q);
        for (int64_t channel = 0; channel < channels; channel++)
            c7x_map_f32(table, slots[i].in + channel * slots[i].size, column + channel * width,
                        slots[i].size);
        column += slots[i].size;
    }
    return 0;
}

/* Planes of [height][width] through the table to [2 height][2 width]. */
static void upsample(const int8_t table[256], const int8_t *in, int8_t *out, int64_t rows,
                     int64_t width)
{
    for (int64_t row = 0; row < rows; row++) {
        const int8_t *x = in + row * width;
        int8_t *y = out + row * width * 4;
        for (int64_t i = 0; i < width; i++)
            y[2 * i] = y[2 * i + 1] = table[(uint8_t)x[i]];
        memcpy(y + 2 * width, y, (size_t)(2 * width));
    }
}

int32_t c7x_int8_resize2d_nearest2x(const void *in, void *out, int32_t channels, int32_t height,
                                    int32_t width)
{
    int8_t same[256];
    int64_t volume;
    if (in == NULL || out == NULL || !C7X_VOLUME(&volume, channels, height, width, 4))
        return C7X_KERNEL_REFUSED;
    for (int32_t x = INT8_MIN; x <= INT8_MAX; x++)
        same[(uint8_t)x] = (int8_t)x;
    upsample(same, in, out, (int64_t)channels * height, width);
    return 0;
}

/* silu_out NULL: not wanted. */
static int32_t fpn(const struct slot *low, const struct slot *skip, int32_t height, int32_t width,
                   void *out, struct c7x_quantization out_q, float *silu_out)
{
    int8_t table[256];
    float exact[256];
    int64_t low_size;
    int64_t skip_size;
    int64_t volume;
    if (out == NULL || !slots_are_good(low, 1, 1, &volume) ||
        !slots_are_good(skip, 1, 1, &volume) || !c7x_quantization_is_good(out_q) ||
        !C7X_VOLUME(&low_size, low->size, height, width) ||
        !C7X_VOLUME(&skip_size, skip->size, height, width, 4) ||
        low_size > (INT64_MAX / 8 - skip_size) / 4)
        return C7X_KERNEL_REFUSED;
    if (low_size > 0) {
        c7x_table_i8(table, c7x_silu, low->q, out_q);
        upsample(table, low->in, out, (int64_t)low->size * height, width);
    }
    if (low_size > 0 && silu_out != NULL) {
        c7x_table_f32(exact, c7x_silu, low->q);
        c7x_map_f32(exact, low->in, silu_out, low_size);
    }
    if (skip_size > 0) {
        c7x_table_i8(table, c7x_identity, skip->q, out_q);
        c7x_map_i8(table, skip->in, (int8_t *)out + 4 * low_size, skip_size);
    }
    return 0;
}

int32_t c7x_int8_fpn_upsample_concat(const void *in_1, int32_t channels_1, int32_t height,
                                     int32_t width, int32_t zero_1, float scale_1, const void *in_2,
                                     int32_t channels_2, int32_t zero_2, float scale_2, void *out,
                                     float out_scale, int32_t out_zero)
{
    const struct slot low = {in_1, channels_1, {scale_1, zero_1}};
    const struct slot skip = {in_2, channels_2, {scale_2, zero_2}};
    return fpn(&low, &skip, height, width, out, (struct c7x_quantization){out_scale, out_zero},
               NULL);
}

int32_t c7x_int8_fpn_upsample_concat_ex(const void *in_1, int32_t channels_1, int32_t height,
                                        int32_t width, int32_t zero_1, float scale_1,
                                        const void *in_2, int32_t channels_2, int32_t zero_2,
                                        float scale_2, void *out, float out_scale, int32_t out_zero,
                                        void *silu_out)
{
    const struct slot low = {in_1, channels_1, {scale_1, zero_1}};
    const struct slot skip = {in_2, channels_2, {scale_2, zero_2}};
    if (silu_out == NULL)
        return C7X_KERNEL_REFUSED;
    return fpn(&low, &skip, height, width, out, (struct c7x_quantization){out_scale, out_zero},
               silu_out);
}

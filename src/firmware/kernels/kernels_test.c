/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel with bad arguments, which write nothing; with empty tensors; and with buffers of
 * just the right size, where a sanitizer sees a byte too far. Results are compared in
 * tests/kernels/run.py.
 */
#include "c7x_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX INT32_MAX
#define BYTES 1024

static _Alignas(64) uint8_t in[BYTES];
static _Alignas(64) uint8_t out[BYTES];
static _Alignas(64) uint8_t more[BYTES];

static int set_up(void **state)
{
    (void)state;
    memset(in, 0, sizeof(in));
    memset(out, 0x5A, sizeof(out));
    memset(more, 0, sizeof(more));
    return 0;
}

static void assert_untouched(void)
{
    for (size_t i = 0; i < sizeof(out); i++)
        assert_int_equal(out[i], 0x5A);
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        assert_int_equal(call, -1);                                                                \
        assert_untouched();                                                                        \
    } while (0)

#define NOTHING_TO_DO(call)                                                                        \
    do {                                                                                           \
        assert_int_equal(call, 0);                                                                 \
        assert_untouched();                                                                        \
    } while (0)

/* ---- Bad arguments ---- */

static void bad_functions_of_one_int8_are_refused(void **state)
{
    static int32_t (*const functions[])(const void *, void *, int32_t, int32_t, float, int32_t,
                                        float) = {
        c7x_int8_gelu, c7x_int8_silu, c7x_int8_hardsigmoid, c7x_int8_hardswish, c7x_int8_rescale};
    (void)state;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        REFUSED(functions[i](NULL, out, 4, 0, 1, 0, 1));
        REFUSED(functions[i](in, NULL, 4, 0, 1, 0, 1));
        REFUSED(functions[i](in, out, -1, 0, 1, 0, 1));
        REFUSED(functions[i](in, out, 4, 128, 1, 0, 1));
        REFUSED(functions[i](in, out, 4, 0, 1, -129, 1));
        REFUSED(functions[i](in, out, 4, 0, 0, 0, 1));
        REFUSED(functions[i](in, out, 4, 0, 1, 0, -1));
        REFUSED(functions[i](in, out, 4, 0, NAN, 0, 1));
        REFUSED(functions[i](in, out, 4, 0, 1, 0, INFINITY));
        NOTHING_TO_DO(functions[i](in, out, 0, 0, 1, 0, 1));
    }
}

static void bad_pointwise_arguments_are_refused(void **state)
{
    (void)state;
    REFUSED(c7x_int8_silu_f32out(NULL, out, 4, 0, 1));
    REFUSED(c7x_int8_silu_f32out(in, NULL, 4, 0, 1));
    REFUSED(c7x_int8_silu_f32out(in, out, -4, 0, 1));
    REFUSED(c7x_int8_silu_f32out(in, out, 4, 0, 0));
    REFUSED(c7x_int8_relu(NULL, out, 4, 0));
    REFUSED(c7x_int8_relu(in, NULL, 4, 0));
    REFUSED(c7x_int8_relu(in, out, -4, 0));
    REFUSED(c7x_int8_clamp(NULL, out, 4, 0, 6));
    REFUSED(c7x_int8_clamp(in, NULL, 4, 0, 6));
    REFUSED(c7x_int8_clamp(in, out, -4, 0, 6));
    REFUSED(c7x_int8_clamp(in, out, 4, 6, 5));
    REFUSED(c7x_int8_requantize_clamp(NULL, out, 4, 1, 0, 6));
    REFUSED(c7x_int8_requantize_clamp(in, NULL, 4, 1, 0, 6));
    REFUSED(c7x_int8_requantize_clamp(in, out, -4, 1, 0, 6));
    REFUSED(c7x_int8_requantize_clamp(in, out, 4, 0, 0, 6));
    REFUSED(c7x_int8_requantize_clamp(in, out, 4, 1, 6, 5));
    REFUSED(c7x_int8_quantize(NULL, out, 4, 1, 0));
    REFUSED(c7x_int8_quantize(in, NULL, 4, 1, 0));
    REFUSED(c7x_int8_quantize(in, out, -4, 1, 0));
    REFUSED(c7x_int8_quantize(in, out, 4, 0, 0));
    REFUSED(c7x_int8_quantize(in, out, 4, 1, 128));
    REFUSED(c7x_int8_quantize_rgb(NULL, out, 1, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_quantize_rgb(in, NULL, 1, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_quantize_rgb(in, out, -1, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_quantize_rgb(in, out, MAX, MAX, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_quantize_rgb(in, out, 1, 4, 1, 0, 1, 0, 0, 0));
    REFUSED(c7x_int8_quantize_rgb(in, out, 1, 4, 1, 0, 1, NAN, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(NULL, more, out, 2, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, NULL, out, 2, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, more, NULL, 2, 4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, more, out, 2, -4, 1, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, more, out, 2, 4, 0, 0, 1, 0, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, more, out, 2, 4, 1, 0, 1, 200, 1, 0));
    REFUSED(c7x_int8_channel_scale_multiply(in, more, out, 2, 4, 1, 0, 1, 0, 0, 0));
}

static void bad_residuals_are_refused(void **state)
{
    struct c7x_residual_params params = {1, 1, 0, 0, 0, 0, 0};
    (void)state;
    REFUSED(c7x_int8_residual_add_relu(NULL, more, &params, out, 4, 0));
    REFUSED(c7x_int8_residual_add_relu(in, NULL, &params, out, 4, 0));
    REFUSED(c7x_int8_residual_add_relu(in, more, NULL, out, 4, 0));
    REFUSED(c7x_int8_residual_add_relu(in, more, &params, NULL, 4, 0));
    REFUSED(c7x_int16_residual_add_relu(in, more, &params, out, -4, 0));
    REFUSED(c7x_int16_residual_add_relu(NULL, more, &params, out, 4, 0));
    params.shift = -1;
    REFUSED(c7x_int8_residual_add_relu(in, more, &params, out, 4, 0));
    params.shift = 63;
    REFUSED(c7x_int16_residual_add_relu(in, more, &params, out, 4, 0));
}

static int32_t max_pool(const void *x, void *y, int32_t channels, int32_t size, int32_t kernel,
                        int32_t stride, int32_t pad)
{
    return c7x_int8_max_pool(x, y, 1, channels, size, size, 4, 4, kernel, kernel, stride, stride,
                             pad, pad);
}

static int32_t avg_pool(const void *x, void *y, int32_t kernel, int32_t stride, int32_t pad,
                        float scale)
{
    return c7x_int8_avg_pool(x, y, 1, 1, 4, 4, 4, 4, kernel, kernel, stride, stride, pad, pad, 0,
                             scale, 0, 1);
}

static void bad_pools_are_refused(void **state)
{
    (void)state;
    REFUSED(max_pool(NULL, out, 1, 4, 1, 1, 0));
    REFUSED(max_pool(in, NULL, 1, 4, 1, 1, 0));
    REFUSED(max_pool(in, out, -1, 4, 1, 1, 0));
    REFUSED(max_pool(in, out, MAX, MAX, 1, 1, 0));
    REFUSED(max_pool(in, out, 1, 4, 0, 1, 0));
    REFUSED(max_pool(in, out, 1, 4, 1, 0, 0));
    REFUSED(max_pool(in, out, 1, 4, 1, -1, 0));
    REFUSED(max_pool(in, out, 1, 4, 1, 1, -1));
    REFUSED(c7x_int8_max_pool_tidl(in, NULL, 1, 1, 4, 4, 4, 4, 1, 1, 1, 1, 0, 0));
    REFUSED(c7x_int8_max_pool(in, out, 1, 1, 4, 4, -1, 4, 1, 1, 1, 1, 0, 0));
    REFUSED(avg_pool(NULL, out, 1, 1, 0, 1));
    REFUSED(avg_pool(in, NULL, 1, 1, 0, 1));
    REFUSED(avg_pool(in, out, 0, 1, 0, 1));
    REFUSED(avg_pool(in, out, 1, 0, 0, 1));
    REFUSED(avg_pool(in, out, 1, 1, -1, 1));
    REFUSED(avg_pool(in, out, 1, 1, 0, 0));
    REFUSED(c7x_int8_global_avg_pool(NULL, out, 1, 1, 4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_global_avg_pool(in, NULL, 1, 1, 4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_global_avg_pool(in, out, 1, -1, 4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_global_avg_pool(in, out, 1, 1, 0, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_global_avg_pool(in, out, MAX, MAX, MAX, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_global_avg_pool(in, out, 1, 1, 4, 4, 0, 1, 0, 0));
}

static int32_t concat(const void *x, int32_t channels, float scale, void *y, int32_t area)
{
    return c7x_int8_concat_rescale(x, channels, scale, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, in, 1, 1, 0,
                                   y, area, 1, 0);
}

static int32_t concat_sigmoid(const void *x, int32_t width, float scale, void *y, int32_t channels)
{
    return c7x_int8_concat_sigmoid(x, width, scale, 0, NULL, 0, 0, 0, NULL, 0, 0, 0, in, 1, 1, 0, y,
                                   channels);
}

static int32_t fpn(const void *x, int32_t height, float scale, const void *skip, void *y)
{
    return c7x_int8_fpn_upsample_concat(x, 1, height, 2, 0, scale, skip, 1, 0, 1, y, 1, 0);
}

static void bad_concatenations_are_refused(void **state)
{
    (void)state;
    REFUSED(concat(NULL, 1, 1, out, 4));
    REFUSED(concat(in, -1, 1, out, 4));
    REFUSED(concat(in, MAX, 1, out, 4));
    REFUSED(concat(in, 1, 0, out, 4));
    REFUSED(concat(in, 1, 1, NULL, 4));
    REFUSED(concat(in, 1, 1, out, -4));
    REFUSED(concat_sigmoid(NULL, 1, 1, out, 4));
    REFUSED(concat_sigmoid(in, -1, 1, out, 4));
    REFUSED(concat_sigmoid(in, 1, 0, out, 4));
    REFUSED(concat_sigmoid(in, 1, 1, NULL, 4));
    REFUSED(concat_sigmoid(in, 1, 1, out, -4));
    REFUSED(c7x_int8_resize2d_nearest2x(NULL, out, 1, 2, 2));
    REFUSED(c7x_int8_resize2d_nearest2x(in, NULL, 1, 2, 2));
    REFUSED(c7x_int8_resize2d_nearest2x(in, out, 1, 2, -2));
    REFUSED(c7x_int8_resize2d_nearest2x(in, out, 1, MAX, MAX));
    REFUSED(fpn(NULL, 2, 1, more, out));
    REFUSED(fpn(in, -2, 1, more, out));
    REFUSED(fpn(in, 2, 0, more, out));
    REFUSED(fpn(in, 2, 1, NULL, out));
    REFUSED(fpn(in, 2, 1, more, NULL));
    REFUSED(c7x_int8_fpn_upsample_concat_ex(in, 1, 2, 2, 0, 1, more, 1, 0, 1, out, 1, 0, NULL));
    NOTHING_TO_DO(c7x_int8_fpn_upsample_concat(NULL, 0, 2, 2, 0, 0, NULL, 0, 0, 0, out, 1, 0));
}

static int32_t layer_norm(const void *x, const void *weight, const void *bias, void *y,
                          int32_t norm, float epsilon, float scale)
{
    return c7x_int8_layer_norm(x, weight, bias, y, 2, norm, epsilon, 0, scale, 0, 1);
}

static void bad_norms_are_refused(void **state)
{
    (void)state;
    REFUSED(layer_norm(NULL, more, more, out, 4, 0, 1));
    REFUSED(layer_norm(in, NULL, more, out, 4, 0, 1));
    REFUSED(layer_norm(in, more, NULL, out, 4, 0, 1));
    REFUSED(layer_norm(in, more, more, NULL, 4, 0, 1));
    REFUSED(layer_norm(in, more, more, out, -4, 0, 1));
    REFUSED(layer_norm(in, more, more, out, 4, -1, 1));
    REFUSED(layer_norm(in, more, more, out, 4, NAN, 1));
    REFUSED(layer_norm(in, more, more, out, 4, 0, 0));
    NOTHING_TO_DO(layer_norm(in, more, more, out, 0, 0, 1));
    REFUSED(c7x_int8_dfl_softmax(NULL, out, 1, 1, 4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_dfl_softmax(in, NULL, 1, 1, 4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_dfl_softmax(in, out, 1, 1, -4, 4, 0, 1, 0, 1));
    REFUSED(c7x_int8_dfl_softmax(in, out, MAX, MAX, MAX, MAX, 0, 1, 0, 1));
    REFUSED(c7x_int8_dfl_softmax(in, out, 1, 1, 4, 4, 0, 1, 0, 0));
    NOTHING_TO_DO(c7x_int8_dfl_softmax(in, out, 1, 1, 0, 4, 0, 1, 0, 1));
    NOTHING_TO_DO(c7x_int8_dfl_softmax(in, out, MAX, MAX, MAX, 0, 0, 1, 0, 1));
}

static void bad_decoding_is_refused(void **state)
{
    (void)state;
    REFUSED(c7x_dequantize_vecmatmul(NULL, in, more, out, 1, 4, 4));
    REFUSED(c7x_dequantize_vecmatmul(in, NULL, more, out, 1, 4, 4));
    REFUSED(c7x_dequantize_vecmatmul(in, in, NULL, out, 1, 4, 4));
    REFUSED(c7x_dequantize_vecmatmul(in, in, more, NULL, 1, 4, 4));
    REFUSED(c7x_dequantize_vecmatmul(in, in, more, out, 1, 4, -4));
    REFUSED(c7x_sdpa_decode(NULL, in, in, more, out, 2, 1, 4, 4));
    REFUSED(c7x_sdpa_decode(in, NULL, in, more, out, 2, 1, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, NULL, more, out, 2, 1, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, in, NULL, out, 2, 1, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, in, more, NULL, 2, 1, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, in, more, out, 3, 2, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, in, more, out, 2, 0, 4, 4));
    REFUSED(c7x_sdpa_decode(in, in, in, more, out, 2, 1, 4, -4));
    REFUSED(c7x_topk(NULL, (float *)out, (int64_t *)out, 1, 4, 2));
    REFUSED(c7x_topk((float *)in, NULL, (int64_t *)out, 1, 4, 2));
    REFUSED(c7x_topk((float *)in, (float *)out, NULL, 1, 4, 2));
    REFUSED(c7x_topk((float *)in, (float *)out, (int64_t *)out, 1, 4, 5));
    REFUSED(c7x_topk((float *)in, (float *)out, (int64_t *)out, 1, 4, -1));
    REFUSED(c7x_topk((float *)in, (float *)out, (int64_t *)out, -1, 4, 2));
    NOTHING_TO_DO(c7x_topk((float *)in, (float *)out, (int64_t *)out, 1, 4, 0));
}

static void bad_matrices_are_refused(void **state)
{
    uint8_t shift[64] = {0};
    (void)state;
    REFUSED(mmalib_matmul_i8(NULL, in, out, 64, 64, 64, 0));
    REFUSED(mmalib_matmul_i8(in + 32, in, out, 64, 64, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in + 1, out, 64, 64, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out + 16, 64, 64, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out, 32, 64, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out, 64, 65, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out, 64, 64, -64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out, 64, 131072, 64, 0));
    REFUSED(mmalib_matmul_i8(in, in, out, 64, 64, 64, 63));
    REFUSED(mmalib_matmul_i16(in, in, out, 16, 32, 32, 0));
    REFUSED(mmalib_matmul_i16(in, in, out, 32, 32, 33, 0));
    REFUSED(mmalib_matmul_i16(in, in, out, 32, 32, 32, -1));
    NOTHING_TO_DO(mmalib_matmul_i16(in, in, out, 32, 32, 0, 0));
    REFUSED(mmalib_matmul_bias_i8(NULL, in, NULL, NULL, NULL, out, 1, 64, 64));
    REFUSED(mmalib_matmul_bias_i8(in, NULL, NULL, NULL, NULL, out, 1, 64, 64));
    REFUSED(mmalib_matmul_bias_i8(in, in, NULL, NULL, NULL, NULL, 1, 64, 64));
    REFUSED(mmalib_matmul_bias_i8(in + 1, in, NULL, NULL, NULL, out, 1, 64, 64));
    REFUSED(mmalib_matmul_bias_i8(in, in, NULL, NULL, NULL, out, 1, 32, 64));
    REFUSED(mmalib_matmul_bias_i8(in, in, NULL, NULL, NULL, out, -1, 64, 64));
    REFUSED(mmalib_matmul_bias_i16(in, in, NULL, NULL, NULL, out, 1, 32, 16));
    shift[63] = 63;
    REFUSED(mmalib_matmul_bias_i8(in, in, NULL, NULL, shift, out, 1, 64, 64));
    NOTHING_TO_DO(mmalib_matmul_bias_i8(in, in, NULL, NULL, NULL, out, 0, 64, 64));
}

static int32_t conv(const void *x, const void *weight, void *y, int32_t channels, int32_t kernel,
                    int32_t stride, int32_t pad)
{
    return mmalib_conv2d_i8(x, weight, NULL, NULL, NULL, y, channels, 4, 4, 1, kernel, kernel,
                            stride, stride, pad, pad, pad, pad);
}

static int32_t grouped(const void *bias, const void *scale, const void *shift, int32_t groups)
{
    return mmalib_conv2d_i8_grouped_loop(in, in, bias, scale, shift, out, 4, 4, 4, 4, 1, 1, 1, 1, 0,
                                         0, 0, 0, groups);
}

static void bad_convolutions_are_refused(void **state)
{
    const uint8_t shift[4] = {0, 0, 0, 63};
    (void)state;
    REFUSED(conv(NULL, in, out, 1, 3, 1, 0));
    REFUSED(conv(in, NULL, out, 1, 3, 1, 0));
    REFUSED(conv(in, in, NULL, 1, 3, 1, 0));
    REFUSED(conv(in + 4, in, out, 1, 3, 1, 0));
    REFUSED(conv(in, in, out + 4, 1, 3, 1, 0));
    REFUSED(conv(in, in, out, -1, 3, 1, 0));
    REFUSED(conv(in, in, out, MAX, 3, 1, 0));
    REFUSED(conv(in, in, out, 1, 5, 1, 0));
    REFUSED(conv(in, in, out, 1, 0, 1, 0));
    REFUSED(conv(in, in, out, 1, 3, 0, 0));
    REFUSED(conv(in, in, out, 1, 3, 1, -1));
    REFUSED(conv(in, in, out, 1, 3, 1, MAX));
    REFUSED(conv(in, in, out, 131072, 1, 1, 0));
    REFUSED(grouped(NULL, in, in, 2));
    REFUSED(grouped(in, NULL, in, 2));
    REFUSED(grouped(in, in, NULL, 2));
    REFUSED(grouped(in, in, in, 3));
    REFUSED(grouped(in, in, in, 0));
    REFUSED(grouped(in, in, shift, 2));
    REFUSED(mmalib_conv2d_i16(in, in, NULL, NULL, shift, out, 1, 4, 4, 4, 3, 3, 1, 1, 0, 0, 0, 0));
    REFUSED(mmalib_conv2d_i8_sliced(in, in, NULL, NULL, NULL, out, 1, 4, 4, 1, 3, 3, 1, 1, 0, 0, 0,
                                    0, -1));
    REFUSED(mmalib_conv2d_i8_sliced(in, in, NULL, NULL, NULL, out, 1, 4, 4, 1, 3, 3, 1, 1, 0, 0, 0,
                                    0, MAX));
    REFUSED(mmalib_depthwise_conv2d_i8(in, in, NULL, NULL, NULL, out, 4, 4, 4, 3, 3, 1, 1, 0, 0, 0,
                                       0, 2));
    REFUSED(mmalib_depthwise_conv2d_i16(in, in, NULL, NULL, NULL, out, 2, 4, 4, 5, 5, 1, 1, 1, 1, 1,
                                        1, 2));
    REFUSED(mmalib_depthwise_conv2d_i16(in, in, NULL, NULL, NULL, out, 2, 4, 4, 3, 3, 0, 1, 1, 1, 1,
                                        1, 2));
}

/* ---- Buffers of just the right size ---- */

/* A buffer of its own, of the value; the size is a multiple of 64. */
static void *exact(size_t size, int value)
{
    void *buffer = aligned_alloc(64, size);
    assert_non_null(buffer);
    memset(buffer, value, size);
    return buffer;
}

static void pointwise_kernels_stay_inside(void **state)
{
    const struct c7x_residual_params params = {1 << 20, -(1 << 20), 4, -128, 127, 1, 0};
    int8_t *x = malloc(37);
    int8_t *y = malloc(37);
    float *f = malloc(37 * sizeof(float));
    (void)state;
    memset(x, 0x80, 37);
    for (int i = 0; i < 37; i++)
        f[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -3e38f : INFINITY;
    assert_int_equal(c7x_int8_quantize(f, y, 37, 3e38f, -128), 0);
    assert_int_equal(y[0], -128);
    assert_int_equal(y[1], -128);
    assert_int_equal(y[2], 127);
    assert_int_equal(c7x_int8_quantize_rgb(f, y, 4, 3, -3e38f, 3e38f, 1, 0, 1, 0), 0);
    assert_int_equal(c7x_int8_gelu(x, y, 37, 127, 3e38f, 0, 1e-30f), 0);
    assert_int_equal(c7x_int8_silu_f32out(x, f, 37, 127, 3e38f), 0);
    assert_true(f[36] == 0.0f);
    assert_int_equal(c7x_int8_clamp(x, y, 37, INT32_MIN, INT32_MAX), 0);
    assert_int_equal(y[36], -128);
    assert_int_equal(c7x_int8_residual_add_relu(x, x, &params, y, 37, 1), 0);
    assert_int_equal(y[36], 127);
    assert_int_equal(c7x_int16_residual_add_relu(x, x, &params, y, 18, 0), 0);
    assert_int_equal(c7x_int8_channel_scale_multiply(x, x, y, 1, 37, 1, 0, 1, 0, 1, 0), 0);
    assert_int_equal(y[36], 127);
    assert_int_equal(c7x_int8_channel_scale_multiply(x, x, y, 37, 1, 1, 0, 1, 0, 1, 0), 0);
    free(x);
    free(y);
    free(f);
}

static void planes_stay_inside(void **state)
{
    int8_t *x = malloc(2 * 5 * 7);
    int8_t *y = malloc(2 * 3 * 4);
    int8_t *large = malloc(4 * 2 * 5 * 7 + 4 * 5 * 7);
    float *f = malloc(2 * 5 * 7 * sizeof(float));
    (void)state;
    memset(x, 3, 70);
    assert_int_equal(c7x_int8_max_pool(x, y, 1, 2, 5, 7, 3, 4, 3, 3, 2, 2, 1, 1), 0);
    assert_int_equal(c7x_int8_avg_pool(x, y, 1, 2, 5, 7, 3, 4, 3, 3, 2, 2, 1, 1, 0, 1, 0, 1), 0);
    assert_int_equal(y[1], 2); /* 6 * 3 / 9 */
    assert_int_equal(c7x_int8_max_pool(x, y, 1, 2, 5, 7, 3, 4, 3, 3, MAX, MAX, MAX, MAX), 0);
    assert_int_equal(y[0], -128);
    assert_int_equal(c7x_int8_global_avg_pool(x, y, 1, 2, 5, 7, 0, 1, 0, 1), 0);
    assert_int_equal(y[1], 3);
    assert_int_equal(c7x_int8_resize2d_nearest2x(x, large, 2, 5, 7), 0);
    assert_int_equal(
        c7x_int8_fpn_upsample_concat_ex(x, 2, 5, 7, 0, 1, large, 1, 0, 1, large, 1, 0, f), 0);
    assert_int_equal(
        c7x_int8_concat_rescale(x, 1, 1, 0, x, 0, 1, 0, x, 1, 1, 0, NULL, 0, 0, 0, y, 12, 1, 0), 0);
    assert_int_equal(
        c7x_int8_concat_sigmoid(x, 7, 1, 0, x, 0, 1, 0, x, 7, 1, 0, NULL, 0, 0, 0, f, 5), 0);
    assert_int_equal(c7x_int8_dfl_softmax(x, x, 1, 1, 10, 7, 0, 1, 0, 0.05f), 0);
    assert_int_equal(x[69], 2); /* 1/10 */
    free(x);
    free(y);
    free(large);
    free(f);
}

static void rows_stay_inside(void **state)
{
    int8_t *x = malloc(2 * 13);
    float *f = malloc(2 * 13 * sizeof(float));
    float *w = malloc(13 * sizeof(float));
    float *y = malloc(4 * sizeof(float));
    int64_t *indices = malloc(4 * sizeof(int64_t));
    (void)state;
    for (int i = 0; i < 26; i++) {
        x[i] = (int8_t)i;
        f[i] = (float)i;
        w[i % 13] = 1.0f;
    }
    assert_int_equal(c7x_dequantize_vecmatmul(f, x, w, y, 2, 13, 2), 0);
    assert_true(y[0] == 650.0f);
    assert_int_equal(c7x_topk(f, y, indices, 2, 13, 2), 0);
    assert_int_equal(indices[3], 11);
    assert_int_equal(c7x_sdpa_decode(w, f, f, w, y, 2, 2, 1, 13), 0);
    assert_int_equal(c7x_int8_layer_norm(x, w, w, x, 2, 13, 0, 0, 1, 0, 0.01f), 0);
    assert_int_equal(x[6], 100); /* the mean itself: the bias, 1 */
    free(x);
    free(f);
    free(w);
    free(y);
    free(indices);
}

/* 131071 products of -128 and -128 are just below 2^31. */
static void int8_sums_do_not_overflow(void **state)
{
    int8_t *x = exact(131008, -128);
    int8_t *weight = exact(131008 * 64, -128);
    int8_t *y = exact(64, 0);
    (void)state;
    assert_int_equal(mmalib_matmul_bias_i8(x, weight, NULL, NULL, NULL, y, 1, 131008, 64), 0);
    assert_int_equal(y[63], 127);
    free(x);
    free(weight);
    free(y);
}

static void matrices_stay_inside(void **state)
{
    int8_t *a = exact(64 * 64, -128);
    int8_t *b = exact(64 * 64, -128);
    int8_t *y = exact(64 * 64, 0);
    int64_t *bias = malloc(32 * sizeof(int64_t));
    uint8_t *scale = malloc(32);
    int16_t last;
    (void)state;
    assert_int_equal(mmalib_matmul_i8(a, b, y, 64, 64, 64, 14), 0);
    assert_int_equal(y[4095], 64);
    assert_int_equal(mmalib_matmul_i16(a, b, y, 32, 32, 32, 62), 0);
    memset(scale, 0xff, 32);
    for (int i = 0; i < 32; i++)
        bias[i] = i % 2 == 0 ? INT64_MAX : INT64_MIN;
    assert_int_equal(mmalib_matmul_bias_i16(a, b, bias, scale, NULL, y, 64, 32, 32), 0);
    memcpy(&last, y + 64 * 64 - sizeof(last), sizeof(last));
    assert_int_equal(last, INT16_MIN);
    free(a);
    free(b);
    free(y);
    free(bias);
    free(scale);
}

static void convolutions_stay_inside(void **state)
{
    int8_t *x = exact(4 * 4 * 4, 1);
    int8_t *weight = malloc(4 * 4 * 9);
    int8_t *y = exact(4 * 4 * 4, 0);
    int32_t bias[4] = {INT32_MAX, INT32_MIN, 0, 0};
    uint8_t scale[4] = {255, 255, 1, 0};
    uint8_t shift[4] = {62, 0, 1, 0};
    (void)state;
    memset(weight, 1, 4 * 4 * 9);
    assert_int_equal(
        mmalib_conv2d_i8(x, weight, bias, scale, shift, y, 4, 4, 4, 4, 3, 3, 1, 1, 1, 1, 1, 1), 0);
    assert_int_equal(y[16], -128);
    assert_int_equal(y[32 + 5], 18); /* 36 products, halved */
    assert_int_equal(y[63], 0);
    assert_int_equal(
        mmalib_conv2d_i8(x, weight, NULL, NULL, NULL, y, 4, 4, 4, 1, 1, 1, MAX, MAX, 0, 0, 0, 0),
        0);
    assert_int_equal(mmalib_conv2d_i8_grouped_loop(x, weight, bias, scale, shift, y, 4, 4, 4, 4, 3,
                                                   3, 1, 1, 1, 1, 1, 1, 2),
                     0);
    assert_int_equal(mmalib_depthwise_conv2d_i8(x, weight, NULL, NULL, NULL, y, 4, 4, 4, 3, 3, 1, 1,
                                                1, 1, 1, 1, 4),
                     0);
    assert_int_equal(mmalib_conv2d_i8_sliced(x, weight, bias, scale, shift, y, 4, 4, 4, 1, 3, 3, 1,
                                             1, 1, 1, 1, 1, 3),
                     0);
    assert_int_equal(mmalib_depthwise_conv2d_i16(x, weight, NULL, NULL, NULL, y, 2, 4, 4, 3, 3, 1,
                                                 1, 1, 1, 1, 1, 2),
                     0);
    assert_int_equal(
        mmalib_conv2d_i16(x, weight, NULL, NULL, NULL, y, 2, 4, 4, 2, 3, 3, 1, 1, 1, 1, 1, 1), 0);
    free(x);
    free(weight);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bad_functions_of_one_int8_are_refused, set_up),
        cmocka_unit_test_setup(bad_pointwise_arguments_are_refused, set_up),
        cmocka_unit_test_setup(bad_residuals_are_refused, set_up),
        cmocka_unit_test_setup(bad_pools_are_refused, set_up),
        cmocka_unit_test_setup(bad_concatenations_are_refused, set_up),
        cmocka_unit_test_setup(bad_norms_are_refused, set_up),
        cmocka_unit_test_setup(bad_decoding_is_refused, set_up),
        cmocka_unit_test_setup(bad_matrices_are_refused, set_up),
        cmocka_unit_test_setup(bad_convolutions_are_refused, set_up),
        cmocka_unit_test(pointwise_kernels_stay_inside),
        cmocka_unit_test(planes_stay_inside),
        cmocka_unit_test(rows_stay_inside),
        cmocka_unit_test(int8_sums_do_not_overflow),
        cmocka_unit_test(matrices_stay_inside),
        cmocka_unit_test(convolutions_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

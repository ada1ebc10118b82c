/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute kernels that a module may import from the firmware. C99, C11 and C++; no other header
 * of ours is needed.
 *
 * Every function returns 0; or -1, with nothing written, when an argument is bad: NULL, a negative
 * size, a stride or a number of groups below 1, a scale that is not finite and above 0, a zero
 * point outside -128..127, or sizes whose product overflows. A size of 0 is an empty tensor.
 *
 * Tensors are compact and row major, [N][C][H][W] where nothing else is said. With zero point z and
 * scale s:
 *
 *   dq(x) = (x - z) * s                             in float32
 *   q(y)  = clamp(round(y / s) + z, -128, 127)      round: to nearest, halves away from zero
 *
 * NaN counts as 0 in q, infinity saturates. No product is fused with a sum, so that the bits do not
 * depend on the processor. `in` and `out` may be the same buffer where each element of `out`
 * depends on the same element of `in` alone, and both have one size.
 */
#ifndef C7X_KERNELS_H
#define C7X_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Element by element: int8 in[n] to int8 out[n] ---- */

/* q(f(dq(x))). gelu: x/2 * (1 + erf(x / sqrt 2)). silu: x * sigmoid(x). hardsigmoid: clamp(x/6 +
 * 1/2, 0, 1). hardswish: x * hardsigmoid(x). */
int32_t c7x_int8_gelu(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                      int32_t out_zero, float out_scale);
int32_t c7x_int8_silu(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                      int32_t out_zero, float out_scale);
int32_t c7x_int8_hardsigmoid(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                             int32_t out_zero, float out_scale);
int32_t c7x_int8_hardswish(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                           int32_t out_zero, float out_scale);
/* float32 out[n] = silu(dq(x)). */
int32_t c7x_int8_silu_f32out(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale);
/* q(dq(x)). */
int32_t c7x_int8_rescale(const void *in, void *out, int32_t n, int32_t in_zero, float in_scale,
                         int32_t out_zero, float out_scale);
/* max(x, low), saturated. */
int32_t c7x_int8_relu(const void *in, void *out, int32_t n, int32_t low);
/* min(max(x, low), high), saturated. -1 if low > high. */
int32_t c7x_int8_clamp(const void *in, void *out, int32_t n, int32_t low, int32_t high);
/* min(max(round(x * scale), low), high), saturated; both zero points are 0, scale = in / out. -1 if
 * low > high. */
int32_t c7x_int8_requantize_clamp(const void *in, void *out, int32_t n, float scale, int32_t low,
                                  int32_t high);

/* ---- Element by element: others ---- */

/* What c7x_int8_residual_add_relu and its int16 sibling find at `params`, of any alignment. */
struct c7x_residual_params {
    int32_t in_multiplier;
    int32_t skip_multiplier;
    int32_t shift; /* 0..62 */
    int8_t in_zero;
    int8_t skip_zero;
    int8_t out_zero;
    int8_t reserved;
};

/*
 * out[n] = saturate(((in[n] - in_zero) * in_multiplier + (skip[n] - skip_zero) * skip_multiplier
 * >> shift) + out_zero), without overflow before the shift, which rounds down. relu not 0: nothing
 * below out_zero, the real 0.
 */
int32_t c7x_int8_residual_add_relu(const void *in, const void *skip, const void *params, void *out,
                                   int32_t n, int32_t relu);
int32_t c7x_int16_residual_add_relu(const void *in, const void *skip, const void *params, void *out,
                                    int32_t n, int32_t relu);

/* float32 in[n] to int8 out[n]: clamp(round(x * inverse_scale) + zero, -128, 127). */
int32_t c7x_int8_quantize(const void *in, void *out, int32_t n, float inverse_scale, int32_t zero);
/* float32 in[batch][3][area] to int8: clamp(round(x * inverse_c + offset_c), -128, 127) for channel
 * c. inverse_c is finite and not 0, offset_c finite. */
int32_t c7x_int8_quantize_rgb(const void *in, void *out, int32_t batch, int32_t area,
                              float inverse_0, float offset_0, float inverse_1, float offset_1,
                              float inverse_2, float offset_2);

/* int8 excitation[channels], feature[channels][area] to int8 out: q(dq(e) * dq(f)). */
int32_t c7x_int8_channel_scale_multiply(const void *excitation, const void *feature, void *out,
                                        int32_t channels, int32_t area, float excitation_scale,
                                        int32_t excitation_zero, float feature_scale,
                                        int32_t feature_zero, float out_scale, int32_t out_zero);

/* ---- Pooling: int8 [batch][channels][height][width] ---- */

/* To [batch][channels]: q(the mean of dq(x)). -1 if height or width is 0. */
int32_t c7x_int8_global_avg_pool(const void *in, void *out, int32_t batch, int32_t channels,
                                 int32_t height, int32_t width, int32_t in_zero, float in_scale,
                                 int32_t out_zero, float out_scale);
/* The mean over the whole kernel; padding counts as real 0. The output's size is the caller's. */
int32_t c7x_int8_avg_pool(const void *in, void *out, int32_t batch, int32_t channels,
                          int32_t in_height, int32_t in_width, int32_t out_height,
                          int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                          int32_t stride_height, int32_t stride_width, int32_t pad_height,
                          int32_t pad_width, int32_t in_zero, float in_scale, int32_t out_zero,
                          float out_scale);
/* Padding counts as -128. The tidl name is the same function. */
int32_t c7x_int8_max_pool(const void *in, void *out, int32_t batch, int32_t channels,
                          int32_t in_height, int32_t in_width, int32_t out_height,
                          int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                          int32_t stride_height, int32_t stride_width, int32_t pad_height,
                          int32_t pad_width);
int32_t c7x_int8_max_pool_tidl(const void *in, void *out, int32_t batch, int32_t channels,
                               int32_t in_height, int32_t in_width, int32_t out_height,
                               int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                               int32_t stride_height, int32_t stride_width, int32_t pad_height,
                               int32_t pad_width);

/* ---- Concatenation and resizing ---- */

/* int8 in_i[channels_i][area] to int8 out[sum of channels][area]: q(dq(x)). Of an input with 0
 * channels nothing else is looked at. */
int32_t c7x_int8_concat_rescale(const void *in_0, int32_t channels_0, float scale_0, int32_t zero_0,
                                const void *in_1, int32_t channels_1, float scale_1, int32_t zero_1,
                                const void *in_2, int32_t channels_2, float scale_2, int32_t zero_2,
                                const void *in_3, int32_t channels_3, float scale_3, int32_t zero_3,
                                void *out, int32_t area, float out_scale, int32_t out_zero);
/* int8 in_i[channels][width_i] to float32 out[channels][sum of widths]: sigmoid(dq(x)). Of an input
 * with width 0 nothing else is looked at. */
int32_t c7x_int8_concat_sigmoid(const void *in_0, int32_t width_0, float scale_0, int32_t zero_0,
                                const void *in_1, int32_t width_1, float scale_1, int32_t zero_1,
                                const void *in_2, int32_t width_2, float scale_2, int32_t zero_2,
                                const void *in_3, int32_t width_3, float scale_3, int32_t zero_3,
                                void *out, int32_t channels);
/* int8 in[channels][height][width] to out[channels][2 height][2 width]: each element four times. */
int32_t c7x_int8_resize2d_nearest2x(const void *in, void *out, int32_t channels, int32_t height,
                                    int32_t width);
/*
 * int8 in_1[channels_1][height][width] and in_2[channels_2][2 height][2 width] to int8
 * out[channels_1 + channels_2][2 height][2 width]: q(silu(dq(x))), each four times, then q(dq(x)).
 * Of an input with 0 channels nothing else is looked at. ex: silu_out, float32
 * [channels_1][height][width], is silu(dq(x)) as well.
 */
int32_t c7x_int8_fpn_upsample_concat(const void *in_1, int32_t channels_1, int32_t height,
                                     int32_t width, int32_t zero_1, float scale_1, const void *in_2,
                                     int32_t channels_2, int32_t zero_2, float scale_2, void *out,
                                     float out_scale, int32_t out_zero);
int32_t c7x_int8_fpn_upsample_concat_ex(const void *in_1, int32_t channels_1, int32_t height,
                                        int32_t width, int32_t zero_1, float scale_1,
                                        const void *in_2, int32_t channels_2, int32_t zero_2,
                                        float scale_2, void *out, float out_scale, int32_t out_zero,
                                        void *silu_out);

/* ---- Normalisation ---- */

/* int8 in[outer][norm], float32 weight[norm], bias[norm] to int8: q((x - mean) / sqrt(variance +
 * epsilon) * weight + bias) over dq of each row. epsilon >= 0; a constant row gives q(bias). */
int32_t c7x_int8_layer_norm(const void *in, const void *weight, const void *bias, void *out,
                            int32_t outer, int32_t norm, float epsilon, int32_t in_zero,
                            float in_scale, int32_t out_zero, float out_scale);
/* int8 in[batch][sides][bins][anchors] to out[batch][bins][sides][anchors]: q(softmax over bins).
 */
int32_t c7x_int8_dfl_softmax(const void *in, void *out, int32_t batch, int32_t sides, int32_t bins,
                             int32_t anchors, int32_t in_zero, float in_scale, int32_t out_zero,
                             float out_scale);

/* ---- Decoding, float32 ---- */

/* float32 activation[rows][depth], int8 weight[columns][depth], float32 scale[columns] to float32
 * out[rows][columns]: the dot product times the scale. */
int32_t c7x_dequantize_vecmatmul(const void *activation, const void *weight, const void *scale,
                                 void *out, int32_t rows, int32_t depth, int32_t columns);
/*
 * Attention of one query row: query[query_heads][head_size], key and value [kv_heads][length]
 * [head_size], mask[length], to out[query_heads][head_size]: softmax(q.k / sqrt(head_size) + mask)
 * over the length, times value. kv_heads divides query_heads; neighbours share. Where the mask is
 * -infinity, key and value are not looked at; where it is everywhere, the row is 0.
 */
int32_t c7x_sdpa_decode(const void *query, const void *key, const void *value, const void *mask,
                        void *out, int32_t query_heads, int32_t kv_heads, int32_t head_size,
                        int32_t length);
/* The k largest of each row of data[batch][n], descending, with their indices, to values and
 * indices [batch][k]. Of equals the lower index comes first; NaN comes last. -1 if k > n. */
int32_t c7x_topk(const float *data, float *values, int64_t *indices, int32_t batch, int32_t n,
                 int32_t k);

/*
 * ---- What stands in for MMALIB ----
 *
 * Sums are exact. Then, for each output channel, saturate((sum + bias) * scale >> shift), the shift
 * rounding to nearest, halves up; int8: int32 bias; int16: int64 bias. scale and shift are uint8,
 * shift at most 62. NULL for bias, scale or shift: 0, 1, 0. -1 also if an activation (a matrix of
 * mmalib_matmul_*) is not 64-byte aligned, or if int8 adds more than 131071 products, which 32 bits
 * do not hold. Not verified against MMALIB.
 */

/* a[rows][depth], b[depth][columns] to out[rows][columns], one shift of 0..62 for all. The sizes
 * are multiples of 64 (int8) or 32 (int16). */
int32_t mmalib_matmul_i8(const void *a, const void *b, void *out, int32_t rows, int32_t depth,
                         int32_t columns, int32_t shift);
int32_t mmalib_matmul_i16(const void *a, const void *b, void *out, int32_t rows, int32_t depth,
                          int32_t columns, int32_t shift);
/* in[rows][depth], weight[columns][depth] to out[rows][columns]; a channel is a column. depth and
 * columns are multiples of 64 (int8) or 32 (int16). */
int32_t mmalib_matmul_bias_i8(const void *in, const void *weight, const void *bias,
                              const void *scale, const void *shift, void *out, int32_t rows,
                              int32_t depth, int32_t columns);
int32_t mmalib_matmul_bias_i16(const void *in, const void *weight, const void *bias,
                               const void *scale, const void *shift, void *out, int32_t rows,
                               int32_t depth, int32_t columns);

/* in[in_channels][height][width], weight[out_channels][in_channels][kernel_height][kernel_width] to
 * out[out_channels][...]; padding is 0. -1 if the padded input is smaller than the kernel. */
int32_t mmalib_conv2d_i8(const void *in, const void *weight, const void *bias, const void *scale,
                         const void *shift, void *out, int32_t in_channels, int32_t height,
                         int32_t width, int32_t out_channels, int32_t kernel_height,
                         int32_t kernel_width, int32_t stride_height, int32_t stride_width,
                         int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right);
int32_t mmalib_conv2d_i16(const void *in, const void *weight, const void *bias, const void *scale,
                          const void *shift, void *out, int32_t in_channels, int32_t height,
                          int32_t width, int32_t out_channels, int32_t kernel_height,
                          int32_t kernel_width, int32_t stride_height, int32_t stride_width,
                          int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right);
/* Output channels first_channel to first_channel + out_channels - 1 alone: weight is that slice;
 * bias, scale, shift and out are whole. */
int32_t mmalib_conv2d_i8_sliced(const void *in, const void *weight, const void *bias,
                                const void *scale, const void *shift, void *out,
                                int32_t in_channels, int32_t height, int32_t width,
                                int32_t out_channels, int32_t kernel_height, int32_t kernel_width,
                                int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                int32_t first_channel);
/* weight[out_channels][in_channels / groups][...]; groups divides both. NULL is refused for all. */
int32_t mmalib_conv2d_i8_grouped_loop(const void *in, const void *weight, const void *bias,
                                      const void *scale, const void *shift, void *out,
                                      int32_t in_channels, int32_t height, int32_t width,
                                      int32_t out_channels, int32_t kernel_height,
                                      int32_t kernel_width, int32_t stride_height,
                                      int32_t stride_width, int32_t pad_top, int32_t pad_bottom,
                                      int32_t pad_left, int32_t pad_right, int32_t groups);
/* weight[channels][1][kernel_height][kernel_width]; groups equals channels. i16: 3 x 3 alone. */
int32_t mmalib_depthwise_conv2d_i8(const void *in, const void *weight, const void *bias,
                                   const void *scale, const void *shift, void *out,
                                   int32_t channels, int32_t height, int32_t width,
                                   int32_t kernel_height, int32_t kernel_width,
                                   int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                   int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                   int32_t groups);
int32_t mmalib_depthwise_conv2d_i16(const void *in, const void *weight, const void *bias,
                                    const void *scale, const void *shift, void *out,
                                    int32_t channels, int32_t height, int32_t width,
                                    int32_t kernel_height, int32_t kernel_width,
                                    int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                    int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                    int32_t groups);

#ifdef __cplusplus
}
#endif

#endif

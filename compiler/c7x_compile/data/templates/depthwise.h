/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution of one image in NHWC, one filter a channel. Weights: [kernel row][kernel
 * column][channel]. Channels outside, pixels inside: the filter's vectors stay in the first cache.
 */
#define DEPTHWISE_PIXELS 8
#define DEPTHWISE_ROWS_MIN 4 /* to be shared as such */

/* acc[i]: output i of `pixels`, of which the patch of the first begins at row y, column x of the
 * image. Kernel rows from_row .. to_row - 1 lie within it, and, where inside is set, all columns.
 */
FAST_INLINE void depthwise_accumulate(vec *acc, const int pixels, const int inside, const int width,
                                      const int channels, const int kernel_width,
                                      const int stride_x, const int dilation_y,
                                      const int dilation_x, int y, int x, int from_row, int to_row,
                                      int column, const float *image, const float *weights)
{
    int r, q, i;
    for (r = from_row; r < to_row; ++r) {
        const float *row = image + ((long)(y + r * dilation_y) * width + x) * channels;
        FAST_UNROLL
        for (q = 0; q < kernel_width; ++q) {
            vec weight =
                vec_load_column(weights + (r * kernel_width + q) * channels, channels, column);
            FAST_UNROLL
            for (i = 0; i < pixels; ++i) {
                int at = q * dilation_x + i * stride_x;
                if (inside || (x + at >= 0 && x + at < width)) {
                    acc[i] += weight * vec_load_column(row + (long)at * channels, channels, column);
                }
            }
        }
    }
}

FAST_INLINE void depthwise_tile(const int pixels, const int inside, const int width,
                                const int channels, const int kernel_width, const int stride_x,
                                const int dilation_y, const int dilation_x, int y, int x,
                                int from_row, int to_row, int column, const float *image,
                                const float *weights, float *out, long pixel, epilogue_fn epilogue,
                                const float *const *operands)
{
    vec acc[DEPTHWISE_PIXELS];
    int i;
    FAST_UNROLL
    for (i = 0; i < pixels; ++i) {
        acc[i] = vec_splat(0.0f);
    }
    depthwise_accumulate(acc, pixels, inside, width, channels, kernel_width, stride_x, dilation_y,
                         dilation_x, y, x, from_row, to_row, column, image, weights);
    FAST_FENCE();
    FAST_UNROLL
    for (i = 0; i < pixels; ++i) {
        vec value = epilogue(acc[i], pixel + i, column, operands);
        vec_store_column(out + (pixel + i) * channels, channels, column, value);
    }
}

/* Tasks share the rows, or the channels where there are few rows. */
FAST_INLINE void depthwise(const int height, const int width, const int channels,
                           const int kernel_height, const int kernel_width, const int stride_y,
                           const int stride_x, const int pad_top, const int pad_left,
                           const int out_height, const int out_width, const int dilation_y,
                           const int dilation_x, const float *image, const float *weights,
                           float *out, epilogue_fn epilogue, const float *const *operands,
                           const struct fast_share share)
{
    const int reach = (kernel_width - 1) * dilation_x + 1;
    const int by_rows = out_height >= DEPTHWISE_ROWS_MIN, vectors = (channels + LANES - 1) / LANES;
    const int to_column = by_rows ? channels : share_to(vectors, share) * LANES;
    const int to = by_rows ? share_to(out_height, share) : out_height;
    int row, out_x, column;
    for (row = by_rows ? share_from(out_height, share) : 0; row < to; ++row) {
        int y = row * stride_y - pad_top;
        int from_row = y < 0 ? (-y + dilation_y - 1) / dilation_y : 0;
        int to_row = fast_smaller((height - y + dilation_y - 1) / dilation_y, kernel_height);
        column = by_rows ? 0 : share_from(vectors, share) * LANES;
        for (; column < to_column; column += LANES) {
            for (out_x = 0; out_x < out_width;) {
                int x = out_x * stride_x - pad_left;
                long pixel = (long)row * out_width + out_x;
                int last = x + (DEPTHWISE_PIXELS - 1) * stride_x + reach;
                if (x >= 0 && last <= width && out_x + DEPTHWISE_PIXELS <= out_width) {
                    depthwise_tile(DEPTHWISE_PIXELS, 1, width, channels, kernel_width, stride_x,
                                   dilation_y, dilation_x, y, x, from_row, to_row, column, image,
                                   weights, out, pixel, epilogue, operands);
                    out_x += DEPTHWISE_PIXELS;
                } else {
                    depthwise_tile(1, 0, width, channels, kernel_width, stride_x, dilation_y,
                                   dilation_x, y, x, from_row, to_row, column, image, weights, out,
                                   pixel, epilogue, operands);
                    out_x += 1;
                }
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The highest value of each window of one image in NHWC; NaN is not. Outside the image is nothing.
 */

/* One pixel of outputs, from the rows and columns that its window has within the image. image
 * points at the upper left one. */
FAST_INLINE void pool_pixel(const int width, const int channels, const int rows, const int columns,
                            const float *image, float *out, long pixel, epilogue_fn epilogue,
                            const float *const *operands)
{
    int c, r, q;
    for (c = 0; c < channels; c += LANES) {
        vec high = vec_splat(-(float)INFINITY);
        for (r = 0; r < rows; ++r) {
            const float *row = image + (long)r * width * channels;
            FAST_UNROLL
            for (q = 0; q < columns; ++q) {
                high = vec_max(vec_load_column(row + (long)q * channels, channels, c), high);
            }
        }
        vec_store_column(out + pixel * channels, channels, c, epilogue(high, pixel, c, operands));
    }
}

FAST_INLINE void max_pool(const int height, const int width, const int channels,
                          const int kernel_height, const int kernel_width, const int stride_y,
                          const int stride_x, const int pad_top, const int pad_left,
                          const int out_height, const int out_width, const float *image, float *out,
                          epilogue_fn epilogue, const float *const *operands,
                          const struct fast_share share)
{
    int out_y, out_x;
    for (out_y = share_from(out_height, share); out_y < share_to(out_height, share); ++out_y) {
        int y = out_y * stride_y - pad_top, top = y < 0 ? 0 : y;
        int rows = fast_smaller(y + kernel_height, height) - top;
        for (out_x = 0; out_x < out_width; ++out_x) {
            int x = out_x * stride_x - pad_left, left = x < 0 ? 0 : x;
            int columns = fast_smaller(x + kernel_width, width) - left;
            const float *corner = image + ((long)top * width + left) * channels;
            long pixel = (long)out_y * out_width + out_x;
            if (rows == kernel_height && columns == kernel_width) {
                pool_pixel(width, channels, kernel_height, kernel_width, corner, out, pixel,
                           epilogue, operands);
            } else {
                pool_pixel(width, channels, rows, columns, corner, out, pixel, epilogue, operands);
            }
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposed convolution of one image in NHWC whose stride is its kernel: each pixel becomes a tile
 * of kernel_height x kernel_width. Of a row of pixels, each kernel row is one matrix product with
 * (kernel column, output channel) as columns, which lie side by side in the output.
 *
 * Weights: [kernel row] of gemm.h's packing, which this needs, with depth = input channels. To the
 * epilogue a row is a pixel of the input row, a column one of kernel_width * out_channels.
 */
FAST_INLINE void deconvolution(const int height, const int width, const int channels,
                               const int kernel_height, const int kernel_width,
                               const int out_channels, const float *image, const float *weights,
                               float *out, epilogue_fn epilogue, const float *const *operands,
                               const struct fast_share share)
{
    const int columns = kernel_width * out_channels;
    const struct fast_share all = {0, 0, 0, 1};
    const long matrix = (long)((columns + GEMM_BLOCK - 1) / GEMM_BLOCK) * GEMM_BLOCK * channels;
    int y, r;
    for (y = share_from(height, share); y < share_to(height, share); ++y) {
        for (r = 0; r < kernel_height; ++r) {
            gemm(width, columns, channels, channels, image + (long)y * width * channels,
                 weights + r * matrix, out + ((long)y * kernel_height + r) * width * columns,
                 epilogue, operands, all);
        }
    }
}

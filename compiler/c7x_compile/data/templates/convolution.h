/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of one image in NHWC, as a product of its patches with the weights: im2col in blocks
 * of rows, or, for few output channels, directly on a padded copy. Needs gemm.h, whose packing the
 * weights have, with depth = (kernel row, kernel column, input channel).
 */
#define DIRECT_ROWS_MIN 4 /* to be shared as such */

FAST_INLINE void fast_copy(const int count, float *to, const float *from)
{
    int i;
    if (count < LANES) {
        vec_store_part(to, vec_load_part(from, count), count);
        return;
    }
    for (i = 0; i + LANES <= count; i += LANES) {
        vec_store(to + i, vec_load(from + i));
    }
    if (count % LANES != 0) {
        vec_store(to + count - LANES, vec_load(from + count - LANES));
    }
}

FAST_INLINE void fast_clear(const int count, float *to)
{
    int i;
    if (count < LANES) {
        vec_store_part(to, vec_splat(0.0f), count);
        return;
    }
    for (i = 0; i + LANES <= count; i += LANES) {
        vec_store(to + i, vec_splat(0.0f));
    }
    if (count % LANES != 0) {
        vec_store(to + count - LANES, vec_splat(0.0f));
    }
}

/* The patch whose upper left corner is at row y, column x of the image, outside it zeros. pixel:
 * floats between pixels, of which the patch has the first `channels`. */
FAST_INLINE void convolution_patch(const int height, const int width, const int channels,
                                   const int pixel, const int kernel_height, const int kernel_width,
                                   const int dilation_y, const int dilation_x, int y, int x,
                                   const float *image, float *patch)
{
    int r, q;
    for (r = 0; r < kernel_height; ++r, y += dilation_y, patch += kernel_width * channels) {
        const float *row = image + (long)y * width * pixel;
        if (y < 0 || y >= height) {
            fast_clear(kernel_width * channels, patch);
        } else if (dilation_x == 1 && pixel == channels && x >= 0 && x + kernel_width <= width) {
            fast_copy(kernel_width * channels, patch, row + (long)x * pixel);
        } else {
            for (q = 0; q < kernel_width; ++q) {
                int at = x + q * dilation_x;
                if (at >= 0 && at < width) {
                    fast_copy(channels, patch + q * channels, row + (long)at * pixel);
                } else {
                    fast_clear(channels, patch + q * channels);
                }
            }
        }
    }
}

/* One group of channels; pixel and out_pixel: channels of all groups, in and out. block: patches at
 * a time, a multiple of GEMM_ROWS_MULTIPLE. scratch: so many patches, or all if they are fewer. Two
 * steps for each block: the patches, and their product. */
FAST_INLINE void convolution_im2col(const int block, const int height, const int width,
                                    const int channels, const int pixel, const int kernel_height,
                                    const int kernel_width, const int stride_y, const int stride_x,
                                    const int pad_top, const int pad_left, const int out_height,
                                    const int out_width, const int dilation_y, const int dilation_x,
                                    const int out_channels, const int out_pixel, const float *image,
                                    const float *weights, float *out, float *scratch,
                                    epilogue_fn epilogue, const float *const *operands,
                                    const struct fast_share share)
{
    const int rows = out_height * out_width, depth = kernel_height * kernel_width * channels;
    const int row = share.step / 2 * block, count = fast_smaller(block, rows - row);
    int i;
    if (share.step % 2 != 0) {
        gemm_share(GEMM_LAST(rows, block), fast_smaller(rows, block), out_channels, depth, depth,
                   out_pixel, row, count, scratch, weights, out, epilogue, operands, share);
        return;
    }
    for (i = share_from(count, share); i < share_to(count, share); ++i) {
        int y = (row + i) / out_width * stride_y - pad_top;
        int x = (row + i) % out_width * stride_x - pad_left;
        convolution_patch(height, width, channels, pixel, kernel_height, kernel_width, dilation_y,
                          dilation_x, y, x, image, scratch + (long)i * depth);
    }
}

/* `pixels` outputs of one row, `blocks` blocks of channels from `column` on. image points at the
 * upper left corner of the first patch. */
FAST_INLINE void direct_tile(const int pixels, const int blocks, const int channels,
                             const int kernel_height, const int kernel_width, const int stride_x,
                             const int width, const int out_channels, const int out_pixel,
                             int column, const float *image, const float *weights, float *out,
                             long pixel, epilogue_fn epilogue, const float *const *operands)
{
    const int depth = kernel_height * kernel_width * channels, part = kernel_width * channels;
    vec acc[TILE_ROWS_MAX][TILE_VECTORS];
    int i, j, r;
    FAST_UNROLL
    for (i = 0; i < pixels; ++i) {
        FAST_UNROLL
        for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
            acc[i][j] = vec_splat(0.0f);
        }
    }
    for (r = 0; r < kernel_height; ++r) {
        gemm_accumulate(acc, pixels, blocks, depth, part, (long)stride_x * channels,
                        image + (long)r * width * channels, weights + (long)r * part * GEMM_BLOCK,
                        0, weights);
    }
    FAST_FENCE();
    FAST_UNROLL
    for (i = 0; i < pixels; ++i) {
        FAST_UNROLL
        for (j = 0; j < blocks * BLOCK_VECTORS; ++j) {
            int at = column + LANES * j;
            if (at < out_channels) {
                vec value = epilogue(acc[i][j], pixel + i, at, operands);
                vec_store_column(out + (pixel + i) * out_pixel, out_channels, at, value);
            }
        }
    }
}

/* One row of outputs, or a share of it, `blocks` blocks of channels from `column` on. */
FAST_INLINE void direct_row(const int wish, const int blocks, const int channels,
                            const int kernel_height, const int kernel_width, const int stride_x,
                            const int width, const int out_width, const int out_channels,
                            const int out_pixel, int column, const float *image,
                            const float *weights, float *out, long pixel, epilogue_fn epilogue,
                            const float *const *operands, const struct fast_share share)
{
    const int tile = wish < TILE_ROWS(blocks) ? wish : TILE_ROWS(blocks);
    const int tiles = (out_width + tile - 1) / tile;
    const int end = fast_smaller(share_to(tiles, share) * tile, out_width);
    int x = share_from(tiles, share) * tile;
    for (; x + tile <= end; x += tile) {
        direct_tile(tile, blocks, channels, kernel_height, kernel_width, stride_x, width,
                    out_channels, out_pixel, column, image + (long)x * stride_x * channels, weights,
                    out, pixel + x, epilogue, operands);
    }
    if (out_width % tile != 0 && x < end) {
        direct_tile(out_width % tile, blocks, channels, kernel_height, kernel_width, stride_x,
                    width, out_channels, out_pixel, column, image + (long)x * stride_x * channels,
                    weights, out, pixel + x, epilogue, operands);
    }
}

/* The image's first `channels` of each pixel, with zeros around it, or a share of its rows. */
FAST_INLINE void direct_pad(const int height, const int width, const int channels, const int pixel,
                            const int pad_top, const int pad_left, const int padded_height,
                            const int padded_width, const float *image, float *padded,
                            const struct fast_share share)
{
    const int to = share_to(padded_height, share);
    const int room = padded_width - pad_left, copied = room < width ? room : width;
    const int right = padded_width - pad_left - copied;
    int y, x;
    for (y = share_from(padded_height, share); y < to; ++y) {
        float *row = padded + (long)y * padded_width * channels;
        int at = y - pad_top;
        const float *from = image + (long)at * width * pixel;
        if (at < 0 || at >= height) {
            memset(row, 0, sizeof(float) * padded_width * channels);
            continue;
        }
        memset(row, 0, sizeof(float) * pad_left * channels);
        row += pad_left * channels;
        if (pixel == channels) {
            memcpy(row, from, sizeof(float) * copied * channels);
        } else {
            for (x = 0; x < copied; ++x) {
                fast_copy(channels, row + (long)x * channels, from + (long)x * pixel);
            }
        }
        memset(row + (long)copied * channels, 0, sizeof(float) * right * channels);
    }
}

/* One group of channels; pixel and out_pixel: channels of all groups, in and out. wish: pixels of a
 * tile that divide out_width well. scratch: the group's padded image,
 * ((out_height - 1) * stride_y + kernel_height) x ((out_width - 1) * stride_x + kernel_width) x
 * channels, when that is not within the image, or has not all its channels: that copy is a step
 * before the other. Tasks share the rows of outputs, or each row where there are few. */
FAST_INLINE void convolution_direct(const int wish, const int height, const int width,
                                    const int channels, const int pixel, const int kernel_height,
                                    const int kernel_width, const int stride_y, const int stride_x,
                                    const int pad_top, const int pad_left, const int out_height,
                                    const int out_width, const int out_channels,
                                    const int out_pixel, const float *image, const float *weights,
                                    float *out, float *scratch, epilogue_fn epilogue,
                                    const float *const *operands, const struct fast_share share)
{
    const int by_rows = out_height >= DIRECT_ROWS_MIN;
    const struct fast_share all = {0, 0, 0, 1};
    const struct fast_share in_row = by_rows ? all : share;
    const int to = by_rows ? share_to(out_height, share) : out_height;
    const int padded_height = (out_height - 1) * stride_y + kernel_height;
    const int padded_width = (out_width - 1) * stride_x + kernel_width;
    const int copies =
        pad_top || pad_left || padded_height > height || padded_width > width || pixel != channels;
    const int row_width = copies ? padded_width : width;
    const int blocks = (out_channels + GEMM_BLOCK - 1) / GEMM_BLOCK;
    const int whole = blocks / TILE_BLOCKS * TILE_BLOCKS;
    const long block_size = (long)kernel_height * kernel_width * channels * GEMM_BLOCK;
    int y, block;
    if (copies && share.step == 0) {
        direct_pad(height, width, channels, pixel, pad_top, pad_left, padded_height, padded_width,
                   image, scratch, share);
        return;
    }
    if (copies) {
        image = scratch;
    }
    for (y = by_rows ? share_from(out_height, share) : 0; y < to; ++y) {
        const float *row = image + (long)y * stride_y * row_width * channels;
        for (block = 0; block < whole; block += TILE_BLOCKS) {
            direct_row(wish, TILE_BLOCKS, channels, kernel_height, kernel_width, stride_x,
                       row_width, out_width, out_channels, out_pixel, block * GEMM_BLOCK, row,
                       weights + block * block_size, out, (long)y * out_width, epilogue, operands,
                       in_row);
        }
        if (blocks != whole) {
            direct_row(wish, blocks - whole, channels, kernel_height, kernel_width, stride_x,
                       row_width, out_width, out_channels, out_pixel, whole * GEMM_BLOCK, row,
                       weights + whole * block_size, out, (long)y * out_width, epilogue, operands,
                       in_row);
        }
    }
}

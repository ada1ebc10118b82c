/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Winograd's F(4x4, 3x3) and F(2x2, 3x3) for 3x3 convolutions of stride 1 on one image in NHWC
 * (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015): patches of inputs
 * are transformed, multiplied with transformed weights in one matrix product for each of their
 * points, and transformed back to tiles of outputs. A quarter of the products of the direct form;
 * with tiles of 2x2 four ninths, but less than half the weights.
 *
 * Weights: for each point gemm.h's packing with depth = input channels. Needs gemm.h.
 */
#define WINOGRAD_TILE 4 /* at most */
#define WINOGRAD_PATCH 6
/* Planes at a distance of a multiple of 4 KB would meet in the same cache sets. */
#define WINOGRAD_GAP 16

FAST_INLINE void winograd_forward(const int tile, const vec d[WINOGRAD_PATCH],
                                  vec t[WINOGRAD_PATCH])
{
    if (tile == 2) {
        t[0] = d[0] - d[2];
        t[1] = d[1] + d[2];
        t[2] = d[2] - d[1];
        t[3] = d[1] - d[3];
    } else {
        vec a = d[4] - 4.0f * d[2], b = d[3] - 4.0f * d[1];
        vec c = d[4] - d[2], e = 2.0f * (d[3] - d[1]);
        t[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
        t[1] = a + b;
        t[2] = a - b;
        t[3] = c + e;
        t[4] = c - e;
        t[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
    }
}

FAST_INLINE void winograd_back(const int tile, const vec m[WINOGRAD_PATCH], vec y[WINOGRAD_TILE])
{
    vec a = m[1] + m[2], b = m[1] - m[2];
    if (tile == 2) {
        y[0] = m[0] + a;
        y[1] = b - m[3];
    } else {
        vec c = m[3] + m[4], e = m[3] - m[4];
        y[0] = m[0] + a + c;
        y[1] = b + 2.0f * e;
        y[2] = a + 4.0f * c;
        y[3] = b + 8.0f * e + m[5];
    }
}

/* Transforms one patch, whose corner is at (top, left), into `to` of each plane, one for a point.
 */
FAST_INLINE void winograd_input(const int tile, const int height, const int width,
                                const int channels, int top, int left, const float *image,
                                float *to, const long plane)
{
    const int patch = tile + 2;
    int inside = top >= 0 && left >= 0 && top + patch <= height && left + patch <= width;
    int c, i, j;
    for (c = 0; c < channels; c += LANES) {
        vec half[WINOGRAD_PATCH][WINOGRAD_PATCH], column[WINOGRAD_PATCH], done[WINOGRAD_PATCH];
        for (j = 0; j < patch; ++j) {
            FAST_UNROLL
            for (i = 0; i < patch; ++i) {
                int y = top + i, x = left + j;
                column[i] = vec_splat(0.0f);
                if (inside || (y >= 0 && y < height && x >= 0 && x < width)) {
                    column[i] =
                        vec_load_column(image + ((long)y * width + x) * channels, channels, c);
                }
            }
            winograd_forward(tile, column, done);
            FAST_UNROLL
            for (i = 0; i < patch; ++i) {
                half[i][j] = done[i];
            }
        }
        for (i = 0; i < patch; ++i) {
            winograd_forward(tile, half[i], done);
            FAST_UNROLL
            for (j = 0; j < patch; ++j) {
                vec_store_column(to + (i * patch + j) * plane, channels, c, done[j]);
            }
        }
    }
}

/* Transforms one tile of products back, into the outputs from (top, left) on. padded: channels of a
 * row of products. */
FAST_INLINE void winograd_output(const int tile, const int out_height, const int out_width,
                                 const int out_channels, int top, int left, const float *from,
                                 const long plane, float *out, epilogue_fn epilogue,
                                 const float *const *operands)
{
    const int patch = tile + 2;
    int c, i, j;
    for (c = 0; c < out_channels; c += LANES) {
        vec half[WINOGRAD_TILE][WINOGRAD_PATCH], column[WINOGRAD_PATCH], done[WINOGRAD_TILE];
        for (j = 0; j < patch; ++j) {
            FAST_UNROLL
            for (i = 0; i < patch; ++i) {
                column[i] = vec_load(from + c + (i * patch + j) * plane);
            }
            winograd_back(tile, column, done);
            FAST_UNROLL
            for (i = 0; i < tile; ++i) {
                half[i][j] = done[i];
            }
        }
        for (i = 0; i < tile && top + i < out_height; ++i) {
            winograd_back(tile, half[i], done);
            FAST_UNROLL
            for (j = 0; j < tile; ++j) {
                if (left + j < out_width) {
                    long pixel = (long)(top + i) * out_width + left + j;
                    vec value = epilogue(done[j], pixel, c, operands);
                    vec_store_column(out + pixel * out_channels, out_channels, c, value);
                }
            }
        }
    }
}

/* tile: 2 or 4; block: tiles at a time. scratch: for each point a plane of block x channels +
 * WINOGRAD_GAP floats, then as many with out_channels, rounded up to blocks of 16, in the place of
 * channels. Three steps for each block: the transform of inputs, the products, the transform back.
 */
FAST_INLINE void convolution_winograd(const int tile, const int block, const int height,
                                      const int width, const int channels, const int pad_top,
                                      const int pad_left, const int out_height, const int out_width,
                                      const int out_channels, const float *image,
                                      const float *weights, float *out, float *scratch,
                                      epilogue_fn epilogue, const float *const *operands,
                                      const struct fast_share share)
{
    const int points = (tile + 2) * (tile + 2), across = (out_width + tile - 1) / tile;
    const int tiles = (out_height + tile - 1) / tile * across;
    const int padded = (out_channels + GEMM_BLOCK - 1) / GEMM_BLOCK * GEMM_BLOCK;
    const long in_plane = (long)block * channels + WINOGRAD_GAP;
    const long out_plane = (long)block * padded + WINOGRAD_GAP;
    float *inputs = scratch, *products = scratch + points * in_plane;
    const int first = share.step / 3 * block, count = fast_smaller(block, tiles - first);
    int i;
    if (share.step % 3 == 0) {
        for (i = share_from(count, share); i < share_to(count, share); ++i) {
            int top = (first + i) / across * tile - pad_top;
            int left = (first + i) % across * tile - pad_left;
            winograd_input(tile, height, width, channels, top, left, image,
                           inputs + (long)i * channels, in_plane);
        }
    } else if (share.step % 3 == 1) {
        /* Of the last block too: what lies behind its tiles is never read. */
        for (i = share_from(points, share); i < share_to(points, share); ++i) {
            gemm_rows(block, padded, channels, channels, padded, 0, block, inputs + i * in_plane,
                      weights + (long)i * padded * channels, products + i * out_plane,
                      epilogue_none, operands);
        }
    } else {
        for (i = share_from(count, share); i < share_to(count, share); ++i) {
            int top = (first + i) / across * tile;
            int left = (first + i) % across * tile;
            winograd_output(tile, out_height, out_width, out_channels, top, left,
                            products + (long)i * padded, out_plane, out, epilogue, operands);
        }
    }
}

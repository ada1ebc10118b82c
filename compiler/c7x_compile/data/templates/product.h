/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Product of two variable matrices, [rows, depth] and [depth, columns]: the second is packed at run
 * time, in gemm.h's form, which this needs. scratch: ceil(columns / 16) * depth * 16 floats. Two
 * steps: packing, and the product.
 */
FAST_INLINE void product(const int rows, const int columns, const int depth, const float *a,
                         const float *b, float *c, float *scratch, epilogue_fn epilogue,
                         const float *const *operands, const struct fast_share share)
{
    const int blocks = (columns + GEMM_BLOCK - 1) / GEMM_BLOCK;
    int block, k, j;
    if (share.step == 1) {
        gemm(rows, columns, depth, depth, a, scratch, c, epilogue, operands, share);
        return;
    }
    for (block = share_from(blocks, share); block < share_to(blocks, share); ++block) {
        const int from = block * GEMM_BLOCK;
        float *packed = scratch + (long)from * depth;
        for (k = 0; k < depth; ++k, packed += GEMM_BLOCK) {
            for (j = 0; j < GEMM_BLOCK; j += LANES) {
                vec value = vec_splat(0.0f);
                if (from + j < columns) {
                    value = vec_load_column(b + (long)k * columns, columns, from + j);
                }
                vec_store(packed + j, value);
            }
        }
    }
}

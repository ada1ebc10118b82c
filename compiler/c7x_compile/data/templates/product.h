/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Product of two variable matrices, [rows, depth] and [depth, columns]: the second is packed at run
 * time, in gemm.h's form, which this needs. scratch: ceil(columns / 16) * depth * 16 floats.
 */
FAST_INLINE void product(const int rows, const int columns, const int depth, const float *a,
                         const float *b, float *c, float *scratch, epilogue_fn epilogue,
                         const float *const *operands)
{
    float *packed = scratch;
    int from, k, j;
    for (from = 0; from < columns; from += GEMM_BLOCK) {
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
    gemm(rows, columns, depth, depth, a, scratch, c, epilogue, operands);
}

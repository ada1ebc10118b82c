/* SPDX-License-Identifier: Apache-2.0 */
#include "c7x_kernels.h"
#include "firmware/kernels/mmalib_impl.h"

/* Columns that are summed at once; all sizes of mmalib_matmul_* are multiples of it. */
#define TILE 32

static bool sizes_are_good(enum c7x_mmalib_element element, int32_t rows, int32_t depth,
                           int32_t columns)
{
    int32_t unit = element == C7X_MMALIB_I8 ? 64 : 32;
    int64_t volume;
    return depth % unit == 0 && columns % unit == 0 &&
           (element != C7X_MMALIB_I8 || depth <= C7X_MMALIB_I8_PRODUCTS_MAX) &&
           C7X_VOLUME(&volume, rows, depth) && C7X_VOLUME(&volume, depth, columns) &&
           C7X_VOLUME(&volume, rows, columns);
}

/* ---- Without bias: b[depth][columns] ---- */

/* TILE elements of one output row. */
static void sum_columns_i8(const int8_t *a, const int8_t *b, int32_t depth, int32_t columns,
                           int64_t sums[TILE])
{
    int32_t partial[TILE] = {0};
    for (int64_t k = 0; k < depth; k++) {
        for (int i = 0; i < TILE; i++)
            partial[i] += a[k] * b[k * columns + i];
    }
    for (int i = 0; i < TILE; i++)
        sums[i] = partial[i];
}

static void sum_columns_i16(const int16_t *a, const int16_t *b, int32_t depth, int32_t columns,
                            int64_t sums[TILE])
{
    for (int i = 0; i < TILE; i++)
        sums[i] = 0;
    for (int64_t k = 0; k < depth; k++) {
        for (int i = 0; i < TILE; i++)
            sums[i] += a[k] * b[k * columns + i];
    }
}

static bool matmul_is_good(enum c7x_mmalib_element element, const void *a, const void *b,
                           const void *out, int32_t rows, int32_t depth, int32_t columns,
                           int32_t shift)
{
    return c7x_is_aligned(a) && c7x_is_aligned(b) && c7x_is_aligned(out) && shift >= 0 &&
           shift <= 62 && rows % (element == C7X_MMALIB_I8 ? 64 : 32) == 0 &&
           sizes_are_good(element, rows, depth, columns);
}

int32_t mmalib_matmul_i8(const void *a, const void *b, void *out, int32_t rows, int32_t depth,
                         int32_t columns, int32_t shift)
{
    const uint8_t shifts[1] = {(uint8_t)shift};
    const struct c7x_requantizer requantizer = {.shift = shifts, .element = C7X_MMALIB_I8};
    int64_t sums[TILE];
    if (!matmul_is_good(C7X_MMALIB_I8, a, b, out, rows, depth, columns, shift))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column += TILE) {
            sum_columns_i8((const int8_t *)a + row * depth, (const int8_t *)b + column, depth,
                           columns, sums);
            c7x_requantize(&requantizer, 0, sums, TILE, (int8_t *)out + row * columns + column);
        }
    }
    return 0;
}

int32_t mmalib_matmul_i16(const void *a, const void *b, void *out, int32_t rows, int32_t depth,
                          int32_t columns, int32_t shift)
{
    const uint8_t shifts[1] = {(uint8_t)shift};
    const struct c7x_requantizer requantizer = {.shift = shifts, .element = C7X_MMALIB_I16};
    int64_t sums[TILE];
    if (!matmul_is_good(C7X_MMALIB_I16, a, b, out, rows, depth, columns, shift))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column += TILE) {
            sum_columns_i16((const int16_t *)a + row * depth, (const int16_t *)b + column, depth,
                            columns, sums);
            c7x_requantize(&requantizer, 0, sums, TILE, (int16_t *)out + row * columns + column);
        }
    }
    return 0;
}

/* ---- With bias: weight[columns][depth] ---- */

static int64_t dot_i8(const int8_t *x, const int8_t *w, int32_t n)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] * w[i];
    return sum;
}

static int64_t dot_i16(const int16_t *x, const int16_t *w, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] * w[i];
    return sum;
}

static bool matmul_bias_is_good(const struct c7x_requantizer *requantizer, const void *in,
                                const void *weight, const void *out, int32_t rows, int32_t depth,
                                int32_t columns)
{
    return c7x_is_aligned(in) && weight != NULL && c7x_is_aligned(out) &&
           sizes_are_good(requantizer->element, rows, depth, columns) &&
           c7x_shifts_are_good(requantizer, 0, columns);
}

int32_t mmalib_matmul_bias_i8(const void *in, const void *weight, const void *bias,
                              const void *scale, const void *shift, void *out, int32_t rows,
                              int32_t depth, int32_t columns)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I8};
    int8_t *y = out;
    if (!matmul_bias_is_good(&requantizer, in, weight, out, rows, depth, columns))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) {
            int64_t sum = dot_i8((const int8_t *)in + row * depth,
                                 (const int8_t *)weight + column * depth, depth);
            c7x_requantize(&requantizer, column, &sum, 1, y++);
        }
    }
    return 0;
}

int32_t mmalib_matmul_bias_i16(const void *in, const void *weight, const void *bias,
                               const void *scale, const void *shift, void *out, int32_t rows,
                               int32_t depth, int32_t columns)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I16};
    int16_t *y = out;
    if (!matmul_bias_is_good(&requantizer, in, weight, out, rows, depth, columns))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) {
            int64_t sum = dot_i16((const int16_t *)in + row * depth,
                                  (const int16_t *)weight + column * depth, depth);
            c7x_requantize(&requantizer, column, &sum, 1, y++);
        }
    }
    return 0;
}

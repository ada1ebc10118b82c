/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax over the columns of each row: e^(x - highest) over the sum of all. The output holds the
 * powers until their sum is known.
 */

/* The highest of a row; NaN is not. The last vector may overlap the one before. */
FAST_INLINE float softmax_highest(const int columns, const float *row)
{
    vec high = vec_splat(-(float)INFINITY), other = high;
    float highest = -(float)INFINITY;
    int c;
    if (columns < LANES) {
        for (c = 0; c < columns; ++c) {
            highest = row[c] > highest ? row[c] : highest;
        }
        return highest;
    }
    for (c = 0; c + 2 * LANES <= columns; c += 2 * LANES) {
        high = vec_max(vec_load(row + c), high);
        other = vec_max(vec_load(row + c + LANES), other);
    }
    if (c + LANES <= columns) {
        high = vec_max(vec_load(row + c), high);
    }
    other = vec_max(vec_load(row + columns - LANES), other);
    return vec_highest(vec_max(high, other));
}

/* Stores the powers of a row and returns their sum. */
FAST_INLINE float softmax_powers(const int columns, float highest, const float *row, float *out)
{
    vec sum = vec_splat(0.0f), top = vec_splat(highest);
    int c;
    for (c = 0; c + LANES <= columns; c += LANES) {
        vec power = vec_exp(vec_load(row + c) - top);
        vec_store(out + c, power);
        sum += power;
    }
    if (columns % LANES != 0) {
        vec power = vec_exp(vec_load_part(row + c, columns % LANES) - top);
        vec_store_part(out + c, power, columns % LANES);
        sum += vec_load_part(out + c, columns % LANES);
    }
    return vec_total(sum);
}

FAST_INLINE void softmax(const int rows, const int columns, const float *in, float *out,
                         epilogue_fn epilogue, const float *const *operands,
                         const struct fast_share share)
{
    const int to = share_to(rows, share);
    int r, c;
    for (r = share_from(rows, share); r < to; ++r) {
        const float *from = in + (long)r * columns;
        float *row = out + (long)r * columns;
        float sum = softmax_powers(columns, softmax_highest(columns, from), from, row);
        vec factor = vec_splat(1.0f / sum);
        for (c = 0; c < columns; c += LANES) {
            vec value = vec_load_column(row, columns, c) * factor;
            vec_store_column(row, columns, c, epilogue(value, r, c, operands));
        }
    }
}

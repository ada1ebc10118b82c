/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer normalisation of each row: (x - mean) / sqrt(variance + epsilon) * scale + shift. The
 * weights are the scales of all columns, then the shifts.
 */

/* The sum of (x - from)^power over a row, power 1 or 2. */
FAST_INLINE float layernorm_sum(const int columns, const int power, float from, const float *row)
{
    vec sum = vec_splat(0.0f), other = sum, base = vec_splat(from);
    float total;
    int c;
    for (c = 0; c + 2 * LANES <= columns; c += 2 * LANES) {
        vec a = vec_load(row + c) - base, b = vec_load(row + c + LANES) - base;
        sum += power == 2 ? a * a : a;
        other += power == 2 ? b * b : b;
    }
    if (c + LANES <= columns) {
        vec a = vec_load(row + c) - base;
        sum += power == 2 ? a * a : a;
        c += LANES;
    }
    total = vec_total(sum + other);
    for (; c < columns; ++c) {
        float a = row[c] - from;
        total += power == 2 ? a * a : a;
    }
    return total;
}

FAST_INLINE void layernorm(const int rows, const int columns, const float epsilon, const float *in,
                           const float *weights, float *out, epilogue_fn epilogue,
                           const float *const *operands, const struct fast_share share)
{
    const int to = share_to(rows, share);
    int r, c;
    for (r = share_from(rows, share); r < to; ++r) {
        const float *row = in + (long)r * columns;
        const float mean = layernorm_sum(columns, 1, 0.0f, row) / (float)columns;
        const float variance = layernorm_sum(columns, 2, mean, row) / (float)columns;
        vec base = vec_splat(mean), factor = vec_splat(1.0f / sqrtf(variance + epsilon));
        for (c = 0; c < columns; c += LANES) {
            vec scale = vec_load_column(weights, columns, c);
            vec shift = vec_load_column(weights + columns, columns, c);
            vec value = (vec_load_column(row, columns, c) - base) * factor * scale + shift;
            vec_store_column(out + (long)r * columns, columns, c, epilogue(value, r, c, operands));
        }
    }
}

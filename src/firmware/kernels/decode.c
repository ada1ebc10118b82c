/* SPDX-License-Identifier: Apache-2.0 */
/* What a language model or a detector does for one token or one picture at its end, in float32. */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

#include <string.h>

/* A sum of floats in this many parts is one vector addition a step. */
#define LANES 8

static float sum_lanes(const float lanes[LANES])
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static float dot_i8(const float *x, const int8_t *w, int32_t n)
{
    float lanes[LANES] = {0};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += x[i + lane] * (float)w[i + lane];
    }
    for (; i < n; i++)
        lanes[i % LANES] += x[i] * (float)w[i];
    return sum_lanes(lanes);
}

static float dot_f32(const float *x, const float *w, int32_t n)
{
    float lanes[LANES] = {0};
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += x[i + lane] * w[i + lane];
    }
    for (; i < n; i++)
        lanes[i % LANES] += x[i] * w[i];
    return sum_lanes(lanes);
}

int32_t c7x_dequantize_vecmatmul(const void *activation, const void *weight, const void *scale,
                                 void *out, int32_t rows, int32_t depth, int32_t columns)
{
    const float *s = scale;
    float *y = out;
    int64_t volume;
    if (activation == NULL || weight == NULL || scale == NULL || out == NULL ||
        !C7X_VOLUME(&volume, rows, depth) || !C7X_VOLUME(&volume, depth, columns) ||
        !C7X_VOLUME(&volume, rows, columns))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < rows; row++) {
        const float *x = (const float *)activation + row * depth;
        for (int64_t column = 0; column < columns; column++)
            *y++ = dot_i8(x, (const int8_t *)weight + column * depth, depth) * s[column];
    }
    return 0;
}

/* ---- Attention ---- */

struct head {
    const float *key;   /* [length][size] */
    const float *value; /* [length][size] */
    const float *mask;  /* [length] */
    int32_t size;
    int32_t length;
};

/* One head in one pass: the sums so far are scaled down when a larger score comes. */
static void attend(const struct head *head, const float *query, float *out)
{
    float scale = 1.0f / sqrtf((float)head->size);
    float most = -INFINITY;
    float sum = 0.0f;
    memset(out, 0, sizeof(*out) * (size_t)head->size);
    for (int64_t t = 0; t < head->length; t++) {
        const float *value = head->value + t * head->size;
        float score;
        float weight;
        if (head->mask[t] == -INFINITY)
            continue;
        score = dot_f32(query, head->key + t * head->size, head->size) * scale + head->mask[t];
        if (score == -INFINITY)
            continue;
        if (score > most) {
            float shrink = expf(most - score);
            for (int32_t i = 0; i < head->size; i++)
                out[i] *= shrink;
            sum *= shrink;
            most = score;
        }
        weight = expf(score - most);
        for (int32_t i = 0; i < head->size; i++)
            out[i] += weight * value[i];
        sum += weight;
    }
    for (int32_t i = 0; i < head->size && sum != 0.0f; i++)
        out[i] /= sum;
}

int32_t c7x_sdpa_decode(const void *query, const void *key, const void *value, const void *mask,
                        void *out, int32_t query_heads, int32_t kv_heads, int32_t head_size,
                        int32_t length)
{
    int64_t volume;
    if (query == NULL || key == NULL || value == NULL || mask == NULL || out == NULL ||
        kv_heads < 1 || query_heads % kv_heads != 0 ||
        !C7X_VOLUME(&volume, query_heads, head_size) ||
        !C7X_VOLUME(&volume, kv_heads, length, head_size))
        return C7X_KERNEL_REFUSED;
    for (int64_t i = 0; i < query_heads; i++) {
        int64_t shared = i / (query_heads / kv_heads) * length * head_size;
        const struct head head = {(const float *)key + shared, (const float *)value + shared, mask,
                                  head_size, length};
        attend(&head, (const float *)query + i * head_size, (float *)out + i * head_size);
    }
    return 0;
}

/* ---- The k largest ---- */

/* Whether a value comes before another that stands at a lower index. */
static bool comes_before(float value, float other)
{
    return value > other || (isnan(other) && !isnan(value));
}

static void topk_row(const float *data, float *values, int64_t *indices, int32_t n, int32_t k)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t at = count;
        if (count == k && !comes_before(data[i], values[k - 1]))
            continue;
        if (count == k)
            at--;
        else
            count++;
        for (; at > 0 && comes_before(data[i], values[at - 1]); at--) {
            values[at] = values[at - 1];
            indices[at] = indices[at - 1];
        }
        values[at] = data[i];
        indices[at] = i;
    }
}

int32_t c7x_topk(const float *data, float *values, int64_t *indices, int32_t batch, int32_t n,
                 int32_t k)
{
    int64_t volume;
    if (data == NULL || values == NULL || indices == NULL || k < 0 || k > n ||
        !C7X_VOLUME(&volume, batch, n))
        return C7X_KERNEL_REFUSED;
    for (int64_t row = 0; row < batch && k > 0; row++)
        topk_row(data + row * n, values + row * k, indices + row * k, n, k);
    return 0;
}

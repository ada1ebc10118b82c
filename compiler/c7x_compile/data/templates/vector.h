/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of floats of the CPU's own width, and what the templates and epilogues do with them.
 *
 * A vector wider than a register goes through memory and is ten times slower, so the width follows
 * the instruction set; without vector extensions, or with C7X_NO_VECTORS, a vector is one float.
 * vec_max and vec_min give their second operand when either is NaN, as `a > b ? a : b` does.
 */
#if !defined(__GNUC__) || defined(C7X_NO_VECTORS)
#define LANES 1
#elif defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX__)
#include <immintrin.h>
#define LANES 8
#else
#define LANES 4
#endif

#if defined(__GNUC__)
#define FAST_INLINE static inline __attribute__((always_inline, unused))
/* Between the loop of products and an epilogue: keeps the epilogue's constants out of the registers
 * of the loop. */
#define FAST_FENCE() __asm__ volatile("" ::: "memory")
/* Keeps the compiler from taking an array's contents for known. */
#define FAST_IN_MEMORY __attribute__((used))
#define FAST_PREFETCH(address) __builtin_prefetch(address, 0, 2)
#else
#define FAST_INLINE static inline
#define FAST_FENCE()
#define FAST_IN_MEMORY
#define FAST_PREFETCH(address)
#endif

/* clang does not know gcc's pragma. */
#if defined(__clang__)
#define FAST_UNROLL _Pragma("clang loop unroll(full)")
#define FAST_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#elif defined(__GNUC__)
#define FAST_UNROLL _Pragma("GCC unroll 16")
#define FAST_UNROLL_TWICE _Pragma("GCC unroll 2")
#else
#define FAST_UNROLL
#define FAST_UNROLL_TWICE
#endif

#if LANES > 1
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t vec_int __attribute__((vector_size(4 * LANES)));
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

FAST_INLINE vec vec_load(const float *from)
{
    return *(const vec_anywhere *)from;
}

FAST_INLINE void vec_store(float *to, vec value)
{
    *(vec_anywhere *)to = value;
}

/* A list of copies becomes a broadcast from memory; an addition to zero would stay one. */
FAST_INLINE vec vec_splat(float x)
{
#if LANES == 16
    vec all = {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
#elif LANES == 8
    vec all = {x, x, x, x, x, x, x, x};
#else
    vec all = {x, x, x, x};
#endif
    return all;
}

/* 2^n for whole n in -126..127. */
FAST_INLINE vec vec_power_of_two(vec n)
{
    vec_int bits = (__builtin_convertvector(n, vec_int) + 127) << 23;
    return (vec)bits;
}

FAST_INLINE vec vec_select(vec_int mask, vec where_set, vec elsewhere)
{
    return (vec)(((vec_int)where_set & mask) | ((vec_int)elsewhere & ~mask));
}
#else
typedef float vec;
typedef int32_t vec_int;

FAST_INLINE vec vec_load(const float *from)
{
    return *from;
}

FAST_INLINE void vec_store(float *to, vec value)
{
    *to = value;
}

FAST_INLINE vec vec_splat(float x)
{
    return x;
}

FAST_INLINE vec vec_power_of_two(vec n)
{
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    vec value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

FAST_INLINE vec vec_select(vec_int mask, vec where_set, vec elsewhere)
{
    return mask ? where_set : elsewhere;
}
#endif

/* vec_load_part and vec_store_part touch the first count floats alone, 0 < count; lanes that were
 * not loaded are 0. */
#if LANES == 16
FAST_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

FAST_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}

FAST_INLINE __mmask16 vec_mask(int count)
{
    return (__mmask16)(count >= 16 ? 0xffffu : (1u << count) - 1u);
}

FAST_INLINE vec vec_load_part(const float *from, int count)
{
    return (vec)_mm512_maskz_loadu_ps(vec_mask(count), from);
}

FAST_INLINE void vec_store_part(float *to, vec value, int count)
{
    _mm512_mask_storeu_ps(to, vec_mask(count), (__m512)value);
}
#elif LANES == 8
FAST_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

FAST_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
}

FAST_INLINE __m256i vec_mask(int count)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - (count > 8 ? 8 : count)));
}

FAST_INLINE vec vec_load_part(const float *from, int count)
{
    return (vec)_mm256_maskload_ps(from, vec_mask(count));
}

FAST_INLINE void vec_store_part(float *to, vec value, int count)
{
    _mm256_maskstore_ps(to, vec_mask(count), (__m256)value);
}
#else
FAST_INLINE vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

FAST_INLINE vec vec_min(vec a, vec b)
{
    return vec_select(a < b, a, b);
}

FAST_INLINE vec vec_load_part(const float *from, int count)
{
    vec value = vec_splat(0.0f);
    memcpy(&value, from, sizeof(float) * (size_t)(count > LANES ? LANES : count));
    return value;
}

FAST_INLINE void vec_store_part(float *to, vec value, int count)
{
    memcpy(to, &value, sizeof(float) * (size_t)(count > LANES ? LANES : count));
}
#endif

/* Highest and sum of the lanes. */
#if LANES == 16
FAST_INLINE float vec_highest(vec value)
{
    return _mm512_reduce_max_ps((__m512)value);
}

FAST_INLINE float vec_total(vec value)
{
    return _mm512_reduce_add_ps((__m512)value);
}
#else
FAST_INLINE float vec_highest(vec value)
{
    float lanes[LANES], highest;
    int i;
    vec_store(lanes, value);
    highest = lanes[0];
    FAST_UNROLL
    for (i = 1; i < LANES; ++i) {
        highest = lanes[i] > highest ? lanes[i] : highest;
    }
    return highest;
}

FAST_INLINE float vec_total(vec value)
{
    float lanes[LANES], total;
    int i;
    vec_store(lanes, value);
    total = lanes[0];
    FAST_UNROLL
    for (i = 1; i < LANES; ++i) {
        total += lanes[i];
    }
    return total;
}
#endif

/* The vector at column `column` of a row of `columns` floats; columns is a literal. */
FAST_INLINE vec vec_load_column(const float *row, const int columns, int column)
{
    return columns % LANES == 0 || columns - column >= LANES
               ? vec_load(row + column)
               : vec_load_part(row + column, columns - column);
}

FAST_INLINE void vec_store_column(float *row, const int columns, int column, vec value)
{
    if (columns % LANES == 0 || columns - column >= LANES) {
        vec_store(row + column, value);
    } else {
        vec_store_part(row + column, value, columns - column);
    }
}

/*
 * What an operator does to each vector of results before it is stored: a generated function that is
 * inlined. row counts output pixels, column is the first channel of the vector.
 */
typedef vec (*epilogue_fn)(vec value, long row, int column, const float *const *operands);

FAST_INLINE vec epilogue_none(vec value, long row, int column, const float *const *operands)
{
    (void)row;
    (void)column;
    (void)operands;
    return value;
}

FAST_INLINE int fast_smaller(int a, int b)
{
    return a < b ? a : b;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp, sigmoid and tanh of vectors, for epilogues: the polynomials of fastmath.py.
 *
 * The numbers stand in memory, not in the code: broadcast ahead of the loop of products they would
 * take its registers. NaN stays NaN.
 */
static float fast_numbers[] FAST_IN_MEMORY = {-87.0f,
                                              88.0f,
                                              1.44269504088896341f,
                                              12582912.0f,
                                              0.693359375f,
                                              2.12194440e-4f,
                                              1.9875691500e-4f,
                                              1.3981999507e-3f,
                                              8.3334519073e-3f,
                                              4.1665795894e-2f,
                                              1.6666665459e-1f,
                                              5.0000001201e-1f,
                                              1.0f,
                                              -5.70498872745e-3f,
                                              2.06390887954e-2f,
                                              -5.37397155531e-2f,
                                              1.33314422036e-1f,
                                              -3.33332819422e-1f,
                                              2.0f,
                                              0.625f,
                                              -86.5f,
                                              88.72283f};
#define FAST_NUMBER(index) vec_splat(fast_numbers[index])

/* e^x for x within -87..88, of other values that of the nearer end: 2^n times a polynomial of the
 * rest. */
FAST_INLINE vec vec_exp_bounded(vec x)
{
    vec n, rest, value;
    x = vec_min(FAST_NUMBER(1), vec_max(FAST_NUMBER(0), x));
    n = (x * FAST_NUMBER(2) + FAST_NUMBER(3)) - FAST_NUMBER(3);
    rest = x - n * FAST_NUMBER(4) + n * FAST_NUMBER(5);
    value = FAST_NUMBER(6) * rest + FAST_NUMBER(7);
    value = value * rest + FAST_NUMBER(8);
    value = value * rest + FAST_NUMBER(9);
    value = value * rest + FAST_NUMBER(10);
    value = value * rest + FAST_NUMBER(11);
    value = value * rest * rest + rest + FAST_NUMBER(12);
    return value * vec_power_of_two(n);
}

FAST_INLINE vec vec_sigmoid(vec x)
{
    return FAST_NUMBER(12) / (FAST_NUMBER(12) + vec_exp_bounded(-x));
}

/* An odd polynomial near 0, 1 - 2 / (e^2x + 1) elsewhere. */
FAST_INLINE vec vec_tanh(vec x)
{
    vec square = x * x;
    vec outer = FAST_NUMBER(12) - FAST_NUMBER(18) / (vec_exp_bounded(x + x) + FAST_NUMBER(12));
    vec inner = FAST_NUMBER(13) * square + FAST_NUMBER(14);
    inner = inner * square + FAST_NUMBER(15);
    inner = inner * square + FAST_NUMBER(16);
    inner = inner * square + FAST_NUMBER(17);
    inner = inner * square * x + x;
    return vec_select(vec_max(x, -x) < FAST_NUMBER(19), inner, outer);
}

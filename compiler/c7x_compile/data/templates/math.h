/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exp, sigmoid, tanh and erf of vectors, for epilogues: the polynomials of fastmath.py.
 *
 * Relative errors, over all floats but those whose result is no normal number, with FMA and without
 * (compiler/tests/test_fastmath.py): vec_exp 1e-7, vec_sigmoid 2e-7, vec_tanh 3e-7, vec_erf 4e-7.
 * NaN stays NaN.
 *
 * The numbers stand in memory, not in the code: broadcast ahead of the loop of products they would
 * take its registers.
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
                                              4.0f,
                                              1.9868053e-6f,
                                              2.8456093e-4f,
                                              3.8831579e-3f,
                                              5.3101175e-2f,
                                              1.9354084e-1f,
                                              1.1283791f,
                                              3.742015e-5f,
                                              1.1855245e-3f,
                                              1.5206881e-2f,
                                              1.1534824e-1f,
                                              5.0485367e-1f};
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

/* e^x; 0 where it is no normal number, and infinity from 88 on. */
FAST_INLINE vec vec_exp(vec x)
{
    vec value = vec_select(x < FAST_NUMBER(0), vec_splat(0.0f), vec_exp_bounded(x));
    return vec_select(x > FAST_NUMBER(1), vec_splat((float)INFINITY), value);
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

/* x P(x^2) / Q(x^2) within -4..4, where erf reaches 1 to the last bit. */
FAST_INLINE vec vec_erf(vec x)
{
    vec square, upper, lower, value;
    x = vec_min(FAST_NUMBER(20), vec_max(-FAST_NUMBER(20), x));
    square = x * x;
    upper = FAST_NUMBER(21) * square + FAST_NUMBER(22);
    upper = upper * square + FAST_NUMBER(23);
    upper = upper * square + FAST_NUMBER(24);
    upper = upper * square + FAST_NUMBER(25);
    upper = upper * square + FAST_NUMBER(26);
    lower = FAST_NUMBER(27) * square + FAST_NUMBER(28);
    lower = lower * square + FAST_NUMBER(29);
    lower = lower * square + FAST_NUMBER(30);
    lower = lower * square + FAST_NUMBER(31);
    lower = lower * square + FAST_NUMBER(12);
    value = upper * x / lower;
    return vec_min(FAST_NUMBER(12), vec_max(-FAST_NUMBER(12), value));
}

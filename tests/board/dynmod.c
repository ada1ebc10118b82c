/* SPDX-License-Identifier: Apache-2.0 */
/* The module of test_dynmod.sh: says in the firmware's log how far it has come. No inputs, no
 * outputs. */
#include "c7x_module.h"

#include <string.h>

enum { BYTES = 64, TERMS = 10 };

/* volatile: the compiler must neither compute the result nor drop the call. */
static volatile int terms = TERMS;
static volatile size_t copy_size = BYTES;
static char source[BYTES];
static char copy[BYTES];

/* Compares by itself: some compilers make bcmp, which is not exported, of memcmp. */
static int memcpy_works(void)
{
    int wrong = 0;
    for (int i = 0; i < BYTES; i++)
        source[i] = (char)(i * 3);
    memcpy(copy, source, copy_size);
    for (int i = 0; i < BYTES; i++)
        wrong += copy[i] != (char)(i * 3);
    return wrong == 0;
}

static int sum_below(int end)
{
    int sum = 0;
    for (int i = 0; i < end; i++)
        sum += i;
    return sum;
}

int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output)
{
    (void)inputs;
    (void)num_inputs;
    (void)constants;
    (void)output;
    dsp_trace_msg("dynmod: entry called\n");
    int copied = memcpy_works();
    DebugP_log("dynmod: memcpy test %s\n", copied ? "pass" : "fail");
    int sum = sum_below(terms);
    DebugP_log("dynmod: compute test %d expected %d\n", sum, 45);
    if (!copied || sum != 45)
        return -1;
    dsp_trace_msg("dynmod: all passed\n");
    return 0;
}

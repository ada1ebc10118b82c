/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/exports/c7x_abi.h"

#include "firmware/printf/printf.h"
#include "firmware/tvm/platform.h"

#include <stddef.h>

int32_t c7x_abi_cmpd(double a, double b)
{
    if (a < b)
        return -1;
    return a == b ? 0 : 1;
}

float c7x_abi_divf(float a, float b)
{
    return a / b;
}

uint64_t c7x_abi_divull(uint64_t a, uint64_t b)
{
    return b == 0 ? UINT64_MAX : a / b;
}

void c7x_abi_abort_msg(const char *text)
{
    (void)c7x_shm_fputs(text, NULL);
    c7x_module_abort();
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/loader/arch/arch.h"

#include "base/compiler.h"
#include "firmware/loader/elf64.h"

#include <stdio.h>

const struct c7x_arch *c7x_arch_native(void)
{
#if defined(__aarch64__)
    return &c7x_arch_aarch64;
#else
    return &c7x_arch_x86_64;
#endif
}

const struct c7x_arch *c7x_arch_find(uint16_t machine)
{
    static const struct c7x_arch *const known[] = {&c7x_arch_c7x, &c7x_arch_x86_64,
                                                   &c7x_arch_aarch64};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(known); i++)
        if (known[i]->machine == machine)
            return known[i];
    return NULL;
}

static const struct {
    uint16_t machine;
    const char *name;
} machines[] = {
    {3, "x86"},
    {40, "ARM"},
    {C7X_ELF_MACHINE_X86_64, "x86-64"},
    {C7X_ELF_MACHINE_C7X, "C7x"},
    {C7X_ELF_MACHINE_AARCH64, "AArch64"},
    {243, "RISC-V"},
};

const char *c7x_arch_machine_name(uint16_t machine, char *text, size_t text_size)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(machines); i++) {
        if (machines[i].machine == machine)
            return machines[i].name;
    }
    (void)snprintf(text, text_size, "machine %u", (unsigned)machine);
    return text;
}

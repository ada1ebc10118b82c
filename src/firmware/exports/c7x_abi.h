/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helper functions of TI's C7000 compiler, behind their names in the table (__c7xabi_cmpd and so
 * on), which belong to the implementation in C. Only those whose prototype is public; a module that
 * TI's linker made has its own copies.
 */
#ifndef C7X_FIRMWARE_EXPORTS_C7X_ABI_H
#define C7X_FIRMWARE_EXPORTS_C7X_ABI_H

#include <stdint.h>

/* -1, 0 or 1 as a is less than, equal to or greater than b; 1 if one of them is NaN. */
int32_t c7x_abi_cmpd(double a, double b);
float c7x_abi_divf(float a, float b);
/* All ones for b = 0: a trap inside the firmware would end every client's work. */
uint64_t c7x_abi_divull(uint64_t a, uint64_t b);
/* What assert calls: prints the text and ends the call. */
_Noreturn void c7x_abi_abort_msg(const char *text);

#endif

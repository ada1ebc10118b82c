/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder print, and bench/programs.py reads: a line for each list of
 * samples, NAME SIDE VALUE... The lists of one name and side are its rounds, in their order. What
 * is made of them is not decided here.
 */
#ifndef C7X_BENCH_SAMPLES_H
#define C7X_BENCH_SAMPLES_H

#include <stddef.h>

/* Name and side are words; the unit of the values is known to who reads them. */
void c7x_bench_print(const char *name, const char *side, const double *values, size_t count);
void c7x_bench_print_one(const char *name, const char *side, double value);

/* The number of rounds that an argument asks for; ends the program, telling its usage, when it is
 * none. */
int c7x_bench_rounds(const char *argument, const char *usage);

/* Where files and sockets of the program go: programs.py makes a folder for each, and removes it.
 */
const char *c7x_bench_folder(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/samples.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_MAX 1000

void c7x_bench_print(const char *name, const char *side, const double *values, size_t count)
{
    printf("%s %s", name, side);
    for (size_t i = 0; i < count; i++)
        printf(" %.4f", values[i]);
    putchar('\n');
    (void)fflush(stdout);
}

void c7x_bench_print_one(const char *name, const char *side, double value)
{
    c7x_bench_print(name, side, &value, 1);
}

int c7x_bench_rounds(const char *argument, const char *usage)
{
    char *end;
    long count = strtol(argument, &end, 10);
    if (*argument == '\0' || *end != '\0' || count < 1 || count > ROUNDS_MAX) {
        fprintf(stderr, "usage: %s\n", usage);
        exit(2);
    }
    return (int)count;
}

const char *c7x_bench_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL ? folder : "/tmp";
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

int64_t cli_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLI_NS_PER_S + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

void cli_sort_times(int64_t *times, size_t count)
{
    qsort(times, count, sizeof times[0], compare);
}

int64_t cli_percentile(const int64_t *sorted, size_t count, size_t percent)
{
    size_t rank = (count * percent + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

double cli_deviation(const int64_t *times, size_t count)
{
    double mean = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        mean += (double)times[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)times[i] - mean) * ((double)times[i] - mean);
    return count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
}

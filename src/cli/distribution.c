/* SPDX-License-Identifier: Apache-2.0 */
#include "benchmark.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* The smallest value that `percent` of all do not exceed. */
static int64_t rank(const int64_t *sorted, size_t count, size_t percent)
{
    size_t place = (count * percent + 99) / 100;
    return sorted[place == 0 ? 0 : place - 1];
}

struct cli_distribution cli_distribution_of(int64_t *values, size_t count)
{
    if (count == 0)
        return (struct cli_distribution){0};
    qsort(values, count, sizeof values[0], compare);
    return (struct cli_distribution){
        .count = count,
        .p50 = rank(values, count, 50),
        .p90 = rank(values, count, 90),
        .p99 = rank(values, count, 99),
        .max = values[count - 1],
    };
}

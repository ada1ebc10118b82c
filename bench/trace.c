/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace point costs, in ns: prints samples (samples.h) `trace-off`, while nobody records,
 * and `trace-on`. */
#include "base/trace.h"
#include "bench/samples.h"
#include "firmware/trace/recorder.h"
#include "os/os.h"

#include <stdlib.h>

#define WINDOW_BYTES ((size_t)128 + 32 * 65536)
#define ROUNDS 500
#define POINTS 20000u /* short enough that some rounds are not interrupted */

/* So that the compiler keeps the loop. */
static inline void barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

static double time_empty(uint64_t count)
{
    int64_t begin = c7x_os_clock_ns();
    for (uint64_t i = 0; i < count; i++)
        barrier();
    return (double)(c7x_os_clock_ns() - begin) / (double)count;
}

static double time_points(uint64_t count)
{
    const struct c7x_trace_origin origin = {.session = 1};
    int64_t begin = c7x_os_clock_ns();
    for (uint64_t i = 0; i < count; i++) {
        c7x_trace_event(C7X_EVENT_SECTION_BEGIN, &origin, (uint32_t)i);
        barrier();
    }
    return (double)(c7x_os_clock_ns() - begin) / (double)count;
}

/* The least of some rounds: what else runs only adds. */
static double cost(void)
{
    double empty = 1e9;
    double points = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double once = time_empty(POINTS);
        empty = once < empty ? once : empty;
        once = time_points(POINTS);
        points = once < points ? once : points;
    }
    return points > empty ? points - empty : 0;
}

int main(void)
{
    struct c7x_recorder_window window = {.buffer = aligned_alloc(128, WINDOW_BYTES),
                                         .size = WINDOW_BYTES};
    if (window.buffer == NULL)
        return 1;
    double off = cost();
    if (c7x_recorder_begin(&window) != C7X_OK)
        return 1;
    double on = cost();
    c7x_recorder_end();
    free(window.buffer);
    c7x_bench_print_one("trace-off", "ours", off);
    c7x_bench_print_one("trace-on", "ours", on);
    return 0;
}

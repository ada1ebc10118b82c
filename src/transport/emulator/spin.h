/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a side of a busy link looks for the next frame before it sleeps. To be woken takes tens
 * of microseconds, so a frame that comes sooner is worth looking for; who waits longer several
 * times in a row hardly looks any more.
 */
#ifndef C7X_TRANSPORT_EMULATOR_SPIN_H
#define C7X_TRANSPORT_EMULATOR_SPIN_H

#include "os/os.h"

#include <stdbool.h>
#include <stdint.h>

#define C7X_SPIN_NS 50000
#define C7X_SPIN_LOOKS 16        /* between two looks at the clock */
#define C7X_SPIN_FAILURES_MAX 4u /* in a row; then it goes on at one wait in C7X_SPIN_RARELY */
#define C7X_SPIN_RARELY 16u

struct c7x_spin {
    uint32_t failures;
    uint32_t waits;
    int64_t since_ns; /* the beginning of the present wait; 0: there is none */
};

/* Nothing was there, C7X_SPIN_LOOKS times. Whether to look again at once; false: sleep. */
static inline bool c7x_spin_goes_on(struct c7x_spin *spin, int64_t deadline_ns)
{
    int64_t now = c7x_os_clock_ns();
    if (spin->since_ns == 0) {
        spin->since_ns = now;
        spin->waits++;
    }
    bool looks = spin->failures < C7X_SPIN_FAILURES_MAX || spin->waits % C7X_SPIN_RARELY == 0;
    return looks && now - spin->since_ns < C7X_SPIN_NS && now < deadline_ns;
}

/* What was waited for has come, or the wait is over without it. */
static inline void c7x_spin_end(struct c7x_spin *spin)
{
    if (spin->since_ns == 0 || c7x_os_clock_ns() - spin->since_ns < C7X_SPIN_NS)
        spin->failures = 0;
    else if (spin->failures < C7X_SPIN_FAILURES_MAX)
        spin->failures++;
    spin->since_ns = 0;
}

#endif

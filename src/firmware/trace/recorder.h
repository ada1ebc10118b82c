/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of events: the sink of the trace points that writes into a window in shared memory
 * (struct c7x_trace_window). It takes no lock and waits for nobody, and what it has written is
 * there even when the core dies with its next step. Of the window it believes nothing.
 *
 * A core has one, and it records into one window at a time.
 */
#ifndef C7X_FIRMWARE_TRACE_RECORDER_H
#define C7X_FIRMWARE_TRACE_RECORDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct c7x_recorder_window {
    void *buffer; /* a multiple of 128 */
    size_t size;  /* C7X_WIRE_TRACE_MIN or more */
    uint32_t core_number;
};

/* Writes the header and records from now on; begin and end come from one task at a time. C7X_BUSY:
 * it records already. C7X_NOMEM. */
enum c7x_status c7x_recorder_begin(const struct c7x_recorder_window *window) C7X_NODISCARD;
/* Records no more, after a successful begin. It waits for events that are just being written: when
 * it returns, nobody writes into the window any more. */
void c7x_recorder_end(void);

#endif

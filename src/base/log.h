/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the firmware: one line a call, to the sink that the image installs (trace0). Any task
 * may call. */
#ifndef C7X_BASE_LOG_H
#define C7X_BASE_LOG_H

#include "base/compiler.h"

#include <stddef.h>

/* Longer lines are cut. */
#define C7X_LOG_LINE_MAX 1024

/* Receives whole lines, newline included. Must be callable from any task; must not call c7x_log().
 */
typedef void (*c7x_log_sink_fn)(const char *line, size_t length);

/* Installs the sink; NULL drops all lines (the state at start). */
void c7x_log_set_sink(c7x_log_sink_fn sink);

/* Writes "station: text\n". */
void c7x_log(const char *station, const char *format, ...) C7X_PRINTF(2, 3);

#endif

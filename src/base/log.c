/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(c7x_log_sink_fn) log_sink;

void c7x_log_set_sink(c7x_log_sink_fn sink)
{
    atomic_store(&log_sink, sink);
}

void c7x_log(const char *station, const char *format, ...)
{
    c7x_log_sink_fn sink = atomic_load(&log_sink);
    if (sink == NULL)
        return;
    char line[C7X_LOG_LINE_MAX];
    int prefix = snprintf(line, sizeof line, "%s: ", station);
    if (prefix < 0 || (size_t)prefix >= sizeof line)
        return;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + prefix, sizeof line - (size_t)prefix, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t used = (size_t)prefix + (size_t)length;
    if (used > sizeof line - 2)
        used = sizeof line - 2;
    line[used] = '\n';
    sink(line, used + 1);
}

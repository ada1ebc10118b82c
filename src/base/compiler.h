/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between compilers; each macro has a plain fallback. */
#ifndef C7X_BASE_COMPILER_H
#define C7X_BASE_COMPILER_H

#if defined(__GNUC__)
#define C7X_PRINTF(format_index, first_index)                                                      \
    __attribute__((format(printf, format_index, first_index)))
#else
#define C7X_PRINTF(format_index, first_index)
#endif

#define C7X_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif

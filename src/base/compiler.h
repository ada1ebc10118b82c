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

/* Asks for the cache line of an address; whatever the address, that is no access. */
#if defined(__GNUC__)
#define C7X_PREFETCH(address) __builtin_prefetch(address)
#else
#define C7X_PREFETCH(address) ((void)(address))
#endif
#define C7X_PREFETCH_STEP 64u /* a cache line, or less */

#define C7X_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif

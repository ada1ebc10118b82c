/* SPDX-License-Identifier: Apache-2.0 */
/* Between exports.c and the look-up that gperf makes. */
#ifndef C7X_FIRMWARE_EXPORTS_EXPORTS_IMPL_H
#define C7X_FIRMWARE_EXPORTS_EXPORTS_IMPL_H

#include <stddef.h>

typedef void (*c7x_any_fn)(void);

/* ISO C has no common type for the addresses of functions and of data. */
union c7x_export_address {
    c7x_any_fn function;
    void *data;
};

struct c7x_export {
    const char *name;
    union c7x_export_address address;
    const char *group;
};

/* "export table version 2, 247 names" */
extern const char c7x_export_title[];

const struct c7x_export *c7x_export_lookup(const char *name, size_t length);

#endif

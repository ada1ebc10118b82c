/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef C7X_INSPECT_INSPECT_IMPL_H
#define C7X_INSPECT_INSPECT_IMPL_H

#include "base/status.h"
#include "c7x_inspect.h"
#include "firmware/loader/loader.h"

#include <stdbool.h>

struct c7x_inspector_mapping {
    void *pointer;
    size_t size;
};

/* The inspection, and the device's memory as it is during one. */
struct c7x_inspector {
    struct c7x_inspection result; /* first, since that is what the caller gets */
    const uint8_t *bytes;         /* the file, as it would be staged */
    size_t size;
    struct c7x_memory memory;
    struct c7x_inspector_mapping mappings[2]; /* one for each window of the memory */
    struct c7x_heap *heap;
    struct c7x_program *program; /* NULL while it is not open */
    struct c7x_error error;
    char *missing; /* in the heap: all missing imports, when the error is too short for them */
    void *blocks;  /* of c7x_inspector_alloc(), one leading to the next */
    bool lacks_memory;
};

/* Zeroed memory that lives as long as the inspection; NULL and lacks_memory when there is none. */
void *c7x_inspector_alloc(struct c7x_inspector *self, size_t count, size_t size);
/* A copy of a text that need not end; control characters become '?'. Never NULL. */
const char *c7x_inspector_text(struct c7x_inspector *self, const void *text, size_t size_max);

/* parts.c: each fills in what the open program tells */
void c7x_inspector_read_segments(struct c7x_inspector *self);
void c7x_inspector_read_symbols(struct c7x_inspector *self);

/* Where the device has what stands at a run address: native ones are pointers. */
uint64_t c7x_inspector_address(const struct c7x_inspector *self, uint64_t address);

/* contents.c */
void c7x_inspector_read_contents(struct c7x_inspector *self);

/* verdict.c: what the device says; sets status and reason. */
enum c7x_status c7x_inspector_judge(struct c7x_inspector *self);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of the DSP's memory: two-level segregated fit (TLSF), constant time, blocks split and
 * merge. Every block has an owner, so that what a module or a request still holds can be freed
 * exactly when it ends.
 *
 * All functions may be called from any task and never block for long.
 */
#ifndef C7X_FIRMWARE_MEMORY_HEAP_H
#define C7X_FIRMWARE_MEMORY_HEAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who holds a block. Owners are numbers: C7X_HEAP_SERVICE, or one from c7x_heap_owner_new(). */
#define C7X_HEAP_SERVICE 0u

/* Alignment of a block when 0 is asked for, the DSP's cache line. */
#define C7X_HEAP_ALIGNMENT_DEFAULT 128u

struct c7x_heap;

struct c7x_heap_statistics {
    uint64_t total;            /* bytes that an empty heap can hand out as one block */
    uint64_t free;             /* sum of the free blocks */
    uint64_t largest;          /* largest free block */
    uint32_t block_count;      /* blocks in use */
    uint64_t allocation_count; /* since creation */
};

/* One block, as c7x_heap_walk() finds it. */
struct c7x_heap_block {
    const void *payload;
    uint64_t size; /* bytes of it */
    uint32_t owner;
    bool is_used;
};

/* Blocks that a walk can reach: it holds up whoever allocates meanwhile. */
#define C7X_HEAP_WALK_MAX 16384u

/* Builds a heap inside [base, base + size); `name` is static. NULL if the region is too small. */
struct c7x_heap *c7x_heap_create(void *base, size_t size, const char *name);
void c7x_heap_destroy(struct c7x_heap *heap);

/* A number that no other owner of this heap has. */
uint32_t c7x_heap_owner_new(struct c7x_heap *heap);

/*
 * A block of `size` bytes (0 counts as 1) whose address is a multiple of `alignment` (0: the
 * default; else a power of two). NULL when nothing fits. Contents are undefined.
 */
void *c7x_heap_alloc(struct c7x_heap *heap, uint32_t owner, size_t size, size_t alignment);
/*
 * The same for a block that ends, but for what the alignment takes, right before a page that nobody
 * can touch, so that an access behind it is a fault. It costs two pages or three, and while there
 * are such blocks every free looks through all blocks in use. It is freed as any other.
 */
void *c7x_heap_alloc_guarded(struct c7x_heap *heap, uint32_t owner, size_t size, size_t alignment);
/*
 * Whether it is such a page that the address is in: the size that was asked for the block before
 * it, and how many bytes behind its end the address is (0: the first one).
 */
bool c7x_heap_find_overrun(const struct c7x_heap *heap, const void *address, size_t *out_size,
                           size_t *out_distance);
/* Frees a block; NULL is legal. A pointer that is not a block in use is left alone and counted as a
 * bad free. */
void c7x_heap_free(struct c7x_heap *heap, void *block);
/* From now on the nth allocation (1: the next) gives NULL, once; 0 calls it off. So tests can see
 * what every caller does then. Returns how many were to come before the one of the call before; 0:
 * it has failed, or there was none. */
uint64_t c7x_heap_fail_allocation(struct c7x_heap *heap, uint64_t nth);
/* Usable bytes of a block in use; 0 for any other pointer. */
size_t c7x_heap_block_size(const struct c7x_heap *heap, const void *block);
/* Whether the pointer is a block in use, and then whose. */
bool c7x_heap_find_owner(const struct c7x_heap *heap, const void *block, uint32_t *out_owner);
/* Frees all blocks of the owner and returns how many there were. */
uint32_t c7x_heap_free_owner(struct c7x_heap *heap, uint32_t owner);
/* Whether the pointer lies in the heap's region. */
int c7x_heap_contains(const struct c7x_heap *heap, const void *pointer);

void c7x_heap_get_statistics(const struct c7x_heap *heap, struct c7x_heap_statistics *out);
/* The name that it was created with. */
const char *c7x_heap_name(const struct c7x_heap *heap);
/* Bytes in the blocks of the owner. */
uint64_t c7x_heap_owner_bytes(const struct c7x_heap *heap, uint32_t owner);
/*
 * Copies up to `capacity` blocks, used and free ones by address, from block number `first` on, and
 * returns how many; *out_total is how many can be reached. What one call copies is of one moment.
 */
uint32_t c7x_heap_walk(const struct c7x_heap *heap, uint32_t first, struct c7x_heap_block *out,
                       uint32_t capacity, uint32_t *out_total);
/* The numbers of a failed request of `size` bytes, as of now. */
struct c7x_oom c7x_heap_oom(const struct c7x_heap *heap, size_t size);

#endif

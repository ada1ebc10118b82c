/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLSF: free blocks stand in lists by size class. A first-level class is a power of two, a
 * second-level class a 1/16 of it; two bitmaps find the first non-empty class that surely fits, so
 * that nothing is ever searched.
 *
 *   region:  [struct c7x_heap][header|payload][header|payload] ... [header of the end marker]
 *
 * A header precedes each payload; blocks are chained by address through `previous` and the payload
 * size, which is what merging needs. Blocks in use are also chained by owner.
 *
 * The payload of a guarded block begins and ends with a page; the last one is the guard:
 *
 *   [header|  unused  [the caller's block]|guard][header|...
 */
#include "firmware/memory/heap.h"

#include "base/checked.h"
#include "os/os.h"

#include <string.h>

#define GRANULE 64u /* payload sizes and addresses are multiples of this */
#define SECOND_BITS 4u
#define SECOND_COUNT (1u << SECOND_BITS)
#define FIRST_COUNT 40u
#define OWNER_BUCKETS 64u
#define USED_MAGIC 0x55C7B10Cu
#define FREE_MAGIC 0xF4EEB10Cu

struct block {
    uint32_t magic; /* USED_MAGIC or FREE_MAGIC */
    uint32_t owner;
    uint64_t size;              /* payload bytes */
    struct block *previous;     /* the block just below in memory, NULL for the first */
    struct block *next_in_list; /* free: of the size class; used: of the owner's bucket */
    struct block *previous_in_list;
    uint8_t *guarded; /* what the caller has of it, if that is not all of the payload; else NULL */
    uint64_t guarded_size;
    uint64_t reserved; /* a header is one granule */
};
_Static_assert(sizeof(struct block) == GRANULE, "payloads stay aligned to the granule");

struct c7x_heap {
    struct c7x_os_mutex lock;
    const char *name;
    uint8_t *start; /* first header */
    uint8_t *end;   /* header of the end marker */
    uint64_t total;
    uint64_t free;
    uint32_t block_count; /* in use */
    uint32_t free_count;
    uint32_t bad_free_count;
    uint32_t guarded_count; /* of the blocks in use */
    uint32_t next_owner;
    uint64_t allocation_count;
    uint64_t fail_countdown; /* the allocation that is to fail, counted from now; 0: none */
    uint64_t first_bitmap;
    uint32_t second_bitmap[FIRST_COUNT];
    struct block *free_lists[FIRST_COUNT][SECOND_COUNT];
    struct block *owners[OWNER_BUCKETS];
};

struct size_class {
    uint32_t first;
    uint32_t second;
};

static uint32_t highest_bit(uint64_t value)
{
    return 63u - (uint32_t)__builtin_clzll(value);
}

/* The class whose blocks are all at least as large as the class's lower bound, which is <= size. */
static struct size_class class_of(uint64_t size)
{
    uint64_t granules = size / GRANULE;
    if (granules < SECOND_COUNT)
        return (struct size_class){0, (uint32_t)granules};
    uint32_t high = highest_bit(granules);
    return (struct size_class){high - SECOND_BITS + 1,
                               (uint32_t)(granules >> (high - SECOND_BITS)) - SECOND_COUNT};
}

static void list_push(struct block **head, struct block *block)
{
    block->previous_in_list = NULL;
    block->next_in_list = *head;
    if (*head != NULL)
        (*head)->previous_in_list = block;
    *head = block;
}

static void list_remove(struct block **head, struct block *block)
{
    if (block->previous_in_list != NULL)
        block->previous_in_list->next_in_list = block->next_in_list;
    else
        *head = block->next_in_list;
    if (block->next_in_list != NULL)
        block->next_in_list->previous_in_list = block->previous_in_list;
}

static uint8_t *payload_of(struct block *block)
{
    return (uint8_t *)block + sizeof *block;
}

static struct block *block_above(struct block *block)
{
    return (struct block *)(void *)(payload_of(block) + block->size);
}

static void insert_free(struct c7x_heap *heap, struct block *block)
{
    struct size_class class = class_of(block->size);
    block->magic = FREE_MAGIC;
    block->owner = 0;
    list_push(&heap->free_lists[class.first][class.second], block);
    heap->first_bitmap |= 1ull << class.first;
    heap->second_bitmap[class.first] |= 1u << class.second;
    heap->free += block->size;
    heap->free_count++;
}

static void remove_free(struct c7x_heap *heap, struct block *block)
{
    struct size_class class = class_of(block->size);
    struct block **head = &heap->free_lists[class.first][class.second];
    list_remove(head, block);
    if (*head == NULL) {
        heap->second_bitmap[class.first] &= ~(1u << class.second);
        if (heap->second_bitmap[class.first] == 0)
            heap->first_bitmap &= ~(1ull << class.first);
    }
    heap->free -= block->size;
    heap->free_count--;
}

/*
 * A free block of at least `size` bytes, or NULL. The classes above the size's own surely fit; only
 * when all of them are empty is the own class searched, so that a heap that is nearly full still
 * gives what it has.
 */
static struct block *find_free(struct c7x_heap *heap, uint64_t size)
{
    struct size_class class = class_of(size);
    struct block *head = heap->free_lists[class.first][class.second];
    if (head != NULL && head->size == size)
        return head;
    uint32_t second = class.second + 1;
    uint32_t candidates =
        second < SECOND_COUNT ? heap->second_bitmap[class.first] & (~0u << second) : 0;
    uint32_t first = class.first;
    if (candidates == 0) {
        uint64_t above = heap->first_bitmap & (~0ull << (class.first + 1));
        if (above != 0) {
            first = (uint32_t)__builtin_ctzll(above);
            candidates = heap->second_bitmap[first];
        }
    }
    if (candidates != 0)
        return heap->free_lists[first][__builtin_ctz(candidates)];
    for (struct block *block = head; block != NULL; block = block->next_in_list)
        if (block->size >= size)
            return block;
    return NULL;
}

/* Cuts `block`, which is in no list, after `size` payload bytes; the rest becomes a free block. */
static void split(struct c7x_heap *heap, struct block *block, uint64_t size)
{
    if (block->size - size < 2 * sizeof *block)
        return;
    struct block *rest = (struct block *)(void *)(payload_of(block) + size);
    rest->size = block->size - size - sizeof *rest;
    rest->previous = block;
    block->size = size;
    block_above(rest)->previous = rest;
    insert_free(heap, rest);
}

static void merge_above(struct c7x_heap *heap, struct block *block)
{
    struct block *above = block_above(block);
    if ((uint8_t *)above == heap->end || above->magic != FREE_MAGIC)
        return;
    remove_free(heap, above);
    above->magic = 0;
    block->size += sizeof *above + above->size;
    block_above(block)->previous = block;
}

/* Where the page behind a guarded block begins. */
static uint8_t *guard_of(const struct block *block)
{
    return (uint8_t *)c7x_round_up((uintptr_t)block->guarded + block->guarded_size,
                                   c7x_os_page_size());
}

static void remove_guard(struct c7x_heap *heap, struct block *block)
{
    if (c7x_os_pages_protect(guard_of(block), c7x_os_page_size(), C7X_OS_READ_WRITE) != C7X_OK)
        c7x_os_panic("heap: a guard page cannot be opened");
    block->guarded = NULL;
    heap->guarded_count--;
}

static void release(struct c7x_heap *heap, struct block *block)
{
    if (block->guarded != NULL)
        remove_guard(heap, block);
    list_remove(&heap->owners[block->owner % OWNER_BUCKETS], block);
    heap->block_count--;
    merge_above(heap, block);
    struct block *below = block->previous;
    if (below != NULL && below->magic == FREE_MAGIC) {
        remove_free(heap, below);
        block->magic = 0;
        below->size += sizeof *block + block->size;
        block_above(below)->previous = below;
        block = below;
    }
    insert_free(heap, block);
}

struct c7x_heap *c7x_heap_create(void *base, size_t size, const char *name)
{
    uintptr_t start = c7x_round_up((uintptr_t)base, GRANULE);
    uintptr_t end = ((uintptr_t)base + size) & ~(uintptr_t)(GRANULE - 1);
    uint64_t head_bytes = c7x_round_up(sizeof(struct c7x_heap), GRANULE);
    if (end < start || end - start < head_bytes + 4 * sizeof(struct block))
        return NULL;
    struct c7x_heap *heap = (struct c7x_heap *)start;
    memset(heap, 0, sizeof *heap);
    if (c7x_os_mutex_init(&heap->lock) != C7X_OK)
        return NULL;
    heap->name = name;
    heap->next_owner = C7X_HEAP_SERVICE + 1;
    heap->start = (uint8_t *)start + head_bytes;
    heap->end = (uint8_t *)end - sizeof(struct block);
    struct block *first = (struct block *)(void *)heap->start;
    memset(first, 0, sizeof *first);
    first->size = (uint64_t)(heap->end - heap->start) - sizeof *first;
    struct block *marker = (struct block *)(void *)heap->end;
    memset(marker, 0, sizeof *marker);
    marker->previous = first;
    heap->total = first->size;
    insert_free(heap, first);
    return heap;
}

void c7x_heap_destroy(struct c7x_heap *heap)
{
    if (heap != NULL)
        c7x_os_mutex_deinit(&heap->lock);
}

uint32_t c7x_heap_owner_new(struct c7x_heap *heap)
{
    c7x_os_mutex_lock(&heap->lock);
    uint32_t owner = heap->next_owner++;
    if (heap->next_owner == C7X_HEAP_SERVICE)
        heap->next_owner++;
    c7x_os_mutex_unlock(&heap->lock);
    return owner;
}

/* Bytes that a block must have so that `size` bytes fit behind any misalignment; false if that
 * overflows. */
static bool padded_size(size_t size, size_t alignment, uint64_t *out_size, uint64_t *out_padded)
{
    uint64_t padding = alignment > GRANULE ? alignment + sizeof(struct block) : 0;
    return c7x_align_size(size == 0 ? 1 : size, GRANULE, out_size) &&
           c7x_add_size(*out_size, padding, out_padded);
}

/* Moves the start of `block`, which is in no list, up to the alignment; what lies below stays free.
 * NULL, and the block as it was, when less than `needed` bytes are left then. */
static struct block *align_up(struct c7x_heap *heap, struct block *block, size_t alignment,
                              uint64_t needed)
{
    uintptr_t payload = (uintptr_t)payload_of(block);
    uintptr_t aligned = c7x_round_up(payload, alignment);
    if (aligned == payload)
        return block->size >= needed ? block : NULL;
    if (aligned - payload < 2 * sizeof *block) /* the part below needs a header and a payload */
        aligned = c7x_round_up(payload + 2 * sizeof *block, alignment);
    if (!c7x_range_inside(aligned, needed, payload, block->size))
        return NULL;
    uint64_t below_size = aligned - payload - sizeof *block;
    struct block *upper = (struct block *)(void *)(payload_of(block) + below_size);
    upper->size = block->size - below_size - sizeof *upper;
    upper->previous = block;
    block_above(upper)->previous = upper;
    block->size = below_size;
    insert_free(heap, block);
    return upper;
}

void *c7x_heap_alloc(struct c7x_heap *heap, uint32_t owner, size_t size, size_t alignment)
{
    uint64_t needed;
    uint64_t padded;
    if (alignment == 0)
        alignment = C7X_HEAP_ALIGNMENT_DEFAULT;
    if (!c7x_is_power_of_two(alignment) || !padded_size(size, alignment, &needed, &padded))
        return NULL;
    /* align_up() may step over one whole alignment more when the gap below is too small for a
     * block. */
    if (alignment > GRANULE)
        padded += alignment;
    if (padded > heap->total) /* still possible if the block happens to be aligned; tried below */
        padded = needed > heap->total ? padded : heap->total;
    c7x_os_mutex_lock(&heap->lock);
    uint8_t *payload = NULL;
    bool is_to_fail = heap->fail_countdown != 0 && --heap->fail_countdown == 0;
    struct block *block = padded <= heap->total && !is_to_fail ? find_free(heap, padded) : NULL;
    if (block != NULL) {
        struct block *whole = block;
        remove_free(heap, whole);
        block = align_up(heap, whole, alignment, needed);
        if (block == NULL)
            insert_free(heap, whole);
    }
    if (block != NULL) {
        split(heap, block, needed);
        block->magic = USED_MAGIC;
        block->owner = owner;
        block->guarded = NULL;
        list_push(&heap->owners[owner % OWNER_BUCKETS], block);
        heap->block_count++;
        heap->allocation_count++;
        payload = payload_of(block);
    }
    c7x_os_mutex_unlock(&heap->lock);
    return payload;
}

uint64_t c7x_heap_fail_allocation(struct c7x_heap *heap, uint64_t nth)
{
    uint64_t left;
    c7x_os_mutex_lock(&heap->lock);
    left = heap->fail_countdown;
    heap->fail_countdown = nth;
    c7x_os_mutex_unlock(&heap->lock);
    return left;
}

/* The first block in use of which `is_it` is true. */
static struct block *search_used(const struct c7x_heap *heap,
                                 bool (*is_it)(const struct block *block, const void *pointer),
                                 const void *pointer)
{
    for (uint32_t i = 0; i < OWNER_BUCKETS; i++)
        for (struct block *block = heap->owners[i]; block != NULL; block = block->next_in_list)
            if (is_it(block, pointer))
                return block;
    return NULL;
}

static bool is_handed_out(const struct block *block, const void *pointer)
{
    return pointer == (block->guarded != NULL ? block->guarded : (const uint8_t *)(block + 1));
}

static bool is_guarded_from(const struct block *block, const void *pointer)
{
    return block->guarded != NULL &&
           (uintptr_t)pointer - (uintptr_t)guard_of(block) < c7x_os_page_size();
}

/* The header of a block in use, or NULL if the pointer is none. Where there are guards, what stands
 * before a pointer may be one. */
static struct block *used_block(const struct c7x_heap *heap, const void *pointer)
{
    if (heap->guarded_count != 0)
        return search_used(heap, is_handed_out, pointer);
    uintptr_t value = (uintptr_t)pointer;
    uintptr_t lowest = (uintptr_t)heap->start + sizeof(struct block);
    if (value < lowest || value >= (uintptr_t)heap->end || value % GRANULE != 0)
        return NULL;
    struct block *block = (struct block *)(value - sizeof(struct block));
    return block->magic == USED_MAGIC ? block : NULL;
}

void c7x_heap_free(struct c7x_heap *heap, void *pointer)
{
    if (pointer == NULL)
        return;
    c7x_os_mutex_lock(&heap->lock);
    struct block *block = used_block(heap, pointer);
    if (block != NULL)
        release(heap, block);
    else
        heap->bad_free_count++;
    c7x_os_mutex_unlock(&heap->lock);
}

size_t c7x_heap_block_size(const struct c7x_heap *heap, const void *pointer)
{
    const struct block *block = used_block(heap, pointer);
    if (block == NULL)
        return 0;
    return block->guarded != NULL ? block->guarded_size : block->size;
}

void *c7x_heap_alloc_guarded(struct c7x_heap *heap, uint32_t owner, size_t size, size_t alignment)
{
    size_t page = c7x_os_page_size();
    uint64_t used; /* with what the alignment takes */
    uint64_t open; /* whole pages of that */
    uint64_t whole;
    if (alignment == 0)
        alignment = C7X_HEAP_ALIGNMENT_DEFAULT;
    if (!c7x_is_power_of_two(alignment) ||
        !c7x_align_size(size == 0 ? 1 : size, alignment < page ? alignment : page, &used) ||
        !c7x_align_size(used, page, &open) || !c7x_add_size(open, page, &whole))
        return NULL;
    uint8_t *payload =
        c7x_heap_alloc(heap, owner, (size_t)whole, alignment > page ? alignment : page);
    if (payload == NULL)
        return NULL;
    if (c7x_os_pages_protect(payload + open, page, C7X_OS_NONE) != C7X_OK) {
        c7x_heap_free(heap, payload);
        return NULL;
    }
    struct block *block = (struct block *)(void *)(payload - sizeof *block);
    c7x_os_mutex_lock(&heap->lock);
    block->guarded = payload + open - used;
    block->guarded_size = size == 0 ? 1 : size;
    heap->guarded_count++;
    c7x_os_mutex_unlock(&heap->lock);
    return payload + open - used;
}

uint32_t c7x_heap_free_owner(struct c7x_heap *heap, uint32_t owner)
{
    uint32_t count = 0;
    c7x_os_mutex_lock(&heap->lock);
    struct block *block = heap->owners[owner % OWNER_BUCKETS];
    while (block != NULL) {
        struct block *next = block->next_in_list;
        if (block->owner == owner) {
            release(heap, block);
            count++;
        }
        block = next;
    }
    c7x_os_mutex_unlock(&heap->lock);
    return count;
}

int c7x_heap_contains(const struct c7x_heap *heap, const void *pointer)
{
    uintptr_t value = (uintptr_t)pointer;
    return value >= (uintptr_t)heap->start && value < (uintptr_t)heap->end;
}

/* The largest block stands in the highest non-empty class. */
static uint64_t largest_free(const struct c7x_heap *heap)
{
    if (heap->first_bitmap == 0)
        return 0;
    uint32_t first = highest_bit(heap->first_bitmap);
    uint32_t second = highest_bit(heap->second_bitmap[first]);
    uint64_t largest = 0;
    for (const struct block *block = heap->free_lists[first][second]; block != NULL;
         block = block->next_in_list)
        largest = block->size > largest ? block->size : largest;
    return largest;
}

/* Locking is no change that a caller could see. */
static struct c7x_heap *lock_heap(const struct c7x_heap *heap)
{
    struct c7x_heap *locked = (struct c7x_heap *)(uintptr_t)heap;
    c7x_os_mutex_lock(&locked->lock);
    return locked;
}

void c7x_heap_get_statistics(const struct c7x_heap *heap, struct c7x_heap_statistics *out)
{
    struct c7x_heap *locked = lock_heap(heap);
    *out = (struct c7x_heap_statistics){.total = heap->total,
                                        .free = heap->free,
                                        .largest = largest_free(heap),
                                        .block_count = heap->block_count,
                                        .allocation_count = heap->allocation_count};
    c7x_os_mutex_unlock(&locked->lock);
}

struct c7x_oom c7x_heap_oom(const struct c7x_heap *heap, size_t size)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    return (struct c7x_oom){size, now.free, now.largest, now.total};
}

bool c7x_heap_find_owner(const struct c7x_heap *heap, const void *pointer, uint32_t *out_owner)
{
    struct c7x_heap *locked = lock_heap(heap);
    const struct block *block = used_block(heap, pointer);
    if (block != NULL)
        *out_owner = block->owner;
    c7x_os_mutex_unlock(&locked->lock);
    return block != NULL;
}

bool c7x_heap_find_overrun(const struct c7x_heap *heap, const void *address, size_t *out_size,
                           size_t *out_distance)
{
    struct c7x_heap *locked = lock_heap(heap);
    const struct block *block = search_used(heap, is_guarded_from, address);
    if (block != NULL) {
        *out_size = block->guarded_size;
        *out_distance = (uintptr_t)address - ((uintptr_t)block->guarded + block->guarded_size);
    }
    c7x_os_mutex_unlock(&locked->lock);
    return block != NULL;
}

const char *c7x_heap_name(const struct c7x_heap *heap)
{
    return heap->name;
}

uint64_t c7x_heap_owner_bytes(const struct c7x_heap *heap, uint32_t owner)
{
    uint64_t bytes = 0;
    struct c7x_heap *locked = lock_heap(heap);
    for (const struct block *block = heap->owners[owner % OWNER_BUCKETS]; block != NULL;
         block = block->next_in_list)
        bytes += block->owner == owner ? block->size : 0;
    c7x_os_mutex_unlock(&locked->lock);
    return bytes;
}

uint32_t c7x_heap_walk(const struct c7x_heap *heap, uint32_t first, struct c7x_heap_block *out,
                       uint32_t capacity, uint32_t *out_total)
{
    uint32_t count = 0;
    struct c7x_heap *locked = lock_heap(heap);
    uint32_t total = heap->block_count + heap->free_count;
    if (total > C7X_HEAP_WALK_MAX)
        total = C7X_HEAP_WALK_MAX;
    struct block *block = (struct block *)(void *)heap->start;
    for (uint32_t i = 0; i < total && count < capacity; i++) {
        if (i >= first)
            out[count++] = (struct c7x_heap_block){payload_of(block), block->size, block->owner,
                                                   block->magic == USED_MAGIC};
        block = block_above(block);
    }
    c7x_os_mutex_unlock(&locked->lock);
    *out_total = total;
    return count;
}

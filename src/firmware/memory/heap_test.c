/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/memory/heap.h"
#include "firmware/memory/memory.h"
#include "os/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REGION_BYTES (4u << 20)

static struct c7x_heap *new_heap(void **state)
{
    *state = aligned_alloc(4096, REGION_BYTES);
    struct c7x_heap *heap = c7x_heap_create(*state, REGION_BYTES, "test");
    assert_non_null(heap);
    return heap;
}

static void assert_whole(const struct c7x_heap *heap)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    assert_int_equal(now.block_count, 0);
    assert_int_equal(now.free, now.total);
    assert_int_equal(now.largest, now.total);
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void blocks_are_aligned_as_asked(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
        uint8_t *block = c7x_heap_alloc(heap, 1, 100, alignment);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % alignment, 0);
        memset(block, 0xAA, 100);
    }
    assert_null(c7x_heap_alloc(heap, 1, 100, 96));
    assert_int_equal(c7x_heap_free_owner(heap, 1), 17);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

/* In a pool that is smaller than the alignment there is a place for it, or none. */
static void an_alignment_may_be_larger_than_the_pool(void **state)
{
    const size_t alignment = 2u << 20;
    const size_t pool_bytes = 65536;
    uint8_t *region = aligned_alloc(alignment, 2 * alignment);
    assert_non_null(region);
    *state = region;
    for (size_t offset = 4096; offset <= alignment; offset += 4096) {
        struct c7x_heap *heap = c7x_heap_create(region + offset, pool_bytes, "small");
        assert_non_null(heap);

        for (size_t size = 1; size < pool_bytes; size *= 4) {
            uint8_t *block = c7x_heap_alloc(heap, 1, size, alignment);
            if (block != NULL) {
                assert_ptr_equal(block, region + alignment);
                assert_true(offset < alignment && alignment + size <= offset + pool_bytes);
            }
            c7x_heap_free(heap, block);
            assert_whole(heap);
        }
        c7x_heap_destroy(heap);
    }
}

static void freed_neighbours_merge_in_any_order(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        void *blocks[3];
        for (int j = 0; j < 3; j++)
            blocks[j] = c7x_heap_alloc(heap, 1, 5000, 0);
        for (int j = 0; j < 3; j++)
            c7x_heap_free(heap, blocks[orders[i][j]]);
        assert_whole(heap);
    }
    c7x_heap_destroy(heap);
}

static void an_owner_loses_its_blocks_and_no_others(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    uint32_t one = c7x_heap_owner_new(heap);
    uint32_t two = c7x_heap_owner_new(heap);
    assert_int_not_equal(one, two);
    uint8_t *kept = NULL;
    for (uint32_t i = 0; i < 300; i++) {
        assert_non_null(c7x_heap_alloc(heap, one, 100 + i, 0));
        if (i == 150)
            kept = c7x_heap_alloc(heap, two, 64, 0);
    }
    memset(kept, 0x5A, 64);
    assert_int_equal(c7x_heap_free_owner(heap, one), 300);
    assert_int_equal(c7x_heap_free_owner(heap, one), 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(kept[i], 0x5A);
    assert_int_equal(c7x_heap_free_owner(heap, two), 1);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

static void what_does_not_fit_is_refused_with_numbers(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    assert_null(c7x_heap_alloc(heap, 1, REGION_BYTES, 0));
    assert_null(c7x_heap_alloc(heap, 1, SIZE_MAX, 0));
    assert_null(c7x_heap_alloc(heap, 1, SIZE_MAX - 64, 4096));
    assert_non_null(c7x_heap_alloc(heap, 1, now.total - 4096, 64));
    struct c7x_oom oom = c7x_heap_oom(heap, 100000);
    assert_int_equal(oom.requested, 100000);
    assert_true(oom.largest <= oom.free && oom.free < oom.total);
    c7x_heap_free_owner(heap, 1);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

static void a_pointer_that_is_no_block_is_left_alone(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    uint8_t *block = c7x_heap_alloc(heap, 1, 1000, 0);
    int local = 0;
    c7x_heap_free(heap, NULL);
    c7x_heap_free(heap, &local);
    c7x_heap_free(heap, block + 1);
    memset(block, 0, 1000);
    c7x_heap_free(heap, block + 64);
    assert_int_equal(c7x_heap_block_size(heap, block), 1024);
    c7x_heap_free(heap, block);
    c7x_heap_free(heap, block);
    assert_int_equal(c7x_heap_block_size(heap, block), 0);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

/* A million bytes of random traffic: no two blocks overlap, and in the end nothing is left. */
static void random_traffic_keeps_contents_apart(void **state)
{
    enum { SLOTS = 200, ROUNDS = 20000 };
    struct c7x_heap *heap = new_heap(state);
    uint8_t *blocks[SLOTS] = {0};
    size_t sizes[SLOTS] = {0};
    uint32_t random = 12345;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        uint32_t slot = (random >> 8) % SLOTS;
        if (blocks[slot] != NULL) {
            for (size_t j = 0; j < sizes[slot]; j += 61)
                assert_int_equal(blocks[slot][j], slot & 0xFF);
            c7x_heap_free(heap, blocks[slot]);
            blocks[slot] = NULL;
            continue;
        }
        sizes[slot] = (random >> 16) % 30000;
        blocks[slot] = c7x_heap_alloc(heap, 1 + slot, sizes[slot], (size_t)1 << (random >> 28));
        if (blocks[slot] != NULL)
            memset(blocks[slot], (int)(slot & 0xFF), sizes[slot]);
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        c7x_heap_free(heap, blocks[slot]);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

static void addresses_map_only_within_one_window(void **state)
{
    (void)state;
    uint8_t low[64];
    uint8_t high[64];
    struct c7x_memory memory = {.windows = {{0x1000, 64, low}, {0x1040, 64, high}},
                                .window_count = 2};
    assert_ptr_equal(c7x_memory_pointer(&memory, 0x1000, 64), low);
    assert_ptr_equal(c7x_memory_pointer(&memory, 0x1040, 1), high);
    assert_null(c7x_memory_pointer(&memory, 0x1020, 64));
    assert_null(c7x_memory_pointer(&memory, 0xFFF, 2));
    assert_null(c7x_memory_pointer(&memory, 0x1000, UINT64_MAX));
    assert_int_equal(c7x_memory_address(&memory, high + 3), 0x1043);
    assert_int_equal(c7x_memory_address(&memory, &memory), 0);
}

/* Sizes and alignments below, at and above a page; all that is refused or found is as said. */
static void a_guarded_block_ends_before_its_guard(void **state)
{
    static const size_t sizes[] = {0, 1, 63, 64, 100, 4095, 4096, 4097, 70000};
    static const size_t alignments[] = {0, 1, 16, 128, 4096, 65536};
    struct c7x_heap *heap = new_heap(state);
    size_t page = c7x_os_page_size();
    struct c7x_heap_statistics before;
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &before);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 6; i++) {
        size_t asked = sizes[i / 6] == 0 ? 1 : sizes[i / 6];
        size_t alignment = alignments[i % 6] == 0 ? C7X_HEAP_ALIGNMENT_DEFAULT : alignments[i % 6];
        size_t slack = alignment < page ? alignment : page;
        size_t size = 0;
        size_t distance = 0;
        uint32_t owner = 0;
        uint8_t *plain = c7x_heap_alloc(heap, C7X_HEAP_SERVICE, 100, 0);
        uint8_t *block = c7x_heap_alloc_guarded(heap, 7, sizes[i / 6], alignments[i % 6]);
        uint8_t *guard = (uint8_t *)(((uintptr_t)block + asked + page - 1) / page * page);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % alignment, 0);
        assert_true((size_t)(guard - (block + asked)) < slack);
        memset(block, 1, (size_t)(guard - block));
        assert_int_equal(c7x_heap_block_size(heap, block), asked);
        assert_true(c7x_heap_find_owner(heap, block, &owner) && owner == 7);
        assert_true(c7x_heap_find_owner(heap, plain, &owner) && owner == C7X_HEAP_SERVICE);
        assert_false(c7x_heap_find_owner(heap, guard + 64, &owner));
        assert_true(c7x_heap_find_overrun(heap, guard, &size, &distance));
        assert_int_equal(size, asked);
        assert_int_equal(distance, guard - (block + asked));
        assert_true(c7x_heap_find_overrun(heap, guard + page - 1, &size, &distance));
        assert_false(c7x_heap_find_overrun(heap, guard + page, &size, &distance));
        assert_false(c7x_heap_find_overrun(heap, guard - 1, &size, &distance));
        assert_false(c7x_heap_find_overrun(heap, NULL, &size, &distance));
        c7x_heap_free(heap, guard + 64); /* no block, and nothing to look at */
        if (i % 2 == 0)
            c7x_heap_free(heap, block);
        assert_int_equal(c7x_heap_free_owner(heap, 7), i % 2);
        memset(guard, 1, page < 64 ? page : 64); /* free memory as any other */
        c7x_heap_free(heap, plain);
    }
    assert_null(c7x_heap_alloc_guarded(heap, 7, SIZE_MAX - 100, 0));
    assert_null(c7x_heap_alloc_guarded(heap, 7, 100, 48));
    assert_whole(heap);
    c7x_heap_get_statistics(heap, &now);
    assert_int_equal(now.free, before.free);
    c7x_heap_destroy(heap);
}

/* Walked in pieces of 7: every block once, by address, and the sums are the heap's own. */
static void a_walk_shows_every_block(void **state)
{
    struct c7x_heap *heap = new_heap(state);
    struct c7x_heap_statistics now;
    struct c7x_heap_block blocks[7];
    void *kept[40];
    uint32_t owner = c7x_heap_owner_new(heap);
    for (size_t i = 0; i < 40; i++)
        kept[i] = c7x_heap_alloc(heap, i % 4 == 0 ? owner : C7X_HEAP_SERVICE, 100 * i, 0);
    for (size_t i = 1; i < 40; i += 2)
        c7x_heap_free(heap, kept[i]);
    c7x_heap_get_statistics(heap, &now);
    const uint8_t *end = NULL;
    uint64_t free_bytes = 0;
    uint64_t owned_bytes = 0;
    uint32_t used = 0;
    uint32_t total = 1;
    for (uint32_t first = 0; first < total;) {
        uint32_t count = c7x_heap_walk(heap, first, blocks, 7, &total);
        assert_int_equal(count, total - first < 7 ? total - first : 7);
        for (uint32_t i = 0; i < count; i++) {
            assert_true((const uint8_t *)blocks[i].payload >= end);
            end = (const uint8_t *)blocks[i].payload + blocks[i].size;
            used += blocks[i].is_used;
            free_bytes += blocks[i].is_used ? 0 : blocks[i].size;
            owned_bytes += blocks[i].is_used && blocks[i].owner == owner ? blocks[i].size : 0;
        }
        first += count;
    }
    assert_int_equal(used, now.block_count);
    assert_int_equal(free_bytes, now.free);
    assert_int_equal(owned_bytes, c7x_heap_owner_bytes(heap, owner));
    assert_int_equal(c7x_heap_walk(heap, total, blocks, 7, &total), 0);
    assert_string_equal(c7x_heap_name(heap), "test");
    (void)c7x_heap_free_owner(heap, owner);
    assert_int_equal(c7x_heap_owner_bytes(heap, owner), 0);
    (void)c7x_heap_free_owner(heap, C7X_HEAP_SERVICE);
    assert_whole(heap);
    c7x_heap_destroy(heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blocks_are_aligned_as_asked, teardown),
        cmocka_unit_test_teardown(an_alignment_may_be_larger_than_the_pool, teardown),
        cmocka_unit_test_teardown(freed_neighbours_merge_in_any_order, teardown),
        cmocka_unit_test_teardown(an_owner_loses_its_blocks_and_no_others, teardown),
        cmocka_unit_test_teardown(what_does_not_fit_is_refused_with_numbers, teardown),
        cmocka_unit_test_teardown(a_walk_shows_every_block, teardown),
        cmocka_unit_test_teardown(a_guarded_block_ends_before_its_guard, teardown),
        cmocka_unit_test_teardown(a_pointer_that_is_no_block_is_left_alone, teardown),
        cmocka_unit_test_teardown(random_traffic_keeps_contents_apart, teardown),
        cmocka_unit_test(addresses_map_only_within_one_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

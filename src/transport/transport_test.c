/* SPDX-License-Identifier: Apache-2.0 */
/* The two books that every transport keeps: the carve-out's ranges and the device's buffers. */
#include "os/os.h"
#include "transport/buffer_table.h"
#include "transport/carveout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define BASE 0xC0000000ull
#define PAGES(n) ((uint64_t)(n)*c7x_os_page_size())

static uint64_t take(struct c7x_carveout *carveout, uint64_t size)
{
    struct c7x_carveout_range range;
    assert_int_equal(c7x_carveout_alloc(carveout, size, &range, NULL), C7X_OK);
    assert_int_equal(range.size % c7x_os_page_size(), 0);
    return range.address;
}

static void the_lowest_gap_that_fits_is_taken(void **state)
{
    (void)state;
    struct c7x_carveout carveout = {.base = BASE, .size = PAGES(16)};
    uint64_t first = take(&carveout, 1);
    uint64_t second = take(&carveout, PAGES(3));
    uint64_t third = take(&carveout, PAGES(1));
    assert_int_equal(first, BASE);
    assert_int_equal(second, BASE + PAGES(1));
    assert_int_equal(third, BASE + PAGES(4));
    c7x_carveout_free(&carveout, second);
    assert_int_equal(take(&carveout, PAGES(4)), BASE + PAGES(5));
    assert_int_equal(take(&carveout, PAGES(2)), second);
    assert_int_equal(c7x_carveout_free_bytes(&carveout), PAGES(8));
    assert_int_equal(c7x_carveout_largest_free(&carveout), PAGES(7));
    c7x_carveout_deinit(&carveout);
}

static void a_full_carveout_says_what_there_is(void **state)
{
    (void)state;
    struct c7x_carveout carveout = {.base = BASE, .size = PAGES(4)};
    struct c7x_carveout_range range;
    struct c7x_error error;
    c7x_error_clear(&error);
    take(&carveout, PAGES(3));
    assert_int_equal(c7x_carveout_alloc(&carveout, PAGES(2), &range, &error), C7X_NOMEM);
    assert_int_equal(error.oom.requested, PAGES(2));
    assert_int_equal(error.oom.largest, PAGES(1));
    assert_int_equal(c7x_carveout_alloc(&carveout, 0, &range, &error), C7X_SIZE);
    assert_int_equal(c7x_carveout_alloc(&carveout, UINT64_MAX, &range, &error), C7X_SIZE);
    c7x_carveout_free(&carveout, BASE + 1);
    assert_int_equal(c7x_carveout_free_bytes(&carveout), PAGES(1));
    c7x_carveout_deinit(&carveout);
}

static int released;

static void count_release(void *context, uint64_t address, uint64_t size)
{
    (void)context;
    (void)address;
    (void)size;
    released++;
}

static void a_pinned_buffer_goes_with_its_last_pin(void **state)
{
    (void)state;
    struct c7x_buffer_table table;
    released = 0;
    assert_int_equal(c7x_buffer_table_init(&table, count_release, NULL), C7X_OK);
    assert_int_equal(c7x_buffer_table_add(&table, 7, BASE, PAGES(2)), C7X_OK);
    assert_true(c7x_buffer_table_pin(&table, 7, BASE + 10, 100));
    assert_true(c7x_buffer_table_pin(&table, 7, BASE, PAGES(2)));
    assert_false(c7x_buffer_table_remove(&table, 7, BASE));
    assert_false(c7x_buffer_table_owns(&table, 7, BASE, 1)); /* nothing new may begin */
    assert_false(c7x_buffer_table_pin(&table, 7, BASE, 1));
    c7x_buffer_table_unpin(&table, BASE + 10);
    assert_int_equal(released, 0);
    c7x_buffer_table_unpin(&table, BASE);
    assert_int_equal(released, 1);
    assert_true(c7x_buffer_table_remove(&table, 7, BASE));
    assert_int_equal(released, 1);
    c7x_buffer_table_deinit(&table);
}

static void a_buffer_belongs_to_who_attached_it(void **state)
{
    (void)state;
    struct c7x_buffer_table table;
    released = 0;
    assert_int_equal(c7x_buffer_table_init(&table, count_release, NULL), C7X_OK);
    assert_int_equal(c7x_buffer_table_add(&table, 7, BASE, PAGES(2)), C7X_OK);
    assert_int_equal(c7x_buffer_table_add(&table, 8, BASE + PAGES(1), PAGES(2)), C7X_INVALID);
    assert_int_equal(c7x_buffer_table_add(&table, 8, BASE + PAGES(2), PAGES(1)), C7X_OK);
    assert_true(c7x_buffer_table_owns(&table, 7, BASE, PAGES(2)));
    assert_false(c7x_buffer_table_owns(&table, 8, BASE, 1));
    assert_false(c7x_buffer_table_owns(&table, 7, BASE, PAGES(2) + 1)); /* not across two buffers */
    assert_false(c7x_buffer_table_owns(&table, 7, BASE + PAGES(5), 1));
    assert_true(c7x_buffer_table_remove(&table, 8, BASE)); /* not theirs: nothing happens */
    assert_true(c7x_buffer_table_owns(&table, 7, BASE, 1));
    c7x_buffer_table_remove_endpoint(&table, 7);
    assert_int_equal(released, 1);
    assert_true(c7x_buffer_table_owns(&table, 8, BASE + PAGES(2), PAGES(1)));
    c7x_buffer_table_deinit(&table);
}

/* Attached in any order, with gaps between them. */
static void each_of_many_buffers_is_found(void **state)
{
    (void)state;
    enum { COUNT = 101 };
    struct c7x_buffer_table table;
    assert_int_equal(c7x_buffer_table_init(&table, count_release, NULL), C7X_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t number = i * 37 % COUNT;
        assert_int_equal(c7x_buffer_table_add(&table, number, BASE + PAGES(3 * number), PAGES(2)),
                         C7X_OK);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t address = BASE + PAGES(3 * i);
        assert_true(c7x_buffer_table_owns(&table, i, address, PAGES(2)));
        assert_true(c7x_buffer_table_owns(&table, i, address + PAGES(2) - 1, 1));
        assert_false(c7x_buffer_table_owns(&table, i, address - 1, 1));
        assert_false(c7x_buffer_table_owns(&table, i, address + PAGES(2), 1));
        assert_int_equal(c7x_buffer_table_add(&table, i, address + PAGES(1), PAGES(2)),
                         C7X_INVALID);
    }
    c7x_buffer_table_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_gap_that_fits_is_taken),
        cmocka_unit_test(a_full_carveout_says_what_there_is),
        cmocka_unit_test(a_pinned_buffer_goes_with_its_last_pin),
        cmocka_unit_test(a_buffer_belongs_to_who_attached_it),
        cmocka_unit_test(each_of_many_buffers_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/virtqueue.h"

#include "base/compiler.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define FIRST_ADDRESS 4096u
#define BUFFER_BYTES 64u
#define MEMORY_BYTES (FIRST_ADDRESS + C7X_VIRTQUEUE_SIZE * BUFFER_BYTES)
#define MANY 200000u /* indices have 16 bits */

static struct c7x_virtqueue queue;
static struct c7x_virtqueue_driver driver;
static struct c7x_virtqueue_device device;

static int set_up(void **state)
{
    (void)state;
    memset(&queue, 0, sizeof queue);
    c7x_virtqueue_driver_init(&driver, &queue, FIRST_ADDRESS, BUFFER_BYTES, false);
    c7x_virtqueue_device_init(&device, &queue);
    return 0;
}

static uint16_t give(bool *out_needs_bell)
{
    uint16_t id;
    assert_int_equal(c7x_virtqueue_take_free(&driver, &id), C7X_OK);
    c7x_virtqueue_make_available(&driver, id, out_needs_bell);
    return id;
}

static void give_back(uint16_t id)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    assert_int_equal(c7x_virtqueue_take_available(&device, MEMORY_BYTES, &buffer), C7X_OK);
    assert_int_equal(buffer.id, id);
    assert_int_equal(buffer.address, c7x_virtqueue_address(&driver, id));
    assert_int_equal(buffer.length, BUFFER_BYTES);
    c7x_virtqueue_put_used(&device, id, id % BUFFER_BYTES, &needs_bell);
}

static void buffers_go_there_and_back_in_order(void **state)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        uint16_t first = give(&needs_bell);
        uint16_t second = give(&needs_bell);
        give_back(first);
        give_back(second);
        assert_int_equal(c7x_virtqueue_take_available(&device, MEMORY_BYTES, &buffer), C7X_BUSY);
        assert_int_equal(c7x_virtqueue_take_used(&driver, &buffer), C7X_OK);
        assert_int_equal(buffer.id, first);
        assert_int_equal(buffer.length, first % BUFFER_BYTES);
        c7x_virtqueue_make_available(&driver, first, &needs_bell);
        give_back(first);
        while (c7x_virtqueue_take_used(&driver, &buffer) == C7X_OK)
            driver.free_ids[driver.free_count++] = buffer.id;
    }
}

static void all_that_are_away_are_busy(void **state)
{
    bool needs_bell;
    uint16_t ids[C7X_VIRTQUEUE_SIZE];
    uint16_t id;
    (void)state;
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        ids[i] = give(&needs_bell);
    assert_int_equal(c7x_virtqueue_take_free(&driver, &id), C7X_BUSY);
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        give_back(ids[i]);
    for (uint32_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++)
        (void)give(&needs_bell);
    assert_int_equal(c7x_virtqueue_take_free(&driver, &id), C7X_BUSY);
}

static void the_bell_is_for_who_waits(void **state)
{
    bool needs_bell;
    uint16_t ids[4];
    (void)state;
    ids[0] = give(&needs_bell);
    assert_false(needs_bell);
    assert_true(c7x_virtqueue_await_available(&device)); /* it is there already */
    give_back(ids[0]);
    assert_false(c7x_virtqueue_await_available(&device));
    ids[1] = give(&needs_bell);
    assert_true(needs_bell);
    ids[2] = give(&needs_bell); /* it has been told */
    assert_false(needs_bell);
    give_back(ids[1]);
    give_back(ids[2]);
    assert_false(c7x_virtqueue_await_available(&device));
    c7x_virtqueue_await_no_available(&device);
    ids[3] = give(&needs_bell);
    assert_false(needs_bell);
    assert_true(c7x_virtqueue_await_used(&driver));
}

/* What either end may find when the other one has gone mad. */
static void damage_is_found_by_the_driver(void **state)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    const struct {
        uint16_t index;
        uint32_t id;
        uint32_t length;
    } damages[] = {{2, 0, 0},          {65535, 0, 0}, {1, C7X_VIRTQUEUE_SIZE, 0},
                   {1, UINT32_MAX, 0}, {1, 77, 0},    {1, 0, BUFFER_BYTES + 1},
                   {1, 0, UINT32_MAX}};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(damages); i++) {
        set_up(state);
        assert_int_equal(give(&needs_bell), 0);
        atomic_store(&queue.used.index, damages[i].index);
        atomic_store(&queue.used.ring[0].id, damages[i].id);
        atomic_store(&queue.used.ring[0].length, damages[i].length);
        assert_int_equal(c7x_virtqueue_take_used(&driver, &buffer), C7X_PROTOCOL);
    }
    set_up(state);
    give_back(give(&needs_bell)); /* one buffer comes back twice */
    (void)give(&needs_bell);
    atomic_store(&queue.used.index, 2);
    assert_int_equal(c7x_virtqueue_take_used(&driver, &buffer), C7X_OK);
    assert_int_equal(c7x_virtqueue_take_used(&driver, &buffer), C7X_PROTOCOL);
}

static void damage_is_found_by_the_device(void **state)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    const struct {
        uint16_t index;
        uint16_t id;
        uint64_t address;
        uint32_t length;
    } damages[] = {{C7X_VIRTQUEUE_SIZE + 1, 0, FIRST_ADDRESS, 1},
                   {65535, 0, FIRST_ADDRESS, 1},
                   {1, C7X_VIRTQUEUE_SIZE, FIRST_ADDRESS, 1},
                   {1, UINT16_MAX, FIRST_ADDRESS, 1},
                   {1, 0, MEMORY_BYTES, 1},
                   {1, 0, UINT64_MAX, 1},
                   {1, 0, MEMORY_BYTES - 1, 2},
                   {1, 0, 0, UINT32_MAX}};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(damages); i++) {
        set_up(state);
        assert_int_equal(give(&needs_bell), 0);
        queue.descriptors[0].address = damages[i].address;
        queue.descriptors[0].length = damages[i].length;
        atomic_store(&queue.available.index, damages[i].index);
        atomic_store(&queue.available.ring[0], damages[i].id);
        assert_int_equal(c7x_virtqueue_take_available(&device, MEMORY_BYTES, &buffer),
                         C7X_PROTOCOL);
    }
}

/* The device changes the descriptors; the driver goes by what it wrote. */
static void the_driver_trusts_no_descriptor(void **state)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    (void)state;
    uint16_t id = give(&needs_bell);
    give_back(id);
    memset(queue.descriptors, 0xFF, sizeof queue.descriptors);
    assert_int_equal(c7x_virtqueue_take_used(&driver, &buffer), C7X_OK);
    assert_int_equal(buffer.address, FIRST_ADDRESS + (uint64_t)id * BUFFER_BYTES);
}

/* ---- Two threads ---- */

static void *give_back_all(void *context)
{
    uint32_t *out_sum = context;
    for (uint32_t i = 0; i < MANY;) {
        struct c7x_virtqueue_buffer buffer;
        bool needs_bell;
        if (c7x_virtqueue_take_available(&device, MEMORY_BYTES, &buffer) != C7X_OK) {
            sched_yield();
            continue;
        }
        *out_sum += buffer.id;
        c7x_virtqueue_put_used(&device, buffer.id, BUFFER_BYTES, &needs_bell);
        i++;
    }
    return NULL;
}

static void two_threads_agree(void **state)
{
    pthread_t thread;
    uint32_t sum = 0;
    uint32_t expected = 0;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, give_back_all, &sum), 0);
    for (uint32_t i = 0; i < MANY;) {
        uint16_t id;
        bool needs_bell;
        enum c7x_status status = c7x_virtqueue_take_free(&driver, &id);
        assert_true(status == C7X_OK || status == C7X_BUSY);
        if (status == C7X_BUSY) {
            sched_yield();
            continue;
        }
        expected += id;
        c7x_virtqueue_make_available(&driver, id, &needs_bell);
        i++;
    }
    pthread_join(thread, NULL);
    assert_int_equal(sum, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buffers_go_there_and_back_in_order, set_up),
        cmocka_unit_test_setup(all_that_are_away_are_busy, set_up),
        cmocka_unit_test_setup(the_bell_is_for_who_waits, set_up),
        cmocka_unit_test_setup(damage_is_found_by_the_driver, set_up),
        cmocka_unit_test_setup(damage_is_found_by_the_device, set_up),
        cmocka_unit_test_setup(the_driver_trusts_no_descriptor, set_up),
        cmocka_unit_test_setup(two_threads_agree, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

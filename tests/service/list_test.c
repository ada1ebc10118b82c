/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: what it says is what is there. */
#include "service/steps.h"
#include "support/environment.h"

#include "firmware/memory/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ENTRIES_MAX 4096u

static struct c7x_test_loopback *device;
static struct c7x_steps_client client;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    c7x_steps_open(device, &client);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_steps_close(&client);
    c7x_test_loopback_stop(device);
    return 0;
}

static uint32_t session_count(void)
{
    struct c7x_response page;
    assert_int_equal(c7x_steps_list(client.link, C7X_WIRE_LIST_SESSIONS, 0, &page), C7X_OK);
    return page.body.list.total;
}

static void sessions_with_what_they_hold(void **state)
{
    (void)state;
    struct c7x_list_session sessions[3];
    struct c7x_response response;
    struct c7x_steps_client other;
    c7x_steps_open(device, &other);
    c7x_steps_start_spin(&client, 300, 1);
    c7x_steps_send_spin(&client, 0, 2);
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_SESSIONS, sizeof sessions[0], sessions, 3),
        2);
    assert_int_equal(wire_u32_get(sessions[0].number), client.session);
    assert_int_equal(wire_u32_get(sessions[0].wire_version), C7X_WIRE_VERSION);
    assert_int_equal(wire_u32_get(sessions[0].module_count), 1);
    assert_int_equal(wire_u32_get(sessions[0].model_count), 0);
    assert_int_equal(wire_u32_get(sessions[0].queued), 1);
    assert_int_equal(wire_u32_get(sessions[0].running), 1);
    assert_int_equal(wire_u32_get(sessions[1].number), other.session);
    assert_int_equal(wire_u32_get(sessions[1].queued), 0);
    c7x_steps_close(&other);
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 1, &response), C7X_OK);
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 2, &response), C7X_OK);
    C7X_TEST_WAIT_UNTIL(session_count() == 1, 30000);
}

static void the_targets_and_what_they_run(void **state)
{
    (void)state;
    struct c7x_list_target targets[9];
    const struct c7x_list_target *target = &targets[3]; /* of a module that says nothing */
    struct c7x_response response;
    c7x_steps_start_spin(&client, 300, 7);
    c7x_steps_send_spin(&client, 0, 8);
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_TARGETS, sizeof *target, targets, 9), 9);
    assert_string_equal((const char *)targets[0].name, "DSP_C7-1");
    assert_string_equal((const char *)target->name, "DSP_C7-1_PRI_4");
    assert_string_equal((const char *)targets[8].name, "DSP_C7-1_CONTROL");
    assert_int_equal(wire_u32_get(target->queue_depth_max), 96);
    assert_int_equal(wire_u32_get(target->queue_depth), 1);
    assert_int_equal(wire_u32_get(target->running_session), client.session);
    assert_int_equal(wire_u32_get(target->running_seq), 7);
    assert_int_equal(wire_u32_get(target->is_preempted), 0);
    assert_int_equal(wire_u64_get(target->jobs_done), 0);
    assert_int_equal(wire_u64_get(targets[8].jobs_done), 1); /* the load */
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 7, &response), C7X_OK);
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 8, &response), C7X_OK);
}

static uint32_t list_modules(struct c7x_list_module *modules, uint32_t capacity)
{
    return c7x_steps_list_all(client.link, C7X_WIRE_LIST_MODULES, sizeof modules[0], modules,
                              capacity);
}

/* 20 modules take three pages, and a model stands behind them. */
static void modules_and_models_page_by_page(void **state)
{
    (void)state;
    struct c7x_list_module modules[24];
    struct c7x_buffer staged;
    struct c7x_heap_statistics heap;
    uint64_t heap_bytes = 0;
    for (int i = 0; i < 19; i++)
        (void)c7x_test_load(client.link, "add_one", i == 0 ? C7X_WIRE_LOAD_KEEP : 0, &staged);
    struct c7x_buffer blob = c7x_test_attach(client.link, 4096); /* zero constants */
    struct c7x_request load = {
        .type = C7X_MSG_MODEL_LOAD,
        .body.load = {.size = 8, .flags = C7X_WIRE_LOAD_ADDRESS, .address = blob.dsp_address}};
    struct c7x_response response;
    assert_int_equal(c7x_test_ask_decoded(client.link, &load, &response), C7X_OK);
    assert_int_equal(list_modules(modules, 24), 21);
    assert_int_equal(wire_u32_get(modules[0].handle), client.spin);
    assert_int_equal(wire_u32_get(modules[0].session), client.session);
    assert_int_equal(wire_u64_get(modules[0].staged_bytes), 0);
    assert_int_equal(wire_u32_get(modules[1].session), 0);
    assert_true(wire_u64_get(modules[1].staged_bytes) > 0);
    assert_true(wire_u64_get(modules[2].staged_bytes) > 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(modules[i].state, C7X_WIRE_MODULE_LOADED);
        assert_int_equal(modules[i].priority, 4);
        assert_true(wire_u64_get(modules[i].heap_bytes) > 0);
    }
    for (int i = 0; i < 21; i++)
        heap_bytes += wire_u64_get(modules[i].heap_bytes);
    assert_int_equal(modules[20].state, C7X_WIRE_MODULE_MODEL);
    assert_int_equal(modules[20].priority, 0);
    assert_int_equal(wire_u32_get(modules[20].handle), response.body.model_load.model_id);
    assert_int_equal(wire_u64_get(modules[20].staged_bytes), 8);
    c7x_test_loopback_heap(device, &heap);
    assert_true(heap_bytes < heap.total - heap.free);
    assert_int_equal(c7x_test_unload(client.link, wire_u32_get(modules[1].handle)), C7X_OK);
    assert_int_equal(list_modules(modules, 24), 20);
}

static void pools_and_blocks_add_up(void **state)
{
    (void)state;
    static struct c7x_list_block blocks[ENTRIES_MAX];
    struct c7x_list_pool pools[4];
    uint64_t free_bytes[3] = {0};
    uint64_t largest[3] = {0};
    uint64_t end[3] = {0};
    uint32_t used[3] = {0};
    struct c7x_buffer middle = c7x_test_attach(client.link, 1 << 20);
    (void)c7x_test_attach(client.link, 4096);
    client.link->ops->detach(client.link, &middle); /* a hole */
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_POOLS, sizeof pools[0], pools, 4), 3);
    uint32_t count = c7x_steps_list_all(client.link, C7X_WIRE_LIST_BLOCKS, sizeof blocks[0], blocks,
                                        ENTRIES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pool = wire_u32_get(blocks[i].pool);
        uint64_t address = wire_u64_get(blocks[i].address);
        uint64_t size = wire_u64_get(blocks[i].size);
        assert_true(pool < 3);
        assert_true(address >= end[pool]);
        end[pool] = address + size;
        if (wire_u32_get(blocks[i].use) == C7X_WIRE_BLOCK_USED) {
            used[pool]++;
            continue;
        }
        free_bytes[pool] += size;
        largest[pool] = size > largest[pool] ? size : largest[pool];
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(wire_u64_get(pools[i].free), free_bytes[i]);
        assert_int_equal(wire_u64_get(pools[i].largest), largest[i]);
        assert_int_equal(wire_u32_get(pools[i].block_count), used[i]);
        assert_true(wire_u64_get(pools[i].total) >= free_bytes[i]);
    }
    assert_string_equal((const char *)pools[0].name, "DDR heap");
    assert_string_equal((const char *)pools[1].name, "fast pool");
    assert_string_equal((const char *)pools[2].name, "carve-out");
    assert_int_equal(wire_u64_get(pools[0].address), C7X_MEMORY_HEAP_BASE);
    assert_int_equal(wire_u64_get(pools[2].address), C7X_MEMORY_CARVEOUT_BASE);
    assert_int_equal(wire_u32_get(pools[2].block_count), 4);
}

static void blocks_of_the_carveout_name_their_session(void **state)
{
    (void)state;
    static struct c7x_list_block blocks[ENTRIES_MAX];
    bool found = false;
    uint32_t count = c7x_steps_list_all(client.link, C7X_WIRE_LIST_BLOCKS, sizeof blocks[0], blocks,
                                        ENTRIES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (wire_u64_get(blocks[i].address) != client.input.dsp_address)
            continue;
        found = true;
        assert_int_equal(wire_u32_get(blocks[i].owner), client.session);
        assert_int_equal(wire_u64_get(blocks[i].size), client.input.size);
        assert_int_equal(wire_u32_get(blocks[i].use), C7X_WIRE_BLOCK_USED);
    }
    assert_true(found);
}

static void beyond_the_end_there_is_nothing(void **state)
{
    (void)state;
    struct c7x_response response;
    for (uint32_t kind = C7X_WIRE_LIST_SESSIONS; kind <= C7X_WIRE_LIST_BLOCKS; kind++) {
        assert_int_equal(c7x_steps_list(client.link, kind, UINT32_MAX, &response), C7X_OK);
        assert_int_equal(response.body.list.count, 0);
        assert_true(response.body.list.total > 0);
    }
    assert_int_equal(c7x_steps_list(client.link, 0, 0, &response), C7X_INVALID);
    assert_int_equal(c7x_steps_list(client.link, 6, 0, &response), C7X_INVALID);
}

static void a_list_needs_a_session(void **state)
{
    (void)state;
    struct c7x_host_link *link = c7x_test_loopback_connect(device);
    struct c7x_response response;
    assert_int_equal(c7x_steps_list(link, C7X_WIRE_LIST_POOLS, 0, &response), C7X_INVALID);
    link->ops->close(link);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sessions_with_what_they_hold),
        TEST(the_targets_and_what_they_run),
        TEST(modules_and_models_page_by_page),
        TEST(pools_and_blocks_add_up),
        TEST(blocks_of_the_carveout_name_their_session),
        TEST(beyond_the_end_there_is_nothing),
        TEST(a_list_needs_a_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Real modules at several priorities of one device: who comes first, and what the others keep.
 * Order is told by the order of answers. */
#include "os/os.h"
#include "service/steps.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TARGETS 9
#define CONTROL 8
#define SOON_MS 30000

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

static void list_targets(struct c7x_list_target targets[TARGETS])
{
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_TARGETS, sizeof targets[0], targets, TARGETS),
        TARGETS);
}

/* And is not pre-empted now. */
static bool runs_at(int priority)
{
    struct c7x_list_target targets[TARGETS];
    list_targets(targets);
    return wire_u32_get(targets[priority - 1].running_session) != 0 &&
           wire_u32_get(targets[priority - 1].is_preempted) == 0;
}

/* Two int32 for the module, each request at a place of its own in the input buffer. */
static void send_infer(uint32_t handle, uint32_t priority, uint32_t seq, int32_t first,
                       int32_t second, int64_t count)
{
    const int32_t numbers[2] = {first, second};
    size_t offset = (size_t)seq * 64;
    struct c7x_request request =
        c7x_test_infer_request(handle, &client.input, 0, count, &client.output);
    assert_true(offset + sizeof numbers <= client.input.size);
    request.body.infer.flags = priority << C7X_WIRE_PRIORITY_SHIFT;
    request.body.infer.inputs[0].data_addr += offset;
    memcpy((uint8_t *)client.input.pointer + offset, numbers, sizeof numbers);
    client.link->ops->sync_to_device(client.link, &client.input, 0, client.input.size);
    c7x_steps_send(client.link, &request, seq);
}

static void send_spin(uint32_t handle, uint32_t priority, uint32_t seq, int32_t ms)
{
    send_infer(handle, priority, seq, ms, 0, 1);
}

/* Of holds or open, which runs. */
static void end_hold(uint32_t seq)
{
    uint8_t *input = (uint8_t *)client.input.pointer + (size_t)seq * 64;
    __atomic_store_n((int32_t *)(void *)input, 0, __ATOMIC_RELEASE);
}

static void take_infer(uint32_t seq, int32_t status)
{
    struct c7x_response response;
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, seq, &response), status);
}

static void cancel(uint32_t seq)
{
    uint32_t outcome;
    assert_int_equal(c7x_steps_cancel(client.link, seq, &outcome), C7X_OK);
    assert_int_equal(outcome, C7X_WIRE_CANCEL_RUNNING);
    take_infer(seq, C7X_CANCELLED);
}

static uint32_t load(const char *name, uint32_t priority)
{
    struct c7x_buffer staged;
    return c7x_test_load(client.link, name, priority << C7X_WIRE_PRIORITY_SHIFT, &staged);
}

/* Endless, at PRI_8, with a section each millisecond; it runs when this returns. */
static void start_endless(uint32_t handle, uint32_t seq)
{
    send_spin(handle, 8, seq, -1);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
}

static void higher_requests_are_answered_while_a_lower_one_runs(void **state)
{
    struct c7x_list_target targets[TARGETS];
    uint32_t other = load("spin", 0);
    (void)state;
    start_endless(client.spin, 1);
    for (uint32_t i = 0; i < 21; i++) {
        send_spin(other, i % 7 + 1, 2 + i, 0);
        take_infer(2 + i, C7X_OK);
        C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS); /* it has gone on */
    }
    list_targets(targets);
    for (int i = 0; i < 7; i++)
        assert_int_equal(wire_u64_get(targets[i].jobs_done), 3);
    assert_int_equal(wire_u64_get(targets[7].jobs_done), 0);
    assert_in_range(wire_u32_get(targets[7].preemptions), 21, 30); /* loads took steps, too */
    cancel(1);
}

/* Behind one critical section everything waits, and then goes by priority, not by arrival. */
static void what_waits_is_answered_by_priority(void **state)
{
    static const uint32_t priorities[] = {5, 8, 2, 6, 2, 1, 7};
    static const uint32_t order[] = {5, 2, 4, 0, 3, 6, 1};
    uint32_t holds = load("holds", 0);
    uint32_t modules[7];
    (void)state;
    for (int i = 0; i < 7; i++)
        modules[i] = load("spin", 0);
    send_spin(holds, 8, 20, -1);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    for (uint32_t i = 0; i < 7; i++)
        send_spin(modules[i], priorities[i], i, 0);
    c7x_test_ping(client.link); /* all have come */
    end_hold(20);
    for (int i = 0; i < 6; i++)
        take_infer(order[i], C7X_OK);
    take_infer(20, C7X_OK); /* before the other one of its target */
    take_infer(order[6], C7X_OK);
}

static void a_module_has_the_priority_of_its_load(void **state)
{
    struct c7x_list_target targets[TARGETS];
    uint32_t second = load("spin", 2);
    (void)state;
    send_spin(second, 0, 1, 0);
    take_infer(1, C7X_OK);
    send_spin(second, 6, 2, 0); /* this once */
    take_infer(2, C7X_OK);
    send_spin(client.spin, 0, 3, 0);
    take_infer(3, C7X_OK);
    c7x_test_ping(client.link);
    C7X_TEST_WAIT_UNTIL((list_targets(targets), wire_u64_get(targets[3].jobs_done)) == 1, SOON_MS);
    assert_int_equal(wire_u64_get(targets[1].jobs_done), 1);
    assert_int_equal(wire_u64_get(targets[5].jobs_done), 1); /* and the default, 4, above */
}

/* A request for a module that runs elsewhere lends it its own urgency: 3 is higher than 2, but must
 * not come between. */
static void a_module_that_a_higher_request_wants_is_finished_first(void **state)
{
    uint32_t other = load("spin", 0);
    (void)state;
    send_spin(client.spin, 8, 1, 300);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    send_spin(client.spin, 1, 2, 0);
    send_spin(other, 4, 3, 0);
    take_infer(1, C7X_OK);
    take_infer(2, C7X_OK);
    take_infer(3, C7X_OK);
}

/* Also while the highest target never rests. */
static void loads_and_unloads_come_through(void **state)
{
    struct c7x_buffer staged;
    (void)state;
    send_spin(client.spin, 1, 1, -1);
    C7X_TEST_WAIT_UNTIL(runs_at(1), SOON_MS);
    for (int i = 0; i < 3; i++) {
        uint32_t handle = c7x_test_load(client.link, "add_one", 0, &staged);
        assert_int_equal(c7x_test_unload(client.link, handle), C7X_OK);
    }
    cancel(1);
}

/* What is asked of a module before it is unloaded is done, and what is asked later is not. */
static void an_unload_keeps_its_turn(void **state)
{
    struct c7x_response response;
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD};
    uint32_t holds = load("holds", 0);
    uint32_t other = load("spin", 0);
    (void)state;
    send_spin(holds, 1, 1, -1);
    C7X_TEST_WAIT_UNTIL(runs_at(1), SOON_MS);
    unload.body.handle = other;
    send_spin(other, 8, 2, 0);
    c7x_steps_send(client.link, &unload, 3);
    send_spin(other, 1, 4, 0);
    c7x_test_ping(client.link); /* all have come */
    end_hold(1);
    take_infer(1, C7X_OK);
    take_infer(2, C7X_OK);
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_DYN_UNLOAD, 3, &response), C7X_OK);
    take_infer(4, C7X_HANDLE);
}

/* A module whose sections hold nothing off. */
static void a_module_may_be_preempted_anywhere(void **state)
{
    uint32_t open;
    c7x_test_needs_signals();
    (void)state;
    open = load("open", 8);
    send_spin(open, 0, 1, -1);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    for (uint32_t i = 2; i < 12; i++) {
        send_spin(client.spin, 1, i, 0);
        take_infer(i, C7X_OK);
        C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    }
    end_hold(1);
    take_infer(1, C7X_OK);
}

/* One job runs at a time, so the own times of all make up no more than what has passed. */
static void cycles_are_the_jobs_own(void **state)
{
    struct c7x_response response;
    uint64_t sum = 0;
    uint32_t other = load("spin", 0);
    (void)state;
    int64_t begin = c7x_os_clock_ns();
    send_spin(client.spin, 8, 2, 300);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    for (int i = 0; i < 3; i++) {
        send_spin(other, 1, 1, 100);
        assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 1, &response), C7X_OK);
        sum += response.body.infer.cycles;
    }
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 2, &response), C7X_OK);
    sum += response.body.infer.cycles;
    assert_in_range(sum, 1, (uint64_t)(c7x_os_clock_ns() - begin)); /* cycles are ns here */
}

/* The one of a module that is nothing but a section is as long as that. */
static void the_longest_section_is_listed(void **state)
{
    struct c7x_list_module modules[4];
    uint32_t holds = load("holds", 0);
    (void)state;
    send_spin(holds, 0, 1, 20);
    take_infer(1, C7X_OK);
    send_spin(holds, 0, 1, 2);
    take_infer(1, C7X_OK);
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_MODULES, sizeof modules[0], modules, 4), 2);
    assert_int_equal(wire_u64_get(modules[0].longest_section_ns), 0); /* it has not run */
    assert_in_range(wire_u64_get(modules[1].longest_section_ns), 5000000, 2000000000);
}

/* ---- L2 ---- */

static const int32_t *result_of(const struct c7x_response *response)
{
    uint64_t offset = response->body.infer.outputs[0].data_addr - client.output.dsp_address;
    assert_true(offset <= client.output.size - 16);
    client.link->ops->sync_from_device(client.link, &client.output, 0, client.output.size);
    return (const int32_t *)(const void *)((const uint8_t *)client.output.pointer + offset);
}

/* Both fill both ends of it, the higher one in the middle of what the lower one does. */
static void what_a_module_keeps_in_l2_survives_others(void **state)
{
    struct c7x_response response;
    uint32_t low = load("scratch", 8);
    uint32_t high = load("scratch", 1);
    (void)state;
    send_infer(low, 0, 1, 400, 1000, 2);
    C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    for (uint32_t i = 0; i < 10; i++) {
        send_infer(high, 0, 2, 3, (int32_t)(5000 + i), 2);
        assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 2, &response), C7X_OK);
        assert_int_equal(result_of(&response)[0], 0);
        assert_int_equal(result_of(&response)[1], (int32_t)i + 1); /* activated anew each time */
        C7X_TEST_WAIT_UNTIL(runs_at(8), SOON_MS);
    }
    assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 1, &response), C7X_OK);
    assert_int_equal(result_of(&response)[0], 0);
    assert_in_range(result_of(&response)[1], 2, 11);
    assert_int_equal(result_of(&response)[2], result_of(&response)[1] - 1);
}

static void a_module_that_is_alone_is_activated_once(void **state)
{
    struct c7x_list_module modules[4];
    struct c7x_response response;
    uint32_t only = load("scratch", 0);
    (void)state;
    for (int i = 0; i < 5; i++) {
        send_infer(only, 0, 1, 2, 7, 2);
        assert_int_equal(c7x_steps_take(client.link, C7X_MSG_INFER, 1, &response), C7X_OK);
        assert_int_equal(result_of(&response)[1], 1);
        assert_int_equal(result_of(&response)[2], 0);
    }
    assert_int_equal(
        c7x_steps_list_all(client.link, C7X_WIRE_LIST_MODULES, sizeof modules[0], modules, 4), 2);
    assert_int_equal(wire_u32_get(modules[0].activations), 0);
    assert_int_equal(wire_u32_get(modules[1].activations), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(higher_requests_are_answered_while_a_lower_one_runs),
        TEST(what_waits_is_answered_by_priority),
        TEST(a_module_has_the_priority_of_its_load),
        TEST(a_module_that_a_higher_request_wants_is_finished_first),
        TEST(loads_and_unloads_come_through),
        TEST(an_unload_keeps_its_turn),
        TEST(a_module_may_be_preempted_anywhere),
        TEST(the_longest_section_is_listed),
        TEST(cycles_are_the_jobs_own),
        TEST(what_a_module_keeps_in_l2_survives_others),
        TEST(a_module_that_is_alone_is_activated_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

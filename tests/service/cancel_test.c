/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are taken back, ends of sessions, and how much one client may ask for at once
 * (users' reports U02, U31, U34 and U40). */
#include "service/steps.h"
#include "support/c7x_builder.h"
#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RUN_MS 400

struct fixture {
    struct c7x_test_loopback *device;
    struct c7x_steps_client first;
    struct c7x_steps_client second;
};

static int start(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->device = c7x_test_loopback_start();
    c7x_steps_open(fixture->device, &fixture->first);
    c7x_steps_open(fixture->device, &fixture->second);
    *state = fixture;
    return 0;
}

static int stop(void **state)
{
    struct fixture *fixture = *state;
    c7x_steps_close(&fixture->first);
    c7x_steps_close(&fixture->second);
    c7x_test_loopback_stop(fixture->device);
    free(fixture);
    return 0;
}

static void U34_a_waiting_request_is_answered_cancelled_and_then_the_cancel(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_request cancel = {.type = C7X_MSG_CANCEL, .body.cancelled_seq = 11};
    struct c7x_response response;
    char text[128];
    c7x_steps_start_spin(&fixture->first, RUN_MS, 10);
    c7x_steps_send_spin(&fixture->first, 0, 11);
    c7x_steps_send_spin(&fixture->first, 0, 12);
    c7x_steps_send(link, &cancel, 13);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 11, &response), C7X_CANCELLED);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_CANCEL, 13, &response), C7X_OK);
    assert_int_equal(response.body.cancel_outcome, C7X_WIRE_CANCEL_REMOVED);
    c7x_steps_error_text(link, 11, text, sizeof text);
    assert_string_equal(text, "cancelled before it ran");
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 10, &response), C7X_OK);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 12, &response), C7X_OK);
}

static void a_running_request_ends_with_its_section_and_an_answered_one_is_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_response response;
    uint32_t outcome;
    c7x_steps_start_spin(&fixture->first, -1, 20);
    assert_int_equal(c7x_steps_cancel(link, 20, &outcome), C7X_OK);
    assert_int_equal(outcome, C7X_WIRE_CANCEL_RUNNING);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 20, &response), C7X_CANCELLED);
    assert_int_equal(c7x_steps_cancel(link, 20, &outcome), C7X_HANDLE);
    assert_int_equal(c7x_steps_cancel(link, 4711, &outcome), C7X_HANDLE);
}

static void requests_of_another_session_are_unknown(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_response response;
    uint32_t outcome;
    c7x_steps_start_spin(&fixture->first, RUN_MS, 30);
    c7x_steps_send_spin(&fixture->first, 0, 31);
    assert_int_equal(c7x_steps_cancel(fixture->second.link, 31, &outcome), C7X_HANDLE);
    assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, 30, &response), C7X_OK);
    assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, 31, &response), C7X_OK);
}

static void loads_and_unloads_can_be_taken_back_too(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = fixture->first.spin};
    struct c7x_response response;
    uint32_t outcome;
    c7x_steps_start_spin(&fixture->second, RUN_MS, 40);
    c7x_steps_send(link, &unload, 41);
    unload.type = C7X_MSG_CANCEL;
    unload.body.cancelled_seq = 41;
    c7x_steps_send(link, &unload, 42);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_DYN_UNLOAD, 41, &response), C7X_CANCELLED);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_CANCEL, 42, &response), C7X_OK);
    assert_int_equal(response.body.cancel_outcome, C7X_WIRE_CANCEL_REMOVED);
    assert_int_equal(c7x_steps_take(fixture->second.link, C7X_MSG_INFER, 40, &response), C7X_OK);
    c7x_steps_send_spin(&fixture->first, 0, 43); /* the module is still there */
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 43, &response), C7X_OK);
    assert_int_equal(c7x_steps_cancel(link, 43, &outcome), C7X_HANDLE);
}

/* A C7x file with so many relocations that its load has a thousand steps. */
static void stage_long_load(struct c7x_steps_client *client, struct c7x_request *out_load)
{
    const uint64_t table_bytes = 100000 * sizeof(struct c7x_elf_rela);
    struct c7x_file *file;
    struct c7x_builder builder;
    client->staged = c7x_test_attach(client->link, sizeof *file + table_bytes);
    file = client->staged.pointer;
    c7x_builder_init(&builder, file);
    c7x_builder_finish(&builder);
    for (unsigned i = 0; i < builder.dynamic_count; i++) {
        if (file->dynamic[i].tag == C7X_ELF_DT_RELA)
            file->dynamic[i].value = sizeof *file;
        if (file->dynamic[i].tag == C7X_ELF_DT_RELASZ)
            file->dynamic[i].value = table_bytes;
    }
    *out_load = (struct c7x_request){.type = C7X_MSG_DYN_LOAD};
    out_load->body.load.size = (uint32_t)client->staged.size;
    out_load->body.load.flags = C7X_WIRE_LOAD_ADDRESS;
    out_load->body.load.address = client->staged.dsp_address;
}

/* While an endless inference runs, it has a step every 20 ms. */
static void start_long_load(struct fixture *fixture, struct c7x_steps_client *client, uint32_t seq)
{
    struct c7x_request load;
    stage_long_load(client, &load);
    c7x_steps_start_spin(&fixture->second, -1, 44);
    c7x_steps_send(client->link, &load, seq);
    C7X_TEST_WAIT_UNTIL(c7x_steps_runs(client->link, client->session, seq), 30000);
}

static void stop_spin(struct fixture *fixture)
{
    struct c7x_response response;
    uint32_t outcome;
    assert_int_equal(c7x_steps_cancel(fixture->second.link, 44, &outcome), C7X_OK);
    assert_int_equal(c7x_steps_take(fixture->second.link, C7X_MSG_INFER, 44, &response),
                     C7X_CANCELLED);
}

static void a_running_load_ends_between_two_steps(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_response response;
    uint32_t outcome;
    char text[128];
    start_long_load(fixture, &fixture->first, 45);
    assert_int_equal(c7x_steps_cancel(link, 45, &outcome), C7X_OK);
    assert_int_equal(outcome, C7X_WIRE_CANCEL_RUNNING);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_DYN_LOAD, 45, &response), C7X_CANCELLED);
    c7x_steps_error_text(link, 45, text, sizeof text);
    assert_string_equal(text, "cancelled in the middle of the load");
    stop_spin(fixture);
}

static void the_running_load_of_a_client_that_goes_ends(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_steps_client gone;
    size_t buffers = c7x_test_loopback_buffer_count(fixture->device);
    c7x_steps_open(fixture->device, &gone);
    start_long_load(fixture, &gone, 46);
    c7x_steps_close(&gone);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_buffer_count(fixture->device) == buffers, 30000);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_module_count(fixture->device) == 2, 30000);
    stop_spin(fixture);
}

static void a_cancelled_request_lets_go_of_its_buffers(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_steps_client *client = &fixture->first;
    struct c7x_response response;
    uint32_t outcome;
    size_t buffers = c7x_test_loopback_buffer_count(fixture->device);
    c7x_steps_start_spin(&fixture->second, RUN_MS, 50);
    c7x_steps_send_spin(client, 0, 51);
    c7x_test_ping(client->link); /* it has been routed */
    client->link->ops->detach(client->link, &client->input);
    client->link->ops->detach(client->link, &client->output);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), buffers);
    struct c7x_request cancel = {.type = C7X_MSG_CANCEL, .body.cancelled_seq = 51};
    c7x_steps_send(client->link, &cancel, 52);
    assert_int_equal(c7x_steps_take(client->link, C7X_MSG_INFER, 51, &response), C7X_CANCELLED);
    assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), buffers - 2);
    assert_int_equal(c7x_steps_take(client->link, C7X_MSG_CANCEL, 52, &response), C7X_OK);
    assert_int_equal(c7x_steps_cancel(fixture->second.link, 50, &outcome), C7X_OK);
    assert_int_equal(outcome, C7X_WIRE_CANCEL_RUNNING);
    assert_int_equal(c7x_steps_take(fixture->second.link, C7X_MSG_INFER, 50, &response),
                     C7X_CANCELLED);
}

static void U40_a_closed_session_drops_what_waits_and_ends_what_runs(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_request close = {.type = C7X_MSG_SESSION_CLOSE};
    struct c7x_response response;
    c7x_steps_start_spin(&fixture->first, -1, 60);
    for (uint32_t seq = 61; seq < 70; seq++)
        c7x_steps_send_spin(&fixture->first, 1000000, seq);
    c7x_steps_send(link, &close, 70);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 60, &response), C7X_CANCELLED);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_SESSION_CLOSE, 70, &response), C7X_OK);
    assert_int_equal(c7x_test_loopback_module_count(fixture->device), 1);
}

/* The late answer would reach the new client at the old address. */
static void a_session_that_is_replaced_gets_no_answer_any_more(void **state)
{
    struct fixture *fixture = *state;
    c7x_steps_start_spin(&fixture->first, RUN_MS, 80);
    c7x_steps_send_spin(&fixture->first, 1000000, 81);
    uint32_t session = c7x_test_open_session(fixture->first.link);
    assert_int_not_equal(session, fixture->first.session);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_module_count(fixture->device) == 1, 30000);
    c7x_test_ping(fixture->first.link); /* its answer is the next that comes */
}

static void a_client_that_goes_takes_along_what_waits(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_steps_client gone;
    struct c7x_response response;
    c7x_steps_open(fixture->device, &gone);
    c7x_steps_start_spin(&fixture->first, RUN_MS, 90);
    for (uint32_t seq = 91; seq < 99; seq++)
        c7x_steps_send_spin(&gone, 1000000, seq);
    c7x_test_ping(gone.link);
    c7x_steps_close(&gone);
    c7x_steps_send_spin(&fixture->second, 0, 99);
    assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, 90, &response), C7X_OK);
    assert_int_equal(c7x_steps_take(fixture->second.link, C7X_MSG_INFER, 99, &response), C7X_OK);
    C7X_TEST_WAIT_UNTIL(c7x_test_loopback_module_count(fixture->device) == 2, 30000);
}

static void U31_one_session_cannot_fill_the_queue(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_response response;
    char text[256];
    c7x_steps_start_spin(&fixture->first, RUN_MS, 100);
    for (uint32_t seq = 101; seq < 101 + C7X_WIRE_SESSION_WAITING_MAX; seq++)
        c7x_steps_send_spin(&fixture->first, 0, seq);
    c7x_steps_send_spin(&fixture->first, 0, 200);
    assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, 200, &response), C7X_BUSY);
    c7x_steps_error_text(fixture->first.link, 200, text, sizeof text);
    assert_non_null(strstr(text, "64 requests of session"));
    c7x_steps_send_spin(&fixture->second, 0, 201);
    assert_int_equal(c7x_steps_take(fixture->second.link, C7X_MSG_INFER, 201, &response), C7X_OK);
    for (uint32_t seq = 100; seq < 101 + C7X_WIRE_SESSION_WAITING_MAX; seq++)
        assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, seq, &response),
                         C7X_OK);
}

static void U02_a_full_queue_is_busy_at_once_and_says_who_fills_it(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_steps_client third;
    struct c7x_response response;
    char text[448];
    c7x_steps_open(fixture->device, &third);
    c7x_steps_start_spin(&third, RUN_MS, 1);
    for (uint32_t seq = 301; seq < 365; seq++)
        c7x_steps_send_spin(&fixture->first, 0, seq);
    for (uint32_t seq = 401; seq < 433; seq++)
        c7x_steps_send_spin(&fixture->second, 0, seq);
    c7x_test_ping(fixture->first.link);
    c7x_test_ping(fixture->second.link);
    c7x_steps_send_spin(&third, 0, 2);
    assert_int_equal(c7x_steps_take(third.link, C7X_MSG_INFER, 2, &response), C7X_BUSY);
    c7x_steps_error_text(third.link, 2, text, sizeof text);
    assert_non_null(strstr(text, "96 requests wait at target DSP_C7-1"));
    assert_non_null(strstr(text, ": 64, session "));
    assert_non_null(strstr(text, ": 32"));
    assert_int_equal(c7x_steps_take(third.link, C7X_MSG_INFER, 1, &response), C7X_OK);
    for (uint32_t seq = 301; seq < 365; seq++)
        assert_int_equal(c7x_steps_take(fixture->first.link, C7X_MSG_INFER, seq, &response),
                         C7X_OK);
    c7x_steps_close(&third);
}

/* Whether an inference runs, waits or has ended when its cancel comes is chance; the answers always
 * agree, and each comes once. */
static void answers_and_cancels_agree_in_any_order(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_request cancel = {.type = C7X_MSG_CANCEL};
    for (uint32_t seq = 0; seq < 2000; seq += 2) {
        struct c7x_test_reply replies[2];
        c7x_steps_send_spin(&fixture->first, 0, seq);
        for (uint32_t i = 0; i < seq / 2 % 5; i++)
            c7x_test_ping(fixture->second.link);
        cancel.body.cancelled_seq = seq;
        c7x_steps_send(link, &cancel, seq + 1);
        c7x_test_receive(link, &replies[0]);
        c7x_test_receive(link, &replies[1]);
        bool cancel_is_last = replies[1].seq == seq + 1;
        const struct c7x_test_reply *infer = &replies[cancel_is_last ? 0 : 1];
        const struct c7x_test_reply *cancelled = &replies[cancel_is_last ? 1 : 0];
        assert_int_equal(infer->seq, seq);
        assert_int_equal(cancelled->seq, seq + 1);
        uint32_t outcome = cancelled->bytes[16];
        if (cancelled->status == C7X_HANDLE) {
            assert_true(cancel_is_last);
            assert_int_equal(infer->status, C7X_OK);
        } else if (outcome == C7X_WIRE_CANCEL_REMOVED) {
            assert_true(cancel_is_last);
            assert_int_equal(infer->status, C7X_CANCELLED);
        } else { /* it has ended by itself, or at the end of its section */
            assert_int_equal(outcome, C7X_WIRE_CANCEL_RUNNING);
            assert_true(infer->status == C7X_OK || infer->status == C7X_CANCELLED);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

/* A client that only looks does not wait behind what others run. */
static void a_session_that_holds_nothing_ends_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_host_link *link = fixture->first.link;
    struct c7x_request cancel = {.type = C7X_MSG_CANCEL, .body.cancelled_seq = 10};
    struct c7x_response response;
    c7x_steps_start_spin(&fixture->first, RUN_MS, 10);
    c7x_client_close(c7x_test_loopback_open(fixture->device, NULL));
    c7x_steps_send(link, &cancel, 11);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_CANCEL, 11, &response), C7X_OK);
    assert_int_equal(response.body.cancel_outcome, C7X_WIRE_CANCEL_RUNNING);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_INFER, 10, &response), C7X_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(U34_a_waiting_request_is_answered_cancelled_and_then_the_cancel),
        TEST(a_running_request_ends_with_its_section_and_an_answered_one_is_unknown),
        TEST(requests_of_another_session_are_unknown),
        TEST(loads_and_unloads_can_be_taken_back_too),
        TEST(a_running_load_ends_between_two_steps),
        TEST(the_running_load_of_a_client_that_goes_ends),
        TEST(a_cancelled_request_lets_go_of_its_buffers),
        TEST(U40_a_closed_session_drops_what_waits_and_ends_what_runs),
        TEST(a_session_that_is_replaced_gets_no_answer_any_more),
        TEST(a_client_that_goes_takes_along_what_waits),
        TEST(a_session_that_holds_nothing_ends_at_once),
        TEST(answers_and_cancels_agree_in_any_order),
        TEST(U31_one_session_cannot_fill_the_queue),
        TEST(U02_a_full_queue_is_busy_at_once_and_says_who_fills_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* TRACE_BEGIN, TRACE_END and OPERATORS, and the client's part of them: what is recorded is what has
 * happened, in its order, and what is lost is counted. */
#define _GNU_SOURCE
#include "os/os.h"
#include "service/steps.h"
#include "support/emulator_device.h"
#include "support/environment.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EVENTS_MAX 4096
#define WINDOW_EVENTS 4096u
#define PRIORITY(n) ((uint32_t)(n) << C7X_INFER_PRIORITY_SHIFT)

static struct c7x_test_loopback *device;
static struct c7x_client *client;
static struct c7x_trace *trace;
static struct c7x_trace_event events[EVENTS_MAX];
static int event_count;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    client = c7x_test_loopback_open(device, NULL);
    event_count = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    c7x_client_close(client);
    c7x_test_loopback_stop(device);
    return 0;
}

/* ---- Steps ---- */

static uint32_t load(const char *name)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    c7x_test_module_path(name, path);
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), C7X_OK);
    return handle;
}

static void begin(uint32_t count)
{
    assert_int_equal(c7x_trace_begin(client, count, &trace), C7X_OK);
}

static void take_all(void)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    while (event_count < EVENTS_MAX && c7x_trace_next(trace, &event))
        events[event_count++] = event;
}

/* Place of the first event from `from` on; -1: it is not among those taken. `target` -1 and seq 0:
 * any. */
static int find(int from, uint32_t event, int target, uint32_t seq)
{
    for (int i = from; i < event_count; i++)
        if (events[i].event == event && (target == -1 || events[i].target == target) &&
            (seq == 0 || events[i].seq == seq))
            return i;
    return -1;
}

static bool has_come(uint32_t event, int target)
{
    take_all();
    return find(0, event, target, 0) >= 0;
}

static void wait_for(uint32_t event, int target)
{
    C7X_TEST_WAIT_UNTIL(has_come(event, target), 30000);
}

static void end(void)
{
    assert_int_equal(c7x_trace_end(trace), C7X_OK);
    take_all();
    c7x_trace_free(trace);
}

static float run(uint32_t handle)
{
    float numbers[4] = {1, 2, 3, 4};
    const struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0,
                                            {4}};
    struct c7x_client_tensor output;
    int count = 1;
    assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL), C7X_OK);
    return ((const float *)output.data)[3];
}

static void run_operators(uint32_t handle)
{
    assert_true(run(handle) == 9);
}

/* Sends an inference of spin for `ms`. */
static struct c7x_inference *start_spin(uint32_t handle, int32_t *ms, int priority)
{
    const struct c7x_client_tensor input = {ms, sizeof *ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    c7x_infer_options_init(client, &options);
    options.handle = handle;
    options.flags = PRIORITY(priority);
    assert_int_equal(c7x_client_infer_async(client, &options, &input, 1, &inference), C7X_OK);
    return inference;
}

static enum c7x_status finish(struct c7x_inference *inference)
{
    struct c7x_client_tensor output;
    int count = 1;
    assert_int_equal(c7x_inference_wait(inference, 30000), C7X_OK);
    enum c7x_status status = c7x_inference_result(inference, &output, &count, NULL);
    c7x_inference_free(inference);
    return status;
}

/* ---- Events ---- */

/* Those of one session and request, as words. */
static void write_down(uint32_t seq, char *text, size_t size)
{
    text[0] = '\0';
    for (int i = 0; i < event_count; i++) {
        const struct c7x_trace_event *event = &events[i];
        char word[64];
        if (event->seq != seq || event->session == 0)
            continue;
        if (event->event == C7X_TRACE_STATION)
            (void)snprintf(word, sizeof word, "%s ", event->station);
        else if (event->event >= C7X_TRACE_SECTION_BEGIN)
            (void)snprintf(word, sizeof word, "%s %u, ", event->name, event->argument);
        else
            (void)snprintf(word, sizeof word, "%s, ", event->name);
        assert_true(strlen(text) + strlen(word) < size);
        strcat(text, word);
    }
}

static bool has_ended(uint32_t handle)
{
    bool found = false;
    take_all();
    for (int i = 0; i < event_count; i++)
        found = found || (events[i].event == C7X_TRACE_JOB_END && events[i].module == handle);
    return found;
}

static void the_way_of_a_request_from_station_to_station(void **state)
{
    char text[1024];
    uint32_t other = load("add_one");
    uint32_t handle = load("operators");
    (void)state;
    run_operators(handle);
    assert_true(run(other) == 5); /* so that the next one must be activated */
    begin(WINDOW_EVENTS);
    run_operators(handle);
    C7X_TEST_WAIT_UNTIL(has_ended(handle), 30000); /* which is behind the answer */
    end();
    int job = find(0, C7X_TRACE_JOB_BEGIN, -1, 0);
    write_down(events[job].seq, text, sizeof text);
    assert_string_equal(text, "service queued, job begin, target module tvm activated, kernel "
                              "call begin, section begin 0, section end 0, section begin 1, "
                              "section end 1, section begin 2, section end 2, call end, result "
                              "reply job end, ");
    assert_int_equal(events[job].target, 3); /* PRI_4 */
    assert_string_equal(events[job].request, "INFER");
    assert_int_equal(events[job].module, handle);
    for (int i = job + 1; i < event_count; i++)
        if (events[i].target == 3)
            assert_true(events[i].time_ns >= events[job].time_ns);
}

/* The least of some calls: what else the machine does only adds. */
static void how_long_each_operator_takes(void **state)
{
    int64_t least_ns[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    uint32_t handle = load("operators");
    (void)state;
    begin(WINDOW_EVENTS);
    for (int call = 0; call < 10; call++)
        run_operators(handle);
    end();
    int at = 0;
    for (int i = 0; i < 10 * 3; i++) {
        at = find(at, C7X_TRACE_SECTION_BEGIN, -1, 0);
        assert_int_not_equal(at, -1);
        int64_t time_ns = events[at + 1].time_ns - events[at].time_ns;
        if (time_ns < least_ns[i % 3])
            least_ns[i % 3] = time_ns;
        assert_int_equal(events[++at].event, C7X_TRACE_SECTION_END);
    }
    assert_true(least_ns[1] > least_ns[0] && least_ns[1] > least_ns[2]);
    assert_true(least_ns[2] > 10000);
}

static void how_many_wait_at_a_target(void **state)
{
    struct c7x_inference *inferences[3];
    int32_t ms = 20;
    uint32_t handle = load("spin");
    (void)state;
    begin(WINDOW_EVENTS);
    inferences[0] = start_spin(handle, &ms, 6);
    wait_for(C7X_TRACE_JOB_BEGIN, 5);
    for (int i = 1; i < 3; i++)
        inferences[i] = start_spin(handle, &ms, 6);
    assert_int_equal(c7x_inference_cancel(inferences[2]), C7X_OK);
    assert_int_equal(finish(inferences[0]), C7X_OK);
    assert_int_equal(finish(inferences[1]), C7X_OK);
    assert_int_equal(finish(inferences[2]), C7X_CANCELLED);
    end();
    int at = find(0, C7X_TRACE_QUEUED, 5, 0);
    assert_int_equal(events[at].argument, 1);
    at = find(at, C7X_TRACE_JOB_BEGIN, 5, 0);
    assert_int_equal(events[at].argument, 0);
    at = find(at, C7X_TRACE_QUEUED, 5, 0);
    assert_int_equal(events[at].argument, 1);
    at = find(at + 1, C7X_TRACE_QUEUED, 5, 0);
    assert_int_equal(events[at].argument, 2);
    at = find(at, C7X_TRACE_REMOVED, 5, 0);
    assert_int_equal(events[at].argument, 1);
    at = find(at, C7X_TRACE_JOB_BEGIN, 5, 0);
    assert_int_equal(events[at].argument, 0);
}

/* The low job waits, all the time, for the high one, which comes and goes in the middle of it. */
static void a_pre_empted_job_and_the_one_that_took_the_core(void **state)
{
    int32_t long_ms = 3000;
    int32_t short_ms = 2;
    uint32_t low = load("spin");
    uint32_t high = load("spin");
    (void)state;
    begin(WINDOW_EVENTS);
    struct c7x_inference *low_job = start_spin(low, &long_ms, 5);
    wait_for(C7X_TRACE_SECTION_BEGIN, 4);
    assert_int_equal(finish(start_spin(high, &short_ms, 2)), C7X_OK);
    wait_for(C7X_TRACE_RESUMED, 4);
    assert_int_equal(c7x_inference_cancel(low_job), C7X_BUSY); /* it runs, and ends */
    assert_int_equal(finish(low_job), C7X_CANCELLED);
    end();
    int queued = find(0, C7X_TRACE_QUEUED, 1, 0);
    int pre_empted = find(queued, C7X_TRACE_PREEMPTED, 4, 0);
    int call = find(pre_empted, C7X_TRACE_CALL_BEGIN, 1, 0);
    int ended = find(call, C7X_TRACE_JOB_END, 1, 0);
    int resumed = find(ended, C7X_TRACE_RESUMED, 4, 0);
    assert_true(queued >= 0 && pre_empted >= 0 && call >= 0 && ended >= 0 && resumed >= 0);
    assert_int_equal(events[pre_empted].argument, 2); /* by PRI_2 */
    assert_true(events[pre_empted - 1].event != C7X_TRACE_SECTION_BEGIN);
    for (int i = pre_empted + 1; i < resumed; i++)
        assert_int_not_equal(events[i].target, 4);
    int activated = find(pre_empted, C7X_TRACE_ACTIVATED, 1, 0);
    assert_true(activated > pre_empted && activated < call);
    assert_true(find(resumed, C7X_TRACE_ACTIVATED, 4, 0) > resumed);
    int call_end = find(resumed, C7X_TRACE_CALL_END, 4, 0);
    assert_int_not_equal(events[call_end].argument, 0); /* it was ended */
}

/* ---- Lost ---- */

static void what_was_not_read_in_time_is_lost_and_counted(void **state)
{
    uint32_t handle = load("operators");
    (void)state;
    begin(128);
    for (int i = 0; i < 20; i++)
        run_operators(handle);
    end();
    assert_true(event_count > 100 && event_count <= 128);
    assert_true(events[event_count - 1].time_ns >= events[0].time_ns);
    event_count = 0;
    begin(WINDOW_EVENTS);
    for (int i = 0; i < 20; i++)
        run_operators(handle);
    assert_int_equal(c7x_trace_end(trace), C7X_OK);
    take_all();
    assert_int_equal(c7x_trace_lost(trace), 0);
    assert_true(event_count > 20 * 10);
    c7x_trace_free(trace);
}

static void the_count_of_the_lost_is_exact(void **state)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    uint32_t handle = load("operators");
    uint64_t total = 0;
    (void)state;
    begin(128);
    for (int i = 0; i < 20; i++) {
        run_operators(handle);
        if (i == 5)
            take_all();
    }
    assert_int_equal(c7x_trace_end(trace), C7X_OK);
    take_all();
    total = (uint64_t)event_count + c7x_trace_lost(trace);
    assert_true(c7x_trace_lost(trace) > 0);
    assert_true(total > 20 * 10 && total < 20 * 40);
    assert_false(c7x_trace_next(trace, &event));
    c7x_trace_free(trace);
}

/* ---- Who may record ---- */

static void one_client_at_a_time_and_the_other_learns_who(void **state)
{
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.name = "second";
    struct c7x_client *second = c7x_test_loopback_open(device, &options);
    struct c7x_trace *other;
    (void)state;
    assert_int_equal(c7x_trace_begin(second, 128, &other), C7X_OK);
    assert_int_equal(c7x_trace_begin(client, 128, &trace), C7X_BUSY);
    assert_non_null(strstr(c7x_client_last_error(client), "(second, process "));
    assert_int_equal(c7x_trace_end(other), C7X_OK);
    begin(128);
    end();
    c7x_trace_free(other);
    c7x_client_close(second);
}

static int32_t ask_begin(struct c7x_host_link *link, uint64_t address, uint32_t size)
{
    struct c7x_request request = {.type = C7X_MSG_TRACE_BEGIN};
    struct c7x_response response;
    request.body.trace_begin.address = address;
    request.body.trace_begin.size = size;
    return c7x_test_ask_decoded(link, &request, &response);
}

/* Its window stays as long as the device writes there, and no longer: that stop() sees. */
static void a_recording_ends_with_its_session_in_the_middle_of_a_job(void **state)
{
    int32_t ms = 100;
    uint32_t handle = load("spin");
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct c7x_inference *inference = start_spin(handle, &ms, 5);
        struct c7x_host_link *link = c7x_test_loopback_connect(device);
        (void)c7x_test_open_session(link);
        struct c7x_buffer window = c7x_test_attach(link, 8192);
        C7X_TEST_WAIT_UNTIL(ask_begin(link, window.dsp_address, 8192) == C7X_OK, 30000);
        link->ops->close(link);
        (void)!c7x_inference_cancel(inference);
        (void)finish(inference);
    }
}

static void the_window_must_be_the_senders_and_large_enough(void **state)
{
    const struct c7x_request end_request = {.type = C7X_MSG_TRACE_END};
    struct c7x_response response;
    struct c7x_steps_client raw;
    struct c7x_steps_client other;
    (void)state;
    c7x_steps_open(device, &raw);
    c7x_steps_open(device, &other);
    struct c7x_buffer window = c7x_test_attach(raw.link, 65536);
    uint64_t address = window.dsp_address;
    assert_int_equal(ask_begin(raw.link, address, C7X_WIRE_TRACE_MIN - 1), C7X_ADDR);
    assert_int_equal(ask_begin(raw.link, address + 64, 8192), C7X_ADDR);
    assert_int_equal(ask_begin(raw.link, address, 65536 + 128), C7X_ADDR);
    assert_int_equal(ask_begin(raw.link, 0, 8192), C7X_ADDR);
    assert_int_equal(ask_begin(other.link, address, 8192), C7X_ADDR);
    assert_int_equal(c7x_test_ask_decoded(raw.link, &end_request, &response), C7X_HANDLE);
    assert_int_equal(ask_begin(raw.link, address, 65536), C7X_OK);
    assert_int_equal(ask_begin(raw.link, address, 65536), C7X_BUSY);
    assert_int_equal(c7x_test_ask_decoded(other.link, &end_request, &response), C7X_HANDLE);
    assert_int_equal(c7x_test_ask_decoded(raw.link, &end_request, &response), C7X_OK);
    c7x_steps_close(&other);
    c7x_steps_close(&raw);
}

static void a_recording_has_room_for_128_to_2_to_the_20_events(void **state)
{
    (void)state;
    assert_int_equal(c7x_trace_begin(client, 127, &trace), C7X_SIZE);
    assert_int_equal(c7x_trace_begin(client, (1u << 20) + 1, &trace), C7X_SIZE);
}

/* ---- Operators ---- */

static void the_operators_of_a_module_of_any_client(void **state)
{
    struct c7x_client *other = c7x_test_loopback_open(device, NULL);
    struct c7x_operator_info *list;
    size_t count;
    uint32_t handle = load("operators");
    uint32_t nameless = load("add_one");
    (void)state;
    assert_int_equal(c7x_client_list_operators(other, handle, &list, &count), C7X_OK);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].name, "/scale/Mul");
    assert_string_equal(list[1].name, "/shift/Add + /shift/Relu");
    assert_string_equal(list[2].name, "/out/\"Id\"");
    c7x_list_free(list);
    assert_int_equal(c7x_client_list_operators(other, nameless, &list, &count), C7X_OK);
    assert_int_equal(count, 0);
    c7x_list_free(list);
    assert_int_equal(c7x_client_list_operators(other, 999, &list, &count), C7X_HANDLE);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_client_list_operators(other, handle, &list, &count), C7X_HANDLE);
    assert_non_null(strstr(c7x_client_last_error(other), "it was unloaded"));
    c7x_client_close(other);
}

/* ---- When all else fails: facts, "dumps are empty exactly on a hang" ---- */

static bool is_running(int target)
{
    struct c7x_target_info *list;
    size_t count;
    assert_int_equal(c7x_client_list_targets(client, &list, &count), C7X_OK);
    bool runs = list[target].running_session != 0;
    c7x_list_free(list);
    return runs;
}

/* That has been recorded so far; NULL: none was. */
static const struct c7x_trace_event *last_section(void)
{
    take_all();
    for (int i = event_count - 1; i >= 0; i--)
        if (events[i].event == C7X_TRACE_SECTION_BEGIN || events[i].event == C7X_TRACE_SECTION_END)
            return &events[i];
    return NULL;
}

static void U47_the_last_operator_is_there_when_the_core_has_died(void **state)
{
    struct c7x_test_emulator emulator;
    struct c7x_emulator_status status;
    int32_t ms = -1;
    (void)state;
    c7x_test_emulator_start(&emulator);
    client = c7x_test_emulator_open(&emulator);
    event_count = 0;
    uint32_t handle = load("spin");
    begin(1024);
    struct c7x_inference *inference = start_spin(handle, &ms, 3);
    C7X_TEST_WAIT_UNTIL(is_running(2) && last_section() != NULL, 30000);
    c7x_test_emulator_status(&emulator, &status);
    assert_int_equal(kill((pid_t)status.core_pid, SIGKILL), 0);
    assert_int_equal(finish(inference), C7X_RESET);
    assert_int_equal(c7x_trace_end(trace), C7X_RESET);
    const struct c7x_trace_event *last = last_section();
    assert_true(last != NULL && last->module == handle);
    c7x_trace_free(trace);
    c7x_client_close(client);
    c7x_test_emulator_stop(&emulator);
}

int main(void)
{
#define OVER_LOOPBACK(test) cmocka_unit_test_setup_teardown(test, start, stop)
    const struct CMUnitTest tests[] = {
        OVER_LOOPBACK(the_way_of_a_request_from_station_to_station),
        OVER_LOOPBACK(how_long_each_operator_takes),
        OVER_LOOPBACK(how_many_wait_at_a_target),
        OVER_LOOPBACK(a_pre_empted_job_and_the_one_that_took_the_core),
        OVER_LOOPBACK(what_was_not_read_in_time_is_lost_and_counted),
        OVER_LOOPBACK(the_count_of_the_lost_is_exact),
        OVER_LOOPBACK(one_client_at_a_time_and_the_other_learns_who),
        OVER_LOOPBACK(a_recording_ends_with_its_session_in_the_middle_of_a_job),
        OVER_LOOPBACK(the_window_must_be_the_senders_and_large_enough),
        OVER_LOOPBACK(a_recording_has_room_for_128_to_2_to_the_20_events),
        OVER_LOOPBACK(the_operators_of_a_module_of_any_client),
        cmocka_unit_test(U47_the_last_operator_is_there_when_the_core_has_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

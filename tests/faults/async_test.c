/* SPDX-License-Identifier: Apache-2.0 */
/* Inferences that nobody waits for: over loopback, with the whole firmware. */
#define _GNU_SOURCE
#include "c7x_compute_client.h"
#include "support/calls.h"
#include "support/environment.h"
#include "support/loopback_device.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define IN_FLIGHT 24
#define MANY 1000
#define FOR_EVER (-1)
#define SOON_MS 20000 /* far more than anything here takes */

struct fixture {
    struct c7x_test_loopback *device;
    struct c7x_client *client;
    uint32_t add_one;
    uint32_t spin;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->device = c7x_test_loopback_start();
    fixture->client = c7x_test_loopback_open(fixture->device, NULL);
    fixture->spin =
        c7x_test_dyn_load(fixture->client, "holds"); /* which is not ended in the middle */
    fixture->add_one = c7x_test_dyn_load(fixture->client, "add_one");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    c7x_client_close(fixture->client);
    c7x_test_loopback_stop(fixture->device);
    free(fixture);
    return 0;
}

static struct c7x_inference *send(struct c7x_client *client,
                                  const struct c7x_infer_options *options,
                                  const struct c7x_client_tensor *input)
{
    struct c7x_inference *inference = NULL;
    if (c7x_client_infer_async(client, options, input, 1, &inference) != C7X_OK)
        fail_msg("infer_async: %s", c7x_client_last_error(client));
    assert_non_null(inference);
    return inference;
}

static struct c7x_inference *send_add_one(struct fixture *fixture, float first,
                                          c7x_inference_done_fn done, void *context)
{
    struct c7x_infer_options options;
    float numbers[4] = {first, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    c7x_infer_options_init(fixture->client, &options);
    options.handle = fixture->add_one;
    options.done = done;
    options.context = context;
    return send(fixture->client, &options, &input);
}

static struct c7x_inference *send_spin(struct fixture *fixture, int32_t ms, int64_t deadline_ms)
{
    struct c7x_infer_options options;
    struct c7x_client_tensor input = {&ms, 4, 1, C7X_DTYPE_INT, 32, 0, {1}};
    c7x_infer_options_init(fixture->client, &options);
    options.handle = fixture->spin;
    options.deadline_ms = deadline_ms;
    return send(fixture->client, &options, &input);
}

static void assert_added(struct c7x_inference *inference, float first)
{
    struct c7x_client_tensor output;
    int count = 1;
    uint64_t cycles = 0;
    assert_int_equal(c7x_inference_result(inference, &output, &count, &cycles), C7X_OK);
    assert_int_equal(count, 1);
    assert_true(cycles > 0);
    assert_true(((const float *)output.data)[0] == first + 1);
    assert_true(((const float *)output.data)[3] == 5);
}

static enum c7x_status result_of(struct c7x_inference *inference)
{
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_inference_result(inference, &output, &count, NULL);
}

static void several_are_in_flight_each_with_windows_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_inference *inferences[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++)
        inferences[i] = send_add_one(fixture, (float)i, NULL, NULL);
    for (int i = 0; i < IN_FLIGHT; i++)
        assert_int_equal(c7x_inference_wait(inferences[i], SOON_MS), C7X_OK);
    for (int i = 0; i < IN_FLIGHT; i++) /* all results are still there */
        assert_added(inferences[i], (float)i);
    for (int i = 0; i < IN_FLIGHT; i++)
        c7x_inference_free(inferences[i]);
}

static void windows_are_used_again(void **state)
{
    struct fixture *fixture = *state;
    size_t first_count = 0;
    for (int i = 0; i < 10; i++) {
        struct c7x_inference *inference = send_add_one(fixture, (float)i, NULL, NULL);
        assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
        assert_added(inference, (float)i);
        c7x_inference_free(inference);
        if (i == 0)
            first_count = c7x_test_loopback_buffer_count(fixture->device);
        assert_int_equal(c7x_test_loopback_buffer_count(fixture->device), first_count);
    }
}

struct counter {
    struct c7x_client *client;
    atomic_int done;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void count_and_free(void *context, struct c7x_inference *inference)
{
    struct counter *counter = context;
    assert_int_equal(result_of(inference), C7X_OK);
    c7x_inference_free(inference);
    pthread_mutex_lock(&counter->lock);
    counter->done++;
    pthread_cond_signal(&counter->changed);
    pthread_mutex_unlock(&counter->lock);
}

static void done_is_called_once_for_each_and_may_free_it(void **state)
{
    struct fixture *fixture = *state;
    struct counter counter = {.client = fixture->client,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    for (int i = 0; i < IN_FLIGHT; i++)
        send_add_one(fixture, (float)i, count_and_free, &counter);
    pthread_mutex_lock(&counter.lock);
    while (counter.done < IN_FLIGHT)
        pthread_cond_wait(&counter.changed, &counter.lock);
    pthread_mutex_unlock(&counter.lock);
    assert_null(c7x_client_next_completed(fixture->client));
}

static void a_descriptor_tells_of_those_that_ended_in_their_order(void **state)
{
    struct fixture *fixture = *state;
    struct pollfd entry = {.fd = c7x_client_event_fd(fixture->client), .events = POLLIN};
    struct c7x_inference *sent[8];
    assert_true(entry.fd >= 0);
    assert_int_equal(poll(&entry, 1, 0), 0);
    for (int i = 0; i < 8; i++)
        sent[i] = send_add_one(fixture, (float)i, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        struct c7x_inference *next = NULL;
        while (next == NULL) {
            assert_int_equal(poll(&entry, 1, SOON_MS), 1);
            next = c7x_client_next_completed(fixture->client);
        }
        assert_ptr_equal(next, sent[i]);
        assert_added(next, (float)i);
        c7x_inference_free(next);
    }
    assert_null(c7x_client_next_completed(fixture->client));
    assert_int_equal(poll(&entry, 1, 0), 0);
}

static void one_that_waits_can_be_taken_back_and_one_that_runs_not(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_inference *running = send_spin(fixture, 200, FOR_EVER);
    struct c7x_inference *waiting = send_add_one(fixture, 1, NULL, NULL);
    struct c7x_inference *behind = send_add_one(fixture, 2, NULL, NULL);
    assert_int_equal(result_of(running), C7X_BUSY);
    assert_int_equal(c7x_inference_cancel(waiting), C7X_OK);
    assert_int_equal(c7x_inference_wait(waiting, SOON_MS), C7X_OK);
    assert_int_equal(result_of(waiting), C7X_CANCELLED);
    assert_true(strlen(c7x_client_last_error(NULL)) > 5);
    assert_int_equal(c7x_inference_wait(behind, SOON_MS), C7X_OK);
    assert_added(behind, 2);
    assert_int_equal(result_of(running), C7X_OK);
    assert_int_equal(c7x_inference_cancel(behind), C7X_HANDLE);
    c7x_inference_free(running);
    c7x_inference_free(waiting);
    c7x_inference_free(behind);
}

static void a_deadline_ends_it_and_its_windows_wait_for_the_device(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_inference *late = send_spin(fixture, 300, 30);
    struct c7x_inference *next = send_add_one(fixture, 7, NULL, NULL);
    assert_int_equal(c7x_inference_wait(late, SOON_MS), C7X_OK);
    assert_int_equal(result_of(late), C7X_TIMEOUT);
    assert_true(strlen(c7x_client_last_error(NULL)) > 5);
    assert_int_equal(c7x_inference_wait(next, 0), C7X_TIMEOUT); /* the device is still busy */
    assert_int_equal(c7x_inference_wait(next, SOON_MS), C7X_OK);
    assert_added(next, 7); /* the late answer went to nobody */
    c7x_inference_free(late);
    c7x_inference_free(next);
}

static void those_that_are_freed_in_flight_leave_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_inference *first = send_spin(fixture, 50, FOR_EVER);
    for (int i = 0; i < IN_FLIGHT; i++)
        c7x_inference_free(send_add_one(fixture, (float)i, NULL, NULL));
    c7x_inference_free(first);
    struct c7x_inference *last = send_add_one(fixture, 3, NULL, NULL);
    assert_int_equal(c7x_inference_wait(last, SOON_MS), C7X_OK);
    assert_added(last, 3);
    c7x_inference_free(last);
    c7x_inference_free(NULL);
}

static void closing_ends_those_in_flight(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_client *client = fixture->client;
    send_spin(fixture, 50, FOR_EVER);
    for (int i = 0; i < 4; i++)
        send_add_one(fixture, (float)i, NULL, NULL);
    c7x_client_close(client); /* frees them: tear_down asserts that nothing is left */
    fixture->client = c7x_test_loopback_open(fixture->device, NULL);
}

static void a_device_that_goes_away_ends_all(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_inference *inferences[3];
    inferences[0] = send_spin(fixture, 50, FOR_EVER);
    for (int i = 1; i < 3; i++)
        inferences[i] = send_add_one(fixture, (float)i, NULL, NULL);
    c7x_test_loopback_halt(fixture->device);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c7x_inference_wait(inferences[i], SOON_MS), C7X_OK);
        if (i > 0)
            assert_int_equal(result_of(inferences[i]), C7X_RESET);
        c7x_inference_free(inferences[i]);
    }
}

static void a_failure_brings_its_text(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    c7x_infer_options_init(fixture->client, &options);
    options.handle = c7x_test_dyn_load(fixture->client, "fails");
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, NULL, 0, &inference),
                     C7X_OK);
    assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
    assert_int_equal(result_of(inference), C7X_CALL);
    assert_non_null(strstr(c7x_client_last_error(NULL), "5"));
    assert_string_equal(c7x_client_last_station(NULL), "kernel");
    c7x_inference_free(inference);
    options.handle = 12345;
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, NULL, 0, &inference),
                     C7X_OK);
    assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
    assert_int_equal(result_of(inference), C7X_HANDLE);
    assert_non_null(strstr(c7x_client_last_error(NULL), "12345"));
    c7x_inference_free(inference);
}

static void a_window_that_is_too_small_grows(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    struct c7x_client_tensor output;
    int count = 1;
    c7x_infer_options_init(fixture->client, &options);
    options.handle = c7x_test_dyn_load(fixture->client, "big_output");
    options.output_bytes = 64;
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, NULL, 0, &inference),
                     C7X_OK);
    assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
    assert_int_equal(c7x_inference_result(inference, &output, &count, NULL), C7X_OK);
    assert_true(output.data_size > 64);
    c7x_inference_free(inference);
}

static void wrong_use_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct c7x_infer_options options;
    struct c7x_inference *inference = NULL;
    struct c7x_client_tensor input = {NULL, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    c7x_infer_options_init(fixture->client, &options);
    options.handle = fixture->add_one;
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, &input, 1, &inference),
                     C7X_TENSOR);
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, &input, 129, &inference),
                     C7X_INVALID);
    options.struct_size = 4;
    assert_int_equal(c7x_client_infer_async(fixture->client, &options, &input, 1, &inference),
                     C7X_INVALID);
    assert_null(inference);
}

struct worker {
    struct fixture *fixture;
    pthread_t thread;
    int number;
};

/* Half of the calls wait, half do not. */
static void *work(void *context)
{
    struct worker *worker = context;
    for (int i = 0; i < 50; i++) {
        float first = (float)(worker->number * 1000 + i);
        if (i % 2 == 0) {
            struct c7x_inference *inference = send_add_one(worker->fixture, first, NULL, NULL);
            assert_int_equal(c7x_inference_wait(inference, SOON_MS), C7X_OK);
            assert_added(inference, first);
            c7x_inference_free(inference);
        } else {
            uint32_t version = 0;
            assert_int_equal(c7x_client_ping(worker->fixture->client, &version, NULL), C7X_OK);
        }
    }
    return NULL;
}

static void threads_share_one_client(void **state)
{
    struct worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){.fixture = *state, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
}

struct slow_reader {
    pthread_mutex_t gate; /* held: the first that ends stays in its `done`, and none is read */
    atomic_uint ended;
    atomic_uint late;
};

static void end_slowly(void *context, struct c7x_inference *inference)
{
    struct slow_reader *reader = context;
    pthread_mutex_lock(&reader->gate);
    pthread_mutex_unlock(&reader->gate);
    if (result_of(inference) == C7X_TIMEOUT)
        atomic_fetch_add(&reader->late, 1);
    c7x_inference_free(inference);
    atomic_fetch_add(&reader->ended, 1);
}

/* The device has room for the replies to all that it was sent: none is lost, none comes late. */
static void one_that_sends_faster_than_it_reads_is_refused_and_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct slow_reader reader = {.gate = PTHREAD_MUTEX_INITIALIZER};
    struct c7x_infer_options options;
    struct c7x_inference *inference;
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, 16, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    unsigned sent = 0;
    c7x_infer_options_init(fixture->client, &options);
    options.handle = fixture->add_one;
    options.deadline_ms = SOON_MS;
    options.done = end_slowly;
    options.context = &reader;
    pthread_mutex_lock(&reader.gate);
    for (int i = 0; i < MANY; i++) {
        enum c7x_status status =
            c7x_client_infer_async(fixture->client, &options, &input, 1, &inference);
        if (status != C7X_OK)
            assert_int_equal(status, C7X_BUSY);
        sent += status == C7X_OK;
    }
    assert_in_range(sent, IN_FLIGHT, MANY - 1);
    assert_non_null(strstr(c7x_client_last_error(fixture->client), "in flight"));
    pthread_mutex_unlock(&reader.gate);
    while (atomic_load(&reader.ended) < sent)
        sched_yield();
    assert_int_equal(atomic_load(&reader.late), 0);
    c7x_inference_free(send_add_one(fixture, 5, NULL, NULL));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(several_are_in_flight_each_with_windows_of_its_own),
        CASE(windows_are_used_again),
        CASE(done_is_called_once_for_each_and_may_free_it),
        CASE(a_descriptor_tells_of_those_that_ended_in_their_order),
        CASE(one_that_waits_can_be_taken_back_and_one_that_runs_not),
        CASE(a_deadline_ends_it_and_its_windows_wait_for_the_device),
        CASE(those_that_are_freed_in_flight_leave_nothing_behind),
        CASE(closing_ends_those_in_flight),
        CASE(a_device_that_goes_away_ends_all),
        CASE(a_failure_brings_its_text),
        CASE(a_window_that_is_too_small_grows),
        CASE(wrong_use_is_refused),
        CASE(threads_share_one_client),
        CASE(one_that_sends_faster_than_it_reads_is_refused_and_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

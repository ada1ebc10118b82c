/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checked.h"
#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void sums_and_products_that_wrap_are_refused(void **state)
{
    (void)state;
    uint64_t out = 77;
    assert_false(c7x_add_size(UINT64_MAX, 1, &out));
    assert_false(c7x_mul_size(1ull << 32, 1ull << 32, &out));
    assert_false(c7x_align_size(UINT64_MAX - 3, 64, &out));
    assert_int_equal(out, 77);
    assert_true(c7x_add_size(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(c7x_mul_size(0, UINT64_MAX, &out));
    assert_int_equal(out, 0);
    assert_true(c7x_align_size(65, 64, &out));
    assert_int_equal(out, 128);
}

static void a_range_is_inside_only_if_all_of_it_is(void **state)
{
    (void)state;
    assert_true(c7x_range_inside(100, 50, 100, 50));
    assert_true(c7x_range_inside(150, 0, 100, 50));
    assert_false(c7x_range_inside(151, 0, 100, 50));
    assert_false(c7x_range_inside(99, 1, 100, 50));
    assert_false(c7x_range_inside(149, 2, 100, 50));
    assert_false(c7x_range_inside(UINT64_MAX, 2, 100, 50));
    assert_false(c7x_range_inside(120, UINT64_MAX, 100, 50));
}

static void an_error_keeps_its_text_and_marks_what_is_cut(void **state)
{
    (void)state;
    struct c7x_error error;
    char longer[2 * C7X_ERROR_TEXT_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(c7x_error_set(NULL, C7X_LOAD, "loader", "nobody listens"), C7X_LOAD);
    assert_int_equal(c7x_error_set(&error, C7X_LOAD, "loader", "segment %d", 3), C7X_LOAD);
    assert_string_equal(error.text, "segment 3");
    assert_string_equal(error.station, "loader");
    c7x_error_append(&error, ", %s", "too");
    assert_string_equal(error.text, "segment 3, too");
    c7x_error_set(&error, C7X_LOAD, "loader", "again: %s", error.text);
    assert_string_equal(error.text, "again: segment 3, too");
    c7x_error_append(&error, "%s", longer);
    assert_int_equal(strlen(error.text), C7X_ERROR_TEXT_MAX - 1);
    assert_string_equal(error.text + strlen(error.text) - 3, "...");
    c7x_error_set(&error, C7X_LOAD, "loader", "%s", longer);
    assert_string_equal(error.text + strlen(error.text) - 3, "...");
}

static void every_status_has_name_text_and_next_step(void **state)
{
    (void)state;
    assert_string_equal(c7x_status_text(C7X_OK), "Success");
    assert_string_equal(c7x_status_text(C7X_HANDLE), "Invalid handle/id");
    assert_string_equal(c7x_status_name(-7), "SIZE");
    assert_string_equal(c7x_status_name(-12345), "UNKNOWN");
#define CHECK(name, code, text, retry, next) assert_true(strlen(c7x_status_next_step(code)) > 5);
    C7X_STATUS_TABLE(CHECK)
#undef CHECK
}

static char logged[4096];

static void remember_line(const char *line, size_t length)
{
    memcpy(logged, line, length);
    logged[length] = '\0';
}

static void the_log_is_one_line_a_call(void **state)
{
    (void)state;
    char longer[2 * C7X_LOG_LINE_MAX];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    c7x_log("nobody", "listens");
    c7x_log_set_sink(remember_line);
    c7x_log("loader", "%d symbols", 7);
    assert_string_equal(logged, "loader: 7 symbols\n");
    c7x_log("loader", "%s", longer);
    assert_int_equal(strlen(logged), C7X_LOG_LINE_MAX - 1);
    assert_int_equal(logged[strlen(logged) - 1], '\n');
    c7x_log_set_sink(NULL);
}

static int seen[C7X_STATION_COUNT];
static uint32_t seen_session;

static void count_station(enum c7x_event event, const struct c7x_trace_origin *origin,
                          uint32_t argument)
{
    assert_int_equal(event, C7X_EVENT_STATION);
    seen_session = origin->session;
    seen[argument]++;
}

static void a_trace_point_calls_the_sink_and_only_then(void **state)
{
    const struct c7x_trace_origin origin = {.session = 5};
    (void)state;
    c7x_trace(C7X_STATION_TVM, &origin);
    c7x_trace_set_sink(count_station);
    c7x_trace(C7X_STATION_TVM, &origin);
    c7x_trace_set_sink(NULL);
    c7x_trace(C7X_STATION_TVM, &origin);
    assert_int_equal(seen[C7X_STATION_TVM], 1);
    assert_int_equal(seen_session, 5);
    assert_string_equal(c7x_station_name(C7X_STATION_COMPLETION), "completion");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_that_wrap_are_refused),
        cmocka_unit_test(a_range_is_inside_only_if_all_of_it_is),
        cmocka_unit_test(an_error_keeps_its_text_and_marks_what_is_cut),
        cmocka_unit_test(every_status_has_name_text_and_next_step),
        cmocka_unit_test(the_log_is_one_line_a_call),
        cmocka_unit_test(a_trace_point_calls_the_sink_and_only_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

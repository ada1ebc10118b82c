/* SPDX-License-Identifier: Apache-2.0 */
/* What one session may hold, and what it is told at the limit (user's report U31). */
#include "service/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct c7x_test_loopback *device;
static struct c7x_host_link *link;
static struct c7x_buffer staged;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    link = c7x_test_loopback_connect(device);
    (void)c7x_test_open_session(link);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_loopback_stop(device);
    return 0;
}

static void load(uint32_t type, uint64_t size, uint32_t flags, uint32_t seq)
{
    struct c7x_request request = {.type = type};
    request.body.load.size = (uint32_t)size;
    request.body.load.flags = C7X_WIRE_LOAD_ADDRESS | flags;
    request.body.load.address = staged.dsp_address;
    c7x_steps_send(link, &request, seq);
}

static void U31_modules(void **state)
{
    (void)state;
    struct c7x_response response;
    char text[256];
    uint32_t handle = 0;
    for (uint32_t i = 0; i < C7X_WIRE_SESSION_MODULES_MAX; i++)
        handle = c7x_test_load(link, "add_one", 0, &staged);
    load(C7X_MSG_DYN_LOAD, staged.size, 0, 1);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_DYN_LOAD, 1, &response), C7X_BUSY);
    c7x_steps_error_text(link, 1, text, sizeof text);
    assert_non_null(strstr(text, "holds 64 modules, the most that one session may have"));
    /* One that belongs to the device, and one after an unload. */
    (void)c7x_test_load(link, "add_one", C7X_WIRE_LOAD_KEEP, &staged);
    assert_int_equal(c7x_test_unload(link, handle), C7X_OK);
    (void)c7x_test_load(link, "add_one", 0, &staged);
}

static void U31_models(void **state)
{
    (void)state;
    struct c7x_response response;
    char text[256];
    staged = c7x_test_attach(link, 4096); /* a blob of no constants */
    for (uint32_t i = 0; i < C7X_WIRE_SESSION_MODELS_MAX; i++) {
        load(C7X_MSG_MODEL_LOAD, 8, 0, i);
        assert_int_equal(c7x_steps_take(link, C7X_MSG_MODEL_LOAD, i, &response), C7X_OK);
    }
    load(C7X_MSG_MODEL_LOAD, 8, 0, 100);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_MODEL_LOAD, 100, &response), C7X_BUSY);
    c7x_steps_error_text(link, 100, text, sizeof text);
    assert_non_null(strstr(text, "holds 64 models, the most that one session may have"));
    load(C7X_MSG_MODEL_LOAD, 8, C7X_WIRE_LOAD_KEEP, 101);
    assert_int_equal(c7x_steps_take(link, C7X_MSG_MODEL_LOAD, 101, &response), C7X_OK);
}

static void sessions(void **state)
{
    (void)state;
    static struct c7x_host_link *links[C7X_WIRE_SESSIONS_MAX];
    struct c7x_request open = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_response response;
    open.body.session_open.wire_version = C7X_WIRE_VERSION;
    for (uint32_t i = 1; i < C7X_WIRE_SESSIONS_MAX; i++) {
        links[i] = c7x_test_loopback_connect(device);
        (void)c7x_test_open_session(links[i]);
    }
    links[0] = c7x_test_loopback_connect(device);
    assert_int_equal(c7x_test_ask_decoded(links[0], &open, &response), C7X_BUSY);
    for (uint32_t i = 0; i < C7X_WIRE_SESSIONS_MAX; i++) {
        links[i]->ops->close(links[i]);
        c7x_test_ping(link); /* the device's queue is short */
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(U31_modules),
        TEST(U31_models),
        TEST(sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

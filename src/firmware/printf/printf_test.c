/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/printf/printf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TEXT_BYTES 48u

struct buffer {
    uint32_t magic;
    uint32_t written;
    uint32_t size;
    uint32_t lost;
    char text[TEXT_BYTES];
    char guard[16];
};

static struct buffer buffer;
static struct c7x_printf self;

static int bind_buffer(void **state)
{
    (void)state;
    memset(&buffer, 0x5a, sizeof(buffer));
    c7x_printf_bind(&self, &buffer, offsetof(struct buffer, guard));
    c7x_printf_select(&self);
    return 0;
}

static void assert_guard(void)
{
    for (size_t i = 0; i < sizeof(buffer.guard); i++)
        assert_int_equal(buffer.guard[i], 0x5a);
}

static void bind_writes_the_header(void **state)
{
    (void)state;
    assert_int_equal(buffer.magic, C7X_PRINTF_MAGIC);
    assert_int_equal(buffer.written, 0);
    assert_int_equal(buffer.size, TEXT_BYTES);
    assert_int_equal(buffer.lost, 0);
}

static void text_arrives_and_is_counted(void **state)
{
    (void)state;
    assert_int_equal(c7x_shm_printf("x=%d ", 42), 5);
    assert_int_equal(c7x_shm_puts("ab"), 0);
    assert_int_equal(c7x_shm_fputs("cd", NULL), 0);
    assert_int_equal(c7x_printf_finish(&self), 10);
    assert_memory_equal(buffer.text, "x=42 ab\ncd", 10);
    assert_int_equal(buffer.written, 10);
}

static void a_request_starts_empty(void **state)
{
    (void)state;
    (void)c7x_shm_printf("old");
    c7x_printf_reset(&self);
    assert_int_equal(c7x_printf_finish(&self), 0);
    assert_int_equal(buffer.written, 0);
}

static void text_that_does_not_fit_is_lost_and_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(c7x_shm_printf("0123456789"), 10);
    assert_int_equal(c7x_printf_finish(&self), TEXT_BYTES);
    assert_int_equal(buffer.lost, 100 - TEXT_BYTES);
    assert_guard();
}

static void one_long_text_is_cut(void **state)
{
    char text[2001];
    (void)state;
    memset(text, 'x', sizeof(text));
    text[2000] = '\0';
    assert_int_equal(c7x_shm_printf("%s", text), 2000);
    assert_int_equal(c7x_printf_finish(&self) + buffer.lost, 2000);
    assert_guard();
}

static void a_hostile_host_changes_nothing(void **state)
{
    (void)state;
    (void)c7x_shm_printf("ab");
    buffer.written = 0xffffffffu;
    buffer.size = 0xffffffffu;
    buffer.magic = 0;
    for (unsigned i = 0; i < 10; i++)
        (void)c7x_shm_printf("0123456789");
    assert_int_equal(c7x_printf_finish(&self), TEXT_BYTES);
    assert_int_equal(buffer.size, TEXT_BYTES);
    assert_int_equal(buffer.magic, C7X_PRINTF_MAGIC);
    assert_guard();
}

static void without_a_buffer_text_is_dropped(void **state)
{
    struct c7x_printf none = {0};
    (void)state;
    c7x_printf_select(NULL);
    assert_int_equal(c7x_shm_printf("x"), -1);
    assert_int_equal(c7x_shm_puts("x"), -1);
    c7x_printf_select(&none);
    assert_int_equal(c7x_shm_printf("x"), -1);
    c7x_printf_reset(&none);
    assert_int_equal(c7x_printf_finish(&none), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bind_writes_the_header, bind_buffer),
        cmocka_unit_test_setup(text_arrives_and_is_counted, bind_buffer),
        cmocka_unit_test_setup(a_request_starts_empty, bind_buffer),
        cmocka_unit_test_setup(text_that_does_not_fit_is_lost_and_counted, bind_buffer),
        cmocka_unit_test_setup(one_long_text_is_cut, bind_buffer),
        cmocka_unit_test_setup(a_hostile_host_changes_nothing, bind_buffer),
        cmocka_unit_test_setup(without_a_buffer_text_is_dropped, bind_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

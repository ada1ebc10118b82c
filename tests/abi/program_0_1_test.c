/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was built against the headers of version 0.1, with today's shared library. */
#define _GNU_SOURCE
#include <c7x_compute_client.h>

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef C7X_CPU_READ
#error "this is not the header of version 0.1"
#endif

/* All that the old header declares: it does not link unless each is there. */
typedef void (*function)(void);
static const function functions[] = {
    (function)c7x_client_options_init,
    (function)c7x_client_open,
    (function)c7x_client_open_with,
    (function)c7x_client_close,
    (function)c7x_client_last_error,
    (function)c7x_client_last_station,
    (function)c7x_client_set_deadline,
    (function)c7x_client_ping,
    (function)c7x_client_get_status,
    (function)c7x_client_get_last_oom,
    (function)c7x_client_dyn_load,
    (function)c7x_client_dyn_load_flags,
    (function)c7x_client_dyn_unload,
    (function)c7x_client_model_load,
    (function)c7x_client_model_load_flags,
    (function)c7x_client_model_unload,
    (function)c7x_client_infer,
    (function)c7x_client_infer_repeat,
    (function)c7x_client_infer_flags,
    (function)c7x_client_get_input_buffer,
    (function)c7x_client_get_output_buffer,
    (function)c7x_client_get_input_data_offset,
    (function)c7x_client_input_capacity,
    (function)c7x_client_reserve_io,
    (function)c7x_client_get_io_meta,
    (function)c7x_module_declaration_read,
    (function)c7x_module_declaration_free,
    (function)c7x_module_declaration_input_count,
    (function)c7x_module_declaration_output_count,
    (function)c7x_module_declaration_input,
    (function)c7x_module_declaration_output,
    (function)c7x_client_read_trace,
    (function)c7x_emulator_start,
    (function)c7x_emulator_stop,
    (function)c7x_emulator_get_status,
    (function)c7x_strerror,
    (function)c7x_status_name,
    (function)c7x_status_next_step,
    (function)c7x_client_version,
};

static void module_path(const char *name, char *path, size_t size)
{
    const char *build = getenv("C7X_BUILD_DIR");
    assert_non_null(build);
    assert_true((size_t)snprintf(path, size, "%s/tests/modules/%s.out", build, name) < size);
}

static void everything_of_0_1_is_in_the_library_of_today(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        union {
            function function;
            void *object;
        } address = {functions[i]};
        Dl_info info;
        assert_int_not_equal(dladdr(address.object, &info), 0);
        assert_non_null(strstr(info.dli_fname, "libc7x_compute.so.0")); /* by its soname */
    }
}

/* Guards around what the library fills in show whether it writes more than it was given. */
struct guarded_status {
    struct c7x_client_status status;
    unsigned char guard[64];
};

static void run_add_one(struct c7x_client *client, uint32_t handle)
{
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor outputs[2];
    int count = 1;
    uint64_t cycles = 0;
    memset(outputs, 0x5A, sizeof outputs);
    struct c7x_client_tensor guard = outputs[1];
    if (c7x_client_infer(client, handle, 0, &input, 1, outputs, &count, &cycles) != C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(client));
    assert_int_equal(count, 1);
    assert_int_equal(outputs[0].data_size, sizeof numbers);
    assert_int_equal(outputs[0].ndim, 1);
    assert_int_equal(outputs[0].shape[0], 4);
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)outputs[0].data)[i] == numbers[i] + 1);
    assert_memory_equal(&outputs[1], &guard, sizeof guard);
}

static void use(struct c7x_client *client)
{
    struct guarded_status guarded;
    char path[512];
    uint32_t handle = 0;
    uint64_t bytes[2];
    uint32_t counts[3];
    module_path("add_one", path, sizeof path);
    if (c7x_client_dyn_load(client, path, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(client));
    assert_int_equal(
        c7x_client_get_io_meta(client, &bytes[0], &bytes[1], &counts[0], &counts[1], &counts[2]),
        C7X_OK);
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    run_add_one(client, handle);
    memset(&guarded, 0x5A, sizeof guarded);
    assert_int_equal(c7x_client_get_status(client, &guarded.status), C7X_OK);
    assert_int_equal(guarded.status.jobs_completed, 1);
    for (size_t i = 0; i < sizeof guarded.guard; i++)
        assert_int_equal(guarded.guard[i], 0x5A);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_HANDLE);
    assert_non_null(strstr(c7x_client_last_error(client), "unloaded"));
}

static void it_loads_runs_and_unloads(void **state)
{
    struct {
        struct c7x_client_options options;
        unsigned char guard[64];
    } guarded;
    struct c7x_client *client = NULL;
    (void)state;
    memset(&guarded, 0x5A, sizeof guarded);
    c7x_client_options_init(&guarded.options);
    guarded.options.device = "emu";
    guarded.options.name = "version 0.1";
    if (c7x_client_open_with(&guarded.options, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    use(client);
    c7x_client_close(client);
    /* init has no size to go by: the struct must not have become longer in its old place. */
    for (size_t i = 0; i < sizeof guarded.guard; i++)
        assert_int_equal(guarded.guard[i], 0x5A);
}

static void structs_with_a_size_are_filled_in_as_far_as_that_goes(void **state)
{
    struct {
        struct c7x_module_tensor tensor;
        unsigned char guard[64];
    } guarded;
    struct c7x_module_declaration *declaration = NULL;
    char path[512];
    (void)state;
    memset(&guarded, 0x5A, sizeof guarded);
    guarded.tensor.struct_size = sizeof guarded.tensor;
    module_path("add_one", path, sizeof path);
    assert_int_equal(c7x_module_declaration_read(path, &declaration), C7X_OK);
    assert_int_equal(c7x_module_declaration_input(declaration, 0, &guarded.tensor), C7X_OK);
    assert_string_equal(guarded.tensor.name, "x");
    assert_int_equal(guarded.tensor.shape[0], 4);
    c7x_module_declaration_free(declaration);
    for (size_t i = 0; i < sizeof guarded.guard; i++)
        assert_int_equal(guarded.guard[i], 0x5A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_of_0_1_is_in_the_library_of_today),
        cmocka_unit_test(it_loads_runs_and_unloads),
        cmocka_unit_test(structs_with_a_size_are_filled_in_as_far_as_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Real modules (fixtures/) through the table of modules, the loader, the export table and the TVM
 * runner. */
#include "base/trace.h"
#include "firmware/exports/exports.h"
#include "firmware/module/module.h"
#include "firmware/printf/printf.h"
#include "firmware/tvm/model.h"
#include "firmware/tvm/tvm.h"
#include "os/os.h"

#include "c7x_module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (8u << 20)
#define STAGED_BYTES (1u << 20)
#define RESULT_BYTES (2u << 20)
#define RESULT_ADDRESS 0xD0000000u

enum { SESSION = 1, OTHER_SESSION = 2 };

static uint8_t *region;
static uint8_t *staged;
static uint8_t *result_window;
static struct c7x_heap *heap;
static struct c7x_heap *fast_heap;
static uint8_t fast_region[65536];
static uint8_t l2[4096];
static struct c7x_module_table *table;
static struct c7x_error error;
static struct c7x_module_io io;
static struct c7x_infer_result result;
static unsigned released_count;
static char events[32]; /* of the module `hooks` */

static void release(void *context, c7x_dsp_addr address)
{
    (void)context;
    assert_int_equal(address, 0xC0000000u);
    released_count++;
    if (events[0] != '\0')
        strcat(events, "s"); /* the staged bytes are given back */
}

static uint32_t block_count(void)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    return now.block_count;
}

static void create_heap(size_t size)
{
    struct c7x_tvm_config config = {
        .l2 = l2,
        .l2_size = sizeof(l2),
    };
    heap = c7x_heap_create(region, size, "test");
    fast_heap = c7x_heap_create(fast_region, sizeof(fast_region), "fast");
    config.heap = heap;
    config.fast_heap = fast_heap;
    c7x_tvm_init(&config);
}

static enum c7x_status create_table(void)
{
    struct c7x_module_config config = {heap, &c7x_exports, &c7x_tvm_kind, NULL};
    return c7x_module_table_create(&config, &table);
}

static int set_up(void **state)
{
    (void)state;
    region = aligned_alloc(4096, HEAP_BYTES);
    staged = aligned_alloc(4096, STAGED_BYTES);
    result_window = aligned_alloc(128, RESULT_BYTES);
    create_heap(HEAP_BYTES);
    released_count = 0;
    memset(events, 0, sizeof(events));
    c7x_error_clear(&error);
    return create_table() == C7X_OK ? 0 : -1;
}

/* Everything is given back, and every section was closed. */
static int tear_down(void **state)
{
    (void)state;
    c7x_module_table_destroy(table);
    c7x_tvm_model_unload_all();
    assert_int_equal(block_count(), 0);
    assert_int_equal(c7x_os_interrupts_depth(), 0);
    c7x_heap_destroy(heap);
    c7x_heap_destroy(fast_heap);
    free(region);
    free(staged);
    free(result_window);
    return 0;
}

static uint64_t stage(const char *name)
{
    char path[512];
    const char *folder = getenv("C7X_BUILD_DIR");
    FILE *file;
    size_t size;
    (void)snprintf(path, sizeof(path), "%s/tests/modules/%s.out", folder == NULL ? "build" : folder,
                   name);
    file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("no %s", path);
    size = fread(staged, 1, STAGED_BYTES, file);
    (void)fclose(file);
    return size;
}

/* A load that works and one that fails leave the staged bytes alone. */
static enum c7x_status load_staged(uint64_t size, uint32_t session, bool copy, uint32_t *out_handle)
{
    static uint8_t before[STAGED_BYTES];
    enum c7x_status status;
    struct c7x_module_load load = {
        .bytes = staged,
        .size = size,
        .address = 0xC0000000u,
        .session = session,
        .copy_read_only = copy,
        .release_bytes = release,
    };
    memcpy(before, staged, size);
    status = c7x_module_load(table, &load, out_handle, &io, &error);
    assert_memory_equal(staged, before, size);
    return status;
}

static uint32_t load(const char *name)
{
    uint32_t handle = 0;
    if (load_staged(stage(name), SESSION, false, &handle) != C7X_OK)
        fail_msg("%s: %s", name, error.text);
    return handle;
}

static float x_data[4] = {0.0f, 1.5f, -2.0f, 100.0f};
static struct c7x_tensor x;
static struct c7x_infer infer;

static void make_request(void)
{
    x = (struct c7x_tensor){
        .data = x_data,
        .address = 0xC1000000u,
        .data_size = sizeof(x_data),
        .ndim = 1,
        .dtype_code = kDLFloat,
        .dtype_bits = 32,
        .shape = {4},
    };
    infer = (struct c7x_infer){
        .inputs = &x,
        .input_count = 1,
        .session = SESSION,
        .repeat_count = 1,
        .result = result_window,
        .result_address = RESULT_ADDRESS,
        .result_size = RESULT_BYTES,
    };
}

static enum c7x_status run(uint32_t handle)
{
    return c7x_module_infer(table, SESSION, handle, &infer, &result, &error);
}

static void run_without_inputs(uint32_t handle, enum c7x_status expected)
{
    make_request();
    infer.inputs = NULL;
    infer.input_count = 0;
    assert_int_equal(run(handle), expected);
}

static void unload(uint32_t handle)
{
    assert_int_equal(c7x_module_unload(table, SESSION, handle, &error), C7X_OK);
}

static void assert_one_added(void)
{
    const float *y = result.outputs[0].data;
    assert_int_equal(result.output_count, 1);
    assert_int_equal(result.outputs[0].address, RESULT_ADDRESS);
    assert_int_equal(result.outputs[0].data_size, 16);
    assert_int_equal(result.result_used, 64);
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == x_data[i] + 1.0f);
}

/* ---- Load, infer, unload ---- */

static void add_one_runs(void **state)
{
    uint32_t handle = load("add_one");
    (void)state;
    assert_int_equal(io.input_count, 1);
    assert_int_equal(io.output_count, 1);
    assert_int_equal(io.input_bytes, 192);
    make_request();
    infer.repeat_count = 3;
    assert_int_equal(run(handle), C7X_OK);
    assert_one_added();
    assert_int_equal(released_count, 0);
    assert_int_equal(c7x_module_count(table), 1);
    unload(handle);
    assert_int_equal(released_count, 1);
    assert_int_equal(c7x_module_count(table), 0);
}

static void a_copied_module_does_not_need_the_staged_bytes(void **state)
{
    uint32_t handle = 0;
    (void)state;
    assert_int_equal(load_staged(stage("add_one"), SESSION, true, &handle), C7X_OK);
    assert_int_equal(released_count, 1);
    memset(staged, 0xff, STAGED_BYTES);
    make_request();
    assert_int_equal(run(handle), C7X_OK);
    assert_one_added();
}

static void a_hundred_rounds_leave_nothing(void **state)
{
    uint32_t before = block_count();
    (void)state;
    for (unsigned i = 1; i <= 100; i++) {
        uint32_t handle = load("add_one");
        assert_int_equal(handle, i);
        make_request();
        assert_int_equal(run(handle), C7X_OK);
        unload(handle);
        assert_int_equal(block_count(), before);
    }
    assert_int_equal(released_count, 100);
}

static void run_rounds(const char *name)
{
    uint64_t size = stage(name);
    struct c7x_heap_statistics before;
    struct c7x_heap_statistics after;
    c7x_heap_get_statistics(heap, &before);
    for (unsigned i = 0; i < 1000; i++) {
        uint32_t handle = 0;
        assert_int_equal(load_staged(size, SESSION, i % 2 != 0, &handle), C7X_OK);
        run_without_inputs(handle, C7X_OK);
        unload(handle);
        c7x_heap_get_statistics(heap, &after);
        assert_int_equal(after.free, before.free);
        assert_int_equal(after.largest, before.largest);
        assert_int_equal(after.block_count, before.block_count);
    }
}

static void a_thousand_rounds_of_bare_modules_leave_the_heap_exact(void **state)
{
    (void)state;
    run_rounds("only_text");
    run_rounds("only_data");
    run_rounds("only_bss");
}

/* A digit for each step of an unload. */
static void note_step(enum c7x_event event, const struct c7x_trace_origin *origin,
                      uint32_t argument)
{
    char digit[2] = {(char)('0' + argument), '\0'};
    if (event != C7X_EVENT_UNLOAD)
        return;
    assert_int_not_equal(origin->module, 0);
    strcat(events, digit);
}

/* After a call what the registers hold goes. At unload the order of the spec: 1 the module's
 * clean-up, 2 what its registers hold then, 3 model, 4 constants, 5 segments and before them its
 * destructors, 6 pools, of which the destructor still has a block; the staged bytes last. */
static void unload_runs_the_hooks_in_order(void **state)
{
    uint32_t handle;
    uint32_t other;
    (void)state;
    assert_int_equal(load_staged(stage("hooks"), SESSION, true, &other), C7X_OK);
    handle = load("hooks");
    make_request();
    x.data = events;
    assert_int_equal(run(handle), C7X_OK);
    assert_string_equal(events, "aepr");
    x.data = events + 16; /* another module becomes the active one */
    assert_int_equal(run(other), C7X_OK);
    assert_string_equal(events, "aeprd");
    unload(other);
    memset(events + 16, 0, 16);
    events[5] = '\0';
    c7x_trace_set_sink(note_step);
    unload(handle);
    c7x_trace_set_sink(NULL);
    assert_string_equal(events, "aeprd1c2r345f6s");
}

static void calls_leave_no_memory_behind(void **state)
{
    uint32_t handle = load("add_one");
    uint32_t before;
    (void)state;
    make_request();
    assert_int_equal(run(handle), C7X_OK);
    before = block_count();
    infer.repeat_count = 50;
    assert_int_equal(run(handle), C7X_OK);
    assert_int_equal(block_count(), before);
}

static void two_modules_live_side_by_side(void **state)
{
    uint32_t first = 0;
    uint32_t second;
    (void)state;
    assert_int_equal(load_staged(stage("add_one"), SESSION, true, &first), C7X_OK);
    second = load("fails");
    run_without_inputs(second, C7X_CALL);
    make_request();
    assert_int_equal(run(first), C7X_OK);
    assert_one_added();
}

static void kernels_of_the_firmware_compute(void **state)
{
    static float many[64];
    uint32_t handle = load("kernels");
    const int8_t *y;
    (void)state;
    for (int i = 0; i < 64; i++)
        many[i] = (float)(i - 32) / 2.0f;
    make_request();
    x.data = many;
    x.data_size = sizeof(many);
    x.shape[0] = 64;
    assert_int_equal(run(handle), C7X_OK);
    y = result.outputs[0].data;
    assert_int_equal(result.outputs[0].data_size, 64);
    for (int i = 0; i < 64; i++)
        assert_int_equal(y[i], i < 32 ? 0 : 2 * (i - 32) + 1);
}

static void a_constructor_runs_and_a_weak_import_is_null(void **state)
{
    (void)state;
    run_without_inputs(load("constructs"), C7X_OK);
}

/* C7X_TEST_VARIANTS: the names of those that this build could make. */
static void references_are_right_however_the_module_was_linked(void **state)
{
    char names[] = C7X_TEST_VARIANTS;
    (void)state;
    for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
        char file[64];
        (void)snprintf(file, sizeof(file), "relocations_%s", name);
        run_without_inputs(load(file), C7X_OK);
    }
}

static void those_of_other_tools_are_made_where_these_are(void **state)
{
    static const char left_out[] = C7X_TEST_VARIANTS_LEFT_OUT;
    (void)state;
    if (left_out[0] == '\0')
        return;
    print_message("skipped: this machine has no %s to link modules with\n", left_out);
    skip();
}

/* ---- Handles and sessions ---- */

static void handles_say_what_became_of_them(void **state)
{
    uint32_t handle = load("fails");
    (void)state;
    make_request();
    assert_int_equal(run(7), C7X_HANDLE);
    assert_string_equal(error.text, "no module with handle 7");
    assert_string_equal(error.station, "module");
    assert_int_equal(run(0), C7X_HANDLE);
    unload(handle);
    assert_int_equal(run(handle), C7X_HANDLE);
    assert_string_equal(error.text, "no module with handle 1 (it was unloaded)");
    assert_int_equal(c7x_module_unload(table, SESSION, handle, &error), C7X_HANDLE);
}

static void a_session_sees_only_its_own_modules(void **state)
{
    uint32_t kept = 0;
    uint32_t own = load("fails");
    (void)state;
    assert_int_equal(load_staged(stage("add_one"), C7X_MODULE_SESSION_DEVICE, true, &kept), C7X_OK);
    make_request();
    assert_int_equal(c7x_module_infer(table, OTHER_SESSION, own, &infer, &result, &error),
                     C7X_HANDLE);
    assert_int_equal(c7x_module_unload(table, OTHER_SESSION, own, &error), C7X_HANDLE);
    assert_int_equal(c7x_module_infer(table, OTHER_SESSION, kept, &infer, &result, &error), C7X_OK);
    c7x_module_unload_session(table, SESSION);
    assert_int_equal(c7x_module_count(table), 1);
    assert_int_equal(run(kept), C7X_OK);
}

static void addresses_are_described(void **state)
{
    char text[128];
    (void)state;
    (void)load("add_one");
    assert_false(c7x_module_describe(table, &table, text, sizeof(text)));
    /* The module's first page holds its own ELF header; the weights lie in the staged bytes. */
    assert_true(c7x_module_describe(table, staged + 0x3010, text, sizeof(text)));
    assert_string_equal(text, "module 1: _binary_weights_bin_start+0x10");
}

/* ---- Refusals at load ---- */

static void refused(const char *name, enum c7x_status status, const char *text)
{
    uint32_t before = block_count();
    uint32_t handle = 0;
    assert_int_equal(load_staged(stage(name), SESSION, false, &handle), status);
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
    assert_int_equal(handle, 0);
    assert_int_equal(released_count, 1);
    assert_int_equal(block_count(), before);
}

static void a_module_without_entry_is_refused(void **state)
{
    (void)state;
    refused("no_entry", C7X_SYMBOL, "cg_main_dsp");
}

static void missing_imports_are_listed(void **state)
{
    (void)state;
    refused("needs_missing", C7X_SYMBOL, "first_missing");
    assert_non_null(strstr(error.text, "second_missing"));
    assert_non_null(strstr(error.text, "third_missing"));
    assert_null(strstr(error.text, "weak_missing"));
}

static void a_cut_module_is_refused_at_every_length(void **state)
{
    uint64_t whole = stage("add_one");
    uint32_t before = block_count();
    (void)state;
    for (uint64_t size = 0; size < whole; size += 64) {
        uint32_t handle = 0;
        enum c7x_status status = load_staged(size, SESSION, false, &handle);
        assert_true(status != C7X_OK || size >= 0x3050);
        if (status == C7X_OK)
            unload(handle);
        assert_int_equal(block_count(), before);
    }
}

static void damaged_weights_are_named(void **state)
{
    uint64_t size = stage("add_one");
    uint32_t handle = 0;
    (void)state;
    staged[0x3000] = 2; /* count */
    assert_int_equal(load_staged(size, SESSION, false, &handle), C7X_WEIGHTS);
    assert_non_null(strstr(error.text, "weights: constant 1"));
    (void)stage("add_one");
    staged[0x3010] ^= 1; /* magic */
    assert_int_equal(load_staged(size, SESSION, false, &handle), C7X_WEIGHTS);
    assert_non_null(strstr(error.text, "constant 0"));
}

/* Flips each byte of the file's tables once; what still loads must also unload. */
static void damage_anywhere_leaves_the_heap_exact(void **state)
{
    uint64_t size = stage("fails");
    uint32_t before = block_count();
    (void)state;
    for (uint64_t at = 0; at < 0x300 && at < size; at++) {
        uint32_t handle = 0;
        staged[at] ^= 0x41;
        if (load_staged(size, SESSION, false, &handle) == C7X_OK)
            unload(handle);
        staged[at] ^= 0x41;
        assert_int_equal(block_count(), before);
    }
}

static void every_allocation_may_fail(void **state)
{
    uint64_t size = stage("add_one");
    enum c7x_status status = C7X_NOMEM;
    (void)state;
    c7x_module_table_destroy(table);
    for (size_t bytes = 16384; status != C7X_OK; bytes += 1024) {
        uint32_t handle = 0;
        c7x_heap_destroy(heap);
        c7x_heap_destroy(fast_heap);
        create_heap(bytes);
        table = NULL;
        if (create_table() != C7X_OK)
            continue;
        make_request();
        status = load_staged(size, SESSION, true, &handle);
        if (status == C7X_OK)
            status = run(handle);
        assert_true(status == C7X_OK || status == C7X_NOMEM);
        if (status == C7X_NOMEM)
            assert_int_not_equal(error.oom.total, 0);
        if (status != C7X_OK) {
            c7x_module_table_destroy(table);
            assert_int_equal(block_count(), 0);
        }
    }
}

static void the_table_is_bounded(void **state)
{
    uint64_t size = stage("fails");
    uint32_t handle = 0;
    enum c7x_status status = C7X_OK;
    (void)state;
    while (status == C7X_OK && c7x_module_count(table) <= C7X_MODULE_COUNT_MAX)
        status = load_staged(size, SESSION, true, &handle);
    assert_true(status == C7X_BUSY || status == C7X_NOMEM);
}

/* ---- Inputs ---- */

static void tensor_refused(uint32_t handle, const char *text)
{
    assert_int_equal(run(handle), C7X_TENSOR);
    if (strstr(error.text, text) == NULL)
        fail_msg("expected \"%s\", got \"%s\"", text, error.text);
    make_request();
}

static void inputs_are_checked_against_the_manifest(void **state)
{
    uint32_t handle = load("add_one");
    (void)state;
    make_request();
    x.shape[0] = 5;
    x.data_size = 20;
    tensor_refused(handle, "input 0 \"x\": expected float32 [4], got float32 [5]");
    x.dtype_code = kDLInt;
    tensor_refused(handle, "expected float32 [4], got int32 [4]");
    x.ndim = 2;
    x.shape[1] = 1;
    tensor_refused(handle, "got float32 [4, 1]");
    x.data_size = 15;
    tensor_refused(handle, "its shape has 16 bytes, got 15");
    x.data = NULL;
    tensor_refused(handle, "no data");
    x.shape[0] = -4;
    tensor_refused(handle, "negative or too large shape");
    infer.input_count = 0;
    tensor_refused(handle, "the module takes 1 inputs, got 0");
    assert_int_equal(run(handle), C7X_OK);
}

/* ---- Outputs ---- */

static void a_small_window_says_what_is_needed(void **state)
{
    uint32_t handle = load("big_output");
    (void)state;
    make_request();
    infer.input_count = 0;
    infer.result_size = 100;
    assert_int_equal(run(handle), C7X_SIZE);
    assert_int_equal(error.required, 1u << 20);
    infer.result_size = error.required;
    assert_int_equal(run(handle), C7X_OK);
    assert_true(((const float *)result.outputs[0].data)[262143] == 262143.0f);
}

static void a_tuple_is_placed_in_order(void **state)
{
    uint32_t handle = load("many_outputs");
    (void)state;
    make_request();
    infer.input_count = 0;
    infer.result_size = 7 * 64;
    assert_int_equal(run(handle), C7X_SIZE);
    assert_int_equal(error.required, 7 * 64 + 7 * 80);
    infer.result_size = error.required;
    assert_int_equal(run(handle), C7X_OK);
    assert_int_equal(result.output_count, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(result.outputs[i].tuple_index, i);
        assert_int_equal(result.outputs[i].address, RESULT_ADDRESS + 64 * (unsigned)i);
        assert_int_equal(*(const int32_t *)result.outputs[i].data, i);
    }
}

/* ---- Failing calls ---- */

static void a_failing_entry_is_reported(void **state)
{
    uint32_t handle = load("fails");
    (void)state;
    run_without_inputs(handle, C7X_CALL);
    assert_int_equal(result.return_value, 5);
    assert_string_equal(error.text, "the entry returned 5");
    assert_string_equal(error.station, "kernel");
}

static void abort_ends_the_call_alone(void **state)
{
    uint32_t handle = load("aborts");
    (void)state;
    run_without_inputs(handle, C7X_CALL);
    assert_string_equal(error.text, "the module called abort");
    assert_int_equal(c7x_os_interrupts_depth(), 0);
    run_without_inputs(handle, C7X_CALL);
}

static void running_out_of_memory_has_numbers(void **state)
{
    uint32_t handle = load("hungry");
    (void)state;
    run_without_inputs(handle, C7X_NOMEM);
    assert_true(error.oom.requested == (uint64_t)1 << 40);
    assert_true(error.oom.free <= error.oom.total);
}

/* The module never frees its workspace, and fails with some of it in hand. */
static void workspace_ends_with_the_call_that_took_it(void **state)
{
    struct c7x_heap_statistics first;
    struct c7x_heap_statistics last;
    uint32_t handle = load("hungry");
    (void)state;
    run_without_inputs(handle, C7X_NOMEM);
    c7x_heap_get_statistics(heap, &first);
    for (int i = 0; i < 10; i++)
        run_without_inputs(handle, C7X_NOMEM);
    c7x_heap_get_statistics(heap, &last);
    assert_int_equal(last.block_count, first.block_count);
    assert_int_equal(last.free, first.free);
}

static enum c7x_tvm_end how;

static void end_it(enum c7x_event event, const struct c7x_trace_origin *origin, uint32_t argument)
{
    static const struct c7x_os_fault fault = {"division by zero", NULL, NULL};
    (void)origin;
    if (event != C7X_EVENT_STATION || argument != C7X_STATION_KERNEL)
        return;
    (void)TVM_lockInterrupts();
    c7x_tvm_end_call(how, how == C7X_TVM_FAULTED ? &fault : NULL);
}

/* Wherever it is, but for a cancelled one, which ends with its next section and is as good as
 * before. */
static void a_call_that_is_ended_leaves_its_module_quarantined(void **state)
{
    static const enum c7x_tvm_end ends[] = {C7X_TVM_STUCK, C7X_TVM_FAULTED};
    (void)state;
    make_request();
    for (int i = 0; i < 2; i++) {
        uint32_t handle = load("add_one");
        how = ends[i];
        c7x_trace_set_sink(end_it);
        assert_int_equal(run(handle), C7X_FAULT);
        c7x_trace_set_sink(NULL);
        assert_int_equal(c7x_os_interrupts_depth(), 0);
        assert_non_null(strstr(error.text, i == 0 ? "watchdog" : "division by zero"));
        assert_int_equal(run(handle), C7X_FAULTED);
        unload(handle);
    }
    uint32_t handle = load("add_one");
    how = C7X_TVM_CANCELLED;
    c7x_trace_set_sink(end_it);
    assert_int_equal(run(handle), C7X_CANCELLED);
    c7x_trace_set_sink(NULL);
    assert_int_equal(run(handle), C7X_OK);
    assert_one_added();
}

static void names_of_operators_come_in_pieces(void **state)
{
    char names[16];
    struct c7x_module_operators list = {.names = names, .size = sizeof names};
    uint32_t handle = load("operators");
    (void)state;
    assert_int_equal(c7x_module_list_operators(table, handle, &list, &error), C7X_OK);
    assert_int_equal(list.total, 3);
    assert_int_equal(list.count, 1); /* the next one does not fit behind it */
    assert_int_equal(list.used, 11);
    assert_string_equal(names, "/scale/Mul");
    list.first = 1;
    assert_int_equal(c7x_module_list_operators(table, handle, &list, &error), C7X_OK);
    assert_int_equal(list.count, 1); /* and alone it is cut */
    assert_string_equal(names, "/shift/Add + /s");
    list.first = 3;
    assert_int_equal(c7x_module_list_operators(table, handle, &list, &error), C7X_OK);
    assert_int_equal(list.total, 3);
    assert_int_equal(list.count, 0);
    unload(handle);
    assert_int_equal(c7x_module_list_operators(table, handle, &list, &error), C7X_HANDLE);
    assert_int_equal(c7x_module_list_operators(table, 0, &list, &error), C7X_HANDLE);
}

static void print_goes_to_the_client(void **state)
{
    static uint8_t buffer[256];
    struct c7x_printf client;
    uint32_t handle = load("prints");
    (void)state;
    c7x_printf_bind(&client, buffer, sizeof(buffer));
    make_request();
    infer.input_count = 0;
    infer.printf = &client;
    assert_int_equal(run(handle), C7X_OK);
    assert_int_equal(c7x_printf_finish(&client), 6);
    assert_memory_equal(buffer + 16, "hello\n", 6);
    infer.printf = NULL;
    assert_int_equal(run(handle), C7X_OK);
    assert_int_equal(c7x_printf_finish(&client), 6);
}

static void spin_runs_as_long_as_asked(void **state)
{
    int32_t ms = 3;
    uint32_t handle = load("spin");
    (void)state;
    make_request();
    x.data = &ms;
    x.data_size = sizeof(ms);
    x.dtype_code = kDLInt;
    x.shape[0] = 1;
    assert_int_equal(run(handle), C7X_OK);
    assert_int_equal(*(const int32_t *)result.outputs[0].data, 3);
    assert_true(result.cycles > 0);
}

/* ---- Constants of MODEL_LOAD ---- */

static struct c7x_tvm_model_load model_load(uint8_t *blob, size_t size)
{
    return (struct c7x_tvm_model_load){
        .bytes = blob,
        .size = size,
        .address = 0xC0000000u,
        .session = SESSION,
        .release_bytes = release,
    };
}

/* One tensor float32 [4] of the given value. */
static size_t make_blob(uint8_t blob[128], float value)
{
    struct {
        uint64_t count;
        uint32_t padding;
        int32_t type_index;
        uint64_t magic;
        uint64_t reserved;
        DLDevice device;
        int32_t ndim;
        DLDataType dtype;
        int64_t shape;
        int64_t bytes;
        float data[4];
    } content = {
        .count = 1,
        .type_index = kTVMFFITensor,
        .magic = C7X_WEIGHTS_TENSOR_MAGIC,
        .ndim = 1,
        .dtype = {kDLFloat, 32, 1},
        .shape = 4,
        .bytes = 16,
        .data = {value, value, value, value},
    };
    memcpy(blob, &content, sizeof(content));
    return sizeof(content);
}

static void a_model_gives_the_constants(void **state)
{
    static uint8_t blob[128];
    uint32_t handle = load("no_weights");
    struct c7x_tvm_model_load request = model_load(blob, make_blob(blob, 1.0f));
    uint32_t id = 0;
    uint32_t count = 0;
    (void)state;
    assert_int_equal(c7x_tvm_model_load(&request, &id, &count, &error), C7X_OK);
    assert_int_equal(count, 1);
    make_request();
    assert_int_equal(run(handle), C7X_CALL);
    infer.model_id = id + 1;
    assert_int_equal(run(handle), C7X_HANDLE);
    infer.model_id = id;
    assert_int_equal(run(handle), C7X_OK);
    assert_one_added();
    infer.session = OTHER_SESSION;
    assert_int_equal(run(handle), C7X_HANDLE);
    assert_int_equal(c7x_tvm_model_unload(OTHER_SESSION, id, &error), C7X_HANDLE);
    assert_int_equal(released_count, 1); /* the module's */
    assert_int_equal(c7x_tvm_model_unload(SESSION, id, &error), C7X_OK);
    assert_int_equal(released_count, 2);
    assert_int_equal(c7x_tvm_model_unload(SESSION, id, &error), C7X_HANDLE);
}

static void a_model_ends_with_its_session(void **state)
{
    static uint8_t blob[128];
    struct c7x_tvm_model_load request = model_load(blob, make_blob(blob, 1.0f));
    uint32_t id = 0;
    uint32_t count = 0;
    (void)state;
    assert_int_equal(c7x_tvm_model_load(&request, &id, &count, &error), C7X_OK);
    request.copy = true;
    assert_int_equal(c7x_tvm_model_load(&request, &id, &count, &error), C7X_OK);
    assert_int_equal(c7x_tvm_model_count(), 2);
    assert_int_equal(released_count, 1);
    c7x_tvm_model_unload_session(SESSION);
    assert_int_equal(c7x_tvm_model_count(), 0);
    assert_int_equal(released_count, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(add_one_runs),
        TEST(a_copied_module_does_not_need_the_staged_bytes),
        TEST(a_hundred_rounds_leave_nothing),
        TEST(a_thousand_rounds_of_bare_modules_leave_the_heap_exact),
        TEST(unload_runs_the_hooks_in_order),
        TEST(calls_leave_no_memory_behind),
        TEST(two_modules_live_side_by_side),
        TEST(kernels_of_the_firmware_compute),
        TEST(a_constructor_runs_and_a_weak_import_is_null),
        TEST(references_are_right_however_the_module_was_linked),
        TEST(those_of_other_tools_are_made_where_these_are),
        TEST(handles_say_what_became_of_them),
        TEST(a_session_sees_only_its_own_modules),
        TEST(addresses_are_described),
        TEST(a_module_without_entry_is_refused),
        TEST(missing_imports_are_listed),
        TEST(a_cut_module_is_refused_at_every_length),
        TEST(damaged_weights_are_named),
        TEST(damage_anywhere_leaves_the_heap_exact),
        TEST(every_allocation_may_fail),
        TEST(the_table_is_bounded),
        TEST(inputs_are_checked_against_the_manifest),
        TEST(a_small_window_says_what_is_needed),
        TEST(a_tuple_is_placed_in_order),
        TEST(a_failing_entry_is_reported),
        TEST(abort_ends_the_call_alone),
        TEST(running_out_of_memory_has_numbers),
        TEST(workspace_ends_with_the_call_that_took_it),
        TEST(a_call_that_is_ended_leaves_its_module_quarantined),
        TEST(names_of_operators_come_in_pieces),
        TEST(print_goes_to_the_client),
        TEST(spin_runs_as_long_as_asked),
        TEST(a_model_gives_the_constants),
        TEST(a_model_ends_with_its_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

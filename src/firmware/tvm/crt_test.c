/* SPDX-License-Identifier: Apache-2.0 */
/* The names of TVM's C runtime, called as a module of that time calls them. */
#include "firmware/tvm/crt.h"

#include "firmware/tvm/tvm_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (1u << 20)

/* Type codes of c_runtime_api.h. */
enum { INT = 0, NULLPTR = 4, DATA_TYPE = 5, OBJECT = 8, STRING = 11, NDARRAY = 13, UNKNOWN = 99 };

static uint8_t *region;
static uint8_t fast_region[65536];
static struct c7x_heap *heap;
static struct c7x_heap *fast_heap;
static struct c7x_tvm_context context;

static int set_up(void **state)
{
    struct c7x_tvm_config config = {0};
    (void)state;
    region = aligned_alloc(4096, HEAP_BYTES);
    heap = c7x_heap_create(region, HEAP_BYTES, "test");
    fast_heap = c7x_heap_create(fast_region, sizeof(fast_region), "fast");
    config.heap = heap;
    config.fast_heap = fast_heap;
    c7x_tvm_init(&config);
    context = (struct c7x_tvm_context){
        .owner = c7x_heap_owner_new(heap),
        .fast_owner = c7x_heap_owner_new(fast_heap),
    };
    c7x_tvm_context_set(&context);
    return 0;
}

/* Every object was released. */
static int tear_down(void **state)
{
    struct c7x_heap_statistics now;
    (void)state;
    c7x_tvm_free(context.symbols);
    c7x_heap_get_statistics(heap, &now);
    assert_int_equal(now.block_count, 0);
    c7x_heap_get_statistics(fast_heap, &now);
    assert_int_equal(now.block_count, 0);
    c7x_tvm_context_set(NULL);
    c7x_heap_destroy(heap);
    c7x_heap_destroy(fast_heap);
    free(region);
    return 0;
}

static void args_are_copied(void **state)
{
    TVMValue values[11] = {{.v_int64 = 7}, {.v_float64 = 0.5}};
    uint32_t codes[11] = {INT, 2};
    TVMArgs args = TVMArgs_Create(values, codes, 2);
    (void)state;
    assert_int_equal(args.values_count, 2);
    assert_int_equal(args.values[0].v_int64, 7);
    assert_true(args.values[1].v_float64 == 0.5);
    assert_int_equal(args.tcodes[1], 2);
    assert_int_equal(TVMArgs_Create(values, codes, 10).values_count, 10);
    assert_int_equal(TVMArgs_Create(values, codes, 11).values_count, 0);
    assert_int_equal(TVMArgs_Create(NULL, NULL, 0).values_count, 0);
}

/* Storage, a shape and a tensor on them, as the code of an old module makes them. */
static void builtins_pass_objects_on(void **state)
{
    const DLDataType float32 = {kDLFloat, 32, 1};
    TVMValue storage;
    TVMValue shape;
    TVMValue tensor;
    TVMValue nothing = {.v_handle = NULL};
    TVMValue args[4] = {{.v_int64 = 64}, {.v_int64 = 0}, {.v_type = float32}};
    int codes[4] = {INT, INT, DATA_TYPE};
    int code;
    (void)state;
    assert_int_equal(vm_builtin_alloc_storage(args, codes, 3, &storage, &code, NULL), 0);
    assert_int_equal(code, OBJECT);
    memcpy(args, (TVMValue[4]){nothing, {.v_int64 = 1}, {.v_int64 = 0}, {.v_int64 = 16}},
           sizeof(args));
    memcpy(codes, (int[4]){NULLPTR, INT, INT, INT}, sizeof(codes));
    assert_int_equal(vm_builtin_make_shape(args, codes, 4, &shape, &code, NULL), 0);
    memcpy(args, (TVMValue[4]){storage, {.v_int64 = 0}, shape, {.v_type = float32}}, sizeof(args));
    memcpy(codes, (int[4]){OBJECT, INT, OBJECT, DATA_TYPE}, sizeof(codes));
    assert_int_equal(vm_builtin_alloc_tensor(args, codes, 4, &tensor, &code, NULL), 0);
    assert_int_equal(code, NDARRAY);
    assert_int_equal(((TVMDSPTensor *)tensor.v_handle)->dl_tensor.shape[0], 16);
    memcpy(args, (TVMValue[4]){tensor, {.v_int64 = 1}, {.v_type = float32}, {.v_str = "x"}},
           sizeof(args));
    memcpy(codes, (int[4]){NDARRAY, INT, DATA_TYPE, STRING}, sizeof(codes));
    assert_int_equal(vm_builtin_check_tensor_info(args, codes, 4, &nothing, &code, NULL), 0);
    assert_int_equal(code, NULLPTR);
    args[1].v_int64 = 2;
    assert_int_equal(vm_builtin_check_tensor_info(args, codes, 4, &nothing, &code, NULL), -1);
    TVMFFIObjectDecRef(tensor.v_handle);
    TVMFFIObjectDecRef(shape.v_handle);
    TVMFFIObjectDecRef(storage.v_handle);
}

static int add(TVMValue *args, int *type_codes, int num_args, TVMValue *out, int *out_type_code,
               void *resource_handle)
{
    (void)resource_handle;
    if (num_args != 2 || type_codes[0] != INT || type_codes[1] != INT)
        return -7;
    out->v_int64 = args[0].v_int64 + args[1].v_int64;
    *out_type_code = INT;
    return 0;
}

static void functions_are_called_by_their_kind(void **state)
{
    TVMBackendPackedCFunc own = add;
    TVMValue args[2] = {{.v_int64 = 40}, {.v_int64 = 2}};
    int codes[2] = {INT, INT};
    TVMValue out;
    void *address;
    void *found;
    int code;
    (void)state;
    memcpy(&address, &own, sizeof(address));
    assert_int_equal(TVMBackendRegisterSystemLibSymbol("add", address), 0);
    assert_int_equal(TVMBackendGetFuncFromEnv(NULL, "add", &found), 0);
    assert_int_equal(TVMFuncCall(found, args, codes, 2, &out, &code), 0);
    assert_int_equal(out.v_int64, 42);
    assert_int_equal(TVMFuncCall(found, args, codes, 1, &out, &code), -7);
    assert_int_equal(TVMBackendGetFuncFromGlobalRegistry("vm.builtin.copy", &found), 0);
    assert_int_equal(TVMFuncCall(found, args, codes, 1, &out, &code), 0);
    assert_int_equal(out.v_int64, 40);
    assert_int_equal(code, INT);
}

static void bad_calls_are_refused(void **state)
{
    static TVMValue args[129];
    static int codes[129];
    TVMValue out;
    int code;
    (void)state;
    assert_int_equal(TVMFuncCall(NULL, args, codes, 1, &out, &code), -1);
    assert_int_equal(vm_builtin_make_tuple(args, codes, 129, &out, &code, NULL), -1);
    assert_int_equal(vm_builtin_copy(args, codes, -1, &out, &code, NULL), -1);
    codes[0] = UNKNOWN;
    assert_int_equal(vm_builtin_copy(args, codes, 1, &out, &code, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(args_are_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(builtins_pass_objects_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(functions_are_called_by_their_kind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

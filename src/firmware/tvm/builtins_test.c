/* SPDX-License-Identifier: Apache-2.0 */
/* The imports of modules, called as a module calls them: inside a context. */
#include "firmware/tvm/tvm_impl.h"

#include "firmware/tvm/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAP_BYTES (1u << 20)

static uint8_t *region;
static uint8_t fast_region[65536];
static struct c7x_heap *heap;
static struct c7x_heap *fast_heap;
static struct c7x_tvm_context context;
static const DLDataType float32 = {kDLFloat, 32, 1};
static const DLDevice device = {kDLCPU, 0};

static uint32_t block_count(const struct c7x_heap *of)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(of, &now);
    return now.block_count;
}

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
        .workspace_owner = c7x_heap_owner_new(heap),
        .fast_owner = c7x_heap_owner_new(fast_heap),
    };
    c7x_tvm_context_set(&context);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(block_count(heap), 0);
    assert_int_equal(block_count(fast_heap), 0);
    assert_int_equal(context.section_depth, 0);
    c7x_tvm_context_set(NULL);
    c7x_heap_destroy(heap);
    c7x_heap_destroy(fast_heap);
    free(region);
    return 0;
}

static void small_storage_is_fast(void **state)
{
    TVMDSPStorage *small = TVMDSPStorageAlloc(1024, device, float32);
    TVMDSPStorage *large = TVMDSPStorageAlloc(40000, device, float32);
    (void)state;
    assert_int_equal(small->pool_id, TVMDSP_POOL_FAST);
    assert_true(c7x_heap_contains(fast_heap, small->data) != 0);
    assert_int_equal(large->pool_id, TVMDSP_POOL_MAIN);
    assert_int_equal((uintptr_t)large->data % 128, 0);
    TVMFFIObjectDecRef(small);
    TVMFFIObjectDecRef(large);
}

static void a_tensor_keeps_its_storage(void **state)
{
    const int64_t shape[2] = {2, 3};
    TVMDSPStorage *storage = TVMDSPBuiltinAllocStorage(64, 0, float32);
    TVMDSPTensor *tensor = TVMDSPBuiltinAllocTensor(storage, 40, shape, 2, float32);
    (void)state;
    TVMFFIObjectDecRef(storage);
    assert_int_equal(tensor->storage->header.ref_counter, 1);
    assert_ptr_equal(tensor->dl_tensor.data, (uint8_t *)storage->data + 40);
    TVMFFIObjectDecRef(tensor);
}

static void a_tensor_must_fit_its_storage(void **state)
{
    const int64_t shape[1] = {16};
    const int64_t huge[2] = {INT64_MAX, INT64_MAX};
    TVMDSPStorage *storage = TVMDSPBuiltinAllocStorage(64, 0, float32);
    (void)state;
    assert_null(TVMDSPBuiltinAllocTensor(storage, 1, shape, 1, float32));
    assert_null(TVMDSPBuiltinAllocTensor(storage, -1, shape, 1, float32));
    assert_null(TVMDSPBuiltinAllocTensor(storage, 0, huge, 2, float32));
    assert_null(TVMDSPBuiltinAllocTensor(NULL, 0, shape, 1, float32));
    TVMFFIObjectDecRef(storage);
}

static void *take_workspace(uint64_t size)
{
    return TVMBackendAllocWorkspace(kDLCPU, 0, size, 0, 8);
}

static void give_workspace(void *workspace)
{
    assert_int_equal(TVMBackendFreeWorkspace(kDLCPU, 0, workspace), 0);
}

static uint64_t allocation_count(void)
{
    struct c7x_heap_statistics now;
    c7x_heap_get_statistics(heap, &now);
    return now.allocation_count;
}

/* Pieces of a call, nested; writes over them. */
static void use_workspace(void)
{
    uint8_t *first = take_workspace(1000);
    uint8_t *second = take_workspace(5000);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal((uintptr_t)first % 128, 0);
    assert_int_equal((uintptr_t)second % 128, 0);
    memset(first, 1, 1000);
    memset(second, 2, 5000);
    assert_int_equal(first[999], 1);
    give_workspace(second);
    uint8_t *third = take_workspace(5000);
    memset(third, 3, 5000);
    assert_int_equal(first[999], 1);
    give_workspace(third);
    give_workspace(first);
}

static void a_target_holds_the_workspace_of_its_calls(void **state)
{
    (void)state;
    for (int call = 0; call < 10; call++) {
        uint64_t before = allocation_count();
        context.workspace = c7x_tvm_workspace_take(1);
        assert_non_null(context.workspace);
        assert_null(c7x_tvm_workspace_take(1)); /* a call is under way */
        use_workspace();
        c7x_tvm_workspace_give(context.workspace);
        if (call >= 2) /* the first ones find out how much it is */
            assert_int_equal(allocation_count(), before);
    }
    context.workspace = c7x_tvm_workspace_take(1);
    c7x_tvm_release_workspaces(); /* not this one */
    use_workspace();
    c7x_tvm_workspace_give(context.workspace);
    context.workspace = NULL;
    assert_int_equal(block_count(heap), 1);
    c7x_tvm_release_workspaces();
    assert_int_equal(block_count(heap), 0);
}

/* In another order, twice, or with what stands before a piece written over. */
static void workspace_that_is_misused_is_there_for_the_next_call(void **state)
{
    (void)state;
    for (int call = 0; call < 3; call++) {
        context.workspace = c7x_tvm_workspace_take(2);
        uint8_t *first = take_workspace(256);
        uint8_t *second = take_workspace(256);
        if (call == 2)
            memset(first, 0xFF, 256 + 128); /* into the second one's */
        give_workspace(first);
        give_workspace(second);
        give_workspace(second);
        give_workspace(take_workspace(256));
        (void)c7x_heap_free_owner(heap, context.workspace_owner);
        c7x_tvm_workspace_give(context.workspace);
    }
    context.workspace = c7x_tvm_workspace_take(2);
    assert_non_null(take_workspace(512));
    c7x_tvm_workspace_give(context.workspace);
    context.workspace = NULL;
    c7x_tvm_release_workspaces();
}

static void running_out_is_recorded_once(void **state)
{
    (void)state;
    assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, 2 * HEAP_BYTES, 0, 8));
    assert_null(TVMBackendAllocWorkspace(kDLCPU, 0, 3 * HEAP_BYTES, 0, 8));
    assert_true(context.out_of_memory);
    assert_int_equal(context.oom.requested, 2 * HEAP_BYTES);
}

static void shapes_are_made_and_matched(void **state)
{
    const int32_t store[2] = {1, 2};
    const int32_t make[3] = {0, 1, 1};
    const int32_t equal[3] = {3, 0, 2};
    const int64_t store_at[2] = {0, 0};
    const int64_t make_of[3] = {7, 0, 0};
    const int64_t dims[2] = {5, 6};
    int64_t equal_to[3] = {1, 5, 0};
    TVMDSPTensor *shape_heap = TVMDSPBuiltinAllocShapeHeap(4);
    TVMDSPTensor *x = c7x_tvm_tensor_new(dims, 2, float32);
    TVMFFIAny value = {.type_index = kTVMFFITensor};
    TVMDSPShape *shape;
    (void)state;
    value.v_ptr = x;
    assert_int_equal(TVMDSPBuiltinMatchShape(&value, shape_heap, 2, store, store_at), 0);
    shape = TVMDSPBuiltinMakeShape(shape_heap, 3, make, make_of);
    assert_int_equal(shape->data[0], 7);
    assert_int_equal(shape->data[2], 5);
    assert_int_equal(TVMDSPBuiltinCheckShapeInfo(shape, 3), 0);
    assert_int_equal(TVMDSPBuiltinCheckShapeInfo(shape, 2), -1);
    value = (TVMFFIAny){.type_index = kTVMFFIShape};
    value.v_ptr = shape;
    assert_int_equal(TVMDSPBuiltinMatchShape(&value, shape_heap, 3, equal, equal_to), -1);
    assert_int_equal(TVMDSPBuiltinMatchShape(&value, shape_heap, 2, equal, equal_to), -1);
    equal_to[0] = 9;
    assert_int_equal(TVMDSPBuiltinMatchShape(&value, shape_heap, 3, equal, equal_to), -1);
    TVMFFIObjectDecRef(shape);
    TVMFFIObjectDecRef(x);
    TVMFFIObjectDecRef(shape_heap);
}

static void tensor_info_is_checked(void **state)
{
    const DLDataType handle = {kDLOpaqueHandle, 0, 0};
    const DLDataType int8 = {kDLInt, 8, 1};
    const int64_t dims[2] = {5, 6};
    TVMDSPTensor *x = c7x_tvm_tensor_new(dims, 2, float32);
    (void)state;
    assert_int_equal(TVMDSPBuiltinCheckTensorInfo(x, 2, float32), 0);
    assert_int_equal(TVMDSPBuiltinCheckTensorInfo(x, -1, handle), 0);
    assert_int_equal(TVMDSPBuiltinCheckTensorInfo(x, 3, float32), -1);
    assert_int_equal(TVMDSPBuiltinCheckTensorInfo(x, 2, int8), -1);
    assert_int_equal(TVMDSPBuiltinCheckTensorInfo(NULL, 2, float32), -1);
    TVMFFIObjectDecRef(x);
}

static void a_reshaped_view_shares_the_data(void **state)
{
    const int64_t dims[2] = {4, 6};
    const int64_t flat[1] = {24};
    const int64_t wrong[1] = {23};
    const int64_t deep[10] = {1, 1, 1, 1, 1, 1, 1, 1, 4, 6};
    TVMDSPStorage *storage = TVMDSPBuiltinAllocStorage(96, 0, float32);
    TVMDSPTensor *x = TVMDSPBuiltinAllocTensor(storage, 0, dims, 2, float32);
    TVMDSPTensor *view = TVMDSPBuiltinReshapeDirect(x, flat, 1);
    TVMDSPTensor *deep_view = TVMDSPBuiltinReshapeDirect(x, deep, 10);
    (void)state;
    assert_ptr_equal(view->dl_tensor.data, x->dl_tensor.data);
    assert_int_equal(deep_view->dl_tensor.shape[9], 6);
    assert_null(TVMDSPBuiltinReshapeDirect(x, wrong, 1));
    assert_int_equal(x->header.ref_counter, 1);
    TVMFFIObjectDecRef(view);
    TVMFFIObjectDecRef(deep_view);
    TVMFFIObjectDecRef(x);
    TVMFFIObjectDecRef(storage);
}

static void registers_own_one_reference(void **state)
{
    TVMFFIAny file[3] = {{0}};
    TVMFFIAny value = {.type_index = kTVMFFITensor};
    const int64_t dims[1] = {4};
    TVMDSPTensor *x = c7x_tvm_tensor_new(dims, 1, float32);
    (void)state;
    TVMDSPRegFileInit(file, 3);
    value.v_ptr = x;
    TVMDSPRegSetAny(0, &value);
    TVMDSPRegSetAny(1, &value);
    TVMDSPRegSetAny(1, &value);
    TVMDSPRegSetAny(9, &value);
    assert_int_equal(x->header.ref_counter, 3);
    TVMFFIObjectDecRef(x);
    assert_int_equal(TVMDSPRegFileCleanup(), 2);
    assert_int_equal(TVMDSPRegFileCleanup(), 0);
}

static void any_values_move_and_copy(void **state)
{
    const int64_t dims[1] = {4};
    TVMFFIAny a = {.type_index = kTVMFFITensor};
    TVMFFIAny b;
    TVMFFIAny c;
    (void)state;
    a.v_ptr = c7x_tvm_tensor_new(dims, 1, float32);
    TVMFFIAnyMove(&a, &b);
    assert_int_equal(a.type_index, kTVMFFINone);
    TVMFFIAnyCopy(&b, &c);
    assert_int_equal(b.v_obj->ref_counter, 2);
    TVMFFIAnyClear(&b);
    assert_int_equal(c.v_obj->ref_counter, 1);
    TVMFFIAnyClear(&c);
    TVMFFIObjectDecRef(NULL);
    TVMFFIObjectIncRef(NULL);
}

typedef int (*packed_fn)(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);

static int call(const char *name, const TVMFFIAny *args, int32_t count, TVMFFIAny *out)
{
    packed_fn function;
    void *address = NULL;
    assert_int_equal(TVMBackendGetFuncFromEnv(NULL, name, &address), 0);
    memcpy(&function, &address, sizeof(function));
    return function(args, count, out);
}

static TVMFFIAny integer(int64_t value)
{
    TVMFFIAny any = {.type_index = kTVMFFIInt};
    any.v_int64 = value;
    return any;
}

static void packed_builtins_work_by_name(void **state)
{
    TVMFFIAny args[4];
    TVMFFIAny shape;
    TVMFFIAny storage;
    TVMFFIAny tensor;
    TVMFFIAny tuple;
    (void)state;
    args[0] = (TVMFFIAny){.type_index = kTVMFFINone};
    args[1] = integer(1);
    args[2] = integer(0);
    args[3] = integer(8);
    assert_int_equal(call("vm.builtin.make_shape", args, 4, &shape), 0);
    args[0] = integer(64);
    args[1] = integer(0);
    args[2] = (TVMFFIAny){.type_index = kTVMFFIDataType};
    args[2].v_dtype = float32;
    assert_int_equal(call("vm.builtin.alloc_storage", args, 3, &storage), 0);
    args[3] = args[2];
    args[0] = storage;
    args[1] = integer(0);
    args[2] = shape;
    assert_int_equal(call("vm.builtin.alloc_tensor", args, 4, &tensor), 0);
    args[0] = args[1] = tensor;
    assert_int_equal(call("vm.builtin.make_tuple", args, 2, &tuple), 0);
    assert_int_equal(((TVMDSPArray *)tuple.v_ptr)->size, 2);
    assert_int_equal(tensor.v_obj->ref_counter, 3);
    TVMFFIAnyClear(&tuple);
    TVMFFIAnyClear(&tensor);
    TVMFFIAnyClear(&storage);
    TVMFFIAnyClear(&shape);
    assert_int_equal(TVMBackendGetFuncFromGlobalRegistry("vm.builtin.none", NULL), -1);
}

static void packed_builtins_refuse_wrong_arguments(void **state)
{
    TVMFFIAny args[4] = {{0}};
    TVMFFIAny out;
    (void)state;
    assert_int_equal(call("vm.builtin.alloc_storage", args, 1, &out), -1);
    assert_int_equal(call("vm.builtin.alloc_storage", args, 3, &out), -1);
    assert_int_equal(call("vm.builtin.alloc_tensor", args, 4, &out), -1);
    assert_int_equal(call("vm.builtin.reshape", args, 2, &out), -1);
    args[1] = integer(99);
    assert_int_equal(call("vm.builtin.make_shape", args, 2, &out), -1);
    args[0] = integer((int64_t)1 << 40);
    assert_int_equal(call("vm.builtin.alloc_storage", args, 3, &out), C7X_TVM_OUT_OF_MEMORY);
}

static int add_task(int task_id, TVMParallelGroupEnv *env, void *data)
{
    int *sum = data;
    *sum += task_id;
    return task_id == env->num_task - 1 && env->num_task == 5 ? 9 : 0;
}

static void parallel_tasks_run_in_order(void **state)
{
    int sum = 0;
    (void)state;
    assert_int_equal(TVMBackendParallelLaunch(add_task, &sum, 4), 0);
    assert_int_equal(sum, 6);
    assert_int_equal(TVMBackendParallelLaunch(add_task, &sum, 5), 9);
    assert_int_equal(TVMBackendParallelLaunch(add_task, &sum, 0), 0);
}

static void registered_symbols_are_found(void **state)
{
    int symbol;
    void *found = NULL;
    (void)state;
    assert_int_equal(TVMBackendRegisterSystemLibSymbol("mine", &symbol), 0);
    assert_int_equal(TVMBackendGetFuncFromGlobalRegistry("mine", &found), 0);
    assert_ptr_equal(found, &symbol);
    for (unsigned i = 1; i < C7X_TVM_SYMBOL_COUNT_MAX; i++)
        assert_int_equal(TVMBackendRegisterSystemLibSymbol("other", &symbol), 0);
    assert_int_equal(TVMBackendRegisterSystemLibSymbol("one more", &symbol), -1);
    c7x_tvm_free(context.symbols);
}

static void sections_nest(void **state)
{
    int32_t outer = TVM_lockInterrupts();
    int32_t inner = TVM_lockInterrupts();
    (void)state;
    assert_int_equal(outer, 0);
    assert_int_equal(inner, 1);
    TVM_unlockInterrupts(inner);
    assert_int_equal(context.section_depth, 1);
    TVM_unlockInterrupts(5);
    assert_int_equal(context.section_depth, 1);
    TVM_unlockInterrupts(outer);
}

/* As one that a module has freed, and that another has now. */
static void a_module_cannot_free_what_is_anothers(void **state)
{
    const uint32_t another = c7x_heap_owner_new(heap);
    void *block = c7x_heap_alloc(heap, another, 100, 0);
    void *own = c7x_module_malloc(100);
    (void)state;
    c7x_module_free(block);
    c7x_module_free((char *)own + 64);
    assert_int_equal(block_count(heap), 2);
    c7x_module_free(own);
    c7x_module_free(own);
    assert_int_equal(block_count(heap), 1);
    assert_int_equal(c7x_heap_free_owner(heap, another), 1);
}

static void module_memory_is_the_heaps(void **state)
{
    uint8_t *block = c7x_module_calloc(3, 5);
    void *aligned = c7x_module_memalign(4096, 10);
    void *odd = tvm_dsp_alloc(10, 100, TVMDSP_POOL_FAST);
    (void)state;
    for (size_t i = 0; i < 15; i++)
        assert_int_equal(block[i], 0);
    assert_int_equal((uintptr_t)aligned % 4096, 0);
    assert_int_equal((uintptr_t)odd % 128, 0);
    assert_null(c7x_module_calloc(SIZE_MAX, 2));
    assert_true(tvm_dsp_get_free_memory(TVMDSP_POOL_MAIN) > 0);
    c7x_module_free(block);
    c7x_module_free(aligned);
    c7x_module_free(odd);
    c7x_module_free(NULL);
}

static void outside_a_call_there_is_no_memory(void **state)
{
    (void)state;
    c7x_tvm_context_set(NULL);
    assert_null(c7x_module_malloc(1));
    assert_null(TVMDSPGetConstant(0));
    assert_int_equal(TVM_lockInterrupts(), 0);
    TVM_unlockInterrupts(0);
    TVMDSPRegFileInit(NULL, 0);
    assert_int_equal(TVMDSPRegFileCleanup(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(small_storage_is_fast),
        TEST(a_tensor_keeps_its_storage),
        TEST(a_tensor_must_fit_its_storage),
        TEST(a_target_holds_the_workspace_of_its_calls),
        TEST(workspace_that_is_misused_is_there_for_the_next_call),
        TEST(running_out_is_recorded_once),
        TEST(shapes_are_made_and_matched),
        TEST(tensor_info_is_checked),
        TEST(a_reshaped_view_shares_the_data),
        TEST(registers_own_one_reference),
        TEST(any_values_move_and_copy),
        TEST(packed_builtins_work_by_name),
        TEST(packed_builtins_refuse_wrong_arguments),
        TEST(parallel_tasks_run_in_order),
        TEST(registered_symbols_are_found),
        TEST(sections_nest),
        TEST(a_module_cannot_free_what_is_anothers),
        TEST(module_memory_is_the_heaps),
        TEST(outside_a_call_there_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The VM builtins in the packed calling convention, and the registry that finds functions by name.
 */
#include "firmware/tvm/packed.h"

#include "base/compiler.h"
#include "firmware/tvm/tvm_impl.h"

#include <string.h>

static const DLDataType any_type = {kDLOpaqueHandle, 0, 0};

/* Hands a new object out, or says why there is none. */
static int give(void *object, TVMFFIAny *result)
{
    const struct c7x_tvm_context *context = c7x_tvm_context();
    if (object == NULL)
        return context != NULL && context->out_of_memory ? C7X_TVM_OUT_OF_MEMORY : -1;
    *result = (TVMFFIAny){.type_index = ((TVMDSPObject *)object)->type_index};
    result->v_ptr = object;
    return 0;
}

static void *object_of(const TVMFFIAny *value, int32_t type_index)
{
    return value->type_index == type_index ? value->v_ptr : NULL;
}

/* A size is an integer or the product of a shape; -1 for any other value. */
static int64_t size_of(const TVMFFIAny *value)
{
    const TVMDSPShape *shape = object_of(value, kTVMFFIShape);
    uint64_t bytes;
    if (value->type_index == kTVMFFIInt)
        return value->v_int64;
    if (shape == NULL || shape->size > INT32_MAX ||
        !c7x_tvm_tensor_bytes(shape->data, (int32_t)shape->size, 8, 1, &bytes) || bytes > INT64_MAX)
        return -1;
    return (int64_t)bytes;
}

/* [size, device, dtype] or [context, size or shape, device, dtype] */
int TVMDSPBuiltinAllocStoragePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    if (num_args != 3 && num_args != 4)
        return -1;
    return give(
        TVMDSPBuiltinAllocStorage(size_of(&args[num_args - 3]), 0, args[num_args - 1].v_dtype),
        result);
}

/* [storage, offset, shape, dtype] */
int TVMDSPBuiltinAllocTensorPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    const TVMDSPShape *shape = num_args == 4 ? object_of(&args[2], kTVMFFIShape) : NULL;
    if (shape == NULL || shape->size > INT32_MAX || args[3].type_index != kTVMFFIDataType)
        return -1;
    return give(TVMDSPBuiltinAllocTensor(object_of(&args[0], kTVMDSPStorage), args[1].v_int64,
                                         shape->data, (int32_t)shape->size, args[3].v_dtype),
                result);
}

/* [context, count] */
int TVMDSPBuiltinAllocShapeHeapPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    if (num_args < 1)
        return -1;
    return give(TVMDSPBuiltinAllocShapeHeap(args[num_args - 1].v_int64), result);
}

/* Splits code, value, code, value, ... */
static bool take_pairs(const TVMFFIAny *args, int32_t num_args, int64_t ndim, int32_t *codes,
                       int64_t *values)
{
    if (ndim < 0 || ndim > C7X_TENSOR_RANK_MAX || num_args < 2 * ndim)
        return false;
    for (int64_t i = 0; i < ndim; i++) {
        codes[i] = (int32_t)args[2 * i].v_int64;
        values[i] = args[2 * i + 1].v_int64;
    }
    return true;
}

/* [heap, ndim, code, value, ...] */
int TVMDSPBuiltinMakeShapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    int32_t codes[C7X_TENSOR_RANK_MAX];
    int64_t values[C7X_TENSOR_RANK_MAX];
    if (num_args < 2 || !take_pairs(args + 2, num_args - 2, args[1].v_int64, codes, values))
        return -1;
    return give(TVMDSPBuiltinMakeShape(object_of(&args[0], kTVMFFITensor), (int32_t)args[1].v_int64,
                                       codes, values),
                result);
}

/* [value, heap, ndim, code, value, ..., error context] */
int TVMDSPBuiltinMatchShapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    int32_t codes[C7X_TENSOR_RANK_MAX];
    int64_t values[C7X_TENSOR_RANK_MAX];
    if (num_args < 3 || !take_pairs(args + 3, num_args - 3, args[2].v_int64, codes, values))
        return -1;
    TVMDSPBuiltinNullValue(result);
    return TVMDSPBuiltinMatchShape(&args[0], object_of(&args[1], kTVMFFITensor),
                                   (int32_t)args[2].v_int64, codes, values);
}

/* [tensor, ndim, dtype (optional), error context] */
int TVMDSPBuiltinCheckTensorInfoPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    bool has_dtype = num_args > 2 && args[2].type_index == kTVMFFIDataType;
    if (num_args < 2)
        return -1;
    TVMDSPBuiltinNullValue(result);
    return TVMDSPBuiltinCheckTensorInfo(object_of(&args[0], kTVMFFITensor),
                                        (int32_t)args[1].v_int64,
                                        has_dtype ? args[2].v_dtype : any_type);
}

int TVMDSPBuiltinNullValuePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    (void)args;
    (void)num_args;
    TVMDSPBuiltinNullValue(result);
    return 0;
}

int TVMDSPBuiltinCopyPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    if (num_args < 1)
        return -1;
    TVMFFIAnyCopy(&args[0], result);
    return 0;
}

static void array_delete(TVMDSPObject *self)
{
    TVMDSPArray *array = (TVMDSPArray *)self;
    for (int32_t i = 0; i < array->size; i++)
        TVMFFIAnyClear(&array->elements[i]);
    c7x_tvm_free(array);
}

int TVMDSPBuiltinMakeTuplePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    TVMDSPArray *array;
    if (num_args < 0 || num_args > C7X_ARRAY_SIZE_MAX)
        return -1;
    if (num_args == 0)
        return TVMDSPBuiltinNullValuePacked(args, num_args, result);
    array = c7x_tvm_alloc(sizeof(*array), 0, TVMDSP_POOL_MAIN);
    if (array == NULL)
        return give(NULL, result);
    memset(array, 0, sizeof(*array));
    array->header = (TVMDSPObject){kTVMFFIArray, 1, array_delete};
    array->size = num_args;
    for (int32_t i = 0; i < num_args; i++)
        TVMFFIAnyCopy(&args[i], &array->elements[i]);
    return give(array, result);
}

/* [tensor, shape]; unlike the direct one, the view keeps the source's storage. */
int TVMDSPBuiltinReshapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    const TVMDSPShape *shape = num_args == 2 ? object_of(&args[1], kTVMFFIShape) : NULL;
    TVMDSPTensor *source;
    TVMDSPTensor *view;
    if (shape == NULL || shape->size > INT32_MAX)
        return -1;
    source = object_of(&args[0], kTVMFFITensor);
    view = TVMDSPBuiltinReshapeDirect(source, shape->data, (int32_t)shape->size);
    if (view != NULL) {
        view->storage = source->storage;
        TVMFFIObjectIncRef(view->storage);
    }
    return give(view, result);
}

/* [condition]: whether a scalar of 1 to 64 bits is not zero. */
static int read_if_cond(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result)
{
    const TVMDSPTensor *tensor = num_args == 1 ? object_of(&args[0], kTVMFFITensor) : NULL;
    const uint8_t *bytes;
    size_t size;
    if (tensor == NULL || tensor->dl_tensor.data == NULL || tensor->dl_tensor.dtype.bits > 64)
        return -1;
    bytes = (const uint8_t *)tensor->dl_tensor.data + tensor->dl_tensor.byte_offset;
    size = (tensor->dl_tensor.dtype.bits + 7u) / 8u;
    *result = (TVMFFIAny){.type_index = kTVMFFIInt};
    for (size_t i = 0; i < size; i++)
        result->v_int64 |= bytes[i] != 0;
    return 0;
}

static const struct {
    const char *name;
    c7x_packed_fn function;
} builtins[] = {
    {"vm.builtin.alloc_storage", TVMDSPBuiltinAllocStoragePacked},
    {"vm.builtin.alloc_tensor", TVMDSPBuiltinAllocTensorPacked},
    {"vm.builtin.alloc_shape_heap", TVMDSPBuiltinAllocShapeHeapPacked},
    {"vm.builtin.make_shape", TVMDSPBuiltinMakeShapePacked},
    {"vm.builtin.match_shape", TVMDSPBuiltinMatchShapePacked},
    {"vm.builtin.check_tensor_info", TVMDSPBuiltinCheckTensorInfoPacked},
    {"vm.builtin.null_value", TVMDSPBuiltinNullValuePacked},
    {"vm.builtin.copy", TVMDSPBuiltinCopyPacked},
    {"vm.builtin.make_tuple", TVMDSPBuiltinMakeTuplePacked},
    {"vm.builtin.reshape", TVMDSPBuiltinReshapePacked},
    {"vm.builtin.read_if_cond", read_if_cond},
};

c7x_packed_fn c7x_tvm_find_packed(const char *name)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(builtins); i++) {
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].function;
    }
    return NULL;
}

c7x_packed_fn c7x_tvm_packed_of(const void *address)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(builtins); i++) {
        if (memcmp(&builtins[i].function, &address, sizeof(address)) == 0)
            return builtins[i].function;
    }
    return NULL;
}

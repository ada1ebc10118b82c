/* SPDX-License-Identifier: Apache-2.0 */
/* The VM builtins that generated code calls directly. */
#include "firmware/tvm/tvm_impl.h"

#include <string.h>

static const DLDataType int64_type = {kDLInt, 64, 1};

TVMDSPStorage *TVMDSPBuiltinAllocStorage(int64_t size, int32_t device_index, DLDataType hint)
{
    DLDevice device = {kDLCPU, 0};
    (void)device_index;
    return size < 0 ? NULL : TVMDSPStorageAlloc((size_t)size, device, hint);
}

TVMDSPTensor *TVMDSPBuiltinAllocTensor(TVMDSPStorage *storage, int64_t offset, const int64_t *shape,
                                       int32_t ndim, DLDataType dtype)
{
    return TVMDSPStorageAllocNDArray(storage, offset, shape, ndim, dtype);
}

TVMDSPTensor *TVMDSPBuiltinAllocShapeHeap(int64_t count)
{
    TVMDSPStorage *storage;
    TVMDSPTensor *heap;
    if (count < 0 || count > INT32_MAX)
        return NULL;
    storage = TVMDSPBuiltinAllocStorage(count * (int64_t)sizeof(int64_t), 0, int64_type);
    if (storage == NULL)
        return NULL;
    memset(storage->data, 0, storage->size);
    heap = TVMDSPBuiltinAllocTensor(storage, 0, &count, 1, int64_type);
    TVMFFIObjectDecRef(storage); /* the tensor holds it, if there is one */
    return heap;
}

static int64_t *heap_slot(TVMDSPTensor *heap, int64_t index)
{
    if (heap == NULL || index < 0 || index >= heap->dl_tensor.shape[0])
        return NULL;
    return (int64_t *)heap->dl_tensor.data + index;
}

static void free_object(TVMDSPObject *self)
{
    c7x_tvm_free(self);
}

TVMDSPShape *TVMDSPBuiltinMakeShape(TVMDSPTensor *heap, int32_t ndim, const int32_t *codes,
                                    const int64_t *values)
{
    TVMDSPShape *shape;
    if (ndim < 0 || ndim > C7X_TENSOR_RANK_MAX)
        return NULL;
    shape = c7x_tvm_alloc(sizeof(*shape), 0, TVMDSP_POOL_MAIN);
    if (shape == NULL)
        return NULL;
    *shape = (TVMDSPShape){.header = {kTVMFFIShape, 1, free_object}, .size = (size_t)ndim};
    shape->data = shape->inline_data;
    for (int32_t i = 0; i < ndim; i++) {
        const int64_t *slot = codes[i] == 0 ? &values[i] : heap_slot(heap, values[i]);
        if (slot == NULL) {
            c7x_tvm_free(shape);
            return NULL;
        }
        shape->inline_data[i] = *slot;
    }
    return shape;
}

static int match_dimension(int64_t dimension, TVMDSPTensor *heap, int32_t code, int64_t value)
{
    int64_t *slot = code == 1 || code == 3 ? heap_slot(heap, value) : NULL;
    switch (code) {
    case 0:
        return dimension == value ? 0 : -1;
    case 1:
        if (slot == NULL)
            return -1;
        *slot = dimension;
        return 0;
    case 2:
        return 0;
    case 3:
        return slot != NULL && *slot == dimension ? 0 : -1;
    default:
        return -1;
    }
}

/* The dimensions of a tensor or a shape object; -1 for any other value. */
static int64_t dimensions_of(const TVMFFIAny *value, const int64_t **out)
{
    if (value->type_index == kTVMFFITensor) {
        const TVMDSPTensor *tensor = value->v_ptr;
        *out = tensor->dl_tensor.shape;
        return tensor->dl_tensor.ndim;
    }
    if (value->type_index == kTVMFFIShape) {
        const TVMDSPShape *shape = value->v_ptr;
        *out = shape->data;
        return (int64_t)shape->size;
    }
    return -1;
}

int TVMDSPBuiltinMatchShape(const TVMFFIAny *value, TVMDSPTensor *heap, int32_t ndim,
                            const int32_t *codes, const int64_t *values)
{
    const int64_t *dimensions = NULL;
    if (ndim < 0 || dimensions_of(value, &dimensions) != ndim)
        return -1;
    for (int32_t i = 0; i < ndim; i++) {
        if (match_dimension(dimensions[i], heap, codes[i], values[i]) != 0)
            return -1;
    }
    return 0;
}

int TVMDSPBuiltinCheckTensorInfo(const TVMDSPTensor *tensor, int32_t ndim, DLDataType dtype)
{
    if (tensor == NULL || (ndim >= 0 && tensor->dl_tensor.ndim != ndim))
        return -1;
    if (dtype.code == kDLOpaqueHandle)
        return 0;
    return tensor->dl_tensor.dtype.code == dtype.code && tensor->dl_tensor.dtype.bits == dtype.bits
               ? 0
               : -1;
}

int TVMDSPBuiltinCheckShapeInfo(const TVMDSPShape *shape, int32_t ndim)
{
    return shape != NULL && (ndim < 0 || shape->size == (size_t)ndim) ? 0 : -1;
}

void TVMDSPBuiltinNullValue(TVMFFIAny *out)
{
    *out = (TVMFFIAny){.type_index = kTVMFFINone};
}

TVMDSPTensor *TVMDSPBuiltinReshapeDirect(TVMDSPTensor *source, const int64_t *shape, int32_t ndim)
{
    TVMDSPTensor *view;
    const DLTensor *from;
    uint64_t old_bytes;
    uint64_t new_bytes;
    if (source == NULL || ndim < 0)
        return NULL;
    from = &source->dl_tensor;
    if (!c7x_tvm_tensor_bytes(from->shape, from->ndim, from->dtype.bits, from->dtype.lanes,
                              &old_bytes) ||
        !c7x_tvm_tensor_bytes(shape, ndim, from->dtype.bits, from->dtype.lanes, &new_bytes) ||
        old_bytes != new_bytes)
        return NULL;
    view = c7x_tvm_tensor_new(shape, ndim, from->dtype);
    if (view == NULL)
        return NULL;
    view->dl_tensor.data = from->data;
    view->dl_tensor.device = from->device;
    view->dl_tensor.byte_offset = from->byte_offset;
    return view;
}

TVMDSPTensor *TVMDSPBuiltinMakeTupleDirect(TVMFFIAny *elements, int32_t count)
{
    if (elements == NULL || count < 1 || elements[0].type_index != kTVMFFITensor)
        return NULL;
    TVMFFIObjectIncRef(elements[0].v_obj);
    return elements[0].v_ptr;
}

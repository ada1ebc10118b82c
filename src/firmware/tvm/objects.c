/* SPDX-License-Identifier: Apache-2.0 */
/* Reference-counted objects, storage and the tensors that view it. A job counts alone, so counts
 * are plain integers. */
#include "firmware/tvm/tvm_impl.h"

#include "base/checked.h"

#include <string.h>

/* Storage up to this size goes to the fast pool while it has room. */
#define FAST_STORAGE_BYTES_MAX 32768u
#define RANK_MAX 16

void TVMFFIObjectIncRef(void *object)
{
    if (object != NULL)
        ((TVMDSPObject *)object)->ref_counter++;
}

void TVMFFIObjectDecRef(void *object)
{
    TVMDSPObject *header = object;
    if (header == NULL || header->ref_counter <= 0)
        return;
    if (--header->ref_counter == 0 && header->deleter != NULL)
        header->deleter(header);
}

int TVMFFIObjectFree(void *object)
{
    TVMFFIObjectDecRef(object);
    return 0;
}

static bool is_counted(const TVMFFIAny *value)
{
    return value->type_index >= kTVMFFIObject;
}

void TVMFFIAnyClear(TVMFFIAny *value)
{
    TVMFFIAny old = *value;
    *value = (TVMFFIAny){.type_index = kTVMFFINone};
    if (is_counted(&old))
        TVMFFIObjectDecRef(old.v_obj);
}

void TVMFFIAnyMove(TVMFFIAny *source, TVMFFIAny *destination)
{
    *destination = *source;
    *source = (TVMFFIAny){.type_index = kTVMFFINone};
}

void TVMFFIAnyCopy(const TVMFFIAny *source, TVMFFIAny *destination)
{
    *destination = *source;
    if (is_counted(source))
        TVMFFIObjectIncRef(source->v_obj);
}

/* ---- Register file ---- */

void TVMDSPRegFileInit(TVMFFIAny *file, int32_t count)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL)
        return;
    context->registers = file;
    context->register_count = file == NULL || count < 0 ? 0 : count;
}

/* The new value is counted first: it may be the only thing that keeps itself alive. */
void TVMDSPRegSetAny(int32_t index, const TVMFFIAny *value)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    TVMFFIAny old;
    if (context == NULL || index < 0 || index >= context->register_count)
        return;
    old = context->registers[index];
    TVMFFIAnyCopy(value, &context->registers[index]);
    TVMFFIAnyClear(&old);
}

int TVMDSPRegFileCleanup(void)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    int count = 0;
    if (context == NULL)
        return 0;
    for (int32_t i = 0; i < context->register_count; i++) {
        count += is_counted(&context->registers[i]) ? 1 : 0;
        TVMFFIAnyClear(&context->registers[i]);
    }
    return count;
}

/* ---- Storage ---- */

static void storage_delete(TVMDSPObject *self)
{
    c7x_tvm_free(((TVMDSPStorage *)self)->data);
    c7x_tvm_free(self);
}

TVMDSPStorage *TVMDSPStorageAlloc(size_t size, DLDevice device, DLDataType hint)
{
    TVMDSPStorage *storage = c7x_tvm_alloc(sizeof(*storage), 0, TVMDSP_POOL_MAIN);
    (void)hint;
    if (storage == NULL)
        return NULL;
    *storage = (TVMDSPStorage){.header = {kTVMDSPStorage, 1, storage_delete},
                               .size = size,
                               .device = device,
                               .pool_id = TVMDSP_POOL_FAST};
    if (size <= FAST_STORAGE_BYTES_MAX)
        storage->data = c7x_tvm_alloc(size, 0, TVMDSP_POOL_FAST);
    if (storage->data == NULL) {
        storage->pool_id = TVMDSP_POOL_MAIN;
        storage->data = c7x_tvm_alloc(size, 0, TVMDSP_POOL_MAIN);
    }
    if (storage->data == NULL) {
        c7x_tvm_free(storage);
        return NULL;
    }
    return storage;
}

/* ---- Tensors ---- */

bool c7x_tvm_tensor_bytes(const int64_t *shape, int32_t ndim, unsigned bits, unsigned lanes,
                          uint64_t *out_bytes)
{
    uint64_t total = (uint64_t)bits * lanes;
    for (int32_t i = 0; i < ndim; i++) {
        if (shape[i] < 0 || !c7x_mul_size(total, (uint64_t)shape[i], &total))
            return false;
    }
    *out_bytes = total / 8 + (total % 8 != 0);
    return true;
}

static void tensor_delete(TVMDSPObject *self)
{
    TVMFFIObjectDecRef(((TVMDSPTensor *)self)->storage);
    c7x_tvm_free(self);
}

/* A rank above that of the object's own array has its shape right behind the object. */
TVMDSPTensor *c7x_tvm_tensor_new(const int64_t *shape, int32_t ndim, DLDataType dtype)
{
    TVMDSPTensor *tensor;
    size_t extra;
    if (ndim < 0 || ndim > RANK_MAX)
        return NULL;
    extra = ndim > C7X_TENSOR_RANK_MAX ? (size_t)ndim * sizeof(*shape) : 0;
    tensor = c7x_tvm_alloc(sizeof(*tensor) + extra, 0, TVMDSP_POOL_MAIN);
    if (tensor == NULL)
        return NULL;
    *tensor = (TVMDSPTensor){
        .header = {kTVMFFITensor, 1, tensor_delete},
        .dl_tensor = {.device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype},
    };
    tensor->dl_tensor.shape = extra != 0 ? (int64_t *)(void *)(tensor + 1) : tensor->shape_storage;
    if (ndim != 0)
        memcpy(tensor->dl_tensor.shape, shape, (size_t)ndim * sizeof(*shape));
    return tensor;
}

TVMDSPTensor *TVMDSPStorageAllocNDArray(TVMDSPStorage *storage, int64_t offset,
                                        const int64_t *shape, int32_t ndim, DLDataType dtype)
{
    TVMDSPTensor *tensor;
    uint64_t bytes;
    if (storage == NULL || offset < 0 || ndim < 0 || ndim > RANK_MAX ||
        !c7x_tvm_tensor_bytes(shape, ndim, dtype.bits, dtype.lanes, &bytes) ||
        !c7x_range_inside((uint64_t)offset, bytes, 0, storage->size))
        return NULL;
    tensor = c7x_tvm_tensor_new(shape, ndim, dtype);
    if (tensor == NULL)
        return NULL;
    tensor->dl_tensor.data = (uint8_t *)storage->data + offset;
    tensor->dl_tensor.device = storage->device;
    tensor->storage = storage;
    TVMFFIObjectIncRef(storage);
    return tensor;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/outputs.h"

#include "base/checked.h"
#include "firmware/tvm/tvm_impl.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

/* Outputs stand 64-aligned in the window. */
#define STEP 64u

static const uint8_t *data_of(const DLTensor *tensor)
{
    return tensor->data == NULL ? NULL : (const uint8_t *)tensor->data + tensor->byte_offset;
}

static bool is_compact(const DLTensor *tensor)
{
    int64_t expected = 1;
    if (tensor->strides == NULL)
        return true;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
            return false;
        expected *= tensor->shape[i];
    }
    return true;
}

static enum c7x_status refuse(struct c7x_error *error, uint32_t index, const char *why)
{
    return c7x_error_set(error, C7X_TENSOR, "tvm", "output %" PRIu32 ": %s", index, why);
}

static enum c7x_status describe(const DLTensor *tensor, uint32_t index, struct c7x_tensor *out,
                                struct c7x_error *error)
{
    if (tensor->ndim < 0 || tensor->ndim > C7X_INFER_RANK_MAX)
        return refuse(error, index, "more dimensions than a descriptor holds");
    memset(out, 0, sizeof(*out));
    if (!c7x_tvm_tensor_bytes(tensor->shape, tensor->ndim, tensor->dtype.bits, 1, &out->data_size))
        return refuse(error, index, "negative or too large shape");
    if (!is_compact(tensor))
        return refuse(error, index, "not compact");
    if (data_of(tensor) == NULL && out->data_size != 0)
        return refuse(error, index, "no data");
    out->ndim = tensor->ndim;
    out->dtype_code = tensor->dtype.code;
    out->dtype_bits = tensor->dtype.bits;
    out->tuple_index = (int32_t)index;
    for (int32_t i = 0; i < tensor->ndim; i++)
        out->shape[i] = tensor->shape[i];
    return C7X_OK;
}

/* The outputs' tensors, in order, and their places in the tuple. */
struct list {
    uint32_t count;
    const DLTensor *tensors[C7X_INFER_OUTPUTS_MAX];
    uint32_t indexes[C7X_INFER_OUTPUTS_MAX];
};

static void add(struct list *list, const TVMFFIAny *value, uint32_t index)
{
    const TVMDSPTensor *tensor = value->v_ptr;
    if (value->type_index != kTVMFFITensor || tensor == NULL)
        return;
    list->tensors[list->count] = &tensor->dl_tensor;
    list->indexes[list->count++] = index;
}

static enum c7x_status collect(const TVMFFIAny *output, struct list *list, struct c7x_error *error)
{
    const TVMDSPArray *array = output->v_ptr;
    list->count = 0;
    add(list, output, 0);
    if (output->type_index != kTVMFFIArray || array == NULL)
        return C7X_OK;
    if (array->size < 0 || array->size > C7X_ARRAY_SIZE_MAX)
        return c7x_error_set(error, C7X_TENSOR, "tvm", "a tuple of %" PRId32 " outputs",
                             array->size);
    for (int32_t i = 0; i < array->size; i++)
        add(list, &array->elements[i], (uint32_t)i);
    return C7X_OK;
}

/* False: the shape is not fixed. */
static bool declared_bytes(const struct c7x_manifest_io *declared, uint64_t *out_bytes)
{
    return c7x_tvm_tensor_bytes(declared->shape, declared->ndim, declared->dtype_bits, 1,
                                out_bytes);
}

enum c7x_status c7x_tvm_check_outputs(const struct c7x_manifest *manifest, const TVMFFIAny *output,
                                      struct c7x_error *error)
{
    struct list list;
    struct c7x_tensor tensor;
    uint64_t bytes;
    if (!manifest->present || manifest->output_count == 0)
        return C7X_OK;
    C7X_RETURN_IF_ERROR(collect(output, &list, error));
    if (list.count != manifest->output_count)
        return c7x_error_set(error, C7X_TENSOR, "tvm",
                             "the module declares %" PRIu32 " outputs and returned %" PRIu32,
                             manifest->output_count, list.count);
    for (uint32_t i = 0; i < list.count; i++) {
        C7X_RETURN_IF_ERROR(describe(list.tensors[i], list.indexes[i], &tensor, error));
        if (declared_bytes(&manifest->outputs[i], &bytes) && bytes != tensor.data_size)
            return c7x_error_set(error, C7X_TENSOR, "tvm",
                                 "output %" PRIu32 " \"%s\": %" PRIu64
                                 " bytes are declared, %" PRIu64 " were returned",
                                 i, manifest->outputs[i].name, bytes, tensor.data_size);
    }
    return C7X_OK;
}

/* Where output `index` belongs in the window, as it is declared; false: that is not known before.
 */
static bool declared_place(const struct c7x_manifest *manifest, uint32_t index, uint64_t size,
                           uint64_t *out_offset)
{
    uint64_t offset = 0;
    uint64_t bytes = 0;
    if (!manifest->present || index >= manifest->output_count)
        return false;
    for (uint32_t i = 0; i <= index; i++) {
        *out_offset = offset;
        if (!declared_bytes(&manifest->outputs[i], &bytes) ||
            !c7x_add_size(offset, bytes, &offset) || !c7x_align_size(offset, STEP, &offset))
            return false;
    }
    return bytes == size;
}

/* Inputs may be in the window, too: then they are read before the outputs come there. */
static bool has_input_in_window(const struct c7x_infer *infer)
{
    for (uint32_t i = 0; i < infer->input_count; i++)
        if (c7x_ranges_overlap((uintptr_t)infer->result, infer->result_size,
                               (uintptr_t)infer->inputs[i].data, infer->inputs[i].data_size))
            return true;
    return false;
}

void *c7x_module_output(int32_t index, uint64_t size)
{
    const struct c7x_tvm_context *context = c7x_tvm_context();
    const struct c7x_infer *infer = context != NULL ? context->infer : NULL;
    uint64_t offset;
    if (infer == NULL || infer->result == NULL || infer->kv != NULL || index < 0 ||
        !declared_place(context->manifest, (uint32_t)index, size, &offset) ||
        !c7x_range_inside(offset, size, 0, infer->result_size) || has_input_in_window(infer))
        return NULL;
    return infer->result + offset;
}

/* Offsets of the outputs that go to the window, and the bytes that they need with the descriptors,
 * if those stand there too. */
static enum c7x_status measure(const struct list *list, uint32_t count,
                               struct c7x_infer_result *result, uint64_t *offsets,
                               uint64_t *out_need, struct c7x_error *error)
{
    uint64_t end = 0;
    *out_need = 0;
    for (uint32_t i = 0; i < count; i++) {
        C7X_RETURN_IF_ERROR(
            describe(list->tensors[i], list->indexes[i], &result->outputs[i], error));
        offsets[i] = end;
        if (!c7x_add_size(end, result->outputs[i].data_size, out_need) ||
            !c7x_align_size(*out_need, STEP, &end))
            return refuse(error, list->indexes[i], "too large");
    }
    result->output_count = count;
    result->result_used = end;
    if (count > C7X_INFER_OUTPUTS_INLINE_MAX)
        *out_need = end + (uint64_t)count * C7X_INFER_DESCRIPTOR_BYTES;
    return C7X_OK;
}

static void place(const DLTensor *tensor, const struct c7x_infer *infer, uint64_t offset,
                  struct c7x_tensor *out)
{
    const uint8_t *data = data_of(tensor);
    uint64_t distance = (uint64_t)((uintptr_t)data - (uintptr_t)infer->result);
    if (data == NULL || !c7x_range_inside(distance, out->data_size, 0, infer->result_size)) {
        distance = offset;
        if (out->data_size != 0)
            memmove(infer->result + offset, data, (size_t)out->data_size);
    }
    out->address = infer->result_address + distance;
    if (infer->result == NULL)
        return;
    out->data = infer->result + distance;
    c7x_os_cache_writeback(out->data, (size_t)out->data_size);
}

static uint8_t *slot_of(const struct c7x_kv_region *kv, uint32_t index)
{
    return kv->pointer + (index - 1) * kv->slot_bytes;
}

/*
 * Whether output `index` fits its slot. One that lies in the region already, as a cache that the
 * module passes through, must lie where it belongs: another slot may be written first.
 */
static enum c7x_status check_slot(const struct list *list, uint32_t index,
                                  const struct c7x_kv_region *kv, struct c7x_error *error)
{
    struct c7x_tensor tensor;
    const uint8_t *data = data_of(list->tensors[index]);
    if (index - 1 >= kv->slot_count)
        return c7x_error_set(error, C7X_SIZE, "tvm",
                             "%" PRIu32 " outputs; the KV region takes %" PRIu32 " after the first",
                             list->count, kv->slot_count);
    C7X_RETURN_IF_ERROR(describe(list->tensors[index], list->indexes[index], &tensor, error));
    if (tensor.data_size > kv->slot_bytes)
        return c7x_error_set(error, C7X_SIZE, "tvm",
                             "output %" PRIu32 " has %" PRIu64
                             " bytes; a slot of the KV region has %" PRIu64,
                             list->indexes[index], tensor.data_size, kv->slot_bytes);
    if (tensor.data_size != 0 && data != slot_of(kv, index) &&
        c7x_ranges_overlap((uintptr_t)data, tensor.data_size, (uintptr_t)kv->pointer, kv->size))
        return refuse(error, list->indexes[index], "lies in another slot of the KV region");
    return C7X_OK;
}

static void fill_slot(const DLTensor *tensor, uint8_t *slot)
{
    uint64_t size;
    if (data_of(tensor) == slot ||
        !c7x_tvm_tensor_bytes(tensor->shape, tensor->ndim, tensor->dtype.bits, 1, &size))
        return;
    if (size != 0)
        memcpy(slot, data_of(tensor), (size_t)size);
}

enum c7x_status c7x_tvm_place_outputs(const TVMFFIAny *output, const struct c7x_infer *infer,
                                      struct c7x_infer_result *out_result, struct c7x_error *error)
{
    struct list list;
    uint64_t offsets[C7X_INFER_OUTPUTS_MAX];
    uint64_t need;
    C7X_RETURN_IF_ERROR(collect(output, &list, error));
    bool has_slots = infer->kv != NULL && output->type_index == kTVMFFIArray;
    uint32_t count = has_slots && list.count > 1 ? 1 : list.count;
    C7X_RETURN_IF_ERROR(measure(&list, count, out_result, offsets, &need, error));
    for (uint32_t i = count; i < list.count; i++)
        C7X_RETURN_IF_ERROR(check_slot(&list, i, infer->kv, error));
    if (need > infer->result_size) {
        enum c7x_status status =
            c7x_error_set(error, C7X_SIZE, "tvm",
                          "the outputs need %" PRIu64 " bytes; the output window has %" PRIu64,
                          need, infer->result_size);
        if (error != NULL)
            error->required = need;
        return status;
    }
    for (uint32_t i = 0; i < count; i++)
        place(list.tensors[i], infer, offsets[i], &out_result->outputs[i]);
    for (uint32_t i = count; i < list.count; i++)
        fill_slot(list.tensors[i], slot_of(infer->kv, i));
    return C7X_OK;
}

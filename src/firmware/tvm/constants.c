/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/constants.h"

#include "base/checked.h"
#include "firmware/tvm/tvm_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RANK_MAX 16
/* Between two c7x_os_interrupt_point(): constants, bytes of padding. */
#define STEP 64u
#define PADDING_STEP 65536u

struct c7x_constant_object {
    union {
        TVMDSPTensor tensor;
        TVMDSPShape shape;
        TVMDSPString string;
    } object;
    int64_t dimensions[RANK_MAX]; /* of a tensor whose rank passes the object's own array */
    void *extra;                  /* heap block of a long shape, else NULL */
};

/* Where the reader stands, and what its messages need. */
struct reader {
    const uint8_t *bytes;
    uint64_t size;
    uint64_t at;
    uint32_t index;
    uint32_t owner;
    struct c7x_error *error;
};

static enum c7x_status refuse(struct reader *reader, const char *format, ...) C7X_PRINTF(2, 3);

static enum c7x_status refuse(struct reader *reader, const char *format, ...)
{
    char why[128];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    return c7x_error_set(reader->error, C7X_WEIGHTS, "tvm",
                         "weights: constant %" PRIu32 " at byte %" PRIu64 " of %" PRIu64 ": %s",
                         reader->index, reader->at, reader->size, why);
}

/* The next `size` bytes where they lie, or NULL. */
static const uint8_t *take(struct reader *reader, uint64_t size)
{
    const uint8_t *bytes = reader->bytes + reader->at;
    if (!c7x_range_inside(reader->at, size, 0, reader->size))
        return NULL;
    reader->at += size;
    return bytes;
}

static enum c7x_status read_bytes(struct reader *reader, void *out, uint64_t size, const char *what)
{
    const uint8_t *bytes = take(reader, size);
    if (bytes == NULL)
        return refuse(reader, "%s passes the end of the blob", what);
    memcpy(out, bytes, (size_t)size);
    return C7X_OK;
}

/* Every type index is nonzero, and its first byte too: what is zero before it is padding. */
static void skip_padding(struct reader *reader)
{
    while (reader->at < reader->size && reader->bytes[reader->at] == 0) {
        reader->at++;
        if (reader->at % PADDING_STEP == 0)
            c7x_os_interrupt_point();
    }
}

struct tensor_head {
    uint64_t magic;
    uint64_t reserved;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
};

static enum c7x_status read_tensor_data(struct reader *reader, DLTensor *tensor)
{
    int64_t size = 0;
    uint64_t expected;
    C7X_RETURN_IF_ERROR(read_bytes(reader, &size, sizeof(size), "size of the tensor"));
    if (!c7x_tvm_tensor_bytes(tensor->shape, tensor->ndim, tensor->dtype.bits, tensor->dtype.lanes,
                              &expected))
        return refuse(reader, "shape of the tensor is negative or too large");
    if (size < 0 || (uint64_t)size != expected)
        return refuse(reader, "%" PRId64 " bytes of data, but its shape has %" PRIu64, size,
                      expected);
    tensor->data = (void *)(uintptr_t)take(reader, (uint64_t)size);
    if (tensor->data == NULL)
        return refuse(reader, "%" PRId64 " bytes of data pass the end of the blob", size);
    return C7X_OK;
}

static enum c7x_status read_tensor(struct reader *reader, struct c7x_constant_object *object,
                                   TVMFFIAny *out)
{
    TVMDSPTensor *tensor = &object->object.tensor;
    struct tensor_head head;
    C7X_RETURN_IF_ERROR(read_bytes(reader, &head, sizeof(head), "head of the tensor"));
    if (head.magic != C7X_WEIGHTS_TENSOR_MAGIC)
        return refuse(reader, "no tensor there (magic 0x%" PRIx64 ")", head.magic);
    if (head.ndim < 0 || head.ndim > RANK_MAX)
        return refuse(reader, "rank %" PRId32 " is not 0 to %d", head.ndim, RANK_MAX);
    tensor->header = (TVMDSPObject){kTVMFFITensor, 1, NULL};
    tensor->dl_tensor = (DLTensor){
        .device = {kDLCPU, 0},
        .ndim = head.ndim,
        .dtype = head.dtype,
        .shape = head.ndim > C7X_TENSOR_RANK_MAX ? object->dimensions : tensor->shape_storage,
    };
    C7X_RETURN_IF_ERROR(read_bytes(reader, tensor->dl_tensor.shape,
                                   (uint64_t)head.ndim * sizeof(int64_t), "shape of the tensor"));
    C7X_RETURN_IF_ERROR(read_tensor_data(reader, &tensor->dl_tensor));
    out->v_ptr = tensor;
    return C7X_OK;
}

static enum c7x_status read_shape(struct reader *reader, struct c7x_heap *heap,
                                  struct c7x_constant_object *object, TVMFFIAny *out)
{
    TVMDSPShape *shape = &object->object.shape;
    uint64_t count = 0;
    C7X_RETURN_IF_ERROR(read_bytes(reader, &count, sizeof(count), "length of the shape"));
    if (count > reader->size / sizeof(int64_t))
        return refuse(reader, "%" PRIu64 " dimensions pass the end of the blob", count);
    shape->header = (TVMDSPObject){kTVMFFIShape, 1, NULL};
    shape->size = (size_t)count;
    shape->data = shape->inline_data;
    if (count > C7X_TENSOR_RANK_MAX) {
        size_t bytes = (size_t)count * sizeof(int64_t);
        object->extra = c7x_heap_alloc(heap, reader->owner, bytes, 0);
        if (object->extra == NULL)
            return c7x_error_set_oom(reader->error, "tvm", c7x_heap_oom(heap, bytes), "constants");
        shape->data = object->extra;
    }
    const uint8_t *dimensions = take(reader, count * sizeof(int64_t));
    if (dimensions == NULL)
        return refuse(reader, "shape passes the end of the blob");
    c7x_memory_copy(shape->data, dimensions, count * sizeof(int64_t));
    out->v_ptr = shape;
    return C7X_OK;
}

static enum c7x_status read_string(struct reader *reader, struct c7x_constant_object *object,
                                   TVMFFIAny *out)
{
    TVMDSPString *string = &object->object.string;
    uint64_t length = 0;
    C7X_RETURN_IF_ERROR(read_bytes(reader, &length, sizeof(length), "length of the string"));
    string->header = (TVMDSPObject){kTVMFFIStr, 1, NULL};
    string->size = (size_t)length;
    string->data = (const char *)take(reader, length);
    if (string->data == NULL)
        return refuse(reader, "string of %" PRIu64 " bytes passes the end of the blob", length);
    out->v_ptr = string;
    return C7X_OK;
}

static enum c7x_status read_constant(struct reader *reader, struct c7x_heap *heap,
                                     struct c7x_constant_object *object, TVMFFIAny *out)
{
    skip_padding(reader);
    C7X_RETURN_IF_ERROR(
        read_bytes(reader, &out->type_index, sizeof(out->type_index), "type index"));
    switch (out->type_index) {
    case kTVMFFITensor:
        return read_tensor(reader, object, out);
    case kTVMFFIShape:
        return read_shape(reader, heap, object, out);
    case kTVMFFIStr:
        return read_string(reader, object, out);
    case kTVMFFIInt:
    case kTVMFFIFloat:
        return read_bytes(reader, &out->v_int64, sizeof(out->v_int64), "number");
    case kTVMFFIDataType:
        return read_bytes(reader, &out->v_dtype, sizeof(out->v_dtype), "data type");
    default:
        return refuse(reader, "unknown type index %" PRId32, out->type_index);
    }
}

static enum c7x_status allocate(struct c7x_constants *constants, uint32_t owner,
                                struct c7x_error *error)
{
    size_t value_bytes = constants->count * sizeof(*constants->values);
    size_t object_bytes = constants->count * sizeof(*constants->objects);
    constants->values = c7x_heap_alloc(constants->heap, owner, value_bytes, 0);
    constants->objects = c7x_heap_alloc(constants->heap, owner, object_bytes, 0);
    if (constants->values != NULL)
        memset(constants->values, 0, value_bytes);
    if (constants->objects != NULL)
        memset(constants->objects, 0, object_bytes);
    if (constants->values == NULL || constants->objects == NULL)
        return c7x_error_set_oom(
            error, "tvm", c7x_heap_oom(constants->heap, value_bytes + object_bytes), "constants");
    return C7X_OK;
}

static enum c7x_status read_all(struct reader *reader, struct c7x_constants *constants)
{
    uint64_t count = 0;
    if (reader->size < sizeof(count))
        return c7x_error_set(reader->error, C7X_WEIGHTS, "tvm",
                             "weights: %" PRIu64 " bytes are too few", reader->size);
    C7X_RETURN_IF_ERROR(read_bytes(reader, &count, sizeof(count), "count"));
    if (count > C7X_WEIGHTS_COUNT_MAX)
        return c7x_error_set(reader->error, C7X_WEIGHTS, "tvm",
                             "weights: %" PRIu64 " constants, more than %u", count,
                             C7X_WEIGHTS_COUNT_MAX);
    constants->count = (uint32_t)count;
    C7X_RETURN_IF_ERROR(allocate(constants, reader->owner, reader->error));
    for (; reader->index < constants->count; reader->index++) {
        C7X_RETURN_IF_ERROR(read_constant(reader, constants->heap,
                                          &constants->objects[reader->index],
                                          &constants->values[reader->index]));
        if (reader->index % STEP == 0)
            c7x_os_interrupt_point();
    }
    return C7X_OK;
}

enum c7x_status c7x_constants_load(const uint8_t *bytes, uint64_t size, struct c7x_heap *heap,
                                   uint32_t owner, struct c7x_constants *out,
                                   struct c7x_error *error)
{
    struct reader reader = {.bytes = bytes, .size = size, .owner = owner, .error = error};
    struct c7x_constants constants = {.heap = heap};
    enum c7x_status status = read_all(&reader, &constants);
    if (status != C7X_OK) {
        c7x_constants_unload(&constants);
        return status;
    }
    *out = constants;
    return C7X_OK;
}

void c7x_constants_unload(struct c7x_constants *constants)
{
    for (uint32_t i = 0; constants->objects != NULL && i < constants->count; i++)
        c7x_heap_free(constants->heap, constants->objects[i].extra);
    if (constants->heap != NULL) {
        c7x_heap_free(constants->heap, constants->objects);
        c7x_heap_free(constants->heap, constants->values);
    }
    *constants = (struct c7x_constants){0};
}

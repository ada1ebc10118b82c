/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/inputs.h"

#include "firmware/tvm/tvm_impl.h"

#include <inttypes.h>
#include <stdio.h>

#define TYPE_BYTES 200u

static const char *code_name(int32_t code)
{
    static const char *const names[] = {"int",    "uint",    "float", "handle",
                                        "bfloat", "complex", "bool"};
    return code >= 0 && code <= kDLBool ? names[code] : "type?";
}

/* "float32 [1, 3, -1]"; a dimension that may be anything is "?". */
static void print_type(char text[TYPE_BYTES], int32_t code, int32_t bits, const int64_t *shape,
                       int32_t ndim)
{
    int at = snprintf(text, TYPE_BYTES, "%s%" PRId32 " [", code_name(code), bits);
    for (int32_t i = 0; i < ndim && at > 0 && (unsigned)at < TYPE_BYTES; i++)
        at += snprintf(text + at, TYPE_BYTES - (unsigned)at, shape[i] < 0 ? "%s?" : "%s%" PRId64,
                       i == 0 ? "" : ", ", shape[i]);
    if (at > 0 && (unsigned)at < TYPE_BYTES)
        (void)snprintf(text + at, TYPE_BYTES - (unsigned)at, "]");
}

/* Older clients send booleans as bytes. */
static bool type_matches(const struct c7x_manifest_io *expected, const struct c7x_tensor *tensor)
{
    if (expected->dtype_bits != tensor->dtype_bits)
        return false;
    return expected->dtype_code == tensor->dtype_code ||
           (expected->dtype_code == kDLBool && tensor->dtype_code == kDLUInt);
}

static bool shape_matches(const struct c7x_manifest_io *expected, const struct c7x_tensor *tensor)
{
    if (expected->ndim != tensor->ndim)
        return false;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (expected->shape[i] >= 0 && expected->shape[i] != tensor->shape[i])
            return false;
    }
    return true;
}

static enum c7x_status check_declared(const struct c7x_manifest_io *expected,
                                      const struct c7x_tensor *tensor, uint32_t index,
                                      struct c7x_error *error)
{
    char wanted[TYPE_BYTES];
    char got[TYPE_BYTES];
    if (type_matches(expected, tensor) && shape_matches(expected, tensor))
        return C7X_OK;
    print_type(wanted, expected->dtype_code, expected->dtype_bits, expected->shape, expected->ndim);
    print_type(got, tensor->dtype_code, tensor->dtype_bits, tensor->shape, tensor->ndim);
    return c7x_error_set(error, C7X_TENSOR, "tvm", "input %" PRIu32 " \"%s\": expected %s, got %s",
                         index, expected->name, wanted, got);
}

static enum c7x_status check_size(const struct c7x_tensor *tensor, uint32_t index,
                                  struct c7x_error *error)
{
    uint64_t bytes;
    if (tensor->ndim < 0 || tensor->ndim > C7X_INFER_RANK_MAX || tensor->dtype_bits < 1 ||
        tensor->dtype_bits > 128 || tensor->dtype_code < 0 || tensor->dtype_code > kDLBool)
        return c7x_error_set(error, C7X_TENSOR, "tvm",
                             "input %" PRIu32 ": rank %" PRId32 ", type %" PRId32 ", %" PRId32
                             " bits: no such tensor",
                             index, tensor->ndim, tensor->dtype_code, tensor->dtype_bits);
    if (!c7x_tvm_tensor_bytes(tensor->shape, tensor->ndim, (unsigned)tensor->dtype_bits, 1, &bytes))
        return c7x_error_set(error, C7X_TENSOR, "tvm",
                             "input %" PRIu32 ": negative or too large shape", index);
    if (bytes != tensor->data_size)
        return c7x_error_set(error, C7X_TENSOR, "tvm",
                             "input %" PRIu32 ": its shape has %" PRIu64 " bytes, got %" PRIu64,
                             index, bytes, tensor->data_size);
    if (tensor->data == NULL && bytes != 0)
        return c7x_error_set(error, C7X_TENSOR, "tvm", "input %" PRIu32 ": no data", index);
    return C7X_OK;
}

enum c7x_status c7x_tvm_check_inputs(const struct c7x_manifest *manifest,
                                     const struct c7x_infer *infer, struct c7x_error *error)
{
    if (infer->input_count > C7X_INFER_INPUTS_MAX)
        return c7x_error_set(error, C7X_TENSOR, "tvm", "%" PRIu32 " inputs, more than %d",
                             infer->input_count, C7X_INFER_INPUTS_MAX);
    if (manifest->present && infer->input_count != manifest->input_count)
        return c7x_error_set(error, C7X_TENSOR, "tvm",
                             "the module takes %" PRIu32 " inputs, got %" PRIu32,
                             manifest->input_count, infer->input_count);
    for (uint32_t i = 0; i < infer->input_count; i++) {
        C7X_RETURN_IF_ERROR(check_size(&infer->inputs[i], i, error));
        if (manifest->present)
            C7X_RETURN_IF_ERROR(check_declared(&manifest->inputs[i], &infer->inputs[i], i, error));
    }
    return C7X_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/crt.h"

#include "base/compiler.h"
#include "firmware/tvm/packed.h"

#include <stdbool.h>
#include <string.h>

/* The type codes of that runtime; those up to kDLFloat are DLPack's. */
enum {
    CRT_INT = 0,
    CRT_UINT = 1,
    CRT_FLOAT = 2,
    CRT_HANDLE = 3,
    CRT_NULL = 4,
    CRT_DATA_TYPE = 5,
    CRT_DEVICE = 6,
    CRT_DLTENSOR = 7,
    CRT_OBJECT = 8,
    CRT_STRING = 11,
    CRT_NDARRAY = 13,
    CRT_BOOL = 15
};

static const struct {
    int code;
    int32_t type_index;
} types[] = {
    {CRT_INT, kTVMFFIInt},       {CRT_BOOL, kTVMFFIBool},
    {CRT_FLOAT, kTVMFFIFloat},   {CRT_HANDLE, kTVMFFIOpaquePtr},
    {CRT_NULL, kTVMFFINone},     {CRT_DATA_TYPE, kTVMFFIDataType},
    {CRT_DEVICE, kTVMFFIDevice}, {CRT_DLTENSOR, kTVMFFIDLTensorPtr},
    {CRT_STRING, kTVMFFIRawStr}, {CRT_NDARRAY, kTVMFFITensor},
    {CRT_UINT, kTVMFFIInt},
};

/* An object says itself what it is. */
static bool to_any(TVMValue value, int code, TVMFFIAny *out)
{
    *out = (TVMFFIAny){.type_index = kTVMFFINone};
    if (code == CRT_OBJECT || code == CRT_NDARRAY) {
        if (value.v_handle != NULL)
            out->type_index = ((const TVMDSPObject *)value.v_handle)->type_index;
        out->v_ptr = value.v_handle;
        return true;
    }
    for (size_t i = 0; i < C7X_ARRAY_COUNT(types); i++) {
        if (types[i].code == code) {
            out->type_index = types[i].type_index;
            out->v_int64 = value.v_int64;
            return true;
        }
    }
    return false;
}

static int code_of(int32_t type_index)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(types); i++) {
        if (types[i].type_index == type_index)
            return types[i].code;
    }
    return type_index >= kTVMFFIObject ? CRT_OBJECT : CRT_HANDLE;
}

static int call_packed(c7x_packed_fn function, const TVMValue *values, const int *codes, int count,
                       TVMValue *out, int *out_code)
{
    TVMFFIAny args[C7X_ARRAY_SIZE_MAX];
    TVMFFIAny result = {.type_index = kTVMFFINone};
    int code;
    if (count < 0 || count > C7X_ARRAY_SIZE_MAX)
        return -1;
    for (int i = 0; i < count; i++) {
        if (!to_any(values[i], codes[i], &args[i]))
            return -1;
    }
    code = function(args, count, &result);
    out->v_int64 = result.v_int64;
    *out_code = code_of(result.type_index);
    return code;
}

int TVMFuncCall(void *function, TVMValue *values, int *type_codes, int num_args, TVMValue *out,
                int *out_type_code)
{
    TVMBackendPackedCFunc own;
    c7x_packed_fn builtin;
    if (function == NULL)
        return -1;
    builtin = c7x_tvm_packed_of(function);
    if (builtin != NULL)
        return call_packed(builtin, values, type_codes, num_args, out, out_type_code);
    memcpy(&own, &function, sizeof(own));
    return own(values, type_codes, num_args, out, out_type_code, NULL);
}

TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *type_codes, uint32_t count)
{
    TVMArgs args = {.values_count = 0};
    if (count == 0 || count > C7X_CRT_ARGS_MAX)
        return args;
    memcpy(args.values, values, count * sizeof(*values));
    memcpy(args.tcodes, type_codes, count * sizeof(*type_codes));
    args.values_count = count;
    return args;
}

#define DEFINE(op, packed)                                                                         \
    int vm_builtin_##op(TVMValue *args, int *type_codes, int num_args, TVMValue *out,              \
                        int *out_type_code, void *resource_handle)                                 \
    {                                                                                              \
        (void)resource_handle;                                                                     \
        return call_packed(packed, args, type_codes, num_args, out, out_type_code);                \
    }
C7X_CRT_BUILTINS(DEFINE)

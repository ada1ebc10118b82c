/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of TVM's C runtime before TVM FFI, for modules that were compiled then: they bring the
 * prototypes of that runtime (c_runtime_api.h, crt/packed_func.h) with them. Values are converted
 * to TVMFFIAny and back; objects are those of c7x_module.h.
 */
#ifndef C7X_FIRMWARE_TVM_CRT_H
#define C7X_FIRMWARE_TVM_CRT_H

#include "c7x_module.h"

typedef union {
    int64_t v_int64;
    double v_float64;
    void *v_handle;
    const char *v_str;
    DLDataType v_type;
    DLDevice v_device;
} TVMValue;

/* TVM_CRT_MAX_ARGS as TVM's template of crt_config.h has it. TVMArgs is returned by value, so a
 * module that was built with another number does not fit. */
#define C7X_CRT_ARGS_MAX 10

typedef struct {
    TVMValue values[C7X_CRT_ARGS_MAX];
    int tcodes[C7X_CRT_ARGS_MAX];
    uint32_t values_count;
} TVMArgs;

C7X_MODULE_ASSERT(tvm_value_size, sizeof(TVMValue) == 8);
C7X_MODULE_ASSERT(tvm_args_size, sizeof(TVMArgs) == 128);

/* A packed function of that runtime; 0, or not. */
typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args, TVMValue *out,
                                     int *out_type_code, void *resource_handle);

/*
 * Calls what TVMBackendGetFuncFromEnv or the registry gave: a VM builtin, or a packed function that
 * the module itself registered. -1 for NULL, an unknown type code or more than 128 arguments.
 */
int TVMFuncCall(void *function, TVMValue *values, int *type_codes, int num_args, TVMValue *out,
                int *out_type_code);
/* More values than fit: an empty TVMArgs. */
TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *type_codes, uint32_t count);

/* vm_builtin_<op>, a TVMBackendPackedCFunc, is the packed builtin of c7x_module.h. */
#define C7X_CRT_BUILTINS(X)                                                                        \
    X(alloc_storage, TVMDSPBuiltinAllocStoragePacked)                                              \
    X(alloc_tensor, TVMDSPBuiltinAllocTensorPacked)                                                \
    X(alloc_shape_heap, TVMDSPBuiltinAllocShapeHeapPacked)                                         \
    X(make_shape, TVMDSPBuiltinMakeShapePacked)                                                    \
    X(match_shape, TVMDSPBuiltinMatchShapePacked)                                                  \
    X(check_tensor_info, TVMDSPBuiltinCheckTensorInfoPacked)                                       \
    X(null_value, TVMDSPBuiltinNullValuePacked)                                                    \
    X(copy, TVMDSPBuiltinCopyPacked)                                                               \
    X(make_tuple, TVMDSPBuiltinMakeTuplePacked)                                                    \
    X(reshape, TVMDSPBuiltinReshapePacked)

#define C7X_CRT_DECLARE(op, packed)                                                                \
    int vm_builtin_##op(TVMValue *args, int *type_codes, int num_args, TVMValue *out,              \
                        int *out_type_code, void *resource_handle);
C7X_CRT_BUILTINS(C7X_CRT_DECLARE)

#endif

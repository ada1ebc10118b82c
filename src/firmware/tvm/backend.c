/* SPDX-License-Identifier: Apache-2.0 */
/* TVM's C backend API (TVM c_backend_api.h) as modules import it. */
#include "firmware/tvm/packed.h"
#include "firmware/tvm/tvm_impl.h"

#include <string.h>

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t size, int dtype_code,
                               int dtype_bits)
{
    (void)device_type;
    (void)device_id;
    (void)dtype_code;
    (void)dtype_bits;
    return size > SIZE_MAX ? NULL : c7x_tvm_alloc_workspace((size_t)size);
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *workspace)
{
    (void)device_type;
    (void)device_id;
    c7x_tvm_free(workspace);
    return 0;
}

static void *find_registered(const char *name)
{
    const struct c7x_tvm_context *context = c7x_tvm_context();
    for (uint32_t i = 0; context != NULL && i < context->symbol_count; i++) {
        if (strcmp(context->symbols[i].name, name) == 0)
            return context->symbols[i].address;
    }
    return NULL;
}

int TVMBackendGetFuncFromGlobalRegistry(const char *name, void **out_function)
{
    c7x_packed_fn builtin = c7x_tvm_find_packed(name);
    void *function = find_registered(name);
    if (builtin != NULL)
        memcpy(&function, &builtin, sizeof(function));
    if (function == NULL)
        return -1;
    *out_function = function;
    return 0;
}

int TVMBackendGetFuncFromEnv(void *module, const char *name, void **out_function)
{
    (void)module;
    return TVMBackendGetFuncFromGlobalRegistry(name, out_function);
}

/* A table for each instance: names of one module mean nothing to another. */
int TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    if (context == NULL || context->is_task || context->symbol_count == C7X_TVM_SYMBOL_COUNT_MAX)
        return -1;
    if (context->symbols == NULL)
        context->symbols = c7x_tvm_alloc(C7X_TVM_SYMBOL_COUNT_MAX * sizeof(*context->symbols), 0,
                                         TVMDSP_POOL_MAIN);
    if (context->symbols == NULL)
        return -1;
    context->symbols[context->symbol_count++] = (struct c7x_tvm_symbol){name, symbol};
    return 0;
}

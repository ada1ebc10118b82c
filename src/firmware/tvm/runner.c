/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TVM kind of module: binds an entry to its constants and calls it.
 *
 * An instance owns the Tensor objects of its inputs, because the module's registers keep pointing
 * at them until the next call or clean-up (facts of the ABI: a dead input object would be released
 * then).
 */
#include "firmware/tvm/tvm.h"

#include "base/log.h"
#include "base/trace.h"
#include "firmware/printf/printf.h"
#include "firmware/tvm/constants.h"
#include "firmware/tvm/inputs.h"
#include "firmware/tvm/manifest.h"
#include "firmware/tvm/model.h"
#include "firmware/tvm/outputs.h"
#include "firmware/tvm/tvm_impl.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

typedef int (*entry_fn)(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output);
typedef void (*hook_fn)(void);

struct instance {
    struct c7x_tvm_context context;
    entry_fn entry;
    hook_fn print_profile; /* NULL without */
    hook_fn clean_up;      /* NULL without */
    struct c7x_constants constants;
    struct c7x_manifest manifest;
    TVMDSPTensor *inputs;
    TVMFFIAny *input_values;
    uint32_t input_capacity;
    uint32_t pinned_model; /* while a call uses it, else 0 */
    /* Set while module code runs; still set later when that was abandoned (fault, deadline). */
    bool is_running;
    bool aborted;
};

/* ---- Bind ---- */

/* ISO C has no cast from an object pointer to a function pointer. */
static hook_fn hook_of(void *address)
{
    hook_fn hook = NULL;
    if (address != NULL)
        memcpy(&hook, &address, sizeof(hook));
    return hook;
}

static enum c7x_status bind_entry(struct instance *instance,
                                  const struct c7x_symbol_source *symbols, struct c7x_error *error)
{
    void *entry = symbols->find(symbols, "cg_main_dsp");
    if (entry == NULL)
        return c7x_error_set(error, C7X_SYMBOL, "tvm", "the module has no entry cg_main_dsp");
    memcpy(&instance->entry, &entry, sizeof(instance->entry));
    instance->print_profile = hook_of(symbols->find(symbols, "TVMPrintLayerProfile"));
    instance->clean_up = hook_of(symbols->find(symbols, "tidl_bridge_cleanup"));
    return C7X_OK;
}

static bool constant_has_size(const TVMFFIAny *value, uint64_t size)
{
    const TVMDSPTensor *tensor = value->v_ptr;
    uint64_t bytes;
    return value->type_index == kTVMFFITensor &&
           c7x_tvm_tensor_bytes(tensor->dl_tensor.shape, tensor->dl_tensor.ndim,
                                tensor->dl_tensor.dtype.bits, tensor->dl_tensor.dtype.lanes,
                                &bytes) &&
           bytes == size;
}

/* The code reads its constants without a look at their shapes, so they must be those it was made
 * for. */
static enum c7x_status check_constants(const struct c7x_manifest *manifest,
                                       const struct c7x_constants *constants,
                                       struct c7x_error *error)
{
    if (manifest->constant_sizes == NULL)
        return C7X_OK;
    if (constants->count != manifest->constant_count)
        return c7x_error_set(error, C7X_WEIGHTS, "tvm", "%u constants; the module is made for %u",
                             constants->count, manifest->constant_count);
    for (uint32_t i = 0; i < constants->count; i++) {
        uint64_t size;
        memcpy(&size, manifest->constant_sizes + i * sizeof(size), sizeof(size));
        if (!constant_has_size(&constants->values[i], size))
            return c7x_error_set(error, C7X_WEIGHTS, "tvm",
                                 "constant %u is not the tensor of %llu bytes that the module is "
                                 "made for",
                                 i, (unsigned long long)size);
    }
    return C7X_OK;
}

static enum c7x_status bind_constants(struct instance *instance,
                                      const struct c7x_symbol_source *symbols,
                                      struct c7x_error *error)
{
    static const char start_name[] = "_binary_weights_bin_start";
    uint64_t size;
    const uint8_t *bytes;
    if (symbols->find(symbols, start_name) == NULL)
        return C7X_OK;
    bytes = c7x_symbol_bytes(symbols, start_name, "_binary_weights_bin_size", &size);
    if (bytes == NULL)
        return c7x_error_set(error, C7X_WEIGHTS, "tvm",
                             "weights: their size is missing or passes the end of the segment");
    c7x_os_cache_invalidate((void *)(uintptr_t)bytes, (size_t)size);
    C7X_RETURN_IF_ERROR(c7x_constants_load(bytes, size, c7x_tvm.heap, instance->context.owner,
                                           &instance->constants, error));
    return check_constants(&instance->manifest, &instance->constants, error);
}

static enum c7x_status bind_all(struct instance *instance, const struct c7x_symbol_source *symbols,
                                struct c7x_error *error)
{
    uint32_t owner = instance->context.owner;
    C7X_RETURN_IF_ERROR(bind_entry(instance, symbols, error));
    C7X_RETURN_IF_ERROR(
        c7x_manifest_read(symbols, c7x_tvm.heap, owner, &instance->manifest, error));
    return bind_constants(instance, symbols, error);
}

static void destroy(struct instance *instance)
{
    c7x_constants_unload(&instance->constants);
    c7x_tvm_model_unpin(instance->pinned_model);
    (void)c7x_heap_free_owner(c7x_tvm.heap, instance->context.workspace_owner);
    if (c7x_tvm.fast_heap != NULL)
        (void)c7x_heap_free_owner(c7x_tvm.fast_heap, instance->context.fast_owner);
    c7x_heap_free(c7x_tvm.heap, instance->context.symbols);
    c7x_heap_free(c7x_tvm.heap, instance->manifest.inputs);
    c7x_heap_free(c7x_tvm.heap, instance->inputs);
    c7x_heap_free(c7x_tvm.heap, instance->input_values);
    c7x_heap_free(c7x_tvm.heap, instance);
}

static enum c7x_status runner_bind(const struct c7x_symbol_source *symbols, uint32_t owner,
                                   void **out_instance, struct c7x_module_io *out_io,
                                   struct c7x_error *error)
{
    enum c7x_status status;
    struct instance *instance = c7x_heap_alloc(c7x_tvm.heap, owner, sizeof(*instance), 0);
    if (instance == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, sizeof(*instance)),
                                 "instance");
    memset(instance, 0, sizeof(*instance));
    instance->context.owner = owner;
    instance->context.workspace_owner = c7x_heap_owner_new(c7x_tvm.heap);
    if (c7x_tvm.fast_heap != NULL)
        instance->context.fast_owner = c7x_heap_owner_new(c7x_tvm.fast_heap);
    status = bind_all(instance, symbols, error);
    if (status != C7X_OK) {
        destroy(instance);
        return status;
    }
    *out_instance = instance;
    *out_io = c7x_io_meta_read(symbols);
    return C7X_OK;
}

/* ---- Infer ---- */

/* Grows the input objects. Called after the register clean-up, when no register points at the old
 * ones. */
static enum c7x_status reserve_inputs(struct instance *instance, uint32_t count,
                                      struct c7x_error *error)
{
    size_t bytes = count * sizeof(*instance->inputs);
    uint32_t owner = instance->context.owner;
    if (count <= instance->input_capacity)
        return C7X_OK;
    c7x_heap_free(c7x_tvm.heap, instance->inputs);
    c7x_heap_free(c7x_tvm.heap, instance->input_values);
    instance->input_capacity = 0;
    instance->inputs = c7x_heap_alloc(c7x_tvm.heap, owner, bytes, 0);
    instance->input_values =
        c7x_heap_alloc(c7x_tvm.heap, owner, count * sizeof(*instance->input_values), 0);
    if (instance->inputs == NULL || instance->input_values == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, bytes), "input objects");
    instance->input_capacity = count;
    return C7X_OK;
}

static void build_input(const struct c7x_tensor *tensor, TVMDSPTensor *object, TVMFFIAny *value)
{
    *object = (TVMDSPTensor){
        .header = {kTVMFFITensor, 1, NULL},
        .dl_tensor = {.data = tensor->data,
                      .ndim = tensor->ndim,
                      .dtype = {(uint8_t)tensor->dtype_code, (uint8_t)tensor->dtype_bits, 1},
                      .shape = object->shape_storage},
    };
    memcpy(object->shape_storage, tensor->shape, (size_t)tensor->ndim * sizeof(tensor->shape[0]));
    *value = (TVMFFIAny){.type_index = kTVMFFITensor};
    value->v_ptr = object;
}

static enum c7x_status choose_constants(struct instance *instance, const struct c7x_infer *infer,
                                        struct c7x_error *error)
{
    const struct c7x_constants *constants = &instance->constants;
    if (infer->model_id != 0) {
        C7X_RETURN_IF_ERROR(c7x_tvm_model_pin(infer->session, infer->model_id, &constants, error));
        instance->pinned_model = infer->model_id;
    }
    enum c7x_status status = C7X_OK;
    if (infer->model_id != 0 ||
        constants->count == 0) /* others were checked when they were bound */
        status = check_constants(&instance->manifest, constants, error);
    if (status != C7X_OK) {
        c7x_tvm_model_unpin(instance->pinned_model);
        instance->pinned_model = 0;
        return status;
    }
    instance->context.constants = constants->values;
    instance->context.constant_count = (int32_t)constants->count;
    return C7X_OK;
}

/* A section that the module left open is closed: the next switch must not wait for it. */
static void close_sections(const struct c7x_tvm_context *context)
{
    if (context->section_depth == 0)
        return;
    c7x_log("tvm", "the entry returned inside %" PRId32 " critical sections",
            context->section_depth);
    c7x_tvm_section_leave(0);
}

/* One run. Returns what the entry does; instance->aborted says that it called abort instead. */
static int call_entry(struct instance *instance, uint32_t input_count, TVMFFIAny *output,
                      uint64_t *out_cycles)
{
    jmp_buf abort_point;
    uint64_t start;
    int return_value;
    instance->context.abort_point = &abort_point;
    instance->aborted = false;
    if (setjmp(abort_point) != 0) {
        instance->aborted = true;
        return -1;
    }
    c7x_trace(C7X_STATION_KERNEL);
    start = c7x_os_cycles();
    return_value = instance->entry(instance->input_values, (int)input_count,
                                   instance->context.constants, output);
    *out_cycles = c7x_os_cycles() - start;
    return return_value;
}

static int run_once(struct instance *instance, const struct c7x_infer *infer, TVMFFIAny *output,
                    uint64_t *out_cycles)
{
    int return_value;
    (void)TVMDSPRegFileCleanup();
    instance->context.out_of_memory = false;
    for (uint32_t i = 0; i < infer->input_count; i++)
        build_input(&infer->inputs[i], &instance->inputs[i], &instance->input_values[i]);
    *output = (TVMFFIAny){.type_index = kTVMFFINone};
    return_value = call_entry(instance, infer->input_count, output, out_cycles);
    instance->context.abort_point = NULL;
    close_sections(&instance->context);
    if (return_value == 0 && instance->print_profile != NULL)
        instance->print_profile();
    return return_value;
}

static enum c7x_status refuse_call(const struct instance *instance, int return_value,
                                   struct c7x_error *error)
{
    const struct c7x_tvm_context *context = &instance->context;
    if (instance->aborted)
        return c7x_error_set(error, C7X_CALL, "kernel", "the module called abort");
    if (context->out_of_memory)
        return c7x_error_set_oom(error, "kernel", context->oom, "memory of the call");
    if (return_value == C7X_TVM_OUT_OF_MEMORY)
        return c7x_error_set_oom(error, "kernel", c7x_heap_oom(c7x_tvm.heap, 0),
                                 "memory of the call");
    return c7x_error_set(error, C7X_CALL, "kernel", "the entry returned %d", return_value);
}

static enum c7x_status run(struct instance *instance, const struct c7x_infer *infer,
                           struct c7x_infer_result *result, struct c7x_error *error)
{
    TVMFFIAny output = {.type_index = kTVMFFINone};
    uint32_t repeat_count = infer->repeat_count == 0 ? 1 : infer->repeat_count;
    (void)TVMDSPRegFileCleanup();
    C7X_RETURN_IF_ERROR(reserve_inputs(instance, infer->input_count, error));
    for (uint32_t i = 0; i < repeat_count; i++) {
        result->return_value = run_once(instance, infer, &output, &result->cycles);
        if (result->return_value != 0)
            return refuse_call(instance, result->return_value, error);
    }
    C7X_RETURN_IF_ERROR(c7x_tvm_check_outputs(&instance->manifest, &output, error));
    C7X_RETURN_IF_ERROR(c7x_tvm_place_outputs(&output, infer, result, error));
    c7x_trace(C7X_STATION_RESULT);
    return C7X_OK;
}

static void enter(struct instance *instance, struct c7x_printf *printf_target)
{
    instance->context.section_depth = 0;
    instance->is_running = true;
    c7x_tvm_context_set(&instance->context);
    c7x_printf_select(printf_target);
}

/* Gives back at once what the call holds, not only before the next one. */
static void leave(struct instance *instance)
{
    (void)TVMDSPRegFileCleanup();
    (void)c7x_heap_free_owner(c7x_tvm.heap, instance->context.workspace_owner);
    c7x_printf_select(NULL);
    c7x_tvm_context_set(NULL);
    instance->is_running = false;
}

static enum c7x_status runner_infer(void *opaque, const struct c7x_infer *infer,
                                    struct c7x_infer_result *out_result, struct c7x_error *error)
{
    struct instance *instance = opaque;
    enum c7x_status status;
    c7x_trace(C7X_STATION_TVM);
    out_result->cycles = 0;
    out_result->output_count = 0;
    out_result->result_used = 0;
    if (instance->is_running)
        return c7x_error_set(error, C7X_FAULTED, "tvm",
                             "an earlier call of the module never returned");
    C7X_RETURN_IF_ERROR(c7x_tvm_check_inputs(&instance->manifest, infer, error));
    C7X_RETURN_IF_ERROR(choose_constants(instance, infer, error));
    enter(instance, infer->printf);
    status = run(instance, infer, out_result, error);
    leave(instance);
    c7x_tvm_model_unpin(instance->pinned_model);
    instance->pinned_model = 0;
    return status;
}

/* ---- Unbind ---- */

/* After an abandoned call neither the module's code nor its objects can be trusted: only memory is
 * taken back. */
static void runner_unbind(void *opaque)
{
    struct instance *instance = opaque;
    if (!instance->is_running) {
        enter(instance, NULL);
        if (instance->clean_up != NULL)
            instance->clean_up();
        leave(instance);
    }
    destroy(instance);
}

static const char *runner_name(const void *opaque)
{
    const struct instance *instance = opaque;
    return instance->manifest.model;
}

const struct c7x_module_kind_ops c7x_tvm_kind = {
    .check = c7x_manifest_check,
    .bind = runner_bind,
    .infer = runner_infer,
    .unbind = runner_unbind,
    .name = runner_name,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TVM kind of module: binds an entry to its constants and calls it.
 *
 * An instance owns the Tensor objects of its inputs, because the module's registers point at them
 * until the clean-up at the end of the call (facts of the ABI: a dead input object would be
 * released then).
 */
#include "firmware/tvm/tvm.h"

#include "base/compiler.h"
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

/* Reading the clock costs more than a section itself, so not every call is measured. */
#define MEASURED_FIRST 4u
#define MEASURED_EVERY 16u

typedef int (*entry_fn)(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants, TVMFFIAny *output);
typedef void (*hook_fn)(void);

/* Every call needs what stands from the end of the manifest on, but for the end of the context. */
struct instance {
    hook_fn clean_up; /* NULL without */
    struct c7x_manifest manifest;
    entry_fn entry;
    hook_fn print_profile; /* NULL without */
    struct c7x_constants constants;
    TVMDSPTensor *inputs; /* a block of the heap, with the values behind them */
    TVMFFIAny *input_values;
    uint32_t input_capacity;
    uint32_t call_count;
    uint32_t pinned_model; /* while a call uses it, else 0 */
    bool is_faulted; /* a call ended in the middle of its code: neither that nor its objects can be
                      * trusted */
    struct c7x_tvm_context context;
    struct c7x_manifest_io declared[]; /* the manifest's inputs, and outputs */
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
    const char *variant = instance->manifest.entry;
    const char *name = variant[0] != '\0' ? variant : "cg_main_dsp";
    void *entry = symbols->find(symbols, name);
    if (entry == NULL)
        return c7x_error_set(error, C7X_SYMBOL, "tvm", "the module has no entry %s", name);
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

/* Room for the part of L2 that the module says it uses. */
static enum c7x_status bind_scratch(struct instance *instance,
                                    const struct c7x_symbol_source *symbols,
                                    struct c7x_error *error)
{
    uint64_t bytes = instance->manifest.l2_bytes;
    if (bytes > c7x_tvm.l2_size)
        return c7x_error_set(error, C7X_NOMEM, "tvm",
                             "needs %" PRIu64 " bytes of L2; the device has %" PRIu32, bytes,
                             c7x_tvm.l2_size);
    instance->context.is_open = instance->manifest.preempt_anywhere;
    instance->context.scratch.activate = symbols->find(symbols, "c7x_module_activate");
    instance->context.scratch.deactivate = symbols->find(symbols, "c7x_module_deactivate");
    if (!c7x_tvm_reserve_scratch(&instance->context, (uint32_t)bytes))
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, (size_t)bytes),
                                 "copy of L2");
    return C7X_OK;
}

/* Grows the input objects. Called between calls, when no register points at the old ones. */
static enum c7x_status reserve_inputs(struct instance *instance, uint32_t count,
                                      struct c7x_error *error)
{
    size_t bytes = count * (sizeof(*instance->inputs) + sizeof(*instance->input_values));
    if (count <= instance->input_capacity)
        return C7X_OK;
    c7x_heap_free(c7x_tvm.heap, instance->inputs);
    instance->input_capacity = 0;
    instance->inputs = c7x_heap_alloc(c7x_tvm.heap, instance->context.owner, bytes, 0);
    if (instance->inputs == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, bytes), "input objects");
    instance->input_values = (TVMFFIAny *)(void *)(instance->inputs + count);
    instance->input_capacity = count;
    return C7X_OK;
}

static enum c7x_status bind_all(struct instance *instance, const struct c7x_symbol_source *symbols,
                                struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(bind_entry(instance, symbols, error));
    C7X_RETURN_IF_ERROR(bind_scratch(instance, symbols, error));
    C7X_RETURN_IF_ERROR(reserve_inputs(instance, instance->manifest.input_count, error));
    return bind_constants(instance, symbols, error);
}

/* From here on nothing of the module's code runs but its destructors. */
static void release_constants(struct instance *instance, const struct c7x_trace_origin *origin)
{
    c7x_tvm_retire(&instance->context);
    c7x_trace_event(C7X_EVENT_UNLOAD, origin, C7X_UNLOAD_MODEL);
    c7x_tvm_model_unpin(instance->pinned_model);
    c7x_trace_event(C7X_EVENT_UNLOAD, origin, C7X_UNLOAD_CONSTANTS);
    c7x_constants_unload(&instance->constants);
}

static void release_memory(struct instance *instance)
{
    (void)c7x_heap_free_owner(c7x_tvm.heap, instance->context.workspace_owner);
    if (c7x_tvm.fast_heap != NULL)
        (void)c7x_heap_free_owner(c7x_tvm.fast_heap, instance->context.fast_owner);
    c7x_heap_free(c7x_tvm.heap, instance->context.symbols);
    c7x_heap_free(c7x_tvm.heap, instance->inputs);
    c7x_heap_free(c7x_tvm.heap, instance);
    c7x_tvm_release_workspaces();
}

static size_t bytes_of(const struct c7x_manifest *manifest)
{
    return sizeof(struct instance) +
           (manifest->input_count + manifest->output_count) * sizeof(*manifest->inputs);
}

/* What the manifest declares comes into the instance's own block. NULL when out of memory. */
static struct instance *create(const struct c7x_manifest *manifest, uint32_t owner)
{
    struct instance *instance = c7x_heap_alloc(c7x_tvm.heap, owner, bytes_of(manifest), 0);
    if (instance == NULL)
        return NULL;
    memset(instance, 0, sizeof(*instance));
    instance->manifest = *manifest;
    instance->manifest.inputs = instance->declared;
    instance->manifest.outputs = instance->declared + manifest->input_count;
    for (uint32_t i = 0; i < manifest->input_count; i++)
        instance->manifest.inputs[i] = manifest->inputs[i];
    for (uint32_t i = 0; i < manifest->output_count; i++)
        instance->manifest.outputs[i] = manifest->outputs[i];
    instance->context.owner = owner;
    instance->context.workspace_owner = c7x_heap_owner_new(c7x_tvm.heap);
    if (c7x_tvm.fast_heap != NULL)
        instance->context.fast_owner = c7x_heap_owner_new(c7x_tvm.fast_heap);
    return instance;
}

static enum c7x_status runner_bind(const struct c7x_symbol_source *symbols, uint32_t owner,
                                   void **out_instance, struct c7x_module_io *out_io,
                                   struct c7x_error *error)
{
    struct c7x_manifest manifest;
    c7x_tvm_release_workspaces(); /* the module may need the memory */
    C7X_RETURN_IF_ERROR(c7x_manifest_read(symbols, c7x_tvm.heap, owner, &manifest, error));
    struct instance *instance = create(&manifest, owner);
    c7x_heap_free(c7x_tvm.heap, manifest.inputs);
    if (instance == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, bytes_of(&manifest)),
                                 "instance");
    enum c7x_status status = bind_all(instance, symbols, error);
    if (status != C7X_OK) {
        c7x_tvm_retire(&instance->context);
        c7x_constants_unload(&instance->constants);
        release_memory(instance);
        return status;
    }
    *out_instance = instance;
    (void)c7x_io_meta_read(symbols, out_io);
    return C7X_OK;
}

/* ---- Infer ---- */

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

/*
 * One run. Returns what the entry does; context.end says whether it returned at all. While the
 * module's own code runs, interrupts are on, but in its sections.
 */
static int call_entry(struct instance *instance, uint32_t input_count, TVMFFIAny *output,
                      uint64_t *out_cycles)
{
    struct c7x_tvm_context *context = &instance->context;
    const int depth = c7x_os_interrupts_depth();
    jmp_buf end_point;
    uint64_t start;
    uint64_t away;
    int return_value;
    context->end = C7X_TVM_RETURNED;
    context->section_number = 0;
    context->is_cancelled = false;
    context->is_measured =
        instance->call_count < MEASURED_FIRST || instance->call_count % MEASURED_EVERY == 0;
    instance->call_count++;
    context->end_point = &end_point;
    if (setjmp(end_point) != 0) {
        c7x_os_interrupts_restore(depth);
        context->section_depth = 0;
        return -1;
    }
    c7x_tvm_activate(context);
    c7x_trace(C7X_STATION_KERNEL, &context->origin);
    c7x_trace_event(C7X_EVENT_CALL_BEGIN, &context->origin, 0);
    start = c7x_os_cycles();
    away = c7x_os_stack_away();
    c7x_os_interrupts_on();
    return_value =
        instance->entry(instance->input_values, (int)input_count, context->constants, output);
    close_sections(context);
    c7x_os_interrupts_off();
    *out_cycles = c7x_os_cycles() - start - (c7x_os_stack_away() - away);
    return return_value;
}

static void run_print_profile(void *opaque)
{
    const struct instance *instance = opaque;
    instance->print_profile();
}

/* What the run before has in registers and memory; the outputs of the last run stay until they are
 * placed. */
static void give_back(struct instance *instance)
{
    (void)TVMDSPRegFileCleanup();
    c7x_tvm_workspace_clear(instance->context.workspace);
    c7x_tvm_free_workspace_blocks(&instance->context);
}

static int run_once(struct instance *instance, const struct c7x_infer *infer, TVMFFIAny *output,
                    uint64_t *out_cycles)
{
    int return_value;
    instance->context.out_of_memory = false;
    for (uint32_t i = 0; i < infer->input_count; i++)
        build_input(&infer->inputs[i], &instance->inputs[i], &instance->input_values[i]);
    *output = (TVMFFIAny){.type_index = kTVMFFINone};
    return_value = call_entry(instance, infer->input_count, output, out_cycles);
    instance->context.end_point = NULL;
    c7x_trace_event(C7X_EVENT_CALL_END, &infer->origin, instance->context.end);
    if (return_value == 0 && instance->print_profile != NULL &&
        !c7x_os_try(run_print_profile, instance, &instance->context.fault)) {
        instance->context.end = C7X_TVM_FAULTED;
        return -1;
    }
    return return_value;
}

/* A compiled module has a section for each operator, in the order of its manifest. */
static void append_operator(const struct instance *instance, struct c7x_error *error)
{
    const struct c7x_tvm_context *context = &instance->context;
    size_t length;
    const char *name;
    if (context->section_number == 0) {
        c7x_error_append(error, " before the first critical section");
        return;
    }
    name = c7x_manifest_operator(&instance->manifest, context->section_number - 1, &length);
    if (name != NULL)
        c7x_error_append(error, " in operator %" PRIu32 " (%.*s)", context->section_number - 1,
                         (int)length, name);
    else
        c7x_error_append(error, " in or behind critical section %" PRIu32, context->section_number);
}

/* What the processor refused; of a guarded heap (struct c7x_tvm_config), what that was. */
static enum c7x_status refuse_fault(const struct instance *instance, struct c7x_error *error)
{
    const struct c7x_os_fault *fault = &instance->context.fault;
    size_t size;
    size_t distance;
    if (c7x_tvm.guard && c7x_heap_find_overrun(c7x_tvm.heap, fault->address, &size, &distance))
        (void)c7x_error_set(error, C7X_FAULT, "kernel",
                            "heap overrun at 0x%" PRIxPTR ", %zu bytes behind the end of a block "
                            "of %zu bytes",
                            (uintptr_t)fault->address, distance, size);
    else
        (void)c7x_error_set(error, C7X_FAULT, "kernel", "%s at 0x%" PRIxPTR, fault->kind,
                            (uintptr_t)fault->address);
    append_operator(instance, error);
    return C7X_FAULT;
}

static enum c7x_status refuse_end(const struct instance *instance, struct c7x_error *error)
{
    const struct c7x_tvm_context *context = &instance->context;
    switch (context->end) {
    case C7X_TVM_CANCELLED:
        return c7x_error_set(error, C7X_CANCELLED, "kernel",
                             "cancelled at the end of a critical section");
    case C7X_TVM_STUCK:
        (void)c7x_error_set(error, C7X_FAULT, "kernel", "stuck, and ended by the watchdog");
        append_operator(instance, error);
        return C7X_FAULT;
    case C7X_TVM_FAULTED:
        return refuse_fault(instance, error);
    case C7X_TVM_RETURNED:
    case C7X_TVM_ABORTED:
        break;
    }
    return c7x_error_set(error, C7X_CALL, "kernel", "the module called abort");
}

static enum c7x_status refuse_call(const struct instance *instance, int return_value,
                                   struct c7x_error *error)
{
    const struct c7x_tvm_context *context = &instance->context;
    if (context->end != C7X_TVM_RETURNED)
        return refuse_end(instance, error);
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
    C7X_RETURN_IF_ERROR(reserve_inputs(instance, infer->input_count, error));
    for (uint32_t i = 0; i < repeat_count; i++) {
        if (i > 0)
            give_back(instance);
        result->return_value = run_once(instance, infer, &output, &result->cycles);
        if (result->return_value != 0)
            return refuse_call(instance, result->return_value, error);
    }
    C7X_RETURN_IF_ERROR(c7x_tvm_check_outputs(&instance->manifest, &output, error));
    C7X_RETURN_IF_ERROR(c7x_tvm_place_outputs(&output, infer, result, error));
    c7x_trace(C7X_STATION_RESULT, &infer->origin);
    return C7X_OK;
}

static void enter(struct instance *instance, struct c7x_printf *printf_target)
{
    instance->context.section_depth = 0;
    instance->context.export_depth = 0;
    c7x_tvm_context_set(&instance->context);
    c7x_printf_select(printf_target);
}

/* Gives back at once what the call holds, not only before the next one. */
static void leave(struct instance *instance)
{
    if (!instance->is_faulted)
        (void)TVMDSPRegFileCleanup();
    c7x_tvm_free_workspace_blocks(&instance->context);
    c7x_printf_select(NULL);
    c7x_tvm_context_set(NULL);
}

/* While many modules are called in turn, what a call needs of its instance is in no near cache, and
 * each piece would be waited for by itself: all of it, with the first input that is declared. */
static void runner_expect(const void *opaque)
{
    for (size_t at = offsetof(struct instance, manifest.present);
         at < sizeof(struct instance) + C7X_PREFETCH_STEP; at += C7X_PREFETCH_STEP)
        C7X_PREFETCH((const uint8_t *)opaque + at);
}

static enum c7x_status runner_infer(void *opaque, const struct c7x_infer *infer,
                                    struct c7x_infer_result *out_result, struct c7x_error *error)
{
    struct instance *instance = opaque;
    enum c7x_status status;
    c7x_trace(C7X_STATION_TVM, &infer->origin);
    out_result->cycles = 0;
    out_result->output_count = 0;
    out_result->result_used = 0;
    out_result->fault_code = NULL;
    C7X_RETURN_IF_ERROR(c7x_tvm_check_inputs(&instance->manifest, infer, error));
    C7X_RETURN_IF_ERROR(choose_constants(instance, infer, error));
    instance->context.section_count = infer->section_count;
    instance->context.origin = infer->origin;
    instance->context.workspace = c7x_tvm_workspace_take(infer->origin.target);
    instance->context.infer = infer;
    instance->context.manifest = &instance->manifest;
    enter(instance, infer->printf);
    status = run(instance, infer, out_result, error);
    instance->is_faulted = instance->context.end >= C7X_TVM_STUCK;
    out_result->fault_code = instance->is_faulted ? instance->context.fault.code : NULL;
    leave(instance);
    c7x_tvm_workspace_give(instance->context.workspace);
    instance->context.workspace = NULL;
    instance->context.infer = NULL;
    c7x_tvm_model_unpin(instance->pinned_model);
    instance->pinned_model = 0;
    return status;
}

/* ---- Unbind ---- */

static void run_clean_up(void *opaque)
{
    const struct instance *instance = opaque;
    instance->clean_up();
}

static void clean_up(struct instance *instance)
{
    struct c7x_os_fault fault;
    if (c7x_os_try(run_clean_up, instance, &fault))
        return;
    c7x_log("tvm", "the module's clean-up did not come to its end: %s", fault.kind);
    instance->is_faulted = true; /* its registers and destructors are not trusted either */
}

/* Of a faulty instance only memory is taken back. */
static void runner_unbind(void *opaque, const struct c7x_trace_origin *origin)
{
    struct instance *instance = opaque;
    if (!instance->is_faulted) {
        enter(instance, NULL);
        c7x_trace_event(C7X_EVENT_UNLOAD, origin, C7X_UNLOAD_CLEAN_UP);
        if (instance->clean_up != NULL)
            clean_up(instance);
        c7x_trace_event(C7X_EVENT_UNLOAD, origin, C7X_UNLOAD_REGISTERS);
        leave(instance);
    }
    release_constants(instance, origin);
}

static void runner_release(void *opaque, const struct c7x_trace_origin *origin)
{
    c7x_trace_event(C7X_EVENT_UNLOAD, origin, C7X_UNLOAD_POOLS);
    release_memory(opaque);
}

static bool runner_is_faulted(const void *opaque)
{
    const struct instance *instance = opaque;
    return instance->is_faulted;
}

static uint64_t runner_longest_section(const void *opaque)
{
    const struct instance *instance = opaque;
    return atomic_load_explicit(&instance->context.longest_section, memory_order_relaxed);
}

static uint32_t runner_activations(const void *opaque)
{
    const struct instance *instance = opaque;
    return atomic_load_explicit(&instance->context.scratch.activations, memory_order_relaxed);
}

static const char *runner_name(const void *opaque)
{
    const struct instance *instance = opaque;
    return instance->manifest.model;
}

static void runner_visit_operators(const void *opaque, c7x_operator_visit_fn visit, void *context)
{
    const struct instance *instance = opaque;
    c7x_manifest_visit_operators(&instance->manifest, visit, context);
}

const struct c7x_module_kind_ops c7x_tvm_kind = {
    .check = c7x_manifest_check,
    .bind = runner_bind,
    .infer = runner_infer,
    .expect = runner_expect,
    .unbind = runner_unbind,
    .release = runner_release,
    .is_faulted = runner_is_faulted,
    .longest_section = runner_longest_section,
    .activations = runner_activations,
    .name = runner_name,
    .visit_operators = runner_visit_operators,
};

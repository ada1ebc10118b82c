/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/service/service_impl.h"

#include "base/log.h"
#include "firmware/tvm/model.h"
#include "firmware/tvm/tvm.h"

#include <string.h>

#define STATION "service"
#define STUCK_FOR_GOOD_NS 1000000000
#define STUCK_TICKS_APART_NS 500000000 /* at most; else it was another time */
#define LAST_LINE_MAX 120u

static void unpin_staged(void *context, c7x_dsp_addr address)
{
    c7x_service_unpin(context, address);
}

/* A 3.0 client stages everything at one place, so the next load overwrites it. */
static bool overwrites(const struct c7x_service_job *job)
{
    return job->session->version < C7X_WIRE_VERSION_3_1;
}

/* Staged bytes that will not stay are copied. */
static bool wants_copy(const struct c7x_service_job *job)
{
    bool is_kept = (job->request.body.load.flags & C7X_WIRE_LOAD_KEEP) != 0;
    return overwrites(job) ||
           (is_kept && !job->session->service->config.memory->ops->outlives_endpoints);
}

/* What was used in place where this load is staged is gone already. */
static void tell_overwritten(const struct c7x_service_job *job)
{
    const struct c7x_wire_load *load = &job->request.body.load;
    if (!overwrites(job))
        return;
    c7x_module_overwrite(job->session->service->config.modules, job->session->number, load->address,
                         load->size);
    c7x_tvm_model_overwrite(job->session->number, load->address, load->size);
}

/* Version 3.0 calls a full table by the kind of load that did not fit. */
static enum c7x_status refuse_full(const struct c7x_service_job *job, enum c7x_status status_3_0,
                                   struct c7x_error *error)
{
    if (job->session->version < C7X_WIRE_VERSION_3_1)
        error->status = status_3_0;
    return error->status;
}

static uint32_t owner_of_load(const struct c7x_service_job *job)
{
    return (job->request.body.load.flags & C7X_WIRE_LOAD_KEEP) != 0 ? C7X_MODULE_SESSION_DEVICE
                                                                    : job->session->number;
}

/* The staged bytes; the pin on them passes to whoever is told to release it. */
static const uint8_t *take_staged(struct c7x_service_job *job)
{
    const struct c7x_wire_load *load = &job->request.body.load;
    uint8_t *bytes =
        c7x_memory_pointer(job->session->service->config.memory, load->address, load->size);
    c7x_os_cache_invalidate(bytes, load->size);
    job->pins[0] = 0;
    return bytes;
}

static uint32_t modules_of(const struct c7x_session *session)
{
    return c7x_module_session_count(session->service->config.modules, session->number);
}

static uint32_t models_of(const struct c7x_session *session)
{
    return c7x_tvm_model_session_count(session->number);
}

/* What belongs to the device (KEEP) is bounded by the device alone. */
static enum c7x_status check_limit(const struct c7x_service_job *job, const char *what,
                                   uint32_t (*count)(const struct c7x_session *session),
                                   uint32_t count_max, struct c7x_error *error)
{
    char who[C7X_SESSION_DESCRIPTION_MAX];
    if (owner_of_load(job) == C7X_MODULE_SESSION_DEVICE || count(job->session) < count_max)
        return C7X_OK;
    c7x_session_describe(job->session, who);
    return c7x_error_set(error, C7X_BUSY, STATION,
                         "%s holds %u %s, the most that one session may have", who, count_max,
                         what);
}

/* The device is full: says who fills it. */
static void name_holders(struct c7x_service *service, uint32_t kept_count,
                         uint32_t (*count)(const struct c7x_session *session),
                         struct c7x_error *error)
{
    c7x_error_append(error, "; held by the device: %u, by", kept_count);
    c7x_os_mutex_lock(&service->lock);
    c7x_session_append_holders(service, count, error);
    c7x_os_mutex_unlock(&service->lock);
}

static enum c7x_status run_dyn_load(struct c7x_service_job *job, struct c7x_response *response,
                                    struct c7x_error *error)
{
    struct c7x_service *service = job->session->service;
    tell_overwritten(job);
    if (check_limit(job, "modules", modules_of, C7X_WIRE_SESSION_MODULES_MAX, error) != C7X_OK)
        return refuse_full(job, C7X_LOAD, error);
    struct c7x_module_load load = {
        .bytes = take_staged(job),
        .size = job->request.body.load.size,
        .address = job->request.body.load.address,
        .session = owner_of_load(job),
        .priority = job->request.body.load.priority != 0 ? job->request.body.load.priority
                                                         : C7X_WIRE_PRIORITY_DEFAULT,
        .copy_read_only = wants_copy(job),
        .in_place_if_full = overwrites(job),
        .release_bytes = unpin_staged,
        .release_context = service,
        .out_missing = &job->missing,
        .cancelled = &job->is_cancelled,
    };
    uint32_t handle;
    struct c7x_module_io io;
    enum c7x_status status = c7x_module_load(service->config.modules, &load, &handle, &io, error);
    if (status == C7X_BUSY)
        name_holders(service, c7x_module_session_count(service->config.modules, 0), modules_of,
                     error);
    if (status != C7X_OK)
        return status == C7X_BUSY ? refuse_full(job, C7X_LOAD, error) : status;
    response->body.dyn_load.module_handle = handle;
    response->body.dyn_load.io_input_bytes = io.input_bytes;
    response->body.dyn_load.io_output_bytes = io.output_bytes;
    response->body.dyn_load.io_num_inputs = io.input_count;
    response->body.dyn_load.io_num_outputs = io.output_count;
    response->body.dyn_load.io_flags = io.flags;
    c7x_log(STATION, "[DLOAD] Loaded module handle=%u, %u bytes, session %u", handle,
            job->request.body.load.size, job->session->number);
    return C7X_OK;
}

static enum c7x_status run_model_load(struct c7x_service_job *job, struct c7x_response *response,
                                      struct c7x_error *error)
{
    tell_overwritten(job);
    if (check_limit(job, "models", models_of, C7X_WIRE_SESSION_MODELS_MAX, error) != C7X_OK)
        return refuse_full(job, C7X_WEIGHTS, error);
    struct c7x_tvm_model_load load = {
        .bytes = take_staged(job),
        .size = job->request.body.load.size,
        .address = job->request.body.load.address,
        .session = owner_of_load(job),
        .copy = wants_copy(job),
        .in_place_if_full = overwrites(job),
        .release_bytes = unpin_staged,
        .release_context = job->session->service,
    };
    enum c7x_status status = c7x_tvm_model_load(&load, &response->body.model_load.model_id,
                                                &response->body.model_load.num_constants, error);
    if (status == C7X_BUSY)
        name_holders(job->session->service, c7x_tvm_model_session_count(0), models_of, error);
    return status == C7X_BUSY ? refuse_full(job, C7X_WEIGHTS, error) : status;
}

static void describe_output(const struct c7x_tensor *tensor, struct c7x_wire_tensor *out)
{
    *out = (struct c7x_wire_tensor){
        .data_addr = tensor->address,
        .data_size = tensor->data_size,
        .ndim = tensor->ndim,
        .dtype_code = tensor->dtype_code,
        .dtype_bits = tensor->dtype_bits,
        .reserved = tensor->tuple_index,
    };
    memcpy(out->shape, tensor->shape, sizeof out->shape);
}

/* More outputs than fit a frame are described by an array behind the data, in the output window. */
static enum c7x_status describe_in_memory(const struct c7x_infer *infer,
                                          const struct c7x_infer_result *result,
                                          struct c7x_response *response, struct c7x_error *error)
{
    uint64_t size = (uint64_t)result->output_count * sizeof(struct c7x_tensor_desc);
    uint64_t start = result->result_used;
    if (start + size > infer->result_size) {
        c7x_error_set(error, C7X_SIZE, STATION,
                      "the output buffer has %llu bytes; outputs and their descriptors need %llu",
                      (unsigned long long)infer->result_size, (unsigned long long)(start + size));
        error->required = start + size;
        return C7X_SIZE;
    }
    for (uint32_t i = 0; i < result->output_count; i++) {
        struct c7x_wire_tensor tensor;
        describe_output(&result->outputs[i], &tensor);
        c7x_wire_encode_tensor(&tensor, infer->result + start + i * sizeof(struct c7x_tensor_desc));
    }
    c7x_os_cache_writeback(infer->result + start, size);
    response->body.infer.descs_addr = infer->result_address + start;
    response->body.infer.descs_size = (uint32_t)size;
    return C7X_OK;
}

static enum c7x_status describe_result(const struct c7x_infer *infer,
                                       const struct c7x_infer_result *result,
                                       struct c7x_response *response, struct c7x_error *error)
{
    response->body.infer.cycles = result->cycles;
    if (result->output_count > C7X_WIRE_INLINE_OUTPUTS_MAX)
        C7X_RETURN_IF_ERROR(describe_in_memory(infer, result, response, error));
    else
        for (uint32_t i = 0; i < result->output_count; i++)
            describe_output(&result->outputs[i], &response->body.infer.outputs[i]);
    response->body.infer.num_outputs = result->output_count;
    return C7X_OK;
}

/* Takes over the printf buffer that the client has named since the last inference. */
static void adopt_printf(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    c7x_os_mutex_lock(&service->lock);
    struct c7x_printf_window next = session->printf_next;
    session->printf_next.address = 0;
    c7x_os_mutex_unlock(&service->lock);
    if (next.address == 0)
        return;
    void *buffer = c7x_memory_pointer(service->config.memory, next.address, next.size);
    if (session->version >= C7X_WIRE_VERSION_3_1)
        c7x_printf_ring_bind(&session->ring, buffer, next.size);
    else
        c7x_printf_bind(&session->printf, buffer, next.size);
    c7x_service_unpin(service, session->printf_bound.address);
    session->printf_bound = next;
}

/*
 * Where the job prints. Several requests of a 3.1 session are in flight, so its text goes into the
 * ring at the end of the job; one of 3.0 waits for its answer, and its text stands in its buffer.
 */
static struct c7x_printf *begin_printf(const struct c7x_service_job *job)
{
    struct c7x_session *session = job->session;
    adopt_printf(session);
    struct c7x_printf *out = session->version >= C7X_WIRE_VERSION_3_1
                                 ? &session->service->scratch_printf[job->target]
                                 : &session->printf;
    c7x_printf_reset(out);
    return out;
}

/* The bytes of text that the client finds. */
static uint32_t end_printf(struct c7x_session *session, uint32_t seq, struct c7x_printf *out)
{
    uint32_t bytes = c7x_printf_finish(out);
    if (session->version < C7X_WIRE_VERSION_3_1)
        return bytes;
    return c7x_printf_ring_append(&session->ring, seq, out->buffer + C7X_PRINTF_HEADER_BYTES, bytes,
                                  out->lost);
}

/* What the module printed last, for a fault report. */
static void append_last_line(const struct c7x_printf *out, struct c7x_error *error)
{
    const char *text = (const char *)out->buffer + C7X_PRINTF_HEADER_BYTES;
    uint32_t end = out->buffer != NULL ? out->written : 0;
    uint32_t start;
    while (end > 0 && text[end - 1] == '\n')
        end--;
    for (start = end; start > 0 && text[start - 1] != '\n' && end - start < LAST_LINE_MAX;)
        start--;
    if (end != start)
        c7x_error_append(error, "; last printed: %.*s", (int)(end - start), text + start);
}

/* Only what an inference itself came to is counted; what was refused before it ran is not. */
static void count(struct c7x_service *service, enum c7x_status status)
{
    if (status == C7X_OK)
        service->jobs_completed++;
    else if (status == C7X_CALL || status == C7X_NOMEM || status == C7X_SIZE || status == C7X_FAULT)
        service->jobs_failed++;
}

static enum c7x_status run_infer(struct c7x_service_job *job, struct c7x_response *response,
                                 struct c7x_error *error)
{
    const struct c7x_wire_infer *request = &job->request.body.infer;
    struct c7x_service *service = job->session->service;
    struct c7x_session *session = job->session;
    struct c7x_infer infer = {
        .inputs = job->inputs,
        .input_count = request->num_inputs,
        .model_id = request->model_id,
        .session = session->number,
        .repeat_count = request->repeat_count,
        .origin = job->base.origin,
        .result_address = request->result_dsp_addr,
        .result_size = request->result_size,
    };
    if (request->result_size != 0)
        infer.result = c7x_memory_pointer(service->config.memory, request->result_dsp_addr,
                                          request->result_size);
    struct c7x_infer_result *result = &service->results[job->target];
    result->cycles = 0;
    result->output_count = 0;
    result->result_used = 0;
    result->fault_code = NULL;
    result->return_value =
        job->request.type == C7X_MSG_INFER_LARGE ? -1 : 0; /* until the entry has run */
    if ((request->flags & C7X_WIRE_INFER_KV_RESIDENT) != 0)
        infer.kv = &job->kv;
    infer.printf = begin_printf(job);
    infer.section_count = c7x_core_section_count(service->config.core);
    enum c7x_status status = c7x_module_infer(service->config.modules, session->number,
                                              request->module_handle, &infer, result, error);
    response->body.infer.return_value = result->return_value;
    if (status == C7X_OK)
        status = describe_result(&infer, result, response, error);
    if (status == C7X_FAULT)
        append_last_line(infer.printf, error);
    response->body.infer.printf_size = end_printf(session, job->request.seq, infer.printf);
    count(service, status);
    return status;
}

static enum c7x_status run_unload(struct c7x_service_job *job, struct c7x_error *error)
{
    struct c7x_service *service = job->session->service;
    uint32_t handle = job->request.body.handle;
    if (job->request.type == C7X_MSG_MODEL_UNLOAD)
        return c7x_tvm_model_unload(job->session->number, handle, error);
    C7X_RETURN_IF_ERROR(
        c7x_module_unload(service->config.modules, job->session->number, handle, error));
    c7x_service_kv_unbind(job->session, handle);
    c7x_log(STATION, "[DLOAD] Unloaded module handle=%u", handle);
    return C7X_OK;
}

static enum c7x_status run_request(struct c7x_service_job *job, struct c7x_response *response,
                                   struct c7x_error *error)
{
    switch (job->request.type) {
    case C7X_MSG_DYN_LOAD:
        return run_dyn_load(job, response, error);
    case C7X_MSG_MODEL_LOAD:
        return run_model_load(job, response, error);
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE:
        return run_infer(job, response, error);
    default:
        return run_unload(job, error);
    }
}

void c7x_service_end_running(enum c7x_job_end reason)
{
    static const enum c7x_tvm_end ends[] = {
        [C7X_JOB_CANCELLED] = C7X_TVM_CANCELLED, [C7X_JOB_STUCK] = C7X_TVM_STUCK};
    c7x_tvm_end_call(ends[reason], NULL);
}

/* When a tick could last not end the job that runs; 0: since it began, none has tried. */
static volatile int64_t last_stuck_ns;

/*
 * What hangs where it cannot be ended, such as with a lock of the firmware, holds up all others:
 * the core restarts when the watchdog has found it so, tick after tick, for STUCK_FOR_GOOD_NS.
 */
void c7x_service_end_stuck_section(void)
{
    static int64_t first_ns; /* of the ticks in a row that could not end it */
    int64_t now_ns = c7x_os_clock_ns();
    c7x_os_end_try("stuck, and ended by the watchdog");
    c7x_tvm_end_section();
    if (now_ns - last_stuck_ns > STUCK_TICKS_APART_NS)
        first_ns = now_ns;
    last_stuck_ns = now_ns;
    if (now_ns - first_ns > STUCK_FOR_GOOD_NS)
        c7x_os_panic("a job is stuck where it cannot be ended");
}

void c7x_service_catch_fault(const struct c7x_os_fault *fault)
{
    c7x_tvm_end_call(C7X_TVM_FAULTED, fault);
}

void c7x_service_resume_running(void)
{
    c7x_tvm_resume();
}

void c7x_service_run_job(struct c7x_job *base)
{
    struct c7x_service_job *job = (struct c7x_service_job *)base;
    struct c7x_response response = {.type = job->request.type, .seq = job->request.seq};
    struct c7x_error error;
    last_stuck_ns = 0;
    c7x_service_begin_job(job);
    c7x_error_clear(&error);
    if (run_request(job, &response, &error) != C7X_OK) {
        c7x_service_set_failure(job->session, &response, &error);
        c7x_session_keep_text(job->session, response.seq, job->missing);
        if (response.type == C7X_MSG_INFER || response.type == C7X_MSG_INFER_LARGE)
            response.body.infer.result_required = error.required;
    }
    c7x_service_end_job(job, &response);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a decoded request to a job in a target's queue, and back out of it. A job stands in its
 * session's list from the moment it is queued until its answer has been sent; both happen under the
 * service's lock, so that whoever looks there knows what is still to be answered.
 */
#include "firmware/service/service_impl.h"

#include "base/checked.h"

#include <string.h>

#define STATION "service"

/* ---- The life of a job ---- */

void c7x_service_unpin(struct c7x_service *service, c7x_dsp_addr address)
{
    if (address != 0)
        service->config.memory->ops->unpin(service->config.memory, address);
}

static void release_pins(struct c7x_service_job *job)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(job->pins); i++)
        c7x_service_unpin(job->session->service, job->pins[i]);
}

static bool is_usual(const struct c7x_service *service, const struct c7x_service_job *job)
{
    return (uintptr_t)job - (uintptr_t)service->usual_jobs < sizeof service->usual_jobs;
}

/* Call with the service locked. */
static void free_block(struct c7x_service_job *job)
{
    struct c7x_session *session = job->session;
    struct c7x_service *service = session->service;
    if (job == &session->spare) {
        session->is_spare_used = false;
    } else if (is_usual(service, job)) {
        job->next = service->free_jobs;
        service->free_jobs = job;
    } else {
        c7x_heap_free(service->config.heap, job);
    }
}

/* One of the service's own, if one is free and large enough; else of the heap. */
static struct c7x_service_job *take_block(struct c7x_service *service, size_t size)
{
    struct c7x_service_job *job = NULL;
    c7x_os_mutex_lock(&service->lock);
    if (size <= sizeof service->usual_jobs[0] && service->free_jobs != NULL) {
        job = service->free_jobs;
        service->free_jobs = job->next;
    }
    c7x_os_mutex_unlock(&service->lock);
    return job != NULL ? job : c7x_heap_alloc(service->config.heap, C7X_HEAP_SERVICE, size, 0);
}

static void free_job(struct c7x_service_job *job)
{
    struct c7x_service *service = job->session->service;
    release_pins(job);
    c7x_os_mutex_lock(&service->lock);
    free_block(job);
    c7x_os_mutex_unlock(&service->lock);
}

/* Call with the service locked. */
static void unlink_job(struct c7x_service_job *job)
{
    struct c7x_service_job **place = &job->session->jobs;
    while (*place != job)
        place = &(*place)->next;
    *place = job->next;
}

void c7x_service_begin_job(struct c7x_service_job *job)
{
    c7x_os_mutex_lock(&job->session->service->lock);
    job->is_running = true;
    job->session->waiting_count--;
    c7x_os_mutex_unlock(&job->session->service->lock);
}

void c7x_service_end_job(struct c7x_service_job *job, const struct c7x_response *response)
{
    struct c7x_session *session = job->session;
    struct c7x_service *service = session->service;
    release_pins(job); /* before the reply: the client may detach its buffers at once */
    c7x_core_expect_idleness(service->config.core, session->endpoint);
    c7x_os_mutex_lock(&service->lock);
    unlink_job(job);
    free_block(job);
    if (!session->is_silent)
        c7x_service_send(service, session->number, session->endpoint, response);
    c7x_os_mutex_unlock(&service->lock);
}

/* Takes the job out of the queue if it still waits there, and else sees that it ends. Call with the
 * service locked. */
static bool take_back(struct c7x_service_job *job)
{
    struct c7x_core *core = job->session->service->config.core;
    if (job->is_running || !c7x_core_remove(core, &job->base)) {
        atomic_store_explicit(&job->is_cancelled, true, memory_order_relaxed);
        (void)c7x_core_end_job(core, &job->base, C7X_JOB_CANCELLED);
        return false;
    }
    job->session->waiting_count--;
    unlink_job(job);
    return true;
}

void c7x_service_drop_jobs(struct c7x_session *session)
{
    struct c7x_service *service = session->service;
    struct c7x_service_job *dropped = NULL;
    c7x_os_mutex_lock(&service->lock);
    for (struct c7x_service_job *job = session->jobs, *next; job != NULL; job = next) {
        next = job->next;
        if (!take_back(job))
            continue;
        job->next = dropped;
        dropped = job;
    }
    c7x_os_mutex_unlock(&service->lock);
    while (dropped != NULL) {
        struct c7x_service_job *job = dropped;
        dropped = job->next;
        free_job(job);
    }
}

/* ---- CANCEL ---- */

static void answer_cancelled(struct c7x_service_job *job)
{
    struct c7x_response response = {.type = job->request.type, .seq = job->request.seq};
    struct c7x_error error;
    c7x_error_clear(&error);
    (void)c7x_error_set(&error, C7X_CANCELLED, STATION, "cancelled before it ran");
    c7x_service_set_failure(job->session, &response, &error);
    c7x_service_send(job->session->service, job->session->number, job->session->endpoint,
                     &response);
}

enum c7x_status c7x_service_cancel(struct c7x_session *session, uint32_t seq, uint32_t *out_outcome,
                                   struct c7x_error *error)
{
    struct c7x_service *service = session->service;
    c7x_os_mutex_lock(&service->lock);
    struct c7x_service_job *job = session->jobs;
    while (job != NULL && job->request.seq != seq)
        job = job->next;
    bool found = job != NULL;
    bool removed = found && take_back(job);
    c7x_os_mutex_unlock(&service->lock);
    if (!found)
        return c7x_error_set(error, C7X_HANDLE, STATION,
                             "no request %u waits or runs in this session", seq);
    if (removed) {
        release_pins(job);
        memset(job->pins, 0, sizeof job->pins);
        answer_cancelled(job);
        free_job(job);
    }
    *out_outcome = removed ? C7X_WIRE_CANCEL_REMOVED : C7X_WIRE_CANCEL_RUNNING;
    return C7X_OK;
}

/* ---- Routing ---- */

static enum c7x_status pin(struct c7x_service_job *job, int index, const char *what,
                           c7x_dsp_addr address, uint64_t size, struct c7x_error *error)
{
    struct c7x_memory *memory = job->session->service->config.memory;
    if (size == 0)
        return C7X_OK;
    if (!memory->ops->pin(memory, job->session->endpoint, address, size))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "%s 0x%llx + %llu is not in a buffer of this client", what,
                             (unsigned long long)address, (unsigned long long)size);
    job->pins[index] = address;
    return C7X_OK;
}

/* The job uses the module's KV region. */
static enum c7x_status use_kv(struct c7x_service_job *job, const struct c7x_kv_region *kv,
                              struct c7x_error *error)
{
    if (job->kv.pointer != NULL)
        return C7X_OK;
    if (kv->size == 0) {
        uint32_t handle = job->request.body.infer.module_handle;
        C7X_RETURN_IF_ERROR(c7x_module_check_owner(job->session->service->config.modules,
                                                   job->session->number, handle, error));
        return c7x_error_set(error, C7X_ADDR, STATION, "no KV region is bound to module %u",
                             handle);
    }
    C7X_RETURN_IF_ERROR(pin(job, 2, "KV region", kv->address, kv->size, error));
    job->kv = *kv;
    job->kv.pointer =
        c7x_memory_pointer(job->session->service->config.memory, kv->address, kv->size);
    return C7X_OK;
}

/* One input: its data must lie in the request's input window or in the KV region. */
static enum c7x_status place_input(struct c7x_service_job *job, uint32_t index,
                                   const struct c7x_wire_tensor *wire,
                                   const struct c7x_kv_region *kv, struct c7x_error *error)
{
    const struct c7x_wire_infer *infer = &job->request.body.infer;
    struct c7x_tensor *tensor = &job->inputs[index];
    *tensor = (struct c7x_tensor){
        .address = wire->data_addr,
        .data_size = wire->data_size,
        .ndim = wire->ndim,
        .dtype_code = wire->dtype_code,
        .dtype_bits = wire->dtype_bits,
    };
    memcpy(tensor->shape, wire->shape, sizeof tensor->shape);
    if (wire->data_size == 0)
        return C7X_OK;
    bool is_window = c7x_range_inside(wire->data_addr, wire->data_size, infer->input_dsp_addr,
                                      infer->input_size);
    bool is_kv = c7x_range_inside(wire->data_addr, wire->data_size, kv->address, kv->size);
    if (!is_window && !is_kv)
        return c7x_error_set(
            error, C7X_TENSOR, STATION,
            "input %u: 0x%llx + %llu is neither in the input window nor in a KV region", index,
            (unsigned long long)wire->data_addr, (unsigned long long)wire->data_size);
    tensor->data =
        c7x_memory_pointer(job->session->service->config.memory, wire->data_addr, wire->data_size);
    if (!is_window)
        return use_kv(job, kv, error);
    if (!is_kv) /* the DSP's own lines of a cache would be lost */
        c7x_os_cache_invalidate(tensor->data, wire->data_size);
    return C7X_OK;
}

/* Descriptors in shared memory are copied once, and only the copies are looked at. */
static enum c7x_status place_inputs(struct c7x_service_job *job, const struct c7x_wire_infer *infer,
                                    const struct c7x_kv_region *kv, struct c7x_error *error)
{
    const uint8_t *array = NULL;
    if (infer->descs_addr != 0) {
        uint64_t size = infer->num_inputs * sizeof(struct c7x_tensor_desc);
        array = c7x_memory_pointer(job->session->service->config.memory, infer->descs_addr, size);
        c7x_os_cache_invalidate((void *)(uintptr_t)array, size);
    }
    for (uint32_t i = 0; i < infer->num_inputs; i++) {
        struct c7x_wire_tensor wire;
        if (array == NULL)
            wire = infer->inputs[i];
        else if (c7x_wire_decode_tensor(array + i * sizeof(struct c7x_tensor_desc), &wire) !=
                 C7X_OK)
            return c7x_error_set(error, C7X_TENSOR, STATION, "input %u: rank is not 0 to %d", i,
                                 C7X_WIRE_RANK_MAX);
        C7X_RETURN_IF_ERROR(place_input(job, i, &wire, kv, error));
    }
    return C7X_OK;
}

static enum c7x_status prepare_infer(struct c7x_service_job *job,
                                     const struct c7x_wire_infer *infer, struct c7x_error *error)
{
    struct c7x_kv_region kv = c7x_service_kv_find(job->session, infer->module_handle);
    C7X_RETURN_IF_ERROR(
        pin(job, 0, "input window", infer->input_dsp_addr, infer->input_size, error));
    C7X_RETURN_IF_ERROR(
        pin(job, 1, "result window", infer->result_dsp_addr, infer->result_size, error));
    if ((infer->flags & C7X_WIRE_INFER_KV_RESIDENT) != 0)
        C7X_RETURN_IF_ERROR(use_kv(job, &kv, error));
    return place_inputs(job, infer, &kv, error);
}

static enum c7x_status prepare(struct c7x_service_job *job, const struct c7x_request *request,
                               struct c7x_error *error)
{
    const struct c7x_wire_load *load = &request->body.load;
    switch (request->type) {
    case C7X_MSG_DYN_LOAD:
    case C7X_MSG_MODEL_LOAD:
        return pin(job, 0, "staged bytes", load->address, load->size, error);
    case C7X_MSG_INFER:
    case C7X_MSG_INFER_LARGE:
        return prepare_infer(job, &request->body.infer, error);
    default:
        return C7X_OK;
    }
}

/*
 * The session's own job if it is free and the request gives memory back: a full heap can always be
 * emptied. Else NULL.
 */
static struct c7x_service_job *take_spare(struct c7x_session *session, enum c7x_msg_type type)
{
    struct c7x_service_job *job = NULL;
    if (type != C7X_MSG_DYN_UNLOAD && type != C7X_MSG_MODEL_UNLOAD)
        return NULL;
    c7x_os_mutex_lock(&session->service->lock);
    if (!session->is_spare_used) {
        session->is_spare_used = true;
        job = &session->spare;
    }
    c7x_os_mutex_unlock(&session->service->lock);
    return job;
}

static bool is_infer(const struct c7x_request *request)
{
    return request->type == C7X_MSG_INFER || request->type == C7X_MSG_INFER_LARGE;
}

/* An inference that names no priority has that of its module, and one of a module that does not
 * exist fails wherever it runs. */
static void choose_target(struct c7x_service_job *job)
{
    const struct c7x_wire_infer *infer = &job->request.body.infer;
    struct c7x_session *session = job->session;
    job->target = C7X_TARGET_CONTROL;
    if (!is_infer(&job->request))
        return;
    uint32_t priority =
        c7x_module_expect(session->service->config.modules, session->number, infer->module_handle);
    if (infer->priority != 0)
        priority = infer->priority;
    if (priority == 0)
        priority = C7X_WIRE_PRIORITY_DEFAULT;
    job->target = (enum c7x_target_number)(C7X_TARGET_PRI_1 + (int)priority - 1);
}

/* Calls of one module never overlap; what is unloaded, module or model, is unloaded in its turn. */
static void choose_order(struct c7x_service_job *job)
{
    struct c7x_job_order *order = &job->base.order;
    const struct c7x_request *request = &job->request;
    order->keys[2] = c7x_service_key(C7X_KEY_SESSION, job->session->number);
    if (is_infer(request)) {
        order->keys[0] = c7x_service_key(C7X_KEY_MODULE, request->body.infer.module_handle);
        if (request->body.infer.model_id != 0)
            order->keys[1] = c7x_service_key(C7X_KEY_MODEL, request->body.infer.model_id);
    } else if (request->type == C7X_MSG_DYN_UNLOAD || request->type == C7X_MSG_MODEL_UNLOAD) {
        bool is_module = request->type == C7X_MSG_DYN_UNLOAD;
        order->keys[is_module ? 0 : 1] =
            c7x_service_key(is_module ? C7X_KEY_MODULE : C7X_KEY_MODEL, request->body.handle);
        order->keys[2] = 0; /* it comes in its turn, but is no barrier to the whole session */
        order->is_barrier = true;
    }
}

static uint32_t named_module(const struct c7x_request *request)
{
    if (is_infer(request))
        return request->body.infer.module_handle;
    return request->type == C7X_MSG_DYN_UNLOAD ? request->body.handle : 0;
}

/* NULL when out of memory. */
static struct c7x_service_job *
create_job(struct c7x_session *session, const struct c7x_request *request, struct c7x_error *error)
{
    struct c7x_heap *heap = session->service->config.heap;
    size_t size =
        sizeof(struct c7x_service_job) +
        (is_infer(request) ? request->body.infer.num_inputs * sizeof(struct c7x_tensor) : 0);
    struct c7x_service_job *job = take_block(session->service, size);
    if (job == NULL)
        job = take_spare(session, request->type);
    if (job == NULL) {
        (void)c7x_error_set_oom(error, STATION, c7x_heap_oom(heap, size), "a request");
        return NULL;
    }
    memset(job, 0, offsetof(struct c7x_service_job, request));
    memcpy(&job->request, request,
           is_infer(request) ? offsetof(struct c7x_request, body.infer.inputs) : sizeof *request);
    job->base.run = c7x_service_run_job;
    job->session = session;
    job->inputs = (struct c7x_tensor *)(job + 1);
    choose_target(job);
    choose_order(job);
    job->base.origin = (struct c7x_trace_origin){.session = session->number,
                                                 .seq = request->seq,
                                                 .module = named_module(request),
                                                 .type = (uint16_t)request->type};
    return job;
}

static uint32_t waiting_of(const struct c7x_session *session)
{
    return session->waiting_count;
}

/* One session may not fill the queue for all. Call with the service locked. */
static enum c7x_status enqueue(struct c7x_service_job *job, struct c7x_error *error)
{
    struct c7x_session *session = job->session;
    char who[C7X_SESSION_DESCRIPTION_MAX];
    if (session->waiting_count == C7X_WIRE_SESSION_WAITING_MAX) {
        c7x_session_describe(session, who);
        return c7x_error_set(error, C7X_BUSY, STATION,
                             "%u requests of %s wait already, the most that one session may have",
                             C7X_WIRE_SESSION_WAITING_MAX, who);
    }
    struct c7x_core *core = session->service->config.core;
    if (c7x_core_submit(core, job->target, &job->base) != C7X_OK) {
        (void)c7x_error_set(error, C7X_BUSY, STATION,
                            "%u requests wait at target %s, the most it takes; held by",
                            C7X_TARGET_QUEUE_DEPTH_MAX, c7x_core_target_name(core, job->target));
        c7x_session_append_holders(session->service, waiting_of, error);
        return C7X_BUSY;
    }
    job->next = NULL;
    struct c7x_service_job **place = &session->jobs;
    while (*place != NULL)
        place = &(*place)->next;
    *place = job;
    session->waiting_count++;
    return C7X_OK;
}

enum c7x_status c7x_service_route(struct c7x_session *session, const struct c7x_request *request,
                                  struct c7x_error *error)
{
    struct c7x_service_job *job = create_job(session, request, error);
    if (job == NULL)
        return C7X_NOMEM;
    enum c7x_status status = prepare(job, request, error);
    if (status == C7X_OK) {
        c7x_os_mutex_lock(&session->service->lock);
        status = enqueue(job, error);
        c7x_os_mutex_unlock(&session->service->lock);
    }
    if (status != C7X_OK)
        free_job(job);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where decoders keep their caches between calls. A 3.0 client has one region at a fixed place; a
 * 3.1 client binds a part of a buffer of its own to each module. A job that is in flight has pinned
 * what it uses, so a region may be bound anew at any time.
 */
#include "firmware/service/service_impl.h"

#define STATION "service"
#define REGION_ALIGNMENT 128u /* a cache line of the DSP: the host writes no line of a region */

static const struct c7x_kv_region region_3_0 = {
    .address = C7X_WIRE_KV_ADDR,
    .size = C7X_WIRE_KV_SIZE,
    .slot_count = C7X_WIRE_KV_SLOT_COUNT,
    .slot_bytes = C7X_WIRE_KV_SLOT_BYTES,
};

/* The place where the binding of the module stands, or would. Call with the service locked. */
static struct c7x_kv_binding **place_of(struct c7x_session *session, uint32_t handle)
{
    struct c7x_kv_binding **place = &session->kv_bindings;
    while (*place != NULL && (*place)->handle != handle)
        place = &(*place)->next;
    return place;
}

static void release(struct c7x_session *session, struct c7x_kv_binding *binding)
{
    struct c7x_service *service = session->service;
    if (binding == NULL)
        return;
    c7x_service_unpin(service, binding->region.address);
    c7x_heap_free(service->config.heap, binding);
}

/* Puts `binding` (NULL: none) in the place of the module's, which it releases. The module is looked
 * for under the same lock that its unloading takes afterwards. */
static enum c7x_status replace(struct c7x_session *session, uint32_t handle,
                               struct c7x_kv_binding *binding, struct c7x_error *error)
{
    struct c7x_service *service = session->service;
    struct c7x_kv_binding *old = NULL;
    c7x_os_mutex_lock(&service->lock);
    enum c7x_status status =
        c7x_module_check_owner(service->config.modules, session->number, handle, error);
    if (status == C7X_OK) {
        struct c7x_kv_binding **place = place_of(session, handle);
        old = *place;
        if (old != NULL)
            *place = old->next;
        if (binding != NULL) {
            binding->next = session->kv_bindings;
            session->kv_bindings = binding;
        }
    }
    c7x_os_mutex_unlock(&service->lock);
    release(session, old);
    return status;
}

/* Pins the region and makes visible what the host has put there; from now on it is the DSP's. */
static enum c7x_status acquire(struct c7x_session *session, const struct c7x_request *request,
                               struct c7x_kv_region *out_region, struct c7x_error *error)
{
    struct c7x_memory *memory = session->service->config.memory;
    struct c7x_kv_region region = {
        .address = request->body.kv_bind.address,
        .size = request->body.kv_bind.size,
        .slot_count = request->body.kv_bind.slot_count,
        .slot_bytes = request->body.kv_bind.slot_bytes,
    };
    if (region.address % REGION_ALIGNMENT != 0)
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "KV region 0x%llx does not stand at a multiple of %u",
                             (unsigned long long)region.address, REGION_ALIGNMENT);
    if (!memory->ops->pin(memory, session->endpoint, region.address, region.size))
        return c7x_error_set(error, C7X_ADDR, STATION,
                             "KV region 0x%llx + %llu is not in a buffer of this client",
                             (unsigned long long)region.address, (unsigned long long)region.size);
    region.pointer = c7x_memory_pointer(memory, region.address, region.size);
    c7x_os_cache_invalidate(region.pointer, (size_t)region.size);
    *out_region = region;
    return C7X_OK;
}

enum c7x_status c7x_service_kv_bind(struct c7x_session *session, const struct c7x_request *request,
                                    struct c7x_error *error)
{
    struct c7x_heap *heap = session->service->config.heap;
    uint32_t handle = request->body.kv_bind.module_handle;
    if (request->body.kv_bind.size == 0)
        return replace(session, handle, NULL, error);
    struct c7x_kv_binding *binding = c7x_heap_alloc(heap, C7X_HEAP_SERVICE, sizeof *binding, 0);
    if (binding == NULL)
        return c7x_error_set_oom(error, STATION, c7x_heap_oom(heap, sizeof *binding),
                                 "a KV region's state");
    *binding = (struct c7x_kv_binding){.handle = handle};
    enum c7x_status status = acquire(session, request, &binding->region, error);
    if (status != C7X_OK) {
        c7x_heap_free(heap, binding);
        return status;
    }
    status = replace(session, handle, binding, error);
    if (status != C7X_OK)
        release(session, binding);
    return status;
}

struct c7x_kv_region c7x_service_kv_find(struct c7x_session *session, uint32_t handle)
{
    if (session->version < C7X_WIRE_VERSION_3_1)
        return region_3_0;
    c7x_os_mutex_lock(&session->service->lock);
    const struct c7x_kv_binding *binding = *place_of(session, handle);
    struct c7x_kv_region region =
        binding != NULL ? binding->region : (struct c7x_kv_region){.size = 0};
    c7x_os_mutex_unlock(&session->service->lock);
    return region;
}

void c7x_service_kv_unbind(struct c7x_session *session, uint32_t handle)
{
    c7x_os_mutex_lock(&session->service->lock);
    struct c7x_kv_binding **place = place_of(session, handle);
    struct c7x_kv_binding *binding = *place;
    if (binding != NULL)
        *place = binding->next;
    c7x_os_mutex_unlock(&session->service->lock);
    release(session, binding);
}

void c7x_service_kv_unbind_all(struct c7x_session *session)
{
    while (session->kv_bindings != NULL)
        c7x_service_kv_unbind(session, session->kv_bindings->handle);
}

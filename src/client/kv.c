/* SPDX-License-Identifier: Apache-2.0 */
/* Key-value caches that stay on the device between inferences (docs/protocol.md, "KV"). */
#include "client_impl.h"

#include <stdlib.h>

#define SLOT_BYTES_3_0 196608u
#define SLOT_COUNT_3_0 60u

/* The entry of a module, under the lock, or NULL. */
static struct c7x_kv **find(struct c7x_client *client, uint32_t handle)
{
    struct c7x_kv **place = &client->kv;
    while (*place != NULL && (*place)->handle != handle)
        place = &(*place)->next;
    return place;
}

/* Forgets the module's region; it is detached now, or with its last use. */
void c7x_client_kv_drop(struct c7x_client *client, uint32_t handle)
{
    pthread_mutex_lock(&client->lock);
    struct c7x_kv **place = find(client, handle);
    struct c7x_kv *kv = *place;
    if (kv != NULL)
        *place = kv->next;
    pthread_mutex_unlock(&client->lock);
    if (kv == NULL)
        return;
    c7x_client_detach(client, &kv->buffer);
    free(kv);
}

static enum c7x_status send_bind(struct c7x_client *client, const struct c7x_kv *kv)
{
    struct c7x_request request = {.type = C7X_MSG_KV_BIND};
    struct c7x_response response;
    request.body.kv_bind.module_handle = kv->handle;
    request.body.kv_bind.slot_count = kv->slot_count;
    request.body.kv_bind.address = kv->buffer.dsp_address;
    request.body.kv_bind.size = kv->buffer.size;
    request.body.kv_bind.slot_bytes = kv->slot_bytes;
    return c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response);
}

static enum c7x_status bind(struct c7x_client *client, struct c7x_kv *kv)
{
    struct c7x_host_link *link = client->link;
    uint64_t size = (uint64_t)kv->slot_count * kv->slot_bytes;
    C7X_RETURN_IF_ERROR(
        c7x_client_attach(client, (size_t)size, c7x_client_deadline_ns(client), &kv->buffer));
    link->ops->sync_to_device(link, &kv->buffer, 0, kv->buffer.size);
    enum c7x_status status = send_bind(client, kv);
    if (status != C7X_OK)
        c7x_client_detach(client, &kv->buffer);
    return status;
}

enum c7x_status c7x_client_kv_bind(struct c7x_client *client, uint32_t handle, uint32_t slot_count,
                                   uint64_t slot_bytes)
{
    c7x_client_enter();
    if (!client->has_session)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 has one fixed KV region");
    if (slot_count == 0) {
        struct c7x_kv none = {.handle = handle};
        C7X_RETURN_IF_ERROR(send_bind(client, &none));
        c7x_client_kv_drop(client, handle);
        return C7X_OK;
    }
    if (slot_bytes == 0 || slot_bytes > C7X_WIRE_CARVEOUT_SIZE ||
        slot_count > C7X_WIRE_CARVEOUT_SIZE / slot_bytes)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "%u KV slots of %llu bytes; all shared memory has %u", slot_count,
                             (unsigned long long)slot_bytes, C7X_WIRE_CARVEOUT_SIZE);
    struct c7x_kv *kv = calloc(1, sizeof *kv);
    if (kv == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a KV region");
    kv->handle = handle;
    kv->slot_count = slot_count;
    kv->slot_bytes = slot_bytes;
    enum c7x_status status = bind(client, kv);
    if (status != C7X_OK) {
        free(kv);
        return status;
    }
    c7x_client_kv_drop(client, handle); /* the device has let go of the old one */
    pthread_mutex_lock(&client->lock);
    kv->next = client->kv;
    client->kv = kv;
    pthread_mutex_unlock(&client->lock);
    return C7X_OK;
}

enum c7x_status c7x_client_kv_slot(struct c7x_client *client, uint32_t handle, uint32_t index,
                                   size_t size, uint64_t *out_address)
{
    uint64_t address = C7X_WIRE_KV_ADDR;
    uint64_t slot_bytes = SLOT_BYTES_3_0;
    uint32_t slot_count = SLOT_COUNT_3_0;
    pthread_mutex_lock(&client->lock);
    const struct c7x_kv *kv = *find(client, handle);
    if (kv != NULL) {
        address = kv->buffer.dsp_address;
        slot_bytes = kv->slot_bytes;
        slot_count = kv->slot_count;
    } else if (client->has_session) {
        slot_count = 0;
    }
    pthread_mutex_unlock(&client->lock);
    if (slot_count == 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_TENSOR, C7X_CLIENT_STATION,
                             "module %u has no KV region; call c7x_client_kv_bind first", handle);
    if (index >= slot_count || size > slot_bytes)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "KV slot %u of %zu bytes; module %u has %u slots of %llu", index, size,
                             handle, slot_count, (unsigned long long)slot_bytes);
    *out_address = address + index * slot_bytes;
    return C7X_OK;
}

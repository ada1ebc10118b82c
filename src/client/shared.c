/* SPDX-License-Identifier: Apache-2.0 */
/* Callers' own buffers, which CPU and DSP use in turn. */
#include "client_impl.h"

#include <stdlib.h>
#include <string.h>

enum c7x_status c7x_shared_create(struct c7x_client *client, size_t size, const char *name,
                                  struct c7x_shared **out_shared)
{
    c7x_client_enter();
    struct c7x_shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a shared buffer");
    enum c7x_status status =
        c7x_client_attach(client, size, c7x_client_deadline_ns(client), &shared->buffer);
    if (status != C7X_OK) {
        free(shared);
        return status;
    }
    shared->client = client;
    strncpy(shared->name, name != NULL ? name : "unnamed", sizeof shared->name - 1);
    *out_shared = shared;
    return C7X_OK;
}

void *c7x_shared_pointer(struct c7x_shared *shared)
{
    return shared->buffer.pointer;
}

size_t c7x_shared_size(const struct c7x_shared *shared)
{
    return shared->buffer.size;
}

/* Asks the device whether it still runs the inference that was given up last. */
static bool runs_on(struct c7x_shared *shared)
{
    struct c7x_client *client = shared->client;
    struct c7x_request request = {.type = C7X_MSG_CANCEL};
    struct c7x_response response;
    pthread_mutex_lock(&client->lock);
    bool unknown = shared->may_run_on;
    request.body.cancelled_seq = shared->last_seq;
    pthread_mutex_unlock(&client->lock);
    if (!unknown)
        return false;
    enum c7x_status status =
        c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response);
    if (status == C7X_OK && response.body.cancel_outcome == C7X_WIRE_CANCEL_RUNNING)
        return true;
    c7x_client_enter(); /* that the device knows it no more is what we want to hear */
    pthread_mutex_lock(&client->lock);
    shared->may_run_on = false;
    pthread_mutex_unlock(&client->lock);
    return false;
}

static enum c7x_status begin(struct c7x_shared *shared, unsigned access)
{
    struct c7x_client *client = shared->client;
    pthread_mutex_lock(&client->lock);
    bool begun = shared->access != 0;
    bool used = shared->use_count != 0;
    if (!begun && !used)
        shared->access = access;
    pthread_mutex_unlock(&client->lock);
    if (begun)
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "CPU access to buffer %s has begun already; end it first",
                             shared->name);
    if (used)
        return c7x_error_set(c7x_client_thread_error(), C7X_BUSY, C7X_CLIENT_STATION,
                             "an inference uses buffer %s", shared->name);
    return C7X_OK;
}

enum c7x_status c7x_shared_begin(struct c7x_shared *shared, unsigned access)
{
    struct c7x_host_link *link = shared->client->link;
    c7x_client_enter();
    if (access == 0 || (access & ~(C7X_CPU_READ | C7X_CPU_WRITE)) != 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "access 0x%x to buffer %s", access, shared->name);
    if (runs_on(shared))
        return c7x_error_set(c7x_client_thread_error(), C7X_BUSY, C7X_CLIENT_STATION,
                             "the DSP still runs an inference that uses buffer %s", shared->name);
    C7X_RETURN_IF_ERROR(begin(shared, access));
    if ((access & C7X_CPU_READ) != 0)
        link->ops->sync_from_device(link, &shared->buffer, 0, shared->buffer.size);
    return C7X_OK;
}

enum c7x_status c7x_shared_end(struct c7x_shared *shared)
{
    struct c7x_client *client = shared->client;
    struct c7x_host_link *link = client->link;
    c7x_client_enter();
    pthread_mutex_lock(&client->lock);
    unsigned access = shared->access;
    pthread_mutex_unlock(&client->lock);
    if (access == 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "CPU access to buffer %s has not begun", shared->name);
    if ((access & C7X_CPU_WRITE) != 0)
        link->ops->sync_to_device(link, &shared->buffer, 0, shared->buffer.size);
    pthread_mutex_lock(&client->lock);
    shared->access = 0;
    pthread_mutex_unlock(&client->lock);
    return C7X_OK;
}

enum c7x_status c7x_shared_use(struct c7x_shared *shared)
{
    if (shared == NULL)
        return C7X_OK;
    pthread_mutex_lock(&shared->client->lock);
    bool is_free = shared->access == 0;
    if (is_free)
        shared->use_count++;
    pthread_mutex_unlock(&shared->client->lock);
    if (is_free)
        return C7X_OK;
    return c7x_error_set(c7x_client_thread_error(), C7X_BUSY, C7X_CLIENT_STATION,
                         "CPU access to buffer %s has not ended; call c7x_shared_end",
                         shared->name);
}

void c7x_shared_release(struct c7x_shared *shared, bool given_up, uint32_t seq)
{
    if (shared == NULL)
        return;
    pthread_mutex_lock(&shared->client->lock);
    shared->use_count--;
    if (given_up) {
        shared->may_run_on = true;
        shared->last_seq = seq;
    }
    pthread_mutex_unlock(&shared->client->lock);
}

void c7x_shared_free(struct c7x_shared *shared)
{
    if (shared == NULL)
        return;
    if (shared->may_run_on)
        c7x_client_let_go(shared->client, &shared->buffer, NULL, shared->last_seq);
    else
        c7x_client_detach(shared->client, &shared->buffer);
    free(shared);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lease of a session on a device whose transport cannot tell that a client has died: a thread
 * that sends a PING three times in each, so that a program may be silent as long as it lives.
 */
#include "client_impl.h"

#define NS_PER_MS 1000000LL

static void renew(struct c7x_client *client)
{
    struct c7x_request request = {.type = C7X_MSG_PING};
    struct c7x_response response;
    int64_t deadline_ns = c7x_os_deadline_ns(client->lease_ms * NS_PER_MS);
    /* If it fails, so does the next call of the program, which can say so. */
    (void)!c7x_client_exchange(client, &request, deadline_ns, &response);
}

static void *run_keeper(void *context)
{
    struct c7x_client *client = context;
    int64_t period_ns = client->lease_ms * NS_PER_MS / 3;
    int64_t next_ns = c7x_os_deadline_ns(period_ns);
    pthread_mutex_lock(&client->lock);
    while (!client->stops_keeper && !client->is_reset) {
        if (c7x_os_clock_ns() < next_ns) {
            c7x_client_wait_for_change(client, next_ns);
            continue;
        }
        pthread_mutex_unlock(&client->lock);
        renew(client);
        next_ns = c7x_os_deadline_ns(period_ns);
        pthread_mutex_lock(&client->lock);
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

enum c7x_status c7x_client_keep_lease(struct c7x_client *client, uint32_t lease_ms)
{
    if (lease_ms == 0)
        return C7X_OK;
    client->lease_ms = lease_ms;
    if (pthread_create(&client->keeper, NULL, run_keeper, client) == 0)
        return C7X_OK;
    client->lease_ms = 0;
    return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                         "cannot start the thread that renews the lease");
}

void c7x_client_end_lease(struct c7x_client *client)
{
    if (client->lease_ms == 0)
        return;
    pthread_mutex_lock(&client->lock);
    client->stops_keeper = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    pthread_join(client->keeper, NULL);
    client->lease_ms = 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving up buffers that a request names whose answer nobody waits for any more. The device pins
 * what a request names when it receives it; a frame that it has not received yet must not find the
 * place taken by another buffer. So the buffers are kept until the device has answered something
 * that was sent later.
 */
#include "client_impl.h"

#include <stdlib.h>
#include <string.h>

struct letting_go {
    struct c7x_pending pending;
    struct c7x_client *client;
    struct c7x_buffer buffers[2];
};
_Static_assert(offsetof(struct letting_go, pending) == 0, "found by its pending request");

/* The device has received all that was sent before, or is gone. */
static void finish(struct c7x_pending *pending)
{
    struct letting_go *letting_go = (struct letting_go *)pending;
    for (size_t i = 0; i < C7X_ARRAY_COUNT(letting_go->buffers); i++)
        c7x_client_detach(letting_go->client, &letting_go->buffers[i]);
    atomic_fetch_sub(&letting_go->client->letting_go, 1);
    free(letting_go);
}

void c7x_client_let_go(struct c7x_client *client, struct c7x_buffer *first,
                       struct c7x_buffer *second, uint32_t seq)
{
    struct c7x_error *error = c7x_client_thread_error();
    struct c7x_error kept = *error; /* the reason why we are here */
    struct c7x_request request = {.type = client->has_session ? C7X_MSG_CANCEL : C7X_MSG_PING};
    struct letting_go *letting_go = calloc(1, sizeof *letting_go);
    request.body.cancelled_seq = client->has_session ? seq : 0;
    if (letting_go == NULL)
        return; /* the buffers stay until the link is closed */
    letting_go->client = client;
    letting_go->pending.completed = finish;
    letting_go->buffers[0] = *first;
    if (second != NULL)
        letting_go->buffers[1] = *second;
    memset(first, 0, sizeof *first);
    if (second != NULL)
        memset(second, 0, sizeof *second);
    atomic_fetch_add(&client->letting_go, 1);
    if (c7x_client_send(client, &request, &letting_go->pending, C7X_OS_FOREVER) != C7X_OK)
        finish(&letting_go->pending);
    *error = kept;
}

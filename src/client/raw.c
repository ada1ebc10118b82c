/* SPDX-License-Identifier: Apache-2.0 */
/* A link without a session, for whoever wants to see the frames themselves. */
#include "client_impl.h"

#include <stdlib.h>
#include <string.h>

struct c7x_raw {
    struct c7x_host_link *link;
    int64_t deadline_ms;
};

enum c7x_status c7x_raw_open(const struct c7x_client_options *options, struct c7x_raw **out_raw)
{
    struct c7x_client_options known;
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    C7X_RETURN_IF_ERROR(c7x_client_options_take(options, &known, error));
    struct c7x_raw *raw = calloc(1, sizeof *raw);
    if (raw == NULL)
        return c7x_error_set(error, C7X_HOST_NOMEM, C7X_CLIENT_STATION, "no memory for a link");
    raw->deadline_ms = known.deadline_ms;
    enum c7x_status status = c7x_client_open_link(
        &known, c7x_client_deadline_of_ms(known.deadline_ms), &raw->link, error);
    if (status != C7X_OK) {
        free(raw);
        return status;
    }
    *out_raw = raw;
    return C7X_OK;
}

void c7x_raw_close(struct c7x_raw *raw)
{
    if (raw == NULL)
        return;
    raw->link->ops->close(raw->link);
    free(raw);
}

enum c7x_status c7x_raw_send(struct c7x_raw *raw, const uint8_t *frame, size_t size)
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    return raw->link->ops->send(raw->link, frame, size, c7x_client_deadline_of_ms(raw->deadline_ms),
                                error);
}

enum c7x_status c7x_raw_receive(struct c7x_raw *raw, uint8_t *frame, size_t *out_size,
                                int64_t deadline_ms)
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    return raw->link->ops->receive(raw->link, frame, out_size,
                                   c7x_client_deadline_of_ms(deadline_ms), error);
}

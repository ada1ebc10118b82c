/* SPDX-License-Identifier: Apache-2.0 */
/* One request and its answer: stations client > transport ... transport > completion. */
#include "client_impl.h"

#include "base/trace.h"

#include <string.h>

#define NS_PER_S 1000000000LL

static enum c7x_status reset(struct c7x_client *client)
{
    return c7x_error_set(&client->error, C7X_RESET, C7X_CLIENT_STATION,
                         "the device went away; close this client and open a new one");
}

/* Waits for the answer to `seq`. Others are late ones, whose callers have given up. */
static enum c7x_status await(struct c7x_client *client, const struct c7x_request *request,
                             int64_t deadline_ns, struct c7x_response *out_response)
{
    struct c7x_host_link *link = client->link;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    for (;;) {
        size_t size;
        uint32_t type;
        uint32_t seq;
        int32_t status;
        C7X_RETURN_IF_ERROR(link->ops->receive(link, frame, &size, deadline_ns, &client->error));
        if (size < C7X_WIRE_HEADER_SIZE)
            continue;
        c7x_wire_peek(frame, &type, &seq, &status);
        if (seq == request->seq)
            return c7x_wire_decode_response(frame, size, request->type, out_response,
                                            &client->error);
    }
}

static enum c7x_status send_and_await(struct c7x_client *client, struct c7x_request *request,
                                      int64_t deadline_ns, struct c7x_response *out_response)
{
    struct c7x_host_link *link = client->link;
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    request->seq = client->seq++;
    size_t size = c7x_wire_encode_request(request, frame);
    c7x_trace(C7X_STATION_TRANSPORT);
    C7X_RETURN_IF_ERROR(link->ops->send(link, frame, size, deadline_ns, &client->error));
    return await(client, request, deadline_ns, out_response);
}

/* The device's own stations, so that last_station() points to a static name. */
static const char *intern_station(const char *name)
{
    static const char *const known[] = {"service", "target", "module", "loader",   "tvm",
                                        "kernel",  "memory", "printf", "transport"};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(known); i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return "device";
}

/* Fetches why request `seq` failed; if that fails too, the status alone has to do. */
static void fetch_error_text(struct c7x_client *client, uint32_t seq, enum c7x_status status)
{
    struct c7x_response response;
    char text[C7X_ERROR_TEXT_MAX];
    const char *station = "device";
    size_t used = 0;
    do {
        struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
        request.body.error_text.failed_seq = seq;
        request.body.error_text.offset = (uint32_t)used;
        if (send_and_await(client, &request, c7x_os_deadline_ns(NS_PER_S), &response) != C7X_OK ||
            response.status != C7X_OK)
            break;
        size_t room = sizeof text - 1 - used;
        size_t count =
            response.body.error_text.bytes < room ? response.body.error_text.bytes : room;
        memcpy(text + used, response.body.error_text.text, count);
        used += count;
        station = intern_station(response.body.error_text.station);
        if (count == 0)
            break;
    } while (used < response.body.error_text.total && used < sizeof text - 1);
    text[used] = '\0';
    c7x_error_set(&client->error, status, station, "%s",
                  used != 0 ? text : c7x_status_text(status));
}

static void note_oom(struct c7x_client *client, const struct c7x_response *response)
{
    client->has_oom = response->oom.total != 0;
    client->oom_requested = response->oom.requested;
    client->oom_free = response->oom.free;
    client->oom_total = response->oom.total;
}

enum c7x_status c7x_client_exchange(struct c7x_client *client, struct c7x_request *request,
                                    int64_t deadline_ns, struct c7x_response *out_response)
{
    if (client->is_reset)
        return reset(client);
    enum c7x_status status = send_and_await(client, request, deadline_ns, out_response);
    if (status == C7X_RESET)
        client->is_reset = true;
    if (status != C7X_OK)
        return status;
    c7x_trace(C7X_STATION_COMPLETION);
    if (out_response->status == C7X_OK)
        return C7X_OK;
    status = (enum c7x_status)out_response->status;
    if (status == C7X_NOMEM)
        note_oom(client, out_response);
    if (client->has_session)
        fetch_error_text(client, request->seq, status);
    else
        c7x_error_set(&client->error, status, "device", "%s", c7x_status_text(status));
    return status;
}

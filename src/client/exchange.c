/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in flight and their answers: stations client > transport ... transport > completion.
 *
 * One thread at a time reads the link, for all: whoever waits first, until its own answer is there,
 * or the client's reading thread once there is one. Answers are matched by seq; one that nobody
 * waits for came too late, and is dropped.
 */
#define _GNU_SOURCE
#include "client_impl.h"

#include "base/trace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000LL
#define ERROR_TEXT_MAX (1u << 20) /* of a device that lies about its length */

static enum c7x_status reset(void)
{
    return c7x_error_set(c7x_client_thread_error(), C7X_RESET, C7X_CLIENT_STATION,
                         "the device went away; close this client and open a new one");
}

/* ---- The list of pending requests; all under the lock ---- */

static struct c7x_pending **find(struct c7x_client *client, uint32_t seq)
{
    struct c7x_pending **place = &client->pending;
    while (*place != NULL && (*place)->seq != seq)
        place = &(*place)->next;
    return place;
}

/* Takes the request off the list. Its owner is woken, or told by completed() once unlocked. */
static struct c7x_pending *finish(struct c7x_client *client, struct c7x_pending **place,
                                  enum c7x_status status)
{
    struct c7x_pending *pending = *place;
    *place = pending->next;
    client->pending_count--;
    pending->status = status;
    pending->done = true;
    pthread_cond_broadcast(&client->changed);
    return pending;
}

/* Calls completed() without the lock. `pending` may be gone afterwards, also when nobody is called.
 */
static void tell(struct c7x_client *client, struct c7x_pending *pending)
{
    if (pending->completed == NULL)
        return;
    pthread_mutex_unlock(&client->lock);
    pending->completed(pending);
    pthread_mutex_lock(&client->lock);
}

static void finish_all(struct c7x_client *client, enum c7x_status status)
{
    while (client->pending != NULL)
        tell(client, finish(client, &client->pending, status));
}

static void expire(struct c7x_client *client)
{
    int64_t now = c7x_os_clock_ns();
    struct c7x_pending **place = &client->pending;
    while (*place != NULL) {
        /* Who waits on its own looks at its deadline itself. */
        if ((*place)->completed == NULL || (*place)->deadline_ns > now) {
            place = &(*place)->next;
            continue;
        }
        tell(client, finish(client, place, C7X_TIMEOUT));
        place = &client->pending; /* the list may be another one now */
    }
}

static int64_t first_deadline(const struct c7x_client *client)
{
    int64_t first = C7X_OS_FOREVER;
    for (const struct c7x_pending *pending = client->pending; pending != NULL;
         pending = pending->next)
        if (pending->completed != NULL && pending->deadline_ns < first)
            first = pending->deadline_ns;
    return first;
}

/* ---- Reading ---- */

static void dispatch(struct c7x_client *client, const uint8_t *frame, size_t size)
{
    uint32_t type;
    uint32_t seq;
    int32_t frame_status;
    if (size < C7X_WIRE_HEADER_SIZE)
        return;
    c7x_wire_peek(frame, &type, &seq, &frame_status);
    struct c7x_pending **place = find(client, seq);
    if (*place == NULL)
        return;
    enum c7x_status status =
        c7x_wire_decode_response(frame, size, (*place)->request_type, &(*place)->response, NULL);
    tell(client, finish(client, place, status));
}

/* Reads one frame, or until the deadline. Call with the lock, when nobody else reads. */
static void read_once(struct c7x_client *client, int64_t deadline_ns)
{
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
    size_t size = 0;
    client->is_read = true;
    pthread_mutex_unlock(&client->lock);
    enum c7x_status status =
        client->link->ops->receive(client->link, frame, &size, deadline_ns, NULL);
    pthread_mutex_lock(&client->lock);
    client->is_read = false;
    if (status == C7X_OK) {
        dispatch(client, frame, size);
    } else if (status != C7X_TIMEOUT && status != C7X_CANCELLED) {
        client->is_reset = true;
        finish_all(client, C7X_RESET);
    }
    pthread_cond_broadcast(&client->changed); /* somebody else may have to read now */
}

void c7x_client_wait_for_change(struct c7x_client *client, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = deadline_ns / NS_PER_S, .tv_nsec = deadline_ns % NS_PER_S};
    if (deadline_ns == C7X_OS_FOREVER)
        pthread_cond_wait(&client->changed, &client->lock);
    else
        pthread_cond_timedwait(&client->changed, &client->lock, &until);
}

static bool is_reader(const struct c7x_client *client)
{
    return client->has_reader && pthread_equal(client->reader, pthread_self());
}

/* With the lock. The reading thread itself may wait too, in a callback: it then reads here. */
static bool wait_locked(struct c7x_client *client, const bool *flag, int64_t deadline_ns)
{
    bool reads_anyway = is_reader(client);
    bool first = true;
    while (!*flag && !client->is_reset) {
        if (!first && c7x_os_clock_ns() >= deadline_ns)
            break;
        first = false;
        if (!client->is_read && (!client->has_reader || reads_anyway))
            read_once(client, deadline_ns);
        else
            c7x_client_wait_for_change(client, deadline_ns);
    }
    return *flag;
}

bool c7x_client_wait_for(struct c7x_client *client, const bool *flag, int64_t deadline_ns)
{
    pthread_mutex_lock(&client->lock);
    bool set = wait_locked(client, flag, deadline_ns);
    pthread_mutex_unlock(&client->lock);
    return set;
}

void c7x_client_finish_all(struct c7x_client *client, enum c7x_status status)
{
    pthread_mutex_lock(&client->lock);
    finish_all(client, status);
    pthread_mutex_unlock(&client->lock);
}

void c7x_client_read_loop(struct c7x_client *client)
{
    pthread_mutex_lock(&client->lock);
    while (!client->stops_reader && !client->is_reset) {
        if (client->is_read) { /* one who waited before there was a reading thread */
            c7x_client_wait_for_change(client, C7X_OS_FOREVER);
            continue;
        }
        read_once(client, first_deadline(client));
        expire(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* ---- Requests ---- */

static enum c7x_status refuse_more(enum c7x_status status, uint32_t count)
{
    return c7x_error_set(c7x_client_thread_error(), status, C7X_CLIENT_STATION,
                         "%u requests of this client are in flight, the most it may have", count);
}

/*
 * The device drops a reply that finds no room, so there are never more requests than replies fit.
 * Who would wait for its answer waits for its turn; not so the reading thread, in a callback, which
 * brings the others their answers. Call with the lock.
 */
static enum c7x_status wait_for_turn(struct c7x_client *client, const struct c7x_pending *request,
                                     int64_t deadline_ns)
{
    if (request->completed != NULL)
        return client->is_reset || client->pending_count < C7X_CLIENT_IN_FLIGHT_MAX
                   ? C7X_OK
                   : refuse_more(C7X_BUSY, C7X_CLIENT_IN_FLIGHT_MAX);
    while (!client->is_reset && client->pending_count >= C7X_CLIENT_PENDING_MAX &&
           !is_reader(client)) {
        if (c7x_os_clock_ns() >= deadline_ns)
            return refuse_more(C7X_TIMEOUT, C7X_CLIENT_PENDING_MAX);
        c7x_client_wait_for_change(client, deadline_ns);
    }
    return C7X_OK;
}

enum c7x_status c7x_client_send(struct c7x_client *client, struct c7x_request *request,
                                struct c7x_pending *pending, int64_t deadline_ns)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    pthread_mutex_lock(&client->lock);
    enum c7x_status turn = wait_for_turn(client, pending, deadline_ns);
    bool is_reset = client->is_reset;
    if (turn != C7X_OK) {
        pthread_mutex_unlock(&client->lock);
        return turn;
    }
    request->seq = client->seq++;
    pending->seq = request->seq;
    pending->request_type = request->type;
    pending->done = false;
    pending->deadline_ns = deadline_ns;
    pending->next = client->pending;
    if (!is_reset) {
        client->pending = pending;
        client->pending_count++;
    }
    /* A reader that sleeps longer than this request may take must look at its deadline. */
    bool wake = client->has_reader && client->is_read && pending->completed != NULL &&
                deadline_ns != C7X_OS_FOREVER;
    pthread_mutex_unlock(&client->lock);
    if (is_reset)
        return reset();
    size_t size = c7x_wire_encode_request(request, frame);
    c7x_client_trace(C7X_STATION_TRANSPORT, request->type, request->seq);
    enum c7x_status status =
        client->link->ops->send(client->link, frame, size, deadline_ns, c7x_client_thread_error());
    if (status != C7X_OK && !c7x_client_withdraw(client, pending))
        status = C7X_OK; /* it is done all the same: with C7X_RESET, by who reads */
    if (status == C7X_OK && wake)
        client->link->ops->interrupt(client->link);
    return status;
}

bool c7x_client_withdraw(struct c7x_client *client, struct c7x_pending *pending)
{
    pthread_mutex_lock(&client->lock);
    bool waits = !pending->done;
    if (waits) {
        struct c7x_pending **place = find(client, pending->seq);
        if (*place != NULL) {
            *place = pending->next;
            client->pending_count--;
            pthread_cond_broadcast(&client->changed);
        }
    }
    pthread_mutex_unlock(&client->lock);
    return waits;
}

/* Sends, waits, and returns the status of the exchange, not the one in the answer. */
static enum c7x_status send_and_wait(struct c7x_client *client, struct c7x_request *request,
                                     int64_t deadline_ns, struct c7x_response *out_response)
{
    struct c7x_pending pending = {.completed = NULL};
    C7X_RETURN_IF_ERROR(c7x_client_send(client, request, &pending, deadline_ns));
    if (!c7x_client_wait_for(client, &pending.done, deadline_ns) &&
        c7x_client_withdraw(client, &pending)) {
        pthread_mutex_lock(&client->lock);
        bool is_reset = client->is_reset;
        pthread_mutex_unlock(&client->lock);
        return is_reset ? reset()
                        : c7x_error_set(c7x_client_thread_error(), C7X_TIMEOUT, C7X_CLIENT_STATION,
                                        "no answer to %s before the deadline",
                                        c7x_wire_type_name(request->type));
    }
    if (pending.status == C7X_RESET)
        return reset();
    if (pending.status != C7X_OK)
        return c7x_error_set(c7x_client_thread_error(), pending.status, C7X_CLIENT_STATION,
                             "the answer to %s makes no sense; check the versions of both sides",
                             c7x_wire_type_name(request->type));
    *out_response = pending.response;
    return C7X_OK;
}

/* ---- Why a request failed ---- */

const char *c7x_client_intern_station(const char *name)
{
    static const char *const known[] = {"service", "target", "module", "loader",   "tvm",
                                        "kernel",  "memory", "printf", "transport"};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(known); i++)
        if (strcmp(known[i], name) == 0)
            return known[i];
    return "device";
}

enum c7x_status c7x_client_set_device_error(const struct c7x_response *response,
                                            const char *station, const char *text)
{
    struct c7x_error *error = c7x_client_thread_error();
    enum c7x_status status = (enum c7x_status)response->status;
    c7x_error_set(error, status, station, "%s", text[0] != '\0' ? text : c7x_status_text(status));
    if (status == C7X_NOMEM)
        error->oom = (struct c7x_oom){.requested = response->oom.requested,
                                      .free = response->oom.free,
                                      .total = response->oom.total};
    return status;
}

/* One piece of the text; false when there is none. */
static bool fetch_error_piece(struct c7x_client *client, uint32_t seq, size_t offset,
                              struct c7x_response *out_response)
{
    struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
    request.body.error_text.failed_seq = seq;
    request.body.error_text.offset = (uint32_t)offset;
    return send_and_wait(client, &request, c7x_os_deadline_ns(NS_PER_S), out_response) == C7X_OK &&
           out_response->status == C7X_OK && out_response->body.error_text.bytes != 0;
}

/* All of it, to be freed, and the station that wrote it; NULL when there is none. */
static char *fetch_whole_text(struct c7x_client *client, uint32_t seq, const char **out_station)
{
    struct c7x_response piece;
    char *text = NULL;
    size_t total = 0;
    size_t used = 0;
    do {
        if (!fetch_error_piece(client, seq, used, &piece))
            break;
        if (text == NULL) {
            total = piece.body.error_text.total < ERROR_TEXT_MAX ? piece.body.error_text.total
                                                                 : ERROR_TEXT_MAX;
            text = calloc(1, total + 1);
            if (text == NULL)
                break;
        }
        size_t room = total - used;
        size_t count = piece.body.error_text.bytes < room ? piece.body.error_text.bytes : room;
        memcpy(text + used, piece.body.error_text.text, count);
        used += count;
        *out_station = c7x_client_intern_station(piece.body.error_text.station);
    } while (used < total);
    return text;
}

/* Fetches why request `seq` failed; if that fails too, the status alone has to do. */
static void fetch_error_text(struct c7x_client *client, uint32_t seq,
                             const struct c7x_response *failed)
{
    const char *station = "device";
    char *text = fetch_whole_text(client, seq, &station);
    c7x_client_set_device_error(failed, station, text != NULL ? text : "");
    if (text != NULL && strlen(text) >= C7X_ERROR_TEXT_MAX)
        c7x_client_take_text(text);
    else
        free(text);
}

enum c7x_status c7x_client_exchange(struct c7x_client *client, struct c7x_request *request,
                                    int64_t deadline_ns, struct c7x_response *out_response)
{
    C7X_RETURN_IF_ERROR(send_and_wait(client, request, deadline_ns, out_response));
    c7x_client_trace(C7X_STATION_COMPLETION, request->type, request->seq);
    if (out_response->status == C7X_OK)
        return C7X_OK;
    if (client->has_session)
        fetch_error_text(client, request->seq, out_response);
    else
        c7x_client_set_device_error(out_response, "device", "");
    return (enum c7x_status)out_response->status;
}

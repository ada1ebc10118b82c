/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inferences that nobody waits for. The first one starts the client's reading thread, which carries
 * each through its steps:
 *
 *   sent --> answered --> ended                          done
 *        \-> answered SIZE, window grown --> sent again
 *        \-> answered with a failure --> its text is fetched, piece by piece --> ended
 *        \-> deadline --> windows given up --> ended
 */
#define _GNU_SOURCE
#include "client_impl.h"

#include "base/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

struct c7x_inference {
    struct c7x_pending pending; /* of the inference itself, then of the texts of its failure */
    struct c7x_client *client;
    struct c7x_inference *next;           /* of the client's; its lock */
    struct c7x_inference *next_completed; /* its lock */
    c7x_inference_done_fn done;
    void *context;
    struct c7x_io *io;
    struct c7x_shared *own_input; /* NULL: the library's window; released when it ends */
    struct c7x_shared *own_output;
    struct c7x_request request;
    struct c7x_response response;
    bool is_given_up; /* it may still run on the device */
    bool has_ended;   /* the client's lock; what follows does not change any more then */
    enum c7x_status status;
    const char *station;
    struct c7x_oom oom;
    size_t text_used;
    char text[C7X_ERROR_TEXT_MAX];
};
_Static_assert(offsetof(struct c7x_inference, pending) == 0, "found by its pending request");

/* ---- Windows ---- */

static struct c7x_io *acquire_io(struct c7x_client *client)
{
    pthread_mutex_lock(&client->lock);
    struct c7x_io *io = client->free_io;
    if (io != NULL)
        client->free_io = io->next;
    pthread_mutex_unlock(&client->lock);
    return io != NULL ? io : calloc(1, sizeof *io);
}

static void release_io(struct c7x_client *client, struct c7x_io *io)
{
    static const struct c7x_buffer none;
    if (io->own_input != NULL)
        io->input = none;
    if (io->own_output != NULL)
        io->output = none;
    io->own_input = io->own_output = NULL;
    pthread_mutex_lock(&client->lock);
    io->next = client->free_io;
    client->free_io = io;
    pthread_mutex_unlock(&client->lock);
}

/* The caller's windows, if there are any, become those of the inference. C7X_BUSY. */
static enum c7x_status use_own_windows(struct c7x_inference *inference,
                                       const struct c7x_infer_options *options)
{
    struct c7x_io *io = inference->io;
    C7X_RETURN_IF_ERROR(c7x_shared_use(options->input));
    inference->own_input = options->input;
    C7X_RETURN_IF_ERROR(c7x_shared_use(options->output));
    inference->own_output = options->output;
    if (options->input != NULL) {
        c7x_client_detach(inference->client, &io->input);
        io->own_input = options->input;
        io->input = options->input->buffer;
        io->data_offset = 0;
    }
    if (options->output != NULL) {
        c7x_client_detach(inference->client, &io->output);
        io->own_output = options->output;
        io->output = options->output->buffer;
    }
    return C7X_OK;
}

/* `given_up`: the device may still use them. */
static void release_own_windows(struct c7x_inference *inference, bool given_up)
{
    c7x_shared_release(inference->own_input, given_up, inference->request.seq);
    c7x_shared_release(inference->own_output, given_up, inference->request.seq);
    inference->own_input = inference->own_output = NULL;
}

/* The library syncs its own windows; in the caller's only what it writes and reads itself. */
static void sync_input(struct c7x_inference *inference)
{
    struct c7x_host_link *link = inference->client->link;
    const struct c7x_buffer *buffer = &inference->io->input;
    const struct c7x_wire_infer *infer = &inference->request.body.infer;
    if (inference->own_input == NULL)
        link->ops->sync_to_device(link, buffer, 0, buffer->size);
    else if (infer->descs_addr != 0)
        link->ops->sync_to_device(link, buffer, (size_t)(infer->descs_addr - buffer->dsp_address),
                                  infer->num_inputs * sizeof(struct c7x_tensor_desc));
}

static void sync_output(struct c7x_inference *inference)
{
    struct c7x_host_link *link = inference->client->link;
    const struct c7x_buffer *buffer = &inference->io->output;
    uint64_t array = inference->response.body.infer.descs_addr;
    if (inference->own_output == NULL)
        link->ops->sync_from_device(link, buffer, 0, buffer->size);
    else if (array >= buffer->dsp_address)
        link->ops->sync_from_device(link, buffer, (size_t)(array - buffer->dsp_address),
                                    inference->response.body.infer.descs_size);
}

/* ---- The steps, in the reading thread ---- */

static void fill_completed(struct c7x_client *client, struct c7x_inference *inference)
{
    uint64_t one = 1;
    if (client->completed_last != NULL)
        client->completed_last->next_completed = inference;
    else
        client->completed_first = inference;
    client->completed_last = inference;
    if (client->event_fd >= 0)
        (void)!write(client->event_fd, &one, sizeof one); /* full means readable as well */
}

static void end(struct c7x_inference *inference, enum c7x_status status)
{
    struct c7x_client *client = inference->client;
    c7x_inference_done_fn done = inference->done;
    c7x_client_trace(C7X_STATION_COMPLETION, inference->request.type, inference->request.seq);
    release_own_windows(inference, inference->is_given_up);
    pthread_mutex_lock(&client->lock);
    inference->status = status;
    inference->has_ended = true;
    if (done == NULL)
        fill_completed(client, inference);
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    if (done != NULL)
        done(inference->context, inference);
}

static void set_text(struct c7x_inference *inference, const char *station, const char *text)
{
    inference->station = station;
    strncpy(inference->text, text, sizeof inference->text - 1);
}

static void on_text(struct c7x_pending *pending);

/* Asks for the next piece of the failure's text; false if it cannot be had. */
static bool ask_for_text(struct c7x_inference *inference)
{
    struct c7x_request request = {.type = C7X_MSG_ERROR_TEXT};
    request.body.error_text.failed_seq = inference->request.seq;
    request.body.error_text.offset = (uint32_t)inference->text_used;
    inference->pending.completed = on_text;
    return c7x_client_send(inference->client, &request, &inference->pending,
                           c7x_os_deadline_ns(NS_PER_S)) == C7X_OK;
}

static void on_text(struct c7x_pending *pending)
{
    struct c7x_inference *inference = (struct c7x_inference *)pending;
    const struct c7x_response *response = &pending->response;
    enum c7x_status status = (enum c7x_status)inference->response.status;
    if (pending->status != C7X_OK || response->status != C7X_OK) {
        if (inference->text_used == 0)
            set_text(inference, "device", c7x_status_text(status));
        end(inference, status);
        return;
    }
    size_t room = sizeof inference->text - 1 - inference->text_used;
    size_t count = response->body.error_text.bytes < room ? response->body.error_text.bytes : room;
    memcpy(inference->text + inference->text_used, response->body.error_text.text, count);
    inference->text_used += count;
    inference->station = c7x_client_intern_station(response->body.error_text.station);
    bool more = count != 0 && inference->text_used < response->body.error_text.total;
    if (!more || !ask_for_text(inference))
        end(inference, status);
}

static void fail(struct c7x_inference *inference)
{
    const struct c7x_response *response = &inference->response;
    inference->oom = (struct c7x_oom){.requested = response->oom.requested,
                                      .free = response->oom.free,
                                      .total = response->oom.total};
    if (inference->client->has_session && ask_for_text(inference))
        return;
    set_text(inference, "device", c7x_status_text(response->status));
    end(inference, (enum c7x_status)response->status);
}

/* No answer will come, or none in time: the device may still use the windows. */
static void give_up(struct c7x_inference *inference, enum c7x_status status)
{
    static const char *const texts[] = {
        "the device went away; close this client and open a new one",
        "the inference has not ended before its deadline",
        "the answer to an inference makes no sense"};
    c7x_client_abandon_io(inference->client, inference->io, inference->request.seq);
    inference->is_given_up = status != C7X_RESET;
    set_text(inference, C7X_CLIENT_STATION,
             texts[status == C7X_RESET     ? 0
                   : status == C7X_TIMEOUT ? 1
                                           : 2]);
    end(inference, status);
}

/* Sends it once more, with room for what comes out. */
static enum c7x_status send_larger(struct c7x_inference *inference)
{
    struct c7x_pending *pending = &inference->pending;
    C7X_RETURN_IF_ERROR(c7x_client_grow_for(inference->client, inference->io, &inference->response,
                                            &inference->request, pending->deadline_ns));
    return c7x_client_send(inference->client, &inference->request, pending, pending->deadline_ns);
}

static void on_answer(struct c7x_pending *pending)
{
    struct c7x_inference *inference = (struct c7x_inference *)pending;
    enum c7x_status larger;
    struct c7x_client *client = inference->client;
    if (pending->status != C7X_OK) {
        give_up(inference, pending->status);
        return;
    }
    inference->response = pending->response;
    if (!inference->response.header_only)
        c7x_client_pass_printed(client, inference->response.body.infer.printf_size);
    if (inference->response.status == C7X_OK) {
        sync_output(inference);
        end(inference, C7X_OK);
        return;
    }
    larger = send_larger(inference);
    if (larger == C7X_RESET)
        give_up(inference, larger);
    else if (larger != C7X_OK)
        fail(inference);
}

/* ---- The reading thread ---- */

static void *run_reader(void *context)
{
    c7x_client_read_loop(context);
    return NULL;
}

static enum c7x_status start_reader(struct c7x_client *client)
{
    int failure = 0;
    pthread_mutex_lock(&client->lock);
    if (!client->has_reader) {
        failure = pthread_create(&client->reader, NULL, run_reader, client);
        client->has_reader = failure == 0;
    }
    pthread_mutex_unlock(&client->lock);
    if (failure != 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "cannot start a thread: %s", strerror(failure));
    client->link->ops->interrupt(client->link); /* one who reads now hands over */
    return C7X_OK;
}

void c7x_client_end_inferences(struct c7x_client *client)
{
    while (client->inferences != NULL)
        c7x_inference_free(client->inferences);
    pthread_mutex_lock(&client->lock);
    bool has_reader = client->has_reader;
    client->stops_reader = true;
    pthread_mutex_unlock(&client->lock);
    if (has_reader) {
        client->link->ops->interrupt(client->link);
        pthread_join(client->reader, NULL);
    }
    while (client->free_io != NULL) {
        struct c7x_io *io = client->free_io;
        client->free_io = io->next;
        c7x_client_detach_io(client, io);
        free(io);
    }
}

/* ---- The calls ---- */

void c7x_infer_options_init(struct c7x_client *client, struct c7x_infer_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->deadline_ms = atomic_load_explicit(&client->deadline_ms, memory_order_relaxed);
}

static enum c7x_status take_options(struct c7x_client *client,
                                    const struct c7x_infer_options *options,
                                    struct c7x_infer_options *out)
{
    size_t least = offsetof(struct c7x_infer_options, deadline_ms) + sizeof options->deadline_ms;
    c7x_infer_options_init(client, out);
    if (options->struct_size < least)
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "options.struct_size is %zu; call c7x_infer_options_init first",
                             options->struct_size);
    memcpy(out, options, options->struct_size < sizeof *out ? options->struct_size : sizeof *out);
    return C7X_OK;
}

static struct c7x_inference *new_inference(struct c7x_client *client,
                                           const struct c7x_infer_options *options)
{
    struct c7x_inference *inference = calloc(1, sizeof *inference);
    if (inference == NULL)
        return NULL;
    inference->io = acquire_io(client);
    if (inference->io == NULL) {
        free(inference);
        return NULL;
    }
    inference->client = client;
    inference->pending.completed = on_answer;
    inference->done = options->done;
    inference->context = options->context;
    inference->request.body.infer.module_handle = options->handle;
    inference->request.body.infer.model_id = options->model_id;
    inference->request.body.infer.flags =
        c7x_client_with_priority(client, options->handle, options->flags);
    return inference;
}

static void enlist(struct c7x_client *client, struct c7x_inference *inference)
{
    pthread_mutex_lock(&client->lock);
    inference->next = client->inferences;
    client->inferences = inference;
    pthread_mutex_unlock(&client->lock);
}

/* Off all lists of the client. */
static void delist(struct c7x_client *client, struct c7x_inference *inference)
{
    struct c7x_inference *last = NULL;
    pthread_mutex_lock(&client->lock);
    for (struct c7x_inference **place = &client->inferences; *place != NULL;
         place = &(*place)->next)
        if (*place == inference) {
            *place = inference->next;
            break;
        }
    for (struct c7x_inference **place = &client->completed_first; *place != NULL;
         place = &(*place)->next_completed) {
        if (*place == inference)
            *place = inference->next_completed;
        if (*place == NULL)
            break;
        last = *place;
    }
    client->completed_last = client->completed_first != NULL ? last : NULL;
    pthread_mutex_unlock(&client->lock);
}

static uint64_t output_size(struct c7x_client *client, const struct c7x_infer_options *options)
{
    pthread_mutex_lock(&client->lock);
    uint64_t declared = client->declared.output_bytes;
    pthread_mutex_unlock(&client->lock);
    return options->output_bytes != 0 ? options->output_bytes : declared;
}

static enum c7x_status begin(struct c7x_client *client, struct c7x_inference *inference,
                             const struct c7x_infer_options *options,
                             const struct c7x_client_tensor *inputs, int input_count)
{
    struct c7x_io *io = inference->io;
    int64_t deadline_ns = c7x_client_deadline_of_ms(options->deadline_ms);
    C7X_RETURN_IF_ERROR(use_own_windows(inference, options));
    if (inference->own_output == NULL)
        C7X_RETURN_IF_ERROR(
            c7x_client_grow_output(client, io, output_size(client, options), deadline_ns));
    C7X_RETURN_IF_ERROR(
        c7x_client_prepare(client, io, inputs, input_count, deadline_ns, &inference->request));
    sync_input(inference);
    C7X_RETURN_IF_ERROR(start_reader(client));
    enlist(client, inference);
    enum c7x_status status =
        c7x_client_send(client, &inference->request, &inference->pending, deadline_ns);
    if (status != C7X_OK)
        delist(client, inference);
    return status;
}

enum c7x_status c7x_client_infer_async(struct c7x_client *client,
                                       const struct c7x_infer_options *options,
                                       const struct c7x_client_tensor *inputs, int input_count,
                                       struct c7x_inference **out_inference)
{
    struct c7x_infer_options known;
    c7x_client_enter();
    c7x_client_trace(C7X_STATION_CLIENT, 0, 0);
    C7X_RETURN_IF_ERROR(take_options(client, options, &known));
    struct c7x_inference *inference = new_inference(client, &known);
    if (inference == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for an inference");
    *out_inference = inference; /* before it is sent: its done may be called at once */
    enum c7x_status status = begin(client, inference, &known, inputs, input_count);
    if (status != C7X_OK) {
        *out_inference = NULL;
        release_own_windows(inference, false);
        release_io(client, inference->io);
        free(inference);
    }
    return status;
}

/* Waits for its end; the reading thread brings it, also when the device goes away. */
static bool wait_for_end(struct c7x_inference *inference, int64_t deadline_ns)
{
    struct c7x_client *client = inference->client;
    pthread_mutex_lock(&client->lock);
    while (!inference->has_ended && c7x_os_clock_ns() < deadline_ns)
        c7x_client_wait_for_change(client, deadline_ns);
    bool ended = inference->has_ended;
    pthread_mutex_unlock(&client->lock);
    return ended;
}

enum c7x_status c7x_inference_wait(struct c7x_inference *inference, int64_t deadline_ms)
{
    c7x_client_enter();
    if (wait_for_end(inference, c7x_client_deadline_of_ms(deadline_ms)))
        return C7X_OK;
    return c7x_error_set(c7x_client_thread_error(), C7X_TIMEOUT, C7X_CLIENT_STATION,
                         "the inference has not ended yet");
}

static bool has_ended(struct c7x_inference *inference)
{
    pthread_mutex_lock(&inference->client->lock);
    bool ended = inference->has_ended;
    pthread_mutex_unlock(&inference->client->lock);
    return ended;
}

enum c7x_status c7x_inference_result(struct c7x_inference *inference,
                                     struct c7x_client_tensor *outputs, int *inout_output_count,
                                     uint64_t *out_cycles)
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_client_enter();
    if (!has_ended(inference))
        return c7x_error_set(error, C7X_BUSY, C7X_CLIENT_STATION,
                             "the inference has not ended yet");
    if (inference->status != C7X_OK) {
        c7x_error_set(error, inference->status, inference->station, "%s", inference->text);
        error->oom = inference->oom;
        return inference->status;
    }
    C7X_RETURN_IF_ERROR(
        c7x_client_take_outputs(inference->io, &inference->response, outputs, inout_output_count));
    if (out_cycles != NULL)
        *out_cycles = inference->response.body.infer.cycles;
    return C7X_OK;
}

enum c7x_status c7x_inference_cancel(struct c7x_inference *inference)
{
    struct c7x_client *client = inference->client;
    struct c7x_request request = {.type = C7X_MSG_CANCEL};
    struct c7x_response response;
    c7x_client_enter();
    if (!client->has_session)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 cannot cancel");
    pthread_mutex_lock(&client->lock);
    request.body.cancelled_seq = inference->request.seq;
    pthread_mutex_unlock(&client->lock);
    C7X_RETURN_IF_ERROR(
        c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response));
    if (response.body.cancel_outcome == C7X_WIRE_CANCEL_REMOVED)
        return C7X_OK;
    return c7x_error_set(c7x_client_thread_error(), C7X_BUSY, C7X_CLIENT_STATION,
                         "the inference runs, and ends with its critical section");
}

/* Makes sure that no other thread will touch it: true if it had ended, false if it was taken back.
 */
static bool settle(struct c7x_inference *inference)
{
    struct c7x_client *client = inference->client;
    while (!has_ended(inference)) {
        if (c7x_client_withdraw(client, &inference->pending))
            return false;
        /* Its step runs right now, in the reading thread. */
        wait_for_end(inference, c7x_os_deadline_ns(NS_PER_S / 100));
    }
    return true;
}

void c7x_inference_free(struct c7x_inference *inference)
{
    if (inference == NULL)
        return;
    struct c7x_client *client = inference->client;
    if (!settle(inference)) {
        release_own_windows(inference, true);
        c7x_client_abandon_io(client, inference->io, inference->request.seq);
    }
    delist(client, inference);
    release_io(client, inference->io);
    free(inference);
}

int c7x_client_event_fd(struct c7x_client *client)
{
    c7x_client_enter();
    pthread_mutex_lock(&client->lock);
    if (client->event_fd < 0)
        client->event_fd =
            eventfd(client->completed_first != NULL ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = client->event_fd;
    pthread_mutex_unlock(&client->lock);
    if (fd < 0)
        c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                      "no descriptor: %s", strerror(errno));
    return fd;
}

struct c7x_inference *c7x_client_next_completed(struct c7x_client *client)
{
    uint64_t count;
    pthread_mutex_lock(&client->lock);
    struct c7x_inference *inference = client->completed_first;
    if (inference != NULL) {
        client->completed_first = inference->next_completed;
        inference->next_completed = NULL;
    }
    if (client->completed_first == NULL) {
        client->completed_last = NULL;
        if (client->event_fd >= 0)
            (void)!read(client->event_fd, &count, sizeof count); /* not readable any more */
    }
    pthread_mutex_unlock(&client->lock);
    return inference;
}

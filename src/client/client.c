/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "client_impl.h"
#include "over.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define DEADLINE_MS_DEFAULT 60000
#define SILENT_MS 100 /* that a device may take to answer, which has not for longer than asked */
#define NS_PER_MS 1000000LL

/* Why this thread's last call failed; and all of a text that is too long for that, freed by the
 * thread's next call or its end. */
static _Thread_local struct c7x_error thread_error;
static _Thread_local char *thread_text;
static pthread_key_t thread_text_key;
static pthread_once_t thread_text_once = PTHREAD_ONCE_INIT;

struct c7x_error *c7x_client_thread_error(void)
{
    return &thread_error;
}

static void create_thread_text_key(void)
{
    (void)pthread_key_create(&thread_text_key, free);
}

void c7x_client_take_text(char *text)
{
    (void)pthread_once(&thread_text_once, create_thread_text_key);
    free(thread_text);
    thread_text = text;
    (void)pthread_setspecific(thread_text_key, text);
}

void c7x_client_enter(void)
{
    c7x_error_clear(&thread_error);
    if (thread_text != NULL)
        c7x_client_take_text(NULL);
}

/* Whether the error is that of the long text, and not of what failed later. */
static bool is_cut_text(void)
{
    size_t length = strlen(thread_error.text);
    return thread_text != NULL && length == sizeof thread_error.text - 1 &&
           strncmp(thread_text, thread_error.text, length - strlen("...")) == 0;
}

void c7x_client_trace(enum c7x_station station, uint32_t type, uint32_t seq)
{
    const struct c7x_trace_origin origin = {.seq = seq, .type = (uint16_t)type};
    c7x_trace(station, &origin);
}

int64_t c7x_client_deadline_of_ms(int64_t deadline_ms)
{
    if (deadline_ms < 0 || deadline_ms > INT64_MAX / NS_PER_MS)
        return C7X_OS_FOREVER;
    return c7x_os_deadline_ns(deadline_ms * NS_PER_MS);
}

int64_t c7x_client_deadline_ns(struct c7x_client *client)
{
    return c7x_client_deadline_of_ms(
        atomic_load_explicit(&client->deadline_ms, memory_order_relaxed));
}

void c7x_client_options_init(struct c7x_client_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->deadline_ms = DEADLINE_MS_DEFAULT;
}

/* A caller built against an older header has a shorter struct; what it does not know keeps its
 * default. */
enum c7x_status c7x_client_options_take(const struct c7x_client_options *options,
                                        struct c7x_client_options *out_options,
                                        struct c7x_error *error)
{
    c7x_client_options_init(out_options);
    if (options != NULL) {
        size_t size = options->struct_size;
        if (size < offsetof(struct c7x_client_options, device) + sizeof options->device)
            return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                                 "options.struct_size is %zu; call c7x_client_options_init first",
                                 size);
        memcpy(out_options, options, size < sizeof *options ? size : sizeof *options);
    }
    if (out_options->priority < 0 || out_options->priority > (int)C7X_WIRE_PRIORITY_MAX)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "priority %d; allowed are 1 to %u", out_options->priority,
                             C7X_WIRE_PRIORITY_MAX);
    return C7X_OK;
}

static enum c7x_status take_options(struct c7x_client *client,
                                    const struct c7x_client_options *options)
{
    C7X_RETURN_IF_ERROR(c7x_client_options_take(options, &client->options, &thread_error));
    const char *name =
        client->options.name != NULL ? client->options.name : program_invocation_short_name;
    strncpy(client->name, name, sizeof client->name - 1);
    client->options.name = client->name;
    c7x_client_set_deadline(client, client->options.deadline_ms);
    return C7X_OK;
}

static enum c7x_status check_version(struct c7x_client *client, int64_t deadline_ns)
{
    struct c7x_request request = {.type = C7X_MSG_PING};
    struct c7x_response response;
    C7X_RETURN_IF_ERROR(c7x_client_exchange(client, &request, deadline_ns, &response));
    client->wire_version = response.body.status.version;
    if (C7X_WIRE_VERSION_MAJOR(client->wire_version) == C7X_WIRE_VERSION_MAJOR(C7X_WIRE_VERSION))
        return C7X_OK;
    return c7x_error_set(
        &thread_error, C7X_VERSION, C7X_CLIENT_STATION,
        "the device speaks wire version %u.%u, this library %u.%u; the first "
        "number must be the same",
        C7X_WIRE_VERSION_MAJOR(client->wire_version), C7X_WIRE_VERSION_MINOR(client->wire_version),
        C7X_WIRE_VERSION_MAJOR(C7X_WIRE_VERSION), C7X_WIRE_VERSION_MINOR(C7X_WIRE_VERSION));
}

/* 3.0 firmware has no sessions, and wants files at the carve-out's start, KV behind them. */
static enum c7x_status reserve_staging_3_0(struct c7x_client *client, int64_t deadline_ns)
{
    C7X_RETURN_IF_ERROR(c7x_client_attach(client, C7X_WIRE_STAGING_SIZE + C7X_WIRE_KV_SIZE,
                                          deadline_ns, &client->staging_3_0));
    if (client->staging_3_0.dsp_address == C7X_WIRE_STAGING_ADDR)
        return C7X_OK;
    return c7x_error_set(&thread_error, C7X_BUSY, C7X_CLIENT_STATION,
                         "firmware of wire version 3.0 serves one program, and another one holds "
                         "its staging area");
}

static enum c7x_status open_session(struct c7x_client *client, int64_t deadline_ns)
{
    struct c7x_request request = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_response response;
    request.body.session_open.wire_version = C7X_WIRE_VERSION;
    request.body.session_open.process = (uint32_t)getpid();
    if (getrandom(&request.body.session_open.nonce, sizeof request.body.session_open.nonce, 0) < 0)
        request.body.session_open.nonce = (uint64_t)c7x_os_clock_ns();
    memcpy(request.body.session_open.name, client->name, sizeof request.body.session_open.name);
    enum c7x_status status = c7x_client_exchange(client, &request, deadline_ns, &response);
    if (status == C7X_BUSY) /* without a session there is no text of the device's */
        return c7x_error_set(&thread_error, status, C7X_CLIENT_STATION,
                             "the device takes no more sessions: %u are open, the most there may "
                             "be, or a client of version 3.0 has it to itself",
                             C7X_WIRE_SESSIONS_MAX);
    if (status != C7X_OK)
        return status;
    if (response.body.session_open.nonce != request.body.session_open.nonce)
        return c7x_error_set(&thread_error, C7X_PROTOCOL, C7X_CLIENT_STATION,
                             "the device answered another client's session");
    client->has_session = true;
    return c7x_client_keep_lease(client, response.body.session_open.lease_ms);
}

static enum c7x_status bind_printf(struct c7x_client *client, int64_t deadline_ns)
{
    struct c7x_request request = {.type = C7X_MSG_SET_PRINTF_BUF};
    struct c7x_response response;
    C7X_RETURN_IF_ERROR(
        c7x_client_attach(client, C7X_WIRE_PRINTF_SIZE, deadline_ns, &client->printf));
    request.body.printf_buf.address = client->printf.dsp_address;
    request.body.printf_buf.size = C7X_WIRE_PRINTF_SIZE;
    return c7x_client_exchange(client, &request, deadline_ns, &response);
}

static enum c7x_status connect_client(struct c7x_client *client,
                                      const struct c7x_client_options *options)
{
    C7X_RETURN_IF_ERROR(take_options(client, options));
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    if (getrandom(&client->seq, sizeof client->seq, 0) < 0)
        client->seq = (uint32_t)c7x_os_clock_ns();
    if (client->link == NULL)
        C7X_RETURN_IF_ERROR(
            c7x_client_open_link(&client->options, deadline_ns, &client->link, &thread_error));
    C7X_RETURN_IF_ERROR(check_version(client, deadline_ns));
    if (client->wire_version >= C7X_WIRE_VERSION_3_1)
        C7X_RETURN_IF_ERROR(open_session(client, deadline_ns));
    else
        C7X_RETURN_IF_ERROR(reserve_staging_3_0(client, deadline_ns));
    return bind_printf(client, deadline_ns);
}

static struct c7x_client *new_client(void)
{
    pthread_condattr_t attributes;
    struct c7x_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return NULL;
    client->event_fd = -1;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->setup_lock, NULL);
    pthread_mutex_init(&client->print_lock, NULL);
    return client;
}

enum c7x_status c7x_client_open_over(struct c7x_host_link *link,
                                     const struct c7x_client_options *options,
                                     struct c7x_client **out_client)
{
    struct c7x_client *client = new_client();
    if (client == NULL) {
        if (link != NULL)
            link->ops->close(link);
        return c7x_error_set(&thread_error, C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a client");
    }
    client->link = link;
    c7x_client_enter();
    enum c7x_status status = connect_client(client, options);
    if (status != C7X_OK) {
        struct c7x_error why = thread_error; /* closing is a call too */
        c7x_client_close(client);
        thread_error = why;
        return status;
    }
    *out_client = client;
    return C7X_OK;
}

enum c7x_status c7x_client_open_with(const struct c7x_client_options *options,
                                     struct c7x_client **out_client)
{
    return c7x_client_open_over(NULL, options, out_client);
}

struct c7x_client *c7x_client_open(void)
{
    struct c7x_client *client = NULL;
    return c7x_client_open_with(NULL, &client) == C7X_OK ? client : NULL;
}

/* The link's end tells the device as well, so one that has not answered what was given up is not
 * waited for once more. */
static void close_session(struct c7x_client *client)
{
    struct c7x_request request = {.type = C7X_MSG_SESSION_CLOSE};
    struct c7x_response response;
    int64_t deadline_ns = atomic_load(&client->letting_go) != 0
                              ? c7x_os_deadline_ns(SILENT_MS * NS_PER_MS)
                              : c7x_client_deadline_ns(client);
    if (client->has_session &&
        c7x_client_exchange(client, &request, deadline_ns, &response) != C7X_OK)
        c7x_error_clear(&thread_error);
}

void c7x_client_close(struct c7x_client *client)
{
    if (client == NULL)
        return;
    c7x_client_end_lease(client);
    close_session(client);
    if (client->link != NULL) {
        c7x_client_end_inferences(client);
        c7x_client_finish_all(client, C7X_CANCELLED);
        while (client->kv != NULL)
            c7x_client_kv_drop(client, client->kv->handle);
        c7x_client_free_staged(client);
        c7x_client_detach_io(client, &client->io);
        while (client->given_up != NULL) {
            struct c7x_io *io = client->given_up;
            client->given_up = io->next;
            c7x_client_detach_io(client, io);
            free(io);
        }
        c7x_client_detach(client, &client->printf);
        c7x_client_detach(client, &client->staging_3_0);
        client->link->ops->close(client->link);
    }
    if (client->event_fd >= 0)
        close(client->event_fd);
    pthread_mutex_destroy(&client->print_lock);
    pthread_mutex_destroy(&client->setup_lock);
    pthread_mutex_destroy(&client->lock);
    pthread_cond_destroy(&client->changed);
    free(client);
}

const char *c7x_client_last_error(const struct c7x_client *client)
{
    (void)client; /* the calling thread's, so that threads do not overwrite each other's */
    return is_cut_text() ? thread_text : thread_error.text;
}

const char *c7x_client_last_station(const struct c7x_client *client)
{
    (void)client;
    return thread_error.station != NULL ? thread_error.station : "";
}

void c7x_client_set_deadline(struct c7x_client *client, int64_t deadline_ms)
{
    atomic_store_explicit(&client->deadline_ms, deadline_ms, memory_order_relaxed);
}

enum c7x_status c7x_client_ping(struct c7x_client *client, uint32_t *out_version,
                                uint32_t *out_uptime_ms)
{
    struct c7x_request request = {.type = C7X_MSG_PING};
    struct c7x_response response;
    c7x_client_enter();
    enum c7x_status status =
        c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response);
    if (status == C7X_OK && out_version != NULL)
        *out_version = response.body.status.version;
    if (status == C7X_OK && out_uptime_ms != NULL)
        *out_uptime_ms = response.body.status.uptime_ms;
    return status;
}

enum c7x_status c7x_client_get_status(struct c7x_client *client,
                                      struct c7x_client_status *out_status)
{
    struct c7x_request request = {.type = C7X_MSG_GET_STATUS};
    struct c7x_response response;
    c7x_client_enter();
    enum c7x_status status =
        c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response);
    if (status == C7X_OK)
        *out_status = (struct c7x_client_status){
            response.body.status.version, response.body.status.uptime_ms,
            response.body.status.jobs_completed, response.body.status.jobs_failed};
    return status;
}

static uint32_t saturate(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
}

int c7x_client_get_last_oom(const struct c7x_client *client, uint32_t *out_requested,
                            uint32_t *out_free, uint32_t *out_total)
{
    (void)client;
    if (thread_error.status != C7X_NOMEM || thread_error.oom.total == 0)
        return 0;
    *out_requested = saturate(thread_error.oom.requested);
    *out_free = saturate(thread_error.oom.free);
    *out_total = saturate(thread_error.oom.total);
    return 1;
}

enum c7x_status c7x_client_read_trace(struct c7x_client *client, uint64_t *inout_position,
                                      char *text, size_t text_size, size_t *out_size)
{
    c7x_client_enter();
    pthread_mutex_lock(&client->setup_lock);
    enum c7x_status status = client->link->ops->read_log(client->link, inout_position, text,
                                                         text_size, out_size, &thread_error);
    pthread_mutex_unlock(&client->setup_lock);
    return status;
}

const char *c7x_strerror(int status)
{
    return c7x_status_text(status);
}

const char *c7x_client_version(void)
{
    return C7X_PROJECT_VERSION;
}

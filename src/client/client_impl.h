/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the sources of this folder alone. */
#ifndef C7X_CLIENT_CLIENT_IMPL_H
#define C7X_CLIENT_CLIENT_IMPL_H

#include "c7x_compute_client.h"
#include "os/os.h"
#include "transport/transport.h"
#include "wire/wire.h"

#include <pthread.h>

#define C7X_CLIENT_STATION "client"

/* Bytes staged for a module or weights, kept while the device may use them in place. */
struct c7x_staged {
    struct c7x_staged *next;
    uint32_t handle;
    bool is_model; /* the handle is a model_id */
    struct c7x_buffer buffer;
};

struct c7x_client {
    pthread_mutex_t lock; /* one call at a time; recursive, since one public call may use another */
    struct c7x_host_link *link;
    struct c7x_client_options options;
    char name[C7X_CLIENT_NAME_MAX + 1];
    uint32_t wire_version; /* of the device */
    bool has_session;
    bool is_reset; /* the device went away: nothing works but close */
    uint32_t seq;
    struct c7x_error error; /* of the last call that failed */
    uint32_t oom_requested; /* bytes, as the device told; valid when has_oom */
    uint32_t oom_free;
    uint32_t oom_total;
    bool has_oom;
    struct c7x_staged *staged;
    struct c7x_buffer printf;
    struct c7x_buffer input;
    struct c7x_buffer output;
    bool input_locked; /* a pointer has been handed out */
    bool output_locked;
    size_t input_data_offset;
    struct { /* of the last module loaded */
        uint64_t input_bytes;
        uint64_t output_bytes;
        uint32_t input_count;
        uint32_t output_count;
        uint32_t flags;
    } io;
};

/* ---- client.c ---- */

/* Every public call begins with enter and ends with leave; enter forgets the last error. */
void c7x_client_enter(struct c7x_client *client);
enum c7x_status c7x_client_leave(struct c7x_client *client, enum c7x_status status);
/* Where calls without a client leave this thread's last failure. */
struct c7x_error *c7x_client_thread_error(void);
/* The options as this library knows them, however old the caller's header is. C7X_INVALID. */
enum c7x_status c7x_client_options_take(const struct c7x_client_options *options,
                                        struct c7x_client_options *out_options,
                                        struct c7x_error *error) C7X_NODISCARD;
/* `deadline_ms` from now, as the API counts: 0 at once, negative for ever. */
int64_t c7x_client_deadline_of_ms(int64_t deadline_ms);
/* When a call that begins now must end. */
int64_t c7x_client_deadline_ns(const struct c7x_client *client);

/* ---- device.c ---- */

/* Opens a link to what options->device names. */
enum c7x_status c7x_client_open_link(const struct c7x_client_options *options, int64_t deadline_ns,
                                     struct c7x_host_link **out_link,
                                     struct c7x_error *error) C7X_NODISCARD;

/* ---- exchange.c ---- */

/*
 * Sends the request and waits for its answer; answers to others, which came too late, are dropped.
 * A status in the answer is returned, with the device's text in client->error; *out_response is
 * then filled in too.
 */
enum c7x_status c7x_client_exchange(struct c7x_client *client, struct c7x_request *request,
                                    int64_t deadline_ns,
                                    struct c7x_response *out_response) C7X_NODISCARD;

/* ---- printed.c ---- */

/*
 * Gives what modules have printed, `size` bytes by the last answer, to the caller's function or to
 * stderr. One thread at a time.
 */
void c7x_client_pass_printed(struct c7x_client *client, uint32_t size);

/* ---- load.c ---- */

void c7x_client_free_staged(struct c7x_client *client);

/* ---- buffers.c ---- */

/* Makes the buffer at least `size` bytes large, if it may still move. C7X_LOCKED, C7X_NOMEM. */
enum c7x_status c7x_client_grow_input(struct c7x_client *client, uint64_t size,
                                      int64_t deadline_ns) C7X_NODISCARD;
enum c7x_status c7x_client_grow_output(struct c7x_client *client, uint64_t size,
                                       int64_t deadline_ns) C7X_NODISCARD;
/* Takes over what a module declares: sizes, and room for its descriptors in front of the input
 * buffer. */
void c7x_client_declare_io(struct c7x_client *client, const struct c7x_response *response);
/* After a request that may still run: the device keeps using these buffers, so we never do again.
 */
void c7x_client_abandon_io(struct c7x_client *client);

#endif

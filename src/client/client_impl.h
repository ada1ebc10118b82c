/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the sources of this folder alone.
 *
 *   client.c     open, close, small requests     device.c    device strings, the emulator's life
 *   exchange.c   requests in flight              inference.c asynchronous inference
 *   load.c       files to modules and models     infer.c     one inference: inputs, outputs
 *   buffers.c    input and output buffers        printed.c   what modules print
 *   shared.c     buffers of callers              list.c      what a device holds
 *   letgo.c      buffers of requests given up    raw.c       frames as they are
 *   kv.c         caches that stay there          lease.c     sessions that stay alive
 *   trace.c      recordings of events
 *
 * Threads: any number may call. `lock` guards what is marked below; the transport's setup calls are
 * one at a time under `setup_lock`; the client's own input and output buffers belong to one call at
 * a time (c7x_client_take_io). Errors are the calling thread's.
 */
#ifndef C7X_CLIENT_CLIENT_IMPL_H
#define C7X_CLIENT_CLIENT_IMPL_H

#include "base/trace.h"
#include "c7x_compute_client.h"
#include "os/os.h"
#include "transport/transport.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <time.h>

#define C7X_CLIENT_STATION "client"
#define C7X_CLIENT_TENSOR_ALIGNMENT 128u /* the DSP's cache line: no two tensors share one */

/* A file as it was when it was read into a buffer, which all that were loaded from it share, since
 * the device uses its read-only part in place and writes to none. */
struct c7x_staged_file {
    struct c7x_staged_file *next;
    uint32_t users; /* loads that go on, and what they have loaded */
    dev_t device;
    ino_t number;
    struct timespec written;
    struct timespec changed;
    size_t size;
    struct c7x_buffer buffer;
};

/* What this client has loaded. */
struct c7x_staged {
    struct c7x_staged *next;
    uint32_t handle;
    bool is_model;                /* the handle is a model_id */
    bool has_priority;            /* which the load named */
    struct c7x_staged_file *file; /* NULL: the device has no use for its bytes any more */
};

/* A caller's own buffer. */
struct c7x_shared {
    struct c7x_client *client;
    struct c7x_buffer buffer;
    char name[C7X_CLIENT_NAME_MAX + 1];
    unsigned access;    /* lock: C7X_CPU_*, 0: the DSP's turn */
    unsigned use_count; /* lock: inferences that have not ended */
    bool may_run_on;    /* lock: one was given up; `last_seq` tells whether the DSP has ended it */
    uint32_t last_seq;  /* lock */
};

/* The key-value cache of a module. */
struct c7x_kv {
    struct c7x_kv *next;
    uint32_t handle;
    uint32_t slot_count;
    uint64_t slot_bytes;
    struct c7x_buffer buffer;
};

/* The windows of one inference. */
struct c7x_io {
    struct c7x_io *next;
    struct c7x_buffer input;
    struct c7x_buffer output;
    struct c7x_shared *own_input; /* NULL: `input` is the library's */
    struct c7x_shared *own_output;
    size_t placed_end;  /* of what create_input has given out: copies go behind it */
    size_t data_offset; /* of tensors in the input buffer, behind the descriptors */
    bool input_locked;  /* a pointer has been handed out: it may not move */
    bool output_locked;
};

/* A request that has been sent and not been answered. On the stack of who waits, or in an
 * inference. */
struct c7x_pending {
    struct c7x_pending *next;
    uint32_t seq;
    uint32_t request_type;
    bool done;              /* `status` is there, and `response` if it is C7X_OK */
    enum c7x_status status; /* of the exchange itself: C7X_RESET, C7X_PROTOCOL */
    struct c7x_response response;
    int64_t deadline_ns;
    /* Called once, by the thread that reads, without the lock, when done; NULL: somebody waits. */
    void (*completed)(struct c7x_pending *pending);
};

struct c7x_client {
    struct c7x_host_link *link;
    struct c7x_client_options options; /* but for the deadline, which may change */
    _Atomic int64_t deadline_ms;
    char name[C7X_CLIENT_NAME_MAX + 1];
    uint32_t wire_version; /* of the device */
    bool has_session;      /* false: the device speaks 3.0, and this client is alone on it */
    struct c7x_buffer staging_3_0; /* where 3.0 firmware expects files; else none */

    pthread_mutex_t lock;
    pthread_cond_t changed;               /* of anything under the lock */
    bool is_reset;                        /* lock: the device went away; nothing works but close */
    bool io_taken;                        /* lock */
    bool is_read;                         /* lock: some thread is in the link's receive */
    uint32_t seq;                         /* lock */
    struct c7x_pending *pending;          /* lock */
    uint32_t pending_count;               /* lock */
    struct c7x_staged *staged;            /* lock */
    struct c7x_staged_file *staged_files; /* lock */
    struct c7x_kv *kv;                    /* lock */
    struct c7x_io *given_up; /* lock: windows with pointers that callers may hold; until close */
    _Atomic int letting_go;  /* requests given up whose buffers the device may still take */
    struct c7x_io *free_io;  /* lock: windows of finished inferences, for the next ones */
    struct c7x_inference *inferences;      /* lock: all that have not been freed */
    struct c7x_inference *completed_first; /* lock: completed and not taken, oldest first */
    struct c7x_inference *completed_last;
    int event_fd;      /* lock: -1 until somebody asks */
    uint32_t lease_ms; /* of the session, which `keeper` renews; 0: none */
    pthread_t keeper;
    bool stops_keeper; /* lock */
    bool has_reader;   /* lock: the thread below runs */
    bool stops_reader; /* lock */
    pthread_t reader;

    pthread_mutex_t setup_lock;
    pthread_mutex_t print_lock;
    struct c7x_buffer printf; /* print_lock, once it is bound */

    struct c7x_io io; /* of the calls without windows of their own; who has taken it */
    struct {          /* lock: by the last module loaded; changed only by who has taken io */
        uint64_t input_bytes;
        uint64_t output_bytes;
        uint32_t input_count;
        uint32_t output_count;
        uint32_t flags;
    } declared;
};

/* ---- client.c ---- */

/* Every public call begins with this: it forgets the thread's last error. */
void c7x_client_enter(void);
/* This thread's last failure. */
struct c7x_error *c7x_client_thread_error(void);
/* Takes an allocated text as the whole of the one that the thread's error has cut. */
void c7x_client_take_text(char *text);
/* The options as this library knows them, however old the caller's header is. C7X_INVALID. */
enum c7x_status c7x_client_options_take(const struct c7x_client_options *options,
                                        struct c7x_client_options *out_options,
                                        struct c7x_error *error) C7X_NODISCARD;
/* `deadline_ms` from now, as the API counts: 0 at once, negative for ever. */
int64_t c7x_client_deadline_of_ms(int64_t deadline_ms);
/* When a call that begins now must end. */
int64_t c7x_client_deadline_ns(struct c7x_client *client);

/* The request has come to a station of the client. */
void c7x_client_trace(enum c7x_station station, uint32_t type, uint32_t seq);

/* ---- device.c ---- */

/* Opens a link to what options->device names. */
enum c7x_status c7x_client_open_link(const struct c7x_client_options *options, int64_t deadline_ns,
                                     struct c7x_host_link **out_link,
                                     struct c7x_error *error) C7X_NODISCARD;

/* ---- exchange.c ---- */

/*
 * Sends the request and waits for its answer. A status in the answer is returned, with the device's
 * text as this thread's error; *out_response is filled in then too.
 */
enum c7x_status c7x_client_exchange(struct c7x_client *client, struct c7x_request *request,
                                    int64_t deadline_ns,
                                    struct c7x_response *out_response) C7X_NODISCARD;
/*
 * A device drops a reply for which the link has no room, so no more requests that nobody waits for
 * are in flight than a link has room for replies. It is more than one session may have waiting and
 * running: what is beyond would be refused on the device, too.
 */
#define C7X_CLIENT_IN_FLIGHT_MAX 96u
#define C7X_CLIENT_PENDING_MAX 144u /* with those that somebody waits for */
/*
 * Gives the request a seq, enters `pending`, and sends; one without `completed` waits until there
 * are fewer than C7X_CLIENT_PENDING_MAX. On failure nothing is entered. C7X_BUSY: one with
 * `completed`, and so many are in flight.
 */
enum c7x_status c7x_client_send(struct c7x_client *client, struct c7x_request *request,
                                struct c7x_pending *pending, int64_t deadline_ns) C7X_NODISCARD;
/* Ends all requests in flight that are told, with this status; before the link is closed. */
void c7x_client_finish_all(struct c7x_client *client, enum c7x_status status);
/* Takes a pending request back: its answer will be dropped. False if it is done already. */
bool c7x_client_withdraw(struct c7x_client *client, struct c7x_pending *pending);
/* Waits, reading if nobody else does, until *flag (under the lock) or the deadline; the flag. */
bool c7x_client_wait_for(struct c7x_client *client, const bool *flag, int64_t deadline_ns);
/* Call with the lock: waits until something under it has changed, or the deadline. */
void c7x_client_wait_for_change(struct c7x_client *client, int64_t deadline_ns);
/* Reads until the client stops its reader; the body of the reading thread. */
void c7x_client_read_loop(struct c7x_client *client);
/* Turns a failing answer into this thread's error; `text` may be empty. */
enum c7x_status c7x_client_set_device_error(const struct c7x_response *response,
                                            const char *station, const char *text);
/* The name of a station as a static string. */
const char *c7x_client_intern_station(const char *name);

/* ---- letgo.c ---- */

/*
 * Takes over the buffers (`second` may be NULL), which are none then, asks the device to forget
 * request `seq`, and detaches them as soon as that is safe.
 */
void c7x_client_let_go(struct c7x_client *client, struct c7x_buffer *first,
                       struct c7x_buffer *second, uint32_t seq);

/* ---- lease.c ---- */

/* Renews the session's lease until it ends; 0 ms: there is none. C7X_HOST_NOMEM. */
enum c7x_status c7x_client_keep_lease(struct c7x_client *client, uint32_t lease_ms) C7X_NODISCARD;
void c7x_client_end_lease(struct c7x_client *client);

/* ---- printed.c ---- */

/*
 * Gives what modules have printed, `size` bytes by the last answer, to the caller's function or to
 * stderr.
 */
void c7x_client_pass_printed(struct c7x_client *client, uint32_t size);

/* ---- load.c ---- */

/* Whether this client loaded the module with a priority. */
bool c7x_client_named_priority(struct c7x_client *client, uint32_t handle);
void c7x_client_free_staged(struct c7x_client *client);

/* ---- buffers.c ---- */

enum c7x_status c7x_client_attach(struct c7x_client *client, size_t size, int64_t deadline_ns,
                                  struct c7x_buffer *out_buffer) C7X_NODISCARD;
void c7x_client_detach(struct c7x_client *client, struct c7x_buffer *buffer);
/* The client's own buffers, for one call at a time. C7X_TIMEOUT. */
enum c7x_status c7x_client_take_io(struct c7x_client *client, int64_t deadline_ns) C7X_NODISCARD;
void c7x_client_give_io(struct c7x_client *client);
/* Makes the buffer at least `size` bytes large, if it may still move. C7X_LOCKED, C7X_NOMEM. */
enum c7x_status c7x_client_grow_input(struct c7x_client *client, struct c7x_io *io, uint64_t size,
                                      int64_t deadline_ns) C7X_NODISCARD;
enum c7x_status c7x_client_grow_output(struct c7x_client *client, struct c7x_io *io, uint64_t size,
                                       int64_t deadline_ns) C7X_NODISCARD;
/* Pointers that were handed out are void: a module came or went. Who has taken io. */
void c7x_client_unlock_io(struct c7x_client *client);
/* Takes over what a module declares: sizes, and room for its descriptors. Who has taken io. */
void c7x_client_declare_io(struct c7x_client *client, const struct c7x_response *response);
/*
 * Gives up the windows of request `seq`, which are none then: the device keeps them until its job
 * ends, and nobody gets them before; pointers that were handed out stay valid until close.
 */
void c7x_client_abandon_io(struct c7x_client *client, struct c7x_io *io, uint32_t seq);

/* Detaches what is the library's. */
void c7x_client_detach_io(struct c7x_client *client, struct c7x_io *io);

/* ---- shared.c ---- */

/* An inference begins to use the buffer. C7X_BUSY: it is the CPU's turn. NULL is legal. */
enum c7x_status c7x_shared_use(struct c7x_shared *shared) C7X_NODISCARD;
/* It ends; `given_up`: request `seq` may still run on the device. NULL is legal. */
void c7x_shared_release(struct c7x_shared *shared, bool given_up, uint32_t seq);

/* ---- kv.c ---- */

/* Where slot `index` of the module's cache is. C7X_TENSOR: it has none; C7X_SIZE: no such slot. */
enum c7x_status c7x_client_kv_slot(struct c7x_client *client, uint32_t handle, uint32_t index,
                                   size_t size, uint64_t *out_address) C7X_NODISCARD;
/* The module was unloaded, or the client is being closed. */
void c7x_client_kv_drop(struct c7x_client *client, uint32_t handle);

/* ---- infer.c ---- */

/* Places the inputs and fills in the request: type, descriptors, windows. `io` belongs to the
 * caller. */
enum c7x_status c7x_client_prepare(struct c7x_client *client, struct c7x_io *io,
                                   const struct c7x_client_tensor *inputs, int input_count,
                                   int64_t deadline_ns, struct c7x_request *request) C7X_NODISCARD;
/* The outputs of a successful response. C7X_SIZE room in `outputs`; C7X_PROTOCOL. */
enum c7x_status c7x_client_take_outputs(const struct c7x_io *io,
                                        const struct c7x_response *response,
                                        struct c7x_client_tensor *outputs,
                                        int *inout_count) C7X_NODISCARD;
/*
 * C7X_OK: the response says that the output buffer is too small, and it has grown; the request
 * names it: send it again. C7X_SIZE: it says something else, or the buffer may not grow. Otherwise
 * why it could not.
 */
enum c7x_status c7x_client_grow_for(struct c7x_client *client, struct c7x_io *io,
                                    const struct c7x_response *response,
                                    struct c7x_request *request, int64_t deadline_ns) C7X_NODISCARD;

/* The flags of an inference, with the client's own priority if neither they nor the load of the
 * module named one. */
uint32_t c7x_client_with_priority(struct c7x_client *client, uint32_t handle, uint32_t flags);

/* ---- inference.c ---- */

/* Ends all inferences of a client that is being closed, and its reading thread. */
void c7x_client_end_inferences(struct c7x_client *client);

#endif

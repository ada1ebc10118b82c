/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/device.h"

#include "base/checked.h"
#include "base/log.h"
#include "base/pause.h"
#include "os/os.h"
#include "transport/emulator/ring.h"
#include "transport/emulator/setup.h"
#include "transport/emulator/spin.h"
#include "transport/emulator/strict.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUCKETS 256u        /* of endpoints, by their numbers, which are given in order */
#define FRAMES_IN_A_ROW 64u /* of busy rings, before what else there is has its turn */

struct endpoint {
    uint32_t number;
    struct endpoint *next; /* of the same bucket */
    int socket;            /* -1 once it has closed */
    struct c7x_ring_device ring;
    bool is_watched; /* its ring is looked at; else its bell rings for the next frame */
};

/*
 * A task waits in epoll, where each descriptor is armed for one event until that is done with, but
 * a bell for all. Rings that had a frame of late are watched instead: by the task that may spin,
 * until it sleeps or has other work, and nobody rings for them meanwhile.
 */
struct emulator_device {
    struct c7x_device_link base;
    int control;
    int epoll;
    int waker;                     /* an eventfd */
    atomic_bool is_woken;          /* for who spins */
    struct c7x_os_mutex receiving; /* from an event until done; before the other. All to `lock`: */
    uint64_t received;             /* whose event it is */
    struct endpoint **watched;     /* as many as there are endpoints, at most */
    size_t watched_count;
    size_t next_watched; /* where to look first, so that all have their turn */
    bool has_watcher;
    unsigned in_a_row; /* frames of rings that the watcher took without a look at epoll; its own */
    struct c7x_spin spin;
    uint8_t *window;
    uint64_t window_base;
    uint64_t window_size;
    bool strict;
    struct c7x_buffer_table buffers;
    struct c7x_os_mutex lock; /* endpoints: changed by the receiving task, read by senders */
    struct endpoint *endpoints[BUCKETS];
    size_t endpoint_count;
    size_t endpoint_capacity; /* of `watched` */
};
_Static_assert(offsetof(struct emulator_device, base) == 0, "a link starts with its operations");

#define CONTROL_KEY UINT64_MAX
#define WAKER_KEY (UINT64_MAX - 1)
#define WATCHED_KEY (UINT64_MAX - 2) /* no descriptor */
#define BELL_KEY(number) ((UINT64_C(1) << 32) | (number))

/* Tells the supervisor; if it is gone, the core is about to be stopped anyway. */
static void report(struct emulator_device *device, const struct c7x_setup_message *message)
{
    if (c7x_setup_send(device->control, message, -1, true) != C7X_OK)
        shutdown(device->control, SHUT_RDWR);
}

static uint8_t *window_pointer(const struct emulator_device *device, uint64_t address)
{
    return device->window + (address - device->window_base);
}

/* The last user has gone: the place in the window becomes inaccessible again. */
static void release_buffer(void *context, uint64_t address, uint64_t size)
{
    struct emulator_device *device = context;
    if (device->strict)
        c7x_strict_remove(window_pointer(device, address));
    mmap(window_pointer(device, address), size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    struct c7x_setup_message message = {.op = C7X_SETUP_RELEASED, .address = address, .size = size};
    report(device, &message);
}

/* Where the pointer to it is, or would be. */
static struct endpoint **find_place(struct emulator_device *device, uint32_t number)
{
    struct endpoint **place = &device->endpoints[number % BUCKETS];
    while (*place != NULL && (*place)->number != number)
        place = &(*place)->next;
    return place;
}

static struct endpoint *find_endpoint(struct emulator_device *device, uint32_t number)
{
    return *find_place(device, number);
}

static bool make_room(struct emulator_device *device)
{
    if (device->endpoint_count < device->endpoint_capacity)
        return true;
    size_t capacity = device->endpoint_capacity == 0 ? 64 : 2 * device->endpoint_capacity;
    struct endpoint **watched = realloc(device->watched, capacity * sizeof(struct endpoint *));
    if (watched == NULL)
        return false;
    device->watched = watched;
    device->endpoint_capacity = capacity;
    return true;
}

static struct endpoint *make_endpoint(uint32_t number, int socket)
{
    struct endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (endpoint != NULL)
        *endpoint = (struct endpoint){.number = number,
                                      .socket = socket,
                                      .ring = {.own_bell = -1, .frame_bell = -1, .room_bell = -1}};
    return endpoint;
}

static enum c7x_status add_endpoint(struct emulator_device *device, uint32_t number, int socket)
{
    struct epoll_event interest = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = number};
    enum c7x_status status = C7X_NOMEM;
    struct endpoint *endpoint = make_endpoint(number, socket);
    c7x_os_mutex_lock(&device->lock);
    if (endpoint != NULL && socket >= 0 && make_room(device) &&
        epoll_ctl(device->epoll, EPOLL_CTL_ADD, socket, &interest) == 0) {
        *find_place(device, number) = endpoint;
        device->endpoint_count++;
        status = C7X_OK;
    }
    c7x_os_mutex_unlock(&device->lock);
    if (status != C7X_OK)
        free(endpoint);
    if (status != C7X_OK && socket >= 0)
        close(socket);
    return status;
}

/* ---- Rings that are watched ---- */

static void watch(struct emulator_device *device, struct endpoint *endpoint)
{
    if (endpoint->is_watched)
        return;
    endpoint->is_watched = true;
    device->watched[device->watched_count++] = endpoint;
}

static void stop_watching(struct emulator_device *device, struct endpoint *endpoint)
{
    for (size_t i = 0; i < device->watched_count; i++)
        if (device->watched[i] == endpoint)
            device->watched[i--] = device->watched[--device->watched_count];
    endpoint->is_watched = false;
}

/* From now on their bells ring. False if some have a frame already: they are still watched. */
static bool await_watched(struct emulator_device *device)
{
    for (size_t i = device->watched_count; i-- > 0;)
        if (!c7x_ring_device_await_frame(&device->watched[i]->ring))
            stop_watching(device, device->watched[i]);
    device->has_watcher = false;
    return device->watched_count == 0;
}

static void close_ring(struct emulator_device *device, struct endpoint *endpoint)
{
    stop_watching(device, endpoint);
    c7x_os_mutex_lock(&device->lock);
    c7x_ring_device_deinit(&endpoint->ring);
    c7x_os_mutex_unlock(&device->lock);
}

/* The client hung up: nothing more to read; the supervisor says so too, with GONE. */
static void close_socket(struct emulator_device *device, struct endpoint *endpoint)
{
    c7x_os_mutex_lock(&device->lock);
    if (endpoint->socket >= 0)
        close(endpoint->socket);
    endpoint->socket = -1;
    c7x_os_mutex_unlock(&device->lock);
}

static void remove_endpoint(struct emulator_device *device, uint32_t number)
{
    struct endpoint *endpoint = find_endpoint(device, number);
    if (endpoint == NULL)
        return;
    close_socket(device, endpoint);
    close_ring(device, endpoint);
    c7x_os_mutex_lock(&device->lock);
    *find_place(device, number) = endpoint->next;
    device->endpoint_count--;
    c7x_os_mutex_unlock(&device->lock);
    free(endpoint);
}

static bool map_buffer(struct emulator_device *device, const struct c7x_setup_message *message,
                       int memory)
{
    uint8_t *place = window_pointer(device, message->address);
    if (device->strict)
        return c7x_strict_add(memory, message->address, place, message->size) == C7X_OK;
    return mmap(place, message->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) !=
           MAP_FAILED;
}

static enum c7x_status attach(struct emulator_device *device,
                              const struct c7x_setup_message *message, int memory)
{
    if (memory < 0 || message->size == 0 ||
        !c7x_range_inside(message->address, message->size, device->window_base,
                          device->window_size))
        return C7X_INVALID;
    C7X_RETURN_IF_ERROR(
        c7x_buffer_table_add(&device->buffers, message->endpoint, message->address, message->size));
    if (map_buffer(device, message, memory))
        return C7X_OK;
    c7x_buffer_table_remove(&device->buffers, message->endpoint, message->address);
    return C7X_NOMEM;
}

/* Handles one message of the supervisor. True if *out_event is one for the firmware. */
static bool handle_control(struct emulator_device *device, enum c7x_device_event *out_event,
                           uint32_t *out_endpoint)
{
    struct c7x_setup_message message;
    int fd = -1;
    enum c7x_status status = c7x_setup_receive(device->control, &message, &fd, false);
    if (status == C7X_BUSY)
        return false;
    if (status != C7X_OK) {
        *out_event = C7X_DEVICE_STOP;
        return true;
    }
    bool event = false;
    switch (message.op) {
    case C7X_SETUP_ENDPOINT:
        message.status = add_endpoint(device, message.endpoint, fd);
        fd = -1;
        report(device, &message);
        break;
    case C7X_SETUP_ATTACH:
        message.status = attach(device, &message, fd);
        report(device, &message);
        break;
    case C7X_SETUP_DETACH:
        message.held =
            !c7x_buffer_table_remove(&device->buffers, message.endpoint, message.address);
        report(device, &message);
        break;
    case C7X_SETUP_GONE:
        remove_endpoint(device, message.endpoint);
        c7x_buffer_table_remove_endpoint(&device->buffers, message.endpoint);
        *out_event = C7X_DEVICE_GONE;
        *out_endpoint = message.endpoint;
        event = true;
        break;
    default:
        break;
    }
    if (fd >= 0)
        close(fd);
    return event;
}

/* A client may offer a ring once, before anything else. */
static void take_offer(struct emulator_device *device, struct endpoint *endpoint,
                       const uint8_t *message, size_t size, const int *descriptors, int count)
{
    struct c7x_ring_device ring = {.own_bell = -1, .frame_bell = -1, .room_bell = -1};
    struct epoll_event interest = {.events = EPOLLIN | EPOLLET,
                                   .data.u64 = BELL_KEY(endpoint->number)};
    if (endpoint->ring.memory != NULL ||
        c7x_ring_accept(&ring, endpoint->socket, message, size, descriptors, count) != C7X_OK)
        return;
    if (epoll_ctl(device->epoll, EPOLL_CTL_ADD, ring.own_bell, &interest) != 0) {
        c7x_ring_device_deinit(&ring);
        close_socket(device, endpoint);
        return;
    }
    c7x_os_mutex_lock(&device->lock);
    endpoint->ring = ring;
    c7x_os_mutex_unlock(&device->lock);
    watch(device, endpoint);
}

static int take_descriptors(struct msghdr *header, int *descriptors)
{
    struct cmsghdr *part = CMSG_FIRSTHDR(header);
    if (part == NULL || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
        return 0;
    size_t size = part->cmsg_len - CMSG_LEN(0);
    memcpy(descriptors, CMSG_DATA(part), size);
    return (int)(size / sizeof(int));
}

/* Reads one frame of an endpoint's socket; false if it has hung up or there is none. */
static bool read_socket(struct emulator_device *device, struct endpoint *endpoint, uint8_t *frame,
                        size_t *out_size)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * C7X_RING_OFFER_DESCRIPTORS)];
    } control;
    int descriptors[sizeof control / sizeof(int)];
    struct iovec part = {frame, C7X_TRANSPORT_FRAME_MAX};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t size = recvmsg(endpoint->socket, &header, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    int count = size > 0 ? take_descriptors(&header, descriptors) : 0;
    if (count > 0) {
        take_offer(device, endpoint, frame, (size_t)size, descriptors, count);
        return false;
    }
    if (size > 0) {
        *out_size = (size_t)size;
        return true;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR))
        close_socket(device, endpoint);
    return false;
}

/* A client that has damaged its ring is of no use any more; it learns it from the socket. */
static void give_up_ring(struct emulator_device *device, struct endpoint *endpoint)
{
    c7x_log("transport", "the ring of endpoint %u is damaged; its link was reset",
            endpoint->number);
    close_ring(device, endpoint);
    close_socket(device, endpoint);
}

/* The next frame of those that are watched. */
static bool read_watched(struct emulator_device *device, uint32_t *out_endpoint, uint8_t *frame,
                         size_t *out_size)
{
    for (size_t i = 0; i < device->watched_count; i++) {
        if (device->next_watched >= device->watched_count)
            device->next_watched = 0;
        struct endpoint *endpoint = device->watched[device->next_watched++];
        enum c7x_status status = c7x_ring_device_receive(&endpoint->ring, frame, out_size);
        if (status == C7X_OK) {
            *out_endpoint = endpoint->number;
            device->received = WATCHED_KEY;
            return true;
        }
        if (status != C7X_BUSY)
            give_up_ring(device, endpoint);
    }
    return false;
}

/* A client on our own processor cannot send while we look for its frame. */
static bool shares_processor(const struct emulator_device *device)
{
    for (size_t i = 0; i < device->watched_count; i++)
        if (c7x_ring_device_shares_processor(&device->watched[i]->ring))
            return true;
    return false;
}

/* The same, several times. */
static bool spin_on_watched(struct emulator_device *device, uint32_t *out_endpoint, uint8_t *frame,
                            size_t *out_size)
{
    bool found = read_watched(device, out_endpoint, frame, out_size);
    bool goes_on = !found && device->watched_count != 0 && !shares_processor(device);
    for (int i = 1; i < C7X_SPIN_LOOKS && goes_on && !found; i++) {
        c7x_pause();
        found = read_watched(device, out_endpoint, frame, out_size);
    }
    if (found)
        c7x_spin_end(&device->spin);
    return found;
}

static bool may_spin(struct emulator_device *device)
{
    return device->watched_count != 0 && !shares_processor(device) &&
           !atomic_load_explicit(&device->is_woken, memory_order_relaxed) &&
           c7x_spin_goes_on(&device->spin, C7X_OS_FOREVER);
}

static int descriptor_of(struct emulator_device *device, uint64_t key)
{
    if (key == CONTROL_KEY)
        return device->control;
    if (key == WAKER_KEY)
        return device->waker;
    const struct endpoint *endpoint =
        key <= UINT32_MAX ? find_endpoint(device, (uint32_t)key) : NULL;
    return endpoint != NULL ? endpoint->socket : -1;
}

static void device_wake(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    atomic_store(&device->is_woken, true);
    (void)eventfd_write(device->waker, 1);
}

/* What was received last may come again. */
static void arm_received(struct emulator_device *device)
{
    struct epoll_event interest = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = device->received};
    int descriptor = descriptor_of(device, device->received);
    if (descriptor >= 0)
        epoll_ctl(device->epoll, EPOLL_CTL_MOD, descriptor, &interest);
}

/* Whoever did not come to watch may not come back. */
static void device_done(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    arm_received(device);
    bool has_frame = !device->has_watcher && !await_watched(device);
    c7x_os_mutex_unlock(&device->receiving);
    if (has_frame)
        device_wake(base);
}

/* Handles what epoll says; false if it is nothing for the firmware, or a ring, which is watched. */
static bool take_event(struct emulator_device *device, enum c7x_device_event *out_event,
                       uint32_t *out_endpoint, uint8_t *frame, size_t *out_size)
{
    eventfd_t count;
    if (device->received == CONTROL_KEY)
        return handle_control(device, out_event, out_endpoint);
    if (device->received == WAKER_KEY) {
        *out_event = C7X_DEVICE_WAKE;
        bool was_woken = eventfd_read(device->waker, &count) == 0;
        atomic_store(&device->is_woken, false); /* who wakes now has rung, too */
        return was_woken;
    }
    *out_event = C7X_DEVICE_FRAME;
    *out_endpoint = (uint32_t)device->received;
    struct endpoint *endpoint = find_endpoint(device, *out_endpoint);
    if (endpoint == NULL)
        return false;
    if (device->received > UINT32_MAX) {
        if (endpoint->ring.memory != NULL)
            watch(device, endpoint);
        return false;
    }
    return endpoint->socket >= 0 && read_socket(device, endpoint, frame, out_size);
}

/* Of the tasks that wait for one epoll, Linux wakes the one that came last. False: there was no
 * event now, or the wait was interrupted. */
static bool next_event(struct emulator_device *device, bool waits, uint64_t *out_key)
{
    struct epoll_event ready;
    int count = epoll_wait(device->epoll, &ready, 1, waits ? -1 : 0);
    if (count == 0 || (count < 0 && errno == EINTR))
        return false;
    *out_key = count < 0 ? CONTROL_KEY : ready.data.u64;
    return true;
}

/*
 * Looks at what is watched; true if there is a frame, and then the lock is kept. False: the caller
 * is to sleep, or to look again at once.
 */
static bool look(struct emulator_device *device, bool spins, uint32_t *out_endpoint, uint8_t *frame,
                 size_t *out_size, bool *out_sleep)
{
    c7x_os_mutex_lock(&device->receiving);
    device->has_watcher |= spins;
    if (spins ? spin_on_watched(device, out_endpoint, frame, out_size)
              : !device->has_watcher && read_watched(device, out_endpoint, frame, out_size)) {
        device->in_a_row += spins;
        return true;
    }
    *out_sleep = false;
    if (spins ? !may_spin(device) : !device->has_watcher)
        *out_sleep = await_watched(device);
    else if (!spins)
        *out_sleep = true; /* another one watches */
    c7x_os_mutex_unlock(&device->receiving);
    return false;
}

static enum c7x_device_event device_receive(struct c7x_device_link *base, bool spins,
                                            uint32_t *out_endpoint, uint8_t *frame,
                                            size_t *out_size)
{
    struct emulator_device *device = (struct emulator_device *)base;
    enum c7x_device_event event;
    uint64_t key;
    bool sleeps;
    for (;;) {
        bool is_others_turn = spins && device->in_a_row >= FRAMES_IN_A_ROW;
        if (!is_others_turn && look(device, spins, out_endpoint, frame, out_size, &sleeps))
            return C7X_DEVICE_FRAME;
        if (spins)
            device->in_a_row = 0;
        if (!is_others_turn && !sleeps)
            continue;
        if (!next_event(device, !is_others_turn, &key))
            continue;
        c7x_os_mutex_lock(&device->receiving);
        device->received = key;
        if (take_event(device, &event, out_endpoint, frame, out_size))
            return event;
        arm_received(device);
        c7x_os_mutex_unlock(&device->receiving);
    }
}

/* Whoever waits in epoll is to hear of the rings. */
static void device_leave(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    c7x_os_mutex_lock(&device->receiving);
    bool has_frame = device->has_watcher && !await_watched(device);
    c7x_os_mutex_unlock(&device->receiving);
    if (has_frame)
        device_wake(base);
}

static void device_expect(struct c7x_device_link *base, uint32_t number)
{
    struct emulator_device *device = (struct emulator_device *)base;
    c7x_os_mutex_lock(&device->receiving);
    struct endpoint *endpoint = find_endpoint(device, number);
    if (endpoint != NULL && endpoint->ring.memory != NULL) {
        device->has_watcher = true;
        c7x_ring_device_await_nothing(&endpoint->ring);
        watch(device, endpoint);
    }
    c7x_os_mutex_unlock(&device->receiving);
}

/* With the lock. */
static enum c7x_status send_to(struct endpoint *endpoint, const uint8_t *frame, size_t size)
{
    if (endpoint->ring.memory != NULL) {
        enum c7x_status status = c7x_ring_device_send(&endpoint->ring, frame, size);
        if (status == C7X_PROTOCOL)
            shutdown(endpoint->socket, SHUT_RDWR); /* the receiving task closes it */
        return status == C7X_PROTOCOL ? C7X_RESET : status;
    }
    ssize_t sent;
    do
        sent = send(endpoint->socket, frame, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size ? C7X_OK : errno == EAGAIN ? C7X_BUSY : C7X_RESET;
}

static enum c7x_status device_send(struct c7x_device_link *base, uint32_t number,
                                   const uint8_t *frame, size_t size)
{
    struct emulator_device *device = (struct emulator_device *)base;
    enum c7x_status status = C7X_RESET;
    if (size > C7X_TRANSPORT_FRAME_MAX)
        return C7X_SIZE;
    c7x_os_mutex_lock(&device->lock);
    struct endpoint *endpoint = find_endpoint(device, number);
    if (endpoint != NULL && endpoint->socket >= 0)
        status = send_to(endpoint, frame, size);
    c7x_os_mutex_unlock(&device->lock);
    return status;
}

static const struct c7x_device_link_ops device_ops = {
    .receive = device_receive,
    .done = device_done,
    .leave = device_leave,
    .expect = device_expect,
    .wake = device_wake,
    .send = device_send,
};

enum c7x_status c7x_emulator_device_create(int control, uint8_t *window, uint64_t window_base,
                                           uint64_t window_size, bool strict,
                                           struct c7x_device_link **out_link)
{
    struct epoll_event interest = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = CONTROL_KEY};
    struct epoll_event waking = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = WAKER_KEY};
    struct emulator_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return C7X_NOMEM;
    device->base.ops = &device_ops;
    device->control = control;
    device->window = window;
    device->window_base = window_base;
    device->window_size = window_size;
    device->strict = strict;
    if (strict)
        c7x_strict_install();
    device->epoll = epoll_create1(EPOLL_CLOEXEC);
    device->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (device->epoll < 0 || device->waker < 0 || c7x_os_mutex_init(&device->receiving) != C7X_OK ||
        c7x_os_mutex_init(&device->lock) != C7X_OK ||
        epoll_ctl(device->epoll, EPOLL_CTL_ADD, device->waker, &waking) != 0 ||
        c7x_buffer_table_init(&device->buffers, release_buffer, device) != C7X_OK ||
        epoll_ctl(device->epoll, EPOLL_CTL_ADD, control, &interest) != 0) {
        c7x_emulator_device_destroy(&device->base);
        return C7X_GENERIC;
    }
    *out_link = &device->base;
    return C7X_OK;
}

static void free_endpoints(struct endpoint *endpoint)
{
    while (endpoint != NULL) {
        struct endpoint *next = endpoint->next;
        if (endpoint->socket >= 0)
            close(endpoint->socket);
        c7x_ring_device_deinit(&endpoint->ring);
        free(endpoint);
        endpoint = next;
    }
}

void c7x_emulator_device_destroy(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    if (device == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        free_endpoints(device->endpoints[i]);
    free(device->watched);
    c7x_buffer_table_deinit(&device->buffers);
    c7x_os_mutex_deinit(&device->lock);
    c7x_os_mutex_deinit(&device->receiving);
    if (device->waker >= 0)
        close(device->waker);
    if (device->epoll >= 0)
        close(device->epoll);
    close(device->control);
    free(device);
}

struct c7x_buffer_table *c7x_emulator_device_buffers(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    return &device->buffers;
}

void c7x_emulator_device_ready(struct c7x_device_link *base)
{
    struct c7x_setup_message message = {.op = C7X_SETUP_READY};
    report((struct emulator_device *)base, &message);
}

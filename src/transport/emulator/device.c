/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/device.h"

#include "base/checked.h"
#include "os/os.h"
#include "transport/emulator/setup.h"
#include "transport/emulator/strict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

struct endpoint {
    uint32_t number;
    int socket; /* -1 once it has closed */
};

struct emulator_device {
    struct c7x_device_link base;
    int control;
    int epoll; /* each descriptor is watched for one event, until that is done with */
    int waker; /* an eventfd */
    struct c7x_os_mutex receiving; /* from an event until done; before the other */
    uint64_t received;             /* whose event it is; under it */
    uint8_t *window;
    uint64_t window_base;
    uint64_t window_size;
    bool strict;
    struct c7x_buffer_table buffers;
    struct c7x_os_mutex lock; /* endpoints: changed by the receiving task, read by senders */
    struct endpoint *endpoints;
    size_t endpoint_count;
    size_t endpoint_capacity;
};
_Static_assert(offsetof(struct emulator_device, base) == 0, "a link starts with its operations");

#define CONTROL_KEY UINT64_MAX
#define WAKER_KEY (UINT64_MAX - 1)

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

static struct endpoint *find_endpoint(struct emulator_device *device, uint32_t number)
{
    for (size_t i = 0; i < device->endpoint_count; i++)
        if (device->endpoints[i].number == number)
            return &device->endpoints[i];
    return NULL;
}

static bool make_room(struct emulator_device *device)
{
    if (device->endpoint_count < device->endpoint_capacity)
        return true;
    size_t capacity = device->endpoint_capacity == 0 ? 64 : 2 * device->endpoint_capacity;
    struct endpoint *endpoints = realloc(device->endpoints, capacity * sizeof *endpoints);
    if (endpoints == NULL)
        return false;
    device->endpoints = endpoints;
    device->endpoint_capacity = capacity;
    return true;
}

static enum c7x_status add_endpoint(struct emulator_device *device, uint32_t number, int socket)
{
    struct epoll_event interest = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = number};
    enum c7x_status status = C7X_NOMEM;
    c7x_os_mutex_lock(&device->lock);
    if (socket >= 0 && make_room(device) &&
        epoll_ctl(device->epoll, EPOLL_CTL_ADD, socket, &interest) == 0) {
        device->endpoints[device->endpoint_count++] = (struct endpoint){number, socket};
        status = C7X_OK;
    }
    c7x_os_mutex_unlock(&device->lock);
    if (status != C7X_OK && socket >= 0)
        close(socket);
    return status;
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
    c7x_os_mutex_lock(&device->lock);
    *endpoint = device->endpoints[--device->endpoint_count];
    c7x_os_mutex_unlock(&device->lock);
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

/* Reads one frame of an endpoint; false if it has hung up or there is none. */
static bool read_frame(struct emulator_device *device, uint32_t number, uint8_t *frame,
                       size_t *out_size)
{
    struct endpoint *endpoint = find_endpoint(device, number);
    if (endpoint == NULL || endpoint->socket < 0)
        return false;
    ssize_t size = recv(endpoint->socket, frame, C7X_TRANSPORT_FRAME_MAX, MSG_DONTWAIT | MSG_TRUNC);
    if (size > 0) {
        *out_size = (size_t)size;
        return true;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR))
        close_socket(device, endpoint);
    return false;
}

static int descriptor_of(struct emulator_device *device, uint64_t key)
{
    if (key == CONTROL_KEY)
        return device->control;
    if (key == WAKER_KEY)
        return device->waker;
    const struct endpoint *endpoint = find_endpoint(device, (uint32_t)key);
    return endpoint != NULL ? endpoint->socket : -1;
}

/* What was received last may come again. */
static void device_done(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    struct epoll_event interest = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = device->received};
    int descriptor = descriptor_of(device, device->received);
    if (descriptor >= 0)
        epoll_ctl(device->epoll, EPOLL_CTL_MOD, descriptor, &interest);
    c7x_os_mutex_unlock(&device->receiving);
}

static void device_wake(struct c7x_device_link *base)
{
    const struct emulator_device *device = (const struct emulator_device *)base;
    (void)eventfd_write(device->waker, 1);
}

/* Handles what has come; false if it is nothing for the firmware. */
static bool take_event(struct emulator_device *device, enum c7x_device_event *out_event,
                       uint32_t *out_endpoint, uint8_t *frame, size_t *out_size)
{
    eventfd_t count;
    switch (device->received) {
    case CONTROL_KEY:
        return handle_control(device, out_event, out_endpoint);
    case WAKER_KEY:
        *out_event = C7X_DEVICE_WAKE;
        return eventfd_read(device->waker, &count) == 0;
    default:
        *out_event = C7X_DEVICE_FRAME;
        *out_endpoint = (uint32_t)device->received;
        return read_frame(device, (uint32_t)device->received, frame, out_size);
    }
}

/* Of the tasks that wait for one epoll, Linux wakes the one that came last. */
static enum c7x_device_event device_receive(struct c7x_device_link *base, uint32_t *out_endpoint,
                                            uint8_t *frame, size_t *out_size)
{
    struct emulator_device *device = (struct emulator_device *)base;
    for (;;) {
        struct epoll_event ready;
        enum c7x_device_event event = C7X_DEVICE_STOP;
        int count = epoll_wait(device->epoll, &ready, 1, -1);
        if (count == 0 || (count < 0 && errno == EINTR))
            continue;
        c7x_os_mutex_lock(&device->receiving);
        device->received = count < 0 ? CONTROL_KEY : ready.data.u64;
        if (count < 0 || take_event(device, &event, out_endpoint, frame, out_size))
            return event;
        device_done(base);
    }
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
    if (endpoint != NULL && endpoint->socket >= 0) {
        ssize_t sent;
        do
            sent = send(endpoint->socket, frame, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        status = sent == (ssize_t)size ? C7X_OK : errno == EAGAIN ? C7X_BUSY : C7X_RESET;
    }
    c7x_os_mutex_unlock(&device->lock);
    return status;
}

static const struct c7x_device_link_ops device_ops = {
    .receive = device_receive,
    .done = device_done,
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

void c7x_emulator_device_destroy(struct c7x_device_link *base)
{
    struct emulator_device *device = (struct emulator_device *)base;
    if (device == NULL)
        return;
    for (size_t i = 0; i < device->endpoint_count; i++)
        if (device->endpoints[i].socket >= 0)
            close(device->endpoints[i].socket);
    free(device->endpoints);
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

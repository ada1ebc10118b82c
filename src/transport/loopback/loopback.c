/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/loopback/loopback.h"

#include "transport/carveout.h"

#include <stdlib.h>
#include <string.h>

#define STATION "transport"
#define QUEUE_FRAMES_MAX 128u

struct frame {
    uint32_t endpoint;
    uint32_t size; /* 0: the endpoint has gone */
    uint8_t bytes[C7X_TRANSPORT_FRAME_MAX];
};

/* A bounded queue; `changed` wakes its one reader. */
struct queue {
    struct frame frames[QUEUE_FRAMES_MAX];
    uint32_t first;
    uint32_t count;
    struct c7x_os_event changed;
};

struct loopback_link {
    struct c7x_host_link base;
    struct c7x_loopback *loopback;
    struct loopback_link *next;
    uint32_t endpoint;
    struct queue to_host;
    bool interrupted; /* the loopback's lock */
};

struct c7x_loopback {
    struct c7x_device_link device;
    struct c7x_os_mutex receiving; /* from an event until done; before the other */
    struct c7x_os_mutex lock;      /* all below */
    bool woken;
    struct queue to_device;
    struct loopback_link *links;
    uint32_t next_endpoint;
    bool stopped;
    uint8_t *allocation;
    uint8_t *arena;
    struct c7x_carveout carveout;
    struct c7x_buffer_table buffers;
};

static bool push(struct queue *queue, uint32_t endpoint, const uint8_t *bytes, size_t size)
{
    if (queue->count == QUEUE_FRAMES_MAX)
        return false;
    struct frame *frame = &queue->frames[(queue->first + queue->count++) % QUEUE_FRAMES_MAX];
    frame->endpoint = endpoint;
    frame->size = (uint32_t)size;
    if (size != 0)
        memcpy(frame->bytes, bytes, size);
    c7x_os_event_set(&queue->changed);
    return true;
}

static bool pop(struct queue *queue, struct frame *out_frame)
{
    if (queue->count == 0)
        return false;
    *out_frame = queue->frames[queue->first];
    queue->first = (queue->first + 1) % QUEUE_FRAMES_MAX;
    queue->count--;
    return true;
}

/* ---- The device's side ---- */

/* Nobody spins here. */
static enum c7x_device_event device_receive(struct c7x_device_link *base, bool spins,
                                            uint32_t *out_endpoint, uint8_t *frame,
                                            size_t *out_size)
{
    struct c7x_loopback *loopback = (struct c7x_loopback *)base;
    (void)spins;
    struct frame next;
    for (;;) {
        c7x_os_mutex_lock(&loopback->receiving);
        c7x_os_mutex_lock(&loopback->lock);
        bool stopped = loopback->stopped;
        bool woken = loopback->woken;
        bool found = !stopped && !woken && pop(&loopback->to_device, &next);
        loopback->woken = false;
        c7x_os_mutex_unlock(&loopback->lock);
        if (stopped)
            return C7X_DEVICE_STOP;
        if (woken)
            return C7X_DEVICE_WAKE;
        if (found)
            break;
        c7x_os_mutex_unlock(&loopback->receiving);
        c7x_os_event_wait(&loopback->to_device.changed, C7X_OS_FOREVER);
    }
    *out_endpoint = next.endpoint;
    if (next.size == 0) {
        c7x_buffer_table_remove_endpoint(&loopback->buffers, next.endpoint);
        return C7X_DEVICE_GONE;
    }
    memcpy(frame, next.bytes, next.size);
    *out_size = next.size;
    return C7X_DEVICE_FRAME;
}

/* The event wakes one task, so who has got something wakes the next. */
static void device_done(struct c7x_device_link *base)
{
    struct c7x_loopback *loopback = (struct c7x_loopback *)base;
    c7x_os_mutex_lock(&loopback->lock);
    if (loopback->stopped || loopback->woken || loopback->to_device.count != 0)
        c7x_os_event_set(&loopback->to_device.changed);
    c7x_os_mutex_unlock(&loopback->lock);
    c7x_os_mutex_unlock(&loopback->receiving);
}

static void device_leave(struct c7x_device_link *base)
{
    (void)base;
}

static void device_expect(struct c7x_device_link *base, uint32_t endpoint)
{
    (void)base;
    (void)endpoint;
}

static void device_wake(struct c7x_device_link *base)
{
    struct c7x_loopback *loopback = (struct c7x_loopback *)base;
    c7x_os_mutex_lock(&loopback->lock);
    loopback->woken = true;
    c7x_os_event_set(&loopback->to_device.changed);
    c7x_os_mutex_unlock(&loopback->lock);
}

static enum c7x_status device_send(struct c7x_device_link *base, uint32_t endpoint,
                                   const uint8_t *frame, size_t size)
{
    struct c7x_loopback *loopback = (struct c7x_loopback *)base;
    enum c7x_status status = C7X_RESET;
    if (size > C7X_TRANSPORT_FRAME_MAX)
        return C7X_SIZE;
    c7x_os_mutex_lock(&loopback->lock);
    for (struct loopback_link *link = loopback->links; link != NULL; link = link->next)
        if (link->endpoint == endpoint)
            status = push(&link->to_host, endpoint, frame, size) ? C7X_OK : C7X_BUSY;
    c7x_os_mutex_unlock(&loopback->lock);
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

/* ---- The host's side ---- */

static enum c7x_status gone(struct c7x_error *error)
{
    return c7x_error_set(error, C7X_RESET, STATION, "the device was stopped");
}

static enum c7x_status link_send(struct c7x_host_link *base, const uint8_t *frame, size_t size,
                                 int64_t deadline_ns, struct c7x_error *error)
{
    struct loopback_link *link = (struct loopback_link *)base;
    struct c7x_loopback *loopback = link->loopback;
    (void)deadline_ns; /* a full queue is the device's fault: no waiting helps a test */
    if (size > C7X_TRANSPORT_FRAME_MAX || size == 0)
        return c7x_error_set(error, C7X_SIZE, STATION, "a frame of %zu bytes; at most %u fit", size,
                             C7X_TRANSPORT_FRAME_MAX);
    c7x_os_mutex_lock(&loopback->lock);
    bool stopped = loopback->stopped;
    bool sent = !stopped && push(&loopback->to_device, link->endpoint, frame, size);
    c7x_os_mutex_unlock(&loopback->lock);
    if (stopped)
        return gone(error);
    return sent ? C7X_OK
                : c7x_error_set(error, C7X_TIMEOUT, STATION, "the device takes no more frames");
}

static enum c7x_status link_receive(struct c7x_host_link *base, uint8_t *frame, size_t *out_size,
                                    int64_t deadline_ns, struct c7x_error *error)
{
    struct loopback_link *link = (struct loopback_link *)base;
    struct c7x_loopback *loopback = link->loopback;
    struct frame next;
    for (;;) {
        c7x_os_mutex_lock(&loopback->lock);
        bool found = pop(&link->to_host, &next);
        bool stopped = loopback->stopped;
        bool interrupted = link->interrupted;
        link->interrupted = false;
        c7x_os_mutex_unlock(&loopback->lock);
        if (found)
            break;
        if (stopped)
            return gone(error);
        if (interrupted)
            return C7X_CANCELLED;
        if (!c7x_os_event_wait(&link->to_host.changed, deadline_ns))
            return c7x_error_set(error, C7X_TIMEOUT, STATION, "no answer before the deadline");
    }
    memcpy(frame, next.bytes, next.size);
    *out_size = next.size;
    return C7X_OK;
}

static void release_buffer(void *context, uint64_t address, uint64_t size);

static enum c7x_status link_attach(struct c7x_host_link *base, size_t size, int64_t deadline_ns,
                                   struct c7x_buffer *out_buffer, struct c7x_error *error)
{
    struct loopback_link *link = (struct loopback_link *)base;
    struct c7x_loopback *loopback = link->loopback;
    struct c7x_carveout_range range;
    (void)deadline_ns;
    c7x_os_mutex_lock(&loopback->lock);
    enum c7x_status status = loopback->stopped
                                 ? gone(error)
                                 : c7x_carveout_alloc(&loopback->carveout, size, &range, error);
    c7x_os_mutex_unlock(&loopback->lock);
    if (status != C7X_OK)
        return status;
    uint8_t *pointer = loopback->arena + (range.address - loopback->carveout.base);
    memset(pointer, 0, range.size);
    status = c7x_buffer_table_add(&loopback->buffers, link->endpoint, range.address, range.size);
    if (status != C7X_OK) {
        release_buffer(loopback, range.address, range.size);
        return c7x_error_set(error, status, STATION, "the device cannot take a buffer");
    }
    *out_buffer = (struct c7x_buffer){pointer, range.size, range.address};
    return C7X_OK;
}

static void link_detach(struct c7x_host_link *base, struct c7x_buffer *buffer)
{
    struct loopback_link *link = (struct loopback_link *)base;
    if (buffer->pointer != NULL)
        c7x_buffer_table_remove(&link->loopback->buffers, link->endpoint, buffer->dsp_address);
    memset(buffer, 0, sizeof *buffer);
}

static void link_sync(struct c7x_host_link *base, const struct c7x_buffer *buffer, size_t offset,
                      size_t size)
{
    (void)base;
    (void)buffer;
    (void)offset;
    (void)size;
}

static void link_interrupt(struct c7x_host_link *base)
{
    struct loopback_link *link = (struct loopback_link *)base;
    c7x_os_mutex_lock(&link->loopback->lock);
    link->interrupted = true;
    c7x_os_event_set(&link->to_host.changed);
    c7x_os_mutex_unlock(&link->loopback->lock);
}

static enum c7x_status link_read_log(struct c7x_host_link *base, uint64_t *inout_position,
                                     char *text, size_t text_size, size_t *out_size,
                                     struct c7x_error *error)
{
    (void)base;
    (void)inout_position;
    (void)text;
    (void)text_size;
    (void)out_size;
    return c7x_error_set(error, C7X_UNSUPPORTED, STATION, "loopback keeps no log");
}

static void link_close(struct c7x_host_link *base)
{
    struct loopback_link *link = (struct loopback_link *)base;
    struct c7x_loopback *loopback = link->loopback;
    c7x_os_mutex_lock(&loopback->lock);
    for (struct loopback_link **place = &loopback->links; *place != NULL; place = &(*place)->next)
        if (*place == link) {
            *place = link->next;
            break;
        }
    bool told = push(&loopback->to_device, link->endpoint, NULL, 0);
    c7x_os_mutex_unlock(&loopback->lock);
    if (!told)
        c7x_buffer_table_remove_endpoint(&loopback->buffers, link->endpoint);
    c7x_os_event_deinit(&link->to_host.changed);
    free(link);
}

static const struct c7x_host_link_ops host_ops = {
    .send = link_send,
    .receive = link_receive,
    .attach = link_attach,
    .detach = link_detach,
    .sync_to_device = link_sync,
    .sync_from_device = link_sync,
    .interrupt = link_interrupt,
    .read_log = link_read_log,
    .close = link_close,
};

/* ---- Both ---- */

static void release_buffer(void *context, uint64_t address, uint64_t size)
{
    struct c7x_loopback *loopback = context;
    (void)size;
    c7x_os_mutex_lock(&loopback->lock);
    c7x_carveout_free(&loopback->carveout, address);
    c7x_os_mutex_unlock(&loopback->lock);
}

enum c7x_status c7x_loopback_create(uint64_t arena_base, size_t arena_size,
                                    struct c7x_loopback **out_loopback)
{
    struct c7x_loopback *loopback = calloc(1, sizeof *loopback);
    if (loopback == NULL)
        return C7X_NOMEM;
    loopback->device.ops = &device_ops;
    loopback->next_endpoint = 1024; /* dynamic addresses start here, as in RPMessage */
    loopback->carveout = (struct c7x_carveout){.base = arena_base, .size = arena_size};
    size_t page = c7x_os_page_size();
    loopback->allocation = malloc(arena_size + page);
    if (loopback->allocation == NULL || c7x_os_mutex_init(&loopback->receiving) != C7X_OK ||
        c7x_os_mutex_init(&loopback->lock) != C7X_OK ||
        c7x_os_event_init(&loopback->to_device.changed) != C7X_OK ||
        c7x_buffer_table_init(&loopback->buffers, release_buffer, loopback) != C7X_OK) {
        free(loopback->allocation);
        free(loopback);
        return C7X_NOMEM;
    }
    uintptr_t misaligned = (uintptr_t)loopback->allocation % page;
    loopback->arena = loopback->allocation + (page - misaligned) % page;
    *out_loopback = loopback;
    return C7X_OK;
}

void c7x_loopback_destroy(struct c7x_loopback *loopback)
{
    if (loopback == NULL)
        return;
    c7x_buffer_table_deinit(&loopback->buffers);
    c7x_carveout_deinit(&loopback->carveout);
    c7x_os_event_deinit(&loopback->to_device.changed);
    c7x_os_mutex_deinit(&loopback->lock);
    c7x_os_mutex_deinit(&loopback->receiving);
    free(loopback->allocation);
    free(loopback);
}

struct c7x_device_link *c7x_loopback_device(struct c7x_loopback *loopback)
{
    return &loopback->device;
}

struct c7x_buffer_table *c7x_loopback_buffers(struct c7x_loopback *loopback)
{
    return &loopback->buffers;
}

uint8_t *c7x_loopback_arena(struct c7x_loopback *loopback)
{
    return loopback->arena;
}

enum c7x_status c7x_loopback_connect(struct c7x_loopback *loopback, struct c7x_host_link **out_link)
{
    struct loopback_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return C7X_HOST_NOMEM;
    if (c7x_os_event_init(&link->to_host.changed) != C7X_OK) {
        free(link);
        return C7X_HOST_NOMEM;
    }
    link->base.ops = &host_ops;
    link->loopback = loopback;
    c7x_os_mutex_lock(&loopback->lock);
    link->endpoint = loopback->next_endpoint++;
    link->next = loopback->links;
    loopback->links = link;
    c7x_os_mutex_unlock(&loopback->lock);
    *out_link = &link->base;
    return C7X_OK;
}

void c7x_loopback_stop(struct c7x_loopback *loopback)
{
    c7x_os_mutex_lock(&loopback->lock);
    loopback->stopped = true;
    c7x_os_event_set(&loopback->to_device.changed);
    for (struct loopback_link *link = loopback->links; link != NULL; link = link->next)
        c7x_os_event_set(&link->to_host.changed);
    c7x_os_mutex_unlock(&loopback->lock);
}

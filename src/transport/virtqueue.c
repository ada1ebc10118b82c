/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/virtqueue.h"

#include "base/checked.h"

#include <string.h>

#define MASK (C7X_VIRTQUEUE_SIZE - 1u)
_Static_assert((C7X_VIRTQUEUE_SIZE & MASK) == 0 && C7X_VIRTQUEUE_SIZE <= 32768, "virtio 1.2, 2.7");

/*
 * Each end writes its own index and then reads what the other one waits for, while that writes what
 * it waits for and then reads the index: in one order that all agree on (seq_cst), so that one of
 * them sees the other. The write is an exchange, because QEMU's AArch64 lets a load pass a store
 * that it must not pass.
 */
static void publish(_Atomic uint16_t *index, const _Atomic uint16_t *event, uint16_t last,
                    bool *out_needs_bell)
{
    (void)atomic_exchange_explicit(index, last, memory_order_seq_cst);
    uint16_t awaited = atomic_load_explicit(event, memory_order_seq_cst);
    *out_needs_bell = awaited == (uint16_t)(last - 1);
}

static bool await(_Atomic uint16_t *event, const _Atomic uint16_t *index, uint16_t next)
{
    (void)atomic_exchange_explicit(event, next, memory_order_seq_cst);
    return atomic_load_explicit(index, memory_order_seq_cst) != next;
}

/* ---- The driver's end ---- */

uint64_t c7x_virtqueue_address(const struct c7x_virtqueue_driver *driver, uint16_t id)
{
    return driver->first_address + (uint64_t)id * driver->buffer_size;
}

void c7x_virtqueue_driver_init(struct c7x_virtqueue_driver *driver, struct c7x_virtqueue *queue,
                               uint64_t first_address, uint32_t buffer_size, bool device_writes)
{
    memset(driver, 0, sizeof *driver);
    driver->queue = queue;
    driver->first_address = first_address;
    driver->buffer_size = buffer_size;
    driver->free_count = C7X_VIRTQUEUE_SIZE;
    for (uint16_t i = 0; i < C7X_VIRTQUEUE_SIZE; i++) {
        queue->descriptors[i] = (struct c7x_virtqueue_descriptor){
            .address = c7x_virtqueue_address(driver, i),
            .length = buffer_size,
            .flags = device_writes ? C7X_VIRTQUEUE_DEVICE_WRITES : 0,
        };
        driver->free_ids[i] = (uint16_t)(MASK - i);
    }
    /* Nobody waits for anything yet: what is awaited is what has been. */
    atomic_store(&queue->available.used_event, UINT16_MAX);
    atomic_store(&queue->used.available_event, UINT16_MAX);
}

enum c7x_status c7x_virtqueue_take_used(struct c7x_virtqueue_driver *driver,
                                        struct c7x_virtqueue_buffer *out_buffer)
{
    struct c7x_virtqueue *queue = driver->queue;
    uint16_t index = atomic_load_explicit(&queue->used.index, memory_order_acquire);
    if (index == driver->used)
        return C7X_BUSY;
    if ((uint16_t)(index - driver->used) > (uint16_t)(driver->available - driver->used))
        return C7X_PROTOCOL;
    struct c7x_virtqueue_used *entry = &queue->used.ring[driver->used & MASK];
    uint32_t id = atomic_load_explicit(&entry->id, memory_order_relaxed);
    uint32_t length = atomic_load_explicit(&entry->length, memory_order_relaxed);
    if (id >= C7X_VIRTQUEUE_SIZE || !driver->is_with_device[id] || length > driver->buffer_size)
        return C7X_PROTOCOL;
    driver->is_with_device[id] = false;
    driver->used++;
    *out_buffer = (struct c7x_virtqueue_buffer){c7x_virtqueue_address(driver, (uint16_t)id), length,
                                                (uint16_t)id};
    return C7X_OK;
}

enum c7x_status c7x_virtqueue_take_free(struct c7x_virtqueue_driver *driver, uint16_t *out_id)
{
    struct c7x_virtqueue_buffer back;
    enum c7x_status status = C7X_OK;
    if (driver->free_count == 0)
        while ((status = c7x_virtqueue_take_used(driver, &back)) == C7X_OK)
            driver->free_ids[driver->free_count++] = back.id;
    if (driver->free_count == 0 || status == C7X_PROTOCOL)
        return status;
    *out_id = driver->free_ids[--driver->free_count];
    return C7X_OK;
}

void c7x_virtqueue_make_available(struct c7x_virtqueue_driver *driver, uint16_t id,
                                  bool *out_needs_bell)
{
    struct c7x_virtqueue *queue = driver->queue;
    driver->is_with_device[id] = true;
    atomic_store_explicit(&queue->available.ring[driver->available & MASK], id,
                          memory_order_relaxed);
    publish(&queue->available.index, &queue->used.available_event, ++driver->available,
            out_needs_bell);
}

bool c7x_virtqueue_await_used(struct c7x_virtqueue_driver *driver)
{
    return await(&driver->queue->available.used_event, &driver->queue->used.index, driver->used);
}

/* ---- The device's end ---- */

void c7x_virtqueue_device_init(struct c7x_virtqueue_device *device, struct c7x_virtqueue *queue)
{
    *device = (struct c7x_virtqueue_device){.queue = queue};
}

/* The driver's index, unless it claims more than there is room for. */
static bool look_again(struct c7x_virtqueue_device *device)
{
    device->available_seen =
        atomic_load_explicit(&device->queue->available.index, memory_order_acquire);
    return (uint16_t)(device->available_seen - device->available) <= C7X_VIRTQUEUE_SIZE;
}

enum c7x_status c7x_virtqueue_take_available(struct c7x_virtqueue_device *device,
                                             uint64_t memory_size,
                                             struct c7x_virtqueue_buffer *out_buffer)
{
    struct c7x_virtqueue *queue = device->queue;
    if (device->available == device->available_seen && !look_again(device))
        return C7X_PROTOCOL;
    if (device->available == device->available_seen)
        return C7X_BUSY;
    uint16_t id = atomic_load_explicit(&queue->available.ring[device->available & MASK],
                                       memory_order_relaxed);
    if (id >= C7X_VIRTQUEUE_SIZE)
        return C7X_PROTOCOL;
    const volatile struct c7x_virtqueue_descriptor *descriptor = &queue->descriptors[id];
    struct c7x_virtqueue_buffer buffer = {descriptor->address, descriptor->length, id};
    if (!c7x_range_inside(buffer.address, buffer.length, 0, memory_size))
        return C7X_PROTOCOL;
    device->available++;
    *out_buffer = buffer;
    return C7X_OK;
}

void c7x_virtqueue_put_used(struct c7x_virtqueue_device *device, uint16_t id, uint32_t length,
                            bool *out_needs_bell)
{
    struct c7x_virtqueue *queue = device->queue;
    struct c7x_virtqueue_used *entry = &queue->used.ring[device->used & MASK];
    atomic_store_explicit(&entry->id, id, memory_order_relaxed);
    atomic_store_explicit(&entry->length, length, memory_order_relaxed);
    publish(&queue->used.index, &queue->available.used_event, ++device->used, out_needs_bell);
}

bool c7x_virtqueue_await_available(struct c7x_virtqueue_device *device)
{
    return await(&device->queue->used.available_event, &device->queue->available.index,
                 device->available);
}

/* As if it were told of what has been. */
void c7x_virtqueue_await_no_available(struct c7x_virtqueue_device *device)
{
    atomic_store_explicit(&device->queue->used.available_event, (uint16_t)(device->available - 1),
                          memory_order_relaxed);
}

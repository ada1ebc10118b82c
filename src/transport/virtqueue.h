/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split virtqueue (virtio 1.2, section 2.7) in memory that two processes share: buffers go from
 * its driver to its device and come back. Neither end trusts the other. Each field that the other
 * one writes is read once, and only what was read is checked and used.
 *
 * An end belongs to one thread at a time. Nothing here waits or rings: `needs_bell` says when the
 * other end sleeps, or is about to, and wants to be told.
 */
#ifndef C7X_TRANSPORT_VIRTQUEUE_H
#define C7X_TRANSPORT_VIRTQUEUE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Buffers in flight at most; a power of two. RPMessage has as many. */
#define C7X_VIRTQUEUE_SIZE 256u

struct c7x_virtqueue_descriptor {
    uint64_t address; /* of the buffer, in bytes from the start of the memory */
    uint32_t length;
    uint16_t flags;
    uint16_t next;
};

#define C7X_VIRTQUEUE_DEVICE_WRITES 2u /* a flag of a descriptor (VIRTQ_DESC_F_WRITE) */

struct c7x_virtqueue_used {
    _Atomic uint32_t id;
    _Atomic uint32_t length;
};

/* As in the memory, each part on cache lines of its own. The last word of each ring says from which
 * index on its writer wants to be told by the other end. */
struct c7x_virtqueue {
    struct c7x_virtqueue_descriptor descriptors[C7X_VIRTQUEUE_SIZE]; /* the driver's, set once */
    struct {
        _Alignas(64) _Atomic uint16_t flags; /* by the driver */
        _Atomic uint16_t index;
        _Atomic uint16_t ring[C7X_VIRTQUEUE_SIZE];
        _Atomic uint16_t used_event;
    } available;
    struct {
        _Alignas(64) _Atomic uint16_t flags; /* by the device */
        _Atomic uint16_t index;
        struct c7x_virtqueue_used ring[C7X_VIRTQUEUE_SIZE];
        _Atomic uint16_t available_event;
    } used;
};

/* A buffer on its way, as one end has read it. */
struct c7x_virtqueue_buffer {
    uint64_t address;
    uint32_t length; /* of what is in it or, towards a device that is to write, of the room */
    uint16_t id;
};

/* ---- The driver's end ---- */

struct c7x_virtqueue_driver {
    struct c7x_virtqueue *queue;
    uint64_t first_address; /* what the descriptors say, which the device might change */
    uint32_t buffer_size;
    uint16_t available; /* all that were made available so far */
    uint16_t used;      /* of which so many have come back */
    uint16_t free_count;
    uint16_t
        free_ids[C7X_VIRTQUEUE_SIZE]; /* the last one back is the first to go, being in cache */
    bool is_with_device[C7X_VIRTQUEUE_SIZE];
};

/* New memory, zero-filled: buffers of buffer_size bytes each from first_address on. */
void c7x_virtqueue_driver_init(struct c7x_virtqueue_driver *driver, struct c7x_virtqueue *queue,
                               uint64_t first_address, uint32_t buffer_size, bool device_writes);
/* Where a buffer is, from the start of the memory. */
uint64_t c7x_virtqueue_address(const struct c7x_virtqueue_driver *driver, uint16_t id);
/* A buffer that is free, and stays so until it is made available. C7X_BUSY: all are away;
 * C7X_PROTOCOL: the queue is damaged, and not to be used any more. */
enum c7x_status c7x_virtqueue_take_free(struct c7x_virtqueue_driver *driver,
                                        uint16_t *out_id) C7X_NODISCARD;
/* Gives that buffer to the device; *out_needs_bell as above. */
void c7x_virtqueue_make_available(struct c7x_virtqueue_driver *driver, uint16_t id,
                                  bool *out_needs_bell);
/* The next buffer that has come back, with the device's length. C7X_BUSY: none; C7X_PROTOCOL. */
enum c7x_status c7x_virtqueue_take_used(struct c7x_virtqueue_driver *driver,
                                        struct c7x_virtqueue_buffer *out_buffer) C7X_NODISCARD;
/* Asks to be told of the next one. True if there is one by now: then nobody may tell. */
bool c7x_virtqueue_await_used(struct c7x_virtqueue_driver *driver);

/* ---- The device's end ---- */

struct c7x_virtqueue_device {
    struct c7x_virtqueue *queue;
    uint16_t available;      /* all that were taken so far */
    uint16_t available_seen; /* of the driver's index, when last looked at */
    uint16_t used;
};

void c7x_virtqueue_device_init(struct c7x_virtqueue_device *device, struct c7x_virtqueue *queue);
/* The next buffer, of memory of memory_size bytes. C7X_BUSY: none; C7X_PROTOCOL. */
enum c7x_status c7x_virtqueue_take_available(struct c7x_virtqueue_device *device,
                                             uint64_t memory_size,
                                             struct c7x_virtqueue_buffer *out_buffer) C7X_NODISCARD;
/* Gives it back, with `length` bytes that were written into it. */
void c7x_virtqueue_put_used(struct c7x_virtqueue_device *device, uint16_t id, uint32_t length,
                            bool *out_needs_bell);
/* Asks to be told of the next one. True if there is one by now: then nobody may tell. */
bool c7x_virtqueue_await_available(struct c7x_virtqueue_device *device);
/* Asks not to be told any more. */
void c7x_virtqueue_await_no_available(struct c7x_virtqueue_device *device);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast way for frames: a piece of memory that client and core share, with a virtqueue for each
 * direction, as RPMessage has them on a board. The client is the driver of both. Who sleeps has a
 * bell, an eventfd, which the other side rings only then.
 *
 * The client makes memory and bells and offers them to the core over the link socket, which stays
 * open: its end is the end of the link, and where there is no ring, frames take it.
 */
#ifndef C7X_TRANSPORT_EMULATOR_RING_H
#define C7X_TRANSPORT_EMULATOR_RING_H

#include "transport/transport.h"
#include "transport/virtqueue.h"

/* The memory file of a ring; both sides map all of it. */
struct c7x_ring_memory;

/* ---- The client's side ---- */

struct c7x_ring_host {
    struct c7x_ring_memory *memory; /* NULL: there is no ring */
    int frame_bell;                 /* rung by the core */
    int room_bell;                  /* so is this one */
    int core_bell;
    /* What was done before a frame was sent has been done for who receives its answer: the language
     * does not know of the core in between. */
    _Atomic uint32_t sent;
    struct c7x_virtqueue_driver to_device; /* one thread at a time */
    struct c7x_virtqueue_driver to_host;   /* another one, perhaps */
};

/*
 * Makes a ring and offers it over the link socket. C7X_HOST_NOMEM: no memory or descriptor for it;
 * C7X_UNSUPPORTED: the core does not want it; else as c7x_setup_receive. There is no ring then.
 */
enum c7x_status c7x_ring_offer(struct c7x_ring_host *ring, int socket,
                               int64_t deadline_ns) C7X_NODISCARD;
void c7x_ring_host_deinit(struct c7x_ring_host *ring);
/* C7X_BUSY: the core has not taken what was sent; C7X_PROTOCOL: the ring is damaged. */
enum c7x_status c7x_ring_host_send(struct c7x_ring_host *ring, const uint8_t *frame,
                                   size_t size) C7X_NODISCARD;
/* C7X_BUSY: nothing there; C7X_PROTOCOL. */
enum c7x_status c7x_ring_host_receive(struct c7x_ring_host *ring, uint8_t *frame,
                                      size_t *out_size) C7X_NODISCARD;
/* Wants that bell rung: for the next frame, or the next room. True if it is there already. */
bool c7x_ring_host_await_frame(struct c7x_ring_host *ring);
bool c7x_ring_host_await_room(struct c7x_ring_host *ring);
/* Whether the core, when it last wrote, ran on the processor that we run on: then it cannot go on
 * while we spin. */
bool c7x_ring_host_shares_processor(const struct c7x_ring_host *ring);

/* ---- The core's side ---- */

struct c7x_ring_device {
    struct c7x_ring_memory *memory; /* NULL: there is no ring */
    int own_bell;
    int frame_bell;
    int room_bell;
    struct c7x_virtqueue_device to_device; /* one thread at a time */
    struct c7x_virtqueue_device to_host;   /* another one, perhaps */
};

/* Longest message that offers a ring. */
#define C7X_RING_OFFER_BYTES 16u
#define C7X_RING_OFFER_DESCRIPTORS 4

/*
 * Takes what was offered: the message and its descriptors, which become the ring's or are closed.
 * Answers over the socket. C7X_INVALID: it is not a ring, or its memory might shrink.
 */
enum c7x_status c7x_ring_accept(struct c7x_ring_device *ring, int socket, const uint8_t *message,
                                size_t size, const int *descriptors,
                                int descriptor_count) C7X_NODISCARD;
void c7x_ring_device_deinit(struct c7x_ring_device *ring);
/* As the host's. */
enum c7x_status c7x_ring_device_send(struct c7x_ring_device *ring, const uint8_t *frame,
                                     size_t size) C7X_NODISCARD;
enum c7x_status c7x_ring_device_receive(struct c7x_ring_device *ring, uint8_t *frame,
                                        size_t *out_size) C7X_NODISCARD;
bool c7x_ring_device_await_frame(struct c7x_ring_device *ring);
/* Does not want the bell, for now. */
void c7x_ring_device_await_nothing(struct c7x_ring_device *ring);
bool c7x_ring_device_shares_processor(const struct c7x_ring_device *ring);

#endif

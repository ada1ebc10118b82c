/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host and device in one process, for tests and for what runs the firmware under a fuzzer: frames
 * pass through bounded queues, shared buffers are pieces of one arena that stands for the
 * carve-out. Portable C on os/.
 */
#ifndef C7X_TRANSPORT_LOOPBACK_LOOPBACK_H
#define C7X_TRANSPORT_LOOPBACK_LOOPBACK_H

#include "transport/buffer_table.h"
#include "transport/transport.h"

struct c7x_loopback;

/* An arena of `arena_size` bytes stands for DSP addresses from `arena_base` on. */
enum c7x_status c7x_loopback_create(uint64_t arena_base, size_t arena_size,
                                    struct c7x_loopback **out_loopback) C7X_NODISCARD;
/* All links must be closed and the device's task must have ended. NULL is legal. */
void c7x_loopback_destroy(struct c7x_loopback *loopback);

struct c7x_device_link *c7x_loopback_device(struct c7x_loopback *loopback);
struct c7x_buffer_table *c7x_loopback_buffers(struct c7x_loopback *loopback);
uint8_t *c7x_loopback_arena(struct c7x_loopback *loopback);

/* A new host link with an endpoint of its own. */
enum c7x_status c7x_loopback_connect(struct c7x_loopback *loopback,
                                     struct c7x_host_link **out_link) C7X_NODISCARD;
/* The device's receive answers C7X_DEVICE_STOP, and every host call C7X_RESET, from now on. */
void c7x_loopback_stop(struct c7x_loopback *loopback);

#endif

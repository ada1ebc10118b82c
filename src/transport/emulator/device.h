/* SPDX-License-Identifier: Apache-2.0 */
/* The core's side of the emulator's links: frames from all clients, and the shared buffers mapped
 * at their place. */
#ifndef C7X_TRANSPORT_EMULATOR_DEVICE_H
#define C7X_TRANSPORT_EMULATOR_DEVICE_H

#include "transport/buffer_table.h"
#include "transport/transport.h"

/*
 * Serves over `control`, the socket to the supervisor, which it takes over. Buffers are mapped into
 * the window of `window_size` bytes at `window`, which stands for DSP address `window_base` on.
 */
enum c7x_status c7x_emulator_device_create(int control, uint8_t *window, uint64_t window_base,
                                           uint64_t window_size, bool strict,
                                           struct c7x_device_link **out_link) C7X_NODISCARD;
void c7x_emulator_device_destroy(struct c7x_device_link *link);

/* Who owns which buffer, for the memory port. */
struct c7x_buffer_table *c7x_emulator_device_buffers(struct c7x_device_link *link);

/* Tells the supervisor that the core serves. */
void c7x_emulator_device_ready(struct c7x_device_link *link);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the tests of the service share: clients that send without waiting, and what a device
 * lists. Failures fail the running test. */
#ifndef C7X_TESTS_SERVICE_STEPS_H
#define C7X_TESTS_SERVICE_STEPS_H

#include "support/loopback_device.h"
#include "support/raw.h"

/* A client with a session, a module that takes its time, and buffers for it. */
struct c7x_steps_client {
    struct c7x_host_link *link;
    uint32_t session;
    uint32_t spin; /* the module's handle */
    struct c7x_buffer staged;
    struct c7x_buffer input;
    struct c7x_buffer output;
};

void c7x_steps_open(struct c7x_test_loopback *device, struct c7x_steps_client *out_client);
void c7x_steps_close(struct c7x_steps_client *client);

/* Sends a request with this seq and does not wait. */
void c7x_steps_send(struct c7x_host_link *link, const struct c7x_request *request, uint32_t seq);
/* Takes the next frame, which must answer a request of this type and seq; returns its status. */
int32_t c7x_steps_take(struct c7x_host_link *link, uint32_t type, uint32_t seq,
                       struct c7x_response *out_response);
/* Sends an inference that runs for `ms`. */
void c7x_steps_send_spin(struct c7x_steps_client *client, int32_t ms, uint32_t seq);
/* Sends one that runs for `ms`, and returns when it runs. */
void c7x_steps_start_spin(struct c7x_steps_client *client, int32_t ms, uint32_t seq);
/* Whether a target runs this request, or would if none above it did. */
bool c7x_steps_runs(struct c7x_host_link *link, uint32_t session, uint32_t seq);
int32_t c7x_steps_cancel(struct c7x_host_link *link, uint32_t seq, uint32_t *out_outcome);
/* The text that the device keeps for the failed request. */
void c7x_steps_error_text(struct c7x_host_link *link, uint32_t seq, char *text, size_t text_size);

/* Copies a test module's file to `bytes`; returns its size. */
uint32_t c7x_steps_read_module(const char *module, void *bytes, size_t capacity);
/* The descriptor of a float32 tensor of rank 1. */
struct c7x_wire_tensor c7x_steps_floats(uint64_t address, uint32_t count);

/* One page of a list; returns the status. */
int32_t c7x_steps_list(struct c7x_host_link *link, uint32_t kind, uint32_t first,
                       struct c7x_response *out_response);
/* All entries of a list, of `entry_size` bytes each; returns how many. */
uint32_t c7x_steps_list_all(struct c7x_host_link *link, uint32_t kind, size_t entry_size,
                            void *entries, uint32_t capacity);

#endif

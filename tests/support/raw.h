/* SPDX-License-Identifier: Apache-2.0 */
/* A client that is nothing but frames: requests and replies byte for byte over a link. Failures
 * fail the running test. */
#ifndef C7X_TESTS_SUPPORT_RAW_H
#define C7X_TESTS_SUPPORT_RAW_H

#include "transport/transport.h"
#include "wire/wire.h"

struct c7x_test_reply {
    uint8_t bytes[C7X_TRANSPORT_FRAME_MAX];
    size_t size;
    uint32_t type;
    uint32_t seq;
    int32_t status;
};

void c7x_test_send(struct c7x_host_link *link, const void *frame, size_t size);
/* Waits for the next frame and checks that its len is its length. */
void c7x_test_receive(struct c7x_host_link *link, struct c7x_test_reply *out_reply);
/* Sends a frame and receives the reply to its seq. */
void c7x_test_ask_bytes(struct c7x_host_link *link, const void *frame, size_t size,
                        struct c7x_test_reply *out_reply);
/* Encodes the request, and returns the status of its reply. */
int32_t c7x_test_ask(struct c7x_host_link *link, const struct c7x_request *request,
                     struct c7x_test_reply *out_reply);
/* The same, and decodes the reply. */
int32_t c7x_test_ask_decoded(struct c7x_host_link *link, const struct c7x_request *request,
                             struct c7x_response *out_response);

/* A PING is answered, and nothing else stands in front of its answer. */
void c7x_test_ping(struct c7x_host_link *link);
/* Begins a session of version 3.1 and returns its generation. */
uint32_t c7x_test_open_session(struct c7x_host_link *link);
/* Names [address, address + size) as printf buffer: the status says whether the device sees it as
 * ours. */
int32_t c7x_test_name_buffer(struct c7x_host_link *link, uint64_t address, uint32_t size);
struct c7x_buffer c7x_test_attach(struct c7x_host_link *link, size_t size);
/* Free bytes of the carve-out, as the refusal of a buffer larger than all of it tells. */
uint64_t c7x_test_free_bytes(struct c7x_host_link *link);

/* Stages the test module in a new buffer and loads it from there (needs a session); returns its
 * handle. */
uint32_t c7x_test_load(struct c7x_host_link *link, const char *module, uint32_t flags,
                       struct c7x_buffer *out_staged);
int32_t c7x_test_unload(struct c7x_host_link *link, uint32_t handle);
/* A request with one input of four bytes elements at the front of `input`, and results into
 * `output`. */
struct c7x_request c7x_test_infer_request(uint32_t handle, const struct c7x_buffer *input,
                                          int dtype_code, int64_t count,
                                          const struct c7x_buffer *output);
/* Runs add_one on 1, 2, 3, 4 in these buffers and checks the result. */
void c7x_test_run_add_one(struct c7x_host_link *link, uint32_t handle,
                          const struct c7x_buffer *input, const struct c7x_buffer *output);

#endif

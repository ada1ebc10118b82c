/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that knows nothing of this project's firmware: it answers the messages of wire version
 * 3.0 by frozen bytes, and a few of 3.1 for versions from that on. What it is sent it keeps. The
 * module that it "loads", whatever the bytes, adds up its int32 [1] inputs with the weights 1, 2,
 * ... and prints "sum". Failures fail the running test.
 */
#ifndef C7X_TESTS_SUPPORT_SCRIPTED_DEVICE_H
#define C7X_TESTS_SUPPORT_SCRIPTED_DEVICE_H

#include "c7x_compute_client.h"
#include "transport/transport.h"

#include <stdbool.h>

#define C7X_TEST_SCRIPTED_HANDLE 7u
#define C7X_TEST_SCRIPTED_PRINTED "sum\n"

struct c7x_test_frame {
    uint8_t bytes[C7X_TRANSPORT_FRAME_MAX];
    size_t size;
};

struct c7x_test_attach {
    uint64_t address;
    uint64_t size;
    size_t frames_before; /* that had been sent */
};

struct c7x_test_scripted;

/* A device that answers PING with `version`. Only one client may be on it. */
struct c7x_test_scripted *c7x_test_scripted_start(uint32_t version);
/* The client is closed. */
void c7x_test_scripted_stop(struct c7x_test_scripted *device);
/* The device's only link; the client that takes it over closes it. */
struct c7x_host_link *c7x_test_scripted_link(struct c7x_test_scripted *device);

/* Inferences are not answered from now on, or are again. */
void c7x_test_scripted_set_silent(struct c7x_test_scripted *device, bool is_silent);
/* Answers the last inference that was not. */
void c7x_test_scripted_answer_late(struct c7x_test_scripted *device);

/* What has been sent and attached so far. */
size_t c7x_test_scripted_frame_count(struct c7x_test_scripted *device);
struct c7x_test_frame c7x_test_scripted_frame(struct c7x_test_scripted *device, size_t index);
size_t c7x_test_scripted_attach_count(struct c7x_test_scripted *device);
struct c7x_test_attach c7x_test_scripted_attach(struct c7x_test_scripted *device, size_t index);
/* The memory at a DSP address. */
const uint8_t *c7x_test_scripted_memory(struct c7x_test_scripted *device, uint64_t address);

#endif

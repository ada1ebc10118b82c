/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves frames and shared buffers between host and DSP; knows no message. A back end is one folder
 * that supplies the host's side, the device's side, or both; tests/conformance/transport runs
 * against each.
 *
 * station: client > [transport] > service, and back
 */
#ifndef C7X_TRANSPORT_TRANSPORT_H
#define C7X_TRANSPORT_TRANSPORT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest frame, in both directions; a longer one is refused before it is sent. */
#define C7X_TRANSPORT_FRAME_MAX 496u

/* ---- The host's side: one link to one device ---- */

/* A piece of memory that host and DSP see; page aligned, zero-filled when new. */
struct c7x_buffer {
    void *pointer; /* the host's view; NULL: no buffer */
    size_t size;   /* bytes, whole pages */
    uint64_t dsp_address;
};

struct c7x_host_link;

/*
 * All mandatory. send may be called by any number of threads, receive by one at a time, and so the
 * others where they do not say otherwise. Deadlines are absolute, of c7x_os_clock_ns(). When the
 * device has gone away every call answers C7X_RESET at once.
 */
struct c7x_host_link_ops {
    /* C7X_SIZE: empty or longer than C7X_TRANSPORT_FRAME_MAX. C7X_TIMEOUT: the device takes no
     * more. */
    enum c7x_status (*send)(struct c7x_host_link *link, const uint8_t *frame, size_t size,
                            int64_t deadline_ns, struct c7x_error *error);
    /* Fills `frame` (C7X_TRANSPORT_FRAME_MAX bytes) with the next frame. C7X_TIMEOUT. */
    enum c7x_status (*receive)(struct c7x_host_link *link, uint8_t *frame, size_t *out_size,
                               int64_t deadline_ns, struct c7x_error *error);
    /* Allocates a buffer of at least `size` bytes and shows it to the device. C7X_NOMEM with
     * numbers. */
    enum c7x_status (*attach)(struct c7x_host_link *link, size_t size, int64_t deadline_ns,
                              struct c7x_buffer *out_buffer, struct c7x_error *error);
    /* Gives a buffer back and zeroes the struct; the device may use it until its last job with it
     * ends. */
    void (*detach)(struct c7x_host_link *link, struct c7x_buffer *buffer);
    /*
     * What the host wrote into that part of the buffer becomes visible to the device; what the
     * device wrote, to the host. Any thread. A back end may sync more than was asked for.
     */
    void (*sync_to_device)(struct c7x_host_link *link, const struct c7x_buffer *buffer,
                           size_t offset, size_t size);
    void (*sync_from_device)(struct c7x_host_link *link, const struct c7x_buffer *buffer,
                             size_t offset, size_t size);
    /* A receive that waits, or the next one, ends with C7X_CANCELLED. Any thread. */
    void (*interrupt)(struct c7x_host_link *link);
    /* Copies the device's log from *inout_position on; *out_size 0 when there is no more. */
    enum c7x_status (*read_log)(struct c7x_host_link *link, uint64_t *inout_position, char *text,
                                size_t text_size, size_t *out_size, struct c7x_error *error);
    /* Closes and frees the link and all its buffers. */
    void (*close)(struct c7x_host_link *link);
};

struct c7x_host_link {
    const struct c7x_host_link_ops *ops;
};

/* ---- The device's side: all endpoints that talk to one core ---- */

enum c7x_device_event {
    C7X_DEVICE_FRAME, /* a frame from an endpoint */
    C7X_DEVICE_GONE,  /* an endpoint will never send again, and gets nothing any more */
    C7X_DEVICE_STOP,  /* the device is to stop; every receive from now on says so */
    C7X_DEVICE_WAKE,  /* nothing has come: somebody called wake */
};

struct c7x_device_link;

/* All mandatory, and for any task. */
struct c7x_device_link_ops {
    /*
     * Waits for the next event. `frame` has room for C7X_TRANSPORT_FRAME_MAX bytes; *out_size is
     * the length that arrived, which is larger when a longer frame was cut. Several tasks may wait:
     * one gets the event, whoever came last if that can be, and until it has called `done`, the
     * others get none, so that what comes of one endpoint stays in order. The one task that has
     * nothing else to do `spins`: it may look for events a while before it sleeps, and calls
     * `leave` when it has something else to do, so that others hear of the next event; and `expect`
     * when it is about to receive again, so that nobody is woken for the next event of that
     * endpoint.
     */
    enum c7x_device_event (*receive)(struct c7x_device_link *link, bool spins,
                                     uint32_t *out_endpoint, uint8_t *frame, size_t *out_size);
    /* By the task that has received, once for each event. */
    void (*done)(struct c7x_device_link *link);
    void (*leave)(struct c7x_device_link *link);
    void (*expect)(struct c7x_device_link *link, uint32_t endpoint);
    /* One task that waits in receive, or the next to do so, gets C7X_DEVICE_WAKE. */
    void (*wake)(struct c7x_device_link *link);
    /* Never blocks. C7X_BUSY: the endpoint does not take its frames; C7X_RESET: it is gone. */
    enum c7x_status (*send)(struct c7x_device_link *link, uint32_t endpoint, const uint8_t *frame,
                            size_t size);
};

struct c7x_device_link {
    const struct c7x_device_link_ops *ops;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
/*
 * The whole firmware over loopback: what a client stages, and the frames that it sends, while a
 * second thread changes the staged bytes under the firmware.
 *
 * Input: u16 size of what is staged, then it, then frames: u8 size / 2 each, then the frame.
 *
 * A module is loaded already and belongs to the device. Native code that the fuzzer made must not
 * run, so it can stage no native file.
 *
 * Each frame with a whole header is answered, and when the client has gone all is as it was: then
 * the device serves the next input. One that was left with modules of its own starts anew, and so
 * does one that has served INPUTS_MAX, so that handles stay small.
 */
#include "fuzz.h"
#include "os/os.h"
#include "support/loopback_device.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAGED_BYTES (64u << 10)
#define FRAMES_MAX 32u
#define INPUTS_MAX 256u
#define FLIPS_AT_A_TIME 200u
#define GONE_NS 10000000000ll
#define REPLY_NS 15000000000ll /* a busy machine; libFuzzer's own limit is 20 s */

static struct c7x_test_loopback *device; /* NULL: none is there */
static struct c7x_heap_statistics whole;
static unsigned inputs;
static struct c7x_host_link *host;
static struct c7x_buffer staged;

static bool is_near(uint8_t byte, uint8_t wanted)
{
    return ((byte ^ wanted) & 0xfeu) == 0;
}

/* No ELF header of a machine that could run here, and none that the flipping thread could make. */
static void disarm(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + 4 <= size; i++) {
        if (is_near(bytes[i], 0x7f) && is_near(bytes[i + 1], 'E') && is_near(bytes[i + 2], 'L') &&
            is_near(bytes[i + 3], 'F') && i + 20 <= size) {
            bytes[i + 18] = 145;
            bytes[i + 19] = 0;
        }
    }
}

/* ---- The second thread ---- */

static _Atomic(volatile uint8_t *) flipped; /* NULL: it has nothing to do */
static atomic_bool is_flipping;

/* Not instrumented: its coverage says nothing. */
__attribute__((no_sanitize("coverage"))) static void *flip(void *context)
{
    uint32_t random = 1;
    (void)context;
    for (;;) {
        atomic_store(&is_flipping, true);
        volatile uint8_t *bytes = atomic_load(&flipped);
        for (unsigned i = 0; bytes != NULL && i < FLIPS_AT_A_TIME; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[random >> 16 & 0xfffu] ^= 1;
            bytes[random >> 16 & 0xfffu] ^= 1;
        }
        atomic_store(&is_flipping, false);
        if (bytes == NULL)
            (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        else
            (void)sched_yield();
    }
    return NULL;
}

static void begin_to_flip(volatile uint8_t *bytes)
{
    static bool has_thread;
    pthread_t thread;
    if (!has_thread && pthread_create(&thread, NULL, flip, NULL) != 0)
        abort();
    has_thread = true;
    atomic_store(&flipped, bytes);
}

static void end_flipping(void)
{
    atomic_store(&flipped, NULL);
    while (atomic_load(&is_flipping))
        (void)sched_yield();
}

/* ---- The device ---- */

static bool is_as_before(void)
{
    struct c7x_heap_statistics now;
    c7x_test_loopback_heap(device, &now);
    return now.block_count == whole.block_count && now.free == whole.free &&
           c7x_test_loopback_buffer_count(device) == 1;
}

/* Until the device has noticed that its client is gone; or it keeps something. */
static void wait_until_gone(void)
{
    int64_t end = c7x_os_clock_ns() + GONE_NS;
    while (!is_as_before() && c7x_test_loopback_module_count(device) == 1 &&
           c7x_test_loopback_model_count(device) == 0) {
        if (c7x_os_clock_ns() > end)
            abort();
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void start_device(void)
{
    uint32_t handle;
    struct c7x_client *owner;
    device = c7x_test_loopback_start();
    owner = c7x_test_loopback_open(device, NULL);
    if (c7x_client_dyn_load_flags(owner, C7X_FUZZ_MODULE, C7X_LOAD_KEEP, &handle) != C7X_OK)
        abort();
    c7x_client_close(owner);
    inputs = 0;
    /* What its owner had goes after it. */
    uint64_t before;
    do {
        before = whole.free;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        c7x_test_loopback_heap(device, &whole);
    } while (whole.free != before || c7x_test_loopback_buffer_count(device) != 1);
}

static void stop_device(void)
{
    c7x_test_loopback_stop(device);
    device = NULL;
}

static void start(const uint8_t *data, size_t size)
{
    if (device == NULL)
        start_device();
    host = c7x_test_loopback_connect(device);
    if (host->ops->attach(host, STAGED_BYTES, INT64_MAX, &staged, NULL) != C7X_OK)
        abort();
    if (size != 0)
        memcpy(staged.pointer, data, size);
    disarm(staged.pointer, STAGED_BYTES);
}

/* Every frame with a whole header is answered. */
static void exchange(const uint8_t *frame, size_t size)
{
    uint8_t reply[C7X_TRANSPORT_FRAME_MAX];
    size_t reply_size;
    if (size == 0 || host->ops->send(host, frame, size, INT64_MAX, NULL) != C7X_OK || size < 16)
        return;
    if (host->ops->receive(host, reply, &reply_size, c7x_os_clock_ns() + REPLY_NS, NULL) != C7X_OK)
        abort();
}

static void send_frames(const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (unsigned i = 0; i < FRAMES_MAX && at < size; i++) {
        size_t length = 2u * data[at++];
        if (length > size - at)
            length = size - at;
        if (length > C7X_TRANSPORT_FRAME_MAX)
            length = C7X_TRANSPORT_FRAME_MAX;
        exchange(data + at, length);
        at += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t staged_size = size < 2 ? 0 : (size_t)(data[0] | data[1] << 8);
    if (size < 2 || staged_size > size - 2)
        return 0;
    start(data + 2, staged_size);
    begin_to_flip(staged.pointer);
    send_frames(data + 2 + staged_size, size - 2 - staged_size);
    end_flipping();
    host->ops->close(host);
    wait_until_gone();
    if (++inputs == INPUTS_MAX || !is_as_before())
        stop_device();
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole firmware over loopback: what a client stages, and the frames that it sends, while a
 * second thread changes the staged bytes under the firmware.
 *
 * Input: u16 size of what is staged, then it, then frames: u8 size / 2 each, then the frame.
 *
 * A module is loaded already (handle 1) and belongs to the device. Native code that the fuzzer made
 * must not run, so it can stage no native file.
 */
#include "fuzz.h"
#include "os/os.h"
#include "support/loopback_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STAGED_BYTES (64u << 10)
#define FRAMES_MAX 32u
#define REPLY_NS 2000000000ll

static struct c7x_test_loopback *device;
static struct c7x_host_link *host;
static struct c7x_buffer staged;
static atomic_bool flips;

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

static void *flip(void *context)
{
    volatile uint8_t *bytes = context;
    uint32_t random = 1;
    while (atomic_load_explicit(&flips, memory_order_relaxed)) {
        random = random * 1664525u + 1013904223u;
        bytes[random >> 16 & 0xfffu] ^= 1;
        bytes[random >> 16 & 0xfffu] ^= 1;
    }
    return NULL;
}

static void start(const uint8_t *data, size_t size)
{
    uint32_t handle;
    struct c7x_client *owner;
    device = c7x_test_loopback_start();
    owner = c7x_test_loopback_open(device, NULL);
    if (c7x_client_dyn_load_flags(owner, C7X_FUZZ_MODULE, C7X_LOAD_KEEP, &handle) != C7X_OK)
        abort();
    c7x_client_close(owner);
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
    (void)host->ops->receive(host, reply, &reply_size, c7x_os_clock_ns() + REPLY_NS, NULL);
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
    pthread_t flipper;
    size_t staged_size = size < 2 ? 0 : (size_t)(data[0] | data[1] << 8);
    if (size < 2 || staged_size > size - 2)
        return 0;
    start(data + 2, staged_size);
    atomic_store(&flips, true);
    if (pthread_create(&flipper, NULL, flip, staged.pointer) != 0)
        abort();
    send_frames(data + 2 + staged_size, size - 2 - staged_size);
    atomic_store(&flips, false);
    (void)pthread_join(flipper, NULL);
    host->ops->close(host);
    c7x_test_loopback_stop(device);
    return 0;
}

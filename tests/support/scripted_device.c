/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/scripted_device.h"

#include "os/os.h"
#include "transport/carveout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define CARVEOUT_ADDR 0xC0000000u
#define CARVEOUT_SIZE 0x20000000u
#define FRAMES_MAX 256u
#define ATTACHES_MAX 64u
#define REPLIES_MAX 64u
#define HEADER 16u
#define DESCRIPTOR 80u
#define INVALID (-2)
#define SIZE_STATUS (-7)
#define SESSION_OPEN 0x40u
#define SESSION_CLOSE 0x41u
#define LIST 0x44u

struct c7x_test_scripted {
    struct c7x_host_link link;
    uint32_t version;
    uint8_t *arena;
    struct c7x_carveout carveout;
    struct c7x_os_mutex lock; /* all below */
    struct c7x_os_event changed;
    struct c7x_test_frame frames[FRAMES_MAX];
    size_t frame_count;
    struct c7x_test_attach attaches[ATTACHES_MAX];
    size_t attach_count;
    struct c7x_test_frame replies[REPLIES_MAX];
    size_t reply_first;
    size_t reply_count;
    struct c7x_test_frame late; /* the last inference without an answer */
    uint64_t printf_address;
    bool is_silent;
    bool interrupted;
};
_Static_assert(offsetof(struct c7x_test_scripted, link) == 0, "found by its link");

/* ---- Bytes, as version 3.0 puts them ---- */

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get64(const uint8_t *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void put64(uint8_t *at, uint64_t value)
{
    put32(at, (uint32_t)value);
    put32(at + 4, (uint32_t)(value >> 32));
}

static uint8_t *memory(struct c7x_test_scripted *device, uint64_t address, uint64_t size)
{
    assert_true(address >= CARVEOUT_ADDR && size <= CARVEOUT_SIZE &&
                address - CARVEOUT_ADDR <= CARVEOUT_SIZE - size);
    return device->arena + (address - CARVEOUT_ADDR);
}

/* ---- The answers ---- */

static uint8_t *reply(struct c7x_test_scripted *device, const struct c7x_test_frame *request,
                      uint32_t type, int32_t status, size_t size)
{
    assert_true(device->reply_count < REPLIES_MAX);
    struct c7x_test_frame *frame =
        &device->replies[(device->reply_first + device->reply_count++) % REPLIES_MAX];
    memset(frame, 0, sizeof *frame);
    frame->size = size;
    put32(frame->bytes, type);
    put32(frame->bytes + 4, get32(request->bytes + 4));
    put32(frame->bytes + 8, (uint32_t)size);
    put32(frame->bytes + 12, (uint32_t)status);
    return frame->bytes;
}

static void answer_ping(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint8_t *bytes = reply(device, request, 0x1001, 0, 24);
    put32(bytes + 16, device->version);
    put32(bytes + 20, 1234);
}

static void answer_status(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint8_t *bytes = reply(device, request, 0x1003, 0, 32);
    put32(bytes + 16, device->version);
    put32(bytes + 20, 1234);
    put32(bytes + 24, 5);
    put32(bytes + 28, 1);
}

static void answer_load(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint8_t *bytes = reply(device, request, 0x1010, 0, 68);
    put32(bytes + 16, C7X_TEST_SCRIPTED_HANDLE);
    put64(bytes + 40, 192); /* one input of 4 bytes, as io_meta counts */
    put64(bytes + 48, 192);
    put32(bytes + 56, 1);
    put32(bytes + 60, 1);
    put32(bytes + 64, 1);
}

static void answer_model_load(struct c7x_test_scripted *device,
                              const struct c7x_test_frame *request)
{
    uint8_t *bytes = reply(device, request, 0x1020, 0, 36);
    put32(bytes + 16, 3);
    put32(bytes + 20, 1);
}

static void print(struct c7x_test_scripted *device)
{
    const char *text = C7X_TEST_SCRIPTED_PRINTED;
    uint8_t *header = memory(device, device->printf_address, 0x10000);
    put32(header, 0x50524E54);
    put32(header + 4, (uint32_t)strlen(text));
    put32(header + 8, 0x10000 - 16);
    put32(header + 12, 0);
    memcpy(header + 16, text, strlen(text));
}

/* INFER and INFER_LARGE; the descriptors stand at `descriptors`, the result window is `result`. */
static void answer_infer(struct c7x_test_scripted *device, const struct c7x_test_frame *request,
                         const uint8_t *descriptors, const uint8_t *result)
{
    uint64_t result_address = get64(result);
    int32_t sum = 0;
    for (uint32_t i = 0; i < get32(request->bytes + 24); i++) {
        const uint8_t *descriptor = descriptors + i * (size_t)DESCRIPTOR;
        assert_int_equal(get64(descriptor + 8), sizeof sum);
        sum += (int32_t)(i + 1) * (int32_t)get32(memory(device, get64(descriptor), sizeof sum));
    }
    if (get64(result + 8) < sizeof sum) {
        uint8_t *bytes = reply(device, request, 0x1021, SIZE_STATUS, 148);
        put64(bytes + 60, sizeof sum);
        return;
    }
    put32(memory(device, result_address, sizeof sum), (uint32_t)sum);
    if (device->version < 0x030100)
        print(device);
    uint8_t *bytes = reply(device, request, 0x1021, 0, 148);
    put64(bytes + 20, 1000); /* cycles */
    put32(bytes + 28, 1);
    put32(bytes + 32, device->version < 0x030100 ? (uint32_t)strlen(C7X_TEST_SCRIPTED_PRINTED) : 0);
    put64(bytes + 68, result_address);
    put64(bytes + 76, sizeof sum);
    put32(bytes + 84, 1);  /* rank */
    put32(bytes + 88, 0);  /* int */
    put32(bytes + 92, 32); /* bits */
    put64(bytes + 100, 1); /* shape[0] */
}

static void infer(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    const uint8_t *bytes = request->bytes;
    uint32_t count = get32(bytes + 24);
    if (get32(bytes) == 0x21) {
        assert_true(count <= 4 && request->size == 64 + DESCRIPTOR * (count == 0 ? 1u : count));
        answer_infer(device, request, bytes + 64, bytes + 48);
    } else {
        assert_int_equal(request->size, 80);
        assert_int_equal(get32(bytes + 40), DESCRIPTOR * count);
        answer_infer(device, request, memory(device, get64(bytes + 32), DESCRIPTOR * count),
                     bytes + 64);
    }
}

static void answer_session_open(struct c7x_test_scripted *device,
                                const struct c7x_test_frame *request)
{
    uint8_t *bytes = reply(device, request, 0x1040, 0, 56);
    put32(bytes + 16, 1);                          /* generation */
    put32(bytes + 20, get32(request->bytes + 16)); /* the client's version is the lower one */
    memcpy(bytes + 24, request->bytes + 24, 8);    /* nonce */
    put64(bytes + 32, 1000000000);
    put32(bytes + 40, 96);
    put32(bytes + 44, 64);
    put32(bytes + 48, 64);
}

/* One session, in an entry of the 64 bytes that 3.1 knows and 16 that a later version has appended.
 */
static void answer_list(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint32_t first = get32(request->bytes + 20);
    uint32_t count = first == 0 ? 1 : 0;
    uint8_t *bytes = reply(device, request, 0x1044, 0, 40 + count * 80);
    put32(bytes + 16, get32(request->bytes + 16));
    put32(bytes + 20, 1);
    put32(bytes + 24, first);
    put32(bytes + 28, count);
    put32(bytes + 32, 80);
    if (count == 0)
        return;
    put32(bytes + 40, 1);
    put32(bytes + 48, 4711);
    memcpy(bytes + 72, "later", 6);
    memset(bytes + 104, 0xEE, 16);
}

/* What only later versions know: false if this one does not either. */
static bool answer_later(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint32_t type = get32(request->bytes);
    if (device->version < 0x030100)
        return false;
    switch (type) {
    case SESSION_OPEN:
        answer_session_open(device, request);
        return true;
    case SESSION_CLOSE:
        reply(device, request, 0x1041, 0, HEADER);
        return true;
    case LIST:
        answer_list(device, request);
        return true;
    default:
        return false;
    }
}

static void answer(struct c7x_test_scripted *device, const struct c7x_test_frame *request)
{
    uint32_t type = get32(request->bytes);
    switch (type) {
    case 0x01:
        answer_ping(device, request);
        break;
    case 0x03:
        answer_status(device, request);
        break;
    case 0x10:
        answer_load(device, request);
        break;
    case 0x12:
    case 0x22:
        reply(device, request, 0x1000 | type, 0, HEADER);
        break;
    case 0x20:
        answer_model_load(device, request);
        break;
    case 0x21:
    case 0x23:
        device->late = *request;
        if (!device->is_silent)
            infer(device, request);
        break;
    case 0x30:
        device->printf_address = get64(request->bytes + 16);
        reply(device, request, 0x1030, 0, HEADER);
        break;
    default:
        if (!answer_later(device, request))
            reply(device, request, 0x1000 | type, INVALID, HEADER);
        break;
    }
}

/* ---- The link ---- */

static struct c7x_test_scripted *device_of(struct c7x_host_link *link)
{
    return (struct c7x_test_scripted *)link;
}

static enum c7x_status link_send(struct c7x_host_link *link, const uint8_t *bytes, size_t size,
                                 int64_t deadline_ns, struct c7x_error *error)
{
    struct c7x_test_scripted *device = device_of(link);
    struct c7x_test_frame frame = {.size = size};
    (void)deadline_ns;
    (void)error;
    assert_true(size >= HEADER && size <= sizeof frame.bytes);
    memcpy(frame.bytes, bytes, size);
    c7x_os_mutex_lock(&device->lock);
    assert_true(device->frame_count < FRAMES_MAX);
    device->frames[device->frame_count++] = frame;
    answer(device, &frame);
    c7x_os_event_set(&device->changed);
    c7x_os_mutex_unlock(&device->lock);
    return C7X_OK;
}

static enum c7x_status link_receive(struct c7x_host_link *link, uint8_t *bytes, size_t *out_size,
                                    int64_t deadline_ns, struct c7x_error *error)
{
    struct c7x_test_scripted *device = device_of(link);
    for (;;) {
        c7x_os_mutex_lock(&device->lock);
        bool interrupted = device->interrupted;
        bool found = device->reply_count != 0;
        device->interrupted = false;
        if (found) {
            const struct c7x_test_frame *next = &device->replies[device->reply_first];
            memcpy(bytes, next->bytes, next->size);
            *out_size = next->size;
            device->reply_first = (device->reply_first + 1) % REPLIES_MAX;
            device->reply_count--;
        }
        c7x_os_mutex_unlock(&device->lock);
        if (found)
            return C7X_OK;
        if (interrupted)
            return C7X_CANCELLED;
        if (!c7x_os_event_wait(&device->changed, deadline_ns))
            return c7x_error_set(error, C7X_TIMEOUT, "transport", "no answer");
    }
}

static enum c7x_status link_attach(struct c7x_host_link *link, size_t size, int64_t deadline_ns,
                                   struct c7x_buffer *out_buffer, struct c7x_error *error)
{
    struct c7x_test_scripted *device = device_of(link);
    struct c7x_carveout_range range;
    (void)deadline_ns;
    c7x_os_mutex_lock(&device->lock);
    enum c7x_status status = c7x_carveout_alloc(&device->carveout, size, &range, error);
    if (status == C7X_OK) {
        assert_true(device->attach_count < ATTACHES_MAX);
        device->attaches[device->attach_count++] =
            (struct c7x_test_attach){range.address, range.size, device->frame_count};
        *out_buffer = (struct c7x_buffer){memory(device, range.address, range.size), range.size,
                                          range.address};
    }
    c7x_os_mutex_unlock(&device->lock);
    return status;
}

static void link_detach(struct c7x_host_link *link, struct c7x_buffer *buffer)
{
    struct c7x_test_scripted *device = device_of(link);
    c7x_os_mutex_lock(&device->lock);
    if (buffer->pointer != NULL)
        c7x_carveout_free(&device->carveout, buffer->dsp_address);
    c7x_os_mutex_unlock(&device->lock);
    memset(buffer, 0, sizeof *buffer);
}

static void link_sync(struct c7x_host_link *link, const struct c7x_buffer *buffer, size_t offset,
                      size_t size)
{
    (void)link;
    (void)buffer;
    (void)offset;
    (void)size;
}

static void link_interrupt(struct c7x_host_link *link)
{
    struct c7x_test_scripted *device = device_of(link);
    c7x_os_mutex_lock(&device->lock);
    device->interrupted = true;
    c7x_os_event_set(&device->changed);
    c7x_os_mutex_unlock(&device->lock);
}

static enum c7x_status link_read_log(struct c7x_host_link *link, uint64_t *inout_position,
                                     char *text, size_t text_size, size_t *out_size,
                                     struct c7x_error *error)
{
    (void)link;
    (void)inout_position;
    (void)text;
    (void)text_size;
    (void)out_size;
    return c7x_error_set(error, C7X_UNSUPPORTED, "transport", "no log");
}

static void link_close(struct c7x_host_link *link)
{
    (void)link; /* it is the device */
}

static const struct c7x_host_link_ops ops = {
    .send = link_send,
    .receive = link_receive,
    .attach = link_attach,
    .detach = link_detach,
    .sync_to_device = link_sync,
    .sync_from_device = link_sync,
    .interrupt = link_interrupt,
    .read_log = link_read_log,
    .close = link_close,
};

/* ---- For tests ---- */

struct c7x_test_scripted *c7x_test_scripted_start(uint32_t version)
{
    struct c7x_test_scripted *device = calloc(1, sizeof *device);
    assert_non_null(device);
    device->link.ops = &ops;
    device->version = version;
    device->carveout = (struct c7x_carveout){.base = CARVEOUT_ADDR, .size = CARVEOUT_SIZE};
    device->arena = mmap(NULL, CARVEOUT_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(device->arena, MAP_FAILED);
    assert_int_equal(c7x_os_mutex_init(&device->lock), C7X_OK);
    assert_int_equal(c7x_os_event_init(&device->changed), C7X_OK);
    return device;
}

void c7x_test_scripted_stop(struct c7x_test_scripted *device)
{
    c7x_carveout_deinit(&device->carveout);
    c7x_os_event_deinit(&device->changed);
    c7x_os_mutex_deinit(&device->lock);
    munmap(device->arena, CARVEOUT_SIZE);
    free(device);
}

struct c7x_host_link *c7x_test_scripted_link(struct c7x_test_scripted *device)
{
    return &device->link;
}

void c7x_test_scripted_set_silent(struct c7x_test_scripted *device, bool is_silent)
{
    c7x_os_mutex_lock(&device->lock);
    device->is_silent = is_silent;
    c7x_os_mutex_unlock(&device->lock);
}

void c7x_test_scripted_answer_late(struct c7x_test_scripted *device)
{
    c7x_os_mutex_lock(&device->lock);
    assert_true(device->late.size != 0);
    infer(device, &device->late);
    c7x_os_event_set(&device->changed);
    c7x_os_mutex_unlock(&device->lock);
}

size_t c7x_test_scripted_frame_count(struct c7x_test_scripted *device)
{
    c7x_os_mutex_lock(&device->lock);
    size_t count = device->frame_count;
    c7x_os_mutex_unlock(&device->lock);
    return count;
}

struct c7x_test_frame c7x_test_scripted_frame(struct c7x_test_scripted *device, size_t index)
{
    c7x_os_mutex_lock(&device->lock);
    assert_true(index < device->frame_count);
    struct c7x_test_frame frame = device->frames[index];
    c7x_os_mutex_unlock(&device->lock);
    return frame;
}

size_t c7x_test_scripted_attach_count(struct c7x_test_scripted *device)
{
    c7x_os_mutex_lock(&device->lock);
    size_t count = device->attach_count;
    c7x_os_mutex_unlock(&device->lock);
    return count;
}

struct c7x_test_attach c7x_test_scripted_attach(struct c7x_test_scripted *device, size_t index)
{
    c7x_os_mutex_lock(&device->lock);
    assert_true(index < device->attach_count);
    struct c7x_test_attach attach = device->attaches[index];
    c7x_os_mutex_unlock(&device->lock);
    return attach;
}

const uint8_t *c7x_test_scripted_memory(struct c7x_test_scripted *device, uint64_t address)
{
    return memory(device, address, 1);
}

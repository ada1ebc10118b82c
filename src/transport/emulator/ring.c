/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/ring.h"

#include "os/os.h"
#include "transport/emulator/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define OFFER_MAGIC 0x52375843u /* "CX7R" */
#define OFFER_VERSION 1u
#define NS_PER_MS 1000000LL

/* RPMessage's header; a link has two ends, so that there is nothing to address. */
struct message {
    uint32_t source;
    uint32_t destination;
    uint32_t reserved;
    uint16_t length;
    uint16_t flags;
    uint8_t frame[C7X_TRANSPORT_FRAME_MAX];
};
_Static_assert(sizeof(struct message) == 512, "as large as a buffer of RPMessage");

struct c7x_ring_memory {
    struct c7x_virtqueue to_device;
    struct c7x_virtqueue to_host;
    _Alignas(64) _Atomic int32_t host_processor; /* where each side last wrote */
    _Alignas(64) _Atomic int32_t device_processor;
    _Alignas(64) struct message to_device_messages[C7X_VIRTQUEUE_SIZE];
    struct message to_host_messages[C7X_VIRTQUEUE_SIZE];
};

/* What is said over the link socket when a ring is offered, with its descriptors, and in answer. */
struct offer {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* of the memory */
    int32_t status;
};
_Static_assert(sizeof(struct offer) == C7X_RING_OFFER_BYTES, "the size that is promised");

/* ---- Messages ---- */

static void ring_bell(int bell)
{
    (void)eventfd_write(bell, 1); /* full: it has been rung */
}

static void put_message(struct message *message, const uint8_t *frame, size_t size)
{
    message->length = (uint16_t)size;
    memcpy(message->frame, frame, size);
}

/* The other side may write to it meanwhile, so its length is read once. */
static enum c7x_status get_message(const struct message *message, uint8_t *frame, size_t *out_size)
{
    size_t size = *(const volatile uint16_t *)&message->length;
    if (size == 0 || size > sizeof message->frame)
        return C7X_PROTOCOL;
    memcpy(frame, message->frame, size);
    *out_size = size;
    return C7X_OK;
}

static void note_processor(_Atomic int32_t *place)
{
    int32_t processor = sched_getcpu();
    if (atomic_load_explicit(place, memory_order_relaxed) != processor)
        atomic_store_explicit(place, processor, memory_order_relaxed);
}

static struct message *message_at(struct c7x_ring_memory *memory, uint64_t address)
{
    return (struct message *)(void *)((uint8_t *)memory + address);
}

/* ---- The client's side ---- */

enum c7x_status c7x_ring_host_send(struct c7x_ring_host *ring, const uint8_t *frame, size_t size)
{
    uint16_t id;
    bool needs_bell;
    C7X_RETURN_IF_ERROR(c7x_virtqueue_take_free(&ring->to_device, &id));
    put_message(message_at(ring->memory, c7x_virtqueue_address(&ring->to_device, id)), frame, size);
    note_processor(&ring->memory->host_processor);
    atomic_store_explicit(&ring->sent, atomic_load_explicit(&ring->sent, memory_order_relaxed) + 1,
                          memory_order_release);
    c7x_virtqueue_make_available(&ring->to_device, id, &needs_bell);
    if (needs_bell)
        ring_bell(ring->core_bell);
    return C7X_OK;
}

enum c7x_status c7x_ring_host_receive(struct c7x_ring_host *ring, uint8_t *frame, size_t *out_size)
{
    struct c7x_virtqueue_buffer buffer;
    bool needs_bell;
    C7X_RETURN_IF_ERROR(c7x_virtqueue_take_used(&ring->to_host, &buffer));
    (void)atomic_load_explicit(&ring->sent, memory_order_acquire);
    enum c7x_status status = get_message(message_at(ring->memory, buffer.address), frame, out_size);
    /* The core never waits for room: what finds none is lost, as it is on a board. */
    c7x_virtqueue_make_available(&ring->to_host, buffer.id, &needs_bell);
    return status;
}

bool c7x_ring_host_await_frame(struct c7x_ring_host *ring)
{
    return c7x_virtqueue_await_used(&ring->to_host);
}

bool c7x_ring_host_await_room(struct c7x_ring_host *ring)
{
    return c7x_virtqueue_await_used(&ring->to_device);
}

bool c7x_ring_host_shares_processor(const struct c7x_ring_host *ring)
{
    return atomic_load_explicit(&ring->memory->device_processor, memory_order_relaxed) ==
           sched_getcpu();
}

static void make_queues(struct c7x_ring_host *ring)
{
    struct c7x_ring_memory *memory = ring->memory;
    uint16_t id;
    bool needs_bell;
    c7x_virtqueue_driver_init(&ring->to_device, &memory->to_device,
                              offsetof(struct c7x_ring_memory, to_device_messages),
                              sizeof(struct message), false);
    c7x_virtqueue_driver_init(&ring->to_host, &memory->to_host,
                              offsetof(struct c7x_ring_memory, to_host_messages),
                              sizeof(struct message), true);
    while (c7x_virtqueue_take_free(&ring->to_host, &id) == C7X_OK)
        c7x_virtqueue_make_available(&ring->to_host, id, &needs_bell);
    atomic_store(&memory->host_processor, -1);
    atomic_store(&memory->device_processor, -1);
}

/* Memory that nobody can make shorter: an access to it never fails. */
static int make_memory(void)
{
    int memory = memfd_create("c7x-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory >= 0 &&
        (ftruncate(memory, sizeof(struct c7x_ring_memory)) != 0 ||
         fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(memory);
        memory = -1;
    }
    return memory;
}

static bool send_offer(int socket, const int *descriptors)
{
    struct offer offer = {OFFER_MAGIC, OFFER_VERSION, sizeof(struct c7x_ring_memory), C7X_OK};
    struct iovec part = {&offer, sizeof offer};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * C7X_RING_OFFER_DESCRIPTORS)];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * C7X_RING_OFFER_DESCRIPTORS);
    memcpy(CMSG_DATA(rights), descriptors, sizeof(int) * C7X_RING_OFFER_DESCRIPTORS);
    return sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof offer;
}

/* Nothing else has been asked over the socket yet, so nothing else is answered. */
static enum c7x_status receive_answer(int socket, int64_t deadline_ns)
{
    struct pollfd entry = {.fd = socket, .events = POLLIN};
    struct offer answer = {0};
    int64_t left_ns = deadline_ns - c7x_os_clock_ns();
    int wait_ms = deadline_ns == C7X_OS_FOREVER ? -1
                  : left_ns > 0                 ? (int)(left_ns / NS_PER_MS) + 1
                                                : 0;
    if (poll(&entry, 1, wait_ms) <= 0)
        return C7X_TIMEOUT;
    ssize_t size = recv(socket, &answer, sizeof answer, MSG_DONTWAIT);
    if (size == 0)
        return C7X_RESET;
    return size == (ssize_t)sizeof answer && answer.magic == OFFER_MAGIC
               ? (enum c7x_status)answer.status
               : C7X_PROTOCOL;
}

enum c7x_status c7x_ring_offer(struct c7x_ring_host *ring, int socket, int64_t deadline_ns)
{
    int memory = make_memory();
    void *mapping = MAP_FAILED;
    ring->frame_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ring->room_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ring->core_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (memory >= 0 && ring->frame_bell >= 0 && ring->room_bell >= 0 && ring->core_bell >= 0)
        mapping = mmap(NULL, sizeof *ring->memory, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    enum c7x_status status = C7X_HOST_NOMEM;
    if (mapping != MAP_FAILED) {
        const int descriptors[C7X_RING_OFFER_DESCRIPTORS] = {memory, ring->frame_bell,
                                                             ring->room_bell, ring->core_bell};
        ring->memory = mapping;
        make_queues(ring);
        if (send_offer(socket, descriptors))
            status = receive_answer(socket, deadline_ns);
    }
    if (memory >= 0)
        close(memory);
    if (status != C7X_OK)
        c7x_ring_host_deinit(ring);
    return status;
}

static void close_bell(int *bell)
{
    if (*bell >= 0)
        close(*bell);
    *bell = -1;
}

void c7x_ring_host_deinit(struct c7x_ring_host *ring)
{
    if (ring->memory != NULL)
        munmap(ring->memory, sizeof *ring->memory);
    ring->memory = NULL;
    close_bell(&ring->frame_bell);
    close_bell(&ring->room_bell);
    close_bell(&ring->core_bell);
}

/* ---- The core's side ---- */

/* The next buffer of the client's, if it has room for a message. */
static enum c7x_status take_message(struct c7x_ring_device *ring,
                                    struct c7x_virtqueue_device *queue, uint16_t *out_id,
                                    struct message **out_message)
{
    struct c7x_virtqueue_buffer buffer;
    C7X_RETURN_IF_ERROR(c7x_virtqueue_take_available(queue, sizeof *ring->memory, &buffer));
    if (buffer.length < sizeof(struct message) || buffer.address % _Alignof(struct message) != 0)
        return C7X_PROTOCOL;
    *out_id = buffer.id;
    *out_message = message_at(ring->memory, buffer.address);
    return C7X_OK;
}

enum c7x_status c7x_ring_device_send(struct c7x_ring_device *ring, const uint8_t *frame,
                                     size_t size)
{
    struct message *message;
    uint16_t id;
    bool needs_bell;
    C7X_RETURN_IF_ERROR(take_message(ring, &ring->to_host, &id, &message));
    put_message(message, frame, size);
    note_processor(&ring->memory->device_processor);
    c7x_virtqueue_put_used(&ring->to_host, id, sizeof(struct message), &needs_bell);
    if (needs_bell)
        ring_bell(ring->frame_bell);
    return C7X_OK;
}

enum c7x_status c7x_ring_device_receive(struct c7x_ring_device *ring, uint8_t *frame,
                                        size_t *out_size)
{
    struct message *message;
    uint16_t id;
    bool needs_bell;
    C7X_RETURN_IF_ERROR(take_message(ring, &ring->to_device, &id, &message));
    C7X_RETURN_IF_ERROR(get_message(message, frame, out_size));
    c7x_virtqueue_put_used(&ring->to_device, id, 0, &needs_bell);
    if (needs_bell)
        ring_bell(ring->room_bell);
    return C7X_OK;
}

bool c7x_ring_device_await_frame(struct c7x_ring_device *ring)
{
    return c7x_virtqueue_await_available(&ring->to_device);
}

void c7x_ring_device_await_nothing(struct c7x_ring_device *ring)
{
    c7x_virtqueue_await_no_available(&ring->to_device);
}

bool c7x_ring_device_shares_processor(const struct c7x_ring_device *ring)
{
    return atomic_load_explicit(&ring->memory->host_processor, memory_order_relaxed) ==
           sched_getcpu();
}

void c7x_ring_device_deinit(struct c7x_ring_device *ring)
{
    if (ring->memory != NULL)
        munmap(ring->memory, sizeof *ring->memory);
    ring->memory = NULL;
    close_bell(&ring->own_bell);
    close_bell(&ring->frame_bell);
    close_bell(&ring->room_bell);
}

/* Of the right size, and for good. */
static bool is_sound(int memory)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat file;
    return fstat(memory, &file) == 0 && file.st_size == (off_t)sizeof(struct c7x_ring_memory) &&
           (fcntl(memory, F_GET_SEALS) & seals) == seals;
}

/* An eventfd that would make us wait is not one that we write to. */
static bool is_bell(int descriptor)
{
    eventfd_t count;
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) != 0 &&
           (eventfd_read(descriptor, &count) == 0 || errno == EAGAIN);
}

static enum c7x_status map_offered(struct c7x_ring_device *ring, const uint8_t *message,
                                   size_t size, const int *descriptors, int descriptor_count)
{
    struct offer offer;
    if (size != sizeof offer || descriptor_count != C7X_RING_OFFER_DESCRIPTORS)
        return C7X_INVALID;
    memcpy(&offer, message, sizeof offer);
    if (offer.magic != OFFER_MAGIC || offer.version != OFFER_VERSION ||
        offer.size != sizeof(struct c7x_ring_memory))
        return C7X_UNSUPPORTED;
    if (!is_sound(descriptors[0]) || !is_bell(descriptors[1]) || !is_bell(descriptors[2]) ||
        !is_bell(descriptors[3]))
        return C7X_INVALID;
    void *mapping =
        mmap(NULL, sizeof *ring->memory, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[0], 0);
    if (mapping == MAP_FAILED)
        return C7X_NOMEM;
    ring->memory = mapping;
    ring->frame_bell = descriptors[1];
    ring->room_bell = descriptors[2];
    ring->own_bell = descriptors[3];
    c7x_virtqueue_device_init(&ring->to_device, &ring->memory->to_device);
    c7x_virtqueue_device_init(&ring->to_host, &ring->memory->to_host);
    return C7X_OK;
}

enum c7x_status c7x_ring_accept(struct c7x_ring_device *ring, int socket, const uint8_t *message,
                                size_t size, const int *descriptors, int descriptor_count)
{
    enum c7x_status status = map_offered(ring, message, size, descriptors, descriptor_count);
    for (int i = 0; i < descriptor_count; i++)
        if (status != C7X_OK || i == 0)
            close(descriptors[i]);
    struct offer answer = {OFFER_MAGIC, OFFER_VERSION, sizeof(struct c7x_ring_memory),
                           (int32_t)status};
    if (send(socket, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof answer)
        status = status == C7X_OK ? C7X_RESET : status;
    return status;
}

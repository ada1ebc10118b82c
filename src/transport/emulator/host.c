/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/emulator.h"

#include "base/pause.h"
#include "os/os.h"
#include "transport/emulator/ring.h"
#include "transport/emulator/spin.h"
#include "transport/emulator/strict.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STATION "transport"
#define NS_PER_S 1000000000LL
/* The supervisor waits for nobody and answers at once; a deadline is not kept to less than this. */
#define SETUP_GRACE_NS 5000000LL
/* How long a detach may wait; what is not answered by then is settled with the next request. */
#define DETACH_WAIT_NS 200000000LL

struct emulator_link {
    struct c7x_host_link base;
    int setup;
    int link;
    struct c7x_ring_host ring;   /* the way of frames, if there is one; else it is the socket */
    struct c7x_os_mutex sending; /* into the ring */
    struct c7x_spin spin;        /* of who receives */
    atomic_bool is_gone;         /* as far as who receives has seen, or by damage of the ring */
    bool strict;                 /* strict.h: mappings are twice as large as buffers */
    int interrupt;               /* an eventfd: written by interrupt, read by receive */
    uint32_t owed_op;            /* of a setup request whose answer has not come in time; 0: none */
    const struct c7x_log_memory *log; /* mapped at the first read */
    struct c7x_buffer *buffers;       /* all that are attached; pointer NULL: to be given back */
    size_t buffer_count;
    size_t buffer_capacity;
};
_Static_assert(offsetof(struct emulator_link, base) == 0, "a link starts with its operations");

static enum c7x_status gone(struct c7x_error *error)
{
    return c7x_error_set(error, C7X_RESET, STATION, "the emulated DSP went away");
}

/* Waits for any of the entries; false: the deadline came first. */
static bool wait_for_any(struct pollfd *entries, nfds_t count, int64_t deadline_ns)
{
    for (;;) {
        struct timespec left = {0, 0};
        int64_t now = c7x_os_clock_ns();
        if (deadline_ns > now) {
            left.tv_sec = (deadline_ns - now) / NS_PER_S;
            left.tv_nsec = (deadline_ns - now) % NS_PER_S;
        }
        int ready = ppoll(entries, count, deadline_ns == C7X_OS_FOREVER ? NULL : &left, NULL);
        if (ready > 0)
            return true;
        if (ready == 0)
            return false;
        if (errno != EINTR)
            return true; /* let the call that follows say what is wrong */
    }
}

static bool wait_for(int socket, short events, int64_t deadline_ns)
{
    struct pollfd entry = {.fd = socket, .events = events};
    return wait_for_any(&entry, 1, deadline_ns);
}

/* After C7X_TIMEOUT the answer is still to come. */
static enum c7x_status exchange(int socket, struct c7x_setup_message *inout_message, int *out_fd,
                                int64_t deadline_ns, struct c7x_error *error)
{
    struct c7x_setup_message answer;
    int fd = -1;
    if (c7x_setup_send(socket, inout_message, -1, true) != C7X_OK)
        return gone(error);
    if (!wait_for(socket, POLLIN, deadline_ns))
        return c7x_error_set(error, C7X_TIMEOUT, STATION,
                             "no answer from the emulator before the deadline");
    enum c7x_status status = c7x_setup_receive(socket, &answer, &fd, true);
    if (status == C7X_PROTOCOL || (status == C7X_OK && answer.op != inout_message->op)) {
        if (fd >= 0)
            close(fd);
        return c7x_error_set(error, C7X_PROTOCOL, STATION,
                             "the emulator and this library are of different versions");
    }
    if (status != C7X_OK)
        return gone(error);
    *inout_message = answer;
    *out_fd = fd;
    if (answer.status == C7X_NOMEM)
        return c7x_error_set_oom(error, STATION, answer.oom, "a shared buffer in the carve-out");
    if (answer.status == C7X_RESET)
        return gone(error);
    if (answer.status == C7X_BUSY && answer.client_count != 0)
        return c7x_error_set(error, C7X_BUSY, STATION,
                             "%u clients are open on this emulator, the most that it serves; it "
                             "has a place again when one of them closes",
                             answer.client_count);
    if (answer.status != C7X_OK)
        return c7x_error_set(error, (enum c7x_status)answer.status, STATION,
                             "the emulator refused: %s", c7x_status_text(answer.status));
    return C7X_OK;
}

enum c7x_status c7x_emulator_request(int socket, struct c7x_setup_message *inout_message,
                                     int *out_fd, int64_t deadline_ns, struct c7x_error *error)
{
    enum c7x_status status = exchange(socket, inout_message, out_fd, deadline_ns, error);
    if (status == C7X_TIMEOUT) /* the late answer must not be taken for the next one */
        shutdown(socket, SHUT_RDWR);
    return status;
}

/* Takes the answer that has not come in time. A buffer that it brings is wanted no more. */
static enum c7x_status take_late(struct emulator_link *link, struct c7x_error *error)
{
    struct c7x_setup_message answer;
    int fd = -1;
    if (c7x_setup_receive(link->setup, &answer, &fd, true) != C7X_OK)
        return gone(error);
    if (fd >= 0)
        close(fd);
    if (link->owed_op == C7X_SETUP_ATTACH && answer.status == C7X_OK)
        link->buffers[link->buffer_count++] =
            (struct c7x_buffer){.size = answer.size, .dsp_address = answer.address};
    link->owed_op = 0;
    return C7X_OK;
}

/* Asks for the end of one buffer that is to be given back, if there is one. */
static enum c7x_status give_one_back(struct emulator_link *link, struct c7x_error *error)
{
    for (size_t i = 0; i < link->buffer_count; i++) {
        struct c7x_setup_message message = {.op = C7X_SETUP_DETACH,
                                            .address = link->buffers[i].dsp_address};
        if (link->buffers[i].pointer != NULL)
            continue;
        link->buffers[i] = link->buffers[--link->buffer_count];
        if (c7x_setup_send(link->setup, &message, -1, true) != C7X_OK)
            return gone(error);
        link->owed_op = C7X_SETUP_DETACH;
        break;
    }
    return C7X_OK;
}

/* Until no answer is owed and nothing is to be given back. */
static enum c7x_status settle(struct emulator_link *link, int64_t deadline_ns,
                              struct c7x_error *error)
{
    for (;;) {
        if (link->owed_op == 0)
            C7X_RETURN_IF_ERROR(give_one_back(link, error));
        if (link->owed_op == 0)
            return C7X_OK;
        if (!wait_for(link->setup, POLLIN, deadline_ns))
            return c7x_error_set(error, C7X_TIMEOUT, STATION,
                                 "no answer from the emulator before the deadline");
        C7X_RETURN_IF_ERROR(take_late(link, error));
    }
}

/* A setup request of an open link, which a deadline that has come too soon does not end. */
static enum c7x_status link_request(struct emulator_link *link,
                                    struct c7x_setup_message *inout_message, int *out_fd,
                                    int64_t deadline_ns, struct c7x_error *error)
{
    int64_t soonest_ns = c7x_os_deadline_ns(SETUP_GRACE_NS);
    if (deadline_ns < soonest_ns)
        deadline_ns = soonest_ns;
    C7X_RETURN_IF_ERROR(settle(link, deadline_ns, error));
    uint32_t op = inout_message->op;
    enum c7x_status status = exchange(link->setup, inout_message, out_fd, deadline_ns, error);
    if (status == C7X_TIMEOUT)
        link->owed_op = op;
    return status;
}

/* ---- Frames ---- */

/* The core learns it from the socket. */
static enum c7x_status give_up_ring(struct emulator_link *link, struct c7x_error *error)
{
    atomic_store(&link->is_gone, true);
    shutdown(link->link, SHUT_RDWR);
    return c7x_error_set(error, C7X_RESET, STATION,
                         "the ring to the emulated DSP is damaged; the link was reset");
}

static void clear_bell(int bell)
{
    eventfd_t count;
    (void)eventfd_read(bell, &count);
}

/* The device reads its frames at any time, so there is room again soon. */
static enum c7x_status wait_for_room(struct emulator_link *link, int64_t deadline_ns,
                                     struct c7x_error *error)
{
    struct pollfd entries[2] = {{.fd = link->ring.room_bell, .events = POLLIN},
                                {.fd = link->link, .events = POLLHUP}};
    if (c7x_ring_host_await_room(&link->ring))
        return C7X_OK;
    if (!wait_for_any(entries, 2, deadline_ns))
        return c7x_error_set(error, C7X_TIMEOUT, STATION, "the device takes no more frames");
    if (entries[1].revents != 0)
        return gone(error);
    clear_bell(link->ring.room_bell);
    return C7X_OK;
}

static enum c7x_status send_by_ring(struct emulator_link *link, const uint8_t *frame, size_t size,
                                    int64_t deadline_ns, struct c7x_error *error)
{
    enum c7x_status status;
    if (atomic_load_explicit(&link->is_gone, memory_order_relaxed))
        return gone(error);
    c7x_os_mutex_lock(&link->sending);
    while ((status = c7x_ring_host_send(&link->ring, frame, size)) == C7X_BUSY) {
        status = wait_for_room(link, deadline_ns, error);
        if (status != C7X_OK)
            break;
    }
    c7x_os_mutex_unlock(&link->sending);
    return status == C7X_PROTOCOL ? give_up_ring(link, error) : status;
}

static enum c7x_status link_send(struct c7x_host_link *base, const uint8_t *frame, size_t size,
                                 int64_t deadline_ns, struct c7x_error *error)
{
    struct emulator_link *link = (struct emulator_link *)base;
    if (size > C7X_TRANSPORT_FRAME_MAX ||
        size == 0) /* an empty packet would read as the end of the link */
        return c7x_error_set(error, C7X_SIZE, STATION, "a frame of %zu bytes; at most %u fit", size,
                             C7X_TRANSPORT_FRAME_MAX);
    if (link->ring.memory != NULL)
        return send_by_ring(link, frame, size, deadline_ns, error);
    for (;;) {
        ssize_t sent = send(link->link, frame, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)size)
            return C7X_OK;
        if (errno != EINTR && errno != EAGAIN)
            return gone(error);
        if (errno == EAGAIN && !wait_for(link->link, POLLOUT, deadline_ns))
            return c7x_error_set(error, C7X_TIMEOUT, STATION, "the device takes no more frames");
    }
}

static void link_interrupt(struct c7x_host_link *base)
{
    struct emulator_link *link = (struct emulator_link *)base;
    uint64_t one = 1;
    (void)!write(link->interrupt, &one, sizeof one); /* full: it is interrupted already */
}

static enum c7x_status read_socket(struct emulator_link *link, uint8_t *frame, size_t *out_size,
                                   struct c7x_error *error)
{
    ssize_t size;
    do
        size = recv(link->link, frame, C7X_TRANSPORT_FRAME_MAX, 0);
    while (size < 0 && errno == EINTR);
    if (size <= 0) {
        atomic_store(&link->is_gone, true);
        return gone(error);
    }
    *out_size = (size_t)size;
    return C7X_OK;
}

/* Sleeps until there may be something. C7X_BUSY: look; C7X_OK: the socket had a frame. */
static enum c7x_status sleep_on(struct emulator_link *link, uint8_t *frame, size_t *out_size,
                                int64_t deadline_ns, struct c7x_error *error)
{
    struct pollfd entries[3] = {{.fd = link->link, .events = POLLIN},
                                {.fd = link->interrupt, .events = POLLIN},
                                {.fd = link->ring.frame_bell, .events = POLLIN}};
    if (!wait_for_any(entries, link->ring.memory != NULL ? 3 : 2, deadline_ns))
        return c7x_error_set(error, C7X_TIMEOUT, STATION, "no answer before the deadline");
    if (entries[2].revents != 0) {
        clear_bell(link->ring.frame_bell);
        return C7X_BUSY;
    }
    if (entries[0].revents != 0)
        return read_socket(link, frame, out_size, error);
    clear_bell(link->interrupt);
    return C7X_CANCELLED;
}

/* Once, or several times where the core can answer meanwhile. */
static enum c7x_status look(struct emulator_link *link, uint8_t *frame, size_t *out_size)
{
    enum c7x_status status = c7x_ring_host_receive(&link->ring, frame, out_size);
    if (status != C7X_BUSY || c7x_ring_host_shares_processor(&link->ring))
        return status;
    for (int i = 1; i < C7X_SPIN_LOOKS && status == C7X_BUSY; i++) {
        c7x_pause();
        status = c7x_ring_host_receive(&link->ring, frame, out_size);
    }
    return status;
}

static enum c7x_status receive_by_ring(struct emulator_link *link, uint8_t *frame, size_t *out_size,
                                       int64_t deadline_ns, struct c7x_error *error)
{
    enum c7x_status status;
    while ((status = look(link, frame, out_size)) == C7X_BUSY) {
        if ((!c7x_ring_host_shares_processor(&link->ring) &&
             c7x_spin_goes_on(&link->spin, deadline_ns)) ||
            c7x_ring_host_await_frame(&link->ring))
            continue;
        status = sleep_on(link, frame, out_size, deadline_ns, error);
        if (status != C7X_BUSY)
            break;
    }
    c7x_spin_end(&link->spin);
    return status == C7X_PROTOCOL ? give_up_ring(link, error) : status;
}

static enum c7x_status link_receive(struct c7x_host_link *base, uint8_t *frame, size_t *out_size,
                                    int64_t deadline_ns, struct c7x_error *error)
{
    struct emulator_link *link = (struct emulator_link *)base;
    return link->ring.memory != NULL ? receive_by_ring(link, frame, out_size, deadline_ns, error)
                                     : sleep_on(link, frame, out_size, deadline_ns, error);
}

/* ---- Buffers ---- */

static size_t mapping_size(const struct emulator_link *link, const struct c7x_buffer *buffer)
{
    return link->strict ? c7x_strict_file_size(buffer->size) : buffer->size;
}

/* Room for one buffer more, and for one that comes too late. */
static bool make_room(struct emulator_link *link)
{
    if (link->buffer_count + 2 <= link->buffer_capacity)
        return true;
    size_t capacity = link->buffer_capacity == 0 ? 8 : 2 * link->buffer_capacity;
    struct c7x_buffer *buffers = realloc(link->buffers, capacity * sizeof *buffers);
    if (buffers == NULL)
        return false;
    link->buffers = buffers;
    link->buffer_capacity = capacity;
    return true;
}

/* If the emulator is gone, so is the buffer; if it hangs, only the first one waits. */
static void link_detach(struct c7x_host_link *base, struct c7x_buffer *buffer)
{
    struct emulator_link *link = (struct emulator_link *)base;
    int64_t wait_ns = link->owed_op == 0 ? DETACH_WAIT_NS : 0;
    if (buffer->pointer == NULL)
        return;
    for (size_t i = 0; i < link->buffer_count; i++)
        if (link->buffers[i].pointer == buffer->pointer)
            link->buffers[i].pointer = NULL;
    munmap(buffer->pointer, mapping_size(link, buffer));
    memset(buffer, 0, sizeof *buffer);
    (void)!settle(link, c7x_os_deadline_ns(wait_ns), NULL);
}

static enum c7x_status link_attach(struct c7x_host_link *base, size_t size, int64_t deadline_ns,
                                   struct c7x_buffer *out_buffer, struct c7x_error *error)
{
    struct emulator_link *link = (struct emulator_link *)base;
    struct c7x_setup_message message = {.op = C7X_SETUP_ATTACH, .size = size};
    int fd = -1;
    if (!make_room(link))
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no memory for a buffer");
    C7X_RETURN_IF_ERROR(link_request(link, &message, &fd, deadline_ns, error));
    struct c7x_buffer buffer = {.size = message.size, .dsp_address = message.address};
    buffer.pointer =
        mmap(NULL, mapping_size(link, &buffer), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    bool mapped = buffer.pointer != MAP_FAILED;
    if (!mapped)
        buffer.pointer = NULL; /* to be given back */
    link->buffers[link->buffer_count++] = buffer;
    if (!mapped)
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION,
                             "cannot map a shared buffer of %zu bytes", size);
    *out_buffer = buffer;
    return C7X_OK;
}

/* Unless caches are strict, client and core map the same pages, and there is nothing to move. */
static void link_sync_to_device(struct c7x_host_link *base, const struct c7x_buffer *buffer,
                                size_t offset, size_t size)
{
    const struct emulator_link *link = (const struct emulator_link *)base;
    if (link->strict && buffer->pointer != NULL)
        c7x_strict_host_to_ddr(buffer->pointer, buffer->size, offset, size);
}

static void link_sync_from_device(struct c7x_host_link *base, const struct c7x_buffer *buffer,
                                  size_t offset, size_t size)
{
    const struct emulator_link *link = (const struct emulator_link *)base;
    if (link->strict && buffer->pointer != NULL)
        c7x_strict_ddr_to_host(buffer->pointer, buffer->size, offset, size);
}

static enum c7x_status map_log(struct emulator_link *link, struct c7x_error *error)
{
    struct c7x_setup_message message = {.op = C7X_SETUP_LOG};
    int fd = -1;
    int64_t deadline = c7x_os_deadline_ns(10 * NS_PER_S);
    C7X_RETURN_IF_ERROR(link_request(link, &message, &fd, deadline, error));
    void *log = mmap(NULL, sizeof(struct c7x_log_memory), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (log == MAP_FAILED)
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "cannot map the emulator's log");
    link->log = log;
    return C7X_OK;
}

static enum c7x_status link_read_log(struct c7x_host_link *base, uint64_t *inout_position,
                                     char *text, size_t text_size, size_t *out_size,
                                     struct c7x_error *error)
{
    struct emulator_link *link = (struct emulator_link *)base;
    if (link->log == NULL)
        C7X_RETURN_IF_ERROR(map_log(link, error));
    const uint64_t size = sizeof link->log->text;
    uint64_t written = link->log->written;
    uint64_t position = *inout_position;
    if (position > written || written - position > size)
        position = written > size ? written - size : 0;
    uint64_t count = written - position < text_size ? written - position : text_size;
    for (uint64_t i = 0; i < count; i++)
        text[i] = link->log->text[(position + i) % size];
    *inout_position = position + count;
    *out_size = count;
    return C7X_OK;
}

static void link_close(struct c7x_host_link *base)
{
    struct emulator_link *link = (struct emulator_link *)base;
    for (size_t i = 0; i < link->buffer_count; i++)
        if (link->buffers[i].pointer != NULL)
            munmap(link->buffers[i].pointer, mapping_size(link, &link->buffers[i]));
    free(link->buffers);
    if (link->log != NULL)
        munmap((void *)(uintptr_t)link->log, sizeof *link->log);
    c7x_ring_host_deinit(&link->ring);
    c7x_os_mutex_deinit(&link->sending);
    if (link->link >= 0)
        close(link->link);
    if (link->interrupt >= 0)
        close(link->interrupt);
    close(link->setup); /* the supervisor gives back whatever this client still held */
    free(link);
}

static const struct c7x_host_link_ops emulator_ops = {
    .send = link_send,
    .receive = link_receive,
    .attach = link_attach,
    .detach = link_detach,
    .sync_to_device = link_sync_to_device,
    .sync_from_device = link_sync_from_device,
    .interrupt = link_interrupt,
    .read_log = link_read_log,
    .close = link_close,
};

/* To see frames with strace, and to test that way. */
static bool is_socket_wanted(void)
{
    const char *wanted = getenv("C7X_LINK");
    return wanted != NULL && strcmp(wanted, "socket") == 0;
}

/* Without a ring, frames take the socket; what the core may still answer to an offer must not be
 * taken for one. */
static enum c7x_status offer_ring(struct emulator_link *link, int64_t deadline_ns,
                                  struct c7x_error *error)
{
    enum c7x_status status = c7x_ring_offer(&link->ring, link->link, deadline_ns);
    if (status == C7X_RESET)
        return gone(error);
    if (status == C7X_TIMEOUT)
        return c7x_error_set(error, C7X_TIMEOUT, STATION,
                             "no answer from the emulated DSP before the deadline");
    return C7X_OK;
}

enum c7x_status c7x_emulator_open_link(int socket, int64_t deadline_ns,
                                       struct c7x_host_link **out_link, struct c7x_error *error)
{
    struct emulator_link *link = calloc(1, sizeof *link);
    if (link == NULL || c7x_os_mutex_init(&link->sending) != C7X_OK) {
        close(socket);
        free(link);
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no memory for a link");
    }
    link->ring.frame_bell = link->ring.room_bell = link->ring.core_bell = -1;
    link->base.ops = &emulator_ops;
    link->setup = socket;
    link->link = -1;
    link->interrupt = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->interrupt < 0) {
        link_close(&link->base);
        return c7x_error_set(error, C7X_HOST_NOMEM, STATION, "no descriptor for a link");
    }
    struct c7x_setup_message message = {.op = C7X_SETUP_HELLO, .size = C7X_SETUP_VERSION};
    enum c7x_status status =
        c7x_emulator_request(socket, &message, &link->link, deadline_ns, error);
    if (status == C7X_OK && message.takes_ring != 0 && !is_socket_wanted())
        status = offer_ring(link, deadline_ns, error);
    if (status != C7X_OK) {
        link_close(&link->base);
        return status;
    }
    link->strict = message.strict != 0;
    *out_link = &link->base;
    return C7X_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input and output buffers. They only grow, and stay where they are once a pointer has been
 * handed out.
 *
 *   input:  [descriptors, 80 bytes each, rounded up to 64][tensors, each at a multiple of 128]
 */
#include "client_impl.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

#define DESCRIPTORS_DEFAULT 4u /* when the module does not say how many inputs it has */

enum c7x_status c7x_client_attach(struct c7x_client *client, size_t size, int64_t deadline_ns,
                                  struct c7x_buffer *out_buffer)
{
    pthread_mutex_lock(&client->setup_lock);
    enum c7x_status status = client->link->ops->attach(client->link, size, deadline_ns, out_buffer,
                                                       c7x_client_thread_error());
    pthread_mutex_unlock(&client->setup_lock);
    return status;
}

void c7x_client_detach(struct c7x_client *client, struct c7x_buffer *buffer)
{
    pthread_mutex_lock(&client->setup_lock);
    client->link->ops->detach(client->link, buffer);
    pthread_mutex_unlock(&client->setup_lock);
}

enum c7x_status c7x_client_take_io(struct c7x_client *client, int64_t deadline_ns)
{
    pthread_mutex_lock(&client->lock);
    while (client->io_taken && c7x_os_clock_ns() < deadline_ns)
        c7x_client_wait_for_change(client, deadline_ns);
    bool taken = !client->io_taken;
    client->io_taken = true;
    pthread_mutex_unlock(&client->lock);
    if (!taken)
        return c7x_error_set(c7x_client_thread_error(), C7X_TIMEOUT, C7X_CLIENT_STATION,
                             "another call of this client uses its buffers");
    return C7X_OK;
}

void c7x_client_give_io(struct c7x_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->io_taken = false;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
}

static enum c7x_status grow(struct c7x_client *client, struct c7x_buffer *buffer, bool is_own,
                            bool locked, const char *name, uint64_t size, int64_t deadline_ns)
{
    if (size <= buffer->size)
        return C7X_OK;
    if (is_own)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "the %s window has %zu bytes, %llu are needed", name, buffer->size,
                             (unsigned long long)size);
    if (locked)
        return c7x_error_set(c7x_client_thread_error(), C7X_LOCKED, C7X_CLIENT_STATION,
                             "the %s buffer has %zu bytes, %llu are needed, and a pointer to it "
                             "has been handed out",
                             name, buffer->size, (unsigned long long)size);
    if (size > C7X_WIRE_CARVEOUT_SIZE)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "%llu bytes for the %s buffer; all shared memory has %u",
                             (unsigned long long)size, name, C7X_WIRE_CARVEOUT_SIZE);
    /* The old one goes first, so that the new one may take its place. */
    c7x_client_detach(client, buffer);
    return c7x_client_attach(client, (size_t)size, deadline_ns, buffer);
}

enum c7x_status c7x_client_grow_input(struct c7x_client *client, struct c7x_io *io, uint64_t size,
                                      int64_t deadline_ns)
{
    return grow(client, &io->input, io->own_input != NULL, io->input_locked, "input", size,
                deadline_ns);
}

enum c7x_status c7x_client_grow_output(struct c7x_client *client, struct c7x_io *io, uint64_t size,
                                       int64_t deadline_ns)
{
    return grow(client, &io->output, io->own_output != NULL, io->output_locked, "output", size,
                deadline_ns);
}

void c7x_client_unlock_io(struct c7x_client *client)
{
    client->io.input_locked = client->io.output_locked = false;
    client->io.placed_end = 0;
}

/* Declared sizes round tensors up to 64, cache lines have 128: room so that each tensor has lines
 * of its own. */
static uint64_t with_line_room(uint64_t bytes, uint64_t tensor_count)
{
    return bytes == 0 ? 0 : bytes + 128 * (tensor_count + 1);
}

void c7x_client_declare_io(struct c7x_client *client, const struct c7x_response *response)
{
    pthread_mutex_lock(&client->lock);
    client->declared.input_bytes = response->body.dyn_load.io_input_bytes;
    client->declared.output_bytes = response->body.dyn_load.io_output_bytes;
    client->declared.input_count = response->body.dyn_load.io_num_inputs;
    client->declared.output_count = response->body.dyn_load.io_num_outputs;
    client->declared.flags = response->body.dyn_load.io_flags;
    pthread_mutex_unlock(&client->lock);
    uint32_t slots = client->declared.input_count;
    if (slots == 0 || slots > C7X_WIRE_INPUTS_MAX)
        slots = DESCRIPTORS_DEFAULT;
    client->io.data_offset = (size_t)c7x_round_up(slots * sizeof(struct c7x_tensor_desc), 64);
    c7x_client_unlock_io(client);
    /* What cannot be had now is no failure of the load: the declaration is an upper bound. */
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    if (c7x_client_grow_input(
            client, &client->io,
            with_line_room(client->declared.input_bytes, client->declared.input_count),
            deadline_ns) != C7X_OK ||
        c7x_client_grow_output(
            client, &client->io,
            with_line_room(client->declared.output_bytes, client->declared.output_count),
            deadline_ns) != C7X_OK)
        c7x_error_clear(c7x_client_thread_error());
}

/* Whether callers may hold pointers into the windows, which must stay mapped then. */
static bool is_handed_out(const struct c7x_io *io)
{
    return io->input_locked || io->output_locked;
}

void c7x_client_abandon_io(struct c7x_client *client, struct c7x_io *io, uint32_t seq)
{
    struct c7x_buffer none = {0};
    struct c7x_io *kept = is_handed_out(io) ? malloc(sizeof *kept) : NULL;
    size_t data_offset = io->data_offset;
    if (kept != NULL) {
        *kept = *io;
        pthread_mutex_lock(&client->lock);
        kept->next = client->given_up;
        client->given_up = kept;
        pthread_mutex_unlock(&client->lock);
    }
    if (kept != NULL || io->own_input != NULL)
        io->input = none;
    if (kept != NULL || io->own_output != NULL)
        io->output = none;
    c7x_client_let_go(client, &io->input, &io->output, seq);
    memset(io, 0, sizeof *io);
    io->data_offset = data_offset;
}

void c7x_client_detach_io(struct c7x_client *client, struct c7x_io *io)
{
    if (io->own_input == NULL)
        c7x_client_detach(client, &io->input);
    if (io->own_output == NULL)
        c7x_client_detach(client, &io->output);
}

/* Bytes of a compact tensor; false if the shape or the type is none. */
static bool tensor_bytes(const int64_t *shape, int ndim, int dtype_bits, uint64_t *out_size)
{
    uint64_t size = dtype_bits == 8 || dtype_bits == 16 || dtype_bits == 32 || dtype_bits == 64
                        ? (uint64_t)dtype_bits / 8
                        : 0;
    if (ndim < 0 || ndim > C7X_CLIENT_RANK_MAX || size == 0)
        return false;
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || !c7x_mul_size(size, (uint64_t)shape[i], &size))
            return false;
    *out_size = size;
    return true;
}

static enum c7x_status create_input(struct c7x_client *client, uint64_t size, size_t *out_offset)
{
    struct c7x_io *io = &client->io;
    uint64_t start = io->placed_end > io->data_offset ? io->placed_end : io->data_offset;
    start = c7x_round_up(start, C7X_CLIENT_TENSOR_ALIGNMENT);
    if (!c7x_range_inside(start, size, 0, io->input.size))
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "%llu bytes do not fit the input buffer of %zu behind %llu that are "
                             "taken; reserve more before the first input is created",
                             (unsigned long long)size, io->input.size, (unsigned long long)start);
    io->placed_end = (size_t)(start + size);
    io->input_locked = true;
    *out_offset = (size_t)start;
    return C7X_OK;
}

enum c7x_status c7x_client_create_input(struct c7x_client *client, const int64_t *shape, int ndim,
                                        int dtype_code, int dtype_bits,
                                        struct c7x_client_tensor *out_tensor)
{
    uint64_t size;
    size_t offset = 0;
    c7x_client_enter();
    if (!tensor_bytes(shape, ndim, dtype_bits, &size))
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "no tensor has rank %d, this shape and %d bits an element", ndim,
                             dtype_bits);
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, c7x_client_deadline_ns(client)));
    enum c7x_status status = create_input(client, size, &offset);
    if (status == C7X_OK) {
        *out_tensor = (struct c7x_client_tensor){
            .data = (uint8_t *)client->io.input.pointer + offset,
            .data_size = size,
            .ndim = ndim,
            .dtype_code = dtype_code,
            .dtype_bits = dtype_bits,
        };
        for (int i = 0; i < ndim; i++)
            out_tensor->shape[i] = shape[i];
    }
    c7x_client_give_io(client);
    return status;
}

static void *hand_out(struct c7x_client *client, const struct c7x_buffer *buffer, bool *locked,
                      size_t *out_size)
{
    void *pointer = NULL;
    c7x_client_enter();
    if (c7x_client_take_io(client, c7x_client_deadline_ns(client)) != C7X_OK)
        return NULL;
    pointer = buffer->pointer;
    if (pointer != NULL)
        *locked = true;
    if (out_size != NULL)
        *out_size = buffer->size;
    c7x_client_give_io(client);
    return pointer;
}

void *c7x_client_get_input_buffer(struct c7x_client *client, size_t *out_size)
{
    return hand_out(client, &client->io.input, &client->io.input_locked, out_size);
}

void *c7x_client_get_output_buffer(struct c7x_client *client, size_t *out_size)
{
    return hand_out(client, &client->io.output, &client->io.output_locked, out_size);
}

size_t c7x_client_get_input_data_offset(struct c7x_client *client)
{
    c7x_client_enter();
    if (c7x_client_take_io(client, c7x_client_deadline_ns(client)) != C7X_OK)
        return 0;
    size_t offset = client->io.data_offset;
    c7x_client_give_io(client);
    return offset;
}

size_t c7x_client_input_capacity(struct c7x_client *client)
{
    c7x_client_enter();
    if (c7x_client_take_io(client, c7x_client_deadline_ns(client)) != C7X_OK)
        return 0;
    size_t size = client->io.input.size;
    c7x_client_give_io(client);
    return size;
}

enum c7x_status c7x_client_reserve_io(struct c7x_client *client, uint64_t input_bytes,
                                      uint64_t output_bytes)
{
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    c7x_client_enter();
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, deadline_ns));
    enum c7x_status status = c7x_client_grow_input(client, &client->io, input_bytes, deadline_ns);
    if (status == C7X_OK)
        status = c7x_client_grow_output(client, &client->io, output_bytes, deadline_ns);
    c7x_client_give_io(client);
    return status;
}

enum c7x_status c7x_client_get_io_meta(struct c7x_client *client, uint64_t *out_input_bytes,
                                       uint64_t *out_output_bytes, uint32_t *out_input_count,
                                       uint32_t *out_output_count, uint32_t *out_flags)
{
    c7x_client_enter();
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, c7x_client_deadline_ns(client)));
    *out_input_bytes = client->declared.input_bytes;
    *out_output_bytes = client->declared.output_bytes;
    *out_input_count = client->declared.input_count;
    *out_output_count = client->declared.output_count;
    *out_flags = client->declared.flags;
    c7x_client_give_io(client);
    return C7X_OK;
}

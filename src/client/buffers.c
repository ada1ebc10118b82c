/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input and output buffers. They only grow, and stay where they are once a pointer has been
 * handed out.
 *
 *   input:  [descriptors, 80 bytes each, rounded up to 64][tensors, each at a multiple of 128]
 */
#include "client_impl.h"

#include "base/checked.h"

#include <string.h>

#define DESCRIPTORS_DEFAULT 4u /* when the module does not say how many inputs it has */

static enum c7x_status grow(struct c7x_client *client, struct c7x_buffer *buffer, bool locked,
                            const char *name, uint64_t size, int64_t deadline_ns)
{
    if (size <= buffer->size)
        return C7X_OK;
    if (locked)
        return c7x_error_set(
            &client->error, C7X_LOCKED, C7X_CLIENT_STATION,
            "the %s buffer has %zu bytes, %llu are needed, and a pointer to it has been "
            "handed out",
            name, buffer->size, (unsigned long long)size);
    if (size > C7X_WIRE_CARVEOUT_SIZE)
        return c7x_error_set(&client->error, C7X_SIZE, C7X_CLIENT_STATION,
                             "%llu bytes for the %s buffer; all shared memory has %u",
                             (unsigned long long)size, name, C7X_WIRE_CARVEOUT_SIZE);
    /* The old one goes first, so that the new one may take its place. */
    client->link->ops->detach(client->link, buffer);
    return client->link->ops->attach(client->link, (size_t)size, deadline_ns, buffer,
                                     &client->error);
}

enum c7x_status c7x_client_grow_input(struct c7x_client *client, uint64_t size, int64_t deadline_ns)
{
    return grow(client, &client->input, client->input_locked, "input", size, deadline_ns);
}

enum c7x_status c7x_client_grow_output(struct c7x_client *client, uint64_t size,
                                       int64_t deadline_ns)
{
    return grow(client, &client->output, client->output_locked, "output", size, deadline_ns);
}

/* Declared sizes round tensors up to 64, cache lines have 128: room so that each tensor has lines
 * of its own. */
static uint64_t with_line_room(uint64_t bytes, uint64_t tensor_count)
{
    return bytes == 0 ? 0 : bytes + 128 * (tensor_count + 1);
}

void c7x_client_declare_io(struct c7x_client *client, const struct c7x_response *response)
{
    client->io.input_bytes = response->body.dyn_load.io_input_bytes;
    client->io.output_bytes = response->body.dyn_load.io_output_bytes;
    client->io.input_count = response->body.dyn_load.io_num_inputs;
    client->io.output_count = response->body.dyn_load.io_num_outputs;
    client->io.flags = response->body.dyn_load.io_flags;
    uint32_t slots = client->io.input_count;
    if (slots == 0 || slots > C7X_WIRE_INPUTS_MAX)
        slots = DESCRIPTORS_DEFAULT;
    client->input_data_offset = (size_t)c7x_round_up(slots * sizeof(struct c7x_tensor_desc), 64);
    client->input_locked = client->output_locked = false;
    /* What cannot be had now is no failure of the load: the declaration is an upper bound. */
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    if (c7x_client_grow_input(client,
                              with_line_room(client->io.input_bytes, client->io.input_count),
                              deadline_ns) != C7X_OK ||
        c7x_client_grow_output(client,
                               with_line_room(client->io.output_bytes, client->io.output_count),
                               deadline_ns) != C7X_OK)
        c7x_error_clear(&client->error);
}

void c7x_client_abandon_io(struct c7x_client *client)
{
    /* The device keeps the memory until its job ends, and nobody else gets it before. */
    client->link->ops->detach(client->link, &client->input);
    client->link->ops->detach(client->link, &client->output);
    client->input_locked = client->output_locked = false;
}

static void *hand_out(struct c7x_client *client, const struct c7x_buffer *buffer, bool *locked,
                      size_t *out_size)
{
    c7x_client_enter(client);
    void *pointer = buffer->pointer;
    if (pointer != NULL)
        *locked = true;
    if (out_size != NULL)
        *out_size = buffer->size;
    c7x_client_leave(client, C7X_OK);
    return pointer;
}

void *c7x_client_get_input_buffer(struct c7x_client *client, size_t *out_size)
{
    return hand_out(client, &client->input, &client->input_locked, out_size);
}

void *c7x_client_get_output_buffer(struct c7x_client *client, size_t *out_size)
{
    return hand_out(client, &client->output, &client->output_locked, out_size);
}

size_t c7x_client_get_input_data_offset(struct c7x_client *client)
{
    c7x_client_enter(client);
    size_t offset = client->input_data_offset;
    c7x_client_leave(client, C7X_OK);
    return offset;
}

size_t c7x_client_input_capacity(struct c7x_client *client)
{
    c7x_client_enter(client);
    size_t size = client->input.size;
    c7x_client_leave(client, C7X_OK);
    return size;
}

enum c7x_status c7x_client_reserve_io(struct c7x_client *client, uint64_t input_bytes,
                                      uint64_t output_bytes)
{
    c7x_client_enter(client);
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    enum c7x_status status = c7x_client_grow_input(client, input_bytes, deadline_ns);
    if (status == C7X_OK)
        status = c7x_client_grow_output(client, output_bytes, deadline_ns);
    return c7x_client_leave(client, status);
}

enum c7x_status c7x_client_get_io_meta(struct c7x_client *client, uint64_t *out_input_bytes,
                                       uint64_t *out_output_bytes, uint32_t *out_input_count,
                                       uint32_t *out_output_count, uint32_t *out_flags)
{
    c7x_client_enter(client);
    *out_input_bytes = client->io.input_bytes;
    *out_output_bytes = client->io.output_bytes;
    *out_input_count = client->io.input_count;
    *out_output_count = client->io.output_count;
    *out_flags = client->io.flags;
    return c7x_client_leave(client, C7X_OK);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What modules print: a ring of records from a 3.1 device, plain text from a 3.0 device. */
#include "client_impl.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define FLAT_HEADER_BYTES 16u

/* To the caller's function, else to stderr. */
static void print(const struct c7x_client *client, const void *text, size_t count)
{
    if (count == 0)
        return;
    if (client->options.print != NULL)
        client->options.print(client->options.print_context, text, count);
    else
        fwrite(text, 1, count, stderr);
}

static void print_lost(const struct c7x_client *client, uint32_t count)
{
    char text[64];
    int length = snprintf(text, sizeof text, "[%u bytes of printed text had no room]\n", count);
    if (count != 0 && length > 0)
        print(client, text, (size_t)length);
}

/* The records' space, which the device goes on writing to. */
struct ring {
    const uint8_t *space;
    uint32_t size; /* a power of two */
};

/* Copies a record's head, which may wrap. */
static void read_head(const struct ring *ring, uint32_t position, struct c7x_printf_record *out)
{
    for (uint32_t i = 0; i < sizeof *out; i++)
        ((uint8_t *)out)[i] = ring->space[(position + i) & (ring->size - 1)];
}

static void print_text(const struct c7x_client *client, const struct ring *ring, uint32_t position,
                       uint32_t count)
{
    uint32_t offset = position & (ring->size - 1);
    uint32_t front = count < ring->size - offset ? count : ring->size - offset;
    print(client, ring->space + offset, front);
    print(client, ring->space, count - front);
}

/* Prints what stands in [read, written), in order; where it makes no sense, the rest is skipped. */
static void print_records(const struct c7x_client *client, const struct ring *ring, uint32_t read,
                          uint32_t written)
{
    struct c7x_printf_record head;
    while (written - read >= sizeof head && written - read <= ring->size) {
        read_head(ring, read, &head);
        read += (uint32_t)sizeof head;
        uint32_t count = wire_u32_get(head.bytes);
        if (count > written - read)
            return;
        print_text(client, ring, read, count);
        print_lost(client, wire_u32_get(head.lost));
        read += (uint32_t)c7x_round_up(count, 8);
    }
}

/* All records that are there, whichever request they belong to. */
static void pass_ring(struct c7x_client *client)
{
    uint8_t *header = client->printf.pointer;
    size_t read_at = offsetof(struct c7x_printf_ring, read);
    uint32_t *read = (uint32_t *)(void *)(header + read_at);
    const uint32_t *written =
        (const uint32_t *)(void *)(header + offsetof(struct c7x_printf_ring, written));
    uint32_t end = __atomic_load_n(written, __ATOMIC_ACQUIRE);
    wire_u32 magic;
    wire_u32 size;
    memcpy(&magic, header + offsetof(struct c7x_printf_ring, magic), sizeof magic);
    memcpy(&size, header + offsetof(struct c7x_printf_ring, size), sizeof size);
    struct ring ring = {header + sizeof(struct c7x_printf_ring), wire_u32_get(size)};
    if (wire_u32_get(magic) != C7X_WIRE_PRINTF_RING_MAGIC || !c7x_is_power_of_two(ring.size) ||
        ring.size > client->printf.size - sizeof(struct c7x_printf_ring))
        return;
    print_records(client, &ring, *read, end);
    __atomic_store_n(read, end, __ATOMIC_RELEASE);
    client->link->ops->sync_to_device(client->link, &client->printf, read_at, sizeof *read);
}

static void pass_flat_text(const struct c7x_client *client, uint32_t size)
{
    const uint8_t *header = client->printf.pointer;
    size_t room = client->printf.size - FLAT_HEADER_BYTES;
    print(client, header + FLAT_HEADER_BYTES, size < room ? size : room);
}

void c7x_client_pass_printed(struct c7x_client *client, uint32_t size)
{
    if (size == 0 || client->printf.pointer == NULL)
        return;
    pthread_mutex_lock(&client->print_lock);
    client->link->ops->sync_from_device(client->link, &client->printf, 0, client->printf.size);
    if (client->has_session)
        pass_ring(client);
    else
        pass_flat_text(client, size);
    pthread_mutex_unlock(&client->print_lock);
}

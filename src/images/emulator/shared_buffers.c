/* SPDX-License-Identifier: Apache-2.0 */
/* The shared buffers: ranges of the carve-out and the memory files behind them. */
#define _GNU_SOURCE
#include "supervisor_impl.h"

#include "transport/emulator/strict.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void free_buffer(size_t index)
{
    c7x_carveout_free(&c7x_supervisor.carveout, c7x_supervisor.buffers[index].address);
    c7x_supervisor.buffers[index] = c7x_supervisor.buffers[--c7x_supervisor.buffer_count];
}

void c7x_shared_buffers_free_of(uint32_t endpoint)
{
    for (size_t i = c7x_supervisor.buffer_count; i-- > 0;)
        if (c7x_supervisor.buffers[i].endpoint == endpoint)
            free_buffer(i);
}

void c7x_shared_buffers_free_at(uint64_t address)
{
    for (size_t i = 0; i < c7x_supervisor.buffer_count; i++)
        if (c7x_supervisor.buffers[i].address == address) {
            free_buffer(i);
            return;
        }
}

bool c7x_shared_buffers_owns(const struct c7x_supervisor_client *client, uint64_t address)
{
    for (size_t i = 0; i < c7x_supervisor.buffer_count; i++)
        if (c7x_supervisor.buffers[i].address == address)
            return c7x_supervisor.buffers[i].endpoint == client->endpoint;
    return false;
}

bool c7x_shared_buffers_add(uint64_t address, uint32_t endpoint)
{
    if (c7x_supervisor.buffer_count == c7x_supervisor.buffer_capacity) {
        size_t capacity =
            c7x_supervisor.buffer_capacity == 0 ? 64 : 2 * c7x_supervisor.buffer_capacity;
        struct c7x_supervisor_buffer *buffers =
            realloc(c7x_supervisor.buffers, capacity * sizeof *buffers);
        if (buffers == NULL)
            return false;
        c7x_supervisor.buffers = buffers;
        c7x_supervisor.buffer_capacity = capacity;
    }
    c7x_supervisor.buffers[c7x_supervisor.buffer_count++] =
        (struct c7x_supervisor_buffer){address, endpoint};
    return true;
}

/* A descriptor of its own for each buffer, which nobody can make smaller or larger under the
 * others. */
int c7x_shared_buffers_make_memory(uint64_t size)
{
    int fd = memfd_create("c7x-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void c7x_shared_buffers_free_orphans(void)
{
    for (size_t i = c7x_supervisor.buffer_count; i-- > 0;)
        if (c7x_clients_find(c7x_supervisor.buffers[i].endpoint) == NULL)
            free_buffer(i);
}

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "transport/emulator/strict.h"

#include "base/checked.h"
#include "base/log.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STATION "cache"

struct strict_buffer {
    struct strict_buffer *next;
    uint64_t dsp_address;
    uint64_t size;
    uint8_t *view;  /* what the DSP sees */
    uint8_t *clean; /* the view as it was when each line was last filled or written back */
    uint8_t *file;  /* the host view, then the DDR */
};

static struct strict_buffer *buffers;
static struct c7x_os_mutex lock;

/* ---- Lines ---- */

/* The part of the range that lies in the buffer, widened to whole lines; false: none does. */
static bool lines_in(const struct strict_buffer *buffer, const uint8_t *address, size_t size,
                     uint64_t *out_first, uint64_t *out_end)
{
    uintptr_t view = (uintptr_t)buffer->view;
    uintptr_t start = (uintptr_t)address;
    uintptr_t end = start + size;
    if (end <= view || start >= view + buffer->size)
        return false;
    uint64_t first = start > view ? start - view : 0;
    uint64_t last = end - view < buffer->size ? end - view : buffer->size;
    *out_first = first & ~(uint64_t)(C7X_STRICT_DSP_LINE - 1);
    *out_end = c7x_round_up(last, C7X_STRICT_DSP_LINE);
    return true;
}

/* Says which lines the host has written and not synced, in a range that the DSP is about to read.
 */
static void report_stale(const struct strict_buffer *buffer, uint64_t first, uint64_t end)
{
    const uint8_t *host = buffer->file;
    const uint8_t *ddr = buffer->file + buffer->size;
    uint64_t stale = 0;
    uint64_t where = 0;
    for (uint64_t at = first; at < end; at += C7X_STRICT_HOST_LINE)
        if (memcmp(host + at, ddr + at, C7X_STRICT_HOST_LINE) != 0 && stale++ == 0)
            where = at;
    if (stale != 0)
        c7x_log(STATION,
                "stale: %llu lines of buffer 0x%llx, from offset %llu on, were written by the host "
                "and not synced",
                (unsigned long long)stale, (unsigned long long)buffer->dsp_address,
                (unsigned long long)where);
}

static void invalidate_lines(struct strict_buffer *buffer, uint64_t first, uint64_t end)
{
    report_stale(buffer, first, end);
    memcpy(buffer->view + first, buffer->file + buffer->size + first, end - first);
    memcpy(buffer->clean + first, buffer->view + first, end - first);
}

/* Only dirty lines are written back: clean ones may be older than the DDR. */
static void write_lines_back(struct strict_buffer *buffer, uint64_t first, uint64_t end)
{
    for (uint64_t at = first; at < end; at += C7X_STRICT_DSP_LINE) {
        if (memcmp(buffer->view + at, buffer->clean + at, C7X_STRICT_DSP_LINE) == 0)
            continue;
        memcpy(buffer->file + buffer->size + at, buffer->view + at, C7X_STRICT_DSP_LINE);
        memcpy(buffer->clean + at, buffer->view + at, C7X_STRICT_DSP_LINE);
    }
}

/* ---- The operations of os/ ---- */

static void for_lines(const void *address, size_t size,
                      void (*act)(struct strict_buffer *buffer, uint64_t first, uint64_t end))
{
    uint64_t first;
    uint64_t end;
    c7x_os_mutex_lock(&lock);
    for (struct strict_buffer *buffer = buffers; buffer != NULL; buffer = buffer->next)
        if (lines_in(buffer, address, size, &first, &end))
            act(buffer, first, end);
    c7x_os_mutex_unlock(&lock);
}

static void writeback(const void *address, size_t size)
{
    for_lines(address, size, write_lines_back);
}

static void invalidate(void *address, size_t size)
{
    for_lines(address, size, invalidate_lines);
}

void c7x_strict_install(void)
{
    static const struct c7x_os_cache_hooks hooks = {writeback, invalidate};
    if (c7x_os_mutex_init(&lock) != C7X_OK)
        c7x_os_panic("no mutex for strict caches");
    c7x_os_port_set_cache_hooks(&hooks);
}

/* ---- Buffers ---- */

static void free_buffer(struct strict_buffer *buffer)
{
    if (buffer->clean != NULL)
        munmap(buffer->clean, buffer->size);
    if (buffer->file != NULL)
        munmap(buffer->file, c7x_strict_file_size(buffer->size));
    free(buffer);
}

static uint8_t *map(void *place, uint64_t size, int flags, int memory)
{
    void *pointer = mmap(place, size, PROT_READ | PROT_WRITE, flags, memory, 0);
    return pointer == MAP_FAILED ? NULL : pointer;
}

enum c7x_status c7x_strict_add(int memory, uint64_t dsp_address, uint8_t *view, uint64_t size)
{
    const int own = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    struct strict_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return C7X_NOMEM;
    buffer->dsp_address = dsp_address;
    buffer->size = size;
    buffer->view = view;
    buffer->clean = map(NULL, size, own, -1);
    buffer->file = map(NULL, c7x_strict_file_size(size), MAP_SHARED, memory);
    if (buffer->clean == NULL || buffer->file == NULL ||
        map(view, size, own | MAP_FIXED, -1) == NULL) {
        free_buffer(buffer);
        return C7X_NOMEM;
    }
    c7x_os_mutex_lock(&lock);
    buffer->next = buffers;
    buffers = buffer;
    c7x_os_mutex_unlock(&lock);
    return C7X_OK;
}

void c7x_strict_remove(const uint8_t *view)
{
    struct strict_buffer *found = NULL;
    c7x_os_mutex_lock(&lock);
    for (struct strict_buffer **place = &buffers; *place != NULL; place = &(*place)->next)
        if ((*place)->view == view) {
            found = *place;
            *place = found->next;
            break;
        }
    c7x_os_mutex_unlock(&lock);
    if (found != NULL)
        free_buffer(found);
}

/* ---- The host's side ---- */

/* Widened to the host's lines; the buffer is whole pages. */
static void copy_lines(uint8_t *to, const uint8_t *from, uint64_t buffer_size, size_t offset,
                       size_t size)
{
    if (size == 0 || offset >= buffer_size)
        return;
    uint64_t first = offset & ~(uint64_t)(C7X_STRICT_HOST_LINE - 1);
    uint64_t end = size > buffer_size - offset ? buffer_size
                                               : c7x_round_up(offset + size, C7X_STRICT_HOST_LINE);
    memcpy(to + first, from + first, end - first);
}

void c7x_strict_host_to_ddr(uint8_t *host_view, uint64_t buffer_size, size_t offset, size_t size)
{
    copy_lines(host_view + buffer_size, host_view, buffer_size, offset, size);
}

void c7x_strict_ddr_to_host(uint8_t *host_view, uint64_t buffer_size, size_t offset, size_t size)
{
    copy_lines(host_view, host_view + buffer_size, buffer_size, offset, size);
}

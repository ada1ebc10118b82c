/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/*
 * A module is loaded into the memory of a device that does not exist, by the firmware's own loader,
 * up to the point where its code would run.
 */
#include "inspect/inspect_impl.h"

#include "firmware/exports/exports.h"
#include "firmware/loader/arch/arch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGER_HEAP_BYTES ((size_t)4 << 30)

/* ---- Memory of the answer ---- */

struct block {
    struct block *next;
    _Alignas(16) uint8_t bytes[];
};

void *c7x_inspector_alloc(struct c7x_inspector *self, size_t count, size_t size)
{
    struct block *block = NULL;
    if (count <= (SIZE_MAX - sizeof(*block)) / size)
        block = calloc(1, sizeof(*block) + count * size);
    if (block == NULL) {
        self->lacks_memory = true;
        return NULL;
    }
    block->next = self->blocks;
    self->blocks = block;
    return block->bytes;
}

/* Bytes of the printable character that begins there, in UTF-8; 0: none does. C1 controls, which a
 * terminal obeys too, are not printable. */
static size_t character_size(const uint8_t *text, size_t room)
{
    size_t size = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] < ' ' || text[0] == 0x7f || (text[0] >= 0x80 && text[0] < 0xc2) || text[0] > 0xf4 ||
        size > room || (text[0] == 0xc2 && text[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    return size;
}

const char *c7x_inspector_text(struct c7x_inspector *self, const void *text, size_t size_max)
{
    const uint8_t *from = text;
    const uint8_t *end = size_max == 0 ? NULL : memchr(text, 0, size_max);
    size_t length = end == NULL ? size_max : (size_t)(end - from);
    char *copy = c7x_inspector_alloc(self, length + 1, 1);
    if (copy == NULL)
        return "";
    for (size_t i = 0; i < length;) {
        size_t size = character_size(from + i, length - i);
        if (size == 0)
            copy[i++] = '?';
        for (; size > 0; size--, i++)
            copy[i] = (char)from[i];
    }
    return copy;
}

/* ---- The device that does not exist ---- */

/* Maps a window of the device. Pages come as they are touched; pointers are as aligned as the
 * addresses. */
static uint8_t *map_window(struct c7x_inspector *self, c7x_dsp_addr base, size_t size)
{
    size_t number = self->memory.window_count;
    struct c7x_memory_window *window = &self->memory.windows[number];
    struct c7x_inspector_mapping *mapping = &self->mappings[number];
    uintptr_t start;
    mapping->size = size + C7X_LOADER_ALIGNMENT_MAX;
    mapping->pointer = mmap(NULL, mapping->size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping->pointer == MAP_FAILED) {
        self->lacks_memory = true;
        return NULL;
    }
    start = ((uintptr_t)mapping->pointer + C7X_LOADER_ALIGNMENT_MAX - 1) &
            ~(uintptr_t)(C7X_LOADER_ALIGNMENT_MAX - 1);
    *window = (struct c7x_memory_window){
        base, size, (uint8_t *)mapping->pointer + (start - (uintptr_t)mapping->pointer)};
    self->memory.window_count++;
    return window->pointer;
}

static bool make_device(struct c7x_inspector *self, const void *bytes, size_t size,
                        size_t heap_size)
{
    uint8_t *heap = map_window(self, C7X_MEMORY_HEAP_BASE, heap_size);
    uint8_t *staged = map_window(self, C7X_MEMORY_CARVEOUT_BASE, size);
    if (heap == NULL || staged == NULL)
        return false;
    if (size != 0)
        memcpy(staged, bytes, size);
    self->bytes = staged;
    self->size = size;
    self->heap = c7x_heap_create(heap, heap_size, "DDR heap");
    return self->heap != NULL;
}

static void free_device(struct c7x_inspector *self)
{
    if (self->heap != NULL)
        c7x_heap_destroy(self->heap);
    for (size_t i = 0; i < self->memory.window_count; i++)
        (void)munmap(self->mappings[i].pointer, self->mappings[i].size);
    self->heap = NULL;
    self->memory.window_count = 0;
    self->program = NULL;
}

/* ---- Inspection ---- */

static void read_machine(struct c7x_inspector *self)
{
    static const uint8_t magic[4] = {0x7f, 'E', 'L', 'F'};
    char text[32];
    uint8_t head[20];
    const char *name;
    if (self->size < sizeof(head))
        return;
    memcpy(head, self->bytes, sizeof(head));
    if (memcmp(head, magic, sizeof(magic)) != 0)
        return;
    name = c7x_arch_machine_name((uint16_t)(head[18] | head[19] << 8), text, sizeof(text));
    self->result.machine = c7x_inspector_text(self, name, strlen(name));
}

/* A file of no known kind asks the emulator. */
static const char *name_device(const struct c7x_inspector *self, enum c7x_inspect_device device)
{
    if (device == C7X_INSPECT_DEVICE_BOARD)
        return c7x_arch_c7x.name;
    if (device == C7X_INSPECT_DEVICE_OWN && self->result.machine != NULL &&
        strcmp(self->result.machine, c7x_arch_c7x.name) == 0)
        return c7x_arch_c7x.name;
    return c7x_arch_native()->name;
}

/* Shows all that can be read of the file. */
static enum c7x_status open_and_read(struct c7x_inspector *self, struct c7x_error *error)
{
    struct c7x_loader_request request = {
        .bytes = self->bytes,
        .size = self->size,
        .address = C7X_MEMORY_CARVEOUT_BASE,
        .heap = self->heap,
        .memory = &self->memory,
        .owner = c7x_heap_owner_new(self->heap),
        .imports = &c7x_exports,
        .device = self->result.device,
        .out_missing = &self->missing,
    };
    C7X_RETURN_IF_ERROR(c7x_loader_open(&request, &self->program, error));
    c7x_inspector_read_segments(self);
    c7x_inspector_read_symbols(self);
    c7x_inspector_read_contents(self);
    self->result.bytes.load = c7x_heap_owner_bytes(self->heap, request.owner);
    return C7X_OK;
}

/* All as far as it can be read, and the first thing that stands against the module. */
static enum c7x_status look(struct c7x_inspector *self)
{
    C7X_RETURN_IF_ERROR(open_and_read(self, &self->error));
    return c7x_inspector_judge(self);
}

/* A module that no device has room for, in a heap that has: what it needs is what its author must
 * know. */
static void look_in_a_larger_heap(struct c7x_inspector *self, const void *bytes, size_t size)
{
    struct c7x_error unfit;
    free_device(self);
    if (make_device(self, bytes, size, LARGER_HEAP_BYTES))
        (void)open_and_read(self, &unfit);
    else
        self->lacks_memory = false; /* then it is not shown */
}

static const char *read_reason(struct c7x_inspector *self)
{
    if (self->result.status == C7X_OK)
        return "";
    const char *text = self->missing != NULL ? self->missing : self->error.text;
    return c7x_inspector_text(self, text, strlen(text));
}

enum c7x_status c7x_inspect(const void *bytes, size_t size, enum c7x_inspect_device device,
                            const struct c7x_inspection **out_inspection)
{
    struct c7x_inspector *self = calloc(1, sizeof(*self));
    if (self == NULL)
        return C7X_HOST_NOMEM;
    self->result.reason = "";
    self->result.bytes.file = size;
    self->result.bytes.heap_total = C7X_MEMORY_HEAP_SIZE;
    if (make_device(self, bytes, size, C7X_MEMORY_HEAP_SIZE)) {
        read_machine(self);
        self->result.device = name_device(self, device);
        self->result.status = look(self);
        self->result.reason = read_reason(self);
        if (self->result.status == C7X_NOMEM && self->program == NULL)
            look_in_a_larger_heap(self, bytes, size);
    }
    free_device(self);
    if (self->lacks_memory) {
        c7x_inspection_free(&self->result);
        return C7X_HOST_NOMEM;
    }
    *out_inspection = &self->result;
    return C7X_OK;
}

void c7x_inspection_free(const struct c7x_inspection *inspection)
{
    /* The inspection is the first member of what was allocated. */
    struct c7x_inspector *self = (struct c7x_inspector *)(uintptr_t)inspection;
    struct block *block = self == NULL ? NULL : self->blocks;
    while (block != NULL) {
        struct block *next = block->next;
        free(block);
        block = next;
    }
    free(self);
}

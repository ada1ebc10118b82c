/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/buffer_table.h"

#include "base/checked.h"

#include <stdlib.h>
#include <string.h>

struct c7x_buffer_entry {
    uint64_t address;
    uint64_t size;
    uint32_t endpoint;
    uint32_t pin_count;
    bool detached;
};

enum c7x_status c7x_buffer_table_init(struct c7x_buffer_table *table,
                                      void (*release)(void *context, uint64_t address,
                                                      uint64_t size),
                                      void *context)
{
    *table = (struct c7x_buffer_table){.release = release, .context = context};
    return c7x_os_mutex_init(&table->lock);
}

void c7x_buffer_table_deinit(struct c7x_buffer_table *table)
{
    free(table->entries);
    c7x_os_mutex_deinit(&table->lock);
}

/* How many entries begin at or below the address: the last of them is the only one that can hold
 * it. Call with the table locked. */
static size_t count_up_to(const struct c7x_buffer_table *table, uint64_t address)
{
    size_t low = 0;
    size_t high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The entry that holds the address, or NULL. Call with the table locked. */
static struct c7x_buffer_entry *find(struct c7x_buffer_table *table, uint64_t address)
{
    size_t count = count_up_to(table, address);
    struct c7x_buffer_entry *entry = count == 0 ? NULL : &table->entries[count - 1];
    return entry != NULL && address - entry->address < entry->size ? entry : NULL;
}

static void drop(struct c7x_buffer_table *table, struct c7x_buffer_entry *entry)
{
    uint64_t address = entry->address;
    uint64_t size = entry->size;
    size_t above = --table->count - (size_t)(entry - table->entries);
    memmove(entry, entry + 1, above * sizeof *entry);
    table->release(table->context, address, size);
}

static bool overlaps(const struct c7x_buffer_table *table, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < table->count; i++)
        if (address < table->entries[i].address + table->entries[i].size &&
            table->entries[i].address < address + size)
            return true;
    return false;
}

static bool make_room(struct c7x_buffer_table *table)
{
    if (table->count < table->capacity)
        return true;
    size_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
    struct c7x_buffer_entry *entries = realloc(table->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    table->entries = entries;
    table->capacity = capacity;
    return true;
}

/* There is room. */
static void insert(struct c7x_buffer_table *table, const struct c7x_buffer_entry *entry)
{
    size_t index = count_up_to(table, entry->address);
    memmove(&table->entries[index + 1], &table->entries[index],
            (table->count++ - index) * sizeof *entry);
    table->entries[index] = *entry;
}

enum c7x_status c7x_buffer_table_add(struct c7x_buffer_table *table, uint32_t endpoint,
                                     uint64_t address, uint64_t size)
{
    enum c7x_status status = C7X_OK;
    c7x_os_mutex_lock(&table->lock);
    if (overlaps(table, address, size))
        status = C7X_INVALID;
    else if (!make_room(table))
        status = C7X_NOMEM;
    else
        insert(table,
               &(struct c7x_buffer_entry){.address = address, .size = size, .endpoint = endpoint});
    c7x_os_mutex_unlock(&table->lock);
    return status;
}

bool c7x_buffer_table_remove(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address)
{
    bool released = true;
    c7x_os_mutex_lock(&table->lock);
    struct c7x_buffer_entry *entry = find(table, address);
    if (entry != NULL && entry->endpoint == endpoint) {
        released = entry->pin_count == 0;
        entry->detached = true;
        if (released)
            drop(table, entry);
    }
    c7x_os_mutex_unlock(&table->lock);
    return released;
}

void c7x_buffer_table_remove_endpoint(struct c7x_buffer_table *table, uint32_t endpoint)
{
    c7x_os_mutex_lock(&table->lock);
    for (size_t i = table->count; i-- > 0;) {
        struct c7x_buffer_entry *entry = &table->entries[i];
        if (entry->endpoint != endpoint)
            continue;
        entry->detached = true;
        if (entry->pin_count == 0)
            drop(table, entry);
    }
    c7x_os_mutex_unlock(&table->lock);
}

/* The buffer that holds all of the range and belongs to the endpoint. Call with the table locked.
 */
static struct c7x_buffer_entry *find_owned(struct c7x_buffer_table *table, uint32_t endpoint,
                                           uint64_t address, uint64_t size)
{
    struct c7x_buffer_entry *entry = find(table, address);
    if (entry == NULL || entry->endpoint != endpoint || entry->detached ||
        !c7x_range_inside(address, size, entry->address, entry->size))
        return NULL;
    return entry;
}

bool c7x_buffer_table_owns(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address,
                           uint64_t size)
{
    c7x_os_mutex_lock(&table->lock);
    bool owned = find_owned(table, endpoint, address, size) != NULL;
    c7x_os_mutex_unlock(&table->lock);
    return owned;
}

bool c7x_buffer_table_pin(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address,
                          uint64_t size)
{
    c7x_os_mutex_lock(&table->lock);
    struct c7x_buffer_entry *entry = find_owned(table, endpoint, address, size);
    if (entry != NULL)
        entry->pin_count++;
    c7x_os_mutex_unlock(&table->lock);
    return entry != NULL;
}

void c7x_buffer_table_unpin(struct c7x_buffer_table *table, uint64_t address)
{
    c7x_os_mutex_lock(&table->lock);
    struct c7x_buffer_entry *entry = find(table, address);
    if (entry != NULL && entry->pin_count > 0 && --entry->pin_count == 0 && entry->detached)
        drop(table, entry);
    c7x_os_mutex_unlock(&table->lock);
}

void c7x_buffer_table_visit(struct c7x_buffer_table *table,
                            void (*visit)(void *context, uint64_t address, uint64_t size,
                                          uint32_t endpoint),
                            void *context)
{
    c7x_os_mutex_lock(&table->lock);
    for (size_t i = 0; i < table->count; i++)
        visit(context, table->entries[i].address, table->entries[i].size,
              table->entries[i].endpoint);
    c7x_os_mutex_unlock(&table->lock);
}

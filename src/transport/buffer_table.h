/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's book of shared buffers: who attached which range, and how many jobs and modules use
 * it. A buffer goes when it has been detached and nobody uses it any more. Any task may call.
 */
#ifndef C7X_TRANSPORT_BUFFER_TABLE_H
#define C7X_TRANSPORT_BUFFER_TABLE_H

#include "os/os.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct c7x_buffer_entry;

struct c7x_buffer_table {
    struct c7x_os_mutex lock;
    struct c7x_buffer_entry *entries; /* by address */
    size_t count;
    size_t capacity;
    /* Called, with the table locked, when a buffer is used no more: take the mapping down. */
    void (*release)(void *context, uint64_t address, uint64_t size);
    void *context;
};

enum c7x_status c7x_buffer_table_init(struct c7x_buffer_table *table,
                                      void (*release)(void *context, uint64_t address,
                                                      uint64_t size),
                                      void *context) C7X_NODISCARD;
/* Forgets all entries without releasing them. */
void c7x_buffer_table_deinit(struct c7x_buffer_table *table);

/* Enters a buffer. C7X_NOMEM; C7X_INVALID if it overlaps one that is there. */
enum c7x_status c7x_buffer_table_add(struct c7x_buffer_table *table, uint32_t endpoint,
                                     uint64_t address, uint64_t size) C7X_NODISCARD;
/* Releases the buffer now, or when the last pin goes; true if now. Unknown addresses count as
 * released. */
bool c7x_buffer_table_remove(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address);
/* Removes all buffers of an endpoint. */
void c7x_buffer_table_remove_endpoint(struct c7x_buffer_table *table, uint32_t endpoint);

/* Whether the range lies in one buffer that the endpoint has attached and not detached. */
bool c7x_buffer_table_owns(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address,
                           uint64_t size);
/* The same, and the buffer stays until an unpin of an address in it. */
bool c7x_buffer_table_pin(struct c7x_buffer_table *table, uint32_t endpoint, uint64_t address,
                          uint64_t size);
void c7x_buffer_table_unpin(struct c7x_buffer_table *table, uint64_t address);

/* Calls `visit` for each buffer, detached ones that are still used too, by address and with the
 * table locked: it must not call the table. */
void c7x_buffer_table_visit(struct c7x_buffer_table *table,
                            void (*visit)(void *context, uint64_t address, uint64_t size,
                                          uint32_t endpoint),
                            void *context);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Looks symbols up by name: the firmware's export table is one source, the exports of a loaded
 * module another. */
#ifndef C7X_FIRMWARE_LOADER_SYMBOL_SOURCE_H
#define C7X_FIRMWARE_LOADER_SYMBOL_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct c7x_symbol_source {
    /* The address of the name, or NULL. */
    void *(*find)(const struct c7x_symbol_source *source, const char *name);
    /*
     * How many bytes may be read from the address on, up to the end of its segment; 0 for an
     * address that the source does not know. Mandatory for a module's symbols; NULL for the export
     * table.
     */
    uint64_t (*extent)(const struct c7x_symbol_source *source, const void *address);
    /* How a message about a missing name calls the export table, NULL without one. */
    const char *title;
    bool is_foreign; /* the module's code is for another processor than this */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a native module: an ELF64 shared object for this device's processor (docs/modules.md). It
 * knows bytes, segments, symbols and relocations, and nothing of what the module computes.
 *
 * A load reads as chapters, one file each: verify, layout, dynamic, symbols, relocate, protect.
 * Each writes what it acquires into the program at once, and only c7x_loader_unload() lets go of
 * it, so no step undoes its own work.
 */
#ifndef C7X_FIRMWARE_LOADER_LOADER_H
#define C7X_FIRMWARE_LOADER_LOADER_H

#include "base/status.h"
#include "firmware/loader/symbol_source.h"
#include "firmware/memory/heap.h"

#include <stdbool.h>

#define C7X_LOADER_SEGMENT_COUNT_MAX 16u
#define C7X_LOADER_ALIGNMENT_MAX 0x200000u

struct c7x_program;

struct c7x_loader_request {
    const uint8_t *bytes; /* the staged file; never written */
    uint64_t size;
    bool copy_read_only; /* also copy the segment that would be used in place */
    struct c7x_heap *heap;
    uint32_t owner; /* of all blocks that the program holds */
    const struct c7x_symbol_source *imports;
};

/*
 * Loads, relocates and protects the module and runs its constructors (without a client: what they
 * print is dropped and malloc gives NULL). On failure nothing stays allocated.
 *
 * C7X_LOAD: malformed or unfit; C7X_SYMBOL: imports that are missing, all of them by name;
 * C7X_NOMEM.
 */
enum c7x_status c7x_loader_load(const struct c7x_loader_request *request,
                                struct c7x_program **out_program,
                                struct c7x_error *error) C7X_NODISCARD;

/* Runs the destructors unless `abandon` says that the module's own state cannot be trusted, and
 * frees. NULL is legal. */
void c7x_loader_unload(struct c7x_program *program, bool abandon);

/* The module's own exported symbols, as long as the program is loaded. */
const struct c7x_symbol_source *c7x_loader_symbols(const struct c7x_program *program);

/* Whether a part of the staged bytes is in use until unload. */
bool c7x_loader_uses_staged_bytes(const struct c7x_program *program);

/*
 * Whether the address lies in the program's memory; if so writes "name+0x12" (or "segment 1+0x12")
 * into `text`. Takes no lock and allocates nothing, so a fault handler may call it.
 */
bool c7x_loader_describe(const struct c7x_program *program, const void *address, char *text,
                         size_t text_size);

#endif

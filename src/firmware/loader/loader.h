/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a module: an ELF64 file for C7x or for a native processor (docs/modules.md). It knows
 * bytes, segments, symbols and relocations, and nothing of what the module computes.
 *
 * A load reads as chapters, one file each: verify, layout, dynamic, symbols, relocate, protect.
 * Each writes what it acquires into the program at once, and only c7x_loader_unload() lets go of
 * it, so no step undoes its own work. What C7x and native files do not share is behind one
 * interface, struct c7x_layout_ops: layout_c7x.c and layout_native.c.
 */
#ifndef C7X_FIRMWARE_LOADER_LOADER_H
#define C7X_FIRMWARE_LOADER_LOADER_H

#include "base/status.h"
#include "firmware/loader/symbol_source.h"
#include "firmware/memory/heap.h"
#include "firmware/memory/memory.h"

#include <stdbool.h>

#define C7X_LOADER_SEGMENT_COUNT_MAX 16u
#define C7X_LOADER_ALIGNMENT_MAX 0x200000u

struct c7x_program;

struct c7x_loader_request {
    const uint8_t *bytes; /* the staged file; never written */
    uint64_t size;
    c7x_dsp_addr address; /* where it is staged */
    bool copy_read_only;  /* also copy the segments that would be used in place */
    struct c7x_heap *heap;
    /* Where the heap lies for the DSP; NULL: at its pointers. */
    const struct c7x_memory *memory;
    uint32_t owner; /* of all blocks that the program holds */
    const struct c7x_symbol_source *imports;
    const char *device; /* what the device executes, for messages; NULL: as this processor */
    /* NULL, or where the text goes that lists all missing imports when the error's is too short: a
     * block of the heap, C7X_HEAP_SERVICE's, that the caller frees. */
    char **out_missing;
    const _Atomic bool *cancelled; /* NULL, or to be looked at now and then: the load is to end */
};

/* At most as long; the rest of the names is counted. */
#define C7X_LOADER_MISSING_TEXT_MAX (64u << 10)

/*
 * A load, in three steps. Bytes and imports must stay until the last one; when open fails nothing
 * stays allocated, and after another step that failed nothing but unload is left to do.
 *
 *   open   headers, memory, symbols
 *   link   imports and relocations, and where its hooks would be
 *   start  the right processor, protection, constructors (without a client: what they print is
 *          dropped and malloc gives NULL)
 *
 * A file for another processor is checked and relocated like any other, with the addresses that its
 * own device would use, and refused by start.
 *
 * C7X_FAULT: a constructor did what it must not; C7X_LOAD: malformed or unfit; C7X_SYMBOL: imports
 * that are missing, all of them by name; C7X_NOMEM; C7X_CANCELLED.
 */
enum c7x_status c7x_loader_open(const struct c7x_loader_request *request,
                                struct c7x_program **out_program,
                                struct c7x_error *error) C7X_NODISCARD;
enum c7x_status c7x_loader_link(struct c7x_program *program, struct c7x_error *error) C7X_NODISCARD;
enum c7x_status c7x_loader_start(struct c7x_program *program,
                                 struct c7x_error *error) C7X_NODISCARD;

/* Runs the destructors of a program that was started, unless `abandon` says that its own state
 * cannot be trusted, and frees. NULL is legal. */
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

/* ---- What a program consists of, once it is open ---- */

/* Name of the processor that the file is for. */
const char *c7x_loader_machine(const struct c7x_program *program);
/* Whether it is this one. */
bool c7x_loader_is_native(const struct c7x_program *program);

struct c7x_loader_segment {
    unsigned index; /* of its program header */
    bool is_readable, is_writable, is_executable;
    bool in_place;
    uint64_t vaddr;
    uint64_t offset;
    uint64_t filesz;
    uint64_t memsz;
    uint64_t align;
    uint64_t address; /* where the device has it */
};

/* Segment number `index`, counted from 0; false past the last. */
bool c7x_loader_segment(const struct c7x_program *program, unsigned index,
                        struct c7x_loader_segment *out);

struct c7x_loader_symbol {
    const char *name; /* as long as the program is loaded; may be empty */
    bool is_import;
    bool is_export;
    bool is_weak;
    bool is_present; /* an import that the firmware exports */
    bool is_function;
    uint64_t address; /* of an export, where the device has it */
    uint64_t size;
};

/* Symbol number `index`, counted from 0; false past the last. */
bool c7x_loader_symbol(const struct c7x_program *program, uint64_t index,
                       struct c7x_loader_symbol *out);

#endif

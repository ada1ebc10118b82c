/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: load, find, call, unload; the owner of all that a loaded module holds. A module is a
 * program (text, read-only data, weights in place) and an instance (data, bss, what the kind keeps
 * for it). What a module can do is the business of its kind (kind.h); this folder knows bytes,
 * symbols, handles and owners.
 *
 * A call that ended in the middle of the module's code (fault, watchdog) leaves it faulty: further
 * calls answer C7X_FAULTED, and unload takes its memory back without running its code.
 *
 * station: ... target > [module] > tvm ...
 */
#ifndef C7X_FIRMWARE_MODULE_MODULE_H
#define C7X_FIRMWARE_MODULE_MODULE_H

#include "base/status.h"
#include "firmware/memory/heap.h"
#include "firmware/memory/memory.h"
#include "firmware/module/kind.h"

#define C7X_MODULE_COUNT_MAX 1024u
#define C7X_MODULE_NAME_BYTES 32u /* in lists, NUL included; longer ones are cut */

struct c7x_module;
struct c7x_module_table;

/* The session number under which a kept module lives, once it belongs to the device. */
#define C7X_MODULE_SESSION_DEVICE 0u

struct c7x_module_config {
    struct c7x_heap *heap;                   /* segments and everything else that a module holds */
    const struct c7x_symbol_source *exports; /* what modules may import */
    const struct c7x_module_kind_ops *kind;
    const struct c7x_memory *memory; /* where the DSP has the heap; NULL: at its pointers */
};

enum c7x_status c7x_module_table_create(const struct c7x_module_config *config,
                                        struct c7x_module_table **out_table) C7X_NODISCARD;
/* Unloads what is still loaded. NULL is legal. */
void c7x_module_table_destroy(struct c7x_module_table *table);

struct c7x_module_load {
    const uint8_t
        *bytes; /* the staged file; pinned by the caller until `release_bytes` is called */
    uint64_t size;
    c7x_dsp_addr address;  /* where it is staged */
    uint32_t session;      /* owner, or C7X_MODULE_SESSION_DEVICE for KEEP */
    uint32_t priority;     /* of its calls that name none; what the numbers mean is the caller's */
    bool copy_read_only;   /* the staged bytes will not stay: copy what would be used in place */
    bool in_place_if_full; /* but use it in place when the copy does not fit the heap */
    /* Called once, when nothing of the staged bytes is used any more: at once when all was copied,
     * else at unload, and on failure before load returns. */
    void (*release_bytes)(void *context, c7x_dsp_addr address);
    void *release_context;
    char **out_missing; /* as in struct c7x_loader_request, both */
    const _Atomic bool *cancelled;
};

/*
 * Loads a module and binds it to its kind. On failure nothing stays allocated and the staged bytes
 * are unchanged. Statuses: C7X_LOAD malformed or unfit file, C7X_SYMBOL missing import or entry,
 * C7X_WEIGHTS, C7X_NOMEM, C7X_CANCELLED, C7X_BUSY when the table is full. Handles are index +
 * generation, never 0.
 */
enum c7x_status c7x_module_load(struct c7x_module_table *table, const struct c7x_module_load *load,
                                uint32_t *out_handle, struct c7x_module_io *out_io,
                                struct c7x_error *error) C7X_NODISCARD;

/*
 * Calls the module's entry as its kind does. The module must belong to the session or to the
 * device. Statuses: C7X_HANDLE, C7X_FAULTED, and what the kind answers. Calls of one module never
 * overlap; one of another may come in between, where interrupts are on.
 */
enum c7x_status c7x_module_infer(struct c7x_module_table *table, uint32_t session, uint32_t handle,
                                 const struct c7x_infer *infer, struct c7x_infer_result *out_result,
                                 struct c7x_error *error) C7X_NODISCARD;

/* Unloads in the order of the spec (kind's hooks first, segments last). C7X_HANDLE: says whether it
 * was ever loaded. */
enum c7x_status c7x_module_unload(struct c7x_module_table *table, uint32_t session, uint32_t handle,
                                  struct c7x_error *error) C7X_NODISCARD;
/* Unloads all modules of a session that has ended. */
void c7x_module_unload_session(struct c7x_module_table *table, uint32_t session);

/*
 * The staged bytes of a session that were in this range are being overwritten: its modules that use
 * them in place answer C7X_HANDLE from now on, until they are unloaded.
 */
void c7x_module_overwrite(struct c7x_module_table *table, uint32_t session, c7x_dsp_addr address,
                          uint64_t size);
/* A call of the module is to come. Returns the priority with which it was loaded; 0: no such module
 * for this session. Any task. */
uint32_t c7x_module_expect(struct c7x_module_table *table, uint32_t session, uint32_t handle);
/* C7X_HANDLE: the module does not belong to the session itself. Any task. */
enum c7x_status c7x_module_check_owner(struct c7x_module_table *table, uint32_t session,
                                       uint32_t handle, struct c7x_error *error) C7X_NODISCARD;

/* What a list says about a module. */
struct c7x_module_entry {
    uint32_t handle;
    uint32_t session;
    uint32_t owner; /* of its blocks in the heap */
    bool is_faulted;
    uint32_t priority;
    uint32_t activations;
    uint64_t longest_section; /* critical, in c7x_os_cycles() */
    uint64_t heap_bytes;
    uint64_t staged_bytes; /* used in place; 0: all was copied */
    char name[C7X_MODULE_NAME_BYTES];
};

/* The heap owner of a module that uses something of the range where it was staged; 0: none does.
 * Any task. */
uint32_t c7x_module_owner_at(struct c7x_module_table *table, c7x_dsp_addr address, uint64_t size);
/* Copies up to `capacity` modules from number `first` on and returns how many; *out_total is how
 * many there are. What one call copies is of one moment. Any task. */
uint32_t c7x_module_list(struct c7x_module_table *table, uint32_t first,
                         struct c7x_module_entry *out, uint32_t capacity, uint32_t *out_total);
/* A piece of the names of a module's operators, in the order of calls. */
struct c7x_module_operators {
    uint32_t first; /* number of the first one wanted */
    char *names;    /* where they go, each NUL-terminated; one that alone does not fit is cut */
    size_t size;    /* of it, more than 0 */
    uint32_t count; /* out: names, and their bytes */
    size_t used;
    uint32_t total; /* out: operators of the module */
};

/* Fills in what goes out, for a module of any session. C7X_HANDLE. Any task. */
enum c7x_status c7x_module_list_operators(struct c7x_module_table *table, uint32_t handle,
                                          struct c7x_module_operators *inout_operators,
                                          struct c7x_error *error) C7X_NODISCARD;
/* Modules of one session, or of the device. Any task. */
uint32_t c7x_module_session_count(struct c7x_module_table *table, uint32_t session);
/* Any task. */
uint32_t c7x_module_count(const struct c7x_module_table *table);

/*
 * Whether the address lies in a loaded module; if so writes "module 7: name+0x12" into `text`.
 * Takes no lock and allocates nothing, so a fault handler of the job that runs may call it.
 */
bool c7x_module_describe(const struct c7x_module_table *table, const void *address, char *text,
                         size_t text_size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/module/module.h"

#include "base/checked.h"
#include "base/log.h"
#include "base/trace.h"
#include "firmware/loader/loader.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct c7x_module {
    /* What each call looks at; then it goes on in the instance. */
    uint32_t handle; /* 0: nothing is loaded in this slot */
    uint32_t session;
    uint32_t priority;
    bool is_faulted;     /* a call of it ended in the middle of its code */
    bool is_overwritten; /* what it uses in place is gone */
    void *instance;      /* the kind's; NULL while not bound */

    bool holds_bytes; /* release_bytes has yet to be called */
    uint32_t owner;   /* of all blocks that it holds */
    struct c7x_program *program;
    c7x_dsp_addr address; /* where it was staged, and how many bytes */
    uint64_t staged_size;
    void (*release_bytes)(void *context, c7x_dsp_addr address);
    void *release_context;
};

struct c7x_module_table {
    struct c7x_module_config config;
    _Atomic uint32_t count;
    uint32_t next_index;
    uint32_t generations[C7X_MODULE_COUNT_MAX]; /* how many modules the slot has held */
    /* Slots change under the lock, in the core's one job at a time, so that the job itself may look
     * without it. */
    struct c7x_os_mutex lock;
    struct c7x_module slots[C7X_MODULE_COUNT_MAX];
};

enum c7x_status c7x_module_table_create(const struct c7x_module_config *config,
                                        struct c7x_module_table **out_table)
{
    struct c7x_module_table *table =
        c7x_heap_alloc(config->heap, C7X_HEAP_SERVICE, sizeof(*table), 0);
    if (table == NULL)
        return C7X_NOMEM;
    memset(table, 0, sizeof(*table));
    table->config = *config;
    if (c7x_os_mutex_init(&table->lock) != C7X_OK) {
        c7x_heap_free(config->heap, table);
        return C7X_GENERIC;
    }
    atomic_init(&table->count, 0);
    *out_table = table;
    return C7X_OK;
}

/* ---- Handles: generation * slots + index + 1, so that they count up from 1 as in version 3.0 ----
 */

static uint32_t index_of(uint32_t handle)
{
    return (handle - 1) % C7X_MODULE_COUNT_MAX;
}

static uint32_t generation_of(uint32_t handle)
{
    return (handle - 1) / C7X_MODULE_COUNT_MAX;
}

/* Slots are taken in turn, so that a handle is not used again soon. A load that fails takes none.
 */
static bool find_slot(const struct c7x_module_table *table, uint32_t *out_handle)
{
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        uint32_t index = (table->next_index + i) % C7X_MODULE_COUNT_MAX;
        if (table->slots[index].handle != 0)
            continue;
        *out_handle = table->generations[index] * C7X_MODULE_COUNT_MAX + index + 1;
        return true;
    }
    return false;
}

static enum c7x_status refuse_handle(const struct c7x_module_table *table, uint32_t handle,
                                     struct c7x_error *error)
{
    bool was_loaded = handle != 0 && generation_of(handle) < table->generations[index_of(handle)];
    return c7x_error_set(error, C7X_HANDLE, "module", "no module with handle %" PRIu32 "%s", handle,
                         was_loaded ? " (it was unloaded)" : "");
}

/* NULL: no such module, see refuse_handle(). To another session it does not exist. */
static struct c7x_module *find_module(struct c7x_module_table *table, uint32_t session,
                                      uint32_t handle)
{
    struct c7x_module *module = &table->slots[index_of(handle)];
    bool is_it = handle != 0 && module->handle == handle &&
                 (module->session == C7X_MODULE_SESSION_DEVICE || module->session == session);
    return is_it ? module : NULL;
}

/* ---- Load ---- */

static void release_bytes(struct c7x_module *module)
{
    if (module->holds_bytes && module->release_bytes != NULL)
        module->release_bytes(module->release_context, module->address);
    module->holds_bytes = false;
}

/* Takes back all that the module holds, however far its load came. */
static void destroy(const struct c7x_module_table *table, struct c7x_module *module)
{
    const struct c7x_module_kind_ops *kind = table->config.kind;
    const struct c7x_trace_origin origin = {.module = module->handle};
    struct c7x_heap *heap = table->config.heap;
    bool abandon = module->is_faulted;
    uint32_t left;
    if (module->instance != NULL) {
        kind->unbind(module->instance, &origin);
        abandon = abandon || kind->is_faulted(module->instance); /* by its clean-up */
    }
    c7x_trace_event(C7X_EVENT_UNLOAD, &origin, C7X_UNLOAD_SEGMENTS);
    c7x_loader_unload(module->program, abandon);
    if (module->instance != NULL)
        kind->release(module->instance, &origin);
    release_bytes(module);
    left = c7x_heap_free_owner(heap, module->owner);
    if (left != 0)
        c7x_log("module", "module %" PRIu32 " left %" PRIu32 " blocks of memory behind; freed",
                module->handle, left);
}

/* A file for another device stays where that device would have it, since it will not run here. */
static enum c7x_status open_program(struct c7x_loader_request *request,
                                    struct c7x_program **out_program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_open(request, out_program, error));
    if (!request->copy_read_only || c7x_loader_is_native(*out_program))
        return C7X_OK;
    c7x_loader_unload(*out_program, true);
    *out_program = NULL;
    request->copy_read_only = false;
    return c7x_loader_open(request, out_program, error);
}

static enum c7x_status load_and_bind(const struct c7x_module_table *table,
                                     const struct c7x_module_load *load, bool copy_read_only,
                                     struct c7x_module *module, struct c7x_module_io *out_io,
                                     struct c7x_error *error)
{
    struct c7x_loader_request request = {
        .bytes = load->bytes,
        .size = load->size,
        .address = load->address,
        .copy_read_only = copy_read_only,
        .memory = table->config.memory,
        .heap = table->config.heap,
        .owner = module->owner,
        .imports = table->config.exports,
        .out_missing = load->out_missing,
        .cancelled = load->cancelled,
    };
    const struct c7x_module_kind_ops *kind = table->config.kind;
    const struct c7x_symbol_source *symbols;
    C7X_RETURN_IF_ERROR(open_program(&request, &module->program, error));
    symbols = c7x_loader_symbols(module->program);
    C7X_RETURN_IF_ERROR(kind->check(symbols, c7x_loader_is_native(module->program), error));
    C7X_RETURN_IF_ERROR(c7x_loader_link(module->program, error));
    C7X_RETURN_IF_ERROR(c7x_loader_start(module->program, error));
    return kind->bind(symbols, module->owner, &module->instance, out_io, error);
}

static enum c7x_status load_program(const struct c7x_module_table *table,
                                    const struct c7x_module_load *load, struct c7x_module *module,
                                    struct c7x_module_io *out_io, struct c7x_error *error)
{
    enum c7x_status status =
        load_and_bind(table, load, load->copy_read_only, module, out_io, error);
    if (status == C7X_NOMEM && load->copy_read_only && load->in_place_if_full) {
        c7x_loader_unload(module->program, false);
        module->program = NULL;
        status = load_and_bind(table, load, false, module, out_io, error);
    }
    if (status != C7X_OK)
        return status;
    if (!c7x_loader_uses_staged_bytes(module->program))
        release_bytes(module);
    return C7X_OK;
}

static enum c7x_status refuse_full(const struct c7x_module_load *load, struct c7x_error *error)
{
    if (load->release_bytes != NULL)
        load->release_bytes(load->release_context, load->address);
    return c7x_error_set(error, C7X_BUSY, "module", "%u modules are loaded already",
                         C7X_MODULE_COUNT_MAX);
}

static void enter(struct c7x_module_table *table, const struct c7x_module *module)
{
    c7x_os_mutex_lock(&table->lock);
    table->slots[index_of(module->handle)] = *module;
    table->next_index = index_of(module->handle) + 1;
    c7x_os_mutex_unlock(&table->lock);
    (void)atomic_fetch_add(&table->count, 1);
}

enum c7x_status c7x_module_load(struct c7x_module_table *table, const struct c7x_module_load *load,
                                uint32_t *out_handle, struct c7x_module_io *out_io,
                                struct c7x_error *error)
{
    struct c7x_module_io io = {0};
    uint32_t handle;
    if (!find_slot(table, &handle))
        return refuse_full(load, error);
    struct c7x_module module = {
        .handle = handle,
        .session = load->session,
        .priority = load->priority,
        .owner = c7x_heap_owner_new(table->config.heap),
        .holds_bytes = true,
        .address = load->address,
        .staged_size = load->size,
        .release_bytes = load->release_bytes,
        .release_context = load->release_context,
    };
    enum c7x_status status = load_program(table, load, &module, &io, error);
    if (status != C7X_OK) {
        destroy(table, &module);
        return status;
    }
    enter(table, &module);
    *out_handle = handle;
    *out_io = io;
    return C7X_OK;
}

/* ---- Infer ---- */

/* Module and function + offset, for a fault report. */
static void append_place(const struct c7x_module *module, const void *code, struct c7x_error *error)
{
    char place[128];
    c7x_error_append(error, "; module %" PRIu32, module->handle);
    if (code != NULL && c7x_loader_describe(module->program, code, place, sizeof(place)))
        c7x_error_append(error, ", %s", place);
    else if (code != NULL)
        c7x_error_append(error, ", in code of the firmware that it called");
}

enum c7x_status c7x_module_infer(struct c7x_module_table *table, uint32_t session, uint32_t handle,
                                 const struct c7x_infer *infer, struct c7x_infer_result *out_result,
                                 struct c7x_error *error)
{
    struct c7x_module *module = NULL;
    enum c7x_status status;
    c7x_trace(C7X_STATION_MODULE, &infer->origin);
    module = find_module(table, session, handle);
    if (module == NULL)
        return refuse_handle(table, handle, error);
    if (module->is_faulted)
        return c7x_error_set(error, C7X_FAULTED, "module",
                             "an earlier call of module %" PRIu32
                             " was ended before it returned; unload it and load it again",
                             handle);
    if (module->is_overwritten)
        return c7x_error_set(error, C7X_HANDLE, "module",
                             "the weights of module %" PRIu32
                             " were overwritten where they were staged, by a later load",
                             handle);
    status = table->config.kind->infer(module->instance, infer, out_result, error);
    if (!table->config.kind->is_faulted(module->instance))
        return status;
    c7x_os_mutex_lock(&table->lock);
    module->is_faulted = true;
    c7x_os_mutex_unlock(&table->lock);
    append_place(module, out_result->fault_code, error);
    return status;
}

/* ---- Unload ---- */

static void unload(struct c7x_module_table *table, uint32_t index)
{
    struct c7x_module module = table->slots[index];
    c7x_os_mutex_lock(&table->lock);
    table->slots[index] = (struct c7x_module){0};
    table->generations[index]++;
    c7x_os_mutex_unlock(&table->lock);
    (void)atomic_fetch_sub(&table->count, 1);
    destroy(table, &module);
}

enum c7x_status c7x_module_unload(struct c7x_module_table *table, uint32_t session, uint32_t handle,
                                  struct c7x_error *error)
{
    if (find_module(table, session, handle) == NULL)
        return refuse_handle(table, handle, error);
    unload(table, index_of(handle));
    return C7X_OK;
}

void c7x_module_unload_session(struct c7x_module_table *table, uint32_t session)
{
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        if (table->slots[i].handle != 0 && table->slots[i].session == session)
            unload(table, i);
    }
}

void c7x_module_table_destroy(struct c7x_module_table *table)
{
    if (table == NULL)
        return;
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        if (table->slots[i].handle != 0)
            unload(table, i);
    }
    c7x_os_mutex_deinit(&table->lock);
    c7x_heap_free(table->config.heap, table);
}

void c7x_module_overwrite(struct c7x_module_table *table, uint32_t session, c7x_dsp_addr address,
                          uint64_t size)
{
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        struct c7x_module *module = &table->slots[i];
        if (module->handle != 0 && module->session == session && module->holds_bytes &&
            c7x_ranges_overlap(module->address, module->staged_size, address, size))
            module->is_overwritten = true;
    }
}

/* ---- Lists ---- */

uint32_t c7x_module_owner_at(struct c7x_module_table *table, c7x_dsp_addr address, uint64_t size)
{
    uint32_t owner = 0;
    c7x_os_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX && owner == 0; i++) {
        const struct c7x_module *module = &table->slots[i];
        if (module->handle != 0 && module->holds_bytes &&
            c7x_ranges_overlap(module->address, module->staged_size, address, size))
            owner = module->owner;
    }
    c7x_os_mutex_unlock(&table->lock);
    return owner;
}

uint32_t c7x_module_expect(struct c7x_module_table *table, uint32_t session, uint32_t handle)
{
    uint32_t priority = 0;
    c7x_os_mutex_lock(&table->lock);
    const struct c7x_module *module = find_module(table, session, handle);
    if (module != NULL) {
        priority = module->priority;
        table->config.kind->expect(module->instance);
    }
    c7x_os_mutex_unlock(&table->lock);
    return priority;
}

enum c7x_status c7x_module_check_owner(struct c7x_module_table *table, uint32_t session,
                                       uint32_t handle, struct c7x_error *error)
{
    enum c7x_status status = C7X_OK;
    c7x_os_mutex_lock(&table->lock);
    const struct c7x_module *module = find_module(table, session, handle);
    if (module == NULL)
        status = refuse_handle(table, handle, error);
    else if (module->session != session)
        status = c7x_error_set(error, C7X_HANDLE, "module",
                               "module %" PRIu32 " belongs to the device", handle);
    c7x_os_mutex_unlock(&table->lock);
    return status;
}

/* Call with the table locked. */
static void describe_module(const struct c7x_module_table *table, const struct c7x_module *module,
                            struct c7x_module_entry *out)
{
    *out = (struct c7x_module_entry){
        .handle = module->handle,
        .session = module->session,
        .owner = module->owner,
        .is_faulted = module->is_faulted,
        .priority = module->priority,
        .activations = table->config.kind->activations(module->instance),
        .longest_section = table->config.kind->longest_section(module->instance),
        .heap_bytes = c7x_heap_owner_bytes(table->config.heap, module->owner),
        .staged_bytes = module->holds_bytes ? module->staged_size : 0,
    };
    (void)snprintf(out->name, sizeof(out->name), "%s", table->config.kind->name(module->instance));
}

uint32_t c7x_module_list(struct c7x_module_table *table, uint32_t first,
                         struct c7x_module_entry *out, uint32_t capacity, uint32_t *out_total)
{
    uint32_t total = 0;
    uint32_t count = 0;
    c7x_os_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        if (table->slots[i].handle == 0)
            continue;
        if (total >= first && count < capacity)
            describe_module(table, &table->slots[i], &out[count++]);
        total++;
    }
    c7x_os_mutex_unlock(&table->lock);
    *out_total = total;
    return count;
}

/* As far as there is room; the first one of a piece is cut to it. */
static void append_operator(void *context, const char *name, size_t length)
{
    struct c7x_module_operators *list = context;
    size_t room = list->size - list->used;
    uint32_t number = list->total++;
    if (number < list->first || number != list->first + list->count ||
        (length >= room && list->count > 0))
        return;
    if (length >= room)
        length = room - 1;
    memcpy(list->names + list->used, name, length);
    list->names[list->used + length] = '\0';
    list->used += length + 1;
    list->count++;
}

enum c7x_status c7x_module_list_operators(struct c7x_module_table *table, uint32_t handle,
                                          struct c7x_module_operators *inout_operators,
                                          struct c7x_error *error)
{
    enum c7x_status status = C7X_OK;
    inout_operators->count = inout_operators->total = 0;
    inout_operators->used = 0;
    c7x_os_mutex_lock(&table->lock);
    const struct c7x_module *module = &table->slots[index_of(handle)];
    if (handle != 0 && module->handle == handle)
        table->config.kind->visit_operators(module->instance, append_operator, inout_operators);
    else
        status = refuse_handle(table, handle, error);
    c7x_os_mutex_unlock(&table->lock);
    return status;
}

uint32_t c7x_module_session_count(struct c7x_module_table *table, uint32_t session)
{
    uint32_t count = 0;
    c7x_os_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++)
        count += table->slots[i].handle != 0 && table->slots[i].session == session;
    c7x_os_mutex_unlock(&table->lock);
    return count;
}

uint32_t c7x_module_count(const struct c7x_module_table *table)
{
    return atomic_load(&table->count);
}

bool c7x_module_describe(const struct c7x_module_table *table, const void *address, char *text,
                         size_t text_size)
{
    char place[128];
    for (uint32_t i = 0; i < C7X_MODULE_COUNT_MAX; i++) {
        const struct c7x_module *module = &table->slots[i];
        if (module->handle == 0 ||
            !c7x_loader_describe(module->program, address, place, sizeof(place)))
            continue;
        (void)snprintf(text, text_size, "module %" PRIu32 ": %s", module->handle, place);
        return true;
    }
    return false;
}

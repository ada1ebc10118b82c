/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/loader/loader.h"

#include "firmware/loader/loader_impl.h"

#include "os/os.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef void (*hook_fn)(void);

static void call_address(void *address)
{
    hook_fn hook;
    memcpy(&hook, address, sizeof(hook));
    hook();
}

static bool is_code(const struct c7x_program *program, uint64_t address)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        if (address - segment->address < segment->memsz)
            return !segment->in_place && (segment->flags & C7X_ELF_PF_X) != 0;
    }
    return false;
}

/* 0 and -1 are the gABI's empty entries. */
static bool is_empty(uint64_t address)
{
    return address == 0 || address == UINT64_MAX;
}

/* The run address of a hook must lie in executable memory. */
static enum c7x_status check_hook(struct c7x_program *program, uint64_t address, const char *name,
                                  struct c7x_error *error)
{
    if (is_empty(address) || is_code(program, address))
        return C7X_OK;
    return c7x_error_set(error, C7X_LOAD, "loader", "%s: 0x%" PRIx64 " is not in the module's code",
                         name, address - program->slide);
}

/* Checked again, since the module may have written to its arrays. */
static enum c7x_status run_hook(struct c7x_program *program, uint64_t address, const char *name,
                                struct c7x_error *error)
{
    struct c7x_os_fault fault;
    char place[128];
    C7X_RETURN_IF_ERROR(check_hook(program, address, name, error));
    if (is_empty(address) || c7x_os_try(call_address, &address, &fault))
        return C7X_OK;
    program->is_broken = true;
    if (fault.code == NULL || !c7x_loader_describe(program, fault.code, place, sizeof(place)))
        (void)snprintf(place, sizeof(place), "code that it called");
    return c7x_error_set(error, C7X_FAULT, "loader", "%s: %s in %s", name, fault.kind, place);
}

/* run_hook or check_hook. */
typedef enum c7x_status (*use_hook_fn)(struct c7x_program *program, uint64_t address,
                                       const char *name, struct c7x_error *error);

static enum c7x_status use_array_entry(struct c7x_program *program, use_hook_fn use,
                                       const struct c7x_program_range *array, uint64_t index,
                                       const char *name, struct c7x_error *error)
{
    uint64_t address;
    if (!c7x_program_read(program, array->vaddr + index * sizeof(address), sizeof(address),
                          &address))
        return C7X_OK;
    return use(program, address, name, error);
}

static enum c7x_status use_array(struct c7x_program *program, use_hook_fn use,
                                 const struct c7x_program_range *array, const char *name,
                                 struct c7x_error *error)
{
    for (uint64_t i = 0; i < array->size / sizeof(uint64_t); i++) {
        C7X_RETURN_IF_ERROR(use_array_entry(program, use, array, i, name, error));
        if (i % C7X_LOADER_STEP == 0)
            c7x_os_interrupt_point();
    }
    return C7X_OK;
}

static enum c7x_status use_function(struct c7x_program *program, use_hook_fn use, uint64_t vaddr,
                                    const char *name, struct c7x_error *error)
{
    return vaddr == 0 ? C7X_OK : use(program, c7x_program_address(program, vaddr, 0), name, error);
}

/* In the gABI's order. */
static enum c7x_status use_constructors(struct c7x_program *program, use_hook_fn use,
                                        struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(
        use_array(program, use, &program->preinit_array, "DT_PREINIT_ARRAY", error));
    C7X_RETURN_IF_ERROR(use_function(program, use, program->init, "DT_INIT", error));
    return use_array(program, use, &program->init_array, "DT_INIT_ARRAY", error);
}

static enum c7x_status check_hooks(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(use_constructors(program, check_hook, error));
    C7X_RETURN_IF_ERROR(
        use_array(program, check_hook, &program->fini_array, "DT_FINI_ARRAY", error));
    return use_function(program, check_hook, program->fini, "DT_FINI", error);
}

/* One that fails ends the load, and then no destructor runs. */
static enum c7x_status run_constructors(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(use_constructors(program, run_hook, error));
    program->is_started = true;
    return C7X_OK;
}

/* Nobody can be told of a failure here, and a bad entry was not called. */
static void run_destructors(struct c7x_program *program)
{
    for (uint64_t i = program->fini_array.size / sizeof(uint64_t); i > 0 && !program->is_broken;
         i--)
        (void)use_array_entry(program, run_hook, &program->fini_array, i - 1, "DT_FINI_ARRAY",
                              NULL);
    if (!program->is_broken)
        (void)use_function(program, run_hook, program->fini, "DT_FINI", NULL);
}

enum c7x_status c7x_loader_step(const struct c7x_program *program, struct c7x_error *error)
{
    const _Atomic bool *cancelled = program->request.cancelled;
    c7x_os_interrupt_point();
    if (cancelled != NULL && atomic_load_explicit(cancelled, memory_order_relaxed))
        return c7x_error_set(error, C7X_CANCELLED, "loader", "cancelled in the middle of the load");
    return C7X_OK;
}

enum c7x_status c7x_loader_create_program(const struct c7x_loader_request *request,
                                          struct c7x_program **out_program, struct c7x_error *error)
{
    struct c7x_program *program =
        c7x_heap_alloc(request->heap, request->owner, sizeof(*program), 0);
    if (program == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(request->heap, sizeof(*program)),
                                 "loader state");
    memset(program, 0, sizeof(*program));
    program->symbols = c7x_loader_symbol_source;
    program->request = *request;
    program->image = (struct c7x_image){request->bytes, request->size};
    *out_program = program;
    return C7X_OK;
}

static enum c7x_status lay_out(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(program->layout->place(program, error));
    return c7x_loader_read_dynamic(program, error);
}

/* Gives the memory back, so that another layout can be tried. */
static void undo_layout(struct c7x_program *program)
{
    program->layout->release(program);
    for (unsigned i = 0; i < program->segment_count; i++)
        program->segments[i].in_place = false;
}

static enum c7x_status open_program(struct c7x_program *program, struct c7x_error *error)
{
    bool is_relocated;
    C7X_RETURN_IF_ERROR(c7x_loader_verify(program, error));
    C7X_RETURN_IF_ERROR(lay_out(program, error));
    C7X_RETURN_IF_ERROR(c7x_loader_mark_relocated(program, &is_relocated, error));
    if (!is_relocated)
        return C7X_OK;
    undo_layout(program);
    return lay_out(program, error);
}

enum c7x_status c7x_loader_open(const struct c7x_loader_request *request,
                                struct c7x_program **out_program, struct c7x_error *error)
{
    struct c7x_program *program = NULL;
    enum c7x_status status;
    C7X_RETURN_IF_ERROR(c7x_loader_create_program(request, &program, error));
    status = open_program(program, error);
    if (status != C7X_OK) {
        c7x_loader_unload(program, true);
        return status;
    }
    *out_program = program;
    return C7X_OK;
}

enum c7x_status c7x_loader_link(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_check_imports(program, error));
    C7X_RETURN_IF_ERROR(c7x_loader_open_library(program, error));
    C7X_RETURN_IF_ERROR(c7x_loader_relocate(program, error));
    c7x_loader_close_library(program);
    return check_hooks(program, error);
}

enum c7x_status c7x_loader_start(struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_verify_machine(program, error));
    C7X_RETURN_IF_ERROR(program->layout->protect(program, error));
    program->image = (struct c7x_image){NULL, 0};
    return run_constructors(program, error);
}

void c7x_loader_unload(struct c7x_program *program, bool abandon)
{
    if (program == NULL)
        return;
    if (program->is_started && !abandon)
        run_destructors(program);
    if (program->layout != NULL)
        program->layout->release(program);
    c7x_heap_free(program->request.heap, program);
}

const struct c7x_symbol_source *c7x_loader_symbols(const struct c7x_program *program)
{
    return &program->symbols;
}

bool c7x_loader_uses_staged_bytes(const struct c7x_program *program)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        if (program->segments[i].in_place)
            return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/loader/loader.h"

#include "firmware/loader/loader_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef void (*hook_fn)(void);

static void call_address(uint64_t address)
{
    hook_fn hook;
    memcpy(&hook, &address, sizeof(hook));
    hook();
}

/* Runs a hook whose run address must lie in executable memory; 0 and -1 are the gABI's empty
 * entries. */
static enum c7x_status run_hook(const struct c7x_program *program, uint64_t address,
                                const char *name, struct c7x_error *error)
{
    uint64_t link_address = address - (uint64_t)(uintptr_t)program->block + program->low;
    const struct c7x_program_segment *segment = c7x_program_segment_of(program, link_address, 1);
    if (address == 0 || address == UINT64_MAX)
        return C7X_OK;
    if (segment == NULL || segment->in_place || (segment->flags & C7X_ELF_PF_X) == 0)
        return c7x_error_set(error, C7X_LOAD, "loader",
                             "%s: 0x%" PRIx64 " is not in the module's code", name, link_address);
    call_address(address);
    return C7X_OK;
}

static enum c7x_status run_array_entry(const struct c7x_program *program,
                                       const struct c7x_program_range *array, uint64_t index,
                                       const char *name, struct c7x_error *error)
{
    uint64_t address;
    if (!c7x_program_read(program, array->vaddr + index * sizeof(address), sizeof(address),
                          &address))
        return C7X_OK;
    return run_hook(program, address, name, error);
}

static enum c7x_status run_constructors(struct c7x_program *program, struct c7x_error *error)
{
    uint64_t count = program->init_array.size / sizeof(uint64_t);
    program->is_initialised = true;
    if (program->init != 0)
        C7X_RETURN_IF_ERROR(
            run_hook(program, c7x_program_address(program, program->init), "DT_INIT", error));
    for (uint64_t i = 0; i < count; i++)
        C7X_RETURN_IF_ERROR(
            run_array_entry(program, &program->init_array, i, "DT_INIT_ARRAY", error));
    return C7X_OK;
}

/* Nobody can be told of a failure here, and a bad entry was not called. */
static void run_destructors(struct c7x_program *program)
{
    for (uint64_t i = program->fini_array.size / sizeof(uint64_t); i > 0; i--)
        (void)run_array_entry(program, &program->fini_array, i - 1, "DT_FINI_ARRAY", NULL);
    if (program->fini != 0)
        (void)run_hook(program, c7x_program_address(program, program->fini), "DT_FINI", NULL);
}

static enum c7x_status create_program(const struct c7x_loader_request *request,
                                      struct c7x_program **out_program, struct c7x_error *error)
{
    struct c7x_program *program =
        c7x_heap_alloc(request->heap, request->owner, sizeof(*program), 0);
    if (program == NULL)
        return c7x_error_set_oom(error, "loader", c7x_heap_oom(request->heap, sizeof(*program)),
                                 "loader state");
    memset(program, 0, sizeof(*program));
    program->symbols = c7x_loader_symbol_source;
    program->heap = request->heap;
    program->owner = request->owner;
    *out_program = program;
    return C7X_OK;
}

static enum c7x_status lay_out(const struct c7x_image *image, bool copy_read_only,
                               struct c7x_program *program, struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_layout(image, copy_read_only, program, error));
    return c7x_loader_read_dynamic(program, error);
}

/* Gives the block back, so that another layout can be tried. */
static void undo_layout(struct c7x_program *program)
{
    c7x_heap_free(program->heap, program->block);
    program->block = NULL;
    for (unsigned i = 0; i < program->segment_count; i++)
        program->segments[i].in_place = false;
}

static enum c7x_status load_into(struct c7x_program *program,
                                 const struct c7x_loader_request *request, struct c7x_error *error)
{
    struct c7x_image image = {request->bytes, request->size};
    C7X_RETURN_IF_ERROR(c7x_loader_verify(&image, program, error));
    C7X_RETURN_IF_ERROR(lay_out(&image, request->copy_read_only, program, error));
    if (c7x_loader_relocates_in_place(program)) {
        undo_layout(program);
        C7X_RETURN_IF_ERROR(lay_out(&image, true, program, error));
    }
    C7X_RETURN_IF_ERROR(c7x_loader_check_imports(program, request->imports, error));
    C7X_RETURN_IF_ERROR(c7x_loader_relocate(program, request->imports, error));
    C7X_RETURN_IF_ERROR(c7x_loader_protect(program, error));
    return run_constructors(program, error);
}

enum c7x_status c7x_loader_load(const struct c7x_loader_request *request,
                                struct c7x_program **out_program, struct c7x_error *error)
{
    struct c7x_program *program = NULL;
    enum c7x_status status;
    C7X_RETURN_IF_ERROR(create_program(request, &program, error));
    status = load_into(program, request, error);
    if (status != C7X_OK) {
        c7x_loader_unload(program, true);
        return status;
    }
    *out_program = program;
    return C7X_OK;
}

void c7x_loader_unload(struct c7x_program *program, bool abandon)
{
    if (program == NULL)
        return;
    if (program->is_initialised && !abandon)
        run_destructors(program);
    c7x_loader_unprotect(program);
    c7x_heap_free(program->heap, program->block);
    c7x_heap_free(program->heap, program);
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

/* The nearest symbol at or below the address, in the same segment. */
static const char *nearest_symbol(const struct c7x_program *program,
                                  const struct c7x_program_segment *segment, uint64_t vaddr,
                                  uint64_t *out_offset)
{
    const char *best = NULL;
    for (uint64_t i = 1; i < program->symbol_count; i++) {
        struct c7x_elf_symbol symbol;
        const char *name;
        if (c7x_loader_read_symbol(program, i, &symbol, NULL) != C7X_OK)
            break;
        if (symbol.section == C7X_ELF_SHN_UNDEF || symbol.value > vaddr ||
            symbol.value < segment->vaddr || (best != NULL && vaddr - symbol.value >= *out_offset))
            continue;
        name = c7x_program_symbol_name(program, &symbol);
        if (name == NULL || *name == '\0')
            continue;
        best = name;
        *out_offset = vaddr - symbol.value;
    }
    return best;
}

bool c7x_loader_describe(const struct c7x_program *program, const void *address, char *text,
                         size_t text_size)
{
    for (unsigned i = 0; i < program->segment_count; i++) {
        const struct c7x_program_segment *segment = &program->segments[i];
        uint64_t offset = (uintptr_t)address - (uintptr_t)segment->pointer;
        uint64_t symbol_offset = 0;
        const char *name;
        if (offset >= segment->memsz)
            continue;
        name = nearest_symbol(program, segment, segment->vaddr + offset, &symbol_offset);
        if (name != NULL)
            (void)snprintf(text, text_size, "%s+0x%" PRIx64, name, symbol_offset);
        else
            (void)snprintf(text, text_size, "segment %u+0x%" PRIx64, segment->index, offset);
        return true;
    }
    return false;
}

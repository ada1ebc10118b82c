/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The import library that TI's linker embeds into a module: section .dsp_syms_out, an ELF file with
 * a stub for each name that the module may import. The module's file lists it as needed, so it
 * stands before the module's own definitions: a name that it has is the firmware's, and one that it
 * lacks stays the module's own even if the firmware has come to export it. Its addresses mean
 * nothing.
 */
#include "firmware/loader/loader_impl.h"

#include <string.h>

#define SECTION ".dsp_syms_out"

static enum c7x_status read_library(struct c7x_program *library, const struct c7x_program *module,
                                    struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(c7x_loader_read_headers(library, error));
    library->segment_count = 0; /* none is loaded */
    if (library->arch != module->arch)
        return c7x_error_set(error, C7X_LOAD, "loader", "built for %s", library->arch->name);
    return c7x_loader_read_symbols(library, error);
}

/* What is no ELF file says nothing of names, and then the firmware's all come first. */
static bool is_elf(const struct c7x_image *image)
{
    char magic[4];
    return c7x_image_read(image, 0, sizeof(magic), magic, "", NULL) == C7X_OK &&
           memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

enum c7x_status c7x_loader_open_library(struct c7x_program *program, struct c7x_error *error)
{
    struct c7x_loader_request request = program->request;
    struct c7x_image image;
    enum c7x_status status;
    if (!program->needs_library || !c7x_program_find_section(program, SECTION, &image) ||
        !is_elf(&image))
        return C7X_OK;
    request.bytes = image.bytes;
    request.size = image.size;
    C7X_RETURN_IF_ERROR(c7x_loader_create_program(&request, &program->library, error));
    status = read_library(program->library, program, error);
    if (status == C7X_LOAD)
        c7x_error_append(error, " (of the import library in section %s)", SECTION);
    return status;
}

void c7x_loader_close_library(struct c7x_program *program)
{
    c7x_loader_unload(program->library, true);
    program->library = NULL;
}

bool c7x_program_is_pre_empted(const struct c7x_program *program, const char *name)
{
    struct c7x_elf_symbol symbol;
    return program->needs_library &&
           (program->library == NULL || c7x_program_find_indexed(program->library, name, &symbol));
}

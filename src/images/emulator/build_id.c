/* SPDX-License-Identifier: Apache-2.0 */
/* Which build of the program this is: the id that the linker leaves in a note (--build-id). */
#define _GNU_SOURCE
#include "build_id.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 8u /* of the id: enough to tell two builds apart */

struct program_version {
    char *text;
    size_t size;
};

static void add_id(struct program_version *version, const unsigned char *id, size_t size)
{
    size_t length = strlen(version->text);
    for (size_t i = 0; i < size && i < SHOWN_BYTES && version->size - length > 3; i++)
        length += (size_t)snprintf(version->text + length, version->size - length, "%s%02x",
                                   i == 0 ? " " : "", id[i]);
}

/* A note: its head, a name and its bytes, both padded to 4 (ELF gABI, "Note Section"). */
static void read_notes(struct program_version *version, const unsigned char *notes, size_t size)
{
    size_t at = 0;
    while (size - at >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) head;
        memcpy(&head, notes + at, sizeof head);
        size_t name = at + sizeof head;
        size_t bytes = name + (head.n_namesz + 3u) / 4u * 4u;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0)
            add_id(version, notes + bytes, head.n_descsz);
        at = bytes + (head.n_descsz + 3u) / 4u * 4u;
    }
}

/* The program itself comes first, and is all that is looked at. */
static int read_program(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_NOTE && header->p_align <= 4)
            read_notes(context,
                       (const unsigned char *)(uintptr_t)(info->dlpi_addr + header->p_vaddr),
                       header->p_memsz);
    }
    return 1;
}

void c7x_emulator_version(char *text, size_t size)
{
    struct program_version version = {text, size};
    snprintf(text, size, "%s", C7X_PROJECT_VERSION);
    (void)dl_iterate_phdr(read_program, &version);
}

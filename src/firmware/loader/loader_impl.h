/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef C7X_FIRMWARE_LOADER_LOADER_IMPL_H
#define C7X_FIRMWARE_LOADER_LOADER_IMPL_H

#include "firmware/loader/image.h"
#include "firmware/loader/loader.h"

/* p_flags bit of the segment that is used in place: C7X_PF_IN_PLACE of the module format. */
#define C7X_LOADER_PF_IN_PLACE 0x00100000u

struct c7x_program_segment {
    uint64_t vaddr; /* link address */
    uint64_t memsz;
    uint64_t filesz;
    uint64_t offset;
    uint64_t align;
    uint32_t flags;
    unsigned index; /* of its program header, for messages */
    bool in_place;
    uint8_t *pointer; /* where it lies; staged bytes when in_place, and then never written */
};

/* A range of link addresses. */
struct c7x_program_range {
    uint64_t vaddr;
    uint64_t size;
};

struct c7x_program {
    struct c7x_symbol_source symbols; /* first, so that the source is the program */
    struct c7x_heap *heap;
    uint32_t owner;

    struct c7x_program_segment segments[C7X_LOADER_SEGMENT_COUNT_MAX]; /* ascending */
    unsigned segment_count;
    struct c7x_program_range dynamic; /* PT_DYNAMIC */

    uint8_t *block; /* all segments but the one in place, at their link distances */
    uint64_t block_size;
    uint64_t low; /* link address of the block's first byte */
    bool is_protected;

    struct c7x_program_range strings;
    uint64_t symbol_table; /* link address */
    uint64_t symbol_count;
    uint64_t hash;                           /* link address, 0 for none */
    uint64_t gnu_hash;                       /* link address, 0 for none */
    struct c7x_program_range relocations[2]; /* DT_RELA, DT_JMPREL */
    uint64_t init;
    uint64_t fini;
    struct c7x_program_range init_array;
    struct c7x_program_range fini_array;
    bool is_initialised;
};

/* verify.c: reads and checks the headers; fills segments and dynamic. */
enum c7x_status c7x_loader_verify(const struct c7x_image *image, struct c7x_program *program,
                                  struct c7x_error *error) C7X_NODISCARD;

/* layout.c */
enum c7x_status c7x_loader_layout(const struct c7x_image *image, bool copy_read_only,
                                  struct c7x_program *program,
                                  struct c7x_error *error) C7X_NODISCARD;
/* The memory of a range that lies wholly in one copied segment, else NULL. */
uint8_t *c7x_program_pointer(const struct c7x_program *program, uint64_t vaddr, uint64_t size);
/* Copies such a range; false when it is not inside. */
bool c7x_program_read(const struct c7x_program *program, uint64_t vaddr, uint64_t size, void *out);
/* The segment that holds the range, or NULL. */
const struct c7x_program_segment *c7x_program_segment_of(const struct c7x_program *program,
                                                         uint64_t vaddr, uint64_t size);
/* The run address of a link address; the end of a segment belongs to it. */
uint64_t c7x_program_address(const struct c7x_program *program, uint64_t vaddr);

/* dynamic.c: reads and checks the dynamic table. */
enum c7x_status c7x_loader_read_dynamic(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;

/* symbols.c */
enum c7x_status c7x_loader_read_symbol(const struct c7x_program *program, uint64_t index,
                                       struct c7x_elf_symbol *out,
                                       struct c7x_error *error) C7X_NODISCARD;
/* NUL-terminated and inside the string table, or NULL. */
const char *c7x_program_symbol_name(const struct c7x_program *program,
                                    const struct c7x_elf_symbol *symbol);
/* Lists every strong import that `imports` lacks in one error. */
enum c7x_status c7x_loader_check_imports(const struct c7x_program *program,
                                         const struct c7x_symbol_source *imports,
                                         struct c7x_error *error) C7X_NODISCARD;
/* The source that c7x_loader_symbols() gives. */
extern const struct c7x_symbol_source c7x_loader_symbol_source;

/* relocate.c */
bool c7x_loader_relocates_in_place(const struct c7x_program *program);
enum c7x_status c7x_loader_relocate(struct c7x_program *program,
                                    const struct c7x_symbol_source *imports,
                                    struct c7x_error *error) C7X_NODISCARD;

/* protect.c */
enum c7x_status c7x_loader_protect(struct c7x_program *program,
                                   struct c7x_error *error) C7X_NODISCARD;
/* Makes all of the block writable again, before it goes back to the heap. */
void c7x_loader_unprotect(struct c7x_program *program);

#endif

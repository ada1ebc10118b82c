/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef C7X_FIRMWARE_LOADER_LOADER_IMPL_H
#define C7X_FIRMWARE_LOADER_LOADER_IMPL_H

#include "firmware/loader/arch/arch.h"
#include "firmware/loader/image.h"
#include "firmware/loader/loader.h"

/* p_flags bit of the segment that is used in place: C7X_PF_IN_PLACE of the module format. */
#define C7X_LOADER_PF_IN_PLACE 0x00100000u

/* The one library that a C7x file may need: it stands for the firmware's exports. */
#define C7X_LOADER_LIBRARY "dsp_syms.out"

/* Entries of a table between two steps of a load. */
#define C7X_LOADER_STEP 64u

/* With its NUL. A hostile file may have millions of symbols with one name. */
#define C7X_LOADER_NAME_MAX 4096u

/* Where the firmware of a device of another kind has its code: a check of a module for it takes all
 * exports to stand here. */
#define C7X_LOADER_FIRMWARE_TEXT 0xAD604000u

struct c7x_program_segment {
    uint64_t vaddr; /* link address */
    uint64_t memsz;
    uint64_t filesz;
    uint64_t offset;
    uint64_t align;
    uint32_t flags;
    unsigned index; /* of its program header, for messages */
    bool must_copy; /* something is to be written there */
    bool in_place;
    uint8_t *pointer; /* where it lies; staged bytes when in_place, and then never written */
    uint64_t address; /* the same, as the processor of the file sees it */
};

/* A range of link addresses. */
struct c7x_program_range {
    uint64_t vaddr;
    uint64_t size;
};

/* Bytes of a table. They may change at any time, so each entry is copied and the copy checked. */
struct c7x_program_table {
    const uint8_t *bytes;
    uint64_t size;
};

enum c7x_program_table_name {
    C7X_TABLE_STRINGS,
    C7X_TABLE_SYMBOLS,
    C7X_TABLE_HASH,     /* size 0: none */
    C7X_TABLE_GNU_HASH, /* size 0: none */
    C7X_TABLE_RELA,
    C7X_TABLE_JMPREL,
    C7X_TABLE_RELR, /* native files alone */
    C7X_TABLE_COUNT
};

/* How the files of one family are laid out: c7x_layout_native, c7x_layout_c7x. */
struct c7x_layout_ops {
    enum c7x_status (*verify_header)(const struct c7x_elf_header *header, struct c7x_error *error);
    /* Checks a segment that is about to be added. */
    enum c7x_status (*verify_segment)(const struct c7x_program *program,
                                      const struct c7x_elf_segment *segment, unsigned index,
                                      struct c7x_error *error);
    /* Gives every segment memory, contents and a run address. */
    enum c7x_status (*place)(struct c7x_program *program, struct c7x_error *error);
    /* Undoes it; legal at any time. */
    void (*release)(struct c7x_program *program);
    /* What a value of the dynamic table points at; NULL unless the range is inside. */
    const uint8_t *(*table)(const struct c7x_program *program, uint64_t value, uint64_t size);
    /* How many bytes a table there may have; 0 when there can be none. */
    uint64_t (*table_room)(const struct c7x_program *program, uint64_t value);
    /* Makes the tables that outlast the load independent of the staged bytes. */
    enum c7x_status (*keep_tables)(struct c7x_program *program, struct c7x_error *error);
    /* The definition of the name among the module's own symbols. */
    bool (*find)(const struct c7x_program *program, const char *name, struct c7x_elf_symbol *out);
    enum c7x_status (*protect)(struct c7x_program *program, struct c7x_error *error);
    bool tables_by_offset;        /* the dynamic table gives file offsets, not link addresses, and
                                   * the size of DT_RELA may count DT_JMPREL in */
    const char *const *libraries; /* that DT_NEEDED may name, since the firmware's exports stand for
                                   * them; NULL-terminated */
};

extern const struct c7x_layout_ops c7x_layout_native;
extern const struct c7x_layout_ops c7x_layout_c7x;

struct c7x_program {
    struct c7x_symbol_source symbols; /* first, so that the source is the program */
    struct c7x_loader_request request;
    struct c7x_image image; /* until the program is started */
    struct c7x_elf_header header;
    const struct c7x_arch *arch;
    const struct c7x_layout_ops *layout;

    struct c7x_program_segment segments[C7X_LOADER_SEGMENT_COUNT_MAX];
    unsigned segment_count;
    struct c7x_elf_segment dynamic; /* PT_DYNAMIC */
    uint64_t slide;                 /* run address - link address outside of all segments */

    /* native: all segments but the one in place, at their link distances */
    uint8_t *block;
    uint64_t block_size;
    uint64_t low; /* link address of the block's first byte */
    bool is_protected;

    /* C7x: what is kept of the file, blocks of the heap */
    uint8_t *kept_tables;
    uint32_t *index; /* of definitions by name: open addressing, 0 is free */
    unsigned index_bits;
    uint8_t *section_segments; /* which segment a section lies in; NULL when unknown */
    uint32_t section_count;
    struct c7x_program *library; /* until it is linked; NULL: none, or it says nothing */

    struct c7x_program_table tables[C7X_TABLE_COUNT];
    uint64_t symbol_count;
    uint64_t first_global; /* index of the first symbol that others may see */
    bool needs_library;    /* the import library is named as needed */
    uint64_t init;
    uint64_t fini;
    struct c7x_program_range preinit_array; /* of an executable alone */
    struct c7x_program_range init_array;
    struct c7x_program_range fini_array;
    bool is_started;
    bool is_broken; /* one of its hooks did not come to its end */
};

/* loader.c */
/* Between two parts of long work, about a hundred entries of a table: lets others have the core.
 * C7X_CANCELLED: nobody wants the load any more. */
enum c7x_status c7x_loader_step(const struct c7x_program *program,
                                struct c7x_error *error) C7X_NODISCARD;
/* An empty one, whose memory c7x_loader_unload() gives back. */
enum c7x_status c7x_loader_create_program(const struct c7x_loader_request *request,
                                          struct c7x_program **out_program,
                                          struct c7x_error *error) C7X_NODISCARD;

/* verify.c: reads and checks the headers; fills arch, layout, segments and dynamic. */
enum c7x_status c7x_loader_read_headers(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;
/* The same of a file that has something to load. */
enum c7x_status c7x_loader_verify(struct c7x_program *program,
                                  struct c7x_error *error) C7X_NODISCARD;
/* The last check, once all others are done. */
enum c7x_status c7x_loader_verify_machine(const struct c7x_program *program,
                                          struct c7x_error *error) C7X_NODISCARD;

/* layout.c: what both layouts need */
/* The memory of a range that lies wholly in one copied segment, else NULL. */
uint8_t *c7x_program_pointer(const struct c7x_program *program, uint64_t vaddr, uint64_t size);
/* Copies such a range; false when it is not inside. */
bool c7x_program_read(const struct c7x_program *program, uint64_t vaddr, uint64_t size, void *out);
/* The segment that holds the range, or NULL. */
const struct c7x_program_segment *c7x_program_segment_of(const struct c7x_program *program,
                                                         uint64_t vaddr, uint64_t size);
/* The segment of a link address that a symbol of the section has; the end of a segment belongs to
 * it. Section 0: none. */
const struct c7x_program_segment *c7x_program_segment_at(const struct c7x_program *program,
                                                         uint64_t vaddr, unsigned section);
/* The run address of such a link address. */
uint64_t c7x_program_address(const struct c7x_program *program, uint64_t vaddr, unsigned section);
/* Copies and zeroes a segment's contents to its pointer, `tail` bytes of zeros behind it too. */
enum c7x_status c7x_program_fill(const struct c7x_program *program,
                                 const struct c7x_program_segment *segment, uint64_t tail,
                                 struct c7x_error *error) C7X_NODISCARD;

/* sections.c */
enum c7x_status c7x_loader_map_sections(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;
/* Writes the name of the section that holds the link address, or "segment 1". */
void c7x_program_section_name(const struct c7x_program *program, uint64_t vaddr, char *text,
                              size_t text_size);

/* Where a section's bytes lie in the file; false when there is no section of that name. */
bool c7x_program_find_section(const struct c7x_program *program, const char *name,
                              struct c7x_image *out);

/* dynamic.c: reads and checks the dynamic table. */
enum c7x_status c7x_loader_read_dynamic(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;

/* What of it leads to symbols, alone. */
enum c7x_status c7x_loader_read_symbols(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;

/* library.c: the import library that a C7x module brings along */
enum c7x_status c7x_loader_open_library(struct c7x_program *program,
                                        struct c7x_error *error) C7X_NODISCARD;
/* Legal at any time. */
void c7x_loader_close_library(struct c7x_program *program);
/* Whether the firmware's export of the name comes before a definition of the module's own. */
bool c7x_program_is_pre_empted(const struct c7x_program *program, const char *name);

/* symbols.c */
/* Whether other files see the symbol, defined or not. */
bool c7x_program_is_global(const struct c7x_program *program, uint64_t index,
                           const struct c7x_elf_symbol *symbol);
enum c7x_status c7x_loader_read_symbol(const struct c7x_program *program, uint64_t index,
                                       struct c7x_elf_symbol *out,
                                       struct c7x_error *error) C7X_NODISCARD;
/* NUL-terminated, inside the string table and shorter than C7X_LOADER_NAME_MAX, or NULL. */
const char *c7x_program_symbol_name(const struct c7x_program *program,
                                    const struct c7x_elf_symbol *symbol);
const char *c7x_program_string(const struct c7x_program *program, uint64_t offset);
/* Whether symbol `index` is a definition that other code may use. */
bool c7x_program_definition(const struct c7x_program *program, uint64_t index,
                            struct c7x_elf_symbol *out);
/* Whether the symbol has exactly that name. */
bool c7x_program_is_named(const struct c7x_program *program, const struct c7x_elf_symbol *symbol,
                          const char *name);
/* Lists every strong import that the request's imports lack in one error. */
enum c7x_status c7x_loader_check_imports(const struct c7x_program *program,
                                         struct c7x_error *error) C7X_NODISCARD;
/* What the firmware exports by the name, as the processor of the file would see it; 0: nothing. */
uint64_t c7x_program_import(const struct c7x_program *program, const char *name);
/* The source that c7x_loader_symbols() gives. */
extern const struct c7x_symbol_source c7x_loader_symbol_source;

/* hash.c: symbols by name */
bool c7x_program_find_hashed(const struct c7x_program *program, const char *name,
                             struct c7x_elf_symbol *out);
bool c7x_program_find_indexed(const struct c7x_program *program, const char *name,
                              struct c7x_elf_symbol *out);
/* Builds the index that the second one needs. */
enum c7x_status c7x_loader_index_symbols(struct c7x_program *program,
                                         struct c7x_error *error) C7X_NODISCARD;

/* relocate.c */
/* Marks the segments in place that relocations write to; says whether there are any. */
enum c7x_status c7x_loader_mark_relocated(struct c7x_program *program, bool *out_found,
                                          struct c7x_error *error) C7X_NODISCARD;
enum c7x_status c7x_loader_relocate(struct c7x_program *program,
                                    struct c7x_error *error) C7X_NODISCARD;

/* protect.c: of a native program */
enum c7x_status c7x_loader_protect(struct c7x_program *program,
                                   struct c7x_error *error) C7X_NODISCARD;
/* Makes all of the block writable again, before it goes back to the heap. */
void c7x_loader_unprotect(struct c7x_program *program);

#endif

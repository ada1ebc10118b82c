/* SPDX-License-Identifier: Apache-2.0 */
/* Reads declarations from module files that are built here, whole, cut and damaged. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "c7x_compute_client.h"
#include "c7x_module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BASE = 0x1000, /* link address of the file's first byte */
    DYNAMIC_OFFSET = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr),
    DYNAMIC_COUNT = 5,
    HASH_OFFSET = DYNAMIC_OFFSET + DYNAMIC_COUNT * sizeof(Elf64_Dyn),
    SYMBOL_OFFSET = HASH_OFFSET + 32,
    STRING_OFFSET = SYMBOL_OFFSET + 2 * sizeof(Elf64_Sym),
    MANIFEST_OFFSET = STRING_OFFSET + 48,
    MANIFEST_ROOM = 512,
    FILE_SIZE = MANIFEST_OFFSET + MANIFEST_ROOM
};

struct image {
    uint8_t bytes[FILE_SIZE];
    uint32_t manifest_size;
};

static void put(struct image *image, size_t offset, const void *data, size_t size)
{
    assert_true(offset + size <= sizeof image->bytes);
    memcpy(image->bytes + offset, data, size);
}

static void put_headers(struct image *image)
{
    Elf64_Ehdr header = {.e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_phoff = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 2};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    const Elf64_Phdr segments[2] = {
        {.p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = FILE_SIZE, .p_memsz = FILE_SIZE},
        {.p_type = PT_DYNAMIC,
         .p_offset = DYNAMIC_OFFSET,
         .p_filesz = DYNAMIC_COUNT * sizeof(Elf64_Dyn)}};
    put(image, 0, &header, sizeof header);
    put(image, sizeof header, segments, sizeof segments);
}

static void put_symbols(struct image *image)
{
    static const char names[48] = "\0_binary_c7x_manifest_start";
    const Elf64_Dyn dynamic[DYNAMIC_COUNT] = {
        {.d_tag = DT_HASH, .d_un.d_ptr = BASE + HASH_OFFSET},
        {.d_tag = DT_SYMTAB, .d_un.d_ptr = BASE + SYMBOL_OFFSET},
        {.d_tag = DT_STRTAB, .d_un.d_ptr = BASE + STRING_OFFSET},
        {.d_tag = DT_STRSZ, .d_un.d_val = sizeof names},
        {.d_tag = DT_NULL}};
    const uint32_t hash[2] = {1, 2};
    const Elf64_Sym symbols[2] = {
        {0}, {.st_name = 1, .st_shndx = 1, .st_value = BASE + MANIFEST_OFFSET}};
    put(image, DYNAMIC_OFFSET, dynamic, sizeof dynamic);
    put(image, HASH_OFFSET, hash, sizeof hash);
    put(image, SYMBOL_OFFSET, symbols, sizeof symbols);
    put(image, STRING_OFFSET, names, sizeof names);
}

static void put_record(struct image *image, uint32_t tag, const void *payload, uint32_t size)
{
    const struct c7x_manifest_record record = {tag, size};
    struct c7x_manifest_header header = {.magic = C7X_MANIFEST_MAGIC, .major = C7X_MANIFEST_MAJOR};
    if (image->manifest_size == 0)
        image->manifest_size = sizeof header;
    else
        memcpy(&header, image->bytes + MANIFEST_OFFSET, sizeof header);
    put(image, MANIFEST_OFFSET + image->manifest_size, &record, sizeof record);
    put(image, MANIFEST_OFFSET + image->manifest_size + sizeof record, payload, size);
    image->manifest_size += (uint32_t)sizeof record + (size + 7) / 8 * 8;
    header.total_bytes = image->manifest_size;
    header.record_count++;
    put(image, MANIFEST_OFFSET, &header, sizeof header);
}

static void put_tensor(struct image *image, uint32_t tag, const char *name, uint32_t ndim,
                       const int64_t *shape)
{
    uint8_t payload[128];
    const struct c7x_manifest_tensor fixed = {kDLFloat, 32, 1, ndim};
    memcpy(payload, &fixed, sizeof fixed);
    memcpy(payload + sizeof fixed, shape, ndim * sizeof *shape);
    size_t used = sizeof fixed + ndim * sizeof *shape;
    memcpy(payload + used, name, strlen(name) + 1);
    put_record(image, tag, payload, (uint32_t)(used + strlen(name) + 1));
}

static void make_image(struct image *image)
{
    static const int64_t shape[] = {1, 3, 48, 320, 1, 1, 1};
    memset(image, 0, sizeof *image);
    put_headers(image);
    put_symbols(image);
    put_record(image, C7X_MANIFEST_TARGET, "x86_64", 6);
    put_tensor(image, C7X_MANIFEST_INPUT, "picture", 4, shape);
    put_tensor(image, C7X_MANIFEST_INPUT, "scale", 0, shape);
    put_tensor(image, C7X_MANIFEST_OUTPUT, "text", 2, shape);
    put_record(image, 4711, "unknown", 7);
}

/* Reads an image through a file; the declaration is the caller's. */
static enum c7x_status read_image(const void *bytes, size_t size,
                                  struct c7x_module_declaration **out_declaration)
{
    char path[] = "/tmp/declaration_test.XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    close(file);
    enum c7x_status status = c7x_module_declaration_read(path, out_declaration);
    unlink(path);
    return status;
}

static enum c7x_status read_status(const struct image *image)
{
    struct c7x_module_declaration *declaration = NULL;
    enum c7x_status status = read_image(image->bytes, sizeof image->bytes, &declaration);
    assert_true((declaration != NULL) == (status == C7X_OK));
    c7x_module_declaration_free(declaration);
    return status;
}

static void reads_names_types_and_shapes(void **state)
{
    (void)state;
    struct image image;
    struct c7x_module_declaration *declaration = NULL;
    struct c7x_module_tensor tensor = {.struct_size = sizeof tensor};
    make_image(&image);
    assert_int_equal(read_image(image.bytes, sizeof image.bytes, &declaration), C7X_OK);
    assert_int_equal(c7x_module_declaration_input_count(declaration), 2);
    assert_int_equal(c7x_module_declaration_output_count(declaration), 1);
    assert_int_equal(c7x_module_declaration_input(declaration, 0, &tensor), C7X_OK);
    assert_string_equal(tensor.name, "picture");
    assert_int_equal(tensor.ndim, 4);
    assert_int_equal(tensor.shape[3], 320);
    assert_int_equal(tensor.dtype_code, C7X_DTYPE_FLOAT);
    assert_int_equal(tensor.dtype_bits, 32);
    assert_int_equal(c7x_module_declaration_input(declaration, 1, &tensor), C7X_OK);
    assert_int_equal(tensor.ndim, 0);
    assert_int_equal(c7x_module_declaration_output(declaration, 0, &tensor), C7X_OK);
    assert_string_equal(tensor.name, "text");
    c7x_module_declaration_free(declaration);
}

/* As many linkers make it: no System V hash table. */
static void a_gnu_hash_table_says_how_many_symbols_there_are(void **state)
{
    const uint32_t hash[8] = {1, 1, 1, 0, UINT32_MAX, UINT32_MAX, 1, 1};
    const Elf64_Dyn tag = {.d_tag = DT_GNU_HASH, .d_un.d_ptr = BASE + HASH_OFFSET};
    struct image image;
    (void)state;
    make_image(&image);
    put(&image, DYNAMIC_OFFSET, &tag, sizeof tag);
    put(&image, HASH_OFFSET, hash, sizeof hash);
    assert_int_equal(read_status(&image), C7X_OK);
    image.bytes[HASH_OFFSET + 24] = 0; /* no bucket has a symbol */
    assert_int_equal(read_status(&image), C7X_SYMBOL);
    image.bytes[HASH_OFFSET + 27] = 0xff; /* the bucket begins behind the file */
    assert_int_equal(read_status(&image), C7X_LOAD);
    image.bytes[HASH_OFFSET + 3] = 0xff; /* buckets without end */
    assert_int_equal(read_status(&image), C7X_LOAD);
}

static void fills_in_what_the_caller_has_room_for(void **state)
{
    (void)state;
    struct image image;
    struct c7x_module_declaration *declaration = NULL;
    struct c7x_module_tensor tensor = {.struct_size = offsetof(struct c7x_module_tensor, ndim),
                                       .ndim = 77};
    make_image(&image);
    assert_int_equal(read_image(image.bytes, sizeof image.bytes, &declaration), C7X_OK);
    assert_int_equal(c7x_module_declaration_input(declaration, 0, &tensor), C7X_OK);
    assert_string_equal(tensor.name, "picture");
    assert_int_equal(tensor.ndim, 77);
    assert_int_equal(c7x_module_declaration_input(declaration, 2, &tensor), C7X_INVALID);
    assert_int_equal(c7x_module_declaration_input(declaration, -1, &tensor), C7X_INVALID);
    c7x_module_declaration_free(declaration);
}

static void names_files_that_cannot_be_read(void **state)
{
    (void)state;
    struct c7x_module_declaration *declaration = NULL;
    assert_int_equal(c7x_module_declaration_read("/nonexistent/lib0.out", &declaration), C7X_FILE);
    assert_non_null(strstr(c7x_client_last_error(NULL), "/nonexistent/lib0.out"));
    assert_int_equal(c7x_module_declaration_read("/", &declaration), C7X_FILE);
    assert_int_equal(c7x_module_declaration_read(NULL, &declaration), C7X_INVALID);
    assert_null(declaration);
}

static void refuses_what_is_no_module(void **state)
{
    (void)state;
    struct image image;
    struct c7x_module_declaration *declaration = NULL;
    assert_int_equal(read_image("", 0, &declaration), C7X_LOAD);
    make_image(&image);
    image.bytes[0] = 'X';
    assert_int_equal(read_status(&image), C7X_LOAD);
    assert_non_null(strstr(c7x_client_last_error(NULL), "not an ELF file"));
    make_image(&image);
    image.bytes[STRING_OFFSET + 1] = 'x';
    assert_int_equal(read_status(&image), C7X_SYMBOL);
    make_image(&image);
    image.bytes[MANIFEST_OFFSET + 4] = 2; /* the major version */
    assert_int_equal(read_status(&image), C7X_LOAD);
}

static void refuses_malformed_tensors(void **state)
{
    (void)state;
    struct image image;
    static const int64_t negative[] = {-1};
    static const int64_t huge[] = {INT64_MAX, INT64_MAX};
    static const int64_t seven[] = {1, 1, 1, 1, 1, 1, 1};
    make_image(&image);
    put_tensor(&image, C7X_MANIFEST_INPUT, "negative", 1, negative);
    assert_int_equal(read_status(&image), C7X_LOAD);
    make_image(&image);
    put_tensor(&image, C7X_MANIFEST_INPUT, "huge", 2, huge);
    assert_int_equal(read_status(&image), C7X_LOAD);
    make_image(&image);
    put_tensor(&image, C7X_MANIFEST_OUTPUT, "rank", 7, seven);
    assert_int_equal(read_status(&image), C7X_LOAD);
    make_image(&image);
    put_record(&image, C7X_MANIFEST_INPUT, "short", 5);
    assert_int_equal(read_status(&image), C7X_LOAD);
}

/* The manifest's end is not the file's end, so a cut in the padding may go unnoticed. */
static void refuses_every_truncation(void **state)
{
    (void)state;
    struct image image;
    make_image(&image);
    for (size_t size = 0; size < MANIFEST_OFFSET + image.manifest_size; size++) {
        struct c7x_module_declaration *declaration = NULL;
        assert_int_equal(read_image(image.bytes, size, &declaration), C7X_LOAD);
        assert_null(declaration);
    }
}

/* Whatever a byte becomes, the answer is a status. */
static void survives_every_damaged_byte(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    for (size_t offset = 0; offset < FILE_SIZE; offset++) {
        for (size_t i = 0; i < sizeof values; i++) {
            struct image image;
            make_image(&image);
            image.bytes[offset] = values[i];
            (void)read_status(&image);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_names_types_and_shapes),
        cmocka_unit_test(a_gnu_hash_table_says_how_many_symbols_there_are),
        cmocka_unit_test(fills_in_what_the_caller_has_room_for),
        cmocka_unit_test(names_files_that_cannot_be_read),
        cmocka_unit_test(refuses_what_is_no_module),
        cmocka_unit_test(refuses_malformed_tensors),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_damaged_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

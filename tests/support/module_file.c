/* SPDX-License-Identifier: Apache-2.0 */
#include "support/module_file.h"

#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void c7x_test_module_read(const char *name, struct c7x_module_file *out_file)
{
    char path[C7X_TEST_PATH_MAX];
    FILE *stream;
    long size;
    c7x_test_module_path(name, path);
    stream = fopen(path, "rb");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, 0, SEEK_END), 0);
    size = ftell(stream);
    assert_true(size > 0);
    rewind(stream);
    out_file->size = (size_t)size;
    out_file->bytes = malloc(out_file->size);
    assert_non_null(out_file->bytes);
    assert_int_equal(fread(out_file->bytes, 1, out_file->size, stream), out_file->size);
    assert_int_equal(fclose(stream), 0);
}

void c7x_test_module_write(const struct c7x_module_file *file, const char *path)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(file->bytes, 1, file->size, stream), file->size);
    assert_int_equal(fclose(stream), 0);
}

void c7x_test_module_free(struct c7x_module_file *file)
{
    free(file->bytes);
    *file = (struct c7x_module_file){NULL, 0};
}

struct c7x_manifest_header *c7x_test_module_manifest(const struct c7x_module_file *file)
{
    static const uint32_t magic = C7X_MANIFEST_MAGIC;
    for (size_t at = 0; at + sizeof(struct c7x_manifest_header) <= file->size; at += 4) {
        if (memcmp(file->bytes + at, &magic, sizeof(magic)) == 0)
            return (void *)(file->bytes + at);
    }
    fail_msg("the module has no manifest");
    return NULL;
}

static struct c7x_elf_segment *find_segment(const struct c7x_module_file *file, uint32_t type,
                                            uint32_t flags)
{
    const struct c7x_elf_header *header = (const void *)file->bytes;
    struct c7x_elf_segment *segments = (void *)(file->bytes + header->phoff);
    for (unsigned i = 0; i < header->phnum; i++) {
        if (segments[i].type == type && (segments[i].flags & flags) == flags)
            return &segments[i];
    }
    fail_msg("no segment of type %u with flags 0x%x", (unsigned)type, (unsigned)flags);
    return NULL;
}

struct c7x_elf_segment *c7x_test_module_segment(const struct c7x_module_file *file, uint32_t flags)
{
    return find_segment(file, C7X_ELF_PT_LOAD, flags);
}

/* Test modules have the same place in the file as in memory, a page for each segment aside. */
static uint8_t *at_link_address(const struct c7x_module_file *file, uint64_t vaddr)
{
    const struct c7x_elf_header *header = (const void *)file->bytes;
    const struct c7x_elf_segment *segments = (const void *)(file->bytes + header->phoff);
    for (unsigned i = 0; i < header->phnum; i++) {
        const struct c7x_elf_segment *segment = &segments[i];
        if (segment->type == C7X_ELF_PT_LOAD && vaddr - segment->vaddr < segment->filesz)
            return file->bytes + segment->offset + (vaddr - segment->vaddr);
    }
    fail_msg("0x%llx is in no segment", (unsigned long long)vaddr);
    return NULL;
}

static uint64_t dynamic_value(const struct c7x_module_file *file, int64_t tag)
{
    const struct c7x_elf_segment *segment = find_segment(file, C7X_ELF_PT_DYNAMIC, 0);
    const struct c7x_elf_dynamic *entry = (const void *)(file->bytes + segment->offset);
    for (; entry->tag != C7X_ELF_DT_NULL; entry++) {
        if (entry->tag == tag)
            return entry->value;
    }
    fail_msg("no dynamic entry %d", (int)tag);
    return 0;
}

struct c7x_elf_rela *c7x_test_module_relocations(const struct c7x_module_file *file,
                                                 size_t *out_count)
{
    *out_count = dynamic_value(file, C7X_ELF_DT_RELASZ) / sizeof(struct c7x_elf_rela);
    return (void *)at_link_address(file, dynamic_value(file, C7X_ELF_DT_RELA));
}

void c7x_test_module_add_bss(const struct c7x_module_file *file, uint64_t bytes)
{
    c7x_test_module_segment(file, C7X_ELF_PF_W)->memsz += bytes;
}

void c7x_test_module_grow_weights(struct c7x_module_file *file, size_t size)
{
    struct c7x_elf_segment *weights;
    assert_true(size > file->size);
    file->bytes = realloc(file->bytes, size);
    assert_non_null(file->bytes);
    memset(file->bytes + file->size, 0, size - file->size);
    file->size = size;
    weights = c7x_test_module_segment(file, C7X_PF_IN_PLACE);
    weights->filesz = weights->memsz = size - weights->offset;
}

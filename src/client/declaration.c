/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a module file declares about its inputs and outputs, without any device: the dynamic
 * table of the ELF file, its symbols, and the manifest that one of them names (docs/modules.md).
 * The file may be hostile: every read is bounded by the file's size, every count by a named
 * maximum. Loading is the firmware's work, not done here.
 */
#include "c7x_compute_client.h"
#include "c7x_module.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/status.h"
#include "client/client_impl.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_TI_C7X 145 /* its dynamic table holds file offsets, others hold addresses */

enum {
    SEGMENT_COUNT_MAX = 64,
    DYNAMIC_COUNT_MAX = 1024,
    SYMBOL_COUNT_MAX = 1 << 20,
    SYMBOLS_AT_A_TIME = 256,
    STRING_TABLE_SIZE_MAX = 16 << 20,
    MANIFEST_SIZE_MAX = 16 << 20
};

struct c7x_module_declaration {
    uint8_t *manifest; /* the names of the tensors lie in it */
    int input_count;
    int output_count;
    struct c7x_module_tensor inputs[C7X_CLIENT_INPUTS_MAX];
    struct c7x_module_tensor outputs[C7X_CLIENT_OUTPUTS_MAX];
};

struct module_file {
    FILE *stream;
    const char *path;
    uint64_t size;
    uint16_t machine;
    uint32_t segment_count;
    Elf64_Phdr segments[SEGMENT_COUNT_MAX];
    struct c7x_error *error;
};

/* Where the dynamic table says things are; file offsets. */
struct symbol_table {
    uint64_t symbols;
    uint64_t symbol_count;
    uint64_t strings;
    uint64_t string_size;
    uint64_t hash; /* 0: none, like gnu_hash */
    uint64_t gnu_hash;
    char *text; /* the string table, NUL-terminated */
};

static enum c7x_status fail_load(const struct module_file *file, const char *what)
{
    return c7x_error_set(file->error, C7X_LOAD, C7X_CLIENT_STATION, "%s: %s", file->path, what);
}

static enum c7x_status read_bytes(struct module_file *file, uint64_t offset, uint64_t size,
                                  void *out, const char *what)
{
    if (!c7x_range_inside(offset, size, 0, file->size))
        return c7x_error_set(file->error, C7X_LOAD, C7X_CLIENT_STATION,
                             "%s: %s at offset %llu (%llu bytes) is not in the file (%llu bytes)",
                             file->path, what, (unsigned long long)offset, (unsigned long long)size,
                             (unsigned long long)file->size);
    if (fseek(file->stream, (long)offset, SEEK_SET) != 0 ||
        fread(out, 1, (size_t)size, file->stream) != (size_t)size)
        return c7x_error_set(file->error, C7X_FILE, C7X_CLIENT_STATION, "cannot read %s: %s",
                             file->path, strerror(errno));
    return C7X_OK;
}

static enum c7x_status open_file(struct module_file *file)
{
    file->stream = fopen(file->path, "rb");
    if (file->stream == NULL)
        return c7x_error_set(file->error, errno == EACCES ? C7X_PERMISSION : C7X_FILE,
                             C7X_CLIENT_STATION, "cannot open %s: %s", file->path, strerror(errno));
    char first;
    errno = 0;
    size_t got = fread(&first, 1, 1, file->stream); /* a folder opens, but cannot be read */
    long size = -1;
    if ((got == 1 || errno == 0) && fseek(file->stream, 0, SEEK_END) == 0)
        size = ftell(file->stream);
    if (size < 0)
        return c7x_error_set(file->error, C7X_FILE, C7X_CLIENT_STATION, "cannot read %s: %s",
                             file->path, strerror(errno));
    file->size = (uint64_t)size;
    return C7X_OK;
}

static enum c7x_status read_segments(struct module_file *file)
{
    Elf64_Ehdr header;
    if (file->size < sizeof header)
        return fail_load(file, "not an ELF file (shorter than an ELF header)");
    C7X_RETURN_IF_ERROR(read_bytes(file, 0, sizeof header, &header, "the ELF header"));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return fail_load(file, "not an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
        return fail_load(file, "not a 64-bit little-endian ELF file");
    if (header.e_phnum == 0 || header.e_phnum > SEGMENT_COUNT_MAX ||
        header.e_phentsize != sizeof(Elf64_Phdr))
        return fail_load(file, "not a module: no usable program headers");
    file->machine = header.e_machine;
    file->segment_count = header.e_phnum;
    return read_bytes(file, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), file->segments,
                      "the program headers");
}

/* File offset of a link address; false if no loaded segment has it in the file. */
static bool find_offset(const struct module_file *file, uint64_t address, uint64_t *out_offset)
{
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return c7x_add_size(segment->p_offset, address - segment->p_vaddr, out_offset);
    }
    return false;
}

static const Elf64_Phdr *find_dynamic(const struct module_file *file)
{
    for (uint32_t i = 0; i < file->segment_count; i++) {
        if (file->segments[i].p_type == PT_DYNAMIC)
            return &file->segments[i];
    }
    return NULL;
}

static void take_dynamic(const struct module_file *file, const Elf64_Dyn *entry,
                         struct symbol_table *table)
{
    uint64_t offset = entry->d_un.d_ptr;
    if (file->machine != MACHINE_TI_C7X && !find_offset(file, entry->d_un.d_ptr, &offset))
        offset = 0;
    if (entry->d_tag == DT_SYMTAB)
        table->symbols = offset;
    else if (entry->d_tag == DT_STRTAB)
        table->strings = offset;
    else if (entry->d_tag == DT_STRSZ)
        table->string_size = entry->d_un.d_val;
    else if (entry->d_tag == DT_HASH)
        table->hash = offset;
    else if (entry->d_tag == DT_GNU_HASH)
        table->gnu_hash = offset;
}

static enum c7x_status read_dynamic(struct module_file *file, struct symbol_table *table)
{
    const Elf64_Phdr *dynamic = find_dynamic(file);
    if (dynamic == NULL)
        return fail_load(file, "not a module: it has no dynamic table");
    uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
    if (count > DYNAMIC_COUNT_MAX)
        return fail_load(file, "the dynamic table is too long");
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Dyn entry;
        uint64_t offset;
        if (!c7x_add_size(dynamic->p_offset, i * sizeof entry, &offset))
            return fail_load(file, "the dynamic table is not in the file");
        C7X_RETURN_IF_ERROR(
            read_bytes(file, offset, sizeof entry, &entry, "an entry of the dynamic table"));
        if (entry.d_tag == DT_NULL)
            break;
        take_dynamic(file, &entry, table);
    }
    if (table->symbols == 0 || table->strings == 0 || (table->hash == 0 && table->gnu_hash == 0))
        return fail_load(file, "not a module: its dynamic table names no symbols");
    return C7X_OK;
}

static enum c7x_status read_hash_words(struct module_file *file, uint64_t offset, uint32_t *out,
                                       size_t count)
{
    return read_bytes(file, offset, count * sizeof *out, out, "the symbol hash table");
}

/* One behind the last symbol: the last one of the chain of the bucket that begins last. */
static enum c7x_status count_gnu_symbols(struct module_file *file, struct symbol_table *table)
{
    uint32_t head[4]; /* buckets, first symbol with a hash, words of the Bloom filter, shift */
    uint32_t last = 0;
    uint32_t word = 0;
    C7X_RETURN_IF_ERROR(read_hash_words(file, table->gnu_hash, head, C7X_ARRAY_COUNT(head)));
    uint64_t buckets = table->gnu_hash + sizeof head + 8 * (uint64_t)head[2];
    uint64_t chains = buckets + 4 * (uint64_t)head[0];
    if (head[0] > SYMBOL_COUNT_MAX)
        return fail_load(file, "the symbol table is too large");
    for (uint32_t i = 0; i < head[0]; i++) {
        C7X_RETURN_IF_ERROR(read_hash_words(file, buckets + 4 * (uint64_t)i, &word, 1));
        if (word > last)
            last = word;
    }
    if (last < head[1]) { /* none has a hash */
        table->symbol_count = head[1];
        return C7X_OK;
    }
    do {
        C7X_RETURN_IF_ERROR(
            read_hash_words(file, chains + 4 * (uint64_t)(last - head[1]), &word, 1));
        last++;
    } while ((word & 1) == 0);
    table->symbol_count = last;
    return C7X_OK;
}

static enum c7x_status count_symbols(struct module_file *file, struct symbol_table *table)
{
    uint32_t hash[2]; /* nbucket, nchain: there are as many symbols as chains */
    if (table->hash == 0)
        return count_gnu_symbols(file, table);
    C7X_RETURN_IF_ERROR(read_hash_words(file, table->hash, hash, C7X_ARRAY_COUNT(hash)));
    table->symbol_count = hash[1];
    return C7X_OK;
}

static enum c7x_status read_symbol_names(struct module_file *file, struct symbol_table *table)
{
    C7X_RETURN_IF_ERROR(count_symbols(file, table));
    if (table->symbol_count > SYMBOL_COUNT_MAX || table->string_size > STRING_TABLE_SIZE_MAX)
        return fail_load(file, "the symbol table is too large");
    if (!c7x_range_inside(table->symbols, table->symbol_count * sizeof(Elf64_Sym), 0, file->size) ||
        !c7x_range_inside(table->strings, table->string_size, 0, file->size))
        return fail_load(file, "the symbol table is not in the file");
    table->text = calloc(1, (size_t)table->string_size + 1);
    if (table->text == NULL)
        return c7x_error_set(file->error, C7X_HOST_NOMEM, C7X_CLIENT_STATION, "out of memory");
    return read_bytes(file, table->strings, table->string_size, table->text, "the string table");
}

static bool symbol_is(const struct symbol_table *table, const Elf64_Sym *symbol, const char *name)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_name < table->string_size &&
           strcmp(table->text + symbol->st_name, name) == 0;
}

/* Finds the address of `name`; *out_found false if the file does not define it. */
static enum c7x_status find_symbol(struct module_file *file, const struct symbol_table *table,
                                   const char *name, bool *out_found, uint64_t *out_address)
{
    Elf64_Sym symbols[SYMBOLS_AT_A_TIME];
    *out_found = false;
    for (uint64_t first = 0; first < table->symbol_count; first += SYMBOLS_AT_A_TIME) {
        uint64_t count = table->symbol_count - first;
        if (count > SYMBOLS_AT_A_TIME)
            count = SYMBOLS_AT_A_TIME;
        C7X_RETURN_IF_ERROR(read_bytes(file, table->symbols + first * sizeof symbols[0],
                                       count * sizeof symbols[0], symbols, "the symbol table"));
        for (uint64_t i = 0; i < count; i++) {
            if (!symbol_is(table, &symbols[i], name))
                continue;
            *out_found = true;
            *out_address = symbols[i].st_value;
            return C7X_OK;
        }
    }
    return C7X_OK;
}

static enum c7x_status read_manifest_header(struct module_file *file, uint64_t offset,
                                            struct c7x_manifest_header *header)
{
    C7X_RETURN_IF_ERROR(read_bytes(file, offset, sizeof *header, header, "the manifest"));
    if (header->magic != C7X_MANIFEST_MAGIC)
        return fail_load(file, "the manifest does not begin with C7XM");
    if (header->major != C7X_MANIFEST_MAJOR)
        return c7x_error_set(file->error, C7X_LOAD, C7X_CLIENT_STATION,
                             "%s: the manifest has version %u.%u, this library reads %u.x",
                             file->path, header->major, header->minor, C7X_MANIFEST_MAJOR);
    if (header->total_bytes < sizeof *header || header->total_bytes > MANIFEST_SIZE_MAX)
        return fail_load(file, "the manifest has an impossible size");
    return C7X_OK;
}

/* The manifest's bytes, to be freed by the caller. */
static enum c7x_status read_manifest(struct module_file *file, const struct symbol_table *table,
                                     uint8_t **out_manifest)
{
    bool found;
    uint64_t address = 0;
    uint64_t offset = 0;
    C7X_RETURN_IF_ERROR(find_symbol(file, table, "_binary_c7x_manifest_start", &found, &address));
    if (!found)
        return c7x_error_set(file->error, C7X_SYMBOL, C7X_CLIENT_STATION,
                             "%s declares nothing: it has no symbol _binary_c7x_manifest_start",
                             file->path);
    if (!find_offset(file, address, &offset))
        return fail_load(file, "the manifest is not in the file");
    struct c7x_manifest_header header;
    C7X_RETURN_IF_ERROR(read_manifest_header(file, offset, &header));
    uint8_t *manifest = malloc(header.total_bytes);
    if (manifest == NULL)
        return c7x_error_set(file->error, C7X_HOST_NOMEM, C7X_CLIENT_STATION, "out of memory");
    enum c7x_status status = read_bytes(file, offset, header.total_bytes, manifest, "the manifest");
    /* It was read twice: what counts from here on is the copy. */
    if (status == C7X_OK && memcmp(manifest, &header, sizeof header) != 0)
        status = fail_load(file, "the file changes while it is read");
    if (status != C7X_OK)
        free(manifest);
    else
        *out_manifest = manifest;
    return status;
}

static bool is_known_type(const struct c7x_manifest_tensor *tensor)
{
    bool bits = tensor->dtype_bits == 8 || tensor->dtype_bits == 16 || tensor->dtype_bits == 32 ||
                tensor->dtype_bits == 64;
    return bits && tensor->lanes == 1;
}

static bool is_shape_small(const struct c7x_module_tensor *tensor)
{
    uint64_t size = (uint64_t)tensor->dtype_bits / 8;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0 || !c7x_mul_size(size, (uint64_t)tensor->shape[i], &size))
            return false;
    }
    return size <= INT64_MAX;
}

/* Parses one INPUT or OUTPUT record; the name stays in the payload. */
static bool parse_tensor(const uint8_t *payload, uint32_t size, struct c7x_module_tensor *tensor)
{
    struct c7x_manifest_tensor fixed;
    if (size < sizeof fixed)
        return false;
    memcpy(&fixed, payload, sizeof fixed);
    if (fixed.ndim > C7X_CLIENT_RANK_MAX || !is_known_type(&fixed))
        return false;
    uint32_t name_offset = (uint32_t)sizeof fixed + fixed.ndim * (uint32_t)sizeof(int64_t);
    if (name_offset >= size || memchr(payload + name_offset, 0, size - name_offset) == NULL)
        return false;
    memset(tensor, 0, sizeof *tensor);
    tensor->struct_size = sizeof *tensor;
    tensor->name = (const char *)payload + name_offset;
    tensor->ndim = (int32_t)fixed.ndim;
    tensor->dtype_code = fixed.dtype_code;
    tensor->dtype_bits = fixed.dtype_bits;
    memcpy(tensor->shape, payload + sizeof fixed, fixed.ndim * sizeof(int64_t));
    return is_shape_small(tensor);
}

static bool take_record(struct c7x_module_declaration *declaration, uint32_t tag,
                        const uint8_t *payload, uint32_t size)
{
    if (tag == C7X_MANIFEST_INPUT)
        return declaration->input_count < C7X_CLIENT_INPUTS_MAX &&
               parse_tensor(payload, size, &declaration->inputs[declaration->input_count++]);
    if (tag == C7X_MANIFEST_OUTPUT)
        return declaration->output_count < C7X_CLIENT_OUTPUTS_MAX &&
               parse_tensor(payload, size, &declaration->outputs[declaration->output_count++]);
    return true;
}

static enum c7x_status parse_manifest(struct module_file *file,
                                      struct c7x_module_declaration *declaration)
{
    struct c7x_manifest_header header;
    memcpy(&header, declaration->manifest, sizeof header);
    uint64_t offset = sizeof header;
    for (uint32_t i = 0; i < header.record_count; i++) {
        struct c7x_manifest_record record;
        uint64_t next;
        if (!c7x_range_inside(offset, sizeof record, 0, header.total_bytes))
            return fail_load(file, "the manifest is cut short");
        memcpy(&record, declaration->manifest + offset, sizeof record);
        offset += sizeof record;
        if (!c7x_range_inside(offset, record.payload_bytes, 0, header.total_bytes))
            return fail_load(file, "the manifest is cut short");
        if (!take_record(declaration, record.tag, declaration->manifest + offset,
                         record.payload_bytes))
            return c7x_error_set(file->error, C7X_LOAD, C7X_CLIENT_STATION,
                                 "%s: record %u of the manifest is malformed", file->path, i);
        if (!c7x_align_size(offset + record.payload_bytes, 8, &next))
            return fail_load(file, "the manifest is cut short");
        offset = next;
    }
    return C7X_OK;
}

static enum c7x_status read_declaration(struct module_file *file,
                                        struct c7x_module_declaration *declaration)
{
    C7X_RETURN_IF_ERROR(open_file(file));
    C7X_RETURN_IF_ERROR(read_segments(file));
    struct symbol_table table = {0};
    C7X_RETURN_IF_ERROR(read_dynamic(file, &table));
    enum c7x_status status = read_symbol_names(file, &table);
    if (status == C7X_OK)
        status = read_manifest(file, &table, &declaration->manifest);
    free(table.text);
    C7X_RETURN_IF_ERROR(status);
    return parse_manifest(file, declaration);
}

enum c7x_status c7x_module_declaration_read(const char *path,
                                            struct c7x_module_declaration **out_declaration)
{
    struct c7x_error *error = c7x_client_thread_error();
    c7x_error_clear(error);
    if (path == NULL || out_declaration == NULL)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "no path, or nowhere to put the result");
    struct module_file *file = calloc(1, sizeof *file);
    struct c7x_module_declaration *declaration = calloc(1, sizeof *declaration);
    enum c7x_status status = C7X_HOST_NOMEM;
    if (file != NULL && declaration != NULL) {
        file->path = path;
        file->error = error;
        status = read_declaration(file, declaration);
    } else {
        c7x_error_set(error, status, C7X_CLIENT_STATION, "out of memory");
    }
    if (file != NULL && file->stream != NULL)
        (void)fclose(file->stream); /* it was only read */
    free(file);
    if (status == C7X_OK)
        *out_declaration = declaration;
    else
        c7x_module_declaration_free(declaration);
    return status;
}

void c7x_module_declaration_free(struct c7x_module_declaration *declaration)
{
    if (declaration == NULL)
        return;
    free(declaration->manifest);
    free(declaration);
}

int c7x_module_declaration_input_count(const struct c7x_module_declaration *declaration)
{
    return declaration == NULL ? 0 : declaration->input_count;
}

int c7x_module_declaration_output_count(const struct c7x_module_declaration *declaration)
{
    return declaration == NULL ? 0 : declaration->output_count;
}

/* Callers built against an older or newer header have a shorter or longer struct. */
static enum c7x_status copy_tensor(const struct c7x_module_tensor *tensors, int count, int index,
                                   struct c7x_module_tensor *out_tensor)
{
    if (index < 0 || index >= count || out_tensor == NULL ||
        out_tensor->struct_size < sizeof out_tensor->struct_size)
        return C7X_INVALID;
    size_t size = out_tensor->struct_size;
    memcpy(out_tensor, &tensors[index], size < sizeof *tensors ? size : sizeof *tensors);
    out_tensor->struct_size = size;
    return C7X_OK;
}

enum c7x_status c7x_module_declaration_input(const struct c7x_module_declaration *declaration,
                                             int index, struct c7x_module_tensor *out_tensor)
{
    if (declaration == NULL)
        return C7X_INVALID;
    return copy_tensor(declaration->inputs, declaration->input_count, index, out_tensor);
}

enum c7x_status c7x_module_declaration_output(const struct c7x_module_declaration *declaration,
                                              int index, struct c7x_module_tensor *out_tensor)
{
    if (declaration == NULL)
        return C7X_INVALID;
    return copy_tensor(declaration->outputs, declaration->output_count, index, out_tensor);
}

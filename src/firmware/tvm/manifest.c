/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/manifest.h"

#include "base/checked.h"
#include "c7x_module.h"
#include "firmware/loader/arch/arch.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

#define FEATURE_BYTES 32u
#define STEP 64u /* records between two c7x_os_interrupt_point() */

const uint8_t *c7x_symbol_bytes(const struct c7x_symbol_source *symbols, const char *start_name,
                                const char *size_name, uint64_t *out_size)
{
    const uint8_t *start = symbols->find(symbols, start_name);
    const void *size_word = symbols->find(symbols, size_name);
    uint32_t size;
    if (start == NULL || size_word == NULL || symbols->extent(symbols, size_word) < sizeof(size))
        return NULL;
    memcpy(&size, size_word, sizeof(size));
    if (size > symbols->extent(symbols, start))
        return NULL;
    *out_size = size;
    return start;
}

bool c7x_io_meta_read(const struct c7x_symbol_source *symbols, struct c7x_module_io *out)
{
    struct c7x_io_meta meta;
    const void *bytes = symbols->find(symbols, "_binary_tvm_dsp_io_meta_start");
    *out = (struct c7x_module_io){0};
    if (bytes == NULL || symbols->extent(symbols, bytes) < sizeof(meta))
        return false;
    memcpy(&meta, bytes, sizeof(meta));
    if (meta.magic != C7X_IO_META_MAGIC || meta.version != C7X_IO_META_VERSION)
        return false;
    *out = (struct c7x_module_io){
        .input_bytes = meta.input_bytes,
        .output_bytes = meta.output_bytes,
        .input_count = meta.num_inputs,
        .output_count = meta.num_outputs,
        .flags = meta.flags,
    };
    return true;
}

static enum c7x_status refuse(struct c7x_error *error, const char *why)
{
    return c7x_error_set(error, C7X_LOAD, "tvm", "manifest: %s", why);
}

/* The next word of a list, cut to the buffer; false past the last. */
static bool next_word(const uint8_t **at, const uint8_t *end, char word[FEATURE_BYTES])
{
    size_t length = 0;
    while (*at < end && (**at == ' ' || **at == '\0'))
        (*at)++;
    for (; *at < end && **at != ' ' && **at != '\0'; (*at)++) {
        if (length < FEATURE_BYTES - 1)
            word[length++] = (char)**at;
    }
    word[length] = '\0';
    return length != 0;
}

static void list_own_features(struct c7x_error *error)
{
    const struct c7x_arch *arch = c7x_arch_native();
    const char *name;
    for (size_t i = 0; (name = arch->feature_name(i)) != NULL; i++) {
        if (arch->has_feature(name))
            c7x_error_append(error, " %s", name);
    }
}

static bool has_features(const uint8_t *list, uint64_t size, bool is_foreign)
{
    const uint8_t *at = list;
    char word[FEATURE_BYTES];
    while (next_word(&at, list + size, word))
        if (is_foreign || !c7x_arch_native()->has_feature(word))
            return false;
    return true;
}

static enum c7x_status check_features(const uint8_t *list, uint64_t size, struct c7x_error *error)
{
    const uint8_t *at = list;
    char word[FEATURE_BYTES];
    bool lacking = false;
    while (next_word(&at, list + size, word)) {
        if (c7x_arch_native()->has_feature(word))
            continue;
        if (!lacking)
            (void)c7x_error_set(error, C7X_LOAD, "tvm",
                                "built for a processor with %.*s; lacking:", (int)size,
                                (const char *)list);
        lacking = true;
        c7x_error_append(error, " %s", word);
    }
    if (!lacking)
        return C7X_OK;
    c7x_error_append(error, "; this processor has:");
    list_own_features(error);
    return C7X_LOAD;
}

static enum c7x_status read_u64(const uint8_t *payload, uint64_t size, uint64_t *out,
                                struct c7x_error *error)
{
    if (size != sizeof(*out))
        return refuse(error, "a size record is not 8 bytes");
    memcpy(out, payload, sizeof(*out));
    return C7X_OK;
}

static enum c7x_status read_tensor(const uint8_t *payload, uint64_t size,
                                   struct c7x_manifest_io *out, struct c7x_error *error)
{
    struct c7x_manifest_tensor head;
    uint64_t name_at;
    uint64_t name_size;
    if (size < sizeof(head))
        return refuse(error, "the record of an input or output is too short");
    memcpy(&head, payload, sizeof(head));
    if (head.ndim > C7X_MANIFEST_RANK_MAX)
        return refuse(error, "an input or output has more than 8 dimensions");
    name_at = sizeof(head) + head.ndim * sizeof(int64_t);
    if (name_at > size)
        return refuse(error, "the shape of an input or output passes the end of its record");
    memset(out, 0, sizeof(*out));
    out->dtype_code = head.dtype_code;
    out->dtype_bits = head.dtype_bits;
    out->ndim = (int32_t)head.ndim;
    memcpy(out->shape, payload + sizeof(head), head.ndim * sizeof(int64_t));
    name_size = size - name_at < sizeof(out->name) - 1 ? size - name_at : sizeof(out->name) - 1;
    memcpy(out->name, payload + name_at, (size_t)name_size);
    return C7X_OK;
}

static void read_model(const uint8_t *payload, uint64_t size, struct c7x_manifest *manifest)
{
    size_t room = sizeof(manifest->model) - 1;
    memset(manifest->model, 0, sizeof(manifest->model));
    memcpy(manifest->model, payload, size < room ? (size_t)size : room);
}

/* The symbol, NUL, and the features that its code needs; the last one that they all are there for
 * is the best. */
static enum c7x_status read_variant(const uint8_t *payload, uint64_t size,
                                    struct c7x_manifest *manifest, struct c7x_error *error)
{
    const uint8_t *end = memchr(payload, 0, (size_t)size);
    if (end == NULL || end == payload)
        return refuse(error, "a variant has no entry");
    size_t length = (size_t)(end - payload);
    if (length >= sizeof(manifest->entry))
        return refuse(error, "the entry of a variant has too long a name");
    if (has_features(end + 1, size - length - 1, manifest->is_foreign))
        memcpy(manifest->entry, payload, length + 1);
    return C7X_OK;
}

/* The reader of a record. */
typedef enum c7x_status (*record_fn)(const struct c7x_manifest_record *record,
                                     const uint8_t *payload, struct c7x_manifest *manifest,
                                     struct c7x_error *error);

static enum c7x_status check_record(const struct c7x_manifest_record *record,
                                    const uint8_t *payload, struct c7x_manifest *manifest,
                                    struct c7x_error *error)
{
    (void)manifest;
    return record->tag == C7X_MANIFEST_CPU_FEATURES
               ? check_features(payload, record->payload_bytes, error)
               : C7X_OK;
}

static enum c7x_status read_record(const struct c7x_manifest_record *record, const uint8_t *payload,
                                   struct c7x_manifest *manifest, struct c7x_error *error)
{
    uint32_t word;
    switch (record->tag) {
    case C7X_MANIFEST_WORKSPACE_BYTES:
        return read_u64(payload, record->payload_bytes, &manifest->workspace_bytes, error);
    case C7X_MANIFEST_L2_BYTES:
        return read_u64(payload, record->payload_bytes, &manifest->l2_bytes, error);
    case C7X_MANIFEST_FAST_BYTES:
        return read_u64(payload, record->payload_bytes, &manifest->fast_bytes, error);
    case C7X_MANIFEST_PREEMPT:
        if (record->payload_bytes != sizeof(word))
            return refuse(error, "the record of pre-emption is not 4 bytes");
        memcpy(&word, payload, sizeof(word));
        manifest->preempt_anywhere = word == 1;
        return C7X_OK;
    case C7X_MANIFEST_INPUT:
        if (manifest->input_count == C7X_INFER_INPUTS_MAX)
            return refuse(error, "more than 128 inputs");
        return read_tensor(payload, record->payload_bytes,
                           &manifest->inputs[manifest->input_count++], error);
    case C7X_MANIFEST_OUTPUT:
        if (manifest->output_count == C7X_INFER_OUTPUTS_MAX)
            return refuse(error, "more than 128 outputs");
        return read_tensor(payload, record->payload_bytes,
                           &manifest->outputs[manifest->output_count++], error);
    case C7X_MANIFEST_CONSTANTS:
        if (record->payload_bytes % sizeof(uint64_t) != 0)
            return refuse(error, "the record of the constants is no list of 64-bit numbers");
        manifest->constant_sizes = payload;
        manifest->constant_count = record->payload_bytes / sizeof(uint64_t);
        return C7X_OK;
    case C7X_MANIFEST_VARIANT:
        return read_variant(payload, record->payload_bytes, manifest, error);
    case C7X_MANIFEST_MODEL:
        read_model(payload, record->payload_bytes, manifest);
        return C7X_OK;
    default:
        return C7X_OK;
    }
}

static enum c7x_status read_records(const uint8_t *bytes, const struct c7x_manifest_header *header,
                                    record_fn reader, struct c7x_manifest *manifest,
                                    struct c7x_error *error)
{
    uint64_t size = header->total_bytes;
    uint64_t at = sizeof(*header);
    for (uint32_t i = 0; i < header->record_count; i++) {
        struct c7x_manifest_record record;
        if (!c7x_range_inside(at, sizeof(record), 0, size))
            return refuse(error, "a record passes its end");
        memcpy(&record, bytes + at, sizeof(record));
        at += sizeof(record);
        if (!c7x_range_inside(at, record.payload_bytes, 0, size))
            return refuse(error, "the payload of a record passes its end");
        C7X_RETURN_IF_ERROR(reader(&record, bytes + at, manifest, error));
        at += c7x_round_up(record.payload_bytes, 8);
        if (i % STEP == 0)
            c7x_os_interrupt_point();
    }
    return C7X_OK;
}

static enum c7x_status read_header(const uint8_t *bytes, uint64_t size,
                                   struct c7x_manifest_header *out, struct c7x_error *error)
{
    if (size < sizeof(*out))
        return refuse(error, "shorter than its header");
    memcpy(out, bytes, sizeof(*out));
    if (out->magic != C7X_MANIFEST_MAGIC)
        return refuse(error, "bad magic");
    if (out->major != C7X_MANIFEST_MAJOR)
        return c7x_error_set(error, C7X_LOAD, "tvm",
                             "manifest: version %u.%u; this firmware reads version %u.%u: compile "
                             "the module again with a c7x-compile of its version",
                             out->major, out->minor, C7X_MANIFEST_MAJOR, C7X_MANIFEST_MINOR);
    if (out->total_bytes > size)
        return refuse(error, "longer than its bytes");
    return C7X_OK;
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* NULL: the module has none. */
static const uint8_t *find_manifest(const struct c7x_symbol_source *symbols, uint64_t *out_size)
{
    return c7x_symbol_bytes(symbols, "_binary_c7x_manifest_start", "_binary_c7x_manifest_size",
                            out_size);
}

enum c7x_status c7x_manifest_check(const struct c7x_symbol_source *symbols, bool is_native,
                                   struct c7x_error *error)
{
    struct c7x_manifest_header header;
    uint64_t size;
    const uint8_t *bytes = find_manifest(symbols, &size);
    if (bytes == NULL)
        return C7X_OK;
    C7X_RETURN_IF_ERROR(read_header(bytes, size, &header, error));
    return is_native ? read_records(bytes, &header, check_record, NULL, error) : C7X_OK;
}

enum c7x_status c7x_manifest_read(const struct c7x_symbol_source *symbols, struct c7x_heap *heap,
                                  uint32_t owner, struct c7x_manifest *out, struct c7x_error *error)
{
    struct c7x_manifest manifest = {.present = true, .is_foreign = symbols->is_foreign};
    struct c7x_manifest_header header;
    uint64_t size;
    enum c7x_status status;
    const uint8_t *bytes = find_manifest(symbols, &size);
    if (bytes == NULL) {
        *out = (struct c7x_manifest){0};
        return C7X_OK;
    }
    C7X_RETURN_IF_ERROR(read_header(bytes, size, &header, error));
    uint32_t inputs_max = at_most(header.record_count, C7X_INFER_INPUTS_MAX);
    uint32_t outputs_max = at_most(header.record_count, C7X_INFER_OUTPUTS_MAX);
    size_t io_bytes = (inputs_max + outputs_max) * sizeof(*manifest.inputs);
    manifest.inputs = c7x_heap_alloc(heap, owner, io_bytes, 0);
    if (manifest.inputs == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(heap, io_bytes), "manifest");
    manifest.outputs = manifest.inputs + inputs_max;
    manifest.bytes = bytes;
    status = read_records(bytes, &header, read_record, &manifest, error);
    if (status != C7X_OK) {
        c7x_heap_free(heap, manifest.inputs);
        return status;
    }
    *out = manifest;
    return C7X_OK;
}

void c7x_manifest_visit_operators(const struct c7x_manifest *manifest, c7x_operator_visit_fn visit,
                                  void *context)
{
    const size_t name_at = sizeof(uint32_t); /* behind the number */
    struct c7x_manifest_header header;
    uint64_t at = sizeof(header);
    if (manifest->bytes == NULL)
        return;
    memcpy(&header, manifest->bytes, sizeof(header)); /* checked when it was read */
    for (uint32_t i = 0; i < header.record_count; i++) {
        struct c7x_manifest_record record;
        memcpy(&record, manifest->bytes + at, sizeof(record));
        at += sizeof(record);
        if (record.tag == C7X_MANIFEST_OPERATOR && record.payload_bytes >= name_at) {
            const char *name = (const char *)manifest->bytes + at + name_at;
            const char *end = memchr(name, 0, record.payload_bytes - name_at);
            visit(context, name,
                  end == NULL ? record.payload_bytes - name_at : (size_t)(end - name));
        }
        at += c7x_round_up(record.payload_bytes, 8);
    }
}

struct wanted_operator {
    uint32_t number; /* counted down to it */
    const char *name;
    size_t length;
};

static void pick_operator(void *context, const char *name, size_t length)
{
    struct wanted_operator *wanted = context;
    if (wanted->number-- != 0)
        return;
    wanted->name = name;
    wanted->length = length;
}

const char *c7x_manifest_operator(const struct c7x_manifest *manifest, uint32_t number,
                                  size_t *out_length)
{
    struct wanted_operator wanted = {.number = number};
    c7x_manifest_visit_operators(manifest, pick_operator, &wanted);
    if (wanted.name != NULL)
        *out_length = wanted.length;
    return wanted.name;
}

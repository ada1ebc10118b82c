/* SPDX-License-Identifier: Apache-2.0 */
/* What the module says about itself: io_meta, manifest, weights. */
#include "inspect/inspect_impl.h"

#include "base/checked.h"
#include "c7x_module.h"
#include "firmware/tvm/constants.h"
#include "firmware/tvm/manifest.h"

#include <string.h>

static const struct c7x_symbol_source *symbols_of(const struct c7x_inspector *self)
{
    return c7x_loader_symbols(self->program);
}

static void read_io_meta(struct c7x_inspector *self)
{
    struct c7x_inspect_io_meta *meta = &self->result.io_meta;
    struct c7x_module_io io;
    *meta = (struct c7x_inspect_io_meta){
        .is_present = c7x_io_meta_read(symbols_of(self), &io),
        .input_bytes = io.input_bytes,
        .output_bytes = io.output_bytes,
        .input_count = io.input_count,
        .output_count = io.output_count,
        .is_exact = (io.flags & 1u) != 0,
    };
    self->result.bytes.input = io.input_bytes;
    self->result.bytes.output = io.output_bytes;
}

/* ---- Manifest ---- */

static const struct c7x_inspect_tensor *
describe_tensors(struct c7x_inspector *self, const struct c7x_manifest_io *list, size_t count)
{
    struct c7x_inspect_tensor *tensors = c7x_inspector_alloc(self, count, sizeof(*tensors));
    for (size_t i = 0; i < count && tensors != NULL; i++) {
        tensors[i] = (struct c7x_inspect_tensor){
            .name = c7x_inspector_text(self, list[i].name, sizeof(list[i].name)),
            .kind = "tensor",
            .dtype_code = list[i].dtype_code,
            .dtype_bits = list[i].dtype_bits,
            .dtype_lanes = 1,
            .ndim = list[i].ndim,
        };
        memcpy(tensors[i].shape, list[i].shape, sizeof(list[i].shape));
    }
    return tensors;
}

/* Calls for each record of a manifest that was read before, or of a damaged one as far as it goes.
 */
static void read_texts(struct c7x_inspector *self, const uint8_t *bytes, uint64_t size)
{
    struct c7x_inspect_manifest *manifest = &self->result.manifest;
    struct c7x_manifest_record record;
    uint64_t at = sizeof(struct c7x_manifest_header);
    while (c7x_range_inside(at, sizeof(record), 0, size)) {
        memcpy(&record, bytes + at, sizeof(record));
        at += sizeof(record);
        if (!c7x_range_inside(at, record.payload_bytes, 0, size))
            return;
        if (record.tag == C7X_MANIFEST_TOOLS)
            manifest->tools = c7x_inspector_text(self, bytes + at, record.payload_bytes);
        if (record.tag == C7X_MANIFEST_TARGET)
            manifest->target = c7x_inspector_text(self, bytes + at, record.payload_bytes);
        if (record.tag == C7X_MANIFEST_CPU_FEATURES)
            manifest->cpu_features = c7x_inspector_text(self, bytes + at, record.payload_bytes);
        at += c7x_round_up(record.payload_bytes, 8);
    }
}

static void take_manifest(struct c7x_inspector *self, const struct c7x_manifest *read)
{
    struct c7x_inspect_manifest *manifest = &self->result.manifest;
    manifest->model = c7x_inspector_text(self, read->model, sizeof(read->model));
    manifest->entry = read->entry[0] != '\0'
                          ? c7x_inspector_text(self, read->entry, sizeof(read->entry))
                          : "cg_main_dsp";
    manifest->workspace_bytes = read->workspace_bytes;
    manifest->l2_bytes = read->l2_bytes;
    manifest->fast_bytes = read->fast_bytes;
    manifest->inputs = describe_tensors(self, read->inputs, read->input_count);
    manifest->input_count = manifest->inputs == NULL ? 0 : read->input_count;
    manifest->outputs = describe_tensors(self, read->outputs, read->output_count);
    manifest->output_count = manifest->outputs == NULL ? 0 : read->output_count;
    self->result.bytes.workspace = read->workspace_bytes;
}

/* What is wrong with it is for the judge to say. */
static void read_manifest(struct c7x_inspector *self)
{
    struct c7x_manifest manifest;
    uint32_t owner = c7x_heap_owner_new(self->heap);
    uint64_t size;
    const uint8_t *bytes = c7x_symbol_bytes(symbols_of(self), "_binary_c7x_manifest_start",
                                            "_binary_c7x_manifest_size", &size);
    self->result.manifest = (struct c7x_inspect_manifest){
        .model = "", .tools = "", .target = "", .cpu_features = "", .entry = ""};
    if (bytes == NULL)
        return;
    self->result.manifest.is_present = 1;
    read_texts(self, bytes, size);
    if (c7x_manifest_read(symbols_of(self), self->heap, owner, &manifest, NULL) == C7X_OK)
        take_manifest(self, &manifest);
    (void)c7x_heap_free_owner(self->heap, owner);
}

/* ---- Weights ---- */

static const char *kind_of(const TVMFFIAny *value)
{
    switch (value->type_index) {
    case kTVMFFITensor:
        return "tensor";
    case kTVMFFIShape:
        return "shape";
    case kTVMFFIStr:
        return "string";
    case kTVMFFIInt:
        return "int";
    case kTVMFFIFloat:
        return "float";
    default:
        return "dtype";
    }
}

/* Their rank is at most C7X_INSPECT_RANK_MAX, or the loader would have refused them. */
static struct c7x_inspect_tensor describe_constant(const TVMFFIAny *value)
{
    struct c7x_inspect_tensor tensor = {.name = "", .kind = kind_of(value), .ndim = -1};
    const TVMDSPTensor *object = value->v_ptr;
    if (value->type_index != kTVMFFITensor)
        return tensor;
    tensor.dtype_code = object->dl_tensor.dtype.code;
    tensor.dtype_bits = object->dl_tensor.dtype.bits;
    tensor.dtype_lanes = object->dl_tensor.dtype.lanes;
    tensor.ndim = object->dl_tensor.ndim;
    for (int32_t i = 0; i < tensor.ndim; i++)
        tensor.shape[i] = object->dl_tensor.shape[i];
    (void)c7x_tvm_tensor_bytes(tensor.shape, tensor.ndim, (unsigned)tensor.dtype_bits,
                               (unsigned)tensor.dtype_lanes, &tensor.bytes);
    return tensor;
}

static void read_constants(struct c7x_inspector *self)
{
    struct c7x_constants constants = {0};
    struct c7x_inspect_tensor *list;
    uint32_t owner = c7x_heap_owner_new(self->heap);
    uint64_t size;
    const uint8_t *bytes = c7x_symbol_bytes(symbols_of(self), "_binary_weights_bin_start",
                                            "_binary_weights_bin_size", &size);
    if (bytes == NULL)
        return;
    self->result.constant_bytes = size;
    if (c7x_constants_load(bytes, size, self->heap, owner, &constants, NULL) == C7X_OK) {
        list = c7x_inspector_alloc(self, constants.count, sizeof(*list));
        for (uint32_t i = 0; i < constants.count && list != NULL; i++)
            list[i] = describe_constant(&constants.values[i]);
        self->result.constants = list;
        self->result.constant_count = list == NULL ? 0 : constants.count;
    }
    c7x_constants_unload(&constants);
    (void)c7x_heap_free_owner(self->heap, owner);
}

void c7x_inspector_read_contents(struct c7x_inspector *self)
{
    read_io_meta(self);
    read_manifest(self);
    read_constants(self);
}

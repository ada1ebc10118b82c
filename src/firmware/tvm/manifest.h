/* SPDX-License-Identifier: Apache-2.0 */
/* What a module says about itself: the manifest and io_meta (docs/modules.md). */
#ifndef C7X_FIRMWARE_TVM_MANIFEST_H
#define C7X_FIRMWARE_TVM_MANIFEST_H

#include "firmware/memory/heap.h"
#include "firmware/module/kind.h"

#define C7X_MANIFEST_NAME_BYTES 64u
#define C7X_MANIFEST_RANK_MAX 8

struct c7x_manifest_io {
    uint8_t dtype_code;
    uint8_t dtype_bits;
    int32_t ndim;
    int64_t shape[C7X_MANIFEST_RANK_MAX]; /* negative: any */
    char name[C7X_MANIFEST_NAME_BYTES];   /* cut if longer */
};

struct c7x_manifest {
    char entry[C7X_MANIFEST_NAME_BYTES]; /* of the variant for this processor; "": it has none */
    char model[C7X_MANIFEST_NAME_BYTES]; /* its name, cut if longer */
    uint64_t workspace_bytes;
    uint64_t l2_bytes;
    uint64_t fast_bytes;
    const uint8_t *bytes;          /* the whole of it, in the module */
    const uint8_t *constant_sizes; /* u64 each, in the module; NULL: it does not say */
    uint32_t constant_count;
    /* What every call looks at. */
    bool present;
    bool is_foreign; /* for another processor, whose features nobody here knows */
    bool preempt_anywhere;
    uint32_t input_count;
    uint32_t output_count;
    struct c7x_manifest_io *inputs; /* when read, a block of the heap, with the outputs behind it */
    struct c7x_manifest_io *outputs;
};

/*
 * What must be known of a manifest before the module is linked, and long before it is run: C7X_LOAD
 * when it is of another major version, or, of a native module, when the processor lacks features
 * that its code needs (both versions, both lists are in the text). No manifest is legal.
 */
enum c7x_status c7x_manifest_check(const struct c7x_symbol_source *symbols, bool is_native,
                                   struct c7x_error *error) C7X_NODISCARD;

/* Reads the manifest among a module's symbols; none is legal. C7X_LOAD: malformed, or of another
 * major version; C7X_NOMEM. */
enum c7x_status c7x_manifest_read(const struct c7x_symbol_source *symbols, struct c7x_heap *heap,
                                  uint32_t owner, struct c7x_manifest *out,
                                  struct c7x_error *error) C7X_NODISCARD;

/* The names of the operators, in the order of calls, in which their records are. */
void c7x_manifest_visit_operators(const struct c7x_manifest *manifest, c7x_operator_visit_fn visit,
                                  void *context);
/* The name of an operator, by its number in the order of calls; not terminated. NULL: there is
 * none.
 */
const char *c7x_manifest_operator(const struct c7x_manifest *manifest, uint32_t number,
                                  size_t *out_length);

/* The declared sizes; false, and all of them zero, when there are none, or of another version. */
bool c7x_io_meta_read(const struct c7x_symbol_source *symbols, struct c7x_module_io *out);

/* The bytes of a symbol and its size symbol; NULL without them or when they pass the end of the
 * segment. */
const uint8_t *c7x_symbol_bytes(const struct c7x_symbol_source *symbols, const char *start_name,
                                const char *size_name, uint64_t *out_size);

#endif

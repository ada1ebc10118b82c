/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of module supplies, and the tensors that go in and out of one. The TVM runner is one
 * kind; tests have another. All operations are mandatory and run in the core's one job at a time.
 */
#ifndef C7X_FIRMWARE_MODULE_KIND_H
#define C7X_FIRMWARE_MODULE_KIND_H

#include "base/status.h"
#include "base/trace.h"
#include "firmware/loader/symbol_source.h"
#include "firmware/memory/memory.h"

#define C7X_INFER_RANK_MAX 6
#define C7X_INFER_INPUTS_MAX 128
#define C7X_INFER_OUTPUTS_MAX 128
/* Of more outputs than this, the descriptors stand behind the data in the result window, and need
 * room there. */
#define C7X_INFER_OUTPUTS_INLINE_MAX 5
#define C7X_INFER_DESCRIPTOR_BYTES 80

struct c7x_tensor {
    void *data;           /* NULL only when data_size is 0 */
    c7x_dsp_addr address; /* of data, as the client sees it */
    uint64_t data_size;   /* bytes */
    int32_t ndim;         /* 0..C7X_INFER_RANK_MAX */
    int32_t dtype_code;   /* DLPack */
    int32_t dtype_bits;
    int32_t tuple_index; /* outputs: place in the result tuple */
    int64_t shape[C7X_INFER_RANK_MAX];
};

/* Where tensors stay between the calls of a decoder: slots one behind the other. It is the DSP's
 * alone, so nobody syncs caches for it. */
struct c7x_kv_region {
    uint8_t *pointer;
    c7x_dsp_addr address;
    uint64_t size;
    uint32_t slot_count;
    uint64_t slot_bytes; /* slot_count * slot_bytes <= size */
};

struct c7x_infer {
    const struct c7x_tensor *inputs; /* what the host wrote is visible already */
    uint32_t input_count;
    uint32_t model_id;     /* 0: the weights in the module; else constants of MODEL_LOAD */
    uint32_t session;      /* whose models model_id may name */
    uint32_t repeat_count; /* at least 1 */
    uint8_t *result;       /* output window; NULL when result_size is 0 */
    c7x_dsp_addr result_address;
    uint64_t result_size;
    /* Outputs of a tuple go to its slots, from the second one on; NULL: all go to the window. */
    const struct c7x_kv_region *kv;
    struct c7x_printf *printf;       /* where printf text of this call goes; NULL: dropped */
    _Atomic uint32_t *section_count; /* counts the ends of critical sections; NULL: nobody asks */
    struct c7x_trace_origin origin;  /* for traces */
};

/* return_value and cycles are also set when the call itself failed (C7X_CALL, C7X_NOMEM); before
 * the entry has run, return_value stays what the caller has put there. */
struct c7x_infer_result {
    int32_t return_value; /* of the entry */
    uint64_t cycles;      /* the entry's own running time, last repeat, in c7x_os_cycles() */
    uint32_t output_count;
    struct c7x_tensor outputs[C7X_INFER_OUTPUTS_MAX]; /* all inside the result window */
    uint64_t result_used;   /* bytes of the window that the outputs take, rounded up to 64 */
    const void *fault_code; /* C7X_FAULT: the instruction, NULL when that is not known */
};

/* Declared sizes of a module's inputs and outputs (tvm_dsp_io_meta); all zero when it declares
 * none. */
struct c7x_module_io {
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t flags;
};

typedef void (*c7x_operator_visit_fn)(void *context, const char *name, size_t length);

struct c7x_module_kind_ops {
    /*
     * Whether the kind can take the program: asked first of all, before anything is linked or run,
     * so that a version that does not match is not met as a riddle later. `is_native`: its code is
     * for this processor.
     */
    enum c7x_status (*check)(const struct c7x_symbol_source *symbols, bool is_native,
                             struct c7x_error *error);
    /*
     * Binds a loaded program: `symbols` finds the module's own exports. All it allocates belongs to
     * `owner` of the heap. On success *out_instance is the kind's; on failure nothing stays.
     */
    enum c7x_status (*bind)(const struct c7x_symbol_source *symbols, uint32_t owner,
                            void **out_instance, struct c7x_module_io *out_io,
                            struct c7x_error *error);
    enum c7x_status (*infer)(void *instance, const struct c7x_infer *infer,
                             struct c7x_infer_result *out_result, struct c7x_error *error);
    /* A call is to come: asks for what it begins with to be in the cache by then. Any task, while
     * the instance is bound. */
    void (*expect)(const void *instance);
    /*
     * Runs the module's clean-up hooks and lets go of what may not outlive the segments; of a
     * faulty instance, no hooks.
     */
    void (*unbind)(void *instance, const struct c7x_trace_origin *origin);
    /* Frees the instance and all other memory that bind and infer made, once the segments are gone.
     */
    void (*release)(void *instance, const struct c7x_trace_origin *origin);
    /* Whether a call ended in the middle of the module's code, so that only unbind may follow. */
    bool (*is_faulted)(const void *instance);
    /* The longest critical section so far, in c7x_os_cycles(); some of the calls are measured. Any
     * task, while the instance is bound. */
    uint64_t (*longest_section)(const void *instance);
    /* How often it has become the active one, after another had been. Any task, as before. */
    uint32_t (*activations)(const void *instance);
    /* The name of what the module computes, or "". Any task, while the instance is bound. */
    const char *(*name)(const void *instance);
    /* Calls visit with the name, not terminated, of each operator, in the order of calls. As for
     * name. */
    void (*visit_operators)(const void *instance, c7x_operator_visit_fn visit, void *context);
};

#endif

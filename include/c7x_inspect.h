/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module file holds and whether a device would take it, without a device and without running
 * anything of the file. Any bytes may be given, of a module for any processor. Part of
 * libc7x_inspect. Calls must not overlap.
 */
#ifndef C7X_INSPECT_H
#define C7X_INSPECT_H

#include "c7x_status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define C7X_INSPECT_RANK_MAX 16

/* Which device is asked: all its memory is free. */
enum c7x_inspect_device {
    C7X_INSPECT_DEVICE_OWN,   /* the one that the file is built for */
    C7X_INSPECT_DEVICE_BOARD, /* a C7x DSP */
    C7X_INSPECT_DEVICE_HOST   /* the emulator on this machine */
};

struct c7x_inspect_segment {
    uint32_t index; /* of its program header */
    int is_readable;
    int is_writable;
    int is_executable;
    int in_place;     /* used where it is staged */
    uint64_t address; /* where the device has it */
    uint64_t link_address;
    uint64_t file_offset;
    uint64_t file_bytes;
    uint64_t memory_bytes;
    uint64_t alignment;
};

struct c7x_inspect_symbol {
    const char *name;
    int is_weak;
    int is_function;
    int is_present;   /* of an import: the firmware exports it */
    uint64_t address; /* of an export: where the device has it */
    uint64_t size;
};

/* A tensor of the call, or a constant. */
struct c7x_inspect_tensor {
    const char *name; /* "" for a constant */
    const char *kind; /* "tensor", and of constants "shape", "string", "int", "float", "dtype" */
    int32_t dtype_code;
    int32_t dtype_bits;
    int32_t dtype_lanes;
    int32_t ndim;                        /* -1: it is no tensor */
    int64_t shape[C7X_INSPECT_RANK_MAX]; /* negative: any */
    uint64_t bytes;                      /* of a constant; else 0 */
};

struct c7x_inspect_io_meta {
    int is_present;
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint32_t input_count;
    uint32_t output_count;
    int is_exact;
};

struct c7x_inspect_manifest {
    int is_present;
    const char *model;
    const char *tools;
    const char *target;
    const char *cpu_features;
    const char
        *entry; /* what this processor would run of it, were it a native module of its kind */
    uint64_t workspace_bytes;
    uint64_t l2_bytes;
    uint64_t fast_bytes;
    const struct c7x_inspect_tensor *inputs;
    size_t input_count;
    const struct c7x_inspect_tensor *outputs;
    size_t output_count;
};

/* What the device would need. */
struct c7x_inspect_bytes {
    uint64_t file;      /* staged in shared memory */
    uint64_t in_place;  /* of it, used there until unload */
    uint64_t load;      /* of the device's heap, for as long as the module is loaded */
    uint64_t workspace; /* of the device's heap, during a call */
    uint64_t input;     /* shared memory of inputs and of outputs; 0: not declared */
    uint64_t output;
    uint64_t heap_total; /* what the device has */
};

struct c7x_inspection {
    enum c7x_status status; /* OK: the device would load it, and it fits */
    const char *reason;     /* why not; "" when it would */
    const char *device;     /* processor of the device that was asked */
    const char *machine;    /* processor of the file; NULL when it is no ELF file */
    const struct c7x_inspect_segment *segments;
    size_t segment_count;
    const struct c7x_inspect_symbol *imports;
    size_t import_count;
    const struct c7x_inspect_symbol *exports;
    size_t export_count;
    struct c7x_inspect_io_meta io_meta;
    struct c7x_inspect_manifest manifest;
    const struct c7x_inspect_tensor *constants;
    size_t constant_count;
    uint64_t constant_bytes; /* size of the weights blob */
    struct c7x_inspect_bytes bytes;
};

/*
 * Looks at the bytes of a file. Whatever they are, the answer is an inspection, in which what could
 * not be read is absent; HOST_NOMEM is the only failure. Free it with c7x_inspection_free(). Texts
 * are UTF-8 on one line: what else stands in the file became '?', and long names of symbols are
 * cut.
 */
enum c7x_status c7x_inspect(const void *bytes, size_t size, enum c7x_inspect_device device,
                            const struct c7x_inspection **out_inspection) C7X_NODISCARD;
/* NULL is legal. */
void c7x_inspection_free(const struct c7x_inspection *inspection);

#ifdef __cplusplus
}
#endif

#endif

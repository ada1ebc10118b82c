/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The border between a compiled module (lib0.out) and the firmware that runs it.
 *
 * Included by the C that c7x-compile emits and by the firmware's TVM runtime, so that both see the
 * same bytes. It holds the value container, the object layouts of the C7x dialect, the prototypes
 * of what a module may import, and the constants of the module file (segment flag, io_meta,
 * manifest). It holds no code and needs no other header of ours. C99, C11 and C++14.
 *
 * The layouts are compiled into existing modules: a change of any size or offset breaks them. The
 * asserts below say so at compile time. All integers are little-endian, pointers are 64-bit.
 */
#ifndef C7X_MODULE_H
#define C7X_MODULE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Compiler extensions, each with a plain fallback. C7X_RESTRICT, C7X_ALIGNED and C7X_NOINLINE
 * change speed only: a kernel that is inlined loses its restrict qualifiers. C7X_EXTENSION silences
 * -pedantic where C99 meets an anonymous union (standard in C11 and C++).
 */
#if defined(__GNUC__) || defined(__clang__)
#define C7X_RESTRICT __restrict__
#define C7X_ALIGNED(n) __attribute__((aligned(n)))
#define C7X_EXPORT __attribute__((visibility("default")))
#define C7X_EXTENSION __extension__
#define C7X_NOINLINE __attribute__((noinline))
#else
#define C7X_RESTRICT
#define C7X_ALIGNED(n)
#define C7X_EXPORT
#define C7X_EXTENSION
#define C7X_NOINLINE
#endif

/* The type of IEEE 754 binary16 values; absent where the compiler has none (then not defined). */
#if defined(__FLT16_MAX__) && !defined(__cplusplus)
#define C7X_HALF _Float16
#endif

#if defined(__cplusplus)
#define C7X_MODULE_ASSERT(name, condition) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define C7X_MODULE_ASSERT(name, condition) _Static_assert(condition, #name)
#else
#define C7X_MODULE_ASSERT(name, condition)                                                         \
    typedef char c7x_module_assert_##name[(condition) ? 1 : -1]
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- DLPack ---- */

enum { kDLCPU = 1 };

/* DLDataType.code. */
enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6
};

typedef struct {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides; /* NULL: compact, row major */
    uint64_t byte_offset;
} DLTensor;

C7X_MODULE_ASSERT(device_size, sizeof(DLDevice) == 8);
C7X_MODULE_ASSERT(dtype_size, sizeof(DLDataType) == 4);
C7X_MODULE_ASSERT(dltensor_size, sizeof(DLTensor) == 48);

/* ---- Value container ---- */

/* TVMFFIAny.type_index. From kTVMFFIObject on the value is a pointer to a counted object. */
typedef enum {
    kTVMFFINone = 0,
    kTVMFFIInt = 1,
    kTVMFFIBool = 2,
    kTVMFFIFloat = 3,
    kTVMFFIOpaquePtr = 4,
    kTVMFFIDataType = 5,
    kTVMFFIDevice = 6,
    kTVMFFIDLTensorPtr = 7,
    kTVMFFIRawStr = 8,
    kTVMFFIByteArrayPtr = 9,
    kTVMFFIObjectRValueRef = 10,
    kTVMFFISmallStr = 11,
    kTVMFFISmallBytes = 12,
    kTVMFFIObject = 64,
    kTVMFFIStr = 65,
    kTVMFFIBytes = 66,
    kTVMFFIError = 67,
    kTVMFFIFunction = 68,
    kTVMFFIShape = 69,
    kTVMFFITensor = 70,
    kTVMFFIArray = 71,
    kTVMFFIMap = 72,
    kTVMFFIModule = 73,
    kTVMFFIOpaquePyObject = 74,
    kTVMDSPStorage = 128
} TVMFFITypeIndex;

/*
 * Every counted object begins with this. An object is created with ref_counter 1; the reference
 * that takes it to 0 calls the deleter, which releases what the object holds and the object itself.
 * deleter NULL: the memory belongs to somebody else (inputs, constants).
 */
typedef struct TVMDSPObject {
    int32_t type_index;
    int32_t ref_counter;
    void (*deleter)(struct TVMDSPObject *self);
} TVMDSPObject;

typedef struct TVMFFIAny {
    int32_t type_index;
    uint32_t zero_padding; /* always 0 */
    C7X_EXTENSION union {
        int64_t v_int64;
        uint64_t v_uint64;
        double v_float64;
        void *v_ptr;
        const char *v_c_str;
        TVMDSPObject *v_obj;
        DLDataType v_dtype;
        DLDevice v_device;
        char v_bytes[8];
    };
} TVMFFIAny;

C7X_MODULE_ASSERT(object_size, sizeof(TVMDSPObject) == 16);
C7X_MODULE_ASSERT(object_ref_counter, offsetof(TVMDSPObject, ref_counter) == 4);
C7X_MODULE_ASSERT(object_deleter, offsetof(TVMDSPObject, deleter) == 8);
C7X_MODULE_ASSERT(any_size, sizeof(TVMFFIAny) == 16);
C7X_MODULE_ASSERT(any_padding, offsetof(TVMFFIAny, zero_padding) == 4);
C7X_MODULE_ASSERT(any_value, offsetof(TVMFFIAny, v_int64) == 8);

/* ---- Objects of the C7x dialect (upstream TVM lays them out differently) ---- */

enum {
    C7X_TENSOR_RANK_MAX = 8,  /* dimensions that fit into the object itself */
    C7X_ARRAY_SIZE_MAX = 128, /* elements of an Array object */
    C7X_TENSOR_OWNS_DATA = 1  /* TVMDSPTensor.flags */
};

/* type_index kTVMDSPStorage: one block of device memory; tensors are views into it. */
typedef struct TVMDSPStorage {
    TVMDSPObject header;
    void *data;
    size_t size; /* bytes */
    DLDevice device;
    int32_t pool_id; /* TVMDSP_POOL_FAST or TVMDSP_POOL_MAIN */
} TVMDSPStorage;

/* type_index kTVMFFITensor. */
typedef struct TVMDSPTensor {
    TVMDSPObject header;
    DLTensor dl_tensor;
    int64_t shape_storage[C7X_TENSOR_RANK_MAX];
    int64_t strides_storage[C7X_TENSOR_RANK_MAX];
    uint32_t flags;
    uint32_t reserved;
    TVMDSPStorage *storage; /* counted reference, or NULL */
} TVMDSPTensor;

/* type_index kTVMFFIArray: a tuple. Holds a reference to each counted element. */
typedef struct TVMDSPArray {
    TVMDSPObject header;
    int32_t size;
    int32_t reserved;
    TVMFFIAny elements[C7X_ARRAY_SIZE_MAX];
} TVMDSPArray;

/* type_index kTVMFFIShape. */
typedef struct TVMDSPShape {
    TVMDSPObject header;
    int64_t *data;
    size_t size; /* dimensions */
    int64_t inline_data[C7X_TENSOR_RANK_MAX];
} TVMDSPShape;

/* type_index kTVMFFIStr. Not NUL-terminated. */
typedef struct TVMDSPString {
    TVMDSPObject header;
    const char *data;
    size_t size; /* bytes */
} TVMDSPString;

C7X_MODULE_ASSERT(storage_size, sizeof(TVMDSPStorage) == 48);
C7X_MODULE_ASSERT(storage_data, offsetof(TVMDSPStorage, data) == 16);
C7X_MODULE_ASSERT(storage_bytes, offsetof(TVMDSPStorage, size) == 24);
C7X_MODULE_ASSERT(storage_device, offsetof(TVMDSPStorage, device) == 32);
C7X_MODULE_ASSERT(storage_pool, offsetof(TVMDSPStorage, pool_id) == 40);
C7X_MODULE_ASSERT(tensor_size, sizeof(TVMDSPTensor) == 208);
C7X_MODULE_ASSERT(tensor_dl, offsetof(TVMDSPTensor, dl_tensor) == 16);
C7X_MODULE_ASSERT(tensor_shape, offsetof(TVMDSPTensor, shape_storage) == 64);
C7X_MODULE_ASSERT(tensor_strides, offsetof(TVMDSPTensor, strides_storage) == 128);
C7X_MODULE_ASSERT(tensor_flags, offsetof(TVMDSPTensor, flags) == 192);
C7X_MODULE_ASSERT(tensor_storage, offsetof(TVMDSPTensor, storage) == 200);
C7X_MODULE_ASSERT(array_size, sizeof(TVMDSPArray) == 2072);
C7X_MODULE_ASSERT(array_count, offsetof(TVMDSPArray, size) == 16);
C7X_MODULE_ASSERT(array_elements, offsetof(TVMDSPArray, elements) == 24);
C7X_MODULE_ASSERT(shape_size, sizeof(TVMDSPShape) == 96);
C7X_MODULE_ASSERT(shape_data, offsetof(TVMDSPShape, data) == 16);
C7X_MODULE_ASSERT(shape_count, offsetof(TVMDSPShape, size) == 24);
C7X_MODULE_ASSERT(shape_inline, offsetof(TVMDSPShape, inline_data) == 32);
C7X_MODULE_ASSERT(string_size, sizeof(TVMDSPString) == 32);
C7X_MODULE_ASSERT(string_data, offsetof(TVMDSPString, data) == 16);
C7X_MODULE_ASSERT(string_bytes, offsetof(TVMDSPString, size) == 24);

/* ---- Imports: TVM backend ---- */

typedef struct {
    void *sync_handle;
    int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *env, void *data);

/* 128-byte aligned; NULL when out of memory. dtype_code and dtype_bits are hints. */
void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t size, int dtype_code,
                               int dtype_bits);
int TVMBackendFreeWorkspace(int device_type, int device_id, void *workspace);
int TVMBackendGetFuncFromEnv(void *module, const char *name, void **out_function);
int TVMBackendGetFuncFromGlobalRegistry(const char *name, void **out_function);
int TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol);
/*
 * A parallel region: calls function(0 .. num_task - 1), each once, on as many threads as the device
 * has, as one critical section. num_task 0: as many tasks as threads; env->num_task says how many.
 * Tasks must not wait for one another, nor share what is not theirs; one that returns not 0 keeps
 * those after it from beginning, and the first such result is returned. Of a device with one
 * thread, and within a region, the tasks run in order.
 */
int TVMBackendParallelLaunch(FTVMParallelLambda function, void *data, int num_task);
/* Does nothing: tasks need not be under way at the same time. */
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *env);

/* ---- Imports: VM builtins, direct. Returned objects are new: the caller owns one reference. ----
 */

TVMDSPStorage *TVMDSPStorageAlloc(size_t size, DLDevice device, DLDataType hint);
TVMDSPTensor *TVMDSPStorageAllocNDArray(TVMDSPStorage *storage, int64_t offset,
                                        const int64_t *shape, int32_t ndim, DLDataType dtype);
TVMDSPStorage *TVMDSPBuiltinAllocStorage(int64_t size, int32_t device_index, DLDataType hint);
/* Takes a reference to the storage, dropped by the tensor's deleter. */
TVMDSPTensor *TVMDSPBuiltinAllocTensor(TVMDSPStorage *storage, int64_t offset, const int64_t *shape,
                                       int32_t ndim, DLDataType dtype);
TVMDSPTensor *TVMDSPBuiltinAllocShapeHeap(int64_t count);
/* codes: 0 immediate, 1 load heap[value]. */
TVMDSPShape *TVMDSPBuiltinMakeShape(TVMDSPTensor *heap, int32_t ndim, const int32_t *codes,
                                    const int64_t *values);
/* codes: 0 equals value, 1 store to heap[value], 2 skip, 3 equals heap[value]. 0 or -1. */
int TVMDSPBuiltinMatchShape(const TVMFFIAny *value, TVMDSPTensor *heap, int32_t ndim,
                            const int32_t *codes, const int64_t *values);
int TVMDSPBuiltinCheckTensorInfo(const TVMDSPTensor *tensor, int32_t ndim, DLDataType dtype);
int TVMDSPBuiltinCheckShapeInfo(const TVMDSPShape *shape, int32_t ndim);
void TVMDSPBuiltinNullValue(TVMFFIAny *out);
/* A view that holds no reference to its source: the caller keeps the source alive. */
TVMDSPTensor *TVMDSPBuiltinReshapeDirect(TVMDSPTensor *source, const int64_t *shape, int32_t ndim);
TVMDSPTensor *TVMDSPBuiltinMakeTupleDirect(TVMFFIAny *elements, int32_t count);

/* ---- Imports: VM builtins, packed. 0, -1, or -3 when out of memory. ---- */

int TVMDSPBuiltinAllocStoragePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinAllocTensorPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinAllocShapeHeapPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinMakeShapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinMatchShapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinCheckTensorInfoPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinNullValuePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinCopyPacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinMakeTuplePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);
int TVMDSPBuiltinReshapePacked(const TVMFFIAny *args, int32_t num_args, TVMFFIAny *result);

/* ---- Imports: register file and objects ---- */

/* Remembers the module's register file; the module has zeroed it. */
void TVMDSPRegFileInit(TVMFFIAny *file, int32_t count);
/* Stores *value with a reference of its own and drops the one that the register held. */
void TVMDSPRegSetAny(int32_t index, const TVMFFIAny *value);
int TVMDSPRegFileCleanup(void);
void TVMFFIObjectIncRef(void *object);
void TVMFFIObjectDecRef(void *object);
int TVMFFIObjectFree(void *object);
void TVMFFIAnyMove(TVMFFIAny *source, TVMFFIAny *destination);
void TVMFFIAnyCopy(const TVMFFIAny *source, TVMFFIAny *destination);
void TVMFFIAnyClear(TVMFFIAny *value);

/* ---- Imports: memory, cache, L2, constants, log ---- */

enum { TVMDSP_POOL_FAST = 0, TVMDSP_POOL_MAIN = 1 };

void *tvm_dsp_alloc(size_t size, size_t alignment, int pool);
void tvm_dsp_free(void *block);
size_t tvm_dsp_get_free_memory(int pool);
void tvm_dsp_cache_writeback(void *address, size_t size);
void tvm_dsp_cache_invalidate(void *address, size_t size);
void tvm_dsp_cache_writeback_invalidate(void *address, size_t size);
void tvm_dsp_log(const char *format, ...);
uint8_t *tvm_dsp_get_l2_base(void);
uint32_t tvm_dsp_get_l2_size(void);
int tvm_dsp_dma_copy(int queue, void *destination, const void *source, int size, int bypass_cache);
int tvm_dsp_dma_wait(int queue, int max_inflight);
TVMFFIAny *TVMDSPGetConstant(int index);
TVMFFIAny *TVMDSPGetAllConstants(int *out_count);
void CacheP_inv(void *address, uint32_t size, uint32_t type);
void CacheP_wb(void *address, uint32_t size, uint32_t type);
void CacheP_wbInv(void *address, uint32_t size, uint32_t type);
void DebugP_log(const char *format, ...);

/*
 * A critical section holds off a switch to another target, unless the manifest says "anywhere".
 * lock returns the depth before it, unlock restores that depth, so pairs nest. Its end is where the
 * module may be pre-empted, and where a cancelled call does not return from unlock.
 */
int32_t TVM_lockInterrupts(void);
void TVM_unlockInterrupts(int32_t cookie);
void TVM_cacheWbInv(void);
int32_t TVM_cacheWbInvRegion(void *address, uint32_t size);
void dsp_trace_msg(const char *text);

#if defined(__x86_64__) || defined(__aarch64__)
/*
 * Where output `index`, of `size` bytes, belongs in the caller's window: a module that computes it
 * there saves a copy. NULL: nowhere now, since the size is not the declared one, the window is too
 * small, or an input is in it. Valid until the entry returns. Native firmware alone has it.
 */
__attribute__((weak)) void *c7x_module_output(int32_t index, uint64_t size);
#endif

/* ---- Exports of a module ---- */

/*
 * The entry. inputs[i] is type kTVMFFITensor (compact, byte_offset 0); constants are in the order
 * of the weights blob, NULL without weights; *output becomes one tensor or an Array of tensors,
 * borrowed from the module's register file until the next call, cleanup or unload.
 * Returns 0; -1 on a wrong count or a failed operator; -3 out of memory. Not re-entrant.
 */
C7X_EXPORT int cg_main_dsp(TVMFFIAny *inputs, int num_inputs, TVMFFIAny *constants,
                           TVMFFIAny *output);

/* Optional: prints the times of the last call with printf. */
C7X_EXPORT void TVMPrintLayerProfile(void);

/* ---- The module file ---- */

/*
 * p_flags bit (in PF_MASKOS) of a native module's PT_LOAD that holds the weights alone: used in
 * place from the staged file bytes, reached through its symbols only, target of no relocation.
 */
#define C7X_PF_IN_PLACE 0x00100000u

#define C7X_IO_META_MAGIC 0x4D4F4954u /* bytes "TIOM" */
#define C7X_IO_META_VERSION 1u
#define C7X_IO_META_FLAG_EXACT 1u

/* _binary_tvm_dsp_io_meta_start. bytes = roundup64(80 * count) + sum of roundup64(each tensor). */
struct c7x_io_meta {
    uint32_t magic;
    uint32_t version;
    uint32_t num_inputs;
    uint32_t num_outputs;
    uint64_t input_bytes;
    uint64_t output_bytes;
    uint32_t flags;
    uint32_t reserved;
};

#define C7X_WEIGHTS_TENSOR_MAGIC 0xDD5E40F096B4A13Full
#define C7X_WEIGHTS_COUNT_MAX 4096u

#define C7X_MANIFEST_MAGIC 0x4D583743u /* bytes "C7XM" */
#define C7X_MANIFEST_MAJOR 1u
#define C7X_MANIFEST_MINOR 0u

/* _binary_c7x_manifest_start; record_count records follow. docs/modules.md has the payloads. */
struct c7x_manifest_header {
    uint32_t magic;
    uint16_t major;
    uint16_t minor;
    uint32_t total_bytes; /* header and all records */
    uint32_t record_count;
};

/* Each record: this, payload_bytes bytes, zero bytes up to a multiple of 8. */
struct c7x_manifest_record {
    uint32_t tag;
    uint32_t payload_bytes;
};

/* c7x_manifest_record.tag. Readers skip tags that they do not know. */
enum c7x_manifest_tag {
    C7X_MANIFEST_TOOLS = 1,
    C7X_MANIFEST_TARGET = 2,
    C7X_MANIFEST_CPU_FEATURES = 3,
    C7X_MANIFEST_WORKSPACE_BYTES = 4,
    C7X_MANIFEST_L2_BYTES = 5,
    C7X_MANIFEST_FAST_BYTES = 6,
    C7X_MANIFEST_INPUT = 7,
    C7X_MANIFEST_OUTPUT = 8,
    C7X_MANIFEST_OPERATOR = 9,
    C7X_MANIFEST_MODEL = 10,
    C7X_MANIFEST_CONSTANTS = 11,
    C7X_MANIFEST_PREEMPT =
        12, /* u32; 1: higher priorities may take the core inside of sections, too */
    /* An entry for processors that have more features: its symbol, NUL, the features. The last of
     * those that the processor can run is called instead of cg_main_dsp. */
    C7X_MANIFEST_VARIANT = 13
};

/* Payload of INPUT and OUTPUT: this, then i64 shape[ndim], then the name, NUL-terminated. */
struct c7x_manifest_tensor {
    uint8_t dtype_code; /* DLPack; bool is kDLBool, 8 bits */
    uint8_t dtype_bits;
    uint16_t lanes;
    uint32_t ndim;
};

C7X_MODULE_ASSERT(io_meta_size, sizeof(struct c7x_io_meta) == 40);
C7X_MODULE_ASSERT(io_meta_bytes, offsetof(struct c7x_io_meta, input_bytes) == 16);
C7X_MODULE_ASSERT(io_meta_flags, offsetof(struct c7x_io_meta, flags) == 32);
C7X_MODULE_ASSERT(manifest_header_size, sizeof(struct c7x_manifest_header) == 16);
C7X_MODULE_ASSERT(manifest_record_size, sizeof(struct c7x_manifest_record) == 8);
C7X_MODULE_ASSERT(manifest_tensor_size, sizeof(struct c7x_manifest_tensor) == 8);

#ifdef __cplusplus
}
#endif

#endif /* C7X_MODULE_H */

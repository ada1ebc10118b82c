/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device answers a client of version 3.0, situation by situation, on raw frames: status,
 * type, length and every field that the situation fills in. Where the first firmware was weak
 * (sizes unchecked, four inputs, loads that fail silently) ours is stricter, and the test says so.
 */
#include "service/steps.h"

#include "c7x_module.h"
#include "firmware/loader/elf64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STAGING_BYTES (22u << 20)
#define LARGE_BYTES (18u << 20) /* two of these do not fit the heap */
#define WINDOW_BYTES 16384u
#define SEQ 0xCAFE0001u

static struct c7x_test_loopback *device;
static struct c7x_host_link *link;
static struct c7x_buffer staging;
static struct c7x_buffer input;
static struct c7x_buffer output;
static struct c7x_buffer printed;
static struct c7x_test_reply reply;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    link = c7x_test_loopback_connect(device);
    staging = c7x_test_attach(link, STAGING_BYTES);
    assert_true(staging.dsp_address == C7X_WIRE_STAGING_ADDR);
    input = c7x_test_attach(link, WINDOW_BYTES);
    output = c7x_test_attach(link, WINDOW_BYTES);
    printed = c7x_test_attach(link, C7X_WIRE_PRINTF_SIZE);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_loopback_stop(device);
    return 0;
}

/* ---- Frames ------------------------------------------------------------------------------------
 */

static uint32_t get32(size_t offset)
{
    wire_u32 field;
    assert_true(offset + sizeof field <= reply.size);
    memcpy(&field, reply.bytes + offset, sizeof field);
    return wire_u32_get(field);
}

static uint64_t get64(size_t offset)
{
    return get32(offset) | (uint64_t)get32(offset + 4) << 32;
}

static void put32(uint8_t *frame, size_t offset, uint32_t value)
{
    wire_u32 field = wire_u32_put(value);
    memcpy(frame + offset, &field, sizeof field);
}

static void assert_zero(size_t offset, size_t end)
{
    assert_true(end <= reply.size);
    for (size_t i = offset; i < end; i++)
        assert_int_equal(reply.bytes[i], 0);
}

static void ask_bytes(uint8_t *frame, size_t size, uint32_t type, size_t reply_size, int32_t status)
{
    put32(frame, 4, SEQ);
    put32(frame, 8, (uint32_t)size);
    c7x_test_ask_bytes(link, frame, size, &reply);
    assert_int_equal(reply.type, type);
    assert_int_equal(reply.seq, SEQ);
    assert_int_equal(reply.size, reply_size);
    assert_int_equal(reply.status, status);
}

static void ask(const struct c7x_request *request, uint32_t type, size_t reply_size, int32_t status)
{
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    size_t size = c7x_wire_encode_request(request, frame);
    ask_bytes(frame, size, type, reply_size, status);
}

static void load(uint32_t type, uint32_t size, int32_t status)
{
    struct c7x_request request = {.type = type, .body.load = {.size = size}};
    ask(&request, C7X_MSG_RESPONSE | type, type == C7X_MSG_DYN_LOAD ? 68 : 36, status);
}

static uint32_t load_module(const char *name)
{
    load(C7X_MSG_DYN_LOAD, c7x_steps_read_module(name, staging.pointer, staging.size), C7X_OK);
    assert_int_not_equal(get32(16), 0);
    assert_zero(20, 40);
    return get32(16);
}

static struct c7x_request infer_of(uint32_t type, uint32_t handle, uint32_t input_count)
{
    struct c7x_request request = {.type = type};
    request.body.infer = (struct c7x_wire_infer){.module_handle = handle,
                                                 .num_inputs = input_count,
                                                 .input_dsp_addr = input.dsp_address,
                                                 .input_size = input.size,
                                                 .result_dsp_addr = output.dsp_address,
                                                 .result_size = output.size};
    if (type == C7X_MSG_INFER_LARGE)
        request.body.infer.descs_addr = input.dsp_address;
    for (uint32_t i = 0; i < input_count && i < C7X_WIRE_INLINE_INPUTS_MAX; i++)
        request.body.infer.inputs[i] = c7x_steps_floats(input.dsp_address + 12288 + 64 * i, 4);
    return request;
}

/* An inference that comes to nothing: everything behind the status is zero but return_value. */
static void refuse_infer(const struct c7x_request *request, int32_t status)
{
    ask(request, 0x1021, 148, status);
    assert_int_equal((int32_t)get32(16), request->type == C7X_MSG_INFER_LARGE ? -1 : 0);
    assert_zero(20, 148);
}

/* ---- Frames that cannot be read ----------------------------------------------------------------
 */

static void unknown_types_are_answered_with_a_header(void **state)
{
    (void)state;
    static const uint32_t types[] = {0, 2, 0x11, 0x13, 0x24, 0x31, 0x49, 0xFFF, 0x1001, 0x80000000};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint8_t frame[64] = {0};
        put32(frame, 0, types[i]);
        ask_bytes(frame, 16, C7X_MSG_RESPONSE | types[i], 16, C7X_INVALID);
        ask_bytes(frame, 64, C7X_MSG_RESPONSE | types[i], 16, C7X_INVALID);
    }
}

/* To a 3.0 client they are unknown types. */
static void messages_of_3_1_are_unknown_in_a_session_of_3_0(void **state)
{
    (void)state;
    for (int has_session = 0; has_session < 2; has_session++) {
        for (uint32_t type = C7X_MSG_SESSION_CLOSE; type <= C7X_MSG_KV_BIND; type++) {
            uint8_t frame[48] = {0};
            put32(frame, 0, type);
            if (type == C7X_MSG_LIST)
                put32(frame, 16, C7X_WIRE_LIST_POOLS);
            ask_bytes(frame, 48, C7X_MSG_RESPONSE | type, 16, C7X_INVALID);
        }
        load(C7X_MSG_DYN_LOAD, 0, C7X_SIZE); /* refused, and no session yet */
        struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = 1};
        ask(&unload, 0x1012, 16, C7X_HANDLE); /* the first request makes the session */
    }
}

static void short_messages_are_answered_with_a_header(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        size_t size;
    } messages[] = {{0x10, 32}, {0x12, 20}, {0x20, 32}, {0x21, 144},
                    {0x22, 20}, {0x23, 80}, {0x30, 32}};
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++)
        for (size_t size = 16; size < messages[i].size; size++) {
            uint8_t frame[144] = {0};
            put32(frame, 0, messages[i].type);
            ask_bytes(frame, size, C7X_MSG_RESPONSE | messages[i].type, 16, C7X_INVALID);
        }
}

static void less_than_a_header_gets_no_reply(void **state)
{
    (void)state;
    const uint8_t frame[15] = {1};
    for (size_t size = 1; size < sizeof frame; size++)
        c7x_test_send(link, frame, size);
    c7x_test_ping(link); /* and nothing stands before its answer */
}

/* ---- Loads -------------------------------------------------------------------------------------
 */

static void sizes_of_loads(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, C7X_WIRE_STAGING_SIZE + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        load(C7X_MSG_DYN_LOAD, sizes[i], C7X_SIZE);
        assert_zero(16, 68);
        load(C7X_MSG_MODEL_LOAD, sizes[i], C7X_SIZE);
        assert_zero(16, 36);
    }
}

static void bytes_that_are_no_module_or_weights(void **state)
{
    (void)state;
    memset(staging.pointer, 0xFF, 4096);
    load(C7X_MSG_DYN_LOAD, 4096, C7X_LOAD);
    assert_zero(16, 68);
    load(C7X_MSG_MODEL_LOAD, 4096, C7X_WEIGHTS);
    assert_zero(16, 36);
}

/* Stricter: the first firmware loaded it, and told when it was called. */
static void a_module_without_entry_or_with_a_missing_import(void **state)
{
    (void)state;
    load(C7X_MSG_DYN_LOAD, c7x_steps_read_module("no_entry", staging.pointer, staging.size),
         C7X_SYMBOL);
    load(C7X_MSG_DYN_LOAD, c7x_steps_read_module("needs_missing", staging.pointer, staging.size),
         C7X_SYMBOL);
    assert_int_equal(c7x_test_loopback_module_count(device), 0);
}

static void unknown_handles(void **state)
{
    (void)state;
    struct c7x_request request = {.type = C7X_MSG_DYN_UNLOAD};
    for (uint32_t handle = 0; handle < 3; handle++) {
        request.body.handle = handle;
        request.type = C7X_MSG_DYN_UNLOAD;
        ask(&request, 0x1012, 16, C7X_HANDLE);
        request.type = C7X_MSG_MODEL_UNLOAD;
        ask(&request, 0x1022, 16, C7X_HANDLE);
    }
}

/* The staged module's program header of the segment with this flag. */
static struct c7x_elf_segment *segment_with(uint32_t flag)
{
    struct c7x_elf_header header;
    memcpy(&header, staging.pointer, sizeof header);
    for (uint32_t i = 0; i < header.phnum; i++) {
        struct c7x_elf_segment *segment =
            (struct c7x_elf_segment *)(void *)((uint8_t *)staging.pointer + header.phoff +
                                               i * sizeof *segment);
        if (segment->type == C7X_ELF_PT_LOAD && (segment->flags & flag) != 0)
            return segment;
    }
    fail_msg("no such segment");
    return NULL;
}

/* Loads "prints" with a data segment of `size` bytes. */
static void load_with_data(uint64_t size, int32_t status)
{
    uint32_t file_size = c7x_steps_read_module("prints", staging.pointer, staging.size);
    segment_with(C7X_ELF_PF_W)->memsz = size;
    load(C7X_MSG_DYN_LOAD, file_size, status);
}

static void a_module_that_does_not_fit_the_heap(void **state)
{
    (void)state;
    struct c7x_heap_statistics heap;
    load_with_data((uint64_t)64 << 20, C7X_NOMEM);
    c7x_test_loopback_heap(device, &heap);
    assert_zero(16, 28);
    assert_true(get32(28) >= 64u << 20 && get32(28) < 65u << 20);
    assert_true(get32(32) > 0 && get32(32) < heap.total);
    assert_int_equal(get32(36), heap.total);
    assert_zero(40, 68);
}

/* More than a small module takes besides its data, whose segments keep their distance
 * (docs/modules.md), and no more than 64 KiB more. */
#if defined(__aarch64__)
#define MODULE_BYTES (3u * 65536u)
#else
#define MODULE_BYTES 65536u
#endif

/* 4096 numbers: more objects than the room that is left. */
static uint32_t stage_many_constants(void)
{
    uint8_t *at = staging.pointer;
    const uint64_t count = 4096;
    const int32_t type = kTVMFFIInt;
    memset(at, 1, 8 + count * 12);
    memcpy(at, &count, 8);
    for (uint64_t i = 0; i < count; i++)
        memcpy(at + 8 + i * 12, &type, 4);
    return (uint32_t)(8 + count * 12);
}

static void weights_that_do_not_fit_the_heap(void **state)
{
    (void)state;
    struct c7x_heap_statistics heap;
    c7x_test_loopback_heap(device, &heap);
    load_with_data(heap.largest - MODULE_BYTES, C7X_OK);
    load(C7X_MSG_MODEL_LOAD, stage_many_constants(), C7X_NOMEM);
    assert_zero(16, 24);
    assert_int_not_equal(get32(24), 0);
    assert_true(get32(28) < 65536);
    assert_int_equal(get32(32), heap.total);
}

static void full_tables(void **state)
{
    (void)state;
    uint32_t size = c7x_steps_read_module("prints", staging.pointer, staging.size);
    for (uint32_t i = 1; i <= C7X_WIRE_SESSION_MODULES_MAX; i++) {
        load(C7X_MSG_DYN_LOAD, size, C7X_OK);
        assert_int_equal(get32(16), i); /* handles count up from 1 */
    }
    load(C7X_MSG_DYN_LOAD, size, C7X_LOAD);
    assert_zero(16, 68);
    memset(staging.pointer, 0, 8); /* weights without constants */
    for (uint32_t i = 1; i <= C7X_WIRE_SESSION_MODELS_MAX; i++)
        load(C7X_MSG_MODEL_LOAD, 8, C7X_OK);
    load(C7X_MSG_MODEL_LOAD, 8, C7X_WEIGHTS);
    assert_zero(16, 36);
}

/* ---- The staging is overwritten ----------------------------------------------------------------
 */

/* "add_one" with weights of LARGE_BYTES, of which it uses the first few. */
static uint32_t stage_large_module(void)
{
    (void)c7x_steps_read_module("add_one", staging.pointer, staging.size);
    struct c7x_elf_segment *weights = segment_with(C7X_PF_IN_PLACE);
    weights->filesz = weights->memsz = LARGE_BYTES;
    return (uint32_t)(weights->offset + LARGE_BYTES);
}

static void add_one(uint32_t handle, uint32_t model, int32_t status)
{
    struct c7x_request request = infer_of(C7X_MSG_INFER, handle, 1);
    float *numbers = (float *)(void *)((uint8_t *)input.pointer + 12288);
    request.body.infer.model_id = model;
    for (int i = 0; i < 4; i++)
        numbers[i] = (float)i;
    ask(&request, 0x1021, 148, status);
    for (int i = 0; status == C7X_OK && i < 4; i++)
        assert_true(((const float *)output.pointer)[i] == (float)i + 1);
}

static void what_was_copied_stays_and_what_was_not_is_gone(void **state)
{
    (void)state;
    load(C7X_MSG_DYN_LOAD, stage_large_module(), C7X_OK);
    uint32_t copied = get32(16);
    load(C7X_MSG_DYN_LOAD, stage_large_module(), C7X_OK); /* no room for another copy */
    uint32_t in_place = get32(16);
    add_one(copied, 0, C7X_OK);
    add_one(in_place, 0, C7X_OK);
    uint32_t third = load_module("add_one");
    add_one(third, 0, C7X_OK);
    add_one(in_place, 0, C7X_HANDLE);
    add_one(copied, 0, C7X_OK);
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = in_place};
    ask(&unload, 0x1012, 16, C7X_OK);
    ask(&unload, 0x1012, 16, C7X_HANDLE);
}

/* One tensor float32 [4] of ones and a tail of LARGE_BYTES in another. */
static uint32_t stage_large_model(void)
{
    static const struct {
        int64_t count;
        float value;
    } tensors[] = {{4, 1}, {LARGE_BYTES / 4, 0}};
    const uint64_t count = 2;
    uint8_t *at = staging.pointer;
    memset(at, 0, 4096);
    memcpy(at, &count, 8);
    at += 8;
    for (int t = 0; t < 2; t++) {
        const int32_t head[] = {kTVMFFITensor, 0, 0, 0, 0, kDLCPU, 0, 1};
        const uint64_t magic = C7X_WEIGHTS_TENSOR_MAGIC;
        const DLDataType type = {kDLFloat, 32, 1};
        const int64_t bytes = tensors[t].count * 4;
        memcpy(at, head, sizeof head);
        memcpy(at + 4, &magic, 8);
        memcpy(at + 32, &type, 4);
        memcpy(at + 36, &tensors[t].count, 8);
        memcpy(at + 44, &bytes, 8);
        at += 52;
        for (int64_t i = 0; i < tensors[t].count && i < 4; i++)
            memcpy(at + 4 * i, &tensors[t].value, 4);
        at += bytes;
    }
    return (uint32_t)(at - (uint8_t *)staging.pointer);
}

static void weights_that_lay_in_the_staging_are_gone_too(void **state)
{
    (void)state;
    uint32_t handle = load_module("no_weights");
    load(C7X_MSG_MODEL_LOAD, stage_large_model(), C7X_OK);
    uint32_t copied = get32(16);
    assert_int_equal(get32(20), 2);
    load(C7X_MSG_MODEL_LOAD, stage_large_model(), C7X_OK);
    uint32_t in_place = get32(16);
    add_one(handle, copied, C7X_OK);
    add_one(handle, in_place, C7X_OK);
    load(C7X_MSG_MODEL_LOAD, 3, C7X_WEIGHTS); /* what could not be loaded has overwritten it too */
    add_one(handle, in_place, C7X_HANDLE);
    add_one(handle, copied, C7X_OK);
    struct c7x_request unload = {.type = C7X_MSG_MODEL_UNLOAD, .body.handle = in_place};
    ask(&unload, 0x1022, 16, C7X_OK);
}

/* ---- Inference that is refused -----------------------------------------------------------------
 */

static void unknown_modules_and_models(void **state)
{
    (void)state;
    static const uint32_t types[] = {C7X_MSG_INFER, C7X_MSG_INFER_LARGE};
    uint32_t handle = load_module("add_one");
    for (int i = 0; i < 2; i++) {
        struct c7x_request request = infer_of(types[i], 0, 1);
        struct c7x_wire_tensor tensor = request.body.infer.inputs[0];
        c7x_wire_encode_tensor(&tensor, input.pointer);
        refuse_infer(&request, C7X_HANDLE);
        request.body.infer.module_handle = handle + 1;
        refuse_infer(&request, C7X_HANDLE);
        request.body.infer.module_handle = handle;
        request.body.infer.model_id = 5;
        refuse_infer(&request, C7X_HANDLE);
    }
}

static void counts_of_inline_inputs(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("kv"), 5);
    uint8_t frame[C7X_WIRE_FRAME_MAX];
    memset(input.pointer, 0, input.size);
    ask(&request, 0x1021, 468, C7X_OK); /* the first firmware took four */
    assert_int_equal(get32(28), 5);
    size_t size = c7x_wire_encode_request(&request, frame);
    assert_int_equal(size, 464);
    put32(frame, 24, 6);
    ask_bytes(frame, size, 0x1021, 148, C7X_TENSOR);
    assert_zero(16, 148);
    for (uint32_t count = 2; count <= 5; count++) {
        put32(frame, 24, count);
        ask_bytes(frame, 64 + 80 * (count - 1), 0x1021, 148, C7X_TENSOR);
    }
    put32(frame, 24, UINT32_MAX);
    ask_bytes(frame, size, 0x1021, 148, C7X_TENSOR);
}

static void inputs_outside_their_window(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("add_one"), 1);
    struct c7x_wire_tensor *tensor = &request.body.infer.inputs[0];
    const uint64_t wrong[] = {0, input.dsp_address - 4, input.dsp_address + input.size - 12,
                              output.dsp_address, UINT64_MAX - 8};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tensor->data_addr = wrong[i];
        refuse_infer(&request, C7X_TENSOR);
    }
    *tensor = c7x_steps_floats(input.dsp_address, 4);
    tensor->data_size = 12; /* stricter: sizes are compared with shapes */
    refuse_infer(&request, C7X_TENSOR);
    *tensor = c7x_steps_floats(input.dsp_address, 5); /* and shapes with the manifest */
    refuse_infer(&request, C7X_TENSOR);
    *tensor = c7x_steps_floats(input.dsp_address, 4);
    request.body.infer.input_size = 0; /* no window */
    refuse_infer(&request, C7X_TENSOR);
}

static void windows_outside_the_carveout(void **state)
{
    (void)state;
    static const struct {
        uint64_t address;
        uint64_t size;
    } wrong[] = {{0xBFFFFFFF, 4096},       {0xDFFFF001, 4096}, {0, 1},
                 {0xC0000000, UINT64_MAX}, {UINT64_MAX, 1},    {0xD0000000, 4096}};
    uint32_t handle = load_module("add_one");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct c7x_request request = infer_of(C7X_MSG_INFER, handle, 1);
        request.body.infer.input_dsp_addr = wrong[i].address;
        request.body.infer.input_size = wrong[i].size;
        refuse_infer(&request, C7X_ADDR);
        request = infer_of(C7X_MSG_INFER, handle, 1);
        request.body.infer.result_dsp_addr = wrong[i].address;
        request.body.infer.result_size = wrong[i].size;
        refuse_infer(&request, C7X_ADDR);
    }
}

static void descriptor_arrays(void **state)
{
    (void)state;
    uint32_t handle = load_module("add_one");
    struct c7x_request request = infer_of(C7X_MSG_INFER_LARGE, handle, 0);
    refuse_infer(&request, C7X_TENSOR);
    request.body.infer.num_inputs = 129;
    refuse_infer(&request, C7X_TENSOR);
    request = infer_of(C7X_MSG_INFER_LARGE, handle, 1);
    const uint64_t wrong[] = {input.dsp_address - 1, input.dsp_address + input.size - 79,
                              output.dsp_address, 0, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t frame[C7X_WIRE_FRAME_MAX];
        size_t size = c7x_wire_encode_request(&request, frame);
        wire_u64 address = wire_u64_put(wrong[i]);
        memcpy(frame + 32, &address, sizeof address);
        ask_bytes(frame, size, 0x1021, 148, C7X_ADDR);
        assert_int_equal((int32_t)get32(16), -1);
    }
    uint8_t frame[C7X_WIRE_FRAME_MAX]; /* stricter: its size is that of the inputs */
    size_t size = c7x_wire_encode_request(&request, frame);
    put32(frame, 40, 160);
    ask_bytes(frame, size, 0x1021, 148, C7X_TENSOR);
    struct c7x_wire_tensor tensor = c7x_steps_floats(input.dsp_address + 12288, 4);
    c7x_wire_encode_tensor(&tensor, input.pointer);
    ((uint8_t *)input.pointer)[16] = 7; /* rank 7 */
    refuse_infer(&request, C7X_TENSOR);
}

static void flags_of_3_1_are_not_assigned(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("add_one"), 1);
    for (uint32_t bit = 17; bit < 32; bit++) {
        request.body.infer.flags = 1u << bit;
        refuse_infer(&request, C7X_INVALID);
    }
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct c7x_request flagged = {.type = C7X_MSG_DYN_LOAD, .body.load = {8, 1u << bit, 0, 0}};
        ask(&flagged, 0x1010, 68, C7X_INVALID);
    }
}

/* ---- Inference that fails ----------------------------------------------------------------------
 */

static void an_entry_that_fails(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("fails"), 0);
    ask(&request, 0x1021, 148, C7X_CALL);
    assert_int_equal(get32(16), 5);
    assert_zero(28, 148);
    request = infer_of(C7X_MSG_INFER, load_module("aborts"), 0);
    ask(&request, 0x1021, 148, C7X_CALL);
    request = infer_of(C7X_MSG_INFER, load_module("hungry"), 0);
    ask(&request, 0x1021, 148, C7X_NOMEM);
    assert_int_equal((int32_t)get32(16), -1);
    assert_zero(28, 48);
    assert_int_equal(get32(48), UINT32_MAX); /* it asked for more than the field can say */
    assert_int_not_equal(get32(52), 0);
    assert_true(get32(56) >= get32(52));
    assert_zero(60, 148);
}

static void outputs_that_do_not_fit(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("big_output"), 0);
    ask(&request, 0x1021, 148, C7X_SIZE);
    assert_int_equal(get32(16), 0);
    assert_zero(28, 60);
    assert_int_equal(get64(60), 262144 * 4);
    assert_zero(68, 148);
    /* Stricter: what all of them need, and not only the first. */
    request = infer_of(C7X_MSG_INFER, load_module("many_outputs"), 0);
    request.body.infer.result_size = 64;
    ask(&request, 0x1021, 148, C7X_SIZE);
    assert_int_equal(get64(60), 7 * 64 + 7 * 80);
    request.body.infer.result_size = 0;
    ask(&request, 0x1021, 148, C7X_SIZE);
    assert_int_equal(get64(60), 7 * 64 + 7 * 80);
}

/* ---- Inference that succeeds -------------------------------------------------------------------
 */

static void an_output_stands_inline(void **state)
{
    (void)state;
    static const uint32_t types[] = {C7X_MSG_INFER, C7X_MSG_INFER_LARGE};
    uint32_t handle = load_module("add_one");
    assert_int_equal(get64(40), 128 + 64); /* a descriptor and a tensor, in steps of 64 */
    for (int i = 0; i < 2; i++) {
        struct c7x_request request = infer_of(types[i], handle, 1);
        struct c7x_wire_tensor tensor = request.body.infer.inputs[0];
        c7x_wire_encode_tensor(&tensor, input.pointer);
        ask(&request, 0x1021, 148, C7X_OK);
        assert_int_equal(get32(16), 0);
        assert_true(get64(20) != 0);
        assert_int_equal(get32(28), 1);
        assert_zero(32, 68);
        assert_int_equal(get64(68), output.dsp_address);
        assert_int_equal(get64(76), 16);
        assert_int_equal(get32(84), 1);
        assert_int_equal(get32(88), kDLFloat);
        assert_int_equal(get32(92), 32);
        assert_int_equal(get32(96), 0);
        assert_int_equal(get64(100), 4);
        assert_zero(108, 148);
    }
}

static void more_outputs_than_fit_a_frame_are_described_in_memory(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("many_outputs"), 0);
    ask(&request, 0x1021, 148, C7X_OK);
    assert_int_equal(get32(28), 7);
    assert_int_equal(get64(36), output.dsp_address + 7 * 64);
    assert_int_equal(get32(44), 7 * 80);
    assert_zero(48, 148);
    for (uint32_t i = 0; i < 7; i++) {
        struct c7x_wire_tensor tensor;
        int32_t value;
        const uint8_t *window = output.pointer;
        assert_int_equal(c7x_wire_decode_tensor(window + 7 * 64 + i * 80, &tensor), C7X_OK);
        assert_int_equal(tensor.data_addr, output.dsp_address + i * 64);
        assert_int_equal(tensor.reserved, i);
        memcpy(&value, window + i * 64, sizeof value);
        assert_int_equal(value, i);
    }
}

static void printed_text_stands_in_the_buffer(void **state)
{
    (void)state;
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("prints"), 0);
    assert_int_equal(c7x_test_name_buffer(link, printed.dsp_address, 32), C7X_OK);
    for (uint32_t repeat = 0; repeat < 4; repeat++) {
        uint32_t words[4];
        uint32_t times = repeat == 0 ? 1 : repeat;
        uint32_t fits = 6 * times < 16 ? 6 * times : 16;
        request.body.infer.flags = repeat;
        ask(&request, 0x1021, 148, C7X_OK);
        assert_int_equal(get32(32), fits);
        memcpy(words, printed.pointer, sizeof words);
        assert_int_equal(words[0], C7X_WIRE_PRINTF_MAGIC);
        assert_int_equal(words[1], fits);
        assert_int_equal(words[2], 16);
        assert_int_equal(words[3], 6 * times - fits); /* was reserved, and text cut in silence */
        assert_memory_equal((const uint8_t *)printed.pointer + 16, "hello\nhello\nhell", fits);
    }
}

static void printf_buffers(void **state)
{
    (void)state;
    assert_int_equal(c7x_test_name_buffer(link, printed.dsp_address, 16), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, printed.dsp_address, 0), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, 0xBFFFF000, 65536), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, 0xDFFFFFF0, 65536), C7X_ADDR);
    assert_int_equal(c7x_test_name_buffer(link, printed.dsp_address + 1, 17), C7X_OK);
}

static void outcomes_of_inferences_are_counted(void **state)
{
    (void)state;
    struct c7x_request status = {.type = C7X_MSG_GET_STATUS};
    struct c7x_request request = infer_of(C7X_MSG_INFER, load_module("fails"), 0);
    ask(&request, 0x1021, 148, C7X_CALL);
    request = infer_of(C7X_MSG_INFER, load_module("prints"), 0);
    ask(&request, 0x1021, 148, C7X_OK);
    ask(&request, 0x1021, 148, C7X_OK);
    request = infer_of(C7X_MSG_INFER, load_module("big_output"), 0);
    ask(&request, 0x1021, 148, C7X_SIZE);
    request.body.infer.module_handle = 0;
    ask(&request, 0x1021, 148, C7X_HANDLE); /* counts as neither */
    ask(&status, 0x1003, 32, C7X_OK);
    assert_int_equal(get32(16), C7X_WIRE_VERSION);
    assert_int_equal(get32(24), 2);
    assert_int_equal(get32(28), 2);
}

/* ---- Alone -------------------------------------------------------------------------------------
 */

static void a_client_of_3_0_has_the_device_to_itself(void **state)
{
    (void)state;
    struct c7x_request open = {.type = C7X_MSG_SESSION_OPEN};
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = 1};
    struct c7x_test_reply answer;
    struct c7x_host_link *other = c7x_test_loopback_connect(device);
    open.body.session_open.wire_version = C7X_WIRE_VERSION;
    (void)load_module("add_one");
    assert_int_equal(c7x_test_ask(other, &open, &answer), C7X_BUSY);
    assert_int_equal(answer.size, 56);
    assert_int_equal(c7x_test_ask(other, &unload, &answer), C7X_BUSY);
    c7x_test_ping(other);
    link->ops->close(link); /* what it held goes before the next one's requests run */
    link = other;
    (void)c7x_test_open_session(other);
}

static void a_client_of_3_0_waits_until_nobody_is_there(void **state)
{
    (void)state;
    struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = 1};
    struct c7x_request close = {.type = C7X_MSG_SESSION_CLOSE};
    struct c7x_test_reply answer;
    struct c7x_buffer staged;
    struct c7x_host_link *other = c7x_test_loopback_connect(device);
    (void)c7x_test_open_session(other);
    uint32_t kept = c7x_test_load(other, "add_one", C7X_WIRE_LOAD_KEEP, &staged);
    ask(&unload, 0x1012, 16, C7X_BUSY);
    assert_int_equal(c7x_test_ask(other, &close, &answer), C7X_OK);
    ask(&unload, 0x1012, 16, C7X_BUSY); /* the kept module */
    (void)c7x_test_open_session(other);
    assert_int_equal(c7x_test_unload(other, kept), C7X_OK);
    assert_int_equal(c7x_test_ask(other, &close, &answer), C7X_OK);
    ask(&unload, 0x1012, 16, C7X_HANDLE);
    other->ops->close(other);
}

/* The one before may still be ending when the next one's first request comes. */
static void U04_one_client_of_3_0_after_another(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        uint32_t handle = load_module("add_one");
        struct c7x_request request = infer_of(C7X_MSG_INFER, handle, 1);
        ask(&request, 0x1021, 148, C7X_OK);
        link->ops->close(link);
        link = c7x_test_loopback_connect(device);
        struct c7x_request unload = {.type = C7X_MSG_DYN_UNLOAD, .body.handle = handle};
        ask(&unload, 0x1012, 16, C7X_HANDLE);
        staging = c7x_test_attach(link, 1 << 20);
        assert_true(staging.dsp_address == C7X_WIRE_STAGING_ADDR);
        input = c7x_test_attach(link, WINDOW_BYTES);
        output = c7x_test_attach(link, WINDOW_BYTES);
    }
    assert_int_equal(c7x_test_loopback_module_count(device), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unknown_types_are_answered_with_a_header),
        TEST(messages_of_3_1_are_unknown_in_a_session_of_3_0),
        TEST(short_messages_are_answered_with_a_header),
        TEST(less_than_a_header_gets_no_reply),
        TEST(sizes_of_loads),
        TEST(bytes_that_are_no_module_or_weights),
        TEST(a_module_without_entry_or_with_a_missing_import),
        TEST(unknown_handles),
        TEST(a_module_that_does_not_fit_the_heap),
        TEST(weights_that_do_not_fit_the_heap),
        TEST(full_tables),
        TEST(what_was_copied_stays_and_what_was_not_is_gone),
        TEST(weights_that_lay_in_the_staging_are_gone_too),
        TEST(unknown_modules_and_models),
        TEST(counts_of_inline_inputs),
        TEST(inputs_outside_their_window),
        TEST(windows_outside_the_carveout),
        TEST(descriptor_arrays),
        TEST(flags_of_3_1_are_not_assigned),
        TEST(an_entry_that_fails),
        TEST(outputs_that_do_not_fit),
        TEST(an_output_stands_inline),
        TEST(more_outputs_than_fit_a_frame_are_described_in_memory),
        TEST(printed_text_stands_in_the_buffer),
        TEST(printf_buffers),
        TEST(outcomes_of_inferences_are_counted),
        TEST(a_client_of_3_0_has_the_device_to_itself),
        TEST(U04_one_client_of_3_0_after_another),
        TEST(a_client_of_3_0_waits_until_nobody_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

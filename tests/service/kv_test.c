/* SPDX-License-Identifier: Apache-2.0 */
/* Caches of decoders: regions that a 3.1 client binds, and the fixed one of a 3.0 client. */
#include "service/steps.h"
#include "support/device_kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SLOTS 4u
#define COUNT 16u /* floats of a slot */
#define SLOT_BYTES (COUNT * sizeof(float))
#define REGION_BYTES 4096u
#define X_COUNT 4u

/* ---- Version 3.1 -------------------------------------------------------------------------------
 */

static struct c7x_test_loopback *device;
static struct c7x_host_link *link;
static struct c7x_buffer input;
static struct c7x_buffer output;
static struct c7x_buffer regions; /* two of them */
static struct c7x_buffer staged;

static int start(void **state)
{
    (void)state;
    device = c7x_test_loopback_start();
    link = c7x_test_loopback_connect(device);
    (void)c7x_test_open_session(link);
    input = c7x_test_attach(link, 4096);
    output = c7x_test_attach(link, 4096);
    regions = c7x_test_attach(link, 2u * REGION_BYTES);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_loopback_stop(device);
    return 0;
}

static int32_t bind_at(uint32_t handle, uint64_t address, uint64_t size, uint32_t slot_count,
                       uint64_t slot_bytes)
{
    struct c7x_request request = {.type = C7X_MSG_KV_BIND};
    struct c7x_test_reply reply;
    request.body.kv_bind.module_handle = handle;
    request.body.kv_bind.address = address;
    request.body.kv_bind.size = size;
    request.body.kv_bind.slot_count = slot_count;
    request.body.kv_bind.slot_bytes = slot_bytes;
    return c7x_test_ask(link, &request, &reply);
}

static uint64_t region_address(uint32_t index)
{
    return regions.dsp_address + (uint64_t)index * REGION_BYTES;
}

static const float *cache_of(uint32_t region, uint32_t slot)
{
    return (const float *)regions.pointer + region * (REGION_BYTES / sizeof(float)) + slot * COUNT;
}

static int32_t bind(uint32_t handle, uint32_t index)
{
    return bind_at(handle, region_address(index), REGION_BYTES, SLOTS, SLOT_BYTES);
}

/* One step on x, x, x, x with the caches of the region. */
static int32_t step(uint32_t handle, uint32_t region, float x, uint32_t flags,
                    struct c7x_response *out_response)
{
    struct c7x_request request = {.type = C7X_MSG_INFER};
    struct c7x_wire_infer *infer = &request.body.infer;
    float *values = input.pointer;
    for (uint32_t i = 0; i < X_COUNT; i++)
        values[i] = x;
    *infer = (struct c7x_wire_infer){.module_handle = handle,
                                     .num_inputs = 1 + SLOTS,
                                     .flags = flags,
                                     .input_dsp_addr = input.dsp_address,
                                     .input_size = input.size,
                                     .result_dsp_addr = output.dsp_address,
                                     .result_size = output.size};
    infer->inputs[0] = c7x_steps_floats(input.dsp_address, X_COUNT);
    for (uint32_t i = 0; i < SLOTS; i++)
        infer->inputs[1 + i] = c7x_steps_floats(region_address(region) + i * SLOT_BYTES, COUNT);
    return c7x_test_ask_decoded(link, &request, out_response);
}

static void assert_caches(uint32_t region, float unit)
{
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        for (uint32_t i = 0; i < COUNT; i++)
            assert_true(cache_of(region, slot)[i] == unit * (float)(slot + 1));
}

static void two_decoders_keep_their_caches_apart(void **state)
{
    (void)state;
    struct c7x_response response;
    uint32_t first = c7x_test_load(link, "kv", 0, &staged);
    uint32_t second = c7x_test_load(link, "kv", 0, &staged);
    assert_int_equal(bind(first, 0), C7X_OK);
    assert_int_equal(bind(second, 1), C7X_OK);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(step(first, 0, 1, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_OK);
        assert_int_equal(response.body.infer.num_outputs, 1);
        assert_true(response.body.infer.outputs[0].data_addr == output.dsp_address);
        assert_int_equal(response.body.infer.outputs[0].data_size, X_COUNT * sizeof(float));
        assert_true(*(const float *)output.pointer == 1 + (float)i * (1 + 2 + 3 + 4));
        assert_int_equal(step(second, 1, 3, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_OK);
        assert_true(*(const float *)output.pointer == 3 + (float)i * 3 * (1 + 2 + 3 + 4));
        assert_caches(0, (float)(i + 1));
        assert_caches(1, (float)(i + 1) * 3);
    }
}

static void without_the_flag_all_outputs_go_to_the_window(void **state)
{
    (void)state;
    struct c7x_response response;
    uint32_t handle = c7x_test_load(link, "kv", 0, &staged);
    assert_int_equal(bind(handle, 0), C7X_OK);
    assert_int_equal(step(handle, 0, 2, 0, &response), C7X_OK);
    assert_int_equal(response.body.infer.num_outputs, 1 + SLOTS);
    assert_caches(0, 0);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct c7x_response response;
    uint32_t handle = c7x_test_load(link, "kv", 0, &staged);
    assert_int_equal(bind_at(handle, region_address(0), REGION_BYTES, SLOTS - 1, SLOT_BYTES),
                     C7X_OK);
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_SIZE);
    assert_int_equal(response.body.infer.result_required, 0);
    assert_int_equal(bind_at(handle, region_address(0), REGION_BYTES, SLOTS, SLOT_BYTES - 4),
                     C7X_OK);
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_SIZE);
    assert_int_equal(response.body.infer.num_outputs, 0);
    assert_int_equal(bind(handle, 0), C7X_OK);
    struct c7x_buffer whole = output;
    output.size = 12;
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_SIZE);
    assert_int_equal(response.body.infer.result_required, X_COUNT * sizeof(float));
    output = whole;
    assert_caches(0, 0);
}

static void a_cache_that_comes_back_at_another_place_is_refused(void **state)
{
    (void)state;
    struct c7x_response response;
    uint32_t handle = c7x_test_load(link, "swaps", 0, &staged);
    struct c7x_request request = {.type = C7X_MSG_INFER};
    struct c7x_wire_infer *infer = &request.body.infer;
    assert_int_equal(bind(handle, 0), C7X_OK);
    *infer = (struct c7x_wire_infer){.module_handle = handle,
                                     .num_inputs = 3,
                                     .flags = C7X_WIRE_INFER_KV_RESIDENT,
                                     .input_dsp_addr = input.dsp_address,
                                     .input_size = input.size,
                                     .result_dsp_addr = output.dsp_address,
                                     .result_size = output.size};
    infer->inputs[0] = c7x_steps_floats(input.dsp_address, X_COUNT);
    infer->inputs[1] = c7x_steps_floats(region_address(0), COUNT);
    infer->inputs[2] = c7x_steps_floats(region_address(0) + SLOT_BYTES, COUNT);
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_TENSOR);
    struct c7x_wire_tensor first = infer->inputs[1]; /* swapped twice, they are in their slots */
    infer->inputs[1] = infer->inputs[2];
    infer->inputs[2] = first;
    assert_int_equal(c7x_test_ask_decoded(link, &request, &response), C7X_OK);
}

static void a_region_is_used_only_while_it_is_bound(void **state)
{
    (void)state;
    struct c7x_response response;
    uint32_t handle = c7x_test_load(link, "kv", 0, &staged);
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_ADDR);
    assert_int_equal(step(handle, 0, 2, 0, &response), C7X_TENSOR);
    assert_int_equal(step(handle + 1, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_HANDLE);
    assert_int_equal(bind(handle, 0), C7X_OK);
    assert_int_equal(step(handle, 1, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_TENSOR);
    assert_int_equal(bind_at(handle, 0, 0, 0, 0), C7X_OK);
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_ADDR);
    assert_int_equal(bind_at(handle, 0, 0, 0, 0), C7X_OK);
}

static void a_region_stays_until_it_is_let_go_of(void **state)
{
    (void)state;
    struct c7x_response response;
    size_t buffers = c7x_test_loopback_buffer_count(device);
    uint32_t handle = c7x_test_load(link, "kv", 0, &staged);
    struct c7x_buffer region = c7x_test_attach(link, REGION_BYTES);
    assert_int_equal(bind_at(handle, region.dsp_address, REGION_BYTES, SLOTS, SLOT_BYTES), C7X_OK);
    link->ops->detach(link, &region);
    assert_int_equal(c7x_test_loopback_buffer_count(device), buffers + 2);
    assert_int_equal(bind(handle, 0), C7X_OK); /* another one in its place */
    assert_int_equal(c7x_test_loopback_buffer_count(device), buffers + 1);
    link->ops->detach(link, &regions);
    assert_int_equal(c7x_test_loopback_buffer_count(device), buffers + 1);
    assert_int_equal(step(handle, 0, 2, C7X_WIRE_INFER_KV_RESIDENT, &response), C7X_ADDR);
    assert_int_equal(c7x_test_unload(link, handle), C7X_OK);
    assert_int_equal(c7x_test_loopback_buffer_count(device), buffers);
}

static void what_cannot_be_bound_is_refused(void **state)
{
    (void)state;
    struct c7x_host_link *other = c7x_test_loopback_connect(device);
    struct c7x_buffer theirs;
    uint32_t handle = c7x_test_load(link, "kv", 0, &staged);
    uint32_t kept = c7x_test_load(link, "kv", C7X_WIRE_LOAD_KEEP, &staged);
    uint64_t address = region_address(0);
    (void)c7x_test_open_session(other);
    uint32_t foreign = c7x_test_load(other, "kv", 0, &theirs);
    assert_int_equal(bind(0, 0), C7X_HANDLE);
    assert_int_equal(bind(kept, 0), C7X_HANDLE);
    assert_int_equal(bind(foreign, 0), C7X_HANDLE);
    assert_int_equal(bind_at(handle, theirs.dsp_address, 4096, SLOTS, SLOT_BYTES), C7X_ADDR);
    assert_int_equal(bind_at(handle, address, 3u * REGION_BYTES, SLOTS, SLOT_BYTES), C7X_ADDR);
    assert_int_equal(bind_at(handle, address + 64, 1024, SLOTS, SLOT_BYTES), C7X_ADDR);
    assert_int_equal(bind_at(handle, 0x1000, 4096, SLOTS, SLOT_BYTES), C7X_ADDR);
    assert_int_equal(bind_at(handle, address, 4096, 0, SLOT_BYTES), C7X_SIZE);
    assert_int_equal(bind_at(handle, address, 4096, 65, SLOT_BYTES), C7X_SIZE);
    assert_int_equal(bind_at(handle, address, 4096, 2, UINT64_MAX), C7X_SIZE);
    assert_int_equal(bind_at(handle, address, 4096, 64, SLOT_BYTES), C7X_OK);
    other->ops->close(other);
}

/* ---- Version 3.0: the whole carve-out as its client lays it out
 * ----------------------------------
 */

#define STAGING_BYTES (480u << 20)
#define OLD_COUNT (C7X_WIRE_KV_SLOT_BYTES / sizeof(float))

static struct c7x_test_device *emulator;
static struct c7x_buffer whole;
static uint32_t decoder;

static int start_3_0(void **state)
{
    (void)state;
    emulator = c7x_test_kind_private_emulator.start();
    link = c7x_test_kind_private_emulator.connect(emulator);
    whole = c7x_test_attach(link, STAGING_BYTES);
    assert_true(whole.dsp_address == C7X_WIRE_STAGING_ADDR);
    input = c7x_test_attach(link, 1 << 20);
    output = c7x_test_attach(link, 1 << 20);
    struct c7x_request load = {.type = C7X_MSG_DYN_LOAD};
    struct c7x_response response;
    load.body.load.size = c7x_steps_read_module("kv", whole.pointer, 1 << 20);
    link->ops->sync_to_device(link, &whole, 0, 1 << 20);
    assert_int_equal(c7x_test_ask_decoded(link, &load, &response), C7X_OK);
    decoder = response.body.dyn_load.module_handle;
    return 0;
}

static int stop_3_0(void **state)
{
    (void)state;
    link->ops->close(link);
    c7x_test_kind_private_emulator.stop(emulator);
    return 0;
}

static const float *old_cache(uint32_t slot)
{
    return (const float *)whole.pointer + C7X_WIRE_STAGING_SIZE / sizeof(float) + slot * OLD_COUNT;
}

/* A step with this many caches of `count` floats each, at the fixed places. */
static int32_t old_step(uint32_t type, uint32_t cache_count, uint32_t count, float x,
                        struct c7x_response *out_response)
{
    struct c7x_request request = {.type = type};
    struct c7x_wire_infer *infer = &request.body.infer;
    uint64_t data = input.dsp_address + C7X_WIRE_INPUTS_MAX * sizeof(struct c7x_tensor_desc);
    ((float *)input.pointer)[(data - input.dsp_address) / sizeof(float)] = x;
    *infer =
        (struct c7x_wire_infer){.module_handle = decoder,
                                .num_inputs = 1 + cache_count,
                                .flags = C7X_WIRE_INFER_KV_RESIDENT,
                                .input_dsp_addr = input.dsp_address,
                                .input_size = input.size,
                                .result_dsp_addr = output.dsp_address,
                                .result_size = output.size,
                                .descs_addr = type == C7X_MSG_INFER_LARGE ? input.dsp_address : 0};
    for (uint32_t i = 0; i <= cache_count; i++) {
        struct c7x_wire_tensor tensor =
            i == 0 ? c7x_steps_floats(data, 1)
                   : c7x_steps_floats(C7X_WIRE_KV_ADDR + (uint64_t)(i - 1) * C7X_WIRE_KV_SLOT_BYTES,
                                      count);
        if (type == C7X_MSG_INFER_LARGE)
            c7x_wire_encode_tensor(&tensor,
                                   (uint8_t *)input.pointer + i * sizeof(struct c7x_tensor_desc));
        else
            infer->inputs[i] = tensor;
    }
    link->ops->sync_to_device(link, &input, 0, input.size);
    return c7x_test_ask_decoded(link, &request, out_response);
}

static void assert_old_caches(uint32_t slot_count, float unit)
{
    link->ops->sync_from_device(link, &whole, C7X_WIRE_STAGING_SIZE, C7X_WIRE_KV_SIZE);
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        assert_true(old_cache(slot)[0] == unit * (float)(slot + 1));
        assert_true(old_cache(slot)[OLD_COUNT - 1] == unit * (float)(slot + 1));
    }
}

static void sixty_slots_at_their_fixed_places(void **state)
{
    (void)state;
    struct c7x_response response;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            old_step(C7X_MSG_INFER_LARGE, C7X_WIRE_KV_SLOT_COUNT, OLD_COUNT, 1, &response), C7X_OK);
        assert_int_equal(response.body.infer.num_outputs, 1);
        assert_int_equal(response.body.infer.descs_addr, 0);
        link->ops->sync_from_device(link, &output, 0, output.size);
        assert_true(*(const float *)output.pointer == 1 + (float)i * 60 * 61 / 2);
        assert_old_caches(C7X_WIRE_KV_SLOT_COUNT, (float)(i + 1));
    }
    assert_true(old_cache(C7X_WIRE_KV_SLOT_COUNT)[0] == 0);
}

static void inline_inference_uses_the_slots_too(void **state)
{
    (void)state;
    struct c7x_response response;
    assert_int_equal(old_step(C7X_MSG_INFER, 4, OLD_COUNT, 2, &response), C7X_OK);
    assert_int_equal(response.body.infer.num_outputs, 1);
    assert_old_caches(4, 2);
}

static void overflow_is_size_and_never_cut(void **state)
{
    (void)state;
    struct c7x_response response;
    assert_int_equal(
        old_step(C7X_MSG_INFER_LARGE, C7X_WIRE_KV_SLOT_COUNT + 1, OLD_COUNT, 1, &response),
        C7X_SIZE);
    assert_int_equal(response.body.infer.return_value, 0);
    assert_int_equal(response.body.infer.result_required, 0);
    assert_int_equal(old_step(C7X_MSG_INFER, 2, OLD_COUNT + 1, 1, &response), C7X_SIZE);
    assert_old_caches(C7X_WIRE_KV_SLOT_COUNT, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
#define TEST_3_0(name) cmocka_unit_test_setup_teardown(name, start_3_0, stop_3_0)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_decoders_keep_their_caches_apart),
        TEST(without_the_flag_all_outputs_go_to_the_window),
        TEST(what_does_not_fit_changes_nothing),
        TEST(a_cache_that_comes_back_at_another_place_is_refused),
        TEST(a_region_is_used_only_while_it_is_bound),
        TEST(a_region_stays_until_it_is_let_go_of),
        TEST(what_cannot_be_bound_is_refused),
        TEST_3_0(sixty_slots_at_their_fixed_places),
        TEST_3_0(inline_inference_uses_the_slots_too),
        TEST_3_0(overflow_is_size_and_never_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

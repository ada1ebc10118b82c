/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/loopback_device.h"

#include "client/over.h"
#include "firmware/exports/exports.h"
#include "firmware/memory/memory.h"
#include "firmware/module/module.h"
#include "firmware/service/service.h"
#include "firmware/target/target.h"
#include "firmware/tvm/model.h"
#include "firmware/tvm/tvm.h"
#include "transport/loopback/loopback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { CARVEOUT, HEAP, L2, FAST, REGION_COUNT };

struct c7x_test_loopback {
    struct c7x_memory memory; /* first: the memory operations find the device by it */
    struct c7x_loopback *loopback;
    struct c7x_heap *heap;
    struct c7x_heap *fast_heap;
    struct c7x_module_table *modules;
    struct c7x_core core;
    struct c7x_os_task core_task;
    struct c7x_os_task stand_in;
    struct c7x_service *service;

    bool halted;
};

static const struct {
    c7x_dsp_addr base;
    uint64_t size;
} regions[REGION_COUNT] = {
    [CARVEOUT] = {C7X_MEMORY_CARVEOUT_BASE, C7X_TEST_LOOPBACK_ARENA_BYTES},
    [HEAP] = {C7X_MEMORY_HEAP_BASE, C7X_TEST_LOOPBACK_HEAP_BYTES},
    [L2] = {C7X_MEMORY_L2_BASE, C7X_MEMORY_L2_SIZE},
    [FAST] = {C7X_MEMORY_FAST_BASE, C7X_MEMORY_FAST_SIZE},
};

/* ---- The memory port --------------------------------------------------------------------------
 */

static struct c7x_buffer_table *buffers_of(struct c7x_memory *memory)
{
    return c7x_loopback_buffers(((struct c7x_test_loopback *)memory)->loopback);
}

static bool owns(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size)
{
    return c7x_buffer_table_owns(buffers_of(memory), endpoint, address, size);
}

static bool pin(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size)
{
    return c7x_buffer_table_pin(buffers_of(memory), endpoint, address, size);
}

static void unpin(struct c7x_memory *memory, c7x_dsp_addr address)
{
    c7x_buffer_table_unpin(buffers_of(memory), address);
}

static void visit_buffers(struct c7x_memory *memory, c7x_memory_visit_fn visit, void *context)
{
    c7x_buffer_table_visit(buffers_of(memory), visit, context);
}

static const struct c7x_memory_ops memory_ops = {
    .owns = owns,
    .pin = pin,
    .unpin = unpin,
    .visit_buffers = visit_buffers,
    .outlives_endpoints = true,
};

/* ---- Building ----------------------------------------------------------------------------------
 */

static void build_memory(struct c7x_test_loopback *device)
{
    struct c7x_memory_window *windows = device->memory.windows;
    assert_int_equal(c7x_loopback_create(regions[CARVEOUT].base, C7X_TEST_LOOPBACK_ARENA_BYTES,
                                         &device->loopback),
                     C7X_OK);
    for (int i = 0; i < REGION_COUNT; i++) {
        void *pointer = i == CARVEOUT ? c7x_loopback_arena(device->loopback)
                                      : mmap(NULL, regions[i].size, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_ptr_not_equal(pointer, MAP_FAILED);
        windows[i] = (struct c7x_memory_window){regions[i].base, regions[i].size, pointer};
    }
    device->memory.ops = &memory_ops;
    device->memory.window_count = REGION_COUNT;
    device->heap = c7x_heap_create(windows[HEAP].pointer, windows[HEAP].size, "DDR heap");
    device->fast_heap = c7x_heap_create(windows[FAST].pointer, windows[FAST].size, "fast pool");
    assert_non_null(device->heap);
    assert_non_null(device->fast_heap);
}

static void build_modules(struct c7x_test_loopback *device)
{
    const struct c7x_tvm_config tvm = {.heap = device->heap,
                                       .fast_heap = device->fast_heap,
                                       .l2 = device->memory.windows[L2].pointer,
                                       .l2_size = (uint32_t)C7X_MEMORY_L2_SIZE};
    const struct c7x_module_config modules = {device->heap, &c7x_exports, &c7x_tvm_kind,
                                              &device->memory};
    c7x_tvm_init(&tvm);
    assert_int_equal(c7x_module_table_create(&modules, &device->modules), C7X_OK);
}

static void stand_in(void *context)
{
    struct c7x_test_loopback *device = context;
    c7x_service_stand_in(device->service);
}

static void idle(void *context)
{
    struct c7x_test_loopback *device = context;
    c7x_service_idle(device->service);
}

static void wake(void *context)
{
    struct c7x_test_loopback *device = context;
    c7x_service_wake(device->service);
}

static void leave(void *context)
{
    struct c7x_test_loopback *device = context;
    c7x_service_leave(device->service);
}

static void expect(void *context, uint32_t endpoint)
{
    struct c7x_test_loopback *device = context;
    c7x_service_expect(device->service, endpoint);
}

static void run_core(void *context)
{
    c7x_core_run(context);
}

static void build_service(struct c7x_test_loopback *device, uint32_t lease_ms)
{
    const struct c7x_core_config core = {.number = 1,
                                         .stack_bytes = 1024 * 1024,
                                         .end_job = c7x_service_end_running,
                                         .end_stuck_section = c7x_service_end_stuck_section,
                                         .resume_job = c7x_service_resume_running,
                                         .idle = idle,
                                         .wake = wake,
                                         .leave = leave,
                                         .expect = expect,
                                         .idle_context = device};
    const struct c7x_service_config service = {
        .link = c7x_loopback_device(device->loopback),
        .memory = &device->memory,
        .heap = device->heap,
        .fast_heap = device->fast_heap,
        .modules = device->modules,
        .lease_ms = lease_ms,
        .core = &device->core,
    };
    assert_int_equal(c7x_core_init(&device->core, &core), C7X_OK);
    assert_int_equal(c7x_service_create(&service, &device->service), C7X_OK);
    assert_int_equal(c7x_os_task_create(&device->core_task, "core", 0, run_core, &device->core),
                     C7X_OK);
    assert_int_equal(c7x_os_task_create(&device->stand_in, "stand-in", 0, stand_in, device),
                     C7X_OK);
}

struct c7x_test_loopback *c7x_test_loopback_start(void)
{
    return c7x_test_loopback_start_with_lease(0);
}

struct c7x_test_loopback *c7x_test_loopback_start_with_lease(uint32_t lease_ms)
{
    struct c7x_test_loopback *device = calloc(1, sizeof *device);
    assert_non_null(device);
    build_memory(device);
    build_modules(device);
    build_service(device, lease_ms);
    return device;
}

void c7x_test_loopback_halt(struct c7x_test_loopback *device)
{
    if (device->halted)
        return;
    device->halted = true;
    c7x_loopback_stop(device->loopback);
    c7x_os_task_join(&device->core_task);
    c7x_os_task_join(&device->stand_in);
    c7x_core_deinit(&device->core);
}

void c7x_test_loopback_stop(struct c7x_test_loopback *device)
{
    struct c7x_heap_statistics left;
    c7x_test_loopback_halt(device);
    c7x_service_destroy(device->service);
    c7x_module_table_destroy(device->modules);
    c7x_tvm_model_unload_all();
    c7x_tvm_release_workspaces();
    c7x_heap_get_statistics(device->heap, &left);
    c7x_heap_destroy(device->fast_heap);
    c7x_heap_destroy(device->heap);
    for (int i = HEAP; i < REGION_COUNT; i++)
        munmap(device->memory.windows[i].pointer, device->memory.windows[i].size);
    c7x_loopback_destroy(device->loopback);
    free(device);
    assert_int_equal(left.block_count, 0);
}

/* ---- Using --------------------------------------------------------------------------------------
 */

struct c7x_host_link *c7x_test_loopback_connect(struct c7x_test_loopback *device)
{
    struct c7x_host_link *link = NULL;
    assert_int_equal(c7x_loopback_connect(device->loopback, &link), C7X_OK);
    return link;
}

struct c7x_client *c7x_test_loopback_open(struct c7x_test_loopback *device,
                                          const struct c7x_client_options *options)
{
    struct c7x_client *client = NULL;
    if (c7x_client_open_over(c7x_test_loopback_connect(device), options, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    return client;
}

static struct c7x_heap *heap_of(const struct c7x_test_loopback *device, enum c7x_test_pool pool)
{
    return pool == C7X_TEST_POOL_MAIN ? device->heap : device->fast_heap;
}

void c7x_test_loopback_pool(const struct c7x_test_loopback *device, enum c7x_test_pool pool,
                            struct c7x_heap_statistics *out_statistics)
{
    c7x_heap_get_statistics(heap_of(device, pool), out_statistics);
}

void c7x_test_loopback_heap(const struct c7x_test_loopback *device,
                            struct c7x_heap_statistics *out_statistics)
{
    c7x_test_loopback_pool(device, C7X_TEST_POOL_MAIN, out_statistics);
}

uint64_t c7x_test_loopback_fail_allocation(struct c7x_test_loopback *device,
                                           enum c7x_test_pool pool, uint64_t nth)
{
    return c7x_heap_fail_allocation(heap_of(device, pool), nth);
}

uint32_t c7x_test_loopback_module_count(const struct c7x_test_loopback *device)
{
    return c7x_module_count(device->modules);
}

uint32_t c7x_test_loopback_model_count(const struct c7x_test_loopback *device)
{
    (void)device;
    return c7x_tvm_model_count();
}

size_t c7x_test_loopback_buffer_count(struct c7x_test_loopback *device)
{
    struct c7x_buffer_table *table = buffers_of(&device->memory);
    c7x_os_mutex_lock(&table->lock);
    size_t count = table->count;
    c7x_os_mutex_unlock(&table->lock);
    return count;
}

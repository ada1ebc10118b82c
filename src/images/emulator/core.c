/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "core.h"

#include "base/log.h"
#include "firmware/exports/exports.h"
#include "firmware/memory/heap.h"
#include "firmware/memory/memory.h"
#include "firmware/module/module.h"
#include "firmware/service/service.h"
#include "firmware/target/target.h"
#include "firmware/tvm/model.h"
#include "firmware/tvm/tvm.h"
#include "transport/emulator/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STATION "core"
#define STACK_BYTES ((size_t)1 << 20) /* of each target */

/* The regions of the DSP's map that the emulator has, each somewhere in our address space. */
static const struct region {
    c7x_dsp_addr base;
    uint64_t size;
    int protection; /* the carve-out has no pages until buffers are attached */
} regions[] = {
    {C7X_MEMORY_CARVEOUT_BASE, C7X_MEMORY_CARVEOUT_SIZE, PROT_NONE},
    {C7X_MEMORY_HEAP_BASE, C7X_MEMORY_HEAP_SIZE, PROT_READ | PROT_WRITE},
    {C7X_MEMORY_L2_BASE, C7X_MEMORY_L2_SIZE, PROT_READ | PROT_WRITE},
    {C7X_MEMORY_FAST_BASE, C7X_MEMORY_FAST_SIZE, PROT_READ | PROT_WRITE},
};
enum { CARVEOUT, HEAP, L2, FAST, REGION_COUNT };

/* The firmware and what it stands on. One core is one process, so there is one. */
static struct {
    struct c7x_memory memory;
    struct c7x_device_link *link;
    struct c7x_heap *heap;
    struct c7x_heap *fast_heap;
    struct c7x_module_table *modules;
    struct c7x_core core;
    struct c7x_os_task stand_in; /* has the receiving role while the core is busy */
    struct c7x_service *service;
} core;

/* ---- The memory port: the emulator knows who owns which buffer ---- */

static bool owns(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size)
{
    (void)memory;
    return c7x_buffer_table_owns(c7x_emulator_device_buffers(core.link), endpoint, address, size);
}

static bool pin(struct c7x_memory *memory, uint32_t endpoint, c7x_dsp_addr address, uint64_t size)
{
    (void)memory;
    return c7x_buffer_table_pin(c7x_emulator_device_buffers(core.link), endpoint, address, size);
}

static void unpin(struct c7x_memory *memory, c7x_dsp_addr address)
{
    (void)memory;
    c7x_buffer_table_unpin(c7x_emulator_device_buffers(core.link), address);
}

static void visit_buffers(struct c7x_memory *memory, c7x_memory_visit_fn visit, void *context)
{
    (void)memory;
    c7x_buffer_table_visit(c7x_emulator_device_buffers(core.link), visit, context);
}

static const struct c7x_memory_ops memory_ops = {
    .owns = owns,
    .pin = pin,
    .unpin = unpin,
    .visit_buffers = visit_buffers,
    .outlives_endpoints = true,
};

/* ---- The log: trace0 ---- */

static struct c7x_log_memory *log_memory;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

/* Clients read while we write; they see whole bytes up to `written`. */
static void write_log(const char *line, size_t length)
{
    pthread_mutex_lock(&log_lock);
    uint64_t written = log_memory->written;
    for (size_t i = 0; i < length; i++)
        log_memory->text[(written + i) % sizeof log_memory->text] = line[i];
    log_memory->written = written + length;
    pthread_mutex_unlock(&log_lock);
}

/* ---- Building the firmware ---- */

static bool map_regions(void)
{
    for (int i = 0; i < REGION_COUNT; i++) {
        void *pointer = mmap(NULL, regions[i].size, regions[i].protection,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pointer == MAP_FAILED)
            return false;
        core.memory.windows[i] =
            (struct c7x_memory_window){regions[i].base, regions[i].size, pointer};
    }
    core.memory.ops = &memory_ops;
    core.memory.window_count = REGION_COUNT;
    return true;
}

static bool build_memory(int control, bool strict)
{
    const struct c7x_memory_window *windows = core.memory.windows;
    if (!map_regions())
        return false;
    core.heap = c7x_heap_create(windows[HEAP].pointer, windows[HEAP].size, "DDR heap");
    core.fast_heap = c7x_heap_create(windows[FAST].pointer, windows[FAST].size, "fast pool");
    return core.heap != NULL && core.fast_heap != NULL &&
           c7x_emulator_device_create(control, windows[CARVEOUT].pointer, windows[CARVEOUT].base,
                                      windows[CARVEOUT].size, strict, &core.link) == C7X_OK;
}

static enum c7x_status build_modules(const struct c7x_emulator_core_settings *settings)
{
    struct c7x_tvm_config tvm = {
        .heap = core.heap,
        .fast_heap = core.fast_heap,
        .l2 = core.memory.windows[L2].pointer,
        .l2_size = (uint32_t)core.memory.windows[L2].size,
        .guard = settings->guard,
        .threads = settings->threads,
        .catch_fault = c7x_service_catch_fault,
    };
    struct c7x_module_config modules = {
        .heap = core.heap, .exports = &c7x_exports, .kind = &c7x_tvm_kind, .memory = &core.memory};
    c7x_tvm_init(&tvm);
    return c7x_module_table_create(&modules, &core.modules);
}

static void stand_in(void *context)
{
    c7x_service_stand_in(context);
}

/* The service needs the core first. */
static void idle(void *context)
{
    (void)context;
    c7x_service_idle(core.service);
}

static void wake(void *context)
{
    (void)context;
    c7x_service_wake(core.service);
}

static void leave(void *context)
{
    (void)context;
    c7x_service_leave(core.service);
}

static void expect(void *context, uint32_t endpoint)
{
    (void)context;
    c7x_service_expect(core.service, endpoint);
}

static enum c7x_status build_service(const struct c7x_emulator_core_settings *settings)
{
    const struct c7x_core_config targets = {
        .number = settings->number,
        .stack_bytes = STACK_BYTES,
        .watchdog_ns = settings->watchdog_ns,
        .end_job = c7x_service_end_running,
        .end_stuck_section = c7x_service_end_stuck_section,
        .resume_job = c7x_service_resume_running,
        .idle = idle,
        .wake = wake,
        .leave = leave,
        .expect = expect,
    };
    C7X_RETURN_IF_ERROR(c7x_core_init(&core.core, &targets));
    struct c7x_service_config service = {.link = core.link,
                                         .memory = &core.memory,
                                         .heap = core.heap,
                                         .fast_heap = core.fast_heap,
                                         .modules = core.modules,
                                         .core = &core.core};
    C7X_RETURN_IF_ERROR(c7x_service_create(&service, &core.service));
    return c7x_os_task_create(&core.stand_in, "c7x_stand_in", 0, stand_in, core.service);
}

static void log_what_is_left(void)
{
    struct c7x_heap_statistics heap;
    c7x_heap_get_statistics(core.heap, &heap);
    if (heap.block_count != 0)
        c7x_log(STATION, "%u heap blocks are left at the end", heap.block_count);
}

int c7x_emulator_core_run(int control, struct c7x_log_memory *log,
                          const struct c7x_emulator_core_settings *settings)
{
    log_memory = log;
    c7x_log_set_sink(write_log);
    if (!build_memory(control, settings->strict) || build_modules(settings) != C7X_OK ||
        build_service(settings) != C7X_OK) {
        fprintf(stderr, "c7x_emulator: core: cannot map or build the DSP's memory\n");
        return 1;
    }
    if (c7x_os_catch_faults(c7x_service_catch_fault) != C7X_OK)
        c7x_log(STATION, "faults of modules cannot be caught; they end the core");
    c7x_log(STATION, "C7x emulator serves, core %u; wire 3.1", settings->number);
    if (settings->threads > 1)
        c7x_log(STATION, "parallel regions run on %u threads", settings->threads);
    c7x_emulator_device_ready(core.link);
    c7x_core_run(&core.core);
    c7x_os_task_join(&core.stand_in);
    c7x_core_deinit(&core.core);
    c7x_service_destroy(core.service);
    c7x_module_table_destroy(core.modules);
    c7x_tvm_model_unload_all();
    c7x_tvm_deinit();
    log_what_is_left();
    c7x_heap_destroy(core.fast_heap);
    c7x_heap_destroy(core.heap);
    c7x_emulator_device_destroy(core.link);
    return 0;
}

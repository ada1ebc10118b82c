/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LIST and OPERATORS. Each part of an answer is taken under the lock of whoever owns it, so it is
 * of one moment; between two requests the device goes on. Nothing here waits for a target.
 */
#include "firmware/service/service_impl.h"

#include "firmware/tvm/model.h"

#include <string.h>

/* Entries of the smallest kind that fit a frame. */
#define PAGE_ENTRIES_MAX (C7X_WIRE_LIST_BYTES_MAX / sizeof(struct c7x_list_block))

/* The part of a list that one frame shows. */
struct page {
    uint32_t first; /* of the whole list */
    uint32_t capacity;
    uint32_t count;
    uint32_t total; /* entries that have passed by */
    size_t entry_size;
    uint8_t *entries;
};

/* Where the next entry of the list goes, or NULL when it is not on this page. */
static void *next_entry(struct page *page)
{
    uint32_t index = page->total++;
    if (index < page->first || page->count == page->capacity)
        return NULL;
    return page->entries + page->count++ * page->entry_size;
}

/* For a part of the list that is listed by number: the first one wanted, and how many. */
static uint32_t part_first(const struct page *page)
{
    return page->first > page->total ? page->first - page->total : 0;
}

static uint32_t part_capacity(const struct page *page)
{
    return page->capacity - page->count;
}

static void put_name(uint8_t *out, size_t size, const char *name)
{
    size_t length = strlen(name);
    memset(out, 0, size);
    memcpy(out, name, length < size ? length : size - 1);
}

/* ---- Sessions and targets ---- */

static void list_sessions(struct c7x_service *service, struct page *page)
{
    c7x_os_mutex_lock(&service->lock);
    for (const struct c7x_session *session = service->sessions; session != NULL;
         session = session->next) {
        struct c7x_list_session *entry = next_entry(page);
        uint32_t running = 0;
        if (entry == NULL)
            continue;
        for (const struct c7x_service_job *job = session->jobs; job != NULL; job = job->next)
            running += job->is_running;
        *entry = (struct c7x_list_session){
            .number = wire_u32_put(session->number),
            .endpoint = wire_u32_put(session->endpoint),
            .process = wire_u32_put(session->process),
            .wire_version = wire_u32_put(session->version),
            .module_count =
                wire_u32_put(c7x_module_session_count(service->config.modules, session->number)),
            .model_count = wire_u32_put(c7x_tvm_model_session_count(session->number)),
            .queued = wire_u32_put(session->waiting_count),
            .running = wire_u32_put(running),
        };
        put_name(entry->name, sizeof entry->name, session->name);
    }
    c7x_os_mutex_unlock(&service->lock);
}

/* The job that runs at the target, or NULL. Call with the service locked. */
static const struct c7x_service_job *running_job(const struct c7x_service *service,
                                                 enum c7x_target_number target)
{
    for (const struct c7x_session *session = service->sessions; session != NULL;
         session = session->next)
        for (const struct c7x_service_job *job = session->jobs; job != NULL; job = job->next)
            if (job->is_running && job->target == target)
                return job;
    return NULL;
}

static void list_target(struct c7x_service *service, enum c7x_target_number number,
                        struct page *page)
{
    struct c7x_list_target *entry = next_entry(page);
    struct c7x_target_state state;
    if (entry == NULL)
        return;
    c7x_os_mutex_lock(&service->lock);
    const struct c7x_service_job *job = running_job(service, number);
    c7x_core_get_state(service->config.core, number, &state);
    *entry = (struct c7x_list_target){
        .queue_depth_max = wire_u32_put(C7X_TARGET_QUEUE_DEPTH_MAX),
        .queue_depth = wire_u32_put(state.queue_depth),
        .running_session = wire_u32_put(job != NULL ? job->session->number : 0),
        .running_seq = wire_u32_put(job != NULL ? job->request.seq : 0),
        .jobs_done = wire_u64_put(state.jobs_done),
        .preemptions = wire_u32_put((uint32_t)state.preemptions),
        .is_preempted = wire_u32_put(state.is_preempted),
    };
    c7x_os_mutex_unlock(&service->lock);
    put_name(entry->name, sizeof entry->name, c7x_core_target_name(service->config.core, number));
}

static void list_targets(struct c7x_service *service, struct page *page)
{
    for (int i = 0; i < C7X_TARGET_COUNT; i++)
        list_target(service, (enum c7x_target_number)i, page);
}

/* ---- Modules and models ---- */

static uint64_t to_ns(uint64_t cycles)
{
    return (uint64_t)((double)cycles * 1e9 / (double)c7x_os_cycle_hz());
}

static void list_loaded_modules(struct c7x_service *service, struct page *page)
{
    struct c7x_module_entry modules[PAGE_ENTRIES_MAX];
    uint32_t total;
    uint32_t count = c7x_module_list(service->config.modules, part_first(page), modules,
                                     part_capacity(page), &total);
    for (uint32_t i = 0; i < count; i++) {
        struct c7x_list_module *entry =
            (struct c7x_list_module *)(void *)(page->entries + page->count++ * page->entry_size);
        *entry = (struct c7x_list_module){
            .handle = wire_u32_put(modules[i].handle),
            .session = wire_u32_put(modules[i].session),
            .state = modules[i].is_faulted ? C7X_WIRE_MODULE_FAULTED : C7X_WIRE_MODULE_LOADED,
            .priority = (uint8_t)modules[i].priority,
            .activations = wire_u32_put(modules[i].activations),
            .longest_section_ns = wire_u64_put(to_ns(modules[i].longest_section)),
            .owner = wire_u32_put(modules[i].owner),
            .heap_bytes = wire_u64_put(modules[i].heap_bytes),
            .staged_bytes = wire_u64_put(modules[i].staged_bytes),
        };
        put_name(entry->name, sizeof entry->name, modules[i].name);
    }
    page->total += total;
}

static void list_loaded_models(struct page *page)
{
    struct c7x_tvm_model_entry models[PAGE_ENTRIES_MAX];
    uint32_t total;
    uint32_t count = c7x_tvm_model_list(part_first(page), models, part_capacity(page), &total);
    for (uint32_t i = 0; i < count; i++) {
        struct c7x_list_module *entry =
            (struct c7x_list_module *)(void *)(page->entries + page->count++ * page->entry_size);
        *entry = (struct c7x_list_module){
            .handle = wire_u32_put(models[i].id),
            .session = wire_u32_put(models[i].session),
            .state = C7X_WIRE_MODULE_MODEL,
            .owner = wire_u32_put(models[i].owner),
            .heap_bytes = wire_u64_put(models[i].heap_bytes),
            .staged_bytes = wire_u64_put(models[i].staged_bytes),
        };
    }
    page->total += total;
}

/* ---- Memory ---- */

static const struct c7x_memory_window *carveout_of(const struct c7x_service *service)
{
    const struct c7x_memory *memory = service->config.memory;
    for (size_t i = 0; i < memory->window_count; i++)
        if (memory->windows[i].base == C7X_MEMORY_CARVEOUT_BASE)
            return &memory->windows[i];
    return NULL;
}

static void list_heap(const struct c7x_service *service, const struct c7x_heap *heap,
                      struct page *page)
{
    struct c7x_list_pool *entry = heap != NULL ? next_entry(page) : NULL;
    struct c7x_heap_statistics now;
    if (entry == NULL)
        return;
    c7x_heap_get_statistics(heap, &now);
    *entry = (struct c7x_list_pool){
        .address = wire_u64_put(c7x_memory_address(service->config.memory, heap)),
        .total = wire_u64_put(now.total),
        .free = wire_u64_put(now.free),
        .largest = wire_u64_put(now.largest),
        .block_count = wire_u32_put(now.block_count),
    };
    put_name(entry->name, sizeof entry->name, c7x_heap_name(heap));
}

/* The carve-out between and in its buffers, one after the other. */
struct carveout_walk {
    struct c7x_service *service;
    struct page *page; /* of blocks; NULL: only sums */
    uint32_t pool;
    c7x_dsp_addr end; /* of the last buffer */
    uint64_t used;
    uint64_t largest_gap;
    uint32_t buffer_count;
};

static void add_block(struct carveout_walk *walk, c7x_dsp_addr address, uint64_t size, uint32_t use,
                      uint32_t owner, uint32_t module)
{
    struct c7x_list_block *entry = walk->page != NULL ? next_entry(walk->page) : NULL;
    if (entry != NULL)
        *entry = (struct c7x_list_block){
            .address = wire_u64_put(address),
            .size = wire_u64_put(size),
            .pool = wire_u32_put(walk->pool),
            .use = wire_u32_put(use),
            .owner = wire_u32_put(owner),
            .module = wire_u32_put(module),
        };
}

static void add_gap(struct carveout_walk *walk, c7x_dsp_addr end)
{
    uint64_t size = end - walk->end;
    if (size == 0)
        return;
    if (size > walk->largest_gap)
        walk->largest_gap = size;
    add_block(walk, walk->end, size, C7X_WIRE_BLOCK_FREE, 0, 0);
}

/* The newest session of the endpoint; 0: it has none. Call with the service locked. */
static uint32_t session_of(const struct c7x_service *service, uint32_t endpoint)
{
    uint32_t number = 0;
    for (const struct c7x_session *session = service->sessions; session != NULL;
         session = session->next)
        if (session->endpoint == endpoint)
            number = session->number;
    return number;
}

static void visit_buffer(void *context, c7x_dsp_addr address, uint64_t size, uint32_t endpoint)
{
    struct carveout_walk *walk = context;
    uint32_t session = session_of(walk->service, endpoint);
    uint32_t module = 0;
    if (session == 0)
        module = c7x_module_owner_at(walk->service->config.modules, address, size);
    if (session == 0 && module == 0)
        module = c7x_tvm_model_owner_at(address, size);
    add_gap(walk, address);
    add_block(walk, address, size, C7X_WIRE_BLOCK_USED, session, module);
    walk->end = address + size;
    walk->used += size;
    walk->buffer_count++;
}

static void walk_carveout(struct carveout_walk *walk, const struct c7x_memory_window *carveout)
{
    struct c7x_memory *memory = walk->service->config.memory;
    walk->end = carveout->base;
    c7x_os_mutex_lock(&walk->service->lock);
    memory->ops->visit_buffers(memory, visit_buffer, walk);
    c7x_os_mutex_unlock(&walk->service->lock);
    add_gap(walk, carveout->base + carveout->size);
}

static void list_carveout(struct c7x_service *service, struct page *page)
{
    const struct c7x_memory_window *carveout = carveout_of(service);
    struct carveout_walk walk = {.service = service};
    struct c7x_list_pool *entry = carveout != NULL ? next_entry(page) : NULL;
    if (entry == NULL)
        return;
    walk_carveout(&walk, carveout);
    *entry = (struct c7x_list_pool){
        .address = wire_u64_put(carveout->base),
        .total = wire_u64_put(carveout->size),
        .free = wire_u64_put(carveout->size - walk.used),
        .largest = wire_u64_put(walk.largest_gap),
        .block_count = wire_u32_put(walk.buffer_count),
    };
    put_name(entry->name, sizeof entry->name, "carve-out");
}

static void list_heap_blocks(const struct c7x_service *service, const struct c7x_heap *heap,
                             uint32_t pool, struct page *page)
{
    struct c7x_heap_block blocks[PAGE_ENTRIES_MAX];
    uint32_t total;
    uint32_t count = c7x_heap_walk(heap, part_first(page), blocks, part_capacity(page), &total);
    for (uint32_t i = 0; i < count; i++) {
        struct c7x_list_block *entry =
            (struct c7x_list_block *)(void *)(page->entries + page->count++ * page->entry_size);
        *entry = (struct c7x_list_block){
            .address = wire_u64_put(c7x_memory_address(service->config.memory, blocks[i].payload)),
            .size = wire_u64_put(blocks[i].size),
            .pool = wire_u32_put(pool),
            .use = wire_u32_put(blocks[i].is_used ? C7X_WIRE_BLOCK_USED : C7X_WIRE_BLOCK_FREE),
            .owner = wire_u32_put(blocks[i].owner),
        };
    }
    page->total += total;
}

/* In the order of the pools. */
static void list_pools(struct c7x_service *service, struct page *page)
{
    list_heap(service, service->config.heap, page);
    list_heap(service, service->config.fast_heap, page);
    list_carveout(service, page);
}

static void list_blocks(struct c7x_service *service, struct page *page)
{
    const struct c7x_memory_window *carveout = carveout_of(service);
    struct carveout_walk walk = {.service = service, .page = page};
    list_heap_blocks(service, service->config.heap, walk.pool++, page);
    if (service->config.fast_heap != NULL)
        list_heap_blocks(service, service->config.fast_heap, walk.pool++, page);
    if (carveout != NULL)
        walk_carveout(&walk, carveout);
}

/* ---- The answer ---- */

static size_t entry_size(uint32_t kind)
{
    switch (kind) {
    case C7X_WIRE_LIST_SESSIONS:
        return sizeof(struct c7x_list_session);
    case C7X_WIRE_LIST_MODULES:
        return sizeof(struct c7x_list_module);
    case C7X_WIRE_LIST_TARGETS:
        return sizeof(struct c7x_list_target);
    case C7X_WIRE_LIST_POOLS:
        return sizeof(struct c7x_list_pool);
    default:
        return sizeof(struct c7x_list_block);
    }
}

static void fill_page(struct c7x_service *service, uint32_t kind, struct page *page)
{
    switch (kind) {
    case C7X_WIRE_LIST_SESSIONS:
        list_sessions(service, page);
        break;
    case C7X_WIRE_LIST_MODULES:
        list_loaded_modules(service, page);
        list_loaded_models(page);
        break;
    case C7X_WIRE_LIST_TARGETS:
        list_targets(service, page);
        break;
    case C7X_WIRE_LIST_POOLS:
        list_pools(service, page);
        break;
    default:
        list_blocks(service, page);
        break;
    }
}

void c7x_service_list(struct c7x_service *service, const struct c7x_request *request,
                      struct c7x_response *response)
{
    uint32_t kind = request->body.list.kind;
    struct page page = {
        .first = request->body.list.first,
        .capacity = (uint32_t)(C7X_WIRE_LIST_BYTES_MAX / entry_size(kind)),
        .entry_size = entry_size(kind),
        .entries = response->body.list.entries,
    };
    fill_page(service, kind, &page);
    response->body.list.kind = kind;
    response->body.list.total = page.total;
    response->body.list.first = page.first;
    response->body.list.count = page.count;
    response->body.list.entry_size = (uint32_t)page.entry_size;
}

enum c7x_status c7x_service_operators(struct c7x_service *service,
                                      const struct c7x_request *request,
                                      struct c7x_response *response, struct c7x_error *error)
{
    struct c7x_module_operators list = {
        .first = request->body.operators.first,
        .names = response->body.operators.names,
        .size = sizeof response->body.operators.names,
    };
    C7X_RETURN_IF_ERROR(c7x_module_list_operators(
        service->config.modules, request->body.operators.module_handle, &list, error));
    response->body.operators.total = list.total;
    response->body.operators.first = list.first;
    response->body.operators.count = list.count;
    response->body.operators.bytes = (uint32_t)list.used;
    return C7X_OK;
}

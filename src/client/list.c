/* SPDX-License-Identifier: Apache-2.0 */
/* What a device holds: sessions, modules, targets, memory, read in pieces with LIST. */
#include "client_impl.h"

#include <stdlib.h>
#include <string.h>

/* Turns one entry of the wire, all of its fields there, into one of the public API. */
typedef void (*convert_fn)(const uint8_t *entry, void *out);

struct list_kind {
    uint32_t kind;
    uint32_t wire_size; /* of the entry that this library knows; devices may send longer ones */
    size_t info_size;
    convert_fn convert;
};

/* Names end with a NUL on the wire, but a device need not keep to that. */
static void copy_name(char *out, size_t out_size, const uint8_t *name, size_t size)
{
    size_t count = size < out_size - 1 ? size : out_size - 1;
    memcpy(out, name, count);
    out[count] = '\0';
}

static void convert_session(const uint8_t *entry, void *out)
{
    struct c7x_list_session wire;
    struct c7x_session_info *info = out;
    memcpy(&wire, entry, sizeof wire);
    *info = (struct c7x_session_info){
        .struct_size = sizeof *info,
        .number = wire_u32_get(wire.number),
        .process = wire_u32_get(wire.process),
        .wire_version = wire_u32_get(wire.wire_version),
        .module_count = wire_u32_get(wire.module_count),
        .model_count = wire_u32_get(wire.model_count),
        .queued = wire_u32_get(wire.queued),
        .running = wire_u32_get(wire.running),
    };
    copy_name(info->name, sizeof info->name, wire.name, sizeof wire.name);
}

static void convert_module(const uint8_t *entry, void *out)
{
    static const char *const states[] = {"unknown", "loaded", "faulted", "model"};
    struct c7x_list_module wire;
    struct c7x_module_info *info = out;
    memcpy(&wire, entry, sizeof wire);
    *info = (struct c7x_module_info){
        .struct_size = sizeof *info,
        .handle = wire_u32_get(wire.handle),
        .session = wire_u32_get(wire.session),
        .owner = wire_u32_get(wire.owner),
        .heap_bytes = wire_u64_get(wire.heap_bytes),
        .staged_bytes = wire_u64_get(wire.staged_bytes),
        .priority = wire.priority,
        .activations = wire_u32_get(wire.activations),
        .longest_section_ns = wire_u64_get(wire.longest_section_ns),
    };
    strcpy(info->state, states[wire.state < C7X_ARRAY_COUNT(states) ? wire.state : 0]);
    copy_name(info->name, sizeof info->name, wire.name, sizeof wire.name);
}

static void convert_target(const uint8_t *entry, void *out)
{
    struct c7x_list_target wire;
    struct c7x_target_info *info = out;
    memcpy(&wire, entry, sizeof wire);
    *info = (struct c7x_target_info){
        .struct_size = sizeof *info,
        .queue_depth_max = wire_u32_get(wire.queue_depth_max),
        .queue_depth = wire_u32_get(wire.queue_depth),
        .running_session = wire_u32_get(wire.running_session),
        .running_seq = wire_u32_get(wire.running_seq),
        .jobs_done = wire_u64_get(wire.jobs_done),
        .preemptions = wire_u32_get(wire.preemptions),
        .is_preempted = wire_u32_get(wire.is_preempted) != 0,
    };
    copy_name(info->name, sizeof info->name, wire.name, sizeof wire.name);
}

static void convert_pool(const uint8_t *entry, void *out)
{
    struct c7x_list_pool wire;
    struct c7x_pool_info *info = out;
    memcpy(&wire, entry, sizeof wire);
    *info = (struct c7x_pool_info){
        .struct_size = sizeof *info,
        .address = wire_u64_get(wire.address),
        .total = wire_u64_get(wire.total),
        .free = wire_u64_get(wire.free),
        .largest = wire_u64_get(wire.largest),
        .block_count = wire_u32_get(wire.block_count),
    };
    copy_name(info->name, sizeof info->name, wire.name, sizeof wire.name);
}

static void convert_block(const uint8_t *entry, void *out)
{
    struct c7x_list_block wire;
    struct c7x_block_info *info = out;
    memcpy(&wire, entry, sizeof wire);
    *info = (struct c7x_block_info){
        .struct_size = sizeof *info,
        .address = wire_u64_get(wire.address),
        .size = wire_u64_get(wire.size),
        .pool = wire_u32_get(wire.pool),
        .used = wire_u32_get(wire.use) == C7X_WIRE_BLOCK_USED,
        .owner = wire_u32_get(wire.owner),
        .module = wire_u32_get(wire.module),
    };
}

/* Appends the entries of one response. */
static enum c7x_status append(const struct list_kind *kind, const struct c7x_response *response,
                              uint8_t **list, size_t *count)
{
    uint32_t entry_size = response->body.list.entry_size;
    size_t added = response->body.list.count;
    if (response->body.list.kind != kind->kind || entry_size < kind->wire_size)
        return c7x_error_set(c7x_client_thread_error(), C7X_PROTOCOL, C7X_CLIENT_STATION,
                             "the device answered another list than was asked for");
    uint8_t *longer = realloc(*list, (*count + added + 1) * kind->info_size);
    if (longer == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory for a list");
    *list = longer;
    for (size_t i = 0; i < added; i++)
        kind->convert(response->body.list.entries + i * entry_size,
                      longer + (*count + i) * kind->info_size);
    *count += added;
    return C7X_OK;
}

static enum c7x_status read_list(struct c7x_client *client, const struct list_kind *kind,
                                 uint8_t **list, size_t *count)
{
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    for (;;) {
        struct c7x_request request = {.type = C7X_MSG_LIST};
        struct c7x_response response;
        request.body.list.kind = kind->kind;
        request.body.list.first = (uint32_t)*count;
        C7X_RETURN_IF_ERROR(c7x_client_exchange(client, &request, deadline_ns, &response));
        C7X_RETURN_IF_ERROR(append(kind, &response, list, count));
        if (response.body.list.count == 0 || *count >= response.body.list.total)
            return C7X_OK;
    }
}

static enum c7x_status list(struct c7x_client *client, const struct list_kind *kind, void *out_list,
                            size_t *out_count)
{
    uint8_t *entries = NULL;
    size_t count = 0;
    c7x_client_enter();
    if (!client->has_session)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 tells nobody what it holds");
    enum c7x_status status = read_list(client, kind, &entries, &count);
    if (status == C7X_OK) {
        memcpy(out_list, &entries, sizeof entries); /* a pointer to a pointer of the entry's type */
        *out_count = count;
    } else {
        free(entries);
    }
    return status;
}

enum c7x_status c7x_client_list_sessions(struct c7x_client *client,
                                         struct c7x_session_info **out_list, size_t *out_count)
{
    static const struct list_kind kind = {C7X_WIRE_LIST_SESSIONS, sizeof(struct c7x_list_session),
                                          sizeof(struct c7x_session_info), convert_session};
    return list(client, &kind, out_list, out_count);
}

enum c7x_status c7x_client_list_modules(struct c7x_client *client,
                                        struct c7x_module_info **out_list, size_t *out_count)
{
    static const struct list_kind kind = {C7X_WIRE_LIST_MODULES, sizeof(struct c7x_list_module),
                                          sizeof(struct c7x_module_info), convert_module};
    return list(client, &kind, out_list, out_count);
}

enum c7x_status c7x_client_list_targets(struct c7x_client *client,
                                        struct c7x_target_info **out_list, size_t *out_count)
{
    static const struct list_kind kind = {C7X_WIRE_LIST_TARGETS, sizeof(struct c7x_list_target),
                                          sizeof(struct c7x_target_info), convert_target};
    return list(client, &kind, out_list, out_count);
}

enum c7x_status c7x_client_list_pools(struct c7x_client *client, struct c7x_pool_info **out_list,
                                      size_t *out_count)
{
    static const struct list_kind kind = {C7X_WIRE_LIST_POOLS, sizeof(struct c7x_list_pool),
                                          sizeof(struct c7x_pool_info), convert_pool};
    return list(client, &kind, out_list, out_count);
}

enum c7x_status c7x_client_list_blocks(struct c7x_client *client, struct c7x_block_info **out_list,
                                       size_t *out_count)
{
    static const struct list_kind kind = {C7X_WIRE_LIST_BLOCKS, sizeof(struct c7x_list_block),
                                          sizeof(struct c7x_block_info), convert_block};
    return list(client, &kind, out_list, out_count);
}

void c7x_list_free(void *entries)
{
    free(entries);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* mem: the memory of a device, by pool, and with --map block by block with who holds it. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <string.h>

enum { TEXT_MAX = 128 };

/* Pools may have any name; these two are known by their place. */
#define HEAP_ADDRESS 0x102000000u
#define CARVEOUT_ADDRESS 0xC0000000u

struct memory {
    struct c7x_pool_info *pools;
    struct c7x_block_info *blocks;
    struct c7x_module_info *modules;
    struct c7x_session_info *sessions;
    size_t pool_count;
    size_t block_count;
    size_t module_count;
    size_t session_count;
};

static const struct c7x_pool_info *find_pool(const struct memory *memory, uint64_t address)
{
    for (size_t i = 0; i < memory->pool_count; i++) {
        if (memory->pools[i].address == address)
            return &memory->pools[i];
    }
    return NULL;
}

static const struct c7x_pool_info *pool_of(const struct memory *memory,
                                           const struct c7x_block_info *block)
{
    return block->pool < memory->pool_count ? &memory->pools[block->pool] : NULL;
}

/* ---- Who holds a block ---- */

struct holder {
    const char *kind; /* "free", "firmware", "module", "model", "session" or "request" */
    const struct c7x_module_info *module;
    const struct c7x_session_info *session;
    uint32_t number; /* handle of the module, number of the session, or owner */
};

static struct holder holder_in_carveout(const struct memory *memory, uint32_t number)
{
    struct holder holder = {.kind = "session", .number = number};
    for (size_t i = 0; i < memory->session_count; i++) {
        if (memory->sessions[i].number == number)
            holder.session = &memory->sessions[i];
    }
    return holder;
}

/* An owner that is no module is a request that runs. */
static struct holder holder_of_owner(const struct memory *memory, uint32_t owner)
{
    struct holder holder = {.kind = "request", .number = owner};
    for (size_t i = 0; i < memory->module_count; i++) {
        const struct c7x_module_info *module = &memory->modules[i];
        if (module->owner != owner)
            continue;
        holder.kind = strcmp(module->state, "model") == 0 ? "model" : "module";
        holder.module = module;
        holder.number = module->handle;
    }
    return holder;
}

static struct holder find_holder(const struct memory *memory, const struct c7x_block_info *block)
{
    const struct c7x_pool_info *pool = pool_of(memory, block);
    if (!block->used)
        return (struct holder){.kind = "free"};
    if (block->owner == 0 && block->module != 0)
        return holder_of_owner(memory, block->module);
    if (block->owner == 0)
        return (struct holder){.kind = "firmware"};
    if (pool != NULL && pool->address == CARVEOUT_ADDRESS)
        return holder_in_carveout(memory, block->owner);
    return holder_of_owner(memory, block->owner);
}

static void describe_holder(const struct holder *holder, char *text, size_t size)
{
    if (holder->session != NULL)
        snprintf(text, size, "session %" PRIu32 " (pid %" PRIu32 ", %s)", holder->number,
                 holder->session->process, holder->session->name);
    else if (holder->module != NULL && holder->module->name[0] != '\0')
        snprintf(text, size, "%s %" PRIu32 " (%s)", holder->kind, holder->number,
                 holder->module->name);
    else if (holder->number != 0)
        snprintf(text, size, "%s %" PRIu32, holder->kind, holder->number);
    else
        snprintf(text, size, "%s", holder->kind);
}

/* ---- Text ---- */

static void print_map(const struct memory *memory)
{
    static const char *const heads[] = {"POOL", "ADDRESS", "BYTES", "HELD BY"};
    struct cli_table table;
    cli_table_begin(&table, heads, 4);
    for (size_t i = 0; i < memory->block_count; i++) {
        const struct c7x_block_info *block = &memory->blocks[i];
        const struct c7x_pool_info *pool = pool_of(memory, block);
        const struct holder holder = find_holder(memory, block);
        char text[TEXT_MAX];
        describe_holder(&holder, text, sizeof text);
        cli_table_text(&table, pool != NULL ? pool->name : "-");
        cli_table_address(&table, block->address);
        cli_table_unsigned(&table, block->size);
        cli_table_text(&table, text);
    }
    putchar('\n');
    cli_table_print(&table);
}

/* ---- JSON ---- */

static void add_json_holder(cJSON *object, const struct holder *holder)
{
    bool is_module = holder->module != NULL;
    cli_json_add_text(object, "held_by", holder->kind);
    cli_json_add_number_or_null(object, "handle", is_module ? holder->number : 0);
    cli_json_add_text_or_null(object, "name", is_module ? holder->module->name : "");
    cli_json_add_number_or_null(object, "session",
                                strcmp(holder->kind, "session") == 0 ? holder->number : 0);
    cli_json_add_number_or_null(object, "pid",
                                holder->session != NULL ? holder->session->process : 0);
}

static void add_json_block(cJSON *list, const struct memory *memory,
                           const struct c7x_block_info *block)
{
    const struct c7x_pool_info *pool = pool_of(memory, block);
    const struct holder holder = find_holder(memory, block);
    cJSON *object = cli_json_append(list);
    cli_json_add_text_or_null(object, "pool", pool != NULL ? pool->name : "");
    cli_json_add_unsigned(object, "address", block->address);
    cli_json_add_unsigned(object, "bytes", block->size);
    cJSON_AddItemToObject(object, "used", cJSON_CreateBool(block->used));
    add_json_holder(object, &holder);
}

static void print_json(const struct memory *memory, const struct c7x_pool_info *heap,
                       const struct c7x_pool_info *carveout)
{
    cJSON *object = cli_json_ok();
    cli_json_add_unsigned(object, "heap_free", heap->free);
    cli_json_add_unsigned(object, "carveout_free", carveout->free);
    cli_json_add_pools(object, memory->pools, memory->pool_count);
    cJSON *blocks = cJSON_AddArrayToObject(object, "blocks");
    for (size_t i = 0; i < memory->block_count; i++)
        add_json_block(blocks, memory, &memory->blocks[i]);
    cli_json_print(object);
}

static enum c7x_status read_memory(struct c7x_client *client, struct memory *memory)
{
    enum c7x_status status = c7x_client_list_pools(client, &memory->pools, &memory->pool_count);
    if (status == C7X_OK)
        status = c7x_client_list_blocks(client, &memory->blocks, &memory->block_count);
    if (status == C7X_OK)
        status = c7x_client_list_modules(client, &memory->modules, &memory->module_count);
    if (status == C7X_OK)
        status = c7x_client_list_sessions(client, &memory->sessions, &memory->session_count);
    return status;
}

static void free_memory(struct memory *memory)
{
    c7x_list_free(memory->pools);
    c7x_list_free(memory->blocks);
    c7x_list_free(memory->modules);
    c7x_list_free(memory->sessions);
}

static int print_memory(struct cli *cli, struct memory *memory)
{
    enum c7x_status status = read_memory(cli->client, memory);
    if (status != C7X_OK)
        return cli_fail_status(cli, "mem", status);
    const struct c7x_pool_info *heap = find_pool(memory, HEAP_ADDRESS);
    const struct c7x_pool_info *carveout = find_pool(memory, CARVEOUT_ADDRESS);
    if (heap == NULL || carveout == NULL)
        return cli_fail(cli, "mem", "the device lists no %s at 0x%llx",
                        heap == NULL ? "heap" : "carve-out",
                        (unsigned long long)(heap == NULL ? HEAP_ADDRESS : CARVEOUT_ADDRESS));
    if (cli->options.json)
        print_json(memory, heap, carveout);
    else
        cli_write_pools(memory->pools, memory->pool_count, stdout);
    if (cli->options.map && !cli->options.json)
        print_map(memory);
    return CLI_DONE;
}

int cli_mem(struct cli *cli)
{
    struct memory memory = {0};
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    code = print_memory(cli, &memory);
    free_memory(&memory);
    return code;
}

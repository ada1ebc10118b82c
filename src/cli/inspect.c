/* SPDX-License-Identifier: Apache-2.0 */
/* inspect: what a module file holds, and what a device would say to it. Runs nothing of it. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- What `verify` needs too ---- */

static bool find_device(const struct cli *cli, enum c7x_inspect_device *out_device)
{
    const char *name = cli->options.device != NULL ? cli->options.device : getenv("C7X_DEVICE");
    *out_device = C7X_INSPECT_DEVICE_OWN;
    if (name == NULL || name[0] == '\0')
        return true;
    *out_device = C7X_INSPECT_DEVICE_HOST;
    if (strcmp(name, "emu") == 0 || strncmp(name, "emu:", 4) == 0)
        return true;
    *out_device = C7X_INSPECT_DEVICE_BOARD;
    return strcmp(name, "c7x") == 0 || strcmp(name, "rpmsg") == 0 ||
           strncmp(name, "rpmsg:", 6) == 0;
}

int cli_inspect_file(const struct cli *cli, const struct c7x_inspection **out_inspection)
{
    enum c7x_inspect_device device;
    const char *path = cli_module_path(cli);
    char *data = NULL;
    size_t size = 0;
    if (path == NULL)
        return CLI_USAGE;
    if (!find_device(cli, &device))
        return cli_fail(cli, "usage", "no kind of device: use c7x (a board) or emu");
    const char *problem = cli_read_file(path, &data, &size);
    if (problem != NULL)
        return cli_fail(cli, cli->command->name, "%s: %s", path, problem);
    enum c7x_status status = c7x_inspect(data, size, device, out_inspection);
    free(data);
    if (status != C7X_OK)
        return cli_fail_status(cli, cli->command->name, status);
    return CLI_DONE;
}

/* ---- JSON ---- */

static void add_address(cJSON *object, const char *name, uint64_t address)
{
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    cli_json_add_text(object, name, text);
}

static void add_flag(cJSON *object, const char *name, int value)
{
    cJSON_AddItemToObject(object, name, cJSON_CreateBool(value));
}

static void add_segments(cJSON *object, const struct c7x_inspection *inspection)
{
    cJSON *list = cJSON_AddArrayToObject(object, "segments");
    for (size_t i = 0; i < inspection->segment_count; i++) {
        const struct c7x_inspect_segment *segment = &inspection->segments[i];
        cJSON *item = cli_json_append(list);
        cli_json_add_unsigned(item, "index", segment->index);
        add_flag(item, "readable", segment->is_readable);
        add_flag(item, "writable", segment->is_writable);
        add_flag(item, "executable", segment->is_executable);
        add_flag(item, "in_place", segment->in_place);
        add_address(item, "address", segment->address);
        add_address(item, "link_address", segment->link_address);
        cli_json_add_unsigned(item, "file_offset", segment->file_offset);
        cli_json_add_unsigned(item, "file_bytes", segment->file_bytes);
        cli_json_add_unsigned(item, "memory_bytes", segment->memory_bytes);
        cli_json_add_unsigned(item, "alignment", segment->alignment);
    }
}

static void add_symbols(cJSON *object, const struct c7x_inspection *inspection)
{
    cJSON *list = cJSON_AddArrayToObject(object, "imports");
    for (size_t i = 0; i < inspection->import_count; i++) {
        cJSON *item = cli_json_append(list);
        cli_json_add_text(item, "name", inspection->imports[i].name);
        add_flag(item, "present", inspection->imports[i].is_present);
        add_flag(item, "weak", inspection->imports[i].is_weak);
    }
    list = cJSON_AddArrayToObject(object, "exports");
    for (size_t i = 0; i < inspection->export_count; i++) {
        cJSON *item = cli_json_append(list);
        cli_json_add_text(item, "name", inspection->exports[i].name);
        add_address(item, "address", inspection->exports[i].address);
        cli_json_add_unsigned(item, "bytes", inspection->exports[i].size);
        add_flag(item, "function", inspection->exports[i].is_function);
    }
}

static void add_io_meta(cJSON *object, const struct c7x_inspect_io_meta *meta)
{
    if (!meta->is_present) {
        cJSON_AddNullToObject(object, "io_meta");
        return;
    }
    cJSON *item = cJSON_AddObjectToObject(object, "io_meta");
    cli_json_add_unsigned(item, "num_inputs", meta->input_count);
    cli_json_add_unsigned(item, "num_outputs", meta->output_count);
    cli_json_add_unsigned(item, "input_bytes", meta->input_bytes);
    cli_json_add_unsigned(item, "output_bytes", meta->output_bytes);
    add_flag(item, "exact", meta->is_exact);
}

/* "float32", "bfloat16", "int8x4". */
static const char *describe_dtype(const struct c7x_inspect_tensor *tensor, char *text, size_t size)
{
    static const char *const kinds[] = {"int",    "uint",    "float", "handle",
                                        "bfloat", "complex", "bool"};
    bool is_known =
        tensor->dtype_code >= 0 && (size_t)tensor->dtype_code < sizeof kinds / sizeof kinds[0];
    int used = 0;
    if (tensor->dtype_code == C7X_DTYPE_BOOL && tensor->dtype_bits == 8)
        used = snprintf(text, size, "bool");
    else
        used = snprintf(text, size, "%s%d", is_known ? kinds[tensor->dtype_code] : "type",
                        tensor->dtype_bits);
    if (tensor->dtype_lanes > 1)
        snprintf(text + used, size - (size_t)used, "x%d", tensor->dtype_lanes);
    return text;
}

static void add_tensors(cJSON *object, const char *name, const struct c7x_inspect_tensor *tensors,
                        size_t count)
{
    cJSON *list = cJSON_AddArrayToObject(object, name);
    for (size_t i = 0; i < count; i++) {
        const struct c7x_inspect_tensor *tensor = &tensors[i];
        cJSON *item = cli_json_append(list);
        char dtype[48];
        if (tensor->name[0] != '\0')
            cli_json_add_text(item, "name", tensor->name);
        if (tensor->ndim < 0) {
            cli_json_add_text(item, "kind", tensor->kind);
            continue;
        }
        cli_json_add_text(item, "dtype", describe_dtype(tensor, dtype, sizeof dtype));
        cJSON *shape = cJSON_AddArrayToObject(item, "shape");
        for (int32_t d = 0; d < tensor->ndim; d++) {
            char text[32];
            snprintf(text, sizeof text, "%" PRId64, tensor->shape[d]);
            cJSON_AddItemToArray(shape, cJSON_CreateRaw(text));
        }
        if (tensor->bytes != 0)
            cli_json_add_unsigned(item, "bytes", tensor->bytes);
    }
}

static void add_manifest(cJSON *object, const struct c7x_inspect_manifest *manifest)
{
    if (!manifest->is_present) {
        cJSON_AddNullToObject(object, "manifest");
        return;
    }
    cJSON *item = cJSON_AddObjectToObject(object, "manifest");
    cli_json_add_text_or_null(item, "model", manifest->model);
    cli_json_add_text_or_null(item, "tools", manifest->tools);
    cli_json_add_text_or_null(item, "target", manifest->target);
    cli_json_add_text_or_null(item, "cpu_features", manifest->cpu_features);
    cli_json_add_text_or_null(item, "entry", manifest->entry);
    cli_json_add_unsigned(item, "workspace_bytes", manifest->workspace_bytes);
    cli_json_add_unsigned(item, "l2_bytes", manifest->l2_bytes);
    cli_json_add_unsigned(item, "fast_bytes", manifest->fast_bytes);
    add_tensors(item, "inputs", manifest->inputs, manifest->input_count);
    add_tensors(item, "outputs", manifest->outputs, manifest->output_count);
}

static void add_bytes(cJSON *object, const struct c7x_inspection *inspection)
{
    const struct c7x_inspect_bytes *bytes = &inspection->bytes;
    cJSON *item = cJSON_AddObjectToObject(object, "bytes");
    cli_json_add_unsigned(item, "file", bytes->file);
    cli_json_add_unsigned(item, "in_place", bytes->in_place);
    cli_json_add_unsigned(item, "load", bytes->load);
    cli_json_add_unsigned(item, "workspace", bytes->workspace);
    cli_json_add_unsigned(item, "input", bytes->input);
    cli_json_add_unsigned(item, "output", bytes->output);
    cli_json_add_unsigned(item, "weights", inspection->constant_bytes);
    cli_json_add_unsigned(item, "heap_total", bytes->heap_total);
}

static void add_verdict(cJSON *object, const struct c7x_inspection *inspection)
{
    cJSON *item = cJSON_AddObjectToObject(object, "verdict");
    cli_json_add_text(item, "device", inspection->device);
    add_flag(item, "loads", inspection->status == C7X_OK);
    cli_json_add_text_or_null(item, "reason", inspection->reason);
}

static void print_json(const struct c7x_inspection *inspection)
{
    cJSON *object = cli_json_ok();
    cli_json_add_text(object, "machine", inspection->machine);
    add_segments(object, inspection);
    add_symbols(object, inspection);
    add_io_meta(object, &inspection->io_meta);
    add_manifest(object, &inspection->manifest);
    add_tensors(object, "constants", inspection->constants, inspection->constant_count);
    add_bytes(object, inspection);
    add_verdict(object, inspection);
    cli_json_print(object);
}

/* ---- Text ---- */

static void print_segments(const struct c7x_inspection *inspection)
{
    static const char *const heads[] = {"SEGMENT",    "ACCESS",       "ADDRESS", "LINKED AT",
                                        "FILE BYTES", "MEMORY BYTES", "WHERE"};
    struct cli_table table;
    cli_table_begin(&table, heads, 7);
    for (size_t i = 0; i < inspection->segment_count; i++) {
        const struct c7x_inspect_segment *segment = &inspection->segments[i];
        char text[32];
        cli_table_unsigned(&table, segment->index);
        snprintf(text, sizeof text, "%s%s%s", segment->is_readable ? "r" : "-",
                 segment->is_writable ? "w" : "-", segment->is_executable ? "x" : "-");
        cli_table_text(&table, text);
        snprintf(text, sizeof text, "0x%" PRIx64, segment->address);
        cli_table_text(&table, text);
        snprintf(text, sizeof text, "0x%" PRIx64, segment->link_address);
        cli_table_text(&table, text);
        cli_table_unsigned(&table, segment->file_bytes);
        cli_table_unsigned(&table, segment->memory_bytes);
        cli_table_text(&table, segment->in_place ? "in place" : "heap");
    }
    cli_table_print(&table);
}

static void print_symbols(const struct c7x_inspection *inspection)
{
    for (size_t i = 0; i < inspection->import_count; i++)
        printf("Import:    %s%s\n", inspection->imports[i].name,
               inspection->imports[i].is_present ? ""
               : inspection->imports[i].is_weak  ? " (missing, weak)"
                                                 : " (missing)");
    for (size_t i = 0; i < inspection->export_count; i++)
        printf("Export:    %s at 0x%" PRIx64 "\n", inspection->exports[i].name,
               inspection->exports[i].address);
}

static void print_tensors(const char *what, const struct c7x_inspect_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char dtype[48];
        printf("%-10s %s[", what, describe_dtype(&tensors[i], dtype, sizeof dtype));
        for (int32_t d = 0; d < tensors[i].ndim; d++)
            printf("%s%" PRId64, d == 0 ? "" : ",", tensors[i].shape[d]);
        printf("] %s\n", tensors[i].name);
    }
}

static void print_contents(const struct c7x_inspection *inspection)
{
    const struct c7x_inspect_manifest *manifest = &inspection->manifest;
    const struct c7x_inspect_bytes *bytes = &inspection->bytes;
    if (manifest->is_present) {
        printf("Model:     %s\nTools:     %s\nTarget:    %s%s%s\nEntry:     %s\n", manifest->model,
               manifest->tools, manifest->target, manifest->cpu_features[0] != '\0' ? " with " : "",
               manifest->cpu_features, manifest->entry);
        print_tensors("Input:", manifest->inputs, manifest->input_count);
        print_tensors("Output:", manifest->outputs, manifest->output_count);
    }
    printf("Constants: %zu in %" PRIu64 " bytes\n", inspection->constant_count,
           inspection->constant_bytes);
    printf("Bytes:     file %" PRIu64 ", of it in place %" PRIu64 "; heap %" PRIu64
           " loaded, %" PRIu64 " workspace; input %" PRIu64 ", output %" PRIu64 "\n",
           bytes->file, bytes->in_place, bytes->load, bytes->workspace, bytes->input,
           bytes->output);
}

static void print_text(const struct c7x_inspection *inspection)
{
    printf("Machine:   %s\n", inspection->machine);
    print_segments(inspection);
    print_symbols(inspection);
    print_contents(inspection);
    if (inspection->status == C7X_OK)
        printf("Verdict:   a device that executes %s loads it\n", inspection->device);
    else
        printf("Verdict:   a device that executes %s does not load it: %s\n", inspection->device,
               inspection->reason);
}

int cli_inspect(struct cli *cli)
{
    const struct c7x_inspection *inspection = NULL;
    int code = cli_inspect_file(cli, &inspection);
    if (code != CLI_DONE)
        return code;
    if (inspection->segment_count == 0)
        code = cli_fail(cli, "inspect", "%s", inspection->reason);
    else if (cli->options.json)
        print_json(inspection);
    else
        print_text(inspection);
    c7x_inspection_free(inspection);
    return code;
}

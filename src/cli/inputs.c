/* SPDX-License-Identifier: Apache-2.0 */
/* The files of --input, and the tensors that they make. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1024, ALIGNMENT = 64, CACHE_LINE = 128, DESCRIPTOR_BYTES = 80 };

struct input_file {
    char *bytes;
    size_t size;
    bool is_npy;
    struct c7x_client_tensor tensor; /* raw files: only data and data_size */
};

struct input_files {
    struct input_file files[C7X_CLIENT_INPUTS_MAX];
    int count;
    int npy_count;
    size_t size; /* of all data */
};

static int read_one(const struct cli *cli, const char *path, struct input_file *file)
{
    const char *problem = cli_read_file(path, &file->bytes, &file->size);
    if (problem != NULL)
        return cli_fail(cli, "input", "cannot read %s: %s", path, problem);
    file->is_npy = cli_is_npy(file->bytes, file->size);
    file->tensor.data = file->bytes;
    file->tensor.data_size = file->size;
    if (!file->is_npy)
        return CLI_DONE;
    problem = cli_parse_npy(file->bytes, file->size, &file->tensor);
    if (problem != NULL)
        return cli_fail(cli, "input", "cannot use %s: %s", path, problem);
    return CLI_DONE;
}

static int read_files(const struct cli *cli, struct input_files *files)
{
    for (int i = 0; i < cli->options.input_count; i++) {
        struct input_file *file = &files->files[i];
        files->count++;
        int code = read_one(cli, cli->options.inputs[i], file);
        if (code != CLI_DONE)
            return code;
        files->npy_count += file->is_npy;
        files->size += file->tensor.data_size;
    }
    return CLI_DONE;
}

static void free_files(struct input_files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->files[i].bytes);
}

/* The tensors that the .npy files describe; 0 if a file is raw. */
static int tensors_of_npy(const struct input_files *files, struct c7x_client_tensor *tensors)
{
    if (files->npy_count != files->count)
        return 0;
    for (int i = 0; i < files->count; i++)
        tensors[i] = files->files[i].tensor;
    return files->count;
}

/* One file a tensor: then a wrong size can be blamed on one file. */
static int check_files(const struct cli *cli, const struct input_files *files,
                       const struct cli_inputs *inputs)
{
    char text[TEXT_MAX];
    for (int i = 0; i < files->count && files->count == inputs->count; i++) {
        const struct c7x_client_tensor *tensor = &inputs->tensors[i];
        if (files->files[i].tensor.data_size == tensor->data_size)
            continue;
        cli_format_tensor(tensor, text, sizeof text);
        return cli_fail(cli, "input", "input %d (%s): expected %zu bytes for %s, got %zu", i,
                        cli->options.inputs[i], tensor->data_size, text,
                        files->files[i].tensor.data_size);
    }
    return CLI_DONE;
}

static int join_data(const struct cli *cli, const struct input_files *files,
                     struct cli_inputs *inputs)
{
    size_t used = 0;
    inputs->data = malloc(files->size + 1);
    if (inputs->data == NULL)
        return cli_fail(cli, "input", "no memory for %zu bytes of inputs", files->size);
    for (int i = 0; i < files->count; i++) {
        const struct c7x_client_tensor *part = &files->files[i].tensor;
        memcpy(inputs->data + used, part->data, part->data_size);
        used += part->data_size;
    }
    cli_place_tensors(inputs);
    return CLI_DONE;
}

static int make_tensors(const struct cli *cli, const struct input_files *files,
                        const struct c7x_module_declaration *declaration, struct cli_inputs *inputs)
{
    static struct c7x_client_tensor npy[C7X_CLIENT_INPUTS_MAX];
    char problem[CLI_MESSAGE_MAX];
    const struct cli_tensor_request request = {.shape = cli->options.shape,
                                               .dtype = cli->options.dtype,
                                               .npy = npy,
                                               .npy_count = tensors_of_npy(files, npy),
                                               .declaration = declaration,
                                               .size = files->size};
    if (!cli_resolve_tensors(&request, inputs, problem))
        return cli_fail(cli, "input", "%s", problem);
    int code = check_files(cli, files, inputs);
    if (code != CLI_DONE)
        return code;
    if (!cli_check_total(inputs, files->size, problem))
        return cli_fail(cli, "input", "%s", problem);
    return join_data(cli, files, inputs);
}

int cli_prepare_inputs(const struct cli *cli, const struct c7x_module_declaration *declaration,
                       struct cli_inputs *out_inputs)
{
    static struct input_files files;
    memset(out_inputs, 0, sizeof *out_inputs);
    if (cli->options.input_count == 0)
        return cli_generate_inputs(cli, declaration, out_inputs);
    int code = read_files(cli, &files);
    if (code == CLI_DONE)
        code = make_tensors(cli, &files, declaration, out_inputs);
    free_files(&files);
    return code;
}

void cli_free_inputs(struct cli_inputs *inputs)
{
    free(inputs->data);
    inputs->data = NULL;
}

uint64_t cli_buffer_bytes(const struct c7x_client_tensor *tensors, int count)
{
    uint64_t total = ((uint64_t)count * DESCRIPTOR_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (int i = 0; i < count; i++)
        total += (tensors[i].data_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + CACHE_LINE;
    return total + CACHE_LINE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the outputs go: one raw file, or one .npy file for each. */
#define _POSIX_C_SOURCE 200809L /* PATH_MAX */
#include "cli.h"

#include <limits.h>
#include <string.h>

static const char suffix[] = ".npy";

enum { SUFFIX_LENGTH = sizeof suffix - 1 };

static bool is_npy_path(const char *path)
{
    size_t length = strlen(path);
    return length > SUFFIX_LENGTH && strcmp(path + length - SUFFIX_LENGTH, suffix) == 0;
}

uint64_t cli_output_bytes(const struct cli_outputs *outputs)
{
    uint64_t total = 0;
    for (int i = 0; i < outputs->count; i++)
        total += outputs->tensors[i].data_size;
    return total;
}

int cli_check_output(const struct cli *cli)
{
    if (cli->options.output == NULL)
        return CLI_DONE;
    const char *problem = cli_check_writable(cli->options.output);
    if (problem != NULL)
        return cli_fail(cli, "output", "cannot write %s: %s", cli->options.output, problem);
    return CLI_DONE;
}

static int write_pieces(const struct cli *cli, const char *path, const struct cli_piece *pieces,
                        int piece_count)
{
    const char *problem = cli_write_file(path, pieces, piece_count);
    if (problem != NULL)
        return cli_fail(cli, "output", "cannot write %s: %s", path, problem);
    return CLI_DONE;
}

static int write_raw(const struct cli *cli, const struct cli_outputs *outputs)
{
    struct cli_piece pieces[C7X_CLIENT_OUTPUTS_MAX];
    for (int i = 0; i < outputs->count; i++)
        pieces[i] = (struct cli_piece){outputs->tensors[i].data, outputs->tensors[i].data_size};
    return write_pieces(cli, cli->options.output, pieces, outputs->count);
}

static int write_npy(const struct cli *cli, const char *path,
                     const struct c7x_client_tensor *tensor)
{
    char head[CLI_NPY_HEAD_MAX];
    size_t head_size = cli_format_npy_head(tensor, head);
    if (head_size == 0)
        return cli_fail(cli, "output", "cannot write %s: .npy has no type %d of %d bits", path,
                        (int)tensor->dtype_code, (int)tensor->dtype_bits);
    const struct cli_piece pieces[] = {{head, head_size}, {tensor->data, tensor->data_size}};
    return write_pieces(cli, path, pieces, 2);
}

/* out.npy: the only output, or out-0.npy, out-1.npy ... */
static int write_all_npy(const struct cli *cli, const struct cli_outputs *outputs)
{
    const char *path = cli->options.output;
    int stem = (int)strlen(path) - SUFFIX_LENGTH;
    int code = outputs->count == 1 ? write_npy(cli, path, &outputs->tensors[0]) : CLI_DONE;
    for (int i = 0; i < outputs->count && outputs->count > 1 && code == CLI_DONE; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%.*s-%d%s", stem, path, i, suffix);
        code = write_npy(cli, name, &outputs->tensors[i]);
    }
    return code;
}

int cli_write_outputs(const struct cli *cli, const struct cli_outputs *outputs)
{
    if (cli->options.output == NULL)
        return CLI_DONE;
    if (is_npy_path(cli->options.output))
        return write_all_npy(cli, outputs);
    return write_raw(cli, outputs);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Types and shapes of tensors as text. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

struct type_name {
    const char *name;
    struct cli_tensor_type type;
};

static const struct type_name type_names[] = {
    {"float32", {C7X_DTYPE_FLOAT, 32}}, {"float16", {C7X_DTYPE_FLOAT, 16}},
    {"float64", {C7X_DTYPE_FLOAT, 64}}, {"int32", {C7X_DTYPE_INT, 32}},
    {"int64", {C7X_DTYPE_INT, 64}},     {"int16", {C7X_DTYPE_INT, 16}},
    {"int8", {C7X_DTYPE_INT, 8}},       {"uint16", {C7X_DTYPE_UINT, 16}},
    {"uint8", {C7X_DTYPE_UINT, 8}},     {"uint32", {C7X_DTYPE_UINT, 32}},
    {"uint64", {C7X_DTYPE_UINT, 64}},   {"bool", {C7X_DTYPE_BOOL, 8}},
};

enum { TYPE_COUNT = sizeof type_names / sizeof type_names[0] };

bool cli_find_dtype(const char *name, size_t length, struct cli_tensor_type *out_type)
{
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strlen(type_names[i].name) == length && memcmp(type_names[i].name, name, length) == 0) {
            *out_type = type_names[i].type;
            return true;
        }
    }
    return false;
}

const char *cli_dtype_name(int32_t code, int32_t bits)
{
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (type_names[i].type.code == code && type_names[i].type.bits == bits)
            return type_names[i].name;
    }
    return "unknown";
}

const char *cli_dtype_list(void)
{
    return "float32 float16 float64 int32 int64 int16 int8 uint16 uint8 uint32 uint64 bool";
}

/* A dimension up to `end`; NULL or what is wrong. */
static const char *parse_dimension(const char *text, const char *end, int64_t *out_value)
{
    uint64_t value;
    char digits[24];
    size_t length = (size_t)(end - text);
    if (length == 0 || length >= sizeof digits)
        return "a dimension is missing or too long";
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (!cli_parse_u64(digits, INT64_MAX, &value))
        return "a dimension is not a number";
    *out_value = (int64_t)value;
    return NULL;
}

static const char *parse_shape(const char *text, const char *end, struct c7x_client_tensor *tensor)
{
    static const char scalar[] = "scalar";
    size_t length = (size_t)(end - text);
    memset(tensor, 0, sizeof *tensor);
    if (length == 0 || (length == sizeof scalar - 1 && memcmp(text, scalar, length) == 0))
        return NULL;
    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        if (tensor->ndim == C7X_CLIENT_RANK_MAX)
            return "more than 6 dimensions";
        const char *problem =
            parse_dimension(text, comma != NULL ? comma : end, &tensor->shape[tensor->ndim]);
        if (problem != NULL)
            return problem;
        tensor->ndim++;
        if (comma == NULL)
            return NULL;
        text = comma + 1;
    }
}

/* The end of the part that begins at `text`: the next ';' or the end of the text. */
static const char *part_end(const char *text)
{
    return text + strcspn(text, ";");
}

const char *cli_parse_shapes(const char *text, struct c7x_client_tensor *tensors, int *out_count)
{
    int count = 0;
    for (;;) {
        const char *end = part_end(text);
        if (count == C7X_CLIENT_INPUTS_MAX)
            return "more than 128 shapes";
        const char *problem = parse_shape(text, end, &tensors[count]);
        if (problem != NULL)
            return problem;
        count++;
        if (*end == '\0')
            break;
        text = end + 1;
    }
    *out_count = count;
    return NULL;
}

const char *cli_parse_dtypes(const char *text, struct cli_tensor_type *types, int *out_count)
{
    int count = 0;
    for (;;) {
        const char *end = part_end(text);
        if (count == C7X_CLIENT_INPUTS_MAX)
            return "more than 128 types";
        if (!cli_find_dtype(text, (size_t)(end - text), &types[count]))
            return "a type has an unknown name";
        count++;
        if (*end == '\0')
            break;
        text = end + 1;
    }
    *out_count = count;
    return NULL;
}

bool cli_set_tensor_size(struct c7x_client_tensor *tensor)
{
    uint64_t size = (uint64_t)tensor->dtype_bits / 8;
    for (int i = 0; i < tensor->ndim; i++) {
        uint64_t dimension = (uint64_t)tensor->shape[i];
        if (dimension != 0 && size > (uint64_t)INT64_MAX / dimension)
            return false;
        size *= dimension;
    }
    tensor->data_size = (size_t)size;
    return true;
}

void cli_format_tensor(const struct c7x_client_tensor *tensor, char *text, size_t size)
{
    int used = snprintf(text, size, "%s[", cli_dtype_name(tensor->dtype_code, tensor->dtype_bits));
    for (int i = 0; i < tensor->ndim && used > 0 && (size_t)used < size; i++)
        used += snprintf(text + used, size - (size_t)used, "%s%" PRId64, i == 0 ? "" : ",",
                         tensor->shape[i]);
    if (used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "]");
}

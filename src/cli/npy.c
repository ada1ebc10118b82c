/* SPDX-License-Identifier: Apache-2.0 */
/* The .npy format (numpy.lib.format), versions 1.0 to 3.0: little-endian, C order, plain types. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>

#define MAGIC "\x93NUMPY"

enum { MAGIC_SIZE = 6, TEXT_OFFSET_1 = 10, TEXT_OFFSET_2 = 12, HEAD_ALIGNMENT = 64 };

struct npy_type {
    const char *name; /* behind the sign of the byte order */
    struct cli_tensor_type type;
};

static const struct npy_type npy_types[] = {
    {"f4", {C7X_DTYPE_FLOAT, 32}}, {"f2", {C7X_DTYPE_FLOAT, 16}}, {"f8", {C7X_DTYPE_FLOAT, 64}},
    {"i1", {C7X_DTYPE_INT, 8}},    {"i2", {C7X_DTYPE_INT, 16}},   {"i4", {C7X_DTYPE_INT, 32}},
    {"i8", {C7X_DTYPE_INT, 64}},   {"u1", {C7X_DTYPE_UINT, 8}},   {"u2", {C7X_DTYPE_UINT, 16}},
    {"u4", {C7X_DTYPE_UINT, 32}},  {"u8", {C7X_DTYPE_UINT, 64}},  {"b1", {C7X_DTYPE_BOOL, 8}},
};

enum { NPY_TYPE_COUNT = sizeof npy_types / sizeof npy_types[0] };

bool cli_is_npy(const char *data, size_t size)
{
    return size >= MAGIC_SIZE && memcmp(data, MAGIC, MAGIC_SIZE) == 0;
}

/* The dictionary of the head, read from left to right. */
struct cursor {
    const char *at;
    const char *end;
};

static void skip_spaces(struct cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t'))
        cursor->at++;
}

static bool take(struct cursor *cursor, char wanted)
{
    skip_spaces(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

static bool take_word(struct cursor *cursor, const char *word)
{
    size_t length = strlen(word);
    skip_spaces(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

/* A quoted string without escapes. */
static bool take_string(struct cursor *cursor, char *out, size_t size)
{
    skip_spaces(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"'))
        return false;
    char quote = *cursor->at++;
    const char *close = memchr(cursor->at, quote, (size_t)(cursor->end - cursor->at));
    if (close == NULL || (size_t)(close - cursor->at) >= size)
        return false;
    size_t length = (size_t)(close - cursor->at);
    memcpy(out, cursor->at, length);
    out[length] = '\0';
    cursor->at = close + 1;
    return true;
}

static bool take_number(struct cursor *cursor, int64_t *out_value)
{
    char digits[24];
    size_t length = 0;
    uint64_t value;
    skip_spaces(cursor);
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9' &&
           length + 1 < sizeof digits)
        digits[length++] = *cursor->at++;
    digits[length] = '\0';
    if (!cli_parse_u64(digits, INT64_MAX, &value))
        return false;
    *out_value = (int64_t)value;
    return true;
}

static const char *take_shape(struct cursor *cursor, struct c7x_client_tensor *tensor)
{
    if (!take(cursor, '('))
        return "its head has no usable shape";
    tensor->ndim = 0;
    while (!take(cursor, ')')) {
        if (tensor->ndim == C7X_CLIENT_RANK_MAX)
            return "it has more than 6 dimensions";
        if (!take_number(cursor, &tensor->shape[tensor->ndim]))
            return "its head has no usable shape";
        tensor->ndim++;
        if (!take(cursor, ',') && !(cursor->at < cursor->end && *cursor->at == ')'))
            return "its head has no usable shape";
    }
    return NULL;
}

static const char *take_type(struct cursor *cursor, struct c7x_client_tensor *tensor)
{
    char name[16];
    if (!take_string(cursor, name, sizeof name))
        return "its type is not a plain one (structured arrays are not supported)";
    if (name[0] == '>')
        return "it is big-endian; save it with astype(array.dtype.newbyteorder('<'))";
    for (int i = 0; i < NPY_TYPE_COUNT; i++) {
        if (name[0] != '\0' && strcmp(name + 1, npy_types[i].name) == 0) {
            tensor->dtype_code = npy_types[i].type.code;
            tensor->dtype_bits = npy_types[i].type.bits;
            return NULL;
        }
    }
    return "its type is not supported (only f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are)";
}

static const char *take_entry(struct cursor *cursor, struct c7x_client_tensor *tensor,
                              bool *fortran_order)
{
    char key[32];
    if (!take_string(cursor, key, sizeof key) || !take(cursor, ':'))
        return "its head is not a dictionary";
    if (strcmp(key, "descr") == 0)
        return take_type(cursor, tensor);
    if (strcmp(key, "shape") == 0)
        return take_shape(cursor, tensor);
    if (strcmp(key, "fortran_order") != 0)
        return "its head has an unknown key";
    *fortran_order = take_word(cursor, "True");
    return *fortran_order || take_word(cursor, "False") ? NULL : "its head has no usable order";
}

static const char *parse_head(struct cursor cursor, struct c7x_client_tensor *tensor)
{
    bool fortran_order = false;
    tensor->ndim = -1;
    if (!take(&cursor, '{'))
        return "its head is not a dictionary";
    while (!take(&cursor, '}')) {
        const char *problem = take_entry(&cursor, tensor, &fortran_order);
        if (problem != NULL)
            return problem;
        (void)take(&cursor, ',');
    }
    if (tensor->ndim < 0 || tensor->dtype_bits == 0)
        return "its head names no type or no shape";
    if (fortran_order && tensor->ndim > 1)
        return "it is in Fortran order; save it with numpy.ascontiguousarray(array)";
    return NULL;
}

/* Where the head's text lies; false if the file ends in it. */
static bool find_head(const char *bytes, size_t size, struct cursor *out_head)
{
    const unsigned char *raw = (const unsigned char *)bytes;
    size_t offset = TEXT_OFFSET_1;
    if (size < TEXT_OFFSET_2)
        return false;
    size_t length = raw[8] | (size_t)raw[9] << 8;
    if (raw[6] > 1) {
        length |= (size_t)raw[10] << 16 | (size_t)raw[11] << 24;
        offset = TEXT_OFFSET_2;
    }
    if (length > size - offset)
        return false;
    *out_head = (struct cursor){bytes + offset, bytes + offset + length};
    return true;
}

const char *cli_parse_npy(char *bytes, size_t size, struct c7x_client_tensor *out_tensor)
{
    struct cursor head;
    struct c7x_client_tensor tensor = {0};
    if (size > MAGIC_SIZE && (bytes[6] < 1 || bytes[6] > 3))
        return "it has a version other than 1.0, 2.0 and 3.0";
    if (!find_head(bytes, size, &head))
        return "it ends in its head";
    const char *problem = parse_head(head, &tensor);
    if (problem != NULL)
        return problem;
    size_t offset = (size_t)(head.end - bytes);
    if (!cli_set_tensor_size(&tensor) || tensor.data_size != size - offset)
        return "its data is not as long as its head says";
    tensor.data = bytes + offset;
    *out_tensor = tensor;
    return NULL;
}

static const char *find_npy_name(const struct c7x_client_tensor *tensor)
{
    for (int i = 0; i < NPY_TYPE_COUNT; i++) {
        if (npy_types[i].type.code == tensor->dtype_code &&
            npy_types[i].type.bits == tensor->dtype_bits)
            return npy_types[i].name;
    }
    return NULL;
}

static void append_shape(const struct c7x_client_tensor *tensor, char *text, size_t size)
{
    size_t used = strlen(text);
    for (int i = 0; i < tensor->ndim; i++) {
        /* (3,) for one dimension, (3, 4) for more */
        snprintf(text + used, size - used, "%s%" PRId64 "%s", i == 0 ? "" : " ", tensor->shape[i],
                 i + 1 < tensor->ndim || tensor->ndim == 1 ? "," : "");
        used = strlen(text);
    }
}

size_t cli_format_npy_head(const struct c7x_client_tensor *tensor, char *head)
{
    char text[CLI_NPY_HEAD_MAX - TEXT_OFFSET_1 - HEAD_ALIGNMENT] = "";
    const char *name = find_npy_name(tensor);
    if (name == NULL)
        return 0;
    snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
             tensor->dtype_bits == 8 ? '|' : '<', name);
    append_shape(tensor, text, sizeof text);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "), }");
    used = strlen(text);
    size_t total = TEXT_OFFSET_1 + used + 1;
    total = (total + HEAD_ALIGNMENT - 1) / HEAD_ALIGNMENT * HEAD_ALIGNMENT;
    memcpy(head, MAGIC "\x01\x00", MAGIC_SIZE + 2);
    head[8] = (char)((total - TEXT_OFFSET_1) & 0xFF);
    head[9] = (char)((total - TEXT_OFFSET_1) >> 8);
    memset(head + TEXT_OFFSET_1, ' ', total - TEXT_OFFSET_1);
    memcpy(head + TEXT_OFFSET_1, text, used);
    head[total - 1] = '\n';
    return total;
}

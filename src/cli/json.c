/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that the command prints. Integers are printed as they are: a double would round large
 * ones. */
#include "cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>

static bool utf8_continues(const unsigned char *text, int count)
{
    for (int i = 1; i <= count; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return false;
    }
    return true;
}

int cli_utf8_length(const unsigned char *text)
{
    int count = text[0] < 0x80             ? 0
                : (text[0] & 0xE0) == 0xC0 ? 1
                : (text[0] & 0xF0) == 0xE0 ? 2
                : (text[0] & 0xF8) == 0xF0 ? 3
                                           : -1;
    return count >= 0 && utf8_continues(text, count) ? count + 1 : 0;
}

/* File names may hold any bytes; JSON may not. */
void cli_json_add_text(cJSON *object, const char *name, const char *text)
{
    char clean[CLI_MESSAGE_MAX];
    size_t used = 0;
    while (*text != '\0' && used + 4 < sizeof clean) {
        int length = cli_utf8_length((const unsigned char *)text);
        for (int i = 0; i < length; i++)
            clean[used++] = text[i];
        if (length == 0)
            clean[used++] = '?';
        text += length == 0 ? 1 : length;
    }
    clean[used] = '\0';
    cJSON_AddItemToObject(object, name, cJSON_CreateString(clean));
}

static cJSON *create_signed(int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return cJSON_CreateRaw(text);
}

void cli_json_add_unsigned(cJSON *object, const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    cJSON_AddItemToObject(object, name, cJSON_CreateRaw(text));
}

void cli_json_add_number_or_null(cJSON *object, const char *name, uint64_t value)
{
    if (value != 0)
        cli_json_add_unsigned(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

void cli_json_add_text_or_null(cJSON *object, const char *name, const char *text)
{
    if (text[0] != '\0')
        cli_json_add_text(object, name, text);
    else
        cJSON_AddNullToObject(object, name);
}

void cli_json_add_version(cJSON *object, const char *name, uint32_t version)
{
    char text[32] = "";
    if (version != 0)
        cli_format_version(version, text, sizeof text);
    cli_json_add_text_or_null(object, name, text);
}

cJSON *cli_json_append(cJSON *list)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(list, object);
    return object;
}

cJSON *cli_json_ok(void)
{
    cJSON *object = cJSON_CreateObject();
    cli_json_add_text(object, "status", "ok");
    return object;
}

static cJSON *create_tensor(const struct c7x_client_tensor *tensor)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *shape = cJSON_CreateArray();
    for (int i = 0; i < tensor->ndim; i++)
        cJSON_AddItemToArray(shape, create_signed(tensor->shape[i]));
    cJSON_AddItemToObject(object, "index", create_signed(tensor->reserved));
    cJSON_AddItemToObject(object, "ndim", create_signed(tensor->ndim));
    cJSON_AddItemToObject(object, "dtype_code", create_signed(tensor->dtype_code));
    cJSON_AddItemToObject(object, "dtype_bits", create_signed(tensor->dtype_bits));
    cli_json_add_unsigned(object, "data_size", tensor->data_size);
    cJSON_AddItemToObject(object, "shape", shape);
    return object;
}

cJSON *cli_json_result(const struct cli_outputs *outputs)
{
    cJSON *object = cli_json_ok();
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < outputs->count; i++)
        cJSON_AddItemToArray(list, create_tensor(&outputs->tensors[i]));
    cli_json_add_unsigned(object, "cycles", outputs->cycles);
    cli_json_add_unsigned(object, "num_outputs", (uint64_t)outputs->count);
    cJSON_AddItemToObject(object, "outputs", list);
    return object;
}

void cli_json_print(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);
    if (text != NULL)
        puts(text);
    else
        fputs("{\"status\":\"error\",\"stage\":\"output\",\"error\":\"out of memory\"}\n", stdout);
    cJSON_free(text);
    cJSON_Delete(object);
}

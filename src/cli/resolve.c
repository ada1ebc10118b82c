/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors some bytes of input are: from shapes, types, .npy heads and the module's
 * declaration. */
#include "cli.h"

#include <string.h>

enum { TEXT_MAX = 1024 };

/* What each source says; a count of 0: nothing. */
struct sources {
    struct c7x_client_tensor shaped[C7X_CLIENT_INPUTS_MAX]; /* from the text of shapes */
    struct c7x_client_tensor declared[C7X_CLIENT_INPUTS_MAX];
    int shaped_count;
    int declared_count;
};

static bool gather(const struct cli_tensor_request *request, struct sources *sources, char *problem)
{
    const char *what = NULL;
    if (request->shape != NULL)
        what = cli_parse_shapes(request->shape, sources->shaped, &sources->shaped_count);
    if (what != NULL) {
        snprintf(problem, CLI_MESSAGE_MAX, "shape %s: %s", request->shape, what);
        return false;
    }
    if (request->declaration != NULL)
        what =
            cli_declared_tensors(request->declaration, sources->declared, &sources->declared_count);
    if (what != NULL)
        snprintf(problem, CLI_MESSAGE_MAX, "%s", what);
    if (sources->declared_count > request->left_out)
        sources->declared_count -= request->left_out;
    return what == NULL;
}

static void copy_tensors(struct cli_inputs *inputs, const struct c7x_client_tensor *from, int count)
{
    inputs->count = count;
    memcpy(inputs->tensors, from, (size_t)count * sizeof *from);
}

/* The first source that has shapes. */
static void choose_shapes(const struct cli_tensor_request *request, const struct sources *sources,
                          struct cli_inputs *inputs)
{
    const struct c7x_client_tensor whole = {.ndim =
                                                1}; /* its length comes when the type is known */
    if (sources->shaped_count > 0)
        copy_tensors(inputs, sources->shaped, sources->shaped_count);
    else if (request->npy_count > 0)
        copy_tensors(inputs, request->npy, request->npy_count);
    else if (sources->declared_count > 0)
        copy_tensors(inputs, sources->declared, sources->declared_count);
    else
        copy_tensors(inputs, &whole, 1);
}

static void set_type(struct c7x_client_tensor *tensor, int32_t code, int32_t bits)
{
    tensor->dtype_code = code;
    tensor->dtype_bits = bits;
}

/* The types where the text of types says nothing. */
static void choose_types(const struct cli_tensor_request *request, const struct sources *sources,
                         struct cli_inputs *inputs)
{
    const struct c7x_client_tensor *from = NULL;
    if (request->npy_count == inputs->count)
        from = request->npy;
    else if (sources->declared_count == inputs->count)
        from = sources->declared;
    for (int i = 0; i < inputs->count; i++)
        set_type(&inputs->tensors[i], from != NULL ? from[i].dtype_code : C7X_DTYPE_FLOAT,
                 from != NULL ? from[i].dtype_bits : 32);
}

static bool apply_types(const char *text, struct cli_inputs *inputs, char *problem)
{
    struct cli_tensor_type types[C7X_CLIENT_INPUTS_MAX];
    int count = 0;
    const char *what = cli_parse_dtypes(text, types, &count);
    if (what != NULL) {
        snprintf(problem, CLI_MESSAGE_MAX, "dtype %s: %s; known are %s", text, what,
                 cli_dtype_list());
        return false;
    }
    if (count != 1 && count != inputs->count) {
        snprintf(problem, CLI_MESSAGE_MAX, "dtype names %d types, but there are %d inputs", count,
                 inputs->count);
        return false;
    }
    for (int i = 0; i < inputs->count; i++)
        set_type(&inputs->tensors[i], types[count == 1 ? 0 : i].code,
                 types[count == 1 ? 0 : i].bits);
    return true;
}

/* The one tensor of which only the type is known takes all bytes. */
static bool fit_whole(size_t size, struct c7x_client_tensor *tensor, char *problem)
{
    size_t element = (size_t)tensor->dtype_bits / 8;
    if (size % element != 0) {
        snprintf(problem, CLI_MESSAGE_MAX, "%zu bytes of input are not a whole number of %s", size,
                 cli_dtype_name(tensor->dtype_code, tensor->dtype_bits));
        return false;
    }
    tensor->shape[0] = (int64_t)(size / element);
    return true;
}

static bool set_sizes(struct cli_inputs *inputs, char *problem)
{
    inputs->size = 0;
    for (int i = 0; i < inputs->count; i++) {
        struct c7x_client_tensor *tensor = &inputs->tensors[i];
        if (!cli_set_tensor_size(tensor) || tensor->data_size > INT64_MAX - inputs->size) {
            snprintf(problem, CLI_MESSAGE_MAX, "input %d is too large", i);
            return false;
        }
        inputs->size += tensor->data_size;
    }
    return true;
}

bool cli_resolve_tensors(const struct cli_tensor_request *request, struct cli_inputs *inputs,
                         char *problem)
{
    static struct sources sources;
    memset(&sources, 0, sizeof sources);
    if (!gather(request, &sources, problem))
        return false;
    choose_shapes(request, &sources, inputs);
    choose_types(request, &sources, inputs);
    if (request->dtype != NULL && !apply_types(request->dtype, inputs, problem))
        return false;
    if (sources.shaped_count + request->npy_count + sources.declared_count == 0 &&
        !fit_whole(request->size, &inputs->tensors[0], problem))
        return false;
    return set_sizes(inputs, problem);
}

bool cli_check_total(const struct cli_inputs *inputs, size_t size, char *problem)
{
    char text[TEXT_MAX];
    if (inputs->size == size)
        return true;
    cli_format_tensor(&inputs->tensors[0], text, sizeof text);
    snprintf(problem, CLI_MESSAGE_MAX, "expected %zu bytes for %d input%s (%s%s), got %zu",
             inputs->size, inputs->count, inputs->count == 1 ? "" : "s", text,
             inputs->count == 1 ? "" : ", ...", size);
    return false;
}

void cli_place_tensors(struct cli_inputs *inputs)
{
    size_t used = 0;
    for (int i = 0; i < inputs->count; i++) {
        inputs->tensors[i].data = inputs->data + used;
        used += inputs->tensors[i].data_size;
    }
}

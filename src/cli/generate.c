/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs from a seed, for a module that declares what it takes: floats in [0, 1), integers 0 to 9.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { GENERATED_SIZE_MAX = 1 << 30 };

/* splitmix64: the same numbers everywhere, from any seed. */
static uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t value = *state;
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

/* Bits of the binary16 number steps / 1024. */
static uint16_t half_from_steps(uint32_t steps)
{
    if (steps == 0)
        return 0;
    uint32_t exponent = 15;
    while (steps < 1024) {
        steps <<= 1;
        exponent--;
    }
    return (uint16_t)(exponent << 10 | (steps & 1023));
}

/* One element; its bytes are the first bits / 8 of the result. */
static uint64_t make_element(const struct c7x_client_tensor *tensor, uint64_t random)
{
    uint64_t bits = 0;
    if (tensor->dtype_code == C7X_DTYPE_BOOL)
        return random >> 63;
    if (tensor->dtype_code != C7X_DTYPE_FLOAT)
        return (random >> 32) % 10;
    if (tensor->dtype_bits == 16)
        return half_from_steps((uint32_t)(random >> 54));
    if (tensor->dtype_bits == 32) {
        float value = (float)(random >> 40) * 0x1p-24f;
        memcpy(&bits, &value, sizeof value);
    } else {
        double value = (double)(random >> 11) * 0x1p-53;
        memcpy(&bits, &value, sizeof value);
    }
    return bits;
}

static void fill(struct c7x_client_tensor *tensor, uint64_t *state)
{
    size_t step = (size_t)tensor->dtype_bits / 8;
    char *data = tensor->data;
    for (size_t offset = 0; offset < tensor->data_size; offset += step) {
        uint64_t element = make_element(tensor, next_random(state));
        memcpy(data + offset, &element, step);
    }
}

const char *cli_declared_tensors(const struct c7x_module_declaration *declaration,
                                 struct c7x_client_tensor *tensors, int *out_count)
{
    int count = c7x_module_declaration_input_count(declaration);
    for (int i = 0; i < count; i++) {
        struct c7x_module_tensor declared = {.struct_size = sizeof declared};
        if (c7x_module_declaration_input(declaration, i, &declared) != C7X_OK)
            return "the declaration cannot be read";
        tensors[i] = (struct c7x_client_tensor){.ndim = declared.ndim,
                                                .dtype_code = declared.dtype_code,
                                                .dtype_bits = declared.dtype_bits};
        memcpy(tensors[i].shape, declared.shape, sizeof declared.shape);
        if (!cli_set_tensor_size(&tensors[i]))
            return "a declared input is too large";
    }
    *out_count = count;
    return NULL;
}

static bool allocate(struct cli_inputs *inputs)
{
    for (int i = 0; i < inputs->count; i++) {
        if (inputs->tensors[i].data_size > GENERATED_SIZE_MAX - inputs->size)
            return false;
        inputs->size += inputs->tensors[i].data_size;
    }
    inputs->data = malloc(inputs->size + 1);
    return inputs->data != NULL;
}

int cli_generate_inputs(const struct cli *cli, const struct c7x_module_declaration *declaration,
                        struct cli_inputs *out_inputs)
{
    if (declaration == NULL) {
        fputs("note: no --input, and the module declares none: it runs without\n", stderr);
        return CLI_DONE;
    }
    const char *problem =
        cli_declared_tensors(declaration, out_inputs->tensors, &out_inputs->count);
    if (problem != NULL)
        return cli_fail(cli, "input", "%s", problem);
    if (!allocate(out_inputs))
        return cli_fail(cli, "input", "no memory for the inputs that the module declares");
    cli_place_tensors(out_inputs);
    uint64_t state = cli->options.seed;
    for (int i = 0; i < out_inputs->count; i++)
        fill(&out_inputs->tensors[i], &state);
    fprintf(stderr, "note: no --input; generated %d from seed %llu\n", out_inputs->count,
            (unsigned long long)cli->options.seed);
    return CLI_DONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a module once: cc run.c $(pkg-config --cflags --libs c7x-compute) && ./a.out lib0.out */
#include <c7x_compute_client.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int stop(const char *text)
{
    fprintf(stderr, "run: %s\n", text);
    return 1;
}

/* Memory for an input as the module declares it: 0 1 2 ... 9 0 1 ... if it is float, else zeros. */
static struct c7x_client_tensor make_input(const struct c7x_module_tensor *declared)
{
    struct c7x_client_tensor input = {.data_size = (size_t)declared->dtype_bits / 8};
    for (int i = 0; i < declared->ndim; i++)
        input.data_size *= (size_t)declared->shape[i];
    input.data = calloc(1, input.data_size + 1);
    input.ndim = declared->ndim;
    input.dtype_code = declared->dtype_code;
    input.dtype_bits = declared->dtype_bits;
    memcpy(input.shape, declared->shape, sizeof input.shape);
    if (input.dtype_code == C7X_DTYPE_FLOAT && input.dtype_bits == 32 && input.data != NULL)
        for (size_t i = 0; i < input.data_size / sizeof(float); i++)
            ((float *)input.data)[i] = (float)(i % 10);
    return input;
}

int main(int argc, char **argv)
{
    struct c7x_module_declaration *declaration;
    struct c7x_module_tensor tensor = {.struct_size = sizeof tensor};
    struct c7x_client_tensor inputs[C7X_CLIENT_INPUTS_MAX], outputs[C7X_CLIENT_OUTPUTS_MAX];
    int output_count = C7X_CLIENT_OUTPUTS_MAX, input_count = 0;
    uint32_t handle;
    uint64_t cycles;
    if (argc != 2)
        return stop("usage: run MODULE");
    /* What the module wants stands in its file; no device is needed to read it. */
    if (c7x_module_declaration_read(argv[1], &declaration) != C7X_OK)
        return stop(c7x_client_last_error(NULL));
    while (c7x_module_declaration_input(declaration, input_count, &tensor) == C7X_OK)
        inputs[input_count++] = make_input(&tensor);
    /* A device ($C7X_DEVICE, else an emulator of our own), the module on it, one run. */
    struct c7x_client *client = c7x_client_open();
    if (client == NULL || c7x_client_dyn_load(client, argv[1], &handle) != C7X_OK ||
        c7x_client_infer(client, handle, 0, inputs, input_count, outputs, &output_count, &cycles))
        return stop(c7x_client_last_error(client));
    for (int i = 0; i < output_count; i++) /* in the client's memory, until it runs or closes */
        for (size_t k = 0; k < 4 && k * sizeof(float) < outputs[i].data_size; k++)
            printf("output %d [%zu]: %g\n", i, k, (double)((float *)outputs[i].data)[k]);
    printf("time: %llu ns (clock cycles on a board)\n", (unsigned long long)cycles);
    c7x_client_close(client); /* process end frees the rest */
    return 0;
}

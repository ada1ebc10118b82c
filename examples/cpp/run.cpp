/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a module once: c++ run.cpp $(pkg-config --cflags --libs c7x-compute) && ./a.out lib0.out */
#include <c7x_runtime.h>

#include <iostream>
#include <vector>

/* An input as the module declares it, in shared memory, so that nothing is copied when it runs:
 * 0 1 2 ... 9 0 1 ... if it is float, else zeros. */
static DLTensor *make_input(c7x::Module &module, const c7x_module_tensor &declared)
{
    DLDataType type = {};
    type.code = static_cast<uint8_t>(declared.dtype_code);
    type.bits = static_cast<uint8_t>(declared.dtype_bits);
    type.lanes = 1;
    DLTensor *input = module.CreateInput(declared.shape, declared.ndim, type);
    if (input == nullptr)
        throw std::runtime_error(module.last_error());
    size_t count = 1;
    for (int i = 0; i < input->ndim; i++)
        count *= static_cast<size_t>(input->shape[i]);
    std::memset(input->data, 0, count * type.bits / 8);
    if (type.code == kDLFloat && type.bits == 32)
        for (size_t i = 0; i < count; i++)
            static_cast<float *>(input->data)[i] = static_cast<float>(i % 10);
    return input;
}

int main(int argc, char **argv)
try {
    if (argc != 2)
        throw std::runtime_error("usage: run MODULE");
    /* What the module wants stands in its file; no device is needed to read it. */
    c7x_module_declaration *declaration = nullptr;
    if (c7x_module_declaration_read(argv[1], &declaration) != C7X_OK)
        throw std::runtime_error(c7x_client_last_error(nullptr));
    /* A device ($C7X_DEVICE, else an emulator of our own) with the module on it. */
    c7x::Module module = c7x::Module::Load(argv[1]);
    std::vector<DLTensor *> inputs;
    c7x_module_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    for (int i = 0; c7x_module_declaration_input(declaration, i, &tensor) == C7X_OK; i++)
        inputs.push_back(make_input(module, tensor));
    c7x_module_declaration_free(declaration);

    std::vector<c7x::OutputTensor> outputs = module.Run(inputs);
    for (size_t i = 0; i < outputs.size(); i++)
        for (size_t k = 0; k < 4 && k * sizeof(float) < outputs[i].data_size; k++)
            std::cout << "output " << i << " [" << k
                      << "]: " << static_cast<const float *>(outputs[i].dl.data)[k] << '\n';
    std::cout << "time: " << module.last_cycles() << " ns (clock cycles on a board)\n";
} catch (const std::exception &error) { /* c7x::Error, with the library's text */
    std::cerr << "run: " << error.what() << '\n';
    return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "support/weights.h"

#include "c7x_module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void c7x_test_make_weights(const char *path)
{
    const struct {
        uint64_t count;
        uint8_t padding[4];
        int32_t type_index;
        uint64_t magic;
        uint64_t reserved;
        DLDevice device;
        int32_t ndim;
        DLDataType dtype;
        int64_t shape[1];
        int64_t data_bytes;
        float data[4];
    } weights = {
        .count = 1,
        .type_index = kTVMFFITensor,
        .magic = C7X_WEIGHTS_TENSOR_MAGIC,
        .device = {kDLCPU, 0},
        .ndim = 1,
        .dtype = {kDLFloat, 32, 1},
        .shape = {4},
        .data_bytes = 16,
        .data = {1, 1, 1, 1},
    };
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&weights, sizeof weights, 1, file), 1);
    fclose(file);
}

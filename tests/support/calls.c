/* SPDX-License-Identifier: Apache-2.0 */
#include "support/calls.h"

#include "support/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

uint32_t c7x_test_dyn_load(struct c7x_client *client, const char *module)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path(module, path);
    if (c7x_client_dyn_load(client, path, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(client));
    return handle;
}

void c7x_test_call_add_one(struct c7x_client *client, uint32_t handle, float first)
{
    float numbers[4] = {first, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int count = 1;
    if (c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL) != C7X_OK)
        fail_msg("infer: %s", c7x_client_last_error(client));
    for (int i = 0; i < 4; i++)
        assert_true(((const float *)output.data)[i] == numbers[i] + 1);
}

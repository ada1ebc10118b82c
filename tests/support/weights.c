/* SPDX-License-Identifier: Apache-2.0 */
#include "support/weights.h"

#include "loader/fixtures/ones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void c7x_test_make_weights(const char *path)
{
    const struct weights weights = FIXTURE_ONES;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&weights, sizeof weights, 1, file), 1);
    fclose(file);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/exports/exports.h"

#include "firmware/tvm/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void names_are_found(void **state)
{
    (void)state;
    assert_non_null(c7x_exports.find(&c7x_exports, "memcpy"));
    assert_non_null(c7x_exports.find(&c7x_exports, "TVMDSPRegFileInit"));
    assert_non_null(c7x_exports.find(&c7x_exports, "tanhf"));
    assert_string_equal(c7x_export_group("tanhf"), "math");
}

static void other_names_are_not(void **state)
{
    (void)state;
    assert_null(c7x_exports.find(&c7x_exports, ""));
    assert_null(c7x_exports.find(&c7x_exports, "memcp"));
    assert_null(c7x_exports.find(&c7x_exports, "memcpyy"));
    assert_null(c7x_exports.find(&c7x_exports, "system"));
    assert_null(c7x_export_group("TIDL_VISION_FXNS"));
}

static void a_data_name_is_the_address_of_the_variable(void **state)
{
    (void)state;
    assert_ptr_equal(c7x_exports.find(&c7x_exports, "g_l2_mem_size"), &g_l2_mem_size);
}

static void the_compilers_list_stands_in_the_table(void **state)
{
    char line[256];
    unsigned count = 0;
    FILE *list = fopen("compiler/c7x_compile/exports.txt", "r");
    (void)state;
    assert_non_null(list);
    while (fgets(line, sizeof(line), list) != NULL) {
        char name[128];
        char group[128];
        if (line[0] == '#' || sscanf(line, "%127s %127s", name, group) != 2)
            continue;
        count++;
        if (c7x_export_group(name) == NULL)
            fail_msg("exports.txt names %s, which the firmware does not export", name);
        assert_string_equal(c7x_export_group(name), group);
    }
    assert_int_equal(fclose(list), 0);
    assert_in_range(count, 100, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(other_names_are_not),
        cmocka_unit_test(a_data_name_is_the_address_of_the_variable),
        cmocka_unit_test(the_compilers_list_stands_in_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

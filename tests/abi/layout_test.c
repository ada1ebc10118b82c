/* SPDX-License-Identifier: Apache-2.0 */
/* What today's headers may not change: two structs, the numbers of the statuses, and that every
 * other struct says how large it is. */
#include "abi/statuses_0_1.h"
#include "c7x_compute_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEADER "include/c7x_compute_client.h"

/* On a 64-bit machine. */
_Static_assert(sizeof(void *) == 8, "the layouts below are those of 64-bit hosts");
_Static_assert(sizeof(struct c7x_client_tensor) == 80, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, data) == 0, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, data_size) == 8, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, ndim) == 16, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, dtype_code) == 20, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, dtype_bits) == 24, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, reserved) == 28, "frozen");
_Static_assert(offsetof(struct c7x_client_tensor, shape) == 32, "frozen");
_Static_assert(sizeof(((struct c7x_client_tensor *)0)->shape) == 48, "six dimensions of 64 bits");
_Static_assert(sizeof(struct c7x_client_status) == 16, "frozen");
_Static_assert(offsetof(struct c7x_client_status, version) == 0, "frozen");
_Static_assert(offsetof(struct c7x_client_status, uptime_ms) == 4, "frozen");
_Static_assert(offsetof(struct c7x_client_status, jobs_completed) == 8, "frozen");
_Static_assert(offsetof(struct c7x_client_status, jobs_failed) == 12, "frozen");

static int is_frozen(const char *name)
{
    return strcmp(name, "c7x_client_tensor") == 0 || strcmp(name, "c7x_client_status") == 0;
}

static void every_struct_but_the_frozen_two_begins_with_its_size(void **state)
{
    char line[512];
    char name[64];
    int struct_count = 0;
    FILE *header = fopen(HEADER, "r");
    (void)state;
    assert_non_null(header);
    while (fgets(line, sizeof line, header) != NULL) {
        char brace = '\0';
        if (sscanf(line, "struct %63s %c", name, &brace) != 2 || brace != '{')
            continue;
        struct_count++;
        assert_non_null(fgets(line, sizeof line, header));
        if (!is_frozen(name) && strstr(line, "    size_t struct_size;") != line)
            fail_msg("struct %s begins with %s", name, line);
    }
    fclose(header);
    assert_true(struct_count > 10);
}

static const struct c7x_abi_status statuses[] = {
#define ENTRY(name, code, text, retry, next) {#name, code},
    C7X_STATUS_TABLE(ENTRY)};

static void statuses_keep_their_numbers(void **state)
{
    (void)state;
    for (const struct c7x_abi_status *old = c7x_abi_statuses_0_1; old->name != NULL; old++) {
        size_t i = 0;
        while (i < sizeof statuses / sizeof statuses[0] && strcmp(statuses[i].name, old->name) != 0)
            i++;
        if (i == sizeof statuses / sizeof statuses[0])
            fail_msg("%s has gone", old->name);
        assert_int_equal(statuses[i].code, old->code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_struct_but_the_frozen_two_begins_with_its_size),
        cmocka_unit_test(statuses_keep_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The statuses as version 0.1 numbered them. */
#ifndef C7X_TESTS_ABI_STATUSES_0_1_H
#define C7X_TESTS_ABI_STATUSES_0_1_H

struct c7x_abi_status {
    const char *name;
    int code;
};

/* Ends with a name of NULL. */
extern const struct c7x_abi_status c7x_abi_statuses_0_1[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "statuses_0_1.h"

#include <c7x_status.h>
#include <stddef.h>

#define ENTRY(name, code, text, retry, next) {#name, code},

const struct c7x_abi_status c7x_abi_statuses_0_1[] = {C7X_STATUS_TABLE(ENTRY){NULL, 0}};

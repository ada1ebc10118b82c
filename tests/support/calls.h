/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the client that many tests make; failures fail the running test. */
#ifndef C7X_TESTS_SUPPORT_CALLS_H
#define C7X_TESTS_SUPPORT_CALLS_H

#include "c7x_compute_client.h"

/* Loads a test module of the build ("add_one") and returns its handle. */
uint32_t c7x_test_dyn_load(struct c7x_client *client, const char *module);
/* Runs add_one on first, 2, 3, 4 and checks the result. */
void c7x_test_call_add_one(struct c7x_client *client, uint32_t handle, float first);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef C7X_TESTS_SUPPORT_WEIGHTS_H
#define C7X_TESTS_SUPPORT_WEIGHTS_H

/* Writes a weights.bin with one constant, float32 [4] of ones: what the modules add_one and
 * no_weights add. Fails the running test on any error. */
void c7x_test_make_weights(const char *path);

#endif

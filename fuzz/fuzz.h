/* SPDX-License-Identifier: Apache-2.0 */
/* The function that libFuzzer calls with each input. */
#ifndef C7X_FUZZ_FUZZ_H
#define C7X_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

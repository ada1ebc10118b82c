/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from text files of hex digits: two digits a byte, spaces ignored, # comments to the end of
 * the line. */
#ifndef C7X_TESTS_SUPPORT_HEX_H
#define C7X_TESTS_SUPPORT_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Reads the file into bytes[0..capacity) and returns how many there were; fails the running test on
 * any error. */
size_t c7x_test_read_hex(const char *path, uint8_t *bytes, size_t capacity);

#endif

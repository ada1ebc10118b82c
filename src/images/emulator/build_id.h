/* SPDX-License-Identifier: Apache-2.0 */
#ifndef C7X_IMAGES_EMULATOR_BUILD_ID_H
#define C7X_IMAGES_EMULATOR_BUILD_ID_H

#include <stddef.h>

/* "0.1.0 5f0c6d21a9e84b37": the version and what tells this build from others of it. */
void c7x_emulator_version(char *text, size_t size);

#endif

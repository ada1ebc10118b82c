/* SPDX-License-Identifier: Apache-2.0 */
/* What the firmware exports to modules: one table (exports.gperf), looked up by name. */
#ifndef C7X_FIRMWARE_EXPORTS_EXPORTS_H
#define C7X_FIRMWARE_EXPORTS_EXPORTS_H

#include "firmware/loader/symbol_source.h"

extern const struct c7x_symbol_source c7x_exports;

/* The group of an exported name ("math"), or NULL. */
const char *c7x_export_group(const char *name);

#endif

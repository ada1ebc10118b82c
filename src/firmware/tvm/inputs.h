/* SPDX-License-Identifier: Apache-2.0 */
/* Checks what a client passes in against what the module says it takes. */
#ifndef C7X_FIRMWARE_TVM_INPUTS_H
#define C7X_FIRMWARE_TVM_INPUTS_H

#include "firmware/tvm/manifest.h"

/* C7X_TENSOR: names the tensor, what was expected and what came. Without a manifest only sizes are
 * checked. */
enum c7x_status c7x_tvm_check_inputs(const struct c7x_manifest *manifest,
                                     const struct c7x_infer *infer,
                                     struct c7x_error *error) C7X_NODISCARD;

#endif

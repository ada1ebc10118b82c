/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the result of an entry into the client's output window. */
#ifndef C7X_FIRMWARE_TVM_OUTPUTS_H
#define C7X_FIRMWARE_TVM_OUTPUTS_H

#include "c7x_module.h"
#include "firmware/module/kind.h"
#include "firmware/tvm/manifest.h"

/*
 * Compares what an entry returned with what the manifest declares: how many outputs, and the bytes
 * of each whose shape is fixed. C7X_TENSOR: a client would take what is missing for a result.
 * Without a manifest, or outputs in it, everything passes.
 */
enum c7x_status c7x_tvm_check_outputs(const struct c7x_manifest *manifest, const TVMFFIAny *output,
                                      struct c7x_error *error) C7X_NODISCARD;

/*
 * `output` is one tensor or an array of tensors (other elements are skipped); anything else means
 * no outputs. Tensors follow each other in steps rounded up to 64 bytes; one that lies in the
 * window already stays where it is.
 *
 * With infer->kv, an array's tensors from the second on go to the region's slots, and are not told
 * of. Nothing is moved unless everything fits.
 *
 * C7X_SIZE: error->required is what the window needs, 0 when a slot is too small. C7X_TENSOR: one
 * cannot be described to the client.
 */
enum c7x_status c7x_tvm_place_outputs(const TVMFFIAny *output, const struct c7x_infer *infer,
                                      struct c7x_infer_result *out_result,
                                      struct c7x_error *error) C7X_NODISCARD;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The whole load in one call, for tests that look at its end alone. */
#ifndef C7X_TESTS_SUPPORT_LOADER_LOAD_H
#define C7X_TESTS_SUPPORT_LOADER_LOAD_H

#include "firmware/loader/loader.h"

/* Opens, links and starts. On failure *out_program is NULL and nothing stays allocated. */
static inline enum c7x_status loader_load(const struct c7x_loader_request *request,
                                          struct c7x_program **out_program, struct c7x_error *error)
{
    enum c7x_status status;
    *out_program = NULL;
    C7X_RETURN_IF_ERROR(c7x_loader_open(request, out_program, error));
    status = c7x_loader_link(*out_program, error);
    if (status == C7X_OK)
        status = c7x_loader_start(*out_program, error);
    if (status != C7X_OK) {
        c7x_loader_unload(*out_program, false);
        *out_program = NULL;
    }
    return status;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a client over a link that the caller has made: for tests, and for links that no device
 * string names. */
#ifndef C7X_CLIENT_OVER_H
#define C7X_CLIENT_OVER_H

#include "c7x_compute_client.h"
#include "transport/transport.h"

/* As c7x_client_open_with(), but for options->device, which is not looked at. Takes the link over,
 * also on failure. */
enum c7x_status c7x_client_open_over(struct c7x_host_link *link,
                                     const struct c7x_client_options *options,
                                     struct c7x_client **out_client) C7X_NODISCARD;

#endif

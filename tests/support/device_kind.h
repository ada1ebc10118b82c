/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of every kind behind one face, for suites that run against each. Failures fail the
 * running test. */
#ifndef C7X_TESTS_SUPPORT_DEVICE_KIND_H
#define C7X_TESTS_SUPPORT_DEVICE_KIND_H

#include "transport/transport.h"

#include <stdbool.h>

struct c7x_test_device;

struct c7x_test_device_kind {
    bool takes_many; /* links at once */
    bool keeps_a_log;
    uint64_t carveout_bytes;
    struct c7x_test_device *(*start)(void);
    struct c7x_host_link *(*connect)(struct c7x_test_device *device);
    /* The device goes away at once, as after a crash. */
    void (*kill)(struct c7x_test_device *device);
    /* All links are closed; the device may be gone already. */
    void (*stop)(struct c7x_test_device *device);
};

extern const struct c7x_test_device_kind c7x_test_kind_loopback;
extern const struct c7x_test_device_kind c7x_test_kind_private_emulator;
extern const struct c7x_test_device_kind c7x_test_kind_shared_emulator;
extern const struct c7x_test_device_kind c7x_test_kind_socket_emulator; /* frames take the socket */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole firmware in this process, over loopback: service, target, modules, TVM, and smaller
 * pools than a device has. The TVM runtime is one a process, so there is one such device at a time.
 * Every failure fails the running test.
 */
#ifndef C7X_TESTS_SUPPORT_LOOPBACK_DEVICE_H
#define C7X_TESTS_SUPPORT_LOOPBACK_DEVICE_H

#include "c7x_compute_client.h"
#include "firmware/memory/heap.h"
#include "transport/transport.h"

#define C7X_TEST_LOOPBACK_ARENA_BYTES (32u << 20) /* stands for the carve-out */
#define C7X_TEST_LOOPBACK_HEAP_BYTES (32u << 20)

struct c7x_test_loopback;

struct c7x_test_loopback *c7x_test_loopback_start(void);
/* One whose transport cannot tell that a client has died: sessions have a lease. */
struct c7x_test_loopback *c7x_test_loopback_start_with_lease(uint32_t lease_ms);
/* The device goes away: every call on its links answers C7X_RESET. Links stay to be closed. */
void c7x_test_loopback_halt(struct c7x_test_loopback *device);
/* Ends and frees the device, and asserts that its firmware has given all memory back. All links are
 * closed. */
void c7x_test_loopback_stop(struct c7x_test_loopback *device);

struct c7x_host_link *c7x_test_loopback_connect(struct c7x_test_loopback *device);
/* A client with these options, or (NULL) the default ones. */
struct c7x_client *c7x_test_loopback_open(struct c7x_test_loopback *device,
                                          const struct c7x_client_options *options);

enum c7x_test_pool { C7X_TEST_POOL_MAIN, C7X_TEST_POOL_FAST, C7X_TEST_POOL_COUNT };

void c7x_test_loopback_pool(const struct c7x_test_loopback *device, enum c7x_test_pool pool,
                            struct c7x_heap_statistics *out_statistics);
/* The same of the main pool. */
void c7x_test_loopback_heap(const struct c7x_test_loopback *device,
                            struct c7x_heap_statistics *out_statistics);
/* c7x_heap_fail_allocation() of the pool. */
uint64_t c7x_test_loopback_fail_allocation(struct c7x_test_loopback *device,
                                           enum c7x_test_pool pool, uint64_t nth);
uint32_t c7x_test_loopback_module_count(const struct c7x_test_loopback *device);
uint32_t c7x_test_loopback_model_count(const struct c7x_test_loopback *device);
/* Shared buffers that the device knows, those that are detached but still in use included. */
size_t c7x_test_loopback_buffer_count(struct c7x_test_loopback *device);

#endif

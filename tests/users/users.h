/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Situations from reports of users of such systems, each a test that is named after its report.
 * What they share; failures fail the running test.
 */
#ifndef C7X_TESTS_USERS_USERS_H
#define C7X_TESTS_USERS_USERS_H

#include "c7x_compute_client.h"
#include "support/calls.h"
#include "support/emulator_device.h"

#include <stdbool.h>

#define USERS_SOON_MS 30000 /* far more than anything here takes */

/* Runs for about `ms`. */
enum c7x_status users_spin(struct c7x_client *client, uint32_t handle, int32_t ms);
struct c7x_inference *users_send_spin(struct c7x_client *client, uint32_t handle, int32_t ms);
/* How it ended; C7X_BUSY: it has not. */
enum c7x_status users_result(struct c7x_inference *inference);

/* One request to see that the thread's last error says this. */
void users_assert_said(const char *text);
/* Free bytes of the pool ("DDR heap"). */
uint64_t users_free_bytes(struct c7x_client *client, const char *pool);
/* The client's own number in the list of sessions, by its process and name; NULL: none. Freed by
 * the caller with c7x_list_free(*out_list). */
const struct c7x_session_info *users_find_session(struct c7x_client *client, const char *name,
                                                  struct c7x_session_info **out_list);
struct c7x_client *users_open_as(const struct c7x_test_emulator *emulator, const char *name);

/* This program once more, as `PROGRAM POINT DEVICE`: it says a byte when it has come to the point.
 */
struct users_victim {
    int pid;
    int said;
};
struct users_victim users_start_victim(const char *point, const char *device);
void users_say_arrived(void);
void users_kill_victim(const struct users_victim *victim);

#endif

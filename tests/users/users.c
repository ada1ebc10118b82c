/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "users/users.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

enum c7x_status users_spin(struct c7x_client *client, uint32_t handle, int32_t ms)
{
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL);
}

struct c7x_inference *users_send_spin(struct c7x_client *client, uint32_t handle, int32_t ms)
{
    struct c7x_infer_options options;
    struct c7x_inference *inference = NULL;
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    c7x_infer_options_init(client, &options);
    options.handle = handle;
    options.deadline_ms = -1;
    if (c7x_client_infer_async(client, &options, &input, 1, &inference) != C7X_OK)
        fail_msg("infer_async: %s", c7x_client_last_error(client));
    return inference;
}

enum c7x_status users_result(struct c7x_inference *inference)
{
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_inference_result(inference, &output, &count, NULL);
}

void users_assert_said(const char *text)
{
    if (strstr(c7x_client_last_error(NULL), text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", c7x_client_last_error(NULL), text);
}

uint64_t users_free_bytes(struct c7x_client *client, const char *pool)
{
    struct c7x_pool_info *pools;
    uint64_t free_bytes = 0;
    size_t count;
    if (c7x_client_list_pools(client, &pools, &count) != C7X_OK)
        fail_msg("list: %s", c7x_client_last_error(client));
    for (size_t i = 0; i < count; i++)
        if (strcmp(pools[i].name, pool) == 0)
            free_bytes = pools[i].free;
    c7x_list_free(pools);
    assert_true(free_bytes != 0);
    return free_bytes;
}

const struct c7x_session_info *users_find_session(struct c7x_client *client, const char *name,
                                                  struct c7x_session_info **out_list)
{
    size_t count;
    if (c7x_client_list_sessions(client, out_list, &count) != C7X_OK)
        fail_msg("list: %s", c7x_client_last_error(client));
    for (size_t i = 0; i < count; i++)
        if (strcmp((*out_list)[i].name, name) == 0)
            return &(*out_list)[i];
    return NULL;
}

struct c7x_client *users_open_as(const struct c7x_test_emulator *emulator, const char *name)
{
    struct c7x_client_options options;
    struct c7x_client *client = NULL;
    c7x_client_options_init(&options);
    options.device = emulator->device;
    options.deadline_ms = USERS_SOON_MS;
    options.name = name;
    if (c7x_client_open_with(&options, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    return client;
}

/* ---- Processes ---- */

struct users_victim users_start_victim(const char *point, const char *device)
{
    char program[C7X_TEST_PATH_MAX];
    char *const arguments[] = {program, (char *)(uintptr_t)point, (char *)(uintptr_t)device, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int said[2];
    char byte;
    c7x_test_own_program(program);
    assert_int_equal(pipe2(said, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, said[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(said[1]);
    struct pollfd entry = {.fd = said[0], .events = POLLIN};
    assert_int_equal(poll(&entry, 1, USERS_SOON_MS), 1);
    assert_int_equal(read(said[0], &byte, 1), 1);
    return (struct users_victim){pid, said[0]};
}

/* Whoever started us will kill us, or has died itself. */
void users_say_arrived(void)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || write(STDOUT_FILENO, "", 1) != 1)
        exit(1);
}

void users_kill_victim(const struct users_victim *victim)
{
    int status;
    assert_int_equal(kill(victim->pid, SIGKILL), 0);
    assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
    assert_true(WIFSIGNALED(status));
    close(victim->said);
}

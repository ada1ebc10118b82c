/* SPDX-License-Identifier: Apache-2.0 */
/* What tests need of the machine: files of the build, folders of their own, descriptors, the ends
 * of processes. */
#ifndef C7X_TESTS_SUPPORT_ENVIRONMENT_H
#define C7X_TESTS_SUPPORT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define C7X_TEST_PATH_MAX 512

/* Path of a test module of the build ("add_one"). */
void c7x_test_module_path(const char *name, char path[C7X_TEST_PATH_MAX]);

/* Path of this test program, to start it once more: of the build, because a cross-compiled one is
 * started by a script of its name. */
void c7x_test_own_program(char path[C7X_TEST_PATH_MAX]);

/* A new empty folder with a short name, good for sockets; fails the running test on any error. */
void c7x_test_make_folder(char path[C7X_TEST_PATH_MAX]);
/* Removes the folder and the files in it. */
void c7x_test_remove_folder(const char *path);

/* `full`, or a tenth of it unless the environment has C7X_SOAK. */
int c7x_test_rounds(int full);

/* Open descriptors of a process (0: this one). */
int c7x_test_descriptor_count(pid_t pid);

/* Stops the process, and waits until all its threads have stopped. */
void c7x_test_stop_process(pid_t pid);

/* A descriptor that becomes readable when the process ends, or -1 if there is no such process. */
int c7x_test_watch(pid_t pid);
/* Waits for the end of a watched process and closes `watch`; -1 has ended already. False: not
 * within the time. */
bool c7x_test_wait_for_end(int watch, int timeout_ms);

/* How often the tasks of a process were given a processor so far. */
unsigned long c7x_test_switch_count(pid_t pid);
void c7x_test_sleep_ms(long ms);

/* Skips the running test, saying why, where ThreadSanitizer hands signals on late, and counts every
 * jump out of a handler as still in it. */
void c7x_test_needs_signals(void);
/* Whether this build reports memory that two tasks use at once. */
bool c7x_test_sees_races(void);

/* Skips the test where the program's runtime has threads of its own. */
void c7x_test_needs_quiet_runtime(void);

int64_t c7x_test_now_ms(void);
/* Gives the processor away for a millisecond: only for C7X_TEST_WAIT_UNTIL. */
void c7x_test_pause(void);

/* For states that nobody announces: looks until the condition holds, and fails the test when it
 * never does. */
#define C7X_TEST_WAIT_UNTIL(condition, timeout_ms)                                                 \
    do {                                                                                           \
        int64_t c7x_test_deadline = c7x_test_now_ms() + (timeout_ms);                              \
        bool c7x_test_holds = (condition);                                                         \
        for (; !c7x_test_holds && c7x_test_now_ms() < c7x_test_deadline;                           \
             c7x_test_holds = (condition))                                                         \
            c7x_test_pause();                                                                      \
        if (!c7x_test_holds)                                                                       \
            fail_msg("not within %d ms: %s", (int)(timeout_ms), #condition);                       \
    } while (0)

#endif

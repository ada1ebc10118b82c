/* SPDX-License-Identifier: Apache-2.0 */
/* Faults where an interrupt or a mutex stands in the way; tests/faults has those of modules. */
#include "os/os.h"
#include "support/environment.h"

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct c7x_os_stack own_stack;
static struct c7x_os_stack small_stack;
static struct c7x_os_interrupt interrupt;
static int interrupt_count;
static atomic_bool is_spinning;
static size_t room_left; /* bytes */
static _Thread_local struct c7x_os_fault caught;
static _Thread_local jmp_buf end;

static void catch_it(const struct c7x_os_fault *fault)
{
    caught = *fault;
    longjmp(end, 1);
}

static void count_interrupt(void *context)
{
    (void)context;
    interrupt_count++;
}

static void raise_when_it_spins(void *context)
{
    while (!atomic_load(&is_spinning)) {
    }
    c7x_os_interrupt_raise(context);
}

/* Takes all of the stack but room_left, and waits there for the interrupt. */
#if defined(__clang__) || defined(__GNUC__)
__attribute__((no_sanitize("address", "thread")))
#endif
static void
spin_at_the_end(void)
{
    const char *here = __builtin_frame_address(0);
    volatile char *room = alloca((size_t)(here - (const char *)small_stack.bottom) - room_left);
    room[0] = 0;
    atomic_store(&is_spinning, true);
    for (;;)
        room[0] = 1;
}

static void run_on_small(void *context)
{
    (void)context;
    if (setjmp(end) == 0) {
        c7x_os_interrupts_on();
        spin_at_the_end();
    }
    c7x_os_interrupts_restore(1);
    c7x_os_stack_switch(&small_stack, &own_stack, false);
}

/* Whether the one that found no room was an overflow, and the next one comes. */
static bool overflows_by_interrupt(void)
{
    struct c7x_os_task task;
    c7x_os_stack_adopt(&own_stack);
    if (c7x_os_stack_init(&small_stack, 64 * 1024, run_on_small, NULL) != C7X_OK)
        return false;
    c7x_os_interrupt_init(&interrupt, count_interrupt, NULL, NULL);
    if (c7x_os_task_create(&task, "raiser", 0, raise_when_it_spins, &interrupt) != C7X_OK)
        return false;
    c7x_os_interrupts_off();
    c7x_os_stack_switch(&own_stack, &small_stack, false);
    c7x_os_task_join(&task);
    if (interrupt_count != 0 || strcmp(caught.kind, "stack overflow") != 0)
        return false;
    c7x_os_interrupt_raise(&interrupt);
    c7x_os_interrupts_on();
    return interrupt_count == 1;
}

/* Never, since nobody would unlock the mutex. */
static bool is_caught_with_a_mutex(void)
{
    static struct c7x_os_mutex mutex;
    static int *volatile nowhere = (int *)64;
    if (c7x_os_mutex_init(&mutex) != C7X_OK)
        return true;
    if (setjmp(end) == 0) {
        c7x_os_mutex_lock(&mutex);
        *nowhere = 1;
    }
    return true;
}

static atomic_int caught_in_tasks;

static void fault_many_times(void *context)
{
    static int *volatile nowhere = (int *)64;
    static const int rounds = 100;
    (void)context;
    if (c7x_os_catch_faults(catch_it) != C7X_OK)
        return;
    for (volatile int i = 0; i < rounds; i = i + 1) {
        if (setjmp(end) == 0)
            *nowhere = 1;
        c7x_os_interrupts_restore(0);
        if (caught.address == (void *)nowhere)
            (void)atomic_fetch_add(&caught_in_tasks, 1);
        caught.address = NULL;
    }
    c7x_os_release_faults();
}

/* At the same time, in tasks that end before the process does. */
static bool are_caught_in_each_task(void)
{
    struct c7x_os_task tasks[4];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            if (c7x_os_task_create(&tasks[i], "faulty", 0, fault_many_times, NULL) != C7X_OK)
                return false;
        for (int i = 0; i < 4; i++)
            c7x_os_task_join(&tasks[i]);
    }
    return atomic_load(&caught_in_tasks) == 3 * 4 * 100;
}

/* In a process of its own, since the test library catches faults itself. Returns how it ended. */
static int run_alone(bool (*run)(void))
{
    const struct rlimit no_core = {0, 0};
    int status = 0;
    c7x_test_needs_signals();
    pid_t pid = fork();
    if (pid == 0) {
        (void)setrlimit(RLIMIT_CORE, &no_core);
        _exit(c7x_os_catch_faults(catch_it) == C7X_OK && run() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* It would take a mutex, overflow, and be ended with it held. */
static void an_interrupt_ends_what_has_used_up_its_stack(void **state)
{
    (void)state;
    room_left = (size_t)16 * 1024;
    assert_int_equal(run_alone(overflows_by_interrupt), 0);
}

static void a_signal_without_room_is_a_stack_overflow(void **state)
{
    (void)state;
    room_left = 512;
    assert_int_equal(run_alone(overflows_by_interrupt), 0);
}

static void a_fault_with_a_mutex_held_is_not_caught(void **state)
{
    (void)state;
    int status = run_alone(is_caught_with_a_mutex);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void faults_are_caught_in_several_tasks(void **state)
{
    (void)state;
    assert_int_equal(run_alone(are_caught_in_each_task), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_ends_what_has_used_up_its_stack),
        cmocka_unit_test(a_signal_without_room_is_a_stack_overflow),
        cmocka_unit_test(a_fault_with_a_mutex_held_is_not_caught),
        cmocka_unit_test(faults_are_caught_in_several_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

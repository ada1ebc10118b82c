/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Faults are signals here, taken on a stack of their own, since it may be the other one that is
 * full.
 */
#include "os/os.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucontext.h>

#define SIGNAL_STACK_BYTES ((size_t)64 << 10)

static void (*_Atomic catcher)(const struct c7x_os_fault *fault);
/* Of this thread. */
static _Thread_local bool is_watched;
static _Thread_local stack_t signal_stack;
static _Thread_local stack_t stack_before; /* a sanitizer's */

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

/* The kernel has no address for a signal that found no room on the stack. */
static bool is_stack_overflow(const siginfo_t *info, const void *stack)
{
    return c7x_os_stack_is_full(info->si_addr) ||
           (info->si_code == SI_KERNEL && c7x_os_stack_is_short(stack));
}

static const char *kind_of(int number, const siginfo_t *info, const void *stack)
{
    int code = info->si_code;
    switch (number) {
    case SIGSEGV:
        return is_stack_overflow(info, stack) ? C7X_OS_STACK_OVERFLOW : "segmentation fault";
    case SIGBUS:
        return code == BUS_ADRALN ? "misaligned access" : "bus error";
    case SIGILL:
        return "illegal instruction";
    default:
        return code == FPE_INTDIV ? "division by zero" : "arithmetic error";
    }
}

const void *c7x_os_port_code_of(const void *context)
{
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.pc;
#else
    (void)interrupted;
    return NULL;
#endif
}

static const void *stack_of(const void *context)
{
    const ucontext_t *interrupted = context;
#if defined(__x86_64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (const void *)(uintptr_t)interrupted->uc_mcontext.sp;
#else
    (void)interrupted;
    return NULL;
#endif
}

void c7x_os_port_raise_fault(const struct c7x_os_fault *fault)
{
    if (!is_watched)
        return;
    c7x_os_port_end_try(fault);
    c7x_os_interrupts_off();
    atomic_load (&catcher)(fault);
    c7x_os_interrupts_restore(c7x_os_interrupts_depth() - 1);
}

/*
 * The catcher may leave by a jump. What it does not take kills the process, as it would have; and
 * so does what happens with a mutex held, which nobody would ever unlock.
 */
static void handle_fault(int number, siginfo_t *info, void *context)
{
    const struct c7x_os_fault fault = {kind_of(number, info, stack_of(context)), info->si_addr,
                                       c7x_os_port_code_of(context)};
    struct sigaction die = {.sa_handler = SIG_DFL};
    if (is_watched && info->si_code > 0 /* of the processor, not of another process */ &&
        !c7x_os_port_holds_mutex()) {
        sigset_t caught;
        sigemptyset(&caught);
        sigaddset(&caught, C7X_OS_PORT_INTERRUPT);
        c7x_os_interrupts_off();
        pthread_sigmask(SIG_UNBLOCK, &caught, NULL);
        c7x_os_interrupts_restore(c7x_os_interrupts_depth() - 1);
        c7x_os_port_raise_fault(&fault);
    }
    (void)sigaction(number, &die, NULL);
}

/* ---- What is tried ---- */

struct attempt {
    jmp_buf end;
    int depth; /* of interrupts that are off */
    struct c7x_os_fault fault;
};

bool c7x_os_try(void (*run)(void *context), void *context, struct c7x_os_fault *out_fault)
{
    void *outer = c7x_os_local(C7X_OS_LOCAL_TRY);
    struct attempt attempt = {.depth = c7x_os_interrupts_depth()};
    bool has_returned = setjmp(attempt.end) == 0;
    if (has_returned) {
        c7x_os_set_local(C7X_OS_LOCAL_TRY, &attempt);
        run(context);
    } else {
        c7x_os_interrupts_restore(attempt.depth);
        *out_fault = attempt.fault;
    }
    c7x_os_set_local(C7X_OS_LOCAL_TRY, outer);
    return has_returned;
}

void c7x_os_port_end_try(const struct c7x_os_fault *fault)
{
    struct attempt *attempt = c7x_os_local(C7X_OS_LOCAL_TRY);
    if (attempt == NULL || attempt->depth != c7x_os_interrupts_depth())
        return;
    attempt->fault = *fault;
    longjmp(attempt->end, 1);
}

void c7x_os_end_try(const char *kind)
{
    const struct c7x_os_fault fault = {.kind = kind, .code = c7x_os_interrupted_code()};
    c7x_os_port_end_try(&fault);
}

enum c7x_status c7x_os_catch_faults(void (*catch_fault)(const struct c7x_os_fault *fault))
{
    struct sigaction action = {.sa_sigaction = handle_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    signal_stack = (stack_t){.ss_sp = malloc(SIGNAL_STACK_BYTES), .ss_size = SIGNAL_STACK_BYTES};
    if (signal_stack.ss_sp == NULL || sigaltstack(&signal_stack, &stack_before) != 0) {
        free(signal_stack.ss_sp);
        return C7X_NOMEM;
    }
    atomic_store(&catcher, catch_fault);
    is_watched = true;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, C7X_OS_PORT_INTERRUPT); /* none on this stack */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return C7X_GENERIC;
    return C7X_OK;
}

void c7x_os_release_faults(void)
{
    if (!is_watched)
        return;
    is_watched = false;
    (void)sigaltstack(&stack_before, NULL);
    free(signal_stack.ss_sp);
}

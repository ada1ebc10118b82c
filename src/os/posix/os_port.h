/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX port: the structs that os/os.h leaves to the port. */
#ifndef C7X_OS_PORT_H
#define C7X_OS_PORT_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

struct c7x_os_mutex {
    pthread_mutex_t mutex;
};

struct c7x_os_event {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool set;
};

struct c7x_os_task {
    pthread_t thread;
    void (*run)(void *context);
    void *context;
};

#define C7X_OS_PORT_LOCALS 3

struct c7x_os_stack {
    ucontext_t context; /* how it begins */
    jmp_buf place;      /* where it was left since */
    bool has_place;
    uint8_t *memory; /* guard pages first; NULL: adopted */
    const void *bottom;
    size_t size; /* of what is behind the guard: a reserve for interrupts, and what was asked for */
    void *fake;  /* AddressSanitizer's and ThreadSanitizer's view of it */
    void *fiber;
    void *locals[C7X_OS_PORT_LOCALS];
    uint64_t away;
    int off_depth; /* of interrupts, while another runs */
    void (*run)(void *context);
    void *run_context;
};

#define C7X_OS_PORT_INTERRUPT SIGUSR2
/* Ends what this stack tries, if that is possible. */
struct c7x_os_fault;
void c7x_os_port_end_try(const struct c7x_os_fault *fault);
/* As if the processor had refused to go on here, where no mutex is held; returns when nobody takes
 * it. */
void c7x_os_port_raise_fault(const struct c7x_os_fault *fault);
/* Whether this thread holds one: then what it does is not to be ended in the middle. */
bool c7x_os_port_holds_mutex(void);
#define C7X_OS_STACK_OVERFLOW "stack overflow"
/* Whether the address is in the guard of the stack that runs, or among its last bytes, with the
 * guard. */
bool c7x_os_stack_is_short(const void *address);
/* The instruction at which a signal came, from its handler's third parameter. */
const void *c7x_os_port_code_of(const void *context);

struct c7x_os_interrupt {
    pthread_t thread;
    void (*run)(void *context);
    void (*look)(void *context);
    void *context;
    atomic_bool is_raised;
};

/*
 * What the cache operations do here: nothing, since host and emulated core share coherent memory,
 * unless an emulator with strict caches says otherwise. Set once, before there are tasks.
 */
struct c7x_os_cache_hooks {
    void (*writeback)(const void *address, size_t size);
    void (*invalidate)(void *address, size_t size);
};
void c7x_os_port_set_cache_hooks(const struct c7x_os_cache_hooks *hooks);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Here jumps go from one stack to another, which the checks of a fortified longjmp do not expect.
 */
#undef _FORTIFY_SOURCE
/* Stacks, by ucontext; and interrupts, by a signal to one thread. */
#include "os/os.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/* Larger than any frame that skips over it without a touch is likely to be. */
#define GUARD_BYTES ((size_t)64 << 10)

/* What an interrupt needs of the stack that it comes upon, with those that come meanwhile. */
#ifdef __SANITIZE_ADDRESS__
#define RESERVE_BYTES ((size_t)256 << 10)
#else
#define RESERVE_BYTES ((size_t)64 << 10)
#endif

_Static_assert(C7X_OS_PORT_LOCALS == C7X_OS_LOCAL_COUNT, "locals of a stack");

/* How often interrupts are off in this thread. Only the thread changes it, and what interrupts it
 * leaves it as it was; `volatile` keeps each change where it stands in the code. */
static _Thread_local volatile int off_depth;

/* Of this thread: where it was when it was interrupted, until it switches or the interrupt ends. */
static _Thread_local const void *interrupted_code;

/* Of this thread: the stack that runs, NULL while it has only the one it began on. */
static _Thread_local struct c7x_os_stack *running;
static _Thread_local void *own_locals[C7X_OS_LOCAL_COUNT];

/* ---- What the sanitizers must know of a switch ---- */

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
static void before_switch(struct c7x_os_stack *from, const struct c7x_os_stack *to)
{
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
}
static void after_switch(struct c7x_os_stack *self)
{
    __sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
}
static void make_known(struct c7x_os_stack *stack)
{
    (void)stack;
}
static void make_unknown(struct c7x_os_stack *stack)
{
    (void)stack;
}
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
static void before_switch(struct c7x_os_stack *from, const struct c7x_os_stack *to)
{
    (void)from;
    __tsan_switch_to_fiber(to->fiber, 0);
}
static void after_switch(struct c7x_os_stack *self)
{
    (void)self;
}
static void make_known(struct c7x_os_stack *stack)
{
    stack->fiber = stack->memory == NULL ? __tsan_get_current_fiber() : __tsan_create_fiber(0);
}
static void make_unknown(struct c7x_os_stack *stack)
{
    __tsan_destroy_fiber(stack->fiber);
}
#else
static void before_switch(struct c7x_os_stack *from, const struct c7x_os_stack *to)
{
    (void)from;
    (void)to;
}
static void after_switch(struct c7x_os_stack *self)
{
    (void)self;
}
static void make_known(struct c7x_os_stack *stack)
{
    (void)stack;
}
static void make_unknown(struct c7x_os_stack *stack)
{
    (void)stack;
}
#endif

/* ---- Stacks ---- */

static void begin(void)
{
    struct c7x_os_stack *self = running;
    after_switch(self);
    off_depth = 1;
    self->run(self->run_context);
    c7x_os_panic("what ran on a stack has returned");
}

enum c7x_status c7x_os_stack_init(struct c7x_os_stack *stack, size_t bytes,
                                  void (*run)(void *context), void *context)
{
    size_t size = RESERVE_BYTES + ((bytes + c7x_os_page_size() - 1) & ~(c7x_os_page_size() - 1));
    void *memory = mmap(NULL, GUARD_BYTES + size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    memset(stack, 0, sizeof *stack);
    if (memory == MAP_FAILED)
        return C7X_NOMEM;
    if (mprotect(memory, GUARD_BYTES, PROT_NONE) != 0 || getcontext(&stack->context) != 0) {
        munmap(memory, GUARD_BYTES + size);
        return C7X_NOMEM;
    }
    stack->memory = memory;
    stack->bottom = stack->memory + GUARD_BYTES;
    stack->size = size;
    stack->run = run;
    stack->run_context = context;
    stack->context.uc_stack.ss_sp = stack->memory + GUARD_BYTES;
    stack->context.uc_stack.ss_size = size;
    makecontext(&stack->context, begin, 0);
    make_known(stack);
    return C7X_OK;
}

void c7x_os_stack_deinit(struct c7x_os_stack *stack)
{
    if (running == stack)
        running = NULL;
    if (stack->memory == NULL)
        return;
    make_unknown(stack);
    munmap(stack->memory, GUARD_BYTES + stack->size);
    stack->memory = NULL;
}

void c7x_os_stack_adopt(struct c7x_os_stack *stack)
{
    pthread_attr_t attributes;
    void *bottom = NULL;
    memset(stack, 0, sizeof *stack);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &stack->size);
        pthread_attr_destroy(&attributes);
    }
    stack->bottom = bottom;
    make_known(stack);
    running = stack;
}

/*
 * swapcontext keeps the mask of signals, by two system calls, which is the same on all stacks. So
 * it only begins a stack; but sanitizers know what it does, and not that jumps are more than
 * returns.
 */
static void change_stacks(struct c7x_os_stack *from, struct c7x_os_stack *to)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (_setjmp(from->place) != 0)
        return;
    if (to->has_place) {
        from->has_place = true;
        _longjmp(to->place, 1);
    }
    from->has_place = true;
#endif
    if (swapcontext(&from->context, &to->context) != 0)
        c7x_os_panic("cannot switch stacks");
}

void c7x_os_stack_switch(struct c7x_os_stack *from, struct c7x_os_stack *to, bool counts)
{
    uint64_t left = counts ? c7x_os_cycles() : 0;
    from->off_depth = off_depth;
    interrupted_code = NULL;
    running = to;
    before_switch(from, to);
    change_stacks(from, to);
    after_switch(from);
    off_depth = from->off_depth;
    if (counts)
        from->away += c7x_os_cycles() - left;
}

uint64_t c7x_os_stack_away(void)
{
    return running != NULL ? running->away : 0;
}

static bool is_among_last(const void *address, size_t bytes)
{
    return running != NULL && running->memory != NULL &&
           (uintptr_t)address - (uintptr_t)running->memory < bytes;
}

bool c7x_os_stack_is_full(const void *address)
{
    return is_among_last(address, GUARD_BYTES);
}

bool c7x_os_stack_is_short(const void *address)
{
    return is_among_last(address, GUARD_BYTES + RESERVE_BYTES);
}

static void **locals(void)
{
    return running != NULL ? running->locals : own_locals;
}

void *c7x_os_local(enum c7x_os_local which)
{
    return locals()[which];
}

void c7x_os_set_local(enum c7x_os_local which, void *value)
{
    locals()[which] = value;
}

/* ---- Interrupts ---- */

static _Thread_local struct c7x_os_interrupt *own_interrupt; /* of this thread */

const void *c7x_os_interrupted_code(void)
{
    return interrupted_code;
}

/*
 * With interrupts on. One that comes meanwhile is taken, too. Code that has used up its stack is
 * ended here: the interrupt would be where the stack overflows, with what it holds.
 */
static void let_in(struct c7x_os_interrupt *interrupt)
{
    const void *here = __builtin_frame_address(0);
    while (atomic_load_explicit(&interrupt->is_raised, memory_order_relaxed)) {
        if (c7x_os_stack_is_short(here))
            c7x_os_port_raise_fault(&(const struct c7x_os_fault){C7X_OS_STACK_OVERFLOW, here,
                                                                 c7x_os_interrupted_code()});
        off_depth = 1;
        if (atomic_exchange(&interrupt->is_raised, false))
            interrupt->run(interrupt->context);
        off_depth = 0;
    }
}

static void handle_signal(int number, siginfo_t *info, void *context)
{
    int last = errno;
    (void)number;
    (void)info;
    if (own_interrupt != NULL) {
        interrupted_code = c7x_os_port_code_of(context);
        if (off_depth == 0)
            let_in(own_interrupt);
        else if (own_interrupt->look != NULL)
            own_interrupt->look(own_interrupt->context);
        interrupted_code = NULL;
    }
    errno = last;
}

void c7x_os_interrupt_init(struct c7x_os_interrupt *interrupt, void (*run)(void *context),
                           void (*look)(void *context), void *context)
{
    /* It may be interrupted itself, and must not make the calls of others fail with EINTR. */
    struct sigaction action = {.sa_sigaction = handle_signal,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    interrupt->thread = pthread_self();
    interrupt->run = run;
    interrupt->look = look;
    interrupt->context = context;
    atomic_init(&interrupt->is_raised, false);
    off_depth = 0;
    own_interrupt = interrupt;
    sigemptyset(&action.sa_mask);
    if (sigaction(C7X_OS_PORT_INTERRUPT, &action, NULL) != 0)
        c7x_os_panic("no signal for interrupts");
}

bool c7x_os_interrupt_is_own(const struct c7x_os_interrupt *interrupt)
{
    return interrupt == own_interrupt;
}

void c7x_os_interrupt_deinit(struct c7x_os_interrupt *interrupt)
{
    if (own_interrupt == interrupt)
        own_interrupt = NULL;
}

void c7x_os_interrupt_raise(struct c7x_os_interrupt *interrupt)
{
    atomic_store(&interrupt->is_raised, true);
    if (interrupt != own_interrupt)
        (void)pthread_kill(interrupt->thread, C7X_OS_PORT_INTERRUPT);
    else if (off_depth == 0)
        let_in(interrupt);
}

void c7x_os_interrupts_off(void)
{
    off_depth = off_depth + 1;
}

void c7x_os_interrupts_on(void)
{
    off_depth = off_depth - 1;
    if (off_depth == 0 && own_interrupt != NULL)
        let_in(own_interrupt);
}

int c7x_os_interrupts_depth(void)
{
    return off_depth;
}

void c7x_os_interrupts_restore(int depth)
{
    off_depth = depth;
    interrupted_code = NULL;
}

void c7x_os_interrupt_point(void)
{
    if (off_depth != 1 || own_interrupt == NULL)
        return;
    atomic_store(&own_interrupt->is_raised, false);
    own_interrupt->run(own_interrupt->context);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that help with parallel regions. A region is over in microseconds and the next one soon
 * begins, so a thread looks for it for a while before it sleeps; who looks costs the one that
 * launches nothing, who sleeps a system call.
 */
#include "firmware/tvm/parallel.h"

#include "base/log.h"
#include "base/pause.h"

#define SPIN_NS 100000                /* twice what it takes to be woken */
#define SPIN_LOOKS 16                 /* between two looks at the clock */
#define STACK_BYTES ((size_t)1 << 20) /* as a target's: tasks are the same code */

struct thread {
    struct c7x_os_task task;
    struct c7x_os_stack own_stack; /* the task's */
    struct c7x_os_stack stack;     /* where it works: of this one it is known when it is full */
    struct c7x_os_interrupt interrupt;
    struct c7x_os_event wake;
    atomic_bool sleeps; /* or is about to */
    uint32_t number;
};

static struct thread threads[C7X_TVM_THREADS_MAX - 1]; /* without the core's */
static uint32_t thread_count;
static atomic_bool stops;
static _Atomic uint32_t sleepers; /* never fewer than those that sleep */

uint32_t c7x_tvm_thread_count(void)
{
    return thread_count + 1;
}

/* ---- One thread ---- */

static bool find_task(void)
{
    int64_t until_ns = c7x_os_deadline_ns(SPIN_NS);
    do {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (c7x_tvm_region_has_task())
                return true;
            c7x_pause();
        }
        c7x_os_task_yield(); /* who launches may be waiting for this very processor */
    } while (c7x_os_clock_ns() < until_ns);
    return false;
}

/* Whether it was this call that has woken it. */
static bool be_awake(struct thread *thread)
{
    bool slept = atomic_exchange(&thread->sleeps, false);
    if (slept)
        (void)atomic_fetch_sub(&sleepers, 1);
    return slept;
}

/* Who launches publishes a task before it looks for sleepers, and here it is the other way round:
 * one of the two sees the other. */
static void sleep_until_woken(struct thread *thread)
{
    (void)atomic_fetch_add(&sleepers, 1);
    atomic_store(&thread->sleeps, true);
    if (!c7x_tvm_region_has_task() && !atomic_load(&stops))
        (void)c7x_os_event_wait(&thread->wake, C7X_OS_FOREVER);
    (void)be_awake(thread);
}

static void work(void *context)
{
    struct thread *thread = context;
    while (!atomic_load(&stops)) {
        if (find_task())
            c7x_tvm_region_help(thread->number);
        else
            sleep_until_woken(thread);
    }
    c7x_os_stack_switch(&thread->stack, &thread->own_stack, false);
}

static void end_task(void *context)
{
    const struct thread *thread = context;
    c7x_tvm_region_end_task(thread->number);
}

static void run_thread(void *context)
{
    struct thread *thread = context;
    if (c7x_tvm.catch_fault != NULL && c7x_os_catch_faults(c7x_tvm.catch_fault) != C7X_OK)
        c7x_log("tvm", "faults in thread %u cannot be caught; they end the core",
                (unsigned)thread->number);
    c7x_os_stack_adopt(&thread->own_stack);
    c7x_os_interrupt_init(&thread->interrupt, end_task, NULL, thread);
    c7x_os_interrupts_off();
    c7x_os_stack_switch(&thread->own_stack, &thread->stack, false);
    c7x_os_interrupts_on();
    c7x_os_interrupt_deinit(&thread->interrupt);
    c7x_os_stack_deinit(&thread->own_stack);
    c7x_os_release_faults();
}

/* ---- All of them ---- */

void c7x_tvm_threads_wake(uint32_t wanted)
{
    uint32_t asleep = atomic_load(&sleepers);
    for (uint32_t i = 0; asleep > 0 && thread_count - asleep < wanted && i < thread_count; i++) {
        if (be_awake(&threads[i])) {
            c7x_os_event_set(&threads[i].wake);
            asleep--;
        }
    }
}

void c7x_tvm_thread_interrupt(uint32_t thread)
{
    c7x_os_interrupt_raise(&threads[thread - 1].interrupt);
}

static void free_thread(struct thread *thread)
{
    c7x_os_stack_deinit(&thread->stack);
    c7x_os_event_deinit(&thread->wake);
}

static enum c7x_status start_thread(struct thread *thread)
{
    C7X_RETURN_IF_ERROR(c7x_os_event_init(&thread->wake));
    atomic_store(&thread->sleeps, false);
    enum c7x_status status = c7x_os_stack_init(&thread->stack, STACK_BYTES, work, thread);
    if (status == C7X_OK)
        status = c7x_os_task_create(&thread->task, "c7x_thread", 0, run_thread, thread);
    if (status != C7X_OK)
        free_thread(thread);
    return status;
}

void c7x_tvm_threads_start(uint32_t count)
{
    atomic_store(&stops, false);
    if (c7x_tvm_region_init() != C7X_OK)
        return;
    while (thread_count + 1 < count && thread_count < C7X_TVM_THREADS_MAX - 1) {
        struct thread *thread = &threads[thread_count];
        thread->number = thread_count + 1;
        if (start_thread(thread) != C7X_OK) {
            c7x_log("tvm", "only %u of %u threads", (unsigned)thread_count + 1, (unsigned)count);
            return;
        }
        thread_count++;
    }
}

void c7x_tvm_threads_stop(void)
{
    atomic_store(&stops, true);
    for (uint32_t i = 0; i < thread_count; i++) {
        c7x_os_event_set(&threads[i].wake);
        c7x_os_task_join(&threads[i].task);
        free_thread(&threads[i]);
    }
    thread_count = 0;
}

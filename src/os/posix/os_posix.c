/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/os.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

int64_t c7x_os_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t c7x_os_deadline_ns(int64_t duration_ns)
{
    int64_t now = c7x_os_clock_ns();
    if (duration_ns < 0 || duration_ns > C7X_OS_FOREVER - now)
        return C7X_OS_FOREVER;
    return now + duration_ns;
}

uint64_t c7x_os_cycles(void)
{
    return (uint64_t)c7x_os_clock_ns();
}

uint64_t c7x_os_cycle_hz(void)
{
    return NS_PER_S;
}

enum c7x_status c7x_os_mutex_init(struct c7x_os_mutex *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    int error = pthread_mutex_init(&mutex->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error == 0 ? C7X_OK : C7X_GENERIC;
}

void c7x_os_mutex_deinit(struct c7x_os_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->mutex);
}

static _Thread_local volatile int mutexes_held; /* by this thread */

void c7x_os_mutex_lock(struct c7x_os_mutex *mutex)
{
    c7x_os_interrupts_off();
    if (pthread_mutex_lock(&mutex->mutex) != 0)
        c7x_os_panic("mutex lock failed");
    mutexes_held = mutexes_held + 1;
}

bool c7x_os_port_holds_mutex(void)
{
    return mutexes_held != 0;
}

void c7x_os_mutex_unlock(struct c7x_os_mutex *mutex)
{
    mutexes_held = mutexes_held - 1;
    if (pthread_mutex_unlock(&mutex->mutex) != 0)
        c7x_os_panic("mutex unlock failed");
    c7x_os_interrupts_on();
}

enum c7x_status c7x_os_event_init(struct c7x_os_event *event)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int error = pthread_cond_init(&event->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (error != 0)
        return C7X_GENERIC;
    if (pthread_mutex_init(&event->mutex, NULL) != 0) {
        pthread_cond_destroy(&event->changed);
        return C7X_GENERIC;
    }
    event->set = false;
    return C7X_OK;
}

void c7x_os_event_deinit(struct c7x_os_event *event)
{
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->changed);
}

void c7x_os_event_set(struct c7x_os_event *event)
{
    c7x_os_interrupts_off();
    pthread_mutex_lock(&event->mutex);
    event->set = true;
    pthread_cond_signal(&event->changed);
    pthread_mutex_unlock(&event->mutex);
    c7x_os_interrupts_on();
}

bool c7x_os_event_wait(struct c7x_os_event *event, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = deadline_ns / NS_PER_S, .tv_nsec = deadline_ns % NS_PER_S};
    int error = 0;
    pthread_mutex_lock(&event->mutex);
    while (!event->set && error == 0)
        error = deadline_ns == C7X_OS_FOREVER
                    ? pthread_cond_wait(&event->changed, &event->mutex)
                    : pthread_cond_timedwait(&event->changed, &event->mutex, &until);
    bool was_set = event->set;
    event->set = false;
    pthread_mutex_unlock(&event->mutex);
    return was_set;
}

static void *run_task(void *context)
{
    struct c7x_os_task *task = context;
    task->run(task->context);
    return NULL;
}

enum c7x_status c7x_os_task_create(struct c7x_os_task *task, const char *name, size_t stack_bytes,
                                   void (*run)(void *context), void *context)
{
    task->run = run;
    task->context = context;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return C7X_GENERIC;
    if (stack_bytes != 0)
        pthread_attr_setstacksize(&attributes, stack_bytes < (size_t)PTHREAD_STACK_MIN
                                                   ? (size_t)PTHREAD_STACK_MIN
                                                   : stack_bytes);
    int error = pthread_create(&task->thread, &attributes, run_task, task);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        return C7X_NOMEM;
    pthread_setname_np(task->thread, name);
    return C7X_OK;
}

/* $C7X_REALTIME set to "0": as where it is not allowed. */
bool c7x_os_task_be_urgent(void)
{
    const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    const char *wanted = getenv("C7X_REALTIME");
    if (wanted != NULL && strcmp(wanted, "0") == 0)
        return false;
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) == 0;
}

void c7x_os_task_yield(void)
{
    (void)sched_yield();
}

void c7x_os_task_join(struct c7x_os_task *task)
{
    pthread_join(task->thread, NULL);
}

size_t c7x_os_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

enum c7x_status c7x_os_pages_protect(void *address, size_t size, enum c7x_os_access access)
{
    static const int protections[] = {
        [C7X_OS_NONE] = PROT_NONE,
        [C7X_OS_READ] = PROT_READ,
        [C7X_OS_READ_WRITE] = PROT_READ | PROT_WRITE,
        [C7X_OS_READ_EXECUTE] = PROT_READ | PROT_EXEC,
    };
    return mprotect(address, size, protections[access]) == 0 ? C7X_OK : C7X_GENERIC;
}

static const struct c7x_os_cache_hooks *cache_hooks;

void c7x_os_port_set_cache_hooks(const struct c7x_os_cache_hooks *hooks)
{
    cache_hooks = hooks;
}

void c7x_os_cache_writeback(const void *address, size_t size)
{
    if (cache_hooks != NULL)
        cache_hooks->writeback(address, size);
}

void c7x_os_cache_invalidate(void *address, size_t size)
{
    if (cache_hooks != NULL)
        cache_hooks->invalidate(address, size);
}

void c7x_os_cache_sync_instructions(void *address, size_t size)
{
    __builtin___clear_cache((char *)address, (char *)address + size);
}

_Noreturn void c7x_os_panic(const char *reason)
{
    fprintf(stderr, "c7x: panic: %s\n", reason);
    abort();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The task that is the core: runs targets, each on its stack, switches between them, and watches
 * what runs. All code here but submit, end and tick runs in that task, with interrupts off.
 */
#include "firmware/target/target_impl.h"

#include <stdio.h>
#include <string.h>

#define TICK_NS 5000000

int64_t c7x_core_now(const struct c7x_core *core)
{
    return core->config.clock_ns != NULL ? core->config.clock_ns() : c7x_os_clock_ns();
}

/* ---- Switching ---- */

/* Call with the core locked; unlocks it. Returns when it is this one's turn again. */
static void switch_to(struct c7x_core *core, struct c7x_target *next)
{
    struct c7x_target *control = &core->targets[C7X_TARGET_CONTROL];
    struct c7x_target *last = core->running;
    bool is_suspended = last != NULL && last->job != NULL;
    int64_t now = is_suspended || next != NULL || last == control ? c7x_core_now(core) : 0;
    if (is_suspended) {
        last->preemptions++;
        last->stuck_ns += now - core->ran_since;
        last->is_suspended = true;
        c7x_trace_event(C7X_EVENT_PREEMPTED, &last->origin, next->origin.target);
    }
    if (next != NULL && next->is_suspended) {
        next->is_suspended = false;
        c7x_trace_event(C7X_EVENT_RESUMED, &next->origin, 0);
    }
    if (last == control)
        core->control_waits_since = now;
    core->ran_since = now;
    core->running = next;
    c7x_os_mutex_unlock(&core->lock);
    c7x_os_stack_switch(last != NULL ? &last->stack : &core->own_stack,
                        next != NULL ? &next->stack : &core->own_stack, is_suspended);
}

/* Whose turn it is. Its job has begun from here on: nobody takes it back any more. */
static struct c7x_target *take_turn(struct c7x_core *core)
{
    struct c7x_target *next = c7x_target_next(core);
    if (next != NULL && next->job == NULL) {
        c7x_target_begin(next);
        if (next == core->running) /* there is no switch, but another job */
            core->ran_since = c7x_core_now(core);
    }
    return next;
}

/* Call with the core locked, which it is not meanwhile: who is told may hold what waits for it. */
static void say_that_it_leaves(struct c7x_core *core)
{
    if (core->config.leave == NULL || c7x_target_next(core) == NULL)
        return;
    core->is_expected = false;
    c7x_os_mutex_unlock(&core->lock);
    core->config.leave(core->config.idle_context);
    c7x_os_mutex_lock(&core->lock);
}

static bool is_last(struct c7x_core *core)
{
    bool is_last = true;
    c7x_os_mutex_lock(&core->lock);
    for (int i = 0; i < C7X_TARGET_COUNT; i++) {
        const struct c7x_target *target = &core->targets[i];
        is_last &= target->first == NULL && (target->job == NULL || target == core->running);
    }
    c7x_os_mutex_unlock(&core->lock);
    return is_last;
}

void c7x_core_expect_idleness(struct c7x_core *core, uint32_t endpoint)
{
    if (core->config.expect == NULL || !is_last(core))
        return;
    core->is_expected = true;
    core->config.expect(core->config.idle_context, endpoint);
}

/* Lets run whose turn it is, and returns when it is this one's: whether others ran. */
static bool yield(struct c7x_core *core)
{
    c7x_os_mutex_lock(&core->lock);
    if (core->is_expected)
        say_that_it_leaves(core);
    if (core->running == &core->targets[C7X_TARGET_CONTROL]) { /* it has had its step */
        core->control_waits_since = c7x_core_now(core);
        atomic_fetch_add(&core->running->section_count, 1);
    }
    struct c7x_target *next = take_turn(core);
    bool switches = next != core->running;
    if (switches)
        switch_to(core, next);
    else
        c7x_os_mutex_unlock(&core->lock);
    return switches;
}

static void run_target(void *context)
{
    struct c7x_target *target = context;
    struct c7x_core *core = target->core;
    for (;;) {
        c7x_trace(C7X_STATION_TARGET, &target->origin);
        target->job->run(target->job); /* changed by this task alone */
        c7x_os_mutex_lock(&core->lock);
        c7x_target_finish(target);
        c7x_os_mutex_unlock(&core->lock);
        (void)yield(core);
    }
}

/* What is asked of the job that runs. */
static enum c7x_job_end end_of_running(struct c7x_core *core)
{
    c7x_os_mutex_lock(&core->lock);
    const struct c7x_target *running = core->running;
    enum c7x_job_end end = running != NULL && running->job != NULL ? running->end : C7X_JOB_GOES_ON;
    c7x_os_mutex_unlock(&core->lock);
    return end;
}

/* The interrupt. It may be asked of a job to end while it is pre-empted. */
static void attend(void *context)
{
    struct c7x_core *core = context;
    enum c7x_job_end before = C7X_JOB_GOES_ON;
    enum c7x_job_end end;
    while ((end = end_of_running(core)) != before) {
        core->config.end_job(end);
        before = end;
    }
    if (!yield(core))
        return;
    if (core->config.resume_job != NULL)
        core->config.resume_job();
    if (end_of_running(core) != before)
        c7x_os_interrupt_raise(&core->interrupt);
}

/* `running` is changed by this task alone, but for the instant between two stacks. */
static void look(void *context)
{
    const struct c7x_core *core = context;
    const struct c7x_target *running = core->running;
    if (running != NULL && running->job != NULL && running->end == C7X_JOB_STUCK)
        core->config.end_stuck_section();
}

static void wake(struct c7x_core *core)
{
    if (c7x_os_interrupt_is_own(&core->interrupt))
        return; /* it looks again by itself */
    if (core->config.wake != NULL)
        core->config.wake(core->config.idle_context);
    else
        c7x_os_event_set(&core->work);
}

void c7x_core_reconsider(struct c7x_core *core)
{
    if (core->running == NULL)
        wake(core);
    else if (core->has_interrupt && c7x_target_next(core) != core->running)
        c7x_os_interrupt_raise(&core->interrupt);
}

_Atomic uint32_t *c7x_core_section_count(struct c7x_core *core)
{
    return &core->running->section_count;
}

bool c7x_core_end_job(struct c7x_core *core, const struct c7x_job *job, enum c7x_job_end reason)
{
    bool found = false;
    c7x_os_mutex_lock(&core->lock);
    for (int i = 0; i < C7X_TARGET_COUNT && !found; i++) {
        struct c7x_target *target = &core->targets[i];
        found = target->job == job;
        if (!found)
            continue;
        target->end = reason;
        if (target == core->running)
            c7x_os_interrupt_raise(&core->interrupt);
    }
    c7x_os_mutex_unlock(&core->lock);
    return found;
}

/* ---- Watching ---- */

/* While a job is pre-empted or waits, it does not run. */
static bool is_stuck(struct c7x_core *core, struct c7x_target *running, int64_t now)
{
    uint32_t sections = atomic_load(&running->section_count);
    if (sections != running->ticked_sections) {
        running->ticked_sections = sections;
        running->stuck_ns = 0;
        core->ran_since = now;
    }
    return running->job != NULL && core->config.watchdog_ns != 0 &&
           running->stuck_ns + (now - core->ran_since) >= core->config.watchdog_ns;
}

void c7x_core_tick(struct c7x_core *core)
{
    c7x_os_mutex_lock(&core->lock);
    int64_t now = c7x_core_now(core);
    struct c7x_target *running = core->running;
    if (running != NULL) {
        if (is_stuck(core, running, now))
            running->end = C7X_JOB_STUCK;
        /* Again and again, since where it is now it may be impossible to end it. */
        if (running->end != C7X_JOB_GOES_ON || c7x_target_next(core) != running)
            c7x_os_interrupt_raise(&core->interrupt);
    }
    c7x_os_mutex_unlock(&core->lock);
}

/* Ticks while there is work, and sleeps while there is none for as long as from one tick to the
 * next: the jobs of a busy client then need not wake it. */
static void run_ticker(void *context)
{
    struct c7x_core *core = context;
    uint32_t begins = 0;
    (void)c7x_os_task_be_urgent();
    for (;;) {
        c7x_os_mutex_lock(&core->lock);
        bool stops = core->ticker_stops;
        bool ticks = core->running != NULL || core->begins != begins;
        begins = core->begins;
        core->is_ticking = ticks;
        c7x_os_mutex_unlock(&core->lock);
        if (stops)
            return;
        (void)c7x_os_event_wait(&core->tick, ticks ? c7x_os_deadline_ns(TICK_NS) : C7X_OS_FOREVER);
        if (ticks)
            c7x_core_tick(core);
    }
}

/* ---- The task ---- */

/* Call with the core locked. */
static void leave_idleness(struct c7x_core *core, struct c7x_target *next)
{
    core->begins++;
    if (core->has_ticker && !core->is_ticking) {
        core->is_ticking = true;
        c7x_os_event_set(&core->tick);
    }
    if (core->somebody_waits_until_busy) {
        core->somebody_waits_until_busy = false;
        c7x_os_event_set(&core->busy);
    }
    switch_to(core, next);
}

static void wait_for_work(struct c7x_core *core)
{
    core->is_expected = false;
    if (core->config.idle != NULL)
        core->config.idle(core->config.idle_context);
    else
        (void)c7x_os_event_wait(&core->work, C7X_OS_FOREVER);
}

bool c7x_core_wait_until_busy(struct c7x_core *core)
{
    for (;;) {
        c7x_os_mutex_lock(&core->lock);
        bool is_busy = core->running != NULL;
        bool has_stopped = core->stopping && !is_busy;
        core->somebody_waits_until_busy = !is_busy && !has_stopped;
        c7x_os_mutex_unlock(&core->lock);
        if (is_busy || has_stopped)
            return is_busy;
        (void)c7x_os_event_wait(&core->busy, C7X_OS_FOREVER);
    }
}

void c7x_core_kick(struct c7x_core *core)
{
    c7x_os_mutex_lock(&core->lock);
    if (c7x_target_next(core) != NULL)
        c7x_core_reconsider(core);
    c7x_os_mutex_unlock(&core->lock);
}

void c7x_core_run(struct c7x_core *core)
{
    bool stopping = false;
    c7x_os_stack_adopt(&core->own_stack);
    c7x_os_interrupt_init(&core->interrupt, attend, look, core);
    c7x_os_interrupts_off();
    c7x_os_mutex_lock(&core->lock);
    core->has_interrupt = true;
    c7x_os_mutex_unlock(&core->lock);
    while (!stopping) {
        c7x_os_mutex_lock(&core->lock);
        say_that_it_leaves(core);
        struct c7x_target *next = take_turn(core);
        stopping = next == NULL && core->stopping;
        if (next != NULL) {
            leave_idleness(core, next);
            continue;
        }
        c7x_os_mutex_unlock(&core->lock);
        if (!stopping)
            wait_for_work(core);
    }
    c7x_os_interrupts_on();
    c7x_os_interrupt_deinit(&core->interrupt);
    c7x_os_stack_deinit(&core->own_stack);
}

void c7x_core_stop(struct c7x_core *core)
{
    c7x_os_mutex_lock(&core->lock);
    core->stopping = true;
    wake(core);
    c7x_os_event_set(&core->busy);
    c7x_os_mutex_unlock(&core->lock);
}

/* ---- Making ---- */

static enum c7x_status init_target(struct c7x_core *core, enum c7x_target_number number)
{
    static const char *const suffixes[] = {
#define C7X_TARGET(target, suffix) suffix,
#include "firmware/target/targets.def"
#undef C7X_TARGET
    };
    struct c7x_target *target = &core->targets[number];
    target->core = core;
    target->number = number;
    target->last = &target->first;
    (void)snprintf(target->name, sizeof target->name, "DSP_C7-%u%s", (unsigned)core->config.number,
                   suffixes[number]);
    return c7x_os_stack_init(&target->stack, core->config.stack_bytes, run_target, target);
}

static enum c7x_status init_objects(struct c7x_core *core)
{
    C7X_RETURN_IF_ERROR(c7x_os_mutex_init(&core->lock));
    C7X_RETURN_IF_ERROR(c7x_os_event_init(&core->work));
    C7X_RETURN_IF_ERROR(c7x_os_event_init(&core->busy));
    C7X_RETURN_IF_ERROR(c7x_os_event_init(&core->tick));
    for (int i = 0; i < C7X_TARGET_COUNT; i++)
        C7X_RETURN_IF_ERROR(init_target(core, (enum c7x_target_number)i));
    if (core->config.has_own_ticks)
        return C7X_OK;
    C7X_RETURN_IF_ERROR(c7x_os_task_create(&core->ticker, "c7x_ticker", 0, run_ticker, core));
    core->has_ticker = true;
    return C7X_OK;
}

static void stop_ticker(struct c7x_core *core)
{
    if (!core->has_ticker)
        return;
    c7x_os_mutex_lock(&core->lock);
    core->ticker_stops = true;
    c7x_os_mutex_unlock(&core->lock);
    c7x_os_event_set(&core->tick);
    c7x_os_task_join(&core->ticker);
}

void c7x_core_deinit(struct c7x_core *core)
{
    stop_ticker(core);
    for (int i = 0; i < C7X_TARGET_COUNT; i++)
        c7x_os_stack_deinit(&core->targets[i].stack);
    c7x_os_event_deinit(&core->tick);
    c7x_os_event_deinit(&core->busy);
    c7x_os_event_deinit(&core->work);
    c7x_os_mutex_deinit(&core->lock);
}

enum c7x_status c7x_core_init(struct c7x_core *core, const struct c7x_core_config *config)
{
    memset(core, 0, sizeof *core);
    core->config = *config;
    enum c7x_status status = init_objects(core);
    if (status != C7X_OK)
        c7x_core_deinit(core);
    return status;
}

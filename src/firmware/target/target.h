/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of a core: named queues of opaque jobs. Each runs its jobs first in, first out, to
 * completion; between targets the higher one comes first, also in the middle of a job of a lower
 * one (spec/target-execution-model, "FIFO run to completion per Target", "Priority-Based Preemption
 * of C7X Targets"). It knows nothing of what a job does.
 *
 * A target is a stack; one of them runs, in the one task that is the core. A higher target that
 * gets work interrupts the running one at once, or as soon as that lets interrupts in (os/os.h):
 * that is the end of its critical section.
 *
 * The control target stands below all others. Its work, loads and unloads, is long and done with
 * interrupts off; it offers the core at every c7x_os_interrupt_point(). When it has waited for
 * C7X_CONTROL_WAIT_NS it comes before all others, up to its next such point.
 *
 * station: service > [target] > module
 *
 *   target.c  the queues: submit, remove, and which target comes next
 *   core.c    the task: runs targets, switches between them, watches them
 */
#ifndef C7X_FIRMWARE_TARGET_TARGET_H
#define C7X_FIRMWARE_TARGET_TARGET_H

#include "base/status.h"
#include "base/trace.h"
#include "os/os.h"

#include <stdint.h>

/* Highest first, as in targets.def. */
enum c7x_target_number {
#define C7X_TARGET(number, suffix) C7X_TARGET_##number,
#include "firmware/target/targets.def"
#undef C7X_TARGET
    C7X_TARGET_COUNT
};

#define C7X_TARGET_NAME_BYTES 24u
#define C7X_TARGET_QUEUE_DEPTH_MAX 96u /* jobs that may wait at one */
#define C7X_CONTROL_WAIT_NS 20000000
#define C7X_JOB_KEYS 3

/* Why a job that runs is to end before it has finished. */
enum c7x_job_end {
    C7X_JOB_GOES_ON,
    C7X_JOB_CANCELLED, /* at the end of its next section */
    C7X_JOB_STUCK /* it has not come to the end of a section for as long as the watchdog waits */
};

/*
 * Embedded in what the submitter allocates; the core's from submit until run is called.
 *
 * Jobs whose first keys are equal (0: none) never overlap: one waits for the other to finish, which
 * meanwhile is as urgent as whoever waits for it. A barrier runs after all jobs that came before it
 * and have any key in common with it, and before those that come later.
 */
struct c7x_job_order {
    uint64_t keys[C7X_JOB_KEYS];
    bool is_barrier;
    uint64_t number; /* the core's: how many came before it */
};

struct c7x_job {
    void (*run)(struct c7x_job *job); /* interrupts are off; it may free the job */
    struct c7x_job_order order;
    struct c7x_trace_origin origin; /* for traces: what it is about; the target is the core's */
    struct c7x_job *next;           /* the core's */
};

struct c7x_core;

struct c7x_core_config {
    uint32_t number;     /* 1: its targets are DSP_C7-1, DSP_C7-1_PRI_2, ... */
    size_t stack_bytes;  /* of each target */
    int64_t watchdog_ns; /* of a job's own running time without the end of a section; 0: none */
    int64_t (*clock_ns)(void); /* NULL: c7x_os_clock_ns */
    bool has_own_ticks;        /* whoever made the core calls c7x_core_tick(), and nobody else */
    /*
     * In the job that is to end, interrupts off: ends it if this is a place where that can be done,
     * and then does not return.
     */
    void (*end_job)(enum c7x_job_end reason);
    /* The job is stuck, interrupts are off, and this may be anywhere: ends it if it is the job's
     * own code, in a section, and then does not return. */
    void (*end_stuck_section)(void);
    /*
     * The core has nothing to run: waits for something that may bring work, in the core's task.
     * wake makes it return; from any task. NULL, both: it waits for submit.
     */
    void (*idle)(void *context);
    void (*wake)(void *context);
    /* Before it runs something again; and when c7x_core_expect_idleness() has found that it is
     * about to be idle: then either idle or leave comes next. NULL: not told. */
    void (*leave)(void *context);
    void (*expect)(void *context, uint32_t endpoint);
    void *idle_context;
    void (*resume_job)(
        void); /* in a job that goes on after others, interrupts off; NULL: not told */
};

/* This and the core are here for their size; only this folder looks into them. */
struct c7x_target {
    struct c7x_core *core;
    enum c7x_target_number number;
    char name[C7X_TARGET_NAME_BYTES];
    struct c7x_os_stack stack;
    /* Under the core's lock. */
    struct c7x_job *first;
    struct c7x_job **last;
    uint32_t queue_depth;
    uint64_t jobs_done;
    uint64_t preemptions;
    /* The job that has begun and not finished; NULL: none. It may be gone; this is kept of it. */
    struct c7x_job *job;
    struct c7x_job_order order;
    struct c7x_trace_origin origin;
    bool is_suspended;            /* the job has been switched away from */
    _Atomic enum c7x_job_end end; /* of the job */
    _Atomic uint32_t section_count;
    /* How long the job has run since the last tick that saw the end of a section, up to when it was
     * last switched away from. */
    uint32_t ticked_sections;
    int64_t stuck_ns;
};

struct c7x_core {
    struct c7x_core_config config;
    struct c7x_os_mutex lock; /* all below but the stacks and the tasks */
    struct c7x_target targets[C7X_TARGET_COUNT];
    struct c7x_target *running; /* NULL: the core is idle */
    uint64_t next_order;
    uint32_t barrier_count;      /* barriers that wait */
    int64_t control_waits_since; /* while the control target has work and does not run */
    bool stopping;

    int64_t ran_since; /* the running target: what its stuck_ns does not count yet */

    struct c7x_os_stack own_stack; /* of the idle core */
    struct c7x_os_event work;      /* set while it is idle */
    struct c7x_os_event busy;      /* for who waits until it is */
    bool somebody_waits_until_busy;
    bool is_expected; /* to be idle; only the core's task touches it */
    uint32_t begins;  /* how often it was idle and is not any more */
    struct c7x_os_interrupt interrupt;
    bool has_interrupt;
    struct c7x_os_task ticker;
    struct c7x_os_event tick; /* wakes the ticker */
    bool is_ticking;
    bool has_ticker;
    bool ticker_stops;
};

/* `core` must not move until deinit. C7X_NOMEM, C7X_GENERIC. */
enum c7x_status c7x_core_init(struct c7x_core *core,
                              const struct c7x_core_config *config) C7X_NODISCARD;
/* After run has returned. */
void c7x_core_deinit(struct c7x_core *core);

/* Runs jobs until stop is called and nothing is left. The calling task is the core. */
void c7x_core_run(struct c7x_core *core);
/* No submit may follow. Any task. */
void c7x_core_stop(struct c7x_core *core);

/* ---- Any task ---- */

/* Queues a job; never blocks. C7X_BUSY: the queue is full, and the job still belongs to the caller.
 */
enum c7x_status c7x_core_submit(struct c7x_core *core, enum c7x_target_number target,
                                struct c7x_job *job) C7X_NODISCARD;
/* Queues a job that must not be refused, such as the clean-up after a client: the bound does not
 * count it out. */
void c7x_core_submit_always(struct c7x_core *core, enum c7x_target_number target,
                            struct c7x_job *job);
/* Takes a job that still waits off its queue: true, and it belongs to the caller again. False: it
 * runs, or has run. The pointer is compared only, so the job may be gone. */
bool c7x_core_remove(struct c7x_core *core, const struct c7x_job *job);
/* Ends the job if it runs or is pre-empted; it still finishes by itself. False: it does neither. */
bool c7x_core_end_job(struct c7x_core *core, const struct c7x_job *job, enum c7x_job_end reason);

struct c7x_target_state {
    uint32_t queue_depth; /* jobs that wait */
    bool has_job;         /* one has begun and not finished */
    bool is_preempted;    /* and waits for a higher target */
    uint64_t jobs_done;
    uint64_t preemptions; /* of its jobs, by higher targets */
};

/* For the job that calls: it counts the ends of its sections there, and the watchdog looks at it.
 * The steps of the control target are counted by the core. */
_Atomic uint32_t *c7x_core_section_count(struct c7x_core *core);

const char *c7x_core_target_name(const struct c7x_core *core, enum c7x_target_number target);
void c7x_core_get_state(struct c7x_core *core, enum c7x_target_number target,
                        struct c7x_target_state *out_state);

/* By the job that runs, when little is left of it, before its endpoint is answered: if nothing else
 * is to be done, config.expect is called. */
void c7x_core_expect_idleness(struct c7x_core *core, uint32_t endpoint);

/* For who stands in for the core while it is busy: waits until it is. False: it has stopped. */
bool c7x_core_wait_until_busy(struct c7x_core *core);
/* Makes sure that an idle core looks for work. */
void c7x_core_kick(struct c7x_core *core);

/* Looks whether the control target has waited long enough, and whether a job is stuck. */
void c7x_core_tick(struct c7x_core *core);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target: a named queue of opaque jobs and the task that runs them, first in first out, each to
 * completion (spec/target-execution-model, "FIFO run to completion per Target"). It knows nothing
 * of what a job does.
 *
 * station: service > [target] > module
 */
#ifndef C7X_FIRMWARE_TARGET_TARGET_H
#define C7X_FIRMWARE_TARGET_TARGET_H

#include "base/status.h"
#include "os/os.h"

#include <stdint.h>

/* Embedded in what the submitter allocates; the target owns it from submit until run is called. */
struct c7x_job {
    void (*run)(struct c7x_job *job); /* may free the job */
    struct c7x_job *next;
};

struct c7x_target_config {
    const char *name;         /* static, as applications name it: "DSP_C7-1" */
    const char *task_name;    /* static, at most 15 bytes */
    uint32_t queue_depth_max; /* jobs that may wait */
    size_t stack_bytes;
};

struct c7x_target {
    struct c7x_target_config config;
    struct c7x_os_task task;
    struct c7x_os_mutex lock; /* all below but `ready` */
    struct c7x_os_event ready;
    struct c7x_job *first;
    struct c7x_job **last;
    uint32_t queue_depth;
    uint64_t jobs_done;
    bool is_running; /* a job */
    bool stopping;
};

struct c7x_target_state {
    uint32_t queue_depth; /* jobs that wait */
    bool is_running;
    uint64_t jobs_done; /* since init */
};

/* Starts the target's task. `target` must not move until deinit. */
enum c7x_status c7x_target_init(struct c7x_target *target,
                                const struct c7x_target_config *config) C7X_NODISCARD;
/* Runs what is still queued, then ends the task. No submit may follow. */
void c7x_target_deinit(struct c7x_target *target);

/* Queues a job; never blocks. C7X_BUSY: the queue is full, and the job still belongs to the caller.
 * Any task. */
enum c7x_status c7x_target_submit(struct c7x_target *target, struct c7x_job *job) C7X_NODISCARD;
/* Queues a job that must not be refused, such as the clean-up after a client: the bound does not
 * count it out. */
void c7x_target_submit_always(struct c7x_target *target, struct c7x_job *job);
/* Takes a job that still waits off the queue: true, and it belongs to the caller again. False: it
 * runs, or has run. The pointer is compared only, so the job may be gone. Any task. */
bool c7x_target_remove(struct c7x_target *target, const struct c7x_job *job);

/* Any task. */
void c7x_target_get_state(struct c7x_target *target, struct c7x_target_state *out_state);

#endif

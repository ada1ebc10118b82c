/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/target/target.h"

#include "base/trace.h"

#include <string.h>

static struct c7x_job *take_first(struct c7x_target *target)
{
    struct c7x_job *job = target->first;
    if (job == NULL)
        return NULL;
    target->first = job->next;
    if (target->first == NULL)
        target->last = &target->first;
    target->queue_depth--;
    return job;
}

static void run_jobs(void *context)
{
    struct c7x_target *target = context;
    struct c7x_job *job = NULL;
    for (;;) {
        c7x_os_mutex_lock(&target->lock);
        target->jobs_done += job != NULL;
        job = take_first(target);
        target->is_running = job != NULL;
        bool stopping = target->stopping;
        c7x_os_mutex_unlock(&target->lock);
        if (job != NULL) {
            c7x_trace(C7X_STATION_TARGET);
            job->run(job);
        } else if (stopping) {
            return;
        } else {
            c7x_os_event_wait(&target->ready, C7X_OS_FOREVER);
        }
    }
}

enum c7x_status c7x_target_init(struct c7x_target *target, const struct c7x_target_config *config)
{
    memset(target, 0, sizeof *target);
    target->config = *config;
    target->last = &target->first;
    C7X_RETURN_IF_ERROR(c7x_os_mutex_init(&target->lock));
    enum c7x_status status = c7x_os_event_init(&target->ready);
    if (status == C7X_OK) {
        status = c7x_os_task_create(&target->task, config->task_name, config->stack_bytes, run_jobs,
                                    target);
        if (status != C7X_OK)
            c7x_os_event_deinit(&target->ready);
    }
    if (status != C7X_OK)
        c7x_os_mutex_deinit(&target->lock);
    return status;
}

void c7x_target_deinit(struct c7x_target *target)
{
    c7x_os_mutex_lock(&target->lock);
    target->stopping = true;
    c7x_os_mutex_unlock(&target->lock);
    c7x_os_event_set(&target->ready);
    c7x_os_task_join(&target->task);
    c7x_os_event_deinit(&target->ready);
    c7x_os_mutex_deinit(&target->lock);
}

static enum c7x_status submit(struct c7x_target *target, struct c7x_job *job, uint32_t depth_max)
{
    job->next = NULL;
    c7x_os_mutex_lock(&target->lock);
    bool accepted = target->queue_depth < depth_max;
    if (accepted) {
        *target->last = job;
        target->last = &job->next;
        target->queue_depth++;
    }
    c7x_os_mutex_unlock(&target->lock);
    if (accepted)
        c7x_os_event_set(&target->ready);
    return accepted ? C7X_OK : C7X_BUSY;
}

enum c7x_status c7x_target_submit(struct c7x_target *target, struct c7x_job *job)
{
    return submit(target, job, target->config.queue_depth_max);
}

void c7x_target_submit_always(struct c7x_target *target, struct c7x_job *job)
{
    (void)submit(target, job, UINT32_MAX);
}

bool c7x_target_remove(struct c7x_target *target, const struct c7x_job *job)
{
    struct c7x_job **place = &target->first;
    c7x_os_mutex_lock(&target->lock);
    while (*place != NULL && *place != job)
        place = &(*place)->next;
    bool found = *place != NULL;
    if (found) {
        *place = (*place)->next;
        if (*place == NULL)
            target->last = place;
        target->queue_depth--;
    }
    c7x_os_mutex_unlock(&target->lock);
    return found;
}

void c7x_target_get_state(struct c7x_target *target, struct c7x_target_state *out_state)
{
    c7x_os_mutex_lock(&target->lock);
    *out_state =
        (struct c7x_target_state){target->queue_depth, target->is_running, target->jobs_done};
    c7x_os_mutex_unlock(&target->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The queues, and which target comes next. */
#include "firmware/target/target_impl.h"

static struct c7x_target *control_of(struct c7x_core *core)
{
    return &core->targets[C7X_TARGET_CONTROL];
}

static bool has_work(const struct c7x_target *target)
{
    return target->job != NULL || target->first != NULL;
}

/* ---- Which one comes next ---- */

static bool share_a_key(const struct c7x_job_order *a, const struct c7x_job_order *b)
{
    for (int i = 0; i < C7X_JOB_KEYS; i++)
        for (int k = 0; k < C7X_JOB_KEYS; k++)
            if (a->keys[i] != 0 && a->keys[i] == b->keys[k])
                return true;
    return false;
}

/* Whether one is a barrier to the other. */
static bool must_keep_order(const struct c7x_job_order *a, const struct c7x_job_order *b)
{
    return (a->is_barrier || b->is_barrier) && share_a_key(a, b);
}

static bool may_not_overlap(const struct c7x_job_order *a, const struct c7x_job_order *b)
{
    return (a->keys[0] != 0 && a->keys[0] == b->keys[0]) || must_keep_order(a, b);
}

/* Whether the target has a job waiting that this one must come behind. */
static bool has_earlier(const struct c7x_target *target, const struct c7x_job *job)
{
    for (const struct c7x_job *other = target->first;
         other != NULL && other->order.number < job->order.number; other = other->next)
        if (must_keep_order(&other->order, &job->order))
            return true;
    return false;
}

/* The target whose work must come first; NULL: the job may begin. */
static struct c7x_target *find_blocker(struct c7x_core *core, const struct c7x_job *job)
{
    for (int i = 0; i < C7X_TARGET_COUNT; i++) {
        struct c7x_target *other = &core->targets[i];
        if (other->job != NULL && may_not_overlap(&other->order, &job->order))
            return other;
        if (core->barrier_count != 0 && has_earlier(other, job))
            return other;
    }
    return NULL;
}

/*
 * The target itself, or the one that its next job waits for, which so inherits its urgency. A job
 * only waits for one that has begun, or that came before it, as do those behind which that one
 * stands: so this ends.
 */
static struct c7x_target *resolve(struct c7x_core *core, struct c7x_target *target)
{
    while (target->job == NULL) {
        struct c7x_target *blocker = find_blocker(core, target->first);
        if (blocker == NULL)
            return target;
        target = blocker;
    }
    return target;
}

/* A control target that could not run anyway gives nobody else an advantage. */
static bool is_controls_turn(struct c7x_core *core)
{
    struct c7x_target *control = control_of(core);
    return has_work(control) &&
           c7x_core_now(core) - core->control_waits_since >= C7X_CONTROL_WAIT_NS &&
           resolve(core, control) == control;
}

struct c7x_target *c7x_target_next(struct c7x_core *core)
{
    if (is_controls_turn(core))
        return control_of(core);
    for (int i = 0; i < C7X_TARGET_COUNT; i++)
        if (has_work(&core->targets[i]))
            return resolve(core, &core->targets[i]);
    return NULL;
}

/* ---- In and out ---- */

void c7x_target_begin(struct c7x_target *target)
{
    struct c7x_job *job = target->first;
    target->first = job->next;
    if (target->first == NULL)
        target->last = &target->first;
    target->queue_depth--;
    target->core->barrier_count -= job->order.is_barrier;
    target->job = job;
    target->order = job->order;
    target->origin = job->origin;
    target->end = C7X_JOB_GOES_ON;
    target->stuck_ns = 0;
    c7x_trace_event(C7X_EVENT_JOB_BEGIN, &target->origin, target->queue_depth);
}

void c7x_target_finish(struct c7x_target *target)
{
    target->job = NULL;
    target->jobs_done++;
    c7x_trace_event(C7X_EVENT_JOB_END, &target->origin, 0);
}

static enum c7x_status submit(struct c7x_core *core, enum c7x_target_number number,
                              struct c7x_job *job, uint32_t depth_max)
{
    struct c7x_target *target = &core->targets[number];
    c7x_os_mutex_lock(&core->lock);
    bool accepted = target->queue_depth < depth_max;
    if (accepted) {
        if (number == C7X_TARGET_CONTROL && !has_work(target))
            core->control_waits_since = c7x_core_now(core);
        job->next = NULL;
        job->origin.target = (uint8_t)(1 + number);
        job->order.number = core->next_order++;
        *target->last = job;
        target->last = &job->next;
        target->queue_depth++;
        core->barrier_count += job->order.is_barrier;
        c7x_trace_event(C7X_EVENT_QUEUED, &job->origin, target->queue_depth);
        c7x_core_reconsider(core);
    }
    c7x_os_mutex_unlock(&core->lock);
    return accepted ? C7X_OK : C7X_BUSY;
}

enum c7x_status c7x_core_submit(struct c7x_core *core, enum c7x_target_number target,
                                struct c7x_job *job)
{
    return submit(core, target, job, C7X_TARGET_QUEUE_DEPTH_MAX);
}

void c7x_core_submit_always(struct c7x_core *core, enum c7x_target_number target,
                            struct c7x_job *job)
{
    (void)submit(core, target, job, UINT32_MAX);
}

static bool remove_from(struct c7x_target *target, const struct c7x_job *job)
{
    struct c7x_job **place = &target->first;
    while (*place != NULL && *place != job)
        place = &(*place)->next;
    if (*place == NULL)
        return false;
    const struct c7x_trace_origin origin = (*place)->origin;
    target->core->barrier_count -= (*place)->order.is_barrier;
    *place = (*place)->next;
    if (*place == NULL)
        target->last = place;
    target->queue_depth--;
    c7x_trace_event(C7X_EVENT_REMOVED, &origin, target->queue_depth);
    return true;
}

bool c7x_core_remove(struct c7x_core *core, const struct c7x_job *job)
{
    bool found = false;
    c7x_os_mutex_lock(&core->lock);
    for (int i = 0; i < C7X_TARGET_COUNT && !found; i++)
        found = remove_from(&core->targets[i], job);
    if (found)
        c7x_core_reconsider(core); /* who has waited for it */
    c7x_os_mutex_unlock(&core->lock);
    return found;
}

void c7x_core_get_state(struct c7x_core *core, enum c7x_target_number number,
                        struct c7x_target_state *out_state)
{
    const struct c7x_target *target = &core->targets[number];
    c7x_os_mutex_lock(&core->lock);
    *out_state = (struct c7x_target_state){
        .queue_depth = target->queue_depth,
        .has_job = target->job != NULL,
        .is_preempted = target->job != NULL && core->running != target,
        .jobs_done = target->jobs_done,
        .preemptions = target->preemptions,
    };
    c7x_os_mutex_unlock(&core->lock);
}

const char *c7x_core_target_name(const struct c7x_core *core, enum c7x_target_number target)
{
    return core->targets[target].name;
}

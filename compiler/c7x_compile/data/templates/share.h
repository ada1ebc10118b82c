/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How kernels are shared by threads: a kernel has steps, which follow each other, and each step is
 * computed by tasks, in any order or at once, with no wait among them.
 */

/* What a template computes when it is called: of one step the share of one task. is_split is a
 * literal: without it there is one task. */
struct fast_share {
    int is_split;
    int step;
    int task;
    int tasks;
};

/* Of `count` units the share is from share_from() to before share_to(). */
FAST_INLINE int share_from(int count, const struct fast_share share)
{
    return share.is_split ? (int)((long)count * share.task / share.tasks) : 0;
}

FAST_INLINE int share_to(int count, const struct fast_share share)
{
    return share.is_split ? (int)((long)count * (share.task + 1) / share.tasks) : count;
}

/* What a task is told. */
struct fast_call {
    float *const *tensors;
    uint8_t *workspace;
    int step;
};

/* Each step by as many tasks as there are threads. */
FAST_INLINE int32_t fast_launch(FTVMParallelLambda function, float *const *tensors,
                                uint8_t *workspace, const int steps)
{
    struct fast_call call;
    int32_t status = 0;
    call.tensors = tensors;
    call.workspace = workspace;
    for (call.step = 0; call.step < steps && status == 0; ++call.step) {
        status = TVMBackendParallelLaunch(function, &call, 0);
    }
    return status;
}

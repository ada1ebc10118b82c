/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel regions: TVMBackendParallelLaunch. The tasks are claimed one by one, by the thread that
 * launches them and by those that help, so that nobody waits for one that has not begun. A region
 * is a critical section, in which interrupts are off for open modules, too, so there is one at a
 * time; what would be a second one runs its tasks in order.
 *
 * Whatever ends a task in the middle (struct c7x_tvm_context, end) ends the call, but not before
 * all threads have left the region.
 */
#include "firmware/tvm/parallel.h"

#include "base/pause.h"
#include "firmware/printf/printf.h"

#define LINE_BYTES 64 /* of the host's caches */
#define SPIN_NS 50000
#define SPIN_LOOKS 16 /* between two looks at the clock */

/* What one thread does in a region. */
struct part {
    _Alignas(LINE_BYTES) struct c7x_tvm_context *context; /* of the call or, of a helper, `own` */
    _Atomic uint32_t generation; /* of the last region that it helped with */
    uint32_t task;               /* the one that it runs, or ran last */
    uint32_t count;              /* of those that it has claimed in this region */
    int result;                  /* of `task`; if it is not 0, the last one */
    int interrupts_depth;        /* outside of tasks */
    jmp_buf *outer;              /* end point of the context outside of the region */
    jmp_buf end_point;
    struct c7x_tvm_context own;
};

static struct part parts[C7X_TVM_THREADS_MAX];

/* There is one. What is in the lines behind the first two does not change while tasks of it are
 * claimed and not done. */
static struct {
    /* generation:32 limit:16 next:16. The tasks from `next` on, below `limit`, are to be claimed.
     */
    _Alignas(LINE_BYTES) _Atomic uint64_t claims;
    _Alignas(LINE_BYTES) _Atomic uint32_t done; /* tasks that helpers have claimed, and left */
    atomic_bool is_awaited;                     /* who launched sleeps until they have */
    atomic_bool has_news;                       /* a part has something to tell */
    _Alignas(LINE_BYTES) struct c7x_tvm_context *_Atomic launcher; /* NULL: there is no region */
    struct c7x_printf *printf;
    FTVMParallelLambda function;
    void *data;
    TVMParallelGroupEnv env;
    uint32_t generation;
    _Atomic uint32_t ended_generation; /* whose tasks are to end in the middle */
    struct c7x_os_event left;          /* by the last helper, when it is awaited */
} region;

/* ---- Claims ---- */

#define TASKS_MAX 0xffffu

static uint32_t next_of(uint64_t claims)
{
    return (uint32_t)(claims & TASKS_MAX);
}

static uint32_t limit_of(uint64_t claims)
{
    return (uint32_t)(claims >> 16 & TASKS_MAX);
}

static uint32_t generation_of(uint64_t claims)
{
    return (uint32_t)(claims >> 32);
}

static uint64_t make_claims(uint32_t generation, uint32_t limit, uint32_t next)
{
    return (uint64_t)generation << 32 | (uint64_t)limit << 16 | next;
}

bool c7x_tvm_region_has_task(void)
{
    uint64_t claims = atomic_load(&region.claims);
    return next_of(claims) < limit_of(claims);
}

/* Who has a task keeps the region as it is. */
static bool claim(uint32_t *out_task)
{
    uint64_t claims = atomic_load(&region.claims);
    do {
        if (next_of(claims) == limit_of(claims))
            return false;
    } while (!atomic_compare_exchange_weak(&region.claims, &claims, claims + 1));
    *out_task = next_of(claims);
    return true;
}

static void stop_claims(void)
{
    uint64_t claims = atomic_load(&region.claims);
    while (!atomic_compare_exchange_weak(
        &region.claims, &claims,
        make_claims(generation_of(claims), next_of(claims), next_of(claims))))
        continue;
}

/* ---- The part of one thread ---- */

static bool is_well(const struct part *part)
{
    return part->result == 0 && part->context->end == C7X_TVM_RETURNED;
}

/* With the first task claimed. Interrupts are off once less in the tasks than outside. */
static void run_part(struct part *part)
{
    part->count = 0;
    part->result = 0;
    part->interrupts_depth = c7x_os_interrupts_depth();
    part->outer = part->context->end_point;
    if (setjmp(part->end_point) == 0) {
        part->context->end_point = &part->end_point;
        do {
            part->count++;
            c7x_os_interrupts_on();
            part->result = region.function((int)part->task, &region.env, region.data);
            c7x_os_interrupts_off();
        } while (part->result == 0 && claim(&part->task));
    } else {
        c7x_os_interrupts_restore(part->interrupts_depth);
    }
    part->context->end_point = part->outer;
    if (!is_well(part))
        stop_claims();
    if (!is_well(part) || part->context->out_of_memory)
        atomic_store(&region.has_news, true);
}

/* What the launcher's context is in the region, but for registers: those are the call's alone. */
static void enter(uint32_t thread)
{
    const struct c7x_tvm_context *launcher = atomic_load(&region.launcher);
    struct part *part = &parts[thread];
    part->own = (struct c7x_tvm_context){
        .owner = launcher->owner,
        .fast_owner = launcher->fast_owner,
        .workspace_owner = launcher->workspace_owner,
        .workspace = c7x_tvm_workspace_take_of_thread(thread),
        .constants = launcher->constants,
        .constant_count = launcher->constant_count,
        .section_depth = 1,
        .section_floor = 1,
        .is_task = true,
        .scratch = {.bytes = launcher->scratch.bytes, .copy = launcher->scratch.copy},
        .origin = launcher->origin,
        .infer = launcher->infer,
        .manifest = launcher->manifest,
        .symbols = launcher->symbols,
        .symbol_count = launcher->symbol_count,
    };
    part->context = &part->own;
    atomic_store(&part->generation, region.generation);
    c7x_tvm_context_set(part->context);
    c7x_printf_select(region.printf);
}

/* After it the region may be gone. */
static void leave(const struct part *part)
{
    c7x_tvm_workspace_give(part->own.workspace);
    c7x_printf_select(NULL);
    c7x_tvm_context_set(NULL);
    (void)atomic_fetch_add(&region.done, part->count);
    if (atomic_load(&region.is_awaited))
        c7x_os_event_set(&region.left);
}

void c7x_tvm_region_help(uint32_t thread)
{
    struct part *part = &parts[thread];
    if (!claim(&part->task))
        return;
    enter(thread);
    run_part(part);
    leave(part);
}

void c7x_tvm_region_end_task(uint32_t thread)
{
    if (atomic_load(&parts[thread].generation) == atomic_load(&region.ended_generation))
        c7x_tvm_end_call(C7X_TVM_STUCK, NULL);
}

void c7x_tvm_region_end_tasks(const struct c7x_tvm_context *context)
{
    if (atomic_load(&region.launcher) != context)
        return;
    atomic_store(&region.ended_generation, region.generation);
    for (uint32_t i = 1; i < c7x_tvm_thread_count(); i++) {
        if (atomic_load(&parts[i].generation) == region.generation)
            c7x_tvm_thread_interrupt(i);
    }
}

/* ---- The whole of it ---- */

/* The first task is the launcher's. */
static void begin(struct c7x_tvm_context *launcher, FTVMParallelLambda function, void *data,
                  uint32_t task_count)
{
    region.printf = c7x_printf_selected();
    region.function = function;
    region.data = data;
    region.env = (TVMParallelGroupEnv){.num_task = (int32_t)task_count};
    region.generation++;
    atomic_store_explicit(&region.done, 0, memory_order_relaxed);
    atomic_store_explicit(&region.has_news, false, memory_order_relaxed);
    atomic_store_explicit(&region.launcher, launcher, memory_order_relaxed);
    parts[0].context = launcher;
    parts[0].task = 0;
    atomic_store(&region.claims, make_claims(region.generation, task_count, 1));
    c7x_tvm_threads_wake(task_count - 1);
}

static bool is_done_within(int64_t ns, uint32_t count)
{
    int64_t until_ns = 0;
    do {
        for (int i = 0; i < SPIN_LOOKS; i++) {
            if (atomic_load(&region.done) == count)
                return true;
            c7x_pause();
        }
        c7x_os_task_yield(); /* a helper may be waiting for this very processor */
        if (until_ns == 0)
            until_ns = c7x_os_deadline_ns(ns);
    } while (c7x_os_clock_ns() < until_ns);
    return false;
}

/* No task is claimed any more. */
static void wait_for_helpers(void)
{
    const uint32_t count = limit_of(atomic_load(&region.claims)) - parts[0].count;
    if (is_done_within(SPIN_NS, count))
        return;
    atomic_store(&region.is_awaited, true);
    while (atomic_load(&region.done) != count)
        (void)c7x_os_event_wait(&region.left, C7X_OS_FOREVER);
    atomic_store(&region.is_awaited, false);
}

/* What counts of several: a task that ended by itself, one that was ended, one that returned not 0;
 * and of those the first one, which is the one that would have been met in order. */
static uint32_t rank_of(const struct part *part)
{
    uint32_t kind = part->context->end == C7X_TVM_STUCK ? 1 : 0;
    if (part->context->end == C7X_TVM_RETURNED)
        kind = part->result != 0 ? 2 : 3;
    return kind << 16 | part->task;
}

static void take_oom(struct c7x_tvm_context *launcher, const struct c7x_tvm_context *task)
{
    if (!task->out_of_memory || launcher->out_of_memory)
        return;
    launcher->out_of_memory = true;
    launcher->oom = task->oom;
}

/* The result of all, and into the launcher's context what became of it. */
static int settle(struct c7x_tvm_context *launcher)
{
    const struct part *first = &parts[0];
    if (!atomic_load(&region.has_news))
        return 0;
    for (uint32_t i = 1; i < c7x_tvm_thread_count(); i++) {
        const struct part *part = &parts[i];
        if (atomic_load(&part->generation) != region.generation)
            continue;
        take_oom(launcher, part->context);
        if (rank_of(part) < rank_of(first))
            first = part;
    }
    launcher->end = first->context->end;
    launcher->fault = first->context->fault;
    return first->result;
}

/* All of it, tasks excepted, with interrupts off twice, so that nothing ends the call here. */
static int run_shared(struct c7x_tvm_context *context, FTVMParallelLambda function, void *data,
                      uint32_t task_count)
{
    const int32_t floor = context->section_floor;
    c7x_os_interrupts_off();
    if (context->is_open)
        c7x_os_interrupts_off();
    context->section_floor = context->section_depth;
    context->has_workspace_blocks = true; /* the helpers may leave some */
    begin(context, function, data, task_count);
    run_part(&parts[0]);
    wait_for_helpers();
    int result = settle(context);
    atomic_store_explicit(&region.launcher, NULL, memory_order_relaxed);
    context->section_floor = floor;
    if (context->end != C7X_TVM_RETURNED)
        longjmp(*context->end_point, 1);
    if (context->is_open)
        c7x_os_interrupts_on();
    c7x_os_interrupts_on();
    return result;
}

static int run_in_order(FTVMParallelLambda function, void *data, int task_count)
{
    TVMParallelGroupEnv env = {.num_task = task_count};
    int result = 0;
    for (int task = 0; task < task_count && result == 0; task++)
        result = function(task, &env, data);
    return result;
}

/* Whether others may help: in a call, not in what is tried without one, and not within a region. */
static bool is_shared(const struct c7x_tvm_context *context)
{
    return c7x_tvm_thread_count() > 1 && context != NULL && context->end_point != NULL &&
           !context->is_task &&
           atomic_load_explicit(&region.launcher, memory_order_relaxed) == NULL;
}

int TVMBackendParallelLaunch(FTVMParallelLambda function, void *data, int num_task)
{
    struct c7x_tvm_context *context = c7x_tvm_context();
    const bool shares = is_shared(context);
    if (num_task <= 0)
        num_task = shares && num_task == 0 ? (int)c7x_tvm_thread_count() : 1;
    int32_t depth = c7x_tvm_section_enter();
    int result = shares && num_task > 1 && num_task <= (int)TASKS_MAX
                     ? run_shared(context, function, data, (uint32_t)num_task)
                     : run_in_order(function, data, num_task);
    c7x_tvm_section_leave(depth);
    return result;
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *env)
{
    (void)task_id;
    (void)env;
    return 0;
}

/* It is never taken down. */
enum c7x_status c7x_tvm_region_init(void)
{
    static bool is_ready;
    if (is_ready)
        return C7X_OK;
    C7X_RETURN_IF_ERROR(c7x_os_event_init(&region.left));
    is_ready = true;
    return C7X_OK;
}

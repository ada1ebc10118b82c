/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of events. Jobs submit other jobs themselves, as the receiving role does while they run,
 * so nothing here depends on time. */
#include "firmware/target/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOG_BYTES 4096
#define MS 1000000

struct test_job;
typedef void (*step_fn)(struct test_job *job);

/* Writes its letter, in capitals at its beginning and small at its end, and acts between. */
struct test_job {
    struct c7x_job base;
    char letter;
    step_fn act;
    struct test_job *others; /* for `act` */
    enum c7x_target_number target;
};

static struct c7x_core core;
static char events[LOG_BYTES];
static int64_t now;
static unsigned ended;

static int64_t fake_clock(void)
{
    return now;
}

static void note(char letter)
{
    size_t length = strlen(events);
    assert_true(length + 1 < sizeof events);
    events[length] = letter;
}

static void run(struct c7x_job *base)
{
    struct test_job *job = (struct test_job *)base;
    note(job->letter);
    if (job->act != NULL)
        job->act(job);
    note((char)(job->letter - 'A' + 'a'));
}

static void count_end(enum c7x_job_end reason)
{
    ended |= 1u << reason;
}

static void do_nothing(void)
{
}

static int set_up(void **state)
{
    const struct c7x_core_config config = {.number = 1,
                                           .stack_bytes = 256 * 1024,
                                           .watchdog_ns = 10 * MS,
                                           .clock_ns = fake_clock,
                                           .has_own_ticks = true,
                                           .end_job = count_end,
                                           .end_stuck_section = do_nothing};
    (void)state;
    memset(events, 0, sizeof events);
    now = 0;
    ended = 0;
    return c7x_core_init(&core, &config) == C7X_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    c7x_core_deinit(&core);
    return 0;
}

static struct test_job job(char letter, enum c7x_target_number target, step_fn act)
{
    return (struct test_job){.base.run = run, .letter = letter, .act = act, .target = target};
}

static void submit(struct test_job *job)
{
    assert_int_equal(c7x_core_submit(&core, job->target, &job->base), C7X_OK);
}

static void run_all(void)
{
    c7x_core_stop(&core);
    c7x_core_run(&core);
}

/* What a module does at the end of an operator's critical section. */
static void end_section(void)
{
    c7x_os_interrupts_on();
    c7x_os_interrupts_off();
}

static void submit_others(struct test_job *job)
{
    for (struct test_job *other = job->others; other != NULL && other->letter != 0; other++)
        submit(other);
}

static void submit_in_section(struct test_job *job)
{
    submit_others(job);
    note('-'); /* still in the section */
    end_section();
}

/* ---- Within a target ---- */

static void jobs_run_first_in_first_out(void **state)
{
    struct test_job jobs[3] = {job('A', C7X_TARGET_PRI_3, NULL), job('B', C7X_TARGET_PRI_3, NULL),
                               job('C', C7X_TARGET_PRI_3, NULL)};
    struct c7x_target_state now_is;
    (void)state;
    for (int i = 0; i < 3; i++)
        submit(&jobs[i]);
    c7x_core_get_state(&core, C7X_TARGET_PRI_3, &now_is);
    assert_int_equal(now_is.queue_depth, 3);
    run_all();
    assert_string_equal(events, "AaBbCc");
    c7x_core_get_state(&core, C7X_TARGET_PRI_3, &now_is);
    assert_int_equal(now_is.queue_depth, 0);
    assert_int_equal(now_is.jobs_done, 3);
    assert_int_equal(now_is.preemptions, 0);
}

/* One of its own target never comes between. */
static void a_job_of_the_same_target_waits(void **state)
{
    struct test_job others[2] = {job('B', C7X_TARGET_PRI_3, NULL)};
    struct test_job first = job('A', C7X_TARGET_PRI_3, submit_in_section);
    (void)state;
    first.others = others;
    submit(&first);
    run_all();
    assert_string_equal(events, "A-aBb");
}

static void a_full_queue_is_busy_but_cleanup_still_gets_in(void **state)
{
    static struct test_job jobs[C7X_TARGET_QUEUE_DEPTH_MAX + 2];
    struct c7x_target_state now_is;
    (void)state;
    for (unsigned i = 0; i < C7X_TARGET_QUEUE_DEPTH_MAX + 2; i++)
        jobs[i] = job('A', C7X_TARGET_PRI_8, NULL);
    for (unsigned i = 0; i < C7X_TARGET_QUEUE_DEPTH_MAX; i++)
        submit(&jobs[i]);
    struct test_job *late = &jobs[C7X_TARGET_QUEUE_DEPTH_MAX];
    assert_int_equal(c7x_core_submit(&core, C7X_TARGET_PRI_8, &late->base), C7X_BUSY);
    late->target = C7X_TARGET_PRI_7; /* each has a queue of its own */
    submit(late);
    c7x_core_submit_always(&core, C7X_TARGET_PRI_8, &late[1].base);
    run_all();
    c7x_core_get_state(&core, C7X_TARGET_PRI_8, &now_is);
    assert_int_equal(now_is.jobs_done, C7X_TARGET_QUEUE_DEPTH_MAX + 1);
}

static void a_waiting_job_can_be_removed_and_no_other(void **state)
{
    struct test_job jobs[4] = {job('A', C7X_TARGET_PRI_1, NULL), job('B', C7X_TARGET_PRI_1, NULL),
                               job('C', C7X_TARGET_PRI_1, NULL), job('D', C7X_TARGET_PRI_1, NULL)};
    (void)state;
    for (int i = 0; i < 4; i++)
        submit(&jobs[i]);
    assert_true(c7x_core_remove(&core, &jobs[3].base));
    assert_true(c7x_core_remove(&core, &jobs[0].base));
    assert_false(c7x_core_remove(&core, &jobs[0].base));
    submit(&jobs[0]);
    run_all();
    assert_string_equal(events, "BbCcAa");
    assert_false(c7x_core_remove(&core, &jobs[1].base));
}

/* ---- Between targets ---- */

/* Three priorities in every order: whoever is higher runs first, once the running one is at the end
 * of its section. */
static void the_higher_target_takes_over_at_the_end_of_a_section(void **state)
{
    for (int first = 0; first < 3; first++)
        for (int second = 0; second < 3; second++) {
            char expected[16];
            struct test_job others[3] = {
                job('B', (enum c7x_target_number)(C7X_TARGET_PRI_1 + second), NULL),
                job('C', C7X_TARGET_PRI_2, NULL)};
            struct test_job low =
                job('A', (enum c7x_target_number)(C7X_TARGET_PRI_1 + first), submit_in_section);
            bool b_first = second <= 1;
            tear_down(state);
            set_up(state);
            low.others = others;
            submit(&low);
            run_all();
            (void)snprintf(expected, sizeof expected, "A-%s%sa%s%s",
                           b_first && second < first ? "Bb" : "", first > 1 ? "Cc" : "",
                           b_first && second >= first ? "Bb" : "", first <= 1 ? "Cc" : "");
            if (second == 2) /* behind C */
                (void)snprintf(expected, sizeof expected, "A-%s%s%s%s", first > 1 ? "Cc" : "", "a",
                               first <= 1 ? "Cc" : "", "Bb");
            if (first == 2 && second == 1)
                (void)snprintf(expected, sizeof expected, "A-BbCca");
            assert_string_equal(events, expected);
        }
}

static void preempt_twice(struct test_job *job)
{
    submit(&job->others[0]);
    end_section();
    note('.');
    submit(&job->others[1]);
    end_section();
}

static void a_job_is_preempted_as_often_as_need_be(void **state)
{
    struct test_job highest[2] = {job('D', C7X_TARGET_PRI_1, NULL)};
    struct test_job others[2] = {job('B', C7X_TARGET_PRI_4, submit_in_section),
                                 job('C', C7X_TARGET_PRI_2, NULL)};
    struct test_job low = job('A', C7X_TARGET_PRI_8, preempt_twice);
    struct c7x_target_state now_is;
    (void)state;
    others[0].others = highest;
    low.others = others;
    submit(&low);
    run_all();
    assert_string_equal(events, "AB-Ddb.Cca");
    c7x_core_get_state(&core, C7X_TARGET_PRI_8, &now_is);
    assert_int_equal(now_is.preemptions, 2);
}

static void preempt_a_thousand_times(struct test_job *job)
{
    double sum = 0;
    for (int i = 0; i < 1000; i++) {
        volatile double part = 1.0 / (i + 1);
        submit(&job->others[0]);
        end_section();
        sum += part;
    }
    assert_true(sum > 7.48547086055034 && sum < 7.48547086055035);
}

/* ---- Jobs with a key in common ---- */

static void submit_in_section_with_key(struct test_job *job)
{
    job->base.order.keys[0] = 7;
    submit_in_section(job);
}

/* B wants what A has, so C, which is higher than A, must not come between them. */
static void whoever_holds_an_instance_is_as_urgent_as_who_waits_for_it(void **state)
{
    struct test_job others[4] = {job('C', C7X_TARGET_PRI_4, NULL), job('B', C7X_TARGET_PRI_1, NULL),
                                 job('D', C7X_TARGET_PRI_1, NULL)};
    struct test_job low = job('A', C7X_TARGET_PRI_8, submit_in_section);
    (void)state;
    others[1].base.order.keys[0] = 7;
    low.base.order.keys[0] = 7;
    low.others = others;
    submit(&low);
    run_all();
    assert_string_equal(events, "A-aBbDdCc");
}

/* It has been pre-empted when the higher one comes, and whoever did so is no more urgent then. */
static void a_preempted_holder_goes_on_before_who_preempted_it(void **state)
{
    struct test_job highest[2] = {job('C', C7X_TARGET_PRI_1, NULL)};
    struct test_job middle[2] = {job('B', C7X_TARGET_PRI_4, submit_in_section)};
    struct test_job low = job('A', C7X_TARGET_PRI_8, submit_in_section_with_key);
    (void)state;
    low.base.order.keys[0] = highest[0].base.order.keys[0] = 7;
    middle[0].others = highest;
    low.others = middle;
    submit(&low);
    run_all();
    assert_string_equal(events, "A-B-aCcb");
}

static void a_barrier_comes_behind_what_was_before_it_and_before_the_rest(void **state)
{
    struct test_job before = job('A', C7X_TARGET_PRI_6, NULL);
    struct test_job barrier = job('B', C7X_TARGET_CONTROL, NULL);
    struct test_job behind = job('C', C7X_TARGET_PRI_1, NULL);
    struct test_job other = job('D', C7X_TARGET_PRI_3, NULL);
    (void)state;
    before.base.order.keys[0] = barrier.base.order.keys[0] = behind.base.order.keys[0] = 7;
    other.base.order.keys[0] = 8;
    barrier.base.order.is_barrier = true;
    submit(&before);
    submit(&barrier);
    submit(&behind);
    submit(&other);
    run_all();
    assert_string_equal(events, "AaBbCcDd");
}

/* ---- The control target ---- */

static void step(struct test_job *job)
{
    for (int i = 0; i < 3; i++) {
        c7x_os_interrupt_point();
        note((char)('0' + i));
        submit_others(job);
        job->others = NULL;
    }
}

static void loads_let_every_target_go_first(void **state)
{
    struct test_job others[2] = {job('B', C7X_TARGET_PRI_8, NULL)};
    struct test_job load = job('A', C7X_TARGET_CONTROL, step);
    (void)state;
    load.others = others;
    submit(&load);
    run_all();
    assert_string_equal(events, "A0Bb12a");
}

static void step_slowly(struct test_job *job)
{
    (void)job;
    for (int i = 0; i < 20; i++) {
        now += 9 * MS;
        c7x_os_interrupt_point();
        c7x_core_tick(&core);
    }
}

static void a_long_load_is_not_stuck(void **state)
{
    struct test_job load = job('A', C7X_TARGET_CONTROL, step_slowly);
    (void)state;
    submit(&load);
    run_all();
    assert_int_equal(ended, 0);
}

static void pass_time(struct test_job *job)
{
    (void)job;
    for (int i = 0; i < 5; i++) {
        now += C7X_CONTROL_WAIT_NS / 2;
        c7x_core_tick(&core);
        note('.');
        end_section();
    }
}

/* After 20 ms it gets one step, then waits for 20 more. */
static void a_load_that_waits_gets_a_step_now_and_then(void **state)
{
    struct test_job busy = job('B', C7X_TARGET_PRI_1, pass_time);
    struct test_job load = job('A', C7X_TARGET_CONTROL, step);
    (void)state;
    submit(&busy);
    submit(&load);
    run_all();
    assert_string_equal(events, "B..A..0.b12a");
}

/* ---- Watchdog, and the end of jobs ---- */

static void run_without_sections(struct test_job *job)
{
    (void)job;
    now += 6 * MS;
    c7x_core_tick(&core);
    now += 3 * MS;
    c7x_core_tick(&core);
    end_section();
    assert_int_equal(ended, 0);
    now += 1 * MS;
    c7x_core_tick(&core);
    assert_int_equal(ended, 0); /* not before the interrupt is let in */
    end_section();
    assert_int_equal(ended, 1u << C7X_JOB_STUCK);
}

static void a_job_that_comes_to_no_end_of_a_section_is_stuck(void **state)
{
    struct test_job endless = job('A', C7X_TARGET_PRI_4, run_without_sections);
    (void)state;
    submit(&endless);
    run_all();
    assert_string_equal(events, "Aa");
}

static void run_sections(struct test_job *job)
{
    (void)job;
    for (int i = 0; i < 20; i++) {
        now += 9 * MS;
        atomic_fetch_add(c7x_core_section_count(&core), 1);
        end_section();
        c7x_core_tick(&core);
    }
}

static void a_long_job_with_sections_is_not(void **state)
{
    struct test_job running = job('A', C7X_TARGET_PRI_4, run_sections);
    (void)state;
    submit(&running);
    run_all();
    assert_int_equal(ended, 0);
}

static void be_preempted_for_long(struct test_job *job)
{
    now += 6 * MS;
    submit_in_section(job);
    now += 3 * MS;
    c7x_core_tick(&core);
    end_section();
    assert_int_equal(ended, 0);
    now += 1 * MS;
    c7x_core_tick(&core);
    end_section();
    assert_int_equal(ended, 1u << C7X_JOB_STUCK);
}

/* Only its own time counts, and all of it. */
static void a_preempted_job_is_not_taken_for_a_stuck_one(void **state)
{
    struct test_job others[2] = {job('B', C7X_TARGET_PRI_1, run_sections)};
    struct test_job low = job('A', C7X_TARGET_PRI_8, be_preempted_for_long);
    (void)state;
    low.others = others;
    submit(&low);
    run_all();
    assert_string_equal(events, "A-Bba");
}

static void run_for_long(struct test_job *job)
{
    (void)job;
    now += 9 * MS;
    c7x_core_tick(&core);
    end_section();
    assert_int_equal(ended, 0);
}

/* Nor one that begins where another has run for long: the core does not switch between them. */
static void a_job_that_has_just_begun_is_not_taken_for_a_stuck_one(void **state)
{
    struct test_job jobs[3] = {job('A', C7X_TARGET_PRI_4, run_for_long),
                               job('B', C7X_TARGET_PRI_4, run_for_long),
                               job('C', C7X_TARGET_PRI_4, run_without_sections)};
    (void)state;
    for (int i = 0; i < 3; i++)
        submit(&jobs[i]);
    run_all();
    assert_string_equal(events, "AaBbCc");
}

static struct test_job *victim;

static void end_the_victim(struct test_job *job)
{
    (void)job;
    assert_true(c7x_core_end_job(&core, &victim->base, C7X_JOB_CANCELLED));
    assert_int_equal(ended, 0);
}

static void be_ended(struct test_job *job)
{
    victim = job;
    submit_in_section(job);
    assert_int_equal(ended, 1u << C7X_JOB_CANCELLED);
}

static void a_preempted_job_is_ended_when_it_goes_on(void **state)
{
    struct test_job others[2] = {job('B', C7X_TARGET_PRI_1, end_the_victim)};
    struct test_job low = job('A', C7X_TARGET_PRI_8, be_ended);
    (void)state;
    low.others = others;
    submit(&low);
    run_all();
    assert_false(c7x_core_end_job(&core, &low.base, C7X_JOB_CANCELLED));
}

/* ---- With another task ---- */

static void submit_it(void *context)
{
    submit(context);
}

static atomic_bool flag;

static void set_flag(struct test_job *job)
{
    (void)job;
    atomic_store(&flag, true);
}

/* A module that knows no sections: nothing but the interrupt takes the core from it. */
static void spin(struct test_job *job)
{
    struct c7x_os_task task;
    atomic_store(&flag, false);
    assert_int_equal(c7x_os_task_create(&task, "submitter", 0, submit_it, job->others), C7X_OK);
    c7x_os_interrupts_on();
    while (!atomic_load_explicit(&flag, memory_order_relaxed))
        continue;
    c7x_os_interrupts_off();
    c7x_os_task_join(&task);
}

static void the_higher_target_takes_over_anywhere(void **state)
{
    struct test_job high[2] = {job('B', C7X_TARGET_PRI_1, set_flag)};
    struct test_job low = job('A', C7X_TARGET_PRI_2, spin);
    (void)state;
    low.others = high;
    submit(&low);
    run_all();
    assert_string_equal(events, "ABba");
}

static void a_thousand_preemptions_leave_a_job_as_it_was(void **state)
{
    struct test_job high[2] = {job('B', C7X_TARGET_PRI_1, NULL)};
    struct test_job low = job('A', C7X_TARGET_PRI_2, preempt_a_thousand_times);
    struct c7x_target_state now_is;
    (void)state;
    low.others = high;
    submit(&low);
    run_all();
    c7x_core_get_state(&core, C7X_TARGET_PRI_2, &now_is);
    assert_int_equal(now_is.preemptions, 1000);
}

static void run_core(void *context)
{
    c7x_core_run(context);
}

static void stop_when_run(struct test_job *job)
{
    (void)job;
    c7x_core_stop(&core);
}

static void an_idle_core_is_woken(void **state)
{
    struct test_job only = job('A', C7X_TARGET_PRI_5, stop_when_run);
    struct c7x_os_task task;
    (void)state;
    assert_int_equal(c7x_os_task_create(&task, "core", 0, run_core, &core), C7X_OK);
    submit(&only);
    c7x_os_task_join(&task);
    assert_string_equal(events, "Aa");
}

static struct test_job *to_find;
static int idle_count;

static void find_work(void *context)
{
    (void)context;
    assert_true(c7x_os_interrupt_is_own(&core.interrupt)); /* in the core's own task */
    if (idle_count++ == 0)
        submit(to_find);
    else
        c7x_core_stop(&core);
}

static void need_not_wake(void *context)
{
    (void)context;
    fail_msg("the core was woken by itself");
}

/* No other task has a part in it. */
static void an_idle_core_runs_what_it_finds_itself(void **state)
{
    struct test_job found = job('A', C7X_TARGET_PRI_5, NULL);
    (void)state;
    to_find = &found;
    idle_count = 0;
    core.config.idle = find_work;
    core.config.wake = need_not_wake;
    c7x_core_run(&core);
    assert_string_equal(events, "Aa");
    assert_int_equal(idle_count, 2);
}

static void names_are_those_of_the_core(void **state)
{
    (void)state;
    assert_string_equal(c7x_core_target_name(&core, C7X_TARGET_PRI_1), "DSP_C7-1");
    assert_string_equal(c7x_core_target_name(&core, C7X_TARGET_PRI_8), "DSP_C7-1_PRI_8");
    assert_string_equal(c7x_core_target_name(&core, C7X_TARGET_CONTROL), "DSP_C7-1_CONTROL");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(jobs_run_first_in_first_out),
        TEST(a_job_of_the_same_target_waits),
        TEST(a_full_queue_is_busy_but_cleanup_still_gets_in),
        TEST(a_waiting_job_can_be_removed_and_no_other),
        TEST(the_higher_target_takes_over_at_the_end_of_a_section),
        TEST(a_job_is_preempted_as_often_as_need_be),
        TEST(a_thousand_preemptions_leave_a_job_as_it_was),
        TEST(whoever_holds_an_instance_is_as_urgent_as_who_waits_for_it),
        TEST(a_preempted_holder_goes_on_before_who_preempted_it),
        TEST(a_barrier_comes_behind_what_was_before_it_and_before_the_rest),
        TEST(loads_let_every_target_go_first),
        TEST(a_long_load_is_not_stuck),
        TEST(a_load_that_waits_gets_a_step_now_and_then),
        TEST(a_job_that_comes_to_no_end_of_a_section_is_stuck),
        TEST(a_long_job_with_sections_is_not),
        TEST(a_preempted_job_is_not_taken_for_a_stuck_one),
        TEST(a_job_that_has_just_begun_is_not_taken_for_a_stuck_one),
        TEST(a_preempted_job_is_ended_when_it_goes_on),
        TEST(the_higher_target_takes_over_anywhere),
        TEST(an_idle_core_is_woken),
        TEST(an_idle_core_runs_what_it_finds_itself),
        TEST(names_are_those_of_the_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of pre-emption, critical sections and priorities, and what limits them, in turns. Prints
 * samples (samples.h) in us:
 *
 *   preempt-section    `ours` from the submit of a higher job to its first instruction, while a
 *                      lower one runs short sections; `limit` a signal to a thread and back
 *   preempt-anywhere   the same while the lower one runs with interrupts on
 *   critical-section   `ours` a TVM_lockInterrupts and its unlock
 *   priority-p99       `ours` a short request at PRI_1 while PRI_8 computes, on an emulator;
 *                      `alone` the same alone, `section` the longest section of the one at PRI_8
 *   priority-load      `ours` a short request at PRI_1 while a module of 100 MB of data is loaded,
 *                      again and again; `alone`
 *   priority-mixed     `ours` of 1000 requests of each of 8 clients at 8 priorities, their mean;
 *                      `limit` all at one priority
 */
#define _GNU_SOURCE
#include "bench/samples.h"
#include "c7x_compute_client.h"
#include "c7x_module.h"
#include "firmware/loader/elf64.h"
#include "firmware/target/target.h"
#include "firmware/tvm/tvm_impl.h"
#include "os/os.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TURNS 401
#define PAIRS 1000000
#define REQUESTS 500
#define MIXED 1000
#define PRIORITIES 8
#define LARGE_BYTES ((uint64_t)100 << 20)

static void check(enum c7x_status status, const char *what)
{
    if (status == C7X_OK)
        return;
    fprintf(stderr, "priority: %s: %s: %s\n", what, c7x_status_name(status),
            c7x_client_last_error(NULL));
    exit(1);
}

static double since_us(int64_t begin)
{
    return (double)(c7x_os_clock_ns() - begin) / 1e3;
}

/* ---- One core, without modules ---- */

static atomic_bool arrived;
static atomic_bool stopping;
static struct c7x_core core;

static void note_arrival(void)
{
    atomic_store(&arrived, true);
}

static void handle_signal(int number)
{
    (void)number;
    note_arrival();
}

static void *spin_until_stopped(void *context)
{
    while (!atomic_load_explicit(&stopping, memory_order_relaxed))
        continue;
    return context;
}

static double wait_for_arrival(int64_t begin)
{
    while (!atomic_load_explicit(&arrived, memory_order_relaxed))
        continue;
    return since_us(begin);
}

static void signal_round_trips(const char *name)
{
    static double times[TURNS];
    pthread_t thread;
    atomic_store(&stopping, false);
    (void)signal(SIGUSR1, handle_signal);
    if (pthread_create(&thread, NULL, spin_until_stopped, NULL) != 0)
        exit(1);
    for (int i = 0; i < TURNS; i++) {
        atomic_store(&arrived, false);
        int64_t begin = c7x_os_clock_ns();
        (void)pthread_kill(thread, SIGUSR1);
        times[i] = wait_for_arrival(begin);
    }
    atomic_store(&stopping, true);
    (void)pthread_join(thread, NULL);
    c7x_bench_print(name, "limit", times, TURNS);
}

static void run_sections(struct c7x_job *job)
{
    (void)job;
    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        c7x_os_interrupts_on();
        c7x_os_interrupts_off();
        for (volatile int i = 0; i < 100; i++)
            continue;
    }
}

static void run_openly(struct c7x_job *job)
{
    (void)job;
    c7x_os_interrupts_on();
    (void)spin_until_stopped(NULL);
    c7x_os_interrupts_off();
}

static void run_high(struct c7x_job *job)
{
    (void)job;
    note_arrival();
}

static void run_core(void *context)
{
    c7x_core_run(context);
}

static void do_nothing(enum c7x_job_end reason)
{
    (void)reason;
}

static void do_nothing_either(void)
{
}

/* From submit to the first instruction of the higher job, and until the lower one is back. */
static void preemptions(const char *name, void (*run_low)(struct c7x_job *job))
{
    static double times[TURNS];
    const struct c7x_core_config config = {.number = 1,
                                           .stack_bytes = 256 * 1024,
                                           .end_job = do_nothing,
                                           .end_stuck_section = do_nothing_either};
    struct c7x_job low = {.run = run_low};
    struct c7x_os_task task;
    struct c7x_target_state state;
    atomic_store(&stopping, false);
    check(c7x_core_init(&core, &config), "core");
    check(c7x_os_task_create(&task, "core", 0, run_core, &core), "task");
    check(c7x_core_submit(&core, C7X_TARGET_PRI_8, &low), "submit");
    for (int i = 0; i < TURNS; i++) {
        struct c7x_job high = {.run = run_high};
        do
            c7x_core_get_state(&core, C7X_TARGET_PRI_8, &state);
        while (!state.has_job || state.is_preempted);
        atomic_store(&arrived, false);
        int64_t begin = c7x_os_clock_ns();
        check(c7x_core_submit(&core, C7X_TARGET_PRI_1, &high), "submit");
        times[i] = wait_for_arrival(begin);
        do
            c7x_core_get_state(&core, C7X_TARGET_PRI_1, &state);
        while (state.has_job);
    }
    atomic_store(&stopping, true);
    c7x_core_stop(&core);
    c7x_os_task_join(&task);
    c7x_core_deinit(&core);
    c7x_bench_print(name, "ours", times, TURNS);
}

static void critical_section(void)
{
    struct c7x_tvm_context context = {0};
    c7x_tvm_context_set(&context);
    int64_t begin = c7x_os_clock_ns();
    for (int i = 0; i < PAIRS; i++)
        TVM_unlockInterrupts(TVM_lockInterrupts());
    c7x_bench_print_one("critical-section", "ours", since_us(begin) / PAIRS);
    c7x_tvm_context_set(NULL);
}

/* ---- An emulator ---- */

static char device[64];
static char modules[512];

static struct c7x_client *open_client(int priority)
{
    struct c7x_client_options options;
    struct c7x_client *client = NULL;
    c7x_client_options_init(&options);
    options.device = device;
    options.start = 1;
    options.priority = priority;
    check(c7x_client_open_with(&options, &client), "open");
    return client;
}

static uint32_t load(struct c7x_client *client, const char *name)
{
    char path[600];
    uint32_t handle = 0;
    (void)snprintf(path, sizeof path, "%s/%s.out", modules, name);
    check(c7x_client_dyn_load(client, path, &handle), path);
    return handle;
}

static enum c7x_status spin(struct c7x_client *client, uint32_t handle, int32_t ms)
{
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    return c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL);
}

struct runner {
    pthread_t thread;
    int priority;
    int32_t ms;
    long requests; /* -1: until stopped */
};

static void *run_requests(void *context)
{
    const struct runner *runner = context;
    struct c7x_client *client = open_client(runner->priority);
    uint32_t handle = load(client, "spin");
    for (long i = 0; i != runner->requests && !atomic_load(&stopping); i++)
        check(spin(client, handle, runner->ms), "infer");
    c7x_client_close(client);
    return NULL;
}

static void start(struct runner *runner)
{
    if (pthread_create(&runner->thread, NULL, run_requests, runner) != 0)
        exit(1);
}

/* Up to twice a millisecond, so that requests come at any point of what else the core does; one
 * right behind the other would find it where the one before has left it. */
static void pause_at_random(void)
{
    static uint32_t state = 20261130;
    state = state * 1664525u + 1013904223u;
    const struct timespec moment = {.tv_nsec = (long)(state >> 8) % 2000000};
    nanosleep(&moment, NULL);
}

static void short_requests(const char *name, const char *side, struct c7x_client *client,
                           uint32_t handle)
{
    static double times[REQUESTS];
    for (int i = 0; i < REQUESTS; i++) {
        pause_at_random();
        int64_t begin = c7x_os_clock_ns();
        check(spin(client, handle, 0), "infer");
        times[i] = since_us(begin);
    }
    c7x_bench_print(name, side, times, REQUESTS);
}

static void high_while_low_computes(struct c7x_client *client, uint32_t handle)
{
    static const char name[] = "priority-p99";
    struct runner low = {.priority = 8, .ms = 50, .requests = -1};
    short_requests(name, "alone", client, handle);
    int64_t begin = c7x_os_clock_ns();
    check(spin(client, handle, 100), "infer");
    c7x_bench_print_one(name, "section", since_us(begin) / 100);
    atomic_store(&stopping, false);
    start(&low);
    check(spin(client, handle, 100), "infer"); /* until it surely computes */
    short_requests(name, "ours", client, handle);
    atomic_store(&stopping, true);
    (void)pthread_join(low.thread, NULL);
}

/* A copy of a module without weights that has so much more zeroed data. */
static void make_large_module(const char *path)
{
    static uint8_t bytes[1 << 16];
    char original[600];
    struct c7x_elf_header header;
    (void)snprintf(original, sizeof original, "%s/no_weights.out", modules);
    FILE *in = fopen(original, "rb");
    size_t size = in == NULL ? 0 : fread(bytes, 1, sizeof bytes, in);
    FILE *out = fopen(path, "wb");
    if (size < sizeof header || size == sizeof bytes || out == NULL)
        exit(1);
    memcpy(&header, bytes, sizeof header);
    for (unsigned i = 0; i < header.phnum; i++) {
        struct c7x_elf_segment segment;
        uint8_t *at = bytes + header.phoff + i * sizeof segment;
        memcpy(&segment, at, sizeof segment);
        if (segment.type == C7X_ELF_PT_LOAD && (segment.flags & C7X_ELF_PF_W) != 0)
            segment.memsz += LARGE_BYTES;
        memcpy(at, &segment, sizeof segment);
    }
    if (fwrite(bytes, 1, size, out) != size || fclose(out) != 0)
        exit(1);
    (void)fclose(in);
}

static void *load_and_unload(void *context)
{
    struct c7x_client *client = open_client(0);
    while (!atomic_load(&stopping)) {
        uint32_t handle = 0;
        check(c7x_client_dyn_load(client, context, &handle), "load");
        check(c7x_client_dyn_unload(client, handle), "unload");
    }
    c7x_client_close(client);
    return NULL;
}

static void high_while_loads_go_on(struct c7x_client *client, uint32_t handle, char *path)
{
    static const char name[] = "priority-load";
    pthread_t thread;
    short_requests(name, "alone", client, handle);
    atomic_store(&stopping, false);
    if (pthread_create(&thread, NULL, load_and_unload, path) != 0)
        exit(1);
    check(spin(client, handle, 20), "infer");
    short_requests(name, "ours", client, handle);
    atomic_store(&stopping, true);
    (void)pthread_join(thread, NULL);
}

static void mixed(const char *side, bool at_one)
{
    struct runner runners[PRIORITIES];
    atomic_store(&stopping, false);
    int64_t begin = c7x_os_clock_ns();
    for (int i = 0; i < PRIORITIES; i++) {
        runners[i] = (struct runner){.priority = at_one ? 4 : i + 1, .requests = MIXED};
        start(&runners[i]);
    }
    for (int i = 0; i < PRIORITIES; i++)
        (void)pthread_join(runners[i].thread, NULL);
    c7x_bench_print_one("priority-mixed", side, since_us(begin) / (PRIORITIES * MIXED));
}

static void measure_core(void)
{
    signal_round_trips("preempt-section");
    preemptions("preempt-section", run_sections);
    signal_round_trips("preempt-anywhere");
    preemptions("preempt-anywhere", run_openly);
    critical_section();
}

static void measure_emulator(int rounds)
{
    char path[80];
    struct c7x_client *client = open_client(1);
    uint32_t handle = load(client, "spin");
    (void)snprintf(path, sizeof path, "%s/large.out", c7x_bench_folder());
    make_large_module(path);
    for (int round = 0; round < rounds; round++) {
        high_while_low_computes(client, handle);
        high_while_loads_go_on(client, handle, path);
        mixed("limit", true);
        mixed("ours", false);
    }
    (void)unlink(path);
    c7x_client_close(client);
}

int main(int argc, char **argv)
{
    static const char usage[] = "bench_priority FOLDER-OF-TEST-MODULES ROUNDS";
    int rounds = c7x_bench_rounds(argc == 3 ? argv[2] : "", usage);
    (void)snprintf(modules, sizeof modules, "%s", argv[1]);
    (void)snprintf(device, sizeof device, "emu:%s/emulator.sock", c7x_bench_folder());
    for (int round = 0; round < rounds; round++)
        measure_core();
    measure_emulator(rounds);
    check(c7x_emulator_stop(device, 1000), "stop");
    return 0;
}

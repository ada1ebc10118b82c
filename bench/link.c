/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request costs before any model computes, beside what the machine needs to tell another
 * process something at all. Prints samples (samples.h) in us, a round each of `ours` and `limit`,
 * in turns; client and core each have a processor of their own, but where it says together:
 *
 *   ping-busy           PING after PING; a word in a cache line of both, there and back
 *   ping-asleep         PING after a pause, when both sleep; a futex, there and back, as well
 *   ping-together       PING after PING on one processor, where each has to sleep; a futex
 *   infer-empty         an inference that only copies 4 KB to its output; PING and 2 us
 *   load-47mb           a module of 47 MB; read() of the file into a fresh shared memory file
 *   load-47mb-again     the same when this client has it loaded; the same
 *   load-47mb-device    its relocations and symbols, as far as the device records; 2 ms
 */
#define _GNU_SOURCE
#include "bench/samples.h"
#include "c7x_compute_client.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BUSY_SAMPLES 4000
#define PAUSED_SAMPLES 200
#define PAUSE_NS 1000000 /* far longer than anybody looks for the next frame */
#define WARM_UP 200
#define INFER_COUNT 1024 /* float32: 4 KB */
#define INFER_OVERHEAD_US 2.0
#define DEVICE_LIMIT_US 2000.0
#define EVENTS 4096u

static struct c7x_client *client;
static char device[64];
static double us[BUSY_SAMPLES];
static double limits[BUSY_SAMPLES];

static void fail(const char *what)
{
    fprintf(stderr, "link: %s\n", what);
    exit(1);
}

static void check(enum c7x_status status, const char *what)
{
    if (status == C7X_OK)
        return;
    fprintf(stderr, "link: %s: %s: %s\n", what, c7x_status_name(status),
            c7x_client_last_error(NULL));
    exit(1);
}

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void pause_for_long(void)
{
    const struct timespec time = {0, PAUSE_NS};
    nanosleep(&time, NULL);
}

/* ---- Processors ---- */

static int first_processor;
static int second_processor;

static void run_on(pid_t process, int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    if (sched_setaffinity(process, sizeof set, &set) != 0)
        fail("cannot choose processors");
}

static void choose_processors(void)
{
    cpu_set_t all;
    first_processor = second_processor = -1;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        fail("cannot tell the processors");
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET((size_t)i, &all))
            continue;
        if (first_processor >= 0 && second_processor < 0)
            second_processor = i;
        if (first_processor < 0)
            first_processor = i;
    }
    if (second_processor < 0)
        fail("needs two processors");
}

static void run_core_on(int processor)
{
    struct c7x_emulator_status status = {.struct_size = sizeof status};
    check(c7x_emulator_get_status(device, &status), "status");
    run_on((pid_t)status.core_pid, processor);
}

/* ---- The limits: another process answers by a word in shared memory ---- */

struct words {
    _Alignas(64) _Atomic uint32_t question;
    _Alignas(64) _Atomic uint32_t answer;
};

struct answerer {
    pid_t pid;
    struct words *words;
    uint32_t asked;
};

static void wait_for(_Atomic uint32_t *word, uint32_t value, bool sleeps)
{
    while (atomic_load(word) != value)
        if (sleeps)
            (void)syscall(SYS_futex, word, FUTEX_WAIT, value - 1, NULL, NULL, 0);
}

static void say(_Atomic uint32_t *word, uint32_t value, bool sleeps)
{
    atomic_store(word, value);
    if (sleeps)
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static _Noreturn void answer(struct words *words, int processor, bool sleeps)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on(0, processor);
    for (uint32_t i = 1;; i++) {
        wait_for(&words->question, i, sleeps);
        say(&words->answer, i, sleeps);
    }
}

static struct answerer start_answerer(int processor, bool sleeps)
{
    struct answerer answerer = {0};
    answerer.words = mmap(NULL, sizeof *answerer.words, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answerer.words == MAP_FAILED)
        fail("no shared memory");
    answerer.pid = fork();
    if (answerer.pid == 0)
        answer(answerer.words, processor, sleeps);
    return answerer;
}

static void stop_answerer(const struct answerer *answerer)
{
    (void)kill(answerer->pid, SIGKILL);
    (void)waitpid(answerer->pid, NULL, 0);
    munmap(answerer->words, sizeof *answerer->words);
}

static void ask(struct answerer *answerer, bool sleeps)
{
    say(&answerer->words->question, ++answerer->asked, sleeps);
    wait_for(&answerer->words->answer, answerer->asked, sleeps);
}

/* A process of its own for each round: one that spins must not be there while we are measured. */
static void measure_limit(int processor, bool sleeps, bool pauses, int count)
{
    struct answerer answerer = start_answerer(processor, sleeps);
    for (int i = -WARM_UP; i < count; i++) {
        if (pauses && i >= 0)
            pause_for_long();
        double begin = now_us();
        ask(&answerer, sleeps);
        if (i >= 0)
            limits[i] = now_us() - begin;
    }
    stop_answerer(&answerer);
}

/* ---- PING ---- */

static void measure_ping(bool pauses, int count)
{
    for (int i = -WARM_UP; i < count; i++) {
        if (pauses && i >= 0)
            pause_for_long();
        double begin = now_us();
        check(c7x_client_ping(client, NULL, NULL), "ping");
        if (i >= 0)
            us[i] = now_us() - begin;
    }
}

static void compare_ping(const char *name, int processor, bool sleeps, bool pauses, int rounds)
{
    int count = pauses ? PAUSED_SAMPLES : BUSY_SAMPLES;
    run_core_on(processor);
    for (int round = 0; round < rounds; round++) {
        measure_limit(processor, sleeps, pauses, count);
        c7x_bench_print(name, "limit", limits, (size_t)count);
        measure_ping(pauses, count);
        c7x_bench_print(name, "ours", us, (size_t)count);
    }
    run_core_on(second_processor);
}

/* ---- INFER ---- */

static void measure_infer(uint32_t handle)
{
    static float numbers[INFER_COUNT];
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32,
                                      0,       {INFER_COUNT}};
    for (int i = -WARM_UP; i < BUSY_SAMPLES; i++) {
        struct c7x_client_tensor output;
        int count = 1;
        double begin = now_us();
        check(c7x_client_infer(client, handle, 0, &input, 1, &output, &count, NULL), "infer");
        if (i >= 0)
            us[i] = now_us() - begin;
    }
}

static void compare_infer(const char *module, int rounds)
{
    uint32_t handle;
    check(c7x_client_dyn_load(client, module, &handle), "load");
    for (int round = 0; round < rounds; round++) {
        measure_ping(false, BUSY_SAMPLES);
        for (int i = 0; i < BUSY_SAMPLES; i++)
            us[i] += INFER_OVERHEAD_US;
        c7x_bench_print("infer-empty", "limit", us, BUSY_SAMPLES);
        measure_infer(handle);
        c7x_bench_print("infer-empty", "ours", us, BUSY_SAMPLES);
    }
    check(c7x_client_dyn_unload(client, handle), "unload");
}

/* ---- DYN_LOAD ---- */

static double read_file_us(const char *path)
{
    struct stat info;
    double begin = now_us();
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int memory = memfd_create("bench", MFD_CLOEXEC);
    if (file < 0 || memory < 0 || fstat(file, &info) != 0 || ftruncate(memory, info.st_size) != 0)
        fail("cannot read the module");
    size_t size = (size_t)info.st_size;
    uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (bytes == MAP_FAILED)
        fail("no shared memory");
    for (size_t used = 0; used < size;) {
        ssize_t count = read(file, bytes + used, size - used);
        if (count <= 0)
            fail("cannot read the module");
        used += (size_t)count;
    }
    double end = now_us();
    munmap(bytes, size);
    close(memory);
    close(file);
    return end - begin;
}

static double load_us(const char *path, uint32_t *out_handle)
{
    double begin = now_us();
    check(c7x_client_dyn_load(client, path, out_handle), "load");
    return now_us() - begin;
}

/* From the begin of the load's job to its end, of those that have been recorded since. */
static double job_us(struct c7x_trace *trace)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    int64_t begin_ns = 0;
    double longest = 0;
    while (c7x_trace_next(trace, &event)) {
        if (strcmp(event.request, "DYN_LOAD") != 0)
            continue;
        if (event.event == C7X_TRACE_JOB_BEGIN)
            begin_ns = event.time_ns;
        else if (event.event == C7X_TRACE_JOB_END && (double)(event.time_ns - begin_ns) > longest)
            longest = (double)(event.time_ns - begin_ns);
    }
    return longest / 1e3;
}

static void compare_loads(const char *path, int rounds)
{
    struct c7x_trace *trace;
    uint32_t first;
    uint32_t second;
    check(c7x_trace_begin(client, EVENTS, &trace), "trace");
    (void)read_file_us(path); /* into the page cache */
    for (int round = -1; round < rounds; round++) {
        double limit = read_file_us(path);
        double ours = load_us(path, &first);
        double job = job_us(trace);
        double again = load_us(path, &second);
        (void)job_us(trace);
        check(c7x_client_dyn_unload(client, second), "unload");
        check(c7x_client_dyn_unload(client, first), "unload");
        if (round < 0)
            continue;
        c7x_bench_print_one("load-47mb", "limit", limit);
        c7x_bench_print_one("load-47mb", "ours", ours);
        c7x_bench_print_one("load-47mb-again", "limit", limit);
        c7x_bench_print_one("load-47mb-again", "ours", again);
        c7x_bench_print_one("load-47mb-device", "limit", DEVICE_LIMIT_US);
        c7x_bench_print_one("load-47mb-device", "ours", job);
    }
    c7x_trace_free(trace);
}

int main(int argc, char **argv)
{
    int rounds = c7x_bench_rounds(argc == 4 ? argv[3] : "", "bench_link MODULE BIG_MODULE ROUNDS");
    struct c7x_client_options options;
    (void)snprintf(device, sizeof device, "emu:%s/link.sock", c7x_bench_folder());
    c7x_client_options_init(&options);
    options.device = device;
    options.start = 1;
    choose_processors();
    check(c7x_client_open_with(&options, &client), "open");
    run_on(0, first_processor);
    compare_ping("ping-busy", second_processor, false, false, rounds);
    compare_ping("ping-asleep", second_processor, true, true, rounds);
    compare_ping("ping-together", first_processor, true, false, rounds);
    compare_infer(argv[1], rounds);
    compare_loads(argv[2], rounds);
    c7x_client_close(client);
    check(c7x_emulator_stop(device, 10000), "stop");
    return 0;
}

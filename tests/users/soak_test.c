/* SPDX-License-Identifier: Apache-2.0 */
/*
 * U41: an abort after three days, then a crash of the program. A mixed load of right calls, faults,
 * aborts, cancelled and late ones, killed clients and cores that restart; every result is checked,
 * and after each round all that can leak is at its base line. C7X_SOAK_HOURS says how long; without
 * it, a tenth of a minute.
 */
#define _GNU_SOURCE
#include "base/compiler.h"
#include "support/faults.h"
#include "users/users.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WORKERS 4
#define ROUND_MS 3000
#define SHORT_MS 6000
/* More than at first: pages that were used once stay. AddressSanitizer keeps what was freed, and
 * the shadow of what was mapped. */
#ifdef __SANITIZE_ADDRESS__
#define RESIDENT_BYTES_MAX (512u << 20)
#else
#define RESIDENT_BYTES_MAX (16u << 20)
#endif
#define KEPT_BYTES_MAX (64u << 10) /* more of a heap: what is made once and kept */
#define SPOILS_ONE_IN 20           /* rounds with a core that restarts */

static struct c7x_test_emulator emulator;
static atomic_bool round_ends;
static atomic_bool core_may_reset; /* in this round */
static char failure[512];          /* the first one, under failure_lock */
static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    atomic_ulong calls, faults, cancels, timeouts, kills, resets;
} counts;

/* A worker cannot fail a test; the main thread does, when the round has ended. */
static bool refuse(const char *what, int status)
{
    pthread_mutex_lock(&failure_lock);
    if (failure[0] == '\0')
        snprintf(failure, sizeof failure, "%s: %s: %s", what, c7x_status_name(status),
                 c7x_client_last_error(NULL));
    pthread_mutex_unlock(&failure_lock);
    atomic_store(&round_ends, true);
    return false;
}

/* ---- A worker: one client after the other, and what each does ---- */

struct worker {
    pthread_t thread;
    unsigned seed;
    struct c7x_client *client;
    uint32_t add_one;
    uint32_t spin;
    uint32_t faults;
};

static unsigned choose(struct worker *worker, unsigned count)
{
    return (unsigned)rand_r(&worker->seed) % count;
}

static enum c7x_status load(struct worker *worker, const char *module, uint32_t *out_handle)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t priority = choose(worker, 9);
    c7x_test_module_path(module, path);
    return c7x_client_dyn_load_flags(worker->client, path, priority << C7X_LOAD_PRIORITY_SHIFT,
                                     out_handle);
}

static void drop_text(void *context, const char *text, size_t size)
{
    (void)context;
    (void)text;
    (void)size;
}

static enum c7x_status open_client(struct c7x_client **out_client)
{
    struct c7x_client_options options;
    c7x_client_options_init(&options);
    options.device = emulator.device;
    options.deadline_ms = USERS_SOON_MS;
    options.print = drop_text;
    return c7x_client_open_with(&options, out_client);
}

static enum c7x_status open_and_load(struct worker *worker)
{
    enum c7x_status status = open_client(&worker->client);
    if (status == C7X_OK)
        status = load(worker, "add_one", &worker->add_one);
    if (status == C7X_OK)
        status = load(worker, "spin", &worker->spin);
    if (status == C7X_OK)
        status = load(worker, "faults", &worker->faults);
    return status;
}

/* Of an int32 [1] to an int32 [1]; *out_number is untouched unless the call succeeds. */
static enum c7x_status run_number(struct worker *worker, uint32_t handle, int32_t number,
                                  int32_t *out_number)
{
    struct c7x_client_tensor input = {&number, sizeof number, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    uint32_t flags = choose(worker, 9) << C7X_INFER_PRIORITY_SHIFT;
    enum c7x_status status =
        c7x_client_infer_flags(worker->client, handle, 0, &input, 1, &output, &count, NULL, flags);
    if (status == C7X_OK)
        memcpy(out_number, output.data, sizeof *out_number);
    return status;
}

static enum c7x_status run_right(struct worker *worker)
{
    float numbers[4];
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int count = 1;
    for (int i = 0; i < 4; i++)
        numbers[i] = (float)choose(worker, 1000);
    enum c7x_status status =
        c7x_client_infer(worker->client, worker->add_one, 0, &input, 1, &output, &count, NULL);
    for (int i = 0; i < 4 && status == C7X_OK; i++)
        if (((const float *)output.data)[i] != numbers[i] + 1)
            refuse("add_one is wrong", status);
    return status;
}

static enum c7x_status run_long(struct worker *worker)
{
    int32_t ms = (int32_t)choose(worker, 5);
    int32_t counted = 0;
    enum c7x_status status = run_number(worker, worker->spin, ms, &counted);
    if (status == C7X_OK && counted != ms)
        refuse("spin is wrong", status);
    return status;
}

static const struct {
    int32_t fault;
    enum c7x_status status;
} faults[] = {{FAULT_READ, C7X_FAULT},   {FAULT_WRITE, C7X_FAULT},  {FAULT_TEXT, C7X_FAULT},
              {FAULT_JUMP, C7X_FAULT},   {FAULT_STACK, C7X_FAULT},  {FAULT_EXPORT, C7X_FAULT},
              {FAULT_PRINTF, C7X_FAULT}, {FAULT_ABORT, C7X_CALL},   {FAULT_RETURN, C7X_CALL},
              {FAULT_ABORT, C7X_CALL},   {FAULT_RETURN, C7X_CALL},  {FAULT_HEAP_FITS, C7X_OK},
              {FAULT_NONE, C7X_OK},      {FAULT_HEAP_FREES, C7X_OK}};

static enum c7x_status renew_faults(struct worker *worker)
{
    enum c7x_status status = c7x_client_dyn_unload(worker->client, worker->faults);
    return status == C7X_OK ? load(worker, "faults", &worker->faults) : status;
}

/* Now and then one that never returns, which takes as long as the watchdog waits. */
static enum c7x_status run_wrong(struct worker *worker)
{
    int32_t got = 0;
    unsigned i = choose(worker, C7X_ARRAY_COUNT(faults));
    bool hangs = choose(worker, 50) == 0;
    enum c7x_status expected = hangs ? C7X_FAULT : faults[i].status;
    enum c7x_status status =
        run_number(worker, worker->faults, hangs ? FAULT_LOOP : faults[i].fault, &got);
    if (status == C7X_RESET)
        return status;
    (void)atomic_fetch_add(&counts.faults, 1);
    if (status != expected)
        return status == C7X_OK ? C7X_GENERIC : status;
    if (status != C7X_FAULT)
        return C7X_OK;
    status = run_number(worker, worker->faults, FAULT_NONE, &got);
    return status == C7X_FAULTED ? renew_faults(worker) : status;
}

static enum c7x_status cancel(struct worker *worker)
{
    int32_t ms = 40;
    struct c7x_client_tensor input = {&ms, sizeof ms, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_inference *inference;
    struct c7x_infer_options options;
    c7x_infer_options_init(worker->client, &options);
    options.handle = worker->spin;
    enum c7x_status status =
        c7x_client_infer_async(worker->client, &options, &input, 1, &inference);
    if (status != C7X_OK)
        return status;
    (void)!c7x_inference_cancel(inference);
    status = c7x_inference_wait(inference, USERS_SOON_MS);
    if (status == C7X_OK)
        status = users_result(inference);
    c7x_inference_free(inference);
    (void)atomic_fetch_add(&counts.cancels, status == C7X_CANCELLED);
    return status == C7X_CANCELLED ? C7X_OK : status;
}

static enum c7x_status come_too_late(struct worker *worker)
{
    int32_t counted;
    c7x_client_set_deadline(worker->client, 2);
    enum c7x_status status = run_number(worker, worker->spin, 10, &counted);
    c7x_client_set_deadline(worker->client, USERS_SOON_MS);
    (void)atomic_fetch_add(&counts.timeouts, status == C7X_TIMEOUT);
    return status == C7X_TIMEOUT ? C7X_OK : status;
}

static enum c7x_status load_what_does_not_fit(struct worker *worker)
{
    uint32_t handle;
    enum c7x_status status = load(worker, "needs_missing", &handle);
    return status == C7X_SYMBOL ? C7X_OK : status == C7X_OK ? C7X_GENERIC : status;
}

static enum c7x_status load_anew(struct worker *worker)
{
    enum c7x_status status = c7x_client_dyn_unload(worker->client, worker->add_one);
    return status == C7X_OK ? load(worker, "add_one", &worker->add_one) : status;
}

static enum c7x_status open_anew(struct worker *worker)
{
    c7x_client_close(worker->client);
    worker->client = NULL;
    return open_and_load(worker);
}

static const struct {
    const char *name;
    enum c7x_status (*run)(struct worker *worker);
} deeds[] = {{"right", run_right},     {"right", run_right},     {"right", run_right},
             {"long", run_long},       {"long", run_long},       {"wrong", run_wrong},
             {"wrong", run_wrong},     {"cancel", cancel},       {"too late", come_too_late},
             {"load anew", load_anew}, {"open anew", open_anew}, {"unfit", load_what_does_not_fit}};

/* When the core restarts, also during a deed, the client is of no use any more. */
static void *work(void *context)
{
    struct worker *worker = context;
    enum c7x_status status = open_and_load(worker);
    const char *name = "open";
    while (!atomic_load(&round_ends)) {
        if (status == C7X_OK) {
            unsigned i = choose(worker, C7X_ARRAY_COUNT(deeds));
            name = deeds[i].name;
            status = deeds[i].run(worker);
            (void)atomic_fetch_add(&counts.calls, 1);
        } else if (status == C7X_RESET && atomic_load(&core_may_reset)) {
            status = open_anew(worker);
        } else {
            break;
        }
    }
    if (status != C7X_OK && !(status == C7X_RESET && atomic_load(&core_may_reset)))
        refuse(name, status);
    c7x_client_close(worker->client);
    worker->client = NULL;
    return NULL;
}

/* ---- Clients to be killed ---- */

static int be_victim(const char *device)
{
    struct c7x_client_options options;
    struct c7x_client *client;
    c7x_client_options_init(&options);
    options.device = device;
    if (c7x_client_open_with(&options, &client) != C7X_OK)
        return 1;
    uint32_t spin = c7x_test_dyn_load(client, "spin");
    users_say_arrived();
    for (;;) /* until it is killed, or the core is */
        if (users_spin(client, spin, 1) != C7X_OK)
            pause();
}

static void kill_clients(int64_t end_ms, unsigned *seed)
{
    while (!atomic_load(&round_ends) && c7x_test_now_ms() < end_ms) {
        struct users_victim victim = users_start_victim("victim", emulator.device);
        usleep((useconds_t)(rand_r(seed) % 100000));
        users_kill_victim(&victim);
        (void)atomic_fetch_add(&counts.kills, 1);
    }
}

/* The core, too: a bad pointer in the firmware's own hands. */
static void spoil_core(void)
{
    struct c7x_client *client;
    assert_int_equal(open_client(&client), C7X_OK);
    assert_int_equal(users_spin(client, c7x_test_dyn_load(client, "faults"), FAULT_CORE),
                     C7X_RESET);
    c7x_client_close(client);
    (void)atomic_fetch_add(&counts.resets, 1);
}

/* ---- The books ---- */

struct books {
    int64_t core_pid;
    uint64_t heap_free;
    uint64_t carveout_free;
    size_t modules;
    size_t core_memory; /* bytes that are resident */
    size_t supervisor_memory;
    size_t own_bytes; /* of malloc */
    int core_descriptors;
    int supervisor_descriptors;
    int own_descriptors;
};

static size_t resident_bytes(int64_t pid)
{
    char path[64];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1)
        fail_msg("no %s", path);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static struct books read_books(void)
{
    struct c7x_emulator_status status;
    struct books books;
    struct c7x_module_info *list;
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), USERS_SOON_MS);
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    assert_int_equal(c7x_client_list_modules(client, &list, &books.modules), C7X_OK);
    c7x_list_free(list);
    books.heap_free = users_free_bytes(client, "DDR heap");
    c7x_client_close(client);
    C7X_TEST_WAIT_UNTIL(c7x_test_emulator_is_idle(&emulator), USERS_SOON_MS);
    c7x_test_emulator_status(&emulator, &status);
    books.core_pid = status.core_pid;
    books.carveout_free = status.carveout_free;
    books.core_memory = resident_bytes(status.core_pid);
    books.supervisor_memory = resident_bytes(status.pid);
    books.own_bytes = mallinfo2().uordblks;
    books.core_descriptors = c7x_test_descriptor_count((pid_t)status.core_pid);
    books.supervisor_descriptors = c7x_test_descriptor_count((pid_t)status.pid);
    books.own_descriptors = c7x_test_descriptor_count(0);
    return books;
}

/* Nobody says when core and supervisor have done with the last of those that were killed. */
static bool is_device_clean(const struct books *base)
{
    struct books now = read_books();
    return now.modules == 0 && now.heap_free + KEPT_BYTES_MAX >= base->heap_free &&
           now.core_descriptors <= base->core_descriptors &&
           now.supervisor_descriptors <= base->supervisor_descriptors;
}

/* Nothing grows, for as long as the core lives; another core begins with books of its own. */
static void compare_books(struct books *base)
{
    struct books now = read_books();
    assert_int_equal(now.carveout_free, base->carveout_free);
    assert_true(now.own_descriptors <= base->own_descriptors);
    assert_true(now.supervisor_memory <= base->supervisor_memory + RESIDENT_BYTES_MAX);
    assert_true(now.own_bytes <= base->own_bytes + KEPT_BYTES_MAX);
    if (now.core_pid != base->core_pid) {
        base->core_pid = now.core_pid;
        base->core_memory = now.core_memory;
    }
    assert_true(now.core_memory <= base->core_memory + RESIDENT_BYTES_MAX);
    C7X_TEST_WAIT_UNTIL(is_device_clean(base), USERS_SOON_MS);
}

static void say_how_it_goes(int64_t ms, const struct books *base)
{
    print_message("%6.1f minutes: %lu calls, %lu faults, %lu cancelled, %lu late, %lu clients "
                  "killed, %lu cores restarted; core %zu KiB\n",
                  (double)ms / 60000, atomic_load(&counts.calls), atomic_load(&counts.faults),
                  atomic_load(&counts.cancels), atomic_load(&counts.timeouts),
                  atomic_load(&counts.kills), atomic_load(&counts.resets),
                  resident_bytes(base->core_pid) / 1024);
}

/* ---- The rounds ---- */

static void run_round(unsigned round)
{
    struct worker workers[WORKERS] = {0};
    unsigned seed = round;
    int64_t end_ms = c7x_test_now_ms() + ROUND_MS;
    bool spoils = round % SPOILS_ONE_IN == 1;
    atomic_store(&round_ends, false);
    atomic_store(&core_may_reset, spoils);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i].seed = round * WORKERS + i + 1;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    kill_clients(end_ms - ROUND_MS / 2, &seed);
    if (spoils)
        spoil_core();
    kill_clients(end_ms, &seed);
    atomic_store(&round_ends, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    if (failure[0] != '\0')
        fail_msg("round %u: %s", round, failure);
}

static int64_t wanted_ms(void)
{
    const char *hours = getenv("C7X_SOAK_HOURS");
    return hours == NULL ? SHORT_MS : (int64_t)(strtod(hours, NULL) * 3600000);
}

static void u41_results_and_memory_stay_right_for_hours(void **state)
{
    int64_t start_ms = c7x_test_now_ms();
    int64_t said_ms = 0;
    (void)state;
    c7x_test_needs_signals();
    setenv("C7X_WATCHDOG", "1", 1);
    c7x_test_emulator_start(&emulator);
    unsetenv("C7X_WATCHDOG");
    run_round(0); /* what is taken once and kept has been */
    struct books base = read_books();
    for (unsigned round = 1; round == 1 || c7x_test_now_ms() - start_ms < wanted_ms(); round++) {
        run_round(round);
        compare_books(&base);
        if (c7x_test_now_ms() - start_ms - said_ms >= 60000) {
            said_ms = c7x_test_now_ms() - start_ms;
            say_how_it_goes(said_ms, &base);
        }
    }
    say_how_it_goes(c7x_test_now_ms() - start_ms, &base);
    c7x_test_emulator_stop(&emulator);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return be_victim(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u41_results_and_memory_stay_right_for_hours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

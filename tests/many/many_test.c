/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients, threads and processes, on one emulator. Processes are this program once more, as
 * `many_test NUMBER DEVICE RESULTS`: it says "l" when it has loaded everything, waits for a byte,
 * and ends by saying how many inferences it has run, or why it failed. From number ENDLESS on it
 * never ends by itself.
 */
#define _GNU_SOURCE
#include "many/client.h"
#include "support/emulator_device.h"
#include "support/raw.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CLIENTS_CI 8
#define CLIENTS_SOAK 64
#define ENDLESS 2000 /* numbers of processes that run until they are killed */
#define ROUNDS 600   /* with C7X_SOAK */
#define SOON_MS 120000
#define MODULES_MAX 64   /* that one client may hold */
#define SESSIONS_MAX 256 /* that a device takes */

extern char **environ;

static int clients_wanted(void)
{
    return getenv("C7X_SOAK") != NULL ? CLIENTS_SOAK : CLIENTS_CI;
}

/* ---- One client, as a process ---- */

static int be_client(const char *number, const char *device, const char *results, bool endless)
{
    static struct catalog catalog;
    static struct many_client self;
    char byte = 'l';
    catalog_make(&catalog);
    catalog_read_results(&catalog, results);
    bool good = many_client_begin(&self, &catalog, atoi(number), device);
    good = good && write(STDOUT_FILENO, &byte, 1) == 1 && read(STDIN_FILENO, &byte, 1) == 1 &&
           many_client_run(&self, endless ? INT_MAX : c7x_test_rounds(ROUNDS));
    good = many_client_end(&self) && good;
    catalog_free(&catalog);
    if (!good)
        fprintf(stderr, "%s\n", self.failure);
    else if (write(STDOUT_FILENO, &self.run_count, sizeof self.run_count) !=
             (ssize_t)sizeof self.run_count)
        good = false;
    return good ? 0 : 1;
}

struct process {
    pid_t pid;
    int to;
    int from;
};

static void start_process(struct process *process, int number, const char *device,
                          const char *results)
{
    char program[C7X_TEST_PATH_MAX];
    char digits[16];
    char *const arguments[] = {program, digits, (char *)(uintptr_t)device,
                               (char *)(uintptr_t)results, NULL};
    posix_spawn_file_actions_t actions;
    int to[2];
    int from[2];
    c7x_test_own_program(program);
    snprintf(digits, sizeof digits, "%d", number);
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&process->pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    process->to = to[1];
    process->from = from[0];
}

static void read_from(const struct process *process, void *bytes, size_t size)
{
    struct pollfd entry = {.fd = process->from, .events = POLLIN};
    assert_int_equal(poll(&entry, 1, SOON_MS), 1);
    if (read(process->from, bytes, size) != (ssize_t)size)
        fail_msg("a client's process has ended; see above");
}

static uint32_t end_process(struct process *process)
{
    uint32_t run_count = 0;
    int status;
    read_from(process, &run_count, sizeof run_count);
    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(process->to);
    close(process->from);
    return run_count;
}

/* ---- One client, as a thread ---- */

struct worker {
    struct many_client self;
    const struct catalog *catalog;
    const char *device;
    int number;
    pthread_t thread;
    pthread_barrier_t *barrier; /* all have loaded; then: all may run */
};

static void *work(void *context)
{
    struct worker *worker = context;
    bool good = many_client_begin(&worker->self, worker->catalog, worker->number, worker->device);
    pthread_barrier_wait(worker->barrier);
    pthread_barrier_wait(worker->barrier);
    if (good)
        many_client_run(&worker->self, c7x_test_rounds(ROUNDS));
    many_client_end(&worker->self);
    return NULL;
}

/* ---- What the device holds ---- */

struct holdings {
    size_t session_count;
    size_t module_count;
    uint64_t free_bytes[4];
    size_t pool_count;
    uint32_t jobs_completed;
};

static void look(struct c7x_client *observer, struct holdings *out)
{
    struct c7x_session_info *sessions;
    struct c7x_module_info *modules;
    struct c7x_pool_info *pools;
    struct c7x_client_status status;
    memset(out, 0, sizeof *out);
    assert_int_equal(c7x_client_list_sessions(observer, &sessions, &out->session_count), C7X_OK);
    assert_int_equal(c7x_client_list_modules(observer, &modules, &out->module_count), C7X_OK);
    assert_int_equal(c7x_client_list_pools(observer, &pools, &out->pool_count), C7X_OK);
    assert_true(out->pool_count <= 4);
    for (size_t i = 0; i < out->pool_count; i++)
        out->free_bytes[i] = pools[i].free;
    assert_int_equal(c7x_client_get_status(observer, &status), C7X_OK);
    out->jobs_completed = status.jobs_completed;
    c7x_list_free(sessions);
    c7x_list_free(modules);
    c7x_list_free(pools);
}

static bool is_as_before(struct c7x_client *observer, const struct holdings *before)
{
    struct holdings now;
    look(observer, &now);
    return now.session_count == before->session_count && now.module_count == before->module_count &&
           now.pool_count == before->pool_count &&
           memcmp(now.free_bytes, before->free_bytes, sizeof now.free_bytes) == 0;
}

/* ---- The tests ---- */

static struct c7x_test_emulator emulator;
static struct c7x_client *observer;
static struct holdings base_line;

static int start(void **state)
{
    (void)state;
    c7x_test_emulator_start(&emulator);
    observer = c7x_test_emulator_open(&emulator);
    look(observer, &base_line);
    return 0;
}

/* Nothing of any client may be left. */
static int stop(void **state)
{
    (void)state;
    C7X_TEST_WAIT_UNTIL(is_as_before(observer, &base_line), 1000);
    c7x_client_close(observer);
    c7x_test_emulator_stop(&emulator);
    return 0;
}

static uint32_t load(struct c7x_client *client, const char *module, uint32_t flags)
{
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    c7x_test_module_path(module, path);
    if (c7x_client_dyn_load_flags(client, path, flags, &handle) != C7X_OK)
        fail_msg("load: %s", c7x_client_last_error(NULL));
    return handle;
}

static void ignore(void *context, const char *text, size_t size)
{
    (void)context;
    (void)text;
    (void)size;
}

/* What each model gives when there is nobody else. */
static void run_alone(struct catalog *catalog)
{
    struct c7x_client_options options;
    struct c7x_client *client;
    c7x_client_options_init(&options);
    options.device = emulator.device;
    options.print = ignore;
    if (c7x_client_open_with(&options, &client) != C7X_OK)
        fail_msg("open: %s", c7x_client_last_error(NULL));
    for (int i = 0; i < catalog->model_count; i++) {
        struct catalog_model *model = &catalog->models[i];
        uint32_t handle;
        if (c7x_client_dyn_load(client, model->path, &handle) != C7X_OK)
            fail_msg("load: %s", c7x_client_last_error(NULL));
        for (int variant = 0; variant < CATALOG_VARIANTS; variant++) {
            struct c7x_client_tensor outputs[CATALOG_OUTPUTS_MAX];
            int count = CATALOG_OUTPUTS_MAX;
            if (c7x_client_infer(client, handle, 0, model->inputs[variant], model->input_count,
                                 outputs, &count, NULL) != C7X_OK)
                fail_msg("%s: %s", model->name, c7x_client_last_error(NULL));
            model->results[variant] = catalog_hash(outputs, count);
        }
    }
    c7x_client_close(client);
}

static void start_workers(struct worker *workers, int count, const struct catalog *catalog,
                          pthread_barrier_t *barrier)
{
    assert_int_equal(pthread_barrier_init(barrier, NULL, (unsigned)count + 1), 0);
    for (int i = 0; i < count; i++) {
        workers[i].catalog = catalog;
        workers[i].device = emulator.device;
        workers[i].number = 1000 + i;
        workers[i].barrier = barrier;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static uint32_t end_workers(struct worker *workers, int count, pthread_barrier_t *barrier)
{
    uint32_t run_count = 0;
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(barrier);
    for (int i = 0; i < count; i++) {
        if (workers[i].self.failure[0] != '\0')
            fail_msg("%s", workers[i].self.failure);
        run_count += workers[i].self.run_count;
    }
    return run_count;
}

static void many_clients_get_what_each_would_get_alone(void **state)
{
    static struct catalog catalog;
    struct process processes[CLIENTS_SOAK / 2];
    struct holdings before;
    struct holdings loaded;
    struct holdings after;
    char results[C7X_TEST_PATH_MAX + 16];
    char byte = 'g';
    uint32_t run_count = 0;
    pthread_barrier_t barrier;
    int half = clients_wanted() / 2;
    struct worker *workers = calloc((size_t)half, sizeof *workers);
    (void)state;
    assert_non_null(workers);
    catalog_make(&catalog);
    run_alone(&catalog);
    snprintf(results, sizeof results, "%s/results", emulator.folder);
    catalog_write_results(&catalog, results);
    look(observer, &before);
    start_workers(workers, half, &catalog, &barrier);
    for (int i = 0; i < half; i++)
        start_process(&processes[i], i, emulator.device, results);
    for (int i = 0; i < half; i++)
        read_from(&processes[i], &byte, 1);
    pthread_barrier_wait(&barrier);
    look(observer, &loaded);
    assert_int_equal(loaded.session_count, 2 * half + 1);
    assert_int_equal(loaded.module_count, 2 * half * (catalog.model_count + 1));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < half; i++)
        assert_int_equal(write(processes[i].to, &byte, 1), 1);
    for (int i = 0; i < half; i++)
        run_count += end_process(&processes[i]);
    run_count += end_workers(workers, half, &barrier);
    look(observer, &after);
    assert_int_equal(after.jobs_completed - before.jobs_completed, run_count);
    catalog_free(&catalog);
    free(workers);
}

/* Others go on as if nothing had happened; stop() looks that nothing is left of the dead. */
static void clients_that_are_killed_disturb_nobody(void **state)
{
    static struct catalog catalog;
    struct process processes[CLIENTS_CI / 2];
    char results[C7X_TEST_PATH_MAX + 16];
    char byte = 'g';
    pthread_barrier_t barrier;
    struct worker *workers = calloc(CLIENTS_CI / 2, sizeof *workers);
    (void)state;
    assert_non_null(workers);
    catalog_make(&catalog);
    run_alone(&catalog);
    snprintf(results, sizeof results, "%s/results", emulator.folder);
    catalog_write_results(&catalog, results);
    for (int i = 0; i < CLIENTS_CI / 2; i++)
        start_process(&processes[i], ENDLESS + i, emulator.device, results);
    for (int i = 0; i < CLIENTS_CI / 2; i++)
        read_from(&processes[i], &byte, 1);
    start_workers(workers, CLIENTS_CI / 2, &catalog, &barrier);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < CLIENTS_CI / 2; i++)
        assert_int_equal(write(processes[i].to, &byte, 1), 1);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < CLIENTS_CI / 2; i++) {
        int status;
        for (int j = 0; j < 5 + 7 * i; j++)
            c7x_test_pause();
        assert_int_equal(kill(processes[i].pid, SIGKILL), 0);
        assert_int_equal(waitpid(processes[i].pid, &status, 0), processes[i].pid);
        assert_true(WIFSIGNALED(status)); /* it had not failed before */
        close(processes[i].to);
        close(processes[i].from);
    }
    assert_true(end_workers(workers, CLIENTS_CI / 2, &barrier) > 0);
    catalog_free(&catalog);
    free(workers);
}

static void a_handle_is_nothing_to_others(void **state)
{
    struct c7x_client *clients[CLIENTS_CI];
    uint32_t handles[CLIENTS_CI];
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    (void)state;
    for (int i = 0; i < CLIENTS_CI; i++) {
        clients[i] = c7x_test_emulator_open(&emulator);
        handles[i] = load(clients[i], "add_one", 0);
    }
    for (int i = 0; i < CLIENTS_CI; i++)
        for (int j = 0; j < CLIENTS_CI; j++) {
            struct c7x_client_tensor output;
            int count = 1;
            assert_int_equal(
                c7x_client_infer(clients[i], handles[j], 0, &input, 1, &output, &count, NULL),
                i == j ? C7X_OK : C7X_HANDLE);
            if (i != j)
                assert_int_equal(c7x_client_dyn_unload(clients[i], handles[j]), C7X_HANDLE);
        }
    for (int i = 0; i < CLIENTS_CI; i++)
        c7x_client_close(clients[i]);
}

static void a_buffer_is_nothing_to_others(void **state)
{
    struct c7x_host_link *links[CLIENTS_CI];
    struct c7x_buffer buffers[CLIENTS_CI];
    (void)state;
    for (int i = 0; i < CLIENTS_CI; i++) {
        links[i] = c7x_test_emulator_connect(&emulator);
        (void)c7x_test_open_session(links[i]);
        buffers[i] = c7x_test_attach(links[i], 65536);
    }
    for (int i = 0; i < CLIENTS_CI; i++)
        for (int j = 0; j < CLIENTS_CI; j++)
            assert_int_equal(c7x_test_name_buffer(links[i], buffers[j].dsp_address, 65536),
                             i == j ? C7X_OK : C7X_ADDR);
    for (int i = 0; i < CLIENTS_CI; i++)
        links[i]->ops->close(links[i]);
}

static void a_kept_module_is_everybodys(void **state)
{
    struct c7x_client *first = c7x_test_emulator_open(&emulator);
    struct c7x_client *second = c7x_test_emulator_open(&emulator);
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int count = 1;
    (void)state;
    uint32_t kept = load(first, "add_one", C7X_LOAD_KEEP);
    c7x_client_close(first);
    assert_int_equal(c7x_client_infer(second, kept, 0, &input, 1, &output, &count, NULL), C7X_OK);
    assert_int_equal(c7x_client_dyn_unload(second, kept), C7X_OK);
    c7x_client_close(second);
}

static void the_65th_module_is_refused_naming_the_limit_and_who_is_at_it(void **state)
{
    struct c7x_client *client = c7x_test_emulator_open(&emulator);
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle = 0;
    uint32_t refused = 77;
    (void)state;
    c7x_test_module_path("add_one", path);
    for (int i = 0; i < MODULES_MAX; i++)
        handle = load(client, "add_one", 0);
    assert_int_equal(c7x_client_dyn_load(client, path, &refused), C7X_BUSY);
    assert_int_equal(refused, 77);
    assert_non_null(strstr(c7x_client_last_error(NULL), "64 modules"));
    assert_non_null(strstr(c7x_client_last_error(NULL), "many_test")); /* who */
    assert_int_equal(c7x_client_dyn_unload(client, handle), C7X_OK);
    (void)load(client, "add_one", 0);
    c7x_client_close(client);
}

static void the_devices_last_module_is_refused_naming_who_holds_them(void **state)
{
    struct c7x_client *clients[17];
    char path[C7X_TEST_PATH_MAX];
    uint32_t handle;
    (void)state;
    for (int i = 0; i < 17; i++) {
        clients[i] = c7x_test_emulator_open(&emulator);
        for (int j = 0; j < MODULES_MAX && i < 16; j++)
            (void)load(clients[i], "add_one", 0);
    }
    c7x_test_module_path("add_one", path);
    assert_int_equal(c7x_client_dyn_load(clients[16], path, &handle), C7X_BUSY);
    assert_non_null(strstr(c7x_client_last_error(NULL), "1024"));
    assert_non_null(strstr(c7x_client_last_error(NULL), "many_test"));
    for (int i = 0; i < 17; i++)
        c7x_client_close(clients[i]);
}

static void one_session_too_many_is_refused_naming_the_limit(void **state)
{
    static struct c7x_client *clients[SESSIONS_MAX];
    struct c7x_client *refused = NULL;
    (void)state;
    for (int i = 0; i < SESSIONS_MAX - 1; i++) /* the observer is one, too */
        clients[i] = c7x_test_emulator_open(&emulator);
    assert_int_equal(c7x_test_emulator_try_open(&emulator, &refused), C7X_BUSY);
    assert_null(refused);
    assert_non_null(strstr(c7x_client_last_error(NULL), "256"));
    c7x_client_close(clients[0]);
    clients[0] = c7x_test_emulator_open(&emulator);
    for (int i = 0; i < SESSIONS_MAX - 1; i++)
        c7x_client_close(clients[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(int argc, char **argv)
{
    if (argc == 4)
        return be_client(argv[1], argv[2], argv[3], atoi(argv[1]) >= ENDLESS);
    signal(SIGPIPE, SIG_IGN); /* a client's process that has ended is a failure, not our end */
    const struct CMUnitTest tests[] = {
        TEST(many_clients_get_what_each_would_get_alone),
        TEST(clients_that_are_killed_disturb_nobody),
        TEST(a_handle_is_nothing_to_others),
        TEST(a_buffer_is_nothing_to_others),
        TEST(a_kept_module_is_everybodys),
        TEST(the_65th_module_is_refused_naming_the_limit_and_who_is_at_it),
        TEST(the_devices_last_module_is_refused_naming_who_holds_them),
        TEST(one_session_too_many_is_refused_naming_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

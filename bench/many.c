/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firmware's own time for a request while there are many clients, or many modules, in turns
 * with one client and one module on an emulator of their own. Own is what lies between the arrival
 * of the request and its reply, but for waiting in the queue and the module's run; it comes from
 * the events that the device records, and includes recording them. Prints samples (samples.h) in
 * us, a round each of `ours` and `limit`:
 *
 *   many-clients-N     N clients at once, each with a module of its own
 *   many-modules-N     one client that calls N loaded modules in turn
 *   many-loaded-N      one client that calls one of them
 *   many-both          64 clients at once, each with 4 modules in turn
 */
#define _GNU_SOURCE
#include "bench/samples.h"
#include "c7x_compute_client.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 64
#define MODULES_OF_SESSION 64 /* as many as it may have */
#define REQUESTS 2048u        /* of a round, of all clients together */
#define EVENTS (1u << 16)

/* One session and its modules. */
struct session {
    struct c7x_client *client;
    uint32_t handles[MODULES_OF_SESSION];
    int module_count;
};

/* Who calls the modules of one or more sessions, all in turn. */
struct caller {
    pthread_t thread;
    pthread_barrier_t *start;
    struct session *sessions;
    int session_count;
    bool stays; /* with the first module */
    unsigned request_count;
};

/* An emulator with all its clients. */
struct fleet {
    char device[64];
    struct session sessions[CLIENTS_MAX];
    int session_count;
    struct caller callers[CLIENTS_MAX];
    int caller_count;
    struct c7x_client *observer;
    struct c7x_trace *trace;
};

static const char *module_path;

static void check(enum c7x_status status, const char *what)
{
    if (status == C7X_OK)
        return;
    fprintf(stderr, "many: %s: %s: %s\n", what, c7x_status_name(status),
            c7x_client_last_error(NULL));
    exit(1);
}

static void fail(const char *what)
{
    fprintf(stderr, "many: %s\n", what);
    exit(1);
}

/* ---- A fleet ---- */

static struct c7x_client *open_client(const struct fleet *fleet)
{
    struct c7x_client_options options;
    struct c7x_client *client = NULL;
    c7x_client_options_init(&options);
    options.device = fleet->device;
    options.start = 1;
    check(c7x_client_open_with(&options, &client), "open");
    return client;
}

static void open_session(const struct fleet *fleet, struct session *session, int module_count)
{
    session->client = open_client(fleet);
    session->module_count = module_count;
    for (int i = 0; i < module_count; i++)
        check(c7x_client_dyn_load(session->client, module_path, &session->handles[i]), "load");
}

/* Each client has as many modules; one alone has so many sessions that it may have them all. */
static void begin(struct fleet *fleet, int client_count, int module_count)
{
    static int number;
    int session_count = (module_count + MODULES_OF_SESSION - 1) / MODULES_OF_SESSION;
    memset(fleet, 0, sizeof *fleet);
    (void)snprintf(fleet->device, sizeof fleet->device, "emu:%s/%d.sock", c7x_bench_folder(),
                   number++);
    fleet->session_count = session_count > client_count ? session_count : client_count;
    fleet->caller_count = client_count;
    fleet->observer = open_client(fleet);
    for (int i = 0; i < fleet->session_count; i++)
        open_session(fleet, &fleet->sessions[i], module_count / fleet->session_count);
    for (int i = 0; i < client_count; i++)
        fleet->callers[i] =
            (struct caller){.sessions = &fleet->sessions[i * fleet->session_count / client_count],
                            .session_count = fleet->session_count / client_count,
                            .request_count = REQUESTS / (unsigned)client_count};
    check(c7x_trace_begin(fleet->observer, EVENTS, &fleet->trace), "trace");
}

static void end(struct fleet *fleet)
{
    c7x_trace_free(fleet->trace);
    for (int i = 0; i < fleet->session_count; i++)
        c7x_client_close(fleet->sessions[i].client);
    c7x_client_close(fleet->observer);
    check(c7x_emulator_stop(fleet->device, 10000), "stop");
}

static void *call_all(void *context)
{
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    const struct caller *caller = context;
    (void)pthread_barrier_wait(caller->start);
    for (unsigned i = 0; i < caller->request_count; i++) {
        unsigned turn = caller->stays ? 0 : i;
        unsigned round = turn / (unsigned)caller->session_count;
        struct session *session = &caller->sessions[turn % (unsigned)caller->session_count];
        struct c7x_client_tensor output;
        int count = 1;
        check(c7x_client_infer(session->client,
                               session->handles[round % (unsigned)session->module_count], 0, &input,
                               1, &output, &count, NULL),
              "infer");
    }
    return NULL;
}

static void run(struct fleet *fleet)
{
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, (unsigned)fleet->caller_count);
    for (int i = 0; i < fleet->caller_count; i++) {
        fleet->callers[i].start = &start;
        if (pthread_create(&fleet->callers[i].thread, NULL, call_all, &fleet->callers[i]) != 0)
            fail("no thread");
    }
    for (int i = 0; i < fleet->caller_count; i++)
        (void)pthread_join(fleet->callers[i].thread, NULL);
    (void)pthread_barrier_destroy(&start);
}

/* ---- What its device did ---- */

/* The parts of the firmware's own time, and all of it. */
enum part { RECEIVE, START, FINISH, ALL, PART_COUNT };

/* A request on its way. */
struct request {
    uint32_t session;
    uint32_t seq;
    int64_t since_ns; /* when the part began that goes on */
    double us[PART_COUNT];
};

struct requests {
    struct request on_way[CLIENTS_MAX];
    size_t on_way_count;
    double us[PART_COUNT][REQUESTS];
    size_t count;
};

static struct request *find(struct requests *requests, const struct c7x_trace_event *event)
{
    for (size_t i = 0; i < requests->on_way_count; i++) {
        struct request *request = &requests->on_way[i];
        if (request->session == event->session && request->seq == event->seq)
            return request;
    }
    return NULL;
}

static void arrive(struct requests *requests, const struct c7x_trace_event *event)
{
    if (requests->on_way_count == CLIENTS_MAX)
        fail("more requests than clients");
    requests->on_way[requests->on_way_count++] =
        (struct request){.session = event->session, .seq = event->seq, .since_ns = event->time_ns};
}

static void leave(struct requests *requests, struct request *request)
{
    if (requests->count == REQUESTS)
        fail("more requests than were sent");
    for (int part = 0; part < PART_COUNT; part++)
        requests->us[part][requests->count] = request->us[part];
    requests->count++;
    *request = requests->on_way[--requests->on_way_count];
}

static void end_part(struct request *request, enum part part, int64_t now_ns)
{
    double us = (double)(now_ns - request->since_ns) / 1e3;
    request->us[part] += us;
    request->us[ALL] += us;
}

static void follow(struct requests *requests, const struct c7x_trace_event *event)
{
    struct request *request = find(requests, event);
    if (strcmp(event->request, "INFER") == 0 && strcmp(event->station, "service") == 0)
        arrive(requests, event);
    if (request == NULL)
        return;
    if (event->event == C7X_TRACE_QUEUED) {
        end_part(request, RECEIVE, event->time_ns);
    } else if (event->event == C7X_TRACE_CALL_BEGIN) {
        end_part(request, START, event->time_ns);
    } else if (strcmp(event->station, "reply") == 0) {
        end_part(request, FINISH, event->time_ns);
        leave(requests, request);
    } else if (event->event == C7X_TRACE_JOB_BEGIN || event->event == C7X_TRACE_CALL_END) {
        request->since_ns = event->time_ns;
    }
}

static void measure(struct fleet *fleet, struct requests *requests)
{
    struct c7x_trace_event event = {.struct_size = sizeof event};
    memset(requests, 0, sizeof *requests);
    run(fleet);
    while (c7x_trace_next(fleet->trace, &event))
        follow(requests, &event);
    if (c7x_trace_lost(fleet->trace) != 0)
        fail("events were lost");
    if (requests->count != REQUESTS)
        fail("requests were lost");
}

/* ---- Rows ---- */

static void print_all(const char *name, const char *side, const struct requests *requests)
{
    static const char *const parts[ALL] = {"receive", "start", "finish"};
    char label[32];
    c7x_bench_print(name, side, requests->us[ALL], REQUESTS);
    for (int part = 0; part < ALL; part++) {
        (void)snprintf(label, sizeof label, "%s-%s", side, parts[part]);
        c7x_bench_print(name, label, requests->us[part], REQUESTS);
    }
}

/* In turns with a fleet of one. The first round of each is not counted. */
static void compare(const char *name, struct fleet *fleet, struct fleet *one, int rounds)
{
    static struct requests requests;
    for (int round = -1; round < rounds; round++) {
        measure(one, &requests);
        if (round >= 0)
            print_all(name, "limit", &requests);
        measure(fleet, &requests);
        if (round >= 0)
            print_all(name, "ours", &requests);
    }
}

static void measure_clients(const char *name, int client_count, int module_count, struct fleet *one,
                            int rounds)
{
    static struct fleet fleet;
    begin(&fleet, client_count, module_count);
    compare(name, &fleet, one, rounds);
    end(&fleet);
}

static void measure_modules(int module_count, struct fleet *one, int rounds)
{
    static struct fleet fleet;
    char name[32];
    begin(&fleet, 1, module_count);
    (void)snprintf(name, sizeof name, "many-modules-%d", module_count);
    compare(name, &fleet, one, rounds);
    fleet.callers[0].stays = true;
    (void)snprintf(name, sizeof name, "many-loaded-%d", module_count);
    compare(name, &fleet, one, rounds);
    end(&fleet);
}

int main(int argc, char **argv)
{
    static const int clients[] = {1, 4, 16, 64};
    static const int modules[] = {4, 16, 64, 256};
    static struct fleet one;
    int rounds = c7x_bench_rounds(argc == 3 ? argv[2] : "", "bench_many MODULE ROUNDS");
    char name[32];
    module_path = argv[1];
    begin(&one, 1, 1);
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        (void)snprintf(name, sizeof name, "many-clients-%d", clients[i]);
        measure_clients(name, clients[i], clients[i], &one, rounds);
    }
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        measure_modules(modules[i], &one, rounds);
    measure_clients("many-both", 64, 256, &one, rounds);
    end(&one);
    return 0;
}

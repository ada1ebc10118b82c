/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "many/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE_MS 120000
#define AT_ONCE 3
#define HELLO "hello\n"

static bool fail_with(struct many_client *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail_with(struct many_client *self, const char *format, ...)
{
    va_list arguments;
    int length = snprintf(self->failure, sizeof self->failure, "client %d: ", self->number);
    va_start(arguments, format);
    vsnprintf(self->failure + length, sizeof self->failure - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

static unsigned random_below(struct many_client *self, int bound)
{
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(self->random >> 33) % (unsigned)bound;
}

static void collect(void *context, const char *text, size_t size)
{
    struct many_client *self = context;
    if (size > sizeof self->printed - self->printed_size)
        size = sizeof self->printed - self->printed_size;
    memcpy(self->printed + self->printed_size, text, size);
    self->printed_size += size;
}

static bool load(struct many_client *self, const char *path, uint32_t *out_handle)
{
    if (c7x_client_dyn_load(self->client, path, out_handle) == C7X_OK)
        return true;
    return fail_with(self, "load %s: %s", path, c7x_client_last_error(NULL));
}

bool many_client_begin(struct many_client *self, const struct catalog *catalog, int number,
                       const char *device)
{
    struct c7x_client_options options;
    char name[C7X_CLIENT_NAME_MAX + 1];
    char path[C7X_TEST_PATH_MAX];
    memset(self, 0, sizeof *self);
    self->catalog = catalog;
    self->number = number;
    self->random = (uint64_t)number + 1;
    snprintf(name, sizeof name, "client %d", number);
    c7x_client_options_init(&options);
    options.device = device;
    options.deadline_ms = DEADLINE_MS;
    options.name = name;
    options.print = collect;
    options.print_context = self;
    if (c7x_client_open_with(&options, &self->client) != C7X_OK)
        return fail_with(self, "open: %s", c7x_client_last_error(NULL));
    for (int i = 0; i < catalog->model_count; i++)
        if (!load(self, catalog->models[i].path, &self->handles[i]))
            return false;
    c7x_test_module_path("says", path);
    return load(self, path, &self->says);
}

/* ---- Running ---- */

static bool check(struct many_client *self, int index, unsigned variant,
                  const struct c7x_client_tensor *outputs, int count)
{
    const struct catalog_model *model = &self->catalog->models[index];
    self->run_count++;
    self->hello_count += strcmp(model->name, "prints") == 0;
    if (catalog_hash(outputs, count) == model->results[variant])
        return true;
    return fail_with(self, "%s, inputs %u: not the result that it gives alone", model->name,
                     variant);
}

/* A full queue refuses at once; who asks again gets through. */
static enum c7x_status infer(struct many_client *self, uint32_t handle,
                             const struct c7x_client_tensor *inputs, int input_count,
                             struct c7x_client_tensor *outputs, int *inout_count)
{
    enum c7x_status status = C7X_BUSY;
    int64_t end_ms = c7x_test_now_ms() + DEADLINE_MS;
    while (status == C7X_BUSY && c7x_test_now_ms() < end_ms) {
        status = c7x_client_infer(self->client, handle, 0, inputs, input_count, outputs,
                                  inout_count, NULL);
        if (status != C7X_BUSY)
            break;
        self->busy_count++;
        c7x_test_pause();
    }
    return status;
}

static bool run_waiting(struct many_client *self, int index, unsigned variant)
{
    const struct catalog_model *model = &self->catalog->models[index];
    struct c7x_client_tensor outputs[CATALOG_OUTPUTS_MAX];
    int count = CATALOG_OUTPUTS_MAX;
    if (infer(self, self->handles[index], model->inputs[variant], model->input_count, outputs,
              &count) != C7X_OK)
        return fail_with(self, "%s: %s", model->name, c7x_client_last_error(NULL));
    return check(self, index, variant, outputs, count);
}

static bool take_result(struct many_client *self, struct c7x_inference *inference, int index,
                        unsigned variant)
{
    struct c7x_client_tensor outputs[CATALOG_OUTPUTS_MAX];
    int count = CATALOG_OUTPUTS_MAX;
    enum c7x_status status = c7x_inference_wait(inference, DEADLINE_MS);
    if (status == C7X_OK)
        status = c7x_inference_result(inference, outputs, &count, NULL);
    bool good = status == C7X_OK && check(self, index, variant, outputs, count);
    if (status != C7X_OK && status != C7X_BUSY)
        fail_with(self, "%s, at once with others: %s", self->catalog->models[index].name,
                  c7x_client_last_error(NULL));
    c7x_inference_free(inference);
    if (status != C7X_BUSY)
        return good;
    self->busy_count++;
    return run_waiting(self, index, variant);
}

static bool run_several(struct many_client *self)
{
    struct c7x_inference *inferences[AT_ONCE];
    int indexes[AT_ONCE];
    unsigned variants[AT_ONCE];
    int sent = 0;
    bool good = true;
    while (good && sent < AT_ONCE) {
        struct c7x_infer_options options;
        indexes[sent] = (int)random_below(self, self->catalog->model_count);
        variants[sent] = random_below(self, CATALOG_VARIANTS);
        const struct catalog_model *model = &self->catalog->models[indexes[sent]];
        c7x_infer_options_init(self->client, &options);
        options.handle = self->handles[indexes[sent]];
        good = c7x_client_infer_async(self->client, &options, model->inputs[variants[sent]],
                                      model->input_count, &inferences[sent]) == C7X_OK;
        if (!good)
            fail_with(self, "%s: %s", model->name, c7x_client_last_error(NULL));
        sent += good;
    }
    for (int i = 0; i < sent; i++)
        good = take_result(self, inferences[i], indexes[i], variants[i]) && good;
    return good;
}

static bool say(struct many_client *self)
{
    int32_t number = self->number;
    struct c7x_client_tensor input = {&number, sizeof number, 1, C7X_DTYPE_INT, 32, 0, {1}};
    struct c7x_client_tensor output;
    int count = 1;
    if (infer(self, self->says, &input, 1, &output, &count) != C7X_OK)
        return fail_with(self, "says: %s", c7x_client_last_error(NULL));
    self->run_count++;
    self->said_count++;
    if (memcmp(output.data, &number, sizeof number) != 0)
        return fail_with(self, "says: another client's number");
    return true;
}

bool many_client_run(struct many_client *self, int rounds)
{
    bool good = true;
    for (int round = 0; good && round < rounds; round++) {
        unsigned way = random_below(self, 8);
        if (way == 0)
            good = say(self);
        else if (way < 3)
            good = run_several(self);
        else
            good = run_waiting(self, (int)random_below(self, self->catalog->model_count),
                               random_below(self, CATALOG_VARIANTS));
    }
    return good;
}

/* ---- The end ---- */

/* All that may have been printed is our own lines, and each as often as we have run its module. */
static bool check_printed(struct many_client *self)
{
    char own[32];
    uint32_t said = 0;
    uint32_t hellos = 0;
    size_t own_size = (size_t)snprintf(own, sizeof own, "client %d\n", self->number);
    for (size_t at = 0; at < self->printed_size;) {
        size_t left = self->printed_size - at;
        if (left >= own_size && memcmp(self->printed + at, own, own_size) == 0) {
            said++;
            at += own_size;
        } else if (left >= strlen(HELLO) && memcmp(self->printed + at, HELLO, strlen(HELLO)) == 0) {
            hellos++;
            at += strlen(HELLO);
        } else {
            return fail_with(self, "printed was: %.*s", (int)(left < 80 ? left : 80),
                             self->printed + at);
        }
    }
    if (said != self->said_count || hellos != self->hello_count)
        return fail_with(self, "%u and %u lines were printed, not %u and %u", said, hellos,
                         self->said_count, self->hello_count);
    return true;
}

bool many_client_end(struct many_client *self)
{
    bool good = self->failure[0] == '\0' && check_printed(self);
    c7x_client_close(self->client);
    return good;
}

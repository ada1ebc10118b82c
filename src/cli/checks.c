/* SPDX-License-Identifier: Apache-2.0 */
/* What validate checks. A check that fails leaves the others to run. */
#define _POSIX_C_SOURCE 200809L
#include "validate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 8 << 20, COPY_COUNT = 21, PING_WARM_UP = 100, ALIGNMENT = 64, POISON = 0xA5 };

static double now_us(void)
{
    return (double)cli_now_ns() / 1e3;
}

/* ---- How a check ends ---- */

static void end(struct check *check, enum check_result result, const char *format, ...)
    CLI_PRINTF(3, 4);

static void end(struct check *check, enum check_result result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->detail, sizeof check->detail, format, arguments);
    va_end(arguments);
    check->result = result;
}

/* One decimal: more would be noise. */
static double rounded(double value)
{
    return (double)(int64_t)(value * 10 + 0.5) / 10;
}

static void set_value(struct check *check, double value, const char *unit)
{
    check->value = rounded(value);
    check->unit = unit;
}

static void end_with_status(const struct validation *self, struct check *check, const char *stage,
                            int status)
{
    char text[CLI_MESSAGE_MAX];
    cli_describe_status(self->cli, stage, status, text, sizeof text);
    end(check, CHECK_FAIL, "%s: %.900s", stage, text);
}

/* ---- ping ---- */

void cli_check_ping(struct validation *self, struct check *check)
{
    uint32_t version = 0;
    uint32_t uptime_ms = 0;
    char text[32];
    double start_us = now_us();
    enum c7x_status status = c7x_client_ping(self->cli->client, &version, &uptime_ms);
    if (status != C7X_OK) {
        end_with_status(self, check, "ping", status);
        return;
    }
    set_value(check, now_us() - start_us, "us");
    cli_format_version(version, text, sizeof text);
    end(check, CHECK_PASS, "version %s, up for %" PRIu32 ".%03" PRIu32 " s", text, uptime_ms / 1000,
        uptime_ms % 1000);
}

/* ---- memory ---- */

/* A different byte at each place of a page, and another sequence on each page. */
static uint8_t pattern(size_t index)
{
    return (uint8_t)(index * 131 + (index >> 12) * 17);
}

static size_t write_and_compare(uint8_t *buffer, size_t size)
{
    size_t wrong = 0;
    for (size_t i = 0; i < size; i++)
        buffer[i] = pattern(i);
    for (size_t i = 0; i < size; i++)
        wrong += buffer[i] != pattern(i);
    return wrong;
}

void cli_check_memory(struct validation *self, struct check *check)
{
    struct c7x_client *client = self->cli->client;
    size_t input_size = 0;
    size_t output_size = 0;
    double start_us = now_us();
    enum c7x_status status = c7x_client_reserve_io(client, BUFFER_BYTES, BUFFER_BYTES);
    if (status != C7X_OK) {
        end_with_status(self, check, "reserve", status);
        return;
    }
    uint8_t *input = c7x_client_get_input_buffer(client, &input_size);
    uint8_t *output = c7x_client_get_output_buffer(client, &output_size);
    if (input == NULL || output == NULL || input_size < BUFFER_BYTES ||
        output_size < BUFFER_BYTES) {
        end(check, CHECK_FAIL, "%d bytes were reserved, but the buffers have %zu and %zu",
            BUFFER_BYTES, input_size, output_size);
        return;
    }
    size_t wrong = write_and_compare(input, input_size) + write_and_compare(output, output_size);
    set_value(check, (now_us() - start_us) / 1e3, "ms");
    if (wrong != 0)
        end(check, CHECK_FAIL, "%zu of %zu bytes read back wrong", wrong, input_size + output_size);
    else
        end(check, CHECK_PASS, "%zu bytes of shared buffers keep a pattern",
            input_size + output_size);
}

/* ---- load ---- */

static const char no_module[] = "no module: name one with --module";

void cli_check_load(struct validation *self, struct check *check)
{
    const struct cli_options *options = &self->cli->options;
    if (options->module == NULL) {
        end(check, CHECK_SKIP, "%s", no_module);
        return;
    }
    uint32_t handle = 0;
    double start_us = now_us();
    enum c7x_status status = c7x_client_dyn_load(self->cli->client, options->module, &handle);
    if (status == C7X_OK && options->model != NULL)
        status = c7x_client_model_load(self->cli->client, options->model, &self->request.model_id);
    if (status != C7X_OK) {
        end_with_status(self, check, "load", status);
        return;
    }
    set_value(check, (now_us() - start_us) / 1e3, "ms");
    self->request.handle = handle;
    end(check, CHECK_PASS, "%s has handle %" PRIu32, options->module, handle);
}

/* ---- infer: twice, the second time from inputs in shared memory, with equal results ---- */

/* So that an output which is not written does not pass for the one before. */
static void poison_outputs(struct c7x_client *client)
{
    size_t size = 0;
    uint8_t *output = c7x_client_get_output_buffer(client, &size);
    if (output != NULL)
        memset(output, POISON, size);
}

static bool is_poison(const struct c7x_client_tensor *tensor)
{
    const uint8_t *data = tensor->data;
    for (size_t i = 0; i < tensor->data_size; i++) {
        if (data[i] != POISON)
            return false;
    }
    return tensor->data_size > 0;
}

/* Copies the outputs, which the next run overwrites; NULL without memory. */
static uint8_t *copy_outputs(const struct cli_outputs *outputs)
{
    uint8_t *copy = malloc((size_t)cli_output_bytes(outputs) + 1);
    size_t used = 0;
    for (int i = 0; i < outputs->count && copy != NULL; i++) {
        memcpy(copy + used, outputs->tensors[i].data, outputs->tensors[i].data_size);
        used += outputs->tensors[i].data_size;
    }
    return copy;
}

/* Moves the inputs into the shared buffer, so that they are used in place; false: no room. */
static bool place_inputs(struct validation *self)
{
    size_t size = 0;
    size_t offset = c7x_client_get_input_data_offset(self->cli->client);
    uint8_t *buffer = c7x_client_get_input_buffer(self->cli->client, &size);
    for (int i = 0; i < self->inputs.count; i++) {
        struct c7x_client_tensor *tensor = &self->inputs.tensors[i];
        offset = (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (buffer == NULL || offset > size || tensor->data_size > size - offset)
            return false;
        memcpy(buffer + offset, tensor->data, tensor->data_size);
        tensor->data = buffer + offset;
        offset += tensor->data_size;
    }
    return true;
}

static bool run_once(struct validation *self, struct check *check)
{
    poison_outputs(self->cli->client);
    double start_us = now_us();
    enum c7x_status status =
        cli_infer_tensors(self->cli, &self->request, &self->inputs, &self->outputs);
    if (status != C7X_OK) {
        end_with_status(self, check, "infer", status);
        return false;
    }
    set_value(check, now_us() - start_us, "us");
    for (int i = 0; i < self->outputs.count; i++) {
        if (is_poison(&self->outputs.tensors[i])) {
            end(check, CHECK_FAIL, "output %d was not written", i);
            return false;
        }
    }
    return true;
}

/* The library sizes buffers as it learns what a module needs, so the first run warms up. */
static void compare_runs(struct validation *self, struct check *check)
{
    if (!run_once(self, check))
        return;
    uint8_t *first = copy_outputs(&self->outputs);
    uint64_t first_size = cli_output_bytes(&self->outputs);
    bool in_place = place_inputs(self);
    if (first == NULL) {
        end(check, CHECK_FAIL, "no memory for the outputs");
    } else if (run_once(self, check)) {
        uint8_t *second = copy_outputs(&self->outputs);
        if (second == NULL || cli_output_bytes(&self->outputs) != first_size ||
            memcmp(first, second, (size_t)first_size) != 0)
            end(check, CHECK_FAIL, "two runs on the same inputs differ");
        else
            end(check, CHECK_PASS,
                "2 runs, equal; %d outputs, %" PRIu64 " bytes, %" PRIu64 " cycles%s",
                self->outputs.count, first_size, self->outputs.cycles,
                in_place ? "" : "; inputs copied both times");
        free(second);
    }
    free(first);
}

/* Unloading frees the buffers for the checks that follow. */
static void unload(struct validation *self, struct check *check)
{
    struct c7x_client *client = self->cli->client;
    enum c7x_status status = c7x_client_dyn_unload(client, self->request.handle);
    if (status == C7X_OK && self->request.model_id != 0)
        status = c7x_client_model_unload(client, self->request.model_id);
    if (status != C7X_OK && check->result == CHECK_PASS)
        end_with_status(self, check, "unload", status);
}

void cli_check_infer(struct validation *self, struct check *check)
{
    self->request.repeat = 1;
    if (self->cli->options.module == NULL) {
        end(check, CHECK_SKIP, "%s", no_module);
    } else if (self->request.handle == 0) {
        end(check, CHECK_SKIP, "the module is not loaded");
    } else {
        compare_runs(self, check);
        unload(self, check);
    }
}

/* ---- bandwidth, latency ---- */

/* Of each copy. */
static void measure_copies(uint8_t *to, const uint8_t *from, int64_t *times)
{
    for (int i = -1; i < COPY_COUNT; i++) {
        int64_t start = cli_now_ns();
        memcpy(to, from, BUFFER_BYTES);
        if (i >= 0) /* the first touches the pages */
            times[i] = cli_now_ns() - start;
    }
    cli_sort_times(times, COPY_COUNT);
}

void cli_check_bandwidth(struct validation *self, struct check *check)
{
    struct c7x_client *client = self->cli->client;
    int64_t times[COPY_COUNT];
    size_t size = 0;
    uint8_t *input = c7x_client_get_input_buffer(client, &size);
    enum c7x_status status = C7X_OK;
    if (size < BUFFER_BYTES) /* loading a module has sized the buffers anew */
        status = c7x_client_reserve_io(client, BUFFER_BYTES, BUFFER_BYTES);
    if (status != C7X_OK) {
        end_with_status(self, check, "reserve", status);
        return;
    }
    input = c7x_client_get_input_buffer(client, &size);
    uint8_t *source = malloc(BUFFER_BYTES);
    if (input == NULL || size < BUFFER_BYTES || source == NULL) {
        end(check, CHECK_FAIL, "no buffer of %d bytes", BUFFER_BYTES);
    } else {
        memset(source, 1, BUFFER_BYTES);
        measure_copies(input, source, times);
        int64_t median = cli_percentile(times, COPY_COUNT, 50);
        set_value(check, BUFFER_BYTES * 1e3 / (double)(median > 0 ? median : 1), "MB/s");
        end(check, CHECK_PASS, "copies into the input buffer, median of n=%d, %d bytes each",
            COPY_COUNT, BUFFER_BYTES);
    }
    free(source);
}

double cli_latency_us(const struct validation *self, size_t percent)
{
    return rounded((double)cli_percentile(self->pings, PING_COUNT, percent) / 1e3);
}

void cli_check_latency(struct validation *self, struct check *check)
{
    for (int i = -PING_WARM_UP; i < PING_COUNT; i++) {
        int64_t start = cli_now_ns();
        enum c7x_status status = c7x_client_ping(self->cli->client, NULL, NULL);
        if (status != C7X_OK) {
            end_with_status(self, check, "ping", status);
            return;
        }
        if (i >= 0)
            self->pings[i] = cli_now_ns() - start;
    }
    cli_sort_times(self->pings, PING_COUNT);
    set_value(check, cli_latency_us(self, 50), "us");
    end(check, CHECK_PASS, "ping, n=%d after %d: p50 %.1f, p90 %.1f, p99 %.1f, max %.1f us",
        PING_COUNT, PING_WARM_UP, cli_latency_us(self, 50), cli_latency_us(self, 90),
        cli_latency_us(self, 99), cli_latency_us(self, 100));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request from the client through every station and back, against the drawing's list of
 * stations in ARCHITECTURE.md: a block that begins with ```stations and holds one name a line.
 */
#include "base/trace.h"
#include "support/environment.h"
#include "support/loopback_device.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define STATIONS_MAX 32
#define NAME_MAX_BYTES 32

struct line_of_stations {
    int count;
    char names[STATIONS_MAX][NAME_MAX_BYTES];
};

static void append(struct line_of_stations *line, const char *name)
{
    assert_true(line->count < STATIONS_MAX);
    assert_true(strlen(name) < NAME_MAX_BYTES);
    memcpy(line->names[line->count++], name, strlen(name) + 1);
}

static void assert_same(const struct line_of_stations *got, const struct line_of_stations *expected)
{
    for (int i = 0; i < got->count && i < expected->count; i++)
        assert_string_equal(got->names[i], expected->names[i]);
    assert_int_equal(got->count, expected->count);
}

static void read_drawing(struct line_of_stations *drawing)
{
    char text[512];
    bool inside = false;
    FILE *file = fopen("ARCHITECTURE.md", "r");
    if (file == NULL)
        fail_msg("no ARCHITECTURE.md in the working directory");
    while (fgets(text, sizeof text, file) != NULL) {
        text[strcspn(text, "\r\n")] = '\0';
        if (!inside)
            inside = strcmp(text, "```stations") == 0;
        else if (strncmp(text, "```", 3) == 0)
            break;
        else
            append(drawing, text);
    }
    fclose(file);
    if (drawing->count == 0)
        fail_msg("ARCHITECTURE.md has no block ```stations");
}

static void the_drawing_names_the_stations_of_stations_def(void **state)
{
    struct line_of_stations drawing = {0};
    struct line_of_stations defined = {0};
    (void)state;
    read_drawing(&drawing);
    for (int i = 0; i < C7X_STATION_COUNT; i++)
        append(&defined, c7x_station_name((enum c7x_station)i));
    assert_same(&drawing, &defined);
}

/* Stations are passed in three tasks, one after the other. */
static pthread_mutex_t passed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct line_of_stations passed;

static void note(enum c7x_event event, const struct c7x_trace_origin *origin, uint32_t argument)
{
    (void)origin;
    if (event != C7X_EVENT_STATION)
        return;
    pthread_mutex_lock(&passed_lock);
    if (passed.count < STATIONS_MAX)
        append(&passed, c7x_station_name((enum c7x_station)argument));
    pthread_mutex_unlock(&passed_lock);
}

static void one_inference_passes_every_station_of_the_drawing_once(void **state)
{
    struct line_of_stations drawing = {0};
    struct c7x_test_loopback *device = c7x_test_loopback_start();
    struct c7x_client *client = c7x_test_loopback_open(device, NULL);
    char path[C7X_TEST_PATH_MAX];
    float numbers[4] = {1, 2, 3, 4};
    struct c7x_client_tensor input = {numbers, sizeof numbers, 1, C7X_DTYPE_FLOAT, 32, 0, {4}};
    struct c7x_client_tensor output;
    int output_count = 1;
    uint32_t handle;
    (void)state;
    c7x_test_module_path("add_one", path);
    assert_int_equal(c7x_client_dyn_load(client, path, &handle), C7X_OK);
    c7x_trace_set_sink(note);
    assert_int_equal(c7x_client_infer(client, handle, 0, &input, 1, &output, &output_count, NULL),
                     C7X_OK);
    c7x_trace_set_sink(NULL);
    assert_true(((const float *)output.data)[3] == 5);
    c7x_client_close(client);
    c7x_test_loopback_stop(device);
    read_drawing(&drawing);
    assert_same(&passed, &drawing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drawing_names_the_stations_of_stations_def),
        cmocka_unit_test(one_inference_passes_every_station_of_the_drawing_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

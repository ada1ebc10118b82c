/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events as a file for chrome://tracing and ui.perfetto.dev ("Trace Event Format", JSON object
 * form). The core is a process and its targets are threads. Times are in us from the first event.
 */
#include "record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Begins an object of the list, up to where its name is to follow. */
static void begin_event(struct cli_chrome *chrome, const char *phase, int target, int64_t time_ns)
{
    int64_t ns = time_ns - chrome->first_ns;
    fprintf(chrome->file,
            "%s{\"ph\":\"%s\",\"pid\":%u,\"tid\":%d,\"ts\":%" PRId64 ".%03d,\"name\":",
            chrome->has_events ? ",\n" : "\n", phase, chrome->core, target + 1, ns / 1000,
            (int)(ns % 1000));
    chrome->has_events = true;
}

static void put_text(struct cli_chrome *chrome, const char *text)
{
    fputc('"', chrome->file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(chrome->file, "\\%c", *c);
        else if (*c < ' ')
            fprintf(chrome->file, "\\u%04x", *c);
        else
            fputc(*c, chrome->file);
    }
    fputc('"', chrome->file);
}

static void put_request(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    fprintf(chrome->file, "\"session\":%u,\"seq\":%u,\"module\":%u", event->session, event->seq,
            event->module);
}

/* ---- Who is who ---- */

static void name_thing(struct cli_chrome *chrome, const char *what, int target, const char *name)
{
    begin_event(chrome, "M", target, chrome->first_ns);
    fprintf(chrome->file, "\"%s\",\"args\":{\"name\":", what);
    put_text(chrome, name);
    fputs("}}", chrome->file);
}

static void name_everything(struct cli_chrome *chrome)
{
    char text[192];
    snprintf(text, sizeof text, "core %u (%s)", chrome->core, chrome->device);
    name_thing(chrome, "process_name", -1, text);
    name_thing(chrome, "thread_name", -1, "requests");
    for (size_t i = 0; i < chrome->target_count; i++) {
        name_thing(chrome, "thread_name", (int)i, chrome->targets[i].name);
        begin_event(chrome, "M", (int)i, chrome->first_ns);
        fprintf(chrome->file, "\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", (int)i + 1);
    }
}

static const char *target_name(const struct cli_chrome *chrome, int target)
{
    return target >= 0 && (size_t)target < chrome->target_count ? chrome->targets[target].name
                                                                : "none";
}

/* ---- Slices: what has a begin and an end ---- */

/* One that began before the recording, or in what was lost, begins where that is. */
static void write_slice(struct cli_chrome *chrome, enum cli_slice_kind kind,
                        const struct c7x_trace_event *event, int64_t end_ns)
{
    static const char *const categories[] = {"job", "call", "operator", "pre-emption"};
    struct cli_slice *slice = &chrome->open[event->target][kind];
    int64_t begin_ns = slice->is_open ? slice->begin_ns : chrome->known_from_ns;
    int64_t ns = end_ns - begin_ns;
    char name[512];
    cli_slice_name(chrome->names, kind, event, name, sizeof name);
    begin_event(chrome, "X", event->target, begin_ns);
    put_text(chrome, name);
    fprintf(chrome->file, ",\"cat\":\"%s\",\"dur\":%" PRId64 ".%03d,\"args\":{", categories[kind],
            ns / 1000, (int)(ns % 1000));
    put_request(chrome, event);
    if (kind == CLI_SLICE_OPERATOR)
        fprintf(chrome->file, ",\"number\":%u", event->argument);
    if (!slice->is_open)
        fputs(",\"begin\":\"not recorded\"", chrome->file);
    if (chrome->is_closing)
        fputs(",\"end\":\"not recorded\"", chrome->file);
    fputs("}}", chrome->file);
    slice->is_open = false;
}

static void open_slice(struct cli_chrome *chrome, enum cli_slice_kind kind,
                       const struct c7x_trace_event *event)
{
    chrome->open[event->target][kind] =
        (struct cli_slice){.is_open = true, .begin_ns = event->time_ns, .event = *event};
}

/* What has begun and will not be seen to end goes up to this time: the inner ones first. */
static void close_all(struct cli_chrome *chrome, int64_t end_ns)
{
    chrome->is_closing = true;
    for (int target = 0; target < CLI_TARGETS_MAX; target++)
        for (int kind = CLI_SLICE_COUNT - 1; kind >= 0; kind--)
            if (chrome->open[target][kind].is_open) {
                const struct c7x_trace_event event = chrome->open[target][kind].event;
                write_slice(chrome, (enum cli_slice_kind)kind, &event, end_ns);
            }
    chrome->is_closing = false;
}

/* ---- Instants, counters, requests ---- */

static void write_instant(struct cli_chrome *chrome, const struct c7x_trace_event *event,
                          const char *name)
{
    begin_event(chrome, "i", event->target, event->time_ns);
    put_text(chrome, name);
    fprintf(chrome->file, ",\"cat\":\"%s\",\"s\":\"t\",\"args\":{", event->name);
    put_request(chrome, event);
    fprintf(chrome->file, ",\"argument\":%u}}", event->argument);
}

static void write_queue_depth(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    char name[64];
    snprintf(name, sizeof name, "waiting at %s", target_name(chrome, event->target));
    begin_event(chrome, "C", event->target, event->time_ns);
    put_text(chrome, name);
    fprintf(chrome->file, ",\"args\":{\"requests\":%u}}", event->argument);
}

/* The way of a request through its stations: a row of its own, by its id. */
static void write_station(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    bool is_first = strcmp(event->station, "service") == 0;
    bool is_last = strcmp(event->station, "reply") == 0;
    begin_event(chrome, is_first ? "b" : "n", -1, event->time_ns);
    put_text(chrome, is_first ? event->request : event->station);
    fprintf(chrome->file, ",\"cat\":\"request\",\"id\":\"%u.%u\",\"args\":{", event->session,
            event->seq);
    put_request(chrome, event);
    fputs("}}", chrome->file);
    if (!is_last)
        return;
    begin_event(chrome, "e", -1, event->time_ns);
    put_text(chrome, event->request);
    fprintf(chrome->file, ",\"cat\":\"request\",\"id\":\"%u.%u\"}", event->session, event->seq);
}

/* ---- One event ---- */

static void write_pre_emption(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    char name[64];
    snprintf(name, sizeof name, "pre-empted by %s", target_name(chrome, (int)event->argument - 1));
    write_instant(chrome, event, name);
    open_slice(chrome, CLI_SLICE_PREEMPTED, event);
}

static void write_activation(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    char name[128];
    snprintf(name, sizeof name, "activated %s", cli_model_name(chrome->names, event->module));
    write_instant(chrome, event, name);
}

static void write_unload(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    static const char *const steps[] = {"?",         "clean-up", "registers", "model",
                                        "constants", "segments", "pools"};
    size_t step = event->argument < sizeof steps / sizeof steps[0] ? event->argument : 0;
    char name[128];
    snprintf(name, sizeof name, "unload %s: %s", cli_model_name(chrome->names, event->module),
             steps[step]);
    write_instant(chrome, event, name);
}

static void write_target_event(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    switch (event->event) {
    case C7X_TRACE_QUEUED:
    case C7X_TRACE_REMOVED:
        write_queue_depth(chrome, event);
        break;
    case C7X_TRACE_JOB_BEGIN:
        write_queue_depth(chrome, event);
        open_slice(chrome, CLI_SLICE_JOB, event);
        break;
    case C7X_TRACE_JOB_END:
        write_slice(chrome, CLI_SLICE_JOB, event, event->time_ns);
        break;
    case C7X_TRACE_PREEMPTED:
        write_pre_emption(chrome, event);
        break;
    case C7X_TRACE_RESUMED:
        write_slice(chrome, CLI_SLICE_PREEMPTED, event, event->time_ns);
        break;
    case C7X_TRACE_ACTIVATED:
        write_activation(chrome, event);
        break;
    case C7X_TRACE_CALL_BEGIN:
        open_slice(chrome, CLI_SLICE_CALL, event);
        break;
    case C7X_TRACE_CALL_END:
        write_slice(chrome, CLI_SLICE_CALL, event, event->time_ns);
        break;
    case C7X_TRACE_SECTION_BEGIN:
        open_slice(chrome, CLI_SLICE_OPERATOR, event);
        break;
    case C7X_TRACE_SECTION_END:
        write_slice(chrome, CLI_SLICE_OPERATOR, event, event->time_ns);
        break;
    default:
        break;
    }
}

void cli_chrome_write(struct cli_chrome *chrome, const struct c7x_trace_event *event)
{
    if (!chrome->has_first) {
        chrome->has_first = true;
        chrome->first_ns = chrome->known_from_ns = event->time_ns;
        fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", chrome->file);
        name_everything(chrome);
    }
    if (event->time_ns > chrome->last_ns)
        chrome->last_ns = event->time_ns;
    if (event->event == C7X_TRACE_STATION)
        write_station(chrome, event);
    else if (event->event == C7X_TRACE_UNLOAD)
        write_unload(chrome, event);
    else if (event->target >= 0 && event->target < CLI_TARGETS_MAX)
        write_target_event(chrome, event);
}

void cli_chrome_lose(struct cli_chrome *chrome, uint64_t count, const struct c7x_trace_event *next)
{
    char name[64];
    const struct c7x_trace_event event = {.time_ns = next->time_ns, .target = -1, .name = "lost"};
    if (!chrome->has_first)
        return;
    close_all(chrome, chrome->last_ns);
    chrome->known_from_ns = next->time_ns;
    snprintf(name, sizeof name, "%" PRIu64 " events lost", count);
    write_instant(chrome, &event, name);
}

void cli_chrome_end(struct cli_chrome *chrome, uint64_t event_count, uint64_t lost_count)
{
    if (!chrome->has_first)
        fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", chrome->file);
    close_all(chrome, chrome->last_ns);
    fprintf(chrome->file,
            "],\n\"otherData\":{\"first_ns\":\"%" PRId64 "\",\"events\":\"%" PRIu64
            "\",\"lost_events\":\"%" PRIu64 "\"}}\n",
            chrome->first_ns, event_count, lost_count);
}

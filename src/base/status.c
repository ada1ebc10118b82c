/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(char *text, size_t size)
{
    memcpy(text + size - 4, "...", 4);
}

enum c7x_status c7x_error_set(struct c7x_error *error, enum c7x_status status, const char *station,
                              const char *format, ...)
{
    if (error == NULL)
        return status;
    va_list arguments;
    va_start(arguments, format);
    char text[C7X_ERROR_TEXT_MAX]; /* the arguments may point into error->text */
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    c7x_error_clear(error);
    error->status = status;
    error->station = station;
    if (length < 0)
        return status;
    size_t size = (size_t)length < sizeof text ? (size_t)length + 1 : sizeof text;
    memcpy(error->text, text, size);
    if ((size_t)length >= sizeof text)
        mark_cut(error->text, sizeof error->text);
    return status;
}

enum c7x_status c7x_error_set_oom(struct c7x_error *error, const char *station, struct c7x_oom oom,
                                  const char *what)
{
    c7x_error_set(error, C7X_NOMEM, station,
                  "%s needs %llu bytes; free %llu, largest free block %llu, total %llu", what,
                  (unsigned long long)oom.requested, (unsigned long long)oom.free,
                  (unsigned long long)oom.largest, (unsigned long long)oom.total);
    if (error != NULL)
        error->oom = oom;
    return C7X_NOMEM;
}

void c7x_error_append(struct c7x_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    size_t used = strlen(error->text);
    size_t room = sizeof error->text - used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text + used, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length >= room)
        mark_cut(error->text, sizeof error->text);
}

void c7x_error_clear(struct c7x_error *error)
{
    error->status = C7X_OK;
    error->station = NULL;
    memset(&error->oom, 0, sizeof error->oom);
    error->required = 0;
    error->text[0] = '\0';
}

struct row {
    int code;
    const char *name;
    const char *text;
    const char *next_step;
};

static const struct row rows[] = {
#define ROW(name, code, text, retry, next) {code, #name, text, next},
    C7X_STATUS_TABLE(ROW)
#undef ROW
};

static const struct row *find(int status)
{
    static const struct row unknown = {0, "UNKNOWN", "Unknown status",
                                       "check the versions of firmware and library"};
    for (size_t i = 0; i < C7X_ARRAY_COUNT(rows); i++)
        if (rows[i].code == status)
            return &rows[i];
    return &unknown;
}

const char *c7x_status_name(int status)
{
    return find(status)->name;
}

const char *c7x_status_text(int status)
{
    return find(status)->text;
}

const char *c7x_status_next_step(int status)
{
    return find(status)->next_step;
}

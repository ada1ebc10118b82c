/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status and error text. A function that can fail returns enum c7x_status; the text that explains
 * the failure is written into a struct c7x_error by the function where it arose and travels up
 * unchanged. Nobody logs an error that it returns: the station that turns it into a reply does,
 * once.
 */
#ifndef C7X_BASE_STATUS_H
#define C7X_BASE_STATUS_H

#include "base/compiler.h"
#include "c7x_status.h"

#include <stddef.h>
#include <stdint.h>

/* Room for a whole list of missing symbols; longer text is cut and ends with "...". */
#define C7X_ERROR_TEXT_MAX 4096

/* What was asked for and what there was, when status is C7X_NOMEM; all in bytes. */
struct c7x_oom {
    uint64_t requested;
    uint64_t free;
    uint64_t largest;
    uint64_t total;
};

struct c7x_error {
    enum c7x_status status;
    const char *station; /* static name of the station where it arose, NULL while there is none */
    struct c7x_oom oom;  /* all zero unless status is C7X_NOMEM */
    uint64_t required;   /* bytes that the output buffer needs, when status is C7X_SIZE; else 0 */
    char text[C7X_ERROR_TEXT_MAX];
};

/*
 * Records a failure and returns `status`, so that `return c7x_error_set(...)` reads as one step.
 * `station` must be a static string. `error` may be NULL; a second failure replaces the first one.
 */
enum c7x_status c7x_error_set(struct c7x_error *error, enum c7x_status status, const char *station,
                              const char *format, ...) C7X_PRINTF(4, 5);

/* The same for C7X_NOMEM, with the numbers of the pool that was too small. */
enum c7x_status c7x_error_set_oom(struct c7x_error *error, const char *station, struct c7x_oom oom,
                                  const char *what);

/* Appends to the text of an error that has already been set; cut text ends with "...". */
void c7x_error_append(struct c7x_error *error, const char *format, ...) C7X_PRINTF(2, 3);

void c7x_error_clear(struct c7x_error *error);

/* Short upper-case name ("NOMEM") and one-line text of a code; "UNKNOWN" and "Unknown status" for
 * others. */
const char *c7x_status_name(int status);
const char *c7x_status_text(int status);
/* What to do about it; never NULL. */
const char *c7x_status_next_step(int status);

#define C7X_RETURN_IF_ERROR(expression)                                                            \
    do {                                                                                           \
        enum c7x_status c7x_status_of_step = (expression);                                         \
        if (c7x_status_of_step != C7X_OK)                                                          \
            return c7x_status_of_step;                                                             \
    } while (0)

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* One of many clients: it runs modules in an order of its own and looks that it gets what it would
 * get alone. It may run in any thread, so it says what went wrong instead of failing the test. */
#ifndef C7X_TESTS_MANY_CLIENT_H
#define C7X_TESTS_MANY_CLIENT_H

#include "many/catalog.h"

#include <stdbool.h>

#define MANY_PRINTED_MAX 65536

struct many_client {
    const struct catalog *catalog;
    int number; /* its name and its seed */
    struct c7x_client *client;
    uint32_t handles[CATALOG_MODELS_MAX];
    uint32_t says;      /* a module that prints what it is given */
    uint32_t run_count; /* inferences that succeeded */
    uint32_t said_count;
    uint32_t hello_count; /* of "prints" */
    uint32_t busy_count;  /* refusals because a queue was full */
    uint64_t random;
    size_t printed_size;
    char printed[MANY_PRINTED_MAX];
    char failure[512]; /* "" if all went well */
};

/* Opens the device and loads everything. All return false after a failure. */
bool many_client_begin(struct many_client *self, const struct catalog *catalog, int number,
                       const char *device);
/* Runs `rounds` times something, waiting for it or several at once. */
bool many_client_run(struct many_client *self, int rounds);
/* Looks at what was printed, and closes. To be called in any case. */
bool many_client_end(struct many_client *self);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules that many clients run at once, with inputs and what each gives when it runs alone:
 * small ones of the tests, and two real networks if they have been built. Failures fail the running
 * test.
 */
#ifndef C7X_TESTS_MANY_CATALOG_H
#define C7X_TESTS_MANY_CATALOG_H

#include "c7x_compute_client.h"
#include "support/environment.h"

#define CATALOG_MODELS_MAX 8
#define CATALOG_VARIANTS 4 /* sets of inputs of each model */
#define CATALOG_INPUTS_MAX 8
#define CATALOG_OUTPUTS_MAX 8

struct catalog_model {
    const char *name;
    char path[C7X_TEST_PATH_MAX];
    int input_count;
    struct c7x_client_tensor inputs[CATALOG_VARIANTS][CATALOG_INPUTS_MAX];
    uint64_t results[CATALOG_VARIANTS]; /* hashes of all outputs, when it runs alone */
};

struct catalog {
    int model_count;
    struct catalog_model models[CATALOG_MODELS_MAX];
};

/* Fills in all but the results. Real networks are looked for in $C7X_MODELS, else in the folder
 * build/models beside the build folder. */
void catalog_make(struct catalog *catalog);
void catalog_free(struct catalog *catalog);
/* Every bit of the outputs, and their types and shapes, in 64. */
uint64_t catalog_hash(const struct c7x_client_tensor *outputs, int count);
/* Results to a file, and back. */
void catalog_write_results(const struct catalog *catalog, const char *path);
void catalog_read_results(struct catalog *catalog, const char *path);

#endif

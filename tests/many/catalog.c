/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "many/catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Memory of the catalog, filled with what the type allows: numbers from 0 to 1, or small ones. */
static void fill(struct c7x_client_tensor *tensor, uint64_t seed)
{
    size_t bytes = (size_t)tensor->dtype_bits / 8;
    size_t count = 1;
    for (int i = 0; i < tensor->ndim; i++)
        count *= (size_t)tensor->shape[i];
    tensor->data_size = count * bytes;
    tensor->data = calloc(1, tensor->data_size + 1);
    assert_non_null(tensor->data);
    for (size_t i = 0; i < count; i++) {
        uint64_t random = next_random(&seed);
        float number = (float)(random % 65536) / 65536;
        int64_t integer = (int64_t)(random % 100);
        if (tensor->dtype_code == C7X_DTYPE_FLOAT && bytes == sizeof number)
            memcpy((uint8_t *)tensor->data + i * bytes, &number, sizeof number);
        else
            memcpy((uint8_t *)tensor->data + i * bytes, &integer, bytes); /* little-endian */
    }
}

static struct catalog_model *add(struct catalog *catalog, const char *name)
{
    assert_true(catalog->model_count < CATALOG_MODELS_MAX);
    struct catalog_model *model = &catalog->models[catalog->model_count++];
    memset(model, 0, sizeof *model);
    model->name = name;
    return model;
}

static uint64_t seed_of(const struct catalog *catalog, int variant, int input)
{
    return (uint64_t)catalog->model_count * 10000 + (uint64_t)variant * 100 + (uint64_t)input + 1;
}

/* A module that takes any int32 [1]. */
static void add_small(struct catalog *catalog, const char *name, int input_count)
{
    struct catalog_model *model = add(catalog, name);
    c7x_test_module_path(name, model->path);
    model->input_count = input_count;
    for (int variant = 0; variant < CATALOG_VARIANTS; variant++)
        for (int i = 0; i < input_count; i++) {
            struct c7x_client_tensor *input = &model->inputs[variant][i];
            *input = (struct c7x_client_tensor){NULL, 0, 1, C7X_DTYPE_INT, 32, 0, {1}};
            fill(input, seed_of(catalog, variant, i));
        }
}

/* A module that declares its inputs. */
static void add_declared(struct catalog *catalog, const char *name, const char *path)
{
    struct catalog_model *model = add(catalog, name);
    struct c7x_module_declaration *declaration;
    assert_true((size_t)snprintf(model->path, sizeof model->path, "%s", path) < sizeof model->path);
    if (c7x_module_declaration_read(path, &declaration) != C7X_OK)
        fail_msg("%s: %s", path, c7x_client_last_error(NULL));
    model->input_count = c7x_module_declaration_input_count(declaration);
    assert_true(model->input_count <= CATALOG_INPUTS_MAX);
    for (int variant = 0; variant < CATALOG_VARIANTS; variant++)
        for (int i = 0; i < model->input_count; i++) {
            struct c7x_module_tensor declared = {.struct_size = sizeof declared};
            struct c7x_client_tensor *input = &model->inputs[variant][i];
            assert_int_equal(c7x_module_declaration_input(declaration, i, &declared), C7X_OK);
            *input = (struct c7x_client_tensor){.ndim = declared.ndim,
                                                .dtype_code = declared.dtype_code,
                                                .dtype_bits = declared.dtype_bits};
            memcpy(input->shape, declared.shape, sizeof input->shape);
            fill(input, seed_of(catalog, variant, i));
        }
    c7x_module_declaration_free(declaration);
}

static void add_network(struct catalog *catalog, const char *name)
{
    const char *models = getenv("C7X_MODELS");
    const char *build = getenv("C7X_BUILD_DIR");
    char path[C7X_TEST_PATH_MAX];
    int length = models != NULL ? snprintf(path, sizeof path, "%s/%s/lib0.out", models, name)
                                : snprintf(path, sizeof path, "%s/../build/models/%s/lib0.out",
                                           build != NULL ? build : ".", name);
    assert_true(length > 0 && (size_t)length < sizeof path);
    if (access(path, R_OK) == 0)
        add_declared(catalog, name, path);
}

void catalog_make(struct catalog *catalog)
{
    char path[C7X_TEST_PATH_MAX];
    catalog->model_count = 0;
    c7x_test_module_path("add_one", path);
    add_declared(catalog, "add_one", path);
    add_small(catalog, "sums", 3);
    add_small(catalog, "many_outputs", 0);
    add_small(catalog, "prints", 0);
    add_network(catalog, "ppocr-cls");
    add_network(catalog, "silero-vad-16k");
}

void catalog_free(struct catalog *catalog)
{
    for (int i = 0; i < catalog->model_count; i++)
        for (int variant = 0; variant < CATALOG_VARIANTS; variant++)
            for (int input = 0; input < catalog->models[i].input_count; input++)
                free(catalog->models[i].inputs[variant][input].data);
}

static void hash_bytes(uint64_t *hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *hash = (*hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

uint64_t catalog_hash(const struct c7x_client_tensor *outputs, int count)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < count; i++) {
        hash_bytes(&hash, &outputs[i].data_size, sizeof outputs[i].data_size);
        hash_bytes(&hash, &outputs[i].dtype_code, sizeof outputs[i].dtype_code);
        hash_bytes(&hash, &outputs[i].dtype_bits, sizeof outputs[i].dtype_bits);
        hash_bytes(&hash, outputs[i].shape, (size_t)outputs[i].ndim * sizeof outputs[i].shape[0]);
        hash_bytes(&hash, outputs[i].data, outputs[i].data_size);
    }
    return hash;
}

void catalog_write_results(const struct catalog *catalog, const char *path)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < catalog->model_count; i++)
        assert_int_equal(
            fwrite(catalog->models[i].results, sizeof catalog->models[i].results, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

void catalog_read_results(struct catalog *catalog, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int i = 0; i < catalog->model_count; i++)
        assert_int_equal(
            fread(catalog->models[i].results, sizeof catalog->models[i].results, 1, file), 1);
    fclose(file);
}

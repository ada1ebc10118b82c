/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/tvm/model.h"

#include "base/checked.h"
#include "firmware/tvm/tvm_impl.h"

#include <stdatomic.h>
#include <string.h>

struct model {
    uint32_t generation; /* how many models the slot has held before */
    uint32_t session;
    uint32_t pin_count;
    uint32_t owner; /* of its blocks */
    bool used;
    bool unload_at_unpin;
    bool is_overwritten; /* where it is staged, and used */
    uint8_t *copy;       /* of the blob, in the heap; NULL when it is used where it is staged */
    struct c7x_constants constants;
    c7x_dsp_addr address; /* where it was staged, and how many bytes */
    uint64_t staged_size;
    void (*release_bytes)(void *context, c7x_dsp_addr address);
    void *release_context;
};

/* Slots change under c7x_tvm_models_lock, in the core's one job at a time, so that the job itself
 * may look without it. */
static struct model models[C7X_TVM_MODEL_COUNT_MAX];
static uint32_t next_index;
static atomic_uint used_count;

/* id = generation * slots + index + 1, so that ids count up from 1 as in version 3.0. */
static uint32_t id_of(uint32_t index)
{
    return models[index].generation * C7X_TVM_MODEL_COUNT_MAX + index + 1;
}

static struct model *find(uint32_t session, uint32_t id)
{
    struct model *model = &models[(id - 1) % C7X_TVM_MODEL_COUNT_MAX];
    if (id == 0 || !model->used || model->unload_at_unpin ||
        id_of((id - 1) % C7X_TVM_MODEL_COUNT_MAX) != id ||
        (model->session != 0 && model->session != session))
        return NULL;
    return model;
}

static enum c7x_status refuse_id(uint32_t id, struct c7x_error *error)
{
    return c7x_error_set(error, C7X_HANDLE, "tvm", "no model with id %u", (unsigned)id);
}

/* Slots are taken in turn, so that an id is not used again soon. A load that fails takes none. */
static struct model *find_slot(uint32_t *out_index)
{
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++) {
        uint32_t index = (next_index + i) % C7X_TVM_MODEL_COUNT_MAX;
        if (!models[index].used) {
            *out_index = index;
            return &models[index];
        }
    }
    return NULL;
}

static void release_bytes(const struct model *model)
{
    if (model->release_bytes != NULL)
        model->release_bytes(model->release_context, model->address);
}

static void clear(struct model *model)
{
    struct model last = *model;
    c7x_os_mutex_lock(&c7x_tvm_models_lock);
    *model = (struct model){.generation = last.generation + 1};
    c7x_os_mutex_unlock(&c7x_tvm_models_lock);
    c7x_constants_unload(&last.constants);
    if (last.copy != NULL)
        c7x_heap_free(c7x_tvm.heap, last.copy);
    else
        release_bytes(&last);
    (void)atomic_fetch_sub(&used_count, 1);
}

static enum c7x_status copy_bytes(struct model *model, const struct c7x_tvm_model_load *load,
                                  struct c7x_error *error)
{
    if (!load->copy || load->size > SIZE_MAX)
        return C7X_OK;
    model->copy = c7x_heap_alloc(c7x_tvm.heap, model->owner, (size_t)load->size, 0);
    if (model->copy == NULL && load->in_place_if_full)
        return C7X_OK;
    if (model->copy == NULL)
        return c7x_error_set_oom(error, "tvm", c7x_heap_oom(c7x_tvm.heap, (size_t)load->size),
                                 "copy of the weights");
    c7x_memory_copy(model->copy, load->bytes, load->size);
    return C7X_OK;
}

static enum c7x_status fill(struct model *model, const struct c7x_tvm_model_load *load,
                            struct c7x_error *error)
{
    C7X_RETURN_IF_ERROR(copy_bytes(model, load, error));
    return c7x_constants_load(model->copy != NULL ? model->copy : load->bytes, load->size,
                              c7x_tvm.heap, model->owner, &model->constants, error);
}

static enum c7x_status load_into(struct model *model, const struct c7x_tvm_model_load *load,
                                 struct c7x_error *error)
{
    enum c7x_status status = fill(model, load, error);
    if (status != C7X_OK) {
        c7x_heap_free(c7x_tvm.heap, model->copy);
        model->copy = NULL;
        release_bytes(model);
        return status;
    }
    if (model->copy != NULL)
        release_bytes(model);
    model->session = load->session;
    c7x_os_mutex_lock(&c7x_tvm_models_lock);
    model->used = true;
    c7x_os_mutex_unlock(&c7x_tvm_models_lock);
    (void)atomic_fetch_add(&used_count, 1);
    return C7X_OK;
}

enum c7x_status c7x_tvm_model_load(const struct c7x_tvm_model_load *load, uint32_t *out_id,
                                   uint32_t *out_constant_count, struct c7x_error *error)
{
    uint32_t index = 0;
    struct model *model = find_slot(&index);
    if (model == NULL) {
        if (load->release_bytes != NULL)
            load->release_bytes(load->release_context, load->address);
        return c7x_error_set(error, C7X_BUSY, "tvm", "%u models are loaded already",
                             C7X_TVM_MODEL_COUNT_MAX);
    }
    model->owner = c7x_heap_owner_new(c7x_tvm.heap);
    model->address = load->address;
    model->staged_size = load->size;
    model->release_bytes = load->release_bytes;
    model->release_context = load->release_context;
    C7X_RETURN_IF_ERROR(load_into(model, load, error));
    next_index = index + 1;
    *out_id = id_of(index);
    *out_constant_count = model->constants.count;
    return C7X_OK;
}

static void unload(struct model *model)
{
    if (model->pin_count != 0)
        model->unload_at_unpin = true;
    else
        clear(model);
}

enum c7x_status c7x_tvm_model_unload(uint32_t session, uint32_t id, struct c7x_error *error)
{
    struct model *model = find(session, id);
    if (model == NULL)
        return refuse_id(id, error);
    unload(model);
    return C7X_OK;
}

void c7x_tvm_model_overwrite(uint32_t session, c7x_dsp_addr address, uint64_t size)
{
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++) {
        if (models[i].used && models[i].session == session && models[i].copy == NULL &&
            c7x_ranges_overlap(models[i].address, models[i].staged_size, address, size))
            models[i].is_overwritten = true;
    }
}

uint32_t c7x_tvm_model_owner_at(c7x_dsp_addr address, uint64_t size)
{
    uint32_t owner = 0;
    c7x_os_mutex_lock(&c7x_tvm_models_lock);
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX && owner == 0; i++) {
        if (models[i].used && models[i].copy == NULL &&
            c7x_ranges_overlap(models[i].address, models[i].staged_size, address, size))
            owner = models[i].owner;
    }
    c7x_os_mutex_unlock(&c7x_tvm_models_lock);
    return owner;
}

void c7x_tvm_model_unload_session(uint32_t session)
{
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++) {
        if (models[i].used && models[i].session == session)
            unload(&models[i]);
    }
}

void c7x_tvm_model_unload_all(void)
{
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++) {
        if (models[i].used)
            unload(&models[i]);
    }
}

/* Call with the models locked. */
static void describe(uint32_t index, struct c7x_tvm_model_entry *out)
{
    const struct model *model = &models[index];
    *out = (struct c7x_tvm_model_entry){
        .id = id_of(index),
        .session = model->session,
        .owner = model->owner,
        .heap_bytes = c7x_heap_owner_bytes(c7x_tvm.heap, model->owner),
        .staged_bytes = model->copy == NULL ? model->staged_size : 0,
    };
}

uint32_t c7x_tvm_model_list(uint32_t first, struct c7x_tvm_model_entry *out, uint32_t capacity,
                            uint32_t *out_total)
{
    uint32_t total = 0;
    uint32_t count = 0;
    c7x_os_mutex_lock(&c7x_tvm_models_lock);
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++) {
        if (!models[i].used)
            continue;
        if (total >= first && count < capacity)
            describe(i, &out[count++]);
        total++;
    }
    c7x_os_mutex_unlock(&c7x_tvm_models_lock);
    *out_total = total;
    return count;
}

uint32_t c7x_tvm_model_session_count(uint32_t session)
{
    uint32_t count = 0;
    c7x_os_mutex_lock(&c7x_tvm_models_lock);
    for (uint32_t i = 0; i < C7X_TVM_MODEL_COUNT_MAX; i++)
        count += models[i].used && models[i].session == session;
    c7x_os_mutex_unlock(&c7x_tvm_models_lock);
    return count;
}

uint32_t c7x_tvm_model_count(void)
{
    return atomic_load(&used_count);
}

enum c7x_status c7x_tvm_model_pin(uint32_t session, uint32_t id,
                                  const struct c7x_constants **out_constants,
                                  struct c7x_error *error)
{
    struct model *model = find(session, id);
    if (model == NULL)
        return refuse_id(id, error);
    if (model->is_overwritten)
        return c7x_error_set(error, C7X_HANDLE, "tvm",
                             "model %u was overwritten where it was staged, by a later load",
                             (unsigned)id);
    model->pin_count++;
    *out_constants = &model->constants;
    return C7X_OK;
}

void c7x_tvm_model_unpin(uint32_t id)
{
    struct model *model = &models[(id - 1) % C7X_TVM_MODEL_COUNT_MAX];
    if (id == 0 || model->pin_count == 0 || id_of((id - 1) % C7X_TVM_MODEL_COUNT_MAX) != id)
        return;
    if (--model->pin_count == 0 && model->unload_at_unpin)
        clear(model);
}

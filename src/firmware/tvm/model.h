/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that came by MODEL_LOAD, for modules without weights of their own. */
#ifndef C7X_FIRMWARE_TVM_MODEL_H
#define C7X_FIRMWARE_TVM_MODEL_H

#include "base/status.h"
#include "firmware/memory/memory.h"
#include "firmware/tvm/constants.h"

#include <stdbool.h>

#define C7X_TVM_MODEL_COUNT_MAX 1024u

struct c7x_tvm_model_load {
    const uint8_t
        *bytes; /* the staged blob; pinned by the caller until `release_bytes` is called */
    uint64_t size;
    c7x_dsp_addr address;  /* where it is staged */
    uint32_t session;      /* owner; 0: the device, for all */
    bool copy;             /* the staged bytes will not stay: copy them to the heap */
    bool in_place_if_full; /* but use them in place when they do not fit there */
    /* Called once, as for modules: at once when copied, at unload otherwise, and on failure. May be
     * NULL. */
    void (*release_bytes)(void *context, c7x_dsp_addr address);
    void *release_context;
};

/* C7X_WEIGHTS, C7X_NOMEM, C7X_BUSY when the table is full. Ids are index + generation, never 0. */
enum c7x_status c7x_tvm_model_load(const struct c7x_tvm_model_load *load, uint32_t *out_id,
                                   uint32_t *out_constant_count,
                                   struct c7x_error *error) C7X_NODISCARD;

/* C7X_HANDLE: unknown to the session. A model in use by a call stays until that has ended. */
enum c7x_status c7x_tvm_model_unload(uint32_t session, uint32_t id,
                                     struct c7x_error *error) C7X_NODISCARD;
void c7x_tvm_model_unload_session(uint32_t session);
void c7x_tvm_model_unload_all(void);

/* As of modules: the session's models that lie in this range are being overwritten. */
void c7x_tvm_model_overwrite(uint32_t session, c7x_dsp_addr address, uint64_t size);
/* As c7x_module_owner_at(). Any task. */
uint32_t c7x_tvm_model_owner_at(c7x_dsp_addr address, uint64_t size);

/* What a list says about a model. */
struct c7x_tvm_model_entry {
    uint32_t id;
    uint32_t session;
    uint32_t owner; /* of its blocks in the heap */
    uint64_t heap_bytes;
    uint64_t staged_bytes; /* used in place; 0: copied */
};

/* Copies up to `capacity` models from number `first` on and returns how many; *out_total is how
 * many there are. What one call copies is of one moment. Any task, like the next two. */
uint32_t c7x_tvm_model_list(uint32_t first, struct c7x_tvm_model_entry *out, uint32_t capacity,
                            uint32_t *out_total);
uint32_t c7x_tvm_model_session_count(uint32_t session);
uint32_t c7x_tvm_model_count(void);

/* The constants, which stay until c7x_tvm_model_unpin(). C7X_HANDLE. */
enum c7x_status c7x_tvm_model_pin(uint32_t session, uint32_t id,
                                  const struct c7x_constants **out_constants,
                                  struct c7x_error *error) C7X_NODISCARD;
void c7x_tvm_model_unpin(uint32_t id);

#endif

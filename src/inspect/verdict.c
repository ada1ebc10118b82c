/* SPDX-License-Identifier: Apache-2.0 */
/* What a device would say to the module: the steps of its load, but for those that run code. */
#include "inspect/inspect_impl.h"

#include "base/checked.h"
#include "firmware/loader/arch/arch.h"
#include "firmware/tvm/tvm.h"

#include <inttypes.h>
#include <string.h>

/* The client lets a window start at a line of its own. */
#define WINDOW_SLACK 256u

static enum c7x_status judge_machine(struct c7x_inspector *self)
{
    if (strcmp(self->result.machine, self->result.device) == 0)
        return C7X_OK;
    return c7x_error_set(&self->error, C7X_LOAD, "loader", "built for %s; this device executes %s",
                         self->result.machine, self->result.device);
}

/* Binds the module to a runtime whose memory is this inspection's, and leaves it so: letting go
 * would run the module's hooks. All of it goes with the heap. */
static enum c7x_status judge_contents(struct c7x_inspector *self)
{
    struct c7x_tvm_config config = {.heap = self->heap, .l2_size = C7X_MEMORY_L2_SIZE};
    struct c7x_module_io io;
    void *instance;
    uint32_t owner = c7x_heap_owner_new(self->heap);
    c7x_tvm_init(&config);
    C7X_RETURN_IF_ERROR(
        c7x_tvm_kind.bind(c7x_loader_symbols(self->program), owner, &instance, &io, &self->error));
    self->result.bytes.load += c7x_heap_owner_bytes(self->heap, owner);
    return C7X_OK;
}

static enum c7x_status refuse_size(struct c7x_inspector *self, const char *what, uint64_t needed,
                                   uint64_t available)
{
    return c7x_error_set(&self->error, C7X_NOMEM, "inspect",
                         "needs %" PRIu64 " bytes of %s; the device has %" PRIu64, needed, what,
                         available);
}

static enum c7x_status judge_size(struct c7x_inspector *self)
{
    const struct c7x_inspect_bytes *bytes = &self->result.bytes;
    const struct c7x_inspect_manifest *manifest = &self->result.manifest;
    struct c7x_heap_statistics heap;
    uint64_t shared = UINT64_MAX;
    c7x_heap_get_statistics(self->heap, &heap);
    if (bytes->workspace > heap.largest)
        return refuse_size(self, "workspace beside the module", bytes->workspace, heap.largest);
    if (manifest->l2_bytes > C7X_MEMORY_L2_SIZE)
        return refuse_size(self, "L2 memory", manifest->l2_bytes, C7X_MEMORY_L2_SIZE);
    if (manifest->fast_bytes > C7X_MEMORY_FAST_SIZE)
        return refuse_size(self, "fast memory", manifest->fast_bytes, C7X_MEMORY_FAST_SIZE);
    if (!c7x_add_size(bytes->file, bytes->input, &shared) ||
        !c7x_add_size(shared, bytes->output, &shared) ||
        !c7x_add_size(shared, WINDOW_SLACK, &shared) || shared > C7X_MEMORY_CARVEOUT_SIZE)
        return refuse_size(self, "shared memory for the file and its inputs and outputs", shared,
                           C7X_MEMORY_CARVEOUT_SIZE);
    return C7X_OK;
}

enum c7x_status c7x_inspector_judge(struct c7x_inspector *self)
{
    C7X_RETURN_IF_ERROR(c7x_tvm_kind.check(c7x_loader_symbols(self->program),
                                           c7x_loader_is_native(self->program), &self->error));
    C7X_RETURN_IF_ERROR(c7x_loader_link(self->program, &self->error));
    C7X_RETURN_IF_ERROR(judge_machine(self));
    C7X_RETURN_IF_ERROR(judge_contents(self));
    return judge_size(self);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One inference: inputs into shared memory, the request, outputs and printed text back out of it.
 */
#include "client_impl.h"

#include "base/checked.h"
#include "base/trace.h"

#include <string.h>

/* The inputs of one inference on their way into its window. */
struct placing {
    struct c7x_client *client;
    struct c7x_io *io;
    const struct c7x_client_tensor *inputs;
    int count;
    uint32_t handle; /* of the module */
    bool is_kv_resident;
    uint32_t kv_index; /* of the next slot */
    uint64_t end;      /* of what has been copied */
};

/* An input without data stands for the next slot of the module's KV cache. */
static bool is_kv_input(const struct placing *placing, int index)
{
    const struct c7x_client_tensor *tensor = &placing->inputs[index];
    return placing->is_kv_resident && tensor->data == NULL && tensor->data_size != 0;
}

/* The offset of data that already lies in the input buffer, or SIZE_MAX. */
static size_t offset_in_input(const struct c7x_io *io, const struct c7x_client_tensor *tensor)
{
    uintptr_t start = (uintptr_t)io->input.pointer;
    uintptr_t data = (uintptr_t)tensor->data;
    if (io->input.pointer == NULL || data < start || data - start >= io->input.size)
        return SIZE_MAX;
    return data - start;
}

static enum c7x_status check_input(const struct placing *placing, int index)
{
    const struct c7x_io *io = placing->io;
    const struct c7x_client_tensor *tensor = &placing->inputs[index];
    if (tensor->ndim < 0 || tensor->ndim > C7X_CLIENT_RANK_MAX)
        return c7x_error_set(c7x_client_thread_error(), C7X_TENSOR, C7X_CLIENT_STATION,
                             "input %d: rank %d is not 0 to %d", index, tensor->ndim,
                             C7X_CLIENT_RANK_MAX);
    if (tensor->data == NULL && tensor->data_size != 0 && !is_kv_input(placing, index))
        return c7x_error_set(c7x_client_thread_error(), C7X_TENSOR, C7X_CLIENT_STATION,
                             "input %d: no data for %zu bytes", index, tensor->data_size);
    size_t offset = offset_in_input(io, tensor);
    if (offset != SIZE_MAX && tensor->data_size > io->input.size - offset)
        return c7x_error_set(c7x_client_thread_error(), C7X_TENSOR, C7X_CLIENT_STATION,
                             "input %d: %zu bytes reach past the end of the input buffer", index,
                             tensor->data_size);
    return C7X_OK;
}

/* Copies go behind what create_input has given out. */
static uint64_t copies_start(const struct c7x_io *io)
{
    return io->placed_end > io->data_offset ? io->placed_end : io->data_offset;
}

/* Checks the inputs and finds how large the input buffer must be for those that are copied. */
static enum c7x_status measure_inputs(const struct placing *placing, uint64_t *out_needed)
{
    struct c7x_io *io = placing->io;
    uint64_t descriptors =
        c7x_round_up((uint64_t)placing->count * sizeof(struct c7x_tensor_desc), 64);
    if (io->data_offset < descriptors)
        io->data_offset = (size_t)descriptors;
    uint64_t end = copies_start(io);
    for (int i = 0; i < placing->count; i++) {
        C7X_RETURN_IF_ERROR(check_input(placing, i));
        if (is_kv_input(placing, i) || offset_in_input(io, &placing->inputs[i]) != SIZE_MAX)
            continue;
        if (io->own_input != NULL)
            return c7x_error_set(c7x_client_thread_error(), C7X_TENSOR, C7X_CLIENT_STATION,
                                 "input %d does not lie in buffer %s", i, io->own_input->name);
        if (!c7x_align_size(end, C7X_CLIENT_TENSOR_ALIGNMENT, &end) ||
            !c7x_add_size(end, placing->inputs[i].data_size, &end))
            return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                                 "the inputs are too large");
    }
    *out_needed = end;
    return C7X_OK;
}

/* The first place from `offset` on where `size` bytes overwrite no input that lies there already.
 */
static uint64_t skip_placed(const struct placing *placing, uint64_t offset, uint64_t size)
{
    for (int i = 0; i < placing->count; i++) {
        size_t placed = offset_in_input(placing->io, &placing->inputs[i]);
        uint64_t placed_size = placing->inputs[i].data_size;
        if (placed == SIZE_MAX || placed >= offset + size || placed + placed_size <= offset)
            continue;
        offset = c7x_round_up(placed + placed_size, C7X_CLIENT_TENSOR_ALIGNMENT);
        i = -1;
    }
    return offset;
}

/* Copies an input behind those that have been. */
static enum c7x_status copy_input(struct placing *placing, int index, uint64_t *out_offset)
{
    const struct c7x_client_tensor *tensor = &placing->inputs[index];
    const struct c7x_buffer *buffer = &placing->io->input;
    uint64_t start = c7x_round_up(placing->end, C7X_CLIENT_TENSOR_ALIGNMENT);
    uint64_t offset = skip_placed(placing, start, tensor->data_size);
    if (!c7x_range_inside(offset, tensor->data_size, 0, buffer->size))
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "input %d: %zu bytes do not fit the input buffer of %zu beside what "
                             "is in it",
                             index, tensor->data_size, buffer->size);
    if (tensor->data_size != 0)
        memcpy((uint8_t *)buffer->pointer + offset, tensor->data, tensor->data_size);
    placing->end = offset + tensor->data_size;
    *out_offset = offset;
    return C7X_OK;
}

/* Where the DSP finds the input: in a KV slot, where the caller has put it, or where it is copied.
 */
static enum c7x_status find_address(struct placing *placing, int index, uint64_t *out_address)
{
    const struct c7x_client_tensor *tensor = &placing->inputs[index];
    uint64_t offset = offset_in_input(placing->io, tensor);
    if (is_kv_input(placing, index))
        return c7x_client_kv_slot(placing->client, placing->handle, placing->kv_index++,
                                  tensor->data_size, out_address);
    if (offset == SIZE_MAX)
        C7X_RETURN_IF_ERROR(copy_input(placing, index, &offset));
    *out_address = placing->io->input.dsp_address + offset;
    return C7X_OK;
}

static enum c7x_status place_input(struct placing *placing, int index,
                                   struct c7x_wire_tensor *out_wire)
{
    const struct c7x_client_tensor *tensor = &placing->inputs[index];
    uint64_t address;
    C7X_RETURN_IF_ERROR(find_address(placing, index, &address));
    *out_wire = (struct c7x_wire_tensor){
        .data_addr = address,
        .data_size = tensor->data_size,
        .ndim = tensor->ndim,
        .dtype_code = tensor->dtype_code,
        .dtype_bits = tensor->dtype_bits,
    };
    memcpy(out_wire->shape, tensor->shape, sizeof out_wire->shape);
    return C7X_OK;
}

/* Room for the descriptors: in front of the input buffer, unless the caller has placed inputs
 * there. */
static enum c7x_status place_descriptors(struct placing *placing, uint64_t *out_offset)
{
    uint64_t size = (uint64_t)placing->count * sizeof(struct c7x_tensor_desc);
    uint64_t offset = skip_placed(placing, 0, size);
    if (!c7x_range_inside(offset, size, 0, placing->io->input.size))
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "%d descriptors do not fit the input buffer of %zu bytes beside what "
                             "is in it",
                             placing->count, placing->io->input.size);
    *out_offset = offset;
    if (placing->end < offset + size)
        placing->end = offset + size;
    return C7X_OK;
}

/* Fills in the request's inputs: inline when they fit a frame, else as an array in the input
 * buffer. 3.0 firmware takes fewer than five inline. */
static enum c7x_status place_inputs(struct placing *placing, struct c7x_request *request)
{
    const struct c7x_io *io = placing->io;
    struct c7x_wire_infer *infer = &request->body.infer;
    uint64_t array = 0;
    bool is_large = (unsigned)placing->count >= C7X_WIRE_INLINE_INPUTS_MAX;
    placing->end = copies_start(io);
    request->type = is_large ? C7X_MSG_INFER_LARGE : C7X_MSG_INFER;
    if (is_large)
        C7X_RETURN_IF_ERROR(place_descriptors(placing, &array));
    for (int i = 0; i < placing->count; i++) {
        struct c7x_wire_tensor wire;
        C7X_RETURN_IF_ERROR(place_input(placing, i, &wire));
        if (is_large)
            c7x_wire_encode_tensor(&wire, (uint8_t *)io->input.pointer + array +
                                              (size_t)i * sizeof(struct c7x_tensor_desc));
        else
            infer->inputs[i] = wire;
    }
    infer->num_inputs = (uint32_t)placing->count;
    infer->descs_addr = is_large ? io->input.dsp_address + array : 0;
    infer->input_dsp_addr = io->input.dsp_address;
    infer->input_size = io->input.size;
    infer->result_dsp_addr = io->output.dsp_address;
    infer->result_size = io->output.size;
    return C7X_OK;
}

static enum c7x_status take_output(const struct c7x_io *io, const struct c7x_wire_tensor *wire,
                                   uint32_t index, struct c7x_client_tensor *output)
{
    if (!c7x_range_inside(wire->data_addr, wire->data_size, io->output.dsp_address,
                          io->output.size))
        return c7x_error_set(c7x_client_thread_error(), C7X_PROTOCOL, C7X_CLIENT_STATION,
                             "output %u does not lie in the output buffer", index);
    *output = (struct c7x_client_tensor){
        .data = (uint8_t *)io->output.pointer + (wire->data_addr - io->output.dsp_address),
        .data_size = wire->data_size,
        .ndim = wire->ndim,
        .dtype_code = wire->dtype_code,
        .dtype_bits = wire->dtype_bits,
        .reserved = wire->reserved,
    };
    memcpy(output->shape, wire->shape, sizeof output->shape);
    return C7X_OK;
}

enum c7x_status c7x_client_take_outputs(const struct c7x_io *io,
                                        const struct c7x_response *response,
                                        struct c7x_client_tensor *outputs, int *inout_count)
{
    struct c7x_client_tensor
        taken[C7X_CLIENT_OUTPUTS_MAX]; /* the caller's only when all are right */
    uint32_t count = response->body.infer.num_outputs;
    uint64_t array = response->body.infer.descs_addr;
    if (*inout_count < 0 || count > (uint32_t)*inout_count)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "the module has %u outputs; there is room for %d", count,
                             *inout_count);
    if (array != 0 && !c7x_range_inside(array, (uint64_t)count * sizeof(struct c7x_tensor_desc),
                                        io->output.dsp_address, io->output.size))
        return c7x_error_set(c7x_client_thread_error(), C7X_PROTOCOL, C7X_CLIENT_STATION,
                             "the output descriptors do not lie in the output buffer");
    const uint8_t *bytes =
        array == 0 ? NULL : (const uint8_t *)io->output.pointer + (array - io->output.dsp_address);
    for (uint32_t i = 0; i < count; i++) {
        struct c7x_wire_tensor wire;
        if (array == 0)
            wire = response->body.infer.outputs[i];
        else if (c7x_wire_decode_tensor(bytes + i * sizeof(struct c7x_tensor_desc), &wire) !=
                 C7X_OK)
            return c7x_error_set(c7x_client_thread_error(), C7X_PROTOCOL, C7X_CLIENT_STATION,
                                 "the descriptor of output %u is wrong", i);
        C7X_RETURN_IF_ERROR(take_output(io, &wire, i, &taken[i]));
    }
    if (count != 0) /* without outputs there need be no array */
        memcpy(outputs, taken, count * sizeof *outputs);
    *inout_count = (int)count;
    return C7X_OK;
}

enum c7x_status c7x_client_prepare(struct c7x_client *client, struct c7x_io *io,
                                   const struct c7x_client_tensor *inputs, int input_count,
                                   int64_t deadline_ns, struct c7x_request *request)
{
    uint64_t needed = 0;
    if (input_count < 0 || input_count > C7X_CLIENT_INPUTS_MAX)
        return c7x_error_set(c7x_client_thread_error(), C7X_INVALID, C7X_CLIENT_STATION,
                             "%d inputs; allowed are 0 to %d", input_count, C7X_CLIENT_INPUTS_MAX);
    if (!client->has_session && (request->body.infer.flags & C7X_WIRE_PRIORITY_MASK) != 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 has no priorities");
    struct placing placing = {
        .client = client,
        .io = io,
        .inputs = inputs,
        .count = input_count,
        .handle = request->body.infer.module_handle,
        .is_kv_resident = (request->body.infer.flags & C7X_WIRE_INFER_KV_RESIDENT) != 0,
    };
    C7X_RETURN_IF_ERROR(measure_inputs(&placing, &needed));
    C7X_RETURN_IF_ERROR(c7x_client_grow_input(client, io, needed, deadline_ns));
    return place_inputs(&placing, request);
}

uint32_t c7x_client_with_priority(struct c7x_client *client, uint32_t handle, uint32_t flags)
{
    if ((flags & C7X_WIRE_PRIORITY_MASK) == 0 && client->options.priority != 0 &&
        !c7x_client_named_priority(client, handle))
        flags |= (uint32_t)client->options.priority << C7X_WIRE_PRIORITY_SHIFT;
    return flags;
}

enum c7x_status c7x_client_grow_for(struct c7x_client *client, struct c7x_io *io,
                                    const struct c7x_response *response,
                                    struct c7x_request *request, int64_t deadline_ns)
{
    uint64_t required = response->body.infer.result_required;
    if (response->status != C7X_SIZE || required <= io->output.size || io->output_locked)
        return C7X_SIZE;
    C7X_RETURN_IF_ERROR(c7x_client_grow_output(client, io, required, deadline_ns));
    request->body.infer.result_dsp_addr = io->output.dsp_address;
    request->body.infer.result_size = io->output.size;
    return C7X_OK;
}

/* ---- The calls that wait, on the client's own buffers ---- */

static enum c7x_status run(struct c7x_client *client, struct c7x_request *request,
                           struct c7x_response *response, int64_t deadline_ns)
{
    struct c7x_host_link *link = client->link;
    struct c7x_io *io = &client->io;
    link->ops->sync_to_device(link, &io->input, 0, io->input.size);
    memset(response, 0, sizeof *response);
    response->header_only = true; /* until there is one */
    enum c7x_status status = c7x_client_exchange(client, request, deadline_ns, response);
    /* A time-out that the device has not told itself: its job may still run. */
    if (status == C7X_TIMEOUT && response->header_only && response->status == C7X_OK)
        c7x_client_abandon_io(client, io, request->seq);
    if (!response->header_only)
        c7x_client_pass_printed(client, response->body.infer.printf_size);
    if (status == C7X_OK)
        link->ops->sync_from_device(link, &io->output, 0, io->output.size);
    return status;
}

static enum c7x_status infer(struct c7x_client *client, struct c7x_request *request,
                             const struct c7x_client_tensor *inputs, int input_count,
                             struct c7x_client_tensor *outputs, int *inout_output_count,
                             uint64_t *out_cycles, int64_t deadline_ns)
{
    struct c7x_response response;
    struct c7x_io *io = &client->io;
    C7X_RETURN_IF_ERROR(c7x_client_prepare(client, io, inputs, input_count, deadline_ns, request));
    enum c7x_status status = run(client, request, &response, deadline_ns);
    if (status == C7X_SIZE) {
        status = c7x_client_grow_for(client, io, &response, request, deadline_ns);
        if (status == C7X_OK)
            status = run(client, request, &response, deadline_ns);
    }
    C7X_RETURN_IF_ERROR(status);
    C7X_RETURN_IF_ERROR(c7x_client_take_outputs(io, &response, outputs, inout_output_count));
    if (out_cycles != NULL)
        *out_cycles = response.body.infer.cycles;
    return C7X_OK;
}

enum c7x_status c7x_client_infer_flags(struct c7x_client *client, uint32_t handle,
                                       uint32_t model_id, const struct c7x_client_tensor *inputs,
                                       int input_count, struct c7x_client_tensor *outputs,
                                       int *inout_output_count, uint64_t *out_cycles,
                                       uint32_t flags)
{
    struct c7x_request request = {0};
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    c7x_client_enter();
    c7x_client_trace(C7X_STATION_CLIENT, 0, 0);
    request.body.infer.module_handle = handle;
    request.body.infer.model_id = model_id;
    request.body.infer.flags = c7x_client_with_priority(client, handle, flags);
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, deadline_ns));
    enum c7x_status status = infer(client, &request, inputs, input_count, outputs,
                                   inout_output_count, out_cycles, deadline_ns);
    c7x_client_give_io(client);
    return status;
}

enum c7x_status c7x_client_infer_repeat(struct c7x_client *client, uint32_t handle,
                                        uint32_t model_id, const struct c7x_client_tensor *inputs,
                                        int input_count, struct c7x_client_tensor *outputs,
                                        int *inout_output_count, uint64_t *out_cycles,
                                        uint32_t repeat)
{
    return c7x_client_infer_flags(client, handle, model_id, inputs, input_count, outputs,
                                  inout_output_count, out_cycles, repeat & C7X_INFER_REPEAT_MASK);
}

enum c7x_status c7x_client_infer(struct c7x_client *client, uint32_t handle, uint32_t model_id,
                                 const struct c7x_client_tensor *inputs, int input_count,
                                 struct c7x_client_tensor *outputs, int *inout_output_count,
                                 uint64_t *out_cycles)
{
    return c7x_client_infer_flags(client, handle, model_id, inputs, input_count, outputs,
                                  inout_output_count, out_cycles, 0);
}

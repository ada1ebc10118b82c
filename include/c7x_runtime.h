/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library for C++14, header only: a loaded module is an object, tensors are DLPack's
 * DLTensor. Link with libc7x_compute (pkg-config and CMake: c7x-compute).
 *
 *     c7x::Module module = c7x::Module::Load("lib0.out");
 *     c7x::OutputTensor y = module.Run(&x);
 *
 * Only Load and Run throw (c7x::Error, a std::runtime_error); everything else is noexcept. One
 * thread at a time may use a module and its functions; different modules are independent. Inputs
 * are row major in host memory. Outputs lie in shared memory: valid until the module's next Run,
 * call or Close.
 *
 * A run has a priority, 1 (highest) to 8: its own, or (0) the module's, which is
 * c7x_client_options' `priority` of Load, else 4.
 */
#ifndef C7X_RUNTIME_H
#define C7X_RUNTIME_H

#include "c7x_compute_client.h"

#ifdef __cplusplus /* in C the header is the client library's alone */

/* DLTensor: the program's own, the installed DLPack, or the same struct of ours. */
#if !defined(DLPACK_DLPACK_H_) && !defined(C7X_MODULE_H) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#if !defined(DLPACK_DLPACK_H_) && !defined(C7X_MODULE_H)
#include "c7x_module.h"
#endif

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace c7x
{

/* Outputs that a caller of Function::call should have room for; Run has C7X_CLIENT_OUTPUTS_MAX. */
constexpr int kMaxOutputs = 64;
constexpr int kMaxInputs = C7X_CLIENT_INPUTS_MAX;
constexpr int kMaxPriority = 8; /* the lowest */

/* What Load and Run throw. what() is the library's text. */
class Error : public std::runtime_error
{
  public:
    Error(int status, const std::string &text) : std::runtime_error(text), status_(status)
    {
    }
    /* enum c7x_status. */
    int status() const noexcept
    {
        return status_;
    }

  private:
    int status_;
};

/* One output. dl.data lies in shared memory; dl.shape points to this object's own _shape, also in
 * copies. */
struct OutputTensor {
    DLTensor dl;
    int64_t _shape[C7X_CLIENT_RANK_MAX];
    size_t data_size; /* bytes */

    OutputTensor() noexcept : dl(), _shape(), data_size(0)
    {
        dl.shape = _shape;
    }
    OutputTensor(const OutputTensor &other) noexcept : OutputTensor()
    {
        *this = other;
    }
    OutputTensor &operator=(const OutputTensor &other) noexcept
    {
        dl = other.dl;
        dl.shape = _shape;
        std::memmove(_shape, other._shape, sizeof _shape);
        data_size = other.data_size;
        return *this;
    }
};

namespace detail
{

/* An input that CreateInput made. */
struct Slot {
    DLTensor dl;
    int64_t shape[C7X_CLIENT_RANK_MAX];
    Slot *next;
};

/* A module's session: shared by Module and its Functions, so that a Function that outlives its
 * module fails instead of dangling. */
struct Session {
    c7x_client *client = nullptr; /* nullptr: closed */
    uint32_t handle = 0;
    uint64_t cycles = 0;
    bool has_room = false; /* HasRoomForInputs has been there */
    Slot *slots = nullptr;
    char error[512] = "";

    Session() = default;
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    ~Session()
    {
        Close();
    }

    void Close() noexcept
    {
        c7x_client_close(client);
        client = nullptr;
        while (slots != nullptr) {
            Slot *next = slots->next;
            delete slots;
            slots = next;
        }
        has_room = false;
    }

    int Fail(int status, const char *format, ...) noexcept
    {
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(error, sizeof error, format, arguments);
        va_end(arguments);
        return status;
    }

    /* Keeps the library's text of a call that failed. */
    int Fail(int status) noexcept
    {
        return Fail(status, "%s", c7x_client_last_error(client));
    }

    int CheckOpen() noexcept
    {
        return client != nullptr ? C7X_OK : Fail(C7X_INVALID, "the module is closed");
    }
};

/* The bytes of a compact tensor; false if they do not fit a size_t. */
inline bool ByteSize(const int64_t *shape, int ndim, unsigned bits, size_t *out_size) noexcept
{
    uint64_t count = 1;
    bool is_empty = false;
    for (int i = 0; i < ndim; i++)
        is_empty = is_empty || shape[i] == 0;
    for (int i = 0; i < ndim && !is_empty; i++) {
        if (static_cast<uint64_t>(shape[i]) > (SIZE_MAX / 2 / (bits != 0 ? bits : 1)) / count)
            return false;
        count *= static_cast<uint64_t>(shape[i]);
    }
    *out_size = is_empty ? 0 : static_cast<size_t>((count * bits + 7) / 8);
    return true;
}

inline bool IsCompact(const DLTensor &tensor) noexcept
{
    int64_t expected = 1;
    for (int i = tensor.ndim - 1; tensor.strides != nullptr && i >= 0; i--) {
        if (tensor.shape[i] == 0)
            return true;
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected)
            return false;
        expected *= tensor.shape[i];
    }
    return true;
}

inline int CheckShape(Session &session, int index, const int64_t *shape, int ndim,
                      DLDataType dtype) noexcept
{
    if (ndim < 0 || ndim > C7X_CLIENT_RANK_MAX)
        return session.Fail(C7X_TENSOR, "input %d: rank %d is not 0 to %d", index, ndim,
                            C7X_CLIENT_RANK_MAX);
    if (shape == nullptr && ndim != 0)
        return session.Fail(C7X_TENSOR, "input %d: no shape", index);
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0)
            return session.Fail(C7X_TENSOR, "input %d: dimension %d is %lld", index, i,
                                static_cast<long long>(shape[i]));
    if (dtype.lanes != 1)
        return session.Fail(C7X_TENSOR, "input %d: vectors of %u lanes are not supported", index,
                            static_cast<unsigned>(dtype.lanes));
    return C7X_OK;
}

/* Checks an input and describes it for the C API. */
inline int Describe(Session &session, int index, const DLTensor *from,
                    c7x_client_tensor *out) noexcept
{
    if (from == nullptr)
        return session.Fail(C7X_TENSOR, "input %d: no tensor", index);
    int status = CheckShape(session, index, from->shape, from->ndim, from->dtype);
    if (status != C7X_OK)
        return status;
    if (from->device.device_type != kDLCPU)
        return session.Fail(C7X_TENSOR, "input %d: device type %d is not the CPU's memory", index,
                            static_cast<int>(from->device.device_type));
    if (!IsCompact(*from))
        return session.Fail(C7X_TENSOR, "input %d: the strides are not compact, row major", index);
    *out = c7x_client_tensor();
    if (!ByteSize(from->shape, from->ndim, from->dtype.bits, &out->data_size))
        return session.Fail(C7X_SIZE, "input %d is too large", index);
    if (from->data != nullptr)
        out->data = static_cast<char *>(from->data) + from->byte_offset;
    out->ndim = from->ndim;
    out->dtype_code = from->dtype.code;
    out->dtype_bits = from->dtype.bits;
    for (int i = 0; i < from->ndim; i++)
        out->shape[i] = from->shape[i];
    return C7X_OK;
}

inline void Take(const c7x_client_tensor &from, OutputTensor *out) noexcept
{
    *out = OutputTensor();
    out->dl.data = from.data;
    out->dl.device.device_type = kDLCPU;
    out->dl.ndim = from.ndim;
    out->dl.dtype.code = static_cast<uint8_t>(from.dtype_code);
    out->dl.dtype.bits = static_cast<uint8_t>(from.dtype_bits);
    out->dl.dtype.lanes = 1;
    std::memcpy(out->_shape, from.shape, sizeof out->_shape);
    out->data_size = from.data_size;
}

/* Input memory for modules that declare no sizes; pages that are not touched cost nothing. */
constexpr uint64_t kUndeclaredInputBytes = 16u << 20;

/*
 * Before the first created input: makes the input buffer large enough for a set of inputs that are
 * copied beside one that is created. Returns false when the module is closed.
 */
inline bool HasRoomForInputs(Session &session) noexcept
{
    uint64_t input_bytes = 0;
    uint64_t output_bytes = 0;
    uint32_t input_count = 0;
    uint32_t output_count = 0;
    uint32_t flags = 0;
    if (session.CheckOpen() != C7X_OK)
        return false;
    if (session.has_room)
        return true;
    uint64_t wanted = c7x_client_input_capacity(session.client);
    int status = c7x_client_get_io_meta(session.client, &input_bytes, &output_bytes, &input_count,
                                        &output_count, &flags);
    if (status == C7X_OK && input_bytes != 0)
        wanted += input_bytes + 128 * (static_cast<uint64_t>(input_count) + 1);
    status = c7x_client_reserve_io(session.client, wanted != 0 ? wanted : kUndeclaredInputBytes, 0);
    session.has_room = true; /* also when it failed: what is there may do */
    return true;
}

inline int Infer(Session &session, const DLTensor *const *inputs, int input_count,
                 OutputTensor *outputs, int *inout_output_count, int priority) noexcept
{
    c7x_client_tensor from[kMaxInputs];
    c7x_client_tensor to[C7X_CLIENT_OUTPUTS_MAX];
    uint64_t cycles = 0;
    int status = session.CheckOpen();
    if (status != C7X_OK)
        return status;
    if (input_count < 0 || input_count > kMaxInputs)
        return session.Fail(C7X_INVALID, "%d inputs; allowed are 0 to %d", input_count, kMaxInputs);
    if (priority < 0 || priority > kMaxPriority)
        return session.Fail(C7X_INVALID, "priority %d; allowed are 1 to %d", priority,
                            kMaxPriority);
    for (int i = 0; i < input_count; i++) {
        status = Describe(session, i, inputs[i], &from[i]);
        if (status != C7X_OK)
            return status;
    }
    int count = *inout_output_count;
    if (count > C7X_CLIENT_OUTPUTS_MAX)
        count = C7X_CLIENT_OUTPUTS_MAX;
    status = c7x_client_infer_flags(session.client, session.handle, 0, from, input_count, to,
                                    &count, &cycles,
                                    static_cast<uint32_t>(priority) << C7X_INFER_PRIORITY_SHIFT);
    if (status != C7X_OK) {
        session.Fail(status);
        if (status == C7X_TIMEOUT)
            session.has_room = false; /* the device may keep the buffer; there will be another */
        return status;
    }
    for (int i = 0; i < count; i++)
        Take(to[i], &outputs[i]);
    *inout_output_count = count;
    session.cycles = cycles;
    return C7X_OK;
}

} // namespace detail

/* The entry of a module, to be called without exceptions. Copies are cheap. */
class Function
{
  public:
    /*
     * Runs the module on `input_count` inputs. *inout_output_count is the room in `outputs`, then
     * the number of outputs. Returns 0 or a negative enum c7x_status, explained by
     * Module::last_error(); on failure outputs and count are untouched.
     */
    int call(const DLTensor *const *inputs, int input_count, OutputTensor *outputs,
             int *inout_output_count, int priority = 0) const noexcept
    {
        if (session_ == nullptr)
            return C7X_INVALID;
        return detail::Infer(*session_, inputs, input_count, outputs, inout_output_count, priority);
    }

  private:
    friend class Module;
    explicit Function(std::shared_ptr<detail::Session> session) noexcept
        : session_(std::move(session))
    {
    }
    std::shared_ptr<detail::Session> session_;
};

/* A module on a device of its own session; the destructor closes it. */
class Module
{
  public:
    /* Opens the device of `options` (nullptr: the default one) and loads the module. Throws Error.
     */
    static Module Load(const std::string &path, const c7x_client_options *options = nullptr)
    {
        std::shared_ptr<detail::Session> session = std::make_shared<detail::Session>();
        int status = c7x_client_open_with(options, &session->client);
        if (status != C7X_OK)
            throw Error(status, c7x_client_last_error(nullptr));
        status = c7x_client_dyn_load(session->client, path.c_str(), &session->handle);
        if (status != C7X_OK)
            throw Error(status, c7x_client_last_error(session->client));
        return Module(std::move(session));
    }

    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;
    Module(Module &&other) noexcept = default;
    Module &operator=(Module &&other) noexcept
    {
        if (this != &other) {
            Close();
            session_ = std::move(other.session_);
        }
        return *this;
    }
    ~Module()
    {
        Close();
    }

    /* A module has one entry: every name means it. */
    Function operator[](const std::string &) const noexcept
    {
        return Function(session_);
    }

    /* For modules of one output. Throws Error. */
    OutputTensor Run(const DLTensor *input, int priority = 0)
    {
        std::vector<OutputTensor> outputs = RunAll(&input, 1, priority);
        if (outputs.size() != 1)
            throw Error(C7X_SIZE, "the module has " + std::to_string(outputs.size()) +
                                      " outputs; Run with a vector returns all of them");
        return outputs[0];
    }

    /* All outputs, in order. Throws Error. */
    std::vector<OutputTensor> Run(const std::vector<DLTensor *> &inputs, int priority = 0)
    {
        if (inputs.size() > static_cast<size_t>(kMaxInputs))
            throw Error(C7X_INVALID, "" + std::to_string(inputs.size()) +
                                         " inputs; allowed are 0 to " + std::to_string(kMaxInputs));
        return RunAll(inputs.data(), static_cast<int>(inputs.size()), priority);
    }

    /*
     * A tensor inside the input buffer, 128-aligned, which Run uses in place; compact, its contents
     * are arbitrary. The module owns it: valid until Close. nullptr if it does not fit (see
     * Reserve). After a call that failed with C7X_TIMEOUT it is ordinary memory, which Run copies
     * and the call that was given up may still read.
     */
    DLTensor *CreateInput(const int64_t *shape, int ndim, DLDataType dtype) noexcept
    {
        c7x_client_tensor tensor;
        if (!IsOpen() || detail::CheckShape(*session_, 0, shape, ndim, dtype) != C7X_OK ||
            !detail::HasRoomForInputs(*session_))
            return nullptr;
        int status =
            c7x_client_create_input(session_->client, shape, ndim, dtype.code, dtype.bits, &tensor);
        if (status != C7X_OK) {
            session_->Fail(status);
            return nullptr;
        }
        return AddSlot(tensor.data, shape, ndim, dtype);
    }

    /* Makes the shared buffers at least this large; before the first CreateInput or StagingBuffer.
     * 0, or negative: C7X_LOCKED, C7X_NOMEM, C7X_SIZE. */
    int Reserve(uint64_t input_bytes, uint64_t output_bytes) noexcept
    {
        if (!IsOpen())
            return C7X_INVALID;
        int status = c7x_client_reserve_io(session_->client, input_bytes, output_bytes);
        return status == C7X_OK ? C7X_OK : session_->Fail(status);
    }

    /* The whole input buffer, valid until Close; nullptr on failure. CreateInput deals out parts of
     * it; inputs that lie elsewhere are copied into the rest. */
    void *StagingBuffer(size_t *out_size) noexcept
    {
        if (!IsOpen() || !detail::HasRoomForInputs(*session_))
            return nullptr;
        void *buffer = c7x_client_get_input_buffer(session_->client, out_size);
        if (buffer == nullptr)
            session_->Fail(C7X_NOMEM, "there is no memory for the input buffer");
        return buffer;
    }

    /* Ends the session; outputs and inputs of CreateInput are gone. May be called twice. */
    void Close() noexcept
    {
        if (session_ != nullptr)
            session_->Close();
    }

    /* Of the last run that succeeded: clock cycles on a board, nanoseconds in the emulator. */
    uint64_t last_cycles() const noexcept
    {
        return session_ != nullptr ? session_->cycles : 0;
    }

    /* Why the last call failed; valid until the next one fails. */
    const char *last_error() const noexcept
    {
        return session_ != nullptr ? session_->error : "the module was moved away";
    }

  private:
    explicit Module(std::shared_ptr<detail::Session> session) noexcept
        : session_(std::move(session))
    {
    }

    bool IsOpen() const noexcept
    {
        return session_ != nullptr && session_->CheckOpen() == C7X_OK;
    }

    std::vector<OutputTensor> RunAll(const DLTensor *const *inputs, int input_count, int priority)
    {
        if (session_ == nullptr)
            throw Error(C7X_INVALID, last_error());
        std::vector<OutputTensor> outputs(C7X_CLIENT_OUTPUTS_MAX);
        int count = C7X_CLIENT_OUTPUTS_MAX;
        int status =
            detail::Infer(*session_, inputs, input_count, outputs.data(), &count, priority);
        if (status != C7X_OK)
            throw Error(status, last_error());
        outputs.resize(static_cast<size_t>(count));
        return outputs;
    }

    DLTensor *AddSlot(void *data, const int64_t *shape, int ndim, DLDataType dtype) noexcept
    {
        detail::Slot *slot = new (std::nothrow) detail::Slot();
        if (slot == nullptr) {
            session_->Fail(C7X_HOST_NOMEM, "no memory for a tensor");
            return nullptr;
        }
        for (int i = 0; i < ndim; i++)
            slot->shape[i] = shape[i];
        slot->dl.data = data;
        slot->dl.device.device_type = kDLCPU;
        slot->dl.ndim = ndim;
        slot->dl.dtype = dtype;
        slot->dl.shape = slot->shape;
        slot->next = session_->slots;
        session_->slots = slot;
        return &slot->dl;
    }

    std::shared_ptr<detail::Session> session_;
};

} // namespace c7x

#endif /* __cplusplus */

#endif

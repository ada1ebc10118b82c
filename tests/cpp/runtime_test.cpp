/* SPDX-License-Identifier: Apache-2.0 */
/*
 * c7x_runtime.h on the test modules: runtime_test MODULES_FOLDER. Exit code: the number of
 * failures. The closing line is `N passed, N failed`.
 */
#include "c7x_runtime.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

static std::string folder;
static bool is_failed; /* the case that runs */

static void check(bool condition, const char *text, int line)
{
    if (condition)
        return;
    is_failed = true;
    std::printf("line %d: %s\n", line, text);
}
#define CHECK(condition) check(condition, #condition, __LINE__)

static c7x::Module load(const char *name)
{
    return c7x::Module::Load(folder + "/" + name + ".out");
}

static DLDataType dtype(int code, int bits)
{
    DLDataType type;
    type.code = static_cast<uint8_t>(code);
    type.bits = static_cast<uint8_t>(bits);
    type.lanes = 1;
    return type;
}

/* A float32 tensor of rank 1 in memory of its own. */
struct Input {
    std::vector<float> values;
    int64_t shape;
    DLTensor dl;

    explicit Input(std::vector<float> from)
        : values(std::move(from)), shape(static_cast<int64_t>(values.size())), dl()
    {
        dl.data = values.data();
        dl.device.device_type = kDLCPU;
        dl.ndim = 1;
        dl.dtype = dtype(kDLFloat, 32);
        dl.shape = &shape;
    }
    Input(const Input &) = delete;
    Input &operator=(const Input &) = delete;
};

static const float *floats(const c7x::OutputTensor &output)
{
    return static_cast<const float *>(output.dl.data);
}

/* The status that a run throws, 0 if it returns; *out_text is what it says. */
static int thrown(c7x::Module &module, const DLTensor &input, std::string *out_text)
{
    try {
        module.Run(&input);
        return C7X_OK;
    } catch (const c7x::Error &error) {
        *out_text = error.what();
        return error.status();
    }
}

/* ---- The five of the specification ---- */

static void load_and_close_twice()
{
    c7x::Module module = load("add_one");
    CHECK(module.last_cycles() == 0);
    module.Close();
    module.Close();
}

static void inference_is_not_degenerate()
{
    c7x::Module module = load("add_one");
    Input x({0.5f, -3, 7, 100});
    c7x::OutputTensor y = module.Run(&x.dl);
    CHECK(y.dl.ndim == 1 && y.dl.shape[0] == 4 && y.data_size == 16);
    CHECK(y.dl.dtype.code == kDLFloat && y.dl.dtype.bits == 32 && y.dl.dtype.lanes == 1);
    for (int i = 0; i < 4; i++)
        CHECK(std::isfinite(floats(y)[i]));
    CHECK(floats(y)[0] < floats(y)[2] && floats(y)[1] < floats(y)[0]);
    CHECK(module.last_cycles() > 0);
}

static void matches_the_reference()
{
    c7x::Module module = load("add_one");
    Input x({1, -2.25f, 1e4f, 0});
    c7x::OutputTensor y = module.Run(&x.dl);
    for (size_t i = 0; i < 4; i++)
        CHECK(std::fabs(floats(y)[i] - (x.values[i] + 1)) < 1e-3f);
}

static void create_input_lies_in_the_buffer_and_gives_the_same_result()
{
    c7x::Module module = load("add_one");
    Input x({4, 3, 2, 1});
    int64_t shape = 4;
    size_t size = 0;
    DLTensor *placed = module.CreateInput(&shape, 1, dtype(kDLFloat, 32));
    CHECK(placed != nullptr);
    if (placed == nullptr)
        return;
    const char *buffer = static_cast<const char *>(module.StagingBuffer(&size));
    const char *data = static_cast<const char *>(placed->data);
    CHECK(buffer != nullptr && data >= buffer && data + 16 <= buffer + size);
    CHECK(reinterpret_cast<uintptr_t>(data) % 128 == 0);
    std::memcpy(placed->data, x.values.data(), 16);
    c7x::OutputTensor from_buffer = module.Run(placed);
    std::vector<float> first(floats(from_buffer), floats(from_buffer) + 4);
    c7x::OutputTensor from_host = module.Run(&x.dl);
    CHECK(std::memcmp(first.data(), from_host.dl.data, 16) == 0);
}

static void three_runs_are_bit_identical()
{
    c7x::Module module = load("add_one");
    Input x({0.1f, 0.2f, 0.3f, 1e-20f});
    float runs[3][4];
    for (auto &run : runs) {
        c7x::OutputTensor y = module.Run(&x.dl);
        std::memcpy(run, y.dl.data, sizeof run);
    }
    CHECK(std::memcmp(runs[0], runs[1], sizeof runs[0]) == 0);
    CHECK(std::memcmp(runs[0], runs[2], sizeof runs[0]) == 0);
}

/* ---- The rest of the interface ---- */

static void several_outputs_come_in_order()
{
    c7x::Module module = load("many_outputs");
    std::vector<c7x::OutputTensor> outputs = module.Run(std::vector<DLTensor *>());
    CHECK(outputs.size() == 7);
    for (size_t i = 0; i < outputs.size(); i++) {
        CHECK(*static_cast<const int32_t *>(outputs[i].dl.data) == static_cast<int32_t>(i));
        CHECK(outputs[i].dl.shape == outputs[i]._shape); /* also after the vector moved them */
    }
}

static void functions_do_not_throw()
{
    c7x::Module module = load("add_one");
    Input x({1, 2, 3, 4});
    const DLTensor *inputs[] = {&x.dl};
    c7x::OutputTensor outputs[c7x::kMaxOutputs];
    int count = c7x::kMaxOutputs;
    c7x::Function main_entry = module["main"];
    CHECK(main_entry.call(inputs, 1, outputs, &count) == C7X_OK);
    CHECK(count == 1 && floats(outputs[0])[3] == 5);
    count = 0;
    CHECK(main_entry.call(inputs, 1, outputs, &count) == C7X_SIZE && count == 0);
    count = 1;
    CHECK(main_entry.call(inputs, -1, outputs, &count) == C7X_INVALID && count == 1);
    CHECK(main_entry.call(inputs, 0, outputs, &count) < 0 && module.last_error()[0] != '\0');
    module.Close();
    CHECK(main_entry.call(inputs, 1, outputs, &count) == C7X_INVALID);
    CHECK(std::strstr(module.last_error(), "closed") != nullptr);
}

static void functions_outlive_their_module()
{
    Input x({1, 2, 3, 4});
    const DLTensor *inputs[] = {&x.dl};
    c7x::OutputTensor output;
    int count = 1;
    c7x::Function entry = load("add_one")["main"];
    CHECK(entry.call(inputs, 1, &output, &count) == C7X_INVALID);
}

static void modules_move()
{
    Input x({1, 2, 3, 4});
    c7x::Module first = load("add_one");
    c7x::Function entry = first["main"];
    c7x::Module second(std::move(first));
    CHECK(floats(second.Run(&x.dl))[0] == 2);
    second = load("add_one"); /* closes the one that it held */
    CHECK(floats(second.Run(&x.dl))[0] == 2);
    const DLTensor *inputs[] = {&x.dl};
    c7x::OutputTensor output;
    int count = 1;
    CHECK(entry.call(inputs, 1, &output, &count) == C7X_INVALID);
}

static void moved_from_modules_fail()
{
    Input x({1, 2, 3, 4});
    std::string text;
    int64_t shape = 4;
    size_t size;
    int count = 0;
    c7x::Module first = load("add_one");
    c7x::Module second(std::move(first));
    c7x::Module &moved = first;
    moved.Close();
    CHECK(thrown(moved, x.dl, &text) == C7X_INVALID);
    CHECK(moved.CreateInput(&shape, 1, dtype(kDLFloat, 32)) == nullptr);
    CHECK(moved.StagingBuffer(&size) == nullptr && moved.Reserve(1, 1) == C7X_INVALID);
    CHECK(moved["main"].call(nullptr, 0, nullptr, &count) == C7X_INVALID);
}

static void byte_offsets_are_honoured()
{
    c7x::Module module = load("add_one");
    Input x({9, 9, 9, 1, 2, 3, 4});
    x.dl.byte_offset = 3 * sizeof(float);
    x.shape = 4;
    CHECK(floats(module.Run(&x.dl))[0] == 2);
}

static void compact_strides_pass_others_do_not()
{
    c7x::Module module = load("add_one");
    Input x({1, 2, 3, 4, 5, 6, 7, 8});
    std::string text;
    int64_t stride = 1;
    x.shape = 4;
    x.dl.strides = &stride;
    CHECK(thrown(module, x.dl, &text) == C7X_OK);
    stride = 2;
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR);
    CHECK(text.find("input 0") != std::string::npos && text.find("strides") != std::string::npos);
}

static void unfit_inputs_are_named()
{
    c7x::Module module = load("add_one");
    Input x({1, 2, 3, 4, 5});
    std::string text;
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("[4]") != std::string::npos);
    x.shape = -4;
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("-4") != std::string::npos);
    x.shape = INT64_MAX;
    CHECK(thrown(module, x.dl, &text) == C7X_SIZE);
    x.shape = 4;
    x.dl.ndim = 7;
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("rank 7") != std::string::npos);
    x.dl.ndim = 1;
    x.dl.dtype.lanes = 4;
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("lanes") != std::string::npos);
    x.dl.dtype = dtype(kDLInt, 32);
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("int32") != std::string::npos);
    x.dl.dtype = dtype(kDLFloat, 32);
    x.dl.device.device_type = static_cast<decltype(x.dl.device.device_type)>(2);
    CHECK(thrown(module, x.dl, &text) == C7X_TENSOR && text.find("device") != std::string::npos);
    x.dl.device.device_type = kDLCPU;
    CHECK(thrown(module, x.dl, &text) == C7X_OK); /* none of these did any harm */
}

static void too_many_inputs_and_null_inputs_are_refused()
{
    c7x::Module module = load("add_one");
    Input x({1, 2, 3, 4});
    for (const std::vector<DLTensor *> &inputs :
         {std::vector<DLTensor *>(129, &x.dl), std::vector<DLTensor *>(1, nullptr)}) {
        int status = C7X_OK;
        try {
            module.Run(inputs);
        } catch (const c7x::Error &error) {
            status = error.status();
        }
        CHECK(status == (inputs.size() == 1 ? C7X_TENSOR : C7X_INVALID));
    }
}

static void load_throws_the_librarys_text()
{
    std::string text;
    try {
        load("no_such_module");
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    CHECK(text.find("no_such_module.out") != std::string::npos);
    try {
        text.clear();
        load("needs_missing");
    } catch (const c7x::Error &error) {
        text = error.what();
        CHECK(error.status() == C7X_SYMBOL);
    }
    CHECK(!text.empty());
}

static void load_takes_options()
{
    c7x_client_options options;
    int status = C7X_OK;
    c7x_client_options_init(&options);
    options.device = "emu:/nonexistent/socket";
    try {
        c7x::Module::Load(folder + "/add_one.out", &options);
    } catch (const c7x::Error &error) {
        status = error.status();
    }
    CHECK(status == C7X_NO_DEVICE);
}

/* ---- Priorities: on a shared emulator, so that another client can see which target runs what ----
 */

struct SharedEmulator {
    std::string place;
    c7x_client_options options;
    std::string device;
    c7x_client *observer = nullptr;

    SharedEmulator() : options()
    {
        char name[] = "/tmp/c7x-cpp-XXXXXX";
        place = mkdtemp(name) != nullptr ? name : "";
        device = "emu:" + place + "/s";
        c7x_client_options_init(&options);
        options.device = device.c_str();
        options.start = 1;
        if (c7x_client_open_with(&options, &observer) != C7X_OK)
            std::printf("%s\n", c7x_client_last_error(nullptr));
    }
    SharedEmulator(const SharedEmulator &) = delete;
    SharedEmulator &operator=(const SharedEmulator &) = delete;
    ~SharedEmulator()
    {
        c7x_client_close(observer);
        (void)!c7x_emulator_stop(device.c_str(), 60000);
        std::remove((place + "/s.lock").c_str());
        rmdir(place.c_str());
    }

    /* Jobs that the targets 1 to 8 have done, as digits. */
    std::string Jobs() const
    {
        c7x_target_info *targets = nullptr;
        size_t count = 0;
        std::string jobs;
        if (c7x_client_list_targets(observer, &targets, &count) != C7X_OK)
            return "";
        for (size_t i = 0; i < 8 && i < count; i++)
            jobs += std::to_string(targets[i].jobs_done);
        c7x_list_free(targets);
        return jobs;
    }

    /* A job is answered a moment before it counts as done. */
    bool Comes(const std::string &jobs) const
    {
        for (int i = 0; i < 100000; i++)
            if (Jobs() == jobs)
                return true;
        return false;
    }
};

static void runs_have_the_nearest_priority_that_is_named()
{
    SharedEmulator emulator;
    Input x({1, 2, 3, 4});
    emulator.options.priority = 6;
    c7x::Module module = c7x::Module::Load(folder + "/add_one.out", &emulator.options);
    module.Run(&x.dl);
    CHECK(emulator.Comes("00000100"));
    module.Run(&x.dl, 2);
    CHECK(emulator.Comes("01000100"));
    module.Run(std::vector<DLTensor *>{&x.dl}, 1);
    CHECK(emulator.Comes("11000100"));
    const DLTensor *input = &x.dl;
    c7x::OutputTensor y;
    int count = 1;
    CHECK(module["main"].call(&input, 1, &y, &count, 8) == C7X_OK && floats(y)[3] == 5);
    CHECK(emulator.Comes("11000101"));
    for (int priority : {-1, 9}) {
        CHECK(module["main"].call(&input, 1, &y, &count, priority) == C7X_INVALID);
        CHECK(std::strstr(module.last_error(), "allowed are 1 to 8") != nullptr);
    }
}

static void run_throws_when_the_module_fails()
{
    c7x::Module module = load("fails");
    int status = C7X_OK;
    try {
        module.Run(std::vector<DLTensor *>());
    } catch (const c7x::Error &error) {
        status = error.status();
    }
    CHECK(status == C7X_CALL);
}

static void inputs_are_dealt_out_until_the_buffer_is_full()
{
    c7x::Module module = load("add_one");
    int64_t shape = 4;
    int64_t huge = 1 << 20;
    CHECK(module.CreateInput(&huge, 1, dtype(kDLFloat, 32)) == nullptr);
    CHECK(std::strstr(module.last_error(), "4194304") != nullptr);
    DLTensor *a = module.CreateInput(&shape, 1, dtype(kDLFloat, 32));
    DLTensor *last = a;
    int count = 0;
    for (DLTensor *next = a; next != nullptr; count++) {
        CHECK(next == a ||
              static_cast<char *>(next->data) >= static_cast<char *>(last->data) + 128);
        last = next;
        next = module.CreateInput(&shape, 1, dtype(kDLFloat, 32));
    }
    CHECK(count >= 1 && count < 1000);
    CHECK(module.Reserve(1 << 20, 0) == C7X_LOCKED);
    CHECK(module.CreateInput(&shape, 7, dtype(kDLFloat, 32)) == nullptr);
    CHECK(module.CreateInput(nullptr, 1, dtype(kDLFloat, 32)) == nullptr);
}

static void copied_inputs_go_behind_created_ones()
{
    c7x::Module module = load("add_one");
    Input x({1, 2, 3, 4});
    int64_t shape = 4;
    std::string text;
    DLTensor *placed = module.CreateInput(&shape, 1, dtype(kDLFloat, 32));
    CHECK(placed != nullptr);
    if (placed == nullptr)
        return;
    float *values = static_cast<float *>(placed->data);
    values[0] = values[3] = 77;
    CHECK(floats(module.Run(&x.dl))[3] == 5);
    CHECK(values[0] == 77 && values[3] == 77);
    while (module.CreateInput(&shape, 1, dtype(kDLFloat, 32)) != nullptr)
        ;
    CHECK(thrown(module, x.dl, &text) == C7X_LOCKED);
    CHECK(text.find("input buffer") != std::string::npos);
    CHECK(floats(module.Run(placed))[3] == 78);
}

static void reserve_makes_room()
{
    c7x::Module module = load("add_one");
    int64_t huge = 1 << 20;
    CHECK(module.Reserve(8 << 20, 0) == C7X_OK);
    CHECK(module.CreateInput(&huge, 1, dtype(kDLFloat, 32)) != nullptr);
    module.Close();
    CHECK(module.Reserve(1, 0) == C7X_INVALID);
    CHECK(module.CreateInput(&huge, 1, dtype(kDLFloat, 32)) == nullptr);
}

static void undeclared_modules_have_a_buffer()
{
    c7x::Module module = load("many_outputs");
    int64_t shape[] = {2, 3};
    size_t size = 0;
    CHECK(module.StagingBuffer(&size) != nullptr && size > 0);
    DLTensor *a = module.CreateInput(shape, 2, dtype(kDLInt, 8));
    DLTensor *b = module.CreateInput(shape, 0, dtype(kDLInt, 64));
    CHECK(a != nullptr && b != nullptr && a->data != b->data);
    CHECK(a != nullptr && a->ndim == 2 && a->shape[1] == 3 && a->strides == nullptr);
}

static void outputs_grow_when_they_must()
{
    c7x::Module module = load("big_output");
    std::vector<c7x::OutputTensor> outputs = module.Run(std::vector<DLTensor *>());
    CHECK(outputs.size() == 1 && outputs[0].data_size == 262144 * sizeof(float));
    CHECK(floats(outputs[0])[262143] == 262143);
}

static void inputs_of_a_time_out_stay_memory()
{
    c7x_client_options options;
    c7x_client_options_init(&options);
    options.deadline_ms = 500;
    c7x::Module module = c7x::Module::Load(folder + "/spin.out", &options);
    int64_t shape = 1;
    std::string text;
    DLTensor *milliseconds = module.CreateInput(&shape, 1, dtype(kDLInt, 32));
    CHECK(milliseconds != nullptr);
    if (milliseconds == nullptr)
        return;
    *static_cast<int32_t *>(milliseconds->data) = -1; /* for ever */
    CHECK(thrown(module, *milliseconds, &text) == C7X_TIMEOUT);
    CHECK(*static_cast<int32_t *>(milliseconds->data) == -1);
    *static_cast<int32_t *>(milliseconds->data) = 1;
    DLTensor *other = module.CreateInput(&shape, 1, dtype(kDLInt, 32));
    CHECK(other != nullptr && other->data != milliseconds->data);
}

struct Case {
    const char *name;
    void (*run)();
};
#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }

static const Case cases[] = {
    CASE(load_and_close_twice),
    CASE(inference_is_not_degenerate),
    CASE(matches_the_reference),
    CASE(create_input_lies_in_the_buffer_and_gives_the_same_result),
    CASE(three_runs_are_bit_identical),
    CASE(several_outputs_come_in_order),
    CASE(functions_do_not_throw),
    CASE(functions_outlive_their_module),
    CASE(modules_move),
    CASE(moved_from_modules_fail),
    CASE(byte_offsets_are_honoured),
    CASE(compact_strides_pass_others_do_not),
    CASE(unfit_inputs_are_named),
    CASE(too_many_inputs_and_null_inputs_are_refused),
    CASE(load_throws_the_librarys_text),
    CASE(load_takes_options),
    CASE(runs_have_the_nearest_priority_that_is_named),
    CASE(run_throws_when_the_module_fails),
    CASE(inputs_are_dealt_out_until_the_buffer_is_full),
    CASE(copied_inputs_go_behind_created_ones),
    CASE(reserve_makes_room),
    CASE(undeclared_modules_have_a_buffer),
    CASE(outputs_grow_when_they_must),
    CASE(inputs_of_a_time_out_stay_memory),
};

int main(int argc, char **argv)
{
    int passed = 0;
    int failed = 0;
    if (argc != 2) {
        std::fprintf(stderr, "usage: runtime_test MODULES_FOLDER\n");
        return 1;
    }
    folder = argv[1];
    for (const Case &one : cases) {
        is_failed = false;
        try {
            one.run();
        } catch (const std::exception &error) {
            check(false, error.what(), __LINE__);
        }
        std::printf("%s %s\n", is_failed ? "FAIL" : "PASS", one.name);
        (is_failed ? failed : passed)++;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed;
}

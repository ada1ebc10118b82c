/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-run: one module, many requests. A request is a line of JSON on stdin, followed by the
 * bytes of its inputs; a reply is a line of JSON on stdout, followed by the bytes of its outputs. A
 * failed request does not end the session.
 */
#include "cli.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_LENGTH = 4095, SKIP_SIZE = 1 << 16 };

#define PAYLOAD_MAX                                                                                \
    ((uint64_t)480 << 20)              /* the carve-out's staging area: no input can be larger     \
                                        */
#define INTEGER_MAX 9007199254740992.0 /* beyond it a JSON number need not be exact */
#define BAD_REQUEST "Invalid request format"

/* The keys of an infer request that describe caches; of each float32 [1,heads,length,head size]. */
struct kv_geometry {
    uint64_t tensors;
    uint64_t heads;
    uint64_t length;
    uint64_t head_size;
};

struct session {
    struct cli *cli;
    const char *path;
    struct c7x_module_declaration *declaration;
    struct cli_request request;
    struct cli_inputs inputs;
    struct cli_outputs outputs;
    struct kv_geometry kv; /* of the module's region; 0 tensors: there is none */
    bool kv_is_filled;     /* an inference has left something in it */
    bool ended;
};

static void reply_error(const char *text)
{
    cJSON *object = cJSON_CreateObject();
    cli_json_add_text(object, "status", "error");
    cli_json_add_text(object, "error", text);
    cli_json_print(object);
    fprintf(stderr, "c7x_compute: session: %s\n", text);
}

static void reply_status(struct session *session, const char *stage, int status)
{
    char text[CLI_MESSAGE_MAX];
    cli_describe_status(session->cli, stage, status, text, sizeof text);
    reply_error(text);
}

/* A key that must be a plain integer, if it is there; false if it is something else. */
static bool get_integer(const cJSON *object, const char *key, uint64_t *out_value, bool *out_found)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *out_found = item != NULL;
    if (item == NULL)
        return true;
    double value = cJSON_GetNumberValue(item);
    if (!cJSON_IsNumber(item) || !(value >= 0 && value <= INTEGER_MAX))
        return false;
    *out_value = (uint64_t)value;
    return (double)*out_value == value;
}

static bool get_text(const cJSON *object, const char *key, const char **out_text)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *out_text = cJSON_GetStringValue(item); /* NULL for NULL */
    return item == NULL || *out_text != NULL;
}

/* The payload of a request that is refused. */
static void skip_payload(struct session *session, uint64_t size)
{
    static char waste[SKIP_SIZE];
    while (size > 0 && !session->ended) {
        size_t step = size < sizeof waste ? (size_t)size : sizeof waste;
        if (fread(waste, 1, step, stdin) != step)
            session->ended = true;
        size -= step;
    }
}

/* False when there is no payload to work on; what there is to say has been said. */
static bool read_payload(struct session *session, uint64_t size)
{
    char *data = size <= PAYLOAD_MAX ? malloc((size_t)size + 1) : NULL;
    if (data == NULL) {
        skip_payload(session, size);
        if (!session->ended)
            reply_error("input_size is larger than a device can take");
        return false;
    }
    if (fread(data, 1, (size_t)size, stdin) != (size_t)size) {
        session->ended = true;
        free(data);
        return false;
    }
    session->inputs.data = data;
    return true;
}

/* An infer request without its payload. */
struct infer_request {
    const char *shape;
    const char *dtype;
    uint64_t num_inputs;
    uint64_t input_size;
    uint64_t kv_resident;
    uint64_t priority; /* 0: the module's */
    struct kv_geometry kv;
    bool has_num_inputs;
};

static bool parse_kv(const cJSON *object, struct infer_request *request)
{
    bool found;
    request->kv = (struct kv_geometry){.tensors = 60, .heads = 3, .length = 256, .head_size = 64};
    return get_integer(object, "kv_resident", &request->kv_resident, &found) &&
           get_integer(object, "kv_num_tensors", &request->kv.tensors, &found) &&
           get_integer(object, "kv_num_heads", &request->kv.heads, &found) &&
           get_integer(object, "kv_max_cache_len", &request->kv.length, &found) &&
           get_integer(object, "kv_head_dim", &request->kv.head_size, &found);
}

static bool parse_infer(const cJSON *object, struct infer_request *request)
{
    bool has_size = false;
    bool found;
    return get_integer(object, "input_size", &request->input_size, &has_size) && has_size &&
           get_integer(object, "num_inputs", &request->num_inputs, &request->has_num_inputs) &&
           get_integer(object, "priority", &request->priority, &found) &&
           parse_kv(object, request) && get_text(object, "shape", &request->shape) &&
           get_text(object, "dtype", &request->dtype);
}

/* ---- Caches that stay on the device ---- */

/* One cache, without data. False: `problem` says why there is none. */
static bool make_cache(const struct infer_request *request, struct c7x_client_tensor *out_tensor,
                       char *problem)
{
    const struct kv_geometry *kv = &request->kv;
    *out_tensor = (struct c7x_client_tensor){
        .ndim = 4,
        .dtype_code = C7X_DTYPE_FLOAT,
        .dtype_bits = 32,
        .shape = {1, (int64_t)kv->heads, (int64_t)kv->length, (int64_t)kv->head_size},
    };
    if (request->kv_resident != 1)
        snprintf(problem, CLI_MESSAGE_MAX, "kv_resident is neither 0 nor 1");
    else if (kv->tensors == 0 || kv->tensors >= C7X_CLIENT_INPUTS_MAX)
        snprintf(problem, CLI_MESSAGE_MAX, "kv_num_tensors is %llu; allowed are 1 to %d",
                 (unsigned long long)kv->tensors, C7X_CLIENT_INPUTS_MAX - 1);
    else if (!cli_set_tensor_size(out_tensor) || out_tensor->data_size == 0)
        snprintf(problem, CLI_MESSAGE_MAX,
                 "kv_num_heads, kv_max_cache_len and kv_head_dim are no shape of a cache");
    else
        return true;
    return false;
}

/*
 * Whether the caches are not among the inputs of the request: it has no more inputs than there are
 * caches. A first request may bring them all, filled.
 */
static bool leaves_caches_out(const struct infer_request *request)
{
    uint64_t count = 1;
    for (const char *c = request->shape; c != NULL && *c != '\0'; c++)
        count += *c == ';';
    if (request->shape == NULL && request->has_num_inputs)
        count = request->num_inputs;
    return count <= request->kv.tensors;
}

static bool append_caches(struct session *session, const struct infer_request *request,
                          char *problem)
{
    struct cli_inputs *inputs = &session->inputs;
    if (request->kv.tensors > (uint64_t)(C7X_CLIENT_INPUTS_MAX - inputs->count)) {
        snprintf(problem, CLI_MESSAGE_MAX, "%d inputs and %llu caches; allowed are %d together",
                 inputs->count, (unsigned long long)request->kv.tensors, C7X_CLIENT_INPUTS_MAX);
        return false;
    }
    for (uint64_t i = 0; i < request->kv.tensors; i++)
        if (!make_cache(request, &inputs->tensors[inputs->count++], problem))
            return false;
    return true;
}

/* Binds the module's region with the first request; another shape empties it, so it may come only
 * before there is something in it. */
static bool bind_caches(struct session *session, const struct infer_request *request, char *problem)
{
    struct c7x_client_tensor cache;
    if (!make_cache(request, &cache, problem))
        return false;
    if (memcmp(&session->kv, &request->kv, sizeof session->kv) == 0)
        return true;
    if (session->kv_is_filled) {
        snprintf(problem, CLI_MESSAGE_MAX, "the caches of this session have another shape");
        return false;
    }
    enum c7x_status status = c7x_client_kv_bind(session->cli->client, session->request.handle,
                                                (uint32_t)request->kv.tensors, cache.data_size);
    if (status != C7X_OK && status != C7X_UNSUPPORTED) { /* version 3.0 has them bound */
        cli_describe_status(session->cli, "kv", status, problem, CLI_MESSAGE_MAX);
        return false;
    }
    session->kv = request->kv;
    return true;
}

/* ---- infer ---- */

static bool make_inputs(struct session *session, const struct infer_request *request, char *problem)
{
    bool lacks_caches = request->kv_resident != 0 && leaves_caches_out(request);
    const struct cli_tensor_request wanted = {.shape = request->shape,
                                              .dtype = request->dtype,
                                              .declaration = session->declaration,
                                              .left_out =
                                                  lacks_caches ? (int)request->kv.tensors : 0,
                                              .size = (size_t)request->input_size};
    if (!cli_resolve_tensors(&wanted, &session->inputs, problem))
        return false;
    if (request->has_num_inputs && request->num_inputs != (uint64_t)session->inputs.count) {
        snprintf(problem, CLI_MESSAGE_MAX, "num_inputs is %llu, but there are %d inputs",
                 (unsigned long long)request->num_inputs, session->inputs.count);
        return false;
    }
    if (!cli_check_total(&session->inputs, wanted.size, problem))
        return false;
    cli_place_tensors(&session->inputs);
    return !lacks_caches || append_caches(session, request, problem);
}

static void reply_result(const struct session *session)
{
    cJSON *object = cli_json_result(&session->outputs);
    cli_json_add_unsigned(object, "output_size", cli_output_bytes(&session->outputs));
    cli_json_print(object);
    for (int i = 0; i < session->outputs.count; i++)
        fwrite(session->outputs.tensors[i].data, 1, session->outputs.tensors[i].data_size, stdout);
}

static bool check_priority(const struct infer_request *request, char *problem)
{
    if (request->priority <= CLI_PRIORITY_MAX)
        return true;
    snprintf(problem, CLI_MESSAGE_MAX, "priority %llu; allowed are 1 to %d",
             (unsigned long long)request->priority, CLI_PRIORITY_MAX);
    return false;
}

static void infer(struct session *session, const struct infer_request *request)
{
    char problem[CLI_MESSAGE_MAX];
    bool is_resident = request->kv_resident != 0;
    if (!check_priority(request, problem) ||
        (is_resident && !bind_caches(session, request, problem)) ||
        !make_inputs(session, request, problem)) {
        reply_error(problem);
        return;
    }
    session->request.flags = (is_resident ? C7X_INFER_KV_RESIDENT : 0) |
                             (uint32_t)request->priority << C7X_INFER_PRIORITY_SHIFT;
    enum c7x_status status =
        cli_infer_tensors(session->cli, &session->request, &session->inputs, &session->outputs);
    if (status == C7X_OK)
        session->kv_is_filled = session->kv_is_filled || is_resident;
    if (status == C7X_OK)
        reply_result(session);
    else
        reply_status(session, "infer", status);
}

static void handle_infer(struct session *session, const cJSON *object)
{
    struct infer_request request = {0};
    if (!parse_infer(object, &request)) {
        reply_error(BAD_REQUEST);
        return;
    }
    if (!read_payload(session, request.input_size))
        return;
    infer(session, &request);
    cli_free_inputs(&session->inputs);
}

static void handle_reserve(struct session *session, const cJSON *object)
{
    uint64_t input_bytes = 0;
    uint64_t output_bytes = 0;
    bool has_input = false;
    bool has_output = false;
    if (!get_integer(object, "input_bytes", &input_bytes, &has_input) || !has_input ||
        !get_integer(object, "output_bytes", &output_bytes, &has_output) || !has_output) {
        reply_error(BAD_REQUEST);
        return;
    }
    enum c7x_status status = c7x_client_reserve_io(session->cli->client, input_bytes, output_bytes);
    if (status == C7X_OK)
        cli_json_print(cli_json_ok());
    else
        reply_status(session, "reserve_io", status);
}

static void handle_request(struct session *session, const char *line)
{
    const char *op = NULL;
    cJSON *object = cJSON_ParseWithOpts(line, NULL, 1);
    if (!cJSON_IsObject(object) || !get_text(object, "op", &op) || op == NULL)
        reply_error(BAD_REQUEST);
    else if (strcmp(op, "infer") == 0)
        handle_infer(session, object);
    else if (strcmp(op, "reserve_io") == 0)
        handle_reserve(session, object);
    else if (strcmp(op, "exit") == 0)
        session->ended = true;
    else
        reply_error(BAD_REQUEST);
    cJSON_Delete(object);
    fflush(stdout);
}

/* Reads a line without its end; *out_too_long if it did not fit, then `line` holds its beginning.
 */
static bool read_line(char *line, bool *out_too_long)
{
    size_t length = 0;
    int c = getchar();
    *out_too_long = false;
    if (c == EOF)
        return false;
    for (; c != EOF && c != '\n'; c = getchar()) {
        if (length < LINE_MAX_LENGTH && c != '\0')
            line[length++] = (char)c;
        else
            *out_too_long = true;
    }
    line[length] = '\0';
    return true;
}

static void serve(struct session *session)
{
    char line[LINE_MAX_LENGTH + 1];
    bool too_long;
    while (!session->ended && !ferror(stdout) && read_line(line, &too_long)) {
        if (!too_long) {
            handle_request(session, line);
            continue;
        }
        reply_error(BAD_REQUEST);
        fflush(stdout);
    }
}

static int load(struct session *session)
{
    struct cli *cli = session->cli;
    int code = cli_open(cli);
    if (code != CLI_DONE)
        return code;
    enum c7x_status status =
        c7x_client_dyn_load(cli->client, session->path, &session->request.handle);
    if (status == C7X_OK && cli->options.model != NULL)
        status = c7x_client_model_load(cli->client, cli->options.model, &session->request.model_id);
    if (status != C7X_OK)
        return cli_fail_status(cli, "load", status);
    /* A module that declares nothing is served too. */
    if (c7x_module_declaration_read(session->path, &session->declaration) != C7X_OK)
        session->declaration = NULL;
    return CLI_DONE;
}

static void reply_ready(const struct session *session)
{
    cJSON *object = cJSON_CreateObject();
    cli_json_add_text(object, "status", "ready");
    cli_json_add_text(object, "module", session->path);
    cli_json_print(object);
    fflush(stdout);
}

int cli_session_run(struct cli *cli)
{
    static struct session session;
    session.cli = cli;
    session.request.repeat = 1;
    session.path = cli_module_path(cli);
    if (session.path == NULL)
        return CLI_USAGE;
    int code = load(&session);
    if (code == CLI_DONE) {
        reply_ready(&session);
        serve(&session);
    }
    c7x_module_declaration_free(session.declaration);
    return code;
}

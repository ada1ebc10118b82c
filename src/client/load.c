/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and weights: a file is read straight into a shared buffer of its own size, and loaded
 * from there. */
#define _GNU_SOURCE
#include "client_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum c7x_status file_error(const char *path, const char *what)
{
    enum c7x_status status = errno == EACCES || errno == EPERM ? C7X_PERMISSION : C7X_FILE;
    return c7x_error_set(c7x_client_thread_error(), status, C7X_CLIENT_STATION, "cannot %s %s: %s",
                         what, path, strerror(errno));
}

static enum c7x_status examine(const char *path, int fd, struct c7x_staged_file *out_file)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return file_error(path, "read");
    if (!S_ISREG(info.st_mode))
        return c7x_error_set(c7x_client_thread_error(), C7X_FILE, C7X_CLIENT_STATION,
                             "%s is not a regular file", path);
    if (info.st_size == 0)
        return c7x_error_set(c7x_client_thread_error(), C7X_FILE, C7X_CLIENT_STATION, "%s is empty",
                             path);
    if (info.st_size > C7X_WIRE_STAGING_SIZE)
        return c7x_error_set(c7x_client_thread_error(), C7X_SIZE, C7X_CLIENT_STATION,
                             "%s has %lld bytes; a device takes at most %u", path,
                             (long long)info.st_size, C7X_WIRE_STAGING_SIZE);
    *out_file = (struct c7x_staged_file){.users = 1,
                                         .device = info.st_dev,
                                         .number = info.st_ino,
                                         .written = info.st_mtim,
                                         .changed = info.st_ctim,
                                         .size = (size_t)info.st_size};
    return C7X_OK;
}

static enum c7x_status read_all(const char *path, int fd, uint8_t *bytes, size_t size)
{
    for (size_t used = 0; used < size;) {
        ssize_t count = read(fd, bytes + used, size - used);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return file_error(path, "read");
        if (count == 0)
            return c7x_error_set(c7x_client_thread_error(), C7X_FILE, C7X_CLIENT_STATION,
                                 "%s became shorter while it was read", path);
        used += (size_t)count;
    }
    return C7X_OK;
}

/* ---- Staged files ---- */

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool is_same_file(const struct c7x_staged_file *a, const struct c7x_staged_file *b)
{
    return a->device == b->device && a->number == b->number && a->size == b->size &&
           is_same_time(&a->written, &b->written) && is_same_time(&a->changed, &b->changed);
}

/* The file that has been staged already, with one user more; NULL: it has not. */
static struct c7x_staged_file *find_file(struct c7x_client *client,
                                         const struct c7x_staged_file *wanted)
{
    pthread_mutex_lock(&client->lock);
    struct c7x_staged_file *file = client->staged_files;
    while (file != NULL && !is_same_file(file, wanted))
        file = file->next;
    if (file != NULL)
        file->users++;
    pthread_mutex_unlock(&client->lock);
    return file;
}

static void enlist_file(struct c7x_client *client, struct c7x_staged_file *file)
{
    pthread_mutex_lock(&client->lock);
    file->next = client->staged_files;
    client->staged_files = file;
    pthread_mutex_unlock(&client->lock);
}

/* One user less; whether it was the last, so that the file is the caller's. */
static bool take_file(struct c7x_client *client, struct c7x_staged_file *file)
{
    pthread_mutex_lock(&client->lock);
    bool is_last = --file->users == 0;
    if (is_last) {
        struct c7x_staged_file **place = &client->staged_files;
        while (*place != file)
            place = &(*place)->next;
        *place = file->next;
    }
    pthread_mutex_unlock(&client->lock);
    return is_last;
}

static void release_file(struct c7x_client *client, struct c7x_staged_file *file)
{
    if (file == NULL || !take_file(client, file))
        return;
    c7x_client_detach(client, &file->buffer);
    free(file);
}

/* Nobody waits for the answer of request `seq` any more, which may still come to use the file. */
static void let_file_go(struct c7x_client *client, struct c7x_staged_file *file, uint32_t seq)
{
    struct c7x_buffer buffer = {0};
    if (take_file(client, file)) {
        buffer = file->buffer;
        free(file);
    }
    c7x_client_let_go(client, &buffer, NULL, seq);
}

static enum c7x_status read_into_buffer(struct c7x_client *client, const char *path, int fd,
                                        struct c7x_staged_file *file, int64_t deadline_ns)
{
    struct c7x_host_link *link = client->link;
    C7X_RETURN_IF_ERROR(c7x_client_attach(client, file->size, deadline_ns, &file->buffer));
    enum c7x_status status = read_all(path, fd, file->buffer.pointer, file->size);
    if (status == C7X_OK)
        link->ops->sync_to_device(link, &file->buffer, 0, file->size);
    else
        c7x_client_detach(client, &file->buffer);
    return status;
}

/* Reads the open file into a new shared buffer, unless one holds it. */
static enum c7x_status stage(struct c7x_client *client, const char *path, int fd,
                             int64_t deadline_ns, struct c7x_staged_file **out_file)
{
    struct c7x_staged_file wanted;
    C7X_RETURN_IF_ERROR(examine(path, fd, &wanted));
    *out_file = find_file(client, &wanted);
    if (*out_file != NULL)
        return C7X_OK;
    struct c7x_staged_file *file = malloc(sizeof *file);
    if (file == NULL)
        return c7x_error_set(c7x_client_thread_error(), C7X_HOST_NOMEM, C7X_CLIENT_STATION,
                             "no memory to load %s", path);
    *file = wanted;
    enum c7x_status status = read_into_buffer(client, path, fd, file, deadline_ns);
    if (status != C7X_OK) {
        free(file);
        return status;
    }
    enlist_file(client, file);
    *out_file = file;
    return C7X_OK;
}

/* 3.0 firmware has one fixed place, and copies what it needs of it. */
static enum c7x_status stage_3_0(struct c7x_client *client, const char *path, int fd,
                                 size_t *out_size)
{
    struct c7x_host_link *link = client->link;
    struct c7x_staged_file file;
    C7X_RETURN_IF_ERROR(examine(path, fd, &file));
    C7X_RETURN_IF_ERROR(read_all(path, fd, client->staging_3_0.pointer, file.size));
    link->ops->sync_to_device(link, &client->staging_3_0, 0, file.size);
    *out_size = file.size;
    return C7X_OK;
}

/* ---- What was loaded ---- */

/* Keeps what is to be known of a handle for as long as it lives; without memory for that the staged
 * bytes stay until close. */
static void keep_staged(struct c7x_client *client, const struct c7x_staged *what)
{
    struct c7x_staged *staged = malloc(sizeof *staged);
    if (staged == NULL)
        return;
    pthread_mutex_lock(&client->lock);
    *staged = *what;
    staged->next = client->staged;
    client->staged = staged;
    pthread_mutex_unlock(&client->lock);
}

bool c7x_client_named_priority(struct c7x_client *client, uint32_t handle)
{
    bool found = false;
    pthread_mutex_lock(&client->lock);
    for (const struct c7x_staged *staged = client->staged; staged != NULL; staged = staged->next)
        found = found || (staged->handle == handle && staged->has_priority);
    pthread_mutex_unlock(&client->lock);
    return found;
}

/* Takes the entry off the list, or NULL. */
static struct c7x_staged *take_staged(struct c7x_client *client, uint32_t handle, bool is_model)
{
    struct c7x_staged *staged = NULL;
    pthread_mutex_lock(&client->lock);
    for (struct c7x_staged **place = &client->staged; *place != NULL; place = &(*place)->next)
        if ((*place)->handle == handle && (*place)->is_model == is_model) {
            staged = *place;
            *place = staged->next;
            break;
        }
    pthread_mutex_unlock(&client->lock);
    return staged;
}

static void drop_staged(struct c7x_client *client, uint32_t handle, bool is_model)
{
    struct c7x_staged *staged = take_staged(client, handle, is_model);
    if (staged == NULL)
        return;
    release_file(client, staged->file);
    free(staged);
}

void c7x_client_free_staged(struct c7x_client *client)
{
    while (client->staged != NULL)
        drop_staged(client, client->staged->handle, client->staged->is_model);
    while (client->staged_files != NULL) /* of which nothing could be kept */
        release_file(client, client->staged_files);
}

static void fill_in_load(uint64_t address, size_t size, uint32_t flags, struct c7x_request *request)
{
    request->body.load.size = (uint32_t)size;
    request->body.load.flags = flags;
    request->body.load.address = address;
}

static enum c7x_status check_flags(const struct c7x_client *client, uint32_t type, uint32_t flags)
{
    struct c7x_error *error = c7x_client_thread_error();
    uint32_t known = C7X_LOAD_KEEP | (type == C7X_MSG_DYN_LOAD ? C7X_WIRE_PRIORITY_MASK : 0);
    uint32_t priority = (flags & C7X_WIRE_PRIORITY_MASK) >> C7X_WIRE_PRIORITY_SHIFT;
    if ((flags & ~known) != 0)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION, "unknown load flags 0x%x",
                             flags & ~known);
    if (priority > C7X_WIRE_PRIORITY_MAX)
        return c7x_error_set(error, C7X_INVALID, C7X_CLIENT_STATION,
                             "priority %u; allowed are 1 to %u", priority, C7X_WIRE_PRIORITY_MAX);
    if (flags != 0 && !client->has_session)
        return c7x_error_set(error, C7X_UNSUPPORTED, C7X_CLIENT_STATION,
                             "firmware of wire version 3.0 %s",
                             priority != 0 ? "has no priorities" : "cannot keep modules");
    return C7X_OK;
}

/* Stages the open file and loads it. *out_file: what is to stay staged; NULL: nothing. */
static enum c7x_status load_staged(struct c7x_client *client, const char *path, int fd,
                                   struct c7x_request *request, struct c7x_response *out_response,
                                   struct c7x_staged_file **out_file, int64_t deadline_ns)
{
    struct c7x_staged_file *file = NULL;
    uint32_t flags = request->body.load.flags;
    enum c7x_status status = stage(client, path, fd, deadline_ns, &file);
    if (file == NULL)
        return status;
    fill_in_load(file->buffer.dsp_address, file->size, flags | C7X_WIRE_LOAD_ADDRESS, request);
    status = c7x_client_exchange(client, request, deadline_ns, out_response);
    if (status == C7X_TIMEOUT)
        let_file_go(client, file, request->seq);
    else if (status != C7X_OK || (flags & C7X_LOAD_KEEP) != 0)
        release_file(client, file);
    else
        *out_file = file;
    return status;
}

static enum c7x_status load_3_0(struct c7x_client *client, const char *path, int fd,
                                struct c7x_request *request, struct c7x_response *out_response,
                                int64_t deadline_ns)
{
    size_t size;
    C7X_RETURN_IF_ERROR(stage_3_0(client, path, fd, &size));
    fill_in_load(client->staging_3_0.dsp_address, size, 0, request);
    return c7x_client_exchange(client, request, deadline_ns, out_response);
}

/* DYN_LOAD and MODEL_LOAD. *out_handle and *out_response are set on success. */
static enum c7x_status load_file(struct c7x_client *client, uint32_t type, const char *path,
                                 uint32_t flags, uint32_t *out_handle,
                                 struct c7x_response *out_response)
{
    struct c7x_request request = {.type = type};
    struct c7x_staged staged = {.is_model = type == C7X_MSG_MODEL_LOAD,
                                .has_priority = (flags & C7X_WIRE_PRIORITY_MASK) != 0};
    int64_t deadline_ns = c7x_client_deadline_ns(client);
    if (!staged.is_model && !staged.has_priority)
        flags |= (uint32_t)client->options.priority << C7X_WIRE_PRIORITY_SHIFT;
    C7X_RETURN_IF_ERROR(check_flags(client, type, flags));
    request.body.load.flags = flags;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
    if (fd < 0)
        return file_error(path, "open");
    enum c7x_status status =
        client->has_session
            ? load_staged(client, path, fd, &request, out_response, &staged.file, deadline_ns)
            : load_3_0(client, path, fd, &request, out_response, deadline_ns);
    close(fd);
    if (status != C7X_OK)
        return status;
    staged.handle = staged.is_model ? out_response->body.model_load.model_id
                                    : out_response->body.dyn_load.module_handle;
    *out_handle = staged.handle;
    if (staged.file != NULL || staged.has_priority)
        keep_staged(client, &staged);
    return C7X_OK;
}

enum c7x_status c7x_client_dyn_load_flags(struct c7x_client *client, const char *path,
                                          uint32_t flags, uint32_t *out_handle)
{
    struct c7x_response response;
    c7x_client_enter();
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, c7x_client_deadline_ns(client)));
    enum c7x_status status =
        load_file(client, C7X_MSG_DYN_LOAD, path, flags, out_handle, &response);
    if (status == C7X_OK)
        c7x_client_declare_io(client, &response);
    c7x_client_give_io(client);
    return status;
}

enum c7x_status c7x_client_dyn_load(struct c7x_client *client, const char *path,
                                    uint32_t *out_handle)
{
    return c7x_client_dyn_load_flags(client, path, 0, out_handle);
}

enum c7x_status c7x_client_model_load_flags(struct c7x_client *client, const char *path,
                                            uint32_t flags, uint32_t *out_model_id)
{
    struct c7x_response response;
    c7x_client_enter();
    return load_file(client, C7X_MSG_MODEL_LOAD, path, flags, out_model_id, &response);
}

enum c7x_status c7x_client_model_load(struct c7x_client *client, const char *path,
                                      uint32_t *out_model_id)
{
    return c7x_client_model_load_flags(client, path, 0, out_model_id);
}

static enum c7x_status unload(struct c7x_client *client, uint32_t type, uint32_t handle)
{
    struct c7x_request request = {.type = type};
    struct c7x_response response;
    request.body.handle = handle;
    C7X_RETURN_IF_ERROR(
        c7x_client_exchange(client, &request, c7x_client_deadline_ns(client), &response));
    if (type == C7X_MSG_DYN_UNLOAD)
        c7x_client_kv_drop(client, handle);
    drop_staged(client, handle, type == C7X_MSG_MODEL_UNLOAD);
    return C7X_OK;
}

enum c7x_status c7x_client_dyn_unload(struct c7x_client *client, uint32_t handle)
{
    c7x_client_enter();
    C7X_RETURN_IF_ERROR(c7x_client_take_io(client, c7x_client_deadline_ns(client)));
    enum c7x_status status = unload(client, C7X_MSG_DYN_UNLOAD, handle);
    if (status == C7X_OK)
        c7x_client_unlock_io(client);
    c7x_client_give_io(client);
    return status;
}

enum c7x_status c7x_client_model_unload(struct c7x_client *client, uint32_t model_id)
{
    c7x_client_enter();
    return unload(client, C7X_MSG_MODEL_UNLOAD, model_id);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, in and out. A regular file is replaced at once or not at all. */
#define _DEFAULT_SOURCE /* mkstemp, realpath, fchmod */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_SIZE_FIRST = 1 << 16 };

static bool grow(char **data, size_t *room)
{
    size_t larger = *room == 0 ? READ_SIZE_FIRST : *room * 2;
    char *moved = larger > *room ? realloc(*data, larger) : NULL;
    if (moved == NULL)
        return false;
    *data = moved;
    *room = larger;
    return true;
}

/* Reads to the end, so that pipes work too. */
static const char *read_all(int file, size_t room, char **out_data, size_t *out_size)
{
    size_t size = 0;
    char *data = malloc(room);
    if (data == NULL)
        room = 0;
    for (;;) {
        if (size == room && !grow(&data, &room)) {
            free(data);
            return strerror(ENOMEM);
        }
        ssize_t got = read(file, data + size, room - size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(data);
            return strerror(errno);
        }
        if (got == 0)
            break;
        size += (size_t)got;
    }
    *out_data = data;
    *out_size = size;
    return NULL;
}

const char *cli_read_file(const char *path, char **out_data, size_t *out_size)
{
    struct stat state;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return strerror(errno);
    size_t room = READ_SIZE_FIRST;
    if (fstat(file, &state) == 0 && S_ISREG(state.st_mode))
        room = (size_t)state.st_size + 1; /* one more, to see the end without growing */
    const char *problem = read_all(file, room, out_data, out_size);
    close(file);
    return problem;
}

const char *cli_read_stdin(char **out_data, size_t *out_size)
{
    return read_all(STDIN_FILENO, READ_SIZE_FIRST, out_data, out_size);
}

/* The file that a path means (links followed) and whether it is one to be replaced: a regular one
 * or none yet. */
struct place {
    char path[PATH_MAX];
    mode_t mode;
    bool replace;
};

static const char *find_place(const char *path, struct place *out_place)
{
    struct stat state;
    out_place->replace = true;
    out_place->mode = 0;
    if (stat(path, &state) != 0) {
        if (errno != ENOENT)
            return strerror(errno);
        if (strlen(path) >= sizeof out_place->path)
            return strerror(ENAMETOOLONG);
        strcpy(out_place->path, path);
        return NULL;
    }
    if (S_ISDIR(state.st_mode))
        return strerror(EISDIR);
    if (access(path, W_OK) != 0 || realpath(path, out_place->path) == NULL)
        return strerror(errno);
    out_place->replace = S_ISREG(state.st_mode);
    out_place->mode = state.st_mode & 0777;
    return NULL;
}

/* Creates PATH.XXXXXX beside the file; its descriptor, or -1. */
static int create_beside(const struct place *place, char *name, size_t size)
{
    int length = snprintf(name, size, "%s.XXXXXX", place->path);
    if (length < 0 || (size_t)length >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkstemp(name);
}

const char *cli_check_writable(const char *path)
{
    struct place place;
    char name[PATH_MAX];
    const char *problem = find_place(path, &place);
    if (problem != NULL || !place.replace)
        return problem;
    int file = create_beside(&place, name, sizeof name);
    if (file < 0)
        return strerror(errno);
    close(file);
    unlink(name);
    return NULL;
}

static bool write_all(int file, const struct cli_piece *piece)
{
    const char *data = piece->data;
    size_t left = piece->size;
    while (left > 0) {
        ssize_t put = write(file, data, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        data += put;
        left -= (size_t)put;
    }
    return true;
}

static bool write_pieces(int file, const struct cli_piece *pieces, int piece_count)
{
    for (int i = 0; i < piece_count; i++) {
        if (!write_all(file, &pieces[i]))
            return false;
    }
    return true;
}

/* mkstemp makes files private; this one gets the mode of the file it replaces, or that of a new
 * one. */
static bool set_mode(int file, mode_t mode)
{
    if (mode == 0) {
        mode_t mask = umask(0);
        umask(mask);
        mode = 0666 & ~mask;
    }
    return fchmod(file, mode) == 0;
}

static const char *write_special(const char *path, const struct cli_piece *pieces, int piece_count)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return strerror(errno);
    const char *problem = write_pieces(file, pieces, piece_count) ? NULL : strerror(errno);
    if (close(file) != 0 && problem == NULL)
        problem = strerror(errno);
    return problem;
}

const char *cli_write_file(const char *path, const struct cli_piece *pieces, int piece_count)
{
    struct place place;
    char name[PATH_MAX];
    const char *problem = find_place(path, &place);
    if (problem != NULL)
        return problem;
    if (!place.replace)
        return write_special(place.path, pieces, piece_count);
    int file = create_beside(&place, name, sizeof name);
    if (file < 0)
        return strerror(errno);
    bool written = write_pieces(file, pieces, piece_count) && set_mode(file, place.mode);
    if (!written)
        problem = strerror(errno);
    if (close(file) != 0 && problem == NULL)
        problem = strerror(errno);
    if (problem == NULL && rename(name, place.path) != 0)
        problem = strerror(errno);
    if (problem != NULL)
        unlink(name);
    return problem;
}

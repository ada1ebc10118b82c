/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspace: what a call takes from TVMBackendAllocWorkspace and gives back last in first out, or
 * leaves to its end, since its outputs may lie there. Each target holds a block as large as the
 * calls that it ran have needed, so that the next ones allocate nothing, and each thread one for
 * the tasks of parallel regions that it runs, until it leaves the region; what does not fit, and
 * what comes in another order, is the heap's.
 */
#include "firmware/tvm/tvm_impl.h"

#include <string.h>

/* Before each piece; as large as the alignment of what follows. */
struct piece {
    size_t size;  /* of all pieces before this one */
    void *before; /* the last one before it */
};

#define PIECE_BYTES ((size_t)C7X_HEAP_ALIGNMENT_DEFAULT)
_Static_assert(sizeof(struct piece) <= C7X_HEAP_ALIGNMENT_DEFAULT, "fits before the workspace");

static struct c7x_tvm_workspace workspaces[C7X_TVM_WORKSPACE_COUNT];

static struct c7x_tvm_workspace *take(struct c7x_tvm_workspace *workspace)
{
    if (workspace->is_taken)
        return NULL;
    workspace->is_taken = true;
    workspace->wanted = 0;
    c7x_tvm_workspace_clear(workspace);
    return workspace;
}

struct c7x_tvm_workspace *c7x_tvm_workspace_take(uint32_t target)
{
    return take(&workspaces[target % C7X_TVM_WORKSPACE_TARGETS]);
}

struct c7x_tvm_workspace *c7x_tvm_workspace_take_of_thread(uint32_t thread)
{
    return take(&workspaces[C7X_TVM_WORKSPACE_TARGETS + thread - 1]);
}

void c7x_tvm_workspace_clear(struct c7x_tvm_workspace *workspace)
{
    if (workspace == NULL)
        return;
    workspace->used = 0;
    workspace->last = NULL;
}

/* The block grows between two calls, when nobody is in it. Without memory for that, the next call
 * takes from the heap again. */
void c7x_tvm_workspace_give(struct c7x_tvm_workspace *workspace)
{
    if (workspace == NULL)
        return;
    workspace->is_taken = false;
    if (workspace->wanted <= workspace->size)
        return;
    c7x_heap_free(c7x_tvm.heap, workspace->block);
    workspace->block = c7x_heap_alloc(c7x_tvm.heap, C7X_HEAP_SERVICE, workspace->wanted, 0);
    workspace->size = workspace->block != NULL ? workspace->wanted : 0;
}

/* Where a piece of `size` bytes would end; 0: nowhere. */
static size_t end_of_next(const struct c7x_tvm_workspace *workspace, size_t size)
{
    size_t rounded = (size + PIECE_BYTES - 1) & ~(PIECE_BYTES - 1);
    if (workspace == NULL || c7x_tvm.guard || rounded < size ||
        rounded > SIZE_MAX - PIECE_BYTES - workspace->used)
        return 0;
    return workspace->used + PIECE_BYTES + rounded;
}

void *c7x_tvm_workspace_alloc(struct c7x_tvm_workspace *workspace, size_t size)
{
    size_t end = end_of_next(workspace, size);
    if (end == 0 || end > workspace->size)
        return NULL;
    struct piece *piece = (struct piece *)(void *)(workspace->block + workspace->used);
    *piece = (struct piece){workspace->used, workspace->last};
    workspace->last = (uint8_t *)piece + PIECE_BYTES;
    workspace->used = end;
    return workspace->last;
}

void c7x_tvm_workspace_want(struct c7x_tvm_workspace *workspace, size_t size)
{
    size_t end = end_of_next(workspace, size);
    if (end > 0 && end > workspace->wanted)
        workspace->wanted = end;
}

bool c7x_tvm_workspace_free(struct c7x_tvm_workspace *workspace, const void *block)
{
    if (workspace == NULL || workspace->block == NULL ||
        (uintptr_t)block - (uintptr_t)workspace->block >= workspace->size)
        return false;
    if (block != workspace->last)
        return true; /* with the call */
    struct piece piece;
    memcpy(&piece, (const uint8_t *)block - PIECE_BYTES, sizeof piece);
    if (piece.size < workspace->used && piece.size % PIECE_BYTES == 0) { /* else it is damaged */
        workspace->used = piece.size;
        workspace->last = piece.before;
    }
    return true;
}

void c7x_tvm_release_workspaces(void)
{
    for (size_t i = 0; i < C7X_TVM_WORKSPACE_COUNT; i++) {
        if (workspaces[i].is_taken)
            continue;
        c7x_heap_free(c7x_tvm.heap, workspaces[i].block);
        workspaces[i] = (struct c7x_tvm_workspace){0};
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/carveout.h"

#include "base/checked.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>

void c7x_carveout_deinit(struct c7x_carveout *carveout)
{
    free(carveout->used);
    carveout->used = NULL;
    carveout->used_count = carveout->used_capacity = 0;
}

/* Start of the gap in front of used range `index`; index used_count is the gap at the end. */
static uint64_t gap_start(const struct c7x_carveout *carveout, size_t index)
{
    if (index == 0)
        return carveout->base;
    return carveout->used[index - 1].address + carveout->used[index - 1].size;
}

static uint64_t gap_size(const struct c7x_carveout *carveout, size_t index)
{
    uint64_t end = index < carveout->used_count ? carveout->used[index].address
                                                : carveout->base + carveout->size;
    return end - gap_start(carveout, index);
}

static bool make_room(struct c7x_carveout *carveout)
{
    if (carveout->used_count < carveout->used_capacity)
        return true;
    size_t capacity = carveout->used_capacity == 0 ? 64 : 2 * carveout->used_capacity;
    struct c7x_carveout_range *used = realloc(carveout->used, capacity * sizeof *used);
    if (used == NULL)
        return false;
    carveout->used = used;
    carveout->used_capacity = capacity;
    return true;
}

enum c7x_status c7x_carveout_alloc(struct c7x_carveout *carveout, uint64_t size,
                                   struct c7x_carveout_range *out_range, struct c7x_error *error)
{
    uint64_t pages;
    if (size == 0 || !c7x_align_size(size, c7x_os_page_size(), &pages))
        return c7x_error_set(error, C7X_SIZE, "transport", "a shared buffer of %llu bytes",
                             (unsigned long long)size);
    size_t index = 0;
    while (index <= carveout->used_count && gap_size(carveout, index) < pages)
        index++;
    if (index > carveout->used_count || !make_room(carveout)) {
        struct c7x_oom oom = {size, c7x_carveout_free_bytes(carveout),
                              c7x_carveout_largest_free(carveout), carveout->size};
        return c7x_error_set_oom(error, "transport", oom, "a shared buffer in the carve-out");
    }
    struct c7x_carveout_range range = {gap_start(carveout, index), pages};
    memmove(&carveout->used[index + 1], &carveout->used[index],
            (carveout->used_count - index) * sizeof range);
    carveout->used[index] = range;
    carveout->used_count++;
    *out_range = range;
    return C7X_OK;
}

void c7x_carveout_free(struct c7x_carveout *carveout, uint64_t address)
{
    for (size_t i = 0; i < carveout->used_count; i++)
        if (carveout->used[i].address == address) {
            carveout->used_count--;
            memmove(&carveout->used[i], &carveout->used[i + 1],
                    (carveout->used_count - i) * sizeof carveout->used[0]);
            return;
        }
}

uint64_t c7x_carveout_free_bytes(const struct c7x_carveout *carveout)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i <= carveout->used_count; i++)
        bytes += gap_size(carveout, i);
    return bytes;
}

uint64_t c7x_carveout_largest_free(const struct c7x_carveout *carveout)
{
    uint64_t largest = 0;
    for (size_t i = 0; i <= carveout->used_count; i++)
        largest = gap_size(carveout, i) > largest ? gap_size(carveout, i) : largest;
    return largest;
}

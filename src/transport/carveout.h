/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First-fit allocation of whole pages of the system in a range of addresses, as the kernel's
 * carve-out heap does it (gen_pool). Only numbers: the range need not be mapped. Not thread-safe:
 * one owner.
 */
#ifndef C7X_TRANSPORT_CARVEOUT_H
#define C7X_TRANSPORT_CARVEOUT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct c7x_carveout_range {
    uint64_t address;
    uint64_t size;
};

/* Zeroed but for base and size: everything is free. */
struct c7x_carveout {
    uint64_t base;
    uint64_t size;
    struct c7x_carveout_range *used; /* sorted by address */
    size_t used_count;
    size_t used_capacity;
};

void c7x_carveout_deinit(struct c7x_carveout *carveout);
/* Takes the lowest free range of `size` bytes, rounded up to pages. C7X_SIZE for 0; C7X_NOMEM. */
enum c7x_status c7x_carveout_alloc(struct c7x_carveout *carveout, uint64_t size,
                                   struct c7x_carveout_range *out_range,
                                   struct c7x_error *error) C7X_NODISCARD;
/* Gives back the range that starts at `address`; nothing happens if none does. */
void c7x_carveout_free(struct c7x_carveout *carveout, uint64_t address);
uint64_t c7x_carveout_free_bytes(const struct c7x_carveout *carveout);
uint64_t c7x_carveout_largest_free(const struct c7x_carveout *carveout);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader must know of a processor: one file each. */
#ifndef C7X_FIRMWARE_LOADER_ARCH_ARCH_H
#define C7X_FIRMWARE_LOADER_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The operands of a relocation, in the letters of the processor supplements. */
struct c7x_relocation {
    uint32_t type;
    uint64_t symbol;   /* S: address of the symbol, 0 without one */
    uint64_t relative; /* run address of the link address A, for the relative types */
    int64_t addend;    /* A */
    uint64_t place;    /* P: address of the field */
};

enum c7x_relocation_result {
    C7X_RELOCATION_DONE,
    C7X_RELOCATION_OVERFLOW,
    C7X_RELOCATION_UNSUPPORTED
};

struct c7x_arch {
    uint16_t machine; /* e_machine */
    const char *name;
    /* Name of a relocation type, or NULL for an unknown one. */
    const char *(*relocation_name)(uint32_t type);
    /* Bytes of the type's field; 0 when it is not supported. */
    size_t (*relocation_width)(uint32_t type);
    /* Whether the type takes the value of a symbol. */
    bool (*relocation_uses_symbol)(uint32_t type);
    /* Whether the value has no bits that relocate() would drop because the processor cannot go
     * there. */
    bool (*is_aligned)(const struct c7x_relocation *relocation);
    /* Writes the field, which has the width above and any alignment. */
    enum c7x_relocation_result (*relocate)(const struct c7x_relocation *relocation, uint8_t *field);
    /* A dynamic tag that asks for what the loader does not do, and why it refuses; 0: none. */
    int64_t refused_tag;
    const char *refused_tag_reason;
    /* Whether the processor that runs this has the feature, in the spelling of Linux
     * (/proc/cpuinfo). */
    bool (*has_feature)(const char *name);
    /* Name of the i-th feature that has_feature() can say yes to; NULL past the last. */
    const char *(*feature_name)(size_t index);
};

/* The processor that executes modules. */
const struct c7x_arch *c7x_arch_native(void);

/* NULL for a machine whose files the loader does not know. */
const struct c7x_arch *c7x_arch_find(uint16_t machine);

/* Name of any e_machine; "machine 42" goes into `text` for an unknown one. */
const char *c7x_arch_machine_name(uint16_t machine, char *text, size_t text_size);

extern const struct c7x_arch c7x_arch_x86_64;
extern const struct c7x_arch c7x_arch_aarch64;
extern const struct c7x_arch c7x_arch_c7x;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TI C7x (e_machine 145). Constants and displacements are split over instructions, so a type says
 * which bits of the value go where in a little-endian container; all other bits of the container
 * stay. PC-relative values count from P rounded down to 4.
 *
 *   value V:      63 ............ high ..... low ...... 0      bits high..low are written,
 *   container:    ...... [ lsb + high - low ... lsb ] ...      from bit lsb on
 */
#include "firmware/loader/arch/arch.h"

#include "base/compiler.h"
#include "firmware/loader/elf64.h"

#include <string.h>

enum { R_BRANCH_FIRST = 27, R_BRANCH_LAST = 30 };

enum check {
    CHECK_NONE,   /* what does not fit is cut */
    CHECK_SIGNED, /* V fits `bits` bits as a signed number */
    CHECK_EITHER  /* or as an unsigned one */
};

struct field {
    uint32_t type;
    const char *name;
    uint8_t width; /* bytes of the container; 0: not supported */
    uint8_t lsb;
    uint8_t low;
    uint8_t high;
    enum check check;
    uint8_t bits; /* that the check is about */
    bool is_relative;
};

static const struct field fields[] = {
    {0, "R_C7X_NONE", 4, 0, 0, 0, CHECK_NONE, 0, false},
    {4, "R_C7X_PCR16", 0, 0, 0, 0, CHECK_NONE, 0, true},
    {16, "R_C7X_ABS16", 2, 0, 0, 15, CHECK_EITHER, 16, false},
    {17, "R_C7X_ABS32", 4, 0, 0, 31, CHECK_EITHER, 32, false},
    {18, "R_C7X_ABS64", 8, 0, 0, 63, CHECK_NONE, 0, false},
    {19, "R_C7X_MVK32_LO5", 4, 14, 0, 4, CHECK_NONE, 0, false},
    {20, "R_C7X_MVK32_HI27", 4, 5, 5, 31, CHECK_EITHER, 32, false},
    {21, "R_C7X_MVK_LO10", 4, 14, 0, 9, CHECK_NONE, 0, false},
    {22, "R_C7X_MVK64_MID27", 4, 5, 10, 36, CHECK_NONE, 0, false},
    {23, "R_C7X_MVK49_HI12", 4, 5, 37, 63, CHECK_EITHER, 49, false}, /* 27 bits, not 12 */
    {24, "R_C7X_MVK64_HI27", 4, 5, 37, 63, CHECK_NONE, 0, false},
    {25, "R_C7X_PCR_OFFSET_LO5", 4, 20, 0, 4, CHECK_NONE, 0, true},
    {26, "R_C7X_PCR_OFFSET_HI27", 4, 5, 5, 31, CHECK_SIGNED, 32, true},
    {27, "R_C7X_PCR_BRANCH_LO19", 4, 8, 2, 20, CHECK_SIGNED, 21, true},
    {28, "R_C7X_PCR_BRANCH_LO24", 4, 8, 2, 25, CHECK_SIGNED, 26, true},
    {29, "R_C7X_PCR_EBRANCH_LO19", 4, 8, 2, 20, CHECK_NONE, 0, true},
    {30, "R_C7X_PCR_EBRANCH_HI27", 4, 5, 21, 47, CHECK_SIGNED, 48, true},
    {31, "R_C7X_PREL30", 4, 0, 2, 31, CHECK_SIGNED, 32, true},
    {32, "R_C7X_PCR_OFFSET_ADDKPC_LO5", 4, 20, 0, 4, CHECK_NONE, 0, true},
    {33, "R_C7X_PCR_OFFSET_ADDKPC_HI27", 4, 5, 5, 31, CHECK_SIGNED, 32, true},
};

static const struct field *find(uint32_t type)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(fields); i++)
        if (fields[i].type == type)
            return &fields[i];
    return NULL;
}

static const char *relocation_name(uint32_t type)
{
    const struct field *field = find(type);
    return field != NULL ? field->name : NULL;
}

static size_t relocation_width(uint32_t type)
{
    const struct field *field = find(type);
    return field != NULL ? field->width : 0;
}

static bool relocation_uses_symbol(uint32_t type)
{
    return find(type) != NULL;
}

static bool fits_signed(uint64_t value, unsigned bits)
{
    uint64_t limit = 1ull << (bits - 1);
    return value + limit < 2 * limit;
}

static bool fits(const struct field *field, uint64_t value)
{
    switch (field->check) {
    case CHECK_NONE:
        return true;
    case CHECK_SIGNED:
        return fits_signed(value, field->bits);
    case CHECK_EITHER:
        return fits_signed(value, field->bits) || value < 1ull << field->bits;
    }
    return false;
}

static uint64_t read_container(const uint8_t *bytes, unsigned width)
{
    uint64_t word = 0;
    for (unsigned i = width; i-- > 0;)
        word = word << 8 | bytes[i];
    return word;
}

static void write_container(uint8_t *bytes, unsigned width, uint64_t word)
{
    for (unsigned i = 0; i < width; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
}

static uint64_t value_of(const struct field *field, const struct c7x_relocation *relocation)
{
    uint64_t value = relocation->symbol + (uint64_t)relocation->addend;
    return field->is_relative ? value - (relocation->place & ~3ull) : value;
}

/* Branches go to whole instructions. */
static bool is_aligned(const struct c7x_relocation *relocation)
{
    const struct field *field = find(relocation->type);
    bool is_branch = field != NULL && field->type >= R_BRANCH_FIRST && field->type <= R_BRANCH_LAST;
    return !is_branch || (value_of(field, relocation) & 3) == 0;
}

static enum c7x_relocation_result relocate(const struct c7x_relocation *relocation, uint8_t *bytes)
{
    const struct field *field = find(relocation->type);
    if (field == NULL || field->width == 0)
        return C7X_RELOCATION_UNSUPPORTED;
    if (field->type == 0)
        return C7X_RELOCATION_DONE;
    uint64_t value = value_of(field, relocation);
    if (!fits(field, value))
        return C7X_RELOCATION_OVERFLOW;
    unsigned count = field->high - field->low + 1u;
    uint64_t mask = count == 64 ? ~0ull : (1ull << count) - 1;
    uint64_t word = read_container(bytes, field->width);
    word = (word & ~(mask << field->lsb)) | (value >> field->low & mask) << field->lsb;
    write_container(bytes, field->width, word);
    return C7X_RELOCATION_DONE;
}

/* Its instruction set has no optional parts that a module could name. */
static bool has_feature(const char *name)
{
    (void)name;
    return false;
}

static const char *feature_name(size_t index)
{
    (void)index;
    return NULL;
}

const struct c7x_arch c7x_arch_c7x = {
    .machine = C7X_ELF_MACHINE_C7X,
    .name = "C7x",
    .relocation_name = relocation_name,
    .relocation_width = relocation_width,
    .relocation_uses_symbol = relocation_uses_symbol,
    .is_aligned = is_aligned,
    .relocate = relocate,
    .has_feature = has_feature,
    .feature_name = feature_name,
};

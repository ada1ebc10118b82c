/* SPDX-License-Identifier: Apache-2.0 */
/* AArch64: ELF for the Arm 64-bit Architecture, "Dynamic relocations". */
#include "base/compiler.h"
#include "firmware/loader/arch/arch.h"
#include "firmware/loader/elf64.h"

#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define DT_PAC_PLT 0x70000003

enum { R_ABS64 = 257, R_GLOB_DAT = 1025, R_JUMP_SLOT = 1026, R_RELATIVE = 1027 };

static const struct {
    uint32_t type;
    uint8_t width;
    bool uses_symbol;
    const char *name;
} types[] = {
    {R_ABS64, 8, true, "R_AARCH64_ABS64"},        {1024, 0, true, "R_AARCH64_COPY"},
    {R_GLOB_DAT, 8, true, "R_AARCH64_GLOB_DAT"},  {R_JUMP_SLOT, 8, true, "R_AARCH64_JUMP_SLOT"},
    {R_RELATIVE, 8, false, "R_AARCH64_RELATIVE"}, {1028, 0, true, "R_AARCH64_TLS_DTPMOD64"},
    {1029, 0, true, "R_AARCH64_TLS_DTPREL64"},    {1030, 0, true, "R_AARCH64_TLS_TPREL64"},
    {1031, 0, true, "R_AARCH64_TLSDESC"},         {1032, 0, false, "R_AARCH64_IRELATIVE"},
};

static size_t index_of(uint32_t type)
{
    size_t i = 0;
    while (i < C7X_ARRAY_COUNT(types) && types[i].type != type)
        i++;
    return i;
}

static const char *relocation_name(uint32_t type)
{
    size_t i = index_of(type);
    return i < C7X_ARRAY_COUNT(types) ? types[i].name : NULL;
}

static size_t relocation_width(uint32_t type)
{
    size_t i = index_of(type);
    return i < C7X_ARRAY_COUNT(types) ? types[i].width : 0;
}

static bool relocation_uses_symbol(uint32_t type)
{
    size_t i = index_of(type);
    return i < C7X_ARRAY_COUNT(types) && types[i].uses_symbol;
}

static bool is_aligned(const struct c7x_relocation *relocation)
{
    (void)relocation;
    return true;
}

static enum c7x_relocation_result relocate(const struct c7x_relocation *relocation, uint8_t *field)
{
    uint64_t value = relocation->symbol + (uint64_t)relocation->addend;
    if (relocation_width(relocation->type) == 0)
        return C7X_RELOCATION_UNSUPPORTED;
    if (relocation->type == R_RELATIVE)
        value = relocation->relative;
    memcpy(field, &value, sizeof(value));
    return C7X_RELOCATION_DONE;
}

/* Bits of AT_HWCAP (word 0) and AT_HWCAP2 (word 1). */
static const struct {
    const char *name;
    uint8_t word;
    uint8_t bit;
} features[] = {
    {"fp", 0, 0},    {"asimd", 0, 1},    {"crc32", 0, 7},     {"atomics", 0, 8},
    {"fphp", 0, 9},  {"asimdhp", 0, 10}, {"asimdrdm", 0, 12}, {"jscvt", 0, 13},
    {"fcma", 0, 14}, {"asimddp", 0, 20}, {"sve", 0, 22},      {"asimdfhm", 0, 23},
    {"sve2", 1, 1},  {"frint", 1, 8},    {"i8mm", 1, 13},     {"bf16", 1, 14},
};

static bool has_feature(const char *name)
{
#if defined(__aarch64__) && defined(__linux__)
    for (size_t i = 0; i < C7X_ARRAY_COUNT(features); i++) {
        if (strcmp(features[i].name, name) == 0)
            return (getauxval(features[i].word == 0 ? AT_HWCAP : AT_HWCAP2) >> features[i].bit &
                    1u) != 0;
    }
#endif
    (void)name;
    return false;
}

static const char *feature_name(size_t index)
{
    return index < C7X_ARRAY_COUNT(features) ? features[index].name : NULL;
}

const struct c7x_arch c7x_arch_aarch64 = {
    .machine = C7X_ELF_MACHINE_AARCH64,
    .name = "AArch64",
    .relocation_name = relocation_name,
    .relocation_width = relocation_width,
    .relocation_uses_symbol = relocation_uses_symbol,
    .is_aligned = is_aligned,
    .relocate = relocate,
    .refused_tag = DT_PAC_PLT,
    .refused_tag_reason =
        "DT_AARCH64_PAC_PLT: signed addresses are not supported (link without -z pac-plt)",
    .has_feature = has_feature,
    .feature_name = feature_name,
};

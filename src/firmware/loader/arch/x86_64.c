/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64: System V psABI, "Relocation Types", and Intel SDM volume 2, CPUID. */
#include "base/compiler.h"
#include "firmware/loader/arch/arch.h"
#include "firmware/loader/elf64.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum {
    R_64 = 1,
    R_PC32 = 2,
    R_GLOB_DAT = 6,
    R_JUMP_SLOT = 7,
    R_RELATIVE = 8,
    R_32 = 10,
    R_32S = 11,
    R_PC64 = 24
};

/* A type without a width has a name so that the refusal can say it. */
static const struct {
    uint32_t type;
    uint8_t width;
    bool uses_symbol;
    const char *name;
} types[] = {
    {R_64, 8, true, "R_X86_64_64"},
    {R_PC32, 4, true, "R_X86_64_PC32"},
    {5, 0, true, "R_X86_64_COPY"},
    {R_GLOB_DAT, 8, true, "R_X86_64_GLOB_DAT"},
    {R_JUMP_SLOT, 8, true, "R_X86_64_JUMP_SLOT"},
    {R_RELATIVE, 8, false, "R_X86_64_RELATIVE"},
    {R_32, 4, true, "R_X86_64_32"},
    {R_32S, 4, true, "R_X86_64_32S"},
    {16, 0, true, "R_X86_64_DTPMOD64"},
    {17, 0, true, "R_X86_64_DTPOFF64"},
    {18, 0, true, "R_X86_64_TPOFF64"},
    {R_PC64, 8, true, "R_X86_64_PC64"},
    {36, 0, true, "R_X86_64_TLSDESC"},
    {37, 0, false, "R_X86_64_IRELATIVE"},
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

static enum c7x_relocation_result put64(uint8_t *field, uint64_t value)
{
    memcpy(field, &value, sizeof(value));
    return C7X_RELOCATION_DONE;
}

static enum c7x_relocation_result put32_signed(uint8_t *field, uint64_t value)
{
    int32_t narrow = (int32_t)(value & 0xffffffffu);
    if ((uint64_t)(int64_t)narrow != value)
        return C7X_RELOCATION_OVERFLOW;
    memcpy(field, &narrow, sizeof(narrow));
    return C7X_RELOCATION_DONE;
}

static enum c7x_relocation_result put32_unsigned(uint8_t *field, uint64_t value)
{
    uint32_t narrow = (uint32_t)value;
    if (narrow != value)
        return C7X_RELOCATION_OVERFLOW;
    memcpy(field, &narrow, sizeof(narrow));
    return C7X_RELOCATION_DONE;
}

static bool is_aligned(const struct c7x_relocation *relocation)
{
    (void)relocation;
    return true;
}

static enum c7x_relocation_result relocate(const struct c7x_relocation *relocation, uint8_t *field)
{
    uint64_t sum = relocation->symbol + (uint64_t)relocation->addend;
    switch (relocation->type) {
    case R_64:
    case R_GLOB_DAT:
    case R_JUMP_SLOT:
        return put64(field, sum);
    case R_RELATIVE:
        return put64(field, relocation->relative);
    case R_PC64:
        return put64(field, sum - relocation->place);
    case R_PC32:
        return put32_signed(field, sum - relocation->place);
    case R_32S:
        return put32_signed(field, sum);
    case R_32:
        return put32_unsigned(field, sum);
    default:
        return C7X_RELOCATION_UNSUPPORTED;
    }
}

/* What the operating system must save for the feature's registers: a bit set of XCR0. */
enum { STATE_NONE = 0, STATE_YMM = 0x06, STATE_ZMM = 0xe6 };
enum { EAX, EBX, ECX, EDX };

struct feature {
    const char *name;
    uint32_t leaf;
    uint8_t subleaf;
    uint8_t word;
    uint8_t bit;
    uint8_t state;
};

static const struct feature features[] = {
    {"sse2", 1, 0, EDX, 26, STATE_NONE},
    {"pni", 1, 0, ECX, 0, STATE_NONE},
    {"sse3", 1, 0, ECX, 0, STATE_NONE},
    {"ssse3", 1, 0, ECX, 9, STATE_NONE},
    {"fma", 1, 0, ECX, 12, STATE_YMM},
    {"cx16", 1, 0, ECX, 13, STATE_NONE},
    {"sse4_1", 1, 0, ECX, 19, STATE_NONE},
    {"sse4_2", 1, 0, ECX, 20, STATE_NONE},
    {"movbe", 1, 0, ECX, 22, STATE_NONE},
    {"popcnt", 1, 0, ECX, 23, STATE_NONE},
    {"avx", 1, 0, ECX, 28, STATE_YMM},
    {"f16c", 1, 0, ECX, 29, STATE_YMM},
    {"bmi1", 7, 0, EBX, 3, STATE_NONE},
    {"avx2", 7, 0, EBX, 5, STATE_YMM},
    {"bmi2", 7, 0, EBX, 8, STATE_NONE},
    {"avx512f", 7, 0, EBX, 16, STATE_ZMM},
    {"avx512dq", 7, 0, EBX, 17, STATE_ZMM},
    {"avx512ifma", 7, 0, EBX, 21, STATE_ZMM},
    {"avx512cd", 7, 0, EBX, 28, STATE_ZMM},
    {"avx512bw", 7, 0, EBX, 30, STATE_ZMM},
    {"avx512vl", 7, 0, EBX, 31, STATE_ZMM},
    {"avx512vbmi", 7, 0, ECX, 1, STATE_ZMM},
    {"avx512_vbmi2", 7, 0, ECX, 6, STATE_ZMM},
    {"avx512_vnni", 7, 0, ECX, 11, STATE_ZMM},
    {"avx512_bitalg", 7, 0, ECX, 12, STATE_ZMM},
    {"avx512_vpopcntdq", 7, 0, ECX, 14, STATE_ZMM},
    {"avx512_fp16", 7, 0, EDX, 23, STATE_ZMM},
    {"avx_vnni", 7, 1, EAX, 4, STATE_YMM},
    {"avx512_bf16", 7, 1, EAX, 5, STATE_ZMM},
    {"abm", 0x80000001u, 0, ECX, 5, STATE_NONE},
    {"lzcnt", 0x80000001u, 0, ECX, 5, STATE_NONE},
};

#if defined(__x86_64__)
/* XCR0, or 0 when the operating system does not use it. */
static uint32_t saved_state(void)
{
    unsigned eax, ebx, ecx, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & (1u << 27)) == 0)
        return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return eax;
}

static bool cpu_has(const struct feature *feature)
{
    unsigned words[4];
    if (__get_cpuid_count(feature->leaf, feature->subleaf, &words[EAX], &words[EBX], &words[ECX],
                          &words[EDX]) == 0)
        return false;
    return (words[feature->word] >> feature->bit & 1u) != 0 &&
           (saved_state() & feature->state) == feature->state;
}
#else
static bool cpu_has(const struct feature *feature)
{
    (void)feature;
    return false;
}
#endif

static bool has_feature(const char *name)
{
    for (size_t i = 0; i < C7X_ARRAY_COUNT(features); i++) {
        if (strcmp(features[i].name, name) == 0)
            return cpu_has(&features[i]);
    }
    return false;
}

static const char *feature_name(size_t index)
{
    return index < C7X_ARRAY_COUNT(features) ? features[index].name : NULL;
}

const struct c7x_arch c7x_arch_x86_64 = {
    .machine = C7X_ELF_MACHINE_X86_64,
    .name = "x86-64",
    .relocation_name = relocation_name,
    .relocation_width = relocation_width,
    .relocation_uses_symbol = relocation_uses_symbol,
    .is_aligned = is_aligned,
    .relocate = relocate,
    .has_feature = has_feature,
    .feature_name = feature_name,
};

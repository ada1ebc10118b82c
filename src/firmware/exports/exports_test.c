/* SPDX-License-Identifier: Apache-2.0 */
#include "firmware/exports/exports.h"

#include "firmware/exports/c7x_abi.h"
#include "firmware/tvm/platform.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Every name that a module for this firmware may import. */
static const char expected[] =
    /* C library */
    "memcpy memmove memset memcmp printf puts fputs fflush vprintf snprintf vsnprintf malloc "
    "calloc free abort memalign __c7xabi_cmpd expf logf sqrtf powf floorf fmaxf "
    /* TVM backend, and its names of older modules */
    "TVMBackendAllocWorkspace TVMBackendFreeWorkspace TVMBackendGetFuncFromEnv "
    "TVMBackendGetFuncFromGlobalRegistry TVMBackendRegisterSystemLibSymbol "
    "TVMBackendParallelLaunch TVMBackendParallelBarrier TVMFuncCall TVMArgs_Create "
    "vm_builtin_alloc_storage vm_builtin_alloc_tensor vm_builtin_alloc_shape_heap "
    "vm_builtin_make_shape vm_builtin_match_shape vm_builtin_check_tensor_info "
    "vm_builtin_null_value vm_builtin_copy vm_builtin_make_tuple vm_builtin_reshape "
    /* VM builtins */
    "TVMDSPBuiltinAllocStorage TVMDSPBuiltinAllocTensor TVMDSPBuiltinAllocShapeHeap "
    "TVMDSPBuiltinMakeShape TVMDSPBuiltinMatchShape TVMDSPBuiltinCheckTensorInfo "
    "TVMDSPBuiltinCheckShapeInfo TVMDSPBuiltinNullValue TVMDSPBuiltinReshapeDirect "
    "TVMDSPBuiltinMakeTupleDirect TVMDSPStorageAlloc TVMDSPStorageAllocNDArray "
    "TVMDSPBuiltinAllocStoragePacked TVMDSPBuiltinAllocTensorPacked "
    "TVMDSPBuiltinAllocShapeHeapPacked TVMDSPBuiltinMakeShapePacked "
    "TVMDSPBuiltinMatchShapePacked TVMDSPBuiltinCheckTensorInfoPacked "
    "TVMDSPBuiltinNullValuePacked TVMDSPBuiltinCopyPacked TVMDSPBuiltinMakeTuplePacked "
    "TVMDSPBuiltinReshapePacked "
    /* register file and objects */
    "TVMDSPRegFileInit TVMDSPRegSetAny TVMDSPRegFileCleanup TVMFFIObjectIncRef "
    "TVMFFIObjectDecRef TVMFFIObjectFree TVMFFIAnyMove TVMFFIAnyCopy TVMFFIAnyClear "
    /* platform */
    "tvm_dsp_alloc tvm_dsp_free tvm_dsp_get_free_memory tvm_dsp_cache_writeback "
    "tvm_dsp_cache_invalidate tvm_dsp_cache_writeback_invalidate tvm_dsp_log "
    "tvm_dsp_get_l2_base tvm_dsp_get_l2_size tvm_dsp_dma_copy tvm_dsp_dma_wait "
    "TVMDSPGetConstant TVMDSPGetAllConstants CacheP_inv CacheP_wb CacheP_wbInv DebugP_log "
    /* kernels */
    "c7x_int8_residual_add_relu c7x_int16_residual_add_relu c7x_dequantize_vecmatmul "
    "c7x_sdpa_decode c7x_topk c7x_int8_gelu c7x_int8_silu c7x_int8_hardsigmoid "
    "c7x_int8_hardswish c7x_int8_silu_f32out c7x_int8_channel_scale_multiply "
    "c7x_int8_global_avg_pool c7x_int8_avg_pool c7x_int8_max_pool c7x_int8_max_pool_tidl "
    "c7x_int8_relu c7x_int8_clamp c7x_int8_requantize_clamp c7x_int8_quantize "
    "c7x_int8_quantize_rgb c7x_int8_layer_norm c7x_int8_concat_rescale c7x_int8_concat_sigmoid "
    "c7x_int8_rescale c7x_int8_resize2d_nearest2x c7x_int8_fpn_upsample_concat "
    "c7x_int8_fpn_upsample_concat_ex c7x_int8_dfl_softmax "
    /* MMALIB */
    "mmalib_matmul_i8 mmalib_matmul_i16 mmalib_conv2d_i8 mmalib_conv2d_i16 "
    "mmalib_conv2d_i8_sliced mmalib_conv2d_i8_grouped_loop mmalib_depthwise_conv2d_i8 "
    "mmalib_depthwise_conv2d_i16 mmalib_matmul_bias_i8 mmalib_matmul_bias_i16 "
    /* TIDL's bridge */
    "appMemAlloc appMemFree g_l1_mem_addr g_l1_mem_size g_l2_mem_addr g_l2_mem_size "
    "g_l3_mem_addr g_l3_mem_size TVM_lockInterrupts TVM_unlockInterrupts TVM_cacheWbInv "
    "TVM_cacheWbInvRegion dsp_trace_msg "
    /* what clang makes of memcmp */
    "bcmp ";

/* What only TI's libraries could stand behind. */
static const char absent[] =
    "TIDL_VISION_FXNS getUDMADrvObjPtr appUdmaGetObj DmaUtilsAutoInc3d_configure "
    "DmaUtilsAutoInc3d_convertTrVirtToPhyAddr DmaUtilsAutoInc3d_deconfigure "
    "DmaUtilsAutoInc3d_deinit DmaUtilsAutoInc3d_getContextSize DmaUtilsAutoInc3d_getTrMemReq "
    "DmaUtilsAutoInc3d_init DmaUtilsAutoInc3d_prepareTr "
    "DmaUtilsAutoInc3d_prepareTrWithPhysicalAddress DmaUtilsAutoInc3d_trigger "
    "DmaUtilsAutoInc3d_wait ";

/* Looks all names up; returns how many there are. */
static unsigned assert_exported(const char *names, bool exported)
{
    char name[64];
    unsigned count = 0;
    int used;
    for (; sscanf(names, "%63s%n", name, &used) == 1; names += used, count++) {
        if ((c7x_exports.find(&c7x_exports, name) != NULL) != exported)
            fail_msg("%s is %sexported", name, exported ? "not " : "");
    }
    return count;
}

static void every_expected_name_is_exported(void **state)
{
    (void)state;
    assert_int_equal(assert_exported(expected, true), 142);
}

static void absent_names_are_not_exported(void **state)
{
    (void)state;
    assert_int_equal(assert_exported(absent, false), 14);
}

static void names_are_found(void **state)
{
    (void)state;
    assert_non_null(c7x_exports.find(&c7x_exports, "memcpy"));
    assert_non_null(c7x_exports.find(&c7x_exports, "TVMDSPRegFileInit"));
    assert_non_null(c7x_exports.find(&c7x_exports, "tanhf"));
    assert_string_equal(c7x_export_group("tanhf"), "math");
}

static void other_names_are_not(void **state)
{
    (void)state;
    assert_null(c7x_exports.find(&c7x_exports, ""));
    assert_null(c7x_exports.find(&c7x_exports, "memcp"));
    assert_null(c7x_exports.find(&c7x_exports, "memcpyy"));
    assert_null(c7x_exports.find(&c7x_exports, "system"));
    assert_null(c7x_export_group("TIDL_VISION_FXNS"));
}

static void a_data_name_is_the_address_of_the_variable(void **state)
{
    (void)state;
    assert_ptr_equal(c7x_exports.find(&c7x_exports, "g_l2_mem_size"), &g_l2_mem_size);
}

static void helpers_of_the_compiler_compute(void **state)
{
    (void)state;
    assert_int_equal(c7x_abi_cmpd(-0.0, 0.0), 0);
    assert_int_equal(c7x_abi_cmpd(1.0, 2.0), -1);
    assert_int_equal(c7x_abi_cmpd((double)INFINITY, 2.0), 1);
    assert_int_equal(c7x_abi_cmpd((double)NAN, 2.0), 1);
    assert_int_equal(c7x_abi_cmpd(2.0, (double)NAN), 1);
    assert_true(c7x_abi_divf(1.0f, 4.0f) == 0.25f);
    assert_true(c7x_abi_divull(UINT64_MAX, 2) == UINT64_MAX / 2);
    assert_true(c7x_abi_divull(1, 0) == UINT64_MAX);
}

/* Name by name, and none is missing: the title counts them. */
static void the_compilers_list_is_the_table(void **state)
{
    char line[256];
    char title[64];
    unsigned count = 0;
    FILE *list = fopen("compiler/c7x_compile/exports.txt", "r");
    (void)state;
    assert_non_null(list);
    while (fgets(line, sizeof(line), list) != NULL) {
        char name[128];
        char group[128];
        if (line[0] == '#' || sscanf(line, "%127s %127s", name, group) != 2)
            continue;
        count++;
        if (c7x_export_group(name) == NULL)
            fail_msg("exports.txt names %s, which the firmware does not export", name);
        assert_string_equal(c7x_export_group(name), group);
    }
    assert_int_equal(fclose(list), 0);
    (void)snprintf(title, sizeof(title), "export table version 3, %u names", count);
    assert_string_equal(c7x_exports.title, title);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_expected_name_is_exported),
        cmocka_unit_test(absent_names_are_not_exported),
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(other_names_are_not),
        cmocka_unit_test(a_data_name_is_the_address_of_the_variable),
        cmocka_unit_test(helpers_of_the_compiler_compute),
        cmocka_unit_test(the_compilers_list_is_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

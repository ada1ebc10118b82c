/* SPDX-License-Identifier: Apache-2.0 */
/* make_c7x FILE: writes a whole C7x module, with imports, io_meta and weights, but for its code. */
#include "support/c7x_builder.h"

#include <stdio.h>
#include <string.h>

#define IO_META_OFFSET 0x00
#define WEIGHTS_OFFSET 0x40
#define SIZE_OFFSET 0xf0

static struct c7x_file file;
static struct c7x_builder builder;

/* One tensor float32[2]. */
static uint32_t put_weights(uint8_t *at)
{
    static const uint64_t count = 1;
    static const int32_t type = 70;
    static const struct {
        uint64_t magic, reserved;
        int32_t device_type, device_id, ndim;
        uint8_t code, bits, lanes[2];
        int64_t shape, size;
        float data[2];
    } tensor = {0xDD5E40F096B4A13Full, 0, 1, 0, 1, 2, 32, {1, 0}, 2, 8, {1, 2}};
    memcpy(at, &count, sizeof(count));
    memcpy(at + 8, &type, sizeof(type));
    memcpy(at + 12, &tensor, sizeof(tensor));
    return 12 + (uint32_t)sizeof(tensor);
}

static void put_rodata(void)
{
    static const uint32_t meta[10] = {0x4D4F4954u, 1, 1, 1, 192, 0, 192, 0, 1, 0};
    uint32_t size = put_weights(file.rodata + WEIGHTS_OFFSET);
    memcpy(file.rodata + IO_META_OFFSET, meta, sizeof(meta));
    memcpy(file.rodata + SIZE_OFFSET, &size, sizeof(size));
}

static void export_rodata(const char *name, uint64_t offset)
{
    (void)c7x_builder_symbol(&builder, name, 1, C7X_FILE_S_RODATA, C7X_FILE_AT(rodata) + offset);
}

int main(int argc, char **argv)
{
    FILE *out = argc == 2 ? fopen(argv[1], "wb") : NULL;
    if (out == NULL)
        return 1;
    c7x_builder_init(&builder, &file);
    put_rodata();
    export_rodata("_binary_tvm_dsp_io_meta_start", IO_META_OFFSET);
    export_rodata("_binary_weights_bin_start", WEIGHTS_OFFSET);
    export_rodata("_binary_weights_bin_size", SIZE_OFFSET);
    c7x_builder_relocate(&builder, C7X_FILE_AT(data), 18, C7X_FILE_SYMBOL_RODATA, 0);
    c7x_builder_stub(&builder, "printf");
    c7x_builder_relocate(&builder, C7X_FILE_AT(text) + 8, 33,
                         c7x_builder_import(&builder, "printf", 1), 0);
    c7x_builder_finish(&builder);
    size_t written = fwrite(&file, sizeof(file), 1, out);
    return fclose(out) == 0 && written == 1 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "c7x_kernels.h"
#include "firmware/kernels/mmalib_impl.h"

/* Output elements of a row that are summed at once. */
#define TILE 64

struct size {
    int32_t in_channels, height, width, out_channels;
};

struct kernel {
    int32_t height, width, stride_height, stride_width;
};

struct pad {
    int32_t top, bottom, left, right;
};

struct conv2d {
    const void *in;     /* [in_channels][height][width] */
    const void *weight; /* [out_channels][in_channels / groups][kernel_height][kernel_width] */
    void *out;          /* [out_channels][out_height][out_width] */
    struct c7x_requantizer requantizer;
    struct size size;
    struct kernel kernel;
    struct pad pad;
    int32_t groups;
    int32_t first_channel;         /* of a slice: where it begins in out and the requantizer */
    int32_t out_height, out_width; /* set by prepare */
};

/* The tile: elements [column, column + count) of a row of an output channel. */
struct tile {
    int64_t channel;
    int64_t row;
    int64_t column;
    int64_t count;
};

/* Elements along one axis; 0 if the kernel does not fit. */
static int64_t out_size(int32_t size, int32_t before, int32_t after, int32_t kernel, int32_t stride)
{
    int64_t room = (int64_t)size + before + after - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

/* Works out the output's size; false if an argument is bad. */
static bool prepare(struct conv2d *c)
{
    int64_t height;
    int64_t width;
    int64_t products;
    int64_t volume;
    if (!c7x_is_aligned(c->in) || c->weight == NULL || !c7x_is_aligned(c->out) ||
        c->kernel.stride_height < 1 || c->kernel.stride_width < 1 || c->kernel.height < 1 ||
        c->kernel.width < 1 || c->pad.top < 0 || c->pad.bottom < 0 || c->pad.left < 0 ||
        c->pad.right < 0 || c->groups < 1 || c->size.in_channels % c->groups != 0 ||
        c->size.out_channels % c->groups != 0 ||
        !C7X_VOLUME(&volume, c->size.in_channels, c->size.height, c->size.width) ||
        !C7X_VOLUME(&products, c->size.in_channels / c->groups, c->kernel.height,
                    c->kernel.width) ||
        !C7X_VOLUME(&volume, c->size.out_channels, c->size.in_channels / c->groups,
                    c->kernel.height, c->kernel.width))
        return false;
    height = out_size(c->size.height, c->pad.top, c->pad.bottom, c->kernel.height,
                      c->kernel.stride_height);
    width =
        out_size(c->size.width, c->pad.left, c->pad.right, c->kernel.width, c->kernel.stride_width);
    if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX ||
        (c->requantizer.element == C7X_MMALIB_I8 && products > C7X_MMALIB_I8_PRODUCTS_MAX))
        return false;
    c->out_height = (int32_t)height;
    c->out_width = (int32_t)width;
    return c->first_channel >= 0 && c->first_channel <= INT32_MAX - c->size.out_channels &&
           C7X_VOLUME(&volume, c->first_channel + c->size.out_channels, c->out_height,
                      c->out_width) &&
           c7x_shifts_are_good(&c->requantizer, c->first_channel, c->size.out_channels);
}

/* ---- One tile ---- */

/* The sums of a tile while it is worked on: int8 in 32 bits, which prepare has made sure of. */
union sums {
    int32_t narrow[TILE];
    int64_t wide[TILE];
};

/* Where one weight meets the tile: element i, first <= i < last, adds input[start + i * stride] */
struct tap {
    int64_t start;
    int64_t first;
    int64_t last;
};

static void add_i8(int32_t sums[TILE], const int8_t *in, struct tap tap, int64_t stride,
                   int8_t factor)
{
    if (stride == 1) {
        for (int64_t i = tap.first; i < tap.last; i++)
            sums[i] += in[tap.start + i] * factor;
    } else {
        for (int64_t i = tap.first; i < tap.last; i++)
            sums[i] += in[tap.start + i * stride] * factor;
    }
}

static void add_i16(int64_t sums[TILE], const int16_t *in, struct tap tap, int64_t stride,
                    int16_t factor)
{
    for (int64_t i = tap.first; i < tap.last; i++)
        sums[i] += in[tap.start + i * stride] * factor;
}

/* The part of an input row that lies below one column of the kernel, without padding. */
static struct tap tap_of(const struct conv2d *c, const struct tile *tile, int32_t kernel_column,
                         int64_t row_start)
{
    int64_t stride = c->kernel.stride_width;
    int64_t column = tile->column * stride + kernel_column - c->pad.left; /* of element 0 */
    return (struct tap){
        .start = row_start + column,
        .first = column >= 0 ? 0 : (-column + stride - 1) / stride,
        .last = c7x_clamp((c->size.width - column + stride - 1) / stride, 0, tile->count),
    };
}

/* Adds one row of the kernel: `line` counts the rows of all its input channels. */
static void add_line(const struct conv2d *c, const struct tile *tile, int64_t line,
                     union sums *sums)
{
    int64_t depth = c->size.in_channels / c->groups;
    int64_t channel =
        tile->channel / (c->size.out_channels / c->groups) * depth + line / c->kernel.height;
    int64_t row = tile->row * c->kernel.stride_height + line % c->kernel.height - c->pad.top;
    int64_t weight = (tile->channel * depth * c->kernel.height + line) * c->kernel.width;
    if (row < 0 || row >= c->size.height)
        return;
    for (int32_t i = 0; i < c->kernel.width; i++) {
        struct tap tap = tap_of(c, tile, i, (channel * c->size.height + row) * c->size.width);
        if (c->requantizer.element == C7X_MMALIB_I8)
            add_i8(sums->narrow, c->in, tap, c->kernel.stride_width,
                   ((const int8_t *)c->weight)[weight + i]);
        else
            add_i16(sums->wide, c->in, tap, c->kernel.stride_width,
                    ((const int16_t *)c->weight)[weight + i]);
    }
}

static void run_tile(const struct conv2d *c, const struct tile *tile)
{
    int64_t lines = (int64_t)(c->size.in_channels / c->groups) * c->kernel.height;
    int64_t channel = c->first_channel + tile->channel;
    int64_t at = (channel * c->out_height + tile->row) * c->out_width + tile->column;
    int64_t results[TILE];
    union sums sums;
    memset(&sums, 0, sizeof(sums));
    for (int64_t line = 0; line < lines; line++)
        add_line(c, tile, line, &sums);
    for (int64_t i = 0; i < tile->count; i++)
        results[i] = c->requantizer.element == C7X_MMALIB_I8 ? sums.narrow[i] : sums.wide[i];
    c7x_requantize(&c->requantizer, channel, results, tile->count,
                   (uint8_t *)c->out + at * c->requantizer.element);
}

static int32_t run(struct conv2d *c)
{
    if (!prepare(c))
        return C7X_KERNEL_REFUSED;
    for (int64_t channel = 0; channel < c->size.out_channels; channel++) {
        for (int64_t row = 0; row < c->out_height; row++) {
            for (int64_t column = 0; column < c->out_width; column += TILE) {
                int64_t count = c7x_clamp(c->out_width - column, 0, TILE);
                run_tile(c, &(struct tile){channel, row, column, count});
            }
        }
    }
    return 0;
}

/* ---- The entries ---- */

int32_t mmalib_conv2d_i8(const void *in, const void *weight, const void *bias, const void *scale,
                         const void *shift, void *out, int32_t in_channels, int32_t height,
                         int32_t width, int32_t out_channels, int32_t kernel_height,
                         int32_t kernel_width, int32_t stride_height, int32_t stride_width,
                         int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I8};
    const struct size size = {in_channels, height, width, out_channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, 1, 0, 0, 0};
    return run(&c);
}

int32_t mmalib_conv2d_i16(const void *in, const void *weight, const void *bias, const void *scale,
                          const void *shift, void *out, int32_t in_channels, int32_t height,
                          int32_t width, int32_t out_channels, int32_t kernel_height,
                          int32_t kernel_width, int32_t stride_height, int32_t stride_width,
                          int32_t pad_top, int32_t pad_bottom, int32_t pad_left, int32_t pad_right)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I16};
    const struct size size = {in_channels, height, width, out_channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, 1, 0, 0, 0};
    return run(&c);
}

int32_t mmalib_conv2d_i8_sliced(const void *in, const void *weight, const void *bias,
                                const void *scale, const void *shift, void *out,
                                int32_t in_channels, int32_t height, int32_t width,
                                int32_t out_channels, int32_t kernel_height, int32_t kernel_width,
                                int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                int32_t first_channel)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I8};
    const struct size size = {in_channels, height, width, out_channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, 1, first_channel, 0, 0};
    return run(&c);
}

int32_t mmalib_conv2d_i8_grouped_loop(const void *in, const void *weight, const void *bias,
                                      const void *scale, const void *shift, void *out,
                                      int32_t in_channels, int32_t height, int32_t width,
                                      int32_t out_channels, int32_t kernel_height,
                                      int32_t kernel_width, int32_t stride_height,
                                      int32_t stride_width, int32_t pad_top, int32_t pad_bottom,
                                      int32_t pad_left, int32_t pad_right, int32_t groups)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I8};
    const struct size size = {in_channels, height, width, out_channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, groups, 0, 0, 0};
    return bias == NULL || scale == NULL || shift == NULL ? C7X_KERNEL_REFUSED : run(&c);
}

int32_t mmalib_depthwise_conv2d_i8(const void *in, const void *weight, const void *bias,
                                   const void *scale, const void *shift, void *out,
                                   int32_t channels, int32_t height, int32_t width,
                                   int32_t kernel_height, int32_t kernel_width,
                                   int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                   int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                   int32_t groups)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I8};
    const struct size size = {channels, height, width, channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, groups, 0, 0, 0};
    return groups != channels ? C7X_KERNEL_REFUSED : run(&c);
}

int32_t mmalib_depthwise_conv2d_i16(const void *in, const void *weight, const void *bias,
                                    const void *scale, const void *shift, void *out,
                                    int32_t channels, int32_t height, int32_t width,
                                    int32_t kernel_height, int32_t kernel_width,
                                    int32_t stride_height, int32_t stride_width, int32_t pad_top,
                                    int32_t pad_bottom, int32_t pad_left, int32_t pad_right,
                                    int32_t groups)
{
    const struct c7x_requantizer requantizer = {bias, scale, shift, C7X_MMALIB_I16};
    const struct size size = {channels, height, width, channels};
    const struct kernel kernel = {kernel_height, kernel_width, stride_height, stride_width};
    const struct pad pad = {pad_top, pad_bottom, pad_left, pad_right};
    struct conv2d c = {in, weight, out, requantizer, size, kernel, pad, groups, 0, 0, 0};
    return groups != channels || kernel_height != 3 || kernel_width != 3 ? C7X_KERNEL_REFUSED
                                                                         : run(&c);
}

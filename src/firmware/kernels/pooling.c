/* SPDX-License-Identifier: Apache-2.0 */
#include "c7x_kernels.h"
#include "firmware/kernels/kernels_impl.h"

struct pool {
    int32_t in_height, in_width;
    int32_t out_height, out_width;
    int32_t kernel_height, kernel_width;
    int32_t stride_height, stride_width;
    int32_t pad_height, pad_width;
};

/* The part of an output's window that lies in the plane, [top, bottom) x [left, right). */
struct window {
    int64_t top, bottom, left, right;
};

static int64_t sum_of(const int8_t *x, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

int32_t c7x_int8_global_avg_pool(const void *in, void *out, int32_t batch, int32_t channels,
                                 int32_t height, int32_t width, int32_t in_zero, float in_scale,
                                 int32_t out_zero, float out_scale)
{
    const struct c7x_quantization in_q = {in_scale, in_zero};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    int64_t volume;
    int64_t area;
    if (in == NULL || out == NULL || height == 0 || width == 0 ||
        !C7X_VOLUME(&volume, batch, channels, height, width) || !C7X_VOLUME(&area, height, width) ||
        !c7x_quantization_is_good(in_q) || !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    for (int64_t plane = 0; plane < (int64_t)batch * channels; plane++) {
        int64_t sum = sum_of((const int8_t *)in + plane * area, area) - area * in_zero;
        ((int8_t *)out)[plane] = c7x_quantize((float)sum / (float)area * in_scale, out_q);
    }
    return 0;
}

/* Takes the volumes of all planes; false if an argument is bad. */
static bool pool_is_good(const void *in, const void *out, int32_t batch, int32_t channels,
                         const struct pool *p, int64_t *planes)
{
    int64_t volume;
    return in != NULL && out != NULL && p->kernel_height > 0 && p->kernel_width > 0 &&
           p->stride_height > 0 && p->stride_width > 0 && p->pad_height >= 0 && p->pad_width >= 0 &&
           C7X_VOLUME(planes, batch, channels) &&
           C7X_VOLUME(&volume, batch, channels, p->in_height, p->in_width) &&
           C7X_VOLUME(&volume, batch, channels, p->out_height, p->out_width);
}

static struct window window_of(const struct pool *p, int64_t row, int64_t column)
{
    int64_t top = row * p->stride_height - p->pad_height;
    int64_t left = column * p->stride_width - p->pad_width;
    return (struct window){
        .top = c7x_clamp(top, 0, p->in_height),
        .bottom = c7x_clamp(top + p->kernel_height, 0, p->in_height),
        .left = c7x_clamp(left, 0, p->in_width),
        .right = c7x_clamp(left + p->kernel_width, 0, p->in_width),
    };
}

/* The sum of x - zero over a window. */
static int64_t window_sum(const int8_t *plane, int32_t width, struct window w, int32_t zero)
{
    int64_t sum = 0;
    for (int64_t row = w.top; row < w.bottom; row++)
        sum += sum_of(plane + row * width + w.left, w.right - w.left);
    return sum - (w.bottom - w.top) * (w.right - w.left) * zero;
}

static int8_t window_max(const int8_t *plane, int32_t width, struct window w)
{
    int8_t most = INT8_MIN;
    for (int64_t row = w.top; row < w.bottom; row++) {
        for (int64_t column = w.left; column < w.right; column++) {
            int8_t x = plane[row * width + column];
            most = x > most ? x : most;
        }
    }
    return most;
}

int32_t c7x_int8_avg_pool(const void *in, void *out, int32_t batch, int32_t channels,
                          int32_t in_height, int32_t in_width, int32_t out_height,
                          int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                          int32_t stride_height, int32_t stride_width, int32_t pad_height,
                          int32_t pad_width, int32_t in_zero, float in_scale, int32_t out_zero,
                          float out_scale)
{
    const struct pool p = {in_height,    in_width,      out_height,   out_width,  kernel_height,
                           kernel_width, stride_height, stride_width, pad_height, pad_width};
    const struct c7x_quantization in_q = {in_scale, in_zero};
    const struct c7x_quantization out_q = {out_scale, out_zero};
    const int8_t *x = in;
    int8_t *y = out;
    float area = (float)((int64_t)kernel_height * kernel_width);
    int64_t planes;
    if (!pool_is_good(in, out, batch, channels, &p, &planes) || !c7x_quantization_is_good(in_q) ||
        !c7x_quantization_is_good(out_q))
        return C7X_KERNEL_REFUSED;
    for (int64_t plane = 0; plane < planes; plane++, x += (int64_t)in_height * in_width) {
        for (int32_t row = 0; row < out_height; row++) {
            for (int32_t column = 0; column < out_width; column++) {
                int64_t sum = window_sum(x, in_width, window_of(&p, row, column), in_zero);
                *y++ = c7x_quantize((float)sum / area * in_scale, out_q);
            }
        }
    }
    return 0;
}

int32_t c7x_int8_max_pool(const void *in, void *out, int32_t batch, int32_t channels,
                          int32_t in_height, int32_t in_width, int32_t out_height,
                          int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                          int32_t stride_height, int32_t stride_width, int32_t pad_height,
                          int32_t pad_width)
{
    const struct pool p = {in_height,    in_width,      out_height,   out_width,  kernel_height,
                           kernel_width, stride_height, stride_width, pad_height, pad_width};
    const int8_t *x = in;
    int8_t *y = out;
    int64_t planes;
    if (!pool_is_good(in, out, batch, channels, &p, &planes))
        return C7X_KERNEL_REFUSED;
    for (int64_t plane = 0; plane < planes; plane++, x += (int64_t)in_height * in_width) {
        for (int32_t row = 0; row < out_height; row++) {
            for (int32_t column = 0; column < out_width; column++)
                *y++ = window_max(x, in_width, window_of(&p, row, column));
        }
    }
    return 0;
}

int32_t c7x_int8_max_pool_tidl(const void *in, void *out, int32_t batch, int32_t channels,
                               int32_t in_height, int32_t in_width, int32_t out_height,
                               int32_t out_width, int32_t kernel_height, int32_t kernel_width,
                               int32_t stride_height, int32_t stride_width, int32_t pad_height,
                               int32_t pad_width)
{
    return c7x_int8_max_pool(in, out, batch, channels, in_height, in_width, out_height, out_width,
                             kernel_height, kernel_width, stride_height, stride_width, pad_height,
                             pad_width);
}

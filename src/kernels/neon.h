/* neon.h - NEON in the words of both 64-bit and 32-bit ARM, and functions of the neon set that the
 * later sets take over.
 *
 * 32-bit NEON flushes denormal operands and results. Where that could show, the 32-bit set uses the
 * scalar functions; everywhere else nothing denormal comes about (internal.h, attention.h). */
#ifndef MK_KERNELS_NEON_H
#define MK_KERNELS_NEON_H

#include <arm_neon.h>

#include "kernels/attention.h"
#include "kernels/internal.h"

/* table[index], lane by lane; index below 16. */
static inline int8x16_t mk_lookup(int8x16_t table, uint8x16_t index)
{
#if defined(__aarch64__)
    return vqtbl1q_s8(table, index);
#else
    int8x8x2_t halves = {{vget_low_s8(table), vget_high_s8(table)}};
    return vcombine_s8(vtbl2_s8(halves, vreinterpret_s8_u8(vget_low_u8(index))),
                       vtbl2_s8(halves, vreinterpret_s8_u8(vget_high_u8(index))));
#endif
}

static inline int8x16_t mk_lookup_low(int8x16_t table, uint8x16_t codes)
{
    return mk_lookup(table, vandq_u8(codes, vdupq_n_u8(15)));
}

static inline int8x16_t mk_lookup_high(int8x16_t table, uint8x16_t codes)
{
    return mk_lookup(table, vshrq_n_u8(codes, 4));
}

/* The sums of the lanes of a, b, c and d. */
static inline int32x4_t mk_sum_lanes4(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d)
{
#if defined(__aarch64__)
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
    int32x2_t ab =
        vpadd_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)), vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
    int32x2_t cd =
        vpadd_s32(vpadd_s32(vget_low_s32(c), vget_high_s32(c)), vpadd_s32(vget_low_s32(d), vget_high_s32(d)));
    return vcombine_s32(ab, cd);
#endif
}

/* The fp16 scales of a group. */
static inline float32x4_t mk_load_d(const uint8_t *d)
{
#if defined(__aarch64__)
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(d)));
#else
    float f[4];
    for (int i = 0; i < 4; i++)
        f[i] = mk_half_to_float(mk_load16(d + 2 * i));
    return vld1q_f32(f);
#endif
}

/* acc = fma((float)sum, d * x_scale, acc) for the four rows of a group. */
static inline float32x4_t mk_add_super_block(float32x4_t acc, int32x4_t sum, float32x4_t d, float x_scale)
{
    return vfmaq_f32(acc, vcvtq_f32_s32(sum), vmulq_n_f32(d, x_scale));
}

/* Where the results of a tile of gemm go: one group of rows, or two. */
typedef struct mk_results {
    float *y; /* of the first row and token */
    size_t y_stride;
    const float *x_scales; /* of the first token */
    size_t x_scale_stride;
    float32x4_t d[2];
} mk_results;

/* Loads stand first: the compiler cannot know that these rows of y are not each other. */
static inline __attribute__((always_inline)) void mk_add_tokens(mk_results *to, const uint32_t count,
                                                                const uint32_t groups, const int32x4_t *sums,
                                                                const uint32_t sums_stride)
{
    float32x4_t acc[4][2];
    float x_scale[4], *y = to->y;
    for (uint32_t i = 0; i < count; i++, y += to->y_stride) {
        x_scale[i] = *to->x_scales;
        to->x_scales += to->x_scale_stride;
        for (uint32_t g = 0; g < groups; g++)
            acc[i][g] = vld1q_f32(y + 4 * g);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t g = 0; g < groups; g++)
            acc[i][g] = mk_add_super_block(acc[i][g], sums[i * sums_stride + g], to->d[g], x_scale[i]);
    }
    y = to->y;
    for (uint32_t i = 0; i < count; i++, y += to->y_stride) {
        for (uint32_t g = 0; g < groups; g++)
            vst1q_f32(y + 4 * g, acc[i][g]);
    }
    to->y = y;
}

/* Adds the sums of one super-block for `count` tokens, sums_stride apart. */
static inline __attribute__((always_inline)) void mk_add_sums(const mk_results *results, uint32_t count,
                                                              const uint32_t groups, const int32x4_t *sums,
                                                              const uint32_t sums_stride)
{
    mk_results to = *results;
    for (; count >= 4; count -= 4, sums += 4 * sums_stride) {
        if (groups == sums_stride)
            MK_MARK("scale");
        mk_add_tokens(&to, 4, groups, sums, sums_stride);
        if (groups == sums_stride)
            MK_MARK_END;
    }
    for (; count > 0; count--, sums += sums_stride)
        mk_add_tokens(&to, 1, groups, sums, sums_stride);
}

/* Zeroes the results of groups begin .. end - 1, before the first super-block. */
static inline void mk_clear_results(float *y, size_t y_stride, uint32_t begin, uint32_t end, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++)
        memset(y + t * y_stride + (size_t)begin * MKN_GROUP, 0, (end - begin) * MKN_GROUP * sizeof *y);
}

/* Four successive positions of attention; the last one stands in for those past the end, whose results
 * are not used. */
static inline void mk_four_positions(const mk_attention *a, uint32_t t, size_t at[4])
{
    for (uint32_t i = 0; i < 4; i++)
        at[i] = (size_t)a->first + (t + i < a->count ? t + i : a->count - 1);
}

/* scales[at[i] * step + offset] as floats. */
static inline float32x4_t mk_gather_bfloat16(const uint16_t *scales, const size_t at[4], size_t step,
                                             size_t offset)
{
    uint32_t bits[4];
    for (int i = 0; i < 4; i++)
        bits[i] = (uint32_t)scales[at[i] * step + offset] << 16;
    return vreinterpretq_f32_u32(vld1q_u32(bits));
}

void mk_neon_hadamard(float *x, uint32_t n);
void mk_neon_quantize(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales,
                      int32_t *sums);
float mk_neon_quantize_query(const float *x, uint32_t n, uint32_t padded, int8_t *codes);
void mk_neon_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out);
void mk_neon_silu_multiply(float *gate, const float *up, uint32_t n);
void mk_neon_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                  const float *sines);
void mk_neon_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);
void mk_neon_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);
float mk_neon_softmax(float *s, uint32_t count);
void mk_neon_values_q8(const mk_attention *a, const float *e, size_t stride, const float *inverse);
void mk_neon_values_q4(const mk_attention *a, const float *e, size_t stride, const float *inverse);

/* Those of the dotprod set. */
void mk_dotprod_gemv(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                     float *y);
void mk_dotprod_attend_q8(const mk_attention *a);
void mk_dotprod_attend_q4(const mk_attention *a);

#endif

/* neon.c - ARMv8-A (Cortex-A53, A72) and ARMv7-A with NEON and VFPv4. Flags: none on 64-bit ARM;
 * -mfpu=neon-vfpv4 on 32-bit. */
#if defined(__aarch64__) || (defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA))
#include "kernels/neon.h"

#include "base/math.h"

/* ---- Lanes ----------------------------------------------------------------------------------- */

static inline float largest_lane(float32x4_t v)
{
    float32x2_t m = vmax_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpmax_f32(m, m), 0);
}

static inline int32_t sum_lanes(int32x4_t v)
{
    int32x2_t s = vadd_s32(vget_low_s32(v), vget_high_s32(v));
    return vget_lane_s32(vpadd_s32(s, s), 0);
}

/* Nearest integer, half to even, for magnitudes below 2^22 (as mk_rint). */
static inline int32x4_t round_lanes(float32x4_t v)
{
#if defined(__aarch64__)
    return vcvtnq_s32_f32(v);
#else
    const float32x4_t magic = vdupq_n_f32(12582912.0f);
    return vcvtq_s32_f32(vsubq_f32(vaddq_f32(v, magic), magic));
#endif
}

/* ---- Walsh-Hadamard transform ---------------------------------------------------------------- */

/* Strides 1 and 2 within four values: swapped + value * +-1, the product being exact. */
static inline float32x4_t hadamard_lanes(float32x4_t v, float32x4_t sign1, float32x4_t sign2)
{
    v = vfmaq_f32(vrev64q_f32(v), v, sign1);
    return vfmaq_f32(vextq_f32(v, v, 2), v, sign2);
}

/* Strides of 1 to count / 2 vectors over `count` vectors. */
static inline __attribute__((always_inline)) void hadamard_vectors(float32x4_t *v, const uint32_t count)
{
    for (uint32_t stride = 1; stride < count; stride *= 2) {
        for (uint32_t i = 0; i < count; i++) {
            if (i & stride)
                continue;
            float32x4_t a = v[i], b = v[i + stride];
            v[i] = vaddq_f32(a, b);
            v[i + stride] = vsubq_f32(a, b);
        }
    }
}

/* All strides within 4 * count values, inputs below the least magnitude set to zero. */
static inline __attribute__((always_inline)) void hadamard_begin(float *x, const uint32_t count)
{
    static const float signs[8] = {1, -1, 1, -1, 1, 1, -1, -1};
    const float32x4_t least = vdupq_n_f32(MK_HADAMARD_MIN), sign1 = vld1q_f32(signs),
                      sign2 = vld1q_f32(signs + 4);
    float32x4_t v[8];
    for (uint32_t i = 0; i < count; i++) {
        float32x4_t in = vld1q_f32(x + 4 * i);
        uint32x4_t keep = vcageq_f32(in, least);
        in = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(in), keep));
        v[i] = hadamard_lanes(in, sign1, sign2);
    }
    hadamard_vectors(v, count);
    for (uint32_t i = 0; i < count; i++)
        vst1q_f32(x + 4 * i, v[i]);
}

/* Strides `stride` to stride * count / 2; values that far apart are at x, x + stride, ...; the results
 * are multiplied by `scale`. */
static inline __attribute__((always_inline)) void hadamard_widen(float *x, uint32_t stride, float scale,
                                                                 const uint32_t count)
{
    for (uint32_t i = 0; i < stride; i += 4) {
        float32x4_t v[8];
        for (uint32_t j = 0; j < count; j++)
            v[j] = vld1q_f32(x + i + j * stride);
        hadamard_vectors(v, count);
        for (uint32_t j = 0; j < count; j++)
            vst1q_f32(x + i + j * stride, vmulq_n_f32(v[j], scale));
    }
}

/* Strides from `stride` on over the whole length; the last pass multiplies by the scale. */
static void hadamard_finish(float *x, uint32_t length, uint32_t stride)
{
    float scale = mk_hadamard_scale(length);
    for (; 8 * stride < length; stride *= 8) {
        for (uint32_t i = 0; i < length; i += 8 * stride)
            hadamard_widen(x + i, stride, 1.0f, 8);
    }
    if (8 * stride == length)
        hadamard_widen(x, stride, scale, 8);
    else if (4 * stride == length)
        hadamard_widen(x, stride, scale, 4);
    else if (2 * stride == length)
        hadamard_widen(x, stride, scale, 2);
    else
        hadamard_widen(x, length, scale, 1);
}

/* length is a power of two from 4 to 1024. */
static void hadamard_power(float *x, uint32_t length)
{
    for (uint32_t i = 0; length >= 32 && i < length; i += 32)
        hadamard_begin(x + i, 8);
    if (length == 16)
        hadamard_begin(x, 4);
    else if (length == 8)
        hadamard_begin(x, 2);
    else if (length == 4)
        hadamard_begin(x, 1);
    hadamard_finish(x, length, length < 32 ? length : 32);
}

void mk_neon_hadamard(float *x, uint32_t n)
{
    while (n >= 4) {
        uint32_t length = mk_hadamard_length(n);
        hadamard_power(x, length);
        x += length;
        n -= length;
    }
    mk_scalar_hadamard(x, n);
}

/* ---- Quantization ---------------------------------------------------------------------------- */

static float largest_magnitude(const float *x, uint32_t n)
{
    float32x4_t m0 = vdupq_n_f32(0), m1 = m0;
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        m0 = vmaxq_f32(m0, vabsq_f32(vld1q_f32(x + i)));
        m1 = vmaxq_f32(m1, vabsq_f32(vld1q_f32(x + i + 4)));
    }
    float largest = largest_lane(vmaxq_f32(m0, m1));
    for (; i < n; i++) {
        float magnitude = mk_float_from_bits(mk_float_bits(x[i]) & 0x7fffffffu);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

/* codes[n] = rint(x * inverse); returns their sum. */
static int32_t round_codes(const float *x, uint32_t n, float inverse, int8_t *codes)
{
    int32x4_t sums = vdupq_n_s32(0);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        int32x4_t a = round_lanes(vmulq_n_f32(vld1q_f32(x + i), inverse));
        int32x4_t b = round_lanes(vmulq_n_f32(vld1q_f32(x + i + 4), inverse));
        vst1_s8(codes + i, vmovn_s16(vcombine_s16(vmovn_s32(a), vmovn_s32(b))));
        sums = vaddq_s32(sums, vaddq_s32(a, b));
    }
    int32_t sum = sum_lanes(sums);
    for (; i < n; i++) {
        codes[i] = (int8_t)mk_rint(x[i] * inverse);
        sum += codes[i];
    }
    return sum;
}

static float quantize_vector(const float *x, uint32_t n, uint32_t padded, int8_t *codes, int32_t *sum)
{
    float largest = largest_magnitude(x, n);
    if (largest < MK_QUANTIZE_MIN) {
        memset(codes, 0, padded);
        *sum = 0;
        return 0;
    }
    *sum = round_codes(x, n, 127.0f / largest, codes);
    memset(codes + n, 0, padded - n);
    return largest / 127.0f;
}

void mk_neon_quantize(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales,
                      int32_t *sums)
{
    for (uint32_t at = 0; at < cols; at += MKN_SUPER_BLOCK) {
        float block[MKN_SUPER_BLOCK];
        uint32_t n = cols - at < MKN_SUPER_BLOCK ? cols - at : MKN_SUPER_BLOCK;
        uint32_t padded = mk_pad32(n);
        memcpy(block, x + at, n * sizeof *x);
        memset(block + n, 0, (padded - n) * sizeof *x);
        if (transform)
            mk_neon_hadamard(block, padded);
        *scales++ = quantize_vector(block, padded, padded, codes + at, sums++);
    }
}

float mk_neon_quantize_query(const float *x, uint32_t n, uint32_t padded, int8_t *codes)
{
    int32_t sum;
    return quantize_vector(x, n, padded, codes, &sum);
}

/* ---- Products of int8 ------------------------------------------------------------------------ */

/* Adds 16 products, in pairs that stay below 2^15 (both within +-127), to four sums. */
static inline int32x4_t add_products(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
#if defined(__aarch64__)
    pairs = vmlal_high_s8(pairs, w, x);
#else
    pairs = vmlal_s8(pairs, vget_high_s8(w), vget_high_s8(x));
#endif
    return vpadalq_s16(acc, pairs);
}

#if defined(__aarch64__)
#include "kernels/neon_loops.h"

static int32x4_t sum_q4(const mk_super_block *sb, const int8_t *tables, const int8_t *x);
static int32x4_t sum_q8(const mk_super_block *sb, const int8_t *x);
#define SUM_Q4 sum_q4
#define SUM_Q8 sum_q8
#endif

#include "kernels/neon_dot.h"

#if defined(__aarch64__)
/* What is left of a super-block after its even number of blocks. */
static inline mk_super_block last_block(const mk_super_block *sb, size_t block_bytes)
{
    uint32_t even = sb->blocks & ~1u;
    return (mk_super_block){sb->blocks - even, sb->codes + even * block_bytes, sb->d, sb->picks + 4 * even};
}

static int32x4_t sum_q4(const mk_super_block *sb, const int8_t *tables, const int8_t *x)
{
    int32x4_t sum = vdupq_n_s32(0);
    if (sb->blocks > 1)
        sum = mk_neon_loop_q4(sb->codes, sb->picks, tables, x, sb->blocks / 2);
    if (sb->blocks % 2) {
        mk_super_block last = last_block(sb, 64);
        sum = vaddq_s32(sum, dot_q4(&last, tables, x + (sb->blocks - 1) * MKN_BLOCK));
    }
    return sum;
}

static int32x4_t sum_q8(const mk_super_block *sb, const int8_t *x)
{
    int32x4_t sum = vdupq_n_s32(0);
    if (sb->blocks > 1)
        sum = mk_neon_loop_q8((const int8_t *)sb->codes, x, sb->blocks / 2);
    if (sb->blocks % 2) {
        mk_super_block last = last_block(sb, 128);
        sum = vaddq_s32(sum, dot_q8(&last, x + (sb->blocks - 1) * MKN_BLOCK));
    }
    return sum;
}
#endif

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* One super-block of a group is expanded into the scratch as int8, [k / 16][4 rows][16], and used for all
 * tokens. Eight groups in turn use the same super-block of the activations, from the first-level cache. */
enum { TILE_GROUPS = 8 };

#if defined(__aarch64__)
enum { TILE_TOKENS = 4 }; /* 16 sums, 4 rows, 4 tokens in 32 registers */
#else
enum { TILE_TOKENS = 2 }; /* 8 sums, 4 rows, 2 tokens in 16 registers */
#endif

static void expand_q4(const mk_super_block *sb, const int8_t *tables, int8_t *out)
{
    const uint8_t *codes = sb->codes, *picks = sb->picks;
    MK_MARK("expand_q4");
    for (const uint8_t *end = picks + 4 * sb->blocks; picks < end; picks += 4, codes += 64, out += 128) {
        int8x16_t table[4];
        uint8x16_t c[4];
        for (uint32_t r = 0; r < 4; r++) {
            table[r] = vld1q_s8(tables + 16 * (size_t)picks[r]);
            c[r] = vld1q_u8(codes + 16 * r);
        }
        for (uint32_t r = 0; r < 4; r++) {
            vst1q_s8(out + 16 * r, mk_lookup_low(table[r], c[r]));
            vst1q_s8(out + 64 + 16 * r, mk_lookup_high(table[r], c[r]));
        }
    }
}

static void expand_q8(const mk_super_block *sb, int8_t *out)
{
    const int8_t *codes = (const int8_t *)sb->codes;
    MK_MARK("expand_q8");
    for (const int8_t *end = codes + 128 * sb->blocks; codes < end; codes += 128, out += 128) {
        int8x16_t c[8];
        for (uint32_t i = 0; i < 8; i++)
            c[i] = vld1q_s8(codes + 16 * i);
        for (uint32_t i = 0; i < 8; i++)
            vst1q_s8(out + i % 2 * 64 + i / 2 * 16, c[i]);
    }
}

/* Sums of four rows by `count` tokens, x_stride apart, over `steps` steps of 16 k. */
static inline __attribute__((always_inline)) void multiply_tile(const int8_t *w, const int8_t *x,
                                                                size_t x_stride, uint32_t steps,
                                                                const uint32_t count,
                                                                int32x4_t sums[TILE_TOKENS])
{
    int32x4_t acc[TILE_TOKENS][4];
    for (uint32_t t = 0; t < count; t++)
        acc[t][0] = acc[t][1] = acc[t][2] = acc[t][3] = vdupq_n_s32(0);
    for (const int8_t *end = w + 64 * steps; w < end; w += 64, x += 16) {
        int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
        for (uint32_t t = 0; t < count; t++) {
            int8x16_t v = vld1q_s8(x + t * x_stride);
            acc[t][0] = add_products(acc[t][0], w0, v);
            acc[t][1] = add_products(acc[t][1], w1, v);
            acc[t][2] = add_products(acc[t][2], w2, v);
            acc[t][3] = add_products(acc[t][3], w3, v);
        }
    }
    for (uint32_t t = 0; t < count; t++)
        sums[t] = mk_sum_lanes4(acc[t][0], acc[t][1], acc[t][2], acc[t][3]);
}

static void multiply_tokens(const int8_t *w, const int8_t *x, size_t x_stride, uint32_t steps, uint32_t count,
                            int32x4_t sums[TILE_TOKENS])
{
    if (count == 1)
        multiply_tile(w, x, x_stride, steps, 1, sums);
    else if (count == 2)
        multiply_tile(w, x, x_stride, steps, 2, sums);
#if defined(__aarch64__)
    else if (count == 3)
        multiply_tile(w, x, x_stride, steps, 3, sums);
    else
        mk_neon_loop_tile(w, x, x_stride, steps, (int32_t *)sums);
#endif
}

/* One group and super-block for all tokens; y of the first row. */
static void multiply_group(const int8_t *tile, const mk_super_block *sb, uint32_t super,
                           const mk_activations *x, uint32_t tokens, float *y, size_t y_stride)
{
    size_t x_stride = (size_t)x->blocks * MKN_BLOCK;
    const int8_t *x_codes = x->codes + (size_t)super * MKN_SUPER_BLOCK;
    mk_results to = {
        .y_stride = y_stride, .x_scale_stride = mk_super_blocks(x->blocks), .d = {mk_load_d(sb->d)}};
    for (uint32_t token = 0; token < tokens; token += TILE_TOKENS) {
        uint32_t count = tokens - token < TILE_TOKENS ? tokens - token : TILE_TOKENS;
        int32x4_t sums[TILE_TOKENS];
        multiply_tokens(tile, x_codes + token * x_stride, x_stride, 2 * sb->blocks, count, sums);
        to.y = y + token * y_stride;
        to.x_scales = x->scales + super + token * to.x_scale_stride;
        mk_add_sums(&to, count, 1, sums, 1);
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    for (uint32_t begin = group_begin; begin < group_end; begin += TILE_GROUPS) {
        uint32_t end = group_end - begin < TILE_GROUPS ? group_end : begin + TILE_GROUPS;
        mk_clear_results(y, y_stride, begin, end, tokens);
        for (uint32_t super = 0; super < mk_super_blocks(w->blocks); super++) {
            for (uint32_t g = begin; g < end; g++) {
                mk_super_block sb = mk_super_block_at(w, g, super);
                if (w->type == MKN_Q4)
                    expand_q4(&sb, w->tables, scratch);
                else
                    expand_q8(&sb, scratch);
                multiply_group(scratch, &sb, super, x, tokens, y + (size_t)g * MKN_GROUP, y_stride);
            }
        }
    }
}

/* ---- Exponential and elementwise functions ---------------------------------------------------- */

/* mk_exp, lane by lane. */
static inline float32x4_t exp4(float32x4_t x)
{
    x = vmaxq_f32(x, vdupq_n_f32(MK_EXP_MIN));
    x = vminq_f32(x, vdupq_n_f32(MK_EXP_MAX));
    int32x4_t n = round_lanes(vmulq_n_f32(x, MK_EXP_LOG2E));
    float32x4_t nf = vcvtq_f32_s32(n);
    float32x4_t r = vfmaq_f32(x, nf, vdupq_n_f32(-MK_EXP_LN2_HIGH));
    r = vfmaq_f32(r, nf, vdupq_n_f32(-MK_EXP_LN2_LOW));
    float32x4_t p = vfmaq_f32(vdupq_n_f32(MK_EXP_C5), vdupq_n_f32(MK_EXP_C6), r);
    p = vfmaq_f32(vdupq_n_f32(MK_EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(MK_EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(MK_EXP_C2), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t power = vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23);
    return vmulq_f32(p, vreinterpretq_f32_s32(power));
}

#if defined(__aarch64__)

void mk_neon_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out)
{
    float stripes[8];
    float32x4_t s0 = vdupq_n_f32(0), s1 = s0;
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + i + 4);
        s0 = vfmaq_f32(s0, a, a);
        s1 = vfmaq_f32(s1, b, b);
    }
    vst1q_f32(stripes, s0);
    vst1q_f32(stripes + 4, s1);
    for (; i < n; i++)
        stripes[i % 8] = mk_fma(x[i], x[i], stripes[i % 8]);
    float inverse = 1.0f / mk_sqrt(mk_sum_stripes(stripes) / (float)n + epsilon);
    for (i = 0; i + 4 <= n; i += 4)
        vst1q_f32(out + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), inverse), vld1q_f32(weight + i)));
    for (; i < n; i++)
        out[i] = (x[i] * inverse) * weight[i];
}

void mk_neon_silu_multiply(float *gate, const float *up, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float32x4_t g = vld1q_f32(gate + i);
        float32x4_t silu = vdivq_f32(g, vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(g))));
        vst1q_f32(gate + i, vmulq_f32(silu, vld1q_f32(up + i)));
    }
    mk_scalar_silu_multiply(gate + i, up + i, n - i);
}

void mk_neon_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                  const float *sines)
{
    for (uint32_t h = 0; h < heads; h++, x += head_size) {
        uint32_t i = 0;
        for (; i + 4 <= half; i += 4) {
            float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + half + i);
            float32x4_t c = vld1q_f32(cosines + i), s = vld1q_f32(sines + i);
            vst1q_f32(x + i, vfmaq_f32(vnegq_f32(vmulq_f32(b, s)), a, c));
            vst1q_f32(x + half + i, vfmaq_f32(vmulq_f32(b, c), a, s));
        }
        for (; i < half; i++) {
            float a = x[i], b = x[half + i];
            x[i] = mk_fma(a, cosines[i], -(b * sines[i]));
            x[half + i] = mk_fma(a, sines[i], b * cosines[i]);
        }
    }
}

#endif

/* ---- KV cache -------------------------------------------------------------------------------- */

void mk_neon_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint32_t stride = mk_kv_stride(false, head_size);
    int8_t *codes = (int8_t *)plane.codes + (size_t)t * stride;
    uint16_t scale = mk_kv_scale_q8(largest_magnitude(x, head_size));
    plane.scales[t] = scale;
    memset(codes, 0, stride);
    if (scale)
        round_codes(x, head_size, 1.0f / mk_bfloat16(scale), codes);
}

/* Index of the nearest level, lane by lane: the number of midpoints below. */
static inline uint16x4_t nearest_level4(float32x4_t x)
{
    uint32x4_t code = vdupq_n_u32(0);
    for (int i = 0; i < 15; i++)
        code = vsubq_u32(code, vcgtq_f32(x, vdupq_n_f32(mk_kv_midpoint(i))));
    return vmovn_u32(code);
}

static inline uint8x8_t nearest_level8(const float *x, float inverse)
{
    uint16x4_t low = nearest_level4(vmulq_n_f32(vld1q_f32(x), inverse));
    uint16x4_t high = nearest_level4(vmulq_n_f32(vld1q_f32(x + 4), inverse));
    return vmovn_u16(vcombine_u16(low, high));
}

/* 32 values to 16 bytes of codes; returns the scale. */
static uint16_t store_block_q4(const float *x, uint8_t *codes)
{
    float32x4_t high = vld1q_f32(x), low = high;
    for (int i = 4; i < 32; i += 4) {
        high = vmaxq_f32(high, vld1q_f32(x + i));
        low = vminq_f32(low, vld1q_f32(x + i));
    }
    uint16_t scale = mk_kv_scale_q4(largest_lane(high), -largest_lane(vnegq_f32(low)));
    if (!scale) {
        memset(codes, 0, 16);
        return 0;
    }
    float inverse = 1.0f / mk_bfloat16(scale);
    for (int i = 0; i < 16; i += 8) {
        uint8x8_t lower = nearest_level8(x + i, inverse), upper = nearest_level8(x + 16 + i, inverse);
        vst1_u8(codes + i, vorr_u8(lower, vshl_n_u8(upper, 4)));
    }
    return scale;
}

void mk_neon_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint8_t *codes = plane.codes + (size_t)t * mk_kv_stride(true, head_size);
    uint16_t *scales = plane.scales + (size_t)t * mk_kv_scales(true, head_size);
    uint32_t at = 0;
    for (; at + 32 <= head_size; at += 32, codes += 16)
        *scales++ = store_block_q4(x + at, codes);
    if (at < head_size) {
        float block[32] = {0};
        memcpy(block, x + at, (head_size - at) * sizeof *x);
        *scales = store_block_q4(block, codes);
    }
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* e of four scores, 0 below the cut. */
static inline float32x4_t softmax_exp(float32x4_t s, float32x4_t largest)
{
    float32x4_t difference = vsubq_f32(s, largest);
    uint32x4_t keep = vcgeq_f32(difference, vdupq_n_f32(MK_ATTENTION_CUT));
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(exp4(difference)), keep));
}

float mk_neon_softmax(float *s, uint32_t count)
{
    for (uint32_t t = count; t % 8; t++)
        s[t] = -__FLT_MAX__;
    float32x4_t largest = vdupq_n_f32(-__FLT_MAX__);
    for (uint32_t t = 0; t < count; t += 4)
        largest = vmaxq_f32(largest, vld1q_f32(s + t));
    largest = vdupq_n_f32(largest_lane(largest));
    float32x4_t s0 = vdupq_n_f32(0), s1 = s0;
    for (uint32_t t = 0; t < count; t += 8) {
        float32x4_t e0 = softmax_exp(vld1q_f32(s + t), largest);
        float32x4_t e1 = softmax_exp(vld1q_f32(s + t + 4), largest);
        vst1q_f32(s + t, e0);
        vst1q_f32(s + t + 4, e1);
        s0 = vaddq_f32(s0, e0);
        s1 = vaddq_f32(s1, e1);
    }
    float stripes[8];
    vst1q_f32(stripes, s0);
    vst1q_f32(stripes + 4, s1);
    return mk_sum_stripes(stripes);
}

#if defined(__aarch64__)
enum { TILE_HEADS = 4 };
#else
enum { TILE_HEADS = 2 };
#endif

/* 16 int8 as floats. */
static inline void widen_to_float(int8x16_t v, float32x4_t out[4])
{
    int16x8_t low = vmovl_s8(vget_low_s8(v)), high = vmovl_s8(vget_high_s8(v));
    out[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
    out[1] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(low)));
    out[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
    out[3] = vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)));
}

/* out[i .. i + 15] = acc * inverse, as far as the head goes. On 32-bit ARM by the scalar unit: this is the
 * one product that may be denormal. */
static inline void store_values(float *out, uint32_t i, uint32_t n, const float32x4_t acc[4], float inverse)
{
    float plain[16];
    for (int j = 0; j < 4; j++)
        vst1q_f32(plain + 4 * j, acc[j]);
    for (uint32_t j = 0; j < 16 && i + j < n; j++)
        out[i + j] = plain[j] * inverse;
}

/* Values i .. i + 15 of `heads` query heads from h on. */
static inline __attribute__((always_inline)) void values_tile(const mk_attention *a, const bool q4,
                                                              const float *e, size_t stride,
                                                              const float *inverse, uint32_t h, uint32_t i,
                                                              const uint32_t heads)
{
    const int8x16_t levels = vld1q_s8(mk_kv_levels);
    size_t value_stride = mk_kv_stride(q4, a->head_size), scale_stride = mk_kv_scales(q4, a->head_size);
    const uint8_t *codes = a->values.codes + a->first * value_stride + (q4 ? i / 32 * 16 : i);
    const uint16_t *scales = a->values.scales + a->first * scale_stride + (q4 ? i / 32 : 0);
    float32x4_t acc[TILE_HEADS][4];
    for (uint32_t j = 0; j < heads; j++)
        acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = vdupq_n_f32(0);
    for (uint32_t t = 0; t < a->count; t++, codes += value_stride, scales += scale_stride) {
        uint8x16_t c = vld1q_u8(codes);
        if (q4)
            c = vreinterpretq_u8_s8(i % 32 ? mk_lookup_high(levels, c) : mk_lookup_low(levels, c));
        float32x4_t v[4];
        widen_to_float(vreinterpretq_s8_u8(c), v);
        for (uint32_t j = 0; j < heads; j++) {
            float32x4_t weight = vdupq_n_f32(e[(h + j) * stride + t] * mk_bfloat16(*scales));
            for (int k = 0; k < 4; k++)
                acc[j][k] = vfmaq_f32(acc[j][k], v[k], weight);
        }
    }
    for (uint32_t j = 0; j < heads; j++)
        store_values(a->out + (size_t)(h + j) * a->head_size, i, a->head_size, acc[j], inverse[h + j]);
}

static inline __attribute__((always_inline)) void values(const mk_attention *a, const bool q4, const float *e,
                                                         size_t stride, const float *inverse)
{
    for (uint32_t i = 0; i < a->head_size; i += 16) {
        uint32_t h = 0;
        for (; h + TILE_HEADS <= a->group; h += TILE_HEADS)
            values_tile(a, q4, e, stride, inverse, h, i, TILE_HEADS);
#if defined(__aarch64__)
        if (a->group - h == 3)
            values_tile(a, q4, e, stride, inverse, h, i, 3);
        else if (a->group - h == 2)
            values_tile(a, q4, e, stride, inverse, h, i, 2);
#endif
        if (a->group - h == 1)
            values_tile(a, q4, e, stride, inverse, h, i, 1);
    }
}

void mk_neon_values_q8(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    values(a, false, e, stride, inverse);
}

void mk_neon_values_q4(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    values(a, true, e, stride, inverse);
}

static const mk_attention_steps steps = {
    .quantize = mk_neon_quantize_query,
    .scores = {scores_q8, scores_q4},
    .softmax = mk_neon_softmax,
    .values = {mk_neon_values_q8, mk_neon_values_q4},
};

static void attend_q8(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q8, &steps);
}

static void attend_q4(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q4, &steps);
}

const mk_kernels mk_kernels_neon = {
    .name = "neon",
    .hadamard = mk_neon_hadamard,
    .quantize = mk_neon_quantize,
    .gemv = gemv,
    .gemm = gemm,
#if defined(__aarch64__)
    .rms_norm = mk_neon_rms_norm,
    .silu_multiply = mk_neon_silu_multiply,
    .rope = mk_neon_rope,
#else
    .rms_norm = mk_scalar_rms_norm,
    .silu_multiply = mk_scalar_silu_multiply,
    .rope = mk_scalar_rope,
#endif
    .add = mk_scalar_add,
    .kv_store = {mk_neon_kv_store_q8, mk_neon_kv_store_q4},
    .attend = {attend_q8, attend_q4},
};

#else
typedef int mk_no_neon; /* a file must not be empty */
#endif

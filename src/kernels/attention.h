/* attention.h - the order of operations of attention (Vaswani et al. 2017) over the quantized KV
 * cache, and the steps that each kernel set provides.
 *
 * For each query head, with t counting the attended positions from 0:
 *
 *   1. query     codes and one scale as in mk_kernels.quantize, but of the whole head vector and
 *                without a transform, zero-padded to a multiple of 32; f = query_scale * scale
 *   2. scores    q8: s[t] = (float)dot * (f * k_scale[t]), dot exact in int32
 *                q4: s[t] = fma((float)dot_b, f * k_scale[t][b], s[t]) over the blocks b of 32 values
 *                    in order, from 0; dot_b of the levels of the codes, exact in int32
 *   3. softmax   m = max of s; e[t] = exp(s[t] - m), or 0 where s[t] - m < MK_ATTENTION_CUT;
 *                sum of e over eight striped accumulators (t % 8) and the tree of kernels.h
 *   4. values    out[i] = fma(e[t] * v_scale[t], (float)v[t][i], out[i]) in order of t, from 0;
 *                q4: v_scale[t][i / 32], and the level of the code for v
 *   5.           out[i] = out[i] * (1 / sum)
 *
 * Dots are at most 1024 * 127 * 127 < 2^24, so exact as floats too. Nothing before step 5 is ever
 * denormal: scales are 0 or at least 2^-47, f at least 2^-52, so scores are multiples of 2^-122;
 * e is 0 or above 2^-47, so sums of values are multiples of 2^-117. */
#ifndef MK_KERNELS_ATTENTION_H
#define MK_KERNELS_ATTENTION_H

#include "base/bytes.h"
#include "kernels/internal.h"
#include "makarna.h"

/* What is left out is below 1.3e-14 of the largest weight. */
#define MK_ATTENTION_CUT (-32.0f)

/* Scores of successive heads are this far apart, so that a vector may write past `count`. */
static inline size_t mk_attention_stride(uint32_t count)
{
    return ((size_t)count + 15) / 16 * 16;
}

static inline float mk_bfloat16(uint16_t h)
{
    return mk_float_from_bits((uint32_t)h << 16);
}

/* Rounded up, of a positive number. */
static inline uint16_t mk_bfloat16_up(float x)
{
    return (uint16_t)((mk_float_bits(x) + 0xffffu) >> 16);
}

static inline uint16_t mk_bfloat16_nearest(float x)
{
    uint32_t bits = mk_float_bits(x);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Storing keys and values. Nothing below 2^-40 in magnitude: all codes and the scale are 0. Else
 *   q8   scale = max|x| / 127 rounded up to bfloat16, so that codes stay within 127;
 *        code = rint(x * (1 / scale))
 *   q4   the extreme value of the 32, the largest if it is at least minus the smallest, else the
 *        smallest, is meant for the lowest level: scale = extreme / -127 rounded half-to-even to
 *        bfloat16; code = level nearest to x * (1 / scale), the lower one of two as near;
 *        a last block is filled up with zeros */
static inline uint16_t mk_kv_scale_q8(float largest_magnitude)
{
    return largest_magnitude < MK_QUANTIZE_MIN ? 0 : mk_bfloat16_up(largest_magnitude / 127.0f);
}

static inline uint16_t mk_kv_scale_q4(float largest, float smallest)
{
    float extreme = largest >= -smallest ? largest : smallest;
    bool tiny = extreme < MK_QUANTIZE_MIN && extreme > -MK_QUANTIZE_MIN;
    return tiny ? 0 : mk_bfloat16_nearest(extreme / -127.0f);
}

/* Between levels i and i + 1. */
static inline float mk_kv_midpoint(int i)
{
    return 0.5f * (float)(mk_kv_levels[i] + mk_kv_levels[i + 1]);
}

typedef struct mk_attention_steps {
    /* Step 1: returns the scale. */
    float (*quantize)(const float *x, uint32_t n, uint32_t padded, int8_t *codes);

    /* Step 2, by mk_kv_type: queries [group][head size padded to 32], f [group], scores [group][stride]. */
    void (*scores[2])(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride);

    /* Step 3: s[count] becomes e; returns the sum. May use s up to the stride. */
    float (*softmax)(float *s, uint32_t count);

    /* Steps 4 and 5: e [group][stride], inverse [group] = 1 / sum. */
    void (*values[2])(const mk_attention *a, const float *e, size_t stride, const float *inverse);
} mk_attention_steps;

void mk_attend(const mk_attention *a, mk_kv_type type, const mk_attention_steps *steps);

#endif

/* kernels.h - the hot functions of the decoder as one table, filled for each instruction set. Every
 * set gives the bits of the scalar reference:
 *
 *   - the sum of a super-block (at most 256 products of int8) is exact in int32;
 *   - the float accumulator of an output is updated once per super-block, in K order, by
 *     acc = fma((float)sum, weight_scale * activation_scale, acc), from acc = 0;
 *   - sums of floats use eight striped accumulators (element i goes to stripe i % 8, by fma for
 *     products) and the tree ((s0+s4)+(s2+s6)) + ((s1+s5)+(s3+s7));
 *   - rounding to int8 is half-to-even.
 */
#ifndef MK_KERNELS_H
#define MK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/mkn.h"

/* A weight matrix as it lies in the image (layout: mkn.h). */
typedef struct mk_matrix {
    uint32_t type; /* MKN_Q8, MKN_Q4 */
    uint32_t rows, cols;
    uint32_t groups; /* ceil(rows / 4) */
    uint32_t blocks; /* ceil(cols / 32) */
    const uint8_t *codes;
    const uint8_t *scales;
    const int8_t *tables; /* [256][16], q4 only */
    bool transformed;     /* stored under the Walsh-Hadamard transform (MKN_TRANSFORMED) */
} mk_matrix;

/* Quantized activations of one or more tokens, row t of each array belonging to token t. All arrays are
 * 64-byte aligned.
 *
 * For a matrix that is stored under a Walsh-Hadamard transform along its columns (mkn.h) they are quantized
 * after the same transform of each super-block: it is orthonormal, so products stay, while outlier
 * channels spread over 256 values. Measured on SmolLM2-135M, mean KL divergence of the logits
 * from float32 over 256 tokens: int8 activations with one scale per 256 values cost 0.0172 without the
 * transform (0.0112 at 128, 0.0066 at 64 per scale), 0.0011 with it; int8 weights 0.0037 without, 0.0023
 * with; keys, values and queries 0.00098 without, 0.00026 with it over each head. */
typedef struct mk_activations {
    uint32_t blocks; /* of 32 */
    int8_t *codes;   /* [tokens][32 * blocks] */
    float *scales;   /* [tokens][super-blocks] */
    int32_t *sums;   /* [tokens][super-blocks], of the codes */
} mk_activations;

static inline uint32_t mk_super_blocks(uint32_t blocks)
{
    return (blocks + 7) / 8;
}

/* Keys or values of one KV head of one layer, position t at codes + t * stride. Scales are bfloat16,
 * the high half of a float32.
 *   q8: stride = head_size rounded up to 16; one scale per position; value = scale * int8
 *   q4: stride = half of head_size rounded up to 32; per 32 values one scale and 16 bytes: byte i has
 *       in its low nibble the code of value i, in its high nibble that of value 16 + i;
 *       value = scale * mk_kv_levels[code]
 * Padding is zero codes (q8), or any code (q4: the other operand is zero there, or it is not read). */
typedef struct mk_kv_plane {
    uint8_t *codes;
    uint16_t *scales; /* [positions][1] (q8) or [positions][ceil(head_size / 32)] (q4) */
} mk_kv_plane;

extern const int8_t mk_kv_levels[16];

static inline uint32_t mk_kv_stride(bool q4, uint32_t head_size)
{
    return q4 ? (head_size + 31) / 32 * 16 : (head_size + 15) / 16 * 16;
}

static inline uint32_t mk_kv_scales(bool q4, uint32_t head_size)
{
    return q4 ? (head_size + 31) / 32 : 1;
}

/* Attention of the query heads that share one KV head, for one token. */
typedef struct mk_attention {
    mk_kv_plane keys, values;
    uint32_t head_size;
    uint32_t first, count; /* positions attended to: first .. first + count - 1 */
    float scale;           /* of the scores, 1 / sqrt(head_size) */
    const float *queries;  /* [group][head_size], rotated */
    uint32_t group;        /* query heads */
    float *out;            /* [group][head_size] */
    void *scratch;         /* mk_attention_scratch bytes, 64-byte aligned */
} mk_attention;

/* Scratch for `count` positions at most. */
size_t mk_attention_scratch(uint32_t head_size, uint32_t group, uint32_t count);

/* Scratch, 64-byte aligned, that each worker hands to gemm: one tile of rows expanded to int8. */
#define MK_GEMM_SCRATCH 32768u

typedef struct mk_kernels {
    const char *name;

    /* Orthonormal Walsh-Hadamard transform of x[n] in place, its own inverse (up to rounding). n is cut
     * into powers of two, largest first (80 = 64 + 16, 192 = 128 + 64), each transformed by itself: for
     * stride 1, 2, 4, ... below its length, pairs (a, b) that lie stride apart become (a + b, a - b); at
     * the end each value is multiplied by the float nearest to 1 / sqrt(length). n <= 1024. Values below
     * 2^-60 in magnitude count as zero, so that no denormal comes about. */
    void (*hadamard)(float *x, uint32_t n);

    /* x [cols] to one token's codes [cols rounded up to 32], scales and sums [super-blocks]. Each
     * super-block, zero-padded to a multiple of 32, is transformed by `hadamard` where `transform` is set,
     * as the matrix to be multiplied wants it (in scratch; x stays); then scale = max|x| / 127, code =
     * rint(x * (127 / max|x|)); where max|x| is below 2^-40 all are zero. */
    void (*quantize)(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales,
                     int32_t *sums);

    /* y[4 g .. 4 g + 3] for groups g in [group_begin, group_end), for token 0 of x. Writes rows of
     * padding too: y has 4 * w->groups floats. w->type picks the format. */
    void (*gemv)(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 float *y);

    /* The same for `tokens` tokens: y[t * y_stride + row]. */
    void (*gemm)(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch);

    /* out[i] = x[i] * (1 / sqrt(sum(x^2) / n + epsilon)) * weight[i], products in that order.
     * Zhang and Sennrich 2019. out may be x. */
    void (*rms_norm)(const float *x, const float *weight, uint32_t n, float epsilon, float *out);

    /* gate[i] = gate[i] * (1 / (1 + exp(-gate[i]))) * up[i] (SwiGLU, Shazeer 2020):
     * (gate / (1 + exp(-gate))) * up with one division. */
    void (*silu_multiply)(float *gate, const float *up, uint32_t n);

    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, uint32_t n);

    /* Rotates the leading 2 * half values of each of `heads` heads of size head_size in place, value i
     * with value half + i (RoPE, Su et al. 2021):
     *   a' = fma(a, cos, -(b * sin)), b' = fma(a, sin, b * cos). */
    void (*rope)(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                 const float *sines);

    /* Quantizes one head vector into position t of a plane. */
    void (*kv_store[2])(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t); /* by mk_kv_type */

    /* Softmax(q K^T * scale) V, see attention.h for the order of operations. */
    void (*attend[2])(const mk_attention *a);
} mk_kernels;

/* The kernel sets of this build, slowest first; NULL past the end. */
const mk_kernels *mk_kernels_at(size_t index);

/* Whether this CPU has what the set needs. */
bool mk_kernels_available(const mk_kernels *k);

/* The set of this name, or for NULL the fastest available; NULL if there is no such set in this build. */
const mk_kernels *mk_kernels_find(const char *name);

/* One row of a matrix as floats, a transform undone: the token embedding. out has 32 * w->blocks
 * floats. */
void mk_dequantize_row(const mk_matrix *w, uint32_t row, float *out);

#endif

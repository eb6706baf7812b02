/* avx512vnni.c - x86-64 with AVX-512 F, BW, VL and VNNI. Vectors of floats that are not worth more are
 * the avx2 set's. Flags: -mavx512f -mavx512bw -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c.
 *
 * VPDPBUSD multiplies unsigned by signed bytes. Weights become unsigned by inverting their top bit, which
 * adds 128 to each; 128 times the sum of the activations is subtracted in the end, exactly. */
#if defined(__x86_64__) && defined(__AVX512VNNI__)
#include "kernels/avx2.h"

#include <immintrin.h>

#include "base/math.h"

static inline __m512i to_unsigned(__m512i codes)
{
    return _mm512_xor_si512(codes, _mm512_set1_epi8((char)0x80));
}

static inline __m512i low_nibbles(__m512i codes)
{
    return _mm512_and_si512(codes, _mm512_set1_epi8(15));
}

static inline __m512i high_nibbles(__m512i codes)
{
    return low_nibbles(_mm512_srli_epi16(codes, 4));
}

/* Four tables of 16 bytes. */
static inline __m512i load_tables(const int8_t *tables, const uint8_t pick[4])
{
    __m512i t = _mm512_castsi128_si512(_mm_load_si128((const void *)(tables + 16 * (size_t)pick[0])));
    t = _mm512_inserti32x4(t, _mm_load_si128((const void *)(tables + 16 * (size_t)pick[1])), 1);
    t = _mm512_inserti32x4(t, _mm_load_si128((const void *)(tables + 16 * (size_t)pick[2])), 2);
    return _mm512_inserti32x4(t, _mm_load_si128((const void *)(tables + 16 * (size_t)pick[3])), 3);
}

/* ---- GEMV ------------------------------------------------------------------------------------ */

/* The sums of the lanes of each quarter. */
static inline __m128i sum_quarters(__m512i v)
{
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
    const __m512i first = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    return _mm512_castsi512_si128(_mm512_permutexvar_epi32(first, v));
}

static inline __m128i dot_q4(const mk_super_block *sb, const int8_t *tables, const int8_t *x)
{
    __m512i acc0 = _mm512_setzero_si512(), acc1 = acc0;
    for (uint32_t b = 0; b < sb->blocks; b++) {
        __m512i table = to_unsigned(load_tables(tables, sb->picks + 4 * b));
        __m512i codes = _mm512_loadu_si512(sb->codes + 64 * b);
        __m512i x0 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x + 32 * b)));
        __m512i x1 = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(x + 32 * b + 16)));
        acc0 = _mm512_dpbusd_epi32(acc0, _mm512_shuffle_epi8(table, low_nibbles(codes)), x0);
        acc1 = _mm512_dpbusd_epi32(acc1, _mm512_shuffle_epi8(table, high_nibbles(codes)), x1);
    }
    return sum_quarters(_mm512_add_epi32(acc0, acc1));
}

static inline __m128i dot_q8(const mk_super_block *sb, const int8_t *x)
{
    __m512i acc01 = _mm512_setzero_si512(), acc23 = acc01;
    for (uint32_t b = 0; b < sb->blocks; b++) {
        __m512i v = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)(x + 32 * b)));
        acc01 = _mm512_dpbusd_epi32(acc01, to_unsigned(_mm512_loadu_si512(sb->codes + 128 * b)), v);
        acc23 = _mm512_dpbusd_epi32(acc23, to_unsigned(_mm512_loadu_si512(sb->codes + 128 * b + 64)), v);
    }
    __m512i even = _mm512_shuffle_i32x4(acc01, acc23, 0x88), odd = _mm512_shuffle_i32x4(acc01, acc23, 0xdd);
    return sum_quarters(_mm512_add_epi32(even, odd));
}

static inline __attribute__((always_inline)) void gemv_rows(const mk_matrix *w, uint32_t group_begin,
                                                            uint32_t group_end, const mk_activations *x,
                                                            float *y, const bool q4)
{
    uint32_t supers = mk_super_blocks(w->blocks);
    for (uint32_t g = group_begin; g < group_end; g++) {
        __m128 acc = _mm_setzero_ps();
        for (uint32_t s = 0; s < supers; s++) {
            mk_super_block sb = mk_super_block_at(w, g, s);
            const int8_t *codes = x->codes + (size_t)s * MKN_SUPER_BLOCK;
            __m128i sum = q4 ? dot_q4(&sb, w->tables, codes) : dot_q8(&sb, codes);
            sum = _mm_sub_epi32(sum, _mm_set1_epi32(128 * x->sums[s]));
            __m128 d = _mm_cvtph_ps(_mm_loadl_epi64((const void *)sb.d));
            acc = _mm_fmadd_ps(_mm_cvtepi32_ps(sum), _mm_mul_ps(d, _mm_set1_ps(x->scales[s])), acc);
        }
        _mm_storeu_ps(y + (size_t)g * MKN_GROUP, acc);
    }
}

static void gemv(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 float *y)
{
    if (w->type == MKN_Q4)
        gemv_rows(w, group_begin, group_end, x, y, true);
    else
        gemv_rows(w, group_begin, group_end, x, y, false);
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* One super-block of 32 rows becomes unsigned bytes in the scratch, [2 halves][k / 4][16 rows][4]; one
 * instruction takes four k of 16 rows and one token. 32 rows by 12 tokens: 24 sums, 2 rows, 1 token. */
enum { HALF_GROUPS = 4, TILE_GROUPS = 8, TILE_TOKENS = 12, HALF_BYTES = 16 * MKN_SUPER_BLOCK };

typedef struct gemm_job {
    const mk_matrix *w;
    const mk_activations *x;
    float *y;
    size_t y_stride;
    uint8_t *tile;
    uint32_t last; /* group */
} gemm_job;

/* Four rows of a block: k 0 .. 15 and k 16 .. 31, each as [4 rows][16]. */
static inline void decode_block(const mk_matrix *w, const mk_super_block *sb, uint32_t b, __m512i *low,
                                __m512i *high)
{
    if (w->type == MKN_Q4) {
        __m512i table = to_unsigned(load_tables(w->tables, sb->picks + 4 * b));
        __m512i codes = _mm512_loadu_si512(sb->codes + 64 * b);
        *low = _mm512_shuffle_epi8(table, low_nibbles(codes));
        *high = _mm512_shuffle_epi8(table, high_nibbles(codes));
    } else {
        __m512i rows01 = to_unsigned(_mm512_loadu_si512(sb->codes + 128 * b));
        __m512i rows23 = to_unsigned(_mm512_loadu_si512(sb->codes + 128 * b + 64));
        *low = _mm512_shuffle_i32x4(rows01, rows23, 0x88);
        *high = _mm512_shuffle_i32x4(rows01, rows23, 0xdd);
    }
}

/* Four groups, each [4 rows][4 k][4 bytes], to [4 k][16 rows][4 bytes]. */
static inline void store_transposed(const __m512i groups[4], uint8_t *out)
{
    const __m512i by_k = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i g[4];
    for (int i = 0; i < 4; i++)
        g[i] = _mm512_permutexvar_epi32(by_k, groups[i]);
    __m512i a = _mm512_shuffle_i32x4(g[0], g[1], 0x44), b = _mm512_shuffle_i32x4(g[0], g[1], 0xee);
    __m512i c = _mm512_shuffle_i32x4(g[2], g[3], 0x44), d = _mm512_shuffle_i32x4(g[2], g[3], 0xee);
    _mm512_store_si512(out, _mm512_shuffle_i32x4(a, c, 0x88));
    _mm512_store_si512(out + 64, _mm512_shuffle_i32x4(a, c, 0xdd));
    _mm512_store_si512(out + 128, _mm512_shuffle_i32x4(b, d, 0x88));
    _mm512_store_si512(out + 192, _mm512_shuffle_i32x4(b, d, 0xdd));
}

/* Groups past the last one are copies of it; they are not stored. */
static void expand_half(const gemm_job *job, uint32_t group, uint32_t super, uint8_t *out)
{
    mk_super_block sb[HALF_GROUPS];
    for (uint32_t g = 0; g < HALF_GROUPS; g++)
        sb[g] = mk_super_block_at(job->w, group + g < job->last ? group + g : job->last, super);
    for (uint32_t b = 0; b < sb[0].blocks; b++, out += 16 * MKN_BLOCK) {
        __m512i low[HALF_GROUPS], high[HALF_GROUPS];
        for (uint32_t g = 0; g < HALF_GROUPS; g++)
            decode_block(job->w, &sb[g], b, &low[g], &high[g]);
        store_transposed(low, out);
        store_transposed(high, out + 256);
    }
}

/* fp16 scales of 16 rows. */
static inline __m512 load_d(const gemm_job *job, uint32_t group, uint32_t super)
{
    uint64_t d[HALF_GROUPS];
    for (uint32_t g = 0; g < HALF_GROUPS; g++)
        d[g] = mk_load64(mk_super_block_at(job->w, group + g < job->last ? group + g : job->last, super).d);
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)d));
}

/* Which of the 16 rows from `group` on exist. */
static inline __mmask16 rows_mask(const gemm_job *job, uint32_t group)
{
    if (group > job->last)
        return 0;
    uint32_t groups = job->last - group + 1;
    return (__mmask16)(groups >= HALF_GROUPS ? 0xffffu : (1u << (4 * groups)) - 1);
}

/* Sums of 32 rows by `count` tokens, x_stride apart, that begin at the values in sums. Without its loops
 * unrolled early gcc 12 keeps the sums in memory: half the speed. */
static inline __attribute__((always_inline)) void multiply_tile(const uint8_t *w, const int8_t *x,
                                                                size_t x_stride, uint32_t blocks,
                                                                const uint32_t count,
                                                                __m512i sums[TILE_TOKENS][2])
{
    __m512i acc[TILE_TOKENS][2];
#pragma GCC unroll 12
    for (uint32_t t = 0; t < count; t++) {
        acc[t][0] = sums[t][0];
        acc[t][1] = sums[t][1];
    }
    for (const uint8_t *end = w + 16 * MKN_BLOCK * blocks; w < end; w += 64, x += 4) {
        __m512i w0 = _mm512_load_si512(w), w1 = _mm512_load_si512(w + HALF_BYTES);
#pragma GCC unroll 12
        for (uint32_t t = 0; t < count; t++) {
            __m512i v = _mm512_set1_epi32((int32_t)mk_load32(x + t * x_stride));
            acc[t][0] = _mm512_dpbusd_epi32(acc[t][0], w0, v);
            acc[t][1] = _mm512_dpbusd_epi32(acc[t][1], w1, v);
        }
    }
#pragma GCC unroll 12
    for (uint32_t t = 0; t < count; t++) {
        sums[t][0] = acc[t][0];
        sums[t][1] = acc[t][1];
    }
}

static void multiply_tokens(const uint8_t *w, const int8_t *x, size_t x_stride, uint32_t blocks, uint32_t count,
                            __m512i sums[TILE_TOKENS][2])
{
    if (count == 12)
        multiply_tile(w, x, x_stride, blocks, 12, sums);
    else if (count == 4)
        multiply_tile(w, x, x_stride, blocks, 4, sums);
    else
        multiply_tile(w, x, x_stride, blocks, 1, sums);
}

/* y = fma(sum, d * x_scale, y) for 16 rows from `group` on and `count` tokens. */
static inline void add_to_output(const gemm_job *job, uint32_t group, uint32_t super, uint32_t token,
                                 uint32_t count, __m512i (*sums)[2], uint32_t half)
{
    uint32_t supers = mk_super_blocks(job->x->blocks);
    const float *x_scales = job->x->scales + (size_t)token * supers + super;
    float *y = job->y + token * job->y_stride + (size_t)group * MKN_GROUP;
    __mmask16 rows = rows_mask(job, group);
    __m512 d = load_d(job, group, super);
    for (uint32_t t = 0; t < count; t++, y += job->y_stride, x_scales += supers) {
        __m512 acc = super ? _mm512_maskz_loadu_ps(rows, y) : _mm512_setzero_ps();
        __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(*x_scales));
        _mm512_mask_storeu_ps(y, rows, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][half]), scale, acc));
    }
}

/* 32 rows from `group` on by all tokens over one super-block. */
static void multiply_super_block(const gemm_job *job, uint32_t group, uint32_t super, uint32_t tokens)
{
    const mk_activations *x = job->x;
    uint32_t supers = mk_super_blocks(x->blocks), left = x->blocks - 8 * super;
    size_t x_stride = (size_t)x->blocks * MKN_BLOCK;
    for (uint32_t token = 0, count; token < tokens; token += count) {
        count = tokens - token >= 12 ? 12 : tokens - token >= 4 ? 4 : 1;
        __m512i sums[TILE_TOKENS][2];
        for (uint32_t t = 0; t < count; t++)
            sums[t][0] = sums[t][1] = _mm512_set1_epi32(-128 * x->sums[(size_t)(token + t) * supers + super]);
        const int8_t *codes = x->codes + token * x_stride + (size_t)super * MKN_SUPER_BLOCK;
        multiply_tokens(job->tile, codes, x_stride, left < 8 ? left : 8, count, sums);
        add_to_output(job, group, super, token, count, sums, 0);
        add_to_output(job, group + HALF_GROUPS, super, token, count, sums, 1);
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    gemm_job job = {w, x, y, y_stride, scratch, group_end - 1};
    for (uint32_t group = group_begin; group < group_end; group += TILE_GROUPS) {
        for (uint32_t super = 0; super < mk_super_blocks(w->blocks); super++) {
            expand_half(&job, group, super, job.tile);
            expand_half(&job, group + HALF_GROUPS, super, job.tile + HALF_BYTES);
            multiply_super_block(&job, group, super, tokens);
        }
    }
}

const mk_kernels mk_kernels_avx512vnni = {
    .name = "avx512vnni",
    .hadamard = mk_avx2_hadamard,
    .quantize = mk_avx2_quantize,
    .gemv = gemv,
    .gemm = gemm,
    .rms_norm = mk_avx2_rms_norm,
    .silu_multiply = mk_avx2_silu_multiply,
    .add = mk_avx2_add,
    .rope = mk_avx2_rope,
    .kv_store = {mk_avx2_kv_store_q8, mk_avx2_kv_store_q4},
    .attend = {mk_avx2_attend_q8, mk_avx2_attend_q4},
};

#else
typedef int mk_no_avx512vnni; /* a file must not be empty */
#endif

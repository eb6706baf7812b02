/* avx2.c - x86-64 with AVX2, FMA and F16C. Flags: -mavx2 -mfma -mf16c. */
#if defined(__x86_64__) && defined(__AVX2__)
#include "kernels/avx2.h"

#include <immintrin.h>

#include "base/math.h"

/* ---- Sums and conversions -------------------------------------------------------------------- */

static inline int32_t sum_lanes(__m256i v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

/* Sums of the lanes of a, b, c and d. */
static inline __m128i sum_lanes4(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i abcd = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    return _mm_add_epi32(_mm256_castsi256_si128(abcd), _mm256_extracti128_si256(abcd, 1));
}

static inline __m256i widen(const void *int8x16)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(int8x16));
}

/* The first n of 8 lanes. */
static inline __m256i first_lanes(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* x[i .. i + 7], zero from n on. */
static inline __m256 load_up_to(const float *x, uint32_t i, uint32_t n)
{
    return n - i >= 8 ? _mm256_loadu_ps(x + i) : _mm256_maskload_ps(x + i, first_lanes(n - i));
}

static inline void store_up_to(float *x, uint32_t i, uint32_t n, __m256 v)
{
    if (n - i >= 8)
        _mm256_storeu_ps(x + i, v);
    else
        _mm256_maskstore_ps(x + i, first_lanes(n - i), v);
}

static inline float sum_stripes(__m256 v)
{
    float stripes[8];
    _mm256_storeu_ps(stripes, v);
    return mk_sum_stripes(stripes);
}

/* ---- Quantization ---------------------------------------------------------------------------- */

static inline float largest_lane(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline __m256 negate(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

static float largest_magnitude(const float *x, uint32_t n)
{
    __m256 largest = _mm256_setzero_ps();
    for (uint32_t i = 0; i < n; i += 8)
        largest = _mm256_max_ps(largest, _mm256_andnot_ps(_mm256_set1_ps(-0.0f), load_up_to(x, i, n)));
    return largest_lane(largest);
}

/* 8 values within +-127 to int8. */
static inline void store_codes(int8_t *codes, __m256i v)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)codes, _mm_packs_epi16(words, words));
}

/* 8 values of 0 to 255 to bytes. */
static inline void store_bytes(uint8_t *bytes, __m256i v)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)bytes, _mm_packus_epi16(words, words));
}

/* codes[padded] = rint(x * inverse), padded a multiple of 8; returns their sum. */
static int32_t round_codes(const float *x, uint32_t n, uint32_t padded, float inverse, int8_t *codes)
{
    __m256i sum = _mm256_setzero_si256();
    uint32_t i = 0;
    for (; i < n; i += 8) {
        __m256i code = _mm256_cvtps_epi32(_mm256_mul_ps(load_up_to(x, i, n), _mm256_set1_ps(inverse)));
        store_codes(codes + i, code);
        sum = _mm256_add_epi32(sum, code);
    }
    if (i < padded)
        memset(codes + i, 0, padded - i);
    return sum_lanes(sum);
}

static float quantize_vector(const float *x, uint32_t n, uint32_t padded, int8_t *codes, int32_t *sum)
{
    float largest = largest_magnitude(x, n);
    if (largest < MK_QUANTIZE_MIN) {
        memset(codes, 0, padded);
        *sum = 0;
        return 0;
    }
    *sum = round_codes(x, n, padded, 127.0f / largest, codes);
    return largest / 127.0f;
}

/* ---- Walsh-Hadamard transform ---------------------------------------------------------------- */

/* Strides 1, 2 and 4 within eight values: swapped + value * +-1, the product being exact. */
static inline __m256 hadamard_lanes(__m256 v)
{
    const __m256 sign1 = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    const __m256 sign2 = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    const __m256 sign4 = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
    v = _mm256_fmadd_ps(v, sign1, _mm256_permute_ps(v, 0xb1));
    v = _mm256_fmadd_ps(v, sign2, _mm256_permute_ps(v, 0x4e));
    return _mm256_fmadd_ps(v, sign4, _mm256_permute2f128_ps(v, v, 1));
}

/* Strides 8 to 4 * count over `count` vectors. */
static inline __attribute__((always_inline)) void hadamard_vectors(__m256 *v, const uint32_t count)
{
    for (uint32_t stride = 1; stride < count; stride *= 2) {
        for (uint32_t i = 0; i < count; i++) {
            if (i & stride)
                continue;
            __m256 a = v[i], b = v[i + stride];
            v[i] = _mm256_add_ps(a, b);
            v[i + stride] = _mm256_sub_ps(a, b);
        }
    }
}

/* All strides within 8 * count values, inputs below the least magnitude set to zero. */
static inline __attribute__((always_inline)) void hadamard_begin(float *x, const uint32_t count)
{
    const __m256 least = _mm256_set1_ps(MK_HADAMARD_MIN), sign = _mm256_set1_ps(-0.0f);
    __m256 v[8];
    for (uint32_t i = 0; i < count; i++) {
        __m256 in = _mm256_loadu_ps(x + 8 * i);
        __m256 keep = _mm256_cmp_ps(_mm256_andnot_ps(sign, in), least, _CMP_GE_OQ);
        v[i] = hadamard_lanes(_mm256_and_ps(in, keep));
    }
    hadamard_vectors(v, count);
    for (uint32_t i = 0; i < count; i++)
        _mm256_storeu_ps(x + 8 * i, v[i]);
}

/* Strides `stride` to stride * count / 2; values that far apart are at x, x + stride, ... */
static inline __attribute__((always_inline)) void hadamard_widen(float *x, uint32_t stride,
                                                                 const uint32_t count)
{
    for (uint32_t i = 0; i < stride; i += 8) {
        __m256 v[4];
        for (uint32_t j = 0; j < count; j++)
            v[j] = _mm256_loadu_ps(x + i + j * stride);
        hadamard_vectors(v, count);
        for (uint32_t j = 0; j < count; j++)
            _mm256_storeu_ps(x + i + j * stride, v[j]);
    }
}

/* length is a power of two from 8 to 1024. */
static void hadamard_power(float *x, uint32_t length)
{
    if (length == 8)
        hadamard_begin(x, 1);
    else if (length == 16)
        hadamard_begin(x, 2);
    else if (length == 32)
        hadamard_begin(x, 4);
    for (uint32_t i = 0; length >= 64 && i < length; i += 64)
        hadamard_begin(x + i, 8);
    uint32_t stride = 64;
    for (; 4 * stride <= length; stride *= 4) {
        for (uint32_t i = 0; i < length; i += 4 * stride)
            hadamard_widen(x + i, stride, 4);
    }
    if (2 * stride <= length)
        hadamard_widen(x, stride, 2);
    __m256 scale = _mm256_set1_ps(mk_hadamard_scale(length));
    for (uint32_t i = 0; i < length; i += 8)
        _mm256_storeu_ps(x + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
}

void mk_avx2_hadamard(float *x, uint32_t n)
{
    while (n >= 8) {
        uint32_t length = mk_hadamard_length(n);
        hadamard_power(x, length);
        x += length;
        n -= length;
    }
    mk_scalar_hadamard(x, n);
}

void mk_avx2_quantize(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales,
                      int32_t *sums)
{
    for (uint32_t at = 0; at < cols; at += MKN_SUPER_BLOCK) {
        _Alignas(32) float block[MKN_SUPER_BLOCK];
        uint32_t n = cols - at < MKN_SUPER_BLOCK ? cols - at : MKN_SUPER_BLOCK;
        uint32_t padded = mk_pad32(n);
        memcpy(block, x + at, n * sizeof *x);
        memset(block + n, 0, (padded - n) * sizeof *x);
        if (transform)
            mk_avx2_hadamard(block, padded);
        *scales++ = quantize_vector(block, padded, padded, codes + at, sums++);
    }
}

/* ---- GEMV ------------------------------------------------------------------------------------ */

/* acc = fma((float)sum, d * x_scale, acc) for the four rows of a group. */
static inline __m128 add_super_block(__m128 acc, __m128i sum, const uint8_t *d, float x_scale)
{
    __m128 scale = _mm_mul_ps(_mm_cvtph_ps(_mm_loadl_epi64((const void *)d)), _mm_set1_ps(x_scale));
    return _mm_fmadd_ps(_mm_cvtepi32_ps(sum), scale, acc);
}

/* Two tables of 16 int8, one in each half. */
static inline __m256i load_tables(const int8_t *tables, uint8_t a, uint8_t b)
{
    __m128i low = _mm_load_si128((const void *)(tables + 16 * (size_t)a));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm_load_si128((const void *)(tables + 16 * (size_t)b)), 1);
}

/* Adds products of int8 by fours: x as magnitudes, its signs moved to w (both within +-127), so that
 * pairs of products stay below 2^15. */
static inline __m256i add_products(__m256i acc, __m256i w, __m256i x, __m256i x_magnitude)
{
    __m256i pairs = _mm256_maddubs_epi16(x_magnitude, _mm256_sign_epi8(w, x));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m128i dot_q4(const mk_super_block *sb, const int8_t *tables, const int8_t *x)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i acc01 = _mm256_setzero_si256(), acc23 = acc01;
    for (uint32_t b = 0; b < sb->blocks; b++) {
        const uint8_t *pick = sb->picks + 4 * b;
        __m256i t01 = load_tables(tables, pick[0], pick[1]), t23 = load_tables(tables, pick[2], pick[3]);
        __m256i c01 = _mm256_loadu_si256((const void *)(sb->codes + 64 * b));
        __m256i c23 = _mm256_loadu_si256((const void *)(sb->codes + 64 * b + 32));
        __m256i x0 = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + 32 * b)));
        __m256i x1 = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(x + 32 * b + 16)));
        __m256i m0 = _mm256_abs_epi8(x0), m1 = _mm256_abs_epi8(x1);
        acc01 = add_products(acc01, _mm256_shuffle_epi8(t01, _mm256_and_si256(c01, nibble)), x0, m0);
        acc23 = add_products(acc23, _mm256_shuffle_epi8(t23, _mm256_and_si256(c23, nibble)), x0, m0);
        c01 = _mm256_and_si256(_mm256_srli_epi16(c01, 4), nibble);
        c23 = _mm256_and_si256(_mm256_srli_epi16(c23, 4), nibble);
        acc01 = add_products(acc01, _mm256_shuffle_epi8(t01, c01), x1, m1);
        acc23 = add_products(acc23, _mm256_shuffle_epi8(t23, c23), x1, m1);
    }
    __m256i pairs = _mm256_hadd_epi32(acc01, acc23); /* rows 0 0 2 2 | 1 1 3 3 */
    pairs = _mm256_hadd_epi32(pairs, pairs);         /* rows 0 2 0 2 | 1 3 1 3 */
    return _mm_unpacklo_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
}

static void gemv_q4(const mk_matrix *w, uint32_t group, const mk_activations *x, float *y)
{
    __m128 acc = _mm_setzero_ps();
    for (uint32_t s = 0; s < mk_super_blocks(w->blocks); s++) {
        mk_super_block sb = mk_super_block_at(w, group, s);
        __m128i sum = dot_q4(&sb, w->tables, x->codes + (size_t)s * MKN_SUPER_BLOCK);
        acc = add_super_block(acc, sum, sb.d, x->scales[s]);
    }
    _mm_storeu_ps(y, acc);
}

static inline __m256i add_row_q8(__m256i acc, const uint8_t *codes, __m256i x, __m256i x_magnitude)
{
    return add_products(acc, _mm256_loadu_si256((const void *)codes), x, x_magnitude);
}

static inline __m128i dot_q8(const mk_super_block *sb, const int8_t *x)
{
    __m256i acc0 = _mm256_setzero_si256(), acc1 = acc0, acc2 = acc0, acc3 = acc0;
    for (uint32_t b = 0; b < sb->blocks; b++) {
        const uint8_t *codes = sb->codes + 128 * b;
        __m256i v = _mm256_loadu_si256((const void *)(x + 32 * b)), magnitude = _mm256_abs_epi8(v);
        acc0 = add_row_q8(acc0, codes, v, magnitude);
        acc1 = add_row_q8(acc1, codes + 32, v, magnitude);
        acc2 = add_row_q8(acc2, codes + 64, v, magnitude);
        acc3 = add_row_q8(acc3, codes + 96, v, magnitude);
    }
    return sum_lanes4(acc0, acc1, acc2, acc3);
}

static void gemv_q8(const mk_matrix *w, uint32_t group, const mk_activations *x, float *y)
{
    __m128 acc = _mm_setzero_ps();
    for (uint32_t s = 0; s < mk_super_blocks(w->blocks); s++) {
        mk_super_block sb = mk_super_block_at(w, group, s);
        __m128i sum = dot_q8(&sb, x->codes + (size_t)s * MKN_SUPER_BLOCK);
        acc = add_super_block(acc, sum, sb.d, x->scales[s]);
    }
    _mm_storeu_ps(y, acc);
}

static void gemv(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 float *y)
{
    for (uint32_t g = group_begin; g < group_end; g++) {
        if (w->type == MKN_Q4)
            gemv_q4(w, g, x, y + (size_t)g * MKN_GROUP);
        else
            gemv_q8(w, g, x, y + (size_t)g * MKN_GROUP);
    }
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* One super-block of 32 rows becomes int16 in the scratch, [2 halves][k / 2][16 rows][2], and of five
 * tokens [5][256]; one multiply-add takes two k of eight rows and one token. */
enum { TILE_GROUPS = 8, HALF_GROUPS = 4, TILE_TOKENS = 5, HALF_BYTES = 16 * MKN_SUPER_BLOCK * 2 };

typedef struct gemm_job {
    const mk_matrix *w;
    const mk_activations *x;
    float *y;
    size_t y_stride;
    int16_t *weights, *tokens; /* in the scratch */
} gemm_job;

/* 16 int8 of a row, as int16: k = 16 half ... of block b. */
static inline __m256i decode_row(const mk_matrix *w, const mk_super_block *sb, uint32_t b, uint32_t row,
                                 uint32_t half)
{
    if (w->type == MKN_Q8)
        return widen(sb->codes + 128 * b + 32 * row + 16 * half);
    __m128i table = _mm_load_si128((const void *)(w->tables + 16 * (size_t)sb->picks[4 * b + row]));
    __m128i codes = _mm_loadu_si128((const void *)(sb->codes + 64 * b + 16 * row));
    codes = _mm_and_si128(half ? _mm_srli_epi16(codes, 4) : codes, _mm_set1_epi8(15));
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(table, codes));
}

/* Rows of eight 32-bit elements become columns, 64 bytes apart. */
static inline void transpose_8x8(const __m256i r[8], int16_t *out)
{
    __m256i a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_store_si256((void *)(out + 32 * i), _mm256_permute2x128_si256(b[i], b[i + 4], 0x20));
        _mm256_store_si256((void *)(out + 32 * (i + 4)), _mm256_permute2x128_si256(b[i], b[i + 4], 0x31));
    }
}

/* Eight rows (two groups) of a super-block to their place in a half tile. */
static void expand_rows(const mk_matrix *w, const mk_super_block *first, const mk_super_block *second,
                        int16_t *out)
{
    for (uint32_t b = 0; b < first->blocks; b++) {
        for (uint32_t half = 0; half < 2; half++, out += 8 * 32) {
            __m256i rows[8];
            for (uint32_t r = 0; r < 4; r++) {
                rows[r] = decode_row(w, first, b, r, half);
                rows[4 + r] = decode_row(w, second, b, r, half);
            }
            transpose_8x8(rows, out);
        }
    }
}

/* Groups past `last` are copies of it; they are not stored. */
static void expand_tile(const gemm_job *job, uint32_t group, uint32_t last, uint32_t super)
{
    for (uint32_t g = 0; g < TILE_GROUPS && group + g <= last; g += 2) {
        mk_super_block first = mk_super_block_at(job->w, group + g, super);
        mk_super_block second = mk_super_block_at(job->w, group + g < last ? group + g + 1 : last, super);
        int16_t *half = job->weights + g / HALF_GROUPS * (HALF_BYTES / 2);
        expand_rows(job->w, &first, &second, half + g % HALF_GROUPS / 2 * 16);
    }
}

/* Activations of `count` tokens in a super-block of n as int16. */
static void widen_tokens(const gemm_job *job, uint32_t token, uint32_t count, uint32_t super, uint32_t n)
{
    for (uint32_t t = 0; t < count; t++) {
        const int8_t *x = job->x->codes + ((size_t)(token + t) * job->w->blocks + 8 * super) * MKN_BLOCK;
        int16_t *out = job->tokens + t * MKN_SUPER_BLOCK;
        for (uint32_t i = 0; i < n; i += 16)
            _mm256_store_si256((void *)(out + i), widen(x + i));
    }
}

/* 16 rows by `count` tokens over n of K, into sums[token][2]. */
static inline __attribute__((always_inline)) void multiply_tile(const int16_t *w, const int16_t *x, uint32_t n,
                                                                const uint32_t count,
                                                                __m256i sums[TILE_TOKENS][2])
{
    __m256i acc[TILE_TOKENS][2];
    for (uint32_t t = 0; t < count; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_si256();
    for (uint32_t k = 0; k < n; k += 2, w += 32) {
        __m256i w0 = _mm256_load_si256((const void *)w), w1 = _mm256_load_si256((const void *)(w + 16));
        for (uint32_t t = 0; t < count; t++) {
            __m256i pair = _mm256_set1_epi32((int32_t)mk_load32(x + t * MKN_SUPER_BLOCK + k));
            acc[t][0] = _mm256_add_epi32(acc[t][0], _mm256_madd_epi16(w0, pair));
            acc[t][1] = _mm256_add_epi32(acc[t][1], _mm256_madd_epi16(w1, pair));
        }
    }
    for (uint32_t t = 0; t < count; t++) {
        sums[t][0] = acc[t][0];
        sums[t][1] = acc[t][1];
    }
}

static void multiply_tokens(const int16_t *w, const int16_t *x, uint32_t n, uint32_t count,
                            __m256i sums[TILE_TOKENS][2])
{
    switch (count) {
    case 1:
        multiply_tile(w, x, n, 1, sums);
        break;
    case 2:
        multiply_tile(w, x, n, 2, sums);
        break;
    case 3:
        multiply_tile(w, x, n, 3, sums);
        break;
    case 4:
        multiply_tile(w, x, n, 4, sums);
        break;
    default:
        multiply_tile(w, x, n, 5, sums);
    }
}

/* fp16 scales of eight rows, two groups. */
static inline __m256 load_d(const mk_matrix *w, uint32_t group, uint32_t last, uint32_t super)
{
    __m128i a = _mm_loadl_epi64((const void *)mk_super_block_at(w, group < last ? group : last, super).d);
    __m128i b = _mm_loadl_epi64((const void *)mk_super_block_at(w, group < last ? group + 1 : last, super).d);
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(a, b));
}

/* y += sum * (d * x_scale) for two groups, of which `groups` exist. */
static inline void add_to_output(float *y, uint32_t groups, __m256i sum, __m256 d, float x_scale, bool begin)
{
    __m256i mask = first_lanes(4 * groups);
    __m256 acc = begin ? _mm256_setzero_ps() : groups == 2 ? _mm256_loadu_ps(y) : _mm256_maskload_ps(y, mask);
    acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(d, _mm256_set1_ps(x_scale)), acc);
    if (groups == 2)
        _mm256_storeu_ps(y, acc);
    else
        _mm256_maskstore_ps(y, mask, acc);
}

/* One half tile (at most four groups, up to `last`) and a few tokens. */
static void multiply_half(const gemm_job *job, uint32_t half, uint32_t group, uint32_t last, uint32_t token,
                          uint32_t count, uint32_t super, uint32_t n)
{
    __m256i sums[TILE_TOKENS][2];
    multiply_tokens(job->weights + half * (HALF_BYTES / 2), job->tokens, n, count, sums);
    for (uint32_t part = 0; part < 2 && group + 2 * part <= last; part++) {
        uint32_t g = group + 2 * part, groups = g < last ? 2 : 1;
        __m256 d = load_d(job->w, g, last, super);
        for (uint32_t t = 0; t < count; t++) {
            float x_scale = job->x->scales[(size_t)(token + t) * mk_super_blocks(job->w->blocks) + super];
            float *y = job->y + (token + t) * job->y_stride + (size_t)g * MKN_GROUP;
            add_to_output(y, groups, sums[t][part], d, x_scale, super == 0);
        }
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    int16_t *tile = scratch;
    gemm_job job = {w, x, y, y_stride, tile, tile + HALF_BYTES}; /* two halves, in units of int16 */
    for (uint32_t group = group_begin; group < group_end; group += TILE_GROUPS) {
        uint32_t last = group_end - 1;
        for (uint32_t super = 0; super < mk_super_blocks(w->blocks); super++) {
            uint32_t blocks = w->blocks - 8 * super < 8 ? w->blocks - 8 * super : 8;
            expand_tile(&job, group, last, super);
            for (uint32_t token = 0; token < tokens; token += TILE_TOKENS) {
                uint32_t count = tokens - token < TILE_TOKENS ? tokens - token : TILE_TOKENS;
                widen_tokens(&job, token, count, super, blocks * MKN_BLOCK);
                for (uint32_t half = 0; half < 2 && group + half * HALF_GROUPS <= last; half++)
                    multiply_half(&job, half, group + half * HALF_GROUPS, last, token, count, super,
                                  blocks * MKN_BLOCK);
            }
        }
    }
}

/* ---- Elementwise ----------------------------------------------------------------------------- */

void mk_avx2_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out)
{
    __m256 stripes = _mm256_setzero_ps();
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 v = load_up_to(x, i, n);
        stripes = _mm256_fmadd_ps(v, v, stripes);
    }
    __m256 inverse = _mm256_set1_ps(1.0f / mk_sqrt(sum_stripes(stripes) / (float)n + epsilon));
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(load_up_to(x, i, n), inverse);
        store_up_to(out, i, n, _mm256_mul_ps(v, load_up_to(weight, i, n)));
    }
}

/* mk_exp, lane by lane. */
static inline __m256 exp8(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(12582912.0f);
    x = _mm256_max_ps(x, _mm256_set1_ps(MK_EXP_MIN));
    x = _mm256_min_ps(x, _mm256_set1_ps(MK_EXP_MAX));
    __m256 n = _mm256_sub_ps(_mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(MK_EXP_LOG2E)), magic), magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-MK_EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-MK_EXP_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(MK_EXP_C6), r, _mm256_set1_ps(MK_EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MK_EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MK_EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MK_EXP_C2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

void mk_avx2_silu_multiply(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 g = load_up_to(gate, i, n);
        __m256 e = exp8(negate(g));
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        store_up_to(gate, i, n, _mm256_mul_ps(silu, load_up_to(up, i, n)));
    }
}

void mk_avx2_add(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 8)
        store_up_to(x, i, n, _mm256_add_ps(load_up_to(x, i, n), load_up_to(y, i, n)));
}

void mk_avx2_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                  const float *sines)
{
    for (uint32_t h = 0; h < heads; h++, x += head_size) {
        for (uint32_t i = 0; i < half; i += 8) {
            __m256 a = load_up_to(x, i, half), b = load_up_to(x + half, i, half);
            __m256 c = load_up_to(cosines, i, half), s = load_up_to(sines, i, half);
            store_up_to(x, i, half, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
            store_up_to(x + half, i, half, _mm256_fmadd_ps(a, s, _mm256_mul_ps(b, c)));
        }
    }
}

/* ---- KV cache -------------------------------------------------------------------------------- */

void mk_avx2_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint32_t stride = mk_kv_stride(false, head_size);
    int8_t *codes = (int8_t *)plane.codes + (size_t)t * stride;
    uint16_t scale = mk_kv_scale_q8(largest_magnitude(x, head_size));
    plane.scales[t] = scale;
    if (scale)
        round_codes(x, head_size, stride, 1.0f / mk_bfloat16(scale), codes);
    else
        memset(codes, 0, stride);
}

/* Index of the nearest level, lane by lane: the number of midpoints below. */
static inline __m256i nearest_level8(__m256 x)
{
    __m256i code = _mm256_setzero_si256();
    for (int i = 0; i < 15; i++) {
        __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(mk_kv_midpoint(i)), _CMP_GT_OQ);
        code = _mm256_sub_epi32(code, _mm256_castps_si256(above));
    }
    return code;
}

static uint16_t store_block_q4(const __m256 x[4], uint8_t *codes)
{
    __m256 high = _mm256_max_ps(_mm256_max_ps(x[0], x[1]), _mm256_max_ps(x[2], x[3]));
    __m256 low = _mm256_min_ps(_mm256_min_ps(x[0], x[1]), _mm256_min_ps(x[2], x[3]));
    uint16_t scale = mk_kv_scale_q4(largest_lane(high), -largest_lane(negate(low)));
    if (!scale) {
        memset(codes, 0, 16);
        return 0;
    }
    __m256 inverse = _mm256_set1_ps(1.0f / mk_bfloat16(scale));
    for (int i = 0; i < 2; i++) {
        __m256i lower = nearest_level8(_mm256_mul_ps(x[i], inverse));
        __m256i upper = nearest_level8(_mm256_mul_ps(x[2 + i], inverse));
        store_bytes(codes + 8 * i, _mm256_or_si256(lower, _mm256_slli_epi32(upper, 4)));
    }
    return scale;
}

void mk_avx2_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint8_t *codes = plane.codes + (size_t)t * mk_kv_stride(true, head_size);
    uint16_t *scales = plane.scales + (size_t)t * mk_kv_scales(true, head_size);
    for (uint32_t at = 0; at < head_size; at += 32, codes += 16) {
        __m256 block[4];
        for (uint32_t i = 0; i < 4; i++)
            block[i] = at + 8 * i < head_size ? load_up_to(x, at + 8 * i, head_size) : _mm256_setzero_ps();
        *scales++ = store_block_q4(block, codes);
    }
}

/* ---- Attention ------------------------------------------------------------------------------- */

static float quantize_query(const float *x, uint32_t n, uint32_t padded, int8_t *codes)
{
    int32_t sum;
    return quantize_vector(x, n, padded, codes, &sum);
}

/* What scores and values visit: four successive positions; the last one stands in for those past the
 * end, whose results are not used. */
static inline void four_positions(const mk_attention *a, uint32_t t, uint32_t at[4])
{
    for (uint32_t i = 0; i < 4; i++)
        at[i] = a->first + (t + i < a->count ? t + i : a->count - 1);
}

static inline __m128 gather_bfloat16(const uint16_t *scales, const uint32_t at[4], uint32_t step,
                                     uint32_t offset)
{
    __m128i bits = _mm_setr_epi32(scales[(size_t)at[0] * step + offset], scales[(size_t)at[1] * step + offset],
                                  scales[(size_t)at[2] * step + offset], scales[(size_t)at[3] * step + offset]);
    return _mm_castsi128_ps(_mm_slli_epi32(bits, 16));
}

static void scores_q8(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    uint32_t padded = mk_pad32(a->head_size), key_stride = mk_kv_stride(false, a->head_size);
    for (uint32_t t = 0; t < a->count; t += 4) {
        uint32_t at[4];
        four_positions(a, t, at);
        const uint8_t *key[4];
        for (int i = 0; i < 4; i++)
            key[i] = a->keys.codes + (size_t)at[i] * key_stride;
        __m128 scale = gather_bfloat16(a->keys.scales, at, 1, 0);
        for (uint32_t h = 0; h < a->group; h++) {
            const int8_t *query = queries + (size_t)h * padded;
            __m256i acc[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                              _mm256_setzero_si256()};
            for (uint32_t i = 0; i < key_stride; i += 16) {
                __m256i q = widen(query + i);
                for (int p = 0; p < 4; p++)
                    acc[p] = _mm256_add_epi32(acc[p], _mm256_madd_epi16(q, widen(key[p] + i)));
            }
            __m128 dots = _mm_cvtepi32_ps(sum_lanes4(acc[0], acc[1], acc[2], acc[3]));
            _mm_store_ps(scores + h * stride + t, _mm_mul_ps(dots, _mm_mul_ps(_mm_set1_ps(f[h]), scale)));
        }
    }
}

/* 16 bytes of q4 codes to the levels of 32 values, as int8. */
static inline __m256i load_levels(const uint8_t *codes)
{
    __m128i c = _mm_loadu_si128((const void *)codes), levels = _mm_loadu_si128((const void *)mk_kv_levels);
    __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(c), _mm_srli_epi16(c, 4), 1);
    both = _mm256_and_si256(both, _mm256_set1_epi8(15));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(levels), both);
}

static void scores_q4(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    uint32_t blocks = mk_kv_scales(true, a->head_size);
    for (uint32_t t = 0; t < a->count; t += 4) {
        uint32_t at[4];
        four_positions(a, t, at);
        for (uint32_t h = 0; h < a->group; h++)
            _mm_store_ps(scores + h * stride + t, _mm_setzero_ps());
        for (uint32_t b = 0; b < blocks; b++) {
            __m256i key[4];
            for (int i = 0; i < 4; i++)
                key[i] = load_levels(a->keys.codes + ((size_t)at[i] * blocks + b) * 16);
            __m128 scale = gather_bfloat16(a->keys.scales, at, blocks, b);
            for (uint32_t h = 0; h < a->group; h++) {
                __m256i q = _mm256_loadu_si256((const void *)(queries + ((size_t)h * blocks + b) * 32));
                __m256i magnitude = _mm256_abs_epi8(q), zero = _mm256_setzero_si256();
                __m128i dots = sum_lanes4(
                    add_products(zero, key[0], q, magnitude), add_products(zero, key[1], q, magnitude),
                    add_products(zero, key[2], q, magnitude), add_products(zero, key[3], q, magnitude));
                float *s = scores + h * stride + t;
                __m128 factor = _mm_mul_ps(_mm_set1_ps(f[h]), scale);
                _mm_store_ps(s, _mm_fmadd_ps(_mm_cvtepi32_ps(dots), factor, _mm_load_ps(s)));
            }
        }
    }
}

static float softmax(float *s, uint32_t count)
{
    __m256 lowest = _mm256_set1_ps(-__FLT_MAX__), largest = lowest;
    for (uint32_t t = count; t % 8; t++)
        s[t] = -__FLT_MAX__;
    for (uint32_t t = 0; t < count; t += 8)
        largest = _mm256_max_ps(largest, _mm256_load_ps(s + t));
    largest = _mm256_set1_ps(largest_lane(largest));
    __m256 stripes = _mm256_setzero_ps();
    for (uint32_t t = 0; t < count; t += 8) {
        __m256 difference = _mm256_sub_ps(_mm256_load_ps(s + t), largest);
        __m256 keep = _mm256_cmp_ps(difference, _mm256_set1_ps(MK_ATTENTION_CUT), _CMP_GE_OQ);
        __m256 e = _mm256_and_ps(exp8(difference), keep);
        _mm256_store_ps(s + t, e);
        stripes = _mm256_add_ps(stripes, e);
    }
    return sum_stripes(stripes);
}

/* 8 int8 as floats. */
static inline __m256 widen_to_float(__m128i int8x8)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(int8x8));
}

/* Adds e * scale * value for 16 values of one position to `heads` query heads. */
static inline __attribute__((always_inline)) void
add_values(__m256 acc[4][2], __m128i codes, const float *e, size_t stride, uint16_t scale, const uint32_t heads)
{
    __m256 v0 = widen_to_float(codes), v1 = widen_to_float(_mm_unpackhi_epi64(codes, codes));
    for (uint32_t h = 0; h < heads; h++) {
        __m256 weight = _mm256_set1_ps(e[h * stride] * mk_bfloat16(scale));
        acc[h][0] = _mm256_fmadd_ps(weight, v0, acc[h][0]);
        acc[h][1] = _mm256_fmadd_ps(weight, v1, acc[h][1]);
    }
}

/* 16 values of q4: the low or the high nibbles of a block. */
static inline __m128i load_levels16(const uint8_t *codes, uint32_t half)
{
    __m128i c = _mm_loadu_si128((const void *)codes), levels = _mm_loadu_si128((const void *)mk_kv_levels);
    c = _mm_and_si128(half ? _mm_srli_epi16(c, 4) : c, _mm_set1_epi8(15));
    return _mm_shuffle_epi8(levels, c);
}

/* Values i .. i + 15 of `heads` query heads from h on. */
static inline __attribute__((always_inline)) void values_tile(const mk_attention *a, bool q4, const float *e,
                                                              size_t stride, const float *inverse, uint32_t h,
                                                              uint32_t i, const uint32_t heads)
{
    size_t value_stride = mk_kv_stride(q4, a->head_size), scale_stride = mk_kv_scales(q4, a->head_size);
    const uint8_t *codes = a->values.codes + a->first * value_stride + (q4 ? i / 32 * 16 : i);
    const uint16_t *scales = a->values.scales + a->first * scale_stride + (q4 ? i / 32 : 0);
    __m256 acc[4][2];
    for (uint32_t j = 0; j < heads; j++)
        acc[j][0] = acc[j][1] = _mm256_setzero_ps();
    e += h * stride;
    for (uint32_t t = 0; t < a->count; t++, codes += value_stride, scales += scale_stride) {
        __m128i v = q4 ? load_levels16(codes, i / 16 % 2) : _mm_loadu_si128((const void *)codes);
        add_values(acc, v, e + t, stride, *scales, heads);
    }
    for (uint32_t j = 0; j < heads; j++) {
        float *out = a->out + (size_t)(h + j) * a->head_size;
        __m256 factor = _mm256_set1_ps(inverse[h + j]);
        store_up_to(out, i, a->head_size, _mm256_mul_ps(acc[j][0], factor));
        if (i + 8 < a->head_size)
            store_up_to(out, i + 8, a->head_size, _mm256_mul_ps(acc[j][1], factor));
    }
}

static inline __attribute__((always_inline)) void values(const mk_attention *a, bool q4, const float *e,
                                                         size_t stride, const float *inverse)
{
    for (uint32_t i = 0; i < a->head_size; i += 16) {
        uint32_t h = 0;
        for (; h + 4 <= a->group; h += 4)
            values_tile(a, q4, e, stride, inverse, h, i, 4);
        if (a->group - h == 3)
            values_tile(a, q4, e, stride, inverse, h, i, 3);
        else if (a->group - h == 2)
            values_tile(a, q4, e, stride, inverse, h, i, 2);
        else if (a->group - h == 1)
            values_tile(a, q4, e, stride, inverse, h, i, 1);
    }
}

static void values_q8(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    values(a, false, e, stride, inverse);
}

static void values_q4(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    values(a, true, e, stride, inverse);
}

static const mk_attention_steps steps = {
    .quantize = quantize_query,
    .scores = {scores_q8, scores_q4},
    .softmax = softmax,
    .values = {values_q8, values_q4},
};

void mk_avx2_attend_q8(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q8, &steps);
}

void mk_avx2_attend_q4(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q4, &steps);
}

const mk_kernels mk_kernels_avx2 = {
    .name = "avx2",
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
typedef int mk_no_avx2; /* a file must not be empty */
#endif

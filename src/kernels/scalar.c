/* scalar.c - the reference: what every other set must give, bit for bit. Plain C; built with -O3 the
 * compiler vectorizes the integer dot products. */
#include "base/math.h"
#include "kernels/attention.h"
#include "kernels/internal.h"

/* Ascending; Lloyd's levels for 32 normally distributed values whose signed extreme is scaled to -127. */
const int8_t mk_kv_levels[16] = {-127, -100, -80, -63, -48, -34, -22, -9, 3, 15, 27, 40, 54, 70, 89, 111};

static inline float magnitude(float x)
{
    return mk_float_from_bits(mk_float_bits(x) & 0x7fffffffu);
}

static float largest_magnitude(const float *x, uint32_t n)
{
    float largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = magnitude(x[i]) > largest ? magnitude(x[i]) : largest;
    return largest;
}

static int32_t dot(const int8_t *restrict a, const int8_t *restrict b, uint32_t n)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* x[n] to codes[padded]; returns the scale. */
static float quantize_vector(const float *x, uint32_t n, uint32_t padded, int8_t *codes)
{
    float largest = largest_magnitude(x, n);
    if (largest < MK_QUANTIZE_MIN) {
        memset(codes, 0, padded);
        return 0;
    }
    float inverse = 127.0f / largest;
    for (uint32_t i = 0; i < n; i++)
        codes[i] = (int8_t)mk_rint(x[i] * inverse);
    memset(codes + n, 0, padded - n);
    return largest / 127.0f;
}

static void hadamard_power(float *x, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        x[i] = magnitude(x[i]) < MK_HADAMARD_MIN ? 0 : x[i];
    for (uint32_t stride = 1; stride < length; stride *= 2) {
        for (uint32_t begin = 0; begin < length; begin += 2 * stride) {
            for (uint32_t i = begin; i < begin + stride; i++) {
                float a = x[i], b = x[i + stride];
                x[i] = a + b;
                x[i + stride] = a - b;
            }
        }
    }
    for (uint32_t i = 0; i < length; i++)
        x[i] *= mk_hadamard_scale(length);
}

void mk_scalar_hadamard(float *x, uint32_t n)
{
    while (n > 0) {
        uint32_t length = mk_hadamard_length(n);
        hadamard_power(x, length);
        x += length;
        n -= length;
    }
}

static void quantize(const float *x, uint32_t cols, bool transform, int8_t *codes, float *scales, int32_t *sums)
{
    for (uint32_t at = 0; at < cols; at += MKN_SUPER_BLOCK) {
        float block[MKN_SUPER_BLOCK] = {0};
        uint32_t n = cols - at < MKN_SUPER_BLOCK ? cols - at : MKN_SUPER_BLOCK;
        uint32_t padded = mk_pad32(n);
        memcpy(block, x + at, n * sizeof *x);
        if (transform)
            mk_scalar_hadamard(block, padded);
        *scales++ = quantize_vector(block, padded, padded, codes + at);
        int32_t sum = 0;
        for (uint32_t i = 0; i < padded; i++)
            sum += codes[at + i];
        *sums++ = sum;
    }
}

/* A super-block of four rows as int8: row r at tile + 256 r. */
static void expand(const mk_super_block *sb, const int8_t *tables, bool q4, int8_t *tile)
{
    for (uint32_t b = 0; b < sb->blocks; b++) {
        for (uint32_t r = 0; r < MKN_GROUP; r++) {
            int8_t *out = tile + r * MKN_SUPER_BLOCK + b * MKN_BLOCK;
            if (!q4) {
                memcpy(out, sb->codes + (4 * b + r) * 32, 32);
                continue;
            }
            const uint8_t *codes = sb->codes + (4 * b + r) * 16;
            const int8_t *table = tables + 16 * (size_t)sb->picks[4 * b + r];
            for (uint32_t i = 0; i < 16; i++) {
                out[i] = table[codes[i] & 15];
                out[16 + i] = table[codes[i] >> 4];
            }
        }
    }
}

/* y[t][0..3] for one group of rows; y holds the accumulators between super-blocks. */
static void multiply_group(const mk_matrix *w, uint32_t group, const mk_activations *x, uint32_t tokens,
                           float *y, size_t y_stride, int8_t *tile)
{
    uint32_t supers = mk_super_blocks(w->blocks);
    for (uint32_t t = 0; t < tokens; t++)
        memset(y + t * y_stride, 0, MKN_GROUP * sizeof *y);
    for (uint32_t s = 0; s < supers; s++) {
        mk_super_block sb = mk_super_block_at(w, group, s);
        expand(&sb, w->tables, w->type == MKN_Q4, tile);
        for (uint32_t t = 0; t < tokens; t++) {
            const int8_t *codes = x->codes + ((size_t)t * w->blocks + 8 * s) * MKN_BLOCK;
            float scale = x->scales[(size_t)t * supers + s];
            for (uint32_t r = 0; r < MKN_GROUP; r++) {
                int32_t sum = dot(tile + r * MKN_SUPER_BLOCK, codes, sb.blocks * MKN_BLOCK);
                float *acc = &y[t * y_stride + r];
                *acc = mk_fma((float)sum, mk_half_to_float(mk_load16(sb.d + 2 * r)) * scale, *acc);
            }
        }
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    for (uint32_t g = group_begin; g < group_end; g++)
        multiply_group(w, g, x, tokens, y + (size_t)g * MKN_GROUP, y_stride, scratch);
}

static void gemv(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 float *y)
{
    _Alignas(64) int8_t tile[MKN_GROUP * MKN_SUPER_BLOCK];
    gemm(w, group_begin, group_end, x, 1, y, 0, tile);
}

void mk_scalar_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out)
{
    float stripes[8] = {0};
    for (uint32_t i = 0; i < n; i++)
        stripes[i % 8] = mk_fma(x[i], x[i], stripes[i % 8]);
    float inverse = 1.0f / mk_sqrt(mk_sum_stripes(stripes) / (float)n + epsilon);
    for (uint32_t i = 0; i < n; i++)
        out[i] = (x[i] * inverse) * weight[i];
}

void mk_scalar_silu_multiply(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        gate[i] = (gate[i] / (1.0f + mk_exp(-gate[i]))) * up[i];
}

void mk_scalar_add(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] += y[i];
}

void mk_scalar_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                    const float *sines)
{
    for (uint32_t h = 0; h < heads; h++, x += head_size) {
        for (uint32_t i = 0; i < half; i++) {
            float a = x[i], b = x[half + i];
            x[i] = mk_fma(a, cosines[i], -(b * sines[i]));
            x[half + i] = mk_fma(a, sines[i], b * cosines[i]);
        }
    }
}

void mk_scalar_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint32_t stride = mk_kv_stride(false, head_size);
    int8_t *codes = (int8_t *)plane.codes + (size_t)t * stride;
    uint16_t scale = mk_kv_scale_q8(largest_magnitude(x, head_size));
    memset(codes, 0, stride);
    plane.scales[t] = scale;
    if (!scale)
        return;
    float inverse = 1.0f / mk_bfloat16(scale);
    for (uint32_t i = 0; i < head_size; i++)
        codes[i] = (int8_t)mk_rint(x[i] * inverse);
}

static uint8_t nearest_level(float x)
{
    uint8_t code = 0;
    for (int i = 0; i < 15; i++)
        code = (uint8_t)(code + (x > mk_kv_midpoint(i)));
    return code;
}

/* 32 values to 16 bytes of codes; returns the scale. */
static uint16_t store_block_q4(const float *x, uint8_t *codes)
{
    float largest = x[0], smallest = x[0];
    for (uint32_t i = 1; i < 32; i++) {
        largest = x[i] > largest ? x[i] : largest;
        smallest = x[i] < smallest ? x[i] : smallest;
    }
    memset(codes, 0, 16);
    uint16_t scale = mk_kv_scale_q4(largest, smallest);
    if (!scale)
        return 0;
    float inverse = 1.0f / mk_bfloat16(scale);
    for (uint32_t i = 0; i < 16; i++)
        codes[i] = (uint8_t)(nearest_level(x[i] * inverse) | nearest_level(x[16 + i] * inverse) << 4);
    return scale;
}

void mk_scalar_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t)
{
    uint8_t *codes = plane.codes + (size_t)t * mk_kv_stride(true, head_size);
    uint16_t *scales = plane.scales + (size_t)t * mk_kv_scales(true, head_size);
    for (uint32_t at = 0; at < head_size; at += 32, codes += 16) {
        float block[32] = {0};
        memcpy(block, x + at, (head_size - at < 32 ? head_size - at : 32) * sizeof *x);
        *scales++ = store_block_q4(block, codes);
    }
}

static void scores_q8(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    uint32_t padded = mk_pad32(a->head_size);
    size_t key_stride = mk_kv_stride(false, a->head_size);
    for (uint32_t t = 0; t < a->count; t++) {
        const int8_t *key = (const int8_t *)a->keys.codes + (a->first + t) * key_stride;
        float scale = mk_bfloat16(a->keys.scales[a->first + t]);
        for (uint32_t h = 0; h < a->group; h++)
            scores[h * stride + t] =
                (float)dot(queries + (size_t)h * padded, key, a->head_size) * (f[h] * scale);
    }
}

/* 16 bytes of q4 codes to 32 int8. */
static void expand_levels(const uint8_t *codes, int8_t *out)
{
    for (uint32_t i = 0; i < 16; i++) {
        out[i] = mk_kv_levels[codes[i] & 15];
        out[16 + i] = mk_kv_levels[codes[i] >> 4];
    }
}

static void scores_q4(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    uint32_t blocks = mk_kv_scales(true, a->head_size);
    for (uint32_t t = 0; t < a->count; t++) {
        size_t at = (size_t)(a->first + t) * blocks;
        for (uint32_t h = 0; h < a->group; h++)
            scores[h * stride + t] = 0;
        for (uint32_t b = 0; b < blocks; b++) {
            int8_t key[32];
            expand_levels(a->keys.codes + (at + b) * 16, key);
            float scale = mk_bfloat16(a->keys.scales[at + b]);
            for (uint32_t h = 0; h < a->group; h++) {
                float *s = &scores[h * stride + t];
                *s = mk_fma((float)dot(queries + ((size_t)h * blocks + b) * 32, key, 32), f[h] * scale, *s);
            }
        }
    }
}

static float softmax(float *s, uint32_t count)
{
    float largest = s[0];
    for (uint32_t t = 1; t < count; t++)
        largest = s[t] > largest ? s[t] : largest;
    float stripes[8] = {0};
    for (uint32_t t = 0; t < count; t++) {
        float difference = s[t] - largest;
        s[t] = difference < MK_ATTENTION_CUT ? 0 : mk_exp(difference);
        stripes[t % 8] += s[t];
    }
    return mk_sum_stripes(stripes);
}

/* out[i] = fma(weight, (float)codes[i], out[i]) */
static void accumulate(float *restrict out, float weight, const int8_t *restrict codes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = mk_fma(weight, (float)codes[i], out[i]);
}

static void values_q8(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    size_t value_stride = mk_kv_stride(false, a->head_size);
    for (uint32_t h = 0; h < a->group; h++) {
        float *out = a->out + (size_t)h * a->head_size;
        memset(out, 0, a->head_size * sizeof *out);
        for (uint32_t t = 0; t < a->count; t++) {
            const int8_t *value = (const int8_t *)a->values.codes + (a->first + t) * value_stride;
            float weight = e[h * stride + t] * mk_bfloat16(a->values.scales[a->first + t]);
            accumulate(out, weight, value, a->head_size);
        }
        for (uint32_t i = 0; i < a->head_size; i++)
            out[i] *= inverse[h];
    }
}

static void values_q4(const mk_attention *a, const float *e, size_t stride, const float *inverse)
{
    uint32_t blocks = mk_kv_scales(true, a->head_size);
    for (uint32_t h = 0; h < a->group; h++) {
        float *out = a->out + (size_t)h * a->head_size;
        memset(out, 0, a->head_size * sizeof *out);
        for (uint32_t t = 0; t < a->count; t++) {
            size_t at = (size_t)(a->first + t) * blocks;
            for (uint32_t b = 0; b < blocks; b++) {
                int8_t value[32];
                expand_levels(a->values.codes + (at + b) * 16, value);
                float weight = e[h * stride + t] * mk_bfloat16(a->values.scales[at + b]);
                uint32_t n = a->head_size - 32 * b < 32 ? a->head_size - 32 * b : 32;
                accumulate(out + 32 * b, weight, value, n);
            }
        }
        for (uint32_t i = 0; i < a->head_size; i++)
            out[i] *= inverse[h];
    }
}

static const mk_attention_steps steps = {
    .quantize = quantize_vector,
    .scores = {scores_q8, scores_q4},
    .softmax = softmax,
    .values = {values_q8, values_q4},
};

static void attend_q8(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q8, &steps);
}

static void attend_q4(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q4, &steps);
}

const mk_kernels mk_kernels_scalar = {
    .name = "scalar",
    .hadamard = mk_scalar_hadamard,
    .quantize = quantize,
    .gemv = gemv,
    .gemm = gemm,
    .rms_norm = mk_scalar_rms_norm,
    .silu_multiply = mk_scalar_silu_multiply,
    .add = mk_scalar_add,
    .rope = mk_scalar_rope,
    .kv_store = {mk_scalar_kv_store_q8, mk_scalar_kv_store_q4},
    .attend = {attend_q8, attend_q4},
};

void mk_dequantize_row(const mk_matrix *w, uint32_t row, float *out)
{
    int8_t tile[MKN_GROUP * MKN_SUPER_BLOCK];
    uint32_t r = row % MKN_GROUP;
    for (uint32_t s = 0; s < mk_super_blocks(w->blocks); s++, out += MKN_SUPER_BLOCK) {
        mk_super_block sb = mk_super_block_at(w, row / MKN_GROUP, s);
        expand(&sb, w->tables, w->type == MKN_Q4, tile);
        float d = mk_half_to_float(mk_load16(sb.d + 2 * r));
        for (uint32_t i = 0; i < sb.blocks * MKN_BLOCK; i++)
            out[i] = d * (float)tile[r * MKN_SUPER_BLOCK + i];
        if (w->transformed)
            mk_scalar_hadamard(out, sb.blocks * MKN_BLOCK);
    }
}

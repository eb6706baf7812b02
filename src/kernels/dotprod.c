/* dotprod.c - ARMv8.2-A with the dot product instructions (Cortex-A55, A76). What does not multiply
 * int8 is the neon set's. Flags: -march=armv8.2-a+dotprod. */
#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include "kernels/neon.h"

static inline int32x4_t add_products(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    return vdotq_s32(acc, w, x);
}

#include "kernels/neon_dot.h"

void mk_dotprod_gemv(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                     float *y)
{
    gemv(w, group_begin, group_end, x, y);
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

/* A tile of 32 rows and one super-block is expanded into the scratch as int8, [4 pairs of groups][k / 4]
 * [8 rows][4], and used for all tokens: a dot product by lane takes four k of four rows and one token,
 * and gives the sums of four rows in one vector. 8 rows by 8 tokens: 16 sums, 8 tokens, 2 rows in 32
 * registers. Cycles by llvm-mca 19 for neoverse-n1 (Cortex-A76), gcc 12: 32 for 1,024 multiply-adds (the
 * bound), 16 to expand 128 weights; GEMV 12.1 (10) for 128 weights of q4 and 5.1 (5) of q8. */
enum { TILE_PAIRS = 4, PAIR_BYTES = 8 * MKN_SUPER_BLOCK, TILE_TOKENS = 8 };

typedef struct rows4 {
    int8x16_t row[4];
} rows4;

/* Rows of four 32-bit elements to columns, 32 bytes apart. */
static inline void store_transposed(rows4 r, int8_t *out)
{
    int32x4_t r0 = vreinterpretq_s32_s8(r.row[0]), r1 = vreinterpretq_s32_s8(r.row[1]);
    int32x4_t r2 = vreinterpretq_s32_s8(r.row[2]), r3 = vreinterpretq_s32_s8(r.row[3]);
    int64x2_t a = vreinterpretq_s64_s32(vtrn1q_s32(r0, r1)), b = vreinterpretq_s64_s32(vtrn2q_s32(r0, r1));
    int64x2_t c = vreinterpretq_s64_s32(vtrn1q_s32(r2, r3)), d = vreinterpretq_s64_s32(vtrn2q_s32(r2, r3));
    vst1q_s8(out, vreinterpretq_s8_s64(vtrn1q_s64(a, c)));
    vst1q_s8(out + 32, vreinterpretq_s8_s64(vtrn1q_s64(b, d)));
    vst1q_s8(out + 64, vreinterpretq_s8_s64(vtrn2q_s64(a, c)));
    vst1q_s8(out + 96, vreinterpretq_s8_s64(vtrn2q_s64(b, d)));
}

static void expand_q4(const mk_super_block *sb, const int8_t *tables, int8_t *out)
{
    MK_MARK("expand_q4");
    for (uint32_t b = 0; b < sb->blocks; b++, out += 8 * MKN_BLOCK) {
        rows4 low, high;
        for (uint32_t r = 0; r < 4; r++) {
            int8x16_t table = vld1q_s8(tables + 16 * (size_t)sb->picks[4 * b + r]);
            uint8x16_t codes = vld1q_u8(sb->codes + 64 * b + 16 * r);
            low.row[r] = mk_lookup_low(table, codes);
            high.row[r] = mk_lookup_high(table, codes);
        }
        store_transposed(low, out);
        store_transposed(high, out + 128);
    }
}

static void expand_q8(const mk_super_block *sb, int8_t *out)
{
    const int8_t *codes = (const int8_t *)sb->codes;
    MK_MARK("expand_q8");
    for (const int8_t *end = codes + 128 * sb->blocks; codes < end; codes += 128, out += 8 * MKN_BLOCK) {
        rows4 low, high;
        for (uint32_t r = 0; r < 4; r++) {
            low.row[r] = vld1q_s8(codes + 32 * r);
            high.row[r] = vld1q_s8(codes + 32 * r + 16);
        }
        store_transposed(low, out);
        store_transposed(high, out + 128);
    }
}

/* Groups from `begin` to `end`, at most eight, into the tile. A last odd one leaves its partner as it
 * is: what comes of that is not stored. */
static void expand_tile(const mk_matrix *w, uint32_t begin, uint32_t end, uint32_t super, int8_t *tile)
{
    for (uint32_t g = begin; g < end; g++) {
        mk_super_block sb = mk_super_block_at(w, g, super);
        int8_t *out = tile + (g - begin) / 2 * PAIR_BYTES + (g - begin) % 2 * 16;
        if (w->type == MKN_Q4)
            expand_q4(&sb, w->tables, out);
        else
            expand_q8(&sb, out);
    }
}

/* Sums of 8 rows by `count` tokens, x_stride apart. */
static inline __attribute__((always_inline)) void multiply_tile(const int8_t *w, const int8_t *x,
                                                                size_t x_stride, uint32_t blocks,
                                                                const uint32_t count,
                                                                int32x4_t sums[TILE_TOKENS][2])
{
    int32x4_t acc[TILE_TOKENS][2];
    for (uint32_t t = 0; t < count; t++)
        acc[t][0] = acc[t][1] = vdupq_n_s32(0);
    if (count == TILE_TOKENS)
        MK_MARK("tile");
    for (const int8_t *end = w + 8 * MKN_BLOCK * blocks; w < end; w += 128, x += 16) {
        int8x16_t v[TILE_TOKENS];
        for (uint32_t t = 0; t < count; t++)
            v[t] = vld1q_s8(x + t * x_stride);
#define MULTIPLY_LANE(lane)                                                                                    \
    {                                                                                                          \
        int8x16_t w0 = vld1q_s8(w + 32 * lane), w1 = vld1q_s8(w + 32 * lane + 16);                             \
        for (uint32_t t = 0; t < count; t++) {                                                                 \
            acc[t][0] = vdotq_laneq_s32(acc[t][0], w0, v[t], lane);                                            \
            acc[t][1] = vdotq_laneq_s32(acc[t][1], w1, v[t], lane);                                            \
        }                                                                                                      \
    }
        MULTIPLY_LANE(0)
        MULTIPLY_LANE(1)
        MULTIPLY_LANE(2)
        MULTIPLY_LANE(3)
#undef MULTIPLY_LANE
    }
    for (uint32_t t = 0; t < count; t++) {
        sums[t][0] = acc[t][0];
        sums[t][1] = acc[t][1];
    }
}

/* One pair of groups, or one group, by up to eight tokens. */
static void multiply_block(const int8_t *w, const int8_t *x, size_t x_stride, uint32_t blocks,
                           const mk_results *to, uint32_t count, uint32_t groups)
{
    int32x4_t sums[TILE_TOKENS][2];
    switch (count) {
    case 1:
        multiply_tile(w, x, x_stride, blocks, 1, sums);
        break;
    case 2:
        multiply_tile(w, x, x_stride, blocks, 2, sums);
        break;
    case 3:
        multiply_tile(w, x, x_stride, blocks, 3, sums);
        break;
    case 4:
        multiply_tile(w, x, x_stride, blocks, 4, sums);
        break;
    case 5:
        multiply_tile(w, x, x_stride, blocks, 5, sums);
        break;
    case 6:
        multiply_tile(w, x, x_stride, blocks, 6, sums);
        break;
    case 7:
        multiply_tile(w, x, x_stride, blocks, 7, sums);
        break;
    default:
        multiply_tile(w, x, x_stride, blocks, 8, sums);
    }
    if (groups == 2)
        mk_add_sums(to, count, 2, sums[0], 2);
    else
        mk_add_sums(to, count, 1, sums[0], 2);
}

/* Groups g and, where there are two, g + 1, for all tokens; y of the first row of g. */
static void multiply_pair(const mk_matrix *w, const int8_t *tile, uint32_t g, uint32_t groups, uint32_t super,
                          const mk_activations *x, uint32_t tokens, float *y, size_t y_stride)
{
    mk_super_block sb = mk_super_block_at(w, g, super);
    size_t x_stride = (size_t)x->blocks * MKN_BLOCK;
    const int8_t *x_codes = x->codes + (size_t)super * MKN_SUPER_BLOCK;
    mk_results to = {
        .y_stride = y_stride,
        .x_scale_stride = mk_super_blocks(x->blocks),
        .d = {mk_load_d(sb.d), mk_load_d(mk_super_block_at(w, g + groups - 1, super).d)},
    };
    for (uint32_t token = 0; token < tokens; token += TILE_TOKENS) {
        uint32_t count = tokens - token < TILE_TOKENS ? tokens - token : TILE_TOKENS;
        to.y = y + token * y_stride;
        to.x_scales = x->scales + super + token * to.x_scale_stride;
        multiply_block(tile, x_codes + token * x_stride, x_stride, sb.blocks, &to, count, groups);
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    int8_t *tile = scratch;
    for (uint32_t begin = group_begin; begin < group_end; begin += 2 * TILE_PAIRS) {
        uint32_t end = group_end - begin < 2 * TILE_PAIRS ? group_end : begin + 2 * TILE_PAIRS;
        mk_clear_results(y, y_stride, begin, end, tokens);
        for (uint32_t super = 0; super < mk_super_blocks(w->blocks); super++) {
            expand_tile(w, begin, end, super, tile);
            for (uint32_t g = begin; g < end; g += 2)
                multiply_pair(w, tile + (g - begin) / 2 * PAIR_BYTES, g, g + 1 < end ? 2 : 1, super, x, tokens,
                              y + (size_t)g * MKN_GROUP, y_stride);
        }
    }
}

/* ---- Attention ------------------------------------------------------------------------------- */

static const mk_attention_steps steps = {
    .quantize = mk_neon_quantize_query,
    .scores = {scores_q8, scores_q4},
    .softmax = mk_neon_softmax,
    .values = {mk_neon_values_q8, mk_neon_values_q4},
};

void mk_dotprod_attend_q8(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q8, &steps);
}

void mk_dotprod_attend_q4(const mk_attention *a)
{
    mk_attend(a, MK_KV_Q4, &steps);
}

const mk_kernels mk_kernels_dotprod = {
    .name = "dotprod",
    .hadamard = mk_neon_hadamard,
    .quantize = mk_neon_quantize,
    .gemv = mk_dotprod_gemv,
    .gemm = gemm,
    .rms_norm = mk_neon_rms_norm,
    .silu_multiply = mk_neon_silu_multiply,
    .add = mk_scalar_add,
    .rope = mk_neon_rope,
    .kv_store = {mk_neon_kv_store_q8, mk_neon_kv_store_q4},
    .attend = {mk_dotprod_attend_q8, mk_dotprod_attend_q4},
};

#else
typedef int mk_no_dotprod; /* a file must not be empty */
#endif

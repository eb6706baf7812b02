/* i8mm.c - ARMv8.2-A with the matrix multiply of int8 (Cortex-A510, A710, A720, X2 and later). GEMM; all
 * else is the dotprod set's. Flags: -march=armv8.2-a+dotprod+i8mm. */
#if defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
#include "kernels/neon.h"

/* SMMLA multiplies two rows of 8 k by two others: 32 products, twice those of SDOT. The scratch holds, of
 * one super-block, a tile of 64 rows expanded to int8, [8 pairs of groups][k / 8][8 rows][8], and beside it
 * 32 tokens at a time in the same form, [4 blocks][k / 8][8 tokens][8]. Interleaving the tokens costs once
 * per 64 rows what it would cost in the inner loop once per 8. 8 rows by 8 tokens: 16 sums of two by two,
 * 4 pairs of tokens, 4 pairs of rows in 32 registers. With 8 KB of results it all is 32 KB, the smallest
 * first-level cache of these cores. Cycles by llvm-mca 19 for neoverse-n2 (Cortex-A710), gcc 12, per 2,048
 * multiply-adds: 32 (the bound), with all else at 64 tokens 43 in q4 and 41 in q8, of the dotprod set 74 and
 * 72. Unrolling the loop over k gives moves between registers: 38 for 32. */
enum {
    TILE_GROUPS = 16,
    TILE_TOKENS = 8,
    PACKED_TOKENS = 32,
    STEP_BYTES = 64, /* 8 k of 8 rows or tokens */
    PAIR_BYTES = 8 * MKN_SUPER_BLOCK,
    TILE_BYTES = TILE_GROUPS / 2 * PAIR_BYTES,
};
_Static_assert(TILE_BYTES + PACKED_TOKENS * MKN_SUPER_BLOCK <= MK_GEMM_SCRATCH, "the tile fits the scratch");

/* 16 k of two rows, or tokens, as two steps. */
static inline void store_pair(int8x16_t a, int8x16_t b, int8_t *out)
{
    int64x2_t a8 = vreinterpretq_s64_s8(a), b8 = vreinterpretq_s64_s8(b);
    vst1q_s8(out, vreinterpretq_s8_s64(vzip1q_s64(a8, b8)));
    vst1q_s8(out + STEP_BYTES, vreinterpretq_s8_s64(vzip2q_s64(a8, b8)));
}

static void expand_q4(const mk_super_block *sb, const int8_t *tables, int8_t *out)
{
    const uint8_t *codes = sb->codes, *picks = sb->picks;
    MK_MARK("expand_q4");
    for (const uint8_t *end = picks + 4 * sb->blocks; picks < end; picks += 4, codes += 64) {
        for (uint32_t r = 0; r < 4; r += 2) {
            int8x16_t table0 = vld1q_s8(tables + 16 * (size_t)picks[r]);
            int8x16_t table1 = vld1q_s8(tables + 16 * (size_t)picks[r + 1]);
            uint8x16_t codes0 = vld1q_u8(codes + 16 * r), codes1 = vld1q_u8(codes + 16 * r + 16);
            store_pair(mk_lookup_low(table0, codes0), mk_lookup_low(table1, codes1), out + 8 * r);
            store_pair(mk_lookup_high(table0, codes0), mk_lookup_high(table1, codes1),
                       out + 8 * r + 2 * STEP_BYTES);
        }
        out += 4 * STEP_BYTES;
    }
}

static void expand_q8(const mk_super_block *sb, int8_t *out)
{
    const int8_t *codes = (const int8_t *)sb->codes;
    MK_MARK("expand_q8");
    for (const int8_t *end = codes + 128 * sb->blocks; codes < end; codes += 128, out += 4 * STEP_BYTES) {
        for (uint32_t r = 0; r < 4; r += 2) {
            const int8_t *row = codes + 32 * r;
            store_pair(vld1q_s8(row), vld1q_s8(row + 32), out + 8 * r);
            store_pair(vld1q_s8(row + 16), vld1q_s8(row + 48), out + 8 * r + 2 * STEP_BYTES);
        }
    }
}

/* Groups from `begin` to `end`, at most sixteen, into the tile. A last odd one leaves its partner as it
 * is: what comes of that is not stored. */
static void expand_tile(const mk_matrix *w, uint32_t begin, uint32_t end, uint32_t super, int8_t *tile)
{
    for (uint32_t g = begin; g < end; g++) {
        mk_super_block sb = mk_super_block_at(w, g, super);
        int8_t *out = tile + (g - begin) / 2 * PAIR_BYTES + (g - begin) % 2 * (STEP_BYTES / 2);
        if (w->type == MKN_Q4)
            expand_q4(&sb, w->tables, out);
        else
            expand_q8(&sb, out);
    }
}

/* `count` tokens, x_stride apart, into blocks of eight. A last odd one is its own partner. */
static void pack_tokens(const int8_t *x, size_t x_stride, uint32_t blocks, uint32_t count, int8_t *packed)
{
    for (uint32_t t = 0; t < count; t += 2, x += 2 * x_stride) {
        const int8_t *a = x, *b = t + 1 < count ? x + x_stride : x;
        int8_t *out = packed + t / TILE_TOKENS * PAIR_BYTES + t % TILE_TOKENS * 8;
        MK_MARK("pack");
        for (const int8_t *end = a + blocks * MKN_BLOCK; a < end; a += 16, b += 16, out += 2 * STEP_BYTES)
            store_pair(vld1q_s8(a), vld1q_s8(b), out);
    }
}

/* Sums of 8 rows by 2 * pairs tokens. */
static inline __attribute__((always_inline)) void multiply_tile(const int8_t *w, const int8_t *x,
                                                                uint32_t blocks, const uint32_t pairs,
                                                                int32x4_t sums[TILE_TOKENS][2])
{
    int32x4_t acc[TILE_TOKENS / 2][4];
    for (uint32_t p = 0; p < pairs; p++)
        acc[p][0] = acc[p][1] = acc[p][2] = acc[p][3] = vdupq_n_s32(0);
    if (pairs == TILE_TOKENS / 2)
        MK_MARK("tile");
    for (const int8_t *end = w + 8 * MKN_BLOCK * blocks; w < end; w += STEP_BYTES, x += STEP_BYTES) {
        int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
        for (uint32_t p = 0; p < pairs; p++) {
            int8x16_t v = vld1q_s8(x + 16 * p);
            acc[p][0] = vmmlaq_s32(acc[p][0], v, w0);
            acc[p][1] = vmmlaq_s32(acc[p][1], v, w1);
            acc[p][2] = vmmlaq_s32(acc[p][2], v, w2);
            acc[p][3] = vmmlaq_s32(acc[p][3], v, w3);
        }
    }
    for (uint32_t p = 0; p < pairs; p++) { /* each holds two rows of one token, two of the next */
        for (uint32_t i = 0; i < 2; i++) {
            int64x2_t a = vreinterpretq_s64_s32(acc[p][2 * i]), b = vreinterpretq_s64_s32(acc[p][2 * i + 1]);
            sums[2 * p][i] = vreinterpretq_s32_s64(vzip1q_s64(a, b));
            sums[2 * p + 1][i] = vreinterpretq_s32_s64(vzip2q_s64(a, b));
        }
    }
}

/* One pair of groups, or one group, by up to eight packed tokens. */
static void multiply_block(const int8_t *w, const int8_t *x, uint32_t blocks, const mk_results *to,
                           uint32_t count, uint32_t groups)
{
    int32x4_t sums[TILE_TOKENS][2];
    switch ((count + 1) / 2) {
    case 1:
        multiply_tile(w, x, blocks, 1, sums);
        break;
    case 2:
        multiply_tile(w, x, blocks, 2, sums);
        break;
    case 3:
        multiply_tile(w, x, blocks, 3, sums);
        break;
    default:
        multiply_tile(w, x, blocks, 4, sums);
    }
    if (groups == 2)
        mk_add_sums(to, count, 2, sums[0], 2);
    else
        mk_add_sums(to, count, 1, sums[0], 2);
}

/* One tile of rows by `tokens` packed tokens, to y of its first row and the first of these tokens. */
static void multiply_packed(const mk_matrix *w, uint32_t begin, uint32_t end, uint32_t super,
                            const int8_t *tile, const int8_t *packed, uint32_t tokens, mk_results to)
{
    float *y = to.y;
    const float *x_scales = to.x_scales;
    for (uint32_t g = begin; g < end; g += 2, tile += PAIR_BYTES) {
        uint32_t groups = g + 1 < end ? 2 : 1;
        mk_super_block sb = mk_super_block_at(w, g, super);
        to.d[0] = mk_load_d(sb.d);
        to.d[1] = mk_load_d(mk_super_block_at(w, g + groups - 1, super).d);
        for (uint32_t t = 0; t < tokens; t += TILE_TOKENS) {
            const int8_t *x = packed + t / TILE_TOKENS * PAIR_BYTES;
            uint32_t count = tokens - t < TILE_TOKENS ? tokens - t : TILE_TOKENS;
            to.y = y + t * to.y_stride + (size_t)(g - begin) * MKN_GROUP;
            to.x_scales = x_scales + t * to.x_scale_stride;
            multiply_block(tile, x, sb.blocks, &to, count, groups);
        }
    }
}

static void gemm(const mk_matrix *w, uint32_t group_begin, uint32_t group_end, const mk_activations *x,
                 uint32_t tokens, float *y, size_t y_stride, void *scratch)
{
    int8_t *tile = scratch, *packed = tile + TILE_BYTES;
    uint32_t supers = mk_super_blocks(w->blocks);
    size_t x_stride = (size_t)x->blocks * MKN_BLOCK;
    for (uint32_t begin = group_begin; begin < group_end; begin += TILE_GROUPS) {
        uint32_t end = group_end - begin < TILE_GROUPS ? group_end : begin + TILE_GROUPS;
        mk_clear_results(y, y_stride, begin, end, tokens);
        for (uint32_t super = 0; super < supers; super++) {
            uint32_t blocks = mk_super_block_at(w, begin, super).blocks;
            expand_tile(w, begin, end, super, tile);
            for (uint32_t token = 0; token < tokens; token += PACKED_TOKENS) {
                uint32_t count = tokens - token < PACKED_TOKENS ? tokens - token : PACKED_TOKENS;
                mk_results to = {
                    .y = y + token * y_stride + (size_t)begin * MKN_GROUP,
                    .y_stride = y_stride,
                    .x_scales = x->scales + (size_t)token * supers + super,
                    .x_scale_stride = supers,
                };
                pack_tokens(x->codes + token * x_stride + (size_t)super * MKN_SUPER_BLOCK, x_stride, blocks,
                            count, packed);
                multiply_packed(w, begin, end, super, tile, packed, count, to);
            }
        }
    }
}

const mk_kernels mk_kernels_i8mm = {
    .name = "i8mm",
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
typedef int mk_no_i8mm; /* a file must not be empty */
#endif

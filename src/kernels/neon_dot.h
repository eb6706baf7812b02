/* neon_dot.h - GEMV and the scores of attention in terms of
 *
 *     int32x4_t add_products(int32x4_t acc, int8x16_t w, int8x16_t x)
 *
 * which adds 16 products of int8 to four sums, in whatever order; the including file defines it first.
 * It may have its own sums over a super-block and name them SUM_Q4 and SUM_Q8. */

/* ---- GEMV ------------------------------------------------------------------------------------ */

static inline int32x4_t add_row_q4(int32x4_t acc, const int8_t *table, const uint8_t *codes, int8x16_t x0,
                                   int8x16_t x1)
{
    int8x16_t t = vld1q_s8(table);
    uint8x16_t c = vld1q_u8(codes);
    acc = add_products(acc, mk_lookup_low(t, c), x0);
    return add_products(acc, mk_lookup_high(t, c), x1);
}

static inline int32x4_t dot_q4(const mk_super_block *sb, const int8_t *tables, const int8_t *x)
{
    int32x4_t acc0 = vdupq_n_s32(0), acc1 = acc0, acc2 = acc0, acc3 = acc0;
    const uint8_t *codes = sb->codes, *picks = sb->picks, *end = picks + 4 * sb->blocks;
    MK_MARK("dot_q4");
    for (; picks < end; picks += 4, codes += 64, x += 32) {
        int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
        acc0 = add_row_q4(acc0, tables + 16 * (size_t)picks[0], codes, x0, x1);
        acc1 = add_row_q4(acc1, tables + 16 * (size_t)picks[1], codes + 16, x0, x1);
        acc2 = add_row_q4(acc2, tables + 16 * (size_t)picks[2], codes + 32, x0, x1);
        acc3 = add_row_q4(acc3, tables + 16 * (size_t)picks[3], codes + 48, x0, x1);
    }
    return mk_sum_lanes4(acc0, acc1, acc2, acc3);
}

static inline int32x4_t add_row_q8(int32x4_t acc, const int8_t *codes, int8x16_t x0, int8x16_t x1)
{
    acc = add_products(acc, vld1q_s8(codes), x0);
    return add_products(acc, vld1q_s8(codes + 16), x1);
}

static inline int32x4_t dot_q8(const mk_super_block *sb, const int8_t *x)
{
    int32x4_t acc0 = vdupq_n_s32(0), acc1 = acc0, acc2 = acc0, acc3 = acc0;
    const int8_t *codes = (const int8_t *)sb->codes, *end = codes + 128 * sb->blocks;
    MK_MARK("dot_q8");
    for (; codes < end; codes += 128, x += 32) {
        int8x16_t x0 = vld1q_s8(x), x1 = vld1q_s8(x + 16);
        acc0 = add_row_q8(acc0, codes, x0, x1);
        acc1 = add_row_q8(acc1, codes + 32, x0, x1);
        acc2 = add_row_q8(acc2, codes + 64, x0, x1);
        acc3 = add_row_q8(acc3, codes + 96, x0, x1);
    }
    return mk_sum_lanes4(acc0, acc1, acc2, acc3);
}

#ifndef SUM_Q4
#define SUM_Q4 dot_q4
#define SUM_Q8 dot_q8
#endif

static inline __attribute__((always_inline)) void gemv_rows(const mk_matrix *w, uint32_t group_begin,
                                                            uint32_t group_end, const mk_activations *x,
                                                            float *y, const bool q4)
{
    uint32_t supers = mk_super_blocks(w->blocks);
    for (uint32_t g = group_begin; g < group_end; g++) {
        float32x4_t acc = vdupq_n_f32(0);
        for (uint32_t s = 0; s < supers; s++) {
            mk_super_block sb = mk_super_block_at(w, g, s);
            const int8_t *codes = x->codes + (size_t)s * MKN_SUPER_BLOCK;
            int32x4_t sum = q4 ? SUM_Q4(&sb, w->tables, codes) : SUM_Q8(&sb, codes);
            acc = mk_add_super_block(acc, sum, mk_load_d(sb.d), x->scales[s]);
        }
        vst1q_f32(y + (size_t)g * MKN_GROUP, acc);
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

/* ---- Scores of attention ---------------------------------------------------------------------- */

static void scores_q8(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    uint32_t padded = mk_pad32(a->head_size), key_stride = mk_kv_stride(false, a->head_size);
    for (uint32_t t = 0; t < a->count; t += 4) {
        size_t at[4];
        mk_four_positions(a, t, at);
        const int8_t *keys = (const int8_t *)a->keys.codes;
        const int8_t *k0 = keys + at[0] * key_stride, *k1 = keys + at[1] * key_stride;
        const int8_t *k2 = keys + at[2] * key_stride, *k3 = keys + at[3] * key_stride;
        float32x4_t scale = mk_gather_bfloat16(a->keys.scales, at, 1, 0);
        for (uint32_t h = 0; h < a->group; h++) {
            const int8_t *query = queries + (size_t)h * padded;
            int32x4_t acc0 = vdupq_n_s32(0), acc1 = acc0, acc2 = acc0, acc3 = acc0;
            for (uint32_t i = 0; i < key_stride; i += 16) {
                int8x16_t q = vld1q_s8(query + i);
                acc0 = add_products(acc0, vld1q_s8(k0 + i), q);
                acc1 = add_products(acc1, vld1q_s8(k1 + i), q);
                acc2 = add_products(acc2, vld1q_s8(k2 + i), q);
                acc3 = add_products(acc3, vld1q_s8(k3 + i), q);
            }
            float32x4_t dots = vcvtq_f32_s32(mk_sum_lanes4(acc0, acc1, acc2, acc3));
            vst1q_f32(scores + h * stride + t, vmulq_f32(dots, vmulq_n_f32(scale, f[h])));
        }
    }
}

static inline int32x4_t dot_levels(int8x16_t low, int8x16_t high, int8x16_t q0, int8x16_t q1)
{
    return add_products(add_products(vdupq_n_s32(0), low, q0), high, q1);
}

static void scores_q4(const mk_attention *a, const int8_t *queries, const float *f, float *scores,
                      size_t stride)
{
    const int8x16_t levels = vld1q_s8(mk_kv_levels);
    size_t blocks = mk_kv_scales(true, a->head_size);
    for (uint32_t t = 0; t < a->count; t += 4) {
        size_t at[4];
        mk_four_positions(a, t, at);
        for (uint32_t h = 0; h < a->group; h++)
            vst1q_f32(scores + h * stride + t, vdupq_n_f32(0));
        for (uint32_t b = 0; b < blocks; b++) {
            int8x16_t low[4], high[4];
            for (int i = 0; i < 4; i++) {
                uint8x16_t codes = vld1q_u8(a->keys.codes + (at[i] * blocks + b) * 16);
                low[i] = mk_lookup_low(levels, codes);
                high[i] = mk_lookup_high(levels, codes);
            }
            float32x4_t scale = mk_gather_bfloat16(a->keys.scales, at, blocks, b);
            for (uint32_t h = 0; h < a->group; h++) {
                const int8_t *query = queries + (h * blocks + b) * 32;
                int8x16_t q0 = vld1q_s8(query), q1 = vld1q_s8(query + 16);
                int32x4_t dots =
                    mk_sum_lanes4(dot_levels(low[0], high[0], q0, q1), dot_levels(low[1], high[1], q0, q1),
                                  dot_levels(low[2], high[2], q0, q1), dot_levels(low[3], high[3], q0, q1));
                float *s = scores + h * stride + t;
                vst1q_f32(s, vfmaq_f32(vld1q_f32(s), vcvtq_f32_s32(dots), vmulq_n_f32(scale, f[h])));
            }
        }
    }
}

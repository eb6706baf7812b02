#include "quant/read/dequantize.h"

#include <string.h>

#include "base/bytes.h"

const source_type_info *source_type_about(source_type type)
{
    static const source_type_info table[] = {
        [SOURCE_F32] = {"F32", 1, 4},       [SOURCE_F16] = {"F16", 1, 2},     [SOURCE_BF16] = {"BF16", 1, 2},
        [SOURCE_Q8_0] = {"Q8_0", 32, 34},   [SOURCE_Q4_0] = {"Q4_0", 32, 18}, [SOURCE_Q4_1] = {"Q4_1", 32, 20},
        [SOURCE_Q6_K] = {"Q6_K", 256, 210}, [SOURCE_I8_GROUP] = {"I8", 1, 1},
    };
    return &table[type];
}

/* fp16 scale, 32 int8 */
static void q8_0(const uint8_t *p, float *out)
{
    float d = mk_half_to_float(mk_load16(p));
    for (int i = 0; i < 32; i++)
        out[i] = d * (float)(int8_t)p[2 + i];
}

/* fp16 scale, 16 bytes: low nibbles are weights 0 to 15, high ones 16 to 31; stored with an offset of 8 */
static void q4_0(const uint8_t *p, float *out)
{
    float d = mk_half_to_float(mk_load16(p));
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((p[2 + i] & 15) - 8);
        out[16 + i] = d * (float)((p[2 + i] >> 4) - 8);
    }
}

/* fp16 scale, fp16 minimum, 16 bytes of nibbles in the same order */
static void q4_1(const uint8_t *p, float *out)
{
    float d = mk_half_to_float(mk_load16(p));
    float minimum = mk_half_to_float(mk_load16(p + 2));
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(p[4 + i] & 15) + minimum;
        out[16 + i] = d * (float)(p[4 + i] >> 4) + minimum;
    }
}

/* 128 bytes of low nibbles, 64 bytes of two high bits, 16 int8 scales of 16 weights each, fp16 scale.
 * Each half of 128 weights: weight 32 k + l takes its nibble from byte 32 (k % 2) + l, low for k < 2, and
 * its high bits from byte l, at bit 2 k. */
static void q6_k(const uint8_t *p, float *out)
{
    float d = mk_half_to_float(mk_load16(p + 208));
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = p + 64 * half, *high = p + 128 + 32 * half, *scales = p + 192 + 8 * half;
        for (int i = 0; i < 128; i++) {
            int k = i / 32, l = i % 32;
            int nibble = low[32 * (k % 2) + l] >> (k < 2 ? 0 : 4) & 15;
            int code = (nibble | (high[l] >> (2 * k) & 3) << 4) - 32;
            float scale = d * (float)(int8_t)scales[i / 16];
            out[128 * half + i] = scale * (float)code;
        }
    }
}

static void i8_group(const source_tensor *t, uint64_t row, uint64_t first, uint64_t count, float *out)
{
    const uint8_t *codes = t->data + row * t->row_bytes + first;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t group = (row * t->cols + first + i) / t->group_size;
        float scale = mk_float_from_bits(mk_load32(t->group_scales + 4 * group));
        out[i] = (float)(int8_t)codes[i] * scale;
    }
}

void source_dequantize(const source_tensor *t, uint64_t row, uint64_t first, uint64_t count, float *out)
{
    const source_type_info *about = source_type_about(t->type);
    const uint8_t *p = t->data + row * t->row_bytes + first / about->block * about->bytes;
    switch (t->type) {
    case SOURCE_F32:
        memcpy(out, p, (size_t)count * 4);
        return;
    case SOURCE_F16:
        for (uint64_t i = 0; i < count; i++)
            out[i] = mk_half_to_float(mk_load16(p + 2 * i));
        return;
    case SOURCE_BF16:
        for (uint64_t i = 0; i < count; i++)
            out[i] = mk_float_from_bits((uint32_t)mk_load16(p + 2 * i) << 16);
        return;
    case SOURCE_I8_GROUP:
        i8_group(t, row, first, count, out);
        return;
    case SOURCE_Q8_0:
        for (uint64_t i = 0; i < count; i += 32, p += 34)
            q8_0(p, out + i);
        return;
    case SOURCE_Q4_0:
        for (uint64_t i = 0; i < count; i += 32, p += 18)
            q4_0(p, out + i);
        return;
    case SOURCE_Q4_1:
        for (uint64_t i = 0; i < count; i += 32, p += 20)
            q4_1(p, out + i);
        return;
    case SOURCE_Q6_K:
        for (uint64_t i = 0; i < count; i += 256, p += 210)
            q6_k(p, out + i);
        return;
    }
}

#include "quant/encode/encode.h"

#include "base/bytes.h"
#include "base/math.h"
#include "quant/encode/half.h"

size_t encode_find_unfit(const float *weights, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(weights[i] < ENCODE_LIMIT && weights[i] > -ENCODE_LIMIT))
            return i;
    return count;
}

/* The scale that brings the extreme weight to 127. Where a subnormal half is too coarse for that, the next
 * larger one. */
static uint16_t choose_scale(const float *w, uint32_t count)
{
    float extreme = 0;
    for (uint32_t i = 0; i < count; i++) {
        float magnitude = w[i] < 0 ? -w[i] : w[i];
        extreme = magnitude > extreme ? magnitude : extreme;
    }
    uint16_t half = half_from_double((double)extreme / 127);
    if (extreme > 0 && (half == 0 || mk_rint(extreme / mk_half_to_float(half)) > 127))
        half++;
    return half;
}

static void encode_row(const float *w, uint32_t cols, uint32_t row, uint8_t *codes, uint8_t *scales,
                       encode_error *e)
{
    for (uint32_t begin = 0; begin < cols; begin += MKN_SUPER_BLOCK) {
        uint32_t count = cols - begin < MKN_SUPER_BLOCK ? cols - begin : MKN_SUPER_BLOCK;
        uint16_t half = choose_scale(w + begin, count);
        float d = mk_half_to_float(half);
        memcpy(scales + begin / MKN_SUPER_BLOCK * 8 + 2 * row, &half, 2);
        for (uint32_t i = begin; i < begin + count; i++) {
            float code = d > 0 ? mk_rint(w[i] / d) : 0;
            double difference = (double)w[i] - (double)d * (double)code;
            codes[(size_t)(i / MKN_BLOCK) * 128 + 32 * row + i % MKN_BLOCK] = (uint8_t)(int8_t)code;
            e->signal += (double)w[i] * (double)w[i];
            e->noise += difference * difference;
        }
    }
}

void encode_q8(const weight_group *group, uint8_t *codes, uint8_t *scales, encode_error *error)
{
    size_t blocks = (group->cols + MKN_BLOCK - 1) / MKN_BLOCK;
    memset(codes, 0, blocks * 128);
    memset(scales, 0, (blocks + 7) / 8 * 8);
    for (uint32_t row = 0; row < group->rows; row++)
        encode_row(group->weights + row * group->stride, group->cols, row, codes, scales, error);
}

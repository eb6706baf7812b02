/* attention.c - the steps of attention one after the other, for every kernel set. */
#include "kernels/attention.h"

#include "kernels/internal.h"

/* Scratch: f [group] | 1 / sum [group] | queries int8 [group][padded head] | scores [group][stride],
 * each at a multiple of 64 bytes. */
size_t mk_attention_scratch(uint32_t head_size, uint32_t group, uint32_t count)
{
    uint64_t factors = mk_align_up((uint64_t)group * sizeof(float), 64);
    uint64_t queries = mk_align_up((uint64_t)group * mk_pad32(head_size), 64);
    uint64_t scores;
    if (mk_mul_overflows(((uint64_t)count + 15) / 16 * 16 * sizeof(float), group, &scores))
        return SIZE_MAX;
    uint64_t total = 2 * factors + queries + mk_align_up(scores, 64);
    return total < SIZE_MAX ? (size_t)total : SIZE_MAX;
}

void mk_attend(const mk_attention *a, mk_kv_type type, const mk_attention_steps *steps)
{
    uint32_t padded = mk_pad32(a->head_size);
    size_t stride = mk_attention_stride(a->count);
    size_t factor_bytes = (size_t)mk_align_up(a->group * sizeof(float), 64);
    uint8_t *at = a->scratch;
    float *f = (float *)(void *)at;
    float *inverse = (float *)(void *)(at + factor_bytes);
    int8_t *queries = (int8_t *)(at + 2 * factor_bytes);
    float *scores = (float *)(void *)(at + 2 * factor_bytes + mk_align_up((uint64_t)a->group * padded, 64));

    for (uint32_t h = 0; h < a->group; h++) {
        const float *query = a->queries + (size_t)h * a->head_size;
        f[h] = steps->quantize(query, a->head_size, padded, queries + (size_t)h * padded) * a->scale;
    }
    steps->scores[type](a, queries, f, scores, stride);
    for (uint32_t h = 0; h < a->group; h++)
        inverse[h] = 1.0f / steps->softmax(scores + h * stride, a->count);
    steps->values[type](a, scores, stride, inverse);
}

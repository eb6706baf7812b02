#include "quant/convert/sample.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "quant/encode/hadamard.h"
#include "quant/encode/half.h"
#include "quant/read/dequantize.h"
#include "quant/read/fail.h"

enum { PER_SUPER = MKN_SUPER_BLOCK / MKN_BLOCK };

static uint64_t supers_of(const planned_tensor *t)
{
    if (t->record.type != MKN_Q4)
        return 0;
    return (uint64_t)t->record.rows * ((t->record.cols + MKN_SUPER_BLOCK - 1) / MKN_SUPER_BLOCK);
}

/* splitmix64 (Steele, Lea and Flood 2014) as a function of a counter. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Adds the blocks of a super-block, transformed as they will be stored. */
static void add_super(block_sample *sample, const planned_tensor *planned, uint64_t row, uint64_t first)
{
    const source_tensor *t = planned->source;
    float w[MKN_SUPER_BLOCK], extreme = 0;
    uint32_t count = t->cols - first < MKN_SUPER_BLOCK ? (uint32_t)(t->cols - first) : MKN_SUPER_BLOCK;
    source_dequantize(t, row, first, count, w);
    if (encode_find_unfit(w, count) != count)
        return;
    for (; count % MKN_BLOCK; count++)
        w[count] = 0;
    if (planned->record.flags & MKN_TRANSFORMED)
        hadamard_row(w, count);
    for (uint32_t i = 0; i < count; i++) {
        float magnitude = w[i] < 0 ? -w[i] : w[i];
        extreme = magnitude > extreme ? magnitude : extreme;
    }
    float d = mk_half_to_float(half_from_double((double)extreme / 127));
    if (d == 0)
        return;
    for (uint32_t begin = 0; begin < count; begin += MKN_BLOCK) {
        for (uint32_t i = 0; i < MKN_BLOCK; i++)
            sample->values[sample->count][i] = w[begin + i] / d;
        sample->weights[sample->count++] = d * d;
    }
}

/* Number of the i-th of `wanted` super-blocks out of `total`: one at random from each of equal parts. */
static uint64_t pick(uint64_t i, uint64_t wanted, uint64_t total)
{
    uint64_t step = total / wanted, rest = total % wanted;
    uint64_t begin = i * step + (i < rest ? i : rest), size = step + (i < rest);
    return begin + mix(i) % size;
}

mk_status sample_blocks(const image_plan *plan, const source_map *map, uint32_t limit, block_sample *sample,
                        mk_error *err)
{
    uint64_t total = 0, next = 0, seen = 0;
    *sample = (block_sample){0};
    for (uint32_t i = 0; i < plan->tensor_count; i++)
        total += supers_of(&plan->tensors[i]);
    uint64_t wanted = total < limit / PER_SUPER ? total : limit / PER_SUPER;
    sample->values = malloc((size_t)(wanted + 1) * PER_SUPER * sizeof *sample->values);
    sample->weights = malloc((size_t)(wanted + 1) * PER_SUPER * sizeof *sample->weights);
    if (!sample->values || !sample->weights) {
        sample_free(sample);
        return quant_fail(err, MK_ERR_MEMORY, "out of memory for a sample of %llu super-blocks",
                          (unsigned long long)wanted);
    }
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const source_tensor *t = plan->tensors[i].source;
        uint64_t supers = supers_of(&plan->tensors[i]);
        if (supers == 0)
            continue;
        uint64_t per_row = supers / plan->tensors[i].record.rows, at;
        for (; next < wanted && (at = pick(next, wanted, total)) < seen + supers; next++)
            add_super(sample, &plan->tensors[i], (at - seen) / per_row,
                      (at - seen) % per_row * MKN_SUPER_BLOCK);
        seen += supers;
        source_map_release(map, t->data, t->rows * t->row_bytes);
    }
    return MK_OK;
}

void sample_free(block_sample *sample)
{
    free(sample->values);
    free(sample->weights);
    *sample = (block_sample){0};
}

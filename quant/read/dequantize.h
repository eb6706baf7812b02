/* dequantize.h - weights of every source format as float32, bit for bit as the formats' own reference. */
#ifndef MK_QUANT_DEQUANTIZE_H
#define MK_QUANT_DEQUANTIZE_H

#include "quant/read/source.h"

typedef struct source_type_info {
    const char *name;
    uint32_t block; /* weights per block */
    uint32_t bytes; /* of a block */
} source_type_info;

const source_type_info *source_type_about(source_type type);

/* Weights [first, first + count) of a row; first is a multiple of 256, and count is too, or reaches the
 * row's end. */
void source_dequantize(const source_tensor *t, uint64_t row, uint64_t first, uint64_t count, float *out);

#endif

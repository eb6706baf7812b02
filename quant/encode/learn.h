/* learn.h - the tables of an image, learned from a sample of its own blocks. */
#ifndef MK_QUANT_LEARN_H
#define MK_QUANT_LEARN_H

#include <stdbool.h>

#include "quant/encode/encode.h"

/* Blocks in units of their scale, and the scale's square as the weight of their errors. */
typedef struct block_sample {
    uint32_t count;
    float (*values)[MKN_BLOCK];
    float *weights;
} block_sample;

/* The built-in set: five shapes, one symmetric and four skewed, in geometric steps of size. */
void learn_start(int8_t tables[MKN_TABLES][MKN_LEVELS]);

/* Lloyd's iteration: assign each block to its best table, move each level to the weighted mean of the
 * values that use it; tables that nearly no block uses are replaced by halves of those with the largest
 * error. The same result for every number of threads; false if memory is out. */
bool learn_tables(codebook *book, const block_sample *sample, uint32_t rounds, uint32_t threads);

#endif

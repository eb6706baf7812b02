/* sample.h - blocks of a model from which its q4 tables are learned. */
#ifndef MK_QUANT_SAMPLE_H
#define MK_QUANT_SAMPLE_H

#include "quant/convert/plan.h"
#include "quant/encode/learn.h"
#include "quant/read/map.h"

/* Takes up to `limit` blocks, whole super-blocks, spread evenly with a fixed jitter over all matrices that
 * become q4. Weights that cannot be encoded are left for the encoder to report. */
mk_status sample_blocks(const image_plan *plan, const source_map *map, uint32_t limit, block_sample *sample,
                        mk_error *err);

void sample_free(block_sample *sample);

#endif

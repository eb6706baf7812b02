/* rope.h - rotation frequencies of RoPE, the same bits on every machine. */
#ifndef MK_QUANT_ROPE_H
#define MK_QUANT_ROPE_H

#include <stdint.h>

/* out[i] = base^(-2i / dims), i < dims / 2, computed in double by basic operations alone (relative error
 * below 1e-14) and rounded to float. base in [1, 1e30]. */
void rope_frequencies(float base, uint32_t dims, float *out);

#endif

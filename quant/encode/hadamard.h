/* hadamard.h - the transform under which matrices are stored (mkn.h says which, kernels.h why). */
#ifndef MK_QUANT_HADAMARD_H
#define MK_QUANT_HADAMARD_H

#include <stdint.h>

/* Orthonormal Walsh-Hadamard transform in place of each super-block of row[padded], cut into powers of
 * two, largest first; padded is a multiple of 32. Own inverse. */
void hadamard_row(float *row, uint32_t padded);

#endif

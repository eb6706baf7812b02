/* encode.h - groups of four rows as q8 and q4, in the layout of mkn.h. Results depend on the weights
 * alone: float and double operations run in a fixed order, and libm is not used. */
#ifndef MK_QUANT_ENCODE_H
#define MK_QUANT_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "image/mkn.h"

/* Up to four rows of weights. */
typedef struct weight_group {
    const float *weights; /* [rows][stride], finite, below 16 * ENCODE_LIMIT */
    uint32_t rows, cols;
    size_t stride;
} weight_group;

/* Weights below this have an fp16 scale even if the transform of 256 of them (hadamard.h) adds all up. */
#define ENCODE_LIMIT 500000.0f

/* Sums of squares of the weights and of what encoding has changed. */
typedef struct encode_error {
    double signal, noise;
} encode_error;

/* Position of the first weight that is not finite or too large; `count` if there is none. */
size_t encode_find_unfit(const float *weights, size_t count);

/* codes: 128 bytes per block; scales: 8 bytes per super-block. */
void encode_q8(const weight_group *group, uint8_t *codes, uint8_t *scales, encode_error *error);

/* ---- q4 ---- */

/* The tables of an image with what finding the best one for a block needs. */
typedef struct codebook codebook;

/* Tables need not be sorted yet: levels ascend afterwards. NULL if memory is out. */
codebook *codebook_create(const int8_t tables[MKN_TABLES][MKN_LEVELS]);
void codebook_free(codebook *book);

/* Fills in other tables. */
void codebook_set(codebook *book, const int8_t tables[MKN_TABLES][MKN_LEVELS]);
const int8_t *codebook_table(const codebook *book, uint32_t t);

/* Picks the table with the least squared error for `count` <= 32 values in units of the scale; returns it,
 * with the error and the codes. The lowest number wins a tie. */
uint32_t codebook_search(const codebook *book, const float *values, uint32_t count, uint8_t *codes,
                         float *error);

/* codes: 64 bytes per block; scales: 8 bytes per super-block and 4 per block. */
void encode_q4(const codebook *book, const weight_group *group, uint8_t *codes, uint8_t *scales,
               encode_error *error);

#endif

/* Finding the best of 256 tables for a block of 32 values.
 *
 * A value's nearest level changes only at midpoints of two integers, multiples of one half, so it follows
 * from h = ceil(2 value) alone. For the centre of each such cell the squared distance to the nearest level
 * is tabulated for all tables side by side; adding 32 of these rows gives every table's error but for the
 * values' place inside their cells. That place changes the root of the error by little (triangle
 * inequality), so few tables remain, and for these the error is computed from the values themselves. */
#include "quant/encode/encode.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"

enum {
    CELLS = 1024, /* values of -256 to 255.5, clamped */
    CELL_ZERO = CELLS / 2,
    FAR =
        65535 / MKN_BLOCK, /* so that 32 of them fit into 16 bits; a lower bound does for leaving tables out */
};

struct codebook {
    int8_t tables[MKN_TABLES][MKN_LEVELS];
    uint16_t distance[CELLS][MKN_TABLES]; /* 16 (centre - level)^2, FAR at most */
    int8_t level[MKN_TABLES][CELLS];
};

static uint32_t cell_of(float value)
{
    float twice = 2 * value;
    if (twice < 1 - CELL_ZERO)
        return 1;
    if (twice > CELL_ZERO - 1)
        return CELLS - 1;
    int32_t truncated = (int32_t)twice;
    return (uint32_t)(truncated + ((float)truncated < twice) + CELL_ZERO);
}

static int compare_levels(const void *a, const void *b)
{
    return *(const int8_t *)a - *(const int8_t *)b;
}

/* Code of the nearest level for values in cell h, ((h - 1) / 2, h / 2]; on a tie the lower one. */
static uint32_t code_in_cell(const int8_t *table, int32_t h)
{
    uint32_t code = 0;
    while (code < MKN_LEVELS - 1 && table[code] + table[code + 1] < h)
        code++;
    return code;
}

static void fill_table(codebook *book, uint32_t t)
{
    for (uint32_t cell = 0; cell < CELLS; cell++) {
        int32_t h = (int32_t)cell - CELL_ZERO;
        int32_t level = book->tables[t][code_in_cell(book->tables[t], h)];
        int32_t distance = 2 * h - 1 - 4 * level;
        book->level[t][cell] = (int8_t)level;
        book->distance[cell][t] = (uint16_t)(distance * distance < FAR ? distance * distance : FAR);
    }
}

void codebook_set(codebook *book, const int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    memcpy(book->tables, tables, sizeof book->tables);
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        qsort(book->tables[t], MKN_LEVELS, 1, compare_levels);
        fill_table(book, t);
    }
}

codebook *codebook_create(const int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    codebook *book = malloc(sizeof *book);
    if (book)
        codebook_set(book, tables);
    return book;
}

void codebook_free(codebook *book)
{
    free(book);
}

const int8_t *codebook_table(const codebook *book, uint32_t t)
{
    return book->tables[t];
}

static float exact_error(const int8_t *level, const float *values, const uint32_t *cells, uint32_t count)
{
    float sums[4] = {0, 0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        float difference = values[i] - (float)level[cells[i]];
        sums[i % 4] += difference * difference;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* Errors of all tables, 16 times the sum of squares, with values at the centres of their cells. */
static void sum_distances(const codebook *book, const uint32_t *cells, uint32_t count, uint16_t *sums)
{
    memset(sums, 0, MKN_TABLES * sizeof *sums);
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t *row = book->distance[cells[i]];
        for (uint32_t t = 0; t < MKN_TABLES; t++)
            sums[t] = (uint16_t)(sums[t] + row[t]);
    }
}

/* A table whose sum is above this has a larger error than `error`: in units of a quarter the values are
 * within 1 of their centres, so the root of the sum is above that of 16 * error by sqrt(32) at most. */
static float sum_limit(float error)
{
    float root = mk_sqrt(16 * error) + 5.66f;
    return root * root * 1.0001f + 1;
}

uint32_t codebook_search(const codebook *book, const float *values, uint32_t count, uint8_t *codes,
                         float *error)
{
    uint32_t cells[MKN_BLOCK], best = 0;
    uint16_t sums[MKN_TABLES];
    for (uint32_t i = 0; i < count; i++)
        cells[i] = cell_of(values[i]);
    sum_distances(book, cells, count, sums);
    for (uint32_t t = 1; t < MKN_TABLES; t++)
        best = sums[t] < sums[best] ? t : best;
    float least = exact_error(book->level[best], values, cells, count);
    float limit = sum_limit(least);
    uint32_t first = best;
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        if ((float)sums[t] > limit || t == first)
            continue;
        float e = exact_error(book->level[t], values, cells, count);
        if (e < least || (e == least && t < best)) {
            best = t;
            least = e;
            limit = sum_limit(e);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        codes[i] = (uint8_t)code_in_cell(book->tables[best], (int32_t)cells[i] - CELL_ZERO);
    *error = least;
    return best;
}

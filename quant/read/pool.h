/* pool.h - memory that lives as long as a source: given out piece by piece, freed at once. */
#ifndef MK_QUANT_POOL_H
#define MK_QUANT_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct pool_block pool_block;

typedef struct pool {
    pool_block *blocks;
} pool;

/* `count` zeroed items of `size` bytes, aligned for any type; NULL where the product overflows or memory is
 * out. A count of 0 gives a valid pointer. */
void *pool_take(pool *p, uint64_t count, size_t size);

void pool_free(pool *p);

#endif

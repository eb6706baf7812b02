#include "quant/read/pool.h"

#include <stdlib.h>

#include "base/bytes.h"

struct pool_block {
    pool_block *next;
    _Alignas(max_align_t) unsigned char data[];
};

void *pool_take(pool *p, uint64_t count, size_t size)
{
    uint64_t bytes;
    if (mk_mul_overflows(count, size, &bytes) || mk_add_overflows(bytes, sizeof(pool_block) + 1, &bytes) ||
        bytes > SIZE_MAX)
        return NULL;
    pool_block *block = calloc(1, (size_t)bytes);
    if (!block)
        return NULL;
    block->next = p->blocks;
    p->blocks = block;
    return block->data;
}

void pool_free(pool *p)
{
    while (p->blocks) {
        pool_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
}

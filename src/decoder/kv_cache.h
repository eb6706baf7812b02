/* kv_cache.h - keys and values of all layers, heads and positions: for each layer and KV head one
 * run of `context` positions, so that attention reads memory in order. */
#ifndef MK_DECODER_KV_CACHE_H
#define MK_DECODER_KV_CACHE_H

#include "kernels/kernels.h"
#include "makarna.h"
#include "memory/arena.h"

typedef struct mk_kv_cache {
    uint32_t layers, heads, context;
    uint32_t stride;      /* bytes of codes of one position of one head */
    uint32_t scale_count; /* scales of one position of one head */
    uint8_t *codes[2];    /* keys, values: [layers][heads][context][stride] */
    uint16_t *scales[2];  /* [layers][heads][context][scale_count] */
} mk_kv_cache;

static inline void mk_kv_cache_place(mk_kv_cache *cache, mk_arena *arena)
{
    uint64_t positions = (uint64_t)cache->layers * cache->heads * cache->context;
    for (int i = 0; i < 2; i++) {
        cache->codes[i] = mk_arena_take(arena, positions * cache->stride);
        cache->scales[i] = mk_arena_take(arena, positions * cache->scale_count * sizeof(uint16_t));
    }
}

/* which: 0 keys, 1 values */
static inline mk_kv_plane mk_kv_cache_plane(const mk_kv_cache *cache, int which, uint32_t layer, uint32_t head)
{
    size_t first = ((size_t)layer * cache->heads + head) * cache->context;
    return (mk_kv_plane){cache->codes[which] + first * cache->stride,
                         cache->scales[which] + first * cache->scale_count};
}

#endif

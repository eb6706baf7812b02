/* arena.h - carving one block of memory into parts. With base NULL nothing is touched and the same
 * sequence of calls only measures, so that a plan is exact by construction. */
#ifndef MK_MEMORY_ARENA_H
#define MK_MEMORY_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define MK_ARENA_ALIGN 64u

typedef struct mk_arena {
    uint8_t *base; /* aligned to 64, or NULL to measure */
    uint64_t used;
} mk_arena;

/* `bytes` at the next multiple of 64, or NULL when measuring. Sizes come from checked
 * hyper-parameters and stay far below 2^63. */
static inline void *mk_arena_take(mk_arena *arena, uint64_t bytes)
{
    void *p = arena->base ? arena->base + (size_t)arena->used : NULL;
    arena->used += (bytes + MK_ARENA_ALIGN - 1) / MK_ARENA_ALIGN * MK_ARENA_ALIGN;
    return p;
}

#endif

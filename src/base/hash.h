/* hash.h - XXH64 of data that comes in pieces; the digest is that of mk_hash over all of it. */
#ifndef MK_BASE_HASH_H
#define MK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct mk_hash_state {
    uint64_t seed, total;
    uint64_t lane[4];
    uint8_t pending[32]; /* total % 32 bytes that do not fill a stripe yet */
} mk_hash_state;

void mk_hash_begin(mk_hash_state *state, uint64_t seed);
void mk_hash_update(mk_hash_state *state, const void *data, size_t size);
uint64_t mk_hash_end(const mk_hash_state *state);

#endif

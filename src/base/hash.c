/* XXH64 (Yann Collet's specification, "xxHash fast digest algorithm", version 0.1.1). */
#include "base/hash.h"

#include "base/bytes.h"
#include "makarna.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t round64(uint64_t lane, uint64_t input)
{
    return rotate(lane + input * P2, 31) * P1;
}

void mk_hash_begin(mk_hash_state *state, uint64_t seed)
{
    *state = (mk_hash_state){.seed = seed, .lane = {seed + P1 + P2, seed + P2, seed, seed - P1}};
}

/* Whole stripes of 32 bytes; returns where they end. */
static const uint8_t *stripes(mk_hash_state *state, const uint8_t *p, const uint8_t *end)
{
    uint64_t a = state->lane[0], b = state->lane[1], c = state->lane[2], d = state->lane[3];
    for (; end - p >= 32; p += 32) {
        a = round64(a, mk_load64(p));
        b = round64(b, mk_load64(p + 8));
        c = round64(c, mk_load64(p + 16));
        d = round64(d, mk_load64(p + 24));
    }
    state->lane[0] = a;
    state->lane[1] = b;
    state->lane[2] = c;
    state->lane[3] = d;
    return p;
}

void mk_hash_update(mk_hash_state *state, const void *data, size_t size)
{
    if (size == 0)
        return;
    const uint8_t *p = data;
    const uint8_t *end = p + size;
    size_t held = (size_t)(state->total % 32);
    state->total += size;
    if (held) {
        size_t take = size < 32 - held ? size : 32 - held;
        memcpy(state->pending + held, p, take);
        p += take;
        if (held + take < 32)
            return;
        stripes(state, state->pending, state->pending + 32);
    }
    p = stripes(state, p, end);
    memcpy(state->pending, p, (size_t)(end - p));
}

uint64_t mk_hash_end(const mk_hash_state *state)
{
    const uint64_t *lane = state->lane;
    uint64_t h = state->seed + P5;
    if (state->total >= 32) {
        h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ round64(0, lane[i])) * P1 + P4;
    }
    h += state->total;
    const uint8_t *p = state->pending;
    const uint8_t *end = p + state->total % 32;
    for (; end - p >= 8; p += 8)
        h = rotate(h ^ round64(0, mk_load64(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        h = rotate(h ^ mk_load32(p) * P1, 23) * P2 + P3;
    for (; p < end; p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

uint64_t mk_hash(const void *data, size_t size, uint64_t seed)
{
    mk_hash_state state;
    mk_hash_begin(&state, seed);
    mk_hash_update(&state, data, size);
    return mk_hash_end(&state);
}

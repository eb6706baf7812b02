/* The merge table: from a list of merges (byte-level BPE), or from the scores of tokens (SentencePiece). */
#include <stdlib.h>
#include <string.h>

#include "quant/convert/tokenizer_build.h"
#include "quant/read/fail.h"
#include "text/utf8.h"

static bool add_pair(tokenizer_build *b, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged)
{
    if (b->pair_count == b->pair_room) {
        uint64_t room = b->pair_room + b->pair_room / 2 + (uint64_t)4096;
        if (room > INT32_MAX)
            return build_fail(b, "the vocabulary has more than %u merges", b->pair_count);
        if (!build_grow(b, (void **)&b->pairs, room, sizeof *b->pairs))
            return false;
        b->pair_room = (uint32_t)room;
    }
    b->pairs[b->pair_count++] = (mkn_merge){left, right, rank, merged};
    return true;
}

/* ---- Byte-level BPE ------------------------------------------------------------------------- */

static bool add_listed_merge(tokenizer_build *b, uint32_t rank, uint8_t *left, uint8_t *right)
{
    char name[QUANT_NAME];
    source_string merge = b->vocab->merges[rank];
    const char *space = merge.length ? memchr(merge.text, ' ', merge.length) : NULL;
    if (merge.length > 2 * MKN_MAX_TOKEN_BYTES || !space)
        return build_fail(b, "merge %u (\"%s\") is not two texts with a space between them", rank,
                          quant_name(merge, name));
    source_string first = {merge.text, (size_t)(space - merge.text)};
    source_string second = {space + 1, merge.length - first.length - 1};
    int64_t left_size = build_decode_alphabet(first, left);
    int64_t right_size = build_decode_alphabet(second, right);
    if (left_size <= 0 || right_size <= 0)
        return build_fail(b, "merge %u (\"%s\") is not two texts in the byte alphabet of byte-level BPE", rank,
                          quant_name(merge, name));
    uint32_t l = build_find(b, (const char *)left, (size_t)left_size);
    uint32_t r = build_find(b, (const char *)right, (size_t)right_size);
    memcpy(left + left_size, right, (size_t)right_size);
    uint32_t m = build_find(b, (const char *)left, (size_t)(left_size + right_size));
    if (l == MKN_NO_TOKEN || r == MKN_NO_TOKEN || m == MKN_NO_TOKEN)
        return build_fail(b, "merge %u (\"%s\"): %s is no token of the vocabulary", rank,
                          quant_name(merge, name),
                          l == MKN_NO_TOKEN   ? "its left part"
                          : r == MKN_NO_TOKEN ? "its right part"
                                              : "its result");
    return add_pair(b, l, r, rank, m);
}

static bool list_merges(tokenizer_build *b)
{
    /* Room for both parts of the longest merge, decoded. */
    uint8_t left[2 * MKN_MAX_TOKEN_BYTES], right[2 * MKN_MAX_TOKEN_BYTES];
    for (uint32_t rank = 0; rank < b->vocab->merge_count; rank++)
        if (!add_listed_merge(b, rank, left, right))
            return false;
    return true;
}

/* ---- SentencePiece -------------------------------------------------------------------------- */

static bool is_piece(const source_vocab *v, uint32_t id)
{
    return v->types[id] == SOURCE_TOKEN_NORMAL || v->types[id] == SOURCE_TOKEN_USER;
}

static uint32_t character_bytes(source_string text, size_t at)
{
    uint32_t code;
    return mk_utf8_decode((const uint8_t *)text.text + at, text.length - at, &code);
}

/* Characters that are part of a token and no token themselves become symbols of their own. */
static bool add_characters(tokenizer_build *b)
{
    for (uint32_t id = 0; id < b->vocab->count; id++) {
        if (!is_piece(b->vocab, id))
            continue;
        uint32_t size;
        for (size_t at = 0; at < build_text(b, id).length; at += size) {
            source_string text = build_text(b, id); /* anew: adding moves the texts */
            char character[4];
            size = character_bytes(text, at);
            memcpy(character, text.text + at, size);
            if (build_find(b, character, size) == MKN_NO_TOKEN && !build_add_character(b, character, size))
                return false;
        }
    }
    return true;
}

static int by_falling_score(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The distinct scores, highest first. */
static bool sort_scores(tokenizer_build *b, float **scores, uint32_t *count)
{
    char name[QUANT_NAME];
    const source_vocab *v = b->vocab;
    uint32_t n = 0;
    if (!build_grow(b, (void **)scores, v->count, sizeof **scores))
        return false;
    for (uint32_t id = 0; id < v->count; id++) {
        if (v->scores[id] - v->scores[id] != 0)
            return build_fail(b, "the score of token %u (\"%s\") is not a finite number", id,
                              quant_name(v->tokens[id], name));
        if (is_piece(v, id))
            (*scores)[n++] = v->scores[id];
    }
    qsort(*scores, n, sizeof **scores, by_falling_score);
    *count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || (*scores)[i] != (*scores)[i - 1])
            (*scores)[(*count)++] = (*scores)[i];
    return true;
}

static uint32_t rank_of(const float *scores, uint32_t count, float score)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scores[middle] > score)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* All ways to cut a token in two symbols. A token that is marked unused may not have any: SentencePiece
 * would take it apart again, which the merge table cannot say. */
static bool add_cuts(tokenizer_build *b, uint32_t id, uint32_t rank)
{
    char name[QUANT_NAME];
    source_string text = build_text(b, id);
    for (size_t cut = text.length ? character_bytes(text, 0) : 0; cut < text.length;
         cut += character_bytes(text, cut)) {
        uint32_t left = build_find(b, text.text, cut);
        uint32_t right = build_find(b, text.text + cut, text.length - cut);
        if (left == MKN_NO_TOKEN || right == MKN_NO_TOKEN)
            continue;
        if (b->vocab->types[id] == SOURCE_TOKEN_UNUSED)
            return build_fail(b, "token %u (\"%s\") is marked unused, but merging would make it: not supported",
                              id, quant_name(b->vocab->tokens[id], name));
        if (!add_pair(b, left, right, rank, id))
            return false;
    }
    return true;
}

static bool cut_pieces(tokenizer_build *b)
{
    float *scores = NULL;
    uint32_t count = 0;
    bool fine = add_characters(b) && sort_scores(b, &scores, &count);
    for (uint32_t id = 0; fine && id < b->vocab->count; id++)
        if (is_piece(b->vocab, id) || b->vocab->types[id] == SOURCE_TOKEN_UNUSED)
            fine = add_cuts(b, id, rank_of(scores, count, b->vocab->scores[id]));
    free(scores);
    return fine;
}

/* ---- Table ---------------------------------------------------------------------------------- */

static bool put_pair(tokenizer_build *b, const mkn_merge *pair)
{
    char name[QUANT_NAME];
    uint32_t probes = 1, slot = mkn_merge_hash(pair->left, pair->right);
    for (;; slot++, probes++) {
        mkn_merge *m = &b->merges[slot & (b->merge_count - 1)];
        if (m->left == MKN_NO_TOKEN) {
            *m = *pair;
            break;
        }
        if (m->left == pair->left && m->right == pair->right)
            return build_fail(b, "merges %u and %u (\"%s\") join the same two tokens", m->rank, pair->rank,
                              quant_name(build_text(b, pair->merged), name));
    }
    if (probes > b->merge_probes)
        b->merge_probes = probes;
    return true;
}

/* Open addressing, at most three quarters full. */
static bool hash_pairs(tokenizer_build *b)
{
    b->merge_count = 4;
    while ((uint64_t)b->merge_count * 3 / 4 < b->pair_count)
        b->merge_count *= 2;
    if (!build_grow(b, (void **)&b->merges, b->merge_count, sizeof *b->merges))
        return false;
    memset(b->merges, 0xff, b->merge_count * sizeof *b->merges);
    for (uint32_t i = 0; i < b->pair_count; i++)
        if (!put_pair(b, &b->pairs[i]))
            return false;
    return true;
}

bool build_merges(tokenizer_build *b)
{
    bool listed = b->vocab->kind == SOURCE_VOCAB_BPE ? list_merges(b) : cut_pieces(b);
    return listed && hash_pairs(b);
}

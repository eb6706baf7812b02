/* merge.h - the merge engine of byte-level and SentencePiece BPE (Sennrich et al. 2016). A word is a
 * linked list of symbols; a tournament tree over its places gives the pair of lowest rank, the leftmost of
 * equals, so a word of n symbols takes O(n log n). */
#ifndef MK_MERGE_H
#define MK_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "text/vocab.h"

/* Arrays by place. The caller fills symbol[0 .. count). After merging, the symbols left are at place 0,
 * next[0], next[next[0]] and so on, up to MK_WORD_END. */
typedef struct mk_word {
    uint32_t count;
    uint32_t *symbol;
    uint32_t *next, *previous;
    uint32_t *rank;   /* of the pair of this symbol and the next */
    uint32_t *merged; /* what the pair becomes */
    uint32_t *best;   /* inner nodes of the tree: place of the lowest rank below; children of node i are 2 i and
                         2 i + 1, node count + p is place p */
} mk_word;

#define MK_WORD_END 0xffffffffu
#define MK_WORD_BYTES 24u /* scratch for each symbol */

/* Lays the arrays for at most `capacity` symbols into scratch, aligned to 4, of capacity * MK_WORD_BYTES. */
mk_word mk_word_place(void *scratch, size_t capacity);

void mk_word_merge(const mk_vocab *vocab, mk_word *word);

#endif

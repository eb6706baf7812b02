/* mkn_tokenizer.h - the tokenizer section of a .mkn image, field by field. It holds what tokenizing and
 * detokenizing need as tables that are used in place: raw token texts, hashed merges, sorted special
 * tokens. Offsets count from the start of the section; every array begins at a multiple of 16 bytes.
 *
 * A symbol is what merging works on: ids below token_count are tokens; ids from token_count up to
 * symbol_count are single characters that are no token but part of one (SentencePiece only). A symbol of
 * that kind that is left over is written as its bytes.
 *
 * Both kinds of vocabulary are one algorithm: of all neighbouring pairs of symbols that have an entry in
 * the merge table, the one of lowest rank, and of these the leftmost, becomes one symbol, until none is
 * left.
 *     byte-level BPE   ranks are the order of the merge list; a word begins as its bytes
 *     SentencePiece    a pair has an entry if its joined text is a token; ranks order the results by
 *                      falling score, equal scores share one; a text begins as its characters */
#ifndef MK_IMAGE_MKN_TOKENIZER_H
#define MK_IMAGE_MKN_TOKENIZER_H

#include <stdint.h>

#define MKN_TOKENIZER_VERSION 1u
#define MKN_NO_TOKEN 0xffffffffu
#define MKN_MAX_TOKEN_BYTES 1024u

enum mkn_tokenizer_kind {
    MKN_TOKENIZER_BPE = 1, /* byte-level BPE, Radford et al. 2019 */
    MKN_TOKENIZER_SPM = 2, /* SentencePiece BPE, Kudo and Richardson 2018; U+2581 in a text is a space */
};

/* How a text is cut into words before merging. The expressions are those of the tokenizers' authors;
 * alternatives are tried in order, \s is White_Space. */
enum mkn_pre_tokenizer {
    MKN_PRE_NONE = 0, /* the text is one word (SentencePiece) */
    MKN_PRE_GPT2,     /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
    MKN_PRE_SMOLLM,   /* each \p{N} is a word; what lies between is cut as by MKN_PRE_GPT2 */
    MKN_PRE_KINDS,
};

enum mkn_tokenizer_flags {
    MKN_TOKENIZER_ADD_BOS = 1u,      /* the model expects its BOS first */
    MKN_TOKENIZER_SPACE_PREFIX = 2u, /* a space goes before the text, and before text after a special token;
                                        the first token of an answer loses its leading space */
};

enum mkn_token_kind {
    MKN_TOKEN_NORMAL = 0,
    MKN_TOKEN_USER = 1,    /* found in any text as it stands, before merging */
    MKN_TOKEN_CONTROL = 2, /* found only where special tokens are asked for; has no text when decoded */
};

/* A table of the section. */
typedef struct mkn_array {
    uint32_t offset;
    uint32_t count; /* elements */
} mkn_array;

typedef struct mkn_tokenizer {
    uint32_t version;
    uint32_t kind;          /* mkn_tokenizer_kind */
    uint32_t pre_tokenizer; /* mkn_pre_tokenizer */
    uint32_t flags;         /* mkn_tokenizer_flags */
    uint32_t token_count;   /* of the vocabulary */
    uint32_t symbol_count;  /* at least token_count */
    uint32_t max_token_bytes;
    uint32_t bos;          /* MKN_NO_TOKEN: none */
    uint32_t unknown;      /* for what has neither token nor byte tokens; MKN_NO_TOKEN: it is dropped */
    uint32_t merge_probes; /* most slots that finding a merge looks at */
    uint32_t text_probes;  /* most slots that finding a text looks at */
    uint32_t reserved0;

    mkn_array texts;          /* u8: all texts, one after the other; byte-level and <0xNN> forms decoded,
                                 U+2581 replaced by a space */
    mkn_array text_ends;      /* u32 [symbol_count + 1]: text of symbol s is texts[ends[s] .. ends[s + 1]) */
    mkn_array token_kinds;    /* u8 [token_count], mkn_token_kind */
    mkn_array byte_tokens;    /* u32 [256]: the token of each byte, or MKN_NO_TOKEN */
    mkn_array merges;         /* mkn_merge [power of two], hashed by mkn_merge_hash, linear probing */
    mkn_array text_symbols;   /* u32 [power of two]: symbols hashed by mkn_text_hash of their text, linear
                                 probing; MKN_NO_TOKEN: empty. Of normal and user tokens and of characters;
                                 SentencePiece only */
    mkn_array special_tokens; /* u32: user and control tokens in bytewise order of their texts */
    mkn_array special_first;  /* u32 [257]: those whose text begins with byte b are
                                 special_tokens[first[b] .. first[b + 1]) */
    mkn_array end_tokens;     /* u32: tokens that end an answer */
    uint32_t reserved1[2];
} mkn_tokenizer;
_Static_assert(sizeof(mkn_tokenizer) == 128, "mkn_tokenizer is 128 bytes");

typedef struct mkn_merge {
    uint32_t left; /* MKN_NO_TOKEN: empty slot */
    uint32_t right;
    uint32_t rank;
    uint32_t merged;
} mkn_merge;
_Static_assert(sizeof(mkn_merge) == 16, "mkn_merge is 16 bytes");

/* The first slot of a pair is the hash modulo the table's size. */
static inline uint32_t mkn_merge_hash(uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return (uint32_t)(x >> 32);
}

/* The first slot of a text is the low half of XXH64, seed 0, modulo the table's size: mk_hash. */
#define mkn_text_hash(text, size) ((uint32_t)mk_hash(text, size, 0))

#endif

/* tokenizer_build.h - the parts of building a tokenizer section: texts, then merges, then the layout. Each
 * step returns false with the reason in build->error. */
#ifndef MK_QUANT_TOKENIZER_BUILD_H
#define MK_QUANT_TOKENIZER_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/mkn_tokenizer.h"
#include "quant/read/source.h"

typedef struct tokenizer_build {
    const source_vocab *vocab;
    char *error;
    size_t error_size;

    uint8_t *texts; /* raw texts of all symbols */
    uint64_t text_bytes, text_room;
    uint32_t *ends; /* [symbol_count + 1] */
    uint32_t symbol_count, symbol_room;
    uint32_t max_token_bytes;
    uint8_t *kinds; /* [vocab->count], mkn_token_kind */
    uint32_t byte_tokens[256];

    uint32_t *slots; /* symbols by their text, as in mkn_tokenizer.text_symbols; at most half full */
    uint32_t slot_count, slots_used, slot_probes;

    mkn_merge *pairs; /* the list of merges, then the table of it */
    uint32_t pair_count, pair_room;
    mkn_merge *merges;
    uint32_t merge_count, merge_probes;

    uint32_t *specials; /* room for vocab->count */
    uint32_t special_count;
    uint32_t special_first[257];
    uint32_t *end_tokens; /* room for vocab->count */
    uint32_t end_count;
} tokenizer_build;

/* Writes the error, printf-style; returns false. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
bool build_fail(tokenizer_build *build, const char *format, ...);

/* realloc that counts elements; on failure the old block stays and the error is set. */
bool build_grow(tokenizer_build *build, void **block, uint64_t count, size_t element);

/* ---- tokenizer_texts.c ---- */

/* Decodes every token to its raw text, and fills texts, ends, kinds, byte_tokens and the table of texts. */
bool build_texts(tokenizer_build *build);

/* Text of a symbol. */
source_string build_text(const tokenizer_build *build, uint32_t symbol);

/* The symbol of a text, MKN_NO_TOKEN if there is none. */
uint32_t build_find(const tokenizer_build *build, const char *text, size_t size);

/* Appends a character that is no token as a symbol. */
bool build_add_character(tokenizer_build *build, const char *text, size_t size);

/* Decodes GPT-2's byte alphabet: returns the number of bytes written to out, which has room for
 * s.length, or -1 where s holds a character outside the alphabet. */
int64_t build_decode_alphabet(source_string s, uint8_t *out);

/* ---- tokenizer_merges.c ---- */

/* Lists the merges of the vocabulary and hashes them. */
bool build_merges(tokenizer_build *build);

#endif

/* vocab.h - the tokenizer section of an open image. Opening it checks where its tables lie; what the
 * tables say is checked at each use, so a damaged section gives wrong tokens at worst. */
#ifndef MK_VOCAB_H
#define MK_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/mkn_tokenizer.h"
#include "makarna.h"

typedef struct mk_vocab {
    const mkn_tokenizer *head;
    const uint8_t *texts;           /* [head->texts.count] */
    const uint32_t *text_ends;      /* [head->symbol_count + 1] */
    const uint8_t *token_kinds;     /* [head->token_count] */
    const uint32_t *byte_tokens;    /* [256] */
    const mkn_merge *merges;        /* [head->merges.count], a power of two or 0 */
    const uint32_t *text_symbols;   /* [head->text_symbols.count], a power of two or 0 */
    const uint32_t *special_tokens; /* [head->special_tokens.count] */
    const uint32_t *special_first;  /* [257] */
    const uint32_t *end_tokens;     /* [head->end_tokens.count] */
} mk_vocab;

/* MK_ERR_UNSUPPORTED if the image has no tokenizer, MK_ERR_FORMAT if it is damaged. Looks at the head of
 * the section only. */
mk_status mk_vocab_open(const mk_model *model, mk_vocab *vocab, mk_error *err);

/* Text of a symbol: *size bytes, at most head->max_token_bytes; none where the symbol or its text lies
 * outside the tables. */
const uint8_t *mk_vocab_text(const mk_vocab *vocab, uint32_t symbol, uint32_t *size);

/* The entry of a pair in the merge table, NULL if it has none. */
const mkn_merge *mk_vocab_merge(const mk_vocab *vocab, uint32_t left, uint32_t right);

/* The symbol of a text, MKN_NO_TOKEN if there is none. */
uint32_t mk_vocab_find(const mk_vocab *vocab, const uint8_t *text, size_t size);

/* The longest user token (and, if asked for, control token) that text[0 .. size), size > 0, begins with;
 * *length is its bytes. MKN_NO_TOKEN if there is none. */
uint32_t mk_vocab_special(const mk_vocab *vocab, bool control, const uint8_t *text, size_t size,
                          size_t *length);

#endif

/* encoder.h - from text to token ids, inside the library: mk_tokenize and the chat format use it. */
#ifndef MK_ENCODER_H
#define MK_ENCODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/vocab.h"

/* Where ids go. Counting goes on past the capacity, so that an error can say how many there are. */
typedef struct mk_encoder {
    const mk_vocab *vocab;
    int32_t *ids;
    size_t capacity, count;
    void *scratch;      /* mk_encoder_scratch bytes for the longest piece of text, aligned to 8 */
    bool after_special; /* at the start or after a special token: a space prefix is due */
    bool after_unknown; /* the last id stands for unknown characters */
} mk_encoder;

/* Text of one piece may have this many bytes at most. */
#define MK_ENCODER_MAX_BYTES 0x7fffff00u

/* Scratch for a piece of text; 0 if that is more than a size_t or MK_ENCODER_MAX_BYTES allow. */
size_t mk_encoder_scratch(size_t text_bytes);

/* The encoder at the start of a text. `count` is set to 0. */
mk_encoder mk_encoder_begin(const mk_vocab *vocab, int32_t *ids, size_t capacity, void *scratch);

/* Appends a token, or drops it if it is none of the vocabulary's. */
void mk_encoder_add(mk_encoder *encoder, uint32_t token);

/* Appends a special token. */
void mk_encoder_add_special(mk_encoder *encoder, uint32_t token);

/* Appends a text. User tokens in it are found as they stand, control tokens only if asked for. */
void mk_encoder_text(mk_encoder *encoder, bool control, const uint8_t *text, size_t size);

/* MK_OK, or MK_ERR_MEMORY if there were more ids than capacity. */
mk_status mk_encoder_end(const mk_encoder *encoder, size_t *count, mk_error *err);

#endif

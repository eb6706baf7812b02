/* tokenizer.h - builds the tokenizer section of an image (src/image/mkn_tokenizer.h) from the
 * vocabulary of a source. All that does not depend on a text is done here: texts are decoded to raw
 * bytes, merges and texts are hashed, special tokens are sorted. */
#ifndef MK_QUANT_TOKENIZER_H
#define MK_QUANT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/read/source.h"

/* On success *section is malloc'd (the caller frees it) and *size its bytes; the same vocabulary gives
 * the same bytes everywhere. On failure *section is NULL and `error` says what is wrong or unsupported,
 * where, and what to do. A vocabulary of kind SOURCE_VOCAB_NONE fails. */
bool convert_tokenizer(const source_vocab *vocab, uint8_t **section, size_t *size, char *error,
                       size_t error_size);

#endif

/* pre_tokenizer.h - cuts a text into the words inside which a byte-level BPE merges. The rules are
 * regular expressions (mkn_pre_tokenizer); here they are scanners over code points, one pass, no
 * backtracking. Classes of characters are those of the Unicode version in unicode_tables.h; a character that
 * was assigned later, and an invalid byte, is no letter, number or space. */
#ifndef MK_PRE_TOKENIZER_H
#define MK_PRE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/mkn_tokenizer.h"

typedef struct mk_scanner {
    enum mkn_pre_tokenizer rule;
    const uint8_t *text;
    size_t size;
    size_t position; /* where the next word begins */
    size_t part_end; /* MKN_PRE_SMOLLM: where the part without numbers ends */
} mk_scanner;

static inline mk_scanner mk_scanner_begin(enum mkn_pre_tokenizer rule, const uint8_t *text, size_t size)
{
    return (mk_scanner){.rule = rule, .text = text, .size = size};
}

/* Sets *begin and *end to the next word, at least one byte; false after the last. */
bool mk_scanner_next(mk_scanner *scanner, size_t *begin, size_t *end);

#endif

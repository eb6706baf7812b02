/* texts.h - a section that begins with a record of text offsets and goes on with the texts. */
#ifndef MK_QUANT_TEXTS_H
#define MK_QUANT_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/read/source.h"

typedef struct texts {
    uint8_t *data; /* malloc'd; NULL once memory was out */
    size_t size;
} texts;

/* Begins a section with `record` zero bytes; the caller fills them at the end. */
void texts_begin(texts *t, size_t record);

/* Appends a text with a terminating zero and returns its offset. Bytes that are not valid UTF-8, and zeros,
 * become '?'. An empty text is absent: 0. */
uint32_t texts_add(texts *t, source_string text);

void texts_free(texts *t);

#endif

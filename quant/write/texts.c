#include "quant/write/texts.h"

#include <stdlib.h>
#include <string.h>

void texts_begin(texts *t, size_t record)
{
    *t = (texts){calloc(1, record), record};
}

/* Bytes of the valid UTF-8 sequence at p, 0 if there is none. */
static size_t sequence(const unsigned char *p, size_t left)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (length == 0 || length > left || p[0] == 0)
        return 0;
    uint32_t code = length == 1 ? p[0] : p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

static void replace_invalid(uint8_t *p, size_t size)
{
    while (size > 0) {
        size_t n = sequence(p, size);
        if (n == 0) {
            *p = '?';
            n = 1;
        }
        p += n;
        size -= n;
    }
}

uint32_t texts_add(texts *t, source_string text)
{
    if (text.length == 0 || !t->data || text.length >= UINT32_MAX / 2 - t->size)
        return 0;
    uint8_t *grown = realloc(t->data, t->size + text.length + 1);
    if (!grown) {
        texts_free(t);
        return 0;
    }
    size_t offset = t->size;
    memcpy(grown + offset, text.text, text.length);
    replace_invalid(grown + offset, text.length);
    grown[offset + text.length] = 0;
    t->data = grown;
    t->size = offset + text.length + 1;
    return (uint32_t)offset;
}

void texts_free(texts *t)
{
    free(t->data);
    *t = (texts){0};
}

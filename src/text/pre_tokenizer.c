#include "text/pre_tokenizer.h"

#include <string.h>

#include "text/unicode_tables.h"
#include "text/utf8.h"

enum char_class { OTHER, LETTER, NUMBER, SPACE, END };

static enum char_class class_of(uint32_t code)
{
    uint32_t page = code / MK_UNICODE_PAGE, within = code % MK_UNICODE_PAGE;
    if (page >= MK_UNICODE_INDEX)
        return OTHER;
    return (enum char_class)(mk_unicode_pages[mk_unicode_index[page]][within / 4] >> 2 * (within % 4) & 3);
}

/* Class of the character at p and, in *length, its bytes; END, 0 bytes, at the end. */
static enum char_class look(const uint8_t *p, const uint8_t *end, uint32_t *length)
{
    uint32_t code;
    *length = 0;
    if (p == end)
        return END;
    *length = mk_utf8_decode(p, (size_t)(end - p), &code);
    return class_of(code);
}

/* Bytes of 's 't 're 've 'm 'll 'd at p, 0 if there is none. */
static uint32_t contraction(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 2 || p[0] != '\'')
        return 0;
    if (memchr("stmd", p[1], 4))
        return 2;
    if (end - p < 3)
        return 0;
    bool two = (p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') || (p[1] == 'l' && p[2] == 'l');
    return two ? 3 : 0;
}

/* End of the run of characters of one class that begins at p; *last is where its last one begins. */
static const uint8_t *run(const uint8_t *p, const uint8_t *end, enum char_class class, const uint8_t **last)
{
    uint32_t length;
    while (look(p, end, &length) == class) {
        *last = p;
        p += length;
    }
    return p;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const uint8_t *word_gpt2(const uint8_t *p, const uint8_t *end)
{
    uint32_t length = contraction(p, end);
    if (length)
        return p + length;
    const uint8_t *last = p;
    const uint8_t *start = *p == ' ' ? p + 1 : p;
    enum char_class class = look(start, end, &length);
    if (class != SPACE && class != END)
        return run(start, end, class, &last);
    /* White space: all of it at the end of the text, otherwise all but the last, which may go with the
     * word after it, but never nothing. */
    const uint8_t *stop = run(p, end, SPACE, &last);
    return stop == end || last == p ? stop : last;
}

/* Each number is a word; between numbers the rule is GPT-2's. */
static const uint8_t *word_smollm(mk_scanner *s, const uint8_t *p, const uint8_t *end)
{
    const uint8_t *part_end = s->text + s->part_end;
    if (p >= part_end) {
        uint32_t length;
        if (look(p, end, &length) == NUMBER)
            return p + length;
        part_end = p;
        for (enum char_class c = look(p, end, &length); c != NUMBER && c != END;
             c = look(part_end, end, &length))
            part_end += length;
        s->part_end = (size_t)(part_end - s->text);
    }
    return word_gpt2(p, part_end);
}

bool mk_scanner_next(mk_scanner *s, size_t *begin, size_t *end)
{
    if (s->position >= s->size)
        return false;
    const uint8_t *p = s->text + s->position, *stop = s->text + s->size;
    *begin = s->position;
    if (s->rule == MKN_PRE_GPT2)
        stop = word_gpt2(p, stop);
    else if (s->rule == MKN_PRE_SMOLLM)
        stop = word_smollm(s, p, stop);
    *end = s->position = (size_t)(stop - s->text);
    return true;
}

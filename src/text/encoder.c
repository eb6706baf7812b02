#include "text/encoder.h"

#include <string.h>

#include "base/error.h"
#include "text/merge.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

#define SPACE_SYMBOL 0x2581u /* SentencePiece's visible space */

size_t mk_encoder_scratch(size_t text_bytes)
{
    size_t size;
    if (text_bytes > MK_ENCODER_MAX_BYTES)
        return 0;
    /* One symbol for each byte and one for the space prefix. */
    return __builtin_mul_overflow(text_bytes + 1, (size_t)MK_WORD_BYTES, &size) ? 0 : size;
}

mk_encoder mk_encoder_begin(const mk_vocab *vocab, int32_t *ids, size_t capacity, void *scratch)
{
    return (mk_encoder){
        .vocab = vocab, .ids = ids, .capacity = capacity, .scratch = scratch, .after_special = true};
}

void mk_encoder_add(mk_encoder *e, uint32_t token)
{
    e->after_special = false;
    e->after_unknown = false;
    if (token >= e->vocab->head->token_count)
        return;
    if (e->count < e->capacity)
        e->ids[e->count] = (int32_t)token;
    e->count++;
}

void mk_encoder_add_special(mk_encoder *e, uint32_t token)
{
    mk_encoder_add(e, token);
    e->after_special = true;
}

/* One unknown token stands for a whole run of unknown characters, as in SentencePiece. */
static void add_unknown(mk_encoder *e)
{
    if (e->after_unknown)
        return;
    mk_encoder_add(e, e->vocab->head->unknown);
    e->after_unknown = true;
}

/* A symbol that is a character but no token becomes its bytes. */
static void add_symbol(mk_encoder *e, uint32_t symbol)
{
    if (symbol < e->vocab->head->token_count) {
        mk_encoder_add(e, symbol);
        return;
    }
    uint32_t size;
    const uint8_t *text = mk_vocab_text(e->vocab, symbol, &size);
    if (size == 0 || size > 4 || e->vocab->byte_tokens[text[0]] == MKN_NO_TOKEN) {
        add_unknown(e);
        return;
    }
    for (uint32_t i = 0; i < size; i++)
        mk_encoder_add(e, e->vocab->byte_tokens[text[i]]);
}

static void merge_and_add(mk_encoder *e, mk_word *w)
{
    mk_word_merge(e->vocab, w);
    if (w->count == 0)
        return;
    for (uint32_t i = 0; i != MK_WORD_END; i = w->next[i])
        add_symbol(e, w->symbol[i]);
}

/* Byte-level BPE: words of bytes. A byte without a token is left out, as the reference does. */
static void encode_bytes(mk_encoder *e, const uint8_t *text, size_t size)
{
    const mk_vocab *v = e->vocab;
    mk_scanner scanner = mk_scanner_begin((enum mkn_pre_tokenizer)v->head->pre_tokenizer, text, size);
    size_t begin, end;
    while (mk_scanner_next(&scanner, &begin, &end)) {
        mk_word w = mk_word_place(e->scratch, end - begin);
        for (size_t i = begin; i < end; i++) {
            uint32_t token = v->byte_tokens[text[i]];
            if (token != MKN_NO_TOKEN)
                w.symbol[w.count++] = token;
        }
        merge_and_add(e, &w);
    }
}

/* Symbols of one character: its own, or those of its bytes, or none. */
static void add_character(const mk_vocab *v, mk_word *w, const uint8_t *text, uint32_t size, bool valid)
{
    uint32_t symbol = valid ? mk_vocab_find(v, text, size) : MKN_NO_TOKEN;
    if (symbol != MKN_NO_TOKEN || v->byte_tokens[text[0]] == MKN_NO_TOKEN) {
        w->symbol[w->count++] = symbol;
        return;
    }
    for (uint32_t i = 0; i < size; i++)
        w->symbol[w->count++] = v->byte_tokens[text[i]];
}

/* SentencePiece: the whole text is one word of characters. */
static void encode_characters(mk_encoder *e, const uint8_t *text, size_t size)
{
    const mk_vocab *v = e->vocab;
    const uint8_t space = ' ';
    mk_word w = mk_word_place(e->scratch, size + 1);
    if (e->after_special && (v->head->flags & MKN_TOKENIZER_SPACE_PREFIX))
        add_character(v, &w, &space, 1, true);
    for (size_t i = 0; i < size;) {
        uint32_t code, length = mk_utf8_decode(text + i, size - i, &code);
        if (code == SPACE_SYMBOL)
            add_character(v, &w, &space, 1, true);
        else
            add_character(v, &w, text + i, length, code != MK_UTF8_INVALID);
        i += length;
    }
    merge_and_add(e, &w);
}

/* Text without special tokens in it. */
static void encode_plain(mk_encoder *e, const uint8_t *text, size_t size)
{
    if (size == 0)
        return;
    e->after_unknown = false;
    if (e->vocab->head->kind == MKN_TOKENIZER_BPE)
        encode_bytes(e, text, size);
    else
        encode_characters(e, text, size);
    e->after_special = false;
}

void mk_encoder_text(mk_encoder *e, bool control, const uint8_t *text, size_t size)
{
    size_t plain = 0; /* where the text not yet encoded begins */
    if (size == 0)
        return; /* text may be NULL */
    for (size_t i = 0; i < size;) {
        size_t length = 0;
        uint32_t token = mk_vocab_special(e->vocab, control, text + i, size - i, &length);
        if (token == MKN_NO_TOKEN) {
            i++;
            continue;
        }
        encode_plain(e, text + plain, i - plain);
        mk_encoder_add_special(e, token);
        plain = i += length;
    }
    encode_plain(e, text + plain, size - plain);
}

mk_status mk_encoder_end(const mk_encoder *e, size_t *count, mk_error *err)
{
    *count = e->count;
    if (e->count > e->capacity)
        return mk_fail(err, MK_ERR_MEMORY, "the text has %U tokens, there is room for %U", (uint64_t)e->count,
                       (uint64_t)e->capacity);
    return MK_OK;
}

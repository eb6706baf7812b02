#include "text/vocab.h"

#include <string.h>

#include "base/error.h"
#include "image/image.h"

/* Where a table of the section lies, NULL if any of it is outside. */
static const void *table(const uint8_t *section, uint64_t size, mkn_array array, uint64_t element)
{
    if (array.offset % 16 || array.offset > size || array.count > (size - array.offset) / element)
        return NULL;
    return section + array.offset;
}

static bool power_of_two_or_none(uint32_t x)
{
    return (x & (x - 1)) == 0;
}

static bool place_tables(const uint8_t *section, uint64_t size, mk_vocab *v)
{
    const mkn_tokenizer *h = v->head;
    v->texts = table(section, size, h->texts, 1);
    v->text_ends = table(section, size, h->text_ends, 4);
    v->token_kinds = table(section, size, h->token_kinds, 1);
    v->byte_tokens = table(section, size, h->byte_tokens, 4);
    v->merges = table(section, size, h->merges, sizeof(mkn_merge));
    v->text_symbols = table(section, size, h->text_symbols, 4);
    v->special_tokens = table(section, size, h->special_tokens, 4);
    v->special_first = table(section, size, h->special_first, 4);
    v->end_tokens = table(section, size, h->end_tokens, 4);
    return v->texts && v->text_ends && v->token_kinds && v->byte_tokens && v->merges && v->text_symbols &&
           v->special_tokens && v->special_first && v->end_tokens;
}

static bool counts_agree(const mkn_tokenizer *h, uint32_t vocabulary)
{
    return h->token_count >= 1 && h->token_count <= vocabulary && h->token_count <= MKN_MAX_VOCABULARY &&
           h->symbol_count >= h->token_count && h->text_ends.count == (uint64_t)h->symbol_count + 1 &&
           h->token_kinds.count == h->token_count && h->byte_tokens.count == 256 &&
           h->special_first.count == 257 && power_of_two_or_none(h->merges.count) &&
           power_of_two_or_none(h->text_symbols.count) && h->max_token_bytes <= MKN_MAX_TOKEN_BYTES;
}

mk_status mk_vocab_open(const mk_model *model, mk_vocab *vocab, mk_error *err)
{
    const mk_image *image = mk_image_of(model);
    uint64_t size = 0;
    const uint8_t *section = mk_image_section(image, MKN_TOKENIZER, &size);
    if (!section)
        return mk_fail(err, MK_ERR_UNSUPPORTED,
                       "the image has no tokenizer: quantize it from a source that has one, or name one "
                       "with --tokenizer");
    if (size < sizeof(mkn_tokenizer))
        return mk_fail(err, MK_ERR_FORMAT, "the tokenizer section has %U bytes, its head alone takes %u", size,
                       (uint32_t)sizeof(mkn_tokenizer));
    const mkn_tokenizer *h = vocab->head = (const void *)section;
    if (h->version != MKN_TOKENIZER_VERSION)
        return mk_fail(err, MK_ERR_UNSUPPORTED,
                       "the tokenizer section is of version %u, this program reads version %u: quantize again "
                       "with the makarna-quant of this release",
                       h->version, MKN_TOKENIZER_VERSION);
    if ((h->kind != MKN_TOKENIZER_BPE && h->kind != MKN_TOKENIZER_SPM) || h->pre_tokenizer >= MKN_PRE_KINDS)
        return mk_fail(err, MK_ERR_FORMAT, "unknown tokenizer kind %u with pre-tokenizer %u", h->kind,
                       h->pre_tokenizer);
    if (!place_tables(section, size, vocab) || !counts_agree(h, image->header->vocabulary))
        return mk_fail(err, MK_ERR_FORMAT,
                       "the tokenizer section is damaged: a table of %u tokens and %u symbols lies outside its "
                       "%U bytes or has a wrong count (makarna verify checks the whole image)",
                       h->token_count, h->symbol_count, size);
    return MK_OK;
}

const uint8_t *mk_vocab_text(const mk_vocab *v, uint32_t symbol, uint32_t *size)
{
    *size = 0;
    if (symbol >= v->head->symbol_count)
        return v->texts;
    uint32_t begin = v->text_ends[symbol], end = v->text_ends[symbol + 1];
    if (begin > end || end > v->head->texts.count || end - begin > v->head->max_token_bytes)
        return v->texts;
    *size = end - begin;
    return v->texts + begin;
}

const mkn_merge *mk_vocab_merge(const mk_vocab *v, uint32_t left, uint32_t right)
{
    uint32_t slots = v->head->merges.count;
    uint32_t probes = v->head->merge_probes < slots ? v->head->merge_probes : slots;
    uint32_t slot = mkn_merge_hash(left, right);
    if (left == MKN_NO_TOKEN || right == MKN_NO_TOKEN)
        return NULL;
    for (; probes; probes--, slot++) {
        const mkn_merge *m = &v->merges[slot & (slots - 1)];
        if (m->left == left && m->right == right)
            return m;
        if (m->left == MKN_NO_TOKEN)
            return NULL;
    }
    return NULL;
}

uint32_t mk_vocab_find(const mk_vocab *v, const uint8_t *text, size_t size)
{
    uint32_t slots = v->head->text_symbols.count;
    uint32_t probes = v->head->text_probes < slots ? v->head->text_probes : slots;
    uint32_t slot = mkn_text_hash(text, size);
    for (; probes; probes--, slot++) {
        uint32_t symbol = v->text_symbols[slot & (slots - 1)], length;
        if (symbol == MKN_NO_TOKEN)
            return MKN_NO_TOKEN;
        const uint8_t *candidate = mk_vocab_text(v, symbol, &length);
        if (length == size && memcmp(candidate, text, size) == 0)
            return symbol;
    }
    return MKN_NO_TOKEN;
}

/* The first of the special tokens [begin, end), which agree in their first `depth` bytes, whose byte after
 * these is at least `byte`. A text that ends there comes before all. */
static uint32_t first_at_least(const mk_vocab *v, uint32_t begin, uint32_t end, uint32_t depth, uint32_t byte)
{
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2, size;
        const uint8_t *text = mk_vocab_text(v, v->special_tokens[middle], &size);
        if (depth >= size || text[depth] < byte)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

uint32_t mk_vocab_special(const mk_vocab *v, bool control, const uint8_t *text, size_t size, size_t *length)
{
    uint32_t begin = v->special_first[text[0]], end = v->special_first[text[0] + 1u];
    uint32_t found = MKN_NO_TOKEN;
    if (end > v->head->special_tokens.count)
        return MKN_NO_TOKEN;
    /* The candidates narrow byte by byte; one that ends where we are is the first of them. */
    for (uint32_t depth = 1; begin < end; depth++) {
        uint32_t token = v->special_tokens[begin], bytes;
        mk_vocab_text(v, token, &bytes);
        if (bytes == depth && token < v->head->token_count &&
            (control || v->token_kinds[token] == MKN_TOKEN_USER)) {
            found = token;
            *length = depth;
        }
        if (depth >= size)
            break;
        begin = first_at_least(v, begin, end, depth, text[depth]);
        end = first_at_least(v, begin, end, depth, text[depth] + 1u);
    }
    return found;
}

/* tiny_vocab.h - for tests: a tokenizer section built by hand, without the quantizer, so that tests of the
 * engine run on every machine. */
#ifndef MK_TESTS_TINY_VOCAB_H
#define MK_TESTS_TINY_VOCAB_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/mkn_tokenizer.h"
#include "unit/tokenizer_image.h"

enum { TINY_TOKENS = 600, TINY_SLOTS = 2048, TINY_TEXT = 8192 };

typedef struct tiny_vocab {
    mkn_tokenizer head; /* kind, pre_tokenizer, flags, bos, unknown: set before tiny_vocab_section */
    uint8_t texts[TINY_TEXT];
    uint32_t ends[TINY_TOKENS + 1];
    uint8_t kinds[TINY_TOKENS];
    uint32_t bytes[256];
    mkn_merge merges[TINY_SLOTS];
    uint32_t slots[TINY_SLOTS];
    uint32_t specials[TINY_TOKENS], special_count;
    uint32_t special_first[257];
    uint32_t end_tokens[4], end_count;
    uint32_t count;        /* symbols */
    uint32_t tokens;       /* 0 while all symbols are tokens */
    uint32_t merges_count; /* the next rank */
} tiny_vocab;

static inline void tiny_vocab_begin(tiny_vocab *v, uint32_t kind, uint32_t rule, uint32_t flags)
{
    memset(v, 0, sizeof *v);
    memset(v->bytes, 0xff, sizeof v->bytes);
    memset(v->merges, 0xff, sizeof v->merges);
    memset(v->slots, 0xff, sizeof v->slots);
    v->head = (mkn_tokenizer){.version = MKN_TOKENIZER_VERSION,
                              .kind = kind,
                              .pre_tokenizer = rule,
                              .flags = flags,
                              .bos = MKN_NO_TOKEN,
                              .unknown = MKN_NO_TOKEN,
                              .merge_probes = TINY_SLOTS,
                              .text_probes = TINY_SLOTS};
}

static inline uint32_t tiny_vocab_add(tiny_vocab *v, const char *text, size_t size, uint8_t kind)
{
    uint32_t id = v->count++, at = v->ends[id];
    memcpy(v->texts + at, text, size);
    v->ends[id + 1] = at + (uint32_t)size;
    v->kinds[id] = kind;
    if (size > v->head.max_token_bytes)
        v->head.max_token_bytes = (uint32_t)size;
    if (kind != MKN_TOKEN_NORMAL)
        v->specials[v->special_count++] = id;
    if (kind != MKN_TOKEN_CONTROL) {
        uint32_t slot = mkn_text_hash(text, size);
        while (v->slots[slot % TINY_SLOTS] != MKN_NO_TOKEN)
            slot++;
        v->slots[slot % TINY_SLOTS] = id;
    }
    return id;
}

static inline uint32_t tiny_vocab_text(tiny_vocab *v, const char *text)
{
    return tiny_vocab_add(v, text, strlen(text), MKN_TOKEN_NORMAL);
}

/* Byte tokens 0 to 255, the next 256 ids. In a SentencePiece vocabulary their texts are not to be found. */
static inline void tiny_vocab_bytes(tiny_vocab *v)
{
    for (int byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        uint32_t id = v->bytes[byte] = tiny_vocab_add(v, &text, 1, MKN_TOKEN_NORMAL);
        for (uint32_t i = 0; v->head.kind == MKN_TOKENIZER_SPM && i < TINY_SLOTS; i++)
            if (v->slots[i] == id)
                v->slots[i] = MKN_NO_TOKEN;
    }
}

static inline void tiny_vocab_merge_ranked(tiny_vocab *v, uint32_t left, uint32_t right, uint32_t rank,
                                           uint32_t merged)
{
    uint32_t slot = mkn_merge_hash(left, right);
    while (v->merges[slot % TINY_SLOTS].left != MKN_NO_TOKEN)
        slot++;
    v->merges[slot % TINY_SLOTS] = (mkn_merge){left, right, rank, merged};
}

static inline void tiny_vocab_merge(tiny_vocab *v, uint32_t left, uint32_t right, uint32_t merged)
{
    tiny_vocab_merge_ranked(v, left, right, v->merges_count++, merged);
}

/* Special tokens in bytewise order. */
static inline void tiny_vocab_sort(tiny_vocab *v)
{
    for (uint32_t i = 1; i < v->special_count; i++)
        for (uint32_t j = i; j > 0; j--) {
            uint32_t a = v->specials[j - 1], b = v->specials[j];
            uint32_t x = v->ends[a + 1] - v->ends[a], y = v->ends[b + 1] - v->ends[b];
            int order = memcmp(v->texts + v->ends[a], v->texts + v->ends[b], x < y ? x : y);
            if (order < 0 || (order == 0 && x <= y))
                break;
            v->specials[j - 1] = b;
            v->specials[j] = a;
        }
    for (uint32_t i = 0; i < v->special_count; i++)
        v->special_first[v->texts[v->ends[v->specials[i]]] + 1]++;
    for (uint32_t i = 0; i < 256; i++)
        v->special_first[i + 1] += v->special_first[i];
}

/* Appends a table to the section. */
static inline mkn_array tiny_vocab_put(uint8_t *section, size_t *at, const void *data, uint32_t count,
                                       size_t element)
{
    mkn_array array = {(uint32_t)*at, count};
    memcpy(section + *at, data, count * element);
    *at = (*at + count * element + 15) / 16 * 16;
    return array;
}

/* The section, to be given to free(). */
static inline uint8_t *tiny_vocab_section(tiny_vocab *v, size_t *size)
{
    uint8_t *section = calloc(1, sizeof *v + 256);
    mkn_tokenizer *h = &v->head;
    size_t at = sizeof *h;
    if (!section)
        abort();
    tiny_vocab_sort(v);
    h->token_count = v->tokens ? v->tokens : v->count;
    h->symbol_count = v->count;
    h->texts = tiny_vocab_put(section, &at, v->texts, v->ends[v->count], 1);
    h->text_ends = tiny_vocab_put(section, &at, v->ends, v->count + 1, 4);
    h->token_kinds = tiny_vocab_put(section, &at, v->kinds, h->token_count, 1);
    h->byte_tokens = tiny_vocab_put(section, &at, v->bytes, 256, 4);
    h->merges = tiny_vocab_put(section, &at, v->merges, TINY_SLOTS, sizeof(mkn_merge));
    h->text_symbols = tiny_vocab_put(section, &at, v->slots, TINY_SLOTS, 4);
    h->special_tokens = tiny_vocab_put(section, &at, v->specials, v->special_count, 4);
    h->special_first = tiny_vocab_put(section, &at, v->special_first, 257, 4);
    h->end_tokens = tiny_vocab_put(section, &at, v->end_tokens, v->end_count, 4);
    memcpy(section, h, sizeof *h);
    *size = at;
    return section;
}

/* The vocabulary as an open model; returns the image, to be given to free() after closing. */
static inline void *tiny_vocab_open(tiny_vocab *v, const test_chat *chat, mk_model *model)
{
    size_t section_size, size;
    mk_error err;
    uint8_t *section = tiny_vocab_section(v, &section_size);
    void *image = test_vocab_image(section, section_size, v->head.token_count, chat, &size);
    free(section);
    if (mk_model_open_memory(model, image, size, &err) != MK_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return image;
}

/* Tokenizes with buffers of exactly the documented sizes; returns the count, or SIZE_MAX on an error. */
static inline size_t tiny_vocab_tokenize(const mk_model *model, const void *text, size_t size, unsigned flags,
                                         int32_t *ids, size_t capacity)
{
    size_t scratch_size = mk_tokenize_scratch_size(model, size), count;
    void *scratch = malloc(scratch_size);
    char *exact_text = malloc(size + !size);
    int32_t *exact_ids = malloc((size + 3) * sizeof *exact_ids);
    if (!scratch || !exact_text || !exact_ids)
        abort();
    memcpy(exact_text, text, size);
    mk_status status =
        mk_tokenize(model, exact_text, size, flags, exact_ids, size + 3, &count, scratch, scratch_size, NULL);
    if (status != MK_OK || count > capacity)
        count = SIZE_MAX;
    else if (count)
        memcpy(ids, exact_ids, count * sizeof *ids);
    free(scratch);
    free(exact_text);
    free(exact_ids);
    return count;
}

#endif

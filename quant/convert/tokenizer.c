#include "quant/convert/tokenizer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/mkn.h"
#include "quant/convert/tokenizer_build.h"
#include "quant/read/fail.h"

bool build_fail(tokenizer_build *b, const char *format, ...)
{
    char detail[384];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    if (b->error_size)
        snprintf(b->error, b->error_size, "tokenizer: %s", detail);
    return false;
}

bool build_grow(tokenizer_build *b, void **block, uint64_t count, size_t element)
{
    void *grown = count > SIZE_MAX / element ? NULL : realloc(*block, (size_t)count * element);
    if (!grown)
        return build_fail(b, "out of memory for %llu bytes", (unsigned long long)count * element);
    *block = grown;
    return true;
}

/* ---- What is supported ---------------------------------------------------------------------- */

static const struct {
    const char *name; /* in the source */
    source_vocab_kind kind;
    uint32_t rule;
} pre_tokenizers[] = {
    {"gpt-2", SOURCE_VOCAB_BPE, MKN_PRE_GPT2},
    {"smollm", SOURCE_VOCAB_BPE, MKN_PRE_SMOLLM},
    {"", SOURCE_VOCAB_SPM, MKN_PRE_NONE},
    {"default", SOURCE_VOCAB_SPM, MKN_PRE_NONE},
};

static bool find_pre_tokenizer(tokenizer_build *b, uint32_t *rule)
{
    char name[QUANT_NAME];
    const source_vocab *v = b->vocab;
    for (size_t i = 0; i < sizeof pre_tokenizers / sizeof pre_tokenizers[0]; i++) {
        if (pre_tokenizers[i].kind == v->kind && source_is(v->pre, pre_tokenizers[i].name)) {
            *rule = pre_tokenizers[i].rule;
            return true;
        }
    }
    if (v->kind == SOURCE_VOCAB_SPM)
        return build_fail(
            b,
            "pre-tokenizer \"%s\" is not supported with a SentencePiece vocabulary, expected none or "
            "\"default\"",
            quant_name(v->pre, name));
    if (v->pre.length == 0)
        return build_fail(
            b, "the source does not name its pre-tokenizer (tokenizer.ggml.pre): convert the model anew "
               "with a current converter");
    return build_fail(b, "pre-tokenizer \"%s\" is not supported: known are gpt-2 and smollm",
                      quant_name(v->pre, name));
}

static bool check_vocab(tokenizer_build *b)
{
    const source_vocab *v = b->vocab;
    const struct {
        const char *name;
        int32_t id;
    } ids[] = {{"BOS", v->bos}, {"EOS", v->eos}, {"unknown", v->unknown}, {"end-of-turn", v->eot}};
    if (v->kind != SOURCE_VOCAB_BPE && v->kind != SOURCE_VOCAB_SPM)
        return build_fail(b, "the source has no vocabulary");
    if (v->count == 0 || v->count > MKN_MAX_VOCABULARY)
        return build_fail(b, "%u tokens, expected 1 to %u", v->count, MKN_MAX_VOCABULARY);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        if (ids[i].id < -1 || (ids[i].id >= 0 && (uint32_t)ids[i].id >= v->count))
            return build_fail(b, "the %s token is %d, there are %u tokens", ids[i].name, ids[i].id, v->count);
    if (v->add_bos && v->bos < 0)
        return build_fail(b, "texts shall begin with BOS, but the source names no BOS token");
    if (v->kind == SOURCE_VOCAB_SPM && !v->scores)
        return build_fail(b, "the SentencePiece vocabulary has no scores");
    if (v->kind == SOURCE_VOCAB_BPE && v->add_space_prefix)
        return build_fail(b,
                          "a space before each text (add_space_prefix) is not supported with byte-level BPE");
    return true;
}

/* ---- Special tokens ------------------------------------------------------------------------- */

typedef struct special {
    source_string text;
    uint32_t id;
} special;

static int by_text(const void *a, const void *b)
{
    const special *x = a, *y = b;
    size_t shorter = x->text.length < y->text.length ? x->text.length : y->text.length;
    int order = memcmp(x->text.text, y->text.text, shorter);
    return order ? order : x->text.length < y->text.length ? -1 : x->text.length > y->text.length;
}

/* Special tokens in bytewise order of their texts. */
static bool sort_specials(tokenizer_build *b, special *specials)
{
    char name[QUANT_NAME];
    uint32_t count = 0;
    for (uint32_t id = 0; id < b->vocab->count; id++) {
        source_string text = build_text(b, id);
        if (b->kinds[id] == MKN_TOKEN_NORMAL || text.length == 0)
            continue;
        /* A text of n bytes gives n + 3 tokens at most, which a space after one-byte tokens would break. */
        if (text.length == 1 && b->vocab->add_space_prefix)
            return build_fail(
                b,
                "token %u (\"%s\") is a special token of one byte in a vocabulary that puts a space "
                "after special tokens: not supported",
                id, quant_name(text, name));
        specials[count++] = (special){text, id};
    }
    qsort(specials, count, sizeof *specials, by_text);
    for (uint32_t i = 1; i < count; i++)
        if (by_text(&specials[i - 1], &specials[i]) == 0)
            return build_fail(b, "the special tokens %u and %u have the same text \"%s\"", specials[i - 1].id,
                              specials[i].id, quant_name(specials[i].text, name));
    b->special_count = count;
    return true;
}

static bool build_specials(tokenizer_build *b)
{
    special *specials = NULL;
    bool fine = build_grow(b, (void **)&b->specials, b->vocab->count, sizeof *b->specials) &&
                build_grow(b, (void **)&specials, b->vocab->count, sizeof *specials) &&
                sort_specials(b, specials);
    for (uint32_t i = 0; i < b->special_count; i++) {
        b->specials[i] = specials[i].id;
        b->special_first[(uint8_t)specials[i].text.text[0] + 1]++;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        b->special_first[byte + 1] += b->special_first[byte];
    free(specials);
    return fine;
}

/* Tokens that end an answer: those that the source names, and special tokens that are known to. */
static bool ends_answer(const source_vocab *v, uint32_t id)
{
    static const char *const texts[] = {
        "<|im_end|>",      "<|endoftext|>", "</s>",          "<|eot_id|>", "<|eom_id|>",
        "<|end_of_text|>", "<|end|>",       "<end_of_turn>", "<eos>",
    };
    if ((int32_t)id == v->eos || (int32_t)id == v->eot)
        return true;
    if (v->types[id] != SOURCE_TOKEN_CONTROL && v->types[id] != SOURCE_TOKEN_USER)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (source_is(v->tokens[id], texts[i]))
            return true;
    return false;
}

static bool build_ends(tokenizer_build *b)
{
    if (!build_grow(b, (void **)&b->end_tokens, b->vocab->count, sizeof *b->end_tokens))
        return false;
    for (uint32_t id = 0; id < b->vocab->count; id++)
        if (ends_answer(b->vocab, id))
            b->end_tokens[b->end_count++] = id;
    return true;
}

/* ---- Layout --------------------------------------------------------------------------------- */

typedef struct part {
    mkn_array *array; /* in the head */
    const void *data;
    uint32_t count;
    uint32_t element;
} part;

static bool lay_out(tokenizer_build *b, mkn_tokenizer *head, uint8_t **section, size_t *size)
{
    bool spm = b->vocab->kind == SOURCE_VOCAB_SPM;
    const part parts[] = {
        {&head->texts, b->texts, (uint32_t)b->text_bytes, 1},
        {&head->text_ends, b->ends, b->symbol_count + 1, 4},
        {&head->token_kinds, b->kinds, b->vocab->count, 1},
        {&head->byte_tokens, b->byte_tokens, 256, 4},
        {&head->merges, b->merges, b->merge_count, sizeof(mkn_merge)},
        {&head->text_symbols, b->slots, spm ? b->slot_count : 0, 4},
        {&head->special_tokens, b->specials, b->special_count, 4},
        {&head->special_first, b->special_first, 257, 4},
        {&head->end_tokens, b->end_tokens, b->end_count, 4},
    };
    const size_t count = sizeof parts / sizeof parts[0];
    uint64_t at = sizeof *head;
    for (size_t i = 0; i < count; i++) {
        parts[i].array->offset = (uint32_t)at;
        parts[i].array->count = parts[i].count;
        at = (at + (uint64_t)parts[i].count * parts[i].element + 15) / 16 * 16;
        if (at > INT32_MAX)
            return build_fail(b, "the tables take more than 2 GiB");
    }
    *size = (size_t)at;
    *section = calloc(1, *size);
    if (!*section)
        return build_fail(b, "out of memory for %llu bytes", (unsigned long long)at);
    memcpy(*section, head, sizeof *head);
    for (size_t i = 0; i < count; i++)
        if (parts[i].count)
            memcpy(*section + parts[i].array->offset, parts[i].data, (size_t)parts[i].count * parts[i].element);
    return true;
}

static mkn_tokenizer head_of(const tokenizer_build *b, uint32_t rule)
{
    const source_vocab *v = b->vocab;
    bool spm = v->kind == SOURCE_VOCAB_SPM;
    return (mkn_tokenizer){
        .version = MKN_TOKENIZER_VERSION,
        .kind = spm ? MKN_TOKENIZER_SPM : MKN_TOKENIZER_BPE,
        .pre_tokenizer = rule,
        .flags =
            (v->add_bos ? MKN_TOKENIZER_ADD_BOS : 0u) | (v->add_space_prefix ? MKN_TOKENIZER_SPACE_PREFIX : 0u),
        .token_count = v->count,
        .symbol_count = b->symbol_count,
        .max_token_bytes = b->max_token_bytes,
        .bos = v->bos < 0 ? MKN_NO_TOKEN : (uint32_t)v->bos,
        .unknown = v->unknown < 0 || !spm ? MKN_NO_TOKEN : (uint32_t)v->unknown,
        .merge_probes = b->merge_probes,
        .text_probes = spm ? b->slot_probes : 0,
    };
}

static void release(tokenizer_build *b)
{
    free(b->texts);
    free(b->ends);
    free(b->kinds);
    free(b->slots);
    free(b->pairs);
    free(b->merges);
    free(b->specials);
    free(b->end_tokens);
}

bool convert_tokenizer(const source_vocab *vocab, uint8_t **section, size_t *size, char *error,
                       size_t error_size)
{
    tokenizer_build b = {.vocab = vocab, .error = error, .error_size = error_size};
    uint32_t rule = MKN_PRE_NONE;
    *section = NULL;
    *size = 0;
    bool fine = check_vocab(&b) && find_pre_tokenizer(&b, &rule) && build_texts(&b) && build_merges(&b) &&
                build_specials(&b) && build_ends(&b);
    if (fine) {
        mkn_tokenizer head = head_of(&b, rule);
        fine = lay_out(&b, &head, section, size);
    }
    release(&b);
    return fine;
}

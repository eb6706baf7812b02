/* Tokenizer files of llama2.c: the length of the longest token, then for each token its score, its length and
 * its bytes. Ids are those of a SentencePiece model of Llama: 0 unknown, 1 BOS, 2 EOS, 3 to 258 the single
 * bytes. */
#include "quant/read/llama2c.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/read/fail.h"

enum { FIRST_BYTE = 3, FIRST_PIECE = FIRST_BYTE + 256 };

static mk_status check_special(const source_vocab *v, uint32_t id, const char *path, mk_error *err)
{
    static const char *const fixed[FIRST_BYTE] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    char expected[QUANT_NAME], name[QUANT_NAME];
    if (id < FIRST_BYTE) {
        if (!source_is(v->tokens[id], fixed[id]))
            return quant_fail(err, MK_ERR_FORMAT,
                              "%s: token %u is \"%s\", expected \"%s\" as in every tokenizer of llama2.c; give "
                              "the model's own",
                              path, id, quant_name(v->tokens[id], name),
                              quant_name(source_text(fixed[id]), expected));
        return MK_OK;
    }
    snprintf(expected, sizeof expected, "<0x%02X>", (id - FIRST_BYTE) & 255u);
    if (id < FIRST_PIECE && !source_is(v->tokens[id], expected))
        return quant_fail(err, MK_ERR_FORMAT, "%s: token %u is \"%s\", expected the byte token %s", path, id,
                          quant_name(v->tokens[id], name), expected);
    return MK_OK;
}

/* The text with U+2581 for each space, as SentencePiece has it. */
static bool to_sentencepiece(source_string *token, pool *memory)
{
    static const char mark[3] = {'\xe2', '\x96', '\x81'};
    size_t spaces = 0, at = 0;
    for (size_t i = 0; i < token->length; i++)
        spaces += token->text[i] == ' ';
    if (spaces == 0)
        return true;
    char *text = pool_take(memory, (uint64_t)token->length + 2 * (uint64_t)spaces, 1);
    if (!text)
        return false;
    for (size_t i = 0; i < token->length; i++) {
        if (token->text[i] != ' ') {
            text[at++] = token->text[i];
            continue;
        }
        memcpy(text + at, mark, sizeof mark);
        at += sizeof mark;
    }
    *token = (source_string){text, at};
    return true;
}

static mk_status read_token(source_vocab *v, uint32_t id, const source_map *map, uint64_t *at, const char *path,
                            mk_error *err)
{
    if (map->size - *at < 8)
        return quant_fail(err, MK_ERR_FORMAT, "%s: truncated: ends at token %u, the model has %u", path, id,
                          v->count);
    float score = mk_float_from_bits(mk_load32(map->data + *at));
    uint32_t length = mk_load32(map->data + *at + 4);
    *at += 8;
    if (length > map->size - *at)
        return quant_fail(err, MK_ERR_FORMAT, "%s: token %u of %u bytes reaches beyond the file; it is damaged",
                          path, id, length);
    if (!(score - score == 0))
        return quant_fail(err, MK_ERR_FORMAT, "%s: the score of token %u is not a finite number", path, id);
    v->tokens[id] = (source_string){(const char *)map->data + *at, length};
    v->scores[id] = score;
    *at += length;
    return MK_OK;
}

/* Types and texts as SentencePiece has them. */
static mk_status convert_token(source_vocab *v, uint32_t id, pool *memory, const char *path, mk_error *err)
{
    static const char *const names[FIRST_BYTE] = {"<unk>", "<s>", "</s>"};
    mk_status status = check_special(v, id, path, err);
    if (status)
        return status;
    v->types[id] = id == 0            ? SOURCE_TOKEN_UNKNOWN
                   : id < FIRST_BYTE  ? SOURCE_TOKEN_CONTROL
                   : id < FIRST_PIECE ? SOURCE_TOKEN_BYTE
                                      : SOURCE_TOKEN_NORMAL;
    if (id < FIRST_BYTE)
        v->tokens[id] = source_text(names[id]);
    else if (!to_sentencepiece(&v->tokens[id], memory))
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", path);
    return MK_OK;
}

mk_status llama2c_read_tokenizer(source_model *m, const source_map *map, const char *path, pool *memory,
                                 mk_error *err)
{
    source_vocab *v = &m->vocab;
    uint64_t at = 4;
    *v = (source_vocab){.kind = SOURCE_VOCAB_SPM,
                        .count = m->vocabulary,
                        .bos = 1,
                        .eos = 2,
                        .unknown = 0,
                        .padding = -1,
                        .eot = -1,
                        .add_bos = true,
                        .add_space_prefix = true};
    if (v->count < FIRST_PIECE)
        return quant_fail(err, MK_ERR_FORMAT, "%s: the model has %u tokens, a llama2.c vocabulary %d at least",
                          path, v->count, (int)FIRST_PIECE);
    if (map->size < 4 || v->count > (map->size - 4) / 8)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: %llu bytes are too few for the model's %u tokens; give its own tokenizer", path,
                          (unsigned long long)map->size, v->count);
    v->tokens = pool_take(memory, v->count, sizeof *v->tokens);
    v->scores = pool_take(memory, v->count, sizeof *v->scores);
    v->types = pool_take(memory, v->count, sizeof *v->types);
    if (!v->tokens || !v->scores || !v->types)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %u tokens", path, v->count);
    for (uint32_t id = 0; id < v->count; id++) {
        mk_status status = read_token(v, id, map, &at, path, err);
        if (status || (status = convert_token(v, id, memory, path, err)))
            return status;
    }
    if (at != map->size)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: holds more than the model's %u tokens; give its own tokenizer", path, v->count);
    return MK_OK;
}

/* The vocabulary of a GGUF file. */
#include "quant/read/gguf.h"

#include <string.h>

#include "base/bytes.h"
#include "image/mkn.h"
#include "quant/read/fail.h"

static mk_status read_types(source_vocab *v, const gguf *file, pool *memory, mk_error *err)
{
    const uint8_t *items;
    uint32_t count;
    mk_status status = gguf_array32(file, "tokenizer.ggml.token_type", GGUF_I32, &items, &count, err);
    if (status)
        return status;
    if (!items && v->kind == SOURCE_VOCAB_SPM)
        return quant_fail(err, MK_ERR_FORMAT, "%s: key tokenizer.ggml.token_type is missing", file->path);
    if (items && count != v->count)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %u token types for %u tokens", file->path, count, v->count);
    v->types = pool_take(memory, v->count, sizeof *v->types);
    if (!v->types)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %u tokens", file->path, v->count);
    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t type = items ? mk_load32(items + 4 * (size_t)i) : SOURCE_TOKEN_NORMAL;
        if (type < SOURCE_TOKEN_NORMAL || type > SOURCE_TOKEN_BYTE)
            return quant_fail(err, MK_ERR_FORMAT, "%s: token %u has unknown type %u", file->path, i, type);
        v->types[i] = (uint8_t)type;
    }
    return MK_OK;
}

static mk_status read_scores(source_vocab *v, const gguf *file, pool *memory, mk_error *err)
{
    const uint8_t *items;
    uint32_t count;
    mk_status status = gguf_array32(file, "tokenizer.ggml.scores", GGUF_F32, &items, &count, err);
    if (status)
        return status;
    if (!items || count != v->count)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %u token scores (tokenizer.ggml.scores) for %u tokens",
                          file->path, count, v->count);
    v->scores = pool_take(memory, v->count, sizeof *v->scores);
    if (!v->scores)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %u tokens", file->path, v->count);
    for (uint32_t i = 0; i < v->count; i++) {
        v->scores[i] = mk_float_from_bits(mk_load32(items + 4 * (size_t)i));
        if (!(v->scores[i] - v->scores[i] == 0))
            return quant_fail(err, MK_ERR_FORMAT, "%s: the score of token %u is not a finite number",
                              file->path, i);
    }
    return MK_OK;
}

static mk_status read_id(int32_t *id, const source_vocab *v, const gguf *file, const char *key, mk_error *err)
{
    uint32_t value = UINT32_MAX;
    *id = -1;
    mk_status status = gguf_u32(file, key, false, &value, err);
    if (status || value == UINT32_MAX) /* some writers say "none" this way */
        return status;
    if (value >= v->count)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %s is %u, but there are %u tokens", file->path, key, value,
                          v->count);
    *id = (int32_t)value;
    return MK_OK;
}

static mk_status read_ids(source_vocab *v, const gguf *file, mk_error *err)
{
    mk_status status;
    if ((status = read_id(&v->bos, v, file, "tokenizer.ggml.bos_token_id", err)) ||
        (status = read_id(&v->eos, v, file, "tokenizer.ggml.eos_token_id", err)) ||
        (status = read_id(&v->unknown, v, file, "tokenizer.ggml.unknown_token_id", err)) ||
        (status = read_id(&v->padding, v, file, "tokenizer.ggml.padding_token_id", err)))
        return status;
    return read_id(&v->eot, v, file, "tokenizer.ggml.eot_token_id", err);
}

/* Pre-tokenizers whose family begins every text with BOS when the file does not say. */
static bool adds_bos(source_string pre)
{
    return source_is(pre, "llama-bpe") || source_is(pre, "llama3") || source_is(pre, "llama-v3");
}

/* Normalisations that the engine's tokenizers do not do. */
static mk_status refuse_normalisation(const gguf *file, mk_error *err)
{
    bool squeeze = false;
    const gguf_key *map = gguf_find(file, "tokenizer.ggml.precompiled_charsmap");
    mk_status status = gguf_bool(file, "tokenizer.ggml.remove_extra_whitespaces", &squeeze, err);
    if (status)
        return status;
    if (squeeze)
        return quant_fail(
            err, MK_ERR_UNSUPPORTED,
            "%s: the tokenizer removes extra spaces (tokenizer.ggml.remove_extra_whitespaces), which is "
            "not supported",
            file->path);
    if (map && map->type == GGUF_ARRAY && map->count)
        return quant_fail(
            err, MK_ERR_UNSUPPORTED,
            "%s: the tokenizer maps characters (tokenizer.ggml.precompiled_charsmap), which is not supported",
            file->path);
    return MK_OK;
}

static mk_status read_flags(source_vocab *v, const gguf *file, mk_error *err)
{
    mk_status status;
    v->add_bos = v->kind == SOURCE_VOCAB_SPM || adds_bos(v->pre);
    v->add_space_prefix = v->kind == SOURCE_VOCAB_SPM;
    if ((status = gguf_bool(file, "tokenizer.ggml.add_bos_token", &v->add_bos, err)) ||
        (status = gguf_bool(file, "tokenizer.ggml.add_eos_token", &v->add_eos, err)) ||
        (status = gguf_bool(file, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, err)))
        return status;
    if (v->add_bos && v->bos < 0)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: texts begin with BOS, but key tokenizer.ggml.bos_token_id is missing",
                          file->path);
    if (v->add_eos && v->eos < 0)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: texts end with EOS, but key tokenizer.ggml.eos_token_id is missing", file->path);
    return refuse_normalisation(file, err);
}

mk_status gguf_read_vocab(source_vocab *v, const gguf *file, pool *memory, mk_error *err)
{
    char name[QUANT_NAME];
    source_string kind;
    mk_status status = gguf_string(file, "tokenizer.ggml.model", true, &kind, err);
    if (status)
        return status;
    if (!source_is(kind, "gpt2") && !source_is(kind, "llama"))
        return quant_fail(
            err, MK_ERR_UNSUPPORTED,
            "%s: tokenizer %s is not supported, expected gpt2 (byte-level BPE) or llama (SentencePiece BPE)",
            file->path, quant_name(kind, name));
    v->kind = source_is(kind, "gpt2") ? SOURCE_VOCAB_BPE : SOURCE_VOCAB_SPM;
    if ((status = gguf_string(file, "tokenizer.ggml.pre", false, &v->pre, err)) ||
        (status = gguf_strings(file, "tokenizer.ggml.tokens", memory, &v->tokens, &v->count, err)))
        return status;
    if (v->count == 0 || v->count > MKN_MAX_VOCABULARY)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %u tokens (tokenizer.ggml.tokens), expected 1 to %u",
                          file->path, v->count, MKN_MAX_VOCABULARY);
    if ((status = read_types(v, file, memory, err)) || (status = read_ids(v, file, err)) ||
        (status = read_flags(v, file, err)) ||
        (status = gguf_string(file, "tokenizer.chat_template", false, &v->chat_template, err)))
        return status;
    if (v->kind == SOURCE_VOCAB_SPM)
        return read_scores(v, file, memory, err);
    if ((status = gguf_strings(file, "tokenizer.ggml.merges", memory, &v->merges, &v->merge_count, err)))
        return status;
    if (!v->merges)
        return quant_fail(err, MK_ERR_FORMAT, "%s: key tokenizer.ggml.merges is missing", file->path);
    return MK_OK;
}

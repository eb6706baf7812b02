/* What the keys and tensors of a GGUF file say about the model. A key of the architecture that is not
 * known may change what the model computes, so it is refused like an unknown tensor. */
#include "quant/read/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/read/dequantize.h"
#include "quant/read/fail.h"

/* ---- Hyper-parameters ------------------------------------------------------------------------- */

static const char *const llama_keys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "expert_count",
    "expert_used_count",
    "tensor_data_layout",
};

static mk_status refuse_unknown_keys(const gguf *file, mk_error *err)
{
    const size_t prefix = strlen("llama.");
    char name[QUANT_NAME];
    for (uint64_t i = 0; i < file->key_count; i++) {
        source_string key = file->keys[i].name;
        if (key.length < prefix || memcmp(key.text, "llama.", prefix) != 0)
            continue;
        source_string rest = {key.text + prefix, key.length - prefix};
        bool known = false;
        for (size_t k = 0; k < sizeof llama_keys / sizeof llama_keys[0]; k++)
            known = known || source_is(rest, llama_keys[k]);
        if (!known)
            return quant_fail(err, MK_ERR_UNSUPPORTED,
                              "%s: key %s is not known, and may change what the model computes", file->path,
                              quant_name(key, name));
    }
    return MK_OK;
}

static mk_status refuse_rope_scaling(const gguf *file, mk_error *err)
{
    char name[QUANT_NAME];
    source_string kind = source_text("none");
    float factor = 1, linear = 1;
    mk_status status;
    if ((status = gguf_string(file, "llama.rope.scaling.type", false, &kind, err)) ||
        (status = gguf_f32(file, "llama.rope.scaling.factor", false, &factor, err)) ||
        (status = gguf_f32(file, "llama.rope.scale_linear", false, &linear, err)))
        return status;
    if (!source_is(kind, "none"))
        return quant_fail(
            err, MK_ERR_UNSUPPORTED,
            "%s: RoPE scaling of type %s (llama.rope.scaling.type) is not supported, expected none", file->path,
            quant_name(kind, name));
    if ((factor != 1 && factor != 0) || (linear != 1 && linear != 0))
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: RoPE scaling by the factor %g is not supported, expected 1", file->path,
                          (double)(factor != 1 ? factor : linear));
    return MK_OK;
}

/* What the decoder cannot compute. */
static mk_status refuse_features(const gguf *file, mk_error *err)
{
    char name[QUANT_NAME];
    uint32_t experts = 0, window = 0;
    bool causal = true;
    source_string layout = source_text("Meta AI original pth");
    mk_status status;
    if ((status = gguf_u32(file, "llama.expert_count", false, &experts, err)) ||
        (status = gguf_u32(file, "llama.attention.sliding_window", false, &window, err)) ||
        (status = gguf_bool(file, "llama.attention.causal", &causal, err)) ||
        (status = gguf_string(file, "llama.tensor_data_layout", false, &layout, err)))
        return status;
    if (experts)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: a mixture of %u experts (llama.expert_count) is not supported", file->path,
                          experts);
    if (window)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: a sliding window of %u tokens (llama.attention.sliding_window) is not supported",
                          file->path, window);
    if (!causal)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: attention is not causal (llama.attention.causal)",
                          file->path);
    if (!source_is(layout, "Meta AI original pth"))
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: tensor data layout %s is not known", file->path,
                          quant_name(layout, name));
    return refuse_rope_scaling(file, err);
}

static mk_status read_head_size(source_model *m, const gguf *file, mk_error *err)
{
    uint32_t value_length;
    mk_status status;
    m->head_size = m->heads ? m->hidden / m->heads : 0;
    if (!gguf_find(file, "llama.attention.key_length") && (m->heads == 0 || m->hidden % m->heads))
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: embedding length %u does not divide into %u heads, and there is no "
                          "llama.attention.key_length",
                          file->path, m->hidden, m->heads);
    if ((status = gguf_u32(file, "llama.attention.key_length", false, &m->head_size, err)))
        return status;
    value_length = m->head_size;
    if ((status = gguf_u32(file, "llama.attention.value_length", false, &value_length, err)))
        return status;
    if (value_length != m->head_size)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: keys of %u values and values of %u per head; expected the same", file->path,
                          m->head_size, value_length);
    m->rope_dims = m->head_size;
    return gguf_u32(file, "llama.rope.dimension_count", false, &m->rope_dims, err);
}

static mk_status read_hyper_parameters(source_model *m, const gguf *file, mk_error *err)
{
    mk_status status;
    m->rope_base = 10000;
    m->rope_neighbours = true;
    if ((status = refuse_unknown_keys(file, err)) || (status = refuse_features(file, err)) ||
        (status = gguf_u32(file, "llama.block_count", true, &m->layers, err)) ||
        (status = gguf_u32(file, "llama.context_length", true, &m->context, err)) ||
        (status = gguf_u32(file, "llama.embedding_length", true, &m->hidden, err)) ||
        (status = gguf_u32(file, "llama.feed_forward_length", true, &m->intermediate, err)) ||
        (status = gguf_u32(file, "llama.attention.head_count", true, &m->heads, err)))
        return status;
    m->kv_heads = m->heads;
    m->vocabulary = m->vocab.count;
    if ((status = gguf_u32(file, "llama.attention.head_count_kv", false, &m->kv_heads, err)) ||
        (status = gguf_u32(file, "llama.vocab_size", false, &m->vocabulary, err)) ||
        (status = gguf_f32(file, "llama.attention.layer_norm_rms_epsilon", true, &m->norm_epsilon, err)) ||
        (status = gguf_f32(file, "llama.rope.freq_base", false, &m->rope_base, err)) ||
        (status = read_head_size(m, file, err)))
        return status;
    if (m->vocabulary != m->vocab.count)
        return quant_fail(err, MK_ERR_FORMAT, "%s: llama.vocab_size is %u, but there are %u tokens", file->path,
                          m->vocabulary, m->vocab.count);
    return MK_OK;
}

/* ---- Tensors ---------------------------------------------------------------------------------- */

static bool known_type(uint32_t ggml_type, source_type *type)
{
    switch (ggml_type) {
    case 0:
        *type = SOURCE_F32;
        return true;
    case 1:
        *type = SOURCE_F16;
        return true;
    case 2:
        *type = SOURCE_Q4_0;
        return true;
    case 3:
        *type = SOURCE_Q4_1;
        return true;
    case 8:
        *type = SOURCE_Q8_0;
        return true;
    case 14:
        *type = SOURCE_Q6_K;
        return true;
    case 30:
        *type = SOURCE_BF16;
        return true;
    default:
        return false;
    }
}

static const char *ggml_type_name(uint32_t type)
{
    static const char *const names[] = {
        "F32",     "F16",   "Q4_0",   "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
        "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
        "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
        "I64",     "F64",   "IQ1_M",  "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0"};
    return type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}

static mk_status read_tensor(source_tensor *t, const gguf *file, const gguf_tensor *g, mk_error *err)
{
    char name[QUANT_NAME];
    uint64_t bytes, available = file->map->size - file->data_offset;
    quant_name(g->name, name);
    if (!known_type(g->type, &t->type))
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: tensor %s has type %s (%u); supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
                          "Q6_K; take the F16 or Q8_0 file of this model",
                          file->path, name, ggml_type_name(g->type), g->type);
    if (g->extent[2] != 1 || g->extent[3] != 1)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: tensor %s has more than two dimensions", file->path,
                          name);
    const source_type_info *about = source_type_about(t->type);
    t->name = g->name;
    t->cols = g->extent[0];
    t->rows = g->extent[1];
    if (t->cols % about->block)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: tensor %s has rows of %llu weights, no multiple of the %u of a %s block",
                          file->path, name, (unsigned long long)t->cols, about->block, about->name);
    if (mk_mul_overflows(t->cols / about->block, about->bytes, &t->row_bytes) ||
        mk_mul_overflows(t->rows, t->row_bytes, &bytes) || g->offset > available ||
        bytes > available - g->offset)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: tensor %s (%llu x %llu %s at byte %llu of the data) reaches beyond the file; "
                          "download it again",
                          file->path, name, (unsigned long long)t->rows, (unsigned long long)t->cols,
                          about->name, (unsigned long long)g->offset);
    t->data = file->map->data + file->data_offset + g->offset;
    return MK_OK;
}

static int by_data(const void *a, const void *b)
{
    const source_tensor *x = *(const source_tensor *const *)a, *y = *(const source_tensor *const *)b;
    return (x->data > y->data) - (x->data < y->data);
}

static mk_status check_overlaps(const source_model *m, const gguf *file, pool *memory, mk_error *err)
{
    char name[QUANT_NAME], other[QUANT_NAME];
    const source_tensor **order = pool_take(memory, m->tensor_count, sizeof *order);
    if (!order)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", file->path);
    for (uint32_t i = 0; i < m->tensor_count; i++)
        order[i] = &m->tensors[i];
    qsort(order, m->tensor_count, sizeof *order, by_data);
    for (uint32_t i = 1; i < m->tensor_count; i++)
        if (order[i]->data < order[i - 1]->data + order[i - 1]->rows * order[i - 1]->row_bytes)
            return quant_fail(err, MK_ERR_FORMAT,
                              "%s: the data of tensors %s and %s overlap; the file is damaged", file->path,
                              quant_name(order[i - 1]->name, name), quant_name(order[i]->name, other));
    return MK_OK;
}

static mk_status read_tensors(source_model *m, const gguf *file, pool *memory, mk_error *err)
{
    uint32_t parts = 1;
    mk_status status = gguf_u32(file, "split.count", false, &parts, err);
    if (status)
        return status;
    if (parts > 1)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: is one of %u parts of a model (split.count); join them first", file->path,
                          parts);
    if (file->tensor_count == 0)
        return quant_fail(err, MK_ERR_FORMAT, "%s: holds no tensors; use --vocab-only for a vocabulary alone",
                          file->path);
    if (file->tensor_count > 1u << 20)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: %llu tensors, expected 2^20 at most", file->path,
                          (unsigned long long)file->tensor_count);
    if (file->data_offset > file->map->size)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: truncated: the file ends before its tensor data; download it again", file->path);
    m->tensor_count = (uint32_t)file->tensor_count;
    m->tensors = pool_take(memory, m->tensor_count, sizeof *m->tensors);
    if (!m->tensors)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %u tensors", file->path, m->tensor_count);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        if ((status = read_tensor(&m->tensors[i], file, &file->tensors[i], err)))
            return status;
    }
    return check_overlaps(m, file, memory, err);
}

/* ---- The model -------------------------------------------------------------------------------- */

mk_status gguf_read(source_model *m, const source_map *map, const char *path, bool vocab_only, pool *memory,
                    mk_error *err)
{
    gguf file;
    char name[QUANT_NAME];
    *m = (source_model){0};
    mk_status status = gguf_parse(&file, map, path, memory, err);
    if (status || (status = gguf_string(&file, "general.architecture", !vocab_only, &m->architecture, err)))
        return status;
    if (!vocab_only && !source_is(m->architecture, "llama"))
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: architecture %s is not supported, expected llama (--vocab-only takes the "
                          "vocabulary of any)",
                          path, quant_name(m->architecture, name));
    if ((status = gguf_string(&file, "general.name", false, &m->name, err)) ||
        (status = gguf_string(&file, "general.license", false, &m->license, err)) ||
        (status = gguf_read_vocab(&m->vocab, &file, memory, err)))
        return status;
    if (vocab_only) {
        m->architecture = (source_string){"", 0};
        m->vocabulary = m->vocab.count;
        return MK_OK;
    }
    if ((status = read_hyper_parameters(m, &file, err)))
        return status;
    return read_tensors(m, &file, memory, err);
}

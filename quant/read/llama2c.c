#include "quant/read/llama2c.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "image/mkn.h"
#include "quant/read/fail.h"

#define AK42 0x616b3432u
#define VERSIONED_HEADER 256u

typedef struct layout {
    source_model *model;
    const source_map *map;
    const char *path;
    pool *memory;
    uint32_t version, group_size;
    bool tied;
    uint64_t at;   /* next byte; past the end once `short_file` */
    bool too_long; /* for the file, or for 64 bits */
} layout;

/* ---- Header ----------------------------------------------------------------------------------- */

static mk_status check_range(const layout *l, const char *what, int32_t value, uint32_t high, uint32_t *out,
                             mk_error *err)
{
    if (value < 1 || (uint32_t)value > high)
        return quant_fail(err, MK_ERR_FORMAT,
                          "%s: not a GGUF file, and no llama2.c model either: %s would be %d, expected 1 to %u",
                          l->path, what, (int)value, high);
    *out = (uint32_t)value;
    return MK_OK;
}

static mk_status read_sizes(const layout *l, const uint8_t *p, mk_error *err)
{
    source_model *m = l->model;
    int32_t v[7];
    mk_status status;
    for (int i = 0; i < 7; i++)
        v[i] = (int32_t)mk_load32(p + 4 * i);
    if (l->version == 0 && v[5] < 0 && v[5] != INT32_MIN) /* the sign says whether the head is tied */
        v[5] = -v[5];
    if ((status = check_range(l, "dim", v[0], MKN_MAX_WIDTH, &m->hidden, err)) ||
        (status = check_range(l, "hidden_dim", v[1], MKN_MAX_WIDTH, &m->intermediate, err)) ||
        (status = check_range(l, "n_layers", v[2], MKN_MAX_LAYERS, &m->layers, err)) ||
        (status = check_range(l, "n_heads", v[3], MKN_MAX_HEADS, &m->heads, err)) ||
        (status = check_range(l, "n_kv_heads", v[4], MKN_MAX_HEADS, &m->kv_heads, err)) ||
        (status = check_range(l, "vocab_size", v[5], MKN_MAX_VOCABULARY, &m->vocabulary, err)) ||
        (status = check_range(l, "max_seq_len", v[6], MKN_MAX_CONTEXT, &m->context, err)))
        return status;
    if (m->hidden % m->heads)
        return quant_fail(err, MK_ERR_FORMAT, "%s: dim %u does not divide into %u heads", l->path, m->hidden,
                          m->heads);
    m->head_size = m->hidden / m->heads;
    m->rope_dims = m->head_size;
    m->rope_neighbours = true;
    m->rope_base = 10000.0f; /* fixed in llama2.c, as is the epsilon */
    m->norm_epsilon = 1e-5f;
    m->architecture = source_text("llama");
    return MK_OK;
}

static mk_status read_versioned_header(layout *l, mk_error *err)
{
    const uint8_t *p = l->map->data;
    l->version = mk_load32(p + 4);
    if (l->version != 1 && l->version != 2)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: llama2.c version %d, expected 1 (float32) or 2 (int8), or the legacy format",
                          l->path, (int)(int32_t)l->version);
    if (p[36] > 1)
        return quant_fail(err, MK_ERR_FORMAT, "%s: shared_classifier is %u, expected 0 or 1", l->path, p[36]);
    l->tied = p[36] == 1;
    l->at = VERSIONED_HEADER;
    if (l->version == 2) {
        l->group_size = mk_load32(p + 37);
        if (l->group_size == 0 || l->group_size > MKN_MAX_WIDTH)
            return quant_fail(err, MK_ERR_FORMAT, "%s: group_size is %d, expected 1 to %u", l->path,
                              (int)(int32_t)l->group_size, MKN_MAX_WIDTH);
    }
    return read_sizes(l, p + 8, err);
}

static mk_status read_header(layout *l, mk_error *err)
{
    const uint8_t *p = l->map->data;
    if (l->map->size >= 4 && mk_load32(p) == AK42) {
        if (l->map->size < VERSIONED_HEADER)
            return quant_fail(err, MK_ERR_FORMAT, "%s: truncated: %llu bytes, the header alone has %u", l->path,
                              (unsigned long long)l->map->size, VERSIONED_HEADER);
        return read_versioned_header(l, err);
    }
    if (l->map->size < 28)
        return quant_fail(err, MK_ERR_FORMAT, "%s: neither a GGUF file nor a llama2.c model (%llu bytes)",
                          l->path, (unsigned long long)l->map->size);
    l->tied = (int32_t)mk_load32(p + 20) > 0;
    l->at = 28;
    return read_sizes(l, p, err);
}

/* ---- Tensors ---------------------------------------------------------------------------------- */

static const uint8_t *take(layout *l, uint64_t bytes)
{
    if (l->too_long || bytes > l->map->size - l->at) {
        l->too_long = true;
        return l->map->data;
    }
    const uint8_t *p = l->map->data + l->at;
    l->at += bytes;
    return p;
}

/* Sizes are at most 2^22 x 2^20, so no product here overflows. */
static void take_tensor(layout *l, const char *name, source_type type, uint64_t rows, uint64_t cols)
{
    source_model *m = l->model;
    uint64_t size = type == SOURCE_F32 ? 4 : 1;
    source_tensor *t = &m->tensors[m->tensor_count++];
    *t = (source_tensor){
        .name = source_text(name), .type = type, .rows = rows, .cols = cols, .row_bytes = size * cols};
    t->data = take(l, rows * t->row_bytes);
    if (type == SOURCE_I8_GROUP) {
        t->group_size = l->group_size;
        if (rows * cols % l->group_size)
            l->too_long = true;
        t->group_scales = take(l, rows * cols / l->group_size * 4);
    }
}

static char *layer_name(const layout *l, uint32_t layer, const char *kind)
{
    char *name = pool_take(l->memory, 48, 1);
    if (name)
        snprintf(name, 48, "blk.%u.%s.weight", layer, kind);
    return name;
}

/* One tensor of each layer. */
static bool take_layers(layout *l, const char *kind, source_type type, uint64_t rows, uint64_t cols)
{
    for (uint32_t i = 0; i < l->model->layers; i++) {
        char *name = layer_name(l, i, kind);
        if (!name)
            return false;
        take_tensor(l, name, type, rows, cols);
    }
    return true;
}

static bool take_legacy(layout *l)
{
    const source_model *m = l->model;
    uint64_t kv = (uint64_t)m->kv_heads * m->head_size;
    take_tensor(l, "token_embd.weight", SOURCE_F32, m->vocabulary, m->hidden);
    bool ok = take_layers(l, "attn_norm", SOURCE_F32, 1, m->hidden) &&
              take_layers(l, "attn_q", SOURCE_F32, m->hidden, m->hidden) &&
              take_layers(l, "attn_k", SOURCE_F32, kv, m->hidden) &&
              take_layers(l, "attn_v", SOURCE_F32, kv, m->hidden) &&
              take_layers(l, "attn_output", SOURCE_F32, m->hidden, m->hidden) &&
              take_layers(l, "ffn_norm", SOURCE_F32, 1, m->hidden) &&
              take_layers(l, "ffn_gate", SOURCE_F32, m->intermediate, m->hidden) &&
              take_layers(l, "ffn_down", SOURCE_F32, m->hidden, m->intermediate) &&
              take_layers(l, "ffn_up", SOURCE_F32, m->intermediate, m->hidden);
    take_tensor(l, "output_norm.weight", SOURCE_F32, 1, m->hidden);
    /* cosines and sines of RoPE, which follow from the head size */
    take(l, (uint64_t)m->context * (m->head_size / 2) * 4);
    take(l, (uint64_t)m->context * (m->head_size / 2) * 4);
    if (!l->tied)
        take_tensor(l, "output.weight", SOURCE_F32, m->vocabulary, m->hidden);
    return ok;
}

static bool take_versioned(layout *l)
{
    const source_model *m = l->model;
    source_type type = l->version == 2 ? SOURCE_I8_GROUP : SOURCE_F32;
    uint64_t kv = (uint64_t)m->kv_heads * m->head_size;
    bool ok = take_layers(l, "attn_norm", SOURCE_F32, 1, m->hidden) &&
              take_layers(l, "ffn_norm", SOURCE_F32, 1, m->hidden);
    take_tensor(l, "output_norm.weight", SOURCE_F32, 1, m->hidden);
    take_tensor(l, "token_embd.weight", type, m->vocabulary, m->hidden);
    ok = ok && take_layers(l, "attn_q", type, m->hidden, m->hidden) &&
         take_layers(l, "attn_k", type, kv, m->hidden) && take_layers(l, "attn_v", type, kv, m->hidden) &&
         take_layers(l, "attn_output", type, m->hidden, m->hidden) &&
         take_layers(l, "ffn_gate", type, m->intermediate, m->hidden) &&
         take_layers(l, "ffn_down", type, m->hidden, m->intermediate) &&
         take_layers(l, "ffn_up", type, m->intermediate, m->hidden);
    if (!l->tied)
        take_tensor(l, "output.weight", type, m->vocabulary, m->hidden);
    return ok;
}

/* Early exports put all scales behind all codes under the same version number. Read in the order of
 * today's, codes then appear as scales, about half of them negative. */
static mk_status check_scales(const layout *l, mk_error *err)
{
    const source_model *m = l->model;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const source_tensor *t = &m->tensors[i];
        if (t->type != SOURCE_I8_GROUP)
            continue;
        for (uint64_t g = 0; g < t->rows * t->cols / t->group_size; g++) {
            float scale = mk_float_from_bits(mk_load32(t->group_scales + 4 * g));
            if (!(scale >= 0 && scale - scale == 0))
                return quant_fail(
                    err, MK_ERR_FORMAT,
                    "%s: scale %llu of tensor %.*s is %g, expected a finite number from 0: damaged, or "
                    "an early version 2 that has all scales at its end; export the model anew",
                    l->path, (unsigned long long)g, (int)t->name.length, t->name.text, (double)scale);
        }
        source_map_release(l->map, t->group_scales, t->rows * t->cols / t->group_size * 4);
    }
    return MK_OK;
}

mk_status llama2c_read(source_model *m, const source_map *map, const char *path, pool *memory, mk_error *err)
{
    layout l = {.model = m, .map = map, .path = path, .memory = memory};
    *m = (source_model){0};
    mk_status status = read_header(&l, err);
    if (status)
        return status;
    m->tensors = pool_take(memory, 9 * (uint64_t)m->layers + 3, sizeof *m->tensors);
    if (!m->tensors || !(l.version == 0 ? take_legacy(&l) : take_versioned(&l)))
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for the tensors of %u layers", path,
                          m->layers);
    if (l.too_long || l.at != map->size)
        return quant_fail(
            err, MK_ERR_FORMAT,
            "%s: a llama2.c model of these sizes (dim %u, hidden_dim %u, %u layers, %u heads, %u kv heads, "
            "%u tokens, context %u) %s; it is damaged or of another format",
            path, m->hidden, m->intermediate, m->layers, m->heads, m->kv_heads, m->vocabulary, m->context,
            l.too_long ? "needs more bytes than the file has" : "ends before the file does");
    return check_scales(&l, err);
}

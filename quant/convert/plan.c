#include "quant/convert/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "image/image.h"
#include "quant/read/fail.h"

enum extent { ONE, VOCABULARY, HIDDEN, INTERMEDIATE, Q_ROWS, KV_ROWS, HEAD };

/* The source's tensors in the order of the image. `name` is what follows "blk.N." for those of layers. */
typedef struct slot {
    uint32_t role;
    const char *name;
    bool layer, matrix, by_heads;
    uint32_t needs; /* flag without which the image has no such tensor */
    enum extent rows, cols;
} slot;

static const slot slots[] = {
    {MKN_TOKEN_EMBEDDING, "token_embd.weight", false, true, false, 0, VOCABULARY, HIDDEN},
    {MKN_ATTENTION_NORM, "attn_norm.weight", true, false, false, 0, ONE, HIDDEN},
    {MKN_Q, "attn_q.weight", true, true, true, 0, Q_ROWS, HIDDEN},
    {MKN_K, "attn_k.weight", true, true, true, 0, KV_ROWS, HIDDEN},
    {MKN_V, "attn_v.weight", true, true, false, 0, KV_ROWS, HIDDEN},
    {MKN_Q_BIAS, "attn_q.bias", true, false, true, MKN_ATTENTION_BIAS, ONE, Q_ROWS},
    {MKN_K_BIAS, "attn_k.bias", true, false, true, MKN_ATTENTION_BIAS, ONE, KV_ROWS},
    {MKN_V_BIAS, "attn_v.bias", true, false, false, MKN_ATTENTION_BIAS, ONE, KV_ROWS},
    {MKN_Q_NORM, "attn_q_norm.weight", true, false, true, MKN_QK_NORM, ONE, HEAD},
    {MKN_K_NORM, "attn_k_norm.weight", true, false, true, MKN_QK_NORM, ONE, HEAD},
    {MKN_O, "attn_output.weight", true, true, false, 0, HIDDEN, Q_ROWS},
    {MKN_MLP_NORM, "ffn_norm.weight", true, false, false, 0, ONE, HIDDEN},
    {MKN_GATE, "ffn_gate.weight", true, true, false, 0, INTERMEDIATE, HIDDEN},
    {MKN_UP, "ffn_up.weight", true, true, false, 0, INTERMEDIATE, HIDDEN},
    {MKN_DOWN, "ffn_down.weight", true, true, false, 0, HIDDEN, INTERMEDIATE},
    {MKN_OUTPUT_NORM, "output_norm.weight", false, false, false, 0, ONE, HIDDEN},
    {MKN_OUTPUT_HEAD, "output.weight", false, true, false, 0, VOCABULARY, HIDDEN},
};
enum { SLOTS = sizeof slots / sizeof slots[0], FIRST_LAYER_SLOT = 1, LAST_LAYER_SLOT = SLOTS - 3 };

const char *plan_role_name(uint32_t role)
{
    static const char *const names[MKN_ROLES] = {"",
                                                 "q4 tables",
                                                 "rope frequencies",
                                                 "token embedding",
                                                 "attention norm",
                                                 "q",
                                                 "k",
                                                 "v",
                                                 "o",
                                                 "q bias",
                                                 "k bias",
                                                 "v bias",
                                                 "q norm",
                                                 "k norm",
                                                 "mlp norm",
                                                 "gate",
                                                 "up",
                                                 "down",
                                                 "output norm",
                                                 "output head"};
    return role < MKN_ROLES ? names[role] : "";
}

uint32_t plan_source_row(const source_model *m, uint32_t row)
{
    if (!m->rope_neighbours)
        return row;
    uint32_t place = row % m->head_size, half = m->rope_dims / 2;
    uint32_t head = row - place;
    if (place < half)
        return head + 2 * place;
    if (place < m->rope_dims)
        return head + 2 * (place - half) + 1;
    return row;
}

/* ---- Finding ---------------------------------------------------------------------------------- */

typedef struct finder {
    image_plan *plan;
    const char *path;
    const plan_types *types;
    const source_tensor **found; /* [layers][SLOTS]; those outside of layers are in row 0 */
} finder;

/* Splits "blk.12.rest"; false where the name is not of this form, with the number as printf writes it. */
static bool split_layer(source_string name, uint32_t layers, uint32_t *layer, source_string *rest)
{
    size_t at = 4;
    uint32_t n = 0;
    if (name.length < 7 || memcmp(name.text, "blk.", 4) != 0)
        return false;
    for (; at < name.length && name.text[at] >= '0' && name.text[at] <= '9' && n <= layers; at++)
        n = 10 * n + (uint32_t)(name.text[at] - '0');
    if (at == 4 || at + 1 >= name.length || name.text[at] != '.' || (name.text[4] == '0' && at > 5) ||
        n >= layers)
        return false;
    *layer = n;
    *rest = (source_string){name.text + at + 1, name.length - at - 1};
    return true;
}

static const source_tensor **place_of(const finder *f, source_string name)
{
    uint32_t layer = 0;
    source_string rest = name;
    bool in_layer = split_layer(name, f->plan->model->layers, &layer, &rest);
    for (uint32_t i = 0; i < SLOTS; i++)
        if (slots[i].layer == in_layer && source_is(rest, slots[i].name))
            return &f->found[(size_t)layer * SLOTS + i];
    return NULL;
}

static mk_status find_all(const finder *f, mk_error *err)
{
    const source_model *m = f->plan->model;
    char name[QUANT_NAME];
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const source_tensor **place = place_of(f, m->tensors[i].name);
        if (!place)
            return quant_fail(err, MK_ERR_UNSUPPORTED,
                              "%s: tensor %s is not known in a llama model of %u layers", f->path,
                              quant_name(m->tensors[i].name, name), m->layers);
        if (*place)
            return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s occurs twice", f->path,
                              quant_name(m->tensors[i].name, name));
        *place = &m->tensors[i];
    }
    return MK_OK;
}

static void find_flags(const finder *f)
{
    uint32_t flags = f->found[SLOTS - 1] ? 0 : MKN_TIED;
    for (uint32_t layer = 0; layer < f->plan->model->layers; layer++)
        for (uint32_t i = 0; i < SLOTS; i++)
            if (slots[i].needs && f->found[(size_t)layer * SLOTS + i])
                flags |= slots[i].needs;
    f->plan->flags = flags;
}

/* ---- Checking and placing --------------------------------------------------------------------- */

static uint32_t extent_of(const source_model *m, enum extent e)
{
    switch (e) {
    case VOCABULARY:
        return m->vocabulary;
    case HIDDEN:
        return m->hidden;
    case INTERMEDIATE:
        return m->intermediate;
    case Q_ROWS:
        return m->heads * m->head_size;
    case KV_ROWS:
        return m->kv_heads * m->head_size;
    case HEAD:
        return m->head_size;
    case ONE:
        break;
    }
    return 1;
}

static uint32_t type_of(const slot *s, const plan_types *types)
{
    if (!s->matrix)
        return MKN_F32;
    if (s->role == MKN_TOKEN_EMBEDDING)
        return types->embedding;
    return s->role == MKN_OUTPUT_HEAD ? types->head : types->layers;
}

/* Adds a tensor; its codes and scales follow what is there, each at a multiple of 64. */
static void place(image_plan *plan, mkn_tensor record, const source_tensor *source, bool by_heads)
{
    /* the limits of check_model keep sizes below 2^45 */
    (void)mkn_tensor_sizes(record.type, record.rows, record.cols, &record.size, &record.scales_size);
    record.offset = plan->data_size;
    plan->data_size = mk_align_up(plan->data_size + record.size, MKN_ALIGN);
    if (record.scales_size) {
        record.scales_offset = plan->data_size;
        plan->data_size = mk_align_up(plan->data_size + record.scales_size, MKN_ALIGN);
    }
    plan->tensors[plan->tensor_count++] = (planned_tensor){record, source, by_heads};
}

static mk_status add_slot(const finder *f, uint32_t index, uint32_t layer, mk_error *err)
{
    const slot *s = &slots[index];
    const source_model *m = f->plan->model;
    const source_tensor *t = f->found[(size_t)layer * SLOTS + index];
    uint32_t rows = extent_of(m, s->rows), cols = extent_of(m, s->cols);
    if ((s->needs & f->plan->flags) != s->needs || (s->role == MKN_OUTPUT_HEAD && f->plan->flags & MKN_TIED))
        return MK_OK;
    if (!t && s->layer)
        return quant_fail(err, MK_ERR_FORMAT, "%s: tensor blk.%u.%s is missing", f->path, layer, s->name);
    if (!t)
        return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s is missing", f->path, s->name);
    if (t->rows != rows || t->cols != cols)
        return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %.*s has %llu rows of %llu, expected %u of %u",
                          f->path, (int)t->name.length, t->name.text, (unsigned long long)t->rows,
                          (unsigned long long)t->cols, rows, cols);
    mkn_tensor record = {.role = (uint16_t)s->role,
                         .type = (uint16_t)type_of(s, f->types),
                         .layer = layer,
                         .rows = rows,
                         .cols = cols};
    place(f->plan, record, t, s->by_heads && m->rope_neighbours);
    return MK_OK;
}

static mk_status add_all(const finder *f, mk_error *err)
{
    image_plan *plan = f->plan;
    const source_model *m = plan->model;
    bool head_q4 = !(plan->flags & MKN_TIED) && f->types->head == MKN_Q4;
    if (f->types->layers == MKN_Q4 || f->types->embedding == MKN_Q4 || head_q4)
        place(plan, (mkn_tensor){.role = MKN_Q4_TABLES, .type = MKN_I8, .rows = MKN_TABLES, .cols = MKN_LEVELS},
              NULL, false);
    place(plan,
          (mkn_tensor){.role = MKN_ROPE_FREQUENCIES, .type = MKN_F32, .rows = 1, .cols = m->rope_dims / 2},
          NULL, false);
    mk_status status = MK_OK;
    for (uint32_t i = 0; !status && i < FIRST_LAYER_SLOT; i++)
        status = add_slot(f, i, 0, err);
    for (uint32_t layer = 0; !status && layer < m->layers; layer++)
        for (uint32_t i = FIRST_LAYER_SLOT; !status && i <= LAST_LAYER_SLOT; i++)
            status = add_slot(f, i, layer, err);
    for (uint32_t i = LAST_LAYER_SLOT + 1; !status && i < SLOTS; i++)
        status = add_slot(f, i, 0, err);
    return status;
}

/* ---- The model -------------------------------------------------------------------------------- */

static mk_status check_model(const source_model *m, const char *path, mk_error *err)
{
    const struct {
        const char *name;
        uint32_t value, high;
    } ranges[] = {
        {"the number of layers", m->layers, MKN_MAX_LAYERS},
        {"the number of heads", m->heads, MKN_MAX_HEADS},
        {"the number of KV heads", m->kv_heads, m->heads},
        {"the head size", m->head_size, MKN_MAX_HEAD_SIZE},
        {"the embedding length", m->hidden, MKN_MAX_WIDTH},
        {"the feed-forward length", m->intermediate, MKN_MAX_WIDTH},
        {"the vocabulary", m->vocabulary, MKN_MAX_VOCABULARY},
        {"the context length", m->context, MKN_MAX_CONTEXT},
        {"the number of rotated values", m->rope_dims, m->head_size},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].value < 1 || ranges[i].value > ranges[i].high)
            return quant_fail(err, MK_ERR_FORMAT, "%s: %s is %u, expected 1 to %u", path, ranges[i].name,
                              ranges[i].value, ranges[i].high);
    if (m->heads % m->kv_heads)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %u heads do not share %u KV heads evenly", path, m->heads,
                          m->kv_heads);
    if (m->rope_dims % 2)
        return quant_fail(err, MK_ERR_FORMAT, "%s: RoPE rotates %u values of a head, expected an even number",
                          path, m->rope_dims);
    if (!(m->norm_epsilon > 1e-12f && m->norm_epsilon < 1.0f))
        return quant_fail(err, MK_ERR_FORMAT, "%s: the norm epsilon is %g, expected one between 1e-12 and 1",
                          path, (double)m->norm_epsilon);
    if (!(m->rope_base >= 1.0f && m->rope_base < 1e30f))
        return quant_fail(err, MK_ERR_FORMAT, "%s: the RoPE base is %g, expected one from 1 to 1e30", path,
                          (double)m->rope_base);
    return MK_OK;
}

bool plan_is_tied(const source_model *model)
{
    for (uint32_t i = 0; i < model->tensor_count; i++)
        if (source_is(model->tensors[i].name, slots[SLOTS - 1].name))
            return false;
    return true;
}

/* Whether q4 tables can fit the grid on which these weights already lie. On SmolLM2-135M from Q4_1, SNR is
 * 27.1 dB without the transform and 23.5 dB with it, perplexity 20.9 and 23.3 (float32: 19.8). */
static bool has_grid(const planned_tensor *t)
{
    return t->source && t->record.type == MKN_Q4 &&
           (t->source->type == SOURCE_Q4_0 || t->source->type == SOURCE_Q4_1);
}

/* How many tensors from number i on share one input. */
static uint32_t shared_input(const image_plan *plan, uint32_t i)
{
    uint16_t role = plan->tensors[i].record.role;
    return role == MKN_Q ? 3 : role == MKN_GATE ? 2 : 1;
}

/* Every matrix is transformed, but for those with an input all of whose matrices have a grid to keep. */
static void choose_transforms(image_plan *plan)
{
    for (uint32_t i = 0, count; i < plan->tensor_count; i += count) {
        bool grid = true;
        count = shared_input(plan, i);
        for (uint32_t j = i; j < i + count; j++)
            grid = grid && has_grid(&plan->tensors[j]);
        for (uint32_t j = i; j < i + count; j++) {
            mkn_tensor *record = &plan->tensors[j].record;
            bool matrix = record->type == MKN_Q8 || record->type == MKN_Q4;
            record->flags = matrix && !grid ? MKN_TRANSFORMED : 0;
        }
    }
}

mk_status plan_image(image_plan *plan, const source_model *model, const plan_types *types, const char *path,
                     pool *memory, mk_error *err)
{
    *plan = (image_plan){.model = model};
    finder f = {.plan = plan, .path = path, .types = types};
    mk_status status = check_model(model, path, err);
    if (status)
        return status;
    f.found = pool_take(memory, (uint64_t)model->layers * SLOTS, sizeof *f.found);
    plan->tensors = pool_take(memory, (uint64_t)model->layers * SLOTS + 5, sizeof *plan->tensors);
    if (!f.found || !plan->tensors)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for the tensors of %u layers", path,
                          model->layers);
    if ((status = find_all(&f, err)))
        return status;
    find_flags(&f);
    status = add_all(&f, err);
    if (!status)
        choose_transforms(plan);
    return status;
}

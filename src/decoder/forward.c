/* The forward pass of a decoder-only transformer of the Llama kind (Touvron et al. 2023): RMS norm,
 * rotary embeddings, grouped-query attention, SwiGLU. Everything that varies between models is data. */
#include "decoder/context.h"

#include <string.h>

#include "base/math.h"

/* ---- Matrices -------------------------------------------------------------------------------- */

/* One matrix applied to the quantized input: y[t * stride + row]. */
typedef struct projection {
    const mk_matrix *w;
    float *y;
    size_t stride;
} projection;

typedef struct projection_job {
    mk_context *ctx;
    const mk_activations *x;
    uint32_t tokens;
    const projection *parts;
    uint32_t count;
    uint32_t chunk; /* row groups of one item */
} projection_job;

static uint32_t chunks_of(const mk_matrix *w, uint32_t chunk)
{
    return (w->groups + chunk - 1) / chunk;
}

static void project_item(void *argument, uint32_t worker, uint32_t item)
{
    const projection_job *job = argument;
    const projection *part = job->parts;
    while (item >= chunks_of(part->w, job->chunk))
        item -= chunks_of(part++->w, job->chunk);
    uint32_t begin = item * job->chunk;
    uint32_t end = begin + job->chunk < part->w->groups ? begin + job->chunk : part->w->groups;
    const mk_kernels *kernels = job->ctx->kernels;
    if (job->tokens == 1)
        kernels->gemv(part->w, begin, end, job->x, part->y);
    else
        kernels->gemm(part->w, begin, end, job->x, job->tokens, part->y, part->stride,
                      job->ctx->scratch + worker * job->ctx->scratch_stride);
}

/* Applies several matrices to the same input. */
static void project(mk_context *ctx, const mk_activations *x, uint32_t tokens, const projection *parts,
                    uint32_t count)
{
    uint32_t groups = 0, items = 0;
    for (uint32_t i = 0; i < count; i++)
        groups += parts[i].w->groups;
    /* Several items a worker even the load; below 8 groups an item costs more than it is worth. */
    uint32_t chunk = groups / (ctx->params.threads * 8);
    chunk = ctx->params.threads == 1 ? groups : chunk < 8 ? 8 : chunk > 64 ? 64 : chunk;
    for (uint32_t i = 0; i < count; i++)
        items += chunks_of(parts[i].w, chunk);
    projection_job job = {ctx, x, tokens, parts, count, chunk};
    mk_pool_run(ctx->pool, project_item, &job, items,
                (uint64_t)groups * MKN_GROUP * x->blocks * MKN_BLOCK * tokens);
}

/* What norms, transforms and quantization take for each value, in multiply-accumulates of a matrix. */
#define VALUE_WORK 16u

/* ---- Steps that work on one token at a time ---------------------------------------------------- */

typedef struct token_job {
    mk_context *ctx;
    const mk_layer_weights *layer;
    uint32_t layer_index;
    const float *norm; /* norm_item: weights of the norm */
    const float *rows; /* quantize and norm items: first row of the input */
    size_t stride;
    uint32_t cols;
    bool transform; /* as the matrices that follow want their input */
} token_job;

/* Quantizes row t of the job as row t of ctx->input. */
static void quantize_row(const token_job *job, const float *x, uint32_t t)
{
    mk_activations *in = &job->ctx->input;
    size_t supers = mk_super_blocks(in->blocks);
    job->ctx->kernels->quantize(x, job->cols, job->transform, in->codes + (size_t)t * in->blocks * MKN_BLOCK,
                                in->scales + t * supers, in->sums + t * supers);
}

static void quantize_item(void *argument, uint32_t worker, uint32_t t)
{
    (void)worker;
    const token_job *job = argument;
    quantize_row(job, job->rows + t * job->stride, t);
}

static void norm_item(void *argument, uint32_t worker, uint32_t t)
{
    (void)worker;
    const token_job *job = argument;
    mk_context *ctx = job->ctx;
    float *normed = ctx->normed + (size_t)t * ctx->hidden_stride;
    ctx->kernels->rms_norm(job->rows + t * job->stride, job->norm, job->cols, ctx->model->norm_epsilon, normed);
    quantize_row(job, normed, t);
}

/* Runs a step that leaves ctx->input as the input of matrix w (and of those that share it). */
static void prepare_input(mk_context *ctx, mk_item item, const mk_matrix *w, token_job job, uint32_t tokens)
{
    job.ctx = ctx;
    job.cols = w->cols;
    job.transform = w->transformed;
    ctx->input.blocks = w->blocks;
    mk_pool_run(ctx->pool, item, &job, tokens, (uint64_t)tokens * w->cols * VALUE_WORK);
}

/* The input of w is the RMS norm of the rows. */
static void norm_input(mk_context *ctx, const float *norm, const float *rows, const mk_matrix *w,
                       uint32_t tokens)
{
    token_job job = {.norm = norm, .rows = rows, .stride = ctx->hidden_stride};
    prepare_input(ctx, norm_item, w, job, tokens);
}

static void add_rows(mk_context *ctx, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++)
        ctx->kernels->add(ctx->residual + (size_t)t * ctx->hidden_stride,
                          ctx->normed + (size_t)t * ctx->hidden_stride, ctx->model->hidden);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Sines and cosines of one token for every set of frequencies. */
static void angles_item(void *argument, uint32_t worker, uint32_t t)
{
    (void)worker;
    mk_context *ctx = ((token_job *)argument)->ctx;
    uint32_t n = ctx->weights.rope_sets * (ctx->model->rope_dims / 2);
    for (uint32_t i = 0; i < n; i++) {
        double angle = (double)(ctx->position + t) * (double)ctx->weights.rope_frequencies[i];
        mk_sincos(angle, &ctx->sines[(size_t)t * n + i], &ctx->cosines[(size_t)t * n + i]);
    }
}

/* Spreads outliers over each head, so that it quantizes well. Queries and keys both are transformed, which
 * leaves their products as they are; of values it is undone after attention. */
static void transform_heads(const mk_context *ctx, float *x, uint32_t heads)
{
    for (uint32_t h = 0; h < heads; h++)
        ctx->kernels->hadamard(x + h * ctx->model->head_size, ctx->model->head_size);
}

/* Biases, norms and rotation of one token's queries or keys. */
static void finish_heads(mk_context *ctx, const mk_layer_weights *layer, uint32_t t, float *x, uint32_t heads,
                         const float *bias, const float *norm)
{
    const mk_kernels *kernels = ctx->kernels;
    uint32_t size = ctx->model->head_size, half = ctx->model->rope_dims / 2;
    size_t row = ((size_t)t * ctx->weights.rope_sets + layer->rope_set) * half;
    if (bias)
        kernels->add(x, bias, heads * size);
    for (uint32_t h = 0; norm && h < heads; h++)
        kernels->rms_norm(x + h * size, norm, size, ctx->model->norm_epsilon, x + h * size);
    kernels->rope(x, heads, size, half, ctx->cosines + row, ctx->sines + row);
    transform_heads(ctx, x, heads);
}

/* Finishes q, k and v of one token, and stores k and v in the cache. */
static void store_item(void *argument, uint32_t worker, uint32_t t)
{
    (void)worker;
    const token_job *job = argument;
    mk_context *ctx = job->ctx;
    const mk_layer_weights *layer = job->layer;
    uint32_t size = ctx->model->head_size, kv_heads = ctx->model->kv_heads;
    float *k = ctx->k + (size_t)t * ctx->kv_stride, *v = ctx->v + (size_t)t * ctx->kv_stride;
    finish_heads(ctx, layer, t, ctx->q + (size_t)t * ctx->q_stride, ctx->model->heads, layer->q_bias,
                 layer->q_norm);
    finish_heads(ctx, layer, t, k, kv_heads, layer->k_bias, layer->k_norm);
    if (layer->v_bias)
        ctx->kernels->add(v, layer->v_bias, kv_heads * size);
    transform_heads(ctx, v, kv_heads);
    for (uint32_t h = 0; h < kv_heads; h++) {
        mk_kv_plane keys = mk_kv_cache_plane(&ctx->cache, 0, job->layer_index, h);
        mk_kv_plane values = mk_kv_cache_plane(&ctx->cache, 1, job->layer_index, h);
        ctx->kernels->kv_store[ctx->params.kv](k + h * size, size, keys, ctx->position + t);
        ctx->kernels->kv_store[ctx->params.kv](v + h * size, size, values, ctx->position + t);
    }
}

/* Attention of one token and one KV head, with all query heads that share it. */
static void attend_item(void *argument, uint32_t worker, uint32_t item)
{
    const token_job *job = argument;
    mk_context *ctx = job->ctx;
    const mkn_header *m = ctx->model;
    uint32_t t = item / m->kv_heads, head = item % m->kv_heads, group = m->heads / m->kv_heads;
    uint32_t seen = ctx->position + t + 1, window = job->layer->window;
    uint32_t first = window && seen > window ? seen - window : 0;
    size_t offset = (size_t)t * ctx->q_stride + (size_t)head * group * m->head_size;
    mk_attention a = {.keys = mk_kv_cache_plane(&ctx->cache, 0, job->layer_index, head),
                      .values = mk_kv_cache_plane(&ctx->cache, 1, job->layer_index, head),
                      .head_size = m->head_size,
                      .first = first,
                      .count = seen - first,
                      .scale = 1.0f / mk_sqrt((float)m->head_size),
                      .queries = ctx->q + offset,
                      .group = group,
                      .out = ctx->attended + offset,
                      .scratch = ctx->scratch + worker * ctx->scratch_stride};
    ctx->kernels->attend[ctx->params.kv](&a);
    transform_heads(ctx, a.out, group);
}

static void attention_half(mk_context *ctx, uint32_t index, uint32_t tokens)
{
    const mk_layer_weights *layer = &ctx->weights.layers[index];
    const mkn_header *m = ctx->model;
    token_job job = {.ctx = ctx, .layer = layer, .layer_index = index};

    norm_input(ctx, layer->attention_norm, ctx->residual, &layer->q, tokens);
    const projection qkv[] = {{&layer->q, ctx->q, ctx->q_stride},
                              {&layer->k, ctx->k, ctx->kv_stride},
                              {&layer->v, ctx->v, ctx->kv_stride}};
    project(ctx, &ctx->input, tokens, qkv, 3);
    mk_pool_run(ctx->pool, store_item, &job, tokens, (uint64_t)tokens * layer->q.rows * VALUE_WORK);
    mk_pool_run(ctx->pool, attend_item, &job, tokens * m->kv_heads,
                (uint64_t)tokens * (ctx->position + tokens) * layer->q.rows * 2);
    prepare_input(ctx, quantize_item, &layer->o, (token_job){.rows = ctx->attended, .stride = ctx->q_stride},
                  tokens);
    const projection o = {&layer->o, ctx->normed, ctx->hidden_stride};
    project(ctx, &ctx->input, tokens, &o, 1);
    add_rows(ctx, tokens);
}

/* ---- MLP ------------------------------------------------------------------------------------- */

static void silu_item(void *argument, uint32_t worker, uint32_t t)
{
    (void)worker;
    const token_job *job = argument;
    mk_context *ctx = job->ctx;
    float *gate = ctx->gate + t * job->stride;
    ctx->kernels->silu_multiply(gate, ctx->up + t * job->stride, job->cols);
    quantize_row(job, gate, t);
}

static void mlp_half(mk_context *ctx, uint32_t index, uint32_t tokens)
{
    const mk_layer_weights *layer = &ctx->weights.layers[index];
    norm_input(ctx, layer->mlp_norm, ctx->residual, &layer->gate, tokens);
    const projection gate_up[] = {{&layer->gate, ctx->gate, ctx->mlp_stride},
                                  {&layer->up, ctx->up, ctx->mlp_stride}};
    project(ctx, &ctx->input, tokens, gate_up, 2);
    prepare_input(ctx, silu_item, &layer->down, (token_job){.stride = ctx->mlp_stride}, tokens);
    const projection down = {&layer->down, ctx->normed, ctx->hidden_stride};
    project(ctx, &ctx->input, tokens, &down, 1);
    add_rows(ctx, tokens);
}

/* ---- The whole ------------------------------------------------------------------------------- */

void mk_forward(mk_context *ctx, const int32_t *tokens, uint32_t count, uint32_t rows, float *logits)
{
    token_job job = {.ctx = ctx};
    for (uint32_t t = 0; t < count; t++)
        mk_dequantize_row(&ctx->weights.embedding, (uint32_t)tokens[t],
                          ctx->residual + (size_t)t * ctx->hidden_stride);
    mk_pool_run(ctx->pool, angles_item, &job, count, (uint64_t)count * ctx->model->rope_dims * VALUE_WORK);
    for (uint32_t i = 0; i < ctx->model->layers; i++) {
        attention_half(ctx, i, count);
        mlp_half(ctx, i, count);
    }
    if (rows == 0)
        return;
    const float *last = ctx->residual + (size_t)(count - rows) * ctx->hidden_stride;
    norm_input(ctx, ctx->weights.output_norm, last, &ctx->weights.head, rows);
    const projection head = {&ctx->weights.head, logits, ctx->vocabulary_stride};
    project(ctx, &ctx->input, rows, &head, 1);
}

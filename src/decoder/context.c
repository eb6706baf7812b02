#define _GNU_SOURCE /* sched_getaffinity */
#include "decoder/context.h"

#include <sched.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#define MAX_BATCH 512u

/* ---- Parameters ------------------------------------------------------------------------------ */

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    uint32_t count = (uint32_t)CPU_COUNT(&set);
    if (count < 1)
        return 1;
    return count < MK_MAX_THREADS ? count : MK_MAX_THREADS;
}

mk_params mk_params_default(const mk_model *model)
{
    uint32_t context = mk_image_of(model)->header->context;
    return (mk_params){.context = context < 2048 ? context : 2048,
                       .batch = 64,
                       .threads = usable_cores(),
                       .max_logits = 1,
                       .kv = MK_KV_Q8,
                       .isa = NULL};
}

static mk_status check_params(const mk_image *image, const mk_params *p, mk_error *err)
{
    const mkn_header *h = image->header;
    if (h->flags & MKN_VOCAB_ONLY)
        return mk_fail(err, MK_ERR_UNSUPPORTED,
                       "the image holds a tokenizer only; it can tokenize, not compute");
    const struct {
        const char *name;
        uint32_t value, high;
    } ranges[] = {{"context", p->context, h->context},
                  {"batch", p->batch, MAX_BATCH},
                  {"threads", p->threads, MK_MAX_THREADS},
                  {"max_logits", p->max_logits, p->batch}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].value < 1 || ranges[i].value > ranges[i].high)
            return mk_fail(err, MK_ERR_ARGUMENT, "%s is %u, this model takes 1 to %u", ranges[i].name,
                           ranges[i].value, ranges[i].high);
    if (p->kv != MK_KV_Q8 && p->kv != MK_KV_Q4)
        return mk_fail(err, MK_ERR_ARGUMENT, "kv is %u, expected 0 (q8) or 1 (q4)", (uint32_t)p->kv);
    return MK_OK;
}

static mk_status find_kernels(const char *name, const mk_kernels **kernels, mk_error *err)
{
    *kernels = mk_kernels_find(name);
    if (!*kernels)
        return mk_fail(err, MK_ERR_UNSUPPORTED, "isa \"%s\" is not in this build; makarna --version lists them",
                       name);
    if (!mk_kernels_available(*kernels))
        return mk_fail(err, MK_ERR_UNSUPPORTED,
                       "isa %s: this CPU does not have it; leave isa out to use the best it has", name);
    return MK_OK;
}

/* ---- Layout ---------------------------------------------------------------------------------- */

static uint32_t stride_of(uint32_t floats)
{
    return (floats + 15) / 16 * 16;
}

static float *take_floats(mk_arena *arena, uint64_t rows, uint64_t stride)
{
    return mk_arena_take(arena, rows * stride * sizeof(float));
}

static void place_activations(mk_context *ctx, mk_arena *arena)
{
    const mkn_header *m = ctx->model;
    uint64_t batch = ctx->params.batch, heads_cols = m->heads * m->head_size;
    ctx->hidden_stride = (uint32_t)mk_align_up(m->hidden, MKN_BLOCK);
    ctx->q_stride = stride_of(m->heads * m->head_size);
    ctx->kv_stride = stride_of(m->kv_heads * m->head_size);
    ctx->mlp_stride = stride_of(m->intermediate);
    ctx->residual = take_floats(arena, batch, ctx->hidden_stride);
    ctx->normed = take_floats(arena, batch, ctx->hidden_stride);
    ctx->q = take_floats(arena, batch, ctx->q_stride);
    ctx->attended = take_floats(arena, batch, ctx->q_stride);
    ctx->k = take_floats(arena, batch, ctx->kv_stride);
    ctx->v = take_floats(arena, batch, ctx->kv_stride);
    ctx->gate = take_floats(arena, batch, ctx->mlp_stride);
    ctx->up = take_floats(arena, batch, ctx->mlp_stride);
    ctx->sines = take_floats(arena, batch * ctx->weights.rope_sets, m->rope_dims / 2);
    ctx->cosines = take_floats(arena, batch * ctx->weights.rope_sets, m->rope_dims / 2);
    uint64_t widest = m->hidden > m->intermediate ? m->hidden : m->intermediate;
    widest = widest > heads_cols ? widest : heads_cols;
    uint64_t blocks = (widest + MKN_BLOCK - 1) / MKN_BLOCK, supers = (blocks + 7) / 8;
    ctx->input.codes = mk_arena_take(arena, batch * blocks * MKN_BLOCK);
    ctx->input.scales = take_floats(arena, batch, supers);
    ctx->input.sums = mk_arena_take(arena, batch * supers * sizeof(int32_t));
}

static void place_workers(mk_context *ctx, mk_arena *arena, uint8_t **stacks)
{
    const mkn_header *m = ctx->model;
    size_t attention = mk_attention_scratch(m->head_size, m->heads / m->kv_heads, ctx->params.context);
    uint64_t scratch = attention > MK_GEMM_SCRATCH ? attention : MK_GEMM_SCRATCH;
    uint64_t stride =
        mk_align_up(scratch, MK_ARENA_ALIGN); /* may be past a 32-bit size_t; no arena is so large */
    ctx->scratch_stride = (size_t)stride;
    ctx->scratch = mk_arena_take(arena, ctx->params.threads * stride);
    *stacks = mk_arena_take(arena, (uint64_t)(ctx->params.threads - 1) * MK_STACK_BYTES);
}

static void place_cache(mk_context *ctx, mk_arena *arena)
{
    const mkn_header *m = ctx->model;
    bool q4 = ctx->params.kv == MK_KV_Q4;
    ctx->cache = (mk_kv_cache){.layers = m->layers,
                               .heads = m->kv_heads,
                               .context = ctx->params.context,
                               .stride = mk_kv_stride(q4, m->head_size),
                               .scale_count = mk_kv_scales(q4, m->head_size)};
    mk_kv_cache_place(&ctx->cache, arena);
}

static void place_logits(mk_context *ctx, mk_arena *arena)
{
    ctx->vocabulary_stride = stride_of(ctx->model->vocabulary);
    ctx->logits = take_floats(arena, ctx->params.max_logits, ctx->vocabulary_stride);
    ctx->candidates = mk_arena_take(arena, (uint64_t)ctx->model->vocabulary * sizeof(mk_candidate));
}

/* Places every buffer of a context. With an arena that measures, *ctx is a scratch copy and only the
 * plan counts. */
static void place_context(mk_context *ctx, mk_arena *arena, uint8_t **stacks, mk_memory_plan *plan)
{
    ctx->pool = mk_arena_take(arena, sizeof *ctx->pool);
    ctx->weights.layers = mk_arena_take(arena, ctx->model->layers * sizeof *ctx->weights.layers);
    ctx->tokens = mk_arena_take(arena, (uint64_t)ctx->params.context * sizeof *ctx->tokens);
    plan->other = arena->used;
    place_cache(ctx, arena);
    plan->kv_cache = arena->used - plan->other;
    place_activations(ctx, arena);
    plan->activations = arena->used - plan->kv_cache - plan->other;
    uint64_t before = arena->used;
    place_logits(ctx, arena);
    plan->logits = arena->used - before;
    before = arena->used;
    place_workers(ctx, arena, stacks);
    plan->workers = arena->used - before;
    plan->total = arena->used;
}

/* Where a context begins in its arena: its own struct comes first. */
static mk_context prepare(const mk_image *image, const mk_params *params, mk_arena *arena)
{
    mk_arena_take(arena, sizeof(mk_context));
    return (mk_context){.image = image,
                        .model = image->header,
                        .params = *params,
                        .weights.rope_sets = mk_image_tensor(image, MKN_ROPE_FREQUENCIES, 0)->rows};
}

static void measure(const mk_image *image, const mk_params *params, mk_memory_plan *plan)
{
    mk_arena arena = {NULL, 0};
    mk_context ctx = prepare(image, params, &arena);
    uint8_t *stacks;
    place_context(&ctx, &arena, &stacks, plan);
}

mk_status mk_plan_memory(const mk_model *model, const mk_params *params, mk_memory_plan *plan, mk_error *err)
{
    memset(plan, 0, sizeof *plan);
    const mk_image *image = mk_image_of(model);
    mk_status s = check_params(image, params, err);
    if (!s)
        measure(image, params, plan);
    return s;
}

uint32_t mk_longest_context(const mk_model *model, const mk_params *params, uint64_t bytes)
{
    const mk_image *image = mk_image_of(model);
    mk_params p = *params;
    p.context = 1;
    if (check_params(image, &p, NULL))
        return 0;
    uint32_t fits = 0, too_long = image->header->context + 1;
    while (too_long - fits > 1) {
        p.context = fits + (too_long - fits) / 2;
        mk_memory_plan plan;
        measure(image, &p, &plan);
        if (plan.total <= bytes)
            fits = p.context;
        else
            too_long = p.context;
    }
    return fits;
}

/* ---- Life ------------------------------------------------------------------------------------ */

mk_status mk_context_create(const mk_model *model, const mk_params *params, void *memory, size_t size,
                            mk_context **out, mk_error *err)
{
    const mk_image *image = mk_image_of(model);
    const mk_kernels *kernels;
    mk_memory_plan plan;
    *out = NULL;
    mk_status s = mk_plan_memory(model, params, &plan, err);
    if (!s)
        s = find_kernels(params->isa, &kernels, err);
    if (s)
        return s;
    if (!memory || (uintptr_t)memory % MK_ARENA_ALIGN)
        return mk_fail(err, MK_ERR_ARGUMENT, "the arena must lie at a multiple of %u bytes", MK_ARENA_ALIGN);
    if (plan.total > size)
        return mk_fail(err, MK_ERR_MEMORY, "the arena has %M, a context of %u tokens needs %M", (uint64_t)size,
                       params->context, plan.total);
    mk_arena arena = {memory, 0};
    mk_context *ctx = memory;
    *ctx = prepare(image, params, &arena);
    ctx->kernels = kernels;
    uint8_t *stacks;
    place_context(ctx, &arena, &stacks, &plan);
    mk_weights_resolve(image, &ctx->weights);
    s = mk_pool_start(ctx->pool, params->threads, stacks, err);
    if (!s)
        *out = ctx;
    return s;
}

void mk_context_destroy(mk_context *ctx)
{
    if (ctx)
        mk_pool_stop(ctx->pool);
}

const char *mk_context_isa(const mk_context *ctx)
{
    return ctx->kernels->name;
}

const char *mk_isa_name(size_t index)
{
    const mk_kernels *k = mk_kernels_at(index);
    return k ? k->name : NULL;
}

bool mk_isa_available(const char *name)
{
    const mk_kernels *k = name ? mk_kernels_find(name) : NULL;
    return k && mk_kernels_available(k);
}

/* ---- Inference ------------------------------------------------------------------------------- */

static mk_status check_tokens(const mk_context *ctx, const int32_t *tokens, size_t count, mk_error *err)
{
    uint32_t room = ctx->params.context - ctx->position;
    if (count == 0)
        return mk_fail(err, MK_ERR_ARGUMENT, "no tokens to evaluate");
    if (count > room)
        return mk_fail(err, MK_ERR_CONTEXT_FULL, "%U tokens do not fit: the context of %u has room for %u",
                       (uint64_t)count, ctx->params.context, room);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= ctx->model->vocabulary)
            return mk_fail(err, MK_ERR_ARGUMENT, "token %U is %d, the vocabulary has 0 to %u", (uint64_t)i,
                           tokens[i], ctx->model->vocabulary - 1);
    return MK_OK;
}

mk_status mk_eval(mk_context *ctx, const int32_t *tokens, size_t count, mk_error *err)
{
    mk_status s = check_tokens(ctx, tokens, count, err);
    if (s)
        return s;
    uint32_t total = (uint32_t)count;
    uint32_t keep = total < ctx->params.max_logits ? total : ctx->params.max_logits;
    for (uint32_t done = 0; done < total;) {
        uint32_t n = total - done < ctx->params.batch ? total - done : ctx->params.batch;
        uint32_t end = done + n, first_kept = total - keep;
        uint32_t rows = end <= first_kept ? 0 : end - first_kept < n ? end - first_kept : n;
        float *logits = ctx->logits + (size_t)(rows ? end - rows - first_kept : 0) * ctx->vocabulary_stride;
        mk_forward(ctx, tokens + done, n, rows, logits);
        memcpy(ctx->tokens + ctx->position, tokens + done, n * sizeof *tokens);
        ctx->position += n;
        done = end;
    }
    ctx->logits_count = keep;
    return MK_OK;
}

const float *mk_logits(const mk_context *ctx, size_t back)
{
    if (back >= ctx->logits_count)
        return NULL;
    return ctx->logits + (ctx->logits_count - 1 - back) * ctx->vocabulary_stride;
}

uint32_t mk_position(const mk_context *ctx)
{
    return ctx->position;
}

mk_status mk_rewind(mk_context *ctx, uint32_t position, mk_error *err)
{
    if (position > ctx->position)
        return mk_fail(err, MK_ERR_ARGUMENT, "cannot go forward to %u, the context holds %u tokens", position,
                       ctx->position);
    if (position < ctx->position)
        ctx->logits_count = 0; /* they belong to a token that is forgotten */
    ctx->position = position;
    return MK_OK;
}

int32_t mk_sample(mk_context *ctx, const mk_sampling *sampling, mk_rng *rng)
{
    const float *logits = mk_logits(ctx, 0);
    if (!logits)
        return -1;
    return mk_sample_logits(logits, ctx->model->vocabulary, ctx->tokens, ctx->position, sampling, rng,
                            ctx->candidates);
}

/* The memory plan: exact, growing with the context, and right where it leaves the address space. */
#include "check.h"
#include "tiny_image.h"

static mk_memory_plan plan_of(const mk_model *model, const mk_params *params)
{
    mk_memory_plan plan;
    mk_error err = {""};
    CHECK_MSG(mk_plan_memory(model, params, &plan, &err) == MK_OK, "%s", err.text);
    CHECK(plan.kv_cache + plan.activations + plan.logits + plan.workers + plan.other == plan.total);
    return plan;
}

/* A context is built in exactly the planned bytes, and in none less. */
static void exact(const mk_model *model)
{
    mk_params params = mk_params_default(model);
    params.threads = 2;
    size_t total = (size_t)plan_of(model, &params).total;
    void *arena = aligned_alloc(64, total);
    mk_context *ctx;
    mk_error err = {""};
    CHECK(mk_context_create(model, &params, arena, total - 1, &ctx, &err) == MK_ERR_MEMORY && !ctx);
    CHECK_MSG(mk_context_create(model, &params, arena, total, &ctx, &err) == MK_OK, "%s", err.text);
    mk_context_destroy(ctx);
    free(arena);
}

/* The longest context that fits: it does, and one more does not. */
static void longest(const mk_model *model, uint32_t limit)
{
    mk_params params = mk_params_default(model);
    params.threads = 1;
    for (uint32_t context = 1; context <= limit; context += context < 20 ? 1 : 13) {
        params.context = context;
        uint64_t needed = plan_of(model, &params).total;
        uint32_t fits = mk_longest_context(model, &params, needed);
        params.context = fits;
        CHECK(fits >= context && plan_of(model, &params).total == needed);
        params.context = fits + 1;
        CHECK(fits == limit || plan_of(model, &params).total > needed);
    }
    CHECK(mk_longest_context(model, &params, 0) == 0);
    CHECK(mk_longest_context(model, &params, UINT64_MAX) == limit);
    params.batch = 0;
    CHECK(mk_longest_context(model, &params, UINT64_MAX) == 0);
}

/* 64 query heads that share one KV head: their scores of 2^24 positions alone take 4 GiB for each worker,
 * while the cache stays below the address space of a small machine. */
static void beyond_the_address_space(void)
{
    tiny_options options = tiny_default;
    options.layers = 1;
    options.heads = 64;
    options.kv_heads = 1;
    options.context = MKN_MAX_CONTEXT;
    size_t size;
    uint8_t *image = tiny_image(&options, 5, &size);
    mk_model model;
    mk_error err = {""};
    CHECK_MSG(mk_model_open_memory(&model, image, size, &err) == MK_OK, "%s", err.text);
    mk_params params = mk_params_default(&model);
    params.threads = 1;
    params.context = MKN_MAX_CONTEXT;
    mk_memory_plan plan = plan_of(&model, &params);
    CHECK(plan.workers >= (uint64_t)1 << 32);
    CHECK(plan.kv_cache < (uint64_t)1 << 30);
    CHECK(mk_longest_context(&model, &params, (uint64_t)1 << 32) < MKN_MAX_CONTEXT);
    mk_model_close(&model);
    free(image);
}

int main(void)
{
    size_t size;
    uint8_t *image = tiny_image(&tiny_default, 3, &size);
    mk_model model;
    CHECK(mk_model_open_memory(&model, image, size, NULL) == MK_OK);
    exact(&model);
    longest(&model, tiny_default.context);
    beyond_the_address_space();
    mk_model_close(&model);
    free(image);
    return check_end();
}

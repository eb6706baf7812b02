/* The forward pass against an independent one: plain loops in double precision over the dequantized
 * weights, no cache, no quantized activations. Covers what models vary in, and that batches, threads,
 * going back and saved states change nothing at all. */
#include <math.h>

#include "check.h"
#include "tiny_image.h"

#define MAX_TOKENS 64u
#define MAX_WIDTH 256u

/* ---- Reference -------------------------------------------------------------------------------- */

typedef double row[MAX_WIDTH];

/* A stored value: of a matrix, still under the Walsh-Hadamard transform. */
static double value_at(const mk_image *image, const mkn_tensor *t, uint32_t r, uint32_t c)
{
    const uint8_t *codes = image->base + t->offset, *scales = image->base + t->scales_offset;
    if (t->type == MKN_F32)
        return (double)((const float *)(const void *)codes)[r * t->cols + c];
    uint32_t blocks = (t->cols + 31) / 32, supers = (blocks + 7) / 8, b = c / 32, super = c / 256;
    if (t->type == MKN_Q8) {
        double d =
            (double)mk_half_to_float(mk_load16(scales + ((size_t)(r / 4) * supers + super) * 8 + 2 * (r % 4)));
        return d * (int8_t)codes[((size_t)(r / 4) * blocks + b) * 128 + r % 4 * 32 + c % 32];
    }
    const uint8_t *at = scales + (size_t)(r / 4) * (8 * supers + 4 * blocks) + super * (8 + 32);
    double d = (double)mk_half_to_float(mk_load16(at + 2 * (r % 4)));
    uint8_t table = at[8 + 4 * (b - super * 8) + r % 4];
    uint8_t pair = codes[((size_t)(r / 4) * blocks + b) * 64 + r % 4 * 16 + c % 16];
    uint8_t code = c % 32 < 16 ? pair & 15 : pair >> 4;
    const mkn_tensor *tables = mk_image_tensor(image, MKN_Q4_TABLES, 0);
    return d * ((const int8_t *)(image->base + tables->offset))[table * 16 + code];
}

/* The weight itself, by the definition of the transform: H[i][j] = (-1)^(bits in i & j) / sqrt(n). */
static double compute_weight(const mk_image *image, const mkn_tensor *t, uint32_t r, uint32_t c)
{
    if (!(t->flags & MKN_TRANSFORMED))
        return value_at(image, t, r, c);
    uint32_t padded = (t->cols + 31) / 32 * 32, begin = c / 256 * 256, left = padded - begin, n = 256;
    if (left > 256)
        left = 256;
    for (;; begin += n, left -= n) {
        while (n > left)
            n /= 2;
        if (c < begin + n)
            break;
    }
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (__builtin_popcount(i & (c - begin)) % 2 ? -1 : 1) * value_at(image, t, r, begin + i);
    return sum / sqrt(n);
}

/* All weights of the image at hand, each computed once. */
static double *weights_of[64];

static void forget_weights(void)
{
    for (size_t i = 0; i < sizeof weights_of / sizeof weights_of[0]; i++) {
        free(weights_of[i]);
        weights_of[i] = NULL;
    }
}

static double weight_at(const mk_image *image, const mkn_tensor *t, uint32_t r, uint32_t c)
{
    double **weights = &weights_of[t - image->tensors];
    if (!*weights) {
        *weights = malloc((size_t)t->rows * t->cols * sizeof **weights);
        for (uint32_t i = 0; i < t->rows * t->cols; i++)
            (*weights)[i] = compute_weight(image, t, i / t->cols, i % t->cols);
    }
    return (*weights)[r * t->cols + c];
}

static void multiply(const mk_image *image, enum mkn_role role, uint32_t layer, const double *x, double *y)
{
    const mkn_tensor *t = mk_image_tensor(image, role, layer);
    for (uint32_t r = 0; r < t->rows; r++) {
        y[r] = 0;
        for (uint32_t c = 0; c < t->cols; c++)
            y[r] += weight_at(image, t, r, c) * x[c];
    }
}

static void add_vector(const mk_image *image, enum mkn_role role, uint32_t layer, double *x)
{
    const mkn_tensor *t = mk_image_tensor(image, role, layer);
    for (uint32_t i = 0; t && i < t->cols; i++)
        x[i] += weight_at(image, t, 0, i);
}

static void norm(const mk_image *image, enum mkn_role role, uint32_t layer, const double *x, double *y)
{
    const mkn_tensor *t = mk_image_tensor(image, role, layer);
    if (!t)
        return;
    double sum = 0;
    for (uint32_t i = 0; i < t->cols; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < t->cols; i++)
        y[i] = x[i] / sqrt(sum / t->cols + (double)image->header->norm_epsilon) * weight_at(image, t, 0, i);
}

static void rotate(const mk_image *image, double *x, uint32_t position)
{
    const mkn_tensor *rope = mk_image_tensor(image, MKN_ROPE_FREQUENCIES, 0);
    for (uint32_t i = 0; i < rope->cols; i++) {
        double angle = position * weight_at(image, rope, 0, i), a = x[i], b = x[i + rope->cols];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + rope->cols] = a * sin(angle) + b * cos(angle);
    }
}

static void attention(const mk_image *image, uint32_t layer, row *residual, uint32_t tokens)
{
    static row q[MAX_TOKENS], k[MAX_TOKENS], v[MAX_TOKENS];
    const mkn_header *h = image->header;
    uint32_t size = h->head_size, group = h->heads / h->kv_heads, window = image->layers[layer].window;
    for (uint32_t t = 0; t < tokens; t++) {
        row x;
        norm(image, MKN_ATTENTION_NORM, layer, residual[t], x);
        multiply(image, MKN_Q, layer, x, q[t]);
        multiply(image, MKN_K, layer, x, k[t]);
        multiply(image, MKN_V, layer, x, v[t]);
        add_vector(image, MKN_Q_BIAS, layer, q[t]);
        add_vector(image, MKN_K_BIAS, layer, k[t]);
        add_vector(image, MKN_V_BIAS, layer, v[t]);
        for (uint32_t i = 0; i < h->heads; i++) {
            norm(image, MKN_Q_NORM, layer, q[t] + i * size, q[t] + i * size);
            rotate(image, q[t] + i * size, t);
        }
        for (uint32_t i = 0; i < h->kv_heads; i++) {
            norm(image, MKN_K_NORM, layer, k[t] + i * size, k[t] + i * size);
            rotate(image, k[t] + i * size, t);
        }
    }
    for (uint32_t t = 0; t < tokens; t++) {
        row mixed = {0}, out;
        for (uint32_t head = 0; head < h->heads; head++) {
            double p[MAX_TOKENS], sum = 0;
            uint32_t first = window && t + 1 > window ? t + 1 - window : 0, kv = head / group * size;
            for (uint32_t s = first; s <= t; s++) {
                double dot = 0;
                for (uint32_t i = 0; i < size; i++)
                    dot += q[t][head * size + i] * k[s][kv + i];
                sum += p[s] = exp(dot / sqrt(size));
            }
            for (uint32_t s = first; s <= t; s++)
                for (uint32_t i = 0; i < size; i++)
                    mixed[head * size + i] += p[s] / sum * v[s][kv + i];
        }
        multiply(image, MKN_O, layer, mixed, out);
        for (uint32_t i = 0; i < h->hidden; i++)
            residual[t][i] += out[i];
    }
}

static void mlp(const mk_image *image, uint32_t layer, double *residual)
{
    row x, gate, up, out;
    norm(image, MKN_MLP_NORM, layer, residual, x);
    multiply(image, MKN_GATE, layer, x, gate);
    multiply(image, MKN_UP, layer, x, up);
    for (uint32_t i = 0; i < image->header->intermediate; i++)
        gate[i] *= up[i] / (1 + exp(-gate[i]));
    multiply(image, MKN_DOWN, layer, gate, out);
    for (uint32_t i = 0; i < image->header->hidden; i++)
        residual[i] += out[i];
}

static void reference(const mk_image *image, const int32_t *tokens, uint32_t count, row *logits)
{
    static row residual[MAX_TOKENS];
    const mkn_tensor *embedding = mk_image_tensor(image, MKN_TOKEN_EMBEDDING, 0);
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < embedding->cols; i++)
            residual[t][i] = weight_at(image, embedding, (uint32_t)tokens[t], i);
    for (uint32_t layer = 0; layer < image->header->layers; layer++) {
        attention(image, layer, residual, count);
        for (uint32_t t = 0; t < count; t++)
            mlp(image, layer, residual[t]);
    }
    for (uint32_t t = 0; t < count; t++) {
        row x;
        norm(image, MKN_OUTPUT_NORM, 0, residual[t], x);
        multiply(image, image->header->flags & MKN_TIED ? MKN_TOKEN_EMBEDDING : MKN_OUTPUT_HEAD, 0, x,
                 logits[t]);
    }
}

/* ---- Engine ----------------------------------------------------------------------------------- */

typedef struct run {
    mk_context *ctx;
    void *arena;
} run;

static run start(const mk_model *model, uint32_t batch, uint32_t threads, mk_kv_type kv)
{
    mk_params p = mk_params_default(model);
    p.batch = batch;
    p.threads = threads;
    p.max_logits = batch;
    p.kv = kv;
    mk_memory_plan plan;
    mk_error err = {""};
    run r = {NULL, NULL};
    CHECK_MSG(mk_plan_memory(model, &p, &plan, &err) == MK_OK, "%s", err.text);
    r.arena = aligned_alloc(64, (size_t)plan.total);
    memset(r.arena, 0xa5, (size_t)plan.total); /* nothing may rely on zeros */
    CHECK(mk_context_create(model, &p, r.arena, (size_t)plan.total - 64, &r.ctx, &err) == MK_ERR_MEMORY);
    CHECK_MSG(mk_context_create(model, &p, r.arena, (size_t)plan.total, &r.ctx, &err) == MK_OK, "%s", err.text);
    return r;
}

static void stop(run *r)
{
    mk_context_destroy(r->ctx);
    free(r->arena);
}

/* Evaluates all tokens, batch at a time, and collects all logits. */
static void eval_all(mk_context *ctx, uint32_t batch, const int32_t *tokens, uint32_t count,
                     uint32_t vocabulary, float *logits)
{
    mk_error err;
    for (uint32_t done = 0; done < count;) {
        uint32_t n = count - done < batch ? count - done : batch;
        CHECK_MSG(mk_eval(ctx, tokens + done, n, &err) == MK_OK, "%s", err.text);
        for (uint32_t i = 0; i < n; i++)
            memcpy(logits + (size_t)(done + i) * vocabulary, mk_logits(ctx, n - 1 - i),
                   vocabulary * sizeof *logits);
        CHECK(mk_logits(ctx, n) == NULL);
        done += n;
    }
}

static double relative_error(row *expected, const float *found, uint32_t count, uint32_t vocabulary)
{
    double error = 0, power = 0;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < vocabulary; i++) {
            double e = expected[t][i] - (double)found[(size_t)t * vocabulary + i];
            error += e * e;
            power += expected[t][i] * expected[t][i];
        }
    return sqrt(error / power);
}

static void check_state(const mk_model *model, mk_context *ctx, const int32_t *tokens, uint32_t count)
{
    uint32_t vocabulary = mk_image_of(model)->header->vocabulary;
    mk_error err;
    size_t size = mk_state_size(ctx);
    uint8_t *state = malloc(size);
    float *expected = malloc(vocabulary * sizeof *expected);
    CHECK(mk_state_save(ctx, state, size - 1) == 0);
    CHECK(mk_state_save(ctx, state, size) == size);
    CHECK(mk_eval(ctx, tokens, 1, &err) == MK_OK);
    memcpy(expected, mk_logits(ctx, 0), vocabulary * sizeof *expected);

    run other = start(model, 4, 1, MK_KV_Q8);
    CHECK(mk_state_load(other.ctx, state, size - 1, &err) == MK_ERR_FORMAT);
    state[size / 2] ^= 1;
    CHECK(mk_state_load(other.ctx, state, size, &err) == MK_ERR_FORMAT);
    state[size / 2] ^= 1;
    CHECK_MSG(mk_state_load(other.ctx, state, size, &err) == MK_OK, "%s", err.text);
    CHECK(mk_position(other.ctx) == count);
    CHECK(mk_sample(other.ctx, &(mk_sampling){0}, NULL) == -1);
    CHECK(mk_eval(other.ctx, tokens, 1, &err) == MK_OK);
    CHECK(memcmp(expected, mk_logits(other.ctx, 0), vocabulary * sizeof *expected) == 0);
    stop(&other);
    free(state);
    free(expected);
}

static void check_model(const char *name, tiny_options o, uint64_t seed)
{
    static const uint32_t batches[] = {1, 7, 64};
    static row expected[MAX_TOKENS];
    size_t size;
    uint8_t *bytes = tiny_image(&o, seed, &size);
    mk_model model;
    mk_error err = {""};
    CHECK_MSG(mk_model_open_memory(&model, bytes, size, &err) == MK_OK, "%s: %s", name, err.text);
    const uint32_t count = 50;
    int32_t tokens[MAX_TOKENS];
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i * 37 % o.vocabulary);
    reference(mk_image_of(&model), tokens, count, expected);
    forget_weights();
    size_t bytes_of_logits = (size_t)count * o.vocabulary * sizeof(float);
    float *first = malloc(bytes_of_logits), *logits = malloc(bytes_of_logits);
    for (int kv = 0; kv < 2; kv++)
        for (size_t b = 0; b < 3; b++)
            for (uint32_t threads = 1; threads <= 3; threads++) {
                run r = start(&model, batches[b], threads, kv ? MK_KV_Q4 : MK_KV_Q8);
                eval_all(r.ctx, batches[b], tokens, count, o.vocabulary, logits);
                if (b == 0 && threads == 1) {
                    double error = relative_error(expected, logits, count, o.vocabulary);
                    double limit = kv ? 0.25 : 0.05; /* a wrong formula gives about 1 */
                    printf("%s, kv %s: relative error of the logits %.4f\n", name, kv ? "q4" : "q8", error);
                    CHECK_MSG(error < limit, "%s: %g", name, error);
                    memcpy(first, logits, bytes_of_logits);
                }
                CHECK_MSG(memcmp(first, logits, bytes_of_logits) == 0, "%s: batch %u, %u threads", name,
                          batches[b], threads);
                CHECK(mk_rewind(r.ctx, 60, &err) == MK_ERR_ARGUMENT);
                CHECK(mk_rewind(r.ctx, 20, &err) == MK_OK && mk_logits(r.ctx, 0) == NULL);
                eval_all(r.ctx, batches[b], tokens + 20, count - 20, o.vocabulary,
                         logits + (size_t)20 * o.vocabulary);
                CHECK(memcmp(first, logits, bytes_of_logits) == 0);
                if (!kv && b == 1 && threads == 2)
                    check_state(&model, r.ctx, tokens, count);
                stop(&r);
            }
    free(first);
    free(logits);
    mk_model_close(&model);
    free(bytes);
}

static void check_arguments(void)
{
    size_t size;
    uint8_t *bytes = tiny_image(&tiny_default, 1, &size);
    mk_model model;
    mk_error err;
    CHECK(mk_model_open_memory(&model, bytes, size, &err) == MK_OK);
    run r = start(&model, 8, 1, MK_KV_Q8);
    int32_t bad[] = {5, -1}, large[] = {61}, many[81] = {0};
    CHECK(mk_eval(r.ctx, bad, 2, &err) == MK_ERR_ARGUMENT && mk_position(r.ctx) == 0);
    CHECK(mk_eval(r.ctx, large, 1, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_eval(r.ctx, many, 0, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_eval(r.ctx, many, 81, &err) == MK_ERR_CONTEXT_FULL && mk_position(r.ctx) == 0);
    CHECK(mk_eval(r.ctx, many, 80, &err) == MK_OK && mk_position(r.ctx) == 80);
    CHECK(mk_eval(r.ctx, many, 1, &err) == MK_ERR_CONTEXT_FULL);
    mk_params p = mk_params_default(&model);
    mk_memory_plan plan;
    p.isa = "sse9";
    mk_context *none;
    CHECK(mk_plan_memory(&model, &p, &plan, &err) == MK_OK);
    CHECK(mk_context_create(&model, &p, r.arena, (size_t)1 << 30, &none, &err) == MK_ERR_UNSUPPORTED && !none);
    for (uint32_t bytes_given = 0; bytes_given < 3000000; bytes_given += 131071) {
        p.context = mk_longest_context(&model, &p, bytes_given);
        if (p.context) {
            CHECK(mk_plan_memory(&model, &p, &plan, &err) == MK_OK && plan.total <= bytes_given);
            CHECK(plan.total == plan.kv_cache + plan.activations + plan.logits + plan.workers + plan.other);
        }
    }
    p.context = 81;
    CHECK(mk_plan_memory(&model, &p, &plan, &err) == MK_ERR_ARGUMENT);
    stop(&r);
    mk_model_close(&model);
    free(bytes);
}

int main(void)
{
    tiny_options o = tiny_default;
    check_model("grouped queries, tied, q8", o, 1);
    o.type = MKN_Q4;
    check_model("q4", o, 2);
    o = tiny_default;
    o.kv_heads = 4;
    o.flags = 0;
    check_model("every head its own keys, untied", o, 3);
    o = tiny_default;
    o.flags = MKN_ATTENTION_BIAS;
    check_model("attention bias", o, 4);
    o.flags = MKN_QK_NORM | MKN_TIED;
    o.head_size = 12;
    o.rope_dims = 12;
    check_model("q and k norm, head size apart from hidden / heads", o, 5);
    o = tiny_default;
    o.window = 7;
    check_model("sliding window", o, 6);
    o = tiny_default;
    o.rope_dims = 4;
    o.intermediate = 172;
    o.hidden = 96;
    check_model("part of a head rotated, widths of no round number", o, 7);
    o.transform = 0;
    check_model("the same without the transform", o, 7);
    check_arguments();
    return check_end();
}

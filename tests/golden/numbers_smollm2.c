/* The logits of SmolLM2 against PyTorch in float32, by golden files that make_golden_numbers.py wrote: mean
 * KL divergence over 256 tokens, greedy continuations, perplexity. Deterministic, so that a limit which
 * holds once holds everywhere. */
#include <math.h>

#include "check.h"
#include "golden/golden_text.h"
#include "makarna.h"

enum { TOKENS = 8192, WINDOW = 512, CONTINUATION = 48 };

typedef struct engine {
    mk_model model;
    mk_context *ctx;
    void *arena;
    uint32_t vocabulary, batch;
} engine;

static bool start(engine *e, int argc, char **argv, const char *name)
{
    char path[4096];
    mk_error err = {""};
    const char *image = golden_image(argc, argv, name, path);
    if (!image)
        return false;
    CHECK_MSG(mk_model_open(&e->model, image, MK_LOAD_MAP, &err) == MK_OK, "%s", err.text);
    mk_params p = mk_params_default(&e->model);
    p.context = WINDOW;
    p.max_logits = p.batch;
    mk_memory_plan plan;
    CHECK_MSG(mk_plan_memory(&e->model, &p, &plan, &err) == MK_OK, "%s", err.text);
    e->arena = aligned_alloc(64, (size_t)plan.total);
    CHECK_MSG(mk_context_create(&e->model, &p, e->arena, (size_t)plan.total, &e->ctx, &err) == MK_OK, "%s",
              err.text);
    mk_model_info info;
    mk_model_get_info(&e->model, &info);
    e->vocabulary = info.vocabulary;
    e->batch = p.batch;
    return check_failures == 0;
}

static void stop(engine *e)
{
    mk_context_destroy(e->ctx);
    mk_model_close(&e->model);
    free(e->arena);
}

/* log-probabilities [vocabulary] of what follows the token `back` places before the last */
static void log_softmax(const engine *e, size_t back, double *out)
{
    const float *logits = mk_logits(e->ctx, back);
    double largest = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < e->vocabulary; i++)
        largest = (double)logits[i] > largest ? (double)logits[i] : largest;
    for (uint32_t i = 0; i < e->vocabulary; i++)
        sum += exp((double)logits[i] - largest);
    double log_sum = log(sum);
    for (uint32_t i = 0; i < e->vocabulary; i++)
        out[i] = (double)logits[i] - largest - log_sum;
}

typedef void (*visit)(const engine *e, size_t position, const double *log_probabilities, void *argument);

/* Evaluates a window from an empty context and shows every position's prediction. */
static void each_prediction(engine *e, const int32_t *ids, size_t count, visit f, void *argument)
{
    mk_error err;
    double *log_probabilities = malloc(e->vocabulary * sizeof *log_probabilities);
    CHECK(mk_rewind(e->ctx, 0, &err) == MK_OK);
    for (size_t done = 0; done < count;) {
        size_t n = count - done < e->batch ? count - done : e->batch;
        CHECK_MSG(mk_eval(e->ctx, ids + done, n, &err) == MK_OK, "%s", err.text);
        for (size_t i = 0; i < n; i++) {
            log_softmax(e, n - 1 - i, log_probabilities);
            f(e, done + i, log_probabilities, argument);
        }
        done += n;
    }
    free(log_probabilities);
}

/* ---- KL divergence ----------------------------------------------------------------------------- */

typedef struct reference {
    uint32_t positions, top;
    int32_t *ids;
    uint16_t *top_ids;         /* [positions][top] */
    float *top_log, *rest_log; /* [positions][top], [positions] */
    double divergence;
} reference;

static void read_exact(FILE *file, void *to, size_t size)
{
    CHECK(fread(to, 1, size, file) == size);
}

static reference read_reference(const char *path)
{
    reference r = {0};
    uint32_t head[3];
    FILE *file = golden_open(path);
    read_exact(file, head, sizeof head);
    r.positions = head[0];
    r.top = head[1];
    r.ids = calloc(r.positions, sizeof *r.ids);
    r.top_ids = calloc((size_t)r.positions * r.top, sizeof *r.top_ids);
    r.top_log = calloc((size_t)r.positions * r.top, sizeof *r.top_log);
    r.rest_log = calloc(r.positions, sizeof *r.rest_log);
    for (uint32_t i = 0; i < r.positions; i++) {
        uint16_t id = 0;
        read_exact(file, &id, sizeof id);
        r.ids[i] = id;
    }
    for (uint32_t i = 0; i < r.positions; i++) {
        read_exact(file, r.top_ids + (size_t)i * r.top, r.top * sizeof *r.top_ids);
        read_exact(file, r.top_log + (size_t)i * r.top, r.top * sizeof *r.top_log);
        read_exact(file, &r.rest_log[i], sizeof *r.rest_log);
    }
    fclose(file);
    return r;
}

/* Tokens beyond the 64 most likely count as one, which gives a lower bound: 0.00112 where all 49,152 give
 * 0.00132 (compare_logits.py). The limit of 0.002 for the whole is scaled alike. */
static void add_divergence(const engine *e, size_t position, const double *own, void *argument)
{
    (void)e;
    reference *r = argument;
    double rest = 1, p_rest = exp((double)r->rest_log[position]);
    for (uint32_t i = 0; i < r->top; i++) {
        double p = (double)r->top_log[position * r->top + i], q = own[r->top_ids[position * r->top + i]];
        r->divergence += exp(p) * (p - q);
        rest -= exp(q);
    }
    r->divergence += p_rest * ((double)r->rest_log[position] - log(rest > 1e-12 ? rest : 1e-12));
}

static void check_divergence(engine *e, const char *what, const char *path, double limit)
{
    reference r = read_reference(path);
    each_prediction(e, r.ids, r.positions, add_divergence, &r);
    printf("%s: mean KL divergence over %u tokens %.6f, limit %g\n", what, r.positions,
           r.divergence / r.positions, limit);
    CHECK_MSG(r.divergence / r.positions <= limit, "%s", what);
    free(r.ids);
    free(r.top_ids);
    free(r.top_log);
    free(r.rest_log);
}

/* ---- Greedy continuations ---------------------------------------------------------------------- */

/* Number of tokens that equal the reference before the first that does not. */
static size_t agreement(engine *e, const int32_t *prompt, size_t prompt_count, const int32_t *expected,
                        size_t count)
{
    mk_error err;
    mk_sampling greedy = mk_sampling_default();
    CHECK(mk_rewind(e->ctx, 0, &err) == MK_OK);
    CHECK_MSG(mk_eval(e->ctx, prompt, prompt_count, &err) == MK_OK, "%s", err.text);
    for (size_t i = 0; i < count; i++) {
        int32_t token = mk_sample(e->ctx, &greedy, NULL);
        if (token != expected[i])
            return i;
        CHECK(mk_eval(e->ctx, &token, 1, &err) == MK_OK);
    }
    return count;
}

/* Files of four lines a prompt: its text in hex, its ids, the continuation, how far each was ahead. */
static void check_greedy(engine *e, const char *path, size_t enough, unsigned wanted)
{
    static char line[GOLDEN_LINE];
    static int32_t prompt[GOLDEN_IDS], expected[GOLDEN_IDS];
    FILE *file = golden_open(path);
    unsigned prompts = 0, good = 0;
    while (golden_line(file, line)) {
        if (line[0] == '#')
            continue;
        CHECK(golden_line(file, line));
        size_t prompt_count = golden_ids(line, prompt);
        CHECK(golden_line(file, line));
        size_t count = golden_ids(line, expected);
        CHECK(golden_line(file, line));
        size_t same = agreement(e, prompt, prompt_count, expected, count);
        printf("greedy continuation %u agrees for %zu of %zu tokens\n", prompts + 1, same, count);
        prompts++;
        good += same >= enough;
    }
    fclose(file);
    CHECK_MSG(prompts == 5 && good >= wanted, "%u of %u continuations agree", good, prompts);
}

/* ---- Perplexity -------------------------------------------------------------------------------- */

typedef struct likelihood {
    const int32_t *ids;
    double sum;
} likelihood;

static void add_likelihood(const engine *e, size_t position, const double *own, void *argument)
{
    (void)e;
    likelihood *l = argument;
    if (position + 1 < WINDOW)
        l->sum -= own[l->ids[position + 1]];
}

static size_t tokenize_file(const engine *e, const char *path, int32_t *ids)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    char *text = malloc(65536); /* more than 8,192 tokens */
    size_t size = fread(text, 1, 65536, file), count = 0,
           scratch_size = mk_tokenize_scratch_size(&e->model, size);
    fclose(file);
    void *scratch = malloc(scratch_size);
    int32_t *all = malloc((size + 3) * sizeof *all);
    mk_error err = {""};
    CHECK_MSG(mk_tokenize(&e->model, text, size, 0, all, size + 3, &count, scratch, scratch_size, &err) ==
                  MK_OK,
              "%s", err.text);
    CHECK(count >= TOKENS);
    memcpy(ids, all, TOKENS * sizeof *ids);
    free(text);
    free(scratch);
    free(all);
    return TOKENS;
}

static void check_perplexity(engine *e, const char *what, double float32, double limit)
{
    static int32_t ids[TOKENS];
    if (!tokenize_file(e, MK_SHARED "/text/wikitext2-valid.txt", ids)) {
        printf("perplexity of %s skipped: no " MK_SHARED "/text/wikitext2-valid.txt\n", what);
        return;
    }
    likelihood l = {0};
    for (size_t w = 0; w < TOKENS; w += WINDOW) {
        l.ids = ids + w;
        each_prediction(e, l.ids, WINDOW, add_likelihood, &l);
    }
    double perplexity = exp(l.sum / (TOKENS / WINDOW * (WINDOW - 1)));
    printf("%s: perplexity %.4f, float32 has %.4f: %+.2f %%\n", what, perplexity, float32,
           100 * (perplexity / float32 - 1));
    CHECK_MSG(perplexity <= float32 * limit, "%s", what);
}

static double read_perplexity(const char *path)
{
    static char line[GOLDEN_LINE];
    FILE *file = golden_open(path);
    while (golden_line(file, line) && line[0] == '#')
        continue;
    fclose(file);
    return atof(line);
}

int main(int argc, char **argv)
{
    double float32 = read_perplexity(MK_TEST_DATA "/golden/numbers_smollm2_perplexity.txt");
    engine e = {0};
    if (!start(&e, argc, argv, "smollm2-q8.mkn"))
        CHECK_SKIP("no image of SmolLM2: give a folder with smollm2-q8.mkn and smollm2-q4.mkn as MK_IMAGES");
    check_divergence(&e, "q8 against float32 on the same weights",
                     MK_TEST_DATA "/golden/numbers_smollm2_q8.top64", 0.0017);
    check_divergence(&e, "q8 against float32 on the source's weights",
                     MK_TEST_DATA "/golden/numbers_smollm2.top64", 0.005);
    check_greedy(&e, MK_TEST_DATA "/golden/numbers_smollm2_greedy.txt", 32, 4);
    check_perplexity(&e, "q8", float32, 1.005);
    stop(&e);
    engine q4 = {0};
    if (start(&q4, argc > 1 ? 2 : 1, argv + (argc > 1), "smollm2-q4.mkn")) {
        check_perplexity(&q4, "q4", float32, 1.10);
        stop(&q4);
    }
    return check_end();
}

/* test_sampler.c - the sampler against a plain second implementation that sorts everything, on random and
 * on hostile logits; its distribution; and fixed draws that must be the same on every machine. */
#include <float.h>
#include <math.h>

#include "base/math.h"
#include "check.h"
#include "sampling/sampler.h"

#define MAX_VOCABULARY 2000

static mk_candidate scratch[MAX_VOCABULARY];
static float logits[MAX_VOCABULARY];

/* O'Neill's reference program pcg32-demo, round 1, 32-bit numbers: seed 42, stream 54. */
static void check_generator(void)
{
    static const uint32_t published[] = {0xa15c02b7, 0x7b47f409, 0xba1d3330,
                                         0x83d2f293, 0xbfa4784b, 0xcbed606e};
    mk_rng rng = mk_rng_seed(42);
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        CHECK(mk_rng_next(&rng) == published[i]);
}

static int32_t sample(uint32_t vocabulary, mk_sampling sampling, uint64_t seed)
{
    mk_rng rng = mk_rng_seed(seed);
    return mk_sample_logits(logits, vocabulary, NULL, 0, &sampling, &rng, scratch);
}

static void set_logits(const float *values, uint32_t count)
{
    memcpy(logits, values, count * sizeof *values);
}

static void check_greedy(void)
{
    mk_sampling greedy = mk_sampling_default();
    CHECK(greedy.temperature == 0 && greedy.top_k == 0 && greedy.top_p == 1 && greedy.min_p == 0 &&
          greedy.repeat_penalty == 1 && greedy.repeat_last == 0);
    set_logits((float[]){1, 3, -2, 3, 0}, 5);
    CHECK(sample(5, greedy, 1) == 1);
    set_logits((float[]){-5, -3, -9}, 3);
    CHECK(sample(3, greedy, 1) == 1);
    CHECK(sample(1, greedy, 1) == 0);
    greedy.temperature = NAN;
    CHECK(sample(3, greedy, 1) == 1);
    greedy.temperature = -1;
    CHECK(sample(3, greedy, 1) == 1);
}

static void check_not_finite(void)
{
    mk_sampling greedy = mk_sampling_default(), hot = greedy;
    hot.temperature = 10;
    set_logits((float[]){NAN, -INFINITY, 2, NAN}, 4);
    CHECK(sample(4, greedy, 1) == 2);
    for (uint64_t seed = 0; seed < 50; seed++)
        CHECK(sample(4, hot, seed) == 2);
    set_logits((float[]){NAN, NAN, -INFINITY}, 3);
    CHECK(sample(3, greedy, 1) == 0);
    CHECK(sample(3, hot, 1) == 0);
    set_logits((float[]){FLT_MAX, INFINITY, 1}, 3);
    CHECK(sample(3, greedy, 1) == 0); /* a tie */
    set_logits((float[]){-FLT_MAX, 1, INFINITY}, 3);
    for (uint64_t seed = 0; seed < 50; seed++)
        CHECK(sample(3, hot, seed) == 2);
    hot.top_p = 0.5f;
    hot.min_p = 0.1f;
    CHECK(sample(3, hot, 1) == 2);
    set_logits((float[]){-FLT_MAX, -FLT_MAX, -FLT_MAX}, 3);
    CHECK(sample(3, hot, 1) >= 0);
}

static void check_penalty(void)
{
    mk_sampling s = mk_sampling_default();
    mk_rng rng = mk_rng_seed(0);
    s.repeat_penalty = 2;
    s.repeat_last = 3;
    static const int32_t history[] = {0, 1, 1, 1, -5, 1000};
    set_logits((float[]){5, 8, 3, -1}, 4);
    /* Once, however often it stands there: 8 becomes 4, not 1. */
    CHECK(mk_sample_logits(logits, 4, history, 4, &s, &rng, scratch) == 0);
    set_logits((float[]){3.9f, 8, 3, -1}, 4);
    CHECK(mk_sample_logits(logits, 4, history, 4, &s, &rng, scratch) == 1);
    /* Only the last ones count, and ids outside the vocabulary do not matter. */
    s.repeat_last = 2;
    set_logits((float[]){5, 8, 3, -1}, 4);
    CHECK(mk_sample_logits(logits, 4, history, 6, &s, &rng, scratch) == 1);
    s.repeat_last = 100;
    CHECK(mk_sample_logits(logits, 4, history, 6, &s, &rng, scratch) == 1); /* 0: 2.5, 1: 4, 2: 3 */
    /* Negative logits are multiplied. */
    set_logits((float[]){-1.5f, -1}, 2);
    CHECK(mk_sample_logits(logits, 2, history, 2, &s, &rng, scratch) == 1); /* both penalized */
    s.repeat_last = 1;
    CHECK(mk_sample_logits(logits, 2, history, 2, &s, &rng, scratch) == 0);
    for (int i = 0; i < 4; i++) { /* out of range: off */
        s.repeat_penalty = (float[]){NAN, INFINITY, 0, -1}[i];
        CHECK(mk_sample_logits(logits, 2, history, 2, &s, &rng, scratch) == 1);
    }
}

/* ---- The second implementation --------------------------------------------------------------------- */

static int falling(const void *a, const void *b)
{
    const mk_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The tokens that the filters keep, by id, from float64 probabilities. Returns how many. `margin` gets how
 * near a limit some probability came: where it is tiny, rounding may decide otherwise. */
static uint32_t kept_by_sorting(uint32_t vocabulary, const mk_sampling *s, bool *kept, double *margin)
{
    static mk_candidate all[MAX_VOCABULARY];
    for (uint32_t i = 0; i < vocabulary; i++)
        all[i] = (mk_candidate){logits[i], (int32_t)i};
    qsort(all, vocabulary, sizeof *all, falling);
    uint32_t count = s->top_k > 0 && s->top_k < vocabulary ? s->top_k : vocabulary;
    double total = 0, sum = 0;
    *margin = 1;
    for (uint32_t i = 0; i < count; i++)
        total += exp((double)all[i].logit - (double)all[0].logit);
    for (uint32_t i = 0; s->top_p < 1 && i < count; i++) {
        sum += exp((double)all[i].logit - (double)all[0].logit) / total;
        *margin = fmin(*margin, fabs(sum - (double)s->top_p));
        if (sum >= (double)s->top_p)
            count = i + 1;
    }
    uint32_t likely = 1;
    for (uint32_t i = 1; i < count; i++) {
        double p = exp((double)all[i].logit - (double)all[0].logit);
        *margin = s->min_p > 0 ? fmin(*margin, fabs(p - (double)s->min_p)) : *margin;
        likely += p >= (double)s->min_p;
    }
    memset(kept, 0, vocabulary);
    for (uint32_t i = 0; i < likely; i++)
        kept[all[i].id] = true;
    return likely;
}

static float random_logit(mk_rng *rng)
{
    return (float)(mk_rng_next(rng) % 40000) / 2000.0f - 10.0f;
}

static mk_sampling random_sampling(mk_rng *rng, uint32_t vocabulary)
{
    mk_sampling s = mk_sampling_default();
    s.temperature = 1000; /* nearly uniform, so that a few hundred draws see all that is kept */
    if (mk_rng_next(rng) % 2)
        s.top_k = 1 + mk_rng_next(rng) % (vocabulary + 5);
    if (mk_rng_next(rng) % 2)
        s.top_p = (float)(mk_rng_next(rng) % 1001) / 1000.0f;
    if (mk_rng_next(rng) % 2)
        s.min_p = (float)(mk_rng_next(rng) % 1001) / 3000.0f;
    return s;
}

static void check_against_sorting(void)
{
    static bool kept[MAX_VOCABULARY], drawn[MAX_VOCABULARY];
    mk_rng rng = mk_rng_seed(7);
    for (int round = 0; round < 400; round++) {
        uint32_t vocabulary = 1 + mk_rng_next(&rng) % 30;
        for (uint32_t i = 0; i < vocabulary; i++)
            logits[i] = round % 3 ? random_logit(&rng) / 4 : (float)(mk_rng_next(&rng) % 3); /* with ties */
        mk_sampling s = random_sampling(&rng, vocabulary);
        double margin;
        uint32_t expected = kept_by_sorting(vocabulary, &s, kept, &margin), seen = 0;
        if (margin < 1e-5)
            continue;
        memset(drawn, 0, vocabulary);
        for (int i = 0; i < 600; i++) {
            int32_t id = mk_sample_logits(logits, vocabulary, NULL, 0, &s, &rng, scratch);
            CHECK(id >= 0 && (uint32_t)id < vocabulary && kept[id]);
            seen += !drawn[id];
            drawn[id] = true;
        }
        CHECK_MSG(seen == expected, "%u of %u tokens, k %u p %g min-p %g", seen, expected, s.top_k,
                  (double)s.top_p, (double)s.min_p);
    }
}

/* Frequencies of 200,000 draws are those of softmax(logit / temperature). */
static void check_distribution(void)
{
    enum { COUNT = 6 };
    const double draws = 200000;
    mk_sampling s = mk_sampling_default();
    mk_rng rng = mk_rng_seed(3);
    uint32_t counts[COUNT] = {0};
    double total = 0;
    s.temperature = 0.7f;
    set_logits((float[]){0.1f, 1.5f, -2, 1, 0, -0.5f}, COUNT);
    for (int i = 0; i < (int)draws; i++)
        counts[mk_sample_logits(logits, COUNT, NULL, 0, &s, &rng, scratch)]++;
    for (int i = 0; i < COUNT; i++)
        total += exp((double)logits[i] / 0.7);
    for (int i = 0; i < COUNT; i++) {
        double p = exp((double)logits[i] / 0.7) / total;
        double off = (counts[i] - p * draws) / sqrt(draws * p * (1 - p));
        CHECK_MSG(fabs(off) < 4, "token %d: %u draws, %.1f expected", i, counts[i], p * draws);
    }
}

static void check_extreme_parameters(void)
{
    mk_sampling s = mk_sampling_default();
    set_logits((float[]){1, 2, 4, 3}, 4);
    for (uint64_t seed = 0; seed < 40; seed++) {
        s = mk_sampling_default();
        s.temperature = 1e-38f;
        CHECK(sample(4, s, seed) == 2);
        s.temperature = INFINITY;
        CHECK(sample(4, s, seed) >= 0);
        s.top_k = 1;
        CHECK(sample(4, s, seed) == 2);
        s.top_k = UINT32_MAX;
        s.top_p = 0;
        CHECK(sample(4, s, seed) == 2);
        s.top_p = -1;
        CHECK(sample(4, s, seed) == 2);
        s.top_p = NAN;
        s.min_p = 5;
        CHECK(sample(4, s, seed) == 2);
        s.min_p = NAN;
        CHECK(sample(4, s, seed) >= 0);
    }
}

/* One hash of many draws over a large vocabulary with all filters: what it is on one machine it must be on
 * every other. */
static void check_same_everywhere(void)
{
    mk_rng rng = mk_rng_seed(2024);
    int32_t history[64] = {0};
    uint64_t hash = 0;
    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < MAX_VOCABULARY; i++)
            logits[i] = random_logit(&rng) * random_logit(&rng) * 0.125f;
        mk_sampling s = {.temperature = 0.5f + 0.05f * (float)(round % 20),
                         .top_k = round % 4 ? 20 * (round % 7) : 0,
                         .top_p = round % 3 ? 0.95f : 1,
                         .min_p = round % 5 ? 0.01f : 0,
                         .repeat_penalty = 1.1f,
                         .repeat_last = 32};
        for (int draw = 0; draw < 8; draw++) {
            int32_t id = mk_sample_logits(logits, MAX_VOCABULARY, history, 64, &s, &rng, scratch);
            memmove(history, history + 1, sizeof history - sizeof *history);
            history[63] = id;
            hash = mk_hash(&id, sizeof id, hash);
        }
    }
    CHECK_MSG(hash == 0xe789d3738c165fbcu, "0x%llx", (unsigned long long)hash);
}

int main(void)
{
    check_generator();
    check_greedy();
    check_not_finite();
    check_penalty();
    check_against_sorting();
    check_distribution();
    check_extreme_parameters();
    check_same_everywhere();
    return check_end();
}

#include "sampling/sampler.h"

#include <float.h>

#include "base/math.h"

mk_sampling mk_sampling_default(void)
{
    return (mk_sampling){
        .temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .repeat_last = 0};
}

/* Total order: larger logit first, of equal ones the lower id. So every selection below is unique. */
static bool before(mk_candidate a, mk_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Keskar et al. 2019, once per distinct token: a token that had its turn is marked by a negative id. */
static void penalize_repeats(mk_candidate *candidates, uint32_t vocabulary, const int32_t *history,
                             size_t history_count, float penalty)
{
    for (size_t i = 0; i < history_count; i++) {
        uint32_t id = (uint32_t)history[i];
        if (id >= vocabulary || candidates[id].id < 0)
            continue;
        float logit = candidates[id].logit;
        candidates[id].logit = logit > 0 ? logit / penalty : logit * penalty;
        candidates[id].id = ~candidates[id].id;
    }
    for (size_t i = 0; i < history_count; i++) {
        uint32_t id = (uint32_t)history[i];
        if (id < vocabulary && candidates[id].id < 0)
            candidates[id].id = ~candidates[id].id;
    }
}

/* Drops what can never be drawn; returns how many stay. */
static uint32_t drop_impossible(mk_candidate *candidates, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        mk_candidate c = candidates[i];
        if (!(c.logit >= -FLT_MAX))
            continue;
        if (c.logit > FLT_MAX)
            c.logit = FLT_MAX;
        candidates[kept++] = c;
    }
    return kept;
}

static mk_candidate most_likely(const mk_candidate *candidates, uint32_t count)
{
    mk_candidate best = candidates[0];
    for (uint32_t i = 1; i < count; i++)
        if (before(candidates[i], best))
            best = candidates[i];
    return best;
}

/* exp of distance <= 0 in double, by basic operations alone and so the same everywhere; within 1 ulp. Unlike
 * mk_exp it needs no fused multiply-add, which many CPUs lack: a whole vocabulary takes a fraction of the
 * time. What is too far away for a float is impossible. */
static float weight_of(float distance)
{
    if (!(distance >= MK_EXP_MIN))
        return 0;
    double x = (double)distance;
    int32_t n = (int32_t)(x * 1.4426950408889634 - 0.5); /* towards zero: the nearest */
    double r = x - n * 0.6931471805599453;
    double p = 1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040));
    p = 1 + r * (1 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * p))));
    return (float)p * mk_float_from_bits((uint32_t)(n + 127) << 23);
}

/* Restores the order of a heap below `at`: the best on top, or the worst. */
static void sift_down(mk_candidate *heap, uint32_t count, uint32_t at, bool worst_first)
{
    mk_candidate moving = heap[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(heap[child + 1], heap[child]) != worst_first)
            child++;
        if (before(heap[child], moving) == worst_first)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void build_heap(mk_candidate *candidates, uint32_t count, bool worst_first)
{
    for (uint32_t at = count / 2; at-- > 0;)
        sift_down(candidates, count, at, worst_first);
}

/* Moves the k best to the front, in no order that matters: most of the others fail to beat the worst of
 * the k best so far, which stands on top of their heap. */
static void select_best(mk_candidate *candidates, uint32_t count, uint32_t k)
{
    build_heap(candidates, k, true);
    for (uint32_t i = k; i < count; i++) {
        if (before(candidates[i], candidates[0])) {
            candidates[0] = candidates[i];
            sift_down(candidates, k, 0, true);
        }
    }
}

/* Candidates in falling order, as many as are asked for: a heap of all of them (O(V)), whose best is
 * moved behind its end again and again (O(log V) each). The i-th best then stands i places before the
 * end of the array. */
typedef struct ranking {
    mk_candidate *all;
    uint32_t count, ranked;
} ranking;

static mk_candidate ranking_at(ranking *r, uint32_t i)
{
    while (r->ranked <= i) {
        uint32_t last = r->count - ++r->ranked;
        mk_candidate best = r->all[0];
        r->all[0] = r->all[last];
        r->all[last] = best;
        sift_down(r->all, last, 0, false);
    }
    return r->all[r->count - 1 - i];
}

static double sum_of_weights(const mk_candidate *candidates, uint32_t count, float best)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += weight_of(candidates[i].logit - best);
    return sum;
}

static uint32_t keep_top_p(ranking *r, uint32_t keep, float top_p, double total)
{
    float best = ranking_at(r, 0).logit;
    double wanted = top_p * total, sum = 0;
    for (uint32_t i = 0; i < keep; i++) {
        sum += weight_of(ranking_at(r, i).logit - best);
        if (sum >= wanted)
            return i + 1;
    }
    return keep;
}

static uint32_t keep_min_p(ranking *r, uint32_t keep, float min_p)
{
    float best = ranking_at(r, 0).logit;
    uint32_t kept = 1;
    while (kept < keep && weight_of(ranking_at(r, kept).logit - best) >= min_p)
        kept++;
    return kept;
}

/* Applies the filters. What they keep is candidates[*first .. *end). */
static void filter(mk_candidate *candidates, uint32_t count, const mk_sampling *sampling, uint32_t *first,
                   uint32_t *end)
{
    bool top_p = sampling->top_p < 1, min_p = sampling->min_p > 0;
    if (sampling->top_k > 0 && sampling->top_k < count) {
        select_best(candidates, count, sampling->top_k);
        count = sampling->top_k;
    }
    *first = 0;
    *end = count;
    if (!top_p && !min_p)
        return;

    uint32_t keep = count;
    build_heap(candidates, count, false);
    double total = top_p ? sum_of_weights(candidates, count, candidates[0].logit) : 0;
    ranking r = {candidates, count, 0};
    if (top_p)
        keep = keep_top_p(&r, keep, sampling->top_p, total);
    if (min_p)
        keep = keep_min_p(&r, keep, sampling->min_p);
    ranking_at(&r, keep - 1); /* so that they stand together */
    *first = count - keep;
}

/* Draws from softmax(logit / temperature) by inversion, in the order of the array. Logits become weights. */
static int32_t draw(mk_candidate *candidates, uint32_t count, float temperature, mk_rng *rng)
{
    mk_candidate best = most_likely(candidates, count);
    double total = 0, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        candidates[i].logit = weight_of((candidates[i].logit - best.logit) / temperature);
        total += candidates[i].logit;
    }
    double target = (double)mk_rng_next(rng) * (1.0 / 4294967296.0) * total;
    for (uint32_t i = 0; i < count; i++) {
        sum += candidates[i].logit;
        if (sum > target)
            return candidates[i].id;
    }
    return best.id; /* not reached: the same sum is `total`, and target is below it */
}

/* Without a penalty, greedy needs no candidates. */
static int32_t most_likely_id(const float *logits, uint32_t vocabulary)
{
    int32_t id = -1;
    float best = 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        float logit = logits[i] > FLT_MAX ? FLT_MAX : logits[i];
        if (logit >= -FLT_MAX && (id < 0 || logit > best)) {
            best = logit;
            id = (int32_t)i;
        }
    }
    return id < 0 ? 0 : id;
}

int32_t mk_sample_logits(const float *logits, uint32_t vocabulary, const int32_t *history, size_t history_count,
                         const mk_sampling *sampling, mk_rng *rng, mk_candidate *candidates)
{
    float penalty = sampling->repeat_penalty;
    size_t last = sampling->repeat_last < history_count ? sampling->repeat_last : history_count;
    bool penalize = penalty > 0 && penalty <= FLT_MAX && penalty != 1 && last > 0;
    bool greedy = !(sampling->temperature > 0);
    if (greedy && !penalize)
        return most_likely_id(logits, vocabulary);

    for (uint32_t id = 0; id < vocabulary; id++)
        candidates[id] = (mk_candidate){logits[id], (int32_t)id};
    if (penalize)
        penalize_repeats(candidates, vocabulary, history + (history_count - last), last, penalty);
    uint32_t first, end, count = drop_impossible(candidates, vocabulary);
    if (count == 0)
        return 0;
    if (greedy)
        return most_likely(candidates, count).id;
    filter(candidates, count, sampling, &first, &end);
    return draw(candidates + first, end - first, sampling->temperature, rng);
}

/* sampler.h - choosing a token from logits. Pure: reads its arguments, allocates nothing, and gives the
 * same token on every machine. */
#ifndef MK_SAMPLING_SAMPLER_H
#define MK_SAMPLING_SAMPLER_H

#include "makarna.h"

typedef struct mk_candidate {
    float logit;
    int32_t id;
} mk_candidate;

/* Draws a token from logits [vocabulary]. history [history_count] is the whole context, oldest first;
 * the repeat penalty looks at its last sampling->repeat_last tokens. candidates [vocabulary] is scratch.
 *
 * In this order, each step on what the one before left:
 *   repeat penalty   once per distinct token: logit / penalty if positive, logit * penalty if not
 *   top-k            the k largest logits (of equal ones the lower ids)
 *   top-p            the shortest run of most likely tokens whose probabilities reach top_p
 *   min-p            those at least min_p times as likely as the most likely one
 *   temperature      probabilities of logit / temperature, and the draw
 * The most likely token always stays. Temperature 0 takes it (lowest id on a tie) and leaves rng alone;
 * otherwise rng advances by one draw.
 *
 * NaN and -infinity are never drawn, +infinity counts as FLT_MAX; id 0, without a draw, where nothing remains.
 * A parameter that is NaN switches its step off (temperature: greedy), and so does a penalty that is not
 * positive. A top_p of 0 or less, or a min_p above 1, leaves the most likely token alone. */
int32_t mk_sample_logits(const float *logits, uint32_t vocabulary, const int32_t *history, size_t history_count,
                         const mk_sampling *sampling, mk_rng *rng, mk_candidate *candidates);

/* The generator's next 32 bits. */
uint32_t mk_rng_next(mk_rng *rng);

#endif

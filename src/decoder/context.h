/* context.h - everything that one conversation needs, all of it inside the caller's arena. */
#ifndef MK_DECODER_CONTEXT_H
#define MK_DECODER_CONTEXT_H

#include "decoder/kv_cache.h"
#include "decoder/weights.h"
#include "image/image.h"
#include "kernels/kernels.h"
#include "makarna.h"
#include "sampling/sampler.h"
#include "threads/pool.h"

struct mk_context {
    const mk_image *image;
    const mkn_header *model; /* hyper-parameters */
    const mk_kernels *kernels;
    mk_params params;
    mk_weights weights;
    mk_pool *pool;
    mk_kv_cache cache;

    uint32_t position; /* tokens in the context */
    int32_t *tokens;   /* [context] */

    /* Rows of floats are padded to 16, since kernels write whole groups of rows; hidden ones to 32, since an
     * embedding is written by whole blocks. */
    uint32_t hidden_stride, q_stride, kv_stride, mlp_stride, vocabulary_stride;
    float *residual;        /* [batch][hidden_stride] */
    float *normed;          /* [batch][hidden_stride]; later a half's output, to be added to the residual */
    float *q, *attended;    /* [batch][q_stride] */
    float *k, *v;           /* [batch][kv_stride] */
    float *gate, *up;       /* [batch][mlp_stride] */
    float *sines, *cosines; /* [batch][rope_sets][rope_dims / 2] */
    mk_activations input;   /* quantized input of the next matrices, [batch] */

    float *logits;            /* [max_logits][vocabulary_stride] */
    uint32_t logits_count;    /* rows that the latest mk_eval left */
    mk_candidate *candidates; /* [vocabulary], the sampler's */

    uint8_t *scratch; /* of worker w at scratch + w * scratch_stride */
    size_t scratch_stride;
};

/* Computes tokens[0 .. count) at positions ctx->position on, count <= batch: extends the KV cache, and
 * writes the logits of the last `rows` tokens to `logits` [rows][vocabulary_stride]. */
void mk_forward(mk_context *ctx, const int32_t *tokens, uint32_t count, uint32_t rows, float *logits);

#endif

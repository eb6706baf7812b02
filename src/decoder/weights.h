/* weights.h - the tensors of an image by their place in the decoder. */
#ifndef MK_DECODER_WEIGHTS_H
#define MK_DECODER_WEIGHTS_H

#include "image/image.h"
#include "kernels/kernels.h"

typedef struct mk_layer_weights {
    uint32_t window;             /* attention window, 0: all */
    uint32_t rope_set;           /* row of rope_frequencies */
    const float *attention_norm; /* [hidden] */
    mk_matrix q, k, v, o;
    const float *q_bias, *k_bias, *v_bias; /* NULL where the model has none */
    const float *q_norm, *k_norm;          /* [head_size], or NULL */
    const float *mlp_norm;                 /* [hidden] */
    mk_matrix gate, up, down;
} mk_layer_weights;

typedef struct mk_weights {
    const float *rope_frequencies; /* [rope_sets][rope_dims / 2] */
    uint32_t rope_sets;
    mk_matrix embedding;
    mk_layer_weights *layers; /* [header->layers], caller's */
    const float *output_norm; /* [hidden] */
    mk_matrix head;           /* the embedding, if tied */
} mk_weights;

/* Fills `weights` from an image that passed its checks; weights->layers is set by the caller. */
void mk_weights_resolve(const mk_image *image, mk_weights *weights);

#endif

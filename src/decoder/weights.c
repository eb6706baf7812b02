#include "decoder/weights.h"

#include <string.h>

static mk_matrix matrix_of(const mk_image *image, const mkn_tensor *t, const int8_t *tables)
{
    return (mk_matrix){.type = t->type,
                       .rows = t->rows,
                       .cols = t->cols,
                       .groups = (t->rows + MKN_GROUP - 1) / MKN_GROUP,
                       .blocks = (t->cols + MKN_BLOCK - 1) / MKN_BLOCK,
                       .codes = image->base + t->offset,
                       .scales = image->base + t->scales_offset,
                       .tables = tables,
                       .transformed = (t->flags & MKN_TRANSFORMED) != 0};
}

/* Where the tensors of a layer belong, by role; 0: not one of these. */
_Static_assert(offsetof(mk_layer_weights, attention_norm) > 0, "no tensor's place is at offset 0");
static const size_t layer_matrices[MKN_ROLES] = {
    [MKN_Q] = offsetof(mk_layer_weights, q),       [MKN_K] = offsetof(mk_layer_weights, k),
    [MKN_V] = offsetof(mk_layer_weights, v),       [MKN_O] = offsetof(mk_layer_weights, o),
    [MKN_GATE] = offsetof(mk_layer_weights, gate), [MKN_UP] = offsetof(mk_layer_weights, up),
    [MKN_DOWN] = offsetof(mk_layer_weights, down),
};
static const size_t layer_vectors[MKN_ROLES] = {
    [MKN_ATTENTION_NORM] = offsetof(mk_layer_weights, attention_norm),
    [MKN_Q_BIAS] = offsetof(mk_layer_weights, q_bias),
    [MKN_K_BIAS] = offsetof(mk_layer_weights, k_bias),
    [MKN_V_BIAS] = offsetof(mk_layer_weights, v_bias),
    [MKN_Q_NORM] = offsetof(mk_layer_weights, q_norm),
    [MKN_K_NORM] = offsetof(mk_layer_weights, k_norm),
    [MKN_MLP_NORM] = offsetof(mk_layer_weights, mlp_norm),
};

/* A tensor that belongs to no layer. */
static void resolve_shared(mk_weights *weights, const mkn_tensor *t, const float *data, const mk_matrix *matrix)
{
    switch ((enum mkn_role)t->role) {
    case MKN_ROPE_FREQUENCIES:
        weights->rope_frequencies = data;
        weights->rope_sets = t->rows;
        break;
    case MKN_TOKEN_EMBEDDING:
        weights->embedding = *matrix;
        weights->head = *matrix; /* until an untied head follows */
        break;
    case MKN_OUTPUT_NORM:
        weights->output_norm = data;
        break;
    case MKN_OUTPUT_HEAD:
        weights->head = *matrix;
        break;
    default: /* the q4 tables */
        break;
    }
}

void mk_weights_resolve(const mk_image *image, mk_weights *weights)
{
    const mkn_tensor *table = mk_image_tensor(image, MKN_Q4_TABLES, 0);
    const int8_t *tables = table ? (const int8_t *)(image->base + table->offset) : NULL;
    memset(weights->layers, 0, image->header->layers * sizeof *weights->layers);
    for (uint32_t i = 0; i < image->header->layers; i++) {
        weights->layers[i].window = image->layers[i].window;
        weights->layers[i].rope_set = image->layers[i].rope_set;
    }
    for (uint32_t i = 0; i < image->header->tensor_count; i++) {
        const mkn_tensor *t = &image->tensors[i];
        const float *data = (const float *)(const void *)(image->base + t->offset);
        mk_matrix matrix = matrix_of(image, t, tables);
        uint8_t *layer = (uint8_t *)&weights->layers[t->layer];
        if (layer_matrices[t->role])
            memcpy(layer + layer_matrices[t->role], &matrix, sizeof matrix);
        else if (layer_vectors[t->role])
            memcpy(layer + layer_vectors[t->role], &data, sizeof data);
        else
            resolve_shared(weights, t, data, &matrix);
    }
}

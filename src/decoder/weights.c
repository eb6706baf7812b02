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

void mk_weights_resolve(const mk_image *image, mk_weights *weights)
{
    const int8_t *tables = NULL;
    memset(weights->layers, 0, image->header->layers * sizeof *weights->layers);
    for (uint32_t i = 0; i < image->header->layers; i++) {
        weights->layers[i].window = image->layers[i].window;
        weights->layers[i].rope_set = image->layers[i].rope_set;
    }
    for (uint32_t i = 0; i < image->header->tensor_count; i++) {
        const mkn_tensor *t = &image->tensors[i];
        const void *data = image->base + t->offset;
        mk_layer_weights *layer = &weights->layers[t->layer];
        switch ((enum mkn_role)t->role) {
        case MKN_Q4_TABLES:
            tables = data;
            break;
        case MKN_ROPE_FREQUENCIES:
            weights->rope_frequencies = data;
            weights->rope_sets = t->rows;
            break;
        case MKN_TOKEN_EMBEDDING:
            weights->embedding = matrix_of(image, t, tables);
            weights->head = weights->embedding; /* until an untied head follows */
            break;
        case MKN_ATTENTION_NORM:
            layer->attention_norm = data;
            break;
        case MKN_Q:
            layer->q = matrix_of(image, t, tables);
            break;
        case MKN_K:
            layer->k = matrix_of(image, t, tables);
            break;
        case MKN_V:
            layer->v = matrix_of(image, t, tables);
            break;
        case MKN_O:
            layer->o = matrix_of(image, t, tables);
            break;
        case MKN_Q_BIAS:
            layer->q_bias = data;
            break;
        case MKN_K_BIAS:
            layer->k_bias = data;
            break;
        case MKN_V_BIAS:
            layer->v_bias = data;
            break;
        case MKN_Q_NORM:
            layer->q_norm = data;
            break;
        case MKN_K_NORM:
            layer->k_norm = data;
            break;
        case MKN_MLP_NORM:
            layer->mlp_norm = data;
            break;
        case MKN_GATE:
            layer->gate = matrix_of(image, t, tables);
            break;
        case MKN_UP:
            layer->up = matrix_of(image, t, tables);
            break;
        case MKN_DOWN:
            layer->down = matrix_of(image, t, tables);
            break;
        case MKN_OUTPUT_NORM:
            weights->output_norm = data;
            break;
        case MKN_OUTPUT_HEAD:
            weights->head = matrix_of(image, t, tables);
            break;
        case MKN_ROLES:
            break;
        }
    }
}

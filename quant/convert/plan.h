/* plan.h - which tensors an image will have, in its order, and from where: names to roles, every shape
 * checked, nothing of the source left over. */
#ifndef MK_QUANT_PLAN_H
#define MK_QUANT_PLAN_H

#include "image/mkn.h"
#include "makarna.h"
#include "quant/read/pool.h"
#include "quant/read/source.h"

typedef struct plan_types {
    uint32_t layers, embedding, head; /* MKN_Q8 or MKN_Q4; the head's is not used if it is tied */
} plan_types;

typedef struct planned_tensor {
    mkn_tensor record;           /* offsets relative to the data section */
    const source_tensor *source; /* NULL: made by the quantizer (tables, frequencies) */
    bool by_heads;               /* rows (or, of a vector, values) are reordered within each head */
} planned_tensor;

typedef struct image_plan {
    const source_model *model;
    uint32_t flags; /* mkn_flags */
    uint32_t tensor_count;
    planned_tensor *tensors;
    uint64_t data_size;
} image_plan;

mk_status plan_image(image_plan *plan, const source_model *model, const plan_types *types, const char *path,
                     pool *memory, mk_error *err);

/* Whether the source has no output head of its own. */
bool plan_is_tied(const source_model *model);

/* Row of the source that becomes row `row` of a tensor that is ordered by heads: RoPE pairs value 2i with
 * 2i + 1 in the source and i with i + rope_dims / 2 in the image. */
uint32_t plan_source_row(const source_model *model, uint32_t row);

const char *plan_role_name(uint32_t role);

#endif

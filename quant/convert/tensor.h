/* tensor.h - one tensor of the plan from its source into the image, band of rows by band of rows. */
#ifndef MK_QUANT_TENSOR_H
#define MK_QUANT_TENSOR_H

#include "quant/convert/plan.h"
#include "quant/encode/encode.h"
#include "quant/read/map.h"
#include "quant/write/image_writer.h"

typedef struct tensor_job {
    const source_model *model;
    const source_map *map; /* where the weights lie */
    const char *path;      /* of the source, for messages */
    const codebook *book;  /* for q4 */
    const image_writer *writer;
    uint32_t threads;
} tensor_job;

mk_status convert_tensor(const tensor_job *job, const planned_tensor *t, encode_error *error, mk_error *err);

#endif

/* llama2c.h - model files (.bin) of llama2.c, versions 0 (legacy, no magic), 1 (float32) and 2 (int8 groups),
 * and its tokenizer files. Their tensors have no names; they get those that GGUF gives to the same ones. */
#ifndef MK_QUANT_LLAMA2C_H
#define MK_QUANT_LLAMA2C_H

#include "makarna.h"
#include "quant/read/map.h"
#include "quant/read/pool.h"
#include "quant/read/source.h"

mk_status llama2c_read(source_model *model, const source_map *map, const char *path, pool *memory,
                       mk_error *err);

/* Fills model->vocab with model->vocabulary tokens. */
mk_status llama2c_read_tokenizer(source_model *model, const source_map *map, const char *path, pool *memory,
                                 mk_error *err);

#endif

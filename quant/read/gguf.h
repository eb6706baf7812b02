/* gguf.h - the container of GGUF files, versions 2 and 3: typed keys and tensor records, each checked to
 * lie inside the file before it is used. What the keys mean is the business of gguf_model.c. */
#ifndef MK_QUANT_GGUF_H
#define MK_QUANT_GGUF_H

#include "makarna.h"
#include "quant/read/map.h"
#include "quant/read/pool.h"
#include "quant/read/source.h"

enum gguf_value_type {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_VALUE_TYPES,
};

typedef struct gguf_key {
    source_string name;
    uint32_t type;        /* gguf_value_type */
    uint32_t item_type;   /* of an array */
    uint64_t count;       /* of an array's items, else 1 */
    const uint8_t *value; /* first item, unaligned */
} gguf_key;

typedef struct gguf_tensor {
    source_string name;
    uint32_t dims; /* 1 to 4 */
    uint64_t extent[4];
    uint32_t type;   /* numbered as in ggml */
    uint64_t offset; /* from data_offset */
} gguf_tensor;

typedef struct gguf {
    const source_map *map;
    const char *path; /* for messages */
    uint32_t version;
    uint64_t data_offset;
    uint64_t key_count, tensor_count;
    gguf_key *keys;       /* sorted by name, no two alike */
    gguf_tensor *tensors; /* in file order, no two of one name */
} gguf;

/* Parses a mapped file; memory comes from the pool. */
mk_status gguf_parse(gguf *file, const source_map *map, const char *path, pool *memory, mk_error *err);

/* The key of this name, or NULL. */
const gguf_key *gguf_find(const gguf *file, const char *name);

/* Values of a key as one type. An absent key leaves *value as it is, or is an error where `required`.
 * Integers of any width are accepted where they fit. */
mk_status gguf_u32(const gguf *file, const char *name, bool required, uint32_t *value, mk_error *err);
mk_status gguf_f32(const gguf *file, const char *name, bool required, float *value, mk_error *err);
mk_status gguf_bool(const gguf *file, const char *name, bool *value, mk_error *err);
mk_status gguf_string(const gguf *file, const char *name, bool required, source_string *value, mk_error *err);

/* An array of strings as a table; NULL and 0 if it is absent. */
mk_status gguf_strings(const gguf *file, const char *name, pool *memory, source_string **items, uint32_t *count,
                       mk_error *err);

/* An array of 32-bit items (type GGUF_I32 or GGUF_F32; unsigned ones pass as GGUF_I32); *items is NULL
 * if it is absent. */
mk_status gguf_array32(const gguf *file, const char *name, uint32_t item_type, const uint8_t **items,
                       uint32_t *count, mk_error *err);

/* Reads a mapped GGUF file as a model, or as a vocabulary alone. */
mk_status gguf_read(source_model *model, const source_map *map, const char *path, bool vocab_only, pool *memory,
                    mk_error *err);

/* The part of gguf_read that fills model->vocab. */
mk_status gguf_read_vocab(source_vocab *vocab, const gguf *file, pool *memory, mk_error *err);

#endif

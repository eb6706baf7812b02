#include "quant/read/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/read/fail.h"

/* ---- Bounded reading -------------------------------------------------------------------------- */

typedef struct cursor {
    const uint8_t *base;
    uint64_t size, at;
} cursor;

static bool take(cursor *c, uint64_t bytes, const uint8_t **p)
{
    if (bytes > c->size - c->at)
        return false;
    *p = c->base + c->at;
    c->at += bytes;
    return true;
}

static bool take32(cursor *c, uint32_t *value)
{
    const uint8_t *p;
    if (!take(c, 4, &p))
        return false;
    *value = mk_load32(p);
    return true;
}

static bool take64(cursor *c, uint64_t *value)
{
    const uint8_t *p;
    if (!take(c, 8, &p))
        return false;
    *value = mk_load64(p);
    return true;
}

static bool take_string(cursor *c, source_string *s)
{
    uint64_t length;
    const uint8_t *p;
    if (!take64(c, &length) || !take(c, length, &p))
        return false;
    *s = (source_string){(const char *)p, (size_t)length};
    return true;
}

static uint32_t value_size(uint32_t type)
{
    static const uint8_t sizes[GGUF_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < GGUF_VALUE_TYPES ? sizes[type] : 0;
}

/* ---- Keys ------------------------------------------------------------------------------------- */

static mk_status cut_short(const gguf *file, const cursor *c, const char *what, mk_error *err)
{
    return quant_fail(err, MK_ERR_FORMAT,
                      "%s: truncated or damaged: %s at byte %llu does not fit into the file of %llu bytes; "
                      "download it again",
                      file->path, what, (unsigned long long)c->at, (unsigned long long)c->size);
}

static mk_status read_items(const gguf *file, cursor *c, const gguf_key *key, uint32_t type, mk_error *err)
{
    char name[QUANT_NAME];
    uint32_t size = value_size(type);
    if (size == 0 && type != GGUF_STRING)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: key %s has a value of unknown type %u%s", file->path,
                          quant_name(key->name, name), type, type == GGUF_ARRAY ? " (array of arrays)" : "");
    const uint8_t *p;
    source_string s;
    uint64_t bytes;
    if (size) {
        if (mk_mul_overflows(key->count, size, &bytes) || !take(c, bytes, &p))
            return cut_short(file, c, "a value", err);
        return MK_OK;
    }
    for (uint64_t i = 0; i < key->count; i++) /* each takes 8 bytes at least */
        if (!take_string(c, &s))
            return cut_short(file, c, "a string", err);
    return MK_OK;
}

static mk_status read_key(const gguf *file, cursor *c, gguf_key *key, mk_error *err)
{
    char name[QUANT_NAME];
    if (!take_string(c, &key->name) || !take32(c, &key->type))
        return cut_short(file, c, "a key", err);
    uint32_t type = key->type;
    key->count = 1;
    if (key->name.length == 0)
        return quant_fail(err, MK_ERR_FORMAT, "%s: a key before byte %llu has no name", file->path,
                          (unsigned long long)c->at);
    if (type == GGUF_ARRAY) {
        if (!take32(c, &key->item_type) || !take64(c, &key->count))
            return cut_short(file, c, "an array", err);
        type = key->item_type;
    }
    key->value = c->base + c->at;
    mk_status status = read_items(file, c, key, type, err);
    if (!status && key->type == GGUF_BOOL && *key->value > 1)
        return quant_fail(err, MK_ERR_FORMAT, "%s: key %s is a boolean of value %u", file->path,
                          quant_name(key->name, name), *key->value);
    return status;
}

static int compare_names(const source_string *a, const source_string *b)
{
    size_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, common);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int compare_keys(const void *a, const void *b)
{
    return compare_names(&((const gguf_key *)a)->name, &((const gguf_key *)b)->name);
}

static mk_status read_keys(gguf *file, cursor *c, pool *memory, mk_error *err)
{
    char name[QUANT_NAME];
    const uint64_t smallest = 8 + 4 + 1;
    if (file->key_count > (c->size - c->at) / smallest)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %llu keys do not fit into the file; it is damaged",
                          file->path, (unsigned long long)file->key_count);
    file->keys = pool_take(memory, file->key_count, sizeof *file->keys);
    if (!file->keys)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %llu keys", file->path,
                          (unsigned long long)file->key_count);
    for (uint64_t i = 0; i < file->key_count; i++) {
        mk_status status = read_key(file, c, &file->keys[i], err);
        if (status)
            return status;
    }
    qsort(file->keys, (size_t)file->key_count, sizeof *file->keys, compare_keys);
    for (uint64_t i = 1; i < file->key_count; i++)
        if (compare_keys(&file->keys[i - 1], &file->keys[i]) == 0)
            return quant_fail(err, MK_ERR_FORMAT, "%s: key %s occurs twice", file->path,
                              quant_name(file->keys[i].name, name));
    return MK_OK;
}

/* ---- Tensor records --------------------------------------------------------------------------- */

static mk_status read_tensor(const gguf *file, cursor *c, gguf_tensor *t, mk_error *err)
{
    char name[QUANT_NAME];
    if (!take_string(c, &t->name) || !take32(c, &t->dims))
        return cut_short(file, c, "a tensor record", err);
    if (t->dims < 1 || t->dims > 4)
        return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s has %u dimensions, expected 1 to 4", file->path,
                          quant_name(t->name, name), t->dims);
    for (uint32_t i = 0; i < 4; i++) {
        t->extent[i] = 1;
        if (i < t->dims && !take64(c, &t->extent[i]))
            return cut_short(file, c, "a tensor record", err);
        if (t->extent[i] == 0)
            return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s has a dimension of 0", file->path,
                              quant_name(t->name, name));
    }
    if (!take32(c, &t->type) || !take64(c, &t->offset))
        return cut_short(file, c, "a tensor record", err);
    return MK_OK;
}

static int compare_tensor_names(const void *a, const void *b)
{
    return compare_names(&(*(const gguf_tensor *const *)a)->name, &(*(const gguf_tensor *const *)b)->name);
}

static mk_status check_tensor_names(const gguf *file, pool *memory, mk_error *err)
{
    char name[QUANT_NAME];
    const gguf_tensor **order = pool_take(memory, file->tensor_count, sizeof *order);
    if (!order)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", file->path);
    for (uint64_t i = 0; i < file->tensor_count; i++)
        order[i] = &file->tensors[i];
    qsort(order, (size_t)file->tensor_count, sizeof *order, compare_tensor_names);
    for (uint64_t i = 1; i < file->tensor_count; i++)
        if (compare_tensor_names(&order[i - 1], &order[i]) == 0)
            return quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s occurs twice", file->path,
                              quant_name(order[i]->name, name));
    return MK_OK;
}

static mk_status read_tensors(gguf *file, cursor *c, pool *memory, mk_error *err)
{
    const uint64_t smallest = 8 + 4 + 8 + 4 + 8;
    if (file->tensor_count > (c->size - c->at) / smallest)
        return quant_fail(err, MK_ERR_FORMAT, "%s: %llu tensors do not fit into the file; it is damaged",
                          file->path, (unsigned long long)file->tensor_count);
    file->tensors = pool_take(memory, file->tensor_count, sizeof *file->tensors);
    if (!file->tensors)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %llu tensors", file->path,
                          (unsigned long long)file->tensor_count);
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        mk_status status = read_tensor(file, c, &file->tensors[i], err);
        if (status)
            return status;
    }
    return check_tensor_names(file, memory, err);
}

/* ---- The file --------------------------------------------------------------------------------- */

static mk_status read_version(gguf *file, cursor *c, mk_error *err)
{
    const uint8_t *magic;
    if (!take(c, 4, &magic) || memcmp(magic, "GGUF", 4) != 0)
        return quant_fail(err, MK_ERR_FORMAT, "%s: not a GGUF file (no GGUF at its start)", file->path);
    if (!take32(c, &file->version))
        return cut_short(file, c, "the version", err);
    if (file->version >= 1u << 24 && (file->version & 0xffffffu) == 0)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: a big-endian GGUF file; convert it to little-endian",
                          file->path);
    if (file->version != 2 && file->version != 3)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: GGUF version %u, expected 2 or 3; convert it anew",
                          file->path, file->version);
    return MK_OK;
}

mk_status gguf_parse(gguf *file, const source_map *map, const char *path, pool *memory, mk_error *err)
{
    *file = (gguf){.map = map, .path = path};
    cursor c = {map->data, map->size, 0};
    mk_status status = read_version(file, &c, err);
    if (status)
        return status;
    if (!take64(&c, &file->tensor_count) || !take64(&c, &file->key_count))
        return cut_short(file, &c, "the header", err);
    if ((status = read_keys(file, &c, memory, err)) || (status = read_tensors(file, &c, memory, err)))
        return status;
    uint32_t alignment = 32;
    if ((status = gguf_u32(file, "general.alignment", false, &alignment, err)))
        return status;
    if (alignment == 0 || alignment > 1u << 20 || (alignment & (alignment - 1)))
        return quant_fail(err, MK_ERR_FORMAT, "%s: general.alignment is %u, expected a power of two up to 2^20",
                          path, alignment);
    file->data_offset = mk_align_up(c.at, alignment);
    for (uint64_t i = 0; i < file->tensor_count; i++) {
        char name[QUANT_NAME];
        if (file->tensors[i].offset % alignment)
            return quant_fail(err, MK_ERR_FORMAT,
                              "%s: tensor %s begins at byte %llu of the data, which is no "
                              "multiple of the alignment %u",
                              path, quant_name(file->tensors[i].name, name),
                              (unsigned long long)file->tensors[i].offset, alignment);
    }
    return MK_OK;
}

/* ---- Typed values ----------------------------------------------------------------------------- */

const gguf_key *gguf_find(const gguf *file, const char *name)
{
    gguf_key wanted = {.name = source_text(name)};
    if (file->key_count == 0)
        return NULL;
    return bsearch(&wanted, file->keys, (size_t)file->key_count, sizeof wanted, compare_keys);
}

static const char *type_name(uint32_t type)
{
    static const char *const names[GGUF_VALUE_TYPES] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                        "bool", "string", "array", "u64", "i64", "f64"};
    return type < GGUF_VALUE_TYPES ? names[type] : "unknown";
}

/* Finds a key; *key is NULL if it may be absent and is. */
static mk_status find(const gguf *file, const char *name, bool required, const gguf_key **key, mk_error *err)
{
    *key = gguf_find(file, name);
    if (*key || !required)
        return MK_OK;
    return quant_fail(err, MK_ERR_FORMAT, "%s: key %s is missing", file->path, name);
}

static mk_status wrong_type(const gguf *file, const gguf_key *key, const char *expected, mk_error *err)
{
    char name[QUANT_NAME];
    return quant_fail(err, MK_ERR_FORMAT, "%s: key %s has type %s, expected %s", file->path,
                      quant_name(key->name, name), type_name(key->type), expected);
}

/* An integer of any width; negative ones come out above INT64_MAX. */
static bool integer_of(const gguf_key *key, uint64_t *value)
{
    const uint8_t *p = key->value;
    switch (key->type) {
    case GGUF_U8:
        *value = *p;
        return true;
    case GGUF_I8:
        *value = (uint64_t)(int64_t)(int8_t)*p;
        return true;
    case GGUF_U16:
        *value = mk_load16(p);
        return true;
    case GGUF_I16:
        *value = (uint64_t)(int64_t)(int16_t)mk_load16(p);
        return true;
    case GGUF_U32:
        *value = mk_load32(p);
        return true;
    case GGUF_I32:
        *value = (uint64_t)(int64_t)(int32_t)mk_load32(p);
        return true;
    case GGUF_U64:
    case GGUF_I64:
        *value = mk_load64(p);
        return true;
    default:
        return false;
    }
}

mk_status gguf_u32(const gguf *file, const char *name, bool required, uint32_t *value, mk_error *err)
{
    const gguf_key *key;
    uint64_t wide;
    mk_status status = find(file, name, required, &key, err);
    if (status || !key)
        return status;
    if (!integer_of(key, &wide))
        return wrong_type(file, key, "an integer", err);
    if (wide > UINT32_MAX)
        return quant_fail(err, MK_ERR_FORMAT, "%s: key %s is %lld, expected 0 to 4294967295", file->path, name,
                          (long long)wide);
    *value = (uint32_t)wide;
    return MK_OK;
}

mk_status gguf_f32(const gguf *file, const char *name, bool required, float *value, mk_error *err)
{
    const gguf_key *key;
    mk_status status = find(file, name, required, &key, err);
    if (status || !key)
        return status;
    if (key->type == GGUF_F32) {
        *value = mk_float_from_bits(mk_load32(key->value));
    } else if (key->type == GGUF_F64) {
        double wide;
        memcpy(&wide, key->value, sizeof wide);
        *value = (float)wide;
    } else {
        return wrong_type(file, key, "f32", err);
    }
    if (!(*value - *value == 0))
        return quant_fail(err, MK_ERR_FORMAT, "%s: key %s is not a finite number", file->path, name);
    return MK_OK;
}

mk_status gguf_bool(const gguf *file, const char *name, bool *value, mk_error *err)
{
    const gguf_key *key = gguf_find(file, name);
    if (!key)
        return MK_OK;
    if (key->type != GGUF_BOOL)
        return wrong_type(file, key, "bool", err);
    *value = *key->value != 0;
    return MK_OK;
}

static source_string string_at(const uint8_t *p)
{
    return (source_string){(const char *)p + 8, (size_t)mk_load64(p)};
}

mk_status gguf_string(const gguf *file, const char *name, bool required, source_string *value, mk_error *err)
{
    const gguf_key *key;
    mk_status status = find(file, name, required, &key, err);
    if (status || !key)
        return status;
    if (key->type != GGUF_STRING)
        return wrong_type(file, key, "string", err);
    *value = string_at(key->value);
    return MK_OK;
}

static mk_status find_array(const gguf *file, const char *name, const gguf_key **key, uint32_t *count,
                            mk_error *err)
{
    *key = gguf_find(file, name);
    *count = 0;
    if (!*key)
        return MK_OK;
    if ((*key)->type != GGUF_ARRAY)
        return wrong_type(file, *key, "array", err);
    if ((*key)->count > 1u << 24)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: array %s has %llu items, expected 2^24 at most",
                          file->path, name, (unsigned long long)(*key)->count);
    *count = (uint32_t)(*key)->count;
    return MK_OK;
}

mk_status gguf_strings(const gguf *file, const char *name, pool *memory, source_string **items, uint32_t *count,
                       mk_error *err)
{
    const gguf_key *key;
    *items = NULL;
    mk_status status = find_array(file, name, &key, count, err);
    if (status || !key)
        return status;
    if (key->item_type != GGUF_STRING)
        return quant_fail(err, MK_ERR_FORMAT, "%s: array %s does not hold strings", file->path, name);
    *items = pool_take(memory, *count, sizeof **items);
    if (!*items)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory for %u strings of %s", file->path, *count,
                          name);
    const uint8_t *p = key->value;
    for (uint32_t i = 0; i < *count; i++) {
        (*items)[i] = string_at(p); /* parsing has checked that all lie inside */
        p += 8 + (*items)[i].length;
    }
    return MK_OK;
}

mk_status gguf_array32(const gguf *file, const char *name, uint32_t item_type, const uint8_t **items,
                       uint32_t *count, mk_error *err)
{
    const gguf_key *key;
    *items = NULL;
    mk_status status = find_array(file, name, &key, count, err);
    if (status || !key)
        return status;
    if (key->item_type != item_type && !(item_type == GGUF_I32 && key->item_type == GGUF_U32))
        return quant_fail(err, MK_ERR_FORMAT, "%s: array %s has items of type %s, expected %s", file->path,
                          name, type_name(key->item_type), type_name(item_type));
    *items = key->value;
    return MK_OK;
}

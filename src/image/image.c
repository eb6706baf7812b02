#define _GNU_SOURCE /* MAP_POPULATE */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"

static const char *const section_names[MKN_SECTIONS] = {"directory", "layers",  "data",
                                                        "tokenizer", "strings", "provenance"};

const uint8_t *mk_image_section(const mk_image *image, enum mkn_section_kind kind, uint64_t *size)
{
    const mkn_section *s = &image->header->sections[kind];
    *size = s->size;
    return s->size ? image->base + s->offset : NULL;
}

const mkn_strings *mk_image_strings(const mk_image *image)
{
    uint64_t size;
    const uint8_t *section = mk_image_section(image, MKN_STRINGS, &size);
    return size >= sizeof(mkn_strings) ? (const mkn_strings *)(const void *)section : NULL;
}

/* A terminated text at `offset` of a section, or "". */
static const char *text_at(const mk_image *image, enum mkn_section_kind kind, uint32_t offset)
{
    uint64_t size;
    const uint8_t *section = mk_image_section(image, kind, &size);
    if (!section || offset == 0 || offset >= size)
        return "";
    const char *text = (const char *)section + offset;
    return memchr(text, 0, (size_t)(size - offset)) ? text : "";
}

const char *mk_image_string(const mk_image *image, uint32_t offset)
{
    return text_at(image, MKN_STRINGS, offset);
}

bool mkn_tensor_sizes(uint32_t type, uint32_t rows, uint32_t cols, uint64_t *size, uint64_t *scales_size)
{
    uint64_t groups = ((uint64_t)rows + MKN_GROUP - 1) / MKN_GROUP;
    uint64_t blocks = ((uint64_t)cols + MKN_BLOCK - 1) / MKN_BLOCK;
    uint64_t supers = (blocks + 7) / 8;
    uint64_t per_group;
    *scales_size = 0;
    switch (type) {
    case MKN_F32:
        return !mk_mul_overflows((uint64_t)rows * cols, 4, size);
    case MKN_I8:
        *size = (uint64_t)rows * cols;
        return true;
    case MKN_Q8:
        per_group = 8 * supers;
        return !mk_mul_overflows(groups * blocks, 128, size) &&
               !mk_mul_overflows(groups, per_group, scales_size);
    case MKN_Q4:
        per_group = 8 * supers + 4 * blocks;
        return !mk_mul_overflows(groups * blocks, 64, size) &&
               !mk_mul_overflows(groups, per_group, scales_size);
    default:
        return false;
    }
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static mk_status check_range(const char *name, uint32_t value, uint32_t low, uint32_t high, mk_error *err)
{
    if (value >= low && value <= high)
        return MK_OK;
    return mk_fail(err, MK_ERR_FORMAT, "image header: %s is %u, expected %u to %u", name, value, low, high);
}

static mk_status check_hyper_parameters(const mkn_header *h, mk_error *err)
{
    const uint32_t known = MKN_TIED | MKN_ATTENTION_BIAS | MKN_QK_NORM | MKN_VOCAB_ONLY;
    if (h->flags & ~known)
        return mk_fail(err, MK_ERR_UNSUPPORTED, "image header: unknown flags %x; a newer makarna wrote it",
                       (uint64_t)h->flags);
    mk_status s = check_range("vocabulary", h->vocabulary, 1, MKN_MAX_VOCABULARY, err);
    if (s || h->flags & MKN_VOCAB_ONLY)
        return s;
    const struct {
        const char *name;
        uint32_t value, high;
    } fields[] = {{"layers", h->layers, MKN_MAX_LAYERS},
                  {"heads", h->heads, MKN_MAX_HEADS},
                  {"kv_heads", h->kv_heads, h->heads},
                  {"head_size", h->head_size, MKN_MAX_HEAD_SIZE},
                  {"hidden", h->hidden, MKN_MAX_WIDTH},
                  {"intermediate", h->intermediate, MKN_MAX_WIDTH},
                  {"context", h->context, MKN_MAX_CONTEXT},
                  {"heads * head_size", h->heads * h->head_size, MKN_MAX_WIDTH}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if ((s = check_range(fields[i].name, fields[i].value, 1, fields[i].high, err)))
            return s;
    if (h->heads % h->kv_heads)
        return mk_fail(err, MK_ERR_FORMAT, "image header: %u heads do not share %u kv_heads evenly", h->heads,
                       h->kv_heads);
    if (h->rope_dims % 2 || h->rope_dims > h->head_size)
        return mk_fail(err, MK_ERR_FORMAT, "image header: rope_dims is %u, expected an even number up to %u",
                       h->rope_dims, h->head_size);
    if (!(h->norm_epsilon > 1e-12f && h->norm_epsilon < 1.0f))
        return mk_fail(err, MK_ERR_FORMAT, "image header: norm_epsilon is not between 1e-12 and 1");
    return MK_OK;
}

static mk_status check_sections(const mkn_header *h, mk_error *err)
{
    uint64_t end = sizeof *h;
    for (uint32_t i = 0; i < 8; i++) {
        const mkn_section *s = &h->sections[i];
        if (s->size == 0)
            continue;
        if (i >= MKN_SECTIONS)
            return mk_fail(err, MK_ERR_UNSUPPORTED,
                           "image header: unknown section %u; a newer makarna wrote it", i);
        if (s->offset % MKN_ALIGN || s->offset < end || s->offset > h->file_size ||
            s->size > h->file_size - s->offset)
            return mk_fail(
                err, MK_ERR_FORMAT,
                "image header: section %s (offset %U, %U bytes) is misaligned or outside of %U to %U",
                section_names[i], s->offset, s->size, end, h->file_size);
        end = s->offset + s->size;
    }
    return MK_OK;
}

static mk_status check_section_checksum(const mk_image *image, uint32_t kind, mk_error *err)
{
    const mkn_section *s = &image->header->sections[kind];
    if (s->size > SIZE_MAX)
        return mk_fail(err, MK_ERR_UNSUPPORTED, "image: section %s is too large for this machine",
                       section_names[kind]);
    uint64_t found = mk_hash(image->base + (s->size ? s->offset : 0), (size_t)s->size, 0);
    if (s->size == 0 || found == s->checksum)
        return MK_OK;
    return mk_fail(err, MK_ERR_FORMAT,
                   "image: section %s is damaged (checksum %x, expected %x); copy or quantize it again",
                   section_names[kind], found, s->checksum);
}

/* ---- Directory ------------------------------------------------------------------------------- */

enum extent {
    ONE,
    TABLES,
    LEVELS,
    ROPE_SETS,
    ROPE_HALF,
    VOCABULARY,
    HIDDEN,
    INTERMEDIATE,
    Q_ROWS,
    KV_ROWS,
    HEAD
};

/* The tensors of an image in their order; `needs` is a flag that calls for one. */
typedef struct slot {
    uint16_t role;
    bool matrix; /* q8 or q4; otherwise float (or the int8 tables) */
    uint32_t needs;
    enum extent rows, cols;
    const char *name;
} slot;

static const slot head_slots[] = {
    {MKN_ROPE_FREQUENCIES, false, 0, ROPE_SETS, ROPE_HALF, "rope frequencies"},
    {MKN_TOKEN_EMBEDDING, true, 0, VOCABULARY, HIDDEN, "token embedding"},
};
static const slot layer_slots[] = {
    {MKN_ATTENTION_NORM, false, 0, ONE, HIDDEN, "attention norm"},
    {MKN_Q, true, 0, Q_ROWS, HIDDEN, "q"},
    {MKN_K, true, 0, KV_ROWS, HIDDEN, "k"},
    {MKN_V, true, 0, KV_ROWS, HIDDEN, "v"},
    {MKN_Q_BIAS, false, MKN_ATTENTION_BIAS, ONE, Q_ROWS, "q bias"},
    {MKN_K_BIAS, false, MKN_ATTENTION_BIAS, ONE, KV_ROWS, "k bias"},
    {MKN_V_BIAS, false, MKN_ATTENTION_BIAS, ONE, KV_ROWS, "v bias"},
    {MKN_Q_NORM, false, MKN_QK_NORM, ONE, HEAD, "q norm"},
    {MKN_K_NORM, false, MKN_QK_NORM, ONE, HEAD, "k norm"},
    {MKN_O, true, 0, HIDDEN, Q_ROWS, "o"},
    {MKN_MLP_NORM, false, 0, ONE, HIDDEN, "mlp norm"},
    {MKN_GATE, true, 0, INTERMEDIATE, HIDDEN, "gate"},
    {MKN_UP, true, 0, INTERMEDIATE, HIDDEN, "up"},
    {MKN_DOWN, true, 0, HIDDEN, INTERMEDIATE, "down"},
};
static const slot tail_slots[] = {
    {MKN_OUTPUT_NORM, false, 0, ONE, HIDDEN, "output norm"},
    {MKN_OUTPUT_HEAD, true, 0, VOCABULARY, HIDDEN, "output head"},
};
static const slot table_slot = {MKN_Q4_TABLES, false, 0, TABLES, LEVELS, "q4 tables"};

static uint32_t extent_of(const mkn_header *h, enum extent e)
{
    switch (e) {
    case TABLES:
        return MKN_TABLES;
    case LEVELS:
        return MKN_LEVELS;
    case ROPE_HALF:
        return h->rope_dims / 2;
    case VOCABULARY:
        return h->vocabulary;
    case HIDDEN:
        return h->hidden;
    case INTERMEDIATE:
        return h->intermediate;
    case Q_ROWS:
        return h->heads * h->head_size;
    case KV_ROWS:
        return h->kv_heads * h->head_size;
    case HEAD:
        return h->head_size;
    case ONE:
    case ROPE_SETS: /* up to one for each layer: the tensor's own */
        break;
    }
    return 1;
}

static bool inside(uint64_t offset, uint64_t size, const mkn_section *section)
{
    return offset % MKN_ALIGN == 0 && offset >= section->offset && size <= section->size &&
           offset - section->offset <= section->size - size;
}

/* What a tensor is. */
static mk_status check_kind(const mkn_header *h, const mkn_tensor *t, const slot *s, mk_error *err)
{
    uint32_t rows = s->rows == ROPE_SETS ? t->rows : extent_of(h, s->rows);
    uint32_t cols = extent_of(h, s->cols);
    uint32_t most = s->rows == ROPE_SETS ? h->layers : MKN_MAX_VOCABULARY;
    if (t->rows != rows || t->cols != cols)
        return mk_fail(err, MK_ERR_FORMAT, "%u x %u, expected %u x %u", t->rows, t->cols, rows, cols);
    if (rows < 1 || rows > most)
        return mk_fail(err, MK_ERR_FORMAT, "%u rows, expected 1 to %u", rows, most);
    if (s->matrix ? t->type != MKN_Q8 && t->type != MKN_Q4 : t->type != (s == &table_slot ? MKN_I8 : MKN_F32))
        return mk_fail(err, MK_ERR_UNSUPPORTED, "type %u, expected %s", (uint32_t)t->type,
                       s->matrix          ? "2 (q8) or 3 (q4)"
                       : s == &table_slot ? "1 (i8)"
                                          : "0 (f32)");
    if (t->flags & ~(s->matrix ? MKN_TRANSFORMED : 0u))
        return mk_fail(err, MK_ERR_UNSUPPORTED, "unknown flags %x; a newer makarna wrote it",
                       (uint64_t)t->flags);
    return MK_OK;
}

/* Where it lies. */
static mk_status check_place(const mkn_section *data, const mkn_tensor *t, mk_error *err)
{
    uint64_t size, scales_size;
    if (!mkn_tensor_sizes(t->type, t->rows, t->cols, &size, &scales_size) || t->size != size ||
        t->scales_size != scales_size)
        return mk_fail(err, MK_ERR_FORMAT, "%U bytes and %U of scales, expected %U and %U", t->size,
                       t->scales_size, size, scales_size);
    if (!inside(t->offset, size, data) ||
        (scales_size ? !inside(t->scales_offset, scales_size, data) : t->scales_offset != 0))
        return mk_fail(err, MK_ERR_FORMAT,
                       "%U bytes at %U and %U at %U, expected inside the data section (%U bytes at %U)", size,
                       t->offset, scales_size, t->scales_offset, data->size, data->offset);
    return MK_OK;
}

static mk_status check_tensor(const mk_image *image, const mkn_tensor *t, const slot *s, uint32_t layer,
                              mk_error *err)
{
    mk_error reason;
    mk_status status;
    if (t->role != s->role || t->layer != layer)
        status =
            mk_fail(&reason, MK_ERR_FORMAT, "role %u of layer %u in its place", (uint32_t)t->role, t->layer);
    else if (t->type == MKN_Q4 && image->tensors[0].role != MKN_Q4_TABLES)
        status = mk_fail(&reason, MK_ERR_FORMAT, "q4, but there are no tables");
    else if (!(status = check_kind(image->header, t, s, &reason)))
        status = check_place(&image->header->sections[MKN_DATA], t, &reason);
    if (status)
        mk_fail(err, status, "image directory: tensor %s of layer %u: %s", s->name, layer, reason.text);
    return status;
}

/* Checks tensor number *next against a slot and steps on. */
static mk_status check_next(const mk_image *image, uint32_t *next, const slot *s, uint32_t layer, mk_error *err)
{
    if (*next >= image->header->tensor_count)
        return mk_fail(err, MK_ERR_FORMAT, "image directory: tensor %s of layer %u is missing", s->name, layer);
    return check_tensor(image, &image->tensors[(*next)++], s, layer, err);
}

static mk_status check_directory(const mk_image *image, mk_error *err)
{
    const mkn_header *h = image->header;
    uint32_t next = 0;
    mk_status s = MK_OK;
    if (h->tensor_count && image->tensors[0].role == MKN_Q4_TABLES)
        s = check_next(image, &next, &table_slot, 0, err);
    for (size_t i = 0; !s && i < sizeof head_slots / sizeof head_slots[0]; i++)
        s = check_next(image, &next, &head_slots[i], 0, err);
    for (uint32_t layer = 0; !s && layer < h->layers; layer++)
        for (size_t i = 0; !s && i < sizeof layer_slots / sizeof layer_slots[0]; i++)
            if ((layer_slots[i].needs & h->flags) == layer_slots[i].needs)
                s = check_next(image, &next, &layer_slots[i], layer, err);
    if (!s)
        s = check_next(image, &next, &tail_slots[0], 0, err);
    if (!s && !(h->flags & MKN_TIED))
        s = check_next(image, &next, &tail_slots[1], 0, err);
    if (!s && next != h->tensor_count)
        s = mk_fail(err, MK_ERR_FORMAT, "image directory: %u tensors, expected %u", h->tensor_count, next);
    return s;
}

/* Matrices with one input must agree in how they want it. The order of the directory is known to be right. */
static mk_status check_shared_inputs(const mk_image *image, mk_error *err)
{
    const mkn_tensor *t = image->tensors;
    for (uint32_t i = 1; i < image->header->tensor_count; i++)
        if ((t[i].role == MKN_K || t[i].role == MKN_V || t[i].role == MKN_UP) && t[i].flags != t[i - 1].flags)
            return mk_fail(
                err, MK_ERR_FORMAT,
                "image directory: q, k and v, or gate and up, of layer %u disagree about the transform",
                t[i].layer);
    return MK_OK;
}

/* -128 has no counterpart, and kernels may negate. */
static mk_status check_tables(const mk_image *image, mk_error *err)
{
    const mkn_tensor *t = mk_image_tensor(image, MKN_Q4_TABLES, 0);
    if (t && memchr(image->base + t->offset, 0x80, MKN_TABLES * MKN_LEVELS))
        return mk_fail(err, MK_ERR_FORMAT,
                       "image: a q4 table holds -128, expected -127 to 127; quantize it again");
    return MK_OK;
}

/* Angles must stay in the range of mk_sincos. */
#define MAX_FREQUENCY 8.0f
_Static_assert((uint64_t)MKN_MAX_CONTEXT * 8 <= 1u << 27, "position * frequency is below 2^27");

static mk_status check_rope(const mk_image *image, mk_error *err)
{
    const mkn_tensor *rope = mk_image_tensor(image, MKN_ROPE_FREQUENCIES, 0);
    const float *frequencies = (const float *)(const void *)(image->base + rope->offset);
    for (uint32_t i = 0; i < rope->rows * rope->cols; i++)
        if (!(frequencies[i] >= 0 && frequencies[i] <= MAX_FREQUENCY))
            return mk_fail(err, MK_ERR_FORMAT,
                           "image: RoPE frequency %u of %u is not in the range of 0 to 8; quantize it again", i,
                           rope->rows * rope->cols);
    for (uint32_t i = 0; i < image->header->layers; i++)
        if (image->layers[i].rope_set >= rope->rows)
            return mk_fail(err, MK_ERR_FORMAT, "image: layer %u uses rope set %u of %u", i,
                           image->layers[i].rope_set, rope->rows);
    return MK_OK;
}

/* Checks all that the decoder relies on. The work grows with the number of layers, not of weights. */
static mk_status check_image(mk_image *image, mk_error *err)
{
    const mkn_header *h = image->header;
    if (image->size < sizeof *h)
        return mk_fail(err, MK_ERR_FORMAT, "not a makarna image: %U bytes, the header alone has %u",
                       image->size, (uint32_t)sizeof *h);
    if (memcmp(h->magic, MKN_MAGIC, sizeof h->magic) != 0)
        return mk_fail(err, MK_ERR_FORMAT,
                       "not a makarna image (no MAKARNA at its start); make one with makarna-quant");
    if (h->version != MKN_VERSION || h->header_size != sizeof *h)
        return mk_fail(err, MK_ERR_UNSUPPORTED,
                       "image version %u, this makarna reads version %u; quantize it again", h->version,
                       MKN_VERSION);
    mkn_header copy = *h;
    copy.checksum = 0;
    uint64_t found = mk_hash(&copy, sizeof copy, 0);
    if (found != h->checksum)
        return mk_fail(err, MK_ERR_FORMAT,
                       "image header is damaged (checksum %x, expected %x); copy or quantize it again", found,
                       h->checksum);
    if (h->file_size != image->size)
        return mk_fail(err, MK_ERR_FORMAT, "image is %s: %U bytes, the header says %U; copy it again",
                       image->size < h->file_size ? "truncated" : "too long", image->size, h->file_size);
    mk_status s = check_hyper_parameters(h, err);
    if (!s)
        s = check_sections(h, err);
    if (!s && h->sections[MKN_TOKENIZER].size == 0)
        s = mk_fail(err, MK_ERR_FORMAT, "image has no tokenizer section");
    if (s || h->flags & MKN_VOCAB_ONLY)
        return s;
    if (h->sections[MKN_DIRECTORY].size != (uint64_t)h->tensor_count * sizeof(mkn_tensor) ||
        h->sections[MKN_LAYERS].size != (uint64_t)h->layers * sizeof(mkn_layer))
        return mk_fail(
            err, MK_ERR_FORMAT,
            "image header: directory and layers have %U and %U bytes, expected %u records of %u and %u of %u",
            h->sections[MKN_DIRECTORY].size, h->sections[MKN_LAYERS].size, h->tensor_count,
            (uint32_t)sizeof(mkn_tensor), h->layers, (uint32_t)sizeof(mkn_layer));
    if ((s = check_section_checksum(image, MKN_DIRECTORY, err)) ||
        (s = check_section_checksum(image, MKN_LAYERS, err)))
        return s;
    uint64_t size;
    image->tensors = (const mkn_tensor *)(const void *)mk_image_section(image, MKN_DIRECTORY, &size);
    image->layers = (const mkn_layer *)(const void *)mk_image_section(image, MKN_LAYERS, &size);
    if ((s = check_directory(image, err)) || (s = check_shared_inputs(image, err)) ||
        (s = check_tables(image, err)))
        return s;
    return check_rope(image, err);
}

const mkn_tensor *mk_image_tensor(const mk_image *image, enum mkn_role role, uint32_t layer)
{
    if (!image->tensors)
        return NULL;
    for (uint32_t i = 0; i < image->header->tensor_count; i++)
        if (image->tensors[i].role == role && image->tensors[i].layer == layer)
            return &image->tensors[i];
    return NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

mk_status mk_model_open_memory(mk_model *model, const void *bytes, size_t size, mk_error *err)
{
    mk_image *image = (mk_image *)(void *)model->storage;
    memset(model, 0, sizeof *model);
    if (!bytes || (uintptr_t)bytes % MKN_ALIGN)
        return mk_fail(err, MK_ERR_ARGUMENT, "the image must lie at a multiple of %u bytes", MKN_ALIGN);
    image->base = bytes;
    image->size = size;
    image->header = bytes;
    mk_status s = check_image(image, err);
    if (s)
        memset(model, 0, sizeof *model);
    return s;
}

static mk_status map_file(int fd, const char *path, mk_load load, void **address, size_t *size, mk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mk_fail(err, MK_ERR_IO, "%s: cannot stat: %e", path, errno);
    if (!S_ISREG(st.st_mode))
        return mk_fail(err, MK_ERR_IO, "%s: not a regular file", path);
    if (st.st_size < (off_t)sizeof(mkn_header))
        return mk_fail(err, MK_ERR_FORMAT, "%s: not a makarna image: %U bytes, the header alone has %u", path,
                       (uint64_t)st.st_size, (uint32_t)sizeof(mkn_header));
    if ((uint64_t)st.st_size > SIZE_MAX)
        return mk_fail(err, MK_ERR_UNSUPPORTED, "%s: %M do not fit into the address space of this machine",
                       path, (uint64_t)st.st_size);
    *size = (size_t)st.st_size;
    *address = mmap(NULL, *size, PROT_READ, MAP_SHARED | (load == MK_LOAD_PRELOAD ? MAP_POPULATE : 0), fd, 0);
    if (*address == MAP_FAILED)
        return mk_fail(err, MK_ERR_IO, "%s: cannot map %M: %e", path, (uint64_t)*size, errno);
    if (load == MK_LOAD_LOCK && mlock(*address, *size) != 0) {
        int error = errno;
        munmap(*address, *size);
        return mk_fail(err, MK_ERR_IO,
                       "%s: cannot lock %M in memory: %e; raise the limit (ulimit -l) or use load = map", path,
                       (uint64_t)*size, error);
    }
    return MK_OK;
}

mk_status mk_model_open(mk_model *model, const char *path, mk_load load, mk_error *err)
{
    memset(model, 0, sizeof *model);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (fd < 0)
        return mk_fail(err, MK_ERR_IO, "%s: cannot open: %e", path, errno);
    void *address = NULL;
    size_t size = 0;
    mk_status s = map_file(fd, path, load, &address, &size, err);
    close(fd);
    if (s)
        return s;
    mk_error inner;
    s = mk_model_open_memory(model, address, size, &inner);
    if (s) {
        munmap(address, size);
        return mk_fail(err, s, "%s: %s", path, inner.text);
    }
    ((mk_image *)(void *)model->storage)->mapped = true;
    return MK_OK;
}

void mk_model_close(mk_model *model)
{
    mk_image *image = (mk_image *)(void *)model->storage;
    if (image->mapped)
        munmap((void *)(uintptr_t)image->base, (size_t)image->size);
    memset(model, 0, sizeof *model);
}

mk_status mk_model_verify(const mk_model *model, mk_error *err)
{
    mk_status s = MK_OK;
    for (uint32_t i = 0; !s && i < MKN_SECTIONS; i++)
        s = check_section_checksum(mk_image_of(model), i, err);
    return s;
}

/* ---- Information ----------------------------------------------------------------------------- */

static const char *type_name(const mkn_tensor *t)
{
    return !t ? "" : t->type == MKN_Q4 ? "q4" : t->type == MKN_Q8 ? "q8" : "f32";
}

static void get_provenance(const mk_image *image, mk_model_info *info)
{
    uint64_t size;
    const uint8_t *section = mk_image_section(image, MKN_PROVENANCE, &size);
    if (size < sizeof(mkn_provenance))
        return;
    const mkn_provenance *p = (const mkn_provenance *)(const void *)section;
    info->source_checksum = p->source_checksum;
    info->quantizer = text_at(image, MKN_PROVENANCE, p->quantizer);
    info->options = text_at(image, MKN_PROVENANCE, p->options);
}

static void count_weights(const mk_image *image, mk_model_info *info)
{
    for (uint32_t i = 0; image->tensors && i < image->header->tensor_count; i++) {
        const mkn_tensor *t = &image->tensors[i];
        if (t->type == MKN_Q8 || t->type == MKN_Q4) {
            info->weights += (uint64_t)t->rows * t->cols;
            info->weight_bytes += t->size + t->scales_size;
        }
    }
}

void mk_model_get_info(const mk_model *model, mk_model_info *info)
{
    const mk_image *image = mk_image_of(model);
    const mkn_header *h = image->header;
    const mkn_strings none = {0};
    const mkn_strings *strings = mk_image_strings(image);
    if (!strings)
        strings = &none;
    *info = (mk_model_info){
        .image_bytes = image->size,
        .layers = h->layers,
        .heads = h->heads,
        .kv_heads = h->kv_heads,
        .head_size = h->head_size,
        .hidden = h->hidden,
        .intermediate = h->intermediate,
        .vocabulary = h->vocabulary,
        .context = h->context,
        .norm_epsilon = h->norm_epsilon,
        .rope_base = h->rope_base,
        .rope_dims = h->rope_dims,
        .tied_embeddings = (h->flags & MKN_TIED) != 0,
        .attention_bias = (h->flags & MKN_ATTENTION_BIAS) != 0,
        .qk_norm = (h->flags & MKN_QK_NORM) != 0,
        .vocab_only = (h->flags & MKN_VOCAB_ONLY) != 0,
        .has_chat = strings->chat_format != 0,
        .name = mk_image_string(image, strings->name),
        .license = mk_image_string(image, strings->license),
        .source = mk_image_string(image, strings->source),
        .chat_format = mk_image_string(image, strings->chat_format),
        .quantizer = "",
        .options = "",
        .embedding_type = type_name(mk_image_tensor(image, MKN_TOKEN_EMBEDDING, 0)),
        .head_type =
            type_name(mk_image_tensor(image, h->flags & MKN_TIED ? MKN_TOKEN_EMBEDDING : MKN_OUTPUT_HEAD, 0)),
        .layer_type = type_name(mk_image_tensor(image, MKN_Q, 0)),
    };
    get_provenance(image, info);
    count_weights(image, info);
}

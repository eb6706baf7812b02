/* tiny_image.h - a small random model image built in memory, so that tests of the engine need neither
 * the quantizer nor a file. Weights are drawn directly as codes and scales. */
#ifndef MK_TESTS_TINY_IMAGE_H
#define MK_TESTS_TINY_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "image/image.h"

typedef struct tiny_options {
    uint32_t layers, heads, kv_heads, head_size, hidden, intermediate, vocabulary, context;
    uint32_t flags, rope_dims, window, type;
    uint32_t transform; /* MKN_TRANSFORMED or 0, for all matrices */
} tiny_options;

static const tiny_options tiny_default = {.layers = 2,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_size = 8,
                                          .hidden = 32,
                                          .intermediate = 44,
                                          .vocabulary = 61,
                                          .context = 80,
                                          .flags = MKN_TIED,
                                          .rope_dims = 8,
                                          .type = MKN_Q8,
                                          .transform = MKN_TRANSFORMED};

typedef struct tiny_builder {
    uint8_t *bytes; /* NULL while measuring */
    uint64_t end;
    uint64_t random;
    mkn_tensor *tensors;
    uint32_t count;
    uint32_t transform;
} tiny_builder;

static uint32_t tiny_random(tiny_builder *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(b->random >> 33);
}

static float tiny_uniform(tiny_builder *b, float low, float high)
{
    return low + (high - low) * (float)(tiny_random(b) % 65536) / 65536.0f;
}

static uint64_t tiny_place(tiny_builder *b, uint64_t size)
{
    uint64_t at = mk_align_up(b->end, MKN_ALIGN);
    b->end = at + size;
    return at;
}

static void tiny_fill(tiny_builder *b, const mkn_tensor *t)
{
    uint8_t *codes = b->bytes + t->offset, *scales = b->bytes + t->scales_offset;
    for (uint64_t i = 0; i < t->size; i++)
        codes[i] = (uint8_t)tiny_random(b);
    if (t->type != MKN_Q4)
        for (uint64_t i = 0; i < t->size; i++)
            codes[i] = codes[i] == 128 ? 0 : codes[i]; /* -128 is no code */
    uint32_t blocks = (t->cols + 31) / 32, groups = t->scales_size ? (t->rows + 3) / 4 : 0;
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t first = 0; first < blocks; first += 8) {
            uint32_t n = blocks - first < 8 ? blocks - first : 8;
            for (int r = 0; r < 4; r++) {
                uint16_t half = (uint16_t)(0x1400 + tiny_random(b) % 0x400); /* about 0.001 to 0.002 */
                memcpy(scales + 2 * r, &half, 2);
            }
            scales += 8;
            for (uint32_t i = 0; t->type == MKN_Q4 && i < 4 * n; i++)
                *scales++ = (uint8_t)tiny_random(b);
        }
}

static void tiny_tensor(tiny_builder *b, uint16_t role, uint32_t layer, uint16_t type, uint32_t rows,
                        uint32_t cols)
{
    mkn_tensor t = {.role = role, .type = type, .layer = layer, .rows = rows, .cols = cols};
    t.flags = type == MKN_Q8 || type == MKN_Q4 ? b->transform : 0;
    mkn_tensor_sizes(type, rows, cols, &t.size, &t.scales_size);
    t.offset = tiny_place(b, t.size);
    t.scales_offset = t.scales_size ? tiny_place(b, t.scales_size) : 0;
    if (b->bytes) {
        b->tensors[b->count] = t;
        if (type == MKN_F32)
            for (uint32_t i = 0; i < rows * cols; i++) {
                float x =
                    role == MKN_ROPE_FREQUENCIES ? 1.0f / (float)(1 + i * i) : tiny_uniform(b, 0.5f, 1.5f);
                memcpy(b->bytes + t.offset + 4 * (size_t)i, &x, 4);
            }
        else
            tiny_fill(b, &t);
    }
    b->count++;
}

static void tiny_layer(tiny_builder *b, const tiny_options *o, uint32_t layer)
{
    uint16_t type = (uint16_t)o->type;
    uint32_t q = o->heads * o->head_size, kv = o->kv_heads * o->head_size;
    tiny_tensor(b, MKN_ATTENTION_NORM, layer, MKN_F32, 1, o->hidden);
    tiny_tensor(b, MKN_Q, layer, type, q, o->hidden);
    tiny_tensor(b, MKN_K, layer, type, kv, o->hidden);
    tiny_tensor(b, MKN_V, layer, type, kv, o->hidden);
    if (o->flags & MKN_ATTENTION_BIAS) {
        tiny_tensor(b, MKN_Q_BIAS, layer, MKN_F32, 1, q);
        tiny_tensor(b, MKN_K_BIAS, layer, MKN_F32, 1, kv);
        tiny_tensor(b, MKN_V_BIAS, layer, MKN_F32, 1, kv);
    }
    if (o->flags & MKN_QK_NORM) {
        tiny_tensor(b, MKN_Q_NORM, layer, MKN_F32, 1, o->head_size);
        tiny_tensor(b, MKN_K_NORM, layer, MKN_F32, 1, o->head_size);
    }
    tiny_tensor(b, MKN_O, layer, type, o->hidden, q);
    tiny_tensor(b, MKN_MLP_NORM, layer, MKN_F32, 1, o->hidden);
    tiny_tensor(b, MKN_GATE, layer, type, o->intermediate, o->hidden);
    tiny_tensor(b, MKN_UP, layer, type, o->intermediate, o->hidden);
    tiny_tensor(b, MKN_DOWN, layer, type, o->hidden, o->intermediate);
}

static void tiny_tensors(tiny_builder *b, const tiny_options *o)
{
    if (o->type == MKN_Q4)
        tiny_tensor(b, MKN_Q4_TABLES, 0, MKN_I8, MKN_TABLES, MKN_LEVELS);
    tiny_tensor(b, MKN_ROPE_FREQUENCIES, 0, MKN_F32, 1, o->rope_dims / 2);
    tiny_tensor(b, MKN_TOKEN_EMBEDDING, 0, (uint16_t)o->type, o->vocabulary, o->hidden);
    for (uint32_t i = 0; i < o->layers; i++)
        tiny_layer(b, o, i);
    tiny_tensor(b, MKN_OUTPUT_NORM, 0, MKN_F32, 1, o->hidden);
    if (!(o->flags & MKN_TIED))
        tiny_tensor(b, MKN_OUTPUT_HEAD, 0, (uint16_t)o->type, o->vocabulary, o->hidden);
}

/* Recomputes the checksums after a change; for tests that write hostile but consistent images. */
static void tiny_seal(uint8_t *bytes)
{
    mkn_header *h = (mkn_header *)(void *)bytes;
    for (int i = 0; i < MKN_SECTIONS; i++)
        h->sections[i].checksum = mk_hash(bytes + h->sections[i].offset, (size_t)h->sections[i].size, 0);
    h->checksum = 0;
    h->checksum = mk_hash(h, sizeof *h, 0);
}

/* An image, aligned to 64 bytes, to be freed; its size in *size. */
static uint8_t *tiny_image(const tiny_options *o, uint64_t seed, size_t *size)
{
    tiny_builder measure = {.random = seed, .transform = o->transform};
    tiny_tensors(&measure, o);
    uint32_t count = measure.count;
    uint64_t directory = sizeof(mkn_header),
             layers = mk_align_up(directory + count * sizeof(mkn_tensor), MKN_ALIGN);
    uint64_t data = mk_align_up(layers + o->layers * sizeof(mkn_layer), MKN_ALIGN);
    uint64_t tokenizer = mk_align_up(data + measure.end, MKN_ALIGN), total = tokenizer + 64;
    uint8_t *bytes = aligned_alloc(64, (size_t)mk_align_up(total, 64));
    memset(bytes, 0, (size_t)total);
    tiny_builder b = {.bytes = bytes,
                      .end = data,
                      .random = seed,
                      .transform = o->transform,
                      .tensors = (mkn_tensor *)(void *)(bytes + directory)};
    tiny_tensors(&b, o);
    mkn_header h = {.version = MKN_VERSION,
                    .header_size = sizeof h,
                    .file_size = total,
                    .layers = o->layers,
                    .heads = o->heads,
                    .kv_heads = o->kv_heads,
                    .head_size = o->head_size,
                    .hidden = o->hidden,
                    .intermediate = o->intermediate,
                    .vocabulary = o->vocabulary,
                    .context = o->context,
                    .norm_epsilon = 1e-5f,
                    .rope_base = 10000.0f,
                    .rope_dims = o->rope_dims,
                    .flags = o->flags,
                    .tensor_count = count};
    memcpy(h.magic, MKN_MAGIC, sizeof h.magic);
    h.sections[MKN_DIRECTORY] = (mkn_section){directory, count * sizeof(mkn_tensor), 0};
    h.sections[MKN_LAYERS] = (mkn_section){layers, o->layers * sizeof(mkn_layer), 0};
    h.sections[MKN_DATA] = (mkn_section){data, b.end - data, 0};
    h.sections[MKN_TOKENIZER] = (mkn_section){tokenizer, 64, 0};
    memcpy(bytes, &h, sizeof h);
    for (uint32_t i = 0; i < o->layers; i++)
        ((mkn_layer *)(void *)(bytes + layers))[i].window = o->window;
    tiny_seal(bytes);
    *size = (size_t)total;
    return bytes;
}

#endif

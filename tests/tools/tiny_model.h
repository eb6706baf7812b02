/* tiny_model.h - writes small random models, the same bytes on every machine: for make_tiny_model.c and for
 * tests of the quantizer.
 *
 * tiny_gguf: GGUF 3 with everything awkward: mixed tensor types, sizes that are no multiple of a block, heads
 * that do not add up to the embedding, partial RoPE, biases, q and k norms, a head of its own, byte-level BPE,
 * ChatML. tiny_llama2c: version 0 (legacy), 1 (float32) or 2 (int8); the weights of 0 and 1 are the same. */
#ifndef MK_TESTS_TINY_MODEL_H
#define MK_TESTS_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/encode/half.h"

/* ---- Random numbers and output ---------------------------------------------------------------- */

static uint64_t tiny_random_state;
static FILE *tiny_out;
static uint64_t tiny_position;

static inline uint32_t tiny_random_bits(void)
{
    tiny_random_state = tiny_random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(tiny_random_state >> 32);
}

/* Roughly normal: a sum of four uniform numbers, of variance `deviation` squared. */
static inline float tiny_random_normal(double deviation)
{
    int64_t sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int64_t)(tiny_random_bits() >> 8) - (1 << 23);
    return (float)((double)sum / (1 << 23) * 0.866 * deviation);
}

static inline void tiny_put(const void *data, size_t size)
{
    if (fwrite(data, 1, size, tiny_out) != size) {
        perror("make_tiny_model: write");
        exit(1);
    }
    tiny_position += size;
}

static inline void tiny_put8(uint32_t x)
{
    uint8_t byte = (uint8_t)x;
    tiny_put(&byte, 1);
}

static inline void tiny_put16(uint32_t x)
{
    tiny_put8(x);
    tiny_put8(x >> 8);
}

static inline void tiny_put32(uint32_t x)
{
    tiny_put16(x);
    tiny_put16(x >> 16);
}

static inline void tiny_put64(uint64_t x)
{
    tiny_put32((uint32_t)x);
    tiny_put32((uint32_t)(x >> 32));
}

static inline void tiny_put_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    tiny_put32(bits);
}

static inline uint32_t tiny_half_bits(float x)
{
    return half_from_double(x < 0 ? -(double)x : (double)x) | (x < 0 ? 0x8000u : 0);
}

static inline void tiny_open_file(const char *path)
{
    tiny_out = fopen(path, "wb");
    tiny_position = 0;
    if (!tiny_out) {
        perror(path);
        exit(1);
    }
}

static inline void tiny_close_file(void)
{
    if (fclose(tiny_out) != 0) {
        perror("make_tiny_model: close");
        exit(1);
    }
}

/* ---- GGUF ------------------------------------------------------------------------------------- */

enum { TINY_F32 = 0, TINY_F16 = 1, TINY_Q4_0 = 2, TINY_Q8_0 = 8, TINY_BF16 = 30 };
enum {
    TINY_LAYERS = 3,
    TINY_HIDDEN = 64,
    TINY_INTERMEDIATE = 172,
    TINY_HEADS = 6,
    TINY_KV_HEADS = 3,
    TINY_HEAD_SIZE = 12,
    TINY_ROPE_DIMS = 8,
    TINY_CONTEXT = 128,
    TINY_SPECIALS = 3,
    TINY_MERGES = 256,
    TINY_VOCABULARY = TINY_SPECIALS + 256 + TINY_MERGES,
    TINY_ALIGNMENT = 32,
};

typedef struct tiny_tensor {
    char name[48];
    uint32_t rows, cols, type; /* rows 0: a vector */
    uint64_t offset;
} tiny_tensor;

static tiny_tensor tiny_tensors[4 + 16 * TINY_LAYERS];
static uint32_t tiny_tensor_count;
static uint64_t tiny_data_size;

static inline uint64_t tiny_row_bytes(const tiny_tensor *t)
{
    switch (t->type) {
    case TINY_F32:
        return 4 * (uint64_t)t->cols;
    case TINY_Q4_0:
        return t->cols / 32 * 18;
    case TINY_Q8_0:
        return t->cols / 32 * 34;
    default:
        return 2 * (uint64_t)t->cols;
    }
}

static inline void tiny_add_tensor(int layer, const char *name, uint32_t rows, uint32_t cols, uint32_t type)
{
    tiny_tensor *t = &tiny_tensors[tiny_tensor_count++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    t->rows = rows;
    t->cols = cols;
    t->type = type;
    t->offset = (tiny_data_size + TINY_ALIGNMENT - 1) / TINY_ALIGNMENT * TINY_ALIGNMENT;
    tiny_data_size = t->offset + (rows ? rows : 1) * tiny_row_bytes(t);
}

static inline void tiny_add_layer(int layer)
{
    const uint32_t q = TINY_HEADS * TINY_HEAD_SIZE, kv = TINY_KV_HEADS * TINY_HEAD_SIZE;
    tiny_add_tensor(layer, "ffn_down.weight", TINY_HIDDEN, TINY_INTERMEDIATE, layer == 1 ? TINY_F32 : TINY_F16);
    tiny_add_tensor(layer, "attn_norm.weight", 0, TINY_HIDDEN, TINY_F32);
    tiny_add_tensor(layer, "attn_q.weight", q, TINY_HIDDEN, TINY_Q8_0);
    tiny_add_tensor(layer, "attn_q.bias", 0, q, TINY_F32);
    tiny_add_tensor(layer, "attn_q_norm.weight", 0, TINY_HEAD_SIZE, TINY_F32);
    tiny_add_tensor(layer, "attn_k.weight", kv, TINY_HIDDEN, TINY_F16);
    tiny_add_tensor(layer, "attn_k.bias", 0, kv, TINY_F16);
    tiny_add_tensor(layer, "attn_k_norm.weight", 0, TINY_HEAD_SIZE, TINY_F32);
    tiny_add_tensor(layer, "attn_v.weight", kv, TINY_HIDDEN, TINY_Q4_0);
    tiny_add_tensor(layer, "attn_v.bias", 0, kv, TINY_F32);
    tiny_add_tensor(layer, "attn_output.weight", TINY_HIDDEN, q, TINY_BF16);
    tiny_add_tensor(layer, "ffn_norm.weight", 0, TINY_HIDDEN, TINY_F32);
    tiny_add_tensor(layer, "ffn_gate.weight", TINY_INTERMEDIATE, TINY_HIDDEN, TINY_Q4_0);
    tiny_add_tensor(layer, "ffn_up.weight", TINY_INTERMEDIATE, TINY_HIDDEN, layer == 2 ? TINY_Q8_0 : TINY_Q4_0);
}

static inline void tiny_add_tensors(void)
{
    tiny_add_tensor(-1, "token_embd.weight", TINY_VOCABULARY, TINY_HIDDEN, TINY_Q8_0);
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        tiny_add_layer(layer);
    tiny_add_tensor(-1, "output_norm.weight", 0, TINY_HIDDEN, TINY_F32);
    tiny_add_tensor(-1, "output.weight", TINY_VOCABULARY, TINY_HIDDEN, TINY_F16);
}

static inline void tiny_put_plain(const tiny_tensor *t)
{
    bool norm = strstr(t->name, "norm") != NULL, bias = strstr(t->name, "bias") != NULL;
    uint64_t count = (uint64_t)(t->rows ? t->rows : 1) * t->cols;
    for (uint64_t i = 0; i < count; i++) {
        float x = norm ? 1 + tiny_random_normal(0.2) : tiny_random_normal(bias ? 0.1 : 0.125);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (t->type == TINY_F32)
            tiny_put_float(x);
        else
            tiny_put16(t->type == TINY_F16 ? tiny_half_bits(x) : bits >> 16);
    }
}

static inline void tiny_put_blocks(const tiny_tensor *t)
{
    for (uint64_t b = 0; b < (uint64_t)t->rows * (t->cols / 32); b++) {
        float spread = 1 + (float)(tiny_random_bits() >> 24) / 256;
        tiny_put16(tiny_half_bits(spread * (t->type == TINY_Q4_0 ? 0.02f : 0.0015f)));
        for (int i = 0; i < (t->type == TINY_Q4_0 ? 16 : 32); i++)
            tiny_put8(tiny_random_bits() >> 24);
    }
}

static inline void tiny_put_tensor_data(uint64_t data_offset)
{
    for (uint32_t i = 0; i < tiny_tensor_count; i++) {
        while (tiny_position < data_offset + tiny_tensors[i].offset)
            tiny_put8(0);
        if (tiny_tensors[i].type == TINY_Q4_0 || tiny_tensors[i].type == TINY_Q8_0)
            tiny_put_blocks(&tiny_tensors[i]);
        else
            tiny_put_plain(&tiny_tensors[i]);
    }
}

/* ---- GGUF keys -------------------------------------------------------------------------------- */

enum {
    TINY_TYPE_U32 = 4,
    TINY_TYPE_I32 = 5,
    TINY_TYPE_F32 = 6,
    TINY_TYPE_BOOL = 7,
    TINY_TYPE_STRING = 8,
    TINY_TYPE_ARRAY = 9
};

static uint32_t tiny_key_count;

static inline void tiny_put_text(const char *text)
{
    tiny_put64(strlen(text));
    tiny_put(text, strlen(text));
}

static inline void tiny_begin_key(const char *name, uint32_t type)
{
    tiny_put_text(name);
    tiny_put32(type);
    tiny_key_count++;
}

static inline void tiny_key_u32(const char *name, uint32_t x)
{
    tiny_begin_key(name, TINY_TYPE_U32);
    tiny_put32(x);
}

static inline void tiny_key_f32(const char *name, float x)
{
    tiny_begin_key(name, TINY_TYPE_F32);
    tiny_put_float(x);
}

static inline void tiny_key_bool(const char *name, bool x)
{
    tiny_begin_key(name, TINY_TYPE_BOOL);
    tiny_put8(x);
}

static inline void tiny_key_text(const char *name, const char *text)
{
    tiny_begin_key(name, TINY_TYPE_STRING);
    tiny_put_text(text);
}

static inline void tiny_begin_array(const char *name, uint32_t type, uint64_t count)
{
    tiny_begin_key(name, TINY_TYPE_ARRAY);
    tiny_put32(type);
    tiny_put64(count);
}

/* The letter that byte-level BPE shows for a byte: itself if it is a visible letter of Latin-1, else one from
 * U+0100 on. */
static inline void tiny_byte_letter(uint32_t byte, char *text)
{
    uint32_t code = byte;
    bool visible = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (!visible)
        code = byte <= 32 ? 256 + byte : byte <= 160 ? 289 + byte - 127 : 323;
    if (code < 128) {
        text[0] = (char)code;
        text[1] = 0;
        return;
    }
    text[0] = (char)(uint8_t)(0xc0 | code >> 6);
    text[1] = (char)(uint8_t)(0x80 | (code & 63));
    text[2] = 0;
}

enum { TINY_TOKEN = 24 };
static char tiny_tokens[TINY_VOCABULARY][TINY_TOKEN];
static char tiny_merges[TINY_MERGES][2 * TINY_TOKEN];

static inline bool tiny_known_token(const char *text, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(tiny_tokens[i], text) == 0)
            return true;
    return false;
}

/* A single letter, more often a frequent one, or an earlier merge. */
static inline uint32_t tiny_random_part(uint32_t count)
{
    static const char frequent[] = " eetaoinshrdlu";
    uint32_t r = tiny_random_bits() >> 16;
    if (r % 4 == 0 && count > TINY_SPECIALS + 256)
        return TINY_SPECIALS + 256 + r / 4 % (count - TINY_SPECIALS - 256);
    return TINY_SPECIALS + (uint32_t)(unsigned char)frequent[r / 4 % (sizeof frequent - 1)];
}

static inline void tiny_make_vocabulary(void)
{
    static const char *const specials[TINY_SPECIALS] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    uint32_t count = 0;
    for (; count < TINY_SPECIALS; count++)
        snprintf(tiny_tokens[count], TINY_TOKEN, "%s", specials[count]);
    for (uint32_t byte = 0; byte < 256; byte++)
        tiny_byte_letter(byte, tiny_tokens[count++]);
    while (count < TINY_VOCABULARY) {
        char joined[2 * TINY_TOKEN];
        uint32_t left = tiny_random_part(count), right = tiny_random_part(count);
        snprintf(joined, sizeof joined, "%s%s", tiny_tokens[left], tiny_tokens[right]);
        if (strlen(joined) > 10 || tiny_known_token(joined, count))
            continue;
        snprintf(tiny_merges[count - TINY_SPECIALS - 256], sizeof tiny_merges[0], "%s %s", tiny_tokens[left],
                 tiny_tokens[right]);
        memcpy(tiny_tokens[count++], joined, strlen(joined) + 1);
    }
}

static inline void tiny_put_tokenizer_keys(void)
{
    tiny_key_text("tokenizer.ggml.model", "gpt2");
    tiny_key_text("tokenizer.ggml.pre", "smollm");
    tiny_begin_array("tokenizer.ggml.tokens", TINY_TYPE_STRING, TINY_VOCABULARY);
    for (uint32_t i = 0; i < TINY_VOCABULARY; i++)
        tiny_put_text(tiny_tokens[i]);
    tiny_begin_array("tokenizer.ggml.token_type", TINY_TYPE_I32, TINY_VOCABULARY);
    for (uint32_t i = 0; i < TINY_VOCABULARY; i++)
        tiny_put32(i < TINY_SPECIALS ? 3 : 1);
    tiny_begin_array("tokenizer.ggml.merges", TINY_TYPE_STRING, TINY_MERGES);
    for (uint32_t i = 0; i < TINY_MERGES; i++)
        tiny_put_text(tiny_merges[i]);
    tiny_key_u32("tokenizer.ggml.bos_token_id", 1);
    tiny_key_u32("tokenizer.ggml.eos_token_id", 2);
    tiny_key_bool("tokenizer.ggml.add_bos_token", false);
    tiny_key_text(
        "tokenizer.chat_template",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
        "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
        "endif %}");
}

static inline void tiny_put_keys(void)
{
    tiny_key_text("general.architecture", "llama");
    tiny_key_text("general.name", "Tiny random model");
    tiny_key_text("general.license", "mit");
    tiny_key_u32("general.alignment", TINY_ALIGNMENT);
    tiny_key_u32("llama.block_count", TINY_LAYERS);
    tiny_key_u32("llama.context_length", TINY_CONTEXT);
    tiny_key_u32("llama.embedding_length", TINY_HIDDEN);
    tiny_key_u32("llama.feed_forward_length", TINY_INTERMEDIATE);
    tiny_key_u32("llama.attention.head_count", TINY_HEADS);
    tiny_key_u32("llama.attention.head_count_kv", TINY_KV_HEADS);
    tiny_key_u32("llama.attention.key_length", TINY_HEAD_SIZE);
    tiny_key_u32("llama.attention.value_length", TINY_HEAD_SIZE);
    tiny_key_u32("llama.rope.dimension_count", TINY_ROPE_DIMS);
    tiny_key_u32("llama.vocab_size", TINY_VOCABULARY);
    tiny_key_f32("llama.rope.freq_base", 5000.0f);
    tiny_key_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tiny_put_tokenizer_keys();
}

static inline void tiny_put_head(void)
{
    uint32_t keys = tiny_key_count;
    tiny_position = 0;
    tiny_key_count = 0;
    tiny_put("GGUF", 4);
    tiny_put32(3);
    tiny_put64(tiny_tensor_count);
    tiny_put64(keys);
    tiny_put_keys();
    for (uint32_t i = 0; i < tiny_tensor_count; i++) {
        const tiny_tensor *t = &tiny_tensors[i];
        tiny_put_text(t->name);
        tiny_put32(t->rows ? 2 : 1);
        tiny_put64(t->cols);
        if (t->rows)
            tiny_put64(t->rows);
        tiny_put32(t->type);
        tiny_put64(t->offset);
    }
}

static inline void tiny_gguf(const char *path)
{
    tiny_random_state = 20240229;
    tiny_tensor_count = tiny_key_count = 0;
    tiny_data_size = 0;
    tiny_make_vocabulary();
    tiny_add_tensors();
    tiny_open_file(path);
    tiny_put_head(); /* a first time to count the keys */
    rewind(tiny_out);
    tiny_put_head();
    uint64_t data_offset = (tiny_position + TINY_ALIGNMENT - 1) / TINY_ALIGNMENT * TINY_ALIGNMENT;
    tiny_put_tensor_data(data_offset);
    tiny_close_file();
}

/* ---- llama2.c --------------------------------------------------------------------------------- */

enum {
    TINY_L_DIM = 64,
    TINY_L_HIDDEN = 172,
    TINY_L_LAYERS = 3,
    TINY_L_HEADS = 8,
    TINY_L_KV_HEADS = 4,
    TINY_L_VOCABULARY = 512,
    TINY_L_CONTEXT = 128,
    TINY_L_KV_DIM = TINY_L_DIM / TINY_L_HEADS * TINY_L_KV_HEADS,
    TINY_GROUP = 32,
};

/* Weights of one kind over all layers; the seed is the kind's, so that both float formats have the same. */
static inline void tiny_put_weights(uint32_t kind, uint64_t count, bool norm)
{
    tiny_random_state = 7919 * kind + 1;
    for (uint64_t i = 0; i < count; i++)
        tiny_put_float(norm ? 1 + tiny_random_normal(0.2) : tiny_random_normal(0.125));
}

static inline void tiny_put_int8(uint32_t kind, uint32_t layers, uint64_t count)
{
    tiny_random_state = 7919 * kind + 1;
    for (uint32_t layer = 0; layer < layers; layer++) {
        for (uint64_t i = 0; i < count; i++)
            tiny_put8((tiny_random_bits() >> 24) % 255 - 127);
        for (uint64_t i = 0; i < count / TINY_GROUP; i++)
            tiny_put_float(0.001f + (float)(tiny_random_bits() >> 24) / 100000);
    }
}

enum {
    TINY_EMBEDDING,
    TINY_ATTENTION_NORM,
    TINY_Q,
    TINY_K,
    TINY_V,
    TINY_O,
    TINY_MLP_NORM,
    TINY_GATE,
    TINY_DOWN,
    TINY_UP,
    TINY_KINDS
};

static inline uint64_t tiny_weights_of(int kind)
{
    static const uint64_t counts[TINY_KINDS] = {[TINY_EMBEDDING] = TINY_L_VOCABULARY * TINY_L_DIM,
                                                [TINY_ATTENTION_NORM] = TINY_L_DIM,
                                                [TINY_Q] = TINY_L_DIM * TINY_L_DIM,
                                                [TINY_K] = TINY_L_KV_DIM * TINY_L_DIM,
                                                [TINY_V] = TINY_L_KV_DIM * TINY_L_DIM,
                                                [TINY_O] = TINY_L_DIM * TINY_L_DIM,
                                                [TINY_MLP_NORM] = TINY_L_DIM,
                                                [TINY_GATE] = TINY_L_HIDDEN * TINY_L_DIM,
                                                [TINY_DOWN] = TINY_L_DIM * TINY_L_HIDDEN,
                                                [TINY_UP] = TINY_L_HIDDEN * TINY_L_DIM};
    return counts[kind] * (kind == TINY_EMBEDDING ? 1 : TINY_L_LAYERS);
}

static inline void tiny_put_kinds(const int *kinds, int count)
{
    for (int i = 0; i < count; i++)
        tiny_put_weights((uint32_t)kinds[i], tiny_weights_of(kinds[i]),
                         kinds[i] == TINY_ATTENTION_NORM || kinds[i] == TINY_MLP_NORM);
}

static inline void tiny_put_sizes(int32_t vocabulary)
{
    const int32_t sizes[] = {TINY_L_DIM,      TINY_L_HIDDEN, TINY_L_LAYERS, TINY_L_HEADS,
                             TINY_L_KV_HEADS, vocabulary,    TINY_L_CONTEXT};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        tiny_put32((uint32_t)sizes[i]);
}

static inline void tiny_write_legacy(void)
{
    static const int order[] = {TINY_EMBEDDING, TINY_ATTENTION_NORM, TINY_Q,    TINY_K,    TINY_V,
                                TINY_O,         TINY_MLP_NORM,       TINY_GATE, TINY_DOWN, TINY_UP};
    tiny_put_sizes(-TINY_L_VOCABULARY); /* a head of its own */
    tiny_put_kinds(order, TINY_KINDS);
    tiny_put_weights(100, TINY_L_DIM, true);
    for (int i = 0; i < 2 * TINY_L_CONTEXT * (TINY_L_DIM / TINY_L_HEADS / 2); i++)
        tiny_put_float(0); /* cosines and sines, which readers skip */
    tiny_put_weights(101, tiny_weights_of(TINY_EMBEDDING), false);
}

static inline void tiny_write_versioned(uint32_t version)
{
    static const int norms[] = {TINY_ATTENTION_NORM, TINY_MLP_NORM},
                     matrices[] = {TINY_EMBEDDING, TINY_Q,    TINY_K,    TINY_V,
                                   TINY_O,         TINY_GATE, TINY_DOWN, TINY_UP};
    tiny_put32(0x616b3432);
    tiny_put32(version);
    tiny_put_sizes(TINY_L_VOCABULARY);
    tiny_put8(0); /* a head of its own */
    if (version == 2)
        tiny_put32(TINY_GROUP);
    while (tiny_position < 256)
        tiny_put8(0);
    tiny_put_kinds(norms, 2);
    tiny_put_weights(100, TINY_L_DIM, true);
    if (version == 1)
        tiny_put_kinds(matrices, 8);
    for (int i = 0; i < 8 && version == 2; i++) {
        uint32_t layers = matrices[i] == TINY_EMBEDDING ? 1 : TINY_L_LAYERS;
        tiny_put_int8((uint32_t)matrices[i], layers, tiny_weights_of(matrices[i]) / layers);
    }
    if (version == 1)
        tiny_put_weights(101, tiny_weights_of(TINY_EMBEDDING), false);
    else
        tiny_put_int8(101, 1, tiny_weights_of(TINY_EMBEDDING));
}

static inline void tiny_put_piece(const char *text, float score)
{
    tiny_put_float(score);
    tiny_put32((uint32_t)strlen(text));
    tiny_put(text, strlen(text));
}

static inline void tiny_write_tokenizer(const char *path)
{
    static const char *const fixed[] = {"<unk>", "\n<s>\n", "\n</s>\n"};
    static const char letters[] = " etaoinshrdlucmwfygpbvkxjqz.,!?'";
    char text[8];
    uint32_t count = 0;
    tiny_open_file(path);
    tiny_put32(7);
    for (; count < 3; count++)
        tiny_put_piece(fixed[count], 0);
    for (uint32_t byte = 0; byte < 256; byte++, count++) {
        snprintf(text, sizeof text, "<0x%02X>", byte);
        tiny_put_piece(text, 0);
    }
    for (uint32_t i = 0; letters[i]; i++, count++) /* single letters, then pairs of the frequent ones */
        tiny_put_piece((char[]){letters[i], 0}, -1000 - (float)i);
    for (uint32_t i = 0; count < TINY_L_VOCABULARY; i++, count++)
        tiny_put_piece((char[]){letters[i / 16], letters[i % 16], 0}, -(float)i);
    tiny_close_file();
}

static inline void tiny_llama2c(uint32_t version, const char *path, const char *tokenizer)
{
    tiny_open_file(path);
    if (version == 0)
        tiny_write_legacy();
    else
        tiny_write_versioned(version);
    tiny_close_file();
    tiny_write_tokenizer(tokenizer);
}

#endif

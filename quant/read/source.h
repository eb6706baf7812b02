/* source.h - a model as its source file describes it, whatever the format. Readers fill it; tensors
 * stay in the mapped source file and are read row by row. */
#ifndef MK_QUANT_SOURCE_H
#define MK_QUANT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct source_string {
    const char *text; /* not terminated; points into the source */
    size_t length;
} source_string;

/* Kinds of token, numbered as in GGUF's tokenizer.ggml.token_type. */
enum source_token_type {
    SOURCE_TOKEN_NORMAL = 1,
    SOURCE_TOKEN_UNKNOWN = 2,
    SOURCE_TOKEN_CONTROL = 3,
    SOURCE_TOKEN_USER = 4,
    SOURCE_TOKEN_UNUSED = 5,
    SOURCE_TOKEN_BYTE = 6,
};

typedef enum source_vocab_kind {
    SOURCE_VOCAB_NONE = 0,
    SOURCE_VOCAB_BPE, /* byte-level BPE: tokens in GPT-2's printable byte alphabet, merges "left right" */
    SOURCE_VOCAB_SPM, /* SentencePiece BPE: tokens with U+2581 for space, scores, bytes as <0xNN> */
} source_vocab_kind;

typedef struct source_vocab {
    source_vocab_kind kind;
    source_string pre; /* name of the pre-tokenizer: GGUF's tokenizer.ggml.pre; empty if not given */
    uint32_t count;
    source_string *tokens; /* [count] */
    uint8_t *types;        /* [count], source_token_type */
    float *scores;         /* [count]; SPM only, else NULL */
    uint32_t merge_count;
    source_string *merges;                   /* [merge_count], by rank; BPE only */
    int32_t bos, eos, unknown, padding, eot; /* ids, -1: none */
    bool add_bos, add_space_prefix;
    bool add_eos; /* for --inspect: an image does not say so, since an answer follows every text */
    source_string chat_template; /* Jinja text, empty if none */
} source_vocab;

typedef enum source_type {
    SOURCE_F32,
    SOURCE_F16,
    SOURCE_BF16,
    SOURCE_Q8_0,
    SOURCE_Q4_0,
    SOURCE_Q4_1,
    SOURCE_Q6_K,
    SOURCE_I8_GROUP, /* llama2.c version 2: int8 with a float scale per group */
} source_type;

typedef struct source_tensor {
    source_string name; /* as in the source */
    source_type type;
    uint64_t rows, cols; /* cols is the contiguous dimension, the input of the matrix; vectors have rows 1 */
    const uint8_t *data; /* in the mapped file, rows * row_bytes long, checked */
    uint64_t row_bytes;
    const uint8_t *group_scales; /* SOURCE_I8_GROUP: float32 per group_size weights, row by row */
    uint32_t group_size;
} source_tensor;

typedef struct source_model {
    source_string architecture; /* "llama", or "" for a vocabulary alone */
    uint32_t layers, heads, kv_heads, head_size, hidden, intermediate, vocabulary, context;
    float norm_epsilon, rope_base;
    uint32_t rope_dims;
    bool rope_neighbours; /* RoPE pairs values 2i and 2i+1 (GGUF llama, llama2.c), not i and i+half */
    source_string name, license;
    source_vocab vocab;
    uint32_t tensor_count;
    source_tensor *tensors;
} source_model;

#endif

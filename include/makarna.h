/* makarna.h - the public interface of libmakarna, an inference engine for quantized language models.
 *
 * The library never allocates: the caller hands in every byte (the storage of a model handle, one
 * arena for a context, scratch for the tokenizer) and owns it throughout. It keeps no global state,
 * prints nothing, and starts threads only where a context is asked for more than one.
 *
 * The usual order:
 *
 *     mk_model model;                                          // caller's storage
 *     mk_model_open(&model, "smollm2.mkn", MK_LOAD_MAP, &err);
 *     mk_params params = mk_params_default(&model);
 *     mk_memory_plan plan;
 *     mk_plan_memory(&model, &params, &plan, &err);            // exact, before anything is used
 *     void *arena = ...;                                       // plan.total bytes, aligned to 64
 *     mk_context *ctx;
 *     mk_context_create(&model, &params, arena, plan.total, &ctx, &err);
 *     mk_eval(ctx, tokens, count, &err);                       // prompt, then one token at a time
 *     token = mk_sample(ctx, &sampling, &rng);
 *     mk_context_destroy(ctx); mk_model_close(&model);
 *
 * Functions that can fail return a status and, where `err` is not NULL, write one line of text: what
 * was expected, what was found, and where; on success err is left as it is. One context is used by one
 * thread at a time; an open model may be shared by any number of contexts and threads.
 */
#ifndef MAKARNA_H
#define MAKARNA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MK_VERSION "0.1.0"

typedef enum mk_status {
    MK_OK = 0,
    MK_ERR_ARGUMENT,     /* a parameter is out of its range */
    MK_ERR_IO,           /* the operating system refused: open, read, map, lock, start a thread */
    MK_ERR_FORMAT,       /* the image is damaged, truncated or no image at all */
    MK_ERR_UNSUPPORTED,  /* a valid request that this build, CPU or model cannot serve */
    MK_ERR_MEMORY,       /* the memory handed in is smaller than what is needed */
    MK_ERR_CONTEXT_FULL, /* the tokens do not fit into what is left of the context */
} mk_status;

/* A short, constant text for a status. */
const char *mk_status_text(mk_status status);

/* One line about the last failure, always terminated. */
typedef struct mk_error {
    char text[512];
} mk_error;

/* ---- Model ---------------------------------------------------------------------------------- */

/* Handle of an open image. Storage is the caller's; the content is private. It stays open and where it is
 * as long as there is a context of it. */
typedef struct mk_model {
#ifdef __cplusplus
    alignas(16) unsigned char storage[1024];
#else
    _Alignas(16) unsigned char storage[1024];
#endif
} mk_model;

typedef enum mk_load {
    MK_LOAD_MAP = 0, /* map; pages come in on first use */
    MK_LOAD_PRELOAD, /* map and read all pages now (MAP_POPULATE) */
    MK_LOAD_LOCK,    /* map and pin all pages in memory (mlock); fails if the limit is too low */
} mk_load;

/* Opens a .mkn image by mapping it read-only. Checks the header, the tensor directory and small tables,
 * nothing that grows with the weights. The file must not be cut while it is open. */
mk_status mk_model_open(mk_model *model, const char *path, mk_load load, mk_error *err);

/* The same for an image that already lies in memory (flash, a linked blob), aligned to 64 bytes.
 * The memory stays the caller's and must outlive the model. */
mk_status mk_model_open_memory(mk_model *model, const void *image, size_t size, mk_error *err);

void mk_model_close(mk_model *model);

/* Reads the whole image and compares the checksum of every section. */
mk_status mk_model_verify(const mk_model *model, mk_error *err);

typedef struct mk_model_info {
    uint64_t image_bytes;
    uint32_t layers, heads, kv_heads, head_size;
    uint32_t hidden, intermediate, vocabulary;
    uint32_t context; /* the longest that the model was trained for */
    float norm_epsilon, rope_base;
    uint32_t rope_dims;
    bool tied_embeddings, attention_bias, qk_norm, vocab_only, has_chat;
    const char *name, *license, *source, *chat_format;   /* "" where the source did not say */
    const char *quantizer, *options;                     /* what wrote the image, and how */
    uint64_t source_checksum;                            /* XXH64 of the source file */
    uint64_t weight_bytes, weights;                      /* of all quantized matrices */
    const char *embedding_type, *head_type, *layer_type; /* "q8", "q4" */
} mk_model_info;

/* Strings point into the image and live as long as the model is open. */
void mk_model_get_info(const mk_model *model, mk_model_info *info);

/* ---- Context -------------------------------------------------------------------------------- */

typedef enum mk_kv_type { MK_KV_Q8 = 0, MK_KV_Q4 } mk_kv_type;

typedef struct mk_params {
    uint32_t context;    /* tokens that the KV cache holds, 1 to the model's own maximum */
    uint32_t batch;      /* prompt tokens computed together, 1 to 512 */
    uint32_t threads;    /* workers, the caller's own thread included, 1 to 64 */
    uint32_t max_logits; /* of how many of the last tokens of one mk_eval the logits are kept, 1 to batch */
    mk_kv_type kv;
    const char *isa; /* kernels by name (mk_isa_name), NULL for the fastest that the CPU has */
} mk_params;

/* context: the model's, at most 2048; batch 64; threads: the cores that this process may use, at most 64;
 * max_logits 1; KV q8; the fastest kernels. */
mk_params mk_params_default(const mk_model *model);

/* What a context needs, in bytes, by purpose. */
typedef struct mk_memory_plan {
    uint64_t kv_cache;
    uint64_t activations; /* of one batch, quantized copies included */
    uint64_t logits;      /* and the sampler's candidates */
    uint64_t workers;     /* scratch and stacks */
    uint64_t other;       /* bookkeeping and alignment */
    uint64_t total;       /* what mk_context_create wants: exactly this many bytes */
} mk_memory_plan;

mk_status mk_plan_memory(const mk_model *model, const mk_params *params, mk_memory_plan *plan, mk_error *err);

/* The longest context whose plan fits into `bytes` with the other parameters as given; 0 if none. */
uint32_t mk_longest_context(const mk_model *model, const mk_params *params, uint64_t bytes);

typedef struct mk_context mk_context;

/* Builds a context inside `arena` (aligned to 64 bytes, at least plan.total bytes, caller's for the
 * context's whole life). Starts params->threads - 1 threads with stacks inside the arena. */
mk_status mk_context_create(const mk_model *model, const mk_params *params, void *arena, size_t arena_size,
                            mk_context **ctx, mk_error *err);

/* Stops the threads. The arena may then be reused. */
void mk_context_destroy(mk_context *ctx);

/* Name of the kernels in use, e.g. "neon". */
const char *mk_context_isa(const mk_context *ctx);

/* Names of the kernel sets of this build by index, fastest last, NULL past the end; and whether this
 * CPU can run one. */
const char *mk_isa_name(size_t index);
bool mk_isa_available(const char *name);

/* ---- Inference ------------------------------------------------------------------------------ */

/* Appends `count` tokens to the context and computes them, params.batch at a time. On failure the
 * context is as before. Bit-identical results for every batch, thread count and kernel set. */
mk_status mk_eval(mk_context *ctx, const int32_t *tokens, size_t count, mk_error *err);

/* Logits [vocabulary] after the token `back` places before the last one of the latest mk_eval:
 * 0 is the last. NULL where back >= min(count, max_logits), and where mk_sample has none. Valid until
 * the next mk_eval. */
const float *mk_logits(const mk_context *ctx, size_t back);

/* Number of tokens in the context, and going back to an earlier number (the rest is forgotten). */
uint32_t mk_position(const mk_context *ctx);
mk_status mk_rewind(mk_context *ctx, uint32_t position, mk_error *err);

typedef struct mk_sampling {
    float temperature;    /* 0: the most likely token (lowest id on a tie) */
    uint32_t top_k;       /* 0: off */
    float top_p;          /* 1: off */
    float min_p;          /* 0: off; relative to the most likely token */
    float repeat_penalty; /* 1: off; over the last repeat_last tokens of the context (Keskar et al. 2019) */
    uint32_t repeat_last;
} mk_sampling;

/* Greedy: temperature 0, nothing else. */
mk_sampling mk_sampling_default(void);

/* Own generator (PCG-XSH-RR 64/32, O'Neill 2014): a seed gives one sequence on every machine. */
typedef struct mk_rng {
    uint64_t state;
} mk_rng;
mk_rng mk_rng_seed(uint64_t seed);

/* Draws the next token from the logits after the last token. Filters in the order repeat penalty,
 * top-k, top-p, min-p, temperature. Does not append it. -1 where there are no logits: before the first
 * mk_eval, after going back with mk_rewind, and after mk_state_load. */
int32_t mk_sample(mk_context *ctx, const mk_sampling *sampling, mk_rng *rng);

/* ---- Text ----------------------------------------------------------------------------------- */

/* Scratch bytes (aligned to 8) that tokenizing `text_bytes` bytes needs; tokens are never more than
 * text_bytes + 3. 0 on overflow. */
size_t mk_tokenize_scratch_size(const mk_model *model, size_t text_bytes);

enum {
    MK_TOKENIZE_BOS = 1,    /* put the model's BOS first, where the model uses one */
    MK_TOKENIZE_SPECIAL = 2 /* recognise control tokens in the text; otherwise they are plain text */
};

/* Text (UTF-8, any bytes) to token ids, as the model's own tokenizer gives them. Tokens that the
 * vocabulary marks as user-defined are always recognised; of several that begin at one place, the
 * longest. Each byte of an invalid sequence stands for itself: its byte token, or the unknown token; it is
 * no letter, number or space. A byte for which a byte-level vocabulary has no token is left out. Writes at
 * most `capacity` ids and sets *count; MK_ERR_MEMORY if they (*count is then what is needed) or the scratch
 * do not suffice. */
mk_status mk_tokenize(const mk_model *model, const char *text, size_t text_bytes, unsigned flags, int32_t *ids,
                      size_t capacity, size_t *count, void *scratch, size_t scratch_bytes, mk_error *err);

/* Streaming decoder of tokens to valid UTF-8: a code point split over tokens waits for its rest,
 * invalid bytes become U+FFFD. Zero-initialise to begin. */
typedef struct mk_detokenizer {
    unsigned char pending[4];
    unsigned char pending_count;
    bool started; /* a SentencePiece model's first token loses its leading space */
} mk_detokenizer;

/* Longest text of one token of this model, with what may be pending, in bytes. */
size_t mk_detokenize_capacity(const mk_model *model);

/* Text of one token; returns its bytes (not terminated), at most mk_detokenize_capacity. Control
 * tokens give none. */
size_t mk_detokenize(const mk_model *model, mk_detokenizer *state, int32_t token, char *out);

/* What is still pending at the end, as U+FFFD; at most 4 bytes. */
size_t mk_detokenize_end(mk_detokenizer *state, char *out);

/* Whether this token ends an answer. */
bool mk_is_end(const mk_model *model, int32_t token);

typedef enum mk_role { MK_SYSTEM, MK_USER, MK_ASSISTANT } mk_role;

typedef struct mk_message {
    mk_role role;
    const char *text; /* UTF-8, `bytes` long; special tokens in it are plain text */
    size_t bytes;
} mk_message;

/* Scratch bytes (aligned to 8) for mk_chat_tokenize with messages of `text_bytes` in total. 0 where the image
 * has no chat format, and on overflow. */
size_t mk_chat_scratch_size(const mk_model *model, size_t messages, size_t text_bytes);

/* Most ids that such a conversation can give; 0 as above. */
size_t mk_chat_capacity(const mk_model *model, size_t messages, size_t text_bytes);

/* A conversation in the model's chat format, up to where the assistant's next answer begins.
 * A system message may only be the first; without one the model's default is used, where the format
 * has one. MK_ERR_UNSUPPORTED where the image has no chat format. */
mk_status mk_chat_tokenize(const mk_model *model, const mk_message *messages, size_t count, int32_t *ids,
                           size_t capacity, size_t *id_count, void *scratch, size_t scratch_bytes,
                           mk_error *err);

/* ---- State ---------------------------------------------------------------------------------- */

/* The context's tokens and KV cache as one block, to continue later with the same image and KV type, in
 * any context that is long enough. The size is that for what the context holds now. Save returns the bytes
 * written, 0 if they are more than capacity. Load checks the block, and leaves the context as it was where it
 * refuses. Logits are not part of it: to go on with an answer, rewind by one and evaluate the last token
 * again. */
size_t mk_state_size(const mk_context *ctx);
size_t mk_state_save(const mk_context *ctx, void *out, size_t capacity);
mk_status mk_state_load(mk_context *ctx, const void *state, size_t size, mk_error *err);

/* ---- Digest --------------------------------------------------------------------------------- */

/* XXH64 of `size` bytes, for comparing logits between machines. */
uint64_t mk_hash(const void *data, size_t size, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif

/* mkn.h - the .mkn model image, field by field. The quantizer writes these structs, the engine maps
 * them. Everything is little-endian and naturally aligned; every section and every tensor begins at a
 * multiple of 64 bytes; offsets count from the start of the file unless said otherwise; reserved
 * fields are zero.
 *
 *     header (512 bytes) | directory | layers | tensor data | tokenizer | strings | provenance
 */
#ifndef MK_IMAGE_MKN_H
#define MK_IMAGE_MKN_H

#include <stdint.h>

#define MKN_MAGIC "MAKARNA" /* 8 bytes with the terminator */
#define MKN_VERSION 1u
#define MKN_ALIGN 64u

/* Block geometry. */
#define MKN_BLOCK 32u        /* weights under one q4 table; K is zero-padded to it */
#define MKN_SUPER_BLOCK 256u /* weights, and activations, under one scale; the last may be shorter */
#define MKN_GROUP 4u         /* rows stored interleaved, so that they share each load of activations */
#define MKN_TABLES 256u      /* q4 tables of an image */
#define MKN_LEVELS 16u       /* int8 values of a table */

/* Limits that keep every product of sizes below 2^63 and every count sane. */
#define MKN_MAX_LAYERS 1024u
#define MKN_MAX_HEADS 1024u
#define MKN_MAX_HEAD_SIZE 1024u
#define MKN_MAX_WIDTH (1u << 20)      /* hidden, intermediate */
#define MKN_MAX_VOCABULARY (1u << 22) /* also the largest row count */
#define MKN_MAX_CONTEXT (1u << 24)

enum mkn_section_kind {
    MKN_DIRECTORY = 0, /* mkn_tensor[tensor_count], in the order in which the decoder reads them */
    MKN_LAYERS,        /* mkn_layer[layers] */
    MKN_DATA,          /* codes and scales of all tensors */
    MKN_TOKENIZER,     /* src/image/mkn_tokenizer.h */
    MKN_STRINGS,       /* mkn_strings, then the texts */
    MKN_PROVENANCE,    /* mkn_provenance, then the texts */
    MKN_SECTIONS,      /* number of sections */
};

typedef struct mkn_section {
    uint64_t offset;
    uint64_t size;     /* bytes, without padding; 0: absent */
    uint64_t checksum; /* XXH64, seed 0, of these bytes */
} mkn_section;

enum mkn_flags {
    MKN_TIED = 1u,           /* the output head is the token embedding */
    MKN_ATTENTION_BIAS = 2u, /* q, k and v have biases */
    MKN_QK_NORM = 4u,        /* RMS norm of each q and k head before RoPE */
    MKN_VOCAB_ONLY = 8u,     /* tokenizer only: no layers, no tensors */
};

typedef struct mkn_header {
    char magic[8];
    uint32_t version;
    uint32_t header_size; /* 512 */
    uint64_t file_size;
    uint64_t checksum; /* XXH64, seed 0, of the header with this field zero */

    /* hyper-parameters */
    uint32_t layers;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_size;
    uint32_t hidden;
    uint32_t intermediate;
    uint32_t vocabulary;
    uint32_t context;
    float norm_epsilon;
    float rope_base;       /* information: the decoder reads the frequencies from MKN_ROPE_FREQUENCIES */
    uint32_t rope_dims;    /* leading values of a head that are rotated, even */
    uint32_t rope_scaling; /* information: 0 none; others reserved */
    uint32_t flags;        /* mkn_flags */
    uint32_t tensor_count;
    uint32_t reserved0[4];

    mkn_section sections[8]; /* by mkn_section_kind; the last two are zero */
    uint32_t reserved1[54];
} mkn_header;
_Static_assert(sizeof(mkn_header) == 512, "mkn_header is 512 bytes");

/* What varies between layers. */
typedef struct mkn_layer {
    uint32_t window;   /* sliding attention window in tokens, own token included; 0: all */
    uint32_t rope_set; /* row of MKN_ROPE_FREQUENCIES */
    uint32_t reserved[2];
} mkn_layer;
_Static_assert(sizeof(mkn_layer) == 16, "mkn_layer is 16 bytes");

enum mkn_role {
    MKN_Q4_TABLES = 1,    /* i8 [256][16], -127 to 127, ascending in each; present if any tensor is q4 */
    MKN_ROPE_FREQUENCIES, /* f32 [sets][rope_dims / 2], radians per position, 0 to 8; at most one set a layer */
    MKN_TOKEN_EMBEDDING,  /* [vocabulary][hidden] */
    MKN_ATTENTION_NORM,   /* f32 [1][hidden] */
    MKN_Q,                /* [heads * head_size][hidden] */
    MKN_K,                /* [kv_heads * head_size][hidden] */
    MKN_V,                /* [kv_heads * head_size][hidden] */
    MKN_O,                /* [hidden][heads * head_size] */
    MKN_Q_BIAS,           /* f32 [1][heads * head_size] */
    MKN_K_BIAS,           /* f32 [1][kv_heads * head_size] */
    MKN_V_BIAS,           /* f32 [1][kv_heads * head_size] */
    MKN_Q_NORM,           /* f32 [1][head_size] */
    MKN_K_NORM,           /* f32 [1][head_size] */
    MKN_MLP_NORM,         /* f32 [1][hidden] */
    MKN_GATE,             /* [intermediate][hidden] */
    MKN_UP,               /* [intermediate][hidden] */
    MKN_DOWN,             /* [hidden][intermediate] */
    MKN_OUTPUT_NORM,      /* f32 [1][hidden] */
    MKN_OUTPUT_HEAD,      /* [vocabulary][hidden]; absent if tied */
    MKN_ROLES,
};

enum mkn_type {
    MKN_F32 = 0, /* rows * cols floats, row by row */
    MKN_I8 = 1,  /* rows * cols bytes, row by row (tables) */
    MKN_Q8 = 2,  /* below */
    MKN_Q4 = 3,  /* below */
};

enum mkn_tensor_flags { MKN_TRANSFORMED = 1u /* below; q, k, v of a layer agree in it, and gate and up */ };

/* A quantized matrix has two planes. Rows are padded with zeros to a multiple of 4 (G groups), columns
 * to a multiple of 32 (B = padded / 32 blocks, S = ceil(padded / 256) super-blocks).
 *
 * codes, for each group, for each block b:
 *     q8: 4 rows of 32 int8: row r at byte 32 r                                    (128 bytes)
 *     q4: 4 rows of 16 bytes: byte i of row r holds in its low nibble the code of
 *         column 32 b + i, in its high nibble that of column 32 b + 16 + i         (64 bytes)
 *     so codes take G * B * 128 (q8) or G * B * 64 (q4) bytes.
 *
 * scales, for each group, for each super-block of n <= 8 blocks:
 *     4 fp16: d of rows 0..3                                                       (8 bytes)
 *     q4 only: for each block 4 bytes: the table t of rows 0..3                    (4 n bytes)
 *     so scales take G * 8 * S (q8) or G * (8 * S + 4 * B) (q4) bytes.
 *
 *     q8: value = d * code           code in -127..127
 *     q4: value = d * table[t][code] code in 0..15
 *
 * Values are the weights themselves or, under MKN_TRANSFORMED, the weights after a transform along the
 * columns: each super-block of a row, zero-padded to a
 * multiple of 32, is cut into powers of two, largest first (224 = 128 + 64 + 32), and each part is
 * multiplied by the orthonormal Walsh-Hadamard matrix of its size (natural order). The engine transforms
 * activations alike, which leaves products as they are and takes the outliers out of both (why: kernels.h).
 * Padding columns take part in it, and are no longer zero. The quantizer transforms every matrix but the q4
 * ones whose source has 4-bit blocks already: those lie on a grid that the q4 tables fit and a transform
 * destroys.
 *
 * RoPE pairs value i of a head with value i + rope_dims / 2 (the "half-split" order of the Hugging
 * Face checkpoints); the quantizer permutes the rows of q and k where its source pairs neighbours. */
typedef struct mkn_tensor {
    uint16_t role;  /* mkn_role */
    uint16_t type;  /* mkn_type */
    uint32_t layer; /* 0 where the tensor is not one of a layer's */
    uint32_t rows;  /* true sizes, without padding */
    uint32_t cols;
    uint64_t offset; /* of the codes */
    uint64_t size;
    uint64_t scales_offset; /* 0 for F32 and I8 */
    uint64_t scales_size;
    uint32_t flags; /* mkn_tensor_flags */
    uint32_t reserved[3];
} mkn_tensor;
_Static_assert(sizeof(mkn_tensor) == 64, "mkn_tensor is 64 bytes");

/* Texts are UTF-8 with a terminating zero; offsets count from the start of the section; 0: absent.
 * Chat parts may contain the model's special tokens by their text. A conversation renders as, for each
 * message, role prefix + text + role suffix, then the assistant's prefix. */
typedef struct mkn_strings {
    uint32_t name;
    uint32_t license;
    uint32_t source;      /* file name of the source */
    uint32_t chat_format; /* name, e.g. "chatml"; 0: the image has no chat format */
    uint32_t system_prefix, system_suffix;
    uint32_t user_prefix, user_suffix;
    uint32_t assistant_prefix, assistant_suffix;
    uint32_t default_system; /* text used where a conversation brings no system message; 0: no message then */
    uint32_t reserved[5];
} mkn_strings;
_Static_assert(sizeof(mkn_strings) == 64, "mkn_strings is 64 bytes");

typedef struct mkn_provenance {
    uint64_t source_checksum; /* XXH64, seed 0, of the whole source file */
    uint32_t quantizer;       /* text: program and version; offset from the start of the section */
    uint32_t options;         /* text: the options that shaped the image */
} mkn_provenance;
_Static_assert(sizeof(mkn_provenance) == 16, "mkn_provenance is 16 bytes");

#endif

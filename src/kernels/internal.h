/* internal.h - what the kernel files share: the sets of this build, where a super-block lies, and
 * functions of one set that another takes over. */
#ifndef MK_KERNELS_INTERNAL_H
#define MK_KERNELS_INTERNAL_H

#include "base/bytes.h"
#include "kernels/kernels.h"

/* The sets. Which of them a build holds is told by the macros MK_HAVE_<SET>; the build gives each file
 * the flags that its first comment names. */
extern const mk_kernels mk_kernels_scalar;
extern const mk_kernels mk_kernels_neon;
extern const mk_kernels mk_kernels_dotprod;
extern const mk_kernels mk_kernels_i8mm;
extern const mk_kernels mk_kernels_avx2;
extern const mk_kernels mk_kernels_avx512vnni;

/* Vectors whose largest magnitude is below this become zero codes under scale 0. So a scale that is
 * not 0 is at least 2^-47, and with fp16 weight scales, multiples of 2^-24, every product of scales and
 * every output of gemv is a multiple of 2^-94: never denormal, which matters because 32-bit NEON
 * flushes denormals and nothing else does. */
#define MK_QUANTIZE_MIN 0x1p-40f

/* What the Walsh-Hadamard transform takes as zero, for the same reason: sums and differences of what
 * is left are multiples of 2^-83. */
#define MK_HADAMARD_MIN 0x1p-60f
#define MK_HADAMARD_LONGEST 1024u

/* The largest power of two that is at most n. */
static inline uint32_t mk_hadamard_length(uint32_t n)
{
    return 1u << (31 - __builtin_clz(n));
}

/* The float nearest to 1 / sqrt(length), for a power of two. */
static inline float mk_hadamard_scale(uint32_t length)
{
    int log2 = 31 - __builtin_clz(length);
    return mk_float_from_bits((uint32_t)(127 - (log2 + 1) / 2) << 23) * (log2 % 2 ? 0x1.6a09e6p+0f : 1.0f);
}

/* Marks for tests/bench/cycles.sh, which compiles a second time with MK_MARKS: of the loop that follows, or,
 * with an end, of what lies between. In every other build they are nothing. */
#ifdef MK_MARKS
#define MK_MARK_TEXT(name) "// LLVM-MCA-BEGIN " name "\n"
#define MK_MARK(name) __asm__ volatile(MK_MARK_TEXT(name))
#define MK_MARK_END __asm__ volatile("// LLVM-MCA-END")
#else
#define MK_MARK_TEXT(name)
#define MK_MARK(name) ((void)0)
#define MK_MARK_END ((void)0)
#endif

static inline uint32_t mk_pad32(uint32_t n)
{
    return (n + 31) / 32 * 32;
}

/* One super-block of one group of four rows (layout: mkn.h). */
typedef struct mk_super_block {
    uint32_t blocks;      /* 8, or fewer at the end of the row */
    const uint8_t *codes; /* per block 4 x 32 int8 (q8) or 4 x 16 bytes (q4) */
    const uint8_t *d;     /* fp16 [4] */
    const uint8_t *picks; /* q4: [blocks][4], the table of each row */
} mk_super_block;

static inline mk_super_block mk_super_block_at(const mk_matrix *w, uint32_t group, uint32_t super)
{
    bool q4 = w->type == MKN_Q4;
    size_t block_bytes = q4 ? MKN_GROUP * 16 : MKN_GROUP * 32;
    size_t blocks = w->blocks;
    size_t scale_bytes = 8 * (size_t)mk_super_blocks(w->blocks) + (q4 ? 4 * blocks : 0);
    const uint8_t *scales = w->scales + group * scale_bytes + super * (size_t)(q4 ? 8 + 32 : 8);
    uint32_t left = w->blocks - 8 * super;
    return (mk_super_block){
        .blocks = left < 8 ? left : 8,
        .codes = w->codes + (group * blocks + 8 * (size_t)super) * block_bytes,
        .d = scales,
        .picks = scales + 8,
    };
}

/* The fixed tree over eight striped accumulators. */
static inline float mk_sum_stripes(const float s[8])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Functions of the scalar set that other sets take over where speed does not matter. */
void mk_scalar_hadamard(float *x, uint32_t n);
void mk_scalar_rms_norm(const float *x, const float *weight, uint32_t n, float epsilon, float *out);
void mk_scalar_silu_multiply(float *gate, const float *up, uint32_t n);
void mk_scalar_add(float *x, const float *y, uint32_t n);
void mk_scalar_rope(float *x, uint32_t heads, uint32_t head_size, uint32_t half, const float *cosines,
                    const float *sines);
void mk_scalar_kv_store_q8(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);
void mk_scalar_kv_store_q4(const float *x, uint32_t head_size, mk_kv_plane plane, uint32_t t);

#endif
